//! The steps of a dispatch that passed on the only messages there were, between ends that are known to be on one
//! thread. Each does in one section what the functions of `ring` do in two or more, and does nothing if the
//! caches of homes do not say that the other end is on this thread.

use super::{AWAKE, Holder, Ring, TASK_WAITS, TOUCHED};
use crate::sync::Ordering;

impl<H: Holder> Ring<H> {
    /// Publishes the messages written and returns the reader if it is on this thread, which has the token `me`,
    /// and waits for these messages; its wait flag is cleared. `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn publish_to_reader_here(&self, me: u64) -> Option<&H> {
        let Ring { writing, reading, .. } = self;
        writing.section.store(1, Ordering::Relaxed);
        let is_awaited = writing.reader_home.load(Ordering::Relaxed) == me
            && writing.reader_waiting.load(Ordering::Relaxed) == TASK_WAITS;
        // SAFETY: this thread is in the writer's section, and the cached home says that the reader is on this
        // thread, so a reference that is still visible is not given up: not in the section, nor by this thread
        // before the caller has used it.
        let reader = unsafe { reading.task.load(Ordering::Relaxed).as_ref() }.filter(|_| is_awaited);
        if reader.is_some() {
            writing.tail.store(writing.pushed.get(), Ordering::Release);
            writing.reader_waiting.store(AWAKE, Ordering::Relaxed);
        }
        writing.section.store(0, Ordering::Release);
        reader
    }

    /// Whether [`Ring::publish_to_reader_here`] would publish: the reader is on this thread, which has the token `me`,
    /// and waits.
    #[inline(always)]
    pub(crate) fn is_awaited_here(&self, me: u64) -> bool {
        self.writing.reader_home.load(Ordering::Relaxed) == me
            && self.writing.reader_waiting.load(Ordering::Relaxed) == TASK_WAITS
    }

    /// Frees the slots of the messages read and arms the wake-up by the next message, if the writer is on this
    /// thread, which has the token `me`, and does not wait for room, and no message is left. Returns whether that was
    /// so; if not, nothing was done.
    #[inline(always)]
    pub(crate) fn rest_here(&self, me: u64) -> bool {
        let Ring { writing, reading, .. } = self;
        let popped = reading.popped.get();
        reading.section.store(1, Ordering::Relaxed);
        let rests = reading.writer_home.load(Ordering::Relaxed) == me
            && reading.writer_waiting.load(Ordering::Relaxed) == AWAKE
            && writing.closed.load(Ordering::Relaxed) == 0
            && writing.tail.load(Ordering::Relaxed) == popped;
        if rests {
            reading.head.store(popped, Ordering::Release);
            writing.reader_waiting.store(TASK_WAITS, Ordering::Relaxed);
        }
        reading.section.store(0, Ordering::Release);
        rests
    }

    /// Whether [`Ring::begin_reading_here`] may be called: the reader, which has read before, is in the block into
    /// which the writer writes. The calling thread has both ends.
    #[inline(always)]
    pub(crate) fn may_read_here(&self) -> bool {
        let Ring { writing, reading, .. } = self;
        writing.slots.get() == reading.slots.load(Ordering::Relaxed)
            && reading.mask.get() == writing.mask.get()
            && reading.state.load(Ordering::Relaxed) == 0
    }

    /// Begins the use of the reading end by a dispatch of its task, which may read all messages that are published.
    #[inline(always)]
    pub(crate) fn begin_reading_here(&self) {
        self.reading.state.store(TOUCHED, Ordering::Relaxed);
        self.begin_reading();
        self.reading.available.set(self.writing.tail.load(Ordering::Relaxed));
    }
}
