//! *What if*: which change of a network would raise its flow, and by how much, from one recording.
//!
//! The events of a run that was recorded in mode full have what each message cost, by which streams it went, what streams hold and where
//! tasks ran. A replay (a discrete-event simulation, see `replay.rs`) goes through the same messages with something different: a box
//! twice as fast, a task on another worker, longer streams. This answers for a recording what Coz answers for a running program by slowing
//! the rest (Curtsinger and Berger, SOSP 2015), and what Scalasca answers by replaying traces for delays (Geimer et al., 2010).
//!
//! **First it must reproduce the run as it was.** Where the replay's throughput differs from the recorded one by more than [`WhatIf::bound`], nothing is
//! predicted: the model lacks what limits this run. The replay is that of the run without other processes: where the worker with most to do
//! was kept from its processor, the replay may be faster by as much.
//!
//! **Formulas.** Of each task there is a *script*: step `j` reads one message from a stream (or none: a source), is busy for `c_j`, and
//! writes. `c_j` is the message's own time where that was recorded, else the dispatch's busy time (without what its worker was kept from
//! its processor) by its messages; what a source waits for the outside is a delay that needs no processor.
//!
//! - Threads that are busy share `P` processors: each goes on at the rate `1 / (1 − φ + φ · max(1, Σ φ / P))`, with `φ` the processor time by the busy time of its thread.
//! - A dispatch takes at most `min(quantum, target / c, max(10 µs / c, capacity / 2))` messages, and at most eight times as many as the one before.
//! - Between two dispatches of a worker that did not wait lies the recorded mean; an idle thread that spins, or sleeps, wakes after the recorded medians.
//! - Sources rest from `written − read ≥ U` on until `U / 2` are under way.
//! - A task of several inputs that mostly waited for a certain one reads as it did, else what there is. Costs and routes go by the task's k-th message, so totals are conserved.
//! - A box that is often seen asleep in `read` goes at the pace of what it reads: only that box is tried faster. Replicas of one that sleeps for a lock or in `read` are not tried.
//! - Gain `= T_before / T_after − 1`, both replayed; its interval is that of a bootstrap over 32 parts of the run with as many messages at the sinks, wider by what the
//!   replay is wrong by: 2 %, and half of what it misses of the run as it was.
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
pub use compare::{Comparison, Difference, compare};
pub use judged::{Judging, judged};
use model::{Model, Runtime};
use recording::{Recording, STEPS_MAX};
use replay::{Outcome, replay};

use crate::following::follower::Follower;

/// The replay's throughput may differ from the recorded one by this share of it.
const BOUND: f64 = 0.3;
/// If a run was kept from its processors for a greater share of its time nothing is predicted.
const KEPT_MAX: f64 = 0.7;
/// By how much replays that reproduce a run are wrong all the same, and how much of what they miss of the run as it was they may miss of
/// a gain.
const WRONG: f64 = 0.02;
const MISSED: f64 = 0.5;
/// Parts of the run, over which the bootstrap goes.
const PARTS: usize = 32;
/// A larger number of workers is taken for damage.
const WORKERS_MAX: u64 = 4096;
/// Samples of the bootstrap.
const SAMPLES: usize = 500;
/// This share of them is left out at each end of an interval.
const LEFT_OUT: f64 = 0.05;

/// What changes of a run would bring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Messages a second that the run's sinks took.
    pub recorded_per_s: f64,
    /// For this part of the run the worker with most to do could have run and had no processor. The replay is without that.
    pub kept: f64,
    /// If that part is greater than this, nothing is predicted.
    pub kept_bound: f64,
    /// Messages a second that the sinks take in the replay of the run as it was.
    pub replayed_per_s: Option<f64>,
    /// By which share the replay may differ to be believed.
    pub bound: f64,
    /// Threads that could run at the same time, as was assumed.
    pub processors: f64,
    /// Messages that were replayed, of each task that read them.
    pub messages: u64,
    /// The run was longer than what was replayed; the prediction is about its beginning.
    pub is_cut: bool,
    /// Why nothing is predicted.
    pub refused: Option<String>,
    /// What was tried, the greatest gain first.
    pub changes: Vec<Predicted>,
}

/// A change and what it is predicted to bring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The change.
    pub change: Change,
    /// The change in words.
    pub words: String,
    /// By which part the flow grows.
    pub gain: f64,
    /// Nine of ten samples of a bootstrap over parts of the run are at least this …
    pub least: f64,
    /// … and at most this.
    pub most: f64,
}

/// Replays the run of a feed's one space as it was, and with each of many changes. At most `processors` threads run at the same time.
///
/// # Errors
/// When the space cannot be read. What cannot be predicted is no error: [`WhatIf::refused`] says why.
pub fn what_if<F: Feed>(feed: &F, processors: f64) -> Result<WhatIf, Error> {
    Ok(replayed(feed, processors, STEPS_MAX)?.answer)
}

/// Replays at most so many messages.
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
        return Ok(Replayed::refused(
            "not every dispatch of the run is recorded: record it by `thalweg run --monitor full --keep`",
        ));
    }
    let lasted_ns = recording.lasted_ns();
    let (is_cut, kept) = (recording.is_cut(), recording.kept_ns() / lasted_ns.max(1.0));
    let replayed = match recording.model(runtime) {
        Ok(model) => predicted(&model, lasted_ns, if is_cut { 0.0 } else { kept }),
        Err(why) => Replayed::refused(&why),
    };
    Ok(replayed.cut(is_cut))
}

/// What replays predict, and their samples.
struct Replayed {
    answer: WhatIf,
    /// Gains of each change in the samples of the bootstrap, the same parts of the run in each.
    samples: Vec<Vec<f64>>,
    /// Time of the replay of the run as it was, over the time that this run took.
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
        // A space may hold any value here, also a damaged one.
        workers: value("exec.workers", 1).clamp(1, WORKERS_MAX) as usize,
        processors,
        quantum: value("exec.quantum", 64) as usize,
        quantum_ns: value("exec.quantum_us", 100) as f64 * 1e3,
        unfinished: value("exec.unfinished", 0),
        spin_ns: value("exec.spin_us", 30) as f64 * 1e3,
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
        changes: Vec::new(),
    }
}

/// The replay of the run as it was and with all changes, if it can be believed.
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
    // The recording does not say whether the tasks that wait for a lock wait for the same one: the better assumption is taken.
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
    let mut rows: Vec<(Predicted, Vec<f64>)> = tried(model, changes::candidates(model))
        .into_iter()
        .filter_map(|(change, after)| {
            let after = after?;
            let samples = samples(&before, &after);
            let (least, most) = interval(&samples);
            let wrong = 1.0 + WRONG + MISSED * off.abs();
            let (least, most) = ((1.0 + least) / wrong - 1.0, (1.0 + most) * wrong - 1.0);
            let gain = before.lasted_ns / after.lasted_ns - 1.0;
            let words = change.to_string();
            Some((Predicted { words, change, gain, least: least.min(gain), most: most.max(gain) }, samples))
        })
        .collect();
    rows.sort_by(|a, b| b.0.gain.total_cmp(&a.0.gain));
    let samples;
    (answer.changes, samples) = rows.into_iter().unzip();
    Replayed { answer, samples, faster }
}

/// Replays with each change, on as many threads as may run.
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
            // A replay that panics is an error of this program, and must not be hidden.
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    outcomes.sort_by_key(|(at, _)| *at);
    changes.into_iter().zip(outcomes).map(|(change, (_, outcome))| (change, outcome)).collect()
}

/// By which share the replay of the run as it was is faster than the run. The run would have lasted less without the time in which its
/// threads had no processor, but at least the rest: how much of that time held other threads up is not known.
fn off(lasted_ns: f64, kept: f64, replayed_ns: f64) -> f64 {
    let least = lasted_ns * (1.0 - kept.clamp(0.0, 1.0));
    let nearest_ns = if least <= lasted_ns { replayed_ns.clamp(least, lasted_ns) } else { lasted_ns };
    nearest_ns / replayed_ns - 1.0
}

/// Why the replay of the run as it was cannot be believed, if so.
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

/// The gains in samples of a bootstrap: parts of the run are drawn again and again, each with its time before and after. For every change
/// the same parts are drawn.
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

/// The interval that holds nine of ten samples.
fn interval(samples: &[f64]) -> (f64, f64) {
    let mut gains = samples.to_vec();
    gains.sort_by(f64::total_cmp);
    let at = |part: f64| gains[((gains.len() - 1) as f64 * part) as usize];
    (at(LEFT_OUT), at(1.0 - LEFT_OUT))
}
