//! The library whose functions free a value: its values are counted, so that a library that was replaced can
//! be unloaded.
//!
//! The program makes an [`Owner`] for each library that it loads. A library counts a value when it makes one. The side that
//! drops a value for the last time counts it off, in code of its own, after the library's function has
//! returned. Because a value is counted off after it was freed, no thread is inside a function that frees a
//! value when the count is zero.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The count of the values that refer to a library; it belongs to the program.
#[repr(C)]
pub struct Owner {
    /// Functions of the program that add 1 to the count, and subtract 1 from it.
    made: unsafe extern "C" fn(*const Owner),
    gone: unsafe extern "C" fn(*const Owner),
    /// Used by the program only. Each share is written by the threads that use it; their wrapping sum is the
    /// count.
    shares: [Share; SHARES],
}

const SHARES: usize = 16;

/// A cache line, so that threads count without sharing lines.
#[repr(C, align(64))]
struct Share(AtomicU64);

/// The cell in which a library keeps the owner that the program gave it; null in the program itself.
pub(super) type OwnerCell = AtomicPtr<Owner>;

/// The owner of this library's values.
pub(super) static OWNER: OwnerCell = AtomicPtr::new(std::ptr::null_mut());

impl Owner {
    /// An owner without values, at a fixed address.
    #[allow(clippy::new_without_default, reason = "it is made for one library")]
    pub fn new() -> Box<Owner> {
        Box::new(Owner { made, gone, shares: [const { Share(AtomicU64::new(0)) }; SHARES] })
    }

    /// An upper bound of the number of values, which includes values that are being dropped. Zero is final
    /// once the library makes no more values.
    pub fn count(&self) -> u64 {
        // Acquire, paired with the release in `gone`: all uses of dropped values happened before.
        self.shares.iter().fold(0, |sum, share| sum.wrapping_add(share.0.load(Ordering::Acquire)))
    }

    fn share(&self) -> &AtomicU64 {
        &self.shares[SHARE.with(|share| *share)].0
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Owner of {} values", self.count())
    }
}

thread_local! {
    static SHARE: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % SHARES
    };
}

unsafe extern "C" fn made(owner: *const Owner) {
    // SAFETY: a library calls this while it is loaded, and its owner lives at least as long.
    unsafe { (*owner).share().fetch_add(1, Ordering::Relaxed) };
}

unsafe extern "C" fn gone(owner: *const Owner) {
    // SAFETY: the value that goes was counted, so the owner lives until this is done.
    unsafe { (*owner).share().fetch_sub(1, Ordering::Release) };
}

/// Counts a value of this library that was just made.
#[inline]
pub(super) fn count_made() {
    // A relaxed load suffices, because the program stores the owner before it calls the library.
    let owner = OWNER.load(Ordering::Relaxed);
    if !owner.is_null() {
        // SAFETY: the program's owner lives as long as this library.
        unsafe { ((*owner).made)(owner) }
    }
}

/// Counts off a value that belonged to `owner`, if it had one.
#[inline]
pub(super) fn count_gone_from(owner: *const Owner) {
    if !owner.is_null() {
        // SAFETY: the owner's count includes this value until `gone` is called, so the owner is still alive.
        unsafe { ((*owner).gone)(owner) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_for_each_other() {
        let owner = Owner::new();
        let owner = &*owner;
        // SAFETY: the owner lives.
        let make = || (0..100).for_each(|_| unsafe { made(owner) });
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARES {
                scope.spawn(make);
            }
        });
        assert_eq!(owner.count(), 200 * SHARES as u64);
        // SAFETY: the owner lives, and each value that goes was made.
        (0..200 * SHARES).for_each(|_| unsafe { gone(owner) });
        assert_eq!(owner.count(), 0);
    }
}
