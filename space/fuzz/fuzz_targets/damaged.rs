//! A space damaged as the fuzzer's bytes say, then read and written in every way. The same damage as in
//! `tests/hostile.rs`, but chosen by what the reader does with it.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::OnceLock;
use support::hostile::{Template, make, read_all_ways, write_all_ways};
use support::{Directory, child};

struct Place {
    path: PathBuf,
    template: Template,
    _directory: Directory,
}

fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| {
        let directory = Directory::new("fuzz");
        // Only what may be written is bounded here: libFuzzer bounds memory and time.
        child::confine_writing(directory.path(), 256 << 20);
        let path = make(directory.path());
        Place { template: Template::of(&path), path, _directory: directory }
    })
}

fuzz_target!(|input: &[u8]| {
    let Place { path, template, .. } = place();
    let mut bytes = input.iter();
    // The fewest bytes that a choice needs, so that small changes of the input are small changes of the damage.
    let mut choose = |limit: u64| {
        let count = (8 - limit.leading_zeros() / 8).max(1);
        let number = (0..count).fold(0, |sum, _| sum << 8 | u64::from(*bytes.next().unwrap_or(&0)));
        number % limit.max(1)
    };
    let writes = choose(4) == 0;
    template.damage(&mut choose);
    read_all_ways(path);
    if writes {
        write_all_ways(path);
    }
    template.restore(writes);
});
