//! Creates tasks.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::dispatch::Core;
use crate::fault::Fault;
use crate::ring::{FOREIGN, Holder};
use crate::runtime::blocking::{self, Blocking};
use crate::shared::Shared;
use crate::shared::own_threads::Sleep;
use crate::shared::spread;
use crate::sync::Ordering;
use crate::task::body::{BODILESS, Given};
use crate::task::cell::TaskCell;
use crate::task::context::Ports;
use crate::task::inbox::Pushed;
use crate::task::placement::Placement;
use crate::task::spec::{TaskId, TaskSpec};
use crate::telemetry::{Cause, WatchedTask};
use crate::wake;

impl Shared {
    /// Creates a blocking task and starts its thread; the task's streams are opened before the thread runs.
    /// `core` is the calling thread's core. If the system refuses a thread, the task fails.
    pub(crate) fn spawn_blocking<W>(
        self: &Arc<Shared>,
        core: NonNull<Core>,
        spec: TaskSpec,
        attach: impl FnOnce(&mut Ports<'_>) -> W,
    ) -> TaskId
    where
        W: FnOnce(&mut Blocking) -> Result<(), String> + Send + 'static,
    {
        let task = self.new_task(spec, BODILESS, true);
        // SAFETY: the reference to the task was just made, and keeps the task alive.
        let cell = unsafe { task.as_ref() };
        let id = cell.id;
        self.home.board.blocking_task_made(cell, spec.origin());
        let work = attach(&mut Ports { thread: core.cast(), task: cell });
        match spec.place.here() {
            Ok(_) => self.start_blocking(task, work),
            Err(elsewhere) => {
                drop(work);
                self.refuse(task, elsewhere.to_string());
            }
        }
        id
    }

    /// Starts a blocking task's thread and hands it the caller's reference. If the system refuses a thread,
    /// the task fails.
    pub(crate) fn start_blocking<W>(self: &Arc<Shared>, task: NonNull<TaskCell>, work: W)
    where
        W: FnOnce(&mut Blocking) -> Result<(), String> + Send + 'static,
    {
        // SAFETY: the caller holds a reference to the task, so the task is alive.
        let cell = unsafe { task.as_ref() };
        let sleep = Arc::new(Sleep::default());
        self.own_threads.add(cell, sleep.clone());
        match blocking::start(self, task, sleep, work) {
            Ok(thread) => self.own_threads.keep(thread),
            Err(error) => {
                let reason = format!(
                    "the system refuses it a thread of its own ({error}): allow more threads or memory (`ulimit -u`, \
                     `ulimit -v`, the cgroup's `pids.max`), or run fewer tasks that need one"
                );
                self.refuse(task, reason);
            }
        }
    }

    /// Makes a blocking task for which there is no thread fail, and gives up the caller's reference.
    fn refuse(self: &Arc<Shared>, task: NonNull<TaskCell>, reason: String) {
        // SAFETY: the caller holds a reference to the task, so the task is alive.
        let cell = unsafe { task.as_ref() };
        let outcome = Err(Fault::found(reason));
        // SAFETY: no thread has the task.
        unsafe { cell.forget_waits() };
        cell.takes_no_part();
        cell.show_end(&outcome);
        self.home.board.task_ended(cell, &outcome);
        self.own_threads.forget(cell.id);
        self.task_ended(cell, outcome);
        // SAFETY: no thread has the task, so this call still owns the reference.
        unsafe { TaskCell::release(task.as_ptr()) }
    }
}

impl Core {
    /// Creates a task while another task runs on the calling thread.
    pub(crate) fn spawn(core: NonNull<Core>, spec: TaskSpec, body: &mut dyn Given) -> TaskId {
        let (shared, here, creator) = {
            // SAFETY: this is the thread's own core; the reference ends before a user's code runs.
            let core = unsafe { &mut *core.as_ptr() };
            core.take_tasks_back();
            let here = if core.worker == FOREIGN { 0 } else { core.worker as usize };
            (core.shared_state(), here, core.task.get())
        };
        // `spawn_blocking` makes a task for another node fail.
        if shared.mapping.thread_per_task || spec.place.here().is_err() {
            // SAFETY: this is the thread's own core; the reference ends with the line.
            let shared = unsafe { core.as_ref() }.shared.clone();
            return shared.spawn_blocking(core, spec, |ports| {
                body.attach(ports);
                let body = body.boxed();
                move |blocking: &mut Blocking| body.map_or(Ok(()), |body| blocking.drive(body))
            });
        }
        let worker = match spec.together.filter(|_| spec.place == Placement::ANYWHERE) {
            Some(replica) => replica.worker as usize,
            None => {
                // SAFETY: this is the thread's own core; the reference ends with the statement.
                let choice = shared.tuning.mapper(&mut unsafe { &mut *core.as_ptr() }.telemetry);
                shared.mapping.place(&spec, creator.component.0, (here, shared.taking_part()), choice)
            }
        };
        let mut task = shared.new_task(spec, body.methods(), false);
        if let Some(replica) = spread::joins(&spec, creator, worker == here) {
            // SAFETY: no other thread has the cell yet.
            unsafe { task.as_mut() }.belongs_to(replica);
            shared.spreading.task_created(replica);
        }
        Core::let_run(core, (task, &spec), worker as u32, body)
    }

    /// Lets a new task run on a worker, which gets the caller's reference.
    fn let_run(
        core: NonNull<Core>,
        (task, spec): (NonNull<TaskCell>, &TaskSpec),
        worker: u32,
        body: &mut dyn Given,
    ) -> TaskId {
        // SAFETY: the caller holds a reference to the task, so the task is alive.
        let cell = unsafe { task.as_ref() };
        let id = cell.id;
        cell.place(worker);
        // SAFETY: this is the thread's own core; the reference ends before a user's code runs.
        unsafe { &mut *core.as_ptr() }.telemetry.task_is_made(cell, spec.origin(), worker);
        body.attach(&mut Ports { thread: core.cast(), task: cell });
        // SAFETY: no other thread accesses the cell's body yet.
        unsafe { cell.embody(body) };
        // SAFETY: this is the thread's own core; adopting runs no user's code.
        let core = unsafe { &mut *core.as_ptr() };
        core.telemetry.task_made(cell, worker == core.worker);
        if worker == core.worker {
            core.adopt_new(task);
        } else {
            core.telemetry.task_ready(cell, Cause::Created, 0);
            release_into(&core.shared, task);
        }
        id
    }
}

/// Sends a new task to its worker; if that worker has ended, the task ends without having run.
pub(crate) fn release_into(shared: &Shared, task: NonNull<TaskCell>) {
    // SAFETY: the caller holds a reference to the task, so the task is alive.
    let cell = unsafe { task.as_ref() };
    let keep = cell.counted();
    cell.in_inbox.store(true, Ordering::Relaxed);
    if wake::send(&shared.home, task) == Pushed::Refused {
        // SAFETY: the worker refused the task, so no other thread accesses its body.
        unsafe { cell.drop_body() };
        shared.home.board.task_ended(cell, &Ok(()));
        shared.task_ended(cell, Ok(()));
    }
    // SAFETY: this gives up the reference that was counted above.
    unsafe { TaskCell::release(keep) }
}
