//! `docs/language.md`: every example gives the output that the page shows, when run as a reader would run it.
//!
//! `UPDATE=1 cargo test -p thalweg --test examples` updates the messages and the boxes in the page.

mod des_run;
mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use page::{Block, Page};
use serde_json::Value;

/// One network with its input and output.
struct Example<'a> {
    name: &'a str,
    files: Vec<(&'a str, &'a str)>,
    input: &'a str,
    output: &'a str,
    in_order: bool,
    message: &'a str,
}

fn examples(page: &Page) -> Vec<Example<'_>> {
    let mut examples: Vec<Example<'_>> = Vec::new();
    let mut files: Vec<(&str, &str)> = Vec::new();
    for block in page.blocks() {
        match block {
            Block { fence: "snet", text } => {
                let name = page::file_name(text);
                files.push((name, text));
            }
            Block { fence: "jsonl,in", text } => {
                let name = files.first().expect("a network before its records").0;
                let files = std::mem::take(&mut files);
                let (output, in_order, message) = ("", false, "");
                examples.push(Example { name, files, input: text, output, in_order, message });
            }
            Block { fence: "jsonl,out" | "jsonl,out,in-order", text } => {
                let example = examples.last_mut().expect("records in before those out");
                example.output = text;
                example.in_order = block.fence.ends_with("in-order");
            }
            Block { fence: "text,said", text } => {
                examples.last_mut().expect("an example").message = text.trim()
            }
            // This network is not run; only its messages are compared.
            Block { fence: "text,message", .. } => files.clear(),
            _ => {}
        }
    }
    examples
}

/// The library of the page's boxes.
fn library() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().expect("a target folder");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "-p", "thalweg", "--example", "language_boxes"]);
    build.current_dir(des_run::root());
    if folder.ends_with("release") {
        build.arg("--release");
    }
    build.env("CARGO_TARGET_DIR", folder.parent().expect("a target folder"));
    assert!(build.status().expect("cargo runs").success(), "the boxes do not build");
    folder.join("examples/liblanguage_boxes.so")
}

fn check(example: &Example<'_>, library: &Path, workers: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in &example.files {
        std::fs::write(folder.path().join(name), text).expect("a temporary folder takes files");
    }
    std::fs::write(folder.path().join("in.jsonl"), example.input).expect("a temporary folder takes files");
    let mut run = des_run::thalweg();
    run.args(["run", example.name, "--workers", workers, "--input", "in.jsonl", "--boxes"]).arg(library);
    let output = run.current_dir(folder.path()).output().expect("thalweg starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let code = if example.message.is_empty() { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{}: {stderr}", example.name);
    assert!(stderr.contains(example.message), "{} said {stderr}", example.name);
    assert!(!stderr.contains("warning"), "{} said {stderr}", example.name);
    let found = records(&String::from_utf8_lossy(&output.stdout), example.in_order);
    assert_eq!(found, records(example.output, example.in_order), "{}, {workers} workers", example.name);
}

fn records(lines: &str, in_order: bool) -> Vec<String> {
    let read = |line: &str| serde_json::from_str::<BTreeMap<String, Value>>(line).expect("a record");
    let mut records: Vec<String> = lines.lines().map(|line| format!("{:?}", read(line))).collect();
    if !in_order {
        records.sort();
    }
    records
}

#[test]
fn every_example_gives_the_output_on_the_page() {
    let page = Page::read("docs/language.md");
    let examples = examples(&page);
    assert!(examples.len() > 25, "only {} examples", examples.len());
    let library = library();
    for example in &examples {
        for workers in ["1", "2"] {
            check(example, &library, workers);
        }
    }
}

#[test]
fn the_page_shows_the_boxes_and_messages_as_they_are() {
    let mut page = Page::read("docs/language.md");
    let source = std::fs::read_to_string(des_run::root().join("thalweg/examples/language_boxes.rs")).unwrap();
    let (_, boxes) = source.split_once("\n\n").expect("a headline");
    page.replace("rust", |_| boxes.to_owned());
    page.replace("text,message", |network| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let name = page::file_name(network);
        std::fs::write(folder.path().join(name), network).expect("a temporary folder takes files");
        page::printed(des_run::thalweg().args(["check", name]).current_dir(folder.path()))
    });
    page.compare();
}

#[test]
fn every_construct_has_an_example() {
    let page = Page::read("docs/language.md");
    let networks: String = page.blocks().filter(|b| b.fence == "snet").map(|b| b.text).collect();
    for construct in [
        "net",
        "box",
        "connect",
        "if",
        "then",
        "else",
        "type",
        "typesig",
        "..",
        "...",
        "|",
        "||",
        "*",
        "**",
        "!",
        "!!",
        "!@",
        "@",
        "\\",
        "[]",
        "[|",
        "|]",
        "->",
        "(->",
        "<#",
        "<metadata>",
        "<<<",
        "//",
        "/*",
        "?",
        "min",
        "max",
        "0x",
    ] {
        assert!(networks.contains(construct), "no example has `{construct}`");
    }
}
