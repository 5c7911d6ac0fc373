//! When a thread takes the sizes of messages, and how many: this module asks for what [`super::sizes`] keeps of a stream, and records it.

use super::stream::WatchedStream;
use super::task::{Share, WatchedTask};
use super::thread::Telemetry;

/// Messages until it is looked again whether sizes are to be taken.
const LOOK_AGAIN: u64 = 1 << 10;

/// A thread may take sizes for so long, in nanoseconds, before it has done the work that they are to be a part of.
const AHEAD_NS: u64 = 200_000;

/// What a turn of taking sizes may cost.
#[derive(Clone, Copy)]
pub(crate) struct SizeBudget {
    /// Of the time that the messages take.
    pub(crate) percent: u64,
}

impl SizeBudget {
    fn is_all(self) -> bool {
        self.percent >= 100
    }
}

impl Telemetry {
    /// Whether the dispatch that was just measured wrote a message whose size is to be taken.
    #[inline]
    pub(crate) fn sizes_are_due(&mut self) -> bool {
        self.now.sizes_due
    }

    /// The thread looks at all of them now.
    pub(crate) fn sizes_are_seen_to(&mut self) {
        self.now.sizes_due = false;
    }

    /// Index of the next message whose size is to be taken, of those that the dispatch wrote and that are not `published` yet.
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
            // Too much for now. That this message is passed over has nothing to do with its size.
            sizes.go_on(end, 2 * sizes.distance());
            return None;
        }
        sizes.next().map(|next| next.max(published)).filter(|&index| index < end)
    }

    /// The size of a message was taken, or could not be (then none is any more); or all of the stream's messages are of this size.
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

    /// Records that sizes of messages were taken which the task wrote to the stream.
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

    /// The stream's messages have no function that measures them: it records that their sizes are unknown.
    pub(crate) fn sizes_unknown(&self, stream: &impl WatchedStream) {
        if let Some(sizes) = stream.telemetry().sizes() {
            sizes.never();
        }
    }
}
