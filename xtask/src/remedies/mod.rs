//! `cargo xtask remedies`: random networks with planted causes, every single remedy tried, and what `thalweg diagnose` says held against that.
//!
//! Nothing here knows a rule of the verdict: the truth is what was gained. Networks have seeds; those below [`SCORED`] are for development, those from
//! there on are scored, and nobody looks at them while rules are written. Everything that is measured goes to a journal, so a run that was ended goes on.

mod generator;
mod journal;
mod network;
mod remedy;
mod score;
mod table;
mod trial;
mod tuned;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lexopt::prelude::*;
use serde_json::{Value, json};

use crate::process;
use generator::{Planted, planted};
use journal::Journal;
use remedy::{Remedy, remedies};
use score::said;
use trial::{Bench, Recorded, Size};

pub(crate) use tuned::drawn;

/// The first of the seeds that are scored. Those before are for development.
const SCORED: u64 = 20_000;
/// Networks of the long step of the tests.
const SCORED_COUNT: u64 = 300;
/// A trial takes about so long.
const TRIAL_SECONDS: f64 = 0.06;
/// Pairs in which the remedies that promise most, and those that verdicts name, are tried after the first pair.
const ROUNDS: u32 = 2;
/// So many of those that promise most.
const PROMISING: usize = 2;

const HELP: &str = "\
Random networks with planted causes: every single remedy is tried, and the verdicts of `thalweg diagnose` and the predictions of
`thalweg diagnose --what-if` are held against what was gained.

usage: cargo xtask remedies [OPTIONS]

  --seeds FROM..TO  the networks [default: 0..20; from 20000 on they are scored: not to be looked at while rules are written]
  --for SECONDS     stop measuring after so long; the next call goes on
  --journal FILE    where measurements are kept [default: target/remedies/journal.jsonl]
  --table           measure nothing, print what is in the journal
  --failures        also print each network whose verdict is not right
  --show            print the networks only
";

/// What is asked for.
struct Asked {
    seeds: std::ops::Range<u64>,
    until: Option<Instant>,
    journal: std::path::PathBuf,
    measure: bool,
    failures: bool,
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut asked = Asked {
        seeds: 0..20,
        until: None,
        journal: process::target_dir().join("remedies/journal.jsonl"),
        measure: true,
        failures: false,
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

/// The long step of the tests: the scored networks.
pub(crate) fn scored() -> Result<()> {
    let journal = process::target_dir().join("remedies/scored.jsonl");
    let seeds = SCORED..SCORED + SCORED_COUNT;
    measure_and_print(&Asked { seeds, until: None, journal, measure: true, failures: true })
}

fn measure_and_print(asked: &Asked) -> Result<()> {
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
            measure(&bench, &mut journal, seed, &planted(seed), asked.until)?;
        }
        std::fs::remove_dir_all(&bench.folder)?;
    }
    table::print(&journal, asked.seeds.clone(), asked.failures);
    Ok(())
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

/// Everything that is to be measured of one network, as far as it was not.
fn measure(
    bench: &Bench,
    journal: &mut Journal,
    seed: u64,
    planted: &Planted,
    until: Option<Instant>,
) -> Result<()> {
    let over = || until.is_some_and(|until| Instant::now() >= until);
    let case = &planted.case;
    let sized = journal.measured(seed, "size", || {
        let size = bench.size(case, TRIAL_SECONDS)?;
        Ok(json!({ "records": size.records, "rate": size.rate }))
    })?;
    let Some(size) = size_of(&sized) else { return Ok(()) };
    for recorded in [Recorded::Full, Recorded::Metrics] {
        let word = recorded.word();
        if journal.get(seed, &format!("verdict {word}")).is_some() {
            continue;
        }
        let ran = bench.time(case, size, recorded);
        journal.measured(seed, &format!("verdict {word}"), || {
            ran?;
            Ok(bench.diagnose(&[])?["verdict"].clone())
        })?;
        if recorded == Recorded::Full {
            journal.measured(seed, "what if", || bench.diagnose(&["--what-if"]))?;
            journal.measured(seed, "places", || bench.places())?;
        }
    }
    let all = remedies(case, planted.healthy);
    for &remedy in &all {
        if over() {
            return Ok(());
        }
        pair(bench, journal, seed, planted, size, remedy, 0)?;
    }
    for remedy in promising(journal, seed, planted) {
        for round in 1..=ROUNDS {
            if over() {
                return Ok(());
            }
            pair(bench, journal, seed, planted, size, remedy, round)?;
        }
    }
    journal.measured(seed, "done", || Ok(json!(true)))?;
    Ok(())
}

fn size_of(value: &Value) -> Option<Size> {
    Some(Size { records: value["records"].as_u64()?, rate: value["rate"].as_f64()? })
}

fn name_of(remedy: Remedy, round: u32) -> String {
    format!("{remedy} #{round}")
}

/// The network as it is and with a remedy, one after the other; which is first changes from round to round.
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

/// Where boxes ran.
fn places(journal: &Journal, seed: u64) -> BTreeMap<usize, usize> {
    let of_it = journal.get(seed, "places").and_then(Value::as_object).into_iter().flatten();
    let number = |(name, worker): (&String, &Value)| {
        Some((name.strip_prefix('w')?.parse().ok()?, usize::try_from(worker.as_u64()?).ok()?))
    };
    of_it.filter_map(number).collect()
}

/// What the pairs of these rounds gained: the shortest time before by the shortest time after. What disturbs a run makes it longer.
fn gained(
    journal: &Journal,
    seed: u64,
    remedy: Remedy,
    rounds: std::ops::RangeInclusive<u32>,
) -> Option<f64> {
    let pairs: Vec<&Value> = rounds
        .filter_map(|round| journal.get(seed, &name_of(remedy, round)))
        .filter(|pair| pair.is_array())
        .collect();
    let shortest = |at: usize| pairs.iter().filter_map(|pair| pair[at].as_f64()).min_by(f64::total_cmp);
    Some(shortest(0)? / shortest(1)? - 1.0)
}

/// The remedies that are tried again: those that gained most in the first pair, and those that verdicts name.
fn promising(journal: &Journal, seed: u64, planted: &Planted) -> Vec<Remedy> {
    let all = remedies(&planted.case, planted.healthy);
    let mut first: Vec<(Remedy, f64)> =
        all.iter().filter_map(|&remedy| Some((remedy, gained(journal, seed, remedy, 0..=0)?))).collect();
    first.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut again: Vec<Remedy> = first.iter().take(PROMISING).map(|(remedy, _)| *remedy).collect();
    for word in ["full", "metrics"] {
        if let Some(verdict) = journal.get(seed, &format!("verdict {word}"))
            && let score::Said::Do(named) = said(planted, verdict)
        {
            again.extend(named);
        }
    }
    again.sort_unstable();
    again.dedup();
    again
}

/// What each remedy gains: by the later pairs where there are some, so that who was chosen for a lucky first pair gains nothing by that.
fn gains(journal: &Journal, seed: u64, planted: &Planted) -> BTreeMap<Remedy, f64> {
    let all = remedies(&planted.case, planted.healthy).into_iter();
    let gain =
        |remedy| gained(journal, seed, remedy, 1..=ROUNDS).or_else(|| gained(journal, seed, remedy, 0..=0));
    all.filter_map(|remedy| Some((remedy, gain(remedy)?))).collect()
}

/// What was said of a network that is wholly measured, if it could be.
fn verdict<'j>(journal: &'j Journal, seed: u64, word: &str) -> Option<&'j Value> {
    journal.get(seed, "done")?;
    journal.get(seed, &format!("verdict {word}")).filter(|verdict| verdict["kind"].is_string())
}
