//! Complete messages as a user reads them. Each file in `golden/` has cases:
//!
//! ```text
//! === title
//! the text of main.snet
//! --- boxes            (may be missing: what the library has, one declaration a line)
//! box inc ((x) -> (x))
//! ---
//! the messages
//! ```
//!
//! `UPDATE=1 cargo test -p thalweg-net --test golden` writes the messages again: read them before committing.

use std::path::{Path, PathBuf};

use thalweg_net::check::{KnownBoxes, check_text};

struct Case<'a> {
    title: &'a str,
    text: &'a str,
    boxes: Option<&'a str>,
    messages: &'a str,
}

fn cases(file: &str) -> Vec<Case<'_>> {
    let case = |part| -> Option<Case<'_>> {
        let (title, rest): (&str, &str) = str::split_once(part, '\n')?;
        let (input, messages) = rest.split_once("---\n")?;
        // The first `---` line may open the library's boxes.
        let (text, boxes, messages) = match input.is_empty() || !rest.contains("\n--- boxes\n") {
            true => (input, None, messages),
            false => {
                let (text, rest) = rest.split_once("--- boxes\n")?;
                let (boxes, messages) = rest.split_once("---\n")?;
                (text, Some(boxes), messages)
            }
        };
        Some(Case { title, text, boxes, messages })
    };
    file.split("=== ")
        .skip(1)
        .map(|part| case(part).unwrap_or_else(|| panic!("no `---` in:\n{part}")))
        .collect()
}

fn messages(case: &Case<'_>) -> String {
    let known = case.boxes.map(|text| {
        let mut known = KnownBoxes::default();
        text.lines().for_each(|line| known.add("library", line).unwrap());
        known
    });
    let checked = check_text("main", case.text, known.as_ref());
    checked.diagnostics.iter().map(|d| d.render(false) + "\n").collect()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[track_caller]
fn check(name: &str) {
    let path = golden().join(name);
    let file = std::fs::read_to_string(&path).unwrap();
    let mut anew = String::new();
    for case in cases(&file) {
        let found = messages(&case);
        let boxes = case.boxes.map_or(String::new(), |boxes| format!("--- boxes\n{boxes}"));
        anew += &format!("=== {}\n{}{boxes}---\n{found}", case.title, case.text);
        if std::env::var_os("UPDATE").is_none() {
            assert_eq!(found, case.messages, "the messages of \"{}\" in {name} changed", case.title);
        }
    }
    if std::env::var_os("UPDATE").is_some() && anew != file {
        std::fs::write(&path, anew).unwrap();
    }
}

#[test]
fn lexical() {
    check("lexical.txt");
}

#[test]
fn syntax() {
    check("syntax.txt");
}

#[test]
fn names() {
    check("names.txt");
}

#[test]
fn types() {
    check("types.txt");
}
