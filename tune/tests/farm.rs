//! A master hands out work to workers in units; their size and the first share are tuned by a pack of the
//! user's kind, in a program that is not compiled anew. The best static values are searched in the same test.

mod machine;
mod tuner;

use machine::{Machine, Run, skipped};
use std::time::Duration;
use thalweg_tune::What;
use tuner::{tune, tune_for};

const PACK: &str = include_str!("packs/farm.toml");
/// The workers, the items of a round, and the average time of an item in microseconds.
const WORKERS: &str = "4";
const ITEMS: &str = "2000";
const MICROS: &str = "50";
/// The sizes of units and the first shares that are searched for the best.
const UNITS: [&str; 7] = ["1", "8", "16", "32", "64", "128", "500"];
const FIRSTS: [&str; 2] = ["0", "50"];

fn farm(machine: &Machine, seconds: &str, unit: &str, first: &str) -> Run {
    machine.farm(&[seconds, WORKERS, unit, first, ITEMS, MICROS])
}

/// For each line of the rest of the program's output, the time, the size of units, and the items per second.
fn lines(run: &mut Run) -> Vec<[f64; 3]> {
    let mut lines = Vec::new();
    loop {
        let line = run.line();
        if line.is_empty() || line == "done" {
            assert_eq!(line, "done", "the program ends well");
            return lines;
        }
        let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        lines.push(numbers.try_into().expect("three numbers"));
    }
}

fn median(rates: impl Iterator<Item = f64>) -> f64 {
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The items per second with static values.
fn static_rate(machine: &Machine, unit: &str, first: &str) -> f64 {
    median(lines(&mut farm(machine, "1.3", unit, first)).iter().map(|line| line[2]))
}

/// The items per second that a tuner reaches from a bad start, in the last three seconds before it ends, and
/// the size of units there.
fn tuned_rate(machine: &Machine, unit: &str) -> (f64, f64) {
    let mut run = farm(machine, "60", unit, "0");
    let (seen, result) = tune_for(Duration::from_secs(10), PACK, run.processes(), |_| false);
    assert!(result.is_ok(), "{result:?}");
    assert!(seen.has(What::Tried, "farm.unit"), "{:?}", seen.decisions);
    // A trial also judges the model, unless it predicted the gain within a sixth.
    let judged = seen.decisions.iter().any(|(.., why)| why.contains("the weight of farm/"));
    assert!(judged || !seen.has(What::Kept, "farm."), "{:?}", seen.decisions);
    assert!(!run.is_attached());
    // The variables are as before when the tuner has ended, and a line says so half a second later.
    std::thread::sleep(Duration::from_millis(900));
    run.stop();
    let lines = lines(&mut run);
    let start: f64 = unit.parse().expect("a number");
    let end = lines.iter().rposition(|line| line[1] != start).expect("another size was in force");
    assert!(end + 1 < lines.len(), "the size is as before at the end: {lines:?}");
    let (until, size) = (lines[end][0], lines[end][1]);
    let last = lines[..end].iter().filter(|line| line[0] > until - 3.0);
    (median(last.map(|line| line[2])), size)
}

#[test]
fn a_master_with_units_of_a_wrong_size_is_tuned() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    // On a busy machine a search and a tuned run may have met different loads.
    let reached = (0..3).any(|_| is_reached(&machine));
    assert!(reached, "the tuner stayed far from the best static size, three times");
}

/// Whether the tuner comes near the best static size from units that are too small, and from too large ones.
fn is_reached(machine: &Machine) -> bool {
    let mut best = (0.0, "", "");
    for unit in UNITS {
        for first in FIRSTS {
            let rate = static_rate(machine, unit, first);
            eprintln!("units of {unit}, first share of {first} %: {rate:.0} items/s");
            if rate > best.0 {
                best = (rate, unit, first);
            }
        }
    }
    let start = static_rate(machine, "1", "0");
    let (small, size) = tuned_rate(machine, "1");
    eprintln!(
        "from 1: {small:.0} items/s with {size}, {:.3} of the best, {:.2} of the start",
        small / best.0,
        small / start
    );
    let (large, size) = tuned_rate(machine, "1000");
    eprintln!("from 1000: {large:.0} items/s with {size}, {:.3} of the best", large / best.0);
    small > 0.75 * best.0 && small > 1.5 * start && large > 0.75 * best.0
}

#[test]
fn a_variable_that_the_application_chose_is_left_alone() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let pack = PACK.replace("variable = \"unit_items\"", "variable = \"unit_items\"\ndefault = 4");
    let mut run = farm(&machine, "60", "2", "0");
    let (seen, result) = tune(&pack, run.processes(), |seen| seen.windows.len() > 20);
    assert!(result.is_ok() && !seen.has(What::Tried, "farm.unit"), "{result:?}: {:?}", seen.decisions);
    let is_pinned = |(_, what, _, why): &(f64, What, String, String)| {
        *what == What::Pinned && why.contains("farm.unit") && why.contains("set it to 2 itself")
    };
    assert!(seen.decisions.iter().any(is_pinned), "{:?}", seen.decisions);
    assert!(!run.is_attached() && run.ended_well());
}
