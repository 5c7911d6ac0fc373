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
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use thalweg_space::{LiveRow, NameRef};

use crate::affinity::{self, Delays, Used};
use crate::context::Context;
use crate::events::{
    Cause, Kept, MessageWorked, OWN_THREAD, Recorder, StreamClosed, StreamOpened, StreamRead, StreamWrote,
    TaskBlockedInput, TaskBlockedOutput, TaskDispatched, TaskReady, TaskYielded, ThreadUsed,
};
use crate::fault::Fault;
use crate::inbox::Pushed;
use crate::lineage::Lineage;
use crate::moving::Moving;
use crate::observe::{AdoptedMode, ReadBefore, Share, StreamRow, TaskRow, TaskState, WorkerRow, put};
use crate::ready::ReadyQueue;
use crate::ring::{
    AWAKE, BORDER, FOREIGN, LEAVES, NO_TOKEN, NOTED, PORT_WAITS, Ring, TASK_WAITS, TOUCHED, Wait,
    wait_until_zero,
};
use crate::runtime::{Mode, Shared};
use crate::spread::Loads;
use crate::sync::{AtomicU8, Ordering, fetch_to_write};
use crate::task::{Sampling, State, Stop, TaskCell, TaskId};

/// What a thread needs to run tasks.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    /// The worker this thread is, or [`FOREIGN`].
    pub(crate) worker: u32,
    /// What it calls itself towards streams (see `ring`): [`NO_TOKEN`] unless it is a worker and the kernel has
    /// `membarrier`.
    pub(crate) me: u64,
    /// The task being dispatched.
    pub(crate) task: *mut TaskCell,
    /// The stream that the last message of the current dispatch was popped from; null: none was.
    pub(crate) popped_last: Cell<*const Ring>,
    /// The ends of streams used in the current dispatch; after publishing, those that were found empty or full.
    touched: Vec<Touch>,
    /// `Inputs::next_ready` said `None`.
    pub(crate) ports_wait: bool,
    pub(crate) ready: ReadyQueue,
    pub(crate) live: Vec<NonNull<TaskCell>>,
    pub(crate) moving: Moving,
    /// What was sampled of replicas.
    pub(crate) loads: Loads,
    released: Vec<NonNull<Ring>>,
    /// How many idle tasks wait for room.
    pub(crate) wait_for_room: u64,
    /// This thread's way to tell; none without a space, and none of threads that are just passing.
    pub(crate) recorder: Option<Recorder>,
    /// The worker's live row.
    pub(crate) row: Option<LiveRow>,
    pub(crate) mode: AdoptedMode,
    /// How many changes of settings were adopted ([`LOOK_UP`]: there is more to see to before the next dispatch), and what a
    /// dispatch needs of them.
    changes: u64,
    quantum: usize,
    pub(crate) unfinished: u64,
    by_demand: bool,
    /// The clock, when last read: in modes metrics and full the end of the last dispatch or wait.
    pub(crate) now: u64,
    /// Whether that was for the part of a dispatch that is under way (the task's own, or its end): what is told of tasks and
    /// streams in one part has one time.
    is_fresh: bool,
    /// Since the clock was read the thread did what belongs to no dispatch and may take long: see [`Core::did_aside`].
    clock_lags: bool,
    /// When measuring began, or was switched on.
    pub(crate) measured_since: u64,
    /// When mode full began, if that was while running.
    full_since: u64,
    /// When the current dispatch began (metrics and full).
    began: u64,
    pub(crate) dispatches: u64,
    /// When it started, put off by all time that was not busy: its busy time is the clock less this.
    pub(crate) busy_base: u64,
    pub(crate) waiting_ticks: u64,
    /// Time between dispatches and waits, as far as the clock was read at its end: see [`Core::own_work`].
    pub(crate) own_ticks: u64,
    /// Time that the worker could have run and had no processor, part of none of the others; and the file in which the kernel reports it.
    pub(crate) kept_ticks: u64,
    pub(crate) delays: Option<Delays>,
    /// The worker takes no part, and for how long it did not until it last woke.
    pub(crate) parked: bool,
    pub(crate) parked_ticks: u64,
    /// When it was last told what the thread used of its processor.
    used_told: u64,
    /// Lineage told in the current dispatch.
    pub(crate) lineage: Lineage,
    /// What it takes to tell an event with a time of its own; 0: not measured.
    pub(crate) telling_ticks: u64,
    /// The message that the current dispatch works on, and since when, if that is told.
    message: Option<(u64, u64)>,
}

/// An end of a stream used in this dispatch.
#[derive(Clone, Copy)]
struct Touch {
    ring: NonNull<Ring>,
    writes: bool,
}

impl Touch {
    /// What the dispatch knows of the end.
    #[inline]
    fn state<'a>(self) -> &'a AtomicU8 {
        // SAFETY: an end on the list is kept until the list is emptied, and the reference is not kept longer.
        let ring = unsafe { self.ring.as_ref() };
        if self.writes { &ring.write_state } else { &ring.read_state }
    }

    /// Messages that wait at a reading end; less those behind a writing one.
    fn demand(self) -> i32 {
        // SAFETY: an end on the list is kept until the list is emptied.
        let ring = unsafe { self.ring.as_ref() };
        if self.writes { -(ring.look_for_room() as i32) } else { ring.look_for_messages() as i32 }
    }

    /// Whether the dispatch found the end empty or full.
    #[inline]
    fn waits(self) -> bool {
        self.state().load(Ordering::Relaxed) & NOTED != 0
    }
}

/// Never the number of changes of settings.
const LOOK_UP: u64 = u64::MAX;

/// A dispatch that lasts longer asks the kernel whether its thread had a processor all the while, which takes about 1 µs. Who is put
/// off it for another process is so for longer.
pub(crate) const LONG_NS: u64 = 200_000;

/// Likewise what a worker does between dispatches: who wakes another thread may have to let it go first.
const OWN_WORK_NS: u64 = 20_000;

/// A dispatch is delayed by no more, however many messages it took.
const DELAY_NS_MAX: u64 = 100_000_000;

/// After so many dispatches a task has a live row, in mode off, too: what was told of its beginning may be overwritten by then,
/// and if the process dies in it, its name is wanted.
const SHOWN_AFTER: u64 = 16;

thread_local! {
    static CORE: Cell<*mut Core> = const { Cell::new(std::ptr::null_mut()) };
}

/// The calling thread's core, while it has one.
pub(crate) fn current() -> Option<NonNull<Core>> {
    NonNull::new(CORE.get())
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>, worker: u32, recorder: Option<Recorder>) -> Core {
        let me = shared.token(worker);
        let now = shared.clock.now();
        let mode = if recorder.is_some() { shared.mode_now() } else { Mode::Off };
        Core {
            shared,
            worker,
            me,
            task: std::ptr::null_mut(),
            popped_last: Cell::new(std::ptr::null()),
            touched: Vec::new(),
            ports_wait: false,
            ready: ReadyQueue::new(),
            live: Vec::new(),
            moving: Moving::default(),
            loads: Loads::default(),
            released: Vec::new(),
            wait_for_room: 0,
            recorder,
            row: None,
            mode: AdoptedMode(mode),
            changes: LOOK_UP,
            quantum: 0,
            unfinished: 0,
            by_demand: false,
            now,
            is_fresh: false,
            clock_lags: false,
            measured_since: if mode == Mode::Off { now } else { 0 },
            full_since: 0,
            began: now,
            dispatches: 0,
            busy_base: now,
            waiting_ticks: 0,
            own_ticks: 0,
            kept_ticks: 0,
            delays: None,
            parked: false,
            parked_ticks: 0,
            used_told: now,
            lineage: Lineage::new(),
            telling_ticks: 0,
            message: None,
        }
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
        if r.writer.load(Ordering::Relaxed) != self.task {
            self.take_writer(r);
        }
        if Ring::mark(&r.write_state, TOUCHED) {
            r.begin_writing();
            self.touched.push(Touch { ring, writes: true });
        }
    }

    #[cold]
    fn take_writer(&mut self, ring: &Ring) {
        wait_until_zero(&ring.write_state);
        // SAFETY: the task being dispatched is alive.
        let task = unsafe { &*self.task };
        task.gets_end(ring);
        ring.move_writer(Some(task), self.worker);
        self.tell_opened(ring, task, true);
    }

    /// Likewise the reader.
    #[inline]
    pub(crate) fn own_reader(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that called holds a reference.
        let r = unsafe { ring.as_ref() };
        if r.reader.load(Ordering::Relaxed) != self.task {
            self.take_reader(r);
        }
        if Ring::mark(&r.read_state, TOUCHED) {
            r.begin_reading();
            self.touched.push(Touch { ring, writes: false });
        }
    }

    #[cold]
    fn take_reader(&mut self, ring: &Ring) {
        wait_until_zero(&ring.read_state);
        // SAFETY: the task being dispatched is alive.
        let task = unsafe { &*self.task };
        task.gets_end(ring);
        ring.move_reader(Some(task), self.worker);
        self.tell_opened(ring, task, false);
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
            self.tell_opened(ring, task, true);
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
            self.tell_opened(ring, task, false);
        }
    }

    /// Takes an end that moves away off the current dispatch's list, and publishes what was done with it.
    fn finish_with(&mut self, ring: NonNull<Ring>, writes: bool) {
        let Some(at) = self.touched.iter().position(|touch| touch.ring == ring && touch.writes == writes)
        else {
            return;
        };
        let touch = self.touched.swap_remove(at);
        // SAFETY: the end that moves holds a reference.
        let r = unsafe { ring.as_ref() };
        if !writes {
            self.keep_last_read(Some(ring));
        }
        let (reads, writes_) = self.account(touch);
        self.count(reads, writes_);
        if self.mode == Mode::Full {
            let now = self.clock();
            self.tell_positions(touch, now);
        }
        self.publish(touch);
        let state = if writes { &r.write_state } else { &r.read_state };
        state.store(0, Ordering::Release);
    }

    /// A writing end is dropped: true if the current dispatch sees to it at its end.
    pub(crate) fn writer_leaves_at_end(core: NonNull<Core>, ring: NonNull<Ring>) -> bool {
        // SAFETY: the thread's own core, to which no other reference is held now; the end's reference.
        let (core, r) = unsafe { (&mut *core.as_ptr(), ring.as_ref()) };
        if core.task.is_null() || r.writer.load(Ordering::Relaxed) != core.task {
            return false;
        }
        core.own_writer(ring);
        Ring::mark(&r.write_state, LEAVES);
        true
    }

    /// A reading end is dropped: likewise.
    pub(crate) fn reader_leaves_at_end(core: NonNull<Core>, ring: NonNull<Ring>) -> bool {
        // SAFETY: as above.
        let (core, r) = unsafe { (&mut *core.as_ptr(), ring.as_ref()) };
        if core.task.is_null() || r.reader.load(Ordering::Relaxed) != core.task {
            return false;
        }
        core.own_reader(ring);
        Ring::mark(&r.read_state, LEAVES);
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
                if self.mode != Mode::Off {
                    self.tell_woken(task, cause, by_stream);
                }
                self.no_longer_idle(task);
                task.state.set(State::Ready);
                if self.by_demand {
                    task.adds_demand();
                }
                if matches!(cause, Cause::Input | Cause::End) {
                    self.ready.push_front(task);
                } else {
                    self.ready.push(task);
                }
            }
            State::Running => task.notified.set(true),
            State::New | State::Moving | State::Ready | State::Ended => {}
        }
    }

    #[inline(never)]
    fn tell_woken(&mut self, task: &TaskCell, cause: Cause, by_stream: u64) {
        task.turn(task.waits_for.get(), self.now, self.measured_since);
        self.tell_ready(task, cause, by_stream);
    }

    /// An idle task is woken, or goes to another worker.
    #[inline]
    pub(crate) fn no_longer_idle(&mut self, task: &TaskCell) {
        self.wait_for_room -= u64::from(task.waits_for.get() == Share::OutputWait);
    }

    /// Likewise a task of another thread.
    #[inline(never)]
    fn wake_away(&mut self, task: &TaskCell, cause: Cause, by_stream: u64) {
        let stamp = if self.mode == Mode::Off { 0 } else { self.now };
        let woken = wake_elsewhere(&self.shared, task, stamp);
        if woken == Woken::Already {
            return;
        }
        if woken == Woken::Roused {
            self.did_aside();
        }
        self.tell_ready(task, cause, by_stream);
    }

    #[inline]
    pub(crate) fn make_ready(&mut self, task: &TaskCell) {
        task.state.set(State::Ready);
        self.ready.push(task);
    }

    #[inline(never)]
    pub(crate) fn tell_ready(&mut self, task: &TaskCell, cause: Cause, by_stream: u64) {
        if self.mode == Mode::Off {
            return;
        }
        if let Some(row) = task.row() {
            put(row, TaskRow::STATE, TaskState::Ready as u64);
        }
        if self.mode == Mode::Full
            && let Some(recorder) = &mut self.recorder
        {
            recorder.at(self.now, &TaskReady { task: task.id.0, by_stream, cause });
        }
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
            self.moving.border(self.task, task.worker());
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
            self.moving.border(self.task, task.worker());
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
        cell.live_index.set(self.live.len() as u32);
        self.live.push(task);
        self.make_ready(cell);
    }

    /// Likewise, telling that it is ready.
    pub(crate) fn adopt_new(&mut self, task: NonNull<TaskCell>) {
        self.adopt(task);
        // SAFETY: the reference handed over.
        self.tell_ready(unsafe { task.as_ref() }, Cause::Created, 0);
    }

    /// Takes what other threads made ready.
    pub(crate) fn empty_inbox(&mut self) {
        let tasks = self.shared.inboxes[self.worker as usize].take();
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
                if self.by_demand {
                    cell.adds_demand();
                }
                if self.mode != Mode::Off {
                    let stamp = cell.woken_at();
                    let woken = if stamp == 0 { self.now } else { stamp };
                    cell.turn(cell.waits_for.get(), woken, self.measured_since);
                }
                self.make_ready(cell);
            } else {
                debug_assert_ne!(cell.state.get(), State::Running);
            }
            // SAFETY: the inbox's reference.
            unsafe { TaskCell::release(task.as_ptr()) }
        }
    }

    fn send_on_if_parked(&mut self, task: NonNull<TaskCell>) {
        if self.parked {
            self.send_on(task);
        }
    }

    #[inline]
    pub(crate) fn next_task(&mut self) -> Option<NonNull<TaskCell>> {
        if self.by_demand { self.ready.pop_demanded() } else { self.ready.pop() }
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
        self.is_fresh = false;
        if self.mode != Mode::Off {
            self.tell_dispatch();
            self.is_fresh = self.worker != FOREIGN;
        }
        // SAFETY: the task being dispatched is alive.
        let task = unsafe { &*self.task };
        self.popped_last.set(std::ptr::null());
        if self.by_demand {
            task.demand.set(self.touched.iter().map(|touch| touch.demand()).fold(0, i32::saturating_add));
        }
        // Waking runs no user's code, so the list does not change meanwhile.
        if let [one, other] = self.touched[..]
            && one.writes != other.writes
        {
            // Most tasks read one stream and write one. Who waits for messages goes first.
            let (from, to) = if one.writes { (other, one) } else { (one, other) };
            let (from, to) = (Touch { writes: false, ..from }, Touch { writes: true, ..to });
            self.count(self.account(from).0, self.account(to).1);
            let (to_kept, from_kept) = (self.settle(to), self.settle(from));
            match (from_kept, to_kept) {
                (false, false) => self.touched.clear(),
                (true, true) => {}
                _ => {
                    self.touched[0] = if from_kept { from } else { to };
                    self.touched.truncate(1);
                }
            }
            return;
        }
        let (reads, writes) = self.account_all();
        self.count(reads, writes);
        let mut kept = 0;
        for at in 0..self.touched.len() {
            let touch = self.touched[at];
            if self.settle(touch) {
                self.touched[kept] = touch;
                kept += 1;
            }
        }
        self.touched.truncate(kept);
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
        self.touched.iter().fold((0, 0), |(reads, writes), &touch| {
            let (read, written) = self.account(touch);
            (reads + read, writes + written)
        })
    }

    /// Counts messages read and written, before those are published.
    #[inline(always)]
    fn count(&self, reads: usize, writes: usize) {
        // SAFETY: the task being dispatched is alive.
        let task = unsafe { &*self.task };
        task.counts.reads.set(task.counts.reads.get() + reads as u64);
        task.counts.writes.set(task.counts.writes.get() + writes as u64);
        if reads != writes {
            self.shared.admission.count(self.worker, task.id.0, reads as u64, writes as u64);
        }
    }

    // ---- telling

    /// Reads the clock.
    pub(crate) fn clock(&mut self) -> u64 {
        // Never backwards, so that the element's events are in the order of their times.
        self.now = self.shared.clock.now().max(self.now);
        self.now
    }

    /// The thread did what belongs to no dispatch and may take long, such as to wake another thread: the clock is read again before
    /// the next one begins, which looks up for that as for a setting, at no cost where nothing was.
    pub(crate) fn did_aside(&mut self) {
        if self.mode != Mode::Off {
            self.clock_lags = true;
            self.changes = LOOK_UP;
        }
    }

    /// Reads the clock between two dispatches: what the thread did since the last one, or since it waited, was its own work, such
    /// as to wake others.
    #[cold]
    pub(crate) fn own_work(&mut self) -> u64 {
        let before = self.now;
        let now = self.clock();
        if self.mode != Mode::Off {
            let kept = self.kept_of(now - before, OWN_WORK_NS);
            self.own_ticks += now - before - kept;
            self.busy_base += now - before - kept;
            self.tell_kept(0, kept);
        }
        self.clock_lags = false;
        now
    }

    /// For how much of the last `ticks` the worker was kept from its processor, which is asked if those are `long_ns` or more.
    pub(crate) fn kept_of(&mut self, ticks: u64, long_ns: u64) -> u64 {
        let Some(delays) = self.delays.as_mut().filter(|_| ticks >= self.shared.clock.ns_to_ticks(long_ns))
        else {
            return 0;
        };
        let kept = self.shared.clock.ns_to_ticks(delays.more_ns()).min(ticks);
        self.kept_ticks += kept;
        self.busy_base += kept;
        kept
    }

    /// Tells of time that is counted as kept from the processor.
    pub(crate) fn tell_kept(&mut self, task: u64, duration_ticks: u64) {
        let worker = self.worker;
        if duration_ticks > 0
            && self.mode == Mode::Full
            && let Some(recorder) = &mut self.recorder
        {
            recorder.at(self.now, &Kept { worker, task, duration_ticks });
        }
    }

    /// Adopts the mode that is set now.
    #[inline]
    pub(crate) fn adopt_mode(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        let mode = self.shared.mode(recorder);
        if self.mode != mode {
            self.change_mode(mode);
        }
    }

    /// Adopts all settings that a dispatch needs, if any was changed: one load, if not.
    #[inline]
    fn adopt_settings(&mut self) {
        let changes = self.shared.changes();
        if changes != self.changes {
            self.adopt_changes(changes);
        }
    }

    #[cold]
    #[inline(never)]
    fn adopt_changes(&mut self, changes: u64) {
        self.changes = changes;
        self.adopt_mode();
        self.quantum = self.shared.quantum(self.recorder.as_mut());
        self.unfinished = self.shared.unfinished(self.recorder.as_mut());
        self.by_demand = self.shared.by_demand(self.recorder.as_mut());
        self.shared.adopt_workers();
        // A task with a thread of its own sees to its clock when it resumes.
        if self.clock_lags && self.worker != FOREIGN {
            self.own_work();
        }
    }

    #[cold]
    fn change_mode(&mut self, mode: Mode) {
        let now = self.clock();
        if self.mode == Mode::Off {
            self.measured_since = now;
        }
        if mode == Mode::Full {
            self.full_since = now;
        }
        self.mode = AdoptedMode(mode);
    }

    /// Ends the current dispatch's time: live cells, and in mode full its events.
    #[inline(never)]
    fn tell_dispatch(&mut self) {
        let (reads, writes) = self.account_all();
        // SAFETY: the task being dispatched is alive.
        let task = unsafe { &*self.task };
        let messages = if reads > 0 { reads } else { writes };
        let now = self.clock_after_delay(task.id, messages as u64);
        task.turn(Share::Busy, now, self.measured_since);
        let lasted = now.saturating_sub(self.began);
        if lasted >= self.shared.long_ticks {
            self.tell_kept_in(task, lasted);
        }
        if self.mode == Mode::Full
            && let Some(recorder) = &mut self.recorder
        {
            let dispatched = TaskDispatched {
                task: task.id.0,
                duration_ticks: lasted,
                worker: task.worker(),
                reads: reads as u32,
                writes: writes as u32,
            };
            if let Some((index, since)) = self.message.take() {
                recorder.at(now, &worked(task, index, now - since));
            }
            recorder.at(now, &dispatched);
            self.keep_last_read(None);
            for at in 0..self.touched.len() {
                self.tell_positions(self.touched[at], now);
            }
            if let Some(recorder) = &mut self.recorder {
                self.lineage.take().for_each(|derived| recorder.same(&derived));
            }
        }
        for &touch in &self.touched {
            // SAFETY: an end on the list is kept until the list is emptied.
            show_positions(unsafe { touch.ring.as_ref() }, task, touch.writes);
        }
        self.show_task(task, reads as u64, writes as u64);
        self.show_worker();
        self.began = now;
        if now - self.used_told >= self.shared.usage_ticks {
            self.tell_used();
        }
    }

    /// Tells for how much of a long dispatch that ends now its worker was kept from the processor.
    #[cold]
    #[inline(never)]
    fn tell_kept_in(&mut self, task: &TaskCell, lasted: u64) {
        let kept = self.kept_of(lasted, 0);
        task.kept(kept);
        self.tell_kept(task.id.0, kept);
    }

    /// Whether the current task's messages took so long until now that the time of each is told.
    pub(crate) fn times_messages(&mut self) -> bool {
        // SAFETY: the task being dispatched is alive.
        let task = unsafe { &*self.task };
        let (busy, messages) = (task.share(Share::Busy), task.counts.reads.get());
        let percent = self.shared.clock_budget(self.recorder.as_mut());
        let cost = messages.saturating_mul(self.telling_ticks).saturating_mul(100);
        cost > 0 && busy.saturating_mul(percent) >= cost
    }

    /// The current task begins to work on the next message, whose time is told.
    #[cold]
    pub(crate) fn begin_message(&mut self, index: u64) {
        let now = self.clock();
        // SAFETY: the task being dispatched is alive.
        let task = unsafe { &*self.task };
        let before = self.message.replace((index, now));
        if let (Some((index, since)), Some(recorder)) = (before, &mut self.recorder) {
            recorder.at(now, &worked(task, index, now - since));
        }
    }

    /// Nothing is told of the message that the current task works on.
    pub(crate) fn forget_message(&mut self) {
        self.message = None;
    }

    /// The clock, when a task that is to take longer has done so for so many messages.
    fn clock_after_delay(&mut self, task: TaskId, messages: u64) -> u64 {
        let now = self.clock();
        let ticks = self.shared.delay_ticks(task, now).saturating_mul(messages);
        if ticks == 0 {
            return now;
        }
        let end = now.saturating_add(ticks.min(self.shared.clock.ns_to_ticks(DELAY_NS_MAX)));
        while self.clock() < end {
            std::hint::spin_loop();
        }
        self.now
    }

    /// Tells what the thread used of its processor until now.
    #[cold]
    pub(crate) fn tell_used(&mut self) {
        self.used_told = self.now;
        self.did_aside();
        // SAFETY: the task being dispatched is alive.
        let task = unsafe { self.task.as_ref() }.filter(|task| task.blocking).map_or(0, |task| task.id.0);
        if let Some(recorder) = &mut self.recorder {
            let Used { cpu_ns, preempted, delayed_ns } = affinity::used();
            let worker = if task == 0 { self.worker } else { OWN_THREAD };
            let (own_ticks, kept_ticks) = (self.own_ticks, self.kept_ticks);
            recorder.at(
                self.now,
                &ThreadUsed { worker, task, cpu_ns, preempted, delayed_ns, own_ticks, kept_ticks },
            );
        }
    }

    fn tell_positions(&mut self, touch: Touch, now: u64) {
        // SAFETY: an end on the list is kept until the list is emptied.
        let ring = unsafe { touch.ring.as_ref() };
        let Some(recorder) = &mut self.recorder else { return };
        debug_assert_eq!(now, self.now);
        if touch.writes {
            let count = ring.written_since();
            if count != 0 {
                let first = (ring.pushed.get() - count) as u64;
                recorder.same(&StreamWrote { stream: ring.id, first, count: count as u32 });
            }
        } else {
            let count = ring.taken_since() - ring.discarded.get();
            if count != 0 {
                let first = (ring.popped.get() - ring.taken_since()) as u64;
                recorder.same(&StreamRead { stream: ring.id, first, count: count as u32 });
            }
        }
    }

    /// Shows a task's counters in its live row, with messages that are not counted yet.
    fn show_task(&self, task: &TaskCell, reads: u64, writes: u64) {
        let Some(row) = task.row() else { return };
        put(row, TaskRow::DISPATCHES, task.counts.dispatches.get());
        put(row, TaskRow::READS, task.counts.reads.get() + reads);
        put(row, TaskRow::WRITES, task.counts.writes.get() + writes);
        for share in [Share::Busy, Share::InputWait, Share::OutputWait, Share::Ready] {
            put(row, TaskRow::BUSY_TICKS + share as usize, task.share(share));
        }
    }

    /// The time until now that the worker neither waited nor was parked nor did work of its own nor was kept from its processor.
    pub(crate) fn busy_ticks(&self) -> u64 {
        self.now.saturating_sub(self.busy_base)
    }

    /// What it shows as busy, until now: what it waited is shown when that ends.
    pub(crate) fn show_worker(&self) {
        let (Some(row), Some(recorder)) = (&self.row, &self.recorder) else { return };
        put(row, WorkerRow::BUSY_TICKS, self.busy_ticks());
        put(row, WorkerRow::UPDATED, self.now);
        put(row, WorkerRow::DISPATCHES, self.dispatches);
        put(row, WorkerRow::EVENTS, recorder.writer.sequence());
    }

    /// Tells of tasks and streams, through the thread's own recorder or that of passing threads. The clock is read once for
    /// a part of a worker's dispatch; a thread that is no worker may take its time.
    pub(crate) fn tell(&mut self, tell: impl FnOnce(&mut Recorder, u64)) {
        if self.recorder.is_some() && !self.is_fresh {
            self.clock();
            self.is_fresh = self.worker != FOREIGN;
        }
        match &mut self.recorder {
            Some(recorder) => tell(recorder, self.now),
            None => self.shared.tell_from_outside(tell),
        }
    }

    /// An end of a stream, the writing one or the other, was attached to a task.
    fn tell_opened(&mut self, ring: &Ring, task: &TaskCell, writes: bool) {
        if ring.observed.shared().is_none() {
            return;
        }
        let (own, peer) = (task.id.0, ring.peer(writes));
        if peer == 0 && self.mode == Mode::Off && self.recorder.is_some() {
            return; // Told when the other end is attached; messages are not told at all.
        }
        let (reader, writer) = if writes { (peer, own) } else { (own, peer) };
        let name = ring.observed.row().map_or(0, |row| row.cell(StreamRow::NAME).load(Relaxed));
        let capacity = u64::from(ring.capacity);
        let opened = StreamOpened { stream: ring.id, name: NameRef(name), reader, writer, capacity };
        self.tell(|recorder, now| recorder.at(now, &opened));
    }

    /// The message that the current task popped last, as far as it was told: its stream, its index.
    pub(crate) fn last_read(&self) -> Option<(u64, u64)> {
        // SAFETY: the stream last read from is on the dispatch's list, which keeps it, or `finish_with` cleared this.
        if let Some(ring) = unsafe { self.popped_last.get().as_ref() } {
            // What a leaving reader dropped was not popped.
            return Some((ring.id, (ring.popped.get() - ring.discarded.get()) as u64 - 1));
        }
        // SAFETY: the task being dispatched is alive.
        let before = unsafe { &*self.task }.observed()?.read_before.get();
        (before.at != 0 && before.at >= self.full_since).then_some((before.stream, before.index))
    }

    /// Keeps what was popped last for the dispatches to come, if it was from `ring` (none: whichever).
    fn keep_last_read(&mut self, ring: Option<NonNull<Ring>>) {
        let last = self.popped_last.get();
        if last.is_null() || ring.is_some_and(|ring| !std::ptr::eq(ring.as_ptr(), last)) {
            return;
        }
        if self.mode == Mode::Full
            && let Some((stream, index)) = self.last_read()
            // SAFETY: the task being dispatched is alive.
            && let Some(observed) = unsafe { &*self.task }.observed()
        {
            observed.read_before.set(ReadBefore { stream, index, at: self.now });
        }
        self.popped_last.set(std::ptr::null());
    }

    /// Notes that the message pushed last on `child` descends from the one popped last.
    #[inline]
    pub(crate) fn note_derived(&mut self, child: &Ring) {
        let parent = self.popped_last.get();
        // SAFETY: as in `last_read`.
        if !unsafe { self.lineage.goes_on(child, parent) } {
            self.note_derived_otherwise(child, parent);
        }
    }

    #[cold]
    fn note_derived_otherwise(&mut self, child: &Ring, parent: *const Ring) {
        if let Some(read) = self.last_read() {
            // SAFETY: as in `last_read`.
            self.lineage.note(child, read, unsafe { parent.as_ref() });
        }
    }

    /// Notes that the `count` messages pushed last on `child` descend from as many popped last, each from one.
    #[cfg(not(loom))]
    pub(crate) fn note_derived_run(&mut self, child: &Ring, count: usize) {
        if let Some(read) = self.last_read() {
            self.lineage.note_run(child, count, read);
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
        task.wait_for_none(&mut self.released);
        match stop {
            Stop::InputEmpty => {
                // SAFETY: we are the task's thread, and no reference to its groups is kept.
                let has_port = task.has_groups() && unsafe { task.has_ready_port() };
                ready = has_port;
                sleeps = has_port || self.ports_wait;
                for touch in &self.touched {
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
                for touch in &self.touched {
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
        self.ports_wait = false;
        // Mostly one or none: by `for` the compiler makes it four at a time.
        while let Some(touch) = self.touched.pop() {
            touch.state().store(0, Ordering::Release);
        }
    }

    #[cold]
    fn close_end(&mut self, touch: Touch) {
        // SAFETY: the reference of the end that was dropped; the task being dispatched is alive.
        let (ring, task) = unsafe { (touch.ring.as_ref(), &*self.task) };
        task.forget_first_wait();
        if touch.writes {
            self.close(ring)
        } else {
            self.leave(ring);
            self.shared.admission.drop_unread(ring.discarded.get());
        }
        self.released.push(touch.ring);
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
        if ring.observed.shared().is_some() && ring.count_end() {
            let closed = closed(ring);
            self.tell(|recorder, now| recorder.at(now, &closed));
        }
    }

    /// Frees what the last references went to. Messages are dropped here: a user's code runs.
    fn free_released(core: NonNull<Core>) {
        loop {
            // SAFETY: the thread's own core; the reference ends before a user's code runs.
            let Some(ring) = (unsafe { &mut *core.as_ptr() }).released.pop() else { return };
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
            // SAFETY: the task being dispatched is alive.
            let task = unsafe { &*core.task };
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            let unread = budget.map_or(0, |budget| core.unread(budget));
            core.publish_all();
            if let Some(budget) = budget {
                core.finish_budget(task, budget, unread);
            }
            let sleeps = core.arm(task, stop);
            core.tell_stop(task, stop, sleeps == Ok(true));
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
            // SAFETY: the task being dispatched is alive.
            let task = unsafe { &*core.task };
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            core.publish_all();
            core.tell_stop(task, stop, true);
            core.let_go();
        }
        Core::free_released(core);
    }

    /// Ends a blocking task's wait that nobody else has ended.
    pub(crate) fn come_back(core: NonNull<Core>) {
        // SAFETY: the thread's own core; no user's code runs inside this function.
        let core = unsafe { &mut *core.as_ptr() };
        if core.mode != Mode::Off {
            let now = core.clock();
            // SAFETY: the task being dispatched is alive.
            unsafe { &*core.task }.set_woken_at(now);
        }
    }

    /// Begins a blocking task's next dispatch, after a wait or not.
    pub(crate) fn resume(core: NonNull<Core>) {
        // SAFETY: the thread's own core; no user's code runs inside this function.
        let core = unsafe { &mut *core.as_ptr() };
        // SAFETY: the task being dispatched is alive.
        let task = unsafe { &*core.task };
        let mode_before = core.mode;
        core.adopt_settings();
        if core.mode == Mode::Off {
            return;
        }
        let waited_for = task.waits_for.replace(Share::Ready);
        let lags = std::mem::take(&mut core.clock_lags);
        let begun = task.counts.dispatches.get() > 0 && core.mode == mode_before;
        if waited_for == Share::Ready && begun && !lags {
            // It did not wait: what little its thread did since (it wrote events) belongs to this dispatch.
            show_running(task);
            return;
        }
        let stamp = task.woken_at();
        if waited_for != Share::Ready && stamp != 0 {
            task.turn(waited_for, stamp, core.measured_since);
        }
        let now = core.clock();
        task.turn(Share::Ready, now, core.measured_since);
        core.begin_time(task);
    }

    /// Runs a ready task once.
    pub(crate) fn dispatch(core: NonNull<Core>, task: NonNull<TaskCell>) {
        // SAFETY: tasks in the queue are alive, and this is the task's thread.
        let cell = unsafe { task.as_ref() };
        cell.state.set(State::Running);
        // SAFETY: the thread's own core; the reference ends before the task runs.
        let (budget, full) = unsafe {
            let core = &mut *core.as_ptr();
            core.task = task.as_ptr();
            core.is_fresh = false;
            core.adopt_settings();
            if let Some(row) = &core.row {
                put(row, WorkerRow::TASK, cell.id.0);
                put(row, WorkerRow::MESSAGE, cell.counts.reads.get());
                // In every mode: whoever looks twice sees whether the worker goes on.
                put(row, WorkerRow::DISPATCHES, core.dispatches);
                if cell.counts.dispatches.get() == SHOWN_AFTER {
                    cell.observe();
                }
            }
            if core.mode != Mode::Off {
                cell.turn(Share::Ready, core.now, core.measured_since);
                core.begin_time(cell);
            }
            core.dispatches += 1;
            (core.begin_budget(cell), core.mode == Mode::Full)
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

    #[inline]
    fn begin_time(&mut self, task: &TaskCell) {
        self.began = self.now;
        show_running(task);
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
            core.tell_stop(task, stop, sleeps);
            core.let_go();
            core.task = std::ptr::null_mut();
            if sleeps {
                task.state.set(State::Idle);
                core.wait_for_room += u64::from(stop == Stop::OutputFull);
            } else {
                core.make_ready(task);
            }
            if core.released.is_empty() {
                return Ok(());
            }
        }
        Core::free_released(core);
        Ok(())
    }

    /// Tells why a task stopped, and that it is ready again if it is.
    #[inline]
    fn tell_stop(&mut self, task: &TaskCell, stop: Stop, sleeps: bool) {
        let (waits_for, state) = match stop {
            Stop::InputEmpty if sleeps => (Share::InputWait, TaskState::BlockedInput as u64),
            Stop::OutputFull if sleeps => (Share::OutputWait, TaskState::BlockedOutput as u64),
            _ => (Share::Ready, TaskState::Ready as u64),
        };
        task.waits_for.set(waits_for);
        if self.mode != Mode::Off {
            self.tell_stopped(task, stop, sleeps, state);
        }
    }

    #[inline(never)]
    fn tell_stopped(&mut self, task: &TaskCell, stop: Stop, sleeps: bool, state: u64) {
        if let Some(row) = task.row() {
            put(row, TaskRow::STATE, state);
        }
        if self.mode != Mode::Full {
            return;
        }
        let Some(recorder) = &mut self.recorder else { return };
        let only = |writes: bool| {
            let noted =
                |touch: &&Touch| touch.writes == writes && touch.state().load(Ordering::Relaxed) & NOTED != 0;
            let mut noted = self.touched.iter().filter(noted);
            match (noted.next(), noted.next()) {
                // SAFETY: an end is kept until its state is 0.
                (Some(one), None) => unsafe { one.ring.as_ref() }.id,
                _ => 0,
            }
        };
        let id = task.id.0;
        match stop {
            Stop::InputEmpty => {
                let stream = if self.ports_wait { 0 } else { only(false) };
                recorder.at(self.now, &TaskBlockedInput { task: id, stream });
            }
            Stop::OutputFull => {
                recorder.at(self.now, &TaskBlockedOutput { task: id, stream: only(true) });
            }
            Stop::QuantumSpent | Stop::Ended => recorder.at(self.now, &TaskYielded { task: id }),
        }
        if !sleeps {
            recorder.same(&TaskReady { task: id, by_stream: 0, cause: Cause::Yield });
        }
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
            if task.blocking && core.mode != Mode::Off {
                core.tell_used();
            }
            core.let_go();
            core.task = std::ptr::null_mut();
            task.state.set(State::Ended);
            if core.mode != Mode::Off {
                // To close its ports is to wake others.
                let now = core.own_work();
                core.is_fresh = true;
                task.turn(Share::Ready, now, core.measured_since);
            }
            core.show_task(task, 0, 0);
            task.show_end(outcome);
            core.tell(|recorder, now| task.tell_end(recorder, now, outcome));
        }
        // SAFETY: the task's own thread.
        unsafe { task.forget_waits() };
        Core::free_released(core);
    }

    pub(crate) fn forget(&mut self, task: &TaskCell) {
        self.moving.forget(task);
        let at = task.live_index.get() as usize;
        self.live.swap_remove(at);
        if let Some(moved) = self.live.get(at) {
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
                let Some(&task) = core.live.last() else { break };
                core.task = task.as_ptr();
                // It waited until now: its end is no part of the last dispatch.
                core.began = core.own_work();
                let cell = task.as_ref();
                if cell.state.get() == State::Idle && core.mode != Mode::Off {
                    cell.turn(cell.waits_for.get(), core.began, core.measured_since);
                }
                core.is_fresh = false;
                task
            };
            Core::end(core, task, Ok(()));
        }
        // SAFETY: as above.
        let core = unsafe { &mut *core.as_ptr() };
        core.ready = ReadyQueue::new();
    }
}

#[inline]
fn show_running(task: &TaskCell) {
    if let Some(row) = task.row() {
        put(row, TaskRow::STATE, TaskState::Running as u64);
    }
}

#[inline]
fn run_body(core: NonNull<Core>, task: &TaskCell, messages: usize, full: bool) -> thread::Result<Stop> {
    let pointer = std::ptr::from_ref(task).cast_mut();
    catch_unwind(AssertUnwindSafe(|| {
        let mut cx = Context::new(core, pointer, messages, full);
        // SAFETY: the task's own thread, and its body is not borrowed elsewhere.
        match unsafe { task.body() } {
            Some(body) => body.run(&mut cx),
            None => Stop::Ended,
        }
    }))
}

/// What came of waking a task of another thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Somebody was faster, or its worker has ended.
    Already,
    /// Its thread is awake.
    Told,
    /// Its thread slept: waking it took a call of the system.
    Roused,
}

/// Wakes a task of another worker of `shared`, or a blocking one; `stamp` is the time, if it is measured.
pub(crate) fn wake_elsewhere(shared: &Shared, task: &TaskCell, stamp: u64) -> Woken {
    if task.in_inbox.load(Ordering::Relaxed) {
        // The swap decides, but there is no need to overwrite the time of who was first.
    } else {
        task.set_woken_at(stamp);
    }
    if task.in_inbox.swap(true, Ordering::AcqRel) {
        return Woken::Already;
    }
    if task.blocking {
        return if shared.admission.unpark(&task.parker) { Woken::Roused } else { Woken::Told };
    }
    match send(shared, task.counted_reference()) {
        Pushed::Refused => Woken::Already,
        Pushed::Taken => Woken::Told,
        Pushed::Woke => Woken::Roused,
    }
}

/// Puts a task of `shared`, with the caller's reference, into its worker's inbox; if that refuses it, the reference is given up.
pub(crate) fn send(shared: &Shared, task: NonNull<TaskCell>) -> Pushed {
    // SAFETY: the caller's reference.
    let worker = unsafe { task.as_ref() }.worker();
    let pushed = shared.inboxes[worker as usize].push(task);
    if pushed == Pushed::Refused {
        // SAFETY: refused, so it is still ours.
        unsafe { TaskCell::release(task.as_ptr()) }
    }
    pushed
}

/// Wakes a task from a thread that may have no part in the runtime but by the task.
pub(crate) fn wake_from_outside(task: &TaskCell) {
    let shared = task.shared.clone();
    let _ = wake_elsewhere(&shared, task, 0);
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
            core.shared.admission.drop_unread(r.discarded.get());
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

fn worked(task: &TaskCell, index: u64, duration_ticks: u64) -> MessageWorked {
    MessageWorked { task: task.id.0, index, duration_ticks }
}

fn end_gone_outside(ring: &Ring) {
    if let Some(shared) = ring.observed.shared()
        && ring.count_end()
    {
        let closed = closed(ring);
        shared.tell_from_outside(|recorder, now| recorder.at(now, &closed));
    }
}

/// The totals of a stream both ends of which are gone.
fn closed(ring: &Ring) -> StreamClosed {
    let (written, read, dropped) = ring.totals();
    if let Some(row) = ring.observed.row() {
        put(row, StreamRow::WRITTEN, written);
        put(row, StreamRow::READ, read);
        put(row, StreamRow::DROPPED, dropped);
        put(row, StreamRow::CLOSED, 1);
    }
    StreamClosed { stream: ring.id, written, read, dropped }
}

/// Shows the position of an end that `task` has in the stream's live row, if any message has passed it.
fn show_positions(ring: &Ring, task: &TaskCell, writes: bool) {
    let passed = if writes {
        ring.pushed.get() + ring.refused.get()
    } else {
        ring.popped.get() - ring.discarded.get()
    };
    if passed == 0 {
        return;
    }
    let Some(row) = ring.shown_by(task, writes) else { return };
    if writes {
        put(row, StreamRow::WRITTEN, passed as u64);
        put(row, StreamRow::DROPPED, ring.refused.get() as u64);
    } else {
        put(row, StreamRow::READ, passed as u64);
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
        let quantum = self.quantum;
        let budget = task.budget.get() as usize;
        if Sampling::skips(&task.sampling) {
            return Budget { messages: quantum.min(budget), started: None };
        }
        let now = if self.mode == Mode::Off { self.clock() } else { self.now };
        Budget { messages: quantum.min(budget.max(1)), started: Some((now, done_by(task))) }
    }

    /// Messages that wait in the stream which the dispatch read last, if this dispatch is looked at.
    #[inline]
    fn unread(&self, budget: &Budget) -> u64 {
        if budget.started.is_none() {
            return 0;
        }
        // SAFETY: what the dispatch read from is kept until it was published.
        let Some(ring) = (unsafe { self.popped_last.get().as_ref() }) else { return 0 };
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
        let now = if self.mode == Mode::Off { self.clock() } else { self.now };
        let took = now.saturating_sub(started);
        let each = (took / messages).max(1);
        let target = self.shared.quantum_ticks(self.recorder.as_mut());
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
            self.sampled(replica, took, messages, sampling.stands_for(), unread);
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
