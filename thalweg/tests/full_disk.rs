//! A run that keeps its events (`--keep`) on a full disk: it prints a message, follows `--on-full`, and its
//! report mentions the full disk. Mounting a small disk needs root.

mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use program::{started, write};
use serde_json::{Value, json};

/// A file system with little room.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(test: &str, megabytes: u32) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "none"]).arg(folder.path());
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(folder));
        }
        // The line is written past the test harness, which would hide it, so that `cargo xtask test` can
        // count skipped tests.
        let line = format!("\nskipped: {test}: mounting a small file system needs root\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Fills the disk.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

/// A run whose space is on the disk, and its messages, line by line.
struct Run {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
    stderr: Receiver<String>,
    space: PathBuf,
}

const PRINTED_WITHIN: Duration = Duration::from_secs(60);

impl Run {
    fn start(disk: &SmallDisk, more: &[&str]) -> Run {
        let net = write(disk.path(), "same.snet", "net same connect [{<n>} -> {<n>}];");
        let space = disk.path().join("space");
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args([
            "run",
            &net,
            "--monitor",
            "full",
            "--workers",
            "1",
            "--keep",
            "--quantum",
            "1",
            "--space",
        ]);
        let mut child = started(command.arg(&space).args(more));
        let (input, output) = (child.stdin.take(), Some(BufReader::new(child.stdout.take().unwrap())));
        let (sender, stderr) = channel();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            let mut line = String::new();
            while errors.read_line(&mut line).is_ok_and(|count| count > 0) {
                let _ = sender.send(std::mem::take(&mut line));
            }
        });
        Run { child, input, output, stderr, space }
    }

    /// Passes one record through the run, so that all files that the run needs exist.
    fn one(&mut self) {
        self.input.as_mut().unwrap().write_all(b"{\"<n>\": 1}\n").unwrap();
        let mut line = String::new();
        self.output.as_mut().unwrap().read_line(&mut line).unwrap();
        assert_eq!(line, "{\"<n>\": 1}\n");
    }

    /// Starts one thread that writes `count` records, and another that reads the output.
    fn feed(&mut self, count: u64) -> (std::thread::JoinHandle<()>, std::thread::JoinHandle<u64>) {
        let mut input = self.input.take().unwrap();
        let feeding = std::thread::spawn(move || {
            // Errors are ignored, because a run that is stopped reads no further.
            let _ = (0..count).try_for_each(|n| input.write_all(format!("{{\"<n>\": {n}}}\n").as_bytes()));
        });
        let output = self.output.take().unwrap();
        (feeding, std::thread::spawn(move || output.lines().count() as u64))
    }

    /// The run's next line that contains this text.
    fn next_line_with(&self, wanted: &str) -> String {
        loop {
            let line = self
                .stderr
                .recv_timeout(PRINTED_WITHIN)
                .unwrap_or_else(|_| panic!("it never said {wanted:?}"));
            if line.contains(wanted) {
                return line;
            }
        }
    }

    fn end(mut self) -> (Option<i32>, Vec<String>, Value) {
        let code = self.child.wait().unwrap().code();
        let mut report = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let report = report.args(["report", "--json"]).arg(&self.space).output().unwrap();
        let report = serde_json::from_slice(&report.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&report.stderr)));
        (code, self.stderr.iter().collect(), report)
    }
}

/// Records that have more events than a small disk has room for.
const MANY: u64 = 200_000;

fn has_note(report: &Value, code: &str) -> bool {
    report["notes"].as_array().unwrap().iter().any(|note| note["code"] == json!(code))
}

#[test]
fn a_run_waits_for_a_full_disk_reports_it_and_goes_on_when_there_is_room() {
    let Some(disk) =
        SmallDisk::mount("a_run_waits_for_a_full_disk_says_so_and_goes_on_when_there_is_room", 200)
    else {
        return;
    };
    let mut run = Run::start(&disk, &[]);
    run.one();
    disk.fill();
    let (feeding, reading) = run.feed(MANY);
    let line = run.next_line_with("cannot be kept");
    assert!(line.starts_with("error[E0903]: ") && line.contains("No space left on device"), "{line}");
    assert!(line.contains("the run waits until there is room, and nothing is lost"), "{line}");
    assert!(!feeding.is_finished(), "it does not go on");
    // The run waits long enough for a verdict about the full disk.
    std::thread::sleep(Duration::from_secs(3));
    std::fs::remove_file(disk.filler()).unwrap();
    let line = run.next_line_with("kept again after");
    assert!(line.contains("none was lost"), "{line}");
    feeding.join().unwrap();
    assert_eq!(reading.join().unwrap(), MANY);
    let (code, stderr, report) = run.end();
    assert_eq!(code, Some(0), "{stderr:?}");
    assert!(!stderr.iter().any(|line| line.contains("cannot be kept")), "it says so once: {stderr:?}");
    assert_eq!((&report["window"]["lost"], &report["window"]["complete"]), (&json!(0), &json!(true)));
    assert!(report["window"]["disk_held_ns"].as_f64().unwrap() > 2e9, "{}", report["window"]);
    assert!(has_note(&report, "disk_full"), "{}", report["notes"]);
    let held = report["window"]["disk_held_ns"].as_f64().unwrap()
        / report["window"]["duration_ns"].as_f64().unwrap();
    assert_eq!(report["verdict"]["kind"] == json!("disk"), held >= 0.2, "{}", report["verdict"]);
}

#[test]
fn a_run_that_waits_for_a_full_disk_can_be_interrupted() {
    let Some(disk) = SmallDisk::mount("a_run_that_waits_for_a_full_disk_can_be_interrupted", 200) else {
        return;
    };
    let mut run = Run::start(&disk, &[]);
    run.one();
    disk.fill();
    let (feeding, reading) = run.feed(MANY);
    run.next_line_with("cannot be kept");
    let kill = Command::new("kill").args(["-INT", &run.child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    feeding.join().unwrap();
    reading.join().unwrap();
    let (code, stderr, report) = run.end();
    assert_eq!(code, Some(130), "{stderr:?}");
    assert_eq!(report["window"]["state"], json!("ended"), "{stderr:?}");
    // Whether a thread already waited when the signal came depends on timing.
    let is_printed = |text: &str| stderr.iter().any(|line| line.contains(text));
    let lost = report["window"]["lost"].as_u64().unwrap();
    assert_eq!(lost > 0, is_printed("events of the run are lost"), "{lost} {stderr:?}");
    assert!(lost == 0 || is_printed("the run ends while the disk"), "{stderr:?}");
}

#[test]
fn a_run_may_drop_events_and_count_them() {
    let Some(disk) = SmallDisk::mount("a_run_may_drop_events_and_count_them", 200) else { return };
    let mut run = Run::start(&disk, &["--on-full", "drop"]);
    run.one();
    disk.fill();
    let (feeding, reading) = run.feed(MANY);
    let line = run.next_line_with("cannot be kept");
    assert!(line.contains("the run goes on, and events that find no room are lost"), "{line}");
    feeding.join().unwrap();
    assert_eq!(reading.join().unwrap(), MANY, "no record is lost");
    let lost = run.next_line_with("events of the run are lost");
    let lost: u64 = lost.split(' ').next().unwrap().replace(',', "").parse().unwrap();
    let (code, stderr, report) = run.end();
    assert_eq!(code, Some(0), "{stderr:?}");
    assert_eq!(report["window"]["lost"], json!(lost), "{}", report["window"]);
    assert!(lost > 0 && has_note(&report, "disk_full"), "{}", report["notes"]);
    assert_ne!(report["verdict"]["kind"], json!("disk"), "nobody waited: {}", report["verdict"]);
}

#[test]
fn a_run_may_stop_in_order() {
    let Some(disk) = SmallDisk::mount("a_run_may_stop_in_order", 200) else { return };
    let mut run = Run::start(&disk, &["--on-full", "stop"]);
    run.one();
    disk.fill();
    let (feeding, reading) = run.feed(MANY);
    let line = run.next_line_with("cannot be kept");
    assert!(line.trim_end().ends_with("the run ends"), "{line}");
    feeding.join().unwrap();
    let out = reading.join().unwrap();
    let counts = run.next_line_with(" records in, ");
    let (records_in, _) = counts.split_once(" records in").unwrap();
    assert_eq!(
        records_in.replace(',', "").parse::<u64>().unwrap(),
        out + 1,
        "what went in came out: {counts}"
    );
    let (code, stderr, report) = run.end();
    assert_eq!(code, Some(1), "{stderr:?}");
    assert_eq!(report["window"]["state"], json!("ended"));
    assert!(out < MANY);
}

/// The error of a source that gets no element has the source's name and the reason.
#[test]
fn a_source_without_an_element_reports_the_reason() {
    // The disk has room for a worker's element and the space's own files, but not for the elements of all
    // threads.
    let Some(disk) = SmallDisk::mount("a_source_without_an_element_reports_the_reason", 3) else { return };
    let mut run = Run::start(&disk, &[]);
    drop(run.input.take());
    let code = run.child.wait().unwrap().code();
    let stderr: String = run.stderr.iter().collect();
    let mut out = String::new();
    run.output.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("source ended badly: ") || stderr.contains("sink ended badly: "), "{stderr}");
    assert!(
        stderr.contains("No space left on device") && stderr.contains("the file system is full"),
        "{stderr}"
    );
}
