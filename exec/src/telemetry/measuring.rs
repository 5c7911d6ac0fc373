//! Decides when a thread measures the sizes of messages, and how many, by the state that [`super::sizes`]
//! keeps of each stream, and records the results.

use super::stream::WatchedStream;
use super::task::{Share, WatchedTask};
use super::thread::Telemetry;

/// The number of messages after which the need to measure is checked again.
const LOOK_AGAIN: u64 = 1 << 10;

/// The time, in nanoseconds, that a thread may spend on measurements before it has done the work that
/// justifies them.
const AHEAD_NS: u64 = 200_000;

/// The budget for measuring messages at the end of a dispatch.
#[derive(Clone, Copy)]
pub(crate) struct SizeBudget {
    /// The part of the time that working on the messages takes which may be spent on measuring, in percent.
    pub(crate) percent: u64,
}

impl SizeBudget {
    fn is_all(self) -> bool {
        self.percent >= 100
    }
}

impl Telemetry {
    /// Whether the dispatch that was just measured wrote a message that is due for the measurement of its
    /// size.
    #[inline]
    pub(crate) fn sizes_are_due(&mut self) -> bool {
        self.now.sizes_due
    }

    /// Notes that the thread now measures all messages whose measurement is due.
    pub(crate) fn sizes_are_seen_to(&mut self) {
        self.now.sizes_due = false;
    }

    /// The index of the next message to measure among those that the dispatch wrote and that are not
    /// published yet (those from `published` on).
    pub(crate) fn size_wanted(
        &mut self,
        stream: &impl WatchedStream,
        published: usize,
        budget: SizeBudget,
    ) -> Option<usize> {
        let sizes = stream.telemetry().sizes()?;
        let end = stream.position(true);
        if !sizes.are_due(end) {
            return None;
        }
        if budget.percent == 0 {
            sizes.go_on(end, LOOK_AGAIN);
            return None;
        }
        if !budget.is_all()
            && self.account.sizes_paid > self.now.ticks + self.board.clock.ns_to_ticks(AHEAD_NS)
        {
            // The budget is spent for now, so the message is skipped. Skipping does not depend on the
            // message's size, so the sample stays unbiased.
            sizes.go_on(end, 2 * sizes.distance());
            return None;
        }
        sizes.next().map(|next| next.max(published)).filter(|&index| index < end)
    }

    /// Counts the measured size of a message, which may be the one size that all messages of the stream have.
    /// If the measurement failed, no further message of the stream is measured.
    pub(crate) fn size_taken(
        &mut self,
        stream: &impl WatchedStream,
        index: usize,
        bytes: Option<u64>,
        all_alike: bool,
    ) {
        let Some(sizes) = stream.telemetry().sizes() else { return };
        let Some(bytes) = bytes else { return sizes.never() };
        let make = || self.board.live_row(|rows| rows.sizes, stream.number());
        sizes.record(make, index, bytes);
        if all_alike {
            sizes.never();
        } else if sizes.next().is_some() {
            sizes.go_on(index, sizes.distance());
        }
    }

    /// Records that sizes of messages which the task wrote to the stream were measured.
    pub(crate) fn sizes_taken(
        &mut self,
        task: &impl WatchedTask,
        stream: &impl WatchedStream,
        taken: u64,
        budget: SizeBudget,
    ) {
        let before = self.now.ticks;
        let spent = self.clock() - before;
        self.account.own(spent);
        let Some(sizes) = stream.telemetry().sizes() else { return };
        let (worked, written) =
            (task.share(Share::Busy), task.did().writes.get() + stream.passed_now(true) as u64);
        let (did, wrote) = sizes.done_since(worked, written);
        if budget.is_all() {
            sizes.set_distance(1);
            return;
        }
        let due = spent.saturating_mul(100) / budget.percent;
        let each = (did / wrote.max(1)).max(1);
        let distance = (due / taken.max(1) / each).clamp(1, 8 * sizes.distance());
        sizes.set_distance(distance.min(1 << 32));
        self.account.sizes_paid = self.account.sizes_paid.max(before) + due;
    }

    /// Notes that the sizes of the stream's messages are unknown, because their type has no function that
    /// measures them.
    pub(crate) fn sizes_unknown(&self, stream: &impl WatchedStream) {
        if let Some(sizes) = stream.telemetry().sizes() {
            sizes.never();
        }
    }
}
