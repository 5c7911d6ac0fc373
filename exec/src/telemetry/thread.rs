//! The telemetry of one thread, with a method for each moment of the tasks and streams on that thread.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_space::{EVENT_NS, NameRef, Tunable, Writer};

use super::base::{MadeReady, Part, ReadyBy};
use super::board::Board;
use super::clock::{Account, Asked, Now};
use super::dispatches::{Ended, Relayed};
use super::kinds::{
    Cause, DispatchUsed, Kept, MessageWorked, ModeChanged, OWN_THREAD, Outcome, SettingAdopted, StreamClosed,
    StreamOpened, TaskMoved, ThreadUsed,
};
use super::lineage::Lineage;
use super::making::Making;
use super::mode::{AdoptedMode, Mode};
use super::recorder::Recorder;
use super::rows::{Cells, StreamRow, TaskState, WorkerRow, put};
use super::stream::{WatchedStream, closed, opened, write_sizes};
use super::task::{Origin, ReadBefore, Share, WatchedTask};
use super::threads::Watched;
use crate::affinity::{self, Used};
use crate::fault::Fault;
use crate::stop::Stop;

/// Own work between dispatches that lasts longer than this may include a wait for a processor, because a
/// thread that wakes another one may have to leave its processor to the woken thread.
const OWN_WORK_NS: u64 = 20_000;

/// The number of dispatches after which a task has a live row in mode off, too. The events of the task's
/// beginning may be overwritten by then, and a reader needs the task's name if the process dies in the task.
const SHOWN_AFTER: u64 = 16;

/// The telemetry of one thread.
pub(crate) struct Telemetry {
    pub(super) board: Arc<Board>,
    /// The number of the worker that runs on this thread; `None` if the thread is no worker.
    pub(super) worker: Option<u32>,
    /// This thread's recorder; `None` without a space, and for threads that belong neither to a worker nor to
    /// a task.
    pub(super) recorder: Option<Recorder>,
    /// The worker's live row.
    pub(super) row: Option<Cells>,
    pub(super) mode: AdoptedMode,
    pub(super) now: Now,
    pub(super) account: Account,
    dispatches: u64,
    /// The lineage noted in the current dispatch. `gone` lists, for each stream end that the task has given
    /// away in this dispatch, what the dispatch did with it before, and whether it is a writing end.
    lineage: Lineage,
    gone: Vec<(Part, bool)>,
    lives: Lives,
    /// When the worker's row is next written and the use of the processor is next checked; 0: at once,
    /// because the current dispatch must be measured with all checks.
    look_up_at: u64,
    /// How long recording an event with a time of its own takes; 0: not measured.
    pub(super) telling_ticks: u64,
    /// The index of the message that the current dispatch works on, and when that work began, if messages are
    /// timed.
    message: Option<(u64, u64)>,
    /// What the thread shows the sampler.
    pub(super) watched: Option<Watched>,
}

impl Telemetry {
    /// The telemetry of a thread that runs `worker`, or of another thread if that is `None`; `mode` is the
    /// present value of the setting.
    pub(crate) fn new(
        board: Arc<Board>,
        worker: Option<u32>,
        recorder: Option<Recorder>,
        mode: Mode,
    ) -> Telemetry {
        let now = board.clock.now();
        let mode = if recorder.is_some() { mode } else { Mode::Off };
        Telemetry {
            board,
            worker,
            recorder,
            row: None,
            mode: AdoptedMode(mode),
            now: Now::new(now, mode != Mode::Off),
            account: Account::new(now),
            dispatches: 0,
            lineage: Lineage::new(),
            gone: Vec::new(),
            lives: Lives::default(),
            look_up_at: 0,
            telling_ticks: 0,
            message: None,
            watched: None,
        }
    }

    // ---- the mode and the clock

    /// Whether times and counters are measured, which every mode except off does.
    #[inline]
    pub(crate) fn measures(&self) -> bool {
        self.mode != Mode::Off
    }

    /// Whether the mode is full, which records every dispatch.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.mode == Mode::Full
    }

    /// The last reading of the clock, in ticks.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now.ticks
    }

    /// Reads the clock.
    pub(crate) fn clock(&mut self) -> u64 {
        // The reading never goes back, so an element's events are in the order of their times.
        self.now.ticks = self.board.clock.now().max(self.now.ticks);
        self.now.ticks
    }

    /// The last reading of the clock if it was made in this dispatch, else a new reading.
    #[inline]
    pub(crate) fn clock_of_dispatch(&mut self) -> u64 {
        if self.measures() { self.now.ticks } else { self.clock() }
    }

    /// How often the thread has dispatched a task.
    pub(crate) fn dispatches(&self) -> u64 {
        self.dispatches
    }

    /// Adopts the mode that is set now; the first thread to see a change records it.
    #[inline]
    pub(crate) fn adopt_mode(&mut self, setting: &Tunable) {
        let Some(recorder) = &mut self.recorder else { return };
        let (mode, before) = setting.adopt();
        if before.is_some() {
            recorder.at(self.board.clock.now(), &ModeChanged { mode: mode as u8 });
        }
        let mode = Mode::from_setting(mode);
        if self.mode != mode {
            self.change_mode(mode);
        }
    }

    #[cold]
    fn change_mode(&mut self, mode: Mode) {
        let now = self.clock();
        if self.mode == Mode::Off {
            self.now.measured_since = now;
        }
        if mode == Mode::Full {
            self.now.full_since = now;
        }
        self.mode = AdoptedMode(mode);
        self.now.begin_session();
    }

    /// Sets whether dispatches with one input and one output may be measured with few checks.
    pub(crate) fn go_short(&mut self, may: bool) {
        self.now.go_short(may);
    }

    /// Records that the runtime adopted a setting's new value.
    pub(crate) fn setting_adopted(&mut self, name: NameRef, old: u64, new: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.at(self.board.clock.now(), &SettingAdopted { name, old, new });
        }
    }

    /// Notes that the thread did work that belongs to no dispatch and may take long, such as waking another
    /// thread. Returns true if the caller must call [`Telemetry::own_work`] before the next dispatch begins,
    /// to read the clock again.
    #[inline]
    pub(crate) fn did_aside(&mut self) -> bool {
        if self.measures() {
            self.now.lags = true;
        }
        self.measures()
    }

    /// Whether the thread did work outside dispatches and has not read the clock since.
    #[inline]
    pub(crate) fn lags(&self) -> bool {
        self.now.lags
    }

    /// Reads the clock between two dispatches. The time since the last dispatch or wait counts as the
    /// thread's own work, such as waking other threads.
    #[cold]
    pub(crate) fn own_work(&mut self) -> u64 {
        let before = self.now.ticks;
        let now = self.clock();
        if self.measures() {
            let kept = self.kept_of(now - before, OWN_WORK_NS);
            self.account.own(now - before - kept);
            self.write_kept(0, kept);
        }
        self.now.lags = false;
        now
    }

    /// How many of the last `ticks` ticks the worker was kept from its processor. The kernel is asked only if
    /// `ticks` are `long_ns` or more.
    pub(super) fn kept_of(&mut self, ticks: u64, long_ns: u64) -> u64 {
        let clock = self.board.clock();
        let Some(delays) = self.account.delays.as_mut().filter(|_| ticks >= clock.ns_to_ticks(long_ns))
        else {
            return 0;
        };
        let kept = clock.ns_to_ticks(delays.more_ns()).min(ticks);
        self.account.kept(kept);
        kept
    }

    /// Records time for which the thread was kept from its processor.
    pub(super) fn write_kept(&mut self, task: u64, duration_ticks: u64) {
        let worker = self.worker_number();
        if duration_ticks > 0
            && self.mode == Mode::Full
            && let Some(recorder) = &mut self.recorder
        {
            recorder.at(self.now.ticks, &Kept { worker, task, duration_ticks });
        }
    }

    pub(super) fn worker_number(&self) -> u32 {
        self.worker.unwrap_or(OWN_THREAD)
    }

    /// Writes events about tasks and streams through the thread's own recorder, or, if it has none, through
    /// the recorder that all threads without one share. A worker reads the clock once for each part of a
    /// dispatch; other threads may read it for every event.
    fn write(&mut self, write: impl FnOnce(&mut Recorder, u64)) {
        if self.recorder.is_some() && !self.now.is_fresh {
            self.clock();
            self.now.is_fresh = self.worker.is_some();
        }
        match &mut self.recorder {
            Some(recorder) => write(recorder, self.now.ticks),
            None => self.board.write_from_outside(write),
        }
    }

    /// The writer of this thread's element, for a user's own events; `None` without a space.
    pub(crate) fn writer(&mut self) -> Option<&mut Writer> {
        self.recorder.as_mut().map(|recorder| &mut recorder.writer)
    }

    /// Notes that the thread belongs to `task` alone.
    pub(crate) fn own_thread_begins(&mut self, task: &impl WatchedTask) {
        self.watched = task
            .row()
            .and_then(|row| row.seen_row())
            .map(|row| Watched::own(&self.board.threads, task.number(), row));
        if self.recorder.is_some() {
            let clock = &self.board.clock;
            self.telling_ticks = clock.ns_to_ticks(EVENT_NS + clock.reading_ns() as u64);
        }
    }

    // ---- the moments of a task's life

    /// Notes that a running task makes `task`, which will run on `worker`. The new task's streams must be
    /// attached next, then [`Self::task_made`] must be called.
    pub(crate) fn task_is_made(&mut self, task: &impl WatchedTask, origin: Origin, worker: u32) {
        if self.board.space().is_none() {
            return;
        }
        if self.measures() {
            task.observe(); // The task is observed even if the mode was set to off just now.
        }
        // The task that was made before may have ended before it began, because its streams could not be
        // attached; its event is written now.
        let mut making = self.lives.making.take().unwrap_or_default();
        if making.is_under_way() {
            self.write(|recorder, now| making.end(now, recorder, None));
        }
        making.begin(task, origin, worker);
        self.lives.making = Some(making);
    }

    /// Records the task that was made, after its streams were attached; `stays` is true if the task will run
    /// on this worker.
    pub(crate) fn task_made(&mut self, task: &impl WatchedTask, stays: bool) {
        let (measures, is_full, session) = (self.measures(), self.is_full(), self.now.session);
        let own = self.recorder.is_some() && stays && measures;
        let Some(mut making) = self.lives.making.take() else { return };
        self.write(|recorder, now| {
            task.begin_times(now);
            let observed = task.observed().filter(|_| own);
            if let Some(observed) = observed {
                observed.session.set(session);
            }
            making.end(now, recorder, observed.filter(|_| is_full));
        });
        self.lives.making = Some(making);
    }

    /// Notes that a task became ready that is new on this thread, or that this thread created for another
    /// worker.
    #[inline(never)]
    pub(crate) fn task_ready(&mut self, task: &impl WatchedTask, cause: Cause, by_stream: u64) {
        if self.measures() {
            task.set_ready(ReadyBy::new(cause, by_stream));
            task.show_state(TaskState::Ready);
        }
    }

    /// Notes that an idle task of this worker is woken.
    #[inline(always)]
    pub(crate) fn task_woken(&mut self, task: &impl WatchedTask, cause: Cause, by_stream: u64) {
        if self.measures()
            && let Some(observed) = task.observed().or_else(|| task.observe())
        {
            observed.is_ready(self.now.ticks, ReadyBy::new(cause, by_stream));
        }
    }

    /// The cause and the time with which this thread makes a task of another thread ready.
    #[inline]
    pub(crate) fn waking(&self, cause: Cause, by_stream: u64) -> MadeReady {
        MadeReady::new(if self.measures() { self.now.ticks } else { 0 }, cause, by_stream)
    }

    /// Notes that this worker found a task in its inbox that was idle and that another thread has woken.
    #[inline]
    pub(crate) fn task_taken(&mut self, task: &impl WatchedTask) {
        if self.measures() {
            task.set_ready_as_woken(self.now.ticks);
        }
    }

    /// Notes that a task of worker `from` goes to worker `to`; this thread is one of the two.
    pub(crate) fn task_moves(&mut self, task: &impl WatchedTask, (from, to): (u32, u32)) {
        if self.recorder.is_some() {
            let now = self.own_work();
            if self.measures() {
                task.settle_wait(now, self.now.measured_since);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.at(now, &TaskMoved { task: task.number(), from, worker: to });
            }
        }
    }

    /// Notes that a task that waited until now, for `waited_for`, is about to be dropped, which is not part
    /// of its last dispatch.
    pub(crate) fn task_dropped(&mut self, task: &impl WatchedTask, waited_for: Option<Share>) {
        self.now.began = self.own_work();
        if self.measures() {
            match waited_for {
                Some(share) => task.turn(share, self.now.began, self.now.measured_since),
                None => task.settle_wait(self.now.began, self.now.measured_since),
            }
        }
        self.now.is_fresh = false;
    }

    /// Notes that the current task ends. The task's last dispatch must be published next, then
    /// [`Self::task_ended`] must be called.
    pub(crate) fn task_ends(&mut self) {
        self.lives.is_ending = true;
    }

    /// Records the end of a task, after its last dispatch. For a task with a thread of its own this is the
    /// thread's last call.
    pub(crate) fn task_ended(&mut self, task: &impl WatchedTask, outcome: &Result<(), Fault>) {
        if self.measures() {
            if task.has_own_thread() {
                self.thread_used(task.number());
            }
            // Closing the task's ports wakes other tasks, which is the thread's own work.
            let now = self.own_work();
            self.now.is_fresh = true;
            task.turn(Share::Ready, now, self.now.measured_since);
        }
        task.show_end(outcome);
        self.lives.is_ending = false;
        let mut closed = std::mem::take(&mut self.lives.closed);
        self.write(|recorder, now| task.write_end(recorder, now, outcome, &closed));
        closed.clear();
        self.lives.closed = closed;
    }

    // ---- the moments of a dispatch

    /// Notes that this worker begins to dispatch a task.
    #[inline]
    pub(crate) fn dispatch_begins(&mut self, task: &impl WatchedTask) {
        self.now.is_fresh = false;
        if let Some(row) = &self.row {
            put(row, WorkerRow::TASK, task.number());
            put(row, WorkerRow::MESSAGE, task.did().reads.get());
            // The counter is written in every mode, so a reader that looks twice sees whether the worker goes
            // on.
            put(row, WorkerRow::DISPATCHES, self.dispatches);
            if task.did().dispatches.get() == SHOWN_AFTER {
                task.observe();
            }
        }
        if self.measures() {
            self.now.began = self.now.ticks;
            if let Some(trail) = self.watched.as_ref().and_then(|watched| watched.trail.as_ref()) {
                trail.begins(self.dispatches, self.now.ticks, task.number());
            }
        }
        self.dispatches += 1;
    }

    /// The state before a task's own thread adopts settings, which [`Telemetry::own_dispatch_begins`] needs.
    pub(crate) fn before_adoption(&self) -> Before {
        Before(self.mode)
    }

    /// Notes that a task on a thread of its own goes on after it waited for `waited_for` (`Share::Ready` if
    /// it did not wait).
    pub(crate) fn own_dispatch_begins(&mut self, task: &impl WatchedTask, waited_for: Share, before: Before) {
        let lags = std::mem::take(&mut self.now.lags);
        let begun = task.did().dispatches.get() > 0 && self.mode == before.0;
        let Some(observed) = task.observed().or_else(|| task.observe()) else { return };
        observed.show_state(TaskState::Running);
        if waited_for == Share::Ready && begun && !lags {
            // The task did not wait, so the little time in which its thread wrote events belongs to this
            // dispatch.
            return;
        }
        let waited_for = Some(waited_for).filter(|&share| share != Share::Ready);
        self.clock();
        let began = observed.goes_on(waited_for, self.now.ticks, self.now.measured_since);
        (self.now.ticks, self.now.began) = (began, began);
    }

    /// Notes that a task on a thread of its own ends a wait that no other thread has ended.
    pub(crate) fn own_wait_ends(&mut self, task: &impl WatchedTask) {
        if self.measures() {
            let now = self.clock();
            task.set_woken(MadeReady { at: now, by: ReadyBy::default() });
        }
    }

    /// Notes that the part of a dispatch begins in which the dispatch's messages are published.
    #[inline]
    pub(crate) fn publishing_begins(&mut self) {
        self.now.is_fresh = false;
    }

    /// Records the end of a dispatch that used one input and one output. Most dispatches use one input and
    /// one output, so this path is short. Returns `false`, and records nothing, if the dispatch is unusual in
    /// some way.
    #[inline(never)]
    pub(crate) fn relay_ends<S: WatchedStream>(
        &mut self,
        task: &impl WatchedTask,
        (stop, waits_for_several): (Stop, bool),
        (input, output): (&S, &S),
    ) -> bool {
        let Some(observed) = task.observed() else { return false };
        if observed.session.get() != self.now.short_session {
            return false;
        }
        let now = self.clock();
        if now >= self.look_up_at && !self.looks_up_shortly(task) {
            return false;
        }
        let began = self.now.began;
        if self.mode == Mode::Full {
            let (Some(recorder), Some(recorded)) = (&mut self.recorder, observed.recorded_before()) else {
                return false;
            };
            let ended = Relayed {
                input,
                output,
                duration_ticks: now - began,
                ready_ticks: observed.ready_ticks(began),
                ready_by: observed.ready_by.get(),
                stop,
                waits_for_several,
            };
            let kept = (&recorded.stated, &recorded.read_base_last);
            if !recorder.relayed(now, &ended, self.lineage.noted(), kept) {
                return false;
            }
            self.lineage.clear();
        }
        observed.ran(task.waited_for(), began, now);
        input.show_position(task.number(), false);
        if output.show_position(task.number(), true) {
            self.now.sizes_due = true;
        }
        observed.show(task.did(), after(stop));
        self.dispatch_has_ended();
        true
    }

    /// Does the work that is due less often than once a dispatch. Returns `false` if the dispatch that ends
    /// now is unusual, or lasted so long that its messages may take long.
    #[cold]
    #[inline(never)]
    fn looks_up_shortly(&mut self, task: &impl WatchedTask) -> bool {
        let lasted = self.now.ticks - self.now.began;
        let is_short =
            self.look_up_at != 0 && lasted < 100 * self.telling_ticks.min(self.board.long_ticks / 100);
        if is_short {
            self.look_up(task);
        }
        is_short
    }

    #[inline(always)]
    fn dispatch_has_ended(&mut self) {
        self.now.began = self.now.ticks;
        self.now.is_fresh = self.worker.is_some();
    }

    /// Records a dispatch that ends at the clock's last reading, before its messages are published; not
    /// called in mode off. The arguments are why the dispatch ended and which stream blocks the task (0: any
    /// of several), the ends that the dispatch used, and the stream and index of the message that it popped
    /// last, if any.
    pub(crate) fn dispatch_ends<'a, S: WatchedStream + 'a>(
        &mut self,
        task: &impl WatchedTask,
        (stop, blocked_on): (Stop, impl FnOnce() -> u64),
        ends: impl Iterator<Item = (&'a S, bool)> + Clone,
        popped_last: impl FnOnce() -> Option<(u64, u64)>,
    ) {
        let Now { ticks: now, began, measured_since, session, .. } = self.now;
        let Some(observed) = task.observed().or_else(|| task.observe()) else { return };
        if observed.session.get() != session {
            observed.enter(session);
        }
        let ready_ticks = observed.ran_anyhow(task.waited_for(), began, now, measured_since);
        let lasted = now.saturating_sub(began);
        if lasted >= self.board.long_ticks {
            self.was_kept(task, lasted);
        }
        if self.mode == Mode::Full {
            self.write_dispatch(task, (lasted, ready_ticks), (stop, blocked_on()), ends.clone());
            if let Some(last) = popped_last() {
                self.keep_read(task, last);
            }
        }
        for (stream, writes) in ends {
            if stream.show_position(task.number(), writes) {
                self.now.sizes_due = true;
            }
        }
        observed.show(task.did(), after(stop));
        self.dispatch_has_ended();
        if now >= self.look_up_at {
            self.look_up(task);
        }
    }

    /// Writes the values that are written less often than once a dispatch.
    #[cold]
    #[inline(never)]
    fn look_up(&mut self, task: &impl WatchedTask) {
        let now = self.now.ticks;
        self.show_worker();
        self.look_up_at = now + self.board.row_ticks;
        if now - self.account.used_told >= self.board.usage_ticks {
            self.thread_used(if task.has_own_thread() { task.number() } else { 0 });
        }
    }

    /// Records the dispatch that ends now.
    #[inline]
    fn write_dispatch<'a, S: WatchedStream + 'a>(
        &mut self,
        task: &impl WatchedTask,
        (duration_ticks, ready_ticks): (u64, u64),
        (stop, waits_for): (Stop, u64),
        ends: impl Iterator<Item = (&'a S, bool)> + Clone,
    ) {
        let (Some(observed), Some(recorder)) = (task.observed(), &mut self.recorder) else { return };
        let (now, number, stated) = (self.now.ticks, task.number(), &observed.recorded().stated);
        if let Some((index, since)) = self.message.take() {
            recorder.at(now, &MessageWorked { task: number, index, duration_ticks: now - since });
        }
        let (mut input, mut output) = (Part::default(), Part::default());
        let mut others = false;
        for (stream, writes) in ends.clone() {
            let part = Part::of(stream, writes);
            let own = if writes { &mut output } else { &mut input };
            others |= own.count > 0 && part.count > 0;
            if own.count == 0 || part.count > 0 && stated.goes_on(&part, writes) {
                *own = part;
            }
        }
        let lineage = &mut self.lineage;
        if others {
            for (stream, writes) in ends {
                let part = Part::of(stream, writes);
                let own = if writes { &output } else { &input };
                if part.count > 0 && part.stream != own.stream {
                    recorder.part(now, &part, writes.then(|| lineage.take_descent(&part, &input)));
                }
            }
        }
        for (part, writes) in self.gone.drain(..) {
            recorder.part(now, &part, writes.then(|| lineage.take_descent(&part, &input)));
        }
        let descent = lineage.take_descent(&output, &input);
        let ended = Ended {
            task: number,
            worker: task.on_worker(),
            duration_ticks,
            ready_ticks,
            ready_by: observed.ready_by.get(),
            outcome: Outcome::of(stop),
            waits_for,
            input,
            output,
            descent,
            derived: self.lineage.noted(),
        };
        recorder.dispatch(now, &ended, stated);
        self.lineage.clear();
    }

    /// Records for how much of a long dispatch its worker was kept from the processor.
    #[cold]
    #[inline(never)]
    fn was_kept(&mut self, task: &impl WatchedTask, lasted: u64) {
        let kept = self.kept_of(lasted, 0);
        task.kept(kept);
        if lasted >= self.board.longer_ticks {
            self.write_used(task, (lasted - kept, kept));
        }
        self.write_kept(task.number(), kept);
    }

    /// Records the processor time of a long dispatch, if it can be separated from that of other dispatches
    /// since the thread last asked the kernel.
    fn write_used(&mut self, task: &impl WatchedTask, (duration_ticks, kept_ticks): (u64, u64)) {
        let busy = match task.has_own_thread() {
            true => task.share(Share::Busy),
            false => self.account.busy_ticks(self.now.ticks),
        };
        let asked = Asked { cpu_ns: affinity::thread_cpu_ns(), busy };
        let before = std::mem::replace(&mut self.account.asked, asked);
        let others = (busy - before.busy.min(busy)).saturating_sub(duration_ticks);
        let worker = self.worker_number();
        if others <= duration_ticks / 16
            && let Some(recorder) = &mut self.recorder
        {
            let longest = self.board.clock.ticks_to_ns(duration_ticks);
            let cpu_ns = asked.cpu_ns.saturating_sub(before.cpu_ns).min(longest);
            let used = DispatchUsed { worker, task: task.number(), duration_ticks, kept_ticks, cpu_ns };
            recorder.at(self.now.ticks, &used);
        }
    }

    /// Notes that a task is ready again after its dispatch instead of asleep; not called in mode off.
    #[cold]
    pub(crate) fn task_stays_ready(&mut self, task: &impl WatchedTask) {
        if let Some(observed) = task.observed() {
            observed.show_state(TaskState::Ready);
            observed.ready_by.set(ReadyBy::new(Cause::Yield, 0));
        }
    }

    /// Records the processor time that the thread used until now. `task` is the task that owns the thread, or
    /// 0.
    #[cold]
    pub(super) fn thread_used(&mut self, task: u64) {
        self.account.used_told = self.now.ticks;
        self.did_aside();
        let worker = self.worker_number();
        if let Some(recorder) = &mut self.recorder {
            let Used { cpu_ns, preempted, delayed_ns, kernel_ns, faults } = affinity::used();
            let Account { own_ticks, kept_ticks, .. } = self.account;
            let used = ThreadUsed {
                worker,
                task,
                cpu_ns,
                preempted,
                delayed_ns,
                own_ticks,
                kept_ticks,
                kernel_ns,
                faults,
            };
            recorder.at(self.now.ticks, &used);
        }
    }

    // ---- the moments of a message

    /// The cell of the worker's live row that holds the index of the message on which the running task works.
    #[inline]
    pub(crate) fn message_cell(&self) -> Option<&AtomicU64> {
        self.row.as_ref().map(|row| &row[WorkerRow::MESSAGE])
    }

    /// Whether `times_messages` must be called for this task, because the task's messages took long at the
    /// last check.
    #[inline]
    pub(crate) fn may_time_messages(&self, task: &impl WatchedTask) -> bool {
        task.observed().is_some_and(|observed| observed.times_messages.get())
    }

    /// Whether the task's messages took so long until now that recording the time of each message costs at
    /// most `percent` of the task's time. The answer is kept for later dispatches.
    pub(crate) fn times_messages(&self, task: &impl WatchedTask, percent: u64) -> bool {
        let (busy, messages) = (task.share(Share::Busy), task.did().reads.get());
        let cost = messages.saturating_mul(self.telling_ticks).saturating_mul(100);
        let affords = |cost: u64| cost > 0 && busy.saturating_mul(percent) >= cost;
        let take_long = affords(cost);
        if let Some(observed) = task.observed() {
            observed.times_messages.set(take_long);
            // Describing a message costs about as much as recording its time, so the budget must cover twice
            // the cost.
            observed.describes_messages.set(affords(cost.saturating_mul(2)));
        }
        take_long
    }

    /// Notes that the task begins to work on the next message, so that the time of that work is recorded.
    #[cold]
    pub(crate) fn message_begins(&mut self, task: &impl WatchedTask, index: u64) {
        let now = self.clock();
        self.look_up_at = 0;
        let before = self.message.replace((index, now));
        if let (Some((index, since)), Some(recorder)) = (before, &mut self.recorder) {
            let task = task.number();
            recorder.at(now, &MessageWorked { task, index, duration_ticks: now - since });
        }
    }

    /// The writer with which a task describes the message that it works on, the time at which that work
    /// began, and the message's index; `None` if the description would take too much of the task's time.
    pub(crate) fn describes_message(&mut self, task: &impl WatchedTask) -> Option<(&mut Writer, u64, u64)> {
        let (index, since) = self.message?;
        task.observed().filter(|observed| observed.describes_messages.get())?;
        Some((&mut self.recorder.as_mut()?.writer, since, index))
    }

    /// Notes that the time of the message on which the current task works must not be recorded.
    pub(crate) fn message_goes_on(&mut self) {
        self.message = None;
    }

    /// The stream and index of the message that the task popped last in a former dispatch, if that was
    /// recorded.
    pub(crate) fn read_before(&self, task: &impl WatchedTask) -> Option<(u64, u64)> {
        let before = task.observed()?.last_read();
        (before.at != 0 && before.at >= self.now.full_since).then_some((before.stream, before.index))
    }

    /// Stores the stream and index of the last message popped, for later dispatches.
    fn keep_read(&self, task: &impl WatchedTask, (stream, index): (u64, u64)) {
        if let Some(observed) = task.observed() {
            observed.keep_read(ReadBefore { stream, index, at: self.now.ticks });
        }
    }

    /// Remembers the last message that the task popped from a stream before it gives the reading end away.
    pub(crate) fn read_end_leaves(&self, task: &impl WatchedTask, popped_last: (u64, u64)) {
        if self.mode == Mode::Full {
            self.keep_read(task, popped_last);
        }
    }

    /// Notes that the message pushed last on `child` descends from the message popped last from `parent`, if
    /// the two messages continue the lineage that was noted last. Returns whether the two messages continue
    /// it.
    ///
    /// # Safety
    /// `parent` must point to a stream, unless it is null.
    #[inline]
    pub(crate) unsafe fn derived_likewise<S: WatchedStream>(&mut self, child: &S, parent: *const S) -> bool {
        // SAFETY: the caller guarantees that `parent` points to a stream or is null.
        unsafe { self.lineage.goes_on(child, parent) }
    }

    /// Notes that the message pushed last on `child` descends from the message `read` (its stream and index).
    /// If `popped` is given, `read` is the message popped last from `popped`.
    pub(crate) fn derived<S: WatchedStream>(&mut self, child: &S, read: (u64, u64), popped: Option<&S>) {
        self.lineage.note(child, read, popped);
    }

    /// Notes that the `count` messages pushed last on `child` descend from `count` messages read, the k-th
    /// from the k-th; `read` is the last of the messages read.
    #[cfg(not(loom))]
    pub(crate) fn derived_run(&mut self, child: &impl WatchedStream, count: usize, read: (u64, u64)) {
        self.lineage.note_run(child, count, read);
    }

    // ---- the moments of a stream

    /// Records that the writing or reading end of a stream was attached to a task.
    pub(crate) fn end_attached(
        &mut self,
        stream: &impl WatchedStream,
        task: &impl WatchedTask,
        writes: bool,
    ) {
        if !stream.telemetry().is_watched() {
            return;
        }
        let peer = stream.peer(writes);
        let making = self.lives.making.as_mut().filter(|making| making.makes(task.number()));
        if making.is_none() && peer == 0 && self.mode == Mode::Off && self.recorder.is_some() {
            return; // In mode off only the other end's attachment is recorded.
        }
        let opened = opened(stream, task.number(), writes, peer);
        match making {
            Some(making) => making.take(&opened, writes),
            None => self.write(|recorder, now| recorder.at(now, &opened)),
        }
    }

    /// Records that a stream's capacity changed.
    #[cold]
    pub(crate) fn stream_resized(&mut self, stream: &impl WatchedStream) {
        let capacity = u64::from(stream.holds());
        if let Some(row) = stream.telemetry().row() {
            put(row, StreamRow::CAPACITY, capacity);
        }
        if stream.telemetry().is_watched() {
            let none =
                StreamOpened { stream: stream.number(), name: NameRef(0), reader: 0, writer: 0, capacity };
            self.write(|recorder, now| recorder.at(now, &none));
        }
    }

    /// Notes that a stream end leaves the task that is being dispatched, before the dispatch ends.
    pub(crate) fn end_leaves<S: WatchedStream>(&mut self, stream: &S, writes: bool) {
        if self.mode == Mode::Full {
            let part = Part::of(stream, writes);
            if part.count > 0 {
                self.look_up_at = 0;
                self.gone.push((part, writes));
            }
        }
    }

    /// Records that both ends of a stream are gone.
    pub(crate) fn stream_closed(&mut self, stream: &impl WatchedStream) {
        let (closed, ends) = (closed(stream), self.lives.is_ending);
        if !ends || stream.telemetry().sizes().is_some() {
            self.write(|recorder, now| {
                write_sizes(stream, recorder, now);
                if !ends {
                    recorder.at(now, &closed);
                }
            });
        }
        if ends {
            self.lives.closed.push(closed);
        }
    }
}

/// The state of a task after a dispatch that ended with `stop`. A task that waits for input or room counts as
/// asleep until the caller knows that it is ready again.
#[inline(always)]
fn after(stop: Stop) -> TaskState {
    match stop {
        Stop::InputEmpty => TaskState::BlockedInput,
        Stop::OutputFull => TaskState::BlockedOutput,
        Stop::QuantumSpent | Stop::Ended => TaskState::Ready,
    }
}

/// The state that this thread's telemetry keeps while tasks begin and end.
#[derive(Default)]
struct Lives {
    /// The task that the current task makes.
    making: Option<Box<Making>>,
    /// Whether the current task is about to end.
    is_ending: bool,
    /// The streams that have closed with the ending task so far.
    closed: Vec<StreamClosed>,
}

/// The mode that a thread had before it adopted changed settings.
#[derive(Clone, Copy)]
pub(crate) struct Before(AdoptedMode);
