//! Memory of freed tasks and streams that a worker keeps for tasks and streams that are made later.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;

/// The number of freed values of which a thread keeps the memory: in a network that unfolds, new stages reuse
/// the memory of old ones.
const KEPT: u32 = 128;

/// Memory of values that this thread has freed, to be used again: a list in which each block of memory begins
/// with the pointer to the next one.
pub(crate) struct Spare<T> {
    first: Cell<*mut Block>,
    /// The number of blocks that the list may still take; 0 if the thread keeps no memory.
    room: Cell<u32>,
    _values: PhantomData<fn(T)>,
}

/// The beginning of memory that is in a list.
struct Block {
    next: *mut Block,
}

/// A type with values in memory that threads keep.
pub(crate) trait Spared: Sized + 'static {
    /// Calls `work` with the calling thread's memory.
    fn with<R>(work: impl FnOnce(&Spare<Self>) -> R) -> R;
}

impl<T: Spared> Spare<T> {
    pub(crate) const fn new() -> Spare<T> {
        const { assert!(size_of::<T>() >= size_of::<Block>() && align_of::<T>() >= align_of::<Block>()) };
        Spare { first: Cell::new(std::ptr::null_mut()), room: Cell::new(0), _values: PhantomData }
    }

    /// A value that lives until it is given to [`Spare::free`].
    pub(crate) fn make(value: T) -> NonNull<T> {
        Spare::fill(Spare::memory(), value)
    }

    /// Memory for a value. A caller that has the memory before it makes the value makes the value in place.
    #[inline]
    pub(crate) fn memory() -> Box<MaybeUninit<T>> {
        T::with(Spare::take).unwrap_or_else(Box::new_uninit)
    }

    /// Takes memory out of the list.
    #[inline]
    fn take(&self) -> Option<Box<MaybeUninit<T>>> {
        let first = NonNull::new(self.first.get())?;
        // SAFETY: the list has the memory of values, each of which `Box` allocated, and begins with a block.
        unsafe {
            self.first.set(first.as_ref().next);
            self.room.set(self.room.get() + 1);
            Some(Box::from_raw(first.as_ptr().cast()))
        }
    }

    /// Makes a value in this memory, which lives until it is given to [`Spare::free`].
    #[inline(always)]
    pub(crate) fn fill(memory: Box<MaybeUninit<T>>, value: T) -> NonNull<T> {
        NonNull::from(Box::leak(Box::write(memory, value)))
    }

    /// Drops a value.
    ///
    /// # Safety
    /// The value came from [`Spare::make`] or [`Spare::fill`], and no code uses it any more.
    #[inline]
    pub(crate) unsafe fn free(value: *mut T) {
        // SAFETY: guaranteed by the caller; the value is dropped once, before its memory is given away.
        unsafe { value.drop_in_place() };
        T::with(|spare| {
            if spare.room.get() == 0 {
                // SAFETY: guaranteed by the caller; the memory has no value any more.
                return drop(unsafe { Box::from_raw(value.cast::<MaybeUninit<T>>()) });
            }
            let block = value.cast::<Block>();
            // SAFETY: the memory has no value any more, and is large enough for a block.
            unsafe { block.write(Block { next: spare.first.get() }) };
            spare.first.set(block);
            spare.room.set(spare.room.get() - 1);
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
        T::with(|spare| spare.room.set(KEPT));
        Keeps(PhantomData)
    }
}

impl<T: Spared> Drop for Keeps<T> {
    fn drop(&mut self) {
        T::with(|spare| {
            while spare.take().is_some() {}
            spare.room.set(0);
        });
    }
}

/// Declares the thread's memory for values of `$type`.
macro_rules! spared {
    ($type:ty) => {
        impl $crate::spare::Spared for $type {
            #[inline]
            fn with<R>(work: impl FnOnce(&$crate::spare::Spare<$type>) -> R) -> R {
                std::thread_local! {
                    static SPARE: $crate::spare::Spare<$type> = const { $crate::spare::Spare::new() };
                }
                SPARE.with(work)
            }
        }
    };
}
pub(crate) use spared;
