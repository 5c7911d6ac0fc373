//! A worker's dispatches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::thread;

use super::budget::Budget;
use super::core::Core;
use super::relay::{Next, Relayed};
use crate::fault::Fault;
use crate::ring::Holder;
use crate::stop::Stop;
use crate::task::cell::{Current, State, TaskCell};
use crate::task::context::Context;
use crate::telemetry::Share;
use crate::wake::ready::ReadyQueue;

impl Core {
    /// Runs a ready task once. If its messages wake the only task that is ready then, and `is_calm` says that
    /// the thread has nothing else to look at, that task runs next, and so on.
    pub(crate) fn dispatch(core: NonNull<Core>, task: NonNull<TaskCell>, is_calm: impl Fn() -> bool) {
        let mut task = task;
        while let Some(next) = Core::dispatch_once(core, task) {
            // SAFETY: this is the thread's own core; the reference ends with the block, and no user's code runs.
            let core = unsafe { &mut *core.as_ptr() };
            if !is_calm() {
                return core.queue_next(next);
            }
            core.begin_relayed(next);
            task = next.task;
        }
    }

    /// Runs a ready task once; returns the task that must run next, if there is one.
    #[inline(always)]
    fn dispatch_once(core: NonNull<Core>, task: NonNull<TaskCell>) -> Option<Next> {
        // SAFETY: tasks in the queue are alive, and this is the task's thread.
        let cell = unsafe { task.as_ref() };
        cell.state.set(State::Running);
        // SAFETY: this is the thread's own core; the reference ends before the task runs.
        let (budget, full) = unsafe {
            let core = &mut *core.as_ptr();
            core.task = Current::of(task);
            core.adopt_settings();
            core.telemetry.dispatch_begins(cell);
            (core.begin_budget(cell), core.telemetry.is_full())
        };
        let outcome = match run_body(core, cell, budget.messages, full) {
            Ok(Stop::Ended) => Ok(()),
            Ok(stop) => {
                // SAFETY: this is the thread's own core; no user's code runs while it is borrowed.
                match unsafe { &mut *core.as_ptr() }.relay(cell, stop, &budget) {
                    Relayed::To(next) => return Some(next),
                    Relayed::Done => return None,
                    Relayed::Not => {}
                }
                match Core::after(core, cell, stop, &budget) {
                    Ok(()) => return None,
                    Err(reason) => Err(Fault::found(reason)),
                }
            }
            Err(panic) => {
                // SAFETY: this is the thread's own core; the reference ends with the line.
                unsafe { &mut *core.as_ptr() }.take_tasks_back();
                Err(Fault::panicked(&*panic))
            }
        };
        // SAFETY: this is the thread's own core; the reference ends with the line.
        unsafe { &mut *core.as_ptr() }.take_back_handed();
        Core::end(core, task, outcome);
        None
    }

    /// Publishes the dispatch, arms the task's wake-ups and requeues the task.
    #[inline]
    pub(super) fn after(
        core: NonNull<Core>,
        task: &TaskCell,
        stop: Stop,
        budget: &Budget,
    ) -> Result<(), &'static str> {
        task.counts.dispatches.set(task.counts.dispatches.get() + 1);
        // SAFETY: this is the thread's own core; the reference ends with the line.
        if unsafe { core.as_ref() }.handed.is_some() {
            Core::publish_handing_on(core, task, stop, budget);
        } else {
            // SAFETY: this is the thread's own core; the reference ends with the block, and no user's code
            // runs before.
            let (unread, is_published) = unsafe {
                let core = &mut *core.as_ptr();
                (core.unread(budget), core.publish_dispatch(stop))
            };
            if !is_published {
                Core::publish_with_sizes(core);
            }
            // SAFETY: this is the thread's own core; the reference ends with the block, and no user's code
            // runs before.
            unsafe { &mut *core.as_ptr() }.finish_budget(task, budget, unread);
        }
        {
            // SAFETY: this is the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
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
                core.tasks().wait_for_room += u64::from(stop == Stop::OutputFull);
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

    /// Notes that a task has stopped for the reason `stop`, and sleeps or is ready again.
    #[inline]
    pub(super) fn stops(&mut self, task: &TaskCell, stop: Stop, sleeps: bool) {
        let waits_for = match sleeps {
            false => Share::Ready,
            true if stop == Stop::OutputFull => Share::OutputWait,
            true => Share::InputWait,
        };
        task.waits_for.set(waits_for);
        if !sleeps && self.telemetry.measures() {
            self.telemetry.task_stays_ready(task);
        }
    }

    /// Ends a task: drops it, which closes its ports, publishes its last dispatch, and removes it.
    #[cold]
    pub(super) fn end(core: NonNull<Core>, task: NonNull<TaskCell>, outcome: Result<(), Fault>) {
        // SAFETY: this is the task's own thread; the reference that keeps the task alive is given up at the
        // end of this function.
        let cell = unsafe { task.as_ref() };
        // SAFETY: this is the task's own thread, and no call to the body is under way.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { cell.drop_body() }));
        let outcome = match dropped {
            Ok(()) => outcome,
            Err(panic) => outcome.and(Err(Fault::panicked(&*panic))),
        };
        Core::close_task(core, cell, &outcome);
        let shared = {
            // SAFETY: this is the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            core.forget(cell);
            core.shared_state()
        };
        shared.task_ended(cell, outcome);
        // SAFETY: this gives up the reference that kept the task alive.
        unsafe { TaskCell::release(task.as_ptr()) }
    }

    /// Publishes the last dispatch of an ended task, closes its ports, and records its end.
    pub(crate) fn close_task(core: NonNull<Core>, task: &TaskCell, outcome: &Result<(), Fault>) {
        {
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            // SAFETY: this is the thread's own core; the reference ends with the line.
            unsafe { &mut *core.as_ptr() }.telemetry.task_ends();
            Core::publish_all(core, Stop::Ended);
            // SAFETY: this is the thread's own core; no user's code runs until the end of this block.
            let core = unsafe { &mut *core.as_ptr() };
            core.let_go();
            core.task = Current::NONE;
            task.state.set(State::Ended);
            core.telemetry.task_ended(task, outcome);
        }
        // SAFETY: this is the task's own thread.
        unsafe { task.forget_waits() };
        Core::free_released(core);
    }

    pub(crate) fn forget(&mut self, task: &TaskCell) {
        self.moving.forget(task);
        self.tasks().forget(task);
    }

    /// Drops every remaining task, after an abort.
    pub(crate) fn drop_tasks(core: NonNull<Core>) {
        loop {
            // SAFETY: this is the thread's own core; the reference ends before a task is dropped.
            let task = unsafe {
                let core = &mut *core.as_ptr();
                let Some(&task) = core.tasks().live.last() else { break };
                core.task = Current::of(task);
                let cell = task.as_ref();
                let waited_for = (cell.state.get() == State::Idle).then(|| cell.waits_for.get());
                core.telemetry.task_dropped(cell, waited_for);
                task
            };
            Core::end(core, task, Ok(()));
        }
        // SAFETY: this is the thread's own core; the reference ends before a task is dropped.
        let core = unsafe { &mut *core.as_ptr() };
        core.tasks().ready = ReadyQueue::new();
    }
}

/// Calls the task, while the worker lends its other tasks; after a panic the caller takes them back.
#[inline]
fn run_body(core: NonNull<Core>, task: &TaskCell, messages: usize, full: bool) -> thread::Result<Stop> {
    catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: this is the thread's own core; the reference ends with the block.
        let (current, times_each) = unsafe {
            let core = &mut *core.as_ptr();
            (core.task, full && core.telemetry.may_time_messages(task) && core.times_messages())
        };
        let mut cx = Context::new(core.cast(), current, messages, (full, times_each));
        // SAFETY: this is the thread's own core.
        unsafe { core.as_ref() }.lend_tasks();
        // SAFETY: this is the task's own thread, and no other call to its body is under way.
        let stop = unsafe { task.run_body(&mut cx) };
        // SAFETY: this is the thread's own core; the reference ends with the line.
        unsafe { &mut *core.as_ptr() }.take_tasks_back();
        stop
    }))
}
