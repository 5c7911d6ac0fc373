//! A worker's inbox: the tasks that other threads made ready, and the worker's sleep.
//!
//! Invariant: a worker that sleeps has an empty inbox, or another thread is about to wake it. Instead of a
//! first task the inbox may hold a mark that the worker sleeps: a thread that pushes a task removes the mark
//! with the same instruction, and wakes the worker. Letters (requests to a worker) and the end of the run
//! are stored elsewhere: a thread that writes a letter or ends the run checks afterwards whether the worker
//! sleeps, and a worker that is about to sleep checks for letters and for the end after it has set the mark
//! that it sleeps, with a full barrier in between on both sides.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::parker::Parker;
use crate::sync::{AtomicPtr, AtomicU64, Ordering, barrier, fetch_to_write};
use crate::task::admission::Admission;

/// The result of a push into an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The worker has ended, so the caller keeps the reference to the task.
    Refused,
    /// The worker is awake and will take the task.
    Taken,
    /// The worker slept and was woken by a system call.
    Woke,
}

/// An item of an inbox: reference-counted, with a link to the item after it.
pub(crate) trait Linked: Sized {
    /// The link to the next item in the inbox. The link is written by the thread that pushes, and read by the
    /// thread that took the inbox's items.
    fn next_in_inbox(&self) -> &AtomicPtr<Self>;

    /// Gives up the inbox's reference.
    ///
    /// # Safety
    /// The inbox owned the reference, and no code uses `linked` through it any more.
    unsafe fn give_up(linked: *mut Self);
}

/// A worker's inbox, in a cache line of its own, because several workers write to it and one polls it while
/// it has no work.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Inbox<T> {
    /// The newest task in the inbox, or a mark. Any thread pushes tasks (sequentially consistent), and the
    /// worker takes them (acquire).
    first: AtomicPtr<T>,
    parker: Parker,
    /// Counts the threads that do not sleep.
    admission: Arc<Admission>,
    /// When the worker began to wait for a task from another worker; 0: it does not wait. The field is set by
    /// this worker, and cleared by this worker or by the worker that will give it a task.
    pub(crate) hungry_at: AtomicU64,
    /// The number of the worker's dispatches, and of its tasks that wait for room, when it last went to
    /// sleep.
    pub(crate) dispatches: AtomicU64,
    pub(crate) wait_for_room: AtomicU64,
}

/// The mark, in place of a first task, that the worker has ended.
fn shut<T>() -> *mut T {
    std::ptr::without_provenance_mut(align_of::<T>())
}

/// The mark, in place of a first task, that the worker sleeps or is about to sleep.
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
        // The push does not read the inbox first, because its cache line would then be fetched twice, but
        // assumes that the inbox is empty, as it mostly is.
        let mut first = std::ptr::null_mut();
        loop {
            let next = if first == asleep() { std::ptr::null_mut() } else { first };
            // SAFETY: the caller's reference keeps the task alive.
            unsafe { task.as_ref() }.next_in_inbox().store(next, Ordering::Relaxed);
            match self.first.compare_exchange(first, task.as_ptr(), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) if now == shut() => return Pushed::Refused,
                Err(now) => first = now,
            }
        }
        if first == asleep() && self.admission.unpark(&self.parker) { Pushed::Woke } else { Pushed::Taken }
    }

    /// Wakes the worker if it sleeps. The caller must have passed a full barrier since it made the change
    /// that the worker must see.
    pub(crate) fn wake(&self) {
        if self.first.load(Ordering::SeqCst) == asleep() && self.take_off_mark() {
            self.admission.unpark(&self.parker);
        }
    }

    /// Removes the mark that the worker sleeps. Returns true to exactly one thread: to the worker itself, or
    /// to the thread that must then wake the worker.
    fn take_off_mark(&self) -> bool {
        let none = std::ptr::null_mut();
        self.first.compare_exchange(asleep(), none, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.load(Ordering::Relaxed).is_null()
    }

    /// Whether the inbox has no task. The load is cheap, for a worker that polls and takes a task at once
    /// when it sees one.
    #[inline]
    pub(crate) fn is_still_empty(&self) -> bool {
        fetch_to_write(&self.first);
        self.is_empty()
    }

    /// The number of dispatches that the worker had made when it fell asleep; `None` if it is awake.
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

    /// Sleeps until another thread pushes or calls [`Inbox::wake`], but not longer than `timeout`, unless a task
    /// has come or `something` returns true, which must use sequentially consistent loads. The call may return
    /// early.
    pub(crate) fn sleep(&self, timeout: Option<Duration>, something: impl FnOnce() -> bool) {
        let empty = std::ptr::null_mut();
        if self.first.compare_exchange(empty, asleep(), Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return;
        }
        barrier();
        if !something() {
            self.admission.park(&self.parker, timeout);
        }
        self.take_off_mark();
    }
}

// The inbox fills one cache line.
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
            // SAFETY: the inbox held a reference to each task in it, and the links belong to this thread
            // since it took the tasks.
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
        // SAFETY: the inbox held a reference to each task in it, and the links belong to this thread since it
        // took the tasks.
        self.0 = unsafe { task.as_ref() }.next_in_inbox().load(Ordering::Relaxed);
        Some(task)
    }
}

impl<T: Linked> Drop for Tasks<T> {
    fn drop(&mut self) {
        for task in self.by_ref() {
            // SAFETY: this gives up the inbox's reference to the task.
            unsafe { T::give_up(task.as_ptr()) }
        }
    }
}
