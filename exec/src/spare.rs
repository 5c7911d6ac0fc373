//! Memory of freed tasks and streams that a worker keeps for tasks and streams that are made later.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;

/// The number of freed values of which a thread keeps the memory: in a network that unfolds, new stages reuse
/// the memory of old ones.
const KEPT: usize = 128;

/// Memory of values that this thread has freed, to be used again; `None` if the thread keeps no memory.
pub(crate) struct Spare<T>(RefCell<Option<Vec<Box<MaybeUninit<T>>>>>);

/// A type with values in memory that threads keep.
pub(crate) trait Spared: Sized + 'static {
    /// Calls `work` with the calling thread's memory; returns `None` while the thread ends.
    fn with<R>(work: impl FnOnce(&Spare<Self>) -> R) -> Option<R>;
}

impl<T: Spared> Spare<T> {
    pub(crate) const fn new() -> Spare<T> {
        Spare(RefCell::new(None))
    }

    /// A value that lives until it is given to [`Spare::free`].
    pub(crate) fn make(value: T) -> NonNull<T> {
        Spare::fill(Spare::memory(), value)
    }

    /// Memory for a value. A caller that has the memory before it makes the value makes the value in place.
    #[inline]
    pub(crate) fn memory() -> Box<MaybeUninit<T>> {
        let memory = T::with(|spare| spare.0.borrow_mut().as_mut().and_then(Vec::pop)).flatten();
        memory.unwrap_or_else(Box::new_uninit)
    }

    /// Makes a value in this memory, which lives until it is given to [`Spare::free`].
    #[inline(always)]
    pub(crate) fn fill(memory: Box<MaybeUninit<T>>, value: T) -> NonNull<T> {
        NonNull::from(Box::leak(Box::write(memory, value)))
    }

    /// Drops a value.
    ///
    /// # Safety
    /// The value came from [`Spare::make`], and no code uses it any more.
    pub(crate) unsafe fn free(value: *mut T) {
        // SAFETY: guaranteed by the caller; the value is dropped once, before its memory is given away.
        let memory = unsafe {
            value.drop_in_place();
            Box::from_raw(value.cast::<MaybeUninit<T>>())
        };
        T::with(|spare| {
            if let Some(kept) = spare.0.borrow_mut().as_mut().filter(|kept| kept.len() < KEPT) {
                kept.push(memory);
            }
        });
    }
}

/// A value in memory from [`Spare`], which is freed when the value is dropped.
pub(crate) struct SpareBox<T: Spared>(NonNull<T>);

impl<T: Spared> SpareBox<T> {
    pub(crate) fn new(value: T) -> SpareBox<T> {
        SpareBox(Spare::make(value))
    }
}

impl<T: Spared> Deref for SpareBox<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `self` owns the value until it is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Spared> Drop for SpareBox<T> {
    fn drop(&mut self) {
        // SAFETY: the value came from `Spare::make`, and no other reference to it exists.
        unsafe { Spare::free(self.0.as_ptr()) }
    }
}

/// While a `Keeps<T>` lives, its thread keeps memory for values of `T`.
pub(crate) struct Keeps<T: Spared>(PhantomData<*const T>);

impl<T: Spared> Keeps<T> {
    pub(crate) fn new() -> Keeps<T> {
        T::with(|spare| spare.0.replace(Some(Vec::new())));
        Keeps(PhantomData)
    }
}

impl<T: Spared> Drop for Keeps<T> {
    fn drop(&mut self) {
        T::with(|spare| spare.0.replace(None));
    }
}

/// Declares the thread's memory for values of `$type`.
macro_rules! spared {
    ($type:ty) => {
        impl $crate::spare::Spared for $type {
            fn with<R>(work: impl FnOnce(&$crate::spare::Spare<$type>) -> R) -> Option<R> {
                std::thread_local! {
                    static SPARE: $crate::spare::Spare<$type> = const { $crate::spare::Spare::new() };
                }
                SPARE.try_with(work).ok()
            }
        }
    };
}
pub(crate) use spared;
