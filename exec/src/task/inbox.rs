//! A worker's inbox: the tasks that other threads made ready, and the worker's sleep.
//!
//! Invariant: a worker that sleeps has an empty inbox, or another thread is about to wake it. In place of a first task stands
//! a mark that the worker sleeps: a thread that puts a task there takes the mark off with the same instruction, and wakes the worker.
//! Letters and the end of the run stand elsewhere: the thread that wrote one looks at the mark then, and the worker that is about
//! to sleep looks at them after setting the mark, with a full barrier between on both sides.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::parker::Parker;
use crate::sync::{AtomicPtr, AtomicU64, Ordering, barrier, fetch_to_write};
use crate::task::admission::Admission;

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

/// An item of an inbox: reference-counted, with a link to the item after it.
pub(crate) trait Linked: Sized {
    /// The next in the inbox. Written by the thread that pushes, read by the thread that took the inbox.
    fn next_in_inbox(&self) -> &AtomicPtr<Self>;

    /// Gives up the inbox's reference.
    ///
    /// # Safety
    /// The inbox owned it, and nobody uses `linked` by it any more.
    unsafe fn give_up(linked: *mut Self);
}

/// In a cache line of its own: several workers write to it, and one looks at it all the time while it has nothing to do.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Inbox<T> {
    /// The newest task, or a mark. Pushed by any thread (sequentially consistent), taken by the worker (acquire).
    first: AtomicPtr<T>,
    parker: Parker,
    /// Counts the threads that do not sleep.
    admission: Arc<Admission>,
    /// From when on the worker waits for a task of another's; 0: it does not. Set by the worker, cleared by it or by the
    /// worker that is to give it one.
    pub(crate) hungry_at: AtomicU64,
    /// Dispatches that the worker made, and its tasks that wait for room, as of when it went to sleep last.
    pub(crate) dispatches: AtomicU64,
    pub(crate) wait_for_room: AtomicU64,
}

/// In place of a first task: the worker has ended.
fn shut<T>() -> *mut T {
    std::ptr::without_provenance_mut(align_of::<T>())
}

/// In place of a first task: the worker sleeps, or is about to.
fn asleep<T>() -> *mut T {
    std::ptr::without_provenance_mut(2 * align_of::<T>())
}

impl<T: Linked> Inbox<T> {
    pub(crate) fn new(admission: Arc<Admission>) -> Inbox<T> {
        Inbox {
            first: AtomicPtr::new(std::ptr::null_mut()),
            parker: Parker::new(),
            admission,
            hungry_at: AtomicU64::new(0),
            dispatches: AtomicU64::new(0),
            wait_for_room: AtomicU64::new(0),
        }
    }

    /// Hands a task to the worker, with the caller's reference to it.
    pub(crate) fn push(&self, task: NonNull<T>) -> Pushed {
        // Without a look, which would fetch the line twice: mostly it is empty.
        let mut first = std::ptr::null_mut();
        loop {
            let next = if first == asleep() { std::ptr::null_mut() } else { first };
            // SAFETY: the caller's reference.
            unsafe { task.as_ref() }.next_in_inbox().store(next, Ordering::Relaxed);
            match self.first.compare_exchange(first, task.as_ptr(), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) if now == shut() => return Pushed::Refused,
                Err(now) => first = now,
            }
        }
        if first == asleep() && self.admission.unpark(&self.parker) { Pushed::Woke } else { Pushed::Taken }
    }

    /// Wakes the worker if it sleeps. The caller has passed a full barrier since it changed what the worker
    /// is to see.
    pub(crate) fn wake(&self) {
        if self.first.load(Ordering::SeqCst) == asleep() && self.take_off_mark() {
            self.admission.unpark(&self.parker);
        }
    }

    /// Takes off the mark that the worker sleeps. True for the one thread that does it: the worker itself, or the one that then
    /// wakes it.
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

    /// Whether the worker sleeps, and how many dispatches it had made then.
    pub(crate) fn asleep_after(&self) -> Option<u64> {
        self.parker.is_asleep().then(|| self.dispatches.load(Ordering::Relaxed))
    }

    /// Takes all tasks, oldest first, each with its reference.
    pub(crate) fn take(&self) -> Tasks<T> {
        Tasks::reversed(self.first.swap(std::ptr::null_mut(), Ordering::Acquire))
    }

    /// Takes all tasks and refuses more.
    pub(crate) fn shut(&self) -> Tasks<T> {
        Tasks::reversed(self.first.swap(shut(), Ordering::Acquire))
    }

    /// Sleeps until another thread pushes or calls [`Inbox::wake`], unless a task came or there is `something` else to see to, which is
    /// to be looked at sequentially consistently. May return early.
    pub(crate) fn sleep(&self, something: impl FnOnce() -> bool) {
        let empty = std::ptr::null_mut();
        if self.first.compare_exchange(empty, asleep(), Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return;
        }
        barrier();
        if !something() {
            self.admission.park(&self.parker, None);
        }
        self.take_off_mark();
    }
}

// One line.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Inbox<u64>>() == 64);

/// Tasks taken from an inbox.
pub(crate) struct Tasks<T: Linked>(*mut T);

impl<T: Linked> Tasks<T> {
    fn reversed(mut newest: *mut T) -> Tasks<T> {
        let mut oldest = std::ptr::null_mut();
        if newest == shut() {
            return Tasks(oldest);
        }
        while let Some(task) = NonNull::new(newest) {
            // SAFETY: the inbox held a reference to each task in it; the links are ours since we took them.
            let next = unsafe { task.as_ref() }.next_in_inbox();
            fetch_to_write(next);
            newest = next.load(Ordering::Relaxed);
            next.store(oldest, Ordering::Relaxed);
            oldest = task.as_ptr();
        }
        Tasks(oldest)
    }
}

impl<T: Linked> Iterator for Tasks<T> {
    type Item = NonNull<T>;

    fn next(&mut self) -> Option<NonNull<T>> {
        let task = NonNull::new(self.0)?;
        // SAFETY: as in `reversed`.
        self.0 = unsafe { task.as_ref() }.next_in_inbox().load(Ordering::Relaxed);
        Some(task)
    }
}

impl<T: Linked> Drop for Tasks<T> {
    fn drop(&mut self) {
        for task in self.by_ref() {
            // SAFETY: the inbox's reference.
            unsafe { T::give_up(task.as_ptr()) }
        }
    }
}
