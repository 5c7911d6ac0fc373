//! What a worker lends to workers that have nothing to do, while it runs a task's code.
//!
//! Only a worker itself uses its queue of ready tasks, so a dispatch needs no lock and no atomic
//! read-modify-write. While the worker runs a task's code, it does not touch the queue: it *lends* it. Another
//! worker may use the queue then, if the worker cannot take the queue back at the same time. Both sides follow
//! this protocol:
//!
//! - the owner that takes the value back stores that it is not lent any more, and then checks whether another
//!   thread wants it; if so, the owner waits for the lock that this thread holds;
//! - the thread that borrows takes the lock, stores that it wants the value, makes every thread of the process
//!   pass a barrier (`membarrier`), and only then checks whether the value is lent.
//!
//! Because of the barrier, which only the borrower pays for, at least one of the two sees the store of the
//! other. For the owner lending and taking back are two plain stores and a load.

use std::cell::UnsafeCell;
use std::sync::PoisonError;

use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, barrier_for_owner};

/// A value that its owner uses, and that other threads may use while it is lent. It fills cache lines of its
/// own, because its owner writes to it twice a dispatch.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Lent<T> {
    /// How often the value was lent and taken back; odd while it is lent. Only the owner writes the field, with
    /// release when it lends the value.
    turn: AtomicU64,
    /// Whether the owner must take the lock when it takes the value back. The field is changed under the lock.
    is_wanted: AtomicBool,
    value: UnsafeCell<T>,
    /// Whether a borrower has changed the value since the owner lent it.
    is_changed: Mutex<bool>,
}

// SAFETY: the owner uses the value only while it is not lent, and others only under the lock while it is lent and
// cannot be taken back.
unsafe impl<T> Sync for Lent<T> {}
// SAFETY: the value is made before its owner's thread runs, and dropped after that thread has ended; a thread that
// borrows the value leaves nothing of its own in it.
unsafe impl<T> Send for Lent<T> {}

impl<T: Default> Default for Lent<T> {
    fn default() -> Lent<T> {
        Lent::new(T::default())
    }
}

impl<T> Lent<T> {
    pub(crate) fn new(value: T) -> Lent<T> {
        Lent {
            turn: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            value: UnsafeCell::new(value),
            is_changed: Mutex::new(false),
        }
    }

    /// The value. Only its owner may use the pointer, and not while the value is lent.
    #[inline(always)]
    pub(crate) fn value(&self) -> *mut T {
        self.value.get()
    }

    /// Lends the value. Only the owner calls this.
    #[inline(always)]
    pub(crate) fn lend(&self) {
        self.turn.store(self.turn.load(Ordering::Relaxed) | 1, Ordering::Release);
    }

    /// Takes the value back, if it is lent. Returns true if another thread has changed it meanwhile. Only the
    /// owner calls this.
    #[inline(always)]
    pub(crate) fn take_back(&self) -> bool {
        // Odd numbers go up by one, and even ones by two.
        self.turn.store((self.turn.load(Ordering::Relaxed) | 1) + 1, Ordering::Relaxed);
        barrier_for_owner();
        // A borrower that has ended has stored `false` with release, so what it read comes before what follows here.
        self.is_wanted.load(Ordering::Acquire) && self.take_back_wanted()
    }

    #[cold]
    #[inline(never)]
    fn take_back_wanted(&self) -> bool {
        let mut is_changed = self.is_changed.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_wanted.store(false, Ordering::Relaxed);
        std::mem::take(&mut *is_changed)
    }

    /// A number that stays the same as long as the owner does not take the value back; `None` if the value is
    /// not lent.
    pub(crate) fn lent_since(&self) -> Option<u64> {
        let turn = self.turn.load(Ordering::Relaxed);
        (turn & 1 == 1).then_some(turn)
    }

    /// Lets `work` use and change the value, if it is still lent as it was when [`Lent::lent_since`] returned
    /// `turn`, and no other thread uses it. `work` returns true if it changed the value.
    pub(crate) fn borrow(&self, turn: u64, work: impl FnOnce(&mut T) -> bool) -> bool {
        let Ok(mut is_changed) = self.is_changed.try_lock() else { return false };
        self.is_wanted.store(true, Ordering::SeqCst);
        crate::sync::barrier_everywhere();
        let is_lent = self.turn.load(Ordering::Acquire) == turn;
        // SAFETY: the value is lent, and the lock is held. The owner's next call of `take_back` sees that the
        // value is wanted, because it comes after the barrier that this thread made every thread pass, and so
        // waits for the lock.
        let changes = is_lent && work(unsafe { &mut *self.value.get() });
        *is_changed |= changes;
        if !*is_changed {
            self.is_wanted.store(false, Ordering::Release);
        }
        changes
    }
}
