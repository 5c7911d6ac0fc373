//! The shared map's file, read while it is written.

mod support;

use support::{Directory, space};
use thalweg_space::reader::SpaceReader;
use thalweg_space::shared_map::Author;
use thalweg_space::{MapValue, Policy};

#[test]
fn texts_are_read_whole_while_they_are_written() {
    let directory = Directory::new("map");
    let space = space(&directory, 1 << 16, 4, Policy::Overwrite);
    let key = space.shared_map().unwrap().declare("k", "", MapValue::Text("a".repeat(64))).unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let texts = ["a".repeat(64), "b".repeat(61), "c".repeat(7)];
    std::thread::scope(|scope| {
        let (written, texts) = (&key, &texts);
        let writing = scope.spawn(move || {
            let author = Author::of_box();
            for number in 0..600_000 {
                written.set(MapValue::Text(texts[number % 3].clone()), &author).unwrap();
            }
        });
        let is_whole = |value: &MapValue| texts.iter().any(|text| *value == MapValue::Text(text.clone()));
        while !writing.is_finished() {
            let here = key.get();
            assert!(is_whole(&here), "{here}");
            // The writer may be faster than a reader by system calls for a while; such a reader has no value.
            let Ok(seen) = reader.shared_map() else { continue };
            assert!(is_whole(&seen[0].value), "{}", seen[0].value);
        }
    });
    let seen = reader.shared_map().unwrap().remove(0);
    assert_eq!((seen.value, seen.initial), (MapValue::Text("c".repeat(7)), MapValue::Text("a".repeat(64))));
}
