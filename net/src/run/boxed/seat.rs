//! The implementation of a box in a network, which may be replaced while its tasks run.
//!
//! Each task has a [`Seat`] of its own, which it holds during its calls of the box. A replacement waits until
//! the seat is not held. So a replacement happens between two calls, and an implementation that no seat has
//! any more is not called.
//!
//! A task holds its seat without an atomic read-modify-write, because it does so for each batch of records:
//! it stores that the seat is held, and then compares versions. The thread that replaces the box stores the
//! new version, makes every thread pass a barrier (`membarrier`), and then looks at the seats. So either this
//! thread sees that the seat is held, and waits, or the task sees the new version, and takes the seat's lock.
//! Where the kernel has no such barrier, both use a fence.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use thalweg_exec::{barrier_everywhere, register_barrier};

use crate::boxes::EntryOf;

/// How long a thread that replaces a box sleeps before it looks again whether a call has ended.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// The implementation of one box for all its tasks.
#[derive(Debug)]
pub(crate) struct Seats {
    inner: Mutex<Inner>,
    /// The number of replacements. Written under the lock of `inner`.
    version: AtomicU64,
    /// Whether the kernel offers barriers in all threads.
    has_barrier: bool,
}

#[derive(Debug)]
struct Inner {
    current: EntryOf,
    seats: Vec<Weak<Place>>,
}

/// The implementation for one task.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Place>);

/// A seat, as the task that has it and threads that replace the box know it.
struct Place {
    of: Arc<Seats>,
    /// Whether the task calls the box, or looks whether it may.
    is_held: AtomicBool,
    /// The version of `entry`. Written under `renewing`.
    version: AtomicU64,
    renewing: Mutex<()>,
    /// Written under `renewing`, while `version` is less than that of `of`, and the task does not hold the
    /// seat. Read by the task alone, which holds the seat and has found the versions equal since.
    entry: UnsafeCell<EntryOf>,
}

// SAFETY: the entry may be used by any thread, and no thread reads it while another one writes it, as the
// field says.
unsafe impl Sync for Place where EntryOf: Send + Sync {}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("version", &self.version).finish_non_exhaustive()
    }
}

/// The implementation, which is not replaced as long as this value exists.
pub(crate) struct Holding<'a> {
    place: &'a Place,
    _of: PhantomData<&'a mut Seat>,
}

impl Deref for Holding<'_> {
    type Target = EntryOf;
    #[inline]
    fn deref(&self) -> &EntryOf {
        // SAFETY: the seat is held, and its version was compared after that, so the entry is not written.
        unsafe { &*self.place.entry.get() }
    }
}

impl Drop for Holding<'_> {
    #[inline]
    fn drop(&mut self) {
        self.place.is_held.store(false, Ordering::Release);
    }
}

impl Seats {
    pub(crate) fn new(entry: EntryOf) -> Arc<Seats> {
        let inner = Mutex::new(Inner { current: entry, seats: Vec::new() });
        Arc::new(Seats { inner, version: AtomicU64::new(0), has_barrier: register_barrier() })
    }

    /// The present implementation.
    pub(crate) fn current(&self) -> EntryOf {
        locked(&self.inner).current.clone()
    }

    /// The present implementation, and its version.
    fn now(&self) -> (EntryOf, u64) {
        let inner = locked(&self.inner);
        (inner.current.clone(), self.version.load(Ordering::Relaxed))
    }

    /// A seat for a further task.
    pub(crate) fn take(self: &Arc<Self>) -> Seat {
        let (entry, version) = self.now();
        let place = Arc::new(Place {
            of: self.clone(),
            is_held: AtomicBool::new(false),
            version: AtomicU64::new(version),
            renewing: Mutex::new(()),
            entry: UnsafeCell::new(entry),
        });
        let mut inner = locked(&self.inner);
        if inner.seats.len() == inner.seats.capacity() {
            inner.seats.retain(|seat| seat.strong_count() > 0);
        }
        inner.seats.push(Arc::downgrade(&place));
        Seat(place)
    }

    /// Replaces the implementation for all tasks, after waiting until the tasks that call it have finished
    /// their calls.
    pub(crate) fn replace(&self, entry: EntryOf) {
        let mut inner = locked(&self.inner);
        inner.current = entry;
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        let seats = inner.seats.clone();
        drop(inner);
        barrier_everywhere();
        for place in seats.iter().filter_map(Weak::upgrade) {
            let _renewing = locked(&place.renewing);
            while place.version.load(Ordering::Relaxed) < version {
                if place.is_held.load(Ordering::SeqCst) {
                    std::thread::sleep(LOOK_AGAIN);
                } else {
                    // SAFETY: the lock is held. A task that uses an entry before this version has compared
                    // versions before the barrier, so this thread would have seen that it holds the seat.
                    unsafe { place.renew() }
                }
            }
        }
    }
}

impl Place {
    /// Whether the entry is the present one.
    #[inline]
    fn is_new(&self) -> bool {
        self.version.load(Ordering::Acquire) == self.of.version.load(Ordering::Relaxed)
    }

    /// Takes the present entry.
    ///
    /// # Safety
    /// The caller has the lock `renewing`, and the task does not use the seat's entry.
    unsafe fn renew(&self) {
        let (entry, version) = self.of.now();
        // SAFETY: as demanded of the caller.
        let former = unsafe { std::mem::replace(&mut *self.entry.get(), entry) };
        self.version.store(version, Ordering::Release);
        drop(former);
    }
}

impl Seat {
    /// The implementation, for calls. The implementation is not replaced until the guard is dropped.
    #[inline]
    pub(crate) fn hold(&mut self) -> Holding<'_> {
        let place = &*self.0;
        loop {
            place.is_held.store(true, Ordering::Relaxed);
            // The store must not be delayed until after the comparison.
            if place.of.has_barrier {
                compiler_fence(Ordering::SeqCst)
            } else {
                fence(Ordering::SeqCst)
            }
            if place.is_new() {
                return Holding { place, _of: PhantomData };
            }
            Seat::wait_for_new(place);
        }
    }

    #[cold]
    fn wait_for_new(place: &Place) {
        place.is_held.store(false, Ordering::Release);
        let _renewing = locked(&place.renewing);
        if !place.is_new() {
            // SAFETY: the lock is held, and this is the task, which does not hold the seat.
            unsafe { place.renew() }
        }
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
        let (mut calling, mut resting) = (seats.take(), seats.take());
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

    /// Two tasks call all the time while the box is replaced again and again. No task calls an older
    /// implementation after a newer one, and after each replacement nobody has the former implementation.
    #[test]
    fn tasks_that_call_all_the_time_get_each_replacement() {
        const LAST: u32 = 1000;
        let named = |number: u32| entry(&format!("b{number}"));
        let number = |held: &EntryOf| -> u32 {
            let signature = signature(held);
            signature.split([' ', 'b']).find_map(|word| word.parse().ok()).expect("a number")
        };
        let first = named(0);
        let seats = Seats::new(first.clone());
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let mut seat = seats.take();
                std::thread::spawn(move || {
                    let mut latest = 0;
                    while latest < LAST {
                        let held = seat.hold();
                        let now = number(&held);
                        assert!(now >= latest, "{now} after {latest}");
                        latest = now;
                    }
                })
            })
            .collect();
        let mut former = first;
        for at in 1..=LAST {
            let next = named(at);
            seats.replace(next.clone());
            let EntryOf::Program(former) = std::mem::replace(&mut former, next) else { unreachable!() };
            assert_eq!(Arc::strong_count(&former), 1, "somebody has implementation {}", at - 1);
        }
        tasks.into_iter().for_each(|task| task.join().unwrap());
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
