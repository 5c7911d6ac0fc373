//! Wakes tasks of other threads, and source tasks that are held.

pub(crate) mod lent;
pub(crate) mod ready;

use std::ptr::NonNull;

use crate::ring::Holder;
use crate::sync::Ordering;
use crate::task::admission::Admission;
use crate::task::cell::TaskCell;
use crate::task::home::Home;
use crate::task::inbox::Pushed;
use crate::telemetry::{MadeReady, WatchedTask};

/// The result of waking a task of another thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Another thread woke the task first, or the task's worker has ended.
    Already,
    /// The task's thread is awake.
    Noted,
    /// The task's thread slept and was woken by a system call.
    Roused,
}

/// Wakes a task of another worker of the same runtime, or a blocking task.
pub(crate) fn wake_elsewhere(home: &Home, task: &TaskCell, ready: MadeReady) -> Woken {
    if task.in_inbox.load(Ordering::Relaxed) {
        // The swap below decides which thread wakes the task; this check only avoids overwriting the time
        // that the first waking thread stored.
    } else {
        task.set_woken(ready);
    }
    if task.in_inbox.swap(true, Ordering::AcqRel) {
        return Woken::Already;
    }
    // The task may run as soon as it is woken, and then shows a state of its own.
    task.show_woken(ready);
    if task.blocking {
        return if home.admission.unpark(&task.parker) { Woken::Roused } else { Woken::Noted };
    }
    match send(home, task.counted_reference()) {
        Pushed::Refused => Woken::Already,
        Pushed::Taken => Woken::Noted,
        Pushed::Woke => Woken::Roused,
    }
}

/// Puts a task of this runtime, with the caller's reference to it, into the inbox of its worker; if the inbox
/// refuses it, the reference is given up.
pub(crate) fn send(home: &Home, task: NonNull<TaskCell>) -> Pushed {
    // SAFETY: the caller's reference keeps the task alive.
    let worker = unsafe { task.as_ref() }.worker();
    let pushed = home.inboxes[worker as usize].push(task);
    if pushed == Pushed::Refused {
        // SAFETY: the inbox refused the task, so this call still owns the reference.
        unsafe { TaskCell::release(task.as_ptr()) }
    }
    pushed
}

/// Wakes a task from a thread that may not belong to the runtime.
pub(crate) fn wake_from_outside(task: &TaskCell) {
    let home = task.home.clone();
    let _ = wake_elsewhere(&home, task, MadeReady::default());
}

/// Holds a source's task, unless fewer than `limit` messages are under way: see [`Admission::hold`].
pub(crate) fn hold(admission: &Admission, task: &TaskCell, limit: u64) {
    let held = Held(task.counted_reference());
    admission.hold(task.id.0, move |admission| held.let_in(admission), limit);
}

/// A held source's task, with a reference.
struct Held(NonNull<TaskCell>);
// SAFETY: the cell may be shared between threads; a `Held` carries one reference to it.
unsafe impl Send for Held {}

impl Held {
    fn let_in(self, admission: &Admission) {
        // SAFETY: the reference keeps the task alive, and is given up after its last use.
        unsafe {
            admission.unpark(&self.0.as_ref().parker);
            TaskCell::release(self.0.as_ptr());
        }
    }
}
