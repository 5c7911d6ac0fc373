//! *What if*: which change of a network would raise its flow, and by how much, from one recording.
//!
//! The events of a run in mode full record the cost of each message, its streams, their contents, and the
//! workers of tasks. A replay (a discrete-event simulation, see `replay.rs`) processes the same messages with
//! one change: a box twice as fast, a task on another worker, longer streams. Coz answers the same question
//! for a running program by slowing all other parts of it (Curtsinger and Berger, SOSP 2015), and Scalasca by
//! replaying traces for delays (Geimer et al., 2010).
//!
//! **A replay must first reproduce the unchanged run.** If the replay's throughput differs from the recorded
//! one by more than [`WhatIf::bound`], nothing is predicted, because the model lacks what limits this run.
//! The replay does not model other processes: if the busiest worker was kept from its processor, the replay
//! may be faster by that time.
//!
//! **Formulas.** Each task has a *script*: step `j` reads one message from a stream (or none, in a source),
//! is busy for `c_j`, and writes. `c_j` is the time recorded for the message itself, or else the dispatch's
//! busy time (without the time in which its worker had no processor) divided by its messages; a source's wait
//! for outside input is a delay that needs no processor.
//!
//! - Threads that are busy share `P` processors: each progresses at the rate `1 / (1 − φ + φ · max(1, Σ φ /
//!   P))`, with `φ` the processor time of its thread divided by the thread's busy time.
//! - A dispatch reads at most `min(quantum, target / c, max(10 µs / c, capacity / 2))` messages, and at most
//!   eight times as many as the dispatch before.
//! - The time between two dispatches of a worker that did not wait is the recorded mean; an idle thread that
//!   spins or sleeps wakes after the recorded median.
//! - Sources pause when `written − read ≥ U`, until `U / 2` messages are in flight.
//! - A task with several inputs reads them in the recorded order if it mostly waited for one particular
//!   input; else it reads any input that has a message. The k-th message that the task reads gets the
//!   recorded cost and outputs of its k-th message, so totals stay the same.
//! - A box that is often asleep in `read` is assumed to run at the pace of its outside input, and a sink that is
//!   often asleep in `write` at the pace of the program that reads what it writes: then the only change tried is
//!   to make that box or sink faster. Replicas of a box that sleeps for a lock or in `read` are not tried. A box in a star is replicated in each
//!   stage, and in a split in each replica of the split.
//! - A change with which tasks are placed anew (another number of workers or mapper, replicas, no places)
//!   gains only what it gains beyond another run of the unchanged network, in which tasks are placed anew as
//!   well. Tasks that are created during the run are placed as the runtime does: replicas of a split where
//!   there is time for them, stages of a star on the worker of the star.
//! - Where a component becomes faster or does without a lock, replicas of splits go to the worker that it relieves, as
//!   the runtime moves them while the network runs (`exec.spread`). What such moves gain without the change does not
//!   count.
//! - A loss by fewer workers or by other places of tasks is not predicted: with fewer busy threads each message
//!   takes less time, by an amount that the recording does not show.
//! - Gain `= T_before / T_after − 1`, with both times from replays; without a limit on messages in flight,
//!   `T_before` is the time of the run if the replay is slower, because it then takes the limit for a greater
//!   hindrance than it was. The interval of the gain comes from a bootstrap over 32 parts of the run with equal
//!   numbers of messages at the sinks, widened by the replay's error: 2 %, and half of its deviation from the
//!   recorded run.
//!
//! ```no_run
//! let feed = thalweg_scope::ScopeFeed::of("kept-run")?;
//! for row in thalweg_monitor::what_if(&feed, 2.0)?.changes {
//!     println!("{}: {:+.0} %", row.change, 100.0 * row.gain);
//! }
//! # Ok::<(), thalweg_space::Error>(())
//! ```

mod changes;
mod compare;
mod judged;
mod model;
mod recording;
mod replay;
mod sums;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thalweg_space::Error;
use thalweg_space::reader::{Feed, SpaceReader};

pub use changes::Change;
use changes::NO_LOSS;
pub use compare::{Comparison, Difference, compare};
pub use judged::{Judging, judged};
pub use model::Unfolding;
use model::{Model, Runtime};
use recording::{Recording, STEPS_MAX};
use replay::{Outcome, replay};
use sums::by_sums;

use crate::following::follower::Follower;

/// The replay's throughput may differ from the recorded one by at most this share.
const BOUND: f64 = 0.3;
/// If a run was kept from its processors for a greater share of its time, nothing is predicted.
const KEPT_MAX: f64 = 0.7;
/// The relative error of a replay that reproduces the run exactly; [`MISSED`] is the share of a replay's
/// deviation from the recorded run that is added to this error.
const WRONG: f64 = 0.02;
const MISSED: f64 = 0.5;
/// The number of parts of the run from which the bootstrap draws.
const PARTS: usize = 32;
/// A larger number of workers is treated as damage.
const WORKERS_MAX: u64 = 4096;
/// The number of samples of the bootstrap.
const SAMPLES: usize = 500;
/// The share of samples that lie below an interval, and the share that lie above it.
const LEFT_OUT: f64 = 0.05;

/// Why a run cannot be replayed of which not everything was recorded.
const INCOMPLETE: &str =
    "not every dispatch of the run is recorded: record it by `thalweg run --monitor full --keep`";
/// The most tasks whose sums are read.
const TASKS_MAX: usize = 4096;

/// The predicted effects of changes of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Messages a second that the run's sinks read.
    pub recorded_per_s: f64,
    /// The share of the run in which the busiest worker was runnable without a processor. The replay does not
    /// model delays by a lack of processors.
    pub kept: f64,
    /// Changes are predicted only if `kept` is at most this.
    pub kept_bound: f64,
    /// Messages a second at the sinks in the replay of the unchanged run.
    pub replayed_per_s: Option<f64>,
    /// Changes are predicted only if the replay deviates from the run by at most this share.
    pub bound: f64,
    /// The assumed number of threads that can run at the same time.
    pub processors: f64,
    /// The number of messages replayed, counted once for each task that read them.
    pub messages: u64,
    /// Whether the run was longer than the replayed part, so that the prediction is about its beginning.
    pub is_cut: bool,
    /// The reason why nothing is predicted; `None` if there are predictions.
    pub refused: Option<String>,
    /// Whether the predictions come from the sums of what tasks took, because not every dispatch was recorded:
    /// only changes are predicted whose gain does not depend on the order of messages.
    #[serde(default)]
    pub by_sums: bool,
    /// The changes that were tried, the greatest gain first.
    pub changes: Vec<Predicted>,
}

/// A change and its predicted gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The change.
    pub change: Change,
    /// The change in words.
    pub words: String,
    /// The growth of the flow, as a share of 1.
    pub gain: f64,
    /// The lower end of the interval that contains nine of ten samples of a bootstrap over parts of the run.
    pub least: f64,
    /// The upper end of the interval that contains nine of ten samples.
    pub most: f64,
}

/// Replays the run of a feed's one space as it was, and with each of many changes. At most `processors`
/// threads run at the same time. If not every dispatch was recorded, the effects of fewer changes are predicted
/// from what tasks took altogether.
///
/// # Errors
/// When the space cannot be read. A run without predictions is no error: [`WhatIf::refused`] gives the
/// reason.
pub fn what_if<F: Feed>(feed: &F, processors: f64) -> Result<WhatIf, Error> {
    let mut answer = tried_or_summed(feed, processors)?;
    answer.changes.retain(|row| !row.change.moves_tasks() || row.gain >= -NO_LOSS);
    Ok(answer)
}

/// The predictions of replays, or those by sums.
fn tried_or_summed<F: Feed>(feed: &F, processors: f64) -> Result<WhatIf, Error> {
    let answer = replayed(feed, processors, STEPS_MAX)?.answer;
    match feed.spaces() {
        [reader] if answer.refused.as_deref() == Some(INCOMPLETE) => {
            let mut follower = Follower::of(feed.again()?, TASKS_MAX)?;
            follower.poll();
            let sums = by_sums(&follower.finish()?, runtime(reader, processors)?).answer;
            let refused = sums.refused.map(|why| format!("{INCOMPLETE}; {why}"));
            Ok(WhatIf { refused, by_sums: true, ..sums })
        }
        _ => Ok(answer),
    }
}

/// Makes the predictions, replaying at most `messages_max` messages.
fn replayed<F: Feed>(feed: &F, processors: f64, messages_max: usize) -> Result<Replayed, Error> {
    let Some(reader) = feed.spaces().first().filter(|_| feed.spaces().len() == 1) else {
        return Ok(Replayed::refused(
            "a session has several processes: name the space of one (`thalweg ls` shows them)",
        ));
    };
    let runtime = runtime(reader, processors)?;
    let mut recording = Recording::new(1e9 / reader.info()?.clock.hz(), runtime.spin_ns, messages_max);
    let mut follower = Follower::with(feed.again()?, 1, 0, vec![Box::new(&mut recording)])?;
    follower.poll();
    follower.finish()?;
    if recording.incomplete {
        return Ok(Replayed::refused(INCOMPLETE));
    }
    let lasted_ns = recording.lasted_ns();
    let (is_cut, kept) = (recording.is_cut(), recording.kept_ns() / lasted_ns.max(1.0));
    let replayed = match recording.model(runtime) {
        Ok(model) => predicted(&model, lasted_ns, if is_cut { 0.0 } else { kept }),
        Err(why) => Replayed::refused(&why),
    };
    Ok(replayed.cut(is_cut))
}

/// The predictions of replays, and the gains in the samples of the bootstrap.
struct Replayed {
    answer: WhatIf,
    /// Gains of each change in the samples of the bootstrap, in which the same parts of the run are drawn for
    /// every change.
    samples: Vec<Vec<f64>>,
    /// The duration of the unchanged run's replay divided by the duration of the run.
    faster: f64,
}

impl Replayed {
    fn refused(why: &str) -> Replayed {
        Replayed { answer: refusal(why), samples: Vec::new(), faster: 1.0 }
    }

    fn cut(mut self, is_cut: bool) -> Replayed {
        self.answer.is_cut = is_cut;
        self
    }
}

/// The settings of a run.
fn runtime(reader: &SpaceReader, processors: f64) -> Result<Runtime, Error> {
    let settings = reader.settings()?;
    let value = |name: &str, default: u64| {
        settings.iter().find(|setting| setting.name == name).map_or(default, |setting| setting.value)
    };
    Ok(Runtime {
        // The value may be damaged, so it is limited to a plausible range.
        workers: value("exec.workers", 1).clamp(1, WORKERS_MAX) as usize,
        processors,
        quantum: value("exec.quantum", 64) as usize,
        quantum_ns: value("exec.quantum_us", 100) as f64 * 1e3,
        unfinished: value("exec.unfinished", 0),
        spin_ns: value("exec.spin_us", 30) as f64 * 1e3,
        in_turn: match value("exec.mapper", u64::MAX) {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        spreads: value("exec.spread", 1) != 0,
        steals: value("exec.steal", 0) != 0,
        ..Runtime::default()
    })
}

fn refusal(why: &str) -> WhatIf {
    WhatIf {
        recorded_per_s: 0.0,
        kept: 0.0,
        replayed_per_s: None,
        kept_bound: KEPT_MAX,
        bound: BOUND,
        processors: 0.0,
        messages: 0,
        is_cut: false,
        refused: Some(why.to_owned()),
        by_sums: false,
        changes: Vec::new(),
    }
}

/// Replays the unchanged run, and the run with each change if the first replay is close enough to the
/// recording.
fn predicted(model: &Model, lasted_ns: f64, kept: f64) -> Replayed {
    let sinks = (0..model.tasks.len()).filter(|&at| replay::is_sink(model, at));
    let taken: usize = sinks.map(|at| model.tasks[at].script.steps.len()).sum();
    let per_s = |ns: f64| taken as f64 / (ns.max(1.0) / 1e9);
    let mut answer = WhatIf {
        recorded_per_s: per_s(lasted_ns),
        kept,
        processors: model.runtime.processors,
        messages: model.tasks.iter().map(|task| task.script.steps.len() as u64).sum(),
        ..refusal("")
    };
    let without = |answer: WhatIf, why: &str| {
        let answer = WhatIf { refused: Some(why.to_owned()), ..answer };
        Replayed { answer, samples: Vec::new(), faster: 1.0 }
    };
    if taken == 0 {
        return without(answer, "no message reached the end of the network");
    }
    // The recording does not show whether the tasks that wait for a lock wait for the same one, so both
    // assumptions are replayed, and the one that reproduces the run better is used.
    let unshared = model.without_locks();
    let (model, before) = match (replay(model, PARTS), unshared.as_ref()) {
        (before, None) => (model, before),
        (before, Some(other)) => {
            let without = replay(other, PARTS);
            let off = |of: &Option<Outcome>| {
                of.as_ref().map_or(f64::INFINITY, |of| (of.lasted_ns / lasted_ns.max(1.0)).ln().abs())
            };
            if off(&without) < off(&before) { (other, without) } else { (model, before) }
        }
    };
    let Some(before) = before else {
        return without(answer, "the replay of the run as it was comes to a standstill");
    };
    answer.replayed_per_s = Some(per_s(before.lasted_ns));
    let off = off(lasted_ns, kept, before.lasted_ns);
    answer.refused = beyond(lasted_ns, kept, off);
    let faster = lasted_ns / before.lasted_ns.max(1.0);
    if answer.refused.is_some() {
        return Replayed { answer, samples: Vec::new(), faster };
    }
    let anew = replay(&changes::placed_anew(model), PARTS).filter(|anew| anew.lasted_ns < before.lasted_ns);
    let rebalanced = changes::rebalanced(model).and_then(|other| replay(&other, PARTS));
    let rebalanced = rebalanced.filter(|other| other.lasted_ns < before.lasted_ns);
    let unchanged = |change: &Change| {
        let anew = anew.as_ref().filter(|_| change.places_anew(model));
        anew.or(rebalanced.as_ref().filter(|_| change.rebalances())).unwrap_or(&before)
    };
    let mut rows: Vec<(Predicted, Vec<f64>)> = tried(model, changes::candidates(model))
        .into_iter()
        .filter_map(|(change, after)| {
            let after = after?;
            let before = unchanged(&change);
            // A replay that is slower than the run takes the limit for a greater hindrance than it was.
            let of_run = match change {
                Change::NoLimit { .. } => (lasted_ns / before.lasted_ns).min(1.0),
                _ => 1.0,
            };
            let samples: Vec<f64> =
                samples(before, &after).into_iter().map(|gain| (1.0 + gain) * of_run - 1.0).collect();
            let (least, most) = interval(&samples);
            let wrong = 1.0 + WRONG + MISSED * off.abs();
            let (least, most) = ((1.0 + least) / wrong - 1.0, (1.0 + most) * wrong - 1.0);
            let gain = of_run * before.lasted_ns / after.lasted_ns - 1.0;
            if !change.is_known(model, gain) {
                return None;
            }
            let words = change.to_string();
            Some((Predicted { words, change, gain, least: least.min(gain), most: most.max(gain) }, samples))
        })
        .collect();
    rows.sort_by(|a, b| b.0.gain.total_cmp(&a.0.gain));
    let samples;
    (answer.changes, samples) = rows.into_iter().unzip();
    Replayed { answer, samples, faster }
}

/// Replays with each change, on all available processors.
fn tried(model: &Model, changes: Vec<Change>) -> Vec<(Change, Option<Outcome>)> {
    let threads =
        std::thread::available_parallelism().map_or(1, |count| count.get()).min(changes.len()).max(1);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(change) = changes.get(at) else { return done };
            done.push((at, replay(&change.applied(model), PARTS)));
        }
    };
    let mut outcomes: Vec<(usize, Option<Outcome>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            // A panic in a replay is a bug and is passed on.
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    outcomes.sort_by_key(|(at, _)| *at);
    changes.into_iter().zip(outcomes).map(|(change, (_, outcome))| (change, outcome)).collect()
}

/// The relative deviation of the unchanged run's replay from the run. It is not known how much of the time in
/// which a worker had no processor delayed the run. So a replay counts as deviating only if it lasts longer
/// than the run, or less than the run without the time in which a worker had no processor.
fn off(lasted_ns: f64, kept: f64, replayed_ns: f64) -> f64 {
    let least = lasted_ns * (1.0 - kept.clamp(0.0, 1.0));
    let nearest_ns = if least <= lasted_ns { replayed_ns.clamp(least, lasted_ns) } else { lasted_ns };
    nearest_ns / replayed_ns - 1.0
}

/// The reason why the unchanged run's replay cannot be trusted; `None` if it can.
fn beyond(lasted_ns: f64, kept: f64, off: f64) -> Option<String> {
    // The clock of a damaged space may have any frequency.
    if !lasted_ns.is_finite() || lasted_ns <= 0.0 || !(0.0..=1.0).contains(&kept) || !off.is_finite() {
        return Some("the recording does not say how long the run lasted".to_owned());
    }
    if kept > KEPT_MAX {
        return Some(format!(
            "a worker had no processor for {:.0} % of the time, because of other processes or of too many threads: \
             what the run does by itself cannot be told from that",
            100.0 * kept
        ));
    }
    (off.abs() > BOUND).then(|| {
        format!(
            "the replay of the run as it was is {:.0} % {} than it was: what limits it is not in the recording \
             (locks, sleeps, what the kernel does)",
            100.0 * off.abs(),
            if off > 0.0 { "faster" } else { "slower" }
        )
    })
}

/// The gains in the samples of a bootstrap: parts of the run are drawn repeatedly, each with its duration
/// before and after the change. The same parts are drawn for every change.
fn samples(before: &Outcome, after: &Outcome) -> Vec<f64> {
    let lengths = |parts: &[f64]| -> Vec<f64> {
        let begins = std::iter::once(0.0).chain(parts.iter().copied());
        parts.iter().zip(begins).map(|(end, begin)| end - begin).collect()
    };
    let (before, after) = (lengths(&before.parts_ns), lengths(&after.parts_ns));
    let mut chance = 1_u64;
    let mut drawn = || {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) as usize % before.len()
    };
    let gain = |_| {
        let (mut all_before, mut all_after) = (0.0, 0.0);
        for _ in 0..before.len() {
            let at = drawn();
            all_before += before[at];
            all_after += after[at];
        }
        all_before / all_after.max(1.0) - 1.0
    };
    (0..SAMPLES).map(gain).collect()
}

/// The interval that contains nine of ten samples.
fn interval(samples: &[f64]) -> (f64, f64) {
    let mut gains = samples.to_vec();
    gains.sort_by(f64::total_cmp);
    let at = |part: f64| gains[((gains.len() - 1) as f64 * part) as usize];
    (at(LEFT_OUT), at(1.0 - LEFT_OUT))
}
