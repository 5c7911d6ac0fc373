//! `thalweg diagnose --what-if`: predictions from a recording, and refusals to predict.

mod program;

use std::path::Path;
use std::process::{Command, Output};

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
    }
    let stdout = String::from_utf8(what_if(&space, &[]).stdout).expect("text");
    assert!(stdout.starts_with("Replayed the run as it was"), "{stdout}");
    assert_eq!(believed, stdout.contains("changes were replayed"), "{stdout}");
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
