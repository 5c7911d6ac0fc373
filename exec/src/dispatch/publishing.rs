//! The end of a dispatch: what a task did with its streams is published, and its wake-ups are armed.

use std::ptr::NonNull;

use super::core::Core;
use crate::dispatch::used::{Touch, only_one_noted, popped_last_of};
use crate::ring::{AWAKE, LEAVES, TASK_WAITS, TOUCHED, Wait};
use crate::stop::Stop;
use crate::sync::Ordering;
use crate::task::cell::{Ring, TaskCell};
use crate::task::spec::TaskId;
use crate::telemetry::Cause;

/// The longest delay that a setting may add to one dispatch, in nanoseconds, however many messages the
/// dispatch read.
const DELAY_NS_MAX: u64 = 100_000_000;

impl Core {
    /// Records and publishes what the current task did: see [`Core::publish_dispatch`].
    #[inline(never)]
    pub(super) fn publish_all(core: NonNull<Core>, stop: Stop) {
        // SAFETY: this is the thread's own core; no user's code runs in what is called while it is borrowed.
        if !unsafe { &mut *core.as_ptr() }.publish_dispatch(stop) {
            Core::publish_with_sizes(core);
        }
    }

    /// Publishes the dispatch that was recorded, after the sizes of the messages chosen for measuring were
    /// measured.
    #[cold]
    #[inline(never)]
    pub(super) fn publish_with_sizes(core: NonNull<Core>) {
        Core::take_sizes(core);
        // SAFETY: this is the thread's own core; no user's code runs in what is called while it is borrowed.
        unsafe { &mut *core.as_ptr() }.settle_used();
    }

    /// Records what the current task did with its streams, publishes it, wakes the tasks that waited for it,
    /// closes the ends that it dropped, and releases the ends for which nothing is left to do. Returns
    /// `false` if the dispatch was only recorded, because sizes of messages must be measured before they are
    /// published, which [`Core::publish_with_sizes`] does.
    #[inline(always)]
    pub(super) fn publish_dispatch(&mut self, stop: Stop) -> bool {
        self.telemetry.publishing_begins();
        if self.adopted.by_demand {
            let demand = self.used.touched.iter().map(|touch| touch.demand()).fold(0, i32::saturating_add);
            self.task.get().demand.set(demand);
        }
        // Most tasks read one stream and write one.
        let Some((from, to)) = self.used_two() else { return self.publish_each(stop) };
        let (reads, writes) = (self.account(from).0, self.account(to).1);
        self.count(reads, writes);
        if self.telemetry.measures() {
            self.measure_two(stop, (from, to), (reads, writes));
            if self.telemetry.sizes_are_due() {
                return false;
            }
        }
        self.settle_two(from, to);
        true
    }

    /// Records what the current task did with its streams, before anything is published or measured.
    pub(super) fn record_dispatch(&mut self, stop: Stop) {
        self.telemetry.publishing_begins();
        let Some((from, to)) = self.used_two() else {
            let (reads, writes) = self.account_all();
            self.count(reads, writes);
            if self.telemetry.measures() {
                self.measure_otherwise(stop, if reads > 0 { reads } else { writes });
            }
            return;
        };
        let (reads, writes) = (self.account(from).0, self.account(to).1);
        self.count(reads, writes);
        if self.telemetry.measures() {
            self.measure_two(stop, (from, to), (reads, writes));
        }
    }

    /// Records and publishes a dispatch that used any number of streams, as [`Core::publish_dispatch`] does.
    #[inline(never)]
    fn publish_each(&mut self, stop: Stop) -> bool {
        let (reads, writes) = self.account_all();
        self.count(reads, writes);
        if self.telemetry.measures() {
            self.measure_otherwise(stop, if reads > 0 { reads } else { writes });
            if self.telemetry.sizes_are_due() {
                return false;
            }
        }
        self.settle_each();
        true
    }

    /// The end that the current dispatch reads and the one that it writes, if it used these two.
    #[inline(always)]
    fn used_two(&self) -> Option<(Touch, Touch)> {
        let [one, other] = self.used.touched[..] else { return None };
        let (from, to) = if one.writes { (other, one) } else { (one, other) };
        (one.writes != other.writes)
            .then_some((Touch { writes: false, ..from }, Touch { writes: true, ..to }))
    }

    /// Publishes what the recorded dispatch did with its ends. Waking tasks runs no user's code, so the list
    /// of ends does not change meanwhile.
    pub(super) fn settle_used(&mut self) {
        match self.used_two() {
            Some((from, to)) => self.settle_two(from, to),
            None => self.settle_each(),
        }
    }

    /// Publishes a dispatch that read one stream and wrote another. The task that waits for messages is woken
    /// first.
    #[inline(always)]
    fn settle_two(&mut self, from: Touch, to: Touch) {
        self.used.popped_last.set(std::ptr::null());
        let (to_kept, from_kept) = (self.settle(to), self.settle(from));
        match (from_kept, to_kept) {
            (false, false) => self.used.touched.clear(),
            (true, true) => {}
            _ => {
                self.used.touched[0] = if from_kept { from } else { to };
                self.used.touched.truncate(1);
            }
        }
    }

    /// Publishes a dispatch that used any number of streams, as [`Core::settle_two`] publishes one that used
    /// two.
    #[inline(never)]
    fn settle_each(&mut self) {
        self.used.popped_last.set(std::ptr::null());
        let mut kept = 0;
        for at in 0..self.used.touched.len() {
            let touch = self.used.touched[at];
            if self.settle(touch) {
                self.used.touched[kept] = touch;
                kept += 1;
            }
        }
        self.used.touched.truncate(kept);
    }

    /// Publishes what the dispatch did with an end. Returns true if the end stays on the list, so that the
    /// task's wake-up by this end can be armed.
    #[inline(always)]
    pub(super) fn settle(&mut self, touch: Touch) -> bool {
        // SAFETY: an end on the list is kept until the list is emptied.
        let ring = unsafe { touch.ring.as_ref() };
        self.publish(touch);
        let state = if touch.writes { &ring.writing.state } else { &ring.reading.state };
        match state.load(Ordering::Relaxed) {
            TOUCHED => {
                state.store(0, Ordering::Release);
                false
            }
            // The end is closed before the task's wake-ups are armed, because the task itself may have the
            // other end.
            marks if marks & LEAVES != 0 => {
                self.close_end(touch);
                false
            }
            _ => true,
        }
    }

    /// The messages read and written at an end in this dispatch. The call also makes the next dispatch's
    /// first use of the end take the long path.
    #[inline(always)]
    pub(super) fn account(&self, touch: Touch) -> (usize, usize) {
        // SAFETY: an end on the list is kept until the list is emptied.
        let ring = unsafe { touch.ring.as_ref() };
        if touch.writes {
            let pushed = ring.writing.pushed.get();
            ring.writing.limit.set(pushed);
            (0, ring.written_since())
        } else {
            let popped = ring.reading.popped.get();
            ring.reading.available.set(popped);
            (ring.taken_since() - ring.discarded(), 0)
        }
    }

    /// The numbers of messages that the dispatch read and wrote at all its ends: sums of [`Core::account`].
    #[inline]
    pub(super) fn account_all(&self) -> (usize, usize) {
        self.used.touched.iter().fold((0, 0), |(reads, writes), &touch| {
            let (read, written) = self.account(touch);
            (reads + read, writes + written)
        })
    }

    /// Counts messages read and written, before they are published.
    #[inline(always)]
    pub(super) fn count(&self, reads: usize, writes: usize) {
        let task = self.task.get();
        task.counts.reads.set(task.counts.reads.get() + reads as u64);
        task.counts.writes.set(task.counts.writes.get() + writes as u64);
        if reads != writes {
            self.shared.home.admission.count(self.worker, task.id.0, reads as u64, writes as u64);
        }
    }

    #[inline(always)]
    pub(super) fn publish(&mut self, touch: Touch) {
        // SAFETY: an end on the list is kept until the list is emptied.
        self.publish_end(unsafe { touch.ring.as_ref() }, touch.writes);
    }

    /// Publishes what the dispatch did with an end. The ring must stay alive during the call.
    #[inline(always)]
    pub(super) fn publish_end(&mut self, ring: &Ring, writes: bool) {
        if writes {
            if ring.writing.pushed.get() != ring.writing.tail.load(Ordering::Relaxed) {
                let waits = ring.publish_written(self.me, self.worker);
                if waits != AWAKE {
                    self.wake_reader(ring, waits, Cause::Input);
                }
                ring.leave_writer_section();
            }
        } else if ring.reading.popped.get() != ring.reading.head.load(Ordering::Relaxed) {
            let waits = ring.publish_read(self.me, self.worker);
            if waits != AWAKE {
                self.wake_writer(ring, waits, Cause::Room);
            }
            ring.leave_reader_section();
        }
    }

    /// Publishes one stream's messages in the middle of a dispatch (blocking tasks).
    pub(crate) fn publish_now(core: NonNull<Core>, ring: NonNull<Ring>) {
        // SAFETY: the end that made this call holds a reference to the ring.
        let r = unsafe { ring.as_ref() };
        let (pushed, published) = (r.writing.pushed.get(), r.writing.tail.load(Ordering::Relaxed));
        if pushed != published {
            // SAFETY: this is the thread's own core; the reference ends before the next line.
            let measures = unsafe { core.as_ref() }.telemetry.measures();
            if measures && r.telemetry.sizes_are_due(pushed) {
                Core::take_sizes_of(core, ring);
            }
            // SAFETY: this is the thread's own core; no user's code runs while it is borrowed.
            let core = unsafe { &mut *core.as_ptr() };
            core.count(0, pushed - published);
            r.begin_writing();
            core.publish(Touch { ring, writes: true });
        }
    }

    /// Arms the wake-ups of the task that stopped. `Ok(true)`: the task sleeps; `Ok(false)`: it is ready
    /// again; `Err`: nothing can ever wake it.
    #[inline(always)]
    pub(super) fn arm(&mut self, task: &TaskCell, stop: Stop) -> Result<bool, &'static str> {
        task.wait_for_none(&mut self.used.released);
        let (ready, sleeps, nothing) = match stop {
            Stop::InputEmpty => {
                // SAFETY: we are the task's thread, and no reference to its groups is kept.
                let has_port = task.has_groups() && unsafe { task.has_ready_port() };
                let before = (has_port, has_port || self.used.ports_wait);
                let (ready, sleeps) =
                    self.arm_noted(task, false, before, |ring| ring.wait_for_messages(self.me, TASK_WAITS));
                (ready, sleeps, "stopped on an empty input, but popped none that could still bring a message")
            }
            Stop::OutputFull => {
                let (ready, sleeps) =
                    self.arm_noted(task, true, (false, false), |ring| ring.wait_for_room(self.me));
                (ready, sleeps, "stopped on a full output, but found none full")
            }
            Stop::QuantumSpent | Stop::Ended => return Ok(false),
        };
        if !ready && !sleeps && !task.notified.get() { Err(nothing) } else { Ok(sleeps && !ready) }
    }

    /// Arms the writing (else reading) ends that the dispatch found full (else empty), unless the task is
    /// ready. Returns whether the task is ready afterwards, and whether something will wake it.
    #[inline(always)]
    fn arm_noted(
        &self,
        task: &TaskCell,
        writes: bool,
        (mut ready, mut sleeps): (bool, bool),
        wait: impl Fn(&Ring) -> Wait,
    ) -> (bool, bool) {
        for touch in &self.used.touched {
            if ready || touch.writes != writes || !touch.waits() {
                continue;
            }
            // SAFETY: an end holds a reference to its ring until the end's state is 0.
            let ring = unsafe { touch.ring.as_ref() };
            match wait(ring) {
                Wait::Armed => {
                    task.wait_for(ring);
                    sleeps = true;
                }
                Wait::Ready => ready = true,
                Wait::Over => {}
            }
        }
        (ready, sleeps)
    }

    /// Releases the ends that were found empty or full, so other dispatches may use them.
    #[inline]
    pub(super) fn let_go(&mut self) {
        self.used.ports_wait = false;
        // The list mostly has one end or none. For so few ends this loop is faster than a `for` loop, which
        // the compiler would unroll by four.
        while let Some(touch) = self.used.touched.pop() {
            touch.state().store(0, Ordering::Release);
        }
    }

    /// Ends the current dispatch's time and records the dispatch, which read `reads` messages from one stream
    /// and wrote `writes` to another.
    #[inline(always)]
    fn measure_two(&mut self, stop: Stop, (from, to): (Touch, Touch), (reads, writes): (usize, usize)) {
        // SAFETY: streams on the dispatch's list are alive until the list is emptied, and these references
        // are not kept longer.
        let streams = unsafe { (from.ring.as_ref(), to.ring.as_ref()) };
        if !self.telemetry.relay_ends(self.task.get(), (stop, self.used.ports_wait), streams) {
            self.measure_otherwise(stop, if reads > 0 { reads } else { writes });
        }
    }

    /// Ends the current dispatch's time and records the dispatch, which used any number of streams and read
    /// (or, if it read none, wrote) `messages` messages.
    #[inline(never)]
    fn measure_otherwise(&mut self, stop: Stop, messages: usize) {
        let task = self.task.get();
        self.delay(task.id, messages as u64);
        // SAFETY: an end on the list is kept until the list is emptied, and the references are not kept longer.
        let ends = self.used.touched.iter().map(|touch| (unsafe { touch.ring.as_ref() }, touch.writes));
        // SAFETY: the stream last read from is on the dispatch's list.
        let popped_last = || unsafe { self.used.popped_last.get().as_ref() }.map(popped_last_of);
        let blocked_on = || match stop {
            Stop::InputEmpty if !self.used.ports_wait => only_one_noted(&self.used.touched, false),
            Stop::OutputFull => only_one_noted(&self.used.touched, true),
            _ => 0,
        };
        self.telemetry.dispatch_ends(task, (stop, blocked_on), ends, popped_last);
        self.look_up_if_it_lags();
        if self.telemetry.is_full() {
            self.times_messages();
        }
    }

    /// Whether the current task's messages took so long until now that the time of each message is recorded.
    pub(crate) fn times_messages(&mut self) -> bool {
        let percent = self.shared.tuning.clock_budget(&mut self.telemetry);
        self.telemetry.times_messages(self.task.get(), percent)
    }

    /// Whether the time of each message is recorded, for a task with a thread of its own that begins its next
    /// dispatch.
    pub(crate) fn times_own_messages(&mut self) -> bool {
        self.telemetry.may_time_messages(self.task.get()) && self.times_messages()
    }

    /// Notes that the current task begins to work on the next message, so that the time of that work is
    /// recorded.
    #[cold]
    pub(crate) fn message_begins(&mut self, index: u64) {
        self.telemetry.message_begins(self.task.get(), index);
    }

    /// Reads the clock, and if a setting delays this task, spins for the delay of `messages` messages.
    pub(super) fn delay(&mut self, task: TaskId, messages: u64) {
        let now = self.telemetry.clock();
        let ticks = self.shared.tuning.delay_ticks(task, now).saturating_mul(messages);
        if ticks == 0 {
            return;
        }
        let end = now.saturating_add(ticks.min(self.shared.clock.ns_to_ticks(DELAY_NS_MAX)));
        while self.telemetry.clock() < end {
            std::hint::spin_loop();
        }
    }

    /// The stream and index of the message that the current task popped last, if that was recorded.
    pub(crate) fn last_read(&self) -> Option<(u64, u64)> {
        // SAFETY: the stream last read from is on the dispatch's list, which keeps the stream alive; if the
        // end left the list, `finish_with` cleared `popped_last`.
        if let Some(ring) = unsafe { self.used.popped_last.get().as_ref() } {
            return Some(popped_last_of(ring));
        }
        self.telemetry.read_before(self.task.get())
    }

    /// Notes that the message pushed last on `child` descends from the one popped last.
    #[inline]
    pub(crate) fn note_derived(&mut self, child: &Ring) {
        let parent = self.used.popped_last.get();
        // SAFETY: the stream last read from is on the dispatch's list, which keeps it alive.
        if !unsafe { self.telemetry.derived_likewise(child, parent) } {
            self.note_derived_otherwise(child, parent);
        }
    }

    #[cold]
    pub(super) fn note_derived_otherwise(&mut self, child: &Ring, parent: *const Ring) {
        if let Some(read) = self.last_read() {
            // SAFETY: the stream last read from is on the dispatch's list, which keeps it alive.
            self.note(child, read, unsafe { parent.as_ref() });
        }
    }

    /// Notes that the message pushed last on `child`, if it was pushed in this dispatch, descends from the
    /// message `read`; `popped` is the stream of `read` if that message was popped last.
    pub(crate) fn note(&mut self, child: &Ring, read: (u64, u64), popped: Option<&Ring>) {
        if child.written_since() != 0 && child.writing.state.load(Ordering::Relaxed) != 0 {
            self.telemetry.derived(child, read, popped);
        }
    }

    /// Notes that the `count` messages pushed last on `child` descend from the `count` messages popped last,
    /// the k-th from the k-th.
    #[cfg(not(loom))]
    pub(crate) fn note_derived_run(&mut self, child: &Ring, count: usize) {
        if let Some(read) = self.last_read() {
            self.telemetry.derived_run(child, count, read);
        }
    }
}
