//! The threads that dispatch tasks, and what the sampler sees of each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_space::{LiveRow, SeenRow};

use super::kinds::OWN_THREAD;
use super::rows::{TaskRow, TaskState, WorkerRow, WorkerState};
use crate::sync::lock;

/// All threads of a runtime that dispatch tasks.
#[derive(Default)]
pub(super) struct Threads {
    /// The threads, each with a number that is never used again.
    all: Mutex<Vec<(u64, Arc<Seen>)>>,
    next: AtomicU64,
    /// The number of changes of `all`.
    pub(super) changes: AtomicU64,
}

impl Threads {
    /// The threads that exist now.
    pub(super) fn all(&self) -> Vec<(u64, Arc<Seen>)> {
        lock(&self.all).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(u64, Arc<Seen>)>)) {
        change(&mut lock(&self.all));
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// What other threads see of a thread that dispatches tasks.
pub(super) struct Seen {
    /// The thread's number in the kernel.
    pub(super) thread: i32,
    /// The thread's worker; [`OWN_THREAD`] if the thread belongs to `task`.
    pub(super) worker: u32,
    task: u64,
    row: SeenRow,
}

/// The task that a thread runs, and how many dispatches the thread has made before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) task: u64,
    dispatches: u64,
}

impl Seen {
    /// What the thread is working on; `None` if it runs no task.
    pub(super) fn at(&self) -> Option<At> {
        if self.worker == OWN_THREAD {
            let runs = self.row.load(TaskRow::STATE) == TaskState::Running as u64;
            let dispatches = self.row.load(TaskRow::DISPATCHES);
            return runs.then_some(At { task: self.task, dispatches });
        }
        let runs = self.row.load(WorkerRow::STATE) == WorkerState::Running as u64;
        let at =
            At { task: self.row.load(WorkerRow::TASK), dispatches: self.row.load(WorkerRow::DISPATCHES) };
        (runs && at.task != 0).then_some(at)
    }
}

/// A thread's registration with the sampler: while the thread owns this value, the sampler samples the
/// thread.
pub(crate) struct Watched {
    threads: Arc<Threads>,
    number: u64,
}

impl Watched {
    /// Registers the calling thread, which is that of the given worker.
    pub(super) fn worker(threads: &Arc<Threads>, worker: u32, row: &LiveRow) -> Watched {
        Watched::new(threads, worker, 0, row)
    }

    /// Registers the calling thread, which belongs to the given task.
    pub(super) fn own(threads: &Arc<Threads>, task: u64, row: &LiveRow) -> Watched {
        Watched::new(threads, OWN_THREAD, task, row)
    }

    fn new(threads: &Arc<Threads>, worker: u32, task: u64, row: &LiveRow) -> Watched {
        // SAFETY: the call has no arguments and cannot fail.
        let thread = unsafe { libc::gettid() };
        let seen = Arc::new(Seen { thread, worker, task, row: row.seen() });
        let number = threads.next.fetch_add(1, Ordering::Relaxed);
        threads.change(|all| all.push((number, seen)));
        Watched { threads: Arc::clone(threads), number }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.threads.change(|all| all.retain(|(number, _)| *number != self.number));
    }
}
