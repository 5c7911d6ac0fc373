//! One report on the processes of a session: counts are added up, and ids have the number of their process.

mod program;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use program::write;
use serde_json::Value;
use thalweg_monitor::Report;

const RECORDS: usize = 500;

/// Makes a session of two processes that run the same network on the same input, one after the other.
fn session(folder: &Path) -> String {
    let session = folder.join("together").to_str().expect("UTF-8").to_owned();
    let input = folder.join("input");
    let lines: String = (0..RECORDS).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    std::fs::write(&input, lines).expect("written");
    let net = write(folder, "plus.snet", "net plus connect [{<n>} -> {<n = n + 1>}];");
    for _ in 0..2 {
        let mut run = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        run.args(["run", &net, "--monitor", "full", "--keep"]).env("THALWEG_SESSION", &session);
        run.stdin(std::fs::File::open(&input).expect("it is there")).stdout(Stdio::null());
        assert!(run.status().expect("thalweg starts").success());
    }
    session
}

fn printed(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_thalweg")).args(arguments).output().expect("thalweg starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn two_processes_are_in_one_report_and_cannot_be_confused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let session = session(folder.path());
    let text = printed(&["report", &session, "--json"]);
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let report: Report = serde_json::from_str(&text).expect("a report");
    assert_eq!(report.spaces.len(), 2);
    assert_eq!(report.throughput.messages_in, Some(2 * RECORDS as u64));
    let parts: Vec<_> = report.spaces.iter().map(|part| part.throughput.messages_in).collect();
    assert_eq!(parts, [Some(RECORDS as u64); 2]);
    // The two processes ran the same network, so their tasks have the same numbers; but no two tasks have the
    // same id.
    let ids: BTreeSet<_> = report.tasks.iter().map(|task| task.id).collect();
    let numbers: BTreeSet<_> = report.tasks.iter().map(|task| task.id.number).collect();
    assert_eq!(ids.len(), report.tasks.len());
    assert_eq!(numbers.len() * 2, ids.len(), "{ids:?}");
    assert!(json["tasks"][0]["id"].as_str().is_some_and(|id| id.contains('/')), "{}", json["tasks"][0]);
    let paths: BTreeSet<&str> = report.components.iter().map(|component| component.path.as_str()).collect();
    assert!(paths.contains("1/plus/filter") && paths.contains("2/plus/filter"), "{paths:?}");
    let pids: BTreeSet<u32> = report.spaces.iter().map(|part| part.space.pid).collect();
    assert_eq!(pids.len(), 2);
    // In the report on one space, ids are plain numbers.
    let alone = &report.spaces[1].space.path;
    let json: Value = serde_json::from_str(&printed(&["report", alone, "--json"])).expect("JSON");
    assert!(json["tasks"][0]["id"].is_u64() && json["spaces"] == Value::Array(Vec::new()), "{json:#}");
}

#[test]
fn a_message_of_a_process_has_its_story() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let session = session(folder.path());
    let report: Report = serde_json::from_str(&printed(&["report", &session, "--json"])).expect("a report");
    for part in &report.spaces {
        let message = &part.slowest[0].message;
        let story: Value =
            serde_json::from_str(&printed(&["message", &session, message, "--json"])).expect("JSON");
        assert_eq!(story["message"], message.as_str());
        let space = message.split('/').next().expect("a space");
        let hops = story["hops"].as_array().expect("a list");
        let of_it =
            |hop: &Value| hop["message"].as_str().is_some_and(|id| id.starts_with(&format!("{space}/")));
        assert!(hops.len() >= 2 && hops.iter().all(of_it), "{story:#}");
    }
    let slowest: Value =
        serde_json::from_str(&printed(&["message", &session, "--slowest", "4", "--json"])).expect("JSON");
    assert_eq!(slowest.as_array().map(Vec::len), Some(4));
    // The text of the report has the names of the processes, too.
    let shown = printed(&["report", &session]);
    assert!(shown.starts_with("together (a session of 2 processes"), "{shown}");
    assert!(shown.contains("1/plus/filter") && shown.contains("* Process 2 ("), "{shown}");
}

#[test]
fn events_name_their_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let session = session(folder.path());
    let shown = printed(&["events", &session, "--kind", "exec.dispatch", "--task", "filter"]);
    let dispatched: Vec<&str> = shown.lines().collect();
    assert!(dispatched.len() >= 2, "{shown}");
    assert!(dispatched.iter().all(|line| line.contains(" (plus/filter)")), "{shown}");
    let spaces: BTreeSet<&str> =
        dispatched.iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(spaces.len(), 2, "of both processes: {shown}");
    let shown = printed(&["events", &session, "--kind", "exec.dispatch"]);
    assert!(shown.contains(" (source → plus/filter)") && shown.contains(" (plus/filter → sink)"), "{shown}");
    let objects = printed(&["events", &session, "--kind", "exec.dispatch", "--json"]);
    let mut read = 0;
    for line in objects.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let (dispatch, called) = (&event["dispatch"], &event["called"]);
        assert!(dispatch["task"].is_u64() && called["task"].is_string(), "{line}");
        if dispatch["read"].is_object() {
            assert!(called["read"].as_str().is_some_and(|name| name.contains(" → ")), "{line}");
            read += dispatch["read"]["count"].as_u64().expect("a count");
        }
    }
    assert!(read > 0, "{objects}");
}

#[test]
fn a_run_is_drawn_with_its_figures() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let session = session(folder.path());
    let svg = printed(&["report", &session, "--graph", "svg"]);
    let mut reader = quick_xml::Reader::from_str(&svg);
    let (mut components, mut streams) = (BTreeSet::new(), BTreeSet::new());
    loop {
        match reader.read_event().expect("well-formed XML") {
            quick_xml::events::Event::Start(start) => {
                for attribute in start.attributes() {
                    let attribute = attribute.expect("an attribute");
                    let value = attribute.unescape_value().expect("text").into_owned();
                    match attribute.key.as_ref() {
                        b"data-component" => _ = components.insert(value),
                        b"data-stream" => _ = streams.insert(value),
                        _ => {}
                    }
                }
            }
            quick_xml::events::Event::Eof => break,
            _ => {}
        }
    }
    for space in ["1", "2"] {
        for component in ["source", "plus/filter", "sink"] {
            assert!(components.contains(&format!("{space}/{component}")), "{components:?}");
        }
    }
    assert!(streams.len() >= 4, "{streams:?}");
    let dot = printed(&["report", &session, "--graph", "dot"]);
    assert!(dot.starts_with("digraph run {") && dot.contains("1/plus/filter"), "{dot}");
}

#[test]
fn columns_that_are_asked_for_are_shown_and_others_are_errors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let session = session(folder.path());
    let shown = printed(&["streams", &session, "--columns", "read, written"]);
    assert_eq!(
        shown.lines().next().map(|line| line.split_whitespace().collect()),
        Some(vec!["STREAM", "READ", "WRITTEN"])
    );
    let output = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["streams", &session, "--columns", "read,colour"])
        .output()
        .expect("thalweg starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
    assert!(stderr.contains("`COLOUR`") && stderr.contains("WRITTEN"), "{stderr}");
}

#[test]
fn settings_are_wrapped_in_a_narrow_terminal_and_whole_in_a_pipe() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let session = session(folder.path());
    let report: Report = serde_json::from_str(&printed(&["report", &session, "--json"])).expect("a report");
    let space = &report.spaces[0].space.path;
    let whole = printed(&["get", space]);
    let doc = "How much longer the delayed task takes for each message";
    assert!(whole.contains(doc) && whole.contains("AFFECTS") && !whole.contains("… not shown"), "{whole}");
    let shown = |width: &str| {
        let mut get = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = get.args(["get", space]).env("COLUMNS", width).output().expect("thalweg starts");
        String::from_utf8(output.stdout).expect("text")
    };
    let narrow = shown("64");
    assert!(narrow.lines().all(|line| line.chars().count() <= 64), "{narrow}");
    assert!(narrow.contains("… not shown: ") && narrow.contains("AFFECTS"), "{narrow}");
    // The output has every setting, with its complete description.
    for setting in whole.lines().skip(1).filter_map(|line| line.split_whitespace().next()) {
        assert!(narrow.lines().any(|line| line.starts_with(&format!("{setting} "))), "{setting}: {narrow}");
    }
    assert!(doc.split(' ').all(|word| narrow.contains(word)), "{narrow}");
    assert!(!narrow.contains(doc), "it takes several lines: {narrow}");
}
