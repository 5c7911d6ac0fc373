//! `cargo xtask paper lpel`: the tables of the LPEL paper (Nguyen, Kirner and Penczek, A
//! Multi-level Monitoring Framework for Stream-based Coordination Programs, 2012) with the paper's figures
//! and ours side by side, as Markdown; `cargo xtask paper mate`: the tables of the MATE paper.

mod instructions;
mod mate;
mod pvm;
mod sort;
mod sweep;

use crate::app::{self, App};
use crate::process;
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::Instant;

const HELP: &str = "\
Prints the tables of the LPEL paper with our figures beside theirs.

usage: cargo xtask paper lpel [--app NAME | --sweep] [--instructions] [--repeats N] [--scale quick|usual|paper]

  --app NAME     only one of ant, des-fine, des-coarse, mc, rt
  --sweep        instead: what each mode costs a message of 0.1 to 100 µs of work (DES, chunks of 8 bytes to 384 KiB)
  --instructions instead: the overheads counted in instructions (by valgrind's callgrind, on small inputs and one worker),
                 which other programs do not disturb; the least of N counts of each, and which counts strayed from it
  --repeats N    so many runs of each kind, by turns (10); intervals hold the true median with 95 % confidence
  --scale quick  small inputs: a minute for all; the figures say little
  --scale usual  the default: the paper's, but 100 steps of ants and 100,000 price paths
  --scale paper  the paper's inputs: 1,000 steps, a million paths; half an hour and more
";

/// One application of the paper, with the paper's figures.
struct Case {
    name: &'static str,
    app: &'static str,
    /// Makes the input for an amount (of steps, bytes, paths, or scenes).
    input: fn(usize) -> Input,
    /// The amount of input for each scale.
    amounts: [usize; 3],
    /// The amount of input whose instructions can be counted in some seconds.
    counted: usize,
    /// Further arguments.
    arguments: &'static [&'static str],
    /// The number of messages in the paper's table I, if it is known.
    messages: Option<&'static str>,
    /// The paper's overhead of all monitoring, in percent.
    overhead: f64,
    /// The goal: the largest overhead of Thalweg, in percent.
    goal: f64,
}

enum Input {
    Record(String),
    /// A file of `bytes` bytes in chunks of `chunk` bytes.
    Bytes(usize, usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Quick,
    Usual,
    Paper,
}

impl Scale {
    fn choose<T>(self, quick: T, usual: T, paper: T) -> T {
        match self {
            Scale::Quick => quick,
            Scale::Usual => usual,
            Scale::Paper => paper,
        }
    }
}

const CASES: [Case; 5] = [
    Case {
        name: "ant",
        app: "ant",
        input: |steps| {
            Input::Record(format!(r#"{{"<jobs>": 1000, "<ants>": 45, "<steps>": {steps}, "<seed>": 1}}"#))
        },
        amounts: [5, 100, 1000],
        counted: 4,
        arguments: &[],
        messages: None,
        overhead: 3.45,
        goal: 1.0,
    },
    Case {
        name: "des-fine",
        app: "des",
        input: |bytes| Input::Bytes(bytes, 40),
        amounts: [50_000, 500_000, 500_000],
        counted: 50_000,
        arguments: &[],
        messages: Some("470,000"),
        overhead: 3.90,
        goal: 3.0,
    },
    Case {
        name: "des-coarse",
        app: "des",
        input: |bytes| Input::Bytes(bytes, 16384),
        amounts: [2_000_000, 50_000_000, 50_000_000],
        counted: 2_000_000,
        arguments: &["--capacity", "8"],
        messages: None,
        overhead: 3.90,
        goal: 1.0,
    },
    Case {
        name: "mc",
        app: "mc",
        input: |paths| {
            Input::Record(format!(
                r#"{{"spot": 100.0, "strike": 105.0, "rate": 0.03, "volatility": 0.25, "years": 1.0, "<paths>": {paths}}}"#
            ))
        },
        amounts: [2_000, 100_000, 1_000_000],
        counted: 1_000,
        arguments: &[],
        messages: None,
        overhead: 23.14,
        goal: 3.0,
    },
    Case {
        name: "rt",
        app: "rt",
        input: |scenes| {
            Input::Record(format!(
                r#"{{"<scenes>": {scenes}, "<solvers>": 4, "<width>": 160, "<height>": 120}}"#
            ))
        },
        amounts: [8, 100, 100],
        counted: 4,
        arguments: &[],
        messages: None,
        overhead: -0.17,
        goal: 1.0,
    },
];

impl Case {
    fn input(&self, scale: Scale) -> Input {
        (self.input)(scale.choose(self.amounts[0], self.amounts[1], self.amounts[2]))
    }
}

/// The kinds of run of table II. The other kinds are compared with the first. The last kind corresponds to
/// what the paper measured, because LPEL writes every event to a file; mode full without `--keep` overwrites
/// the oldest events.
const KINDS: [Kind; 5] = [
    Kind { mode: "off", ..Kind::OFF },
    Kind { probes: true, ..Kind::OFF },
    Kind { probes: true, mode: "metrics", ..Kind::OFF },
    Kind { probes: true, mode: "full", ..Kind::OFF },
    Kind { probes: true, mode: "full", kept: true },
];

/// A kind of run.
struct Kind {
    /// Whether monitoring is built into the program.
    probes: bool,
    mode: &'static str,
    /// Whether every event is kept; then no event is overwritten, and a thread of the run writes all events
    /// to files.
    kept: bool,
}

impl Kind {
    const OFF: Kind = Kind { probes: false, mode: "off", kept: false };

    fn name(&self) -> &'static str {
        match self {
            Kind { probes: false, .. } => "no probes",
            Kind { kept: true, .. } => "full, kept",
            Kind { mode, .. } => mode,
        }
    }
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let is_mate = arguments.try_raw_args().is_some_and(|raw| raw.peek().is_some_and(|first| first == "mate"));
    if is_mate {
        arguments.next()?;
        return mate::run(arguments);
    }
    let (mut paper, mut only, mut sweep, mut instructions, mut repeats, mut scale) =
        (None, None, false, false, 10_usize, Scale::Usual);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            Long("app") => only = Some(arguments.value()?.string()?),
            Long("sweep") => sweep = true,
            Long("instructions") => instructions = true,
            Long("repeats") => repeats = arguments.value()?.parse()?,
            Long("scale") => {
                scale = match arguments.value()?.string()?.as_str() {
                    "quick" => Scale::Quick,
                    "usual" => Scale::Usual,
                    "paper" => Scale::Paper,
                    other => bail!("there is no scale `{other}`; there are quick, usual, paper"),
                };
            }
            Value(value) if paper.is_none() => paper = Some(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    if paper.as_deref() != Some("lpel") || repeats == 0 {
        bail!(
            "there are `cargo xtask paper lpel`, with one repeat at least, and `cargo xtask paper mate`; --help says more"
        );
    }
    if sweep {
        if only.is_some() || instructions {
            bail!("--sweep runs DES by the clock; it takes neither --app nor --instructions");
        }
        return sweep::print(&Programs::build()?, repeats, scale.choose(0.05, 0.5, 2.0))
            .map(|()| ExitCode::SUCCESS);
    }
    let cases: Vec<&Case> =
        CASES.iter().filter(|case| only.as_ref().is_none_or(|name| *name == case.name)).collect();
    if cases.is_empty() {
        bail!("there is no such app; there are {}", CASES.map(|case| case.name).join(", "));
    }
    if instructions {
        return instructions::print(&cases, repeats).map(|()| ExitCode::SUCCESS);
    }
    let programs = Programs::build()?;
    let runs = cases
        .iter()
        .map(|case| Runs::prepare(case.name, case.app, case.arguments, case.input(scale), &programs))
        .collect::<Result<Vec<_>>>()?;
    let seen = runs.iter().map(Runs::seen).collect::<Result<Vec<_>>>()?;
    print_structure(&cases, &seen);
    print_overheads(&cases, &runs, &seen, repeats)?;
    print_waiting(&cases, &seen);
    if let Some(case) = cases.iter().find(|case| case.name == "mc") {
        print_mappings(case, scale, &programs, repeats)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The program with and without probes.
struct Programs {
    probes: PathBuf,
    none: PathBuf,
}

impl Programs {
    fn build() -> Result<Programs> {
        app::build(&["app-ant", "app-des", "app-mc", "app-rt"])?;
        let target = process::target_dir().join("no-probes");
        let mut build = process::cargo();
        build
            .args(["build", "--release", "--quiet", "--locked", "-p", "thalweg", "--target-dir"])
            .arg(&target);
        process::run(build.env("RUSTFLAGS", "--cfg thalweg_no_probes"))?;
        Ok(Programs {
            probes: process::target_dir().join("release/thalweg"),
            none: target.join("release/thalweg"),
        })
    }
}

/// What is needed to run one application.
struct Runs<'a> {
    programs: &'a Programs,
    folder: PathBuf,
    /// The arguments of the command `thalweg`.
    arguments: Vec<std::ffi::OsString>,
}

impl<'a> Runs<'a> {
    /// Prepares the runs of an app on two workers, unless the arguments `more` say otherwise; `name` is the
    /// name of a folder.
    fn prepare(
        name: &str,
        app: &str,
        more: &[&str],
        input: Input,
        programs: &'a Programs,
    ) -> Result<Runs<'a>> {
        let folder = process::target_dir().join("paper").join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let app = App::named(app).context("every case has its app")?;
        let mut command = app.command(&folder)?;
        command.args(more);
        if !more.contains(&"--workers") {
            command.args(["--workers", "2"]);
        }
        let mut arguments: Vec<_> = command.get_args().map(Into::into).collect();
        let file = folder.join("input");
        match input {
            Input::Record(record) => std::fs::write(&file, record)?,
            Input::Bytes(bytes, chunk) => {
                std::fs::write(&file, (0..bytes).map(|n| ((n / 7) ^ n) as u8).collect::<Vec<_>>())?;
                replace(&mut arguments, "--chunk", &chunk.to_string());
            }
        }
        replace(&mut arguments, "--input", &file.display().to_string());
        Ok(Runs { programs, folder, arguments })
    }

    fn command(&self, program: &Path, mode: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(process::root()).args(&self.arguments).args(["--monitor", mode]);
        command
    }

    /// The command for a run of one of [`KINDS`]; the events of the former run of this kind are removed
    /// first.
    fn of_kind(&self, kind: usize) -> Result<Command> {
        let Kind { probes, mode, kept } = KINDS[kind];
        let mut command =
            self.command(if probes { &self.programs.probes } else { &self.programs.none }, mode);
        if kept {
            command.args(["--keep", "--space"]).arg(self.fresh_space()?);
        }
        Ok(command)
    }

    /// The empty folder where a run keeps its events.
    fn fresh_space(&self) -> Result<PathBuf> {
        let space = self.folder.join("space");
        if space.exists() {
            std::fs::remove_dir_all(&space)?;
        }
        Ok(space)
    }

    /// Measures a run in mode full that keeps all events.
    fn seen(&self) -> Result<Seen> {
        let space = self.fresh_space()?;
        let mut run = self.command(&self.programs.probes, "full");
        run.args(["--keep", "--space"]).arg(&space).stdin(Stdio::null()).stdout(Stdio::null());
        let memory = app::peak_memory(&mut run)?;
        let report: Json = serde_json::from_slice(&self.ask(&["report", "--json"], &space)?)?;
        let waits = self.ask(&["events", "--kind", "exec.worker_waiting", "--json"], &space)?;
        let mut waited = BTreeMap::new();
        for line in waits.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Json = serde_json::from_slice(line)?;
            *waited
                .entry(event["fields"]["worker"].as_u64().context("the worker that waits")?)
                .or_insert(0_u64) += 1;
        }
        let mut log_bytes = 0;
        for entry in std::fs::read_dir(&space)? {
            let entry = entry?;
            if entry.path().extension().is_some_and(|extension| extension == "segment") {
                log_bytes += entry.metadata()?.len();
            }
        }
        std::fs::remove_dir_all(&space)?;
        Ok(Seen { report, waited, log_bytes, memory })
    }

    fn ask(&self, arguments: &[&str], space: &Path) -> Result<Vec<u8>> {
        let mut command = Command::new(&self.programs.probes);
        Ok(succeeded(command.args(arguments).arg(space))?.stdout)
    }
}

/// The seconds that a run takes.
fn seconds(run: &mut Command) -> Result<f64> {
    let begin = Instant::now();
    succeeded(run)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// The output of a run, which must succeed.
fn succeeded(run: &mut Command) -> Result<Output> {
    let output = run.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("`{}` failed: {}", process::shown(run), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output)
}

/// Replaces the value of `option`, which is among the arguments.
fn replace(arguments: &mut [std::ffi::OsString], option: &str, value: &str) {
    let at = arguments.iter().position(|argument| argument == option).expect("the app has the option");
    arguments[at + 1] = value.into();
}

/// Measures a run in mode full.
struct Seen {
    report: Json,
    /// The number of waits of each worker.
    waited: BTreeMap<u64, u64>,
    log_bytes: u64,
    /// The peak memory, in bytes.
    memory: u64,
}

impl Seen {
    fn sum(&self, list: &str, field: &str) -> u64 {
        self.report[list].as_array().into_iter().flatten().filter_map(|item| item[field].as_u64()).sum()
    }

    fn events(&self) -> u64 {
        self.report["window"]["events"].as_u64().unwrap_or(0)
    }
}

fn print_structure(cases: &[&Case], seen: &[Seen]) {
    println!("\nTable I: what runs (two workers; in brackets LPEL's name)\n");
    println!(
        "| app | tasks (mapping events) | dispatches (scheduling events) | messages | the paper's messages | streams | \
         memory at most |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (case, seen) in cases.iter().zip(seen) {
        println!(
            "| {} | {} | {} | {} | {} | {} | {} MB |",
            case.name,
            thousands(seen.report["tasks_count"].as_u64().unwrap_or(0)),
            thousands(seen.sum("workers", "dispatches")),
            thousands(seen.sum("streams", "written")),
            case.messages.unwrap_or("–"),
            thousands(seen.sum("streams", "streams")),
            seen.memory.div_ceil(1_000_000),
        );
    }
}

/// The seconds of `repeats` runs of each of [`KINDS`].
fn times_by_turns(run: &Runs, repeats: usize) -> Result<[Vec<f64>; KINDS.len()]> {
    let mut times: [Vec<f64>; KINDS.len()] = Default::default();
    for round in 0..repeats {
        // The order changes from round to round, so that each kind is at each position equally often.
        for turn in 0..KINDS.len() {
            let kind = (round + turn) % KINDS.len();
            times[kind].push(seconds(&mut run.of_kind(kind)?)?);
        }
    }
    Ok(times)
}

fn print_overheads(cases: &[&Case], runs: &[Runs], seen: &[Seen], repeats: usize) -> Result<()> {
    println!(
        "\nTable II: what monitoring costs (time of {repeats} runs each, by turns, against a build without probes, and the fastest of each against one another; in brackets LPEL's name)\n"
    );
    println!(
        "| app | no probes | off (monitoring built in, not used) | metrics | full, the oldest events overwritten | full, every event kept \
         (all monitoring) | goal | the paper, all | log (log size) | an event |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for ((case, run), seen) in cases.iter().zip(runs).zip(seen) {
        let times = times_by_turns(run, repeats)?;
        let overhead = |kind: usize| {
            let ratios = times[kind].iter().zip(&times[0]).map(|(time, base)| 100.0 * (time / base - 1.0));
            let fastest = 100.0 * (fastest(&times[kind]) / fastest(&times[0]) - 1.0);
            format!("{}, fastest {fastest:+.2} %", Interval::of(ratios.collect()).shown(2, " %"))
        };
        println!(
            "| {} | {} | {} | {} | {} | {} | {} % | {} % | {:.1} MB | {:.1} B |",
            case.name,
            Interval::of(times[0].clone()).shown(3, " s"),
            overhead(1),
            overhead(2),
            overhead(3),
            overhead(4),
            case.goal,
            case.overhead,
            seen.log_bytes as f64 / 1e6,
            seen.log_bytes as f64 / seen.events().max(1) as f64,
        );
    }
    Ok(())
}

fn print_waiting(cases: &[&Case], seen: &[Seen]) {
    println!("\nTable III: how workers waited (one run in mode full; in brackets LPEL's name)\n");
    println!("| app | worker | times it waited (waiting events) | waiting time | of its time |");
    println!("|---|---|---|---|---|");
    for (case, seen) in cases.iter().zip(seen) {
        for worker in seen.report["workers"].as_array().into_iter().flatten() {
            let id = worker["id"].as_u64().unwrap_or(0);
            let share = worker["shares"]["waiting"].as_f64().unwrap_or(0.0);
            let seconds = share * worker["lifetime_ns"].as_f64().unwrap_or(0.0) / 1e9;
            let times = thousands(seen.waited.get(&id).copied().unwrap_or(0));
            println!("| {} | {id} | {times} | {seconds:.3} s | {:.1} % |", case.name, 100.0 * share);
        }
    }
}

fn print_mappings(case: &Case, scale: Scale, programs: &Programs, repeats: usize) -> Result<()> {
    const MAPPINGS: [(&str, [&str; 4]); 3] = [
        ("round-robin, two workers (LPEL's default)", ["--mapper", "round-robin", "--workers", "2"]),
        ("contiguous, two workers (ours)", ["--mapper", "contiguous", "--workers", "2"]),
        ("the replication on one worker", ["--mapper", "contiguous", "--workers", "1"]),
    ];
    let mut times: [Vec<f64>; MAPPINGS.len()] = Default::default();
    let runs = MAPPINGS
        .iter()
        .map(|(_, mapping)| Runs::prepare(case.name, case.app, mapping, case.input(scale), programs))
        .collect::<Result<Vec<_>>>()?;
    for round in 0..repeats {
        for turn in 0..MAPPINGS.len() {
            let mapping = (round + turn) % MAPPINGS.len();
            times[mapping].push(seconds(&mut runs[mapping].command(&programs.probes, "metrics"))?);
        }
    }
    println!(
        "\nThe mapping of mc ({repeats} runs each, by turns; the paper: the replication on one worker is faster by 188 %)\n"
    );
    println!("| mapping | time | faster than round-robin by |");
    println!("|---|---|---|");
    for (at, (name, _)) in MAPPINGS.iter().enumerate() {
        let gains = times[at].iter().zip(&times[0]).map(|(time, slow)| 100.0 * (slow / time - 1.0));
        let gain = if at == 0 { "–".to_owned() } else { Interval::of(gains.collect()).shown(0, " %") };
        println!("| {name} | {} | {gain} |", Interval::of(times[at].clone()).shown(3, " s"));
    }
    Ok(())
}

/// The shortest of several times: other programs on the machine make a run slower, never faster.
fn fastest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// A median, and the interval that holds the true median with 95 % confidence (the whole range, if there are
/// fewer than six samples).
#[derive(Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) median: f64,
    from: f64,
    to: f64,
}

impl Interval {
    pub(crate) fn of(mut samples: Vec<f64>) -> Interval {
        samples.sort_by(f64::total_cmp);
        let count = samples.len();
        // The ranks of the interval's ends, by the normal approximation of the binomial distribution.
        let spare = ((count as f64 - 1.96 * (count as f64).sqrt()) / 2.0).floor().max(0.0) as usize;
        let median = (samples[(count - 1) / 2] + samples[count / 2]) / 2.0;
        Interval { median, from: samples[spare], to: samples[count - 1 - spare] }
    }

    pub(crate) fn shown(&self, digits: usize, unit: &str) -> String {
        format!("{:.digits$}{unit} ({:.digits$} to {:.digits$})", self.median, self.from, self.to)
    }
}

/// `1234567` as `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8_lossy(&groups.join(&b',')).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Interval, replace, thousands};

    #[test]
    fn intervals_leave_out_what_is_rare() {
        let hundred = Interval::of((1..=100).map(f64::from).collect());
        assert_eq!(hundred, Interval { median: 50.5, from: 41.0, to: 60.0 });
        assert_eq!(Interval::of(vec![3.0, 1.0, 2.0]), Interval { median: 2.0, from: 1.0, to: 3.0 });
        assert_eq!(hundred.shown(1, " %"), "50.5 % (41.0 to 60.0)");
    }

    #[test]
    fn numbers_are_written_in_groups() {
        assert_eq!([7, 999, 1_000, 1_234_567].map(thousands), ["7", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn an_option_gets_another_value() {
        let mut arguments = ["--input", "a", "--chunk", "40"].map(Into::into);
        replace(&mut arguments, "--chunk", "8");
        assert_eq!(arguments, ["--input", "a", "--chunk", "8"].map(std::ffi::OsString::from));
    }
}
