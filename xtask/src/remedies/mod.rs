//! `cargo xtask remedies`: makes random networks with planted causes, tries every single remedy, and compares
//! the gains with the verdict of `thalweg diagnose`.
//!
//! This module uses no rule by which verdicts are found: the gains that it measures are the truth. Networks
//! have seeds; seeds below [`SCORED`] are for development, networks with larger seeds are scored, and nobody
//! examines them while rules are written. Networks with seeds from [`generator::LATER`] on are scored as well:
//! they have at least one of five causes that were added after the rules were frozen, by somebody who had not
//! read the rules. All measurements are written to a journal, so an interrupted run can be continued.

mod changing;
mod generator;
mod goals;
mod journal;
mod network;
mod remedy;
mod rivals;
mod score;
mod stalls;
mod table;
mod trial;
mod tuned;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use serde_json::{Value, json};

use crate::process;
use generator::{LATER, Planted, planted};
use journal::Journal;
use remedy::{Places, Remedy, remedies};
use score::advice_of;
use trial::{Bench, RECORDINGS, Recorded, Size};

pub(crate) use changing::changing;
pub(crate) use goals::Aim;
pub(crate) use rivals::rivals;
pub(crate) use tuned::drawn;

/// The first of the scored seeds. Smaller seeds are for development: those from 20,030 on were scored once, and
/// their verdicts were examined afterwards.
const SCORED: u64 = 21_881;
/// The number of networks that the long run of the tests uses.
const SCORED_COUNT: u64 = 300;
/// The number of networks with later causes in the long step of the tests.
const LATER_COUNT: u64 = 60;
/// The approximate duration of a trial.
const TRIAL_SECONDS: f64 = 0.08;
/// The number of further pairs for the most promising remedies and the remedies that verdicts name.
const ROUNDS: u32 = 3;
/// The largest number of further pairs, if the noise of the trials leaves the mark of a verdict open.
const ROUNDS_MAX: u32 = 10;
/// The number of further trials of a remedy that has a predicted gain and was tried only once.
const FURTHER: u32 = 4;
/// The number of remedies that count as most promising.
const PROMISING: usize = 2;
/// If a recording takes this many times as long as the trials, it was disturbed by other programs; recording
/// itself makes a run longer, by some tenths if boxes do little work.
const DISTURBED: f64 = 1.4;
/// The largest number of remedies that are tried again, besides those that verdicts name.
const AGAIN_MAX: usize = 5;

const HELP: &str = "\
Random networks with planted causes: every single remedy is tried, and the verdicts of `thalweg diagnose` and the predictions of
`thalweg diagnose --what-if` are held against what was gained.

usage: cargo xtask remedies [OPTIONS]

  --seeds FROM..TO  the networks [default: 0..20; from 21881 on they are scored: not to be looked at while rules are written; from 30000 on
                    they have causes that were added after the rules were frozen]
  --for SECONDS     stop measuring after so long; the next call goes on
  --journal FILE    where measurements are kept [default: target/remedies/journal.jsonl]
  --table           measure nothing, print what is in the journal
  --keep            keep the recordings, in a folder beside the journal
  --healthy         only networks in which no cause is planted, and which wait for their source
  --again           judge the recordings that were kept anew, with the program as it is now, and measure nothing else
  --failures        also print each network whose verdict is not right
  --show            print the networks only
";

/// The options of the command.
struct Asked {
    seeds: std::ops::Range<u64>,
    until: Option<Instant>,
    journal: std::path::PathBuf,
    measure: bool,
    failures: bool,
    keep: bool,
    again: bool,
    healthy: bool,
}

impl Asked {
    /// The directory of recordings.
    fn recordings(&self) -> std::path::PathBuf {
        self.journal.with_extension("runs")
    }
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut asked = Asked {
        seeds: 0..20,
        until: None,
        journal: process::target_dir().join("remedies/journal.jsonl"),
        measure: true,
        failures: false,
        keep: false,
        again: false,
        healthy: false,
    };
    let mut show = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            Long("seeds") => {
                let text = arguments.value()?.string()?;
                let (from, to) = text.split_once("..").context("--seeds is FROM..TO")?;
                asked.seeds = from.parse()?..to.parse()?;
            }
            Long("for") => {
                let seconds: u64 = arguments.value()?.parse()?;
                asked.until = Some(Instant::now() + Duration::from_secs(seconds));
            }
            Long("journal") => asked.journal = arguments.value()?.into(),
            Long("table") => asked.measure = false,
            Long("failures") => asked.failures = true,
            Long("keep") => asked.keep = true,
            Long("again") => asked.again = true,
            Long("healthy") => asked.healthy = true,
            Long("show") => show = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if show {
        for seed in asked.seeds {
            table::show(seed, &planted(seed));
        }
        return Ok(ExitCode::SUCCESS);
    }
    measure_and_print(&asked)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures the scored networks, as a step of the long tests.
///
/// # Errors
/// Fails when a goal of verdicts is missed.
pub(crate) fn scored() -> Result<()> {
    let missed = [SCORED..SCORED + SCORED_COUNT, LATER..LATER + LATER_COUNT].map(|seeds| {
        measure_and_print(&Asked {
            seeds,
            until: None,
            journal: process::target_dir().join("remedies/scored.jsonl"),
            measure: true,
            failures: true,
            keep: false,
            again: false,
            healthy: false,
        })
    });
    let missed: Vec<String> = missed.into_iter().collect::<Result<Vec<_>>>()?.concat();
    if missed.is_empty() { Ok(()) } else { bail!("goals of verdicts are missed: {}", missed.join("; ")) }
}

/// Measures and prints the results. Returns the goals of verdicts that are missed.
fn measure_and_print(asked: &Asked) -> Result<Vec<String>> {
    if let Some(folder) = asked.journal.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut journal = Journal::open(&asked.journal)?;
    if asked.measure {
        let bench = bench(&asked.journal)?;
        for seed in asked.seeds.clone() {
            if asked.until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            let planted = planted(seed);
            if asked.healthy && !planted.healthy {
                continue;
            }
            if asked.again {
                again(&bench, &mut journal, seed, asked)?;
            } else {
                measure(&bench, &mut journal, seed, &planted, asked)?;
            }
        }
        std::fs::remove_dir_all(&bench.folder)?;
    }
    Ok(table::print(&journal, asked.seeds.clone(), asked.failures))
}

/// Builds the program and the boxes.
fn bench(journal: &Path) -> Result<Bench> {
    let mut build = process::cargo();
    build.args([
        "build",
        "--release",
        "--locked",
        "-p",
        "thalweg",
        "--bin",
        "thalweg",
        "--example",
        "remedy_boxes",
    ]);
    process::run(&mut build)?;
    let release = process::target_dir().join("release");
    let folder = journal.with_extension(format!("{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(Bench {
        program: release.join("thalweg"),
        boxes: release.join("examples/libremedy_boxes.so"),
        folder: folder.canonicalize()?,
    })
}

/// Makes all measurements of one network that the journal does not have.
fn measure(bench: &Bench, journal: &mut Journal, seed: u64, planted: &Planted, asked: &Asked) -> Result<()> {
    let over = || asked.until.is_some_and(|until| Instant::now() >= until);
    let case = &planted.case;
    let sized = journal.measured(seed, "size", || {
        let size = bench.size(case, TRIAL_SECONDS)?;
        Ok(json!({ "records": size.records, "rate": size.rate }))
    })?;
    let Some(size) = size_of(&sized) else { return Ok(()) };
    let kept = asked.recordings().join(seed.to_string());
    for recorded in [Recorded::Full, Recorded::Metrics] {
        let word = recorded.word();
        let space = kept.join(word);
        if journal.get(seed, &format!("verdict {word}")).is_none() {
            journal.measured(seed, &format!("recorded {word}"), || {
                Ok(json!(bench.record(case, size, recorded, &space)?))
            })?;
            judge(bench, journal, seed, recorded, &space)?;
            if recorded == Recorded::Full {
                let (places, paths) = bench.places(&space.join("0"))?;
                journal.measured(seed, "places", || Ok(places))?;
                journal.measured(seed, "paths", || Ok(paths))?;
            }
        }
    }
    if !asked.keep {
        let _ = std::fs::remove_dir_all(&kept);
    }
    for &remedy in &remedies(case, planted.healthy) {
        if over() {
            return Ok(());
        }
        pair(bench, journal, seed, planted, size, remedy, 0)?;
    }
    // Later pairs show which remedies gained only by chance in the first pair; after that, other remedies may
    // be the most promising.
    loop {
        let again = promising(journal, seed, planted);
        let fresh = |remedy: &&Remedy| journal.get(seed, &name_of(**remedy, ROUNDS)).is_none();
        let Some(&remedy) = again.iter().find(fresh) else { break };
        for round in 1..=ROUNDS {
            if over() {
                return Ok(());
            }
            pair(bench, journal, seed, planted, size, remedy, round)?;
        }
    }
    for round in ROUNDS + 1..=ROUNDS_MAX {
        for remedy in contenders(journal, seed, planted) {
            if over() {
                return Ok(());
            }
            pair(bench, journal, seed, planted, size, remedy, round)?;
        }
    }
    for remedy in tried_once(journal, seed, planted) {
        let mended = remedy.applied(&planted.case, &places(journal, seed));
        for nth in 1..=FURTHER {
            if over() {
                return Ok(());
            }
            let took = || Ok(json!(bench.time(&mended, size, Recorded::Off)?));
            journal.measured(seed, &further_of(remedy, nth), took)?;
        }
    }
    journal.measured(seed, "done", || Ok(json!(true)))?;
    Ok(())
}

/// The remedies that have a predicted gain and were tried only once.
fn tried_once(journal: &Journal, seed: u64, planted: &Planted) -> Vec<Remedy> {
    let Some(what_if) = journal.get(seed, "what if") else { return Vec::new() };
    let once = |remedy: &Remedy| {
        journal.get(seed, &name_of(*remedy, 0)).is_some() && later_trials(journal, seed, *remedy).is_empty()
    };
    score::predicted(planted, what_if).into_keys().filter(once).collect()
}

/// Judges the recordings of a network again, if they were kept.
fn again(bench: &Bench, journal: &mut Journal, seed: u64, asked: &Asked) -> Result<()> {
    for recorded in [Recorded::Full, Recorded::Metrics] {
        let space = asked.recordings().join(seed.to_string()).join(recorded.word());
        if space.exists() {
            judge(bench, journal, seed, recorded, &space)?;
        }
    }
    Ok(())
}

/// The present verdict on a recording.
fn judge(bench: &Bench, journal: &mut Journal, seed: u64, recorded: Recorded, space: &Path) -> Result<()> {
    journal.measured_again(seed, &format!("verdict {}", recorded.word()), || {
        Ok(bench.diagnose(&space.join("0"), &[])?["verdict"].clone())
    })?;
    journal.measured_again(seed, &format!("others {}", recorded.word()), || {
        let others = (1..RECORDINGS).map(|nth| space.join(nth.to_string())).filter(|other| other.exists());
        let verdicts = others.map(|other| Ok(bench.diagnose(&other, &[])?["verdict"].clone()));
        Ok(Value::Array(verdicts.collect::<Result<_>>()?))
    })?;
    if recorded == Recorded::Full {
        journal.measured_again(seed, "what if", || bench.diagnose(&space.join("0"), &["--what-if"]))?;
    }
    Ok(())
}

fn size_of(value: &Value) -> Option<Size> {
    Some(Size { records: value["records"].as_u64()?, rate: value["rate"].as_f64()? })
}

fn name_of(remedy: Remedy, round: u32) -> String {
    format!("{remedy} #{round}")
}

fn further_of(remedy: Remedy, nth: u32) -> String {
    format!("{remedy} +{nth}")
}

/// Runs the network unchanged and with a remedy, one after the other, in an order that alternates from round
/// to round.
fn pair(
    bench: &Bench,
    journal: &mut Journal,
    seed: u64,
    planted: &Planted,
    size: Size,
    remedy: Remedy,
    round: u32,
) -> Result<()> {
    let mended = remedy.applied(&planted.case, &places(journal, seed));
    journal.measured(seed, &name_of(remedy, round), || {
        let as_it_is = || bench.time(&planted.case, size, Recorded::Off);
        let with_remedy = || bench.time(&mended, size, Recorded::Off);
        let (before, after) = if round.is_multiple_of(2) {
            let before = as_it_is()?;
            (before, with_remedy()?)
        } else {
            let after = with_remedy()?;
            (as_it_is()?, after)
        };
        Ok(json!([before, after]))
    })?;
    Ok(())
}

/// The workers on which boxes ran, and their paths.
fn places(journal: &Journal, seed: u64) -> Places {
    let of_boxes = |name: &str| {
        let of_it = journal.get(seed, name).and_then(Value::as_object).into_iter().flatten();
        of_it.filter_map(|(name, value)| Some((name.strip_prefix('w')?.parse().ok()?, value)))
    };
    let worker = |(at, value): (usize, &Value)| Some((at, usize::try_from(value.as_u64()?).ok()?));
    let path = |(at, value): (usize, &Value)| Some((at, value.as_str()?.to_owned()));
    Places {
        workers: of_boxes("places").filter_map(worker).collect(),
        paths: of_boxes("paths").filter_map(path).collect(),
    }
}

/// The gain of a remedy, with the interval that follows from the noise of the trials.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gained {
    gain: f64,
    /// The lower end of the interval that holds nine of ten gains, given the noise of the trials.
    least: f64,
    /// The upper end of the interval.
    most: f64,
    /// Whether the remedy was tried again after the first pair.
    again: bool,
}

/// The logarithms of the times of trials of an unchanged network.
#[derive(Clone, Copy, Debug)]
struct Noise {
    middle: f64,
    /// The time that such trials take if they are not disturbed.
    typical: f64,
    /// The relative deviation of the time of a trial.
    deviation: f64,
    /// The number of trials.
    count: usize,
}

fn noise(journal: &Journal, seed: u64, all: &[Remedy]) -> Noise {
    let pairs = all.iter().flat_map(|&remedy| (0..=ROUNDS_MAX).map(move |round| name_of(remedy, round)));
    let mut times: Vec<f64> =
        pairs.filter_map(|name| journal.get(seed, &name)?[0].as_f64()).map(f64::ln).collect();
    let middle = median(&mut times);
    let mut apart: Vec<f64> = times.iter().map(|time| (time - middle).abs()).collect();
    // The median distance of normal numbers is 0.67 of their deviation. The deviation is taken to be at least
    // a hundredth, because the clock and the scheduler are not more exact.
    let deviation = (1.4826 * median(&mut apart)).max(0.01);
    Noise { middle, typical: lower_third(&mut times), deviation, count: times.len() }
}

/// Whether even the shortest recording took so much longer than the unchanged network, for as many records,
/// that another program disturbed it, so that its verdict is not about the network.
fn is_disturbed(journal: &Journal, seed: u64, word: &str, all: &[Remedy]) -> bool {
    let took = journal.get(seed, &format!("recorded {word}")).and_then(Value::as_f64);
    took.is_some_and(|took| took.ln() - noise(journal, seed, all).middle > DISTURBED.ln())
}

/// The variance of the logarithms of measurements; 0 of a single one.
fn scatter(measured: &[f64]) -> f64 {
    let mean = measured.iter().map(|value| value.ln()).sum::<f64>() / measured.len().max(1) as f64;
    let squares: f64 = measured.iter().map(|value| (value.ln() - mean).powi(2)).sum();
    squares / (measured.len().max(2) - 1) as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    if count == 0 { 0.0 } else { (values[(count - 1) / 2] + values[count / 2]) / 2.0 }
}

/// The value below which a third of the distribution lies from which these values come.
fn lower_third(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let place = ((values.len() + 1) as f64 / 3.0 - 1.0).clamp(0.0, last as f64);
    let below = values[place as usize];
    below + place.fract() * (values[last.min(place as usize + 1)] - below)
}

/// The logarithm of the time of the trial with a remedy in one pair.
fn trial_of(journal: &Journal, seed: u64, remedy: Remedy, round: u32) -> Option<f64> {
    Some(journal.get(seed, &name_of(remedy, round))?[1].as_f64()?.ln())
}

/// The same of all pairs but the first.
fn later_trials(journal: &Journal, seed: u64, remedy: Remedy) -> Vec<f64> {
    (1..=ROUNDS_MAX).filter_map(|round| trial_of(journal, seed, remedy, round)).collect()
}

/// By how much the medians of two times three trials with a remedy differ, as a share of the flow; `None` if there
/// are not as many trials. So many trials are only made where noise leaves a mark open, so these remedies are
/// noisier than others.
fn repetition(journal: &Journal, seed: u64, remedy: Remedy) -> Option<f64> {
    let mut logs = later_trials(journal, seed, remedy);
    let (first, rest) = logs.split_at_mut_checked(3)?;
    let next = rest.get_mut(..3)?;
    Some(((median(first) - median(next)).exp() - 1.0).abs())
}

/// The gain of a remedy: the time of the unchanged network relative to that with the remedy. Of the trials with the
/// remedy those of the later pairs count, so that chance does not count by which a remedy was chosen after the first
/// pair; without later pairs, that of the first pair and the further ones count. All trials of the unchanged network
/// count, which is tried in each pair of each remedy within some seconds: on 33 networks, two medians of three trials
/// with a remedy differed by 13.6 % in the p90, and by 34.2 % if each was compared with the trial beside it.
///
/// Of several trials the lower third counts, as of several recordings the shortest run does, because disturbances make
/// a run longer: networks with few messages in flight take nearly twice as long in a quarter of their trials.
fn gained(journal: &Journal, seed: u64, remedy: Remedy, noise: Noise) -> Option<Gained> {
    let mut logs = later_trials(journal, seed, remedy);
    let again = !logs.is_empty();
    if !again {
        logs.extend(trial_of(journal, seed, remedy, 0));
        let further = (1..=FURTHER).filter_map(|nth| journal.get(seed, &further_of(remedy, nth))?.as_f64());
        logs.extend(further.map(f64::ln));
    }
    if logs.is_empty() {
        return None;
    }
    let gain = noise.typical - lower_third(&mut logs);
    // The median of a few values has a deviation that is a quarter larger than that of their mean.
    let of_median = |count: usize| if count > 1 { 1.2533_f64.powi(2) / count as f64 } else { 1.0 };
    let off = 1.645 * noise.deviation * (of_median(logs.len()) + of_median(noise.count)).sqrt();
    let [gain, least, most] = [gain, gain - off, gain + off].map(|log| log.exp() - 1.0);
    Some(Gained { gain, least, most, again })
}

/// The gains of all remedies, and of those that only verdicts name.
fn gains(journal: &Journal, seed: u64, planted: &Planted) -> BTreeMap<Remedy, Gained> {
    let mut all = remedies(&planted.case, planted.healthy);
    for advice in advice(journal, seed, planted) {
        if let score::Advice::Do(named) = advice {
            all.extend(named);
        }
    }
    let noise = noise(journal, seed, &all);
    all.into_iter().filter_map(|remedy| Some((remedy, gained(journal, seed, remedy, noise)?))).collect()
}

/// The remedies that are tried again: those with the largest gain in the first pair, those that might be
/// better than the best remedy tried again so far, and those that verdicts name.
fn promising(journal: &Journal, seed: u64, planted: &Planted) -> Vec<Remedy> {
    let gains = gains(journal, seed, planted);
    let best_again = gains.values().filter(|of| of.again).map(|of| of.gain).fold(f64::NAN, f64::max);
    let mut order: Vec<(Remedy, Gained)> = gains.into_iter().collect();
    order.sort_by(|a, b| b.1.gain.total_cmp(&a.1.gain));
    let mut again = Vec::new();
    for (nth, (remedy, of)) in order.iter().enumerate() {
        // A remedy that seems as good as the best must not be left out.
        let might = nth < PROMISING || of.gain > best_again.max(score::WORTH);
        if of.again || (might && again.len() < AGAIN_MAX) {
            again.push(*remedy);
        }
    }
    for advice in advice(journal, seed, planted) {
        if let score::Advice::Do(named) = advice {
            again.extend(named);
        }
    }
    again.sort_unstable();
    again.dedup();
    again
}

/// The advice of the verdict on the recording in each mode.
fn advice(journal: &Journal, seed: u64, planted: &Planted) -> impl Iterator<Item = score::Advice> {
    let verdict = move |word| journal.get(seed, &format!("verdict {word}"));
    table::MODES.into_iter().filter_map(verdict).map(move |verdict| advice_of(planted, verdict))
}

/// The remedies that decide the mark of a verdict, if the noise of the trials leaves that mark open: those that
/// the verdict names, and those that may be the best.
fn contenders(journal: &Journal, seed: u64, planted: &Planted) -> Vec<Remedy> {
    let gains = gains(journal, seed, planted);
    let best = gains.values().filter(|of| of.again).map(|of| of.gain).fold(score::WORTH, f64::max);
    let may_be_best = |of: &Gained| of.again && of.most >= best;
    let mut wanted = Vec::new();
    for advice in advice(journal, seed, planted).filter(|advice| score::mark(advice, &gains).1) {
        wanted.extend(gains.iter().filter(|(_, of)| may_be_best(of)).map(|(remedy, _)| *remedy));
        if let score::Advice::Do(named) = advice {
            wanted.extend(named);
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// The verdict on a completely measured network, if there is one.
fn verdict<'j>(journal: &'j Journal, seed: u64, word: &str) -> Option<&'j Value> {
    journal.get(seed, "done")?;
    journal.get(seed, &format!("verdict {word}")).filter(|verdict| verdict["kind"].is_string())
}

#[cfg(test)]
mod tests {
    use super::lower_third;

    #[test]
    fn the_lower_third_is_between_the_values_around_it() {
        assert_eq!(lower_third(&mut [5.0, 1.0, 4.0, 2.0, 3.0]), 2.0);
        assert!((lower_third(&mut [9.0, 1.0, 4.0]) - 2.0).abs() < 1e-9);
        assert_eq!(
            (lower_third(&mut [7.0, 3.0]), lower_third(&mut [7.0]), lower_third(&mut [])),
            (3.0, 7.0, 0.0)
        );
    }
}
