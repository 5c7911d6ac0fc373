//! `thalweg scope` and `thalweg serve` on real runs: what views say agrees with what `thalweg report` says of the same run.

mod program;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use program::{Killed, write};
use serde_json::Value;

const RECORDS: u64 = 5000;

fn thalweg(spaces: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.env("THALWEG_SPACES", spaces).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A kept run of two filters.
fn kept(folder: &Path) -> String {
    let net =
        write(folder, "two.snet", "net two connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}];");
    let lines: String = (0..RECORDS).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let input = write(folder, "input", &lines);
    let space = folder.join("kept").display().to_string();
    let mut run = thalweg(folder);
    run.args(["run", &net, "--input", &input, "--monitor", "full", "--keep", "--space", &space]);
    said(&run.output().expect("thalweg starts"));
    space
}

#[test]
fn what_dispatches_read_is_what_the_report_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path());
    let report =
        said(&thalweg(folder.path()).args(["report", &space, "--json"]).output().expect("thalweg starts"));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let mut expected: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let number = |value: &Value| value.as_u64().expect("a number");
    for component in report["components"].as_array().expect("components") {
        let path = component["path"].as_str().expect("a path").to_owned();
        let work = &component["work"];
        expected.insert(path, [number(&work["dispatches"]), number(&work["messages_in"])]);
    }
    let view = said(
        &thalweg(folder.path())
            .args(["scope", "dispatches", &space, "--json"])
            .output()
            .expect("thalweg starts"),
    );
    let mut found: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for object in objects(&view) {
        let fields = &object["fields"];
        let path = fields["task.component"].as_str().expect("a path").to_owned();
        let read = fields["read"].as_f64().expect("a sum") as u64;
        found.insert(path, [number(&fields["dispatches"]), read]);
    }
    assert_eq!(found, expected);
    assert_eq!(found["sink"][1], RECORDS);
}

#[test]
fn every_built_in_view_can_be_pulled_here_and_through_a_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path());
    let socket = folder.path().join("scopes.socket");
    let mut serve = thalweg(folder.path());
    serve.arg("serve").arg(&socket).args(["--budget", "100"]);
    let server = Killed::start(&mut serve, folder.path());
    let begin = Instant::now();
    while !socket.exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    let list =
        said(&thalweg(folder.path()).args(["scope", "ls", "--json"]).output().expect("thalweg starts"));
    for view in objects(&list) {
        let name = view["name"].as_str().expect("a name");
        let pull = |more: &[&str]| {
            let mut command = thalweg(folder.path());
            command.args(["scope", name, &space, "--json"]).args(more);
            said(&command.output().expect("thalweg starts"))
        };
        let here = pull(&[]);
        let there = pull(&["--server", socket.to_str().expect("UTF-8")]);
        assert_eq!(objects(&here).len(), objects(&there).len(), "{name}");
        // What does not depend on the moment is the same.
        if name == "events" || name == "dispatches" {
            assert_eq!(here, there, "{name}");
        }
    }
    let refused = thalweg(folder.path()).args(["serve"]).arg(&socket).output().expect("thalweg starts");
    assert_eq!(refused.status.code(), Some(2));
    drop(server);
}

#[test]
fn a_view_of_ones_own_is_checked_and_pulled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path());
    let right = "format = 1\nname = \"n\"\nabout = \"How many?\"\n[[leaf]]\nkinds = [\"exec.task_created\"]\n\
        [[step]]\ndo = \"reduce\"\n[step.values]\ntasks = \"count\"\n";
    let view = write(folder.path(), "own.toml", right);
    said(&thalweg(folder.path()).args(["scope", "check", &view]).output().expect("thalweg starts"));
    let found = said(
        &thalweg(folder.path()).args(["scope", &view, &space, "--json"]).output().expect("thalweg starts"),
    );
    let events = said(
        &thalweg(folder.path())
            .args(["events", &space, "--kind", "exec.task_created", "--json"])
            .output()
            .expect("thalweg starts"),
    );
    assert_eq!(objects(&found)[0]["fields"]["tasks"].as_u64(), Some(events.lines().count() as u64));
    let wrong = write(folder.path(), "wrong.toml", &right.replace("reduce", "reduse"));
    let output = thalweg(folder.path()).args(["scope", "check", &wrong]).output().expect("thalweg starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        complaint.contains("wrong.toml:7:6") && complaint.contains("did you mean `reduce`?"),
        "{complaint}"
    );
    let unknown = thalweg(folder.path()).args(["scope", "taks"]).output().expect("thalweg starts");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean `tasks`?"));
}
