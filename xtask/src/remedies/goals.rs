//! `cargo xtask bench tune --drawn N --goal latency|processor|memory`: random networks that start with wrong settings and get
//! records at half of the rate that they could have, with and without a tuner that has this goal, and with each remedy.
//!
//! The goal is measured from outside, and not by what the run records about itself. The latency of a record is the
//! time from when it is due, on the schedule of this program, which writes it into the run's standard input, until
//! its line arrives at the run's standard output: so a record that has to wait before it is read counts as late. The
//! processor time is that of the run's process. Only the messages in streams are counted by the run itself: this
//! program looks a hundred times a second at what each stream has taken and given, and adds one, because a part of nothing
//! is nothing.
//!
//! A machine may be several times as slow for a tenth of a second, which makes the mean latency in a run of a second ten
//! times as long as in another. What was measured meanwhile, and until the records that became late are done, does not count.
//! Latencies and processor times are those at one speed of the machine, as if all of them were computed time.
//!
//! Runs of the same way differ, so the best of several ways is partly the best by chance. Therefore other runs than those in
//! which the best way is chosen compare it, as often as needed to know the ratio, but not without end: where runs scatter much,
//! the table says how little is known.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use thalweg_space::reader::{LiveView, SpaceReader};

use super::journal::Journal;
use super::network::Case;
use super::remedy::{Places, Remedy, remedies};
use super::stalls::{Stalls, Watched};
use super::trial::{Bench, Recorded, Size, waited};
use super::tuned::{Beside, START, Start, is_tunable, settled};
use super::{process, scatter, size_of};
use crate::tuned::{NOTHING, settings_text, start_tuner};

/// The rate of the source, as a part of the rate that the network has with its initial settings.
const PART: f64 = 0.5;
/// The durations of the runs without and with a tuner, of short runs of each way, and of the further runs of the
/// best ways.
const UNTOUCHED_S: f64 = 8.0;
const TUNED_S: f64 = 24.0;
const SHORT_S: f64 = 0.8;
const COMPARED_S: f64 = 1.5;
/// The numbers of runs without a tuner, half of which are before and half after the run with a tuner, and of short and of
/// longer runs of each way, which take turns.
const UNTOUCHED: usize = 4;
const ROUNDS: usize = 2;
const LONGER: usize = 3;
/// How many of the best ways of the short runs get longer ones, from which the best way is chosen.
const COMPARED: usize = 3;
/// The least and the greatest number of rounds in which that way, the initial settings and the saved ones take turns, and the
/// standard error of the ratio of two of them with which they are enough.
const AGAIN: usize = 5;
const AGAIN_MAX: usize = 12;
const ERROR: f64 = 0.02;
/// The time after which a run is killed, besides the time that it should take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The part of the records at the beginning of a run whose latency is not counted: the network unfolds.
const UNFOLDING: f64 = 0.1;

/// The way that starts from the settings that the tuner saved.
const SAVED: &str = "what was saved";

/// What a tuner is to improve while the rate stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    Latency,
    Processor,
    Memory,
}

impl Aim {
    /// The aim that this word names.
    pub(crate) fn of(word: &str) -> Option<Aim> {
        [Aim::Latency, Aim::Processor, Aim::Memory].into_iter().find(|aim| aim.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Aim::Latency => "latency",
            Aim::Processor => "processor",
            Aim::Memory => "memory",
        }
    }
}

/// A measured run.
#[derive(Clone, Copy, Debug)]
struct Scored {
    /// The mean latency or the processor time of a record, in microseconds, or one more than the mean number of messages in
    /// streams.
    measure: f64,
    /// Records a second that came out.
    rate: f64,
}

/// Measures a run under this name; `None` if it failed.
type Measuring<'m> = dyn FnMut(&str, &Case, Beside<'_>) -> Result<Option<f64>> + 'm;

/// A row of the table.
pub(super) struct Row {
    kept: String,
    settled: Option<f64>,
    /// The measure of the goal in the run without a tuner, and what it is with the tuner, trials included.
    untouched: Scored,
    tuned: Scored,
    /// The variance of the logarithms of the measures of single runs without a tuner.
    scatter: f64,
    compared: Compared,
}

/// The best static way beside the initial settings and those that the tuner saved.
struct Compared {
    /// The measure with the initial settings, divided by that of the best way.
    start: f64,
    /// The measure of the best way, divided by that with the settings that the tuner saved, and the standard error of
    /// that ratio as a part of it.
    saved: f64,
    error: f64,
    way: String,
}

/// The head of the table.
pub(super) fn head(aim: Aim) {
    let of = aim.word();
    println!(
        "| network | what is wrong | tuner kept | last change after | {of}, untouched by tuned | rate, tuned by untouched | {of} of the start, of the best | best, of what was saved | best way |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
}

impl Row {
    /// The row as text, after the network's number and what is wrong with it.
    pub(super) fn text(&self) -> String {
        format!(
            "{} | {} | {:.2} | {:.3} | {:.2} | {:.2} ± {:.2} | {} |",
            self.kept,
            self.settled.map_or("–".to_owned(), |seconds| format!("{seconds:.1} s")),
            self.untouched.measure / self.tuned.measure,
            self.tuned.rate / self.untouched.rate,
            self.compared.start,
            self.compared.saved,
            self.compared.saved * self.compared.error,
            self.compared.way
        )
    }
}

/// What the rows say together.
pub(super) fn summary(rows: &[Row]) {
    let share = |is: &dyn Fn(&Row) -> bool| {
        let many = rows.iter().filter(|row| is(row)).count();
        format!("{many} of {}", rows.len())
    };
    println!();
    println!("within 5 % of the best static way: {}", share(&|row| row.compared.saved >= 0.95));
    println!("within 10 %: {}", share(&|row| row.compared.saved >= 0.90));
    let most = |row: &Row| row.compared.saved * (1.0 + 2.0 * row.compared.error);
    println!("worse by more than 5 % even with two standard errors: {}", share(&|row| most(row) < 0.95));
    println!(
        "whole run with the tuner at least 0.97 of that without: {}",
        share(&|row| row.untouched.measure / row.tuned.measure >= 0.97)
    );
    // The run with a tuner is longer than those without, so it scatters less.
    let of_runs = 1.0 / UNTOUCHED as f64 + UNTOUCHED_S / TUNED_S;
    let mean = rows.iter().map(|row| row.scatter).sum::<f64>() / rows.len().max(1) as f64;
    println!(
        "standard error of that ratio, by runs without a tuner: {:.1} %",
        100.0 * (mean * of_runs).sqrt()
    );
    println!("rate kept (at least 0.98): {}", share(&|row| row.tuned.rate / row.untouched.rate >= 0.98));
    let gain: Vec<&Row> = rows.iter().filter(|row| row.compared.start >= 1.05).collect();
    let beats = gain.iter().filter(|row| row.compared.start * row.compared.saved > 1.0).count();
    println!("better than the start, of those where 5 % was to be had: {beats} of {}", gain.len());
}

/// Measures a network; `None` if its rate cannot be measured.
pub(super) fn measure(
    bench: &Bench,
    journal: &mut Journal,
    (seed, start): (u64, &Start),
    aim: Aim,
) -> Result<Option<Row>> {
    let sized = journal.measured(seed, "size", || {
        let size = bench.size(&start.case, super::tuned::SHORT_S)?;
        Ok(json!({ "records": size.records, "rate": size.rate }))
    })?;
    let Some(size) = size_of(&sized) else { return Ok(None) };
    let lasting = |seconds: f64| Size { records: ((size.rate * PART * seconds) as u64).max(60), ..size };
    let name = |what: &str| format!("{}: {what}", aim.word());
    let saved = bench.folder.join("tuned.settings");
    let case = &start.case;
    let mut untouched = Vec::new();
    let mut measure_untouched = |journal: &mut Journal| -> Result<()> {
        let found = journal.measured(seed, &name(&format!("untouched #{}", untouched.len())), || {
            value(run(bench, (case, lasting(UNTOUCHED_S)), Beside::Nobody, aim)?)
        })?;
        untouched.extend(scored(&found));
        Ok(())
    };
    (0..UNTOUCHED / 2).try_for_each(|_| measure_untouched(journal))?;
    let tuned = journal.measured(seed, &name("tuned"), || {
        let scored = run(bench, (case, lasting(TUNED_S)), Beside::Tuner(&saved), aim)?;
        let log = std::fs::read_to_string(saved.with_extension("log"))?;
        let settings = std::fs::read_to_string(&saved)?;
        Ok(json!({ "scored": value(scored)?, "settings": settings, "log": log }))
    })?;
    (UNTOUCHED / 2..UNTOUCHED).try_for_each(|_| measure_untouched(journal))?;
    let measures: Vec<f64> = untouched.iter().map(|run| run.measure).collect();
    let scatter = scatter(&measures);
    let (Some(untouched), Some(whole)) = (mean(&untouched), scored(&tuned["scored"])) else {
        return Ok(None);
    };
    let settings = tuned["settings"].as_str().unwrap_or_default();
    std::fs::write(&saved, settings)?;
    let kept = settings_text(settings);
    let ways = ways(start, aim);
    let mut short: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        for (way, case) in &ways {
            let found = journal.measured(seed, &name(&format!("{way} #{round}")), || {
                value(run(bench, (case, lasting(SHORT_S)), Beside::Nobody, aim)?)
            })?;
            if let Some(scored) = scored(&found) {
                short.entry(way).or_default().push(scored.measure);
            }
        }
    }
    let best = best(&ways, &short);
    let mut longer: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut long = |what: &str, case: &Case, beside: Beside<'_>| {
        let measure = || value(run(bench, (case, lasting(COMPARED_S)), beside, aim)?);
        let found = journal.measured(seed, &name(what), measure)?;
        Ok(scored(&found).map(|scored| scored.measure))
    };
    for round in 0..LONGER {
        for (way, case) in &best {
            let found = long(&format!("{way}, longer #{round}"), case, Beside::Nobody)?;
            longer.entry(way).or_default().extend(found);
        }
    }
    let medians = best.iter().filter_map(|(way, case)| {
        let runs = longer.get_mut(way.as_str()).filter(|runs| !runs.is_empty())?;
        Some((super::median(runs), way, case))
    });
    let Some((_, way, its)) = medians.min_by(|a, b| a.0.total_cmp(&b.0)) else { return Ok(None) };
    let from_file = if kept == NOTHING { Beside::Nobody } else { Beside::Settings(&saved) };
    let turns = [(START, case, Beside::Nobody), (way, its, Beside::Nobody), (SAVED, case, from_file)];
    let rounds = rounds(turns, &mut long)?;
    let settled = settled(tuned["log"].as_str().unwrap_or_default());
    let compared = compared(&rounds, way);
    Ok((!rounds.is_empty()).then_some(Row { kept, settled, untouched, tuned: whole, scatter, compared }))
}

/// The measures of three ways, which take turns until the ratio of the last two is known.
fn rounds(turns: [(&str, &Case, Beside<'_>); 3], long: &mut Measuring<'_>) -> Result<Vec<[f64; 3]>> {
    let mut rounds: Vec<[f64; 3]> = Vec::new();
    for round in 0..AGAIN_MAX {
        let mut found = [f64::NAN; 3];
        for turn in 0..turns.len() {
            let at = (round + turn) % turns.len();
            let (way, case, beside) = turns[at];
            found[at] = long(&format!("{way}, again #{round}"), case, beside)?.unwrap_or(f64::NAN);
        }
        rounds.extend(Some(found).filter(|found| found.iter().all(|measure| measure.is_finite())));
        if rounds.len() >= AGAIN && compared(&rounds, "").error <= ERROR {
            break;
        }
    }
    Ok(rounds)
}

/// The best ways of the short runs, and the initial settings.
fn best<'w>(ways: &'w [(String, Case)], short: &BTreeMap<&str, Vec<f64>>) -> Vec<&'w (String, Case)> {
    let least = |way: &str| short.get(way).and_then(|all| all.iter().copied().min_by(f64::total_cmp));
    let mut best: Vec<&(String, Case)> = ways.iter().filter(|(way, _)| way != START).collect();
    best.sort_by(|a, b| {
        let of = |way: &str| least(way).unwrap_or(f64::INFINITY);
        of(&a.0).total_cmp(&of(&b.0))
    });
    best.truncate(COMPARED);
    best.extend(ways.iter().filter(|(way, _)| way == START));
    best
}

/// The mean of runs.
fn mean(runs: &[Scored]) -> Option<Scored> {
    let of = |what: fn(&Scored) -> f64| runs.iter().map(what).sum::<f64>() / runs.len() as f64;
    (!runs.is_empty()).then(|| Scored { measure: of(|run| run.measure), rate: of(|run| run.rate) })
}

/// Compares the initial settings, the best way and the saved settings, which took turns in these rounds.
fn compared(rounds: &[[f64; 3]], way: &str) -> Compared {
    let ratios = |a: usize, b: usize| rounds.iter().map(|round| round[a] / round[b]).collect::<Vec<f64>>();
    let mut to_saved = ratios(1, 2);
    let error = (scatter(&to_saved) / rounds.len() as f64).sqrt();
    Compared {
        start: super::median(&mut ratios(0, 1)),
        saved: super::median(&mut to_saved),
        error,
        way: way.to_owned(),
    }
}

/// The static ways: the initial settings, nothing wrong, each remedy, and settings that hold fewer messages.
fn ways(start: &Start, aim: Aim) -> Vec<(String, Case)> {
    let case = &start.case;
    let mut ways = vec![(START.to_owned(), case.clone()), ("nothing wrong".to_owned(), start.cured.clone())];
    let further = match aim {
        Aim::Latency | Aim::Memory => vec![Remedy::Capacity(8), Remedy::Quantum(8)],
        Aim::Processor => Vec::new(),
    };
    let all = remedies(case, false).into_iter().filter(is_tunable).chain(further);
    ways.extend(all.map(|remedy| (remedy.to_string(), remedy.applied(case, &Places::default()))));
    ways
}

fn value(scored: Scored) -> Result<Value> {
    Ok(json!({ "measure": scored.measure, "rate": scored.rate }))
}

fn scored(value: &Value) -> Option<Scored> {
    let number = |name: &str| value[name].as_f64();
    Some(Scored { measure: number("measure")?, rate: number("rate")? })
}

/// One run at the source's rate.
fn run(bench: &Bench, (case, size): (&Case, Size), beside: Beside<'_>, aim: Aim) -> Result<Scored> {
    let space = bench.folder.join("space");
    if space.exists() {
        std::fs::remove_dir_all(&space)?;
    }
    bench.write(case, size)?;
    let mut command = bench.command(case, size, "-");
    command.args(["--workers-max", &case.workers.max(2).to_string(), "--monitor", Recorded::Metrics.word()]);
    command.arg("--space").arg(&space);
    if let Beside::Settings(file) = beside {
        command.arg("--settings").arg(file);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let before = process::children_s()?;
    let mut child = command.spawn().context("could not start thalweg")?;
    let tuner = match beside {
        Beside::Tuner(file) => Some(
            start_tuner(&bench.program, &space, file, aim.word()).context("could not start thalweg tune")?,
        ),
        _ => None,
    };
    let rate = PART * size.rate;
    let held = (aim == Aim::Memory).then(|| Held::of(space.clone()));
    let machine = Watched::begin();
    let times = flow(&mut child, &case.records(size.records), rate);
    let status = waited(&mut child, PATIENCE)?;
    let machine = machine.end();
    let held = held.map(|held| held.mean(&machine.stalls));
    // The tuner is waited for afterwards, so its time does not count here.
    let spent = process::children_s()? - before;
    if let Some(mut tuner) = tuner {
        tuner.wait()?;
    }
    if !status.is_some_and(|status| status.success()) {
        bail!("the run failed");
    }
    let Times { records, seconds, count } = times?;
    if count < size.records {
        bail!("{count} of {} records came out", size.records);
    }
    let measure = match aim {
        Aim::Processor => machine.speed() * 1e6 * spent / count as f64,
        Aim::Latency => {
            let latency = undisturbed(&records, &machine.stalls);
            machine.speed_without_stalls() * latency.context("the machine was slow nearly all the time")?
        }
        Aim::Memory => 1.0 + held.flatten().context("the messages in streams could not be counted")?,
    };
    Ok(Scored { measure, rate: count as f64 / seconds })
}

/// The mean of what was measured after the network has unfolded and while the machine was not slow; `None` if
/// that is less than a tenth of it.
fn undisturbed(measured: &[(Instant, f64)], stalls: &Stalls) -> Option<f64> {
    let unfolded = &measured[(UNFOLDING * measured.len() as f64) as usize..];
    let counted: Vec<f64> =
        unfolded.iter().filter(|(at, _)| !stalls.hold(*at)).map(|(_, value)| *value).collect();
    (10 * counted.len() > unfolded.len()).then(|| counted.iter().sum::<f64>() / counted.len() as f64)
}

/// Counts the messages in the streams of a run, a hundred times a second.
struct Held {
    thread: thread::JoinHandle<Vec<(Instant, f64)>>,
    has_ended: Arc<AtomicBool>,
}

impl Held {
    fn of(space: PathBuf) -> Held {
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = has_ended.clone();
        let thread = thread::spawn(move || {
            let (mut reader, mut counts) = (None, Vec::new());
            while !ended.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
                // The run may not have made its space yet.
                reader = reader.or_else(|| SpaceReader::open(&space).ok());
                let rows = reader.as_ref().and_then(|reader| reader.live_rows().ok()).unwrap_or_default();
                let streams = rows.iter().filter(|row| row.kind_name() == "exec.stream");
                let count = |row: &LiveView| Some(row.cell("written")?.saturating_sub(row.cell("read")?));
                let counted: Vec<u64> = streams.filter_map(count).collect();
                if !counted.is_empty() {
                    counts.push((Instant::now(), counted.iter().sum::<u64>() as f64));
                }
            }
            counts
        });
        Held { thread, has_ended }
    }

    /// The mean number of messages; `None` if no stream was seen.
    fn mean(self, stalls: &Stalls) -> Option<f64> {
        self.has_ended.store(true, Ordering::Relaxed);
        undisturbed(&self.thread.join().ok()?, stalls)
    }
}

/// When records came out.
struct Times {
    /// When each record was due, and its latency in microseconds, in the order in which they came out.
    records: Vec<(Instant, f64)>,
    /// The time from the first record in to the last one out.
    seconds: f64,
    count: u64,
}

/// Writes records into a run at a rate, and reads what comes out.
fn flow(child: &mut Child, records: &str, rate: f64) -> Result<Times> {
    let mut input = child.stdin.take().context("standard input is piped")?;
    let output = child.stdout.take().context("standard output is piped")?;
    // The run starts and unfolds while the first records wait, which are not counted.
    let begun = Instant::now() + Duration::from_millis(100);
    let due = |n: u64| begun + Duration::from_secs_f64(n as f64 / rate);
    thread::scope(|scope| {
        let lines = records.lines();
        scope.spawn(move || {
            // Unless a thread asks for less, the kernel may end its sleeps up to 50 us late. If it refuses, the records
            // are later, with and without a tuner.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let mut lines = lines.zip(0..).peekable();
            let mut text = String::new();
            while let Some((_, next)) = lines.peek() {
                thread::sleep(due(*next).saturating_duration_since(Instant::now()));
                text.clear();
                while let Some((line, _)) = lines.next_if(|(_, n)| due(*n) <= Instant::now()) {
                    text.push_str(line);
                    text.push('\n');
                }
                // A run that failed reads no more; its exit status says so.
                if input.write_all(text.as_bytes()).is_err() {
                    break;
                }
            }
        });
        let (mut records, mut count) = (Vec::new(), 0);
        let mut last = begun;
        for line in BufReader::new(output).lines() {
            let line = line?;
            last = Instant::now();
            count += 1;
            if let Some(n) = number(&line) {
                records.push((due(n), 1e6 * last.saturating_duration_since(due(n)).as_secs_f64()));
            }
        }
        Ok(Times { records, seconds: last.saturating_duration_since(begun).as_secs_f64(), count })
    })
}

/// The record's number, which is its tag `<n>`.
fn number(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("\"<n>\":")?;
    let rest = rest.trim_start();
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_recognised_in_any_order_of_their_fields() {
        assert_eq!(number("{\"<n>\":17,\"<k>\":2}"), Some(17));
        assert_eq!(number("{\"<k>\": 2, \"<n>\": 0}"), Some(0));
        assert_eq!(number("{\"<k>\": 2}"), None);
    }

    #[test]
    fn runs_scatter_by_the_ratios_of_their_measures() {
        assert!((scatter(&[100.0, 110.0]) - 1.1_f64.ln().powi(2) / 2.0).abs() < 1e-12);
        assert_eq!(scatter(&[100.0]), 0.0);
    }

    #[test]
    fn ways_are_compared_within_rounds() {
        // Everything takes twice as long in the second round, which changes no ratio.
        let found = compared(&[[100.0, 80.0, 90.0], [200.0, 160.0, 180.0], [100.0, 80.0, 90.0]], "odd");
        assert!((found.start - 1.25).abs() < 1e-9 && (found.saved - 80.0 / 90.0).abs() < 1e-9);
        assert!(found.error < 1e-9 && found.way == "odd");
        // Ratios of 1 and 1.21: the standard error of the mean of their logarithms is half of their difference.
        let found = compared(&[[100.0, 100.0, 100.0], [100.0, 121.0, 100.0]], START);
        assert!((found.error - 1.1_f64.ln()).abs() < 1e-9, "{}", found.error);
    }

    #[test]
    fn what_is_measured_while_the_machine_is_slow_does_not_count() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let measured: Vec<_> =
            (0..100).map(|n| (at(10 * n), if (50..60).contains(&n) { 90.0 } else { 1.0 })).collect();
        assert_eq!(undisturbed(&measured, &Stalls::default()), Some(1.0 + 890.0 / 90.0));
        assert_eq!(undisturbed(&measured, &Stalls(vec![(at(495), at(600))])), Some(1.0));
        assert_eq!(undisturbed(&measured, &Stalls(vec![(at(95), at(950))])), None);
        assert_eq!(undisturbed(&[], &Stalls::default()), None);
    }

    #[test]
    fn latencies_are_measured_from_when_records_are_due() -> Result<()> {
        // `cat` answers at once; `sleep` before it delays all records that are due meanwhile.
        let records: String = (0..20).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
        let through = |script: &str| -> Result<Times> {
            let mut child = std::process::Command::new("sh")
                .args(["-c", script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let times = flow(&mut child, &records, 1000.0)?;
            assert!(waited(&mut child, PATIENCE)?.is_some_and(|status| status.success()));
            Ok(times)
        };
        let late = through("sleep 0.4; cat")?;
        let us: Vec<f64> = late.records.iter().map(|(_, us)| *us).collect();
        assert_eq!((late.count, us.len()), (20, 20));
        assert!(us.iter().all(|us| *us > 200_000.0), "{us:?}");
        // The first record waits longest.
        assert!(us[0] > us[19] + 10_000.0, "{us:?}");
        Ok(())
    }
}
