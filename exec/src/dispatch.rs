//! A dispatch: a thread runs a task for up to a quantum of messages, then publishes what it did, wakes
//! those who waited for it and decides where the task goes next.
//!
//! [`Core`] is a thread's side of that: a worker's, a blocking task's, or (for a moment) any other thread's.
//! No reference to a core is held while a user's code runs, because that code may drop ports, which reach the core
//! through the thread's own pointer to it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use crate::cell::{Current, Ring, Sampling, State, TaskCell};
use crate::context::{Context, Thread};
use crate::fault::Fault;
use crate::moving::Moving;
use crate::ready::ReadyQueue;
use crate::ring::{
    AWAKE, BORDER, FOREIGN, Holder, LEAVES, NO_TOKEN, PORT_WAITS, TASK_WAITS, TOUCHED, Wait, mark,
    wait_until_zero,
};
use crate::shared::Shared;
use crate::spec::TaskId;
use crate::spread::{Loads, Sample};
use crate::stop::Stop;
use crate::sync::{Ordering, fetch_to_write};
use crate::telemetry::{Cause, Recorder, Share, Telemetry};
use crate::used::{Touch, Used, only_one_noted, popped_last_of};
use crate::wake::{Woken, wake_elsewhere, wake_from_outside};

/// What a thread needs to run tasks.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    /// The worker this thread is, or [`FOREIGN`].
    pub(crate) worker: u32,
    /// What it calls itself towards streams (see `ring`): [`NO_TOKEN`] unless it is a worker and the kernel has
    /// `membarrier`.
    pub(crate) me: u64,
    /// The task being dispatched.
    pub(crate) task: Current,
    pub(crate) used: Used,
    pub(crate) tasks: Tasks,
    pub(crate) moving: Moving,
    /// What was sampled of replicas.
    pub(crate) loads: Loads,
    pub(crate) telemetry: Telemetry,
    pub(crate) adopted: Adopted,
}

/// A worker's tasks.
#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) ready: ReadyQueue,
    pub(crate) live: Vec<NonNull<TaskCell>>,
    /// How many idle tasks wait for room.
    pub(crate) wait_for_room: u64,
    /// The worker takes no part.
    pub(crate) parked: bool,
}

/// What a dispatch needs of the settings.
pub(crate) struct Adopted {
    /// How many changes of settings were adopted ([`LOOK_UP`]: there is more to see to before the next dispatch).
    changes: u64,
    quantum: usize,
    pub(crate) unfinished: u64,
    by_demand: bool,
}

/// Never the number of changes of settings.
const LOOK_UP: u64 = u64::MAX;

/// A dispatch is delayed by no more, however many messages it took.
const DELAY_NS_MAX: u64 = 100_000_000;

thread_local! {
    static CORE: Cell<*mut Core> = const { Cell::new(std::ptr::null_mut()) };
}

/// The calling thread's core, while it has one.
pub(crate) fn current() -> Option<NonNull<Core>> {
    NonNull::new(CORE.get())
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>, worker: u32, recorder: Option<Recorder>) -> Core {
        let me = shared.tokens.take(worker);
        let number = (worker != FOREIGN).then_some(worker);
        let telemetry = Telemetry::new(shared.home.board.clone(), number, recorder, shared.tuning.mode_now());
        Core {
            shared,
            worker,
            me,
            task: Current::NONE,
            used: Used::new(),
            tasks: Tasks::default(),
            moving: Moving::default(),
            loads: Loads::default(),
            telemetry,
            adopted: Adopted { changes: LOOK_UP, quantum: 0, unfinished: 0, by_demand: false },
        }
    }

    /// The core that a context or ports know.
    pub(crate) fn of(thread: Thread) -> NonNull<Core> {
        thread.cast()
    }

    /// Makes `core` the thread's while `work` runs.
    pub(crate) fn with<R>(core: NonNull<Core>, work: impl FnOnce() -> R) -> R {
        struct Reset(*mut Core);
        impl Drop for Reset {
            fn drop(&mut self) {
                CORE.set(self.0);
            }
        }
        let _reset = Reset(CORE.replace(core.as_ptr()));
        work()
    }

    // ---- ends of streams

    /// Makes the current task the stream's writer and puts the end on the dispatch's list.
    #[inline]
    pub(crate) fn own_writer(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that called holds a reference.
        let r = unsafe { ring.as_ref() };
        if r.writer.load(Ordering::Relaxed) != self.task.pointer() {
            self.take_writer(r);
        }
        if mark(&r.write_state, TOUCHED) {
            r.begin_writing();
            self.used.touched.push(Touch { ring, writes: true });
        }
    }

    #[cold]
    fn take_writer(&mut self, ring: &Ring) {
        wait_until_zero(&ring.write_state);
        let task = self.task.get();
        task.gets_end(ring);
        ring.move_writer(Some(task), self.worker);
        self.telemetry.end_attached(ring, task, true);
    }

    /// Likewise the reader.
    #[inline]
    pub(crate) fn own_reader(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that called holds a reference.
        let r = unsafe { ring.as_ref() };
        if r.reader.load(Ordering::Relaxed) != self.task.pointer() {
            self.take_reader(r);
        }
        if mark(&r.read_state, TOUCHED) {
            r.begin_reading();
            self.used.touched.push(Touch { ring, writes: false });
        }
    }

    #[cold]
    fn take_reader(&mut self, ring: &Ring) {
        wait_until_zero(&ring.read_state);
        let task = self.task.get();
        task.gets_end(ring);
        ring.move_reader(Some(task), self.worker);
        self.telemetry.end_attached(ring, task, false);
    }

    /// Gives a stream's writing end to a task that does not run yet.
    pub(crate) fn attach_writer(&mut self, ring: NonNull<Ring>, task: &TaskCell) {
        self.finish_with(ring, true);
        // SAFETY: the end that is attached holds a reference.
        let ring = unsafe { ring.as_ref() };
        wait_until_zero(&ring.write_state);
        if !std::ptr::eq(ring.writer.load(Ordering::Relaxed), task) {
            task.gets_end(ring);
            ring.move_writer(Some(task), self.worker);
            self.telemetry.end_attached(ring, task, true);
        }
    }

    /// Likewise the reading end.
    pub(crate) fn attach_reader(&mut self, ring: NonNull<Ring>, task: &TaskCell) {
        self.finish_with(ring, false);
        // SAFETY: the end that is attached holds a reference.
        let ring = unsafe { ring.as_ref() };
        wait_until_zero(&ring.read_state);
        if !std::ptr::eq(ring.reader.load(Ordering::Relaxed), task) {
            task.gets_end(ring);
            ring.move_reader(Some(task), self.worker);
            self.telemetry.end_attached(ring, task, false);
        }
    }

    /// Takes an end that moves away off the current dispatch's list, and publishes what was done with it.
    fn finish_with(&mut self, ring: NonNull<Ring>, writes: bool) {
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
        let state = if writes { &r.write_state } else { &r.read_state };
        state.store(0, Ordering::Release);
    }

    /// A writing end is dropped: true if the current dispatch sees to it at its end.
    pub(crate) fn writer_leaves_at_end(core: NonNull<Core>, ring: NonNull<Ring>) -> bool {
        // SAFETY: the thread's own core, to which no other reference is held now; the end's reference.
        let (core, r) = unsafe { (&mut *core.as_ptr(), ring.as_ref()) };
        if core.task == Current::NONE || r.writer.load(Ordering::Relaxed) != core.task.pointer() {
            return false;
        }
        core.own_writer(ring);
        mark(&r.write_state, LEAVES);
        true
    }

    /// A reading end is dropped: likewise.
    pub(crate) fn reader_leaves_at_end(core: NonNull<Core>, ring: NonNull<Ring>) -> bool {
        // SAFETY: as above.
        let (core, r) = unsafe { (&mut *core.as_ptr(), ring.as_ref()) };
        if core.task == Current::NONE || r.reader.load(Ordering::Relaxed) != core.task.pointer() {
            return false;
        }
        core.own_reader(ring);
        mark(&r.read_state, LEAVES);
        true
    }

    // ---- waking

    /// Makes a task ready (or tells it so while it runs).
    #[inline(always)]
    pub(crate) fn wake(&mut self, task: &TaskCell, cause: Cause, by_stream: u64) {
        if task.worker() != self.worker {
            self.wake_away(task, cause, by_stream);
            return;
        }
        match task.state.get() {
            State::Idle => {
                self.telemetry.task_woken(task, cause, by_stream);
                self.no_longer_idle(task);
                task.state.set(State::Ready);
                if self.adopted.by_demand {
                    task.adds_demand();
                }
                if matches!(cause, Cause::Input | Cause::End) {
                    self.tasks.ready.push_front(task);
                } else {
                    self.tasks.ready.push(task);
                }
            }
            State::Running => task.notified.set(true),
            State::New | State::Moving | State::Ready | State::Ended => {}
        }
    }

    /// An idle task is woken, or goes to another worker.
    #[inline]
    pub(crate) fn no_longer_idle(&mut self, task: &TaskCell) {
        self.tasks.wait_for_room -= u64::from(task.waits_for.get() == Share::OutputWait);
    }

    /// Likewise a task of another thread.
    #[inline(never)]
    fn wake_away(&mut self, task: &TaskCell, cause: Cause, by_stream: u64) {
        let woken = wake_elsewhere(&self.shared.home, task, self.telemetry.stamp());
        if woken == Woken::Already {
            return;
        }
        if woken == Woken::Roused {
            self.did_aside();
        }
        self.telemetry.task_ready(task, cause, by_stream);
    }

    #[inline]
    pub(crate) fn make_ready(&mut self, task: &TaskCell) {
        task.state.set(State::Ready);
        self.tasks.ready.push(task);
    }

    #[inline(never)]
    fn wake_reader(&mut self, ring: &Ring, how: u8, cause: Cause) {
        // SAFETY: we are in the writer's section, so a reference of the ring's that we can still see is not
        // given up.
        let Some(task) = (unsafe { ring.reader.load(Ordering::SeqCst).as_ref() }) else { return };
        let (border, how) = (how & BORDER != 0, how & !BORDER);
        if border {
            if how != AWAKE {
                fetch_to_write(&task.in_inbox);
            }
            self.moving.border(self.task.pointer(), task.worker());
        }
        if how == AWAKE {
            return;
        }
        if how == PORT_WAITS {
            task.push_ready_port(ring);
        }
        self.wake(task, cause, ring.id);
    }

    #[inline(never)]
    fn wake_writer(&mut self, ring: &Ring, how: u8, cause: Cause) {
        // SAFETY: as above, in the reader's section.
        let Some(task) = (unsafe { ring.writer.load(Ordering::SeqCst).as_ref() }) else { return };
        if how & BORDER != 0 {
            self.moving.border(self.task.pointer(), task.worker());
        }
        if how != BORDER {
            self.wake(task, cause, ring.id);
        }
    }

    /// A task new to this worker: `task` carries the reference it lives by.
    pub(crate) fn adopt(&mut self, task: NonNull<TaskCell>) {
        // SAFETY: the reference handed over.
        let cell = unsafe { task.as_ref() };
        debug_assert!(matches!(cell.state.get(), State::New | State::Moving));
        cell.live_index.set(self.tasks.live.len() as u32);
        self.tasks.live.push(task);
        self.make_ready(cell);
    }

    /// Likewise, telling that it is ready.
    pub(crate) fn adopt_new(&mut self, task: NonNull<TaskCell>) {
        self.adopt(task);
        // SAFETY: the reference handed over.
        self.telemetry.task_ready(unsafe { task.as_ref() }, Cause::Created, 0);
    }

    /// Takes what other threads made ready.
    pub(crate) fn empty_inbox(&mut self) {
        let tasks = self.shared.home.inboxes[self.worker as usize].take();
        for task in tasks {
            // SAFETY: the inbox's reference, now ours.
            let cell = unsafe { task.as_ref() };
            if cell.state.get() == State::Moving {
                self.arrive(task);
                self.send_on_if_parked(task);
                continue;
            }
            if self.forward(task) {
                continue;
            }
            // A swap, so that we see what the waker did before it found the flag already set.
            cell.in_inbox.swap(false, Ordering::AcqRel);
            if cell.state.get() == State::New {
                self.adopt(task);
                self.send_on_if_parked(task);
                continue;
            }
            if cell.state.get() == State::Idle {
                self.no_longer_idle(cell);
                if self.adopted.by_demand {
                    cell.adds_demand();
                }
                self.telemetry.task_taken(cell);
                self.make_ready(cell);
            } else {
                debug_assert_ne!(cell.state.get(), State::Running);
            }
            // SAFETY: the inbox's reference.
            unsafe { TaskCell::release(task.as_ptr()) }
        }
    }

    fn send_on_if_parked(&mut self, task: NonNull<TaskCell>) {
        if self.tasks.parked {
            self.send_on(task);
        }
    }

    #[inline]
    pub(crate) fn next_task(&mut self) -> Option<NonNull<TaskCell>> {
        if self.adopted.by_demand { self.tasks.ready.pop_demanded() } else { self.tasks.ready.pop() }
    }

    // ---- the end of a dispatch

    /// See [`Core::publish_dispatch`].
    #[inline(never)]
    fn publish_all(&mut self) {
        self.publish_dispatch();
    }

    /// Publishes what the current task did with its streams, tells it, wakes who waited for that, closes the ends that
    /// it dropped, and lets go of those that need nothing more.
    #[inline(always)]
    fn publish_dispatch(&mut self) {
        self.telemetry.publishing_begins();
        if self.telemetry.measures() {
            self.measure_dispatch();
        }
        let task = self.task.get();
        self.used.popped_last.set(std::ptr::null());
        if self.adopted.by_demand {
            task.demand
                .set(self.used.touched.iter().map(|touch| touch.demand()).fold(0, i32::saturating_add));
        }
        // Waking runs no user's code, so the list does not change meanwhile.
        if let [one, other] = self.used.touched[..]
            && one.writes != other.writes
        {
            // Most tasks read one stream and write one. Who waits for messages goes first.
            let (from, to) = if one.writes { (other, one) } else { (one, other) };
            let (from, to) = (Touch { writes: false, ..from }, Touch { writes: true, ..to });
            self.count(self.account(from).0, self.account(to).1);
            let (to_kept, from_kept) = (self.settle(to), self.settle(from));
            match (from_kept, to_kept) {
                (false, false) => self.used.touched.clear(),
                (true, true) => {}
                _ => {
                    self.used.touched[0] = if from_kept { from } else { to };
                    self.used.touched.truncate(1);
                }
            }
            return;
        }
        let (reads, writes) = self.account_all();
        self.count(reads, writes);
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

    /// Publishes what the dispatch did with an end. True: the end stays on the list, to be armed.
    #[inline(always)]
    fn settle(&mut self, touch: Touch) -> bool {
        // SAFETY: an end on the list is kept until the list is emptied.
        let ring = unsafe { touch.ring.as_ref() };
        self.publish(touch);
        let state = if touch.writes { &ring.write_state } else { &ring.read_state };
        match state.load(Ordering::Relaxed) {
            TOUCHED => {
                state.store(0, Ordering::Release);
                false
            }
            // Before the task's wake-ups are armed: it may itself have the other end.
            marks if marks & LEAVES != 0 => {
                self.close_end(touch);
                false
            }
            _ => true,
        }
    }

    /// What was done with an end in this dispatch: messages read, messages written. Makes the next dispatch's
    /// first use of it take the long way.
    #[inline(always)]
    fn account(&self, touch: Touch) -> (usize, usize) {
        // SAFETY: an end on the list is kept until the list is emptied.
        let ring = unsafe { touch.ring.as_ref() };
        if touch.writes {
            let pushed = ring.pushed.get();
            ring.limit.set(pushed);
            (0, ring.written_since())
        } else {
            let popped = ring.popped.get();
            ring.available.set(popped);
            (ring.taken_since() - ring.discarded.get(), 0)
        }
    }

    /// Likewise with all ends.
    #[inline]
    fn account_all(&self) -> (usize, usize) {
        self.used.touched.iter().fold((0, 0), |(reads, writes), &touch| {
            let (read, written) = self.account(touch);
            (reads + read, writes + written)
        })
    }

    /// Counts messages read and written, before those are published.
    #[inline(always)]
    fn count(&self, reads: usize, writes: usize) {
        let task = self.task.get();
        task.counts.reads.set(task.counts.reads.get() + reads as u64);
        task.counts.writes.set(task.counts.writes.get() + writes as u64);
        if reads != writes {
            self.shared.home.admission.count(self.worker, task.id.0, reads as u64, writes as u64);
        }
    }

    // ---- telling

    /// The thread did what belongs to no dispatch and may take long, such as to wake another thread: the clock is read again before
    /// the next one begins, which looks up for that as for a setting, at no cost where nothing was.
    pub(crate) fn did_aside(&mut self) {
        if self.telemetry.did_aside() {
            self.adopted.changes = LOOK_UP;
        }
    }

    /// Adopts all settings that a dispatch needs, if any was changed: one load, if not.
    #[inline]
    fn adopt_settings(&mut self) {
        let changes = self.shared.tuning.changes();
        if changes != self.adopted.changes {
            self.adopt_changes(changes);
        }
    }

    #[cold]
    #[inline(never)]
    fn adopt_changes(&mut self, changes: u64) {
        self.adopted.changes = changes;
        self.telemetry.adopt_mode(&self.shared.tuning.settings.mode);
        self.adopted.quantum = self.shared.tuning.quantum(&mut self.telemetry);
        self.shared.look_at_limit();
        self.adopted.unfinished = self.shared.tuning.unfinished(&mut self.telemetry);
        self.adopted.by_demand = self.shared.tuning.by_demand(&mut self.telemetry);
        self.shared.adopt_workers();
        // A task with a thread of its own sees to its clock when it resumes.
        if self.telemetry.lags() && self.worker != FOREIGN {
            self.telemetry.own_work();
        }
    }

    /// Ends the current dispatch's time and tells what it did.
    #[inline(never)]
    fn measure_dispatch(&mut self) {
        let (reads, writes) = self.account_all();
        let task = self.task.get();
        let messages = if reads > 0 { reads } else { writes };
        self.delay(task.id, messages as u64);
        // SAFETY: an end on the list is kept until the list is emptied, and the references are not kept longer.
        let ends = self.used.touched.iter().map(|touch| (unsafe { touch.ring.as_ref() }, touch.writes));
        // SAFETY: the stream last read from is on the dispatch's list.
        let popped_last = || unsafe { self.used.popped_last.get().as_ref() }.map(popped_last_of);
        self.telemetry.dispatch_ends(task, (reads, writes), ends, popped_last);
        if self.telemetry.lags() {
            self.adopted.changes = LOOK_UP;
        }
    }

    /// Whether the current task's messages took so long until now that the time of each is told.
    pub(crate) fn times_messages(&mut self) -> bool {
        let percent = self.shared.tuning.clock_budget(&mut self.telemetry);
        self.telemetry.times_messages(self.task.get(), percent)
    }

    /// The current task begins to work on the next message, whose time is told.
    #[cold]
    pub(crate) fn message_begins(&mut self, index: u64) {
        self.telemetry.message_begins(self.task.get(), index);
    }

    /// Reads the clock, when a task that is to take longer has done so for so many messages.
    fn delay(&mut self, task: TaskId, messages: u64) {
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

    /// The message that the current task popped last, as far as it was told: its stream, its index.
    pub(crate) fn last_read(&self) -> Option<(u64, u64)> {
        // SAFETY: the stream last read from is on the dispatch's list, which keeps it, or `finish_with` cleared this.
        if let Some(ring) = unsafe { self.used.popped_last.get().as_ref() } {
            return Some(popped_last_of(ring));
        }
        self.telemetry.read_before(self.task.get())
    }

    /// Notes that the message pushed last on `child` descends from the one popped last.
    #[inline]
    pub(crate) fn note_derived(&mut self, child: &Ring) {
        let parent = self.used.popped_last.get();
        // SAFETY: as in `last_read`.
        if !unsafe { self.telemetry.derived_likewise(child, parent) } {
            self.note_derived_otherwise(child, parent);
        }
    }

    #[cold]
    fn note_derived_otherwise(&mut self, child: &Ring, parent: *const Ring) {
        if let Some(read) = self.last_read() {
            // SAFETY: as in `last_read`.
            self.note(child, read, unsafe { parent.as_ref() });
        }
    }

    /// Notes that the message pushed last on `child` descends from this one, if it was pushed in this dispatch; `popped` is the stream
    /// that it was popped last from, if that is so.
    pub(crate) fn note(&mut self, child: &Ring, read: (u64, u64), popped: Option<&Ring>) {
        if child.written_since() != 0 && child.write_state.load(Ordering::Relaxed) != 0 {
            self.telemetry.derived(child, read, popped);
        }
    }

    /// Notes that the `count` messages pushed last on `child` descend from as many popped last, each from one.
    #[cfg(not(loom))]
    pub(crate) fn note_derived_run(&mut self, child: &Ring, count: usize) {
        if let Some(read) = self.last_read() {
            self.telemetry.derived_run(child, count, read);
        }
    }

    #[inline(always)]
    fn publish(&mut self, touch: Touch) {
        // SAFETY: an end on the list is kept until the list is emptied.
        let ring = unsafe { touch.ring.as_ref() };
        if touch.writes {
            if ring.pushed.get() != ring.tail.load(Ordering::Relaxed) {
                let waits = ring.publish_written(self.me, self.worker);
                if waits != AWAKE {
                    self.wake_reader(ring, waits, Cause::Input);
                }
                ring.leave_writer_section();
            }
        } else if ring.popped.get() != ring.head.load(Ordering::Relaxed) {
            let waits = ring.publish_read(self.me, self.worker);
            if waits != AWAKE {
                self.wake_writer(ring, waits, Cause::Room);
            }
            ring.leave_reader_section();
        }
    }

    /// Publishes one stream's messages in the middle of a dispatch (blocking tasks).
    pub(crate) fn publish_now(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that called holds a reference.
        let r = unsafe { ring.as_ref() };
        let (pushed, published) = (r.pushed.get(), r.tail.load(Ordering::Relaxed));
        if pushed != published {
            self.count(0, pushed - published);
            r.begin_writing();
            self.publish(Touch { ring, writes: true });
        }
    }

    /// Arms the wake-ups of the task that stopped. `Ok(true)`: it sleeps; `Ok(false)`: it is ready again;
    /// `Err`: nothing can ever wake it.
    #[inline(always)]
    fn arm(&mut self, task: &TaskCell, stop: Stop) -> Result<bool, &'static str> {
        let mut sleeps = false;
        let mut ready = false;
        task.wait_for_none(&mut self.used.released);
        match stop {
            Stop::InputEmpty => {
                // SAFETY: we are the task's thread, and no reference to its groups is kept.
                let has_port = task.has_groups() && unsafe { task.has_ready_port() };
                ready = has_port;
                sleeps = has_port || self.used.ports_wait;
                for touch in &self.used.touched {
                    if ready || touch.writes || !touch.waits() {
                        continue;
                    }
                    // SAFETY: an end is kept until its state is 0.
                    let ring = unsafe { touch.ring.as_ref() };
                    match ring.wait_for_messages(self.me, TASK_WAITS) {
                        Wait::Armed => {
                            task.wait_for(ring);
                            sleeps = true;
                        }
                        Wait::Ready => ready = true,
                        Wait::Over => {}
                    }
                }
                if !ready && !sleeps && !task.notified.get() {
                    return Err(
                        "stopped on an empty input, but popped none that could still bring a message",
                    );
                }
            }
            Stop::OutputFull => {
                for touch in &self.used.touched {
                    if ready || !touch.writes || !touch.waits() {
                        continue;
                    }
                    // SAFETY: an end is kept until its state is 0.
                    let ring = unsafe { touch.ring.as_ref() };
                    match ring.wait_for_room(self.me) {
                        Wait::Armed => {
                            task.wait_for(ring);
                            sleeps = true;
                        }
                        Wait::Ready | Wait::Over => ready = true,
                    }
                }
                if !ready && !sleeps && !task.notified.get() {
                    return Err("stopped on a full output, but found none full");
                }
            }
            Stop::QuantumSpent | Stop::Ended => {}
        }
        Ok(sleeps && !ready)
    }

    /// Lets go of the ends that were found empty or full: they are free to be used.
    #[inline]
    fn let_go(&mut self) {
        self.used.ports_wait = false;
        // Mostly one or none: by `for` the compiler makes it four at a time.
        while let Some(touch) = self.used.touched.pop() {
            touch.state().store(0, Ordering::Release);
        }
    }

    #[cold]
    fn close_end(&mut self, touch: Touch) {
        // SAFETY: the reference of the end that was dropped.
        let (ring, task) = (unsafe { touch.ring.as_ref() }, self.task.get());
        task.forget_first_wait();
        if touch.writes {
            self.close(ring)
        } else {
            self.leave(ring);
            self.shared.home.admission.drop_unread(ring.discarded.get());
        }
        self.used.released.push(touch.ring);
    }

    fn close(&mut self, ring: &Ring) {
        let waits = ring.end_writing(self.me, self.worker);
        if waits != AWAKE {
            self.wake_reader(ring, waits, Cause::End);
        }
        ring.leave_writer_section();
        self.end_gone(ring);
    }

    fn leave(&mut self, ring: &Ring) {
        let waits = ring.end_reading(self.me, self.worker);
        if waits != AWAKE {
            self.wake_writer(ring, waits, Cause::End);
        }
        ring.leave_reader_section();
        self.end_gone(ring);
    }

    /// Counts an end that is gone; the second closes the stream for good.
    fn end_gone(&mut self, ring: &Ring) {
        if ring.telemetry.board().is_some() && ring.count_end() {
            self.telemetry.stream_closed(ring);
        }
    }

    /// Frees what the last references went to. Messages are dropped here: a user's code runs.
    fn free_released(core: NonNull<Core>) {
        loop {
            // SAFETY: the thread's own core; the reference ends before a user's code runs.
            let Some(ring) = (unsafe { &mut *core.as_ptr() }).used.released.pop() else { return };
            let freed = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the reference of an end that was dropped.
                unsafe { Ring::release(ring.as_ptr()) }
            }));
            drop(freed);
        }
    }

    /// Ends a blocking task's dispatch before it waits, and arms its wake-up. `Ok(true)`: it has to wait; `Err`: nothing can
    /// ever wake it.
    pub(crate) fn pause(
        core: NonNull<Core>,
        stop: Stop,
        budget: Option<&Budget>,
    ) -> Result<bool, &'static str> {
        let sleeps = {
            // SAFETY: the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            let task = core.task.get();
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            let unread = budget.map_or(0, |budget| core.unread(budget));
            core.publish_all();
            if let Some(budget) = budget {
                core.finish_budget(task, budget, unread);
            }
            let sleeps = core.arm(task, stop);
            core.stops(task, stop, sleeps == Ok(true));
            core.let_go();
            sleeps
        };
        Core::free_released(core);
        sleeps
    }

    /// Ends a blocking task's dispatch before it waits for something that no stream brings: for input, or until it may write.
    pub(crate) fn step_aside(core: NonNull<Core>, stop: Stop) {
        {
            // SAFETY: the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            let task = core.task.get();
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            core.publish_all();
            core.stops(task, stop, true);
            core.let_go();
        }
        Core::free_released(core);
    }

    /// Ends a blocking task's wait that nobody else has ended.
    pub(crate) fn come_back(core: NonNull<Core>) {
        // SAFETY: the thread's own core; no user's code runs inside this function.
        let core = unsafe { &mut *core.as_ptr() };
        core.telemetry.own_wait_ends(core.task.get());
    }

    /// Begins a blocking task's next dispatch, after a wait or not.
    pub(crate) fn resume(core: NonNull<Core>) {
        // SAFETY: the thread's own core; no user's code runs inside this function.
        let core = unsafe { &mut *core.as_ptr() };
        let task = core.task.get();
        let before = core.telemetry.before_adoption();
        core.adopt_settings();
        if core.telemetry.measures() {
            let waited_for = task.waits_for.replace(Share::Ready);
            core.telemetry.own_dispatch_begins(task, waited_for, before);
        }
    }

    /// Runs a ready task once.
    pub(crate) fn dispatch(core: NonNull<Core>, task: NonNull<TaskCell>) {
        // SAFETY: tasks in the queue are alive, and this is the task's thread.
        let cell = unsafe { task.as_ref() };
        cell.state.set(State::Running);
        // SAFETY: the thread's own core; the reference ends before the task runs.
        let (budget, full) = unsafe {
            let core = &mut *core.as_ptr();
            core.task = Current::of(task);
            core.adopt_settings();
            core.telemetry.dispatch_begins(cell);
            (core.begin_budget(cell), core.telemetry.is_full())
        };
        let outcome = match run_body(core, cell, budget.messages, full) {
            Ok(Stop::Ended) => Ok(()),
            Ok(stop) => match Core::after(core, cell, stop, &budget) {
                Ok(()) => return,
                Err(reason) => Err(Fault::found(reason)),
            },
            Err(panic) => Err(Fault::panicked(&*panic)),
        };
        Core::end(core, task, outcome);
    }

    /// Publishes, arms and requeues.
    #[inline]
    fn after(core: NonNull<Core>, task: &TaskCell, stop: Stop, budget: &Budget) -> Result<(), &'static str> {
        {
            // SAFETY: the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            let unread = core.unread(budget);
            core.publish_dispatch();
            core.finish_budget(task, budget, unread);
            let sleeps = match core.arm(task, stop) {
                Ok(sleeps) => sleeps && !task.notified.get(),
                Err(reason) => {
                    core.let_go();
                    return Err(reason);
                }
            };
            task.notified.set(false);
            core.stops(task, stop, sleeps);
            core.let_go();
            core.task = Current::NONE;
            if sleeps {
                task.state.set(State::Idle);
                core.tasks.wait_for_room += u64::from(stop == Stop::OutputFull);
            } else {
                core.make_ready(task);
            }
            if core.used.released.is_empty() {
                return Ok(());
            }
        }
        Core::free_released(core);
        Ok(())
    }

    /// A task has stopped for this reason and sleeps, or is ready again.
    #[inline]
    fn stops(&mut self, task: &TaskCell, stop: Stop, sleeps: bool) {
        let waits_for = match stop {
            Stop::InputEmpty if sleeps => Share::InputWait,
            Stop::OutputFull if sleeps => Share::OutputWait,
            _ => Share::Ready,
        };
        task.waits_for.set(waits_for);
        if self.telemetry.measures() {
            self.tell_stop(task, stop, sleeps);
        }
    }

    #[inline(never)]
    fn tell_stop(&mut self, task: &TaskCell, stop: Stop, sleeps: bool) {
        let (touched, ports_wait) = (&self.used.touched, self.used.ports_wait);
        self.telemetry.task_stops(task, stop, sleeps, || match stop {
            Stop::InputEmpty if ports_wait => 0,
            _ => only_one_noted(touched, stop == Stop::OutputFull),
        });
    }

    /// Ends a task: drops it (its ports close), publishes, forgets it.
    #[cold]
    fn end(core: NonNull<Core>, task: NonNull<TaskCell>, outcome: Result<(), Fault>) {
        // SAFETY: the task's own thread; its life's reference is given up at the end of this function.
        let cell = unsafe { task.as_ref() };
        // SAFETY: as above; the reference to the body ends with this line.
        let body = unsafe { cell.body() }.take();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(body)));
        let outcome = match dropped {
            Ok(()) => outcome,
            Err(panic) => outcome.and(Err(Fault::panicked(&*panic))),
        };
        Core::close_task(core, cell, &outcome);
        let shared = {
            // SAFETY: the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            core.forget(cell);
            core.shared.clone()
        };
        shared.task_ended(cell, outcome);
        // SAFETY: the reference the task lived by.
        unsafe { TaskCell::release(task.as_ptr()) }
    }

    /// Publishes the last of an ended task, closes its ports, tells its end.
    pub(crate) fn close_task(core: NonNull<Core>, task: &TaskCell, outcome: &Result<(), Fault>) {
        {
            // SAFETY: the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            core.publish_all();
            core.let_go();
            core.task = Current::NONE;
            task.state.set(State::Ended);
            core.telemetry.task_ended(task, outcome);
        }
        // SAFETY: the task's own thread.
        unsafe { task.forget_waits() };
        Core::free_released(core);
    }

    pub(crate) fn forget(&mut self, task: &TaskCell) {
        self.moving.forget(task);
        let at = task.live_index.get() as usize;
        self.tasks.live.swap_remove(at);
        if let Some(moved) = self.tasks.live.get(at) {
            // SAFETY: tasks in the list are alive.
            unsafe { moved.as_ref() }.live_index.set(at as u32);
        }
    }

    /// Drops every task that is left (after an abort).
    pub(crate) fn drop_tasks(core: NonNull<Core>) {
        loop {
            // SAFETY: the thread's own core; the reference ends before a task is dropped.
            let task = unsafe {
                let core = &mut *core.as_ptr();
                let Some(&task) = core.tasks.live.last() else { break };
                core.task = Current::of(task);
                let cell = task.as_ref();
                let waited_for = (cell.state.get() == State::Idle).then(|| cell.waits_for.get());
                core.telemetry.task_dropped(cell, waited_for);
                task
            };
            Core::end(core, task, Ok(()));
        }
        // SAFETY: as above.
        let core = unsafe { &mut *core.as_ptr() };
        core.tasks.ready = ReadyQueue::new();
    }
}

#[inline]
fn run_body(core: NonNull<Core>, task: &TaskCell, messages: usize, full: bool) -> thread::Result<Stop> {
    catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the thread's own core; the reference ends with the block.
        let (current, times_each) = unsafe {
            let core = &mut *core.as_ptr();
            (core.task, full && core.times_messages())
        };
        let mut cx = Context::new(core.cast(), current, messages, (full, times_each));
        // SAFETY: the task's own thread, and its body is not borrowed elsewhere.
        match unsafe { task.body() } {
            Some(body) => body.run(&mut cx),
            None => Stop::Ended,
        }
    }))
}

/// Closes a writing end that no dispatch of this thread uses.
pub(crate) fn close_writer(ring: NonNull<Ring>) {
    // SAFETY: the end's reference, given up below.
    let r = unsafe { ring.as_ref() };
    match current() {
        // SAFETY: the thread's own core, to which no other reference is held now.
        Some(core) => unsafe { &mut *core.as_ptr() }.close(r),
        None => {
            let waits = r.end_writing(NO_TOKEN, FOREIGN);
            // SAFETY: in the writer's section, so the reference we see is not given up.
            let reader = unsafe { r.reader.load(Ordering::SeqCst).as_ref() };
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
    // SAFETY: the end's reference.
    unsafe { Ring::release(ring.as_ptr()) }
}

/// Leaves a stream whose reading end no dispatch of this thread uses.
pub(crate) fn leave_reader(ring: NonNull<Ring>) {
    // SAFETY: the end's reference, given up below.
    let r = unsafe { ring.as_ref() };
    match current() {
        // SAFETY: the thread's own core, to which no other reference is held now.
        Some(core) => unsafe {
            let core = &mut *core.as_ptr();
            core.leave(r);
            core.shared.home.admission.drop_unread(r.discarded.get());
        },
        None => {
            let waits = r.end_reading(NO_TOKEN, FOREIGN);
            // SAFETY: in the reader's section, so the reference we see is not given up.
            let writer = unsafe { r.writer.load(Ordering::SeqCst).as_ref() };
            if waits != AWAKE
                && let Some(task) = writer
            {
                wake_from_outside(task);
            }
            r.leave_reader_section();
            end_gone_outside(r);
        }
    }
    // SAFETY: the end's reference.
    unsafe { Ring::release(ring.as_ptr()) }
}

fn end_gone_outside(ring: &Ring) {
    if let Some(board) = ring.telemetry.board()
        && ring.count_end()
    {
        board.stream_closed(ring);
    }
}

/// How many messages a dispatch may take, so that it lasts about `exec.quantum_us`.
pub(crate) struct Budget {
    pub(crate) messages: usize,
    /// The clock, and the work done so far, when the dispatch began; none if it is not looked at this time.
    started: Option<(u64, u64)>,
}

/// A dispatch takes no more than half of what its streams hold: if it filled or emptied one, who is at its other end could
/// only work while this task does not.
const PARTS: u64 = 2;

/// But it lasts this long, against which its beginning and its end cost little.
const WORTH_IT_NS: u64 = 10_000;

/// But of replicas no more of this time passes between two looks at the clock, against which they cost little: where those run is a
/// matter of what they cost.
const UNSEEN_NS: u64 = 20_000;

impl Core {
    #[inline]
    pub(crate) fn begin_budget(&mut self, task: &TaskCell) -> Budget {
        let quantum = self.adopted.quantum;
        let budget = task.budget.get() as usize;
        if Sampling::skips(&task.sampling) {
            return Budget { messages: quantum.min(budget), started: None };
        }
        let now = self.telemetry.clock_of_dispatch();
        Budget { messages: quantum.min(budget.max(1)), started: Some((now, done_by(task))) }
    }

    /// Messages that wait in the stream which the dispatch read last, if this dispatch is looked at.
    #[inline]
    fn unread(&self, budget: &Budget) -> u64 {
        if budget.started.is_none() {
            return 0;
        }
        // SAFETY: what the dispatch read from is kept until it was published.
        let Some(ring) = (unsafe { self.used.popped_last.get().as_ref() }) else { return 0 };
        ring.tail.load(Ordering::Relaxed).wrapping_sub(ring.popped.get()) as u64
    }

    #[inline]
    fn finish_budget(&mut self, task: &TaskCell, budget: &Budget, unread: u64) {
        if let Some((started, done)) = budget.started {
            self.adapt(task, started, done, unread);
        }
    }

    #[cold]
    fn adapt(&mut self, task: &TaskCell, started: u64, done: u64, unread: u64) {
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
        let fits = (target / each).min(worth_it.max(part)).clamp(1, u64::from(u32::MAX)) as u32;
        let before = task.budget.get();
        // Shorten at once, lengthen by at most a factor of eight: one quick message says little.
        let next = if before == 0 || fits < before { fits } else { fits.min(before.saturating_mul(8)) };
        task.budget.set(next);
        let sampling = task.sampling.replace(Sampling::every(Sampling::EVERY_MAX));
        if let Some(replica) = task.member_of() {
            // The first dispatch may be much shorter than those to come.
            let expected = if before == 0 { each.saturating_mul(u64::from(next.min(64))) } else { took };
            let unseen = self.shared.clock.ns_to_ticks(UNSEEN_NS) / expected.max(1);
            task.sampling.set(Sampling::every(unseen));
            let sample = Sample { ticks: took, messages, dispatches: sampling.stands_for(), unread };
            self.sampled(replica, sample);
        } else {
            self.loads.of_others += took * sampling.stands_for();
        }
    }
}

/// The work a task did, in messages: read, or written if it reads none.
#[inline]
fn done_by(task: &TaskCell) -> u64 {
    task.counts.reads.get().max(task.counts.writes.get())
}
