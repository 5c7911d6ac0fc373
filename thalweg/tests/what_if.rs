//! `thalweg diagnose --what-if`: predictions from a recording, and refusals to predict.

mod program;

use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Runs a chain of filters on 3,000 records in this folder, and keeps its space.
fn recorded(folder: &Path, mode: &[&str]) -> String {
    let net =
        "net steps connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}] .. [{<n>} -> {<n = n - 3>}];";
    let net = program::write(folder, "steps.snet", net);
    let input: String = (0..3000).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let space = folder.join("space").display().to_string();
    let output = program::run(&[&[net.as_str(), "--workers", "2", "--space", &space], mode].concat(), &input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    space
}

fn what_if(space: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["diagnose", space, "--what-if"]).args(more).output().expect("thalweg starts")
}

fn json(space: &str) -> Value {
    let output = what_if(space, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_recorded_run_is_replayed_or_reported_as_beyond_the_replay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = recorded(folder.path(), &["--monitor", "full", "--keep"]);
    let answer = json(&space);
    // Each record is processed by at least five tasks: the source, three filters, and the sink.
    assert!(answer["messages"].as_u64() >= Some(5 * 3000), "{answer}");
    assert!(answer["recorded_per_s"].as_f64() > Some(0.0) && answer["replayed_per_s"].as_f64() > Some(0.0));
    let [recorded, kept, kept_bound, again, bound] =
        ["recorded_per_s", "kept", "kept_bound", "replayed_per_s", "bound"]
            .map(|name| answer[name].as_f64().expect("a number"));
    let nearest = again.clamp(recorded, recorded / (1.0 - kept));
    let believed = kept <= kept_bound && (again / nearest - 1.0).abs() <= bound;
    // If other programs delayed the run, the replay is too fast, and the answer says that it is refused.
    assert_eq!(believed, answer["refused"].is_null(), "{answer}");
    let changes = answer["changes"].as_array().expect("a list");
    assert_eq!(believed, !changes.is_empty());
    for row in changes {
        let [least, gain, most] = ["least", "gain", "most"].map(|name| row[name].as_f64().expect("a number"));
        assert!(least <= gain && gain <= most && gain > -1.0, "{row}");
        assert!(row["words"].as_str().is_some_and(|words| !words.is_empty()));
        let moves = ["place", "replicas", "mapper"].iter().any(|name| row["change"][name].is_object())
            || ["steal", "unplaced"].iter().any(|name| row["change"] == *name);
        assert!(!moves || gain >= -0.03, "a loss by other places is not predicted: {row}");
    }
    let stdout = String::from_utf8(what_if(&space, &[]).stdout).expect("text");
    assert!(stdout.starts_with("Replayed the run as it was"), "{stdout}");
    assert_eq!(believed, stdout.contains("changes were replayed"), "{stdout}");
}

/// The program that reads the output sets the pace, although the source waits for the limit on messages most of the time.
#[test]
fn a_slow_reader_is_named_although_messages_under_way_are_limited() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = program::write(folder.path(), "step.snet", "net step connect [{<n>} -> {<n = n + 1>}];");
    let input: String = (0..6_000).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let input = program::write(folder.path(), "in.jsonl", &input);
    for mode in ["full", "metrics"] {
        let space = folder.path().join(mode);
        let mut run = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        run.args(["run", &net, "--input", &input, "--unfinished", "2", "--monitor", mode, "--keep"]);
        let mut run = run.arg("--space").arg(&space).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let run = run.as_mut().expect("thalweg starts");
        let mut output = run.stdout.take().expect("a pipe");
        // SAFETY: the call changes nothing but the size of the pipe.
        let size = unsafe { libc::fcntl(output.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
        assert_eq!(size, 4096, "the pipe fills at once");
        let mut some = [0; 256];
        while output.read(&mut some).expect("it reads") > 0 {
            std::thread::sleep(Duration::from_millis(8));
        }
        assert!(run.wait().expect("it ends").success());
        let mut diagnose = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = diagnose.arg("diagnose").arg(&space).arg("--json").output().expect("thalweg starts");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["verdict"]["kind"], "sink", "{mode}: {}", report["verdict"]);
    }
}

/// In mode metrics the run is not replayed; what its tasks took altogether predicts fewer changes, or does not
/// explain how long the run lasted.
#[test]
fn what_was_not_recorded_is_not_replayed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = recorded(folder.path(), &["--monitor", "metrics"]);
    let answer = json(&space);
    assert_eq!(
        (&answer["by_sums"], &answer["replayed_per_s"]),
        (&Value::Bool(true), &Value::Null),
        "{answer}"
    );
    let stdout = String::from_utf8(what_if(&space, &[]).stdout).expect("text");
    let changes = answer["changes"].as_array().expect("a list");
    match answer["refused"].as_str() {
        Some(why) => {
            assert!(why.contains("--monitor full --keep") && changes.is_empty(), "{answer}");
            assert!(stdout.starts_with("Nothing is predicted: not every dispatch"), "{stdout}");
        }
        None => {
            let names =
                |name: &str| changes.iter().any(|row| row["words"].as_str().unwrap_or("").contains(name));
            assert!(!changes.is_empty() && !names("streams"), "{answer}");
            assert!(stdout.starts_with("Not every dispatch is recorded, so"), "{stdout}");
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let off = recorded(folder.path(), &["--monitor", "off"]);
    let stdout = String::from_utf8(what_if(&off, &[]).stdout).expect("text");
    assert!(stdout.starts_with("Nothing is predicted: not every dispatch"), "{stdout}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (more, wanted) in
        [(&["--window", "1s"][..], "--window"), (&["--perturb"], "--perturb"), (&["--processors", "0"], "0")]
    {
        let output = what_if("nowhere", more);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(wanted));
    }
}
