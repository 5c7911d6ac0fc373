//! Commands to a run that goes on: another network, pause, resume, drain, stop.

mod controlled;
mod des_run;

use controlled::{Run, load, write};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Marks the records that went through it, and fails on every seventh number.
fn marking(name: &str, mark: i64) -> String {
    format!("net {name} connect [{{<n>}} -> {{<n>, <mark = {mark} + 0 / (n % 7)>}}] .. [];")
}

#[test]
fn fifty_networks_under_load_lose_nothing() {
    const NETWORKS: i64 = 50;
    let mut run = Run::start(&marking("first", 0));
    let stop = Arc::new(AtomicBool::new(false));
    let written = load(run.child.stdin.take().expect("piped"), &stop);
    let output = BufReader::new(run.child.stdout.take().expect("piped"));
    let read = std::thread::spawn(move || output.lines().map(|line| line.expect("text")).collect::<Vec<_>>());
    for mark in 1..=NETWORKS {
        let net = write(run.folder.path(), &format!("net{mark}.snet"), &marking(&format!("net{mark}"), mark));
        assert!(run.done("load", Some(&net)).starts_with("loaded: "));
        if mark % 10 == 0 {
            let bad = write(run.folder.path(), "bad.snet", "net bad connect nobody;");
            let refused = run.command("load", Some(&bad));
            let said = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(1), "{said}");
            assert!(said.contains("bad.snet:1:") && said.contains("goes on"), "{said}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    let written = written.join().expect("it wrote");
    let lines = read.join().expect("it read");
    let said = run.end(1);
    // Every number once, in its order or told as failed: 0 / (n % 7) fails on every seventh.
    let number = |line: &String| {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        (record["<n>"].as_u64().expect("a number"), record["<mark>"].as_i64().expect("a number"))
    };
    let records: Vec<(u64, i64)> = lines.iter().map(number).collect();
    assert!(records.iter().map(|record| record.0).eq((0..written).filter(|n| n % 7 != 0)), "{written}");
    assert!(records.is_sorted_by_key(|record| record.1), "a network gave records after the next");
    assert!(records.iter().any(|record| record.1 == NETWORKS), "the last network gave records");
    let failed = written.div_ceil(7);
    let told = said.replace(',', "");
    assert!(
        told.contains(&format!("{} records in {} out {} failed", written, records.len(), failed)),
        "{said}"
    );
}

#[test]
fn a_run_pauses_drains_and_stops() {
    let mut run = Run::start("net first connect [{<n>} -> {<n = n + 1>}];");
    let mut input = run.child.stdin.take().expect("piped");
    let mut output = BufReader::new(run.child.stdout.take().expect("piped"));
    let mut line = String::new();
    input.write_all(b"{\"<n>\": 1}\n").expect("it reads");
    output.read_line(&mut line).expect("a record");
    assert!(run.done("pause", None).starts_with("paused: 1 record in, 1 out"));
    input.write_all(b"{\"<n>\": 2}\n").expect("the pipe takes it");
    // A paused run takes commands, but no records.
    assert!(run.done("drain", None).starts_with("drained and paused: 1 record in, 1 out"));
    assert!(run.done("resume", None).starts_with("resumed"));
    output.read_line(&mut line).expect("a record");
    assert_eq!(line, "{\"<n>\": 2}\n{\"<n>\": 3}\n");
    let refused = run.command("load", Some("no/such.snet"));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no/such.snet"));
    assert!(run.done("stop", None).starts_with("stopping: 2 records in"));
    assert!(run.end(0).contains("2 records in, 2 out"));
}

#[test]
fn a_cell_that_is_half_full_when_its_network_goes_is_told() {
    let mut run = Run::start("net first connect [|{a}, {b}|];");
    let mut input = run.child.stdin.take().expect("piped");
    input.write_all(b"{\"a\": 1}\n").expect("it reads");
    let until = Instant::now() + Duration::from_secs(20);
    while !run.done("pause", None).contains("1 record in") {
        assert!(Instant::now() < until, "the record never went in");
        run.done("resume", None);
    }
    assert!(run.done("drain", None).contains("1 record in, 0 out, 1 failed"));
    run.done("stop", None);
    assert!(run.end(1).contains("never completed"));
}

#[test]
fn a_run_without_control_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(folder.path(), "first.snet", "net first connect [];");
    let space = folder.path().join("space");
    let mut command = des_run::thalweg();
    command.arg("run").arg(&net).arg("--space").arg(&space).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().expect("thalweg starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"{}\n").expect("it reads");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a record");
    let refused =
        Command::new(des_run::thalweg().get_program()).arg("pause").arg(&space).output().expect("it starts");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--control"));
    drop(input);
    assert!(child.wait().expect("it ends").success());
}
