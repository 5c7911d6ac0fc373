//! Computes how many messages a dispatch may read.

use super::core::Core;
use crate::shared::spread::Sample;
use crate::sync::Ordering;
use crate::task::cell::{Pace, Sampling, TaskCell};

/// The number of messages that a dispatch may read, so that it lasts about `exec.quantum_us`.
pub(crate) struct Budget {
    pub(crate) messages: usize,
    /// The time, and the work that the task had done so far, when the dispatch began; `None` if this dispatch
    /// is not sampled.
    started: Option<(u64, u64)>,
}

/// A dispatch takes no more than half of what its streams hold: if a dispatch filled or emptied a stream, the
/// task at the stream's other end could work only while this task does not.
const PARTS: u64 = 2;

/// The least duration of a dispatch, in nanoseconds, that makes the cost of beginning and ending the dispatch
/// negligible.
const WORTH_IT_NS: u64 = 10_000;

/// The longest time between two samples of a replica's dispatches, in nanoseconds; at this interval the cost
/// of a sample is negligible. The samples decide where replicas run.
const UNSEEN_NS: u64 = 20_000;

impl Budget {
    /// Whether the dispatch's time is not measured.
    #[inline]
    pub(super) fn is_unsampled(&self) -> bool {
        self.started.is_none()
    }
}

impl Core {
    #[inline]
    pub(crate) fn begin_budget(&mut self, task: &TaskCell) -> Budget {
        let quantum = self.adopted.quantum;
        let budget = task.pace.get().budget();
        if Sampling::skips(&task.sampling) {
            return Budget { messages: quantum.min(budget.max(1)), started: None };
        }
        let now = self.telemetry.clock_of_dispatch();
        Budget { messages: quantum.min(budget.max(1)), started: Some((now, done_by(task))) }
    }

    /// The number of messages that wait in the stream which the dispatch read last; 0 if the dispatch is not
    /// sampled.
    #[inline]
    pub(super) fn unread(&self, budget: &Budget) -> u64 {
        if budget.started.is_none() {
            return 0;
        }
        // SAFETY: the stream that the dispatch read from is kept alive until the dispatch is published.
        let Some(ring) = (unsafe { self.used.popped_last.get().as_ref() }) else { return 0 };
        ring.writing.tail.load(Ordering::Relaxed).wrapping_sub(ring.reading.popped.get()) as u64
    }

    #[inline]
    pub(super) fn finish_budget(&mut self, task: &TaskCell, budget: &Budget, unread: u64) {
        if let Some((started, done)) = budget.started {
            self.adapt(task, started, done, unread);
        }
    }

    #[cold]
    pub(super) fn adapt(&mut self, task: &TaskCell, started: u64, done: u64, unread: u64) {
        let messages = done_by(task) - done;
        if messages == 0 {
            return;
        }
        let now = self.telemetry.clock_of_dispatch();
        let took = now.saturating_sub(started);
        let each = (took / messages).max(1);
        let target = self.shared.tuning.quantum_ticks(&mut self.telemetry);
        let worth_it = self.shared.clock.ns_to_ticks(WORTH_IT_NS) / each;
        let part = u64::from(task.narrowest.get()) / PARTS;
        let fits = (target / each).min(worth_it.max(part)).max(1);
        let before = task.pace.get().budget() as u64;
        // The budget shrinks at once and grows by at most a factor of eight, because one quick message proves
        // little.
        let next = if before == 0 || fits < before { fits } else { fits.min(before * 8) };
        task.pace.set(Pace::new(next, target / each));
        let is_long = self.is_long(took);
        let sampling = task.sampling.replace(Sampling::every(if is_long { 1 } else { Sampling::EVERY_MAX }));
        if is_long {
            self.wakes_watcher();
        }
        if let Some(replica) = task.member_of() {
            // The first dispatch may be much shorter than those to come.
            let expected = if before == 0 { each.saturating_mul(next.min(64)) } else { took };
            let unseen = self.shared.clock.ns_to_ticks(UNSEEN_NS) / expected.max(1);
            task.sampling.set(Sampling::every(unseen));
            let sample = Sample { ticks: took, messages, dispatches: sampling.stands_for(), unread };
            self.sampled(replica, sample);
        } else {
            self.loads.of_others += took * sampling.stands_for();
        }
    }
}

/// The work that a task did so far: the number of messages that it read, or that it wrote if it reads none.
#[inline]
fn done_by(task: &TaskCell) -> u64 {
    task.counts.reads.get().max(task.counts.writes.get())
}
