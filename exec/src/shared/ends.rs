//! Counts the tasks that were made and the tasks that have ended; a run ends when all its tasks have ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::fault::Fault;
use crate::sync::lock;
use crate::task::cell::TaskCell;
use crate::task::spec::TaskId;

/// A task that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The task's number.
    pub task: TaskId,
    /// The task's component, as its creator specified it.
    pub component: crate::SiteRef,
    /// The error's text.
    pub message: String,
    /// Whether the task panicked; if not, the runtime ended the task because it could not go on.
    pub panicked: bool,
}

/// The most failures that a [`Summary`](crate::Summary) lists.
pub const FAILURES_KEPT: usize = 100;

/// The tasks of a runtime, by number.
pub(crate) struct Ends {
    next_task: AtomicU64,
    /// The number of tasks that have not ended.
    live: AtomicU64,
    bad: Mutex<Bad>,
    all_ended: Condvar,
}

/// The tasks that failed.
#[derive(Default)]
pub(crate) struct Bad {
    pub(crate) failed: u64,
    pub(crate) failures: Vec<Failure>,
}

impl Ends {
    pub(crate) fn new() -> Ends {
        Ends {
            next_task: AtomicU64::new(1),
            live: AtomicU64::new(0),
            bad: Mutex::default(),
            all_ended: Condvar::new(),
        }
    }

    /// Counts a new task, and returns its number.
    pub(crate) fn task_made(&self) -> TaskId {
        let id = TaskId(self.next_task.fetch_add(1, Ordering::Relaxed));
        self.live.fetch_add(1, Ordering::Relaxed);
        id
    }

    /// Adds a task that failed.
    pub(crate) fn task_failed(&self, task: &TaskCell, Fault { message, panicked }: Fault) {
        let mut bad = lock(&self.bad);
        bad.failed += 1;
        if bad.failures.len() < FAILURES_KEPT {
            bad.failures.push(Failure { task: task.id, component: task.component, message, panicked });
        }
    }

    /// Counts a task that has ended, with or without an error.
    pub(crate) fn task_ended(&self) {
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wake();
        }
    }

    /// Wakes the threads that wait for all tasks to end.
    pub(crate) fn wake(&self) {
        let _guard = lock(&self.bad);
        self.all_ended.notify_all();
    }

    /// Waits until all tasks have ended or `is_over` returns true. Calls `look` at the given interval, until
    /// `look` finds something.
    pub(crate) fn wait<R>(
        &self,
        is_over: impl Fn() -> bool,
        every: Duration,
        mut look: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        let mut guard = lock(&self.bad);
        while self.live.load(Ordering::Acquire) != 0 && !is_over() {
            let waited = self.all_ended.wait_timeout(guard, every);
            let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            guard = back;
            if timeout.timed_out() {
                drop(guard);
                let found = look();
                if found.is_some() {
                    return found;
                }
                guard = lock(&self.bad);
            }
        }
        None
    }

    /// How many tasks have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.next_task.load(Ordering::Relaxed) - 1 - self.live.load(Ordering::Relaxed)
    }

    pub(crate) fn take_bad(&self) -> Bad {
        std::mem::take(&mut *lock(&self.bad))
    }
}
