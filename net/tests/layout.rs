//! Tests of the formatter: the meaning is kept, and the layout of a laid-out text does not change.

use std::path::{Path, PathBuf};

use thalweg_net::check::check_text;
use thalweg_net::syntax::{Diagnostic, Source, format, parse};

#[path = "support/programs.rs"]
mod programs;
#[path = "support/tree.rs"]
mod tree;

use programs::{Random, program, spelled};

/// Lays a text out if it is well-formed; returns whether it is.
#[track_caller]
fn check(text: &str) -> bool {
    let source = Source::new("main.snet", text);
    let (before, errors) = parse(&source);
    let Ok(once) = format(&source) else {
        assert!(!errors.is_empty(), "{text}");
        return false;
    };
    let laid_out = Source::new("main.snet", once.as_str());
    let (after, errors) = parse(&laid_out);
    assert!(errors.is_empty(), "{text}\n---\n{once}\n{}", errors[0].render(false));
    let (before, after) = (tree::without_places(&before), tree::without_places(&after));
    assert!(before == after, "the meaning changed:\n{text}\n---\n{once}");
    let twice = format(&laid_out).unwrap();
    assert!(once == twice, "{text}\n--- once:\n{once}\n--- twice:\n{twice}");
    let lost = |comment: &str| once.matches(comment).count() == text.matches(comment).count();
    assert!(lost("because") && lost("why") && lost("two\n lines"), "a comment is lost:\n{text}\n---\n{once}");
    assert!(
        once.lines().all(|line| line == line.trim_end() || text.contains("<<<")),
        "blanks at an end:\n{once}"
    );
    true
}

#[test]
fn random_programs_are_laid_out() {
    for seed in 0..10_000 {
        let mut random = Random::new(seed);
        let tokens = program(&mut random);
        let text = spelled(&tokens, &mut random);
        let (_, errors) = parse(&Source::new("main.snet", text.as_str()));
        let shown: String = errors.iter().map(|e| e.render(false)).collect();
        assert!(errors.is_empty(), "seed {seed}:\n{text}\n{shown}");
        assert!(check(&text));
        if seed % 10 == 0 {
            // Checking the text ends, and reports no undefined name.
            let checked = check_text("main", &text, None);
            let named: Vec<&Diagnostic> =
                checked.diagnostics.iter().filter(|d| d.is_error() && d.code < "E05").collect();
            assert!(named.is_empty(), "seed {seed}: {}", named[0].render(false));
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn files(dir: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, endings, found);
        } else if path.extension().is_some_and(|e| endings.iter().any(|ending| e == *ending)) {
            found.push(path);
        }
    }
}

/// Every network in a file of its own, in the pages, and in the programs of other tests.
fn our_programs() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let root = root();
    ["apps", "docs", "thalweg", "net"].iter().for_each(|dir| {
        files(&root.join(dir), &["snet", "md", "txt"], &mut found);
    });
    let mut programs = Vec::new();
    for path in found {
        let (name, text) = (path.display().to_string(), std::fs::read_to_string(&path).unwrap_or_default());
        match path.extension().and_then(|e| e.to_str()) {
            Some("snet") => programs.push((name, text)),
            Some("md") => {
                let blocks = text.split("```snet").skip(1).filter_map(|rest| rest.split_once('\n'));
                let blocks = blocks.filter_map(|(_, rest)| rest.split_once("```"));
                programs.extend(blocks.map(|(block, _)| (name.clone(), block.to_string())));
            }
            _ => {
                let cases = text.split("=== ").skip(1).filter_map(|case| case.split_once('\n'));
                let cases = cases.filter_map(|(_, rest)| rest.split_once("---\n"));
                programs.extend(cases.map(|(text, _)| (name.clone(), text.to_string())));
            }
        }
    }
    programs
}

#[test]
fn our_programs_can_be_laid_out() {
    let programs = our_programs();
    let well_formed = programs.iter().filter(|(_, text)| check(text)).count();
    assert!(well_formed > 100, "{well_formed} of {}", programs.len());
}

/// The files in `apps/` are laid out, and the check gives no warning for them.
#[test]
fn programs_of_the_apps_are_laid_out_and_sound() {
    let mut found = Vec::new();
    files(&root().join("apps"), &["snet"], &mut found);
    assert!(!found.is_empty());
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let laid_out = format(&Source::new(&path, text.as_str())).unwrap();
        assert!(laid_out == text, "{}: `thalweg fmt` changes it:\n{laid_out}", path.display());
        let diagnostics = thalweg_net::check::check_file(&path, None).diagnostics;
        assert!(diagnostics.is_empty(), "{}", diagnostics[0].render(false));
    }
}
