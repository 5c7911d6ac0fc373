//! Ends of streams: which task has them, and how they are dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::core::{self, Core};
use crate::dispatch::used::{Touch, popped_last_of};
use crate::ring::{AWAKE, FOREIGN, LEAVES, NO_TOKEN, PORT_WAITS, TOUCHED, mark, wait_until_zero};
use crate::sync::Ordering;
use crate::task::cell::{Current, Ring, TaskCell};
use crate::telemetry::Cause;
use crate::wake::wake_from_outside;

impl Core {
    /// Makes the current task the stream's writer and puts the end on the dispatch's list.
    #[inline]
    pub(crate) fn own_writer(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that made this call holds a reference to the ring.
        let r = unsafe { ring.as_ref() };
        if r.writing.task.load(Ordering::Relaxed) != self.task.pointer() {
            self.take_writer(r);
        }
        if mark(&r.writing.state, TOUCHED) {
            r.begin_writing();
            self.used.touched.push(Touch { ring, writes: true });
        }
    }

    #[cold]
    pub(super) fn take_writer(&mut self, ring: &Ring) {
        self.take_tasks_back();
        wait_until_zero(&ring.writing.state);
        let task = self.task.get();
        task.gets_end(ring);
        ring.move_writer(Some(task), self.worker);
        self.telemetry.end_attached(ring, task, true);
    }

    /// Makes the current task the stream's reader and puts the end on the dispatch's list.
    #[inline]
    pub(crate) fn own_reader(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that made this call holds a reference to the ring.
        let r = unsafe { ring.as_ref() };
        if r.reading.task.load(Ordering::Relaxed) != self.task.pointer() {
            self.take_reader(r);
        }
        if mark(&r.reading.state, TOUCHED) {
            r.begin_reading();
            self.used.touched.push(Touch { ring, writes: false });
        }
    }

    #[cold]
    pub(super) fn take_reader(&mut self, ring: &Ring) {
        self.take_tasks_back();
        wait_until_zero(&ring.reading.state);
        let task = self.task.get();
        task.gets_end(ring);
        ring.move_reader(Some(task), self.worker);
        self.telemetry.end_attached(ring, task, false);
    }

    /// Gives a stream's writing end to a task that does not run yet.
    pub(crate) fn attach_writer(&mut self, ring: NonNull<Ring>, task: &TaskCell) {
        debug_assert!(self.lent.lent_since().is_none());
        self.finish_with(ring, true);
        // SAFETY: the end that is attached holds a reference to the ring.
        let ring = unsafe { ring.as_ref() };
        wait_until_zero(&ring.writing.state);
        if !std::ptr::eq(ring.writing.task.load(Ordering::Relaxed), task) {
            task.gets_end(ring);
            ring.move_writer(Some(task), self.worker);
            self.telemetry.end_attached(ring, task, true);
        }
    }

    /// Gives a stream's reading end to a task that does not run yet.
    pub(crate) fn attach_reader(&mut self, ring: NonNull<Ring>, task: &TaskCell) {
        debug_assert!(self.lent.lent_since().is_none());
        self.finish_with(ring, false);
        // SAFETY: the end that is attached holds a reference to the ring.
        let ring = unsafe { ring.as_ref() };
        wait_until_zero(&ring.reading.state);
        if !std::ptr::eq(ring.reading.task.load(Ordering::Relaxed), task) {
            task.gets_end(ring);
            ring.move_reader(Some(task), self.worker);
            self.telemetry.end_attached(ring, task, false);
        }
    }

    /// Removes an end that moves away from the current dispatch's list, and publishes what the dispatch did
    /// with it.
    #[inline]
    pub(super) fn finish_with(&mut self, ring: NonNull<Ring>, writes: bool) {
        self.take_back_handed();
        // An end that has no mark is on no dispatch's list.
        if (Touch { ring, writes }).state().load(Ordering::Relaxed) & TOUCHED != 0 {
            self.finish_with_touched(ring, writes);
        }
    }

    #[inline(never)]
    fn finish_with_touched(&mut self, ring: NonNull<Ring>, writes: bool) {
        self.take_tasks_back();
        let Some(at) =
            self.used.touched.iter().position(|touch| touch.ring == ring && touch.writes == writes)
        else {
            return;
        };
        let touch = self.used.touched.swap_remove(at);
        // SAFETY: the end that moves holds a reference.
        let r = unsafe { ring.as_ref() };
        if !writes && std::ptr::eq(self.used.popped_last.get(), ring.as_ptr()) {
            self.telemetry.read_end_leaves(self.task.get(), popped_last_of(r));
            self.used.popped_last.set(std::ptr::null());
        }
        let (reads, writes_) = self.account(touch);
        self.count(reads, writes_);
        self.telemetry.end_leaves(r, writes);
        self.publish(touch);
        let state = if writes { &r.writing.state } else { &r.reading.state };
        state.store(0, Ordering::Release);
    }

    /// Notes that a writing end is dropped. Returns true if the current dispatch will close the end when the
    /// dispatch ends.
    pub(crate) fn writer_leaves_at_end(core: NonNull<Core>, ring: NonNull<Ring>) -> bool {
        // SAFETY: this is the thread's own core, to which no other reference is held now; the end's
        // reference keeps the ring alive.
        let (core, r) = unsafe { (&mut *core.as_ptr(), ring.as_ref()) };
        if core.task == Current::NONE || r.writing.task.load(Ordering::Relaxed) != core.task.pointer() {
            return false;
        }
        core.take_back_handed();
        core.own_writer(ring);
        mark(&r.writing.state, LEAVES);
        true
    }

    /// Notes that a reading end is dropped. Returns true if the current dispatch will close the end when the
    /// dispatch ends.
    pub(crate) fn reader_leaves_at_end(core: NonNull<Core>, ring: NonNull<Ring>) -> bool {
        // SAFETY: no other reference to the thread's own core is held now, and the end's reference keeps the
        // ring.
        let (core, r) = unsafe { (&mut *core.as_ptr(), ring.as_ref()) };
        if core.task == Current::NONE || r.reading.task.load(Ordering::Relaxed) != core.task.pointer() {
            return false;
        }
        core.take_back_handed();
        core.own_reader(ring);
        mark(&r.reading.state, LEAVES);
        true
    }

    #[cold]
    pub(super) fn close_end(&mut self, touch: Touch) {
        // SAFETY: the reference of the dropped end, which is not given up yet, keeps the ring alive.
        let (ring, task) = (unsafe { touch.ring.as_ref() }, self.task.get());
        task.forget_first_wait();
        if touch.writes {
            self.close(ring)
        } else {
            self.leave(ring);
            self.shared.home.admission.drop_unread(ring.discarded());
        }
        self.used.released.push(touch.ring);
    }

    pub(super) fn close(&mut self, ring: &Ring) {
        debug_assert!(self.lent.lent_since().is_none());
        let waits = ring.end_writing(self.me, self.worker);
        if waits != AWAKE {
            self.wake_reader(ring, waits, Cause::End);
        }
        ring.leave_writer_section();
        self.end_gone(ring);
    }

    pub(super) fn leave(&mut self, ring: &Ring) {
        debug_assert!(self.lent.lent_since().is_none());
        let waits = ring.end_reading(self.me, self.worker);
        if waits != AWAKE {
            self.wake_writer(ring, waits, Cause::End);
        }
        ring.leave_reader_section();
        self.end_gone(ring);
    }

    /// Counts an end of the stream that is gone; when the second end is gone, the stream is closed for good.
    pub(super) fn end_gone(&mut self, ring: &Ring) {
        if ring.telemetry.board().is_some() && ring.count_end() {
            self.telemetry.stream_closed(ring);
        }
    }

    /// Gives up references to streams. Giving up the last reference to a stream frees the stream and drops
    /// its messages, so a user's code may run.
    pub(super) fn free_released(core: NonNull<Core>) {
        loop {
            // SAFETY: this is the thread's own core; the reference ends before a user's code runs.
            let Some(ring) = (unsafe { &mut *core.as_ptr() }).used.released.pop() else { return };
            let freed = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: this gives up the reference of an end that was dropped.
                unsafe { Ring::release(ring.as_ptr()) }
            }));
            drop(freed);
        }
    }
}

/// Closes a writing end that no dispatch of this thread uses.
pub(crate) fn close_writer(ring: NonNull<Ring>) {
    // SAFETY: the end's reference, which is given up below, keeps the ring alive.
    let r = unsafe { ring.as_ref() };
    match core::current() {
        // SAFETY: this is the thread's own core, to which no other reference is held now.
        Some(core) => unsafe {
            let core = &mut *core.as_ptr();
            core.take_tasks_back();
            core.close(r);
        },
        None => {
            let waits = r.end_writing(NO_TOKEN, FOREIGN);
            // SAFETY: this thread is in the writer's section, so the visible reference is not given up.
            let reader = unsafe { r.reading.task.load(Ordering::SeqCst).as_ref() };
            if waits != AWAKE
                && let Some(task) = reader
            {
                if waits == PORT_WAITS {
                    task.push_ready_port(r);
                }
                wake_from_outside(task);
            }
            r.leave_writer_section();
            end_gone_outside(r);
        }
    }
    // SAFETY: this gives up the end's reference.
    unsafe { Ring::release(ring.as_ptr()) }
}

/// Closes the reading end of a stream that no dispatch of this thread uses.
pub(crate) fn leave_reader(ring: NonNull<Ring>) {
    // SAFETY: the end's reference, which is given up below, keeps the ring alive.
    let r = unsafe { ring.as_ref() };
    match core::current() {
        // SAFETY: this is the thread's own core, to which no other reference is held now.
        Some(core) => unsafe {
            let core = &mut *core.as_ptr();
            core.take_tasks_back();
            core.leave(r);
            core.shared.home.admission.drop_unread(r.discarded());
        },
        None => {
            let waits = r.end_reading(NO_TOKEN, FOREIGN);
            // SAFETY: this thread is in the reader's section, so the visible reference is not given up.
            let writer = unsafe { r.writing.task.load(Ordering::SeqCst).as_ref() };
            if waits != AWAKE
                && let Some(task) = writer
            {
                wake_from_outside(task);
            }
            r.leave_reader_section();
            end_gone_outside(r);
        }
    }
    // SAFETY: this gives up the end's reference.
    unsafe { Ring::release(ring.as_ptr()) }
}

fn end_gone_outside(ring: &Ring) {
    if let Some(board) = ring.telemetry.board()
        && ring.count_end()
    {
        board.stream_closed(ring);
    }
}
