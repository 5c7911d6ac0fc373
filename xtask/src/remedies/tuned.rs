//! `cargo xtask bench tune --drawn N`: random networks that start with wrong settings, run with and without a
//! tuner, and with each remedy that changes a setting or the mapping.
//!
//! For each network the following is measured: a run of some seconds with its initial settings, from which the size of
//! longer ones follows; one of these with `thalweg tune` beside it (which saves the kept changes), and the same one without;
//! and then, by turns, short runs with the initial settings, with each remedy, and with all planted faults removed. The best ways of the short runs,
//! the initial settings and the saved ones then take turns in longer runs, in which the time before a network
//! is unfolded and evenly filled does not count much: a tuner judges settings after that time, too. All
//! measurements are written to a journal, so an interrupted measurement can be continued.

use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use thalweg_chance::Chance;

use super::generator::planted;
use super::goals::{self, Aim};
use super::journal::Journal;
use super::network::{BoxPlan, Case, How, Net};
use super::remedy::{Places, Remedy, remedies};
use super::stalls::Watched;
use super::trial::{Bench, Recorded, Size};
use super::{Planted, bench, scatter, size_of};
use crate::process;
use crate::tuned::{NOTHING, settings_text, start_tuner};

/// The approximate duration of the run that shows how many records a long run needs.
const SIZING_S: f64 = 3.0;
/// The duration of the long runs with the initial settings; the run with a tuner has as many records, and ends earlier as it
/// gets faster. Most users' runs are longer; a shorter one ends before the last candidates are tried. A shorter run without
/// a tuner would say something else, because the run itself moves tasks, and so gets faster or slower, some time after its
/// start.
const LONG_S: f64 = 30.0;
/// If the run with a tuner ended after less than this part of that time, because the network became much faster, it is
/// measured with so many more records that the tuner has as much time as in other networks.
const ENDED_EARLY: f64 = 0.6;
/// If the flow of a run with a tuner is this close to the goal of 0.97, it is measured so many times more, and the mean of
/// all runs counts: the flows of two runs without a tuner differ as much.
const OPEN: f64 = 0.03;
const AGAIN: usize = 1;
/// The flow with a tuner by that without that is the goal.
const FLOW: f64 = 0.97;
/// The time after which a run is killed.
const PATIENCE: Duration = Duration::from_secs(100);
/// The approximate duration of a short run.
pub(super) const SHORT_S: f64 = 0.25;
/// The number of short runs of each kind; the kinds take turns.
const ROUNDS: usize = 3;
/// How many of the best ways are compared in longer runs, how long these last, and how many there are of each. The
/// best of many ways is partly the best by chance, so the runs by which the best way is chosen are not compared with
/// the saved settings: that way and the saved settings run again, in pairs.
const COMPARED: usize = 3;
const COMPARED_S: f64 = 1.2;
const SELECTING: usize = 2;
/// The least and the greatest number of pairs, and the standard error of their mean ratio with which they are enough.
const PAIRS: usize = 5;
const PAIRS_MAX: usize = 16;
const ERROR: f64 = 0.015;
/// The name of the initial settings among the ways.
pub(super) const START: &str = "as it starts";
/// The first seed of networks for tuners; networks for verdicts have smaller seeds.
const SEEDS: u64 = 40_000;

/// The wrong setting with which a network starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Capacity,
    Quantum,
    Limit,
    RoundRobin,
    Place,
    OneWorker,
    ManyWorkers,
}

const WRONG: [(Wrong, &str); 7] = [
    (Wrong::Capacity, "capacity 1–3"),
    (Wrong::Quantum, "quantum 1"),
    (Wrong::Limit, "1–4 unfinished"),
    (Wrong::RoundRobin, "round-robin"),
    (Wrong::Place, "all on one of two workers"),
    (Wrong::OneWorker, "one worker"),
    (Wrong::ManyWorkers, "4 or 8 workers"),
];

/// A network that starts with wrong settings.
pub(super) struct Start {
    pub(super) case: Case,
    pub(super) cured: Case,
    wrong: Vec<&'static str>,
}

impl Start {
    fn what_is_wrong(&self) -> String {
        if self.wrong.is_empty() { "nothing".to_owned() } else { self.wrong.join(", ") }
    }
}

/// The network that is drawn for a seed, with up to two wrong settings.
fn start(seed: u64) -> Start {
    let Planted { case, .. } = planted(seed);
    let plain = |plan: &BoxPlan| BoxPlan { how: How::Compute, times: 1.0, ..plan.clone() };
    let boxes = case.boxes.iter().map(plain).collect();
    let cured = Case::plain(super::remedy::unplaced(&case.net), boxes, case.keys);
    let mut chance = Chance::new(thalweg_chance::mixed(seed ^ 0x7e57));
    let mut case = cured.clone();
    let mut wrong = Vec::new();
    for _ in 0..chance.of(&[0, 1, 1, 1, 2]) {
        let (what, word) = chance.of(&WRONG);
        if wrong.contains(&word) {
            continue;
        }
        wrong.push(word);
        match what {
            Wrong::Capacity => case.capacity = Some(chance.between(1, 4)),
            Wrong::Quantum => case.quantum = Some(1),
            Wrong::Limit => case.unfinished = Some(chance.between(1, 5)),
            Wrong::RoundRobin => case.round_robin = true,
            Wrong::OneWorker => case.workers = 1,
            Wrong::ManyWorkers => case.workers = chance.of(&[4, 8]),
            Wrong::Place => {
                let worker = chance.below(2) as usize;
                case.net.change(&mut |net| {
                    if let Net::Box(at) = *net {
                        *net = Net::Placed(at, worker);
                    }
                });
            }
        }
    }
    Start { case, cured, wrong }
}

/// Whether a tuner can apply this remedy.
pub(super) fn is_tunable(remedy: &Remedy) -> bool {
    matches!(
        remedy,
        Remedy::Place(..)
            | Remedy::Unplace
            | Remedy::Capacity(_)
            | Remedy::Quantum(_)
            | Remedy::NoLimit
            | Remedy::Workers(_)
            | Remedy::Steal
            | Remedy::OtherMapper
    )
}

/// Measures `count` networks from the one with the number `first` on, and prints the table. `aim` is the tuner's
/// goal if it is another one than throughput.
pub(crate) fn drawn(first: u64, count: u64, aim: Option<Aim>) -> Result<()> {
    let path = process::target_dir().join("remedies/tuned.jsonl");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut journal = Journal::open(&path)?;
    let bench = bench(&path)?;
    let seeds = SEEDS + first..SEEDS + first + count;
    if let Some(aim) = aim {
        with_goal(&bench, &mut journal, seeds, aim)?;
    } else {
        for_throughput(&bench, &mut journal, seeds)?;
    }
    std::fs::remove_dir_all(&bench.folder)?;
    Ok(())
}

fn with_goal(bench: &Bench, journal: &mut Journal, seeds: Range<u64>, aim: Aim) -> Result<()> {
    goals::head(aim);
    let mut rows = Vec::new();
    for seed in seeds {
        let start = start(seed);
        let wrong = start.what_is_wrong();
        match goals::measure(bench, journal, (seed, &start), aim)? {
            Some(row) => {
                println!("| {seed} | {wrong} | {}", row.text());
                rows.push(row);
            }
            None => println!("| {seed} | {wrong} | could not be measured | | | | | | |"),
        }
    }
    goals::summary(&rows);
    Ok(())
}

fn for_throughput(bench: &Bench, journal: &mut Journal, seeds: Range<u64>) -> Result<()> {
    let mut rows = Vec::new();
    println!(
        "| network | what is wrong | tuner kept | last change after | flow, tuned by untouched | best static, of the start | tuned, of the best | best way |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for seed in seeds {
        let start = start(seed);
        let row = measure(bench, journal, seed, &start)?;
        match row {
            Some(row) => {
                println!(
                    "| {seed} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {} |",
                    start.what_is_wrong(),
                    row.kept,
                    row.settled.map_or("–".to_owned(), |seconds| format!("{seconds:.1} s")),
                    row.whole,
                    row.best,
                    row.reached,
                    row.way
                );
                rows.push(row);
            }
            None => println!("| {seed} | {} | could not be measured | | | | | |", start.what_is_wrong()),
        }
    }
    summary(&rows);
    Ok(())
}

struct Row {
    kept: String,
    /// The seconds from the tuner's start to the last change that it kept.
    settled: Option<f64>,
    /// The rate of the run with the tuner, divided by that of the same run without it: the mean, if it was measured more
    /// than once.
    whole: f64,
    /// The rate with the best static settings, divided by the rate with the initial settings.
    best: f64,
    /// The rate with the settings that the tuner saved, divided by the rate with the best static settings: the
    /// medians of further runs of both.
    reached: f64,
    way: String,
}

fn summary(rows: &[Row]) {
    let share = |is: &dyn Fn(&Row) -> bool| {
        let many = rows.iter().filter(|row| is(row)).count();
        format!("{many} of {}", rows.len())
    };
    println!();
    println!("within 5 % of the best static way: {}", share(&|row| row.reached >= 0.95));
    println!("within 10 %: {}", share(&|row| row.reached >= 0.90));
    println!("flow with the tuner at least 0.97 of that without: {}", share(&|row| row.whole >= FLOW));
    let gain: Vec<&Row> = rows.iter().filter(|row| row.best >= 1.05).collect();
    let beats = gain.iter().filter(|row| row.reached * row.best > 1.0).count();
    println!("faster than the start, of those where 5 % was to be had: {beats} of {}", gain.len());
}

fn measure(bench: &Bench, journal: &mut Journal, seed: u64, start: &Start) -> Result<Option<Row>> {
    let case = &start.case;
    let sized = journal.measured(seed, "size", || {
        let size = bench.size(case, SHORT_S)?;
        Ok(json!({ "records": size.records, "rate": size.rate }))
    })?;
    let Some(size) = size_of(&sized) else { return Ok(None) };
    let saved = bench.folder.join("tuned.settings");
    let Some(Flow { tuned, whole, rate }) = flow(bench, journal, (seed, case), size, &saved)? else {
        return Ok(None);
    };
    let settings = tuned["settings"].as_str().unwrap_or_default();
    std::fs::write(&saved, settings)?;
    let mut ways: Vec<(String, Case)> =
        vec![(START.into(), case.clone()), ("nothing wrong".into(), start.cured.clone())];
    let places = Places::default();
    for remedy in remedies(case, false).into_iter().filter(is_tunable) {
        ways.push((remedy.to_string(), remedy.applied(case, &places)));
    }
    let beside = Beside::Nobody;
    for round in 0..ROUNDS {
        for (name, case) in &ways {
            journal
                .measured(seed, &format!("{name} #{round}"), || Ok(json!(run(bench, case, size, beside)?)))?;
        }
    }
    let times = |journal: &Journal, name: &str, rounds: usize| -> Vec<f64> {
        let times = (0..rounds).filter_map(|round| journal.get(seed, &format!("{name} #{round}"))?.as_f64());
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times
    };
    // Disturbances make a short run longer, so the shortest one counts.
    let shortest = |name: &str| times(journal, name, ROUNDS).first().copied().unwrap_or(f64::INFINITY);
    let mut best: Vec<(String, Case)> = ways.iter().filter(|(name, _)| name != START).cloned().collect();
    best.sort_by(|a, b| shortest(&a.0).total_cmp(&shortest(&b.0)));
    best.truncate(COMPARED);
    best.push(ways.swap_remove(0));
    let longer = Size { records: ((rate * COMPARED_S) as u64).clamp(size.records, 2_000_000), ..size };
    let long = |name: &str| format!("{name}, long");
    let kept = settings_text(settings);
    for round in 0..SELECTING {
        for (name, case) in &best {
            journal.measured(seed, &format!("{} #{round}", long(name)), || {
                Ok(json!(run(bench, case, longer, beside)?))
            })?;
        }
    }
    let least = |name: &str| times(journal, &long(name), SELECTING).first().copied();
    let Some(first) = least(START) else { return Ok(None) };
    let compared = best.iter().filter_map(|(name, case)| Some((least(name)?, name, case)));
    let Some((least, way, its)) = compared.min_by(|a, b| a.0.total_cmp(&b.0)) else { return Ok(None) };
    // If nothing was saved, a run with what was saved is a run with the initial settings.
    let with_saved = if kept == NOTHING { beside } else { Beside::Settings(&saved) };
    // A way that is faster than the start gets more records, so that its runs last as long.
    let records = (longer.records as f64 * first / least) as u64;
    let longer = Size { records: records.clamp(longer.records, 4_000_000), ..longer };
    let reached = match (kept.as_str(), way.as_str()) {
        (NOTHING, START) => 1.0,
        _ => paired(bench, journal, seed, [(its, longer, beside), (case, longer, with_saved)])?,
    };
    let settled = settled(tuned["log"].as_str().unwrap_or_default());
    Ok(Some(Row { kept, settled, whole, best: first / least, reached, way: way.clone() }))
}

/// What a run with a tuner gave.
struct Flow {
    /// The seconds that it took, the saved settings, and the tuner's log.
    tuned: Value,
    /// Its rate by that of runs without a tuner.
    whole: f64,
    /// The records per second of a run without a tuner.
    rate: f64,
}

/// Measures a network with and without a tuner by turns.
fn flow(
    bench: &Bench,
    journal: &mut Journal,
    (seed, case): (u64, &Case),
    size: Size,
    saved: &Path,
) -> Result<Option<Flow>> {
    let lasting =
        |rate: f64, seconds: f64| Size { records: ((rate * seconds) as u64).clamp(200, 7_500_000), ..size };
    let untouched = |journal: &mut Journal, name: &str, size: Size| {
        journal.measured(seed, name, || Ok(json!(run(bench, case, size, Beside::Nobody)?)))
    };
    // The short run that gives the size is not as fast as a longer one.
    let sizing = lasting(size.rate, SIZING_S);
    let Some(took) = untouched(journal, "untouched for some seconds", sizing)?.as_f64() else {
        return Ok(None);
    };
    let long = lasting(sizing.records as f64 / took, LONG_S);
    let with_tuner = |journal: &mut Journal, name: &str, size: Size| {
        journal.measured(seed, name, || {
            let seconds = run(bench, case, size, Beside::Tuner(saved))?;
            let log = std::fs::read_to_string(saved.with_extension("log"))?;
            Ok(json!({ "seconds": seconds, "settings": std::fs::read_to_string(saved)?, "log": log }))
        })
    };
    // Runs without a tuner take turns with those with one.
    let (mut tuned, mut rate, mut flows, mut longer) = (Value::Null, f64::NAN, Vec::new(), long);
    for again in 0..=AGAIN {
        let name = |name: &str| if again == 0 { name.to_owned() } else { format!("{name} #{again}") };
        let mut with = with_tuner(journal, &name("tuned"), longer)?;
        if let Some(seconds) = with["seconds"].as_f64()
            && again == 0
            && seconds < ENDED_EARLY * LONG_S
        {
            longer = lasting(long.records as f64 / seconds, LONG_S);
            with = with_tuner(journal, "tuned, more records", longer)?;
        }
        let without = untouched(journal, &name("untouched"), long)?.as_f64();
        let (Some(seconds), Some(without)) = (with["seconds"].as_f64(), without) else { return Ok(None) };
        flows.push(without / seconds * longer.records as f64 / long.records as f64);
        if again == 0 {
            (tuned, rate) = (with, long.records as f64 / without);
        }
        if (flows[0] - FLOW).abs() >= OPEN {
            break;
        }
    }
    let whole = flows.iter().sum::<f64>() / flows.len() as f64;
    Ok(Some(Flow { tuned, whole, rate }))
}

/// The time of the first of two ways by that of the second: the median of pairs of runs, which take turns. NaN if no
/// pair could be measured.
fn paired(
    bench: &Bench,
    journal: &mut Journal,
    seed: u64,
    ways: [(&Case, Size, Beside<'_>); 2],
) -> Result<f64> {
    let mut ratios = Vec::new();
    for pair in 0..PAIRS_MAX {
        if ratios.len() >= PAIRS && (scatter(&ratios) / ratios.len() as f64).sqrt() <= ERROR {
            break;
        }
        let mut took = [f64::NAN; 2];
        for turn in 0..2 {
            let which = (pair + turn) % 2;
            let (case, size, beside) = ways[which];
            let name = format!("pair #{pair} {which}");
            let found = journal.measured(seed, &name, || Ok(json!(run(bench, case, size, beside)?)))?;
            took[which] = found.as_f64().unwrap_or(f64::NAN);
        }
        ratios.extend(Some(took[0] / took[1]).filter(|ratio| ratio.is_finite()));
    }
    Ok(if ratios.is_empty() { f64::NAN } else { super::median(&mut ratios) })
}

/// The time of the last change that was kept, from a tuner's log: `    3.2 s  #5   kept        …`.
pub(super) fn settled(log: &str) -> Option<f64> {
    let mut kept = log.lines().filter(|line| line.split_whitespace().nth(3) == Some("kept"));
    kept.next_back()?.split_whitespace().next()?.parse().ok()
}

/// What runs beside the network.
#[derive(Clone, Copy)]
pub(super) enum Beside<'a> {
    Nobody,
    /// A tuner, which saves its settings to this file.
    Tuner(&'a std::path::Path),
    /// Nothing; the run starts with the settings in this file.
    Settings(&'a std::path::Path),
}

/// The seconds that a run takes, at the usual speed of the machine.
fn run(bench: &Bench, case: &Case, size: Size, beside: Beside<'_>) -> Result<f64> {
    let (seconds, speed) = timed(bench, case, size, beside)?;
    Ok(seconds * speed)
}

/// The seconds that a run takes on the machine as it is.
pub(super) fn wall(bench: &Bench, case: &Case, size: Size, beside: Beside<'_>) -> Result<f64> {
    Ok(timed(bench, case, size, beside)?.0)
}

/// The seconds that a run takes, and the mean speed of the machine meanwhile.
fn timed(bench: &Bench, case: &Case, size: Size, beside: Beside<'_>) -> Result<(f64, f64)> {
    let space = bench.folder.join("space");
    if space.exists() {
        std::fs::remove_dir_all(&space)?;
    }
    bench.write(case, size)?;
    let mut command = bench.command(case, size, "in.jsonl");
    command.args(["--workers-max", &case.workers.max(2).to_string(), "--monitor", Recorded::Metrics.word()]);
    command.arg("--space").arg(&space);
    if let Beside::Settings(file) = beside {
        command.arg("--settings").arg(file);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("could not start thalweg")?;
    let tuner = match beside {
        Beside::Tuner(file) => Some(
            start_tuner(&bench.program, &space, file, "throughput")
                .context("could not start thalweg tune")?,
        ),
        _ => None,
    };
    let machine = Watched::begin();
    let stderr = super::trial::stderr_of(&mut child, PATIENCE);
    let speed = machine.end().speed();
    if let Some(mut tuner) = tuner {
        let status = tuner.wait()?;
        if !status.success() {
            bail!("thalweg tune ended with {status}");
        }
    }
    let stderr = stderr?;
    let seconds =
        super::trial::seconds(&stderr).with_context(|| format!("thalweg said: {}", stderr.trim()))?;
    Ok((seconds, speed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_the_same_again_and_everything_wrong_occurs() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in SEEDS..SEEDS + 60 {
            let (one, again) = (start(seed), start(seed));
            assert_eq!((&one.case, &one.wrong), (&again.case, &again.wrong));
            assert_eq!(one.case == one.cured, one.wrong.is_empty(), "seed {seed}: {:?}", one.wrong);
            seen.extend(one.wrong);
        }
        assert_eq!(seen.len(), WRONG.len(), "{seen:?}");
    }

    #[test]
    fn the_time_of_the_last_kept_change_is_read_from_the_log() {
        let log = "  0.4 s  #2   tried       a → 1 (+9.0 % expected by x)\n  1.6 s  #3   kept        a → 1: it gains\n  \
                   4.0 s  #5   taken back  b: kept nothing\n";
        assert_eq!(settled(log), Some(1.6));
        assert_eq!(settled("  9.0 s  #1   began       for throughput\n"), None);
    }

    #[test]
    fn saved_settings_are_described_in_a_few_words() {
        assert_eq!(
            settings_text("# of a run\n\nexec.quantum=64\ntask/a.worker=1\ntask/b.first_worker=0\n"),
            "`exec.quantum=64`, 1 task moved"
        );
        assert_eq!(settings_text("task/b.first_worker=0\n"), "the mapping as it was");
        assert_eq!(settings_text("# of a run\n"), "nothing");
    }
}
