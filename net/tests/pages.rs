//! Tests of `docs/errors/`: every code has a page, and every page's example yields that code and the message
//! shown.
//!
//! `UPDATE=1 cargo test -p thalweg-net --test pages` writes the messages into the pages: read them before committing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use thalweg_net::check::{KnownBoxes, check_file};
use thalweg_net::syntax::Diagnostic;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Pages by code.
fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(root().join("docs/errors")).unwrap() {
        let path = entry.unwrap().path();
        let code = path.file_stem().unwrap().to_string_lossy().into_owned();
        if code != "README" {
            pages.push((code, std::fs::read_to_string(path).unwrap()));
        }
    }
    pages.sort();
    pages
}

fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// The codes that occur in the sources as `"E0123"` or `error[E0123]`.
fn codes_in_sources() -> BTreeSet<String> {
    let mut files = Vec::new();
    ["net/src", "host/src", "thalweg/src"].iter().for_each(|dir| rust_files(&root().join(dir), &mut files));
    let mut codes = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        for (at, _) in text.match_indices(['E', 'W']) {
            let code = text.get(at..at + 5).unwrap_or("");
            let before = text[..at].chars().next_back();
            let after = text.get(at + 5..at + 6).unwrap_or("");
            let digits = code.len() == 5 && code[1..].bytes().all(|b| b.is_ascii_digit());
            if digits && matches!((before, after), (Some('"'), "\"") | (Some('['), "]")) {
                codes.insert(code.to_string());
            }
        }
    }
    codes
}

/// The blocks of a page whose fence begins with this text.
fn blocks<'a>(page: &'a str, fence: &str) -> Vec<&'a str> {
    let open = format!("```{fence}\n");
    page.split(&open).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

fn diagnostics_of(path: &Path, boxes: &[&str]) -> Vec<Diagnostic> {
    let known = boxes.first().map(|text| {
        let mut known = KnownBoxes::default();
        text.lines().for_each(|line| known.add("library", line).unwrap());
        known
    });
    check_file(path, known.as_ref()).diagnostics
}

/// Calls a function with a folder that contains this text as `main.snet`.
fn with_file<T>(text: &str, look: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("main.snet");
    std::fs::write(&path, text).unwrap();
    look(&path)
}

fn codes_of(text: &str, boxes: &[&str]) -> Vec<&'static str> {
    with_file(text, |path| diagnostics_of(path, boxes).iter().map(|d| d.code).collect())
}

/// The messages of `thalweg` for a text in `main.snet`.
fn messages_of(text: &str, boxes: &[&str]) -> String {
    with_file(text, |path| {
        let folder = format!("{}/", path.parent().unwrap().display());
        let messages: Vec<String> = diagnostics_of(path, boxes).iter().map(|d| d.render(false)).collect();
        messages.join("").replace(&folder, "")
    })
}

/// The page with the messages of its examples after them.
fn with_messages(page: &str) -> String {
    let boxes = blocks(page, "boxes");
    let mut parts: Vec<String> = page.split("```").map(str::to_owned).collect();
    let mut at = 1;
    while at < parts.len() {
        if let Some(text) = parts[at].strip_prefix("snet\n") {
            let shown = format!("text,message\n{}", messages_of(text, &boxes));
            match parts.get(at + 2).is_some_and(|next| next.starts_with("text,message\n")) {
                true => parts[at + 2] = shown,
                false => drop(parts.splice(at + 1..at + 1, ["\n\nThis gives\n\n".to_owned(), shown])),
            }
        }
        at += 2;
    }
    parts.join("```")
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let codes = codes_in_sources();
    let pages: BTreeSet<String> = pages().into_iter().map(|(code, _)| code).collect();
    assert!(codes.len() > 30, "{codes:?}");
    assert_eq!(codes.difference(&pages).collect::<Vec<_>>(), [""; 0], "codes without a page");
    assert_eq!(pages.difference(&codes).collect::<Vec<_>>(), [""; 0], "pages without a code");
    let index = std::fs::read_to_string(root().join("docs/errors/README.md")).unwrap();
    for code in pages {
        assert!(index.contains(&format!("[{code}]({code}.md)")), "{code} is not in README.md");
    }
}

#[test]
fn examples_yield_their_code_and_mended_ones_do_not() {
    for (code, page) in pages() {
        assert!(page.starts_with(&format!("# {code}: ")), "{code}: the title");
        assert!(page.contains("**To mend it:**"), "{code}: how to mend it");
        let boxes = blocks(&page, "boxes");
        for example in blocks(&page, "snet") {
            let found = codes_of(example, &boxes);
            assert!(found.contains(&code.as_str()), "{code}: its example gives {found:?}");
            assert!(found.iter().all(|c| *c == code), "{code}: its example also gives {found:?}");
        }
        for example in blocks(&page, "snet,mended") {
            let found = codes_of(example, &boxes);
            assert!(found.is_empty(), "{code}: mended, it gives {found:?}");
        }
        let shown = !blocks(&page, "snet").is_empty()
            || !blocks(&page, "console").is_empty()
            || !blocks(&page, "text").is_empty();
        assert!(shown, "{code}: an example");
    }
}

#[test]
fn the_messages_on_the_pages_are_those_that_are_printed() {
    for (code, page) in pages() {
        let anew = with_messages(&page);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(root().join(format!("docs/errors/{code}.md")), &anew).unwrap();
        } else {
            assert_eq!(page, anew, "{code}: UPDATE=1 writes its messages anew");
        }
    }
}

#[test]
fn codes_whose_examples_are_too_long_for_a_page() {
    let deep = format!("net main connect {}[]{};", "(".repeat(300), ")".repeat(300));
    assert_eq!(codes_of(&deep, &[]), ["E0205"]);
    let mut chain = "net a0 connect [];".to_string();
    (1..600).for_each(|i| chain += &format!("net a{i} connect a{} .. [];", i - 1));
    chain += "net main connect a599;";
    assert_eq!(codes_of(&chain, &[]), ["E0309"]);
    let variants: Vec<String> = (0..300).map(|i| format!("{{a{i}}}")).collect();
    let wide = format!("type t = {}; net main (t -> ...) connect [];", variants.join(" | "));
    assert_eq!(codes_of(&wide, &[]), ["E0309"]);
    let mut names = "type t0 = {a};".to_string();
    (1..600).for_each(|i| names += &format!("type t{i} = t{};", i - 1));
    assert_eq!(codes_of(&format!("{names} net main (t599 -> ...) connect [];"), &[]), ["E0309"]);
    let mut sigs = "typesig t0 = {a} -> {a};".to_string();
    (1..600).for_each(|i| sigs += &format!("typesig t{i} = t{};", i - 1));
    assert_eq!(codes_of(&format!("{sigs} net main (t599) connect [];"), &[]), ["E0309"]);
    let checked = check_file(Path::new("/no/such/directory/main.snet"), None);
    assert_eq!(checked.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["E0304"]);
}
