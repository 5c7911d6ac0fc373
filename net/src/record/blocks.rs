//! The memory of records: blocks of a few sizes, and the lists of free blocks.
//!
//! A block is one, two or four cache lines (3, 7 or 15 slots); a larger one is allocated with its exact size.
//! A thread keeps the blocks that it freed, the latest on top, and allocates from the top. Surplus blocks go
//! to other threads in batches, through a depot. Lists and depot are bounded: blocks beyond the bound return
//! to the allocator.
//!
//! If records go from one thread to another, most blocks come from the depot, and their cache lines are still
//! in the cache of another core: loading one line takes as long as many calls of small boxes. So free blocks
//! are kept as a list of addresses and not as a linked list, and the next blocks are prefetched, several at
//! once.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_box::Value;

use crate::shape::ShapeId;

/// The header of a block; the slots follow it.
#[repr(C)]
pub(super) struct Header {
    pub(super) shape: ShapeId,
    pub(super) length: u16,
    pub(super) capacity: u16,
    /// The groups of records that end with this record: see [`Ends`](super::Ends).
    pub(super) ends: usize,
}

pub(super) const SLOTS_OFFSET: usize = size_of::<Header>();
const _: () = assert!(SLOTS_OFFSET == 16 && size_of::<Value>() == 16 && align_of::<Value>() <= 16);

/// The first slot of a block.
///
/// # Safety
/// `block` points to a block.
#[inline]
pub(super) unsafe fn slots_of(block: *mut Header) -> *mut Value {
    // SAFETY: every block has room for the header and its slots.
    unsafe { block.cast::<u8>().add(SLOTS_OFFSET).cast() }
}

/// The number of block sizes whose free blocks are kept: 3, 7 and 15 slots, with the header 64, 128 and 256
/// bytes.
const CLASSES: usize = 3;
const POOLED_CAPACITY_MAX: usize = 15;
/// The most free blocks of a size that a thread keeps.
const LIST_MAX: usize = 256;
/// The number of blocks that threads exchange at once.
const BATCH: usize = 64;
/// The most batches of a size in the depot.
const DEPOT_BATCHES_MAX: usize = 128;
/// The number of blocks by which the first cache line of a free block is prefetched ahead of its use.
const AHEAD: usize = 8;

/// A thread's free blocks of one size, the latest on top.
struct FreeList {
    blocks: [Cell<*mut Header>; LIST_MAX],
    count: Cell<usize>,
    /// The most blocks that the list accepts: [`LIST_MAX`] while the pool is open, else 0.
    limit: Cell<usize>,
}

struct Pool {
    lists: [FreeList; CLASSES],
    open: Cell<bool>,
}

thread_local! {
    // The pool has no destructor, so that every access is one address; `Closer` empties it.
    static POOL: Pool = const {
        Pool { lists: [const { FreeList::new() }; CLASSES], open: Cell::new(false) }
    };
    static CLOSER: Closer = const { Closer };
}

/// Gives a thread's free blocks back when the thread ends.
struct Closer;

impl Drop for Closer {
    fn drop(&mut self) {
        POOL.with(|pool| {
            pool.open.set(false);
            for list in &pool.lists {
                list.limit.set(0);
                let count = list.count.replace(0);
                // SAFETY: the list owned these blocks and is now empty.
                list.blocks[..count].iter().for_each(|block| unsafe { deallocate(block.get()) });
            }
        });
    }
}

impl FreeList {
    const fn new() -> FreeList {
        FreeList {
            blocks: [const { Cell::new(ptr::null_mut()) }; LIST_MAX],
            count: Cell::new(0),
            limit: Cell::new(0),
        }
    }

    /// Removes and returns the block on top.
    #[inline]
    fn pop(&self) -> Option<NonNull<Header>> {
        let count = self.count.get();
        let next = count.checked_sub(1)?;
        if count > AHEAD {
            fetch(self.blocks[next - AHEAD].get());
        }
        self.count.set(next);
        NonNull::new(self.blocks[next].get())
    }

    /// Puts a block on top; false if the list is full or closed.
    #[inline]
    fn push(&self, block: *mut Header) -> bool {
        let count = self.count.get();
        if count >= self.limit.get() {
            return false;
        }
        self.blocks[count].set(block);
        self.count.set(count + 1);
        true
    }

    /// Removes the batch that was freed first, because blocks freed last may still be in this core's cache.
    fn take_oldest(&self) -> Batch {
        let batch = Batch(std::array::from_fn(|at| self.blocks[at].get()));
        let left = self.count.get() - BATCH;
        for at in 0..left {
            self.blocks[at].set(self.blocks[at + BATCH].get());
        }
        self.count.set(left);
        batch
    }

    /// Fills an empty list with a batch.
    fn fill(&self, Batch(blocks): Batch) {
        blocks[BATCH - AHEAD..].iter().rev().for_each(|&block| fetch(block));
        self.blocks.iter().zip(blocks).for_each(|(place, block)| place.set(block));
        self.count.set(BATCH);
    }
}

/// Prefetches the first line of a block for writing.
#[inline(always)]
fn fetch(block: *mut Header) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is a hint that changes only the cache, for any address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) block, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = block;
}

/// Batches of free blocks of one size, from threads that free more than they make for those that make more than they free.
struct Depot {
    batches: Mutex<Vec<Batch>>,
    /// The number of batches: written under the lock; read without it, as a hint.
    count: AtomicUsize,
}

/// A batch of free blocks, the unit that threads exchange.
struct Batch([*mut Header; BATCH]);
// SAFETY: a batch owns its blocks, which hold no values.
unsafe impl Send for Batch {}

static DEPOT: [Depot; CLASSES] =
    [const { Depot { batches: Mutex::new(Vec::new()), count: AtomicUsize::new(0) } }; CLASSES];

impl Depot {
    fn lock(&self) -> MutexGuard<'_, Vec<Batch>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a batch in the depot. Returns the batch if the depot is full.
    fn put(&self, batch: Batch) -> Option<Batch> {
        let mut batches = self.lock();
        if batches.len() >= DEPOT_BATCHES_MAX {
            return Some(batch);
        }
        batches.push(batch);
        self.count.store(batches.len(), Ordering::Relaxed);
        None
    }

    fn take(&self) -> Option<Batch> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut batches = self.lock();
        let batch = batches.pop();
        self.count.store(batches.len(), Ordering::Relaxed);
        batch
    }
}

/// The class whose blocks have space for `length` values, and their capacity.
#[inline]
fn class_for(length: usize) -> (usize, usize) {
    match length {
        0..=3 => (0, 3),
        4..=7 => (1, 7),
        _ => (2, 15),
    }
}

fn layout_of(capacity: usize) -> Layout {
    let size = SLOTS_OFFSET + capacity * size_of::<Value>();
    Layout::from_size_align(size, 64).expect("a record has at most LABELS_MAX labels")
}

/// A block with room for `length` values; only its capacity is set.
#[inline]
pub(super) fn allocate(length: usize) -> NonNull<Header> {
    if length > POOLED_CAPACITY_MAX {
        return allocate_new(length);
    }
    let (class, capacity) = class_for(length);
    POOL.with(|pool| pool.lists[class].pop().unwrap_or_else(|| refill(pool, class, capacity)))
}

/// Gets a block for a thread whose list is empty, from a batch of the depot or from the allocator.
#[cold]
fn refill(pool: &Pool, class: usize, capacity: usize) -> NonNull<Header> {
    if open(pool)
        && let Some(batch) = DEPOT[class].take()
    {
        pool.lists[class].fill(batch);
    }
    pool.lists[class].pop().unwrap_or_else(|| allocate_new(capacity))
}

#[cold]
fn allocate_new(capacity: usize) -> NonNull<Header> {
    let layout = layout_of(capacity);
    // SAFETY: the layout has a size.
    let block = unsafe { alloc(layout) }.cast::<Header>();
    let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
    let header = Header { shape: ShapeId::UNSET, length: 0, capacity: capacity as u16, ends: 0 };
    // SAFETY: the block was just allocated, and is large enough and aligned.
    unsafe { block.as_ptr().write(header) };
    block
}

/// Releases a block.
///
/// # Safety
/// The caller owns the block, which holds no values any more, and does not use the block after the call.
#[inline]
pub(super) unsafe fn release(block: *mut Header) {
    // SAFETY: the caller owns the block, whose header was initialised when the block was allocated.
    let capacity = unsafe { (*block).capacity } as usize;
    if capacity > POOLED_CAPACITY_MAX {
        // SAFETY: the caller owns the block, and does not use it again.
        return unsafe { deallocate(block) };
    }
    POOL.with(|pool| {
        let class = class_for(capacity).0;
        if !pool.lists[class].push(block) {
            release_otherwise(pool, class, block);
        }
    });
}

/// Releases a block when the thread's list is full or was never used. The caller owns the block and does not
/// use it again.
#[cold]
fn release_otherwise(pool: &Pool, class: usize, block: *mut Header) {
    let list = &pool.lists[class];
    if open(pool)
        && list.count.get() == LIST_MAX
        && let Some(Batch(blocks)) = DEPOT[class].put(list.take_oldest())
    {
        // SAFETY: these blocks are in no list any more.
        blocks.into_iter().for_each(|block| unsafe { deallocate(block) });
    }
    if !list.push(block) {
        // SAFETY: the caller owns the block, and does not use it again.
        unsafe { deallocate(block) }
    }
}

/// Whether the thread keeps free blocks: from its first record on until it ends.
fn open(pool: &Pool) -> bool {
    // Once the destructor of `CLOSER` has emptied the lists, they stay empty.
    if !pool.open.get() && CLOSER.try_with(|_| ()).is_ok() {
        pool.open.set(true);
        pool.lists.iter().for_each(|list| list.limit.set(LIST_MAX));
    }
    pool.open.get()
}

/// # Safety
/// The caller owns the block, which holds no values, and does not use the block after the call.
unsafe fn deallocate(block: *mut Header) {
    // SAFETY: the caller owns the block, which was allocated with the layout of its capacity, and the
    // capacity never changes.
    unsafe { dealloc(block.cast(), layout_of((*block).capacity as usize)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::Label;
    use crate::record::Record;
    use crate::shape;

    /// Checks that the lists of this thread and the depot stay within their bounds, and hold no block twice.
    fn assert_bounds() {
        let mut kept = Vec::new();
        POOL.with(|pool| {
            for list in &pool.lists {
                assert!(list.count.get() <= LIST_MAX && list.limit.get() == LIST_MAX);
                kept.extend(list.blocks[..list.count.get()].iter().map(|block| block.get()));
            }
        });
        for depot in &DEPOT {
            let batches = depot.lock();
            assert!(batches.len() <= DEPOT_BATCHES_MAX);
            kept.extend(batches.iter().flat_map(|Batch(blocks)| blocks));
        }
        let count = kept.len();
        kept.sort_unstable();
        kept.dedup();
        assert_eq!(kept.len(), count, "a block is kept twice");
        assert!(!kept.contains(&ptr::null_mut()));
    }

    #[test]
    fn lists_and_depot_keep_their_bounds() {
        let shapes = [2, 5, 11].map(|count: usize| {
            shape::of(&(0..count).map(|i| Label::tag(&format!("bounds_{i}"))).collect::<Vec<_>>())
        });
        let make = move |count: usize| -> Vec<Record> {
            shapes.iter().flat_map(|&shape| (0..count).map(move |_| Record::with_shape(shape))).collect()
        };
        for count in [10, 300, 5_000, 20_000] {
            let records = std::thread::spawn(move || {
                let records = make(count);
                assert_bounds();
                records
            });
            let records = records.join().unwrap();
            std::thread::spawn(move || {
                drop(records);
                assert_bounds();
                // Blocks come first from the list, then from the depot, then from the allocator.
                let records = make(count);
                assert_bounds();
                drop(records);
                assert_bounds();
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn what_was_freed_first_goes_to_others_and_what_was_freed_last_is_used_first() {
        let list = FreeList::new();
        list.limit.set(LIST_MAX);
        let block = |number: usize| ptr::without_provenance_mut::<Header>(64 * (number + 1));
        assert!((0..LIST_MAX).all(|number| list.push(block(number))));
        assert!(!list.push(block(LIST_MAX)));
        let Batch(oldest) = list.take_oldest();
        assert!(oldest.iter().enumerate().all(|(number, &oldest)| oldest == block(number)));
        for number in (BATCH..LIST_MAX).rev() {
            assert_eq!(list.pop().map(NonNull::as_ptr), Some(block(number)));
        }
        assert_eq!(list.pop(), None);
        list.fill(Batch(oldest));
        assert_eq!(list.pop().map(NonNull::as_ptr), Some(block(BATCH - 1)));
        assert_eq!(list.count.get(), BATCH - 1);
    }
}
