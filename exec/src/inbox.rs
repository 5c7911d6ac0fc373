//! A worker's inbox: the tasks that other threads made ready, and the worker's sleep.
//!
//! Invariant: a worker that sleeps has an empty inbox, or somebody is on the way to wake it. In place of a first task stands
//! a mark that the worker sleeps: whoever puts a task there takes the mark off with the same instruction, and wakes the worker.
//! Letters and the end of the run stand elsewhere: who wrote one looks at the mark then, and who is about to sleep looks
//! at them after setting it, with a full barrier between on both sides.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::admission::Admission;
use crate::dispatch::Core;
use crate::parker::Parker;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering, barrier, fetch_to_write};
use crate::task::TaskCell;

/// What another thread asks of a worker, which answers between two dispatches.
pub(crate) trait Asked: Send + Sync {
    /// Does it, on the worker's thread.
    fn answer(&self, core: &mut Core);
}

/// What became of a task that was pushed into an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The worker has ended: the reference to the task stays the caller's.
    Refused,
    /// The worker takes it when it looks.
    Taken,
    /// The worker slept and was woken, by a call of the system.
    Woke,
}

/// A worker's copy of what is asked, and the letter that came before it.
pub(crate) struct Letter {
    next: *mut Letter,
    asked: Arc<dyn Asked>,
}

/// In a cache line of its own: several workers write to it, and one looks at it all the time while it has nothing to do.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Inbox {
    /// The newest task, or a mark. Pushed by any thread (sequentially consistent), taken by the worker (acquire).
    first: AtomicPtr<TaskCell>,
    parker: Parker,
    /// Who counts the threads that sleep.
    admission: Arc<Admission>,
    /// From when on the worker waits for a task of another's; 0: it does not. Set by the worker, cleared by it or by who
    /// is to give it one.
    pub(crate) hungry_at: AtomicU64,
    /// Dispatches that the worker made, and its tasks that wait for room, as of when it went to sleep last.
    pub(crate) dispatches: AtomicU64,
    pub(crate) wait_for_room: AtomicU64,
    /// The newest letter. Pushed by any thread (sequentially consistent), taken by the worker (acquire).
    letters: AtomicPtr<Letter>,
}

/// In place of a first task: the worker has ended.
fn shut() -> *mut TaskCell {
    std::ptr::without_provenance_mut(align_of::<TaskCell>())
}

/// In place of a first task: the worker sleeps, or is about to.
fn asleep() -> *mut TaskCell {
    std::ptr::without_provenance_mut(2 * align_of::<TaskCell>())
}

impl Inbox {
    pub(crate) fn new(admission: Arc<Admission>) -> Inbox {
        Inbox {
            first: AtomicPtr::new(std::ptr::null_mut()),
            parker: Parker::new(),
            admission,
            hungry_at: AtomicU64::new(0),
            dispatches: AtomicU64::new(0),
            wait_for_room: AtomicU64::new(0),
            letters: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Hands a task to the worker, with the caller's reference to it.
    pub(crate) fn push(&self, task: NonNull<TaskCell>) -> Pushed {
        // Without a look, which would fetch the line twice: mostly it is empty.
        let mut first = std::ptr::null_mut();
        loop {
            let next = if first == asleep() { std::ptr::null_mut() } else { first };
            // SAFETY: the caller's reference.
            unsafe { task.as_ref() }.next_in_inbox.store(next, Ordering::Relaxed);
            match self.first.compare_exchange(first, task.as_ptr(), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) if now == shut() => return Pushed::Refused,
                Err(now) => first = now,
            }
        }
        if first == asleep() && self.admission.unpark(&self.parker) { Pushed::Woke } else { Pushed::Taken }
    }

    /// Leaves a letter for the worker, which the caller then [wakes](Inbox::wake). True: there was none before.
    pub(crate) fn write(&self, asked: Arc<dyn Asked>) -> bool {
        let letter = Box::into_raw(Box::new(Letter { next: std::ptr::null_mut(), asked }));
        let mut first = self.letters.load(Ordering::Relaxed);
        loop {
            // SAFETY: nobody else has the letter yet.
            unsafe { (*letter).next = first };
            match self.letters.compare_exchange_weak(first, letter, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return first.is_null(),
                Err(now) => first = now,
            }
        }
    }

    /// Takes all letters, oldest first.
    pub(crate) fn read(&self) -> Vec<Arc<dyn Asked>> {
        let mut letters = Vec::new();
        if self.has_letters() {
            let mut newest = self.letters.swap(std::ptr::null_mut(), Ordering::Acquire);
            while !newest.is_null() {
                // SAFETY: made by `Box` in `write`, and ours since we took it.
                let letter = *unsafe { Box::from_raw(newest) };
                newest = letter.next;
                letters.push(letter.asked);
            }
        }
        letters.reverse();
        letters
    }

    /// Wakes the worker if it sleeps. The caller has passed a full barrier since it changed what the worker
    /// is to see.
    pub(crate) fn wake(&self) {
        if self.first.load(Ordering::SeqCst) == asleep() && self.take_off_mark() {
            self.admission.unpark(&self.parker);
        }
    }

    /// True for who does it: the worker itself, or who then wakes it.
    fn take_off_mark(&self) -> bool {
        let none = std::ptr::null_mut();
        self.first.compare_exchange(asleep(), none, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.load(Ordering::Relaxed).is_null()
    }

    /// Whether there is no task, asked again and again by a worker that takes the next one at once.
    #[inline]
    pub(crate) fn is_still_empty(&self) -> bool {
        fetch_to_write(&self.first);
        self.is_empty()
    }

    #[inline]
    pub(crate) fn has_letters(&self) -> bool {
        !self.letters.load(Ordering::Relaxed).is_null()
    }

    /// Whether the worker sleeps, and how many dispatches it had made then.
    pub(crate) fn asleep_after(&self) -> Option<u64> {
        self.parker.is_asleep().then(|| self.dispatches.load(Ordering::Relaxed))
    }

    /// Takes all tasks, oldest first, each with its reference.
    pub(crate) fn take(&self) -> Tasks {
        Tasks::reversed(self.first.swap(std::ptr::null_mut(), Ordering::Acquire))
    }

    /// Takes all tasks and refuses more.
    pub(crate) fn shut(&self) -> Tasks {
        Tasks::reversed(self.first.swap(shut(), Ordering::Acquire))
    }

    /// Sleeps until somebody pushes or calls [`Inbox::wake`], unless a task came or `stop` says so. May return
    /// early.
    pub(crate) fn sleep(&self, stop: &AtomicBool) {
        let empty = std::ptr::null_mut();
        if self.first.compare_exchange(empty, asleep(), Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return;
        }
        barrier();
        if !stop.load(Ordering::SeqCst) && self.letters.load(Ordering::SeqCst).is_null() {
            self.admission.park(&self.parker, None);
        }
        self.take_off_mark();
    }
}

// One line.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Inbox>() == 64);

impl Drop for Inbox {
    fn drop(&mut self) {
        self.read();
    }
}

/// Tasks taken from an inbox.
pub(crate) struct Tasks(*mut TaskCell);

impl Tasks {
    fn reversed(mut newest: *mut TaskCell) -> Tasks {
        let mut oldest = std::ptr::null_mut();
        if newest == shut() {
            return Tasks(oldest);
        }
        while let Some(task) = NonNull::new(newest) {
            // SAFETY: the inbox held a reference to each task in it; the links are ours since we took them.
            let next = unsafe { &task.as_ref().next_in_inbox };
            fetch_to_write(next);
            newest = next.load(Ordering::Relaxed);
            next.store(oldest, Ordering::Relaxed);
            oldest = task.as_ptr();
        }
        Tasks(oldest)
    }
}

impl Iterator for Tasks {
    type Item = NonNull<TaskCell>;

    fn next(&mut self) -> Option<NonNull<TaskCell>> {
        let task = NonNull::new(self.0)?;
        // SAFETY: as in `reversed`.
        self.0 = unsafe { task.as_ref() }.next_in_inbox.load(Ordering::Relaxed);
        Some(task)
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in self.by_ref() {
            // SAFETY: the inbox's reference.
            unsafe { TaskCell::release(task.as_ptr()) }
        }
    }
}
