//! The end of a dispatch that read one stream to its end and wrote to one other stream. A message that is alone in
//! its network makes such a dispatch at each task that it passes.
//!
//! The functions of `publishing` end any dispatch, and decide for each end what to do. These take the same
//! steps in the same order in fewer instructions, because they know which steps there are. If the dispatch wakes
//! the only task that is ready, that task is not queued: its dispatch follows, and begins with the messages at
//! hand.

use std::ptr::NonNull;

use super::budget::Budget;
use super::core::Core;
use crate::dispatch::used::Touch;
use crate::ring::{AWAKE, NOTED, TASK_WAITS, TOUCHED, Wait};
use crate::stop::Stop;
use crate::sync::Ordering;
use crate::task::cell::{Current, Ring, State, TaskCell};
use crate::telemetry::{Cause, Counts, Share};

/// A task that was made ready by the dispatch before, and is next on this thread because no other task is ready.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) task: NonNull<TaskCell>,
    /// The stream of the messages that woke the task.
    pub(super) by: NonNull<Ring>,
}

/// How a dispatch ended.
pub(super) enum Relayed {
    /// It was no simple one; nothing was done.
    Not,
    Done,
    /// It woke the task that is next.
    To(Next),
}

impl Core {
    /// Publishes the current task's dispatch and arms the task's wake-up, if the dispatch was as simple as that.
    #[inline(always)]
    pub(super) fn relay(&mut self, task: &TaskCell, stop: Stop, budget: &Budget) -> Relayed {
        if !self.adopted.relays {
            return Relayed::Not;
        }
        let [one, other] = self.used.touched[..] else { return Relayed::Not };
        let (from, to) = if one.writes { (other, one) } else { (one, other) };
        let is_simple = stop == Stop::InputEmpty
            && one.writes != other.writes
            && budget.is_unsampled()
            && self.handed.is_none()
            && !task.has_rare();
        if !is_simple {
            return Relayed::Not;
        }
        // A task that waits for any of several inputs has rare state, and references are released at the end of a
        // dispatch only.
        debug_assert!(!self.used.ports_wait && self.used.released.is_empty());
        let by = to.ring;
        // SAFETY: an end on the list is kept until the list is emptied, and the references are not kept longer.
        let (from, to) = unsafe { (from.ring.as_ref(), to.ring.as_ref()) };
        // A reader that saw the stream's end before, and did not end, is an error, which `arm` reports.
        if from.reading.state.load(Ordering::Relaxed) != TOUCHED | NOTED
            || to.writing.state.load(Ordering::Relaxed) != TOUCHED
            || from.reading.end_told.get()
        {
            return Relayed::Not;
        }
        let writes = to.written_since();
        let is_direct = self.own_tasks().ready.is_empty() && writes > 0 && from.taken_since() == writes;
        if self.telemetry.measures() {
            return if is_direct { self.relay_measured(task, (from, to, by), writes) } else { Relayed::Not };
        }
        if is_direct && let Some(reader) = to.publish_to_reader_here(self.me) {
            count_relay(task, writes);
            return self.relay_to(task, (from, to, by), reader);
        }
        self.publish_relay(task, (from, to), false);
        Relayed::Done
    }

    /// Ends the current task's dispatch, which read from one stream the last messages, and wrote as many to another,
    /// as [`Core::relay`] does, in a mode in which dispatches are measured.
    #[inline(never)]
    fn relay_measured(
        &mut self,
        task: &TaskCell,
        (from, to, by): (&Ring, &Ring, NonNull<Ring>),
        writes: usize,
    ) -> Relayed {
        if !self.measure_relay(task, (from, to), writes) {
            return Relayed::Not;
        }
        let Some(reader) = to.publish_to_reader_here(self.me) else {
            self.publish_relay(task, (from, to), true);
            return Relayed::Done;
        };
        self.relay_to(task, (from, to, by), reader)
    }

    /// Counts and records the current task's dispatch, which read the last messages of one stream and wrote as many
    /// to another; the reader of the other stream waits for them on this thread. Returns false, and does nothing, if
    /// the dispatch is not recorded as shortly as that.
    #[inline]
    fn measure_relay(&mut self, task: &TaskCell, (from, to): (&Ring, &Ring), writes: usize) -> bool {
        if !to.is_awaited_here(self.me) || !to.telemetry.no_sizes_are_due(to.writing.pushed.get()) {
            return false;
        }
        self.telemetry.publishing_begins();
        let Counts { dispatches, reads, writes: written } = &task.counts;
        let before = (dispatches.get(), reads.get(), written.get());
        count_relay(task, writes);
        let is_recorded = self.telemetry.relay_ends(task, (Stop::InputEmpty, false), (from, to));
        if !is_recorded {
            dispatches.set(before.0);
            reads.set(before.1);
            written.set(before.2);
        }
        is_recorded
    }

    /// Ends the current task's dispatch, which was counted, read from one stream the last messages, and wrote as many
    /// to another, where they were published and `reader` waited for them.
    #[inline(always)]
    fn relay_to(
        &mut self,
        task: &TaskCell,
        (from, to, by): (&Ring, &Ring, NonNull<Ring>),
        reader: &TaskCell,
    ) -> Relayed {
        self.used.popped_last.set(std::ptr::null());
        self.used.touched.clear();
        to.writing.limit.set(to.writing.pushed.get());
        to.writing.state.store(0, Ordering::Release);
        from.reading.available.set(from.reading.popped.get());
        if reader.state.get() != State::Idle || reader.worker() != self.worker {
            self.wake(reader, Cause::Input, to.id);
            self.rest(task, from);
            return Relayed::Done;
        }
        self.telemetry.task_woken(reader, Cause::Input, to.id);
        self.no_longer_idle(reader);
        if from.rest_here(self.me) && !task.notified.get() {
            task.waits_for_only(from);
            task.waits_for.set(Share::InputWait);
            task.state.set(State::Idle);
            from.reading.state.store(0, Ordering::Release);
        } else {
            self.rest(task, from);
        }
        reader.state.set(State::Ready);
        Relayed::To(Next { task: NonNull::from(reader), by })
    }

    /// Puts a task that is next into the queue instead, because the thread has other work to look at.
    #[cold]
    pub(super) fn queue_next(&mut self, next: Next) {
        self.task = Current::NONE;
        // SAFETY: a ready task is alive, and this is its thread.
        self.tasks().ready.push_front(unsafe { next.task.as_ref() });
    }

    /// Begins the dispatch of a task that is next: the messages that woke it can be read without a look for
    /// them.
    #[inline(always)]
    pub(super) fn begin_relayed(&mut self, next: Next) {
        // SAFETY: the task that is next has an end of the stream, which keeps it.
        let ring = unsafe { next.by.as_ref() };
        debug_assert!(self.used.touched.is_empty());
        if ring.may_read_here() && self.used.touch_if_room(Touch { ring: next.by, writes: false }) {
            ring.begin_reading_here();
        }
    }

    /// Publishes the current task's dispatch, and counts it unless it `is_counted` already.
    #[inline(never)]
    fn publish_relay(&mut self, task: &TaskCell, (from, to): (&Ring, &Ring), is_counted: bool) {
        if !is_counted {
            self.telemetry.publishing_begins();
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            self.count(from.taken_since() - from.discarded(), to.written_since());
        }
        let (pushed, popped) = (to.writing.pushed.get(), from.reading.popped.get());
        to.writing.limit.set(pushed);
        from.reading.available.set(popped);
        self.used.popped_last.set(std::ptr::null());
        self.used.touched.clear();
        if pushed != to.writing.tail.load(Ordering::Relaxed) {
            let waits = to.publish_written(self.me, self.worker);
            if waits != AWAKE {
                self.wake_relayed(to, waits);
            }
            to.leave_writer_section();
        }
        to.writing.state.store(0, Ordering::Release);
        self.rest(task, from);
    }

    /// Publishes what the current task read, and lets the task sleep until the next message comes, unless one
    /// came already.
    fn rest(&mut self, task: &TaskCell, from: &Ring) {
        let popped = from.reading.popped.get();
        if popped != from.reading.head.load(Ordering::Relaxed) {
            let waits = from.publish_read(self.me, self.worker);
            if waits != AWAKE {
                self.wake_writer(from, waits, Cause::Room);
            }
            from.leave_reader_section();
        }
        let armed = from.wait_for_messages(self.me, TASK_WAITS) == Wait::Armed;
        if armed {
            task.waits_for_only(from);
        } else {
            task.forget_first_wait();
        }
        let sleeps = armed && !task.notified.get();
        task.notified.set(false);
        self.stops(task, Stop::InputEmpty, sleeps);
        from.reading.state.store(0, Ordering::Release);
        self.task = Current::NONE;
        if sleeps {
            task.state.set(State::Idle);
        } else {
            self.make_ready(task);
        }
    }

    /// Wakes the reader of a stream, as [`Core::wake_reader`] does. The thread is in the writer's section.
    #[inline]
    fn wake_relayed(&mut self, ring: &Ring, how: u8) {
        if how != TASK_WAITS {
            return self.wake_reader(ring, how, Cause::Input);
        }
        // SAFETY: this thread is in the writer's section, so a reference of the ring that is still visible is
        // not given up.
        if let Some(reader) = unsafe { ring.reading.task.load(Ordering::SeqCst).as_ref() } {
            self.wake(reader, Cause::Input, ring.id);
        }
    }
}

/// Counts a dispatch of a task, which read `messages` messages and wrote as many.
#[inline(always)]
fn count_relay(task: &TaskCell, messages: usize) {
    let Counts { dispatches, reads, writes } = &task.counts;
    dispatches.set(dispatches.get() + 1);
    reads.set(reads.get() + messages as u64);
    writes.set(writes.get() + messages as u64);
}
