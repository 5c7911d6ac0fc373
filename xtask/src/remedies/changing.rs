//! `cargo xtask bench tune --change`: runs with conditions that change every ten seconds, with and without a
//! tuner.
//!
//! Each run has four boxes in series on two workers. In the first run the records change, so that the first
//! box is slow in one phase and the last box in the next. In the second run another process computes in every
//! second phase. In the third run the reader of the output is slow in every second phase. The flow is
//! measured at the run's output, by the reader, and thus without the monitors that the tuner uses. It is what it would be at
//! one speed of the machine, unless the reader is slow.

use std::fs;
use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::bench;
use super::network::{BoxPlan, Case, How, Net};
use super::stalls::Watched;
use super::trial::{Bench, Others, Recorded, Size};
use crate::process;
use crate::tuned::start_tuner;

/// The number of phases, and the duration of a phase.
const PHASES: usize = 4;
const PHASE_S: f64 = 10.0;
/// The cost of a box, in turns of the boxes' loop: 20 µs. A slow box takes three times as long.
const TURNS: f64 = 13_000.0;
const SLOWER: f64 = 3.0;
/// The flow with the best mapping when one of four boxes takes three times as long as the others: one worker
/// has the slow box, and the other one the three fast boxes.
const BEST_RATE: f64 = 1e6 / 60.0;
/// The rate of a slow reader.
const SLOW_READER: f64 = BEST_RATE / 3.0;
/// The least part of the later flow of a phase from which the phase counts as settled.
const SETTLED: f64 = 0.93;
/// The interval for which the flow is computed.
const BIN_S: f64 = 0.5;
/// A run that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(150);

/// The condition that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Costs,
    Process,
    Reader,
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Change::Costs => "costs",
            Change::Process => "process",
            Change::Reader => "reader",
        }
    }
}

const CHANGES: [(Change, &str, [&str; 2]); 3] = [
    (Change::Costs, "costs of boxes", ["the first box is slow", "the last box is slow"]),
    (Change::Process, "another process", ["nobody else computes", "another process computes"]),
    (Change::Reader, "reader of the output", ["the reader is fast", "the reader is slow"]),
];

/// How many records had left at which time.
#[derive(Debug, Default)]
struct Series(Vec<(f64, u64)>);

impl Series {
    /// The number of records that had left by this time; between two observations the flow counts as even.
    fn count(&self, at: f64) -> f64 {
        let after = self.0.partition_point(|(time, _)| *time < at);
        let (Some(next), Some(last)) = (self.0.get(after).or(self.0.last()), self.0.get(after.max(1) - 1))
        else {
            return 0.0;
        };
        let span = next.0 - last.0;
        let part = if span > 0.0 { ((at - last.0) / span).clamp(0.0, 1.0) } else { 0.0 };
        last.1 as f64 + part * (next.1 - last.1) as f64
    }

    /// The time at which this many records had left.
    fn time(&self, count: u64) -> Option<f64> {
        self.0.iter().find(|(_, left)| *left >= count).map(|(time, _)| *time)
    }

    fn rate(&self, from: f64, to: f64) -> f64 {
        (self.count(to) - self.count(from)) / (to - from)
    }

    /// The flow in the second half of a phase, and the time from the phase's begin until the flow is as high
    /// for a second. `speed` is the speed of the machine between two times, by which the flow is divided.
    fn settled(&self, from: f64, to: f64, speed: &dyn Fn(f64, f64) -> f64) -> (f64, Option<f64>) {
        let bins = ((to - from) / BIN_S) as usize;
        let rate = |at: f64| self.rate(at, at + BIN_S) / speed(at, at + BIN_S);
        let rates: Vec<f64> = (0..bins).map(|n| rate(from + n as f64 * BIN_S)).collect();
        let mut later = rates[bins / 2..].to_vec();
        later.sort_by(f64::total_cmp);
        let Some(&median) = later.get(later.len() / 2) else { return (f64::NAN, None) };
        let is_settled = |pair: &[f64]| pair.iter().all(|rate| *rate >= SETTLED * median);
        (median, rates.windows(2).position(is_settled).map(|n| n as f64 * BIN_S))
    }
}

/// A run's result in a phase.
struct Phase {
    from: f64,
    to: f64,
    flow: f64,
    settled_after: Option<f64>,
}

/// A change that a tuner kept or took back, with the run's time.
struct Step {
    at: f64,
    kept: bool,
    values: String,
    back: String,
}

/// The result of a run.
struct Ran {
    phases: Vec<Phase>,
    steps: Vec<Step>,
    /// The part of one processor that the tuner used.
    tuner: f64,
}

/// Measures all changes, and prints the table.
pub(crate) fn changing() -> Result<()> {
    let folder = process::target_dir().join("tuned");
    fs::create_dir_all(&folder)?;
    let bench = bench(&folder.join("changing"))?;
    println!(
        "| what changes | phase | flow untouched, records/s | flow tuned | tuned by untouched | settled after | last change after | changes kept | reversed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut used = Vec::new();
    for (change, name, words) in CHANGES {
        let Ran { phases: untouched, .. } = run(&bench, change, false)?;
        let Ran { phases, steps, tuner } = run(&bench, change, true)?;
        used.push(format!("{:.2} % ({name})", 100.0 * tuner));
        for (n, (before, phase)) in untouched.iter().zip(&phases).enumerate() {
            let within = steps.iter().filter(|step| (phase.from..phase.to).contains(&step.at));
            let within: Vec<&Step> = within.collect();
            let kept = within.iter().filter(|step| step.kept).count();
            let seconds = |at: Option<f64>| at.map_or("–".to_owned(), |at| format!("{at:.1} s"));
            let settled = seconds(phase.settled_after);
            let last_change = seconds(within.iter().map(|step| step.at - phase.from).reduce(f64::max));
            println!(
                "| {name} | {}: {} | {:.0} | {:.0} | {:.2} | {settled} | {last_change} | {kept} | {} |",
                n + 1,
                words[n % 2],
                before.flow,
                phase.flow,
                phase.flow / before.flow,
                reversals(&within)
            );
        }
    }
    fs::remove_dir_all(&bench.folder)?;
    println!();
    println!("what the tuner did: {}/*.log", folder.display());
    println!("the tuner used of one processor, trials included: {}", used.join(", "));
    Ok(())
}

/// The number of changes that were undone after they had been kept, or that set back a value that a kept
/// change had replaced.
fn reversals(steps: &[&Step]) -> usize {
    let undoes = |n: usize| {
        let set: Vec<&str> = steps[n].values.split_whitespace().collect();
        steps[..n]
            .iter()
            .filter(|step| step.kept)
            .any(|earlier| earlier.back.split_whitespace().any(|value| set.contains(&value)))
    };
    (0..steps.len()).filter(|&n| !steps[n].kept || undoes(n)).count()
}

fn case(change: Change) -> Case {
    let plan = |_| BoxPlan {
        turns: TURNS,
        cost: "constant",
        how: How::Compute,
        times: if change == Change::Costs { SLOWER } else { 1.0 },
        seed: 1,
    };
    Case::plain(Net::Serial((0..4).map(Net::Box).collect()), (0..4).map(plan).collect(), 2)
}

/// The records in a phase, if phases are counted in records.
fn records_a_phase() -> u64 {
    (BEST_RATE * PHASE_S) as u64
}

fn run(bench: &Bench, change: Change, is_tuned: bool) -> Result<Ran> {
    let space = bench.folder.join("space");
    if space.exists() {
        fs::remove_dir_all(&space)?;
    }
    let case = case(change);
    let records = records_a_phase() * (PHASES as u64 + 1) * 2;
    let size = Size { records, rate: BEST_RATE };
    write(bench, &case, change, records)?;
    let mut command = bench.command(&case, size, "in.jsonl");
    command.args(["--mapper", "contiguous", "--monitor", Recorded::Metrics.word(), "--space"]).arg(&space);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (begun, machine) = (Instant::now(), Watched::begin());
    let mut child = command.spawn().context("could not start thalweg")?;
    let pipe = child.stdout.take().context("standard output is piped")?;
    let series = Arc::new(Mutex::new(Series::default()));
    let reading = {
        let series = Arc::clone(&series);
        std::thread::spawn(move || read(pipe, begun, change, &series))
    };
    let (mut tuner, mut offset) = (None, 0.0);
    if is_tuned {
        let saved = bench.folder.join("tuned.settings");
        tuner = Some(
            start_tuner(&bench.program, &space, &saved, "throughput")
                .context("could not start thalweg tune")?,
        );
        offset = begun.elapsed().as_secs_f64();
    }
    let ends = follow(&mut child, begun, change, &series);
    let machine = machine.end();
    let steps = if is_tuned { steps(bench, &space, offset) } else { Ok(Vec::new()) };
    let used = tuner.as_ref().and_then(|tuner| processor_s(tuner.id())).unwrap_or(f64::NAN);
    let used = used / (begun.elapsed().as_secs_f64() - offset);
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    child.wait()?;
    let _ = reading.join();
    if let Some(mut tuner) = tuner {
        tuner.wait()?;
        let log = process::target_dir().join(format!("tuned/{}.log", change.word()));
        fs::copy(bench.folder.join("tuned.log"), log)?;
    }
    let series = series.lock().unwrap_or_else(PoisonError::into_inner);
    let ends = ends?;
    let at = |seconds: f64| begun + Duration::from_secs_f64(seconds);
    let phases = ends.windows(2).enumerate().map(|(n, ends)| {
        // A slow reader takes as many records from a slower machine.
        let is_by_reader = change == Change::Reader && n % 2 == 1;
        let speed = |from, to| if is_by_reader { 1.0 } else { machine.speed_between(at(from), at(to)) };
        let (flow, settled_after) = series.settled(ends[0], ends[1], &speed);
        Phase { from: ends[0], to: ends[1], flow, settled_after }
    });
    Ok(Ran { phases: phases.collect(), steps: steps?, tuner: used })
}

/// The processor time of a process so far, in seconds.
fn processor_s(pid: u32) -> Option<f64> {
    process::processor_ns(pid).map(|ns| ns as f64 / 1e9)
}

fn write(bench: &Bench, case: &Case, change: Change, records: u64) -> Result<()> {
    fs::create_dir_all(&bench.folder)?;
    fs::write(bench.folder.join("network.snet"), case.net.text())?;
    // Records with the key 0 are slow in the first box, those with the key 1 in the last box, and none has the
    // key 2.
    let hot = |at: usize| [0, 2, 2, 1][at];
    let plan: String = (0..4).map(|at| case.boxes[at].line(at, hot(at))).collect();
    fs::write(bench.folder.join("boxes.plan"), plan)?;
    let mut text = String::new();
    for n in 0..records {
        let key = if change == Change::Costs { n / records_a_phase() % 2 } else { 0 };
        text.push_str(&format!("{{\"<n>\": {n}, \"<k>\": {key}, \"<r>\": 0}}\n"));
    }
    Ok(fs::write(bench.folder.join("in.jsonl"), text)?)
}

/// Waits until the last phase is over, and changes what is not changed by the records. Returns the times
/// between phases.
fn follow(child: &mut Child, begun: Instant, change: Change, series: &Mutex<Series>) -> Result<Vec<f64>> {
    let mut others: Option<Others> = None;
    loop {
        std::thread::sleep(Duration::from_millis(10));
        let now = begun.elapsed().as_secs_f64();
        if change == Change::Costs {
            let series = series.lock().unwrap_or_else(PoisonError::into_inner);
            let ends: Vec<Option<f64>> =
                (0..=PHASES as u64).map(|n| series.time(n * records_a_phase())).collect();
            if let Some(ends) = ends.into_iter().collect() {
                return Ok(ends);
            }
        } else if now >= PHASES as f64 * PHASE_S {
            return Ok((0..=PHASES).map(|n| n as f64 * PHASE_S).collect());
        }
        let second = (now / PHASE_S) as usize % 2 == 1;
        if change == Change::Process && second != others.is_some() {
            others = if second { Some(Others::start(1)?) } else { None };
        }
        if let Some(status) = child.try_wait()? {
            bail!("thalweg ended early, with {status}");
        }
        if begun.elapsed() > PATIENCE {
            bail!("the phases took longer than {} s", PATIENCE.as_secs());
        }
    }
}

/// Reads the output, and notes how many records have come.
fn read(mut pipe: ChildStdout, begun: Instant, change: Change, series: &Mutex<Series>) {
    let mut buffer = [0; 4096];
    let mut lines = 0_u64;
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        let read = buffer[..count].iter().filter(|&&byte| byte == b'\n').count() as u64;
        lines += read;
        let now = begun.elapsed().as_secs_f64();
        series.lock().unwrap_or_else(PoisonError::into_inner).0.push((now, lines));
        if change == Change::Reader && (now / PHASE_S) as usize % 2 == 1 {
            std::thread::sleep(Duration::from_secs_f64(read as f64 / SLOW_READER));
        }
    }
}

/// The changes that the tuner has kept or undone so far.
fn steps(bench: &Bench, space: &std::path::Path, offset: f64) -> Result<Vec<Step>> {
    let mut command = Command::new(&bench.program);
    command.args(["tune", "log", "--json"]).arg(space).stdin(Stdio::null());
    let output = command.output()?;
    if !output.status.success() {
        bail!("thalweg tune log: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let mut steps = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let decision: Value = serde_json::from_str(line)?;
        let text = |name: &str| decision[name].as_str().unwrap_or_default().to_owned();
        let kept = match text("what").as_str() {
            "kept" => true,
            "undone" => false,
            _ => continue,
        };
        let at = decision["at_s"].as_f64().context("a decision has a time")? + offset;
        steps.push(Step { at, kept, values: text("values"), back: text("back") });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_settled_when_its_later_flow_is_reached() {
        // 100 records a second for two seconds, then 200 for eight seconds.
        let count = |n: u64| if n <= 20 { 10 * n } else { 200 + 20 * (n - 20) };
        let series = Series((0..=100).map(|n| (n as f64 / 10.0, count(n))).collect());
        assert!((series.rate(0.0, 1.0) - 100.0).abs() < 1e-6);
        let (flow, after) = series.settled(0.0, 10.0, &|_, _| 1.0);
        assert!((flow - 200.0).abs() < 1e-6 && after == Some(2.0), "{flow} {after:?}");
        // If the machine has half of its speed in these two seconds, nothing changes.
        let (flow, after) = series.settled(0.0, 10.0, &|from, _| if from < 2.0 { 0.5 } else { 1.0 });
        assert!((flow - 200.0).abs() < 1e-6 && after == Some(0.0), "{flow} {after:?}");
        assert_eq!(series.time(200), Some(2.0));
        assert_eq!(series.time(5000), None);
    }

    #[test]
    fn a_value_that_is_set_back_is_a_reversal() {
        let step = |kept, values: &str, back: &str| Step {
            at: 1.0,
            kept,
            values: values.to_owned(),
            back: back.to_owned(),
        };
        let there = step(true, "task/2.worker=1 task/3.worker=1", "task/2.worker=0 task/3.worker=0");
        let further = step(true, "exec.quantum=256", "exec.quantum=64");
        let back = step(true, "task/3.worker=0", "task/3.worker=1");
        let undone = step(false, "exec.quantum=256", "exec.quantum=64");
        assert_eq!(reversals(&[&there, &further]), 0);
        assert_eq!(reversals(&[&there, &further, &back]), 1);
        assert_eq!(reversals(&[&further, &undone]), 1);
    }
}
