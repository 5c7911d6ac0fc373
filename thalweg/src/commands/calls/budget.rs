//! `thalweg calls --budget`: switches probes off and on again while the program runs, so that their cost
//! stays within the budget.
//!
//! In each window the calls are counted, and their cost is compared with the processor time that the program
//! had. While the cost exceeds the budget, the operation is switched off whose probe costs most for the
//! information that it records: a short operation that is called often. An operation with failed calls in the
//! window is kept longer. When the budget permits, the operation that was switched off last is switched on
//! again if the cost of as many calls as before fits into the budget.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thalweg_host::{LiveRun, spaces};
use thalweg_monitor::{Calls, calls_while};
use thalweg_space::Clock;
use thalweg_space::reader::PathFeed;

use crate::failure::Failure;
use crate::output::Output;
use crate::units::{count, duration, share};

/// A call costs two readings of the clock. In compiled code the stores take no extra time, because the
/// processor does them during the second reading; in code of a JIT compiler the stores do take time.
const READINGS: f64 = 2.5;
/// An operation is switched on again if this part of the budget would stay free in spite of its calls.
const ROOM: f64 = 0.8;
/// An operation is switched on again after this many windows in which the budget had room for it.
const PATIENCE: u32 = 3;
/// The pause between two readings of events.
const PAUSE: Duration = Duration::from_millis(5);

/// The calls of one operation in a window.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    name: String,
    calls: f64,
    failed: u64,
    /// Time in the operation itself, without its callees.
    own_ns: f64,
}

/// A switch of an operation.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The part of the processor time that the operation's probe cost, and the operation's calls a second.
    Off {
        name: String,
        share: f64,
        rate: f64,
    },
    On {
        name: String,
    },
}

/// The controller that keeps a budget.
#[derive(Debug)]
struct Keeper {
    /// The largest part of the program's processor time that the probes may cost.
    budget: f64,
    call_ns: f64,
    /// The operations that are off, in the order in which they were switched off, and the part of the
    /// processor time that each cost before.
    off: Vec<(String, f64)>,
    calm: u32,
}

impl Keeper {
    /// Decides which operations are switched after a window of `seconds` in which the program had
    /// `processor_ns` of processor time.
    fn decide(&mut self, seen: &[Seen], processor_ns: f64, seconds: f64) -> (f64, Vec<Step>) {
        let call_ns = self.call_ns;
        let cost = |one: &Seen| one.calls * call_ns / processor_ns.max(1.0);
        // If an operation is off now, its calls in the window happened before it was switched off.
        let is_on = |one: &&Seen| !self.off.iter().any(|(name, _)| *name == one.name);
        let seen: Vec<&Seen> = seen.iter().filter(is_on).collect();
        let mut all: f64 = seen.iter().map(|one| cost(one)).sum();
        let before = all;
        // The operations whose probes cost most for what they record come first; what a probe records is the
        // time that it explains, and failures.
        let worth = |one: &Seen| {
            let explained_ns = one.own_ns / one.calls.max(1.0) + call_ns;
            one.calls / explained_ns * if one.failed > 0 { 0.1 } else { 1.0 }
        };
        let mut order: Vec<&Seen> = seen.into_iter().filter(|one| one.calls > 0.0).collect();
        order.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(a.name.cmp(&b.name)));
        let mut steps = Vec::new();
        for one in order {
            if all <= self.budget {
                break;
            }
            all -= cost(one);
            self.off.push((one.name.clone(), cost(one)));
            let rate = one.calls / seconds.max(1e-9);
            steps.push(Step::Off { name: one.name.clone(), share: cost(one), rate });
        }
        self.calm = if steps.is_empty() && all < ROOM * self.budget { self.calm + 1 } else { 0 };
        if self.calm >= PATIENCE
            && self.off.last().is_some_and(|(_, share)| all + share <= ROOM * self.budget)
            && let Some((name, _)) = self.off.pop()
        {
            self.calm = 0;
            steps.push(Step::On { name });
        }
        (before, steps)
    }
}

/// A pattern that matches the name, and hardly any other name.
fn pattern_of(name: &str) -> String {
    name.replace('*', "?")
}

/// The calls of a window; calls whose events were overwritten are added in proportion.
fn seen_in(window: &Calls) -> Vec<Seen> {
    let times = (window.calls + window.lost) as f64 / window.calls.max(1) as f64;
    let mut by_name: BTreeMap<&str, Seen> = BTreeMap::new();
    for operation in &window.operations {
        let new = || Seen { name: operation.name.clone(), calls: 0.0, failed: 0, own_ns: 0.0 };
        let seen = by_name.entry(&operation.name).or_insert_with(new);
        seen.calls += (operation.count + operation.resumed) as f64 * times;
        seen.failed += operation.failed + operation.unwound;
        seen.own_ns += operation.own.sum_ns * times;
    }
    by_name.into_values().collect()
}

/// The processor time of a process so far, in nanoseconds; `None` if it has ended.
fn processor_ns(pid: u32) -> Option<f64> {
    let mut sum = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // The fields are the time on the processor, the time waiting for a processor, and the number of turns
        // on one.
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        sum += text.split(' ').next().and_then(|first| first.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Some(sum)
}

/// The cost of a call on this machine, in nanoseconds.
fn call_ns() -> f64 {
    let clock = Clock::new();
    const TIMES: u32 = 100_000;
    let least = (0..5).map(|_| {
        let begun = Instant::now();
        for _ in 0..TIMES {
            std::hint::black_box(clock.now());
        }
        begun.elapsed().as_nanos() as f64 / f64::from(TIMES)
    });
    READINGS * least.fold(f64::INFINITY, f64::min)
}

/// The options of `--budget`.
pub(super) struct Wanted {
    /// The largest part of the program's processor time that the probes may cost.
    pub(super) budget: f64,
    pub(super) every: Duration,
    /// The time to keep the budget; `None` means until the program ends.
    pub(super) time: Option<Duration>,
}

/// Keeps the budget until the program ends or the time is over, and reports each switch.
pub(super) fn keep(space: Option<&str>, wanted: &Wanted, output: &mut Output) -> Result<(), Failure> {
    let run = LiveRun::open(&spaces::find(space)?)?.called("thalweg calls --budget");
    let mut feed = PathFeed::open(run.path()).map_err(Failure::usage)?;
    let pid = run.reader().info().map_err(Failure::usage)?.pid;
    let mut keeper = Keeper { budget: wanted.budget, call_ns: call_ns(), off: Vec::new(), calm: 0 };
    let begun = Instant::now();
    let mut had = processor_ns(pid).unwrap_or(0.0);
    let mut last = 0.0;
    let mut is_first = true;
    while run.is_alive() && wanted.time.is_none_or(|time| begun.elapsed() < time) {
        let window = Instant::now();
        // The program may write faster than this process reads: overwritten events are counted as lost, and
        // their calls estimated.
        let goes_on = |is_all: bool| {
            if is_all {
                std::thread::sleep(PAUSE);
            }
            window.elapsed() < wanted.every
        };
        let calls = calls_while(&mut feed, 0, goes_on).map_err(Failure::usage)?;
        let Some(now) = processor_ns(pid) else { break };
        // Calls recorded before the first poll belong to no window.
        if std::mem::take(&mut is_first) {
            had = now;
            continue;
        }
        // The difference may be negative, because the time of threads that ended is no longer counted.
        let used = (now - had).max(0.0) / window.elapsed().as_nanos().max(1) as f64;
        had = now;
        // The seconds over which the events that were read happened, which may be long ago.
        let processor = used * calls.seconds * 1e9;
        if processor < 1e6 {
            continue;
        }
        let (cost, steps) = keeper.decide(&seen_in(&calls), processor, calls.seconds);
        last = cost;
        for step in steps {
            let is_off = matches!(step, Step::Off { .. });
            let (Step::Off { name, .. } | Step::On { name }) = &step;
            if run.reader().switch(&pattern_of(name), !is_off).is_err() {
                break;
            }
            output.line(&format!(
                "{:>8}  {}",
                duration(begun.elapsed().as_nanos() as f64),
                step_text(&step, cost)
            ))?;
            output.flush()?;
        }
    }
    sum_up(&keeper, last, output)?;
    if run.is_alive() {
        for (name, _) in &keeper.off {
            run.reader().switch(&pattern_of(name), true).map_err(Failure::usage)?;
        }
    }
    output.flush()
}

fn step_text(step: &Step, cost: f64) -> String {
    match step {
        Step::Off { name, share: of_it, rate } => format!(
            "probes cost {} of the program's processor time: off goes {name}, {} of it, {} calls a second",
            share(cost),
            share(*of_it),
            count(*rate as u64)
        ),
        Step::On { name } => format!("probes cost {}: {name} comes back", share(cost)),
    }
}

fn sum_up(keeper: &Keeper, last: f64, output: &mut Output) -> Result<(), Failure> {
    let names: Vec<&str> = keeper.off.iter().map(|(name, _)| name.as_str()).collect();
    let left = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    output.line(&format!(
        "Probes cost {} of the program's processor time in the last window, of {} allowed; left out: {left}.",
        share(last),
        share(keeper.budget)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, calls: f64, failed: u64, own_ns: f64) -> Seen {
        Seen { name: name.to_owned(), calls, failed, own_ns }
    }

    fn keeper(budget: f64) -> Keeper {
        Keeper { budget, call_ns: 50.0, off: Vec::new(), calm: 0 }
    }

    /// The program has a second of processor time: operations with many short calls are switched off first,
    /// and only as many as the budget needs.
    #[test]
    fn operations_with_most_calls_and_least_time_are_switched_off_first() {
        let mut keeper = keeper(0.02);
        let all = [seen("page", 1e3, 0, 5e8), seen("get", 1e6, 0, 2e7), seen("parse", 2e5, 0, 4e8)];
        let (cost, steps) = keeper.decide(&all, 1e9, 1.0);
        assert!((cost - 1_201_000.0 * 50.0 / 1e9).abs() < 1e-9, "{cost}");
        assert_eq!(steps, [Step::Off { name: "get".into(), share: 0.05, rate: 1e6 }]);
        // The operations that are still on fit into the budget.
        let (_, steps) = keeper.decide(&[all[0].clone(), all[2].clone()], 1e9, 1.0);
        assert_eq!(steps, []);
    }

    #[test]
    fn what_fails_is_left_longer() {
        let all = [seen("a", 1e6, 3, 1e8), seen("b", 1e6, 0, 2e8)];
        let (_, steps) = keeper(0.06).decide(&all, 1e9, 1.0);
        assert_eq!(steps, [Step::Off { name: "b".into(), share: 0.05, rate: 1e6 }]);
    }

    #[test]
    fn what_went_last_comes_back_when_there_is_room_for_it() {
        let mut keeper = keeper(0.02);
        keeper.off = vec![("hot".into(), 0.3), ("warm".into(), 0.004)];
        let calm = [seen("page", 2e5, 0, 5e8)];
        assert_eq!(keeper.decide(&calm, 1e9, 1.0).1, []);
        assert_eq!(keeper.decide(&calm, 1e9, 1.0).1, []);
        assert_eq!(keeper.decide(&calm, 1e9, 1.0).1, [Step::On { name: "warm".into() }]);
        // Calls that were made before the switch are not counted.
        assert_eq!(keeper.decide(&[calm[0].clone(), seen("hot", 1e9, 0, 1.0)], 1e9, 1.0).1, []);
        // An operation whose calls would cost more than the budget stays off.
        for _ in 0..20 {
            assert_eq!(keeper.decide(&calm, 1e9, 1.0).1, []);
        }
    }
}
