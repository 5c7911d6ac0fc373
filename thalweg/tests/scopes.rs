//! `thalweg scope` and `thalweg serve` on real runs: views agree with `thalweg report` on the same run.

mod program;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use program::{Killed, write};
use serde_json::Value;
use thalweg_scope::{Backlog, Pulled, Scope, Target, built_in};
use thalweg_space::reader::SpaceReader;

const RECORDS: u64 = 5000;

fn thalweg(spaces: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.env("THALWEG_SPACES", spaces).stdin(Stdio::null());
    command
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Runs a network of two filters and keeps the run's space.
fn kept(folder: &Path) -> String {
    let net =
        write(folder, "two.snet", "net two connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}];");
    let lines: String = (0..RECORDS).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let input = write(folder, "input", &lines);
    let space = folder.join("kept").display().to_string();
    let mut run = thalweg(folder);
    run.args(["run", &net, "--input", &input, "--monitor", "full", "--keep", "--space", &space]);
    stdout(&run.output().expect("thalweg starts"));
    space
}

#[test]
fn what_dispatches_read_agrees_with_the_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path());
    let report =
        stdout(&thalweg(folder.path()).args(["report", &space, "--json"]).output().expect("thalweg starts"));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let mut expected: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let number = |value: &Value| value.as_u64().expect("a number");
    for component in report["components"].as_array().expect("components") {
        let path = component["path"].as_str().expect("a path").to_owned();
        let work = &component["work"];
        expected.insert(path, [number(&work["dispatches"]), number(&work["messages_in"])]);
    }
    let view = stdout(
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
        stdout(&thalweg(folder.path()).args(["scope", "ls", "--json"]).output().expect("thalweg starts"));
    for view in objects(&list) {
        let name = view["name"].as_str().expect("a name");
        let pull = |more: &[&str]| {
            let mut command = thalweg(folder.path());
            command.args(["scope", name, &space, "--json"]).args(more);
            stdout(&command.output().expect("thalweg starts"))
        };
        let here = pull(&[]);
        let there = pull(&["--server", socket.to_str().expect("UTF-8")]);
        assert_eq!(objects(&here).len(), objects(&there).len(), "{name}");
        let mut with_the_word = thalweg(folder.path());
        with_the_word.args(["scope", "pull", name, &space, "--json"]);
        let with_the_word = stdout(&with_the_word.output().expect("thalweg starts"));
        assert_eq!(objects(&here).len(), objects(&with_the_word).len(), "{name}");
        // Figures that do not depend on the time of the pull are equal.
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
    stdout(&thalweg(folder.path()).args(["scope", "check", &view]).output().expect("thalweg starts"));
    let found = stdout(
        &thalweg(folder.path()).args(["scope", &view, &space, "--json"]).output().expect("thalweg starts"),
    );
    let events = stdout(
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
    // An unknown kind may belong to a user's program, so it causes only a warning.
    let doubtful = write(folder.path(), "doubtful.toml", &right.replace("task_created", "task_creatd"));
    let output = thalweg(folder.path()).args(["scope", "check", &doubtful]).output().expect("thalweg starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert!(
        complaint.contains("warning: no kind `exec.task_creatd` is known")
            && complaint.contains("doubtful.toml:5:11")
            && complaint.contains("did you mean `exec.task_created`?"),
        "{complaint}"
    );
    let unknown = thalweg(folder.path()).args(["scope", "taks"]).output().expect("thalweg starts");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean `tasks`?"));
}

/// A run of two filters that lives until it is dropped.
struct Live {
    run: Killed,
    output: BufReader<std::process::ChildStdout>,
    space: PathBuf,
    sent: u64,
}

impl Live {
    fn start(folder: &Path) -> Live {
        let net = write(
            folder,
            "two.snet",
            "net two connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}];",
        );
        let space = folder.join("live");
        let mut command = thalweg(folder);
        command.args(["run", &net, "--monitor", "full", "--workers", "2", "--space"]).arg(&space);
        let mut run = Killed::start(command.stderr(Stdio::null()), folder);
        let output = BufReader::new(run.child.stdout.take().expect("piped"));
        let mut live = Live { run, output, space, sent: 0 };
        live.send(1);
        live
    }

    /// Sends records through the run, and returns when its tasks have recorded them.
    fn send(&mut self, count: u64) {
        let input = self.run.child.stdin.as_mut().expect("open");
        (0..count).for_each(|n| writeln!(input, "{{\"<n>\": {n}}}").expect("it reads"));
        input.flush().expect("it reads");
        let mut line = String::new();
        for _ in 0..count {
            self.output.read_line(&mut line).expect("it writes");
        }
        self.sent += count;
        let begun = Instant::now();
        while self.totals()[0] < 3 * self.sent {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?} of {}", self.totals(), self.sent);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The messages read and written by all tasks, from the live table.
    fn totals(&self) -> [u64; 2] {
        let rows = SpaceReader::open(&self.space).and_then(|space| space.live_rows()).expect("a table");
        let tasks = rows.iter().filter(|row| row.kind_name() == "exec.task");
        tasks.fold([0; 2], |[reads, writes], row| {
            let cell = |name: &str| row.cell(name).unwrap_or(0);
            [reads + cell("reads"), writes + cell("writes")]
        })
    }
}

#[test]
fn an_overview_shows_how_fast_a_process_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut live = Live::start(folder.path());
    let view = built_in().iter().find(|view| view.name == "overview").expect("it is built in").view();
    let mut scope = Scope::open(&view, Target::of(&live.space), Backlog::Nothing).expect("a space");
    let outer = Instant::now();
    drop(scope.pull());
    let inner = Instant::now();
    let before = live.totals();
    live.send(2000);
    std::thread::sleep(Duration::from_millis(50));
    let after = live.totals();
    let inner = inner.elapsed();
    let pulled = scope.pull();
    let outer = outer.elapsed();
    let rows: Vec<_> = pulled.batch.tuples().collect();
    assert_eq!(rows.len(), 1, "a line for each process");
    let number = |name: &str| rows[0].field(name).and_then(|value| value.number()).unwrap_or(f64::NAN);
    assert_eq!(number("process.pid"), f64::from(live.run.child.id()));
    // The rate is the increase between two readings divided by the time between them, and this time is known
    // only within bounds.
    for (n, name) in ["reads/s", "writes/s"].into_iter().enumerate() {
        let grown = (after[n] - before[n]) as f64;
        assert!(grown >= 6000.0, "{grown}");
        let (least, most) = (grown / outer.as_secs_f64(), grown / inner.as_secs_f64());
        let found = number(name);
        assert!((0.999 * least..=1.001 * most).contains(&found), "{name}: {found}, not {least} to {most}");
    }
    for share in ["busy", "no input", "no room", "ready"] {
        let share = number(share);
        assert!(share >= 0.0, "{share}");
    }
    assert!(number("no input") > 0.0, "tasks wait for input most of the time");
    // The command prints a line for each process of a session.
    let printed = thalweg(folder.path())
        .args(["scope", "overview"])
        .arg(&live.space)
        .args(["--every", "100ms", "--for", "250ms"])
        .output()
        .expect("thalweg starts");
    let printed = stdout(&printed);
    let pid = live.run.child.id().to_string();
    assert!(printed.starts_with("PROCESS.NAME") && printed.contains("READS/S"), "{printed}");
    assert!(printed.lines().filter(|line| line.contains(&pid)).count() >= 2, "{printed}");
}

#[test]
fn a_rate_lets_so_many_tuples_through_and_counts_the_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path());
    let pull = |more: &[&str]| {
        let mut command = thalweg(folder.path());
        command.args(["scope", "events", &space, "--json"]).args(more);
        command.output().expect("thalweg starts")
    };
    let all = objects(&stdout(&pull(&[]))).len() as u64;
    let some = objects(&stdout(&pull(&["--rate", "100"])));
    let (gaps, events): (Vec<&Value>, Vec<&Value>) =
        some.iter().partition(|object| object["kind"] == "scope.gap");
    let lost: u64 = gaps.iter().map(|gap| gap["fields"]["lost"].as_u64().expect("a count")).sum();
    assert_eq!((events.len(), lost), (100, all - 100), "of {all}");
    for wrong in ["0", "-1", "NaN"] {
        let refused = pull(&[&format!("--rate={wrong}")]);
        let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(2) && complaint.contains("lets nothing through"),
            "{complaint}"
        );
    }
}

/// Starts `thalweg record` with the view `view` of the run in `space`.
fn recorder(folder: &Path, view: &str, space: &Path, kept: &str, more: &[&str]) -> Child {
    let mut command = thalweg(folder);
    command.args(["record", view]).arg(space).args(["--output", kept, "--sync", "20ms", "--every", "10ms"]);
    command.args(["--budget", "100"]).args(more).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("thalweg starts")
}

fn pulled(view: &str, path: &Path) -> Pulled {
    let known = built_in().iter().find(|known| known.name == view).map(thalweg_scope::BuiltIn::view);
    let view = known.unwrap_or_else(|| thalweg_scope::View::read(view).expect("a view"));
    Scope::open(&view, Target::of(path), Backlog::All).expect("a space").pull_since()
}

#[test]
fn a_view_is_recorded_and_read_as_any_archive() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let mut live = Live::start(folder);
    let view = write(
        folder,
        "long.toml",
        "format = 1\nname = \"long\"\nabout = \"Which dispatches last?\"\n[[leaf]]\n\
         kinds = [\"exec.dispatch\", \"exec.dispatch_long\"]\n[[step]]\ndo = \"filter\"\nwhen = \"duration > 0 ns\"\n",
    );
    let (raw, sums) = (folder.join("raw"), folder.join("sums"));
    let recorders = [
        recorder(folder, &view, &live.space, raw.to_str().expect("UTF-8"), &[]),
        recorder(folder, "dispatches", &live.space, sums.to_str().expect("UTF-8"), &[]),
    ];
    for _ in 0..20 {
        live.send(50);
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = live.sent;
    // When the run ends, its space stays as it is.
    let space = live.space.clone();
    let kept = folder.join("copy");
    let mut whole = thalweg(folder);
    whole.args(["record"]).arg(&space).arg("--output").arg(&kept).args(["--for", "10ms"]);
    drop(live.run.child.stdin.take());
    assert!(live.run.child.wait().expect("it ends").success());
    assert!(whole.output().expect("thalweg starts").status.success());
    for recorder in recorders {
        let output = recorder.wait_with_output().expect("it ends");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && complaint.contains("none is lost"), "{complaint}");
    }
    // The archive has the tuples that the view gives for the whole run.
    let text = std::fs::read_to_string(&view).expect("it was written");
    let (expected, found) = (pulled(&text, &kept), pulled("events", &raw));
    let number =
        |tuple: &thalweg_scope::Tuple<'_>, name: &str| tuple.field(name).and_then(|value| value.number());
    // The tuples, sorted by their elements and sequence numbers.
    let of = |pulled: &Pulled,
              from: &dyn Fn(&thalweg_scope::Tuple<'_>) -> String|
     -> BTreeMap<String, (String, [f64; 2])> {
        let tuples = pulled.batch.tuples().filter(|tuple| tuple.lost().is_none());
        let row = |tuple: thalweg_scope::Tuple<'_>| {
            let values = ["reads", "writes", "outcome", "task.component"]
                .map(|name| format!("{:?}", tuple.field(name)));
            let times = ["duration", "ready"].map(|name| number(&tuple, name).expect("a time"));
            (from(&tuple), (format!("{} {values:?}", tuple.kind().name), times))
        };
        tuples.map(row).collect()
    };
    let expected = of(&expected, &|tuple| {
        format!("{:?} {}", tuple.element().map(|element| element.name.to_string()), tuple.head().sequence)
    });
    let found = of(&found, &|tuple| match tuple.field("from.element") {
        Some(thalweg_scope::Value::Text(element)) => {
            format!("{:?} {}", Some(element.to_owned()), number(tuple, "from.sequence").unwrap_or(f64::NAN))
        }
        other => panic!("{other:?}"),
    });
    assert!(expected.len() > 100, "{}", expected.len());
    assert!(found.keys().eq(expected.keys()), "{} of {}", found.len(), expected.len());
    for (key, (values, times)) in &expected {
        let (found, found_times) = &found[key];
        assert_eq!(found, values, "{key}");
        // The length of a tick was measured until the run ended, so times differ slightly.
        let is_near = |n: usize| (found_times[n] - times[n]).abs() <= 2.0 + 1e-4 * times[n];
        assert!(is_near(0) && is_near(1), "{key}: {found_times:?}, {times:?}");
    }
    // A view with sums gives a row for each pull; the rows together cover the whole run.
    let sums = pulled("events", &sums);
    let sink = sums
        .batch
        .tuples()
        .filter(|tuple| tuple.field("task.component") == Some(thalweg_scope::Value::Text("sink")));
    let read: f64 = sink.filter_map(|tuple| number(&tuple, "read")).sum();
    assert_eq!(read as u64, sent);
    // Other commands read the archive, and no space is left behind.
    let events = stdout(
        &thalweg(folder)
            .args(["events", raw.to_str().expect("UTF-8"), "--json"])
            .output()
            .expect("thalweg starts"),
    );
    assert_eq!(events.lines().count(), found.len());
    let left = std::fs::read_dir(folder).expect("a folder").flatten();
    let left: Vec<_> = left
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().contains("view recorder"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_recorder_of_a_view_ends_at_ctrl_c_and_errors_are_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let mut live = Live::start(folder);
    let kept = folder.join("kept");
    let kept = kept.to_str().expect("UTF-8");
    let recorder = recorder(folder, "tasks", &live.space, kept, &[]);
    let begun = Instant::now();
    let has_some = || {
        let events = thalweg(folder).args(["events", kept, "--limit", "1"]).output().expect("thalweg starts");
        !events.stdout.is_empty()
    };
    while !has_some() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is recorded");
        live.send(1);
    }
    let pid = recorder.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("there is a kill").success());
    let output = recorder.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let refused = |arguments: &[&str], wanted: &str| {
        let mut command = thalweg(folder);
        command.arg("record").args(arguments).args(["--output", kept]);
        let output = command.output().expect("thalweg starts");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && complaint.contains(wanted), "{arguments:?}: {complaint}");
    };
    let space = live.space.to_str().expect("UTF-8");
    refused(&["taks", space], "did you mean `tasks`?");
    refused(&["tasks", space, "--writer", "w*"], "`element`");
    refused(&["tasks", space], "the archive of another space");
    refused(&["missing.toml", space], "there is no file");
}
