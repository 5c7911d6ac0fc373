//! Which tasks were made and which have ended: what the end of a run waits for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::fault::Fault;
use crate::sync::lock;
use crate::task::cell::TaskCell;
use crate::task::spec::TaskId;

/// A task that ended badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub task: TaskId,
    /// What it was, as its creator said.
    pub component: crate::SiteRef,
    /// What it said.
    pub message: String,
    /// Whether it panicked (else the runtime ended it).
    pub panicked: bool,
}

/// How many failures a [`Summary`](crate::Summary) has in full.
pub const FAILURES_KEPT: usize = 100;

/// The tasks of a runtime, by number.
pub(crate) struct Ends {
    next_task: AtomicU64,
    /// Tasks that have not ended.
    live: AtomicU64,
    bad: Mutex<Bad>,
    all_ended: Condvar,
}

/// The tasks that ended badly.
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

    /// A task is made, and lives: its number.
    pub(crate) fn task_made(&self) -> TaskId {
        let id = TaskId(self.next_task.fetch_add(1, Ordering::Relaxed));
        self.live.fetch_add(1, Ordering::Relaxed);
        id
    }

    /// A task has ended badly.
    pub(crate) fn task_failed(&self, task: &TaskCell, Fault { message, panicked }: Fault) {
        let mut bad = lock(&self.bad);
        bad.failed += 1;
        if bad.failures.len() < FAILURES_KEPT {
            bad.failures.push(Failure { task: task.id, component: task.component, message, panicked });
        }
    }

    /// A task has ended, well or not.
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

    /// Waits until all tasks have ended or `is_over`. Calls `look` each time that takes this long, until it finds something.
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
