//! Damages a space as the fuzzer's bytes choose, then reads and writes it in every way. The damage is of the
//! same kinds as in `tests/hostile.rs`, but the fuzzer chooses it by the coverage of the reader.
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
        // Only writing is limited here, because libFuzzer limits memory and time.
        child::confine_writing(directory.path(), 256 << 20);
        let path = make(directory.path());
        Place { template: Template::of(&path), path, _directory: directory }
    })
}

fuzz_target!(|input: &[u8]| {
    let Place { path, template, .. } = place();
    let mut bytes = input.iter();
    // Each choice uses as few bytes as it needs, so that small changes of the input are small changes of the
    // damage.
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
