//! Scans any text as a C file: the scan must not panic, and all names that it finds must occur in the text.
#![no_main]
#![allow(dead_code, reason = "of the reader, what is asked of it here")]

#[path = "../../src/adopt/c_source.rs"]
mod c_source;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let source = c_source::CSource::read(text);
    assert!(source.defined.is_subset(&source.named) && source.called.is_subset(&source.named));
    assert!(source.named.iter().chain(&source.included).all(|name| text.contains(name.as_str())));
});
