//! Commands to a live run: another network, pause, resume, drain, stop.

mod controlled;
mod des_run;

use controlled::{Run, load, write};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_space::Answer;
use thalweg_space::lease::Terms;
use thalweg_space::reader::SpaceReader;

/// The text of a network that marks its records, and fails on every seventh number.
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
            let stderr = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(1), "{stderr}");
            assert!(stderr.contains("bad.snet:1:") && stderr.contains("goes on"), "{stderr}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    let written = written.join().expect("it wrote");
    let lines = read.join().expect("it read");
    let stderr = run.end(1);
    // Every number occurs once, either in the output, which is in order, or reported as failed, because 0 /
    // (n % 7) fails on every seventh number.
    let number = |line: &String| {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        (record["<n>"].as_u64().expect("a number"), record["<mark>"].as_i64().expect("a number"))
    };
    let records: Vec<(u64, i64)> = lines.iter().map(number).collect();
    assert!(records.iter().map(|record| record.0).eq((0..written).filter(|n| n % 7 != 0)), "{written}");
    assert!(records.is_sorted_by_key(|record| record.1), "a network gave records after the next");
    assert!(records.iter().any(|record| record.1 == NETWORKS), "the last network gave records");
    let failed = written.div_ceil(7);
    let without_commas = stderr.replace(',', "");
    assert!(
        without_commas.contains(&format!("{} records in {} out {} failed", written, records.len(), failed)),
        "{stderr}"
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
    // A paused run accepts commands, but reads no records.
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
fn a_cell_that_is_half_full_when_its_network_goes_is_reported() {
    let mut run = Run::start("net first connect [|{a}, {b}|];");
    let mut input = run.child.stdin.take().expect("piped");
    input.write_all(b"{\"a\": 1}\n").expect("it reads");
    let until = Instant::now() + Duration::from_secs(20);
    while !run.done("pause", None).contains("1 record in") {
        assert!(Instant::now() < until, "the record never went in");
        run.done("resume", None);
    }
    assert!(run.done("drain", None).contains("1 record in, 0 out, 1 still waiting"));
    run.done("stop", None);
    assert!(
        run.end(0)
            .contains("warning[W0607]: first/synchrocell: the synchrocell still waits for {b} at the end")
    );
}

#[test]
fn a_run_without_control_reports_an_error() {
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

/// In a run without input, in which all workers sleep, settings and pauses with a lease are undone all the
/// same.
#[test]
fn what_was_changed_for_a_while_is_taken_back_by_a_run_that_has_nothing_to_do() {
    let mut run = Run::start("net first connect [{<n>} -> {<n = n + 1>}];");
    let space = run.space();
    let reader = SpaceReader::open(&space).expect("a space").called("test");
    let set = |arguments: &[&str]| {
        let output = des_run::thalweg().arg("set").arg(&space).args(arguments).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let quantum = || {
        let settings = reader.settings().expect("settings");
        settings.into_iter().find(|setting| setting.name == "exec.quantum").expect("there is one")
    };
    let until = Instant::now() + Duration::from_secs(20);
    // The run announces that it handles leases when it checks leases for the first time.
    while reader.lease("exec.order", 1, Terms::lasting(Duration::from_millis(1))).is_err() {
        assert!(Instant::now() < until, "it takes no leases");
        std::thread::sleep(Duration::from_millis(1));
    }
    let printed = set(&["exec.quantum", "8", "--for", "10min"]);
    assert!(printed.contains("exec.quantum = 8 (was 64)") && printed.contains("; for 10 min"), "{printed}");
    let shown = des_run::thalweg()
        .arg("get")
        .arg(&space)
        .args(["exec.quantum", "--json"])
        .output()
        .expect("it starts");
    let shown = String::from_utf8(shown.stdout).expect("text");
    let shown: serde_json::Value =
        serde_json::from_str(shown.lines().next().expect("a setting")).expect("JSON");
    assert_eq!((&shown["value"], &shown["lease"]["confirmed"]), (&8.into(), &64.into()));
    assert_eq!(shown["setter"]["tool"], "thalweg set");
    assert!(set(&["exec.mapper=round-robin"]).starts_with(
        "exec.mapper = round-robin (was contiguous): for the tasks, streams and components that are made from now on"
    ));
    let refused = des_run::thalweg().args(["set", "exec.capacity"]).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && stderr.contains("a name and a value"), "{stderr}");
    let shown = des_run::thalweg().arg("get").arg(&space).arg("exec.quantum").output().expect("it starts");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.lines().nth(1).is_some_and(|line| line.starts_with("exec.quantum ")), "{shown}");
    assert!(!shown.contains("exec.quantum_us"), "a name is no pattern: {shown}");
    set(&["exec.quantum", "9", "--for", "100ms"]);
    while quantum().value != 64 {
        assert!(Instant::now() < until, "{:?}; {shown}", quantum());
        std::thread::sleep(Duration::from_millis(1));
    }
    let pause = thalweg_space::Command::new("run", "pause");
    let lease = reader.send_leased(&pause, Terms::lasting(Duration::from_millis(100))).expect("it is sent");
    let answer = lease.sent().wait(Duration::from_secs(20)).expect("an answer");
    assert!(matches!(answer, Answer::Done { inverse: Some(_), .. }), "{answer:?}");
    let stop = thalweg_space::Command::new("run", "stop");
    let refused = reader.send_leased(&stop, Terms::living()).expect("it is sent");
    let answer = refused.sent().wait(Duration::from_secs(20)).expect("an answer");
    assert!(matches!(answer, Answer::Failed { .. }), "{answer:?}");
    let output =
        des_run::thalweg().arg("pause").arg(&space).args(["--for", "100ms"]).output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && printed.contains("; for 100 ms"), "{printed}");
    let output =
        des_run::thalweg().arg("stop").arg(&space).args(["--for", "1s"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "nothing takes an end back");
    // The run continues reading without a command, because the lease of the pause has ended.
    let mut input = run.child.stdin.take().expect("piped");
    input.write_all(b"{\"<n>\": 1}\n").expect("the pipe takes it");
    let mut line = String::new();
    let mut output = BufReader::new(run.child.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("a record");
    assert_eq!(line, "{\"<n>\": 2}\n");
    drop(input);
    run.end(0);
}
