//! The memory of tasks and streams: blocks of few hundred bytes, cut from *slabs*.
//!
//! A slab is 16 KiB of memory with blocks of one size. It belongs to the thread that made it: a worker has
//! a pool of slabs for each size, and threads that are no workers share a pool behind a lock. The pool's
//! thread takes a block, and gives one back, in a few instructions without any atomic operation that
//! writes. Any other thread *returns* a block to the slab that it came from. The slab's thread takes
//! returned blocks when the slab has no other free block. A slab without blocks in use goes back to the
//! allocator, or to the *region* that it came from: when the process has many slabs, further ones come from
//! pieces of 2 MiB (`region`).
//!
//! When a worker ends, blocks of its slabs may still be in use. The slabs are then *left*: the thread that
//! returns the last block of such a slab gives the slab back.
//!
//! Under loom each block comes from the allocator; a model runs the protocol of returned blocks by itself.

#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod region;
#[cfg(any(test, not(loom)))]
mod returned;

use std::alloc::Layout;
use std::ops::Deref;
use std::ptr::NonNull;

#[cfg(not(loom))]
pub(crate) use pool::{Keeps, trim};

/// Under loom, threads have no slabs.
#[cfg(loom)]
pub(crate) struct Keeps;

#[cfg(loom)]
impl Keeps {
    pub(crate) fn new() -> Keeps {
        Keeps
    }
}

#[cfg(loom)]
pub(crate) fn trim() {}

/// The bytes of tasks and streams for which the process has memory from the system itself, and which the
/// allocator's own counts therefore do not show: see `exec/DESIGN.md`.
pub fn region_bytes() -> usize {
    #[cfg(not(loom))]
    return region::bytes();
    #[cfg(loom)]
    0
}

/// The unit of sizes of blocks, and the alignment of blocks, in bytes.
pub(crate) const UNIT: usize = 8;

/// The size in bytes of the largest blocks. Larger memory comes from the allocator.
#[cfg(not(loom))]
pub(crate) const BLOCK_MAX: usize = 512;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.next_multiple_of(UNIT), UNIT).expect("a block fits into an address space")
}

/// Memory of so many bytes, at least one, aligned to [`UNIT`], which lives until it is given to [`free`].
#[inline]
pub(crate) fn allocate(bytes: usize) -> NonNull<u8> {
    #[cfg(not(loom))]
    if bytes <= BLOCK_MAX {
        return pool::allocate(bytes.div_ceil(UNIT));
    }
    allocate_large(bytes)
}

#[cold]
fn allocate_large(bytes: usize) -> NonNull<u8> {
    debug_assert!(bytes > 0);
    // SAFETY: the layout has a size greater than 0, which callers guarantee.
    let memory = unsafe { std::alloc::alloc(layout(bytes)) };
    NonNull::new(memory).unwrap_or_else(|| std::alloc::handle_alloc_error(layout(bytes)))
}

/// Gives memory back.
///
/// # Safety
/// The memory came from [`allocate`] with as many bytes, and no code uses it any more.
#[inline]
pub(crate) unsafe fn free(memory: NonNull<u8>, bytes: usize) {
    #[cfg(not(loom))]
    if bytes <= BLOCK_MAX {
        // SAFETY: guaranteed by the caller.
        return unsafe { pool::free(memory) };
    }
    // SAFETY: guaranteed by the caller; memory of this size came from the allocator.
    unsafe { std::alloc::dealloc(memory.as_ptr(), layout(bytes)) }
}

/// Memory for a value. A caller that has the memory before it makes the value makes the value in place.
#[inline]
pub(crate) fn memory<T>() -> NonNull<T> {
    const { assert!(size_of::<T>() > 0 && align_of::<T>() <= UNIT) };
    allocate(size_of::<T>()).cast()
}

/// A value that lives until it is given to [`free_value`].
#[inline]
pub(crate) fn make<T>(value: T) -> NonNull<T> {
    let memory = memory::<T>();
    // SAFETY: the memory is as large as a value, and no other code has it.
    unsafe { memory.write(value) };
    memory
}

/// Drops a value and gives its memory back.
///
/// # Safety
/// The value was written into memory from [`memory`], or comes from [`make`], and no code uses it any more.
#[inline]
pub(crate) unsafe fn free_value<T>(value: NonNull<T>) {
    // SAFETY: guaranteed by the caller; the value is dropped once, before its memory is given away.
    unsafe {
        value.drop_in_place();
        free(value.cast(), size_of::<T>());
    }
}

/// A value in a block, which is freed when the value is dropped.
pub(crate) struct SlabBox<T>(NonNull<T>);

impl<T> SlabBox<T> {
    pub(crate) fn new(value: T) -> SlabBox<T> {
        SlabBox(make(value))
    }
}

impl<T> Deref for SlabBox<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `self` owns the value until it is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for SlabBox<T> {
    fn drop(&mut self) {
        // SAFETY: the value came from `make`, and no other reference to it exists.
        unsafe { free_value(self.0) }
    }
}
