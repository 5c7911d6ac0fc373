//! Reports on runs with failed records, changed modes, another network, or pauses, on runs that are watched
//! to their end, and on killed runs.

mod controlled;
mod des_run;
mod program;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use controlled::Run;
use program::write;
use serde_json::Value;
use thalweg_space::reader::SpaceReader;

const PLUS: &str = "net first connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}];";

/// The output of `thalweg` with these arguments, which must succeed.
fn printed(arguments: &[&str], space: &Path) -> String {
    let output = des_run::succeed(des_run::thalweg().arg(arguments[0]).arg(space).args(&arguments[1..]));
    String::from_utf8(output.stdout).expect("text")
}

fn report(space: &Path, arguments: &[&str]) -> Value {
    let text = printed(&[&["report", "--json"], arguments].concat(), space);
    serde_json::from_str(&text).expect("JSON")
}

/// Sends numbered records through a run and reads them at its other end.
fn through(run: &mut Run, output: &mut impl BufRead, count: usize) {
    let input = run.child.stdin.as_mut().expect("piped");
    let mut line = String::new();
    for n in 0..count {
        writeln!(input, "{{\"<n>\": {n}}}").expect("it reads");
        assert!(output.read_line(&mut line).expect("text") > 0);
    }
}

#[test]
fn failed_messages_are_listed_in_every_mode() {
    for mode in ["off", "metrics", "full"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let net = write(folder.path(), "bad.snet", "net bad connect [{<n>} -> {<n = 1 / (n - 3)>}];");
        let space = folder.path().join("space");
        let input: String = (0..6).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
        let run = program::run(&[&net, "--monitor", mode, "--space", space.to_str().expect("UTF-8")], &input);
        assert_eq!(run.status.code(), Some(1));
        let listed = printed(&["message", "--failed"], &space);
        assert!(listed.contains("bad/filter"), "{mode}: {listed}");
        assert!(listed.contains(":3 "), "{mode}: the fourth message of its stream: {listed}");
        let failures: Value =
            serde_json::from_str(&printed(&["message", "--failed", "--json"], &space)).unwrap();
        assert_eq!(failures.as_array().expect("a list").len(), 1, "{mode}");
        // Only mode full records the origin of messages.
        assert_eq!(failures[0]["input"].is_string(), mode == "full", "{mode}: {failures}");
    }
}

#[test]
fn a_window_after_another_network_was_loaded_counts_its_messages_alone() {
    let mut run = Run::start(PLUS);
    let mut output = BufReader::new(run.child.stdout.take().expect("piped"));
    through(&mut run, &mut output, 100);
    des_run::succeed(des_run::thalweg().arg("set").arg(run.space()).args(["monitor.mode", "full"]));
    let next = write(run.folder.path(), "next.snet", &PLUS.replace("first", "next"));
    run.done("load", Some(&next));
    through(&mut run, &mut output, 100);

    // No message moves in this window: the work that the networks did before is not counted in the window.
    let still = report(&run.space(), &["--window", "50ms"]);
    assert_eq!(still["throughput"]["messages_in"], 0, "{still:#}");
    for stream in still["streams"].as_array().expect("a list") {
        assert_eq!((&stream["written"], &stream["read"]), (&0.into(), &0.into()), "{stream:#}");
        assert!(!stream["name"].as_str().expect("text").contains("first/"), "{stream:#}");
    }

    // In this window messages move, and the mode is full.
    let space = run.space();
    let window = std::thread::spawn(move || report(&space, &["--window", "1s"]));
    while !window.is_finished() {
        through(&mut run, &mut output, 10);
    }
    let moved = window.join().expect("a report");
    assert!(moved["throughput"]["messages_in"].as_u64() > Some(0), "{:#}", moved["throughput"]);
    assert!(moved["throughput"]["messages_out"].as_u64() > Some(0), "{:#}", moved["throughput"]);
    drop(run.child.stdin.take());
    run.end(0);
}

/// Tasks that end within a window are counted from the window's beginning, as tasks that go on are.
#[test]
fn a_window_that_a_network_ends_in_counts_from_its_begin() {
    let mut run = Run::start(PLUS);
    let mut output = BufReader::new(run.child.stdout.take().expect("piped"));
    through(&mut run, &mut output, 1000);
    // A pause returns when all earlier dispatches have published their work, so the counts are exact from
    // here on.
    run.done("pause", None);
    let mut follower = thalweg_monitor::Follower::open(run.space(), 10).expect("a space");
    follower.poll();
    follower.restart();
    run.done("drain", None);
    run.done("resume", None);
    through(&mut run, &mut output, 10);
    run.done("pause", None);
    follower.poll();
    let report = follower.report().expect("a report");
    assert_eq!(report.throughput.messages_in, Some(10), "{:#?}", report.streams);
    assert!(report.components.iter().all(|component| component.work.messages_in <= Some(12)));
    run.done("stop", None);
    run.end(0);
}

#[test]
fn the_end_of_a_run_is_measured_by_its_events_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(folder.path(), "first.snet", PLUS);
    for mode in ["metrics", "full"] {
        let space = folder.path().join(mode);
        let input: String = (0..100).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
        program::run(&[&net, "--monitor", mode, "--space", space.to_str().expect("UTF-8")], &input);
        let mut window = des_run::thalweg();
        let window =
            window.arg("report").arg(&space).args(["--window", "1ms"]).output().expect("thalweg runs");
        let stderr = String::from_utf8_lossy(&window.stderr).into_owned();
        assert_eq!(window.status.code(), Some(if mode == "full" { 0 } else { 2 }), "{stderr}");
        assert_eq!(stderr.contains("cannot be measured by itself"), mode == "metrics", "{stderr}");
    }
}

#[test]
fn a_paused_run_is_shown_as_paused() {
    let mut run = Run::start(PLUS);
    let mut output = BufReader::new(run.child.stdout.take().expect("piped"));
    through(&mut run, &mut output, 10);
    let ls = || {
        let mut ls = des_run::thalweg();
        let output = des_run::succeed(ls.arg("ls").env("THALWEG_SPACES", run.folder.path()));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(ls().contains("running"), "{}", ls());
    run.done("pause", None);
    assert!(ls().contains("paused"), "{}", ls());
    let paused = report(&run.space(), &["--window", "50ms"]);
    assert_eq!(paused["verdict"]["kind"], "paused", "{:#}", paused["verdict"]);
    assert_eq!(paused["window"]["paused_ns"], paused["window"]["duration_ns"]);
    assert!(printed(&["report"], &run.space()).contains("paused for the last"));
    run.done("resume", None);
    assert!(ls().contains("running"), "{}", ls());
    assert!(report(&run.space(), &[])["window"]["paused_ns"].is_null());
    drop(run.child.stdin.take());
    run.end(0);
}

#[test]
fn a_watch_of_a_run_that_takes_its_space_away_ends_with_its_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(folder.path(), "first.snet", PLUS);
    let mut run = des_run::thalweg();
    run.args(["run", &net]).env("THALWEG_SPACES", folder.path()).stdin(Stdio::piped());
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("thalweg starts");
    let until = Instant::now() + Duration::from_secs(20);
    let is_space = |entry: &std::fs::DirEntry| entry.path().join("space").is_file();
    while !std::fs::read_dir(folder.path()).expect("it is there").flatten().any(|entry| is_space(&entry)) {
        assert!(Instant::now() < until, "no space");
        std::thread::yield_now();
    }
    let mut watch: Command = des_run::thalweg();
    watch.args(["report", "--watch", "--window", "100ms"]).env("THALWEG_SPACES", folder.path());
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("thalweg starts");
    let mut shown =
        BufReader::new(watch.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
    assert!(shown.any(|line| line.starts_with("running for")), "a first report");
    let mut input = run.stdin.take().expect("piped");
    for n in 0..1000 {
        writeln!(input, "{{\"<n>\": {n}}}").expect("it reads");
    }
    drop(input);
    assert!(run.wait().expect("it ends").success());
    let rest: Vec<String> = shown.collect();
    assert!(watch.wait().expect("it ends").success());
    assert!(rest.iter().any(|line| line.starts_with("ended after")), "{rest:#?}");
    assert!(!rest.iter().any(|line| line.contains("damaged")), "{rest:#?}");
}

/// A run that hung before it was killed lasted until the kill, though nothing was recorded of it for a while.
#[test]
fn a_run_that_did_nothing_before_it_was_killed_lasted_until_then() {
    let mut run = Run::start(PLUS);
    let mut output = BufReader::new(run.child.stdout.take().expect("piped"));
    through(&mut run, &mut output, 1);
    let lived = |reader: &SpaceReader| {
        let info = reader.info().expect("a space");
        info.lived_ticks.saturating_sub(info.clock.anchor().ticks) as f64 / info.clock.hz()
    };
    let reader = SpaceReader::open(run.space()).expect("a space");
    let before = lived(&reader);
    let until = Instant::now() + Duration::from_secs(60);
    while lived(&reader) < before + 0.5 {
        assert!(Instant::now() < until, "the run does not note that it lives");
        std::thread::yield_now();
    }
    run.child.kill().expect("a child of ours");
    run.child.wait().expect("a child of ours");
    let report = report(&run.space(), &[]);
    assert_eq!(report["window"]["state"], "killed");
    let lasted_s = report["window"]["duration_ns"].as_f64().expect("a number") / 1e9;
    assert!(lasted_s >= 0.5, "{lasted_s} s");
}

#[test]
fn ends_that_are_called_by_their_role_are_not_called_so_twice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(folder.path(), "first.snet", PLUS);
    let space = folder.path().join("space");
    let run = program::run(&[&net, "--space", space.to_str().expect("UTF-8")], "{\"<n>\": 1}\n");
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(stderr.contains("1 record in, 1 out"), "{stderr}");
    let text = printed(&["report"], &space);
    assert!(
        !text.contains("ource source") && !text.contains("ink sink") && !text.contains("1 messages"),
        "{text}"
    );
    assert!(text.contains("in          1 message "), "{text}");
}

#[test]
fn more_workers_than_processors_are_warned_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(folder.path(), "first.snet", PLUS);
    let warned = |workers: &str| {
        let run = program::run(&[&net, "--workers", workers], "{\"<n>\": 1}\n");
        assert!(run.status.success());
        String::from_utf8_lossy(&run.stderr).contains("more workers than processors only take turns")
    };
    assert!(warned("1000"));
    assert!(!warned("1"));
}

#[test]
fn a_large_kept_run_is_reported_alike_on_one_core_and_on_several() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Every 500th record fails by a division by zero.
    let text = "net long connect [{<n>} -> {<n = n + 0 / (n % 500)>}] .. [{<n>} -> {<n = n + 1>}] \
                .. [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}];";
    let net = write(folder.path(), "long.snet", text);
    let space = folder.path().join("space");
    let input: String = (1..=40_000).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let arguments = ["--monitor", "full", "--keep", "--quantum", "1", "--workers", "2", "--space"];
    let run =
        program::run(&[&[net.as_str()], &arguments[..], &[space.to_str().expect("UTF-8")]].concat(), &input);
    assert_eq!(run.status.code(), Some(1), "records failed");
    let report = |program: &mut Command| {
        let output = des_run::succeed(program.args(["report", "--json"]).arg(&space));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let several = report(&mut des_run::thalweg());
    let mut alone = Command::new("taskset");
    alone.args(["-c", &first_core()]).arg(des_run::thalweg().get_program());
    assert_eq!(several, report(&mut alone));
    // The recording has too many events to be analysed in memory at once, so it is analysed in parts.
    assert!(several["window"]["events"].as_u64().expect("a number") > 100_000, "{}", several["window"]);
    let failures = several["failures"].as_array().expect("a list");
    assert!(failures.len() > 1, "{failures:?}");
}

/// The first core that this process may use.
fn first_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("it says so");
    list.trim().split([',', '-']).next().expect("a core").to_owned()
}
