//! The decisions of tuners: as data of a page, and as a monitor for screens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_monitor::events::{self, DecidedWhat};
use thalweg_monitor::{Batch, Moment, Monitor, Observation, Report, What};

use crate::lanes::Decided;

/// The largest number of decisions that are kept.
pub(crate) const DECISIONS_MAX: usize = 10_000;

/// A tuner's decision, with its time in ticks.
pub(crate) fn decided(batch: &Batch<'_>, time: u64, of: &events::Decided) -> Decided {
    let known = |figure: f64| figure.is_finite().then_some(figure);
    let text = |text| batch.text(text).to_owned();
    Decided {
        number: of.number,
        at_ns: time as f64,
        what: match of.what {
            DecidedWhat::Began => "began",
            DecidedWhat::Changed => "changed",
            DecidedWhat::Tried => "tried",
            DecidedWhat::Kept => "kept",
            DecidedWhat::TakenBack => "taken back",
            DecidedWhat::Undone => "undone",
            DecidedWhat::Pinned => "pinned",
            DecidedWhat::Advised => "advised",
            DecidedWhat::Ended => "ended",
            DecidedWhat::Unknown => "?",
        }
        .to_owned(),
        change: text(of.change),
        model: text(of.model),
        predicted: known(of.predicted),
        gain: known(of.gain).and_then(|mean| Some([mean, known(of.least)?, known(of.most)?])),
        why: text(of.why),
    }
}

/// A monitor that keeps the last decisions of tuners, and that can be read while a follower owns it.
#[derive(Clone, Default)]
pub struct Decisions(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    /// The decisions, with ticks as times.
    all: Vec<Decided>,
    /// The tick at which the first measured time began.
    zero: Option<u64>,
    ns_per_tick: f64,
}

impl Decisions {
    /// The last `count` decisions, oldest first, with times since the measurement began. Before the first
    /// report there are none.
    pub fn last(&self, count: usize) -> Vec<Decided> {
        let log = self.locked();
        let Some(zero) = log.zero else { return Vec::new() };
        let since = |ticks: f64| (ticks - zero as f64).max(0.0) * log.ns_per_tick;
        let last = &log.all[log.all.len().saturating_sub(count)..];
        last.iter().map(|of| Decided { at_ns: since(of.at_ns), ..of.clone() }).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Monitor for Decisions {
    fn name(&self) -> &str {
        "decisions"
    }

    fn wants(&self) -> &[&str] {
        &["tuner.decided"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        let all = &mut self.locked().all;
        for item in batch.items() {
            if let What::Runtime(Observation::Decided(of)) = item.what {
                all.push(decided(batch, item.time, &of));
            }
        }
        let old = all.len().saturating_sub(DECISIONS_MAX);
        all.drain(..old);
    }

    fn publish(&mut self, moment: &Moment<'_>, _report: &mut Report) {
        let mut log = self.locked();
        log.zero.get_or_insert(moment.begin);
        log.ns_per_tick = moment.ns_per_tick;
    }
}
