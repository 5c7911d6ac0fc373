//! The threads that dispatch tasks, and what the sampler sees of each.

use std::sync::atomic::{AtomicU64, Ordering, fence};
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
    /// A worker's last dispatches; `None` for a task's own thread, which has one task.
    trail: Option<Arc<Trail>>,
}

/// The number of dispatches in a [`Trail`], a power of two.
const TRAIL: usize = 256;
/// A reader of a trail leaves out this many of the oldest dispatches, which may be overwritten meanwhile.
const OVERWRITTEN: u64 = 2;

/// A worker's last dispatches in modes metrics and full, by which another thread finds the task in which the
/// worker was at a certain time. If the worker is fast, the reader may find a wrong task for single times;
/// readers count, and a few wrong counts do not matter.
pub(super) struct Trail {
    steps: [Step; TRAIL],
    /// For each dispatch, when the worker found no further task after it. If the time is not after the
    /// dispatch's beginning, it belongs to an older dispatch in the same place. These times are rare, and
    /// therefore apart from the steps.
    idle_since: [AtomicU64; TRAIL],
}

/// A dispatch of a worker.
#[derive(Default)]
struct Step {
    began: AtomicU64,
    task: AtomicU64,
}

impl Trail {
    fn new() -> Trail {
        Trail {
            steps: std::array::from_fn(|_| Step::default()),
            idle_since: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn step(&self, dispatch: u64) -> &Step {
        &self.steps[dispatch as usize % TRAIL]
    }

    fn idle_since(&self, dispatch: u64) -> &AtomicU64 {
        &self.idle_since[dispatch as usize % TRAIL]
    }

    /// Notes the beginning of the worker's dispatch with this number.
    #[inline]
    pub(super) fn begins(&self, dispatch: u64, now: u64, task: u64) {
        let step = self.step(dispatch);
        step.began.store(now, Ordering::Relaxed);
        step.task.store(task, Ordering::Relaxed);
    }

    /// Notes that the worker has no task since its dispatch with this number.
    pub(super) fn idles(&self, dispatch: u64, now: u64) {
        self.idle_since(dispatch).store(now, Ordering::Relaxed);
    }
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

    /// The worker's last dispatches, oldest first.
    pub(super) fn last(&self) -> Vec<Past> {
        let Some(trail) = &self.trail else { return Vec::new() };
        let newest = || self.row.load(WorkerRow::DISPATCHES);
        let until = newest();
        let past = |dispatch: u64| {
            let step = trail.step(dispatch);
            let began = step.began.load(Ordering::Relaxed);
            let idle_since = trail.idle_since(dispatch).load(Ordering::Relaxed);
            let idle_since = if idle_since > began { idle_since } else { u64::MAX };
            (dispatch, Past { began, idle_since, task: step.task.load(Ordering::Relaxed) })
        };
        let mut past: Vec<(u64, Past)> = (until.saturating_sub(TRAIL as u64 - 1)..=until).map(past).collect();
        fence(Ordering::Acquire);
        let oldest = (newest() + 1 + OVERWRITTEN).saturating_sub(TRAIL as u64);
        past.retain(|(dispatch, past)| *dispatch >= oldest && past.task != 0);
        past.into_iter().map(|(_, past)| past).collect()
    }
}

/// A dispatch of a worker, as another thread sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) began: u64,
    /// When the worker found no further task after the dispatch; `u64::MAX`: another dispatch followed.
    pub(super) idle_since: u64,
    pub(super) task: u64,
}

/// The task in which a worker was at a time, by its last dispatches, oldest first.
pub(super) fn task_at(past: &[Past], time: u64) -> Option<u64> {
    let at = past.partition_point(|past| past.began <= time);
    past[..at].last().filter(|past| time < past.idle_since).map(|past| past.task)
}

/// A thread's registration with the sampler: while the thread owns this value, the sampler samples the
/// thread.
pub(crate) struct Watched {
    threads: Arc<Threads>,
    number: u64,
    pub(super) trail: Option<Arc<Trail>>,
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
        let trail = (worker != OWN_THREAD).then(|| Arc::new(Trail::new()));
        let seen = Arc::new(Seen { thread, worker, task, row: row.seen(), trail: trail.clone() });
        let number = threads.next.fetch_add(1, Ordering::Relaxed);
        threads.change(|all| all.push((number, seen)));
        Watched { threads: Arc::clone(threads), number, trail }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.threads.change(|all| all.retain(|(number, _)| *number != self.number));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_time_belongs_to_the_dispatch_that_began_before_it() {
        let past = |began, idle_since, task| Past { began, idle_since, task };
        let last = [past(10, u64::MAX, 1), past(20, 30, 2), past(50, u64::MAX, 3)];
        let tasks = [9, 10, 19, 20, 29, 30, 49, 50, 99].map(|time| task_at(&last, time));
        let wanted = [None, Some(1), Some(1), Some(2), Some(2), None, None, Some(3), Some(3)];
        assert_eq!(tasks, wanted);
        assert_eq!(task_at(&[], 7), None);
    }
}
