//! Tests of box libraries that are loaded as files: their calls, their results, and that none of their values
//! leaks.

use std::path::{Path, PathBuf};
use std::sync::{Once, mpsc};

use thalweg_exec::{Options, Runtime, TaskSpec};
use thalweg_net::record::Record;
use thalweg_net::{Boxes, Network, json};

/// The path of an example library; `cargo test` builds the examples first, unless only certain tests are
/// requested.
fn library(name: &str) -> PathBuf {
    static BUILT: Once = Once::new();
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let file = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = profile.join("examples").join(file);
    BUILT.call_once(|| {
        if !path.exists() {
            let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
            cargo.args(["build", "--quiet", "--package", "thalweg-net", "--examples", "--target-dir"]);
            cargo.arg(profile.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
            if profile.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success());
        }
    });
    path
}

const DECLARATIONS: &str = "
    box issue ((n) -> (ticket, data)); box copy ((ticket) -> (ticket));
    box redeem ((ticket, data) -> (n, <length>)); box live ((q) -> (live)); box series ((count) -> (ticket, data));";

fn boxes() -> Boxes {
    let mut boxes = Boxes::new();
    boxes.load_library(&library("tidy_boxes")).unwrap();
    boxes
}

/// Runs a network on records; returns the output, and the reasons of failures.
fn run(connect: &str, input: Vec<Record>) -> (Vec<Record>, Vec<String>) {
    let text = format!("net main {{ {DECLARATIONS} }} connect {connect};");
    let network = Network::parse("main", &text, &boxes()).unwrap();
    let runtime = Runtime::new(Options { workers: 2, capacity: 8, ..Options::default() }).unwrap();
    let running = network.start(&runtime).unwrap();
    let (mut entry, mut exit, errors) = (running.input, running.output, running.errors);
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        for record in input {
            blocking.feed(&mut entry, record).unwrap();
        }
    });
    let (to, records) = mpsc::channel();
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        while let Some(record) = blocking.pop(&mut exit) {
            to.send(record).unwrap();
        }
    });
    let (to, reasons) = mpsc::channel();
    runtime.spawn_blocking(TaskSpec::default(), move |_| {
        while let Ok(error) = errors.recv() {
            to.send(error.reason.clone()).unwrap();
        }
    });
    runtime.join().unwrap();
    (records.iter().collect(), reasons.iter().collect())
}

fn records(lines: impl IntoIterator<Item = String>) -> Vec<Record> {
    lines.into_iter().map(|line| json::read_record(line.as_bytes()).unwrap()).collect()
}

fn live() -> i64 {
    let (answer, _) = run("live", records([r#"{"q": 0}"#.to_owned()]));
    let mut line = Vec::new();
    json::write_record(&answer[0], &mut line);
    let text = String::from_utf8(line).unwrap();
    text.trim_matches(|c: char| !c.is_ascii_digit() && c != '-').parse().unwrap()
}

/// The cases form a single test, because the library counts for the whole process.
#[test]
fn values_of_a_library_live_as_long_as_they_are_used() {
    let names: Vec<_> = boxes().names().map(str::to_owned).collect();
    assert_eq!(names, ["copy", "issue", "live", "redeem", "series"]);
    let numbers = || records((0..500).map(|n| format!(r#"{{"n": {n}}}"#)));

    let (out, mut failed) = run("issue .. copy .. redeem", numbers());
    failed.sort();
    assert_eq!(failed, ["the box panicked: fourteen", "thirteen"]);
    assert_eq!(out.len(), 498 * 2 + 2, "what was emitted before the failures went on");
    drop(out);
    assert_eq!(live(), 0, "redeemed");

    let (out, failed) = run("issue", numbers());
    assert_eq!((out.len(), failed.len()), (500, 0));
    assert_eq!(live(), 500, "the records hold them");
    let copies = out.clone();
    drop(out);
    assert_eq!(live(), 500, "copies share them");
    drop(copies);
    assert_eq!(live(), 0);

    let (out, failed) = run("issue .. [{ticket} -> ] ", numbers());
    assert_eq!((out.len(), failed.len(), live()), (0, 0, 0), "a filter consumes records");

    let (out, failed) = run("series .. redeem", records([r#"{"count": 3000}"#.to_owned()]));
    assert_eq!((out.len(), failed.len(), live()), (3000, 0, 0), "a generator on a thread of its own");

    // The reader is dropped: records under way are dropped, and none is leaked.
    let network = format!("net main {{ {DECLARATIONS} }} connect issue .. copy;");
    let network = Network::parse("main", &network, &boxes()).unwrap();
    let runtime = Runtime::new(Options { workers: 2, capacity: 8, ..Options::default() }).unwrap();
    let running = network.start(&runtime).unwrap();
    let (mut entry, exit) = (running.input, running.output);
    drop((exit, running.errors));
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        for record in records((20..200).map(|n| format!(r#"{{"n": {n}}}"#))) {
            let _ = blocking.feed(&mut entry, record);
        }
    });
    runtime.join().unwrap();
    assert_eq!(live(), 0, "the reader went away");
}

#[test]
fn a_library_of_another_version_is_refused_in_one_line() {
    let path = library("old_boxes");
    let error = format!("{:#}", Boxes::new().load_library(&path).unwrap_err());
    let expected =
        format!("cannot load the box library {}: it was built for a newer box interface", path.display());
    assert!(error.starts_with(&expected), "{error}");
    assert!(!error.contains('\n'));
}

#[test]
fn a_library_given_twice_is_refused_and_changes_nothing() {
    let mut boxes = boxes();
    let error = format!("{:#}", boxes.load_library(&library("tidy_boxes")).unwrap_err());
    assert!(error.contains("use only one"), "{error}");
    assert_eq!(boxes.names().count(), 5);
}

#[test]
fn signatures_have_to_agree_with_the_network() {
    let text = "net main { box issue ((n) -> (ticket)); } connect issue;";
    let errors = Network::parse("main", text, &boxes()).unwrap_err();
    assert!(errors.iter().all(|error| error.is_error()), "{errors:?}");
    let text = "net main { box absent ((n) -> (n)); } connect absent;";
    assert_eq!(Network::parse("main", text, &boxes()).unwrap_err().len(), 1);
}
