//! The state that telemetry keeps for a task: its row in the live table, and its time in four shares.

use std::cell::{Cell, OnceCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use thalweg_space::{LIVE_CELLS, SiteRef};

use super::base::{MadeReady, ReadyBy, Stated};
use super::board::Board;
use super::kinds::{BriefTaskEnded, NO_BASE, OWN_THREAD, StreamClosed, TaskCreated, TaskEnded};
use super::recorder::Recorder;
use super::rows::{Cells, TaskRow, TaskState, put};
use crate::fault::Fault;
use crate::slab::{self, SlabBox};

/// What a task spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Busy = 0,
    InputWait = 1,
    OutputWait = 2,
    Ready = 3,
}

/// Counts of a task's work so far. Only the task's thread accesses these counts.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) dispatches: Cell<u64>,
    pub(crate) reads: Cell<u64>,
    pub(crate) writes: Cell<u64>,
}

/// The description of a task: what a reader that finds the task's number wants to know.
#[derive(Clone, Copy)]
pub(crate) struct About {
    pub(crate) component: SiteRef,
    pub(crate) replica: u64,
}

/// The facts about a task that are recorded when it is made.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) about: About,
    /// The task that created this task by unfolding, or 0.
    pub(crate) parent: u64,
    pub(crate) one_to_one: bool,
}

impl Origin {
    pub(super) fn created(self, task: &impl WatchedTask, worker: u32) -> TaskCreated {
        let Origin { about: About { component, replica }, parent, one_to_one } = self;
        let blocking = task.has_own_thread();
        TaskCreated {
            task: task.number(),
            component,
            parent,
            replica,
            one_to_one,
            blocking,
            capacity: 0,
            worker,
            input: 0,
            output: 0,
            writer_before: 0,
            base_number: NO_BASE,
        }
    }
}

/// The moments at which a task's time changes from one share to another. Only the task's thread accesses
/// these fields, except for `woken_at` and `woken_by`. The time of a dispatch, and of the task's wait before
/// it, is added when the dispatch ends.
#[derive(Default)]
struct Times {
    /// The time until which the shares are counted: the end of the last dispatch.
    until: Cell<u64>,
    /// When the task became ready or began to run; a time before `until` means that the task is neither ready
    /// nor running.
    ready_since: Cell<u64>,
    /// When another thread woke the task, in ticks; 0: not measured. The field is written by the waking
    /// thread before it puts the task into the inbox, and read by the task's worker after it took the task
    /// out.
    woken_at: AtomicU64,
    /// The cause of the wake-up, a [`ReadyBy`] as a word. The field is written and read like `woken_at`.
    woken_by: AtomicU64,
}

/// The state that telemetry keeps for a task for observers. In mode off only tasks that live long have this
/// state, because a row adds more than half to a task's memory, and a network that unfolds makes and ends
/// tasks all the time.
pub(crate) struct ObservedTask {
    /// The task's row, in which its time is added up.
    row: Cells,
    /// The session (a number for a thread in one mode) in which the task's last dispatch ended: see
    /// [`Telemetry`](super::Telemetry). While the session stays the same, the task's times are in order, and
    /// its base is in the thread's own element.
    pub(super) session: Cell<u32>,
    times: Times,
    /// What last made the task ready. The field is written and read by the task's thread, or by the thread
    /// that makes the task.
    pub(super) ready_by: Cell<ReadyBy>,
    /// Whether the time of each message is recorded, because the task's messages take long.
    pub(super) times_messages: Cell<bool>,
    /// Whether each message is also described, because the messages take even longer.
    pub(super) describes_messages: Cell<bool>,
    /// The state that recording needs, made with the first recorded dispatch: tasks that are only timed have
    /// none.
    recorded: OnceCell<SlabBox<RecordedTask>>,
}

/// The state that telemetry keeps for a task while its dispatches are recorded. Only the task's thread
/// accesses this state.
#[derive(Default)]
pub(crate) struct RecordedTask {
    /// The base of the task's dispatches.
    pub(super) stated: Stated,
    /// The last message popped in a former dispatch; see [`RecordedTask::last_read`].
    read_before: Cell<ReadBefore>,
    /// Whether the message in `read_before` is the last one read from the base's input.
    pub(super) read_base_last: Cell<bool>,
}

impl RecordedTask {
    /// The message that was popped last in a former dispatch, which ended at `until` or earlier.
    fn last_read(&self, until: u64) -> ReadBefore {
        if !self.read_base_last.get() {
            return self.read_before.get();
        }
        let (stream, index) = (self.stated.input.get(), self.stated.next_read.get().wrapping_sub(1));
        ReadBefore { stream, index, at: until }
    }

    fn keep_read(&self, read: ReadBefore) {
        self.read_base_last.set(false);
        self.read_before.set(read);
    }
}

/// A message that a dispatch popped last.
#[derive(Clone, Copy, Default)]
pub(super) struct ReadBefore {
    pub(super) stream: u64,
    pub(super) index: u64,
    /// When the dispatch ended that popped the message; 0 if there is no such message.
    pub(super) at: u64,
}

impl ObservedTask {
    /// Counts the task's time until `now` as `share`, without time before `measured_since`.
    fn turn(&self, share: Share, now: u64, measured_since: u64) {
        let from = self.times.until.get().max(measured_since);
        // Clocks of two cores may differ by some ticks, so an earlier time is replaced by `from`, which lets
        // the shares add up.
        let now = now.max(from);
        self.add(share, now - from);
        self.times.until.set(now);
    }

    /// Notes that the task is ready from `now` on; `by` is the cause.
    #[inline(always)]
    pub(super) fn is_ready(&self, now: u64, by: ReadyBy) {
        self.times.ready_since.set(now);
        self.ready_by.set(by);
        self.show_state(TaskState::Ready);
    }

    /// How long the task had been ready when it began to run. The thread's session (a number for one thread
    /// in one mode) must be that of the task's last dispatch.
    #[inline(always)]
    pub(super) fn ready_ticks(&self, began: u64) -> u64 {
        began.saturating_sub(self.times.ready_since.get())
    }

    /// Notes that a task on a thread of its own continues, after a wait for `waited_for` if it waited.
    /// Returns the time at which the task continues, which is `now` or a little later.
    pub(super) fn goes_on(&self, waited_for: Option<Share>, now: u64, measured_since: u64) -> u64 {
        let Times { until, ready_since, woken_at, woken_by } = &self.times;
        if let Some(share) = waited_for {
            self.ready_by.set(ReadyBy::from_word(woken_by.load(Ordering::Relaxed)));
            let stamp = woken_at.load(Ordering::Relaxed);
            if stamp != 0 {
                self.turn(share, stamp, measured_since);
            }
        }
        ready_since.set(until.get());
        now.max(until.get())
    }

    /// Counts a run from `began` to `now`, the ready time before it, and the wait for `waited_for` before
    /// that. The thread's session (a number for one thread in one mode) must be that of the task's last
    /// dispatch.
    #[inline(always)]
    pub(super) fn ran(&self, waited_for: Share, began: u64, now: u64) {
        let Times { until, ready_since, .. } = &self.times;
        // The thread that woke the task, or ran it last, may have read the clock after this thread did,
        // because this dispatch counts from the end of the dispatch before it. Times are clamped so that they
        // never run backwards and the shares add up.
        let began = began.max(until.get());
        let (row, since, now) = (&*self.row, ready_since.get().max(until.get()).min(began), now.max(began));
        add(row, waited_for, since - until.get());
        add(row, Share::Ready, began - since);
        add(row, Share::Busy, now - began);
        until.set(now);
        ready_since.set(now);
    }

    /// Counts what [`Self::ran`] counts, but the session (a number for one thread in one mode) may have
    /// changed since the task's last dispatch, so no time before `measured_since` is counted. Returns how
    /// long the task was ready.
    pub(super) fn ran_anyhow(&self, waited_for: Share, began: u64, now: u64, measured_since: u64) -> u64 {
        let ready = self.waited(waited_for, began, measured_since);
        self.turn(Share::Busy, now, measured_since);
        self.times.ready_since.set(self.times.until.get());
        ready
    }

    /// Counts the wait for `waited_for` and the ready time after it, until `began`, and returns how long the
    /// task was ready.
    fn waited(&self, waited_for: Share, began: u64, measured_since: u64) -> u64 {
        let woken = self.times.ready_since.get();
        if woken > self.times.until.get() {
            self.turn(waited_for, woken.min(began), measured_since);
        }
        let before = self.times.until.get().max(measured_since);
        self.turn(Share::Ready, began, measured_since);
        self.times.until.get() - before
    }

    fn add(&self, share: Share, ticks: u64) {
        add(&self.row, share, ticks);
    }

    #[inline(always)]
    fn share(&self, share: Share) -> &AtomicU64 {
        &self.row[TaskRow::BUSY_TICKS + share as usize]
    }

    /// Subtracts `ticks` from the busy time, because the thread had no processor in that time.
    fn kept(&self, ticks: u64) {
        let ticks = ticks.min(self.share(Share::Busy).load(Ordering::Relaxed));
        self.add(Share::Busy, ticks.wrapping_neg());
        self.add(Share::Ready, ticks);
    }

    #[inline(always)]
    pub(super) fn show_state(&self, state: TaskState) {
        put(&self.row, TaskRow::STATE, state as u64);
    }

    /// Writes the task's counters and present state to its row.
    #[inline(always)]
    pub(super) fn show(&self, did: &Counts, state: TaskState) {
        let row = &*self.row;
        put(row, TaskRow::DISPATCHES, did.dispatches.get());
        put(row, TaskRow::READS, did.reads.get());
        put(row, TaskRow::WRITES, did.writes.get());
        put(row, TaskRow::STATE, state as u64);
    }

    /// The state for recorded dispatches, which is made now if there is none yet.
    #[inline(always)]
    pub(super) fn recorded(&self) -> &RecordedTask {
        self.recorded.get_or_init(|| SlabBox::new(RecordedTask::default()))
    }

    /// The state for recorded dispatches; `None` before the first recorded dispatch.
    #[inline(always)]
    pub(super) fn recorded_before(&self) -> Option<&RecordedTask> {
        self.recorded.get().map(|recorded| &**recorded)
    }

    /// The message that the task popped last in a former recorded dispatch.
    pub(super) fn last_read(&self) -> ReadBefore {
        self.recorded_before()
            .map_or(ReadBefore::default(), |recorded| recorded.last_read(self.times.until.get()))
    }

    pub(super) fn keep_read(&self, read: ReadBefore) {
        self.recorded().keep_read(read);
    }

    /// Notes that the session (a number for one thread in one mode) changed since the task's last dispatch
    /// ended, and converts the state that only the former session may use.
    pub(super) fn enter(&self, session: u32) {
        if let Some(recorded) = self.recorded_before() {
            recorded.keep_read(self.last_read());
            recorded.stated.block.set(0);
        }
        self.session.set(session);
    }

    /// Makes the state for task `id`. Before the mapper has placed the task, `worker` is [`OWN_THREAD`].
    fn new(board: &Board, id: u64, about: About, worker: u32) -> ObservedTask {
        let row = Cells::new(board.live_row(|rows| rows.task, id));
        put(&row, TaskRow::STATE, TaskState::Ready as u64);
        put(&row, TaskRow::WORKER, u64::from(worker));
        put(&row, TaskRow::COMPONENT, about.component.0);
        put(&row, TaskRow::REPLICA, about.replica);
        ObservedTask {
            row,
            session: Cell::new(0),
            times: Times::default(),
            ready_by: Cell::default(),
            times_messages: Cell::new(false),
            describes_messages: Cell::new(false),
            recorded: OnceCell::new(),
        }
    }
}

/// Adds `ticks` to a share in the row. A share has one writer at a time; a reader of the row may see the
/// share before or after the change.
#[inline(always)]
fn add(row: &[AtomicU64; LIVE_CELLS], share: Share, ticks: u64) {
    let cell = &row[TaskRow::BUSY_TICKS + share as usize];
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(ticks), Ordering::Relaxed);
}

/// A task's slot for the state that telemetry keeps for the task.
pub(crate) struct TaskTelemetry(
    /// The state; null without a space, and in mode off until the task has lived for a while. The task's
    /// thread makes the state (release), or it is made before any other thread sees the task.
    AtomicPtr<ObservedTask>,
);

impl TaskTelemetry {
    /// The slot of task `id`; the task is observed from the beginning if it `is_shown` and there is a space.
    pub(crate) fn new(board: &Board, id: u64, about: About, is_shown: bool) -> TaskTelemetry {
        let observed =
            (is_shown && board.space().is_some()).then(|| ObservedTask::new(board, id, about, OWN_THREAD));
        let observed = observed.map_or(std::ptr::null_mut(), |observed| slab::make(observed).as_ptr());
        TaskTelemetry(AtomicPtr::new(observed))
    }

    #[inline(always)]
    fn get(&self) -> Option<&ObservedTask> {
        // SAFETY: the observed task is kept as long as `self`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

impl Drop for TaskTelemetry {
    fn drop(&mut self) {
        if let Some(observed) = NonNull::new(self.0.load(Ordering::Acquire)) {
            // SAFETY: `slab::make` made the value, and no other reference to it exists.
            unsafe { slab::free_value(observed) }
        }
    }
}

/// What telemetry needs to know of a task. Methods that change a task's time are called on the task's own
/// thread.
pub(crate) trait WatchedTask {
    fn number(&self) -> u64;
    /// The task's worker; 4294967295 for a task with a thread of its own.
    fn on_worker(&self) -> u32;
    fn has_own_thread(&self) -> bool;
    fn about(&self) -> About;
    fn did(&self) -> &Counts;
    /// What the task waits for while it is idle.
    fn waited_for(&self) -> Share;
    fn telemetry(&self) -> &TaskTelemetry;
    fn board(&self) -> &Board;

    /// The state that telemetry keeps for the task, if there is one.
    #[inline(always)]
    fn observed(&self) -> Option<&ObservedTask> {
        self.telemetry().get()
    }

    /// The state that telemetry keeps for the task, which is made now if there is a space. This must be
    /// called on the task's own thread, or before any other thread sees the task.
    #[cold]
    fn observe(&self) -> Option<&ObservedTask> {
        if self.observed().is_none() && self.board().space().is_some() {
            let made = ObservedTask::new(self.board(), self.number(), self.about(), self.on_worker());
            self.telemetry().0.store(slab::make(made).as_ptr(), Ordering::Release);
        }
        self.observed()
    }

    /// The task's live row.
    #[inline]
    fn row(&self) -> Option<&Cells> {
        Some(&self.observed()?.row)
    }

    /// Begins to measure the task's time, from `now` on.
    fn begin_times(&self, now: u64) {
        if let Some(observed) = self.observed() {
            observed.times.until.set(now);
            observed.times.ready_since.set(now);
        }
    }

    /// Counts the task's wait until now, even if the task was not woken, because the task leaves its thread
    /// or ends.
    fn settle_wait(&self, now: u64, measured_since: u64) {
        if let Some(observed) = self.observed() {
            // The clock of the thread that gets the task may be a little behind, so the task's next dispatch
            // is measured the long way.
            observed.enter(0);
            observed.waited(self.waited_for(), now, measured_since);
            observed.times.ready_since.set(observed.times.until.get());
        }
    }

    /// Counts the task's time until `now` as `share`, without time before `measured_since`.
    fn turn(&self, share: Share, now: u64, measured_since: u64) {
        if let Some(observed) = self.observed().or_else(|| self.observe()) {
            observed.turn(share, now, measured_since);
        }
    }

    /// Subtracts `ticks` from the busy time, because the thread had no processor in that time.
    fn kept(&self, ticks: u64) {
        if let Some(observed) = self.observed() {
            observed.kept(ticks);
        }
    }

    /// The task's time so far that was counted as `share`.
    #[inline]
    fn share(&self, share: Share) -> u64 {
        self.observed().map_or(0, |observed| observed.share(share).load(Ordering::Relaxed))
    }

    /// Stores when and why another thread wakes the task. This must be called before the task is put into an
    /// inbox.
    fn set_woken(&self, ready: MadeReady) {
        if let Some(observed) = self.observed() {
            observed.times.woken_at.store(ready.at, Ordering::Relaxed);
            observed.times.woken_by.store(ready.by.word(), Ordering::Relaxed);
        }
    }

    /// Shows that another thread wakes the task, unless that thread does not measure. A task with a thread of
    /// its own may have gone on without being woken; then it keeps the state that it shows.
    fn show_woken(&self, ready: MadeReady) {
        let Some(observed) = self.observed().filter(|_| ready.at != 0) else { return };
        if !self.has_own_thread() {
            return observed.show_state(TaskState::Ready);
        }
        let shown = &observed.row[TaskRow::STATE];
        for waits in [TaskState::BlockedInput, TaskState::BlockedOutput] {
            let ready = TaskState::Ready as u64;
            let _ = shown.compare_exchange(waits as u64, ready, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Stores what made the task ready. This must be called on the task's own thread, or before any other
    /// thread sees the task.
    #[inline]
    fn set_ready(&self, by: ReadyBy) {
        if let Some(observed) = self.observed() {
            observed.ready_by.set(by);
        }
    }

    /// Adopts the cause and the time that the waking thread stored; the time counts as `now` at the latest.
    fn set_ready_as_woken(&self, now: u64) {
        if let Some(observed) = self.observed() {
            let Times { until, ready_since, woken_at, woken_by } = &observed.times;
            observed.ready_by.set(ReadyBy::from_word(woken_by.load(Ordering::Relaxed)));
            let stamp = woken_at.load(Ordering::Relaxed);
            let woken = if stamp == 0 { now } else { stamp.min(now) };
            ready_since.set(woken.max(until.get()));
        }
    }

    /// Records that the task ended at `now`, how it ended, and which streams closed with it.
    fn write_end(
        &self,
        recorder: &mut Recorder,
        now: u64,
        outcome: &Result<(), Fault>,
        closed: &[StreamClosed],
    ) {
        let (others, with_it) = closed.split_at(closed.len().saturating_sub(2));
        others.iter().for_each(|closed| recorder.at(now, closed));
        if outcome.is_ok()
            && let Some(ended) = self.brief_end(with_it)
        {
            return recorder.at(now, &ended);
        }
        with_it.iter().for_each(|closed| recorder.at(now, closed));
        let Counts { dispatches, reads, writes } = self.did();
        let ended = TaskEnded {
            task: self.number(),
            busy_ticks: self.share(Share::Busy),
            input_wait_ticks: self.share(Share::InputWait),
            output_wait_ticks: self.share(Share::OutputWait),
            ready_ticks: self.share(Share::Ready),
            dispatches: dispatches.get(),
            reads: reads.get(),
            writes: writes.get(),
            failed: outcome.is_err(),
            panicked: matches!(outcome, Err(Fault { panicked: true, .. })),
        };
        recorder.at(now, &ended);
        if let Err(fault) = outcome {
            recorder.failed(self.number(), &fault.message);
        }
    }

    /// The short event of a task that ended without an error, with up to two closed streams; `None` if a
    /// number is too large for it.
    fn brief_end(&self, closed: &[StreamClosed]) -> Option<BriefTaskEnded> {
        let Counts { dispatches, reads, writes } = self.did();
        let small = |count: u64| u16::try_from(count).ok();
        let ticks = |share| u32::try_from(self.share(share)).ok();
        let messages = |closed: Option<&StreamClosed>| match closed {
            None => Some((0, 0)),
            Some(&StreamClosed { stream, written, read, .. }) if read == written => {
                Some((stream, small(written)?))
            }
            Some(_) => None,
        };
        let (stream, passed, (other, other_passed)) = match (messages(closed.first())?, closed.get(1)) {
            ((stream, count), None) => (stream, count, (0, 0)),
            ((stream, count), other) => {
                let (other, of_other) = messages(other)?;
                let further = i32::try_from(other.wrapping_sub(stream) as i64).ok()?;
                (stream, count, (further, of_other))
            }
        };
        Some(BriefTaskEnded {
            task: self.number(),
            busy_ticks: ticks(Share::Busy)?,
            input_wait_ticks: ticks(Share::InputWait)?,
            output_wait_ticks: ticks(Share::OutputWait)?,
            ready_ticks: ticks(Share::Ready)?,
            dispatches: small(dispatches.get())?,
            reads: small(reads.get())?,
            writes: small(writes.get())?,
            passed,
            stream,
            other,
            other_passed,
        })
    }

    // ---- further cells of the live row

    /// Shows that the task runs on the worker `worker`.
    fn show_worker(&self, worker: u32) {
        if let Some(row) = self.row() {
            put(row, TaskRow::WORKER, u64::from(worker));
        }
    }

    /// Shows what the task is doing.
    #[inline]
    fn show_state(&self, state: TaskState) {
        if let Some(observed) = self.observed() {
            observed.show_state(state);
        }
    }

    /// Shows that the task has read one more message and works on that message from now on.
    fn show_one_more_read(&self) {
        if let Some(row) = self.row() {
            let reads = &row[TaskRow::READS];
            put(row, TaskRow::READS, reads.load(Ordering::Relaxed) + 1);
        }
    }

    /// Shows how many messages the task has read.
    fn show_reads(&self) {
        if let Some(row) = self.row() {
            put(row, TaskRow::READS, self.did().reads.get());
        }
    }

    /// Shows that the task has ended.
    fn show_end(&self, outcome: &Result<(), Fault>) {
        if let Some(observed) = self.observed() {
            observed.show(self.did(), TaskState::Ended);
            put(&observed.row, TaskRow::FAILED, u64::from(outcome.is_err()));
        }
    }
}
