//! The implementation of a box in a network, which may be replaced while its tasks run.
//!
//! Each task has a [`Seat`] of its own, a lock that it holds during its calls of the box. Only a replacement
//! contends for the lock. So a replacement happens between two calls, and an implementation that no seat has
//! any more is not called.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::boxes::EntryOf;

/// The implementation of one box for all its tasks.
#[derive(Debug)]
pub(crate) struct Seats {
    inner: Mutex<Inner>,
    /// The number of replacements. Written under the lock of `inner`. Relaxed ordering suffices: if a task
    /// reads an old number, the thread that replaces the box replaces the implementation in the task's seat,
    /// too.
    version: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    current: EntryOf,
    seats: Vec<Weak<Seat>>,
}

/// The implementation for one task.
#[derive(Debug)]
pub(crate) struct Seat {
    of: Arc<Seats>,
    held: Mutex<Held>,
}

/// An implementation, and its version.
#[derive(Debug)]
pub(crate) struct Held {
    entry: EntryOf,
    version: u64,
}

impl std::ops::Deref for Held {
    type Target = EntryOf;
    #[inline]
    fn deref(&self) -> &EntryOf {
        &self.entry
    }
}

impl Seats {
    pub(crate) fn new(entry: EntryOf) -> Arc<Seats> {
        let inner = Mutex::new(Inner { current: entry, seats: Vec::new() });
        Arc::new(Seats { inner, version: AtomicU64::new(0) })
    }

    /// The present implementation.
    pub(crate) fn current(&self) -> EntryOf {
        locked(&self.inner).current.clone()
    }

    fn now(&self) -> Held {
        let inner = locked(&self.inner);
        Held { entry: inner.current.clone(), version: self.version.load(Ordering::Relaxed) }
    }

    /// A seat for a further task.
    pub(crate) fn take(self: &Arc<Self>) -> Arc<Seat> {
        let seat = Arc::new(Seat { of: self.clone(), held: Mutex::new(self.now()) });
        let mut inner = locked(&self.inner);
        if inner.seats.len() == inner.seats.capacity() {
            inner.seats.retain(|seat| seat.strong_count() > 0);
        }
        inner.seats.push(Arc::downgrade(&seat));
        seat
    }

    /// Replaces the implementation for all tasks, after waiting until the tasks that call it have finished
    /// their calls.
    pub(crate) fn replace(&self, entry: EntryOf) {
        let mut inner = locked(&self.inner);
        inner.current = entry;
        self.version.fetch_add(1, Ordering::Relaxed);
        let seats = inner.seats.clone();
        drop(inner);
        for seat in seats.iter().filter_map(Weak::upgrade) {
            seat.renew(&mut locked(&seat.held));
        }
    }
}

impl Seat {
    /// The implementation, for calls. The implementation is not replaced until the guard is dropped.
    #[inline]
    pub(crate) fn hold(&self) -> MutexGuard<'_, Held> {
        let mut held = locked(&self.held);
        // Without this check, a task that locks its seat again and again could starve the thread that
        // replaces the box.
        if held.version != self.of.version.load(Ordering::Relaxed) {
            self.renew(&mut held);
        }
        held
    }

    #[cold]
    fn renew(&self, held: &mut Held) {
        *held = self.of.now();
    }
}

/// Ignores poisoning, because a panic under these locks leaves every step either done or not begun.
#[inline]
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use thalweg_box::{BoxEntry, Out};

    fn entry(name: &str) -> EntryOf {
        let signature = format!("box {name} ((n) -> )");
        EntryOf::Program(Arc::new(BoxEntry::new(&signature, |_: i64, _: &mut Out| {})))
    }

    fn signature(held: &EntryOf) -> String {
        held.signature().unwrap().to_owned()
    }

    #[test]
    fn a_replacement_waits_for_calls_and_reaches_tasks_that_rest() {
        let seats = Seats::new(entry("old"));
        let old = Arc::downgrade(match &seats.current() {
            EntryOf::Program(entry) => entry,
            EntryOf::Library(_) => unreachable!("it is of this program"),
        });
        let (calling, resting) = (seats.take(), seats.take());
        let held = calling.hold();
        let (told, done) = channel();
        let replacing = std::thread::spawn({
            let seats = seats.clone();
            move || {
                seats.replace(entry("new"));
                told.send(()).unwrap();
            }
        });
        assert_eq!(signature(&held), "box old ((n) -> )");
        while seats.version.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        assert!(done.try_recv().is_err(), "it waits for the call");
        assert_eq!(signature(&resting.hold()), "box new ((n) -> )");
        drop(held);
        replacing.join().unwrap();
        assert_eq!(signature(&calling.hold()), "box new ((n) -> )");
        assert_eq!(signature(&seats.take().hold()), "box new ((n) -> )");
        assert!(old.upgrade().is_none(), "nobody keeps the old one");
    }

    #[test]
    fn seats_of_tasks_that_ended_are_forgotten() {
        let seats = Seats::new(entry("one"));
        for _ in 0..1000 {
            drop(seats.take());
        }
        assert!(locked(&seats.inner).seats.len() < 10);
    }
}
