//! The atomics, fences and slots that the streams and the wake-up protocol use.
//!
//! Under `cfg(loom)` the atomics, fences and slots are loom's types, so loom's models run the same code
//! (`cargo xtask test` runs the models). ThreadSanitizer does not understand fences, and should run the code
//! unchanged, so the protocol uses sequentially consistent *accesses*: on x86-64 a sequentially consistent
//! store is an `xchg`, which is a full barrier.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};

use std::mem::MaybeUninit;

/// Locks a mutex and ignores poisoning, for data that stay valid if a thread panics.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A store that no later load of the same thread can overtake.
pub(crate) trait StoreFenced {
    type Value;
    /// Stores with release and then acts as a full barrier. The later load that must not overtake the store
    /// has to be `Ordering::SeqCst`.
    fn store_fenced(&self, value: Self::Value);
}

macro_rules! store_fenced {
    ($($atomic:ty = $value:ty),*) => {$(
        impl StoreFenced for $atomic {
            type Value = $value;
            #[inline]
            fn store_fenced(&self, value: $value) {
                self.store(value, Ordering::SeqCst);
                barrier();
            }
        }
    )*};
}
store_fenced!(AtomicUsize = usize, AtomicU32 = u32, AtomicU64 = u64, AtomicU8 = u8, AtomicBool = bool);

/// The full barrier after a sequentially consistent store or read-modify-write. The function is empty on
/// x86-64, where such an access is a full barrier already.
#[inline]
pub(crate) fn barrier() {
    if cfg!(any(loom, not(target_arch = "x86_64"))) {
        fence(Ordering::SeqCst);
    }
}

/// What the owner's side of a lent value (`wake/lent.rs`) needs between its store and its load: only that the
/// compiler keeps their order, because the other side lets the kernel make the barrier.
#[inline(always)]
pub(crate) fn barrier_for_owner() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Makes every thread of the process pass a full barrier (Linux's `membarrier`).
pub(crate) fn barrier_everywhere() {
    #[cfg(not(loom))]
    crate::affinity::barrier_everywhere();
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Fetches a cache line in the exclusive state, for writing. A thread that reads the line before it writes
/// would fetch the line twice.
#[inline(always)]
pub(crate) fn fetch_to_write<T>(at: &T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: the instruction is a hint that only changes the cache's contents, and the address is valid.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = at;
}

/// The memory for one message of a stream.
#[cfg_attr(not(loom), repr(transparent))]
pub(crate) struct Slot<T>(
    #[cfg(loom)] loom::cell::UnsafeCell<MaybeUninit<T>>,
    #[cfg(not(loom))] std::cell::UnsafeCell<MaybeUninit<T>>,
);

impl<T> Slot<T> {
    pub(crate) fn empty() -> Slot<T> {
        #[cfg(loom)]
        return Slot(loom::cell::UnsafeCell::new(MaybeUninit::uninit()));
        #[cfg(not(loom))]
        return Slot(std::cell::UnsafeCell::new(MaybeUninit::uninit()));
    }

    /// # Safety
    /// The caller is the stream's writer and the slot holds no message.
    #[inline]
    pub(crate) unsafe fn write(&self, value: T) {
        #[cfg(loom)]
        // SAFETY: guaranteed by the caller.
        self.0.with_mut(|slot| unsafe {
            (*slot).write(value);
        });
        #[cfg(not(loom))]
        // SAFETY: guaranteed by the caller.
        unsafe {
            (*self.0.get()).write(value);
        }
    }

    /// Calls `look` with the message.
    ///
    /// # Safety
    /// The slot holds a message, and during the call no thread changes the message or takes it out.
    #[inline]
    pub(crate) unsafe fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        #[cfg(loom)]
        // SAFETY: guaranteed by the caller.
        return self.0.with(|slot| look(unsafe { (*slot).assume_init_ref() }));
        #[cfg(not(loom))]
        // SAFETY: guaranteed by the caller.
        look(unsafe { (*self.0.get()).assume_init_ref() })
    }

    /// # Safety
    /// The caller is the stream's reader and the slot holds a message, which it gives away.
    #[inline]
    pub(crate) unsafe fn read(&self) -> T {
        #[cfg(loom)]
        // SAFETY: guaranteed by the caller.
        return self.0.with(|slot| unsafe { (*slot).assume_init_read() });
        #[cfg(not(loom))]
        // SAFETY: guaranteed by the caller.
        unsafe {
            (*self.0.get()).assume_init_read()
        }
    }
}
