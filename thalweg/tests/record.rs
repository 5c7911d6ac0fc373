//! `thalweg record`: the archive has the same events as the run's own space, while the run lives, when it
//! ends, and when the run or the recorder is killed.

mod program;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use program::{Killed, write};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

fn thalweg(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    thalweg(arguments).output().expect("thalweg starts")
}

fn printed(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A run whose space is `space`, with elements that hold all its events. The run reads records as long as its
/// input is open.
struct Run {
    killed: Killed,
    output: BufReader<std::process::ChildStdout>,
}

impl Run {
    fn start(folder: &Path, space: &str, more: &[(&str, &str)]) -> Run {
        let net = write(
            folder,
            "plus.snet",
            "net plus connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}];",
        );
        let mut command = thalweg(&["run", &net, "--monitor", "full", "--workers", "2", "--space", space]);
        command.envs(more.iter().copied()).stderr(Stdio::null());
        let mut killed = Killed::start(&mut command, folder);
        let output = BufReader::new(killed.child.stdout.take().expect("piped"));
        Run { killed, output }
    }

    /// Sends records through the run, and waits until they come out.
    fn send(&mut self, count: usize) {
        let input = self.killed.child.stdin.as_mut().expect("open");
        for n in 0..count {
            writeln!(input, "{{\"<n>\": {n}}}").expect("it reads");
        }
        input.flush().expect("it reads");
        let mut line = String::new();
        for n in 0..count {
            line.clear();
            self.output.read_line(&mut line).expect("it writes");
            assert_eq!(line.trim_end(), format!("{{\"<n>\": {}}}", n + 2));
        }
    }

    fn end(mut self) {
        drop(self.killed.child.stdin.take());
        assert!(self.killed.child.wait().expect("it ends").success());
    }
}

fn recorder(space: &str, kept: &str, more: &[&str]) -> Child {
    let mut command = thalweg(&["record", space, "--output", kept, "--sync", "10ms"]);
    command.args(more).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("thalweg starts")
}

/// Waits until the archive has a segment that is not empty.
fn until_begun(kept: &str) {
    let begun = Instant::now();
    while output(&["events", kept, "--limit", "1"]).stdout.is_empty() {
        assert!(begun.elapsed() < PATIENCE, "nothing is recorded");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ended(recorder: Child) -> (Option<i32>, String) {
    let output = recorder.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn interrupt(child: &Child, signal: &str) {
    let status =
        Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
    assert!(status.success());
}

/// The report's figures about the flow, without the path from which the report was made.
fn measured(path: &str) -> Value {
    let mut report: Value = serde_json::from_str(&printed(&["report", path, "--json"])).expect("JSON");
    report["space"]["path"] = Value::Null;
    report
}

fn folder() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = |name: &str| folder.path().join(name).display().to_string();
    let (space, kept) = (name("space"), name("kept"));
    (folder, space, kept)
}

#[test]
fn a_run_that_is_recorded_to_its_end_is_in_the_archive_as_in_its_space() {
    let (folder, space, kept) = folder();
    let mut run = Run::start(folder.path(), &space, &[]);
    run.send(10);
    let recorder = recorder(&space, &kept, &[]);
    until_begun(&kept);
    run.send(500);
    run.end();
    let (code, stderr) = ended(recorder);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("none is lost") && stderr.contains("thalweg report"), "{stderr}");
    let events = printed(&["events", &space, "--json"]);
    assert!(events.lines().count() > 30, "{events}");
    assert_eq!(printed(&["events", &kept, "--json"]), events);
    assert_eq!(measured(&kept), measured(&space));
    // The archive has the story of each message, too.
    let report = measured(&kept);
    let message = report["slowest"][0]["message"].as_str().expect("a slow message");
    assert_eq!(printed(&["message", &kept, message]), printed(&["message", &space, message]));
    // The run's own space is removed, so that only the archive remains.
    std::fs::remove_dir_all(&space).expect("it is there");
    assert_eq!(printed(&["events", &kept, "--json"]), events);
}

#[test]
fn a_recording_ends_at_ctrl_c_and_goes_on_after_a_kill() {
    let (folder, space, kept) = folder();
    let mut run = Run::start(folder.path(), &space, &[]);
    run.send(100);
    let first = recorder(&space, &kept, &[]);
    until_begun(&kept);
    run.send(100);
    interrupt(&first, "-INT");
    let (code, stderr) = ended(first);
    assert_eq!(code, Some(0), "{stderr}");
    let before = printed(&["events", &kept, "--json"]);
    assert_eq!(measured(&kept)["window"]["state"], "running", "its end was not recorded");
    run.send(100);
    let mut second = recorder(&space, &kept, &[]);
    std::thread::sleep(Duration::from_millis(100));
    run.send(300);
    second.kill().expect("it lives");
    second.wait().expect("it ended");
    let between = printed(&["events", &kept, "--json"]);
    assert!(between.len() >= before.len());
    run.send(100);
    run.killed.child.kill().expect("it lives");
    run.killed.child.wait().expect("it ended");
    let (code, stderr) = ended(recorder(&space, &kept, &[]));
    assert_eq!(code, Some(0), "{stderr}");
    let events = printed(&["events", &kept, "--json"]);
    assert_eq!(events, printed(&["events", &space, "--json"]));
    assert_eq!(measured(&kept)["window"]["state"], "killed");
    // Events that were recorded before the kill are in the archive. The times in seconds, which are not
    // compared, change a little, because the rate of the clock is measured more exactly with time.
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        [&event["ticks"], &event["writer"], &event["sequence"], &event["kind"], &event["fields"]]
            .map(Value::to_string)
    };
    let all: std::collections::HashSet<_> = events.lines().map(event).collect();
    assert!(before.lines().chain(between.lines()).all(|line| all.contains(&event(line))));
}

/// A run removes its space when it ends; the recorder still has the files mapped, with the events that it had
/// not written yet.
#[test]
fn a_run_that_leaves_nothing_is_in_the_archive() {
    let (folder, _, kept) = folder();
    let spaces = folder.path().join("spaces");
    std::fs::create_dir(&spaces).expect("made");
    let net = write(folder.path(), "plus.snet", "net plus connect [{<n>} -> {<n = n + 1>}];");
    let mut command = thalweg(&["run", &net, "--monitor", "full"]);
    let mut killed = Killed::start(command.stderr(Stdio::null()), &spaces);
    let output = BufReader::new(killed.child.stdout.take().expect("piped"));
    let mut run = Run { killed, output };
    let send = |run: &mut Run, count: usize| {
        let input = run.killed.child.stdin.as_mut().expect("open");
        for n in 0..count {
            writeln!(input, "{{\"<n>\": {n}}}").expect("it reads");
            let mut line = String::new();
            run.output.read_line(&mut line).expect("it writes");
        }
    };
    send(&mut run, 1);
    let space =
        std::fs::read_dir(&spaces).expect("a folder").next().expect("a space").expect("a space").path();
    // With `--sync 1h` nothing of the run's last seconds is written to the archive before the run ends.
    let mut command = thalweg(&["record", space.to_str().expect("UTF-8"), "--output", &kept, "--sync", "1h"]);
    let recorder = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("thalweg starts");
    let begun = Instant::now();
    // The recorder copies the catalog of each writer when it finds the writer, so the file shows that it has
    // begun.
    while !Path::new(&kept).join("0001.catalog").exists() {
        assert!(begun.elapsed() < PATIENCE, "nothing is recorded");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(100));
    send(&mut run, 300);
    run.end();
    let (code, stderr) = ended(recorder);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!space.exists(), "the run took its space along");
    assert_eq!(measured(&kept)["throughput"]["messages_in"], 301);
}

#[test]
fn a_window_is_what_lies_between_its_times() {
    let (folder, space, kept) = folder();
    let mut run = Run::start(folder.path(), &space, &[]);
    for _ in 0..5 {
        run.send(100);
        std::thread::sleep(Duration::from_millis(30));
    }
    run.end();
    assert_eq!(ended(recorder(&space, &kept, &[])).0, Some(0));
    let all = printed(&["events", &kept, "--json"]);
    let time =
        |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["time_s"].as_f64().expect("a time");
    let times: Vec<f64> = all.lines().map(time).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    let (from, to) = (first + (last - first) * 0.3, first + (last - first) * 0.6);
    let window = format!("{:.0}us..{:.0}us", from * 1e6, to * 1e6);
    let (from, to) = ((from * 1e6).round() / 1e6, (to * 1e6).round() / 1e6);
    let expected = times.iter().filter(|time| (from..=to).contains(*time)).count();
    for place in [&kept, &space] {
        let seen: Vec<f64> =
            printed(&["events", place, "--json", "--window", &window]).lines().map(time).collect();
        assert!(seen.iter().all(|time| (from - 1e-6..=to + 1e-6).contains(time)), "{window}");
        // The edges of the window are rounded to ticks, so an event at each edge may be counted differently.
        assert!(seen.len().abs_diff(expected) <= 2 && expected > 10, "{} for {expected}", seen.len());
    }
    let part: Value =
        serde_json::from_str(&printed(&["report", &kept, "--json", "--window", &window])).expect("JSON");
    let took = part["window"]["duration_ns"].as_f64().unwrap_or(f64::NAN) / 1e9;
    assert!(
        (took - (to - from)).abs() < 0.3 * (to - from),
        "{took} s of {} s: {}",
        to - from,
        part["window"]
    );
    let wrong = output(&["events", &kept, "--window", "2s..1s"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("has to come after"));
}

/// Of events more than a second before a window only the descriptions of tasks and streams are read; the
/// report on the window is complete nevertheless.
#[test]
fn a_report_of_a_late_window_knows_what_began_long_before() {
    let (folder, space, kept) = folder();
    let mut run = Run::start(folder.path(), &space, &[]);
    run.send(400);
    std::thread::sleep(Duration::from_millis(1300));
    run.send(300);
    run.end();
    assert_eq!(ended(recorder(&space, &kept, &[])).0, Some(0));
    // The dispatches that read messages are looked at, because a source polls its input even while nothing
    // comes.
    let times: Vec<f64> = printed(&["events", &kept, "--kind", "exec.dispatch*", "--json"])
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|event| event["fields"]["reads"].as_u64() > Some(0))
        .map(|event| event["time_s"].as_f64().expect("a time"))
        .collect();
    let pause = times.windows(2).max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0]))).expect("events");
    assert!(pause[1] - pause[0] > 1.2, "{pause:?}");
    let window = format!("{:.0}ms..1h", (pause[1] - 0.05) * 1e3);
    for place in [&kept, &space] {
        let report: Value =
            serde_json::from_str(&printed(&["report", place, "--json", "--window", &window])).expect("JSON");
        let whole = measured(place);
        let work = |report: &Value| -> Vec<(String, u64)> {
            let components = report["components"].as_array().expect("components").iter();
            let mut work: Vec<(String, u64)> = components
                .map(|component| {
                    let read = component["work"]["messages_in"].as_u64().expect("a count");
                    (component["path"].as_str().expect("a path").to_owned(), read)
                })
                .collect();
            work.sort_unstable();
            work
        };
        let (of_window, of_all) = (work(&report), work(&whole));
        assert_eq!(of_window.len(), of_all.len(), "every component is known: {of_window:?}");
        for ((path, read), (known, all)) in of_window.iter().zip(&of_all) {
            assert_eq!(path, known);
            assert!(*all == 0 && *read == 0 || (*all, *read) == (700, 300), "{path}: {read} of {all}");
        }
        assert_eq!(report["window"]["lost"], 0, "what was passed over is not lost");
    }
}

#[test]
fn all_processes_of_a_session_are_recorded_as_they_join() {
    let (folder, session, kept) = folder();
    let join = |_: usize| {
        let net = write(folder.path(), "plus.snet", "net plus connect [{<n>} -> {<n = n + 1>}];");
        let mut command = thalweg(&["run", &net, "--monitor", "full", "--keep"]);
        command.env("THALWEG_SESSION", &session).stderr(Stdio::null());
        let mut killed = Killed::start(&mut command, folder.path());
        let output = BufReader::new(killed.child.stdout.take().expect("piped"));
        let mut run = Run { killed, output };
        let input = run.killed.child.stdin.as_mut().expect("open");
        writeln!(input, "{{\"<n>\": 1}}").expect("it reads");
        let mut line = String::new();
        run.output.read_line(&mut line).expect("it writes");
        run
    };
    let first = join(0);
    let recorder = recorder(&session, &kept, &[]);
    let begun = Instant::now();
    while !PathBuf::from(&kept).join("session").exists() {
        assert!(begun.elapsed() < PATIENCE, "nothing is recorded");
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = join(1);
    let spaces = || {
        let report: Value =
            serde_json::from_slice(&output(&["report", &kept, "--json"]).stdout).unwrap_or_default();
        report["spaces"].as_array().map_or(0, Vec::len)
    };
    while spaces() < 2 {
        assert!(begun.elapsed() < PATIENCE, "the second is not recorded");
        std::thread::sleep(Duration::from_millis(50));
    }
    first.end();
    second.end();
    let (code, stderr) = ended(recorder);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(printed(&["events", &kept, "--json"]), printed(&["events", &session, "--json"]));
}

#[test]
fn what_cannot_be_recorded_is_reported() {
    let (folder, space, kept) = folder();
    let refused = |arguments: &[&str], wanted: &str| {
        let output = output(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains(wanted), "{arguments:?}: {stderr}");
    };
    refused(&["record", &space, "--output", &kept], "there is no");
    let mut run = Run::start(folder.path(), &space, &[]);
    run.send(1);
    let foreign = folder.path().join("thesis");
    std::fs::create_dir(&foreign).expect("made");
    std::fs::write(foreign.join("thesis.tex"), "precious").expect("written");
    refused(&["record", &space, "--output", foreign.to_str().expect("UTF-8")], "something else");
    refused(&["record", &space, "--output", &space], "holds a space");
    refused(&["record", &space, "--output", &kept, "--level", "20"], "0..=19");
    run.end();
    assert_eq!(ended(recorder(&space, &kept, &["--for", "10ms"])).0, Some(0));
    refused(&["record", &kept, "--output", &space], "is an archive already");
}
