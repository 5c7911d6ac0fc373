//! Dispatches of a task with a thread of its own.

use std::ptr::NonNull;

use super::budget::Budget;
use super::core::Core;
use crate::stop::Stop;
use crate::telemetry::Share;

impl Core {
    /// Ends a blocking task's dispatch before the task waits, and arms the task's wake-up. `Ok(true)`: the
    /// task has to wait; `Err`: nothing can ever wake it.
    pub(crate) fn pause(
        core: NonNull<Core>,
        stop: Stop,
        budget: Option<&Budget>,
    ) -> Result<bool, &'static str> {
        let sleeps = {
            // SAFETY: this is the thread's own core; the reference ends before a user's code runs.
            let (task, unread) = unsafe {
                let core = core.as_ref();
                (core.task, budget.map_or(0, |budget| core.unread(budget)))
            };
            let task = task.get();
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            Core::publish_all(core, stop);
            // SAFETY: this is the thread's own core; no user's code runs until the end of this block.
            let core = unsafe { &mut *core.as_ptr() };
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

    /// Ends a blocking task's dispatch before the task waits for something outside of streams: for input to
    /// read, or until it may write output.
    pub(crate) fn step_aside(core: NonNull<Core>, stop: Stop) {
        {
            // SAFETY: this is the thread's own core; the reference ends with this statement.
            let current = unsafe { core.as_ref() }.task;
            let task = current.get();
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            Core::publish_all(core, stop);
            // SAFETY: this is the thread's own core; no user's code runs until the end of this block.
            let core = unsafe { &mut *core.as_ptr() };
            core.stops(task, stop, true);
            core.let_go();
        }
        Core::free_released(core);
    }

    /// Ends a blocking task's wait that no other thread has ended.
    pub(crate) fn come_back(core: NonNull<Core>) {
        // SAFETY: this is the thread's own core; no user's code runs inside this function.
        let core = unsafe { &mut *core.as_ptr() };
        core.telemetry.own_wait_ends(core.task.get());
    }

    /// Begins a blocking task's next dispatch, whether or not the task waited before.
    pub(crate) fn resume(core: NonNull<Core>) {
        // SAFETY: this is the thread's own core; no user's code runs inside this function.
        let core = unsafe { &mut *core.as_ptr() };
        let task = core.task.get();
        let before = core.telemetry.before_adoption();
        core.adopt_settings();
        if core.telemetry.measures() {
            let waited_for = task.waits_for.replace(Share::Ready);
            core.telemetry.own_dispatch_begins(task, waited_for, before);
        }
    }
}
