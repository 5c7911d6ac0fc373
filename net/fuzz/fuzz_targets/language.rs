//! Reads any text as a program, and checks, draws and formats it: none of these may panic, and formatting
//! must not change the program's meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_net::check::check_text;
use thalweg_net::syntax::{Diagnostic, Source, format, parse};

#[path = "../../tests/support/tree.rs"]
mod tree;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let checked = check_text("main", text, None);
    assert_eq!(checked.resolved.is_some(), !checked.diagnostics.iter().any(Diagnostic::is_error));
    checked.diagnostics.iter().for_each(|d| assert!(!d.render(false).is_empty()));
    let source = Source::new("main", text);
    let (before, errors) = parse(&source);
    let Ok(once) = format(&source) else {
        assert!(!errors.is_empty());
        return;
    };
    let laid_out = Source::new("main", once.as_str());
    let (after, errors) = parse(&laid_out);
    assert!(errors.is_empty(), "{once}");
    assert_eq!(tree::without_places(&before), tree::without_places(&after), "{once}");
    assert_eq!(format(&laid_out).unwrap(), once);
});
