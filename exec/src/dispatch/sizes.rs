//! Measures the sizes of messages between the end of a dispatch and its publication, because until then only
//! the writer accesses the messages.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::core::Core;
use crate::sync::Ordering;
use crate::task::cell::Ring;
use crate::telemetry::SizeBudget;

impl Core {
    /// Measures the sizes of those messages that the current dispatch wrote and whose sizes are due.
    #[cold]
    #[inline(never)]
    pub(super) fn take_sizes(core: NonNull<Core>) {
        // SAFETY: this is the thread's own core, here and below; no reference to it is kept while a user's
        // code runs.
        unsafe { &mut *core.as_ptr() }.telemetry.sizes_are_seen_to();
        let mut at = 0;
        // SAFETY: this is the thread's own core; no reference to it is kept while a user's code runs. An end
        // on the list is kept until the list is emptied, which a message's size does not do.
        while let Some(&touch) = unsafe { &*core.as_ptr() }.used.touched.get(at) {
            if touch.writes {
                Core::take_sizes_of(core, touch.ring);
            }
            at += 1;
        }
    }

    /// Measures the sizes that are due of messages that the current task wrote to one stream, which must stay
    /// alive meanwhile.
    #[cold]
    #[inline(never)]
    pub(super) fn take_sizes_of(core: NonNull<Core>, ring: NonNull<Ring>) {
        // SAFETY: guaranteed by the caller; this is the thread's own core, here and below.
        let (ring, own) = unsafe { (ring.as_ref(), &mut *core.as_ptr()) };
        let budget = SizeBudget { percent: own.shared.tuning.clock_budget(&mut own.telemetry) };
        let Some(size) = ring.messages.size else { return own.telemetry.sizes_unknown(ring) };
        let mut taken = 0;
        loop {
            let published = ring.writing.tail.load(Ordering::Relaxed);
            // SAFETY: no other reference to the core is kept.
            let wanted = unsafe { &mut *core.as_ptr() }.telemetry.size_wanted(ring, published, budget);
            let Some(index) = wanted else { break };
            // SAFETY: this is the writer's thread, and the message was written and not published. The user's
            // code has no context, so the user's code writes no messages; ends of streams that it drops are
            // closed only when the dispatch is published.
            let bytes = catch_unwind(AssertUnwindSafe(|| unsafe { size(ring, index) })).ok();
            // SAFETY: this is the thread's own core; no reference to it is kept while a user's code runs.
            let own = unsafe { &mut *core.as_ptr() };
            own.telemetry.size_taken(ring, index, bytes, ring.messages.alike);
            taken += 1;
        }
        if taken > 0 {
            // SAFETY: this is the thread's own core; no reference to it is kept while a user's code runs.
            let own = unsafe { &mut *core.as_ptr() };
            own.telemetry.sizes_taken(own.task.get(), ring, taken, budget);
        }
    }
}
