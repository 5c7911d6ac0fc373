//! Slabs, and the pools of slabs that threads have.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::returned::{Gave, Returned};
use super::{BLOCK_MAX, UNIT, region};
use crate::sync::lock;

/// The alignment of slabs, by which the slab of a block is found.
pub(super) const SLAB_ALIGN: usize = 16 << 10;

/// The bytes that a slab from the allocator leaves to it: the allocator's header of the next slab fits there.
const BETWEEN: usize = 16;

/// The size of the first slab of a pool for each size of blocks. Each further slab is twice as large as the
/// one before, up to the alignment, so that a small network takes little memory.
const FIRST_SLAB: usize = 1 << 10;

/// The number of slabs in which a thread looks for returned blocks before it makes a new slab: fewer, down
/// to the least number, after looks that found nothing. Most slabs are full, and a look at one loads a
/// cache line.
const LOOKED_AT: u8 = 8;
const LOOKED_AT_LEAST: u8 = 2;

/// The number of slabs of each size in which a worker looks before it sleeps.
const LOOKED_AT_IDLE: usize = 256;

/// The beginning of a slab, before its blocks.
#[repr(C)]
struct Slab {
    /// The pool that the slab is in: the address of a worker's pool, [`SHARED`] or [`LEFT`]. The field is
    /// written by the slab's thread. Other threads compare it with the address of their own pool only.
    owner: AtomicPtr<Pool>,
    returned: Returned,
    /// The first free block, which contains the place of the next one; 0: none. Only the slab's thread
    /// accesses this field and the following ones, or a thread that has the lock of the shared pool.
    free: Cell<u16>,
    /// The place behind all blocks that were ever taken.
    fresh: Cell<u16>,
    /// The number of blocks that were taken and that the slab's thread does not know to be free.
    used: Cell<u16>,
    /// The size of a block, and of the slab, in units. A place is an offset in units, too.
    units: u16,
    end: u16,
    /// The neighbours in the ring of the pool's slabs with blocks of this size.
    next: Cell<*mut Slab>,
    before: Cell<*mut Slab>,
}

const FIRST: u16 = (size_of::<Slab>() / UNIT) as u16;
const _: () = assert!(size_of::<Slab>().is_multiple_of(UNIT) && SLAB_ALIGN / UNIT < u16::MAX as usize);
const _: () = assert!(size_of::<Slab>() + BLOCK_MAX + BETWEEN <= FIRST_SLAB);

/// The size in units of a slab that comes from a region; slabs from the allocator are smaller.
const OF_REGION: u16 = (SLAB_ALIGN / UNIT) as u16;
/// The size in units of the largest slabs from the allocator.
const OUTSIDE: u16 = ((SLAB_ALIGN - BETWEEN) / UNIT) as u16;

/// The layout of a slab of so many units from the allocator.
fn layout(end: u16) -> Layout {
    Layout::from_size_align(usize::from(end) * UNIT, SLAB_ALIGN).expect("the size of a slab is valid")
}

impl Slab {
    /// A slab that is alone in its ring and follows slabs of the size of `last`, if there are any.
    fn new(owner: *mut Pool, units: usize, last: Option<u16>) -> NonNull<Slab> {
        let last_bytes = last.map_or(FIRST_SLAB / 2, |end| usize::from(end) * UNIT + BETWEEN);
        let end = (((2 * last_bytes).min(SLAB_ALIGN) - BETWEEN) / UNIT) as u16;
        let (slab, end) = match (end == OUTSIDE).then(region::take).flatten() {
            Some(slab) => (slab.cast::<Slab>(), OF_REGION),
            None => (Slab::from_allocator(end), end),
        };
        let memory = slab.as_ptr();
        let (free, fresh, used, units) = (Cell::new(0), Cell::new(FIRST), Cell::new(0), units as u16);
        let (next, before) = (Cell::new(memory), Cell::new(memory));
        let owner = AtomicPtr::new(owner);
        // SAFETY: the memory is as large as a slab.
        unsafe {
            let returned = Returned::new();
            slab.write(Slab { owner, returned, free, fresh, used, units, end, next, before });
        }
        slab
    }

    /// Memory of the allocator for a slab of so many units.
    fn from_allocator(end: u16) -> NonNull<Slab> {
        if end == OUTSIDE {
            region::takes_outside();
        }
        // SAFETY: the layout has a size greater than 0.
        let memory = unsafe { alloc(layout(end)) };
        NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout(end)))
    }

    /// The slab that a block is in.
    #[inline]
    fn of(block: NonNull<u8>) -> NonNull<Slab> {
        let slab = block.as_ptr().map_addr(|address| address & !(SLAB_ALIGN - 1));
        // SAFETY: slabs are aligned, and a block is behind the beginning of its slab.
        unsafe { NonNull::new_unchecked(slab.cast()) }
    }

    #[inline]
    fn place(block: NonNull<u8>) -> u16 {
        (block.addr().get() % SLAB_ALIGN / UNIT) as u16
    }

    /// # Safety
    /// The slab has a block at this place.
    #[inline]
    unsafe fn block(slab: NonNull<Slab>, place: u16) -> NonNull<u8> {
        // SAFETY: guaranteed by the caller; the pointer to the slab is valid for all of its memory.
        unsafe { slab.cast::<u8>().add(usize::from(place) * UNIT) }
    }

    /// Takes a free block, or else one that was never taken before. The caller is the slab's thread.
    ///
    /// # Safety
    /// The slab is alive.
    #[inline]
    unsafe fn take(slab: NonNull<Slab>) -> Option<NonNull<u8>> {
        // SAFETY: guaranteed by the caller; a block in the list contains the place of the next one.
        unsafe {
            let this = slab.as_ref();
            let (free, fresh) = (this.free.get(), this.fresh.get());
            let block = if free != 0 {
                let block = Slab::block(slab, free);
                this.free.set(block.cast::<u16>().read());
                block
            } else if fresh + this.units <= this.end {
                this.fresh.set(fresh + this.units);
                Slab::block(slab, fresh)
            } else {
                return None;
            };
            this.used.set(this.used.get() + 1);
            Some(block)
        }
    }

    /// Takes a block, if need be one that another thread has returned.
    ///
    /// # Safety
    /// The conditions of [`Slab::take`] hold.
    unsafe fn take_any(slab: NonNull<Slab>) -> Option<NonNull<u8>> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            Slab::take(slab).or_else(|| {
                Slab::collect(slab);
                Slab::take(slab)
            })
        }
    }

    /// Makes returned blocks free.
    ///
    /// # Safety
    /// The slab is alive, and the caller is its thread.
    unsafe fn collect(slab: NonNull<Slab>) {
        // SAFETY: guaranteed by the caller; a returned block contains the place of the next one.
        unsafe {
            let this = slab.as_ref();
            let Some((first, count)) = this.returned.take() else { return };
            this.used.set(this.used.get() - count);
            let free = this.free.replace(first);
            if free != 0 {
                let last = (1..count).fold(first, |place, _| Slab::block(slab, place).cast::<u16>().read());
                Slab::block(slab, last).cast::<u16>().write(free);
            }
        }
    }

    /// Whether no block is free, as far as the slab's thread knows.
    fn is_full(&self) -> bool {
        self.free.get() == 0 && self.fresh.get() + self.units > self.end
    }

    /// Removes the slab from its ring.
    ///
    /// # Safety
    /// The slabs of the ring are alive, and the caller is their thread.
    unsafe fn unlink(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            (*self.next.get()).before.set(self.before.get());
            (*self.before.get()).next.set(self.next.get());
        }
    }

    /// Puts a slab that is in no ring before this one.
    ///
    /// # Safety
    /// The conditions of [`Slab::link_behind`] hold.
    unsafe fn link_before(&self, slab: NonNull<Slab>) {
        // SAFETY: guaranteed by the caller.
        unsafe { (*self.before.get()).link_behind(slab) }
    }

    /// Puts a slab that is in no ring behind this one.
    ///
    /// # Safety
    /// The slabs of the ring and `slab` are alive, and the caller is their thread.
    unsafe fn link_behind(&self, slab: NonNull<Slab>) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let next = self.next.replace(slab.as_ptr());
            slab.as_ref().next.set(next);
            slab.as_ref().before.set(ptr::from_ref(self).cast_mut());
            (*next).before.set(slab.as_ptr());
        }
    }
}

/// Gives a slab back to its region, or to the allocator.
///
/// # Safety
/// No code uses the slab or a block of it any more.
unsafe fn give_back(slab: NonNull<Slab>) {
    // SAFETY: guaranteed by the caller; `Slab::new` got the slab from there, with this layout.
    unsafe {
        let end = slab.as_ref().end;
        if end == OF_REGION {
            return region::give(slab.cast());
        }
        if end == OUTSIDE {
            region::gives_outside();
        }
        dealloc(slab.as_ptr().cast(), layout(end));
    }
}

/// The owner of the slabs of the shared pool, and of slabs that were left.
const SHARED: *mut Pool = ptr::without_provenance_mut(UNIT);
const LEFT: *mut Pool = ptr::without_provenance_mut(2 * UNIT);

/// The number of sizes of blocks, including 0.
const SIZES: usize = BLOCK_MAX / UNIT + 1;

/// The slabs of a thread.
struct Pool {
    /// For each size in units the slab from which blocks are taken; null: none was made yet. All slabs with
    /// blocks of a size form a ring.
    current: [Cell<*mut Slab>; SIZES],
    /// For each size the number of slabs in which the thread looks for returned blocks next time.
    looks: [Cell<u8>; SIZES],
}

impl Pool {
    const fn new() -> Pool {
        Pool {
            current: [const { Cell::new(ptr::null_mut()) }; SIZES],
            looks: [const { Cell::new(LOOKED_AT) }; SIZES],
        }
    }

    /// Takes a block that the current slab has at hand.
    #[inline(always)]
    fn take(&self, units: usize) -> Option<NonNull<u8>> {
        // SAFETY: slabs of a pool are alive, and the caller is their thread.
        NonNull::new(self.current[units].get()).and_then(|slab| unsafe { Slab::take(slab) })
    }

    /// Takes a block from one of the pool's slabs, or a new one. The slab that it comes from becomes the
    /// current one.
    fn allocate(&self, owner: *mut Pool, units: usize) -> NonNull<u8> {
        let first = NonNull::new(self.current[units].get());
        let mut at = first;
        let looks = &self.looks[units];
        for _ in 0..looks.get() {
            let Some(slab) = at else { break };
            // SAFETY: slabs of a pool are alive, and the caller is their thread.
            let (block, next) = unsafe { (Slab::take_any(slab), slab.as_ref().next.get()) };
            if let Some(block) = block {
                looks.set(LOOKED_AT);
                self.current[units].set(slab.as_ptr());
                return block;
            }
            at = NonNull::new(next).filter(|&next| Some(next) != first);
        }
        looks.set((looks.get() / 2).max(LOOKED_AT_LEAST));
        // SAFETY: slabs of a pool are alive.
        let slab = Slab::new(owner, units, first.map(|slab| unsafe { slab.as_ref() }.end));
        // The slabs that were looked at come before the new one, and are looked at again after all others.
        if let Some(at) = at.or(first) {
            // SAFETY: slabs of a pool are alive, and the caller is their thread.
            unsafe { at.as_ref().link_before(slab) }
        }
        self.current[units].set(slab.as_ptr());
        // SAFETY: the slab was just made.
        unsafe { Slab::take_any(slab) }.expect("a new slab has blocks")
    }

    /// Frees a block of one of the pool's slabs.
    ///
    /// # Safety
    /// No code uses the block any more, and the caller is the pool's thread.
    #[inline]
    unsafe fn free(&self, slab: NonNull<Slab>, block: NonNull<u8>) {
        // SAFETY: a slab lives as long as a block of it is in use.
        let this = unsafe { slab.as_ref() };
        let next = this.free.replace(Slab::place(block));
        // SAFETY: a block is large enough for a place, and no code uses this block any more.
        unsafe { block.cast::<u16>().write(next) };
        this.used.set(this.used.get() - 1);
        let is_current = || self.current[usize::from(this.units)].get() == slab.as_ptr();
        if (next == 0 || this.used.get() == 0) && !is_current() {
            // SAFETY: the slab is one of this pool, and not the current one.
            unsafe { self.tidy(slab) }
        }
    }

    /// Gives a slab back if it has no blocks in use; else puts it where its free blocks are found soon.
    ///
    /// # Safety
    /// The slab is one of this pool, and not the current one. The caller is the pool's thread.
    #[inline(never)]
    unsafe fn tidy(&self, slab: NonNull<Slab>) {
        // SAFETY: slabs of a pool are alive, and the caller is their thread.
        unsafe {
            let this = slab.as_ref();
            this.unlink();
            if this.used.get() == 0 {
                give_back(slab);
            } else {
                (*self.current[usize::from(this.units)].get()).link_behind(slab);
            }
        }
    }

    /// Frees a block like [`Pool::free`], and gives its slab back if no block is in use any more, even if
    /// the slab is the current one.
    ///
    /// # Safety
    /// The conditions of [`Pool::free`] hold.
    unsafe fn free_and_keep_none(&self, slab: NonNull<Slab>, block: NonNull<u8>) {
        // SAFETY: guaranteed by the caller; the slab is alive until it was given back.
        unsafe {
            let (units, next, used) =
                (slab.as_ref().units, slab.as_ref().next.get(), slab.as_ref().used.get());
            let current = &self.current[usize::from(units)];
            if used == 1 && current.get() == slab.as_ptr() {
                current.set(if next == slab.as_ptr() { ptr::null_mut() } else { next });
            }
            self.free(slab, block);
        }
    }

    /// Looks for returned blocks in at most `count` slabs of each size, and gives slabs back that have no
    /// blocks in use.
    fn trim(&self, count: usize) {
        for current in self.current.iter().filter_map(|current| NonNull::new(current.get())) {
            // SAFETY: slabs of a pool are alive, and the caller is their thread.
            unsafe {
                let (mut at, mut first_full) = (current.as_ref().next.get(), current);
                for _ in 0..count {
                    let is_new = |&slab: &NonNull<Slab>| slab != current && slab != first_full;
                    let Some(slab) = NonNull::new(at).filter(is_new) else { break };
                    at = slab.as_ref().next.get();
                    Slab::collect(slab);
                    if slab.as_ref().used.get() == 0 || !slab.as_ref().is_full() {
                        self.tidy(slab);
                    } else {
                        // Full slabs go to the end, so the next look begins with those that this one does
                        // not reach.
                        slab.as_ref().unlink();
                        current.as_ref().link_before(slab);
                        first_full = if first_full == current { slab } else { first_full };
                    }
                }
            }
        }
    }

    /// Leaves all slabs: those without blocks in use go back at once, the others when the last block is
    /// returned.
    fn leave(&self) {
        for current in &self.current {
            while let Some(slab) = NonNull::new(current.get()) {
                // SAFETY: slabs of a pool are alive, and the caller is their thread; the slab is not used
                // after its thread has left it, unless it comes back at once.
                unsafe {
                    let next = slab.as_ref().next.get();
                    slab.as_ref().unlink();
                    current.set(if next == slab.as_ptr() { ptr::null_mut() } else { next });
                    slab.as_ref().owner.store(LEFT, Ordering::Relaxed);
                    if slab.as_ref().returned.leave(slab.as_ref().used.get()) {
                        give_back(slab);
                    }
                }
            }
        }
    }
}

// SAFETY: a pool's slabs are used by the thread that has the pool; the shared pool is behind a lock.
unsafe impl Send for Pool {}

/// The pool of all threads that are no workers.
static POOL_OF_OTHERS: Mutex<Pool> = Mutex::new(Pool::new());

thread_local! {
    /// The thread's pool; null if the thread is no worker.
    static POOL: Cell<*mut Pool> = const { Cell::new(ptr::null_mut()) };
}

/// A block of so many units.
#[inline]
pub(super) fn allocate(units: usize) -> NonNull<u8> {
    // SAFETY: a thread's pool lives as long as `POOL` points to it.
    unsafe { POOL.get().as_ref() }
        .and_then(|pool| pool.take(units))
        .unwrap_or_else(|| allocate_elsewhere(units))
}

/// A block of so many units that the thread does not have at hand.
#[cold]
#[inline(never)]
fn allocate_elsewhere(units: usize) -> NonNull<u8> {
    let own = POOL.get();
    // SAFETY: a thread's pool lives as long as `POOL` points to it.
    match unsafe { own.as_ref() } {
        Some(pool) => pool.allocate(own, units),
        None => lock(&POOL_OF_OTHERS).allocate(SHARED, units),
    }
}

/// Frees a block.
///
/// # Safety
/// The block came from [`allocate`], and no code uses it any more.
#[inline]
pub(super) unsafe fn free(block: NonNull<u8>) {
    let slab = Slab::of(block);
    let own = POOL.get();
    // SAFETY: guaranteed by the caller; a slab lives as long as a block of it is in use.
    unsafe {
        if slab.as_ref().owner.load(Ordering::Relaxed) == own {
            (*own).free(slab, block);
        } else {
            free_elsewhere(slab, block);
        }
    }
}

/// Frees a block of a slab that belongs to another thread, or to the shared pool.
///
/// # Safety
/// The conditions of [`free`] hold.
#[inline(never)]
unsafe fn free_elsewhere(slab: NonNull<Slab>, block: NonNull<u8>) {
    // SAFETY: guaranteed by the caller. The slab lives until its last block was returned; from then on it
    // belongs to this thread if its own thread has left it.
    unsafe {
        if slab.as_ref().owner.load(Ordering::Relaxed) == SHARED {
            return lock(&POOL_OF_OTHERS).free_and_keep_none(slab, block);
        }
        let link = |next| block.cast::<u16>().write(next);
        if slab.as_ref().returned.give(Slab::place(block), link) == Gave::Slab {
            give_back(slab);
        }
    }
}

/// Gives those slabs of the calling thread back of which other threads have returned all blocks: a look at
/// some of the slabs.
pub(crate) fn trim() {
    // SAFETY: a thread's pool lives as long as `POOL` points to it.
    if let Some(pool) = unsafe { POOL.get().as_ref() } {
        pool.trim(LOOKED_AT_IDLE);
    }
}

/// While a `Keeps` lives, its thread has slabs of its own.
pub(crate) struct Keeps {
    pool: NonNull<Pool>,
    before: *mut Pool,
}

impl Keeps {
    pub(crate) fn new() -> Keeps {
        let pool = NonNull::from(Box::leak(Box::new(Pool::new())));
        Keeps { pool, before: POOL.replace(pool.as_ptr()) }
    }
}

impl Drop for Keeps {
    fn drop(&mut self) {
        POOL.set(self.before);
        // SAFETY: `new` made the pool, which the thread does not use any more.
        unsafe { Box::from_raw(self.pool.as_ptr()) }.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::slab::{allocate, free};

    /// A block that the test has filled.
    struct Filled {
        block: NonNull<u8>,
        bytes: usize,
        with: u8,
    }
    // SAFETY: the test gives the block to one thread after another.
    unsafe impl Send for Filled {}

    impl Filled {
        fn new(bytes: usize, with: u8) -> Filled {
            let block = allocate(bytes);
            assert!(block.addr().get().is_multiple_of(UNIT));
            // SAFETY: the block has so many bytes, and is new.
            unsafe { block.write_bytes(with, bytes) };
            Filled { block, bytes, with }
        }
    }

    impl Drop for Filled {
        fn drop(&mut self) {
            // SAFETY: the block was filled, and is not used after this.
            unsafe {
                let bytes = std::slice::from_raw_parts(self.block.as_ptr(), self.bytes);
                assert!(bytes.iter().all(|&byte| byte == self.with), "another block overlaps this one");
                free(self.block, self.bytes);
            }
        }
    }

    fn slabs(units: usize) -> usize {
        // SAFETY: the test's pool is alive.
        let Some(first) = NonNull::new(unsafe { &*POOL.get() }.current[units].get()) else { return 0 };
        // SAFETY: the slabs of the test's pool are alive.
        let next = |slab: &NonNull<Slab>| NonNull::new(unsafe { slab.as_ref() }.next.get());
        std::iter::successors(Some(first), |slab| next(slab).filter(|&next| next != first)).count()
    }

    /// Random blocks, made and freed by two workers and a thread without a pool, never overlap.
    #[test]
    fn blocks_never_overlap_on_whichever_thread_they_are_freed() {
        let (there, blocks) = channel::<Filled>();
        let (to_other, others) = channel::<Filled>();
        let takes = std::thread::spawn(move || {
            let _keeps = Keeps::new();
            let mut own: Vec<Filled> = Vec::new();
            for (count, block) in blocks.iter().enumerate() {
                drop(block);
                own.push(Filled::new(1 + count % 700, count as u8));
                if own.len() > 300 {
                    own.drain(..150).for_each(|block| to_other.send(block).unwrap());
                }
            }
        });
        let drops = std::thread::spawn(move || others.iter().for_each(drop));
        let keeps = Keeps::new();
        let mut chance = thalweg_chance::Chance::new(28);
        let mut held = HashMap::new();
        for number in 0..60_000_u64 {
            let bytes = [8, 40, 72, 144, 176, 184, 512, 513][chance.below(8) as usize];
            held.insert(number, Filled::new(bytes, number as u8));
            let one = chance.below(number + 1);
            if let Some(block) = held.remove(&one)
                && one.is_multiple_of(2)
            {
                there.send(block).unwrap();
            }
            if number.is_multiple_of(5_000) {
                trim();
            }
        }
        // Half of the blocks are freed after the slabs were left.
        held.retain(|number, _| number.is_multiple_of(2));
        drop((keeps, there, held));
        takes.join().unwrap();
        drops.join().unwrap();
    }

    #[test]
    fn slabs_without_blocks_go_back() {
        let _keeps = Keeps::new();
        let (bytes, units) = (184, 23);
        let fill = || (0..10_000).map(|_| Filled::new(bytes, 1)).collect::<Vec<_>>();
        let filled = fill();
        assert!((100..150).contains(&slabs(units)), "{} slabs", slabs(units));
        drop(filled);
        assert_eq!(slabs(units), 1, "the thread itself freed the blocks");
        let filled = fill();
        std::thread::spawn(move || drop(filled)).join().unwrap();
        assert!(slabs(units) > 100);
        trim();
        assert!(slabs(units) <= 2, "another thread freed the blocks: {} slabs are left", slabs(units));
        // Blocks that another thread freed are used again.
        for _ in 0..100 {
            let filled: Vec<_> = (0..1_000).map(|_| Filled::new(bytes, 2)).collect();
            std::thread::spawn(move || drop(filled)).join().unwrap();
        }
        assert!(slabs(units) < 30, "{} slabs", slabs(units));
    }
}
