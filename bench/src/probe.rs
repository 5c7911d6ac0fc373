//! Group `probe`: the cost of a recorded call in C, C++ and Rust, compared with the two readings of the clock
//! that it needs; and the cost of a probe that is off, compared with no probe.

use crate::cores::on_cores;
use crate::foreign::output;
use crate::measure::{Case, Contestant, Goal, repeated};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use thalweg_probe::probe;
use thalweg_space::Clock;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/probe/one.c");
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bindings/c");
/// The goal for a call as one event: 1.05 times two readings of the clock, which is 2.1 readings in all.
const GOAL: Goal = Goal::RatioAtMost(1.05);

#[probe(name = "bench.recorded")]
#[inline(never)]
fn recorded() {
    black_box(());
}

#[inline(never)]
fn without() {
    black_box(());
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for (language, compiler, options) in
        [("C", "cc", &["-x", "c", "-std=gnu11"]), ("C++", "c++", &["-x", "c++", "-std=c++17"])]
    {
        cases.push(Case {
            group: "probe",
            name: "a call as one event".into(),
            params: vec![("language", language.into())],
            unit: "ns",
            ours: program(compiler, options, "recorded", "THALWEG_PROBE"),
            rivals: Vec::new(),
            limit: Some(program(compiler, options, "clock", "two readings of the clock")),
            goal: GOAL,
        });
        cases.push(Case {
            group: "probe",
            name: "switched off".into(),
            params: vec![("language", language.into())],
            unit: "ns",
            ours: program(compiler, options, "off", "THALWEG_PROBE"),
            rivals: Vec::new(),
            limit: Some(program(compiler, options, "without", "without a probe")),
            goal: Goal::OverAtMost(1.0),
        });
    }
    cases.push(in_rust());
    cases
}

fn in_rust() -> Case<'static> {
    let ours = Contestant::nanoseconds("#[probe]", "", 1, |count| {
        static OUTER: thalweg_probe::Operation =
            thalweg_probe::Operation::new("bench.outer", file!(), line!());
        let _outer = OUTER.enter();
        Ok(repeated(count, |_| recorded()))
    });
    let clock = Clock::new();
    let limit = Contestant::nanoseconds("two readings of the clock", "", 1, move |count| {
        Ok(repeated(count, |_| {
            without();
            black_box(clock.now());
            black_box(clock.now());
        }))
    });
    Case {
        group: "probe",
        name: "a call as one event".into(),
        params: vec![("language", "Rust".into())],
        unit: "ns",
        ours,
        rivals: Vec::new(),
        limit: Some(limit),
        goal: GOAL,
    }
}

/// The program in C or C++ (`probe/one.c`) that repeats one of the four functions that are measured.
fn program(
    compiler: &'static str,
    options: &'static [&'static str],
    what: &'static str,
    name: &str,
) -> Contestant<'static> {
    let mut running: Option<Running> = None;
    Contestant::nanoseconds(name, "", 1, move |count| {
        let running = match &mut running {
            Some(running) => running,
            none => none.insert(Running::start(compiler, options, what)?),
        };
        running.take(count)
    })
}

struct Running {
    process: Child,
    counts: ChildStdin,
    took: Lines<BufReader<ChildStdout>>,
    folder: PathBuf,
}

impl Running {
    fn start(compiler: &str, options: &[&str], what: &str) -> Result<Running, String> {
        let folder = std::env::temp_dir()
            .join(format!("thalweg-bench-probe-{compiler}-{what}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let program = folder.join("one");
        let mut compile = Command::new(compiler);
        compile.args(options).args(["-O2", "-I", HEADERS, SOURCE, "-o"]).arg(&program);
        output(&mut compile)?;
        let mut start = Command::new(&program);
        // The space is in memory, which is the default place of spaces.
        let spaces = Path::new("/dev/shm").join(format!("thalweg-bench-{}", std::process::id()));
        start.arg(what).env("THALWEG_SPACES", &spaces).env_remove("THALWEG_SESSION");
        let spawn = || start.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process =
            on_cores(1, spawn).map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let counts = process.stdin.take().expect("it is piped");
        let took = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Ok(Running { process, counts, took, folder })
    }

    fn take(&mut self, count: u64) -> Result<Duration, String> {
        writeln!(self.counts, "{count}").map_err(|error| error.to_string())?;
        let line = self.took.next().ok_or("the program ended")?.map_err(|error| error.to_string())?;
        line.parse().map(Duration::from_nanos).map_err(|_| line)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
        std::fs::remove_dir_all(Path::new("/dev/shm").join(format!("thalweg-bench-{}", std::process::id())))
            .ok();
    }
}
