//! Letters: requests of other threads to a worker or to a task with a thread of its own; the receiver answers
//! a letter between two dispatches.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::shared::Shared;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};
use crate::task::cell::TaskCell;

/// A request to a worker, which the worker answers between two dispatches.
pub(crate) trait Asked: Send + Sync {
    /// Carries the request out, on the worker's thread.
    fn answer(&self, thread: &mut dyn Answering);
}

/// A thread that answers letters.
pub(crate) trait Answering {
    /// The thread's worker number, or [`FOREIGN`](crate::ring::FOREIGN).
    fn number(&self) -> u32;
    fn shared(&self) -> Arc<Shared>;
    /// The worker's tasks, which stay alive until the thread does anything else.
    fn tasks(&self) -> &[NonNull<TaskCell>];
    /// The task that owns the thread, if it is a task's own thread.
    fn own_task(&self) -> Option<&TaskCell>;
    /// Moves one of the worker's tasks, which must be ready or idle, to worker `to`.
    fn give(&mut self, task: NonNull<TaskCell>, to: u32);
    /// Parks the worker from now on, or lets it take part again.
    fn park(&mut self, parked: bool);
}

/// A request as it was sent to one worker, and the letter that was sent to this worker before it.
struct Letter {
    next: *mut Letter,
    asked: Arc<dyn Asked>,
}

/// A worker's letters.
pub(crate) struct Letters {
    /// The newest letter. Any thread pushes letters (sequentially consistent), and the worker takes them
    /// (acquire).
    newest: AtomicPtr<Letter>,
}

impl Letters {
    fn none() -> Letters {
        Letters { newest: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Leaves a letter for the worker, which the caller then [wakes](crate::task::inbox::Inbox::wake).
    /// Returns true if there was no letter before.
    pub(crate) fn write(&self, asked: Arc<dyn Asked>) -> bool {
        let letter = Box::into_raw(Box::new(Letter { next: std::ptr::null_mut(), asked }));
        let mut first = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: no other thread has the letter yet.
            unsafe { (*letter).next = first };
            match self.newest.compare_exchange_weak(first, letter, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return first.is_null(),
                Err(now) => first = now,
            }
        }
    }

    /// Takes all letters, oldest first.
    pub(crate) fn read(&self) -> Vec<Arc<dyn Asked>> {
        let mut letters = Vec::new();
        if !self.is_empty() {
            let mut newest = self.newest.swap(std::ptr::null_mut(), Ordering::Acquire);
            while !newest.is_null() {
                // SAFETY: `write` made the letter with `Box`, and this thread owns it since it took the list.
                let letter = *unsafe { Box::from_raw(newest) };
                newest = letter.next;
                letters.push(letter.asked);
            }
        }
        letters.reverse();
        letters
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Relaxed).is_null()
    }

    /// Whether there are no letters. The load is sequentially consistent with the stores of the letters'
    /// writers, as a thread that is about to sleep needs.
    pub(crate) fn is_empty_for_sure(&self) -> bool {
        self.newest.load(Ordering::SeqCst).is_null()
    }
}

impl Drop for Letters {
    fn drop(&mut self) {
        self.read();
    }
}

/// The letters of all workers.
pub(crate) struct Post {
    /// The letters of each worker, up to the greatest number of workers.
    pub(crate) of_worker: Vec<Letters>,
    /// The number of hungry workers plus the number of workers with letters, checked before every dispatch.
    pub(crate) attention: AtomicU32,
}

impl Post {
    pub(crate) fn new(workers: usize) -> Post {
        Post { of_worker: (0..workers).map(|_| Letters::none()).collect(), attention: AtomicU32::new(0) }
    }
}
