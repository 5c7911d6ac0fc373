//! Boxes that are slow for a known reason, in real runs: the accounts of their busy time, and the verdicts.
//! These boxes are slow on any machine; other programs on the machine change only how slow they are, not why.

mod program;

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use thalweg_monitor::{
    Asleep, BusyAccount, Component, Report, SleepsFor, Subject, VerdictKind, report_space,
};

use program::{Killed, fed};

/// The library of the boxes, compiled once, in cargo's folder for files of tests.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let made = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcauses.so");
        let mut compile = Command::new("cc");
        compile
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread", "-I"]);
        compile
            .arg(root.join("../bindings/c"))
            .arg(root.join("tests/causes/causes.c"))
            .arg("-o")
            .arg(&library);
        let output = compile.output().expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        library
    };
    LIBRARY.get_or_init(made)
}

/// A network of these boxes, in a folder that is removed when the value is dropped.
struct Planted {
    folder: tempfile::TempDir,
    net: String,
}

impl Planted {
    fn new(boxes: &[&str], connect: &str) -> Planted {
        let folder = tempfile::tempdir().expect("a folder");
        let declared: String =
            boxes.iter().map(|name| format!("    box {name} ((<n>) -> (<n>));\n")).collect();
        let net = program::write(
            folder.path(),
            "slow.snet",
            &format!("net slow {{\n{declared}}}\nconnect {connect};\n"),
        );
        Planted { folder, net }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["run", &self.net, "--workers", "2", "--boxes"]).arg(library()).args(options);
        command.arg("--space").arg(self.space()).env("CAUSES_FIFO", self.fifo());
        command
    }

    fn space(&self) -> PathBuf {
        self.folder.path().join("space")
    }

    fn fifo(&self) -> PathBuf {
        self.folder.path().join("fifo")
    }

    fn make_fifo(&self) {
        let made = Command::new("mkfifo").arg(self.fifo()).status().expect("mkfifo");
        assert!(made.success());
    }

    /// The report of a run on `records` records.
    fn run(&self, records: usize, options: &[&str]) -> Report {
        let output = fed(&mut self.command(options), &records_to(records));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.report()
    }

    fn report(&self) -> Report {
        let report = report_space(self.space(), 32).expect("a space");
        let whole = report.contradictions();
        assert!(whole.is_empty(), "{whole:?}");
        report
    }
}

fn records_to(count: usize) -> String {
    (0..count).map(|n| format!("{{\"<n>\": {n}, \"<k>\": {}}}\n", n % 2)).collect()
}

fn component<'r>(report: &'r Report, name: &str) -> &'r Component {
    let named = |component: &&Component| component.path.rsplit('/').next() == Some(name);
    report.components.iter().find(named).expect("it is in the report")
}

fn account<'r>(report: &'r Report, name: &str) -> &'r BusyAccount {
    component(report, name).work.account.as_ref().expect("its threads were looked at")
}

/// The fraction of its busy time that a box slept for the given reason.
fn slept(report: &Report, name: &str, what: SleepsFor) -> f64 {
    let account = account(report, name);
    account.asleep.parts()[what as usize] / account.total_ns()
}

/// Checks that the verdict names the box and the reason for which it sleeps.
fn check(report: &Report, name: &str, what: SleepsFor) {
    let found = &report.verdict.finding;
    let context = format!("{:?}\n{:?}", report.verdict.words, account(report, name));
    assert_eq!((found.kind, found.rule.as_str()), (VerdictKind::Task, "asleep"), "{context}");
    assert_eq!(found.component.as_ref().and_then(|path| path.rsplit('/').next()), Some(name), "{context}");
    assert!(found.figure(&format!("asleep_for_{}", what.word())).is_some(), "{context}");
    assert!(slept(report, name, what) > 0.5, "{context}");
}

#[test]
fn a_box_that_sleeps_is_reported_as_asleep_in_every_mode_and_wherever_it_runs() {
    for options in [&["--monitor", "metrics"][..], &["--monitor", "full"], &["--pin", "--monitor", "metrics"]]
    {
        let planted = Planted::new(&["cheap", "sleepy", "work"], "cheap .. sleepy .. work");
        let report = planted.run(30, options);
        check(&report, "sleepy", SleepsFor::Sleep);
        // Each dispatch is long, so its sleep is measured exactly and not only sampled.
        let measured = account(&report, "sleepy");
        assert!(measured.measured_ns > 0.9 * measured.total_ns(), "{measured:?}");
        assert!(measured.asleep.total_ns() > 30.0 * 49e6, "{measured:?}");
    }
}

#[test]
fn replicas_that_wait_for_one_lock_are_reported_as_asleep_for_it() {
    let planted = Planted::new(&["locked"], "locked ! <k>");
    let report = planted.run(3000, &[]);
    let found = &report.verdict.finding;
    assert_eq!((found.rule.as_str(), found.kind), ("asleep", VerdictKind::Task), "{:?}", report.verdict);
    let account = account(&report, "locked");
    assert!(slept(&report, "locked", SleepsFor::Lock) > 0.1, "{account:?}");
    assert!(account.lock.is_some(), "{account:?}");
    assert_eq!(found.value("share_the_lock"), 2.0, "{:?}", report.verdict);
}

#[test]
fn a_box_that_waits_for_a_pipe_is_reported_as_reading_or_writing() {
    let planted = Planted::new(&["cheap", "listens"], "cheap .. listens");
    planted.make_fifo();
    let fifo = planted.fifo();
    let feeding = std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(fifo).expect("a pipe");
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(5));
            pipe.write_all(b"x").expect("it is read");
        }
    });
    check(&planted.run(200, &[]), "listens", SleepsFor::Read);
    feeding.join().expect("it only writes");

    let planted = Planted::new(&["cheap", "speaks"], "cheap .. speaks");
    planted.make_fifo();
    let fifo = planted.fifo();
    let reading = std::thread::spawn(move || slow_reader(&fifo, Duration::from_millis(5)));
    check(&planted.run(400, &[]), "speaks", SleepsFor::Write);
    reading.join().expect("it only reads");
}

/// Reads a pipe, 8 KiB at a time, with a pause after each 8 KiB.
fn slow_reader(fifo: &Path, pause: Duration) {
    let mut pipe = std::fs::File::open(fifo).expect("a pipe");
    let mut bytes = [0; 8192];
    while std::io::Read::read(&mut pipe, &mut bytes).expect("it is written") > 0 {
        std::thread::sleep(pause);
    }
}

#[test]
fn a_sink_that_waits_for_its_reader_is_reported_as_writing() {
    let planted = Planted::new(&["cheap"], "cheap");
    planted.make_fifo();
    let fifo = planted.fifo();
    let place = fifo.display().to_string();
    // The pipe is read at 200 kB a second, more slowly than any machine writes, also without optimisation and
    // with other programs beside the test.
    let reading = std::thread::spawn(move || slow_reader(&fifo, Duration::from_millis(40)));
    let report = planted.run(12_000, &["--output", &place]);
    reading.join().expect("it only reads");
    let found = &report.verdict.finding;
    assert_eq!((found.kind, found.rule.as_str()), (VerdictKind::Sink, "sink"), "{:?}", report.verdict);
    assert!(report.verdict.words.text.contains("waits in `write`"), "{:?}", report.verdict);
}

#[test]
fn new_pages_are_counted_with_the_kernels_share() {
    let planted = Planted::new(&["faults"], "faults");
    let report = planted.run(400, &[]);
    let worker =
        report.workers.iter().max_by(|a, b| a.cpu_ns.unwrap_or(0.0).total_cmp(&b.cpu_ns.unwrap_or(0.0)));
    let worker = worker.expect("there are two");
    let account = worker.account.as_ref().expect("it was looked at");
    assert!(account.faults >= Some(400 * 1024), "{account:?}");
    assert!(account.kernel_ns > worker.cpu_ns.map(|ns| 0.3 * ns), "{worker:?}");
}

/// The box of each stage sleeps for most of the time of a message, so no task is busy, and no other message
/// can have begun.
#[test]
fn a_limit_on_messages_under_way_is_named() {
    let planted = Planted::new(&["naps", "cheap"], "naps .. cheap .. naps .. cheap .. naps .. cheap .. naps");
    let report = planted.run(1000, &["--unfinished", "1", "--workers-max", "8", "--set", "exec.workers=7"]);
    assert_eq!(report.verdict.finding.rule, "unfinished", "{:?}", report.verdict);
    assert_eq!(report.limits.map(|limits| limits.unfinished), Some(1));
}

#[test]
fn sampling_stays_within_its_budget() {
    let planted = Planted::new(&["sleepy"], "sleepy");
    let report = planted.run(30, &[]);
    let processors = report.processors.expect("it was recorded");
    assert!(processors.looks > 10, "{processors:?}");
    // Sampling must stay within its budget, with an allowance for its beginning and its end.
    assert!(processors.sampling_ns <= 0.003 * (processors.span_ns + 250e6) + 5e6, "{processors:?}");
    assert!(processors.run_ns >= processors.sampling_ns, "{processors:?}");
}

/// Feeds a run that does not end by itself, and waits until its report has the verdict `kind`.
fn live(planted: &Planted, wanted: VerdictKind) -> Report {
    let mut command = planted.command(&["--control"]);
    let mut run = Killed::start(command.stderr(Stdio::null()), planted.folder.path());
    let mut input = run.child.stdin.take().expect("piped");
    input.write_all(records_to(40).as_bytes()).expect("it reads");
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let report = report_space(planted.space(), 32);
        match report {
            Ok(report) if report.verdict.finding.kind == wanted => return report,
            Ok(report) => {
                assert!(
                    Instant::now() < until,
                    "not within a minute: {:?}\n{:?}",
                    report.verdict,
                    report.waiting
                );
            }
            Err(error) => assert!(Instant::now() < until, "not within a minute: {error:#}"),
        }
        assert!(run.child.try_wait().expect("it is ours").is_none(), "the run has ended");
    }
}

#[test]
fn boxes_that_wait_for_each_others_locks_are_a_deadlock() {
    let planted = Planted::new(&["forth", "back"], "forth .. back");
    let report = live(&planted, VerdictKind::Deadlock);
    let hanging: Vec<_> =
        report.verdict.finding.figures.iter().filter_map(|figure| figure.of.as_ref()).collect();
    let is_reported = |name: &str, holder: &str| {
        hanging.iter().any(|subject| {
            matches!(subject, Subject::Hanging(one) if one.name.ends_with(name)
                && one.sleeps_for == SleepsFor::Lock && one.holder.as_ref().is_some_and(|by| by.ends_with(holder)))
        })
    };
    assert!(is_reported("forth", "back") && is_reported("back", "forth"), "{hanging:?}");
    assert!(report.verdict.words.text.contains("each other's locks"), "{:?}", report.verdict);
}

#[test]
fn a_box_that_waits_for_what_never_comes_hangs() {
    let planted = Planted::new(&["cheap", "waits_for_more", "work"], "cheap .. waits_for_more .. work");
    planted.make_fifo();
    // The FIFO is kept open for writing, but nothing is written into it.
    let _pipe = std::fs::OpenOptions::new().read(true).write(true).custom_flags(0).open(planted.fifo());
    let report = live(&planted, VerdictKind::Hang);
    let found = &report.verdict.finding;
    assert_eq!(found.component.as_deref(), Some("slow/waits_for_more"), "{:?}", report.verdict);
    assert!(report.verdict.words.text.contains("`read`"), "{:?}", report.verdict);
}

#[test]
fn parts_of_sleep_are_in_the_order_of_their_kinds() {
    let asleep = Asleep {
        lock_ns: 1.0,
        read_ns: 2.0,
        write_ns: 3.0,
        sleep_ns: 4.0,
        page_fault_ns: 5.0,
        other_ns: 6.0,
    };
    assert_eq!(asleep.parts(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(asleep.most(), Some((SleepsFor::Other, 6.0)));
}
