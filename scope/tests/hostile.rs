//! Views that are wrong and spaces that are damaged: what comes is an error or a counted gap, never a panic.

use proptest::prelude::*;
use std::path::Path;
use thalweg_chance::Chance;
use thalweg_scope::{Backlog, Scope, Shape, Target, View, built_in};
use thalweg_space::kind::NameRef;
use thalweg_space::{CollectorOptions, PathCollector, Space, SpaceOptions};

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let problems = View::read(text).map(|_| Vec::new()).unwrap_or_else(|problems| problems);
    let found: Vec<String> = problems.iter().map(|problem| problem.render("view.toml", text)).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}\nlacks {expected}");
    }
}

const HEAD: &str = "format = 1\nname = \"a\"\nabout = \"b?\"\n";

#[test]
fn mistakes_are_told_with_their_place() {
    let view = |rest: &str| format!("{HEAD}{rest}");
    check(&view("[[leaf]]\nkinds = [\"exec.dispatch\"]\n"), &[]);
    check(
        "name = 1",
        &["begins with `format = 1`", "needs `about`", "at least one `[[leaf]]`", "has to be a text"],
    );
    check(&view("[[leaf]]\nkind = [\"x\"]\n"), &["did you mean `kinds`?"]);
    check(
        &view("[[leaf]]\nkinds = [\"exec.dispatch\"]\nwhen = \"redy > 10 us\"\n"),
        &["did you mean `ready`?"],
    );
    let step = |step: &str| view(&format!("[[leaf]]\nkinds = [\"exec.dispatch\"]\n[[step]]\n{step}"));
    check(&step("do = \"filtr\"\nwhen = \"reads > 1\"\n"), &["did you mean `filter`?"]);
    check(&step("do = \"filter\"\nwhen = \"reads > 1 ms\"\n"), &["view.toml:8:"]);
    check(&step("do = \"filter\"\nwhen = \"reads\"\n"), &["true or false"]);
    check(&step("do = \"reduce\"\nby = [\"task.componet\"]\n"), &["did you mean `task.component`?"]);
    check(&step("do = \"reduce\"\n[step.values]\na = \"maxx reads\"\n"), &["did you mean `max`?"]);
    check(&step("do = \"reduce\"\n[step.values]\na = \"max\"\n"), &["needs the field"]);
    check(&step("do = \"reduce\"\n[step.values]\na = \"sum outcome\"\n"), &["view.toml:9:10"]);
    check(&step("do = \"reduce\"\nevery = \"10\"\n"), &["is no time"]);
    check(&step("do = \"top\"\nby = \"reads\"\ncount = \"many\"\n"), &["has to be a number"]);
    check(&step("do = \"limit\"\n"), &["needs `per_s` or `bytes_per_s`"]);
    check(
        &step("do = \"convert\"\nto = \"x\"\n[step.fields]\na = \"duration + ready\"\n"),
        &["say in which unit"],
    );
    check(
        &step("do = \"convert\"\nto = \"x\"\n[step.fields]\na = \"reads\"\n[step.units]\nb = \"ms\"\n"),
        &["no field `b`"],
    );
    // After a reduction there is only what it made.
    let two =
        "do = \"reduce\"\n[step.values]\na = \"count\"\n[[step]]\ndo = \"filter\"\nwhen = \"reads > 1\"\n";
    check(&step(two), &["`reads`"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_reader_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..6_u8, "[\\PC\n]{0,6}"), 1..5),
    ) {
        let mut text: Vec<char> = built_in()[which.index(built_in().len())].text.chars().collect();
        for (at, how, with) in changes {
            let at = at.index(text.len().max(1)).min(text.len());
            match how {
                0 => text.truncate(at),
                1 => drop(text.drain(at..(at + 7).min(text.len()))),
                2 => { let part: Vec<char> = text[at..(at + 30).min(text.len())].to_vec(); text.extend(part); }
                _ => drop(text.splice(at..at, with.chars())),
            }
        }
        let text: String = text.into_iter().collect();
        if let Err(problems) = View::read(&text) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                problem.render("view.toml", &text);
            }
        }
    }
}

/// A space with all that built-in views look at.
fn space(folder: &Path) -> Space {
    let space =
        Space::create(SpaceOptions { parent: Some(folder.to_path_buf()), ..Default::default() }).unwrap();
    let write = space.name("write").unwrap();
    for n in 0..20 {
        let mut path = PathCollector::new(&space, &format!("path {n}"), CollectorOptions::default()).unwrap();
        for k in 0..100 {
            let started = path.start();
            path.complete(started, if n == 3 { NameRef(999) } else { write }, k, n);
        }
    }
    space
}

#[test]
fn damaged_spaces_are_errors_or_gaps_under_every_built_in_view() {
    let folder = tempfile::tempdir().unwrap();
    let space = space(folder.path());
    let mut chance = Chance::new(77);
    for round in 0..40 {
        let copy = folder.path().join(format!("copy {round}"));
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(space.path()).unwrap() {
            let entry = entry.unwrap();
            let mut bytes = std::fs::read(entry.path()).unwrap();
            if chance.one_in(2) && !bytes.is_empty() {
                for _ in 0..chance.between(1, 40) {
                    let near =
                        if chance.one_in(2) { 4096.min(bytes.len() as u64) } else { bytes.len() as u64 };
                    let at = chance.below(near) as usize;
                    bytes[at] = chance.next() as u8;
                }
                if chance.one_in(4) {
                    bytes.truncate(chance.below(bytes.len() as u64) as usize);
                }
            }
            std::fs::write(copy.join(entry.file_name()), bytes).unwrap();
        }
        for known in built_in() {
            let Ok(mut scope) = Scope::open(&known.view(), Target::of(&copy), Backlog::All) else { continue };
            scope.reshape(Shape { threads: 2, batch: 64, ..Shape::default() });
            for _ in 0..3 {
                for pulled in [scope.pull_since(), scope.pull_latest()] {
                    for tuple in pulled.batch.tuples() {
                        (0..tuple.kind().fields.len()).for_each(|n| assert!(tuple.value(n).is_some()));
                    }
                }
            }
        }
        std::fs::remove_dir_all(copy).unwrap();
    }
}

#[test]
fn what_is_not_there_is_said() {
    let view = built_in()[0].view();
    let error = Scope::open(&view, Target::of("/nowhere/at/all"), Backlog::All).unwrap_err();
    assert!(error.to_string().contains("there is no space in /nowhere/at/all"), "{error}");
}
