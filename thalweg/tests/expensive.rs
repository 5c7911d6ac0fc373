//! Runs in which the test plants expensive records, by the key of a split, by the round of a star, and ahead of others that have to come
//! out behind them: `thalweg diagnose` names them.
//!
//! Expensive records sleep for hundreds of times as long as the other records take, so other programs on the
//! machine do not change the findings.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use thalweg_box::Out;
use thalweg_exec::{Mode, Options, Runtime, TaskSpec};
use thalweg_net::record::Record;
use thalweg_net::{Boxes, Network, json};
use thalweg_space::{Space, SpaceOptions};

/// The time for which a box computes for every record.
const COMPUTES: Duration = Duration::from_micros(30);
/// The time for which a box sleeps for an expensive record besides.
const SLEEPS: Duration = Duration::from_millis(5);

fn compute(is_dear: bool) {
    let until = Instant::now() + COMPUTES;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    if is_dear {
        std::thread::sleep(SLEEPS);
    }
}

/// What `thalweg diagnose` prints about a run of the network on these records, which are written as JSON.
fn diagnosed(net: &str, boxes: &Boxes, records: impl Iterator<Item = String>) -> String {
    let network = Network::parse("main", net, boxes).unwrap_or_else(|errors| panic!("{errors:?}"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("space");
    let space = Space::create(SpaceOptions { path: Some(path.clone()), ..SpaceOptions::default() }).unwrap();
    let options = Options { workers: 2, space: Some(space.clone()), mode: Mode::Full, ..Options::default() };
    let runtime = Runtime::new(options).unwrap();
    let running = network.start(&runtime).unwrap();
    let (mut input, mut output) = (running.input, running.output);
    let records: Vec<Record> =
        records.map(|text| json::read_record(text.as_bytes()).expect("a record")).collect();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        for record in records {
            task.push(&mut input, record).expect("it is read");
        }
    });
    runtime.spawn_blocking(TaskSpec::default(), move |task| while task.pop(&mut output).is_some() {});
    assert_eq!(runtime.join().unwrap().failures, []);
    space.finish();
    diagnose(&path)
}

fn diagnose(path: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_thalweg")).arg("diagnose").arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The rows of the table whose first column has the title `title`.
fn rows<'t>(text: &'t str, title: &str) -> Vec<&'t str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(title)).skip(1);
    lines.take_while(|line| !line.is_empty()).collect()
}

/// Checks that one row has all of `cells`.
fn check(text: &str, title: &str, cells: &[&str]) {
    let rows = rows(text, title);
    let found = rows.iter().filter(|row| cells.iter().all(|cell| row.contains(cell))).count();
    assert!(found == 1, "one row with {cells:?} below {title}:\n{text}");
}

/// A number below `below` that varies irregularly with `at`.
fn scattered(at: u64, below: u64) -> u64 {
    (at * at * 31 + at * 7919) % 1009 % below
}

#[test]
fn the_key_of_a_split_whose_records_are_expensive_is_named() {
    let boxes = Boxes::new().with("box work ((<k>) -> (<k>))", |k: i64, out: &mut Out| {
        compute(k == 3);
        out.emit((k,));
    });
    let net = "net main { box work ((<k>) -> (<k>)); } connect work ! <k>;";
    let text = diagnosed(net, &boxes, (0..600).map(|at| format!(r#"{{"<k>": {}}}"#, scattered(at, 6))));
    check(&text, "EXPENSIVE IN", &["/work", "replica 3"]);
    assert_eq!(rows(&text, "EXPENSIVE IN").len(), 1, "nothing else is expensive:\n{text}");
}

#[test]
fn the_round_of_a_star_whose_records_are_expensive_is_named() {
    let signature = "box step ((<n>) -> (<n>) | (<n>, <done>))";
    let boxes = Boxes::new().with(signature, |n: i64, out: &mut Out| {
        compute(n == 4);
        if n == 7 { out.emit_variant(2, (n, 1)) } else { out.emit((n + 1,)) }
    });
    let net = format!("net main {{ {signature}; }} connect step * {{<done>}};");
    let text = diagnosed(&net, &boxes, (0..200).map(|_| r#"{"<n>": 0}"#.to_owned()));
    check(&text, "EXPENSIVE IN", &["/step", "stage 4"]);
    assert_eq!(rows(&text, "EXPENSIVE IN").len(), 1, "nothing else is expensive:\n{text}");
}

#[test]
fn the_record_behind_which_others_wait_for_their_order_is_named() {
    let boxes = Boxes::new()
        // The box has a thread of its own, so that the dispatcher and the other branch go on while the box
        // sleeps.
        .with_blocking("box rare ((a, <k>) -> (<k>))", |_: i64, k: i64, out: &mut Out| {
            compute(false);
            // The sleep is long enough for the other branch to fill its stream.
            std::thread::sleep(if k == 7 { 10 * SLEEPS } else { Duration::ZERO });
            out.emit((k,));
        })
        .with("box often ((b, <k>) -> (<k>))", |_: i64, k: i64, out: &mut Out| {
            compute(false);
            out.emit((k,));
        });
    let net =
        "net main { box rare ((a, <k>) -> (<k>)); box often ((b, <k>) -> (<k>)); } connect rare || often;";
    let records = (0..4000).map(|at| match at % 20 {
        0 => format!(r#"{{"a": 1, "<k>": {}}}"#, if at % 400 == 200 { 7 } else { 1 }),
        _ => r#"{"b": 1, "<k>": 2}"#.to_owned(),
    });
    let text = diagnosed(net, &boxes, records);
    check(&text, "ORDER KEPT BY", &["/collector", "/rare", "<k>=7", "/often"]);
}
