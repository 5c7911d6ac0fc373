//! Handing messages on from task to task without writing them to the streams in between.
//!
//! If a task has worked on messages in place, and the reader of its output waits for the next message on the
//! same thread, the task need not write the messages to the stream between the two tasks: it *hands them on*,
//! and the reader works on them in place, and hands them on in turn. In the streams between these tasks only
//! the positions are counted up, and nothing is copied, queued or woken. The last task writes the messages to
//! its output.
//!
//! Each task that messages are handed on to has a dispatch of its own, which begins when the dispatch before
//! it ended, and has its own counts, times, events and lineage; so an observer sees the same as without
//! handing on. If a task passes on fewer messages than it was given, or there is room for fewer, the messages
//! are written to the stream in front of that task, and the task is dispatched as usual.
//!
//! Messages may be handed on only if no other thread has an end of the streams involved. The token in the
//! stream between the two tasks shows that the reader is on the same thread; the reading task sleeps, so no
//! other thread uses the output of the reading task.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::thread;

use super::budget::Budget;
use super::core::Core;
use crate::dispatch::used::{Handed, Passer, popped_last_of};
use crate::fault::Fault;
use crate::ring::{AWAKE, NOBODY, NOTED, TOUCHED};
use crate::stop::Stop;
use crate::sync::Ordering;
use crate::task::cell::{Current, Ring, State, TaskCell};
use crate::task::context::{HandedOn, Progress};
use crate::telemetry::{Cause, Share};

/// The most work of tasks that pass the same messages on, one after the other, before the worker looks for
/// other work, in parts of a quantum (`exec.quantum_us`): one quantum. So other tasks, letters and moves wait
/// no longer than for the dispatch of one expensive task. Each task counts as at least one part, so at most
/// this many tasks pass the messages on.
const PARTS_MAX: u64 = 64;

impl Core {
    /// The task that reads one of the current task's streams, if it waits for the next message there on this
    /// thread.
    #[inline]
    pub(crate) fn waiting_reader(&self, ring: &Ring) -> Option<NonNull<TaskCell>> {
        if self.adopted.by_demand {
            return None;
        }
        let waiting = |task: &TaskCell| {
            let waits = task.state.get() == State::Idle
                && task.waits_for.get() == Share::InputWait
                && task.wanted.get() == NOBODY;
            waits.then(|| NonNull::from(task))
        };
        ring.look_at_reader_here(self.me, waiting).filter(|_| ring.waits_empty_here())
    }

    /// The task that waits for the next message of one of the current task's streams, as
    /// [`Core::waiting_reader`] found, if it can work in place on the `count` messages from `first` on.
    ///
    /// The cost of a split's replica is measured by its own dispatches and by the messages that wait before it,
    /// so a task outside the replica hands on only a single message to it, which leaves no messages waiting.
    #[inline]
    pub(crate) fn passer(
        core: NonNull<Core>,
        ring: &Ring,
        task: NonNull<TaskCell>,
        (first, count): (*mut u8, usize),
    ) -> Option<Passer> {
        // SAFETY: the task sleeps on this thread, so it stays alive and keeps the end of the stream that it
        // waits for.
        let cell = unsafe { task.as_ref() };
        // SAFETY: this is the thread's own core; the reference ends before a user's code runs.
        if count > 1 && cell.member_of() != unsafe { core.as_ref() }.task.get().member_of() {
            return None;
        }
        let next = HandedOn { of: ring.messages.of, first, count, _messages: PhantomData };
        // SAFETY: this is the task's own thread, and it is not dispatched.
        let out = catch_unwind(AssertUnwindSafe(|| unsafe { cell.body_passes_to(next) })).ok()??;
        // SAFETY: the task has the writing end of this stream, which keeps the stream alive.
        let next = unsafe { out.as_ref() };
        let is_fit = (std::ptr::eq(next.messages, ring.messages) || next.messages.of == ring.messages.of)
            && next.writing.task.load(Ordering::Relaxed) == task.as_ptr()
            && next.reading.reader_gone.load(Ordering::Acquire) == 0;
        is_fit.then_some(Passer { task, out })
    }

    /// Ends the dispatch of a task that has handed messages on: records the dispatch, lets the next tasks
    /// work on the messages, and only then publishes the task's positions, because the messages lie in the
    /// memory of its input.
    #[inline(never)]
    pub(super) fn publish_handing_on(core: NonNull<Core>, task: &TaskCell, stop: Stop, budget: &Budget) {
        let (handed, touched) = {
            // SAFETY: this is the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            let Some(handed) = core.handed.take() else { return };
            let unread = core.unread(budget);
            core.record_dispatch(stop);
            core.finish_budget(task, budget, unread);
            core.used.popped_last.set(std::ptr::null());
            (handed, std::mem::take(&mut core.used.touched))
        };
        Core::pass_on(core, handed);
        // SAFETY: this is the thread's own core; no user's code runs in what is called while it is borrowed,
        // and the task is being dispatched.
        unsafe {
            let core = &mut *core.as_ptr();
            core.task = Current::of(NonNull::from(task));
            core.used.touched = touched;
            core.settle_used();
        }
    }

    /// Lets tasks work on messages one after the other, as long as each hands some on to a waiting task.
    fn pass_on(core: NonNull<Core>, handed: Handed) {
        let (mut handed, mut parts, mut left_over) = (handed, PARTS_MAX, Vec::new());
        while let Some((count, to)) = Core::let_pass(core, &handed, (&mut parts, &mut left_over)) {
            (handed.count, handed.stream, handed.to) = (count, handed.to.out, to);
        }
        for task in left_over {
            // SAFETY: this is the thread's own core; no user's code runs while it is borrowed, and ready tasks are
            // alive.
            unsafe { (*core.as_ptr()).tasks().ready.push_front(task.as_ref()) };
        }
    }

    /// Dispatches the task that messages were handed on to, and subtracts its work from `parts_left`; returns
    /// how many of the messages it hands on in turn, and to which task, if parts are left. A task with messages
    /// left is ready, and put on the list `left_over`: it must not go to another worker before the tasks behind
    /// it are done, because this thread writes what they leave to its output.
    #[inline(always)]
    fn let_pass(
        core: NonNull<Core>,
        handed: &Handed,
        (parts_left, left_over): (&mut u64, &mut Vec<NonNull<TaskCell>>),
    ) -> Option<(usize, Passer)> {
        let Passer { task, out } = handed.to;
        // SAFETY: the task sleeps on this thread and has an end of both streams, so the task and the streams
        // stay alive.
        let (cell, from, to) = unsafe { (task.as_ref(), handed.stream.as_ref(), out.as_ref()) };
        // SAFETY: this is the thread's own core; the reference ends before a user's code runs.
        let own = unsafe { &mut *core.as_ptr() };
        // SAFETY: the task stays alive as long as its dispatch lasts.
        own.task = unsafe { Current::of(task) };
        own.telemetry.task_woken(cell, Cause::Input, from.id);
        own.telemetry.dispatch_begins(cell);
        cell.state.set(State::Running);
        let measures = own.telemetry.measures();
        let budget = own.begin_budget(cell);
        *parts_left =
            parts_left.saturating_sub(1 + cell.pace.get().parts_of_quantum(handed.count, PARTS_MAX));
        let awaits = if *parts_left > 0 { own.waiting_reader(to) } else { None };
        let room = if awaits.is_some() { to.capacity() as usize } else { (to.messages.room)(to) };
        let most = handed.count.min(room).min(budget.messages);
        let worked = if most == 0 { Ok(0) } else { Core::work_on(core, cell, handed, most) };
        // SAFETY: this is the thread's own core; the reference ends with the line.
        unsafe { &mut *core.as_ptr() }.take_tasks_back();
        let passed = worked.as_ref().map_or(0, |&passed| passed.min(most));
        let left = handed.count - passed;

        if measures {
            from.begin_reading();
            to.begin_writing();
        }
        from.read_in_name(passed);
        let is_written =
            passed == 0 || measures && to.telemetry.sizes_are_due(to.writing.pushed.get() + passed);
        // SAFETY: the task waited on this thread before, so it is alive.
        let waits = |task: &NonNull<TaskCell>| unsafe { task.as_ref() }.state.get() == State::Idle;
        let next = awaits
            .filter(|task| !is_written && waits(task))
            .and_then(|task| Core::passer(core, to, task, (handed.first, passed)));
        // SAFETY: the messages are still in place, each is written once, and there is room, which the task
        // before found for the remaining ones.
        unsafe {
            match next {
                Some(_) => to.write_in_name(passed),
                None => write(to, handed.first, passed),
            }
            if left > 0 {
                write_after_all(from, handed, passed);
            }
        }
        if passed > 0 {
            let stop = if left == 0 { Stop::InputEmpty } else { Stop::QuantumSpent };
            Core::passed_on(core, cell, (stop, measures), (from, to, out), passed);
        }
        // SAFETY: this is the thread's own core; no user's code runs while it is borrowed.
        unsafe { &mut *core.as_ptr() }.finish_budget(cell, &budget, left as u64);
        if let Err(panic) = worked {
            from.writing.reader_waiting.store(AWAKE, Ordering::Relaxed);
            Core::end(core, task, Err(Fault::panicked(&*panic)));
            return None;
        }
        // SAFETY: this is the thread's own core; no user's code runs while it is borrowed.
        if unsafe { &mut *core.as_ptr() }.rests(cell, from, (passed, left)) {
            left_over.push(task);
        }
        next.map(|next| (passed, next))
    }

    /// Calls a task for the next messages; returns how many it passes on.
    #[inline]
    fn work_on(core: NonNull<Core>, task: &TaskCell, handed: &Handed, most: usize) -> thread::Result<usize> {
        // SAFETY: the two tasks hold the ends of the stream between them, which keeps the stream alive.
        let of = unsafe { handed.stream.as_ref() }.messages.of;
        let messages = HandedOn { of, first: handed.first, count: most, _messages: PhantomData };
        catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: this is the thread's own core, whose row stays as it is; the other reference ends with
            // the block.
            let (cell, times) = unsafe {
                let own = &mut *core.as_ptr();
                let times =
                    own.telemetry.is_full() && own.telemetry.may_time_messages(task) && own.times_messages();
                ((&*core.as_ptr()).telemetry.message_cell(), times)
            };
            let progress = Progress { cell, first: 0, times: times.then_some(core.cast()) };
            // SAFETY: this is the thread's own core.
            unsafe { core.as_ref() }.lend_tasks();
            // SAFETY: this is the task's own thread, and no other call to its body is under way.
            unsafe { task.body_works_on(messages, progress) }
        }))
    }

    /// Counts and records the messages that the current task passed on, and publishes them unless they are
    /// only counted in its output.
    #[inline]
    fn passed_on(
        core: NonNull<Core>,
        task: &TaskCell,
        (stop, measures): (Stop, bool),
        (from, to, out): (&Ring, &Ring, NonNull<Ring>),
        passed: usize,
    ) {
        // SAFETY: this is the thread's own core; the reference ends before a user's code runs.
        let sizes_are_due = unsafe {
            let own = &mut *core.as_ptr();
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            own.count(passed, passed);
            measures && own.measure_passing(task, stop, (from, to), passed)
        };
        if to.writing.pushed.get() == to.writing.tail.load(Ordering::Relaxed) {
            return;
        }
        if sizes_are_due {
            Core::take_sizes_of(core, out);
        }
        // SAFETY: this is the thread's own core; no user's code runs while it is borrowed.
        unsafe { &mut *core.as_ptr() }.publish_end(to, true);
    }

    /// Records the current task's dispatch, which read messages from one stream and wrote as many to another.
    /// Returns whether sizes of the written messages must be measured.
    fn measure_passing(
        &mut self,
        task: &TaskCell,
        stop: Stop,
        (from, to): (&Ring, &Ring),
        passed: usize,
    ) -> bool {
        self.telemetry.publishing_begins();
        #[cfg(not(loom))]
        if self.telemetry.is_full() {
            self.telemetry.derived_run(to, passed, popped_last_of(from));
        }
        from.reading
            .state
            .store(TOUCHED | if stop == Stop::InputEmpty { NOTED } else { 0 }, Ordering::Relaxed);
        to.writing.state.store(TOUCHED, Ordering::Relaxed);
        if !self.telemetry.relay_ends(task, (stop, false), (from, to)) {
            self.delay(task.id, passed as u64);
            let blocked_on = || if stop == Stop::InputEmpty { from.id } else { 0 };
            let ends = [(from, false), (to, true)].into_iter();
            self.telemetry.dispatch_ends(task, (stop, blocked_on), ends, || Some(popped_last_of(from)));
            self.look_up_if_it_lags();
            if self.telemetry.is_full() {
                self.times_messages();
            }
        }
        from.reading.state.store(0, Ordering::Release);
        to.writing.state.store(0, Ordering::Release);
        let sizes_are_due = self.telemetry.sizes_are_due();
        self.telemetry.sizes_are_seen_to();
        sizes_are_due
    }

    /// Puts the current task back to sleep, or makes it ready if messages are left or it was woken meanwhile.
    /// Returns whether it is ready and must be put into the queue.
    #[inline]
    fn rests(&mut self, task: &TaskCell, from: &Ring, (passed, left): (usize, usize)) -> bool {
        if left == 0 && !task.notified.get() {
            task.state.set(State::Idle);
            return false;
        }
        task.notified.set(false);
        if passed > 0 {
            self.stops(task, Stop::QuantumSpent, false);
        }
        if left > 0 {
            from.writing.reader_waiting.store(AWAKE, Ordering::Relaxed);
        }
        task.state.set(State::Ready);
        // If the task passed on no message, the time of its work is counted in its next dispatch.
        true
    }

    /// Writes messages that the current task has handed on to its stream, because the task goes on or ends.
    /// They are published with the dispatch, which wakes their reader.
    #[inline]
    pub(crate) fn take_back_handed(&mut self) {
        if self.handed.is_some() {
            self.write_handed();
        }
    }

    #[cold]
    #[inline(never)]
    fn write_handed(&mut self) {
        if let Some(handed) = self.handed.take() {
            // SAFETY: the writing end that handed the messages on keeps the stream.
            let stream = unsafe { handed.stream.as_ref() };
            stream.unpublish(handed.count);
            // SAFETY: the messages stay in place until the dispatch ends, and the stream was found empty.
            unsafe { write_after_all(stream, &handed, 0) }
        }
    }
}

/// Writes messages that were only counted in a stream into the stream's slots, except for the first `passed`
/// messages, which were read.
///
/// # Safety
/// The messages are still in place, and the calling thread has both ends of the stream.
unsafe fn write_after_all(stream: &Ring, handed: &Handed, passed: usize) {
    let left = handed.count - passed;
    if left > 0 {
        let end = stream.writing.pushed.get() - left;
        stream.writing.pushed.set(end);
        stream.writing.limit.set(end);
        // SAFETY: guaranteed by the caller.
        unsafe { write(stream, handed.first.add(passed * stream.messages.bytes), left) }
    }
}

/// Moves messages into a stream that has room for them.
///
/// # Safety
/// `count` contiguous messages of the stream's type begin at `first`, outside the stream's free slots. The
/// calling thread is that of the stream's writer.
unsafe fn write(stream: &Ring, first: *const u8, count: usize) {
    let (writing, bytes) = (&stream.writing, stream.messages.bytes);
    let mut written = 0;
    while written < count {
        let at = writing.pushed.get();
        if at == writing.limit.get() {
            let room = (stream.messages.room)(stream);
            assert!(room > 0, "messages that were handed on have room");
        }
        let mask = writing.mask.get() as usize;
        let run = (count - written).min(writing.limit.get() - at).min(mask + 1 - (at & mask));
        // SAFETY: guaranteed by the caller; up to `limit` and to the block's end slots are free.
        unsafe {
            let (from, to) = (first.add(written * bytes), writing.slots.get().add((at & mask) * bytes));
            std::ptr::copy_nonoverlapping(from, to, run * bytes);
        }
        writing.pushed.set(at + run);
        written += run;
    }
    writing.limit.set(writing.pushed.get());
}
