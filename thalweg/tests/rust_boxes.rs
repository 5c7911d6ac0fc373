//! The example of a library in Rust, a crate of its own: built as a user builds it, run, and replaced while a
//! network runs.

mod controlled;
mod des_run;

use controlled::Run;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn example() -> PathBuf {
    des_run::root().join("bindings/box/example")
}

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let program = Path::new(env!("CARGO_BIN_EXE_thalweg"));
        let target = program.ancestors().nth(2).expect("a target folder").join("example-boxes");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--offline", "--release"]).current_dir(example());
        des_run::succeed(build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-D warnings"));
        target.join("release/libexample_boxes.so")
    })
}

struct Pipes {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Pipes {
    fn of(run: &mut Run) -> Pipes {
        let output = BufReader::new(run.child.stdout.take().expect("piped"));
        Pipes { input: run.child.stdin.take().expect("piped"), output }
    }

    /// Sends a record. Returns `count` output records, in the order of their text.
    fn through(&mut self, record: &str, count: usize) -> Vec<String> {
        writeln!(self.input, "{record}").expect("it reads");
        let mut lines: Vec<String> =
            (&mut self.output).lines().take(count).map(|line| line.expect("text")).collect();
        lines.sort();
        lines
    }
}

fn start() -> Run {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let network = std::fs::read_to_string(example().join("example.snet")).expect("the network");
    let network = network.replace("net example", "net first");
    Run::start_in(folder, &network, &["--boxes", library().to_str().expect("a path")])
}

#[test]
fn the_example_works_as_documented() {
    let mut run = start();
    let mut pipes = Pipes::of(&mut run);
    assert_eq!(pipes.through(r#"{"x": 1}"#, 1), ["{\"x\": 2}"]);
    let words = pipes.through(r#"{"text": "to incomprehensibility"}"#, 3);
    assert_eq!(words, ["{\"<count>\": 2}", "{\"word\": \"incomprehens\"}", "{\"word\": \"to\"}"]);
    assert_eq!(pipes.through(r#"{"samples": [1, 2.5]}"#, 1), ["{\"mean\": 1.75}"]);
    assert_eq!(pipes.through(r#"{"<last>": 2}"#, 2), ["{\"<n>\": 1}", "{\"<n>\": 2}"]);
    // One ticket was stamped twice, and its copy was stamped once: the two shared a value until the first
    // stamp, which made a copy of the value.
    let tickets = pipes.through(r#"{"<number>": 7}"#, 2);
    assert_eq!(tickets, ["{\"<number>\": 7, \"<stamps>\": 1}", "{\"<number>\": 7, \"<stamps>\": 2}"]);
    drop(pipes);
    assert!(run.end(0).contains("5 records in"));
}

#[test]
fn a_library_in_rust_is_loaded_anew_and_goes() {
    let mut run = start();
    let process = run.child.id();
    let mut pipes = Pipes::of(&mut run);
    for _ in 0..10 {
        pipes.through(r#"{"text": "to be or not"}"#, 5);
        pipes.through(r#"{"<number>": 7}"#, 2);
        assert!(run.done("reload", library().to_str()).starts_with("reloaded: "));
    }
    let images = || {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it lives");
        let executable = |line: &&str| line.contains("libexample_boxes") && line.contains("r-xp");
        maps.lines().filter(executable).count()
    };
    let until = Instant::now() + Duration::from_secs(60);
    while images() > 1 {
        assert!(Instant::now() < until, "{} images stay", images());
        std::thread::yield_now();
    }
    assert_eq!(pipes.through(r#"{"x": 1}"#, 1), ["{\"x\": 2}"]);
    drop(pipes);
    run.end(0);
}
