//! Tests that invalid views and damaged spaces lead to errors or counted gaps, never to a panic.

use proptest::prelude::*;
use std::path::Path;
use std::time::Duration;
use thalweg_chance::Chance;
use thalweg_scope::{
    Backlog, Batch, BuiltIn, Every, Leaf, Making, Moment, Operator, Scope, Shape, Target, Tree, TupleKind,
    View, built_in,
};
use thalweg_space::archive::{ArchiveOptions, Archiver};
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
fn mistakes_are_reported_with_their_place() {
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
        &["name the unit of"],
    );
    check(
        &step("do = \"convert\"\nto = \"x\"\n[step.fields]\na = \"reads\"\n[step.units]\nb = \"ms\"\n"),
        &["no field `b`"],
    );
    // After a reduction only the fields that it made exist.
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

/// A space with all kinds that built-in views read.
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

/// Passes on all tuples in reverse order.
struct Backwards;

impl Operator for Backwards {
    fn makes(&self, _: &[TupleKind]) -> Vec<TupleKind> {
        Vec::new()
    }

    fn hands_on(&self) -> bool {
        true
    }

    fn apply(&mut self, batch: &Batch, _: &Moment, out: &mut Making<'_>) {
        batch.tuples().rev().for_each(|tuple| out.copy(batch, &tuple));
    }
}

/// A view for each operator on all kinds, and the built-in views.
fn views() -> Vec<View> {
    let all = || Tree::leaf(Leaf::of_kinds(["**"]));
    let rows = || Tree::leaf(Leaf::of_rows(["**"]));
    let values = [
        ("n", "count"),
        ("sum", "sum first"),
        ("p99", "p99 second"),
        ("last", "latest operation"),
        ("r", "rate"),
    ];
    let trees = [
        all(),
        rows(),
        Tree::gather([all(), rows(), all()]),
        all().filter("first > 3 and second < 7 or element.name == \"path 3\""),
        all().convert(
            "test.made",
            [("a", "first + second", ""), ("b", "element.name", ""), ("c", "event.time", "")],
        ),
        all().reduce(["element.name", "operation"], values),
        all().reduce_every(Every::Window(1_000_000), ["event.kind"], values),
        all().reduce_every(Every::All, ["process.name"], values),
        all().top("second", 7),
        all().limit(20.0),
        all().own(|| Backwards),
        all().own(|| Backwards).filter("first >= 0").reduce(["operation"], values).top("n", 3).limit(1.0),
    ];
    let made = trees.into_iter().enumerate().map(|(n, tree)| {
        let view = View::new(&format!("operator {n}"), "Does it hold?", tree);
        view.unwrap_or_else(|problem| panic!("operator {n}: {problem}"))
    });
    let held = View::new("held", "Does it hold?", all()).unwrap().holding(Duration::from_micros(1));
    made.chain([held]).chain(built_in().iter().map(BuiltIn::view)).collect()
}

/// Copies a directory and changes some of its bytes.
fn damaged(from: &Path, to: &Path, chance: &mut Chance) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let mut bytes = std::fs::read(entry.path()).unwrap();
        if chance.one_in(2) && !bytes.is_empty() {
            for _ in 0..chance.between(1, 40) {
                let near = if chance.one_in(2) { 4096.min(bytes.len() as u64) } else { bytes.len() as u64 };
                let at = chance.below(near) as usize;
                bytes[at] = chance.next() as u8;
            }
            if chance.one_in(4) {
                bytes.truncate(chance.below(bytes.len() as u64) as usize);
            }
        }
        std::fs::write(to.join(entry.file_name()), bytes).unwrap();
    }
}

/// Pulls every view of the space, all tuples since the last pull and the latest ones; returns the number of
/// tuples.
fn pulled(path: &Path) -> usize {
    let mut tuples = 0;
    for view in views() {
        let Ok(mut scope) = Scope::open(&view, Target::of(path), Backlog::All) else { continue };
        scope.reshape(Shape { threads: 2, batch: 64, ..Shape::default() });
        for _ in 0..2 {
            for pulled in [scope.pull_since(), scope.pull_latest()] {
                tuples += pulled.batch.len();
                for tuple in pulled.batch.tuples() {
                    (0..tuple.kind().fields.len()).for_each(|n| assert!(tuple.value(n).is_some()));
                }
            }
        }
    }
    tuples
}

#[test]
fn damaged_spaces_and_archives_are_errors_or_gaps_under_every_operator() {
    let folder = tempfile::tempdir().unwrap();
    let space = space(folder.path());
    let kept = folder.path().join("kept");
    let options = ArchiveOptions {
        directory: Some(kept.clone()),
        chunk_bytes: 2048,
        segment_bytes: 8192,
        ..ArchiveOptions::default()
    };
    Archiver::with_options(space.path(), options).unwrap().finish().unwrap();
    let whole = [pulled(space.path()), pulled(&kept)];
    assert!(whole.iter().all(|tuples| *tuples > 500), "whole, they have something to say: {whole:?}");
    let mut chance = Chance::new(77);
    for round in 0..40 {
        let copy = folder.path().join(format!("copy {round}"));
        damaged(if round % 2 == 0 { space.path() } else { &kept }, &copy, &mut chance);
        pulled(&copy);
        std::fs::remove_dir_all(copy).unwrap();
    }
}

#[test]
fn a_missing_space_is_reported() {
    let view = built_in()[0].view();
    let error = Scope::open(&view, Target::of("/nowhere/at/all"), Backlog::All).unwrap_err();
    assert!(error.to_string().contains("there is no space in /nowhere/at/all"), "{error}");
}
