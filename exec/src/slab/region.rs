//! *Regions*: pieces of 2 MiB of memory that slabs of the full size come from when the process has many
//! slabs.
//!
//! The allocator gives memory of slabs back to the system, and gets it anew page by page; with a million
//! tasks that takes as long as the tasks themselves. A region comes from the system at once, in one large
//! page if the system has such pages to spare. A region without slabs in use goes back to the system; of
//! the regions without slabs in use [`KEPT_MAX`] are kept for the slabs that come next.

use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::pool::SLAB_ALIGN;
use crate::sync::lock;

/// The size and the alignment of a region, in bytes: those of a large page.
const REGION: usize = 2 << 20;

/// The number of regions without slabs in use that the process keeps: 16 MiB.
const KEPT_MAX: usize = 8;

/// The number of slabs of the full size that come from the allocator before the first one comes from a
/// region, so that a process with few tasks has no region: 1 MiB.
const OUTSIDE_MAX: usize = 64;

/// The beginning of a region, in the place of its first slab.
struct Region {
    /// A bit for each slab that is not in use.
    free: u128,
    /// The neighbours in the list of regions with free slabs, while the region is in it.
    next: *mut Region,
    before: *mut Region,
}

const _: () = assert!(u128::BITS as usize * SLAB_ALIGN == REGION && size_of::<Region>() <= SLAB_ALIGN);

/// The bits of the slabs of a region: all but that of its beginning.
const ALL: u128 = !1;

/// The regions of the process that have free slabs. Those without slabs in use are at the end of the list,
/// so they are used last.
struct Regions {
    first: *mut Region,
    last: *mut Region,
    /// The number of regions without slabs in use.
    kept: usize,
}

// SAFETY: regions are plain memory, and are used under a lock.
unsafe impl Send for Regions {}

static REGIONS: Mutex<Regions> = Mutex::new(Regions::new());

/// The number of slabs of the full size that came from the allocator and were not given back.
static OUTSIDE: AtomicUsize = AtomicUsize::new(0);
/// The number of slabs in use that came from regions.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Notes that a slab of the full size comes from the allocator.
pub(super) fn takes_outside() {
    OUTSIDE.fetch_add(1, Ordering::Relaxed);
}

/// Notes that a slab of the full size goes back to the allocator.
pub(super) fn gives_outside() {
    OUTSIDE.fetch_sub(1, Ordering::Relaxed);
}

/// The bytes of slabs in use that came from regions.
pub(crate) fn bytes() -> usize {
    INSIDE.load(Ordering::Relaxed) * SLAB_ALIGN
}

/// Memory for a slab of the full size, aligned to it; `None` if the process has few slabs, or the system
/// has no memory.
pub(super) fn take() -> Option<NonNull<u8>> {
    if OUTSIDE.load(Ordering::Relaxed) < OUTSIDE_MAX {
        return None;
    }
    let slab = lock(&REGIONS).take()?;
    INSIDE.fetch_add(1, Ordering::Relaxed);
    Some(slab)
}

/// Gives the memory of a slab back.
///
/// # Safety
/// The memory came from [`take`], and no code uses it any more.
pub(super) unsafe fn give(slab: NonNull<u8>) {
    INSIDE.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: guaranteed by the caller; no slab of the region that comes out is in use.
    unsafe {
        let unused = lock(&REGIONS).give(slab);
        unused.into_iter().for_each(|region| unmap(region));
    }
}

impl Regions {
    const fn new() -> Regions {
        Regions { first: ptr::null_mut(), last: ptr::null_mut(), kept: 0 }
    }

    fn take(&mut self) -> Option<NonNull<u8>> {
        if self.first.is_null() {
            self.add()?;
        }
        // SAFETY: regions in the list are alive, and have a free slab.
        unsafe {
            let region = self.first;
            self.kept -= usize::from((*region).free == ALL);
            let at = (*region).free.trailing_zeros() as usize;
            (*region).free &= (*region).free - 1;
            if (*region).free == 0 {
                self.unlink(region);
            }
            NonNull::new(region.cast::<u8>().add(at * SLAB_ALIGN))
        }
    }

    /// Takes a slab back; returns its region if that must go back to the system.
    ///
    /// # Safety
    /// The slab came from these regions, and no code uses it any more.
    unsafe fn give(&mut self, slab: NonNull<u8>) -> Option<NonNull<Region>> {
        let at = slab.addr().get() % REGION / SLAB_ALIGN;
        // SAFETY: guaranteed by the caller; a region is aligned to its size, and lives as long as a slab is
        // in use.
        unsafe {
            let region = slab.as_ptr().sub(at * SLAB_ALIGN).cast::<Region>();
            let (before, bit) = ((*region).free, 1 << at);
            debug_assert!(before & bit == 0, "a slab is given back once");
            (*region).free = before | bit;
            if (*region).free == ALL {
                if before != 0 {
                    self.unlink(region);
                }
                if self.kept == KEPT_MAX {
                    return NonNull::new(region);
                }
                self.kept += 1;
                self.link_last(region);
            } else if before == 0 {
                self.link_first(region);
            }
        }
        None
    }

    /// Adds a region without slabs in use.
    fn add(&mut self) -> Option<()> {
        let region = map()?.as_ptr();
        // SAFETY: the region is new.
        unsafe {
            region.write(Region { free: ALL, next: ptr::null_mut(), before: ptr::null_mut() });
            self.link_first(region);
        }
        self.kept += 1;
        Some(())
    }

    /// # Safety
    /// The region is alive and in no list, and the regions of this list are alive; so with the functions
    /// below.
    unsafe fn link_first(&mut self, region: *mut Region) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            ((*region).before, (*region).next) = (ptr::null_mut(), self.first);
            match self.first.as_mut() {
                Some(first) => first.before = region,
                None => self.last = region,
            }
        }
        self.first = region;
    }

    /// # Safety
    /// See [`Regions::link_first`].
    unsafe fn link_last(&mut self, region: *mut Region) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            ((*region).before, (*region).next) = (self.last, ptr::null_mut());
            match self.last.as_mut() {
                Some(last) => last.next = region,
                None => self.first = region,
            }
        }
        self.last = region;
    }

    /// # Safety
    /// The region is in this list, and all regions of the list are alive.
    unsafe fn unlink(&mut self, region: *mut Region) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (next, before) = ((*region).next, (*region).before);
            match before.as_mut() {
                Some(before) => before.next = next,
                None => self.first = next,
            }
            match next.as_mut() {
                Some(next) => next.before = before,
                None => self.last = before,
            }
        }
    }
}

/// Memory of the system for a region.
fn map() -> Option<NonNull<Region>> {
    // SAFETY: a new mapping replaces no memory.
    let whole = unsafe {
        libc::mmap(
            ptr::null_mut(),
            2 * REGION,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if whole == libc::MAP_FAILED {
        return None;
    }
    let whole = whole.cast::<u8>();
    let before = whole.addr().next_multiple_of(REGION) - whole.addr();
    // SAFETY: the region lies inside the mapping, and what is before and behind it is not used. The advice
    // changes nothing but the time that the first access takes; it may be refused.
    unsafe {
        let region = whole.add(before);
        if before > 0 {
            libc::munmap(whole.cast(), before);
        }
        libc::munmap(region.add(REGION).cast(), REGION - before);
        libc::madvise(region.cast(), REGION, libc::MADV_HUGEPAGE);
        NonNull::new(region.cast())
    }
}

/// Gives a region back to the system.
///
/// # Safety
/// The region is in no list, and no slab of it is in use.
unsafe fn unmap(region: NonNull<Region>) {
    // SAFETY: guaranteed by the caller; `map` made a mapping of this size.
    unsafe { libc::munmap(region.as_ptr().cast(), REGION) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_of_regions_never_overlap_and_empty_regions_go_back() {
        let mut regions = Regions::new();
        let mut chance = thalweg_chance::Chance::new(28);
        let mut held = Vec::new();
        let mut gone = 0;
        // SAFETY: each slab is used between its `take` and its `give`.
        let mut give = |regions: &mut Regions, (slab, with): (NonNull<u8>, u32)| unsafe {
            assert_eq!(slab.cast::<u32>().read(), with, "another slab overlaps this one");
            if let Some(region) = regions.give(slab) {
                unmap(region);
                gone += 1;
            }
        };
        for round in 0..40_000_u32 {
            // The number of slabs in use rises to 5,000 and falls to 0, four times.
            if round % 10_000 < 5_000 {
                let slab = regions.take().unwrap();
                assert!(slab.addr().get().is_multiple_of(SLAB_ALIGN));
                // SAFETY: the slab was just taken.
                unsafe { slab.cast::<u32>().write(round) };
                held.push((slab, round));
            } else {
                let one = held.swap_remove(chance.below(held.len() as u64) as usize);
                give(&mut regions, one);
            }
        }
        assert_eq!(regions.kept, KEPT_MAX);
        // Forty regions hold 5,000 slabs.
        assert_eq!(gone, 4 * (5_000_usize.div_ceil(127) - KEPT_MAX));
        let mut kept = 0;
        while let Some(region) = NonNull::new(regions.first) {
            // SAFETY: regions in the list are alive, and have no slab in use.
            unsafe {
                assert_eq!(region.as_ref().free, ALL);
                regions.unlink(region.as_ptr());
                unmap(region);
            }
            kept += 1;
        }
        assert_eq!((kept, regions.last), (KEPT_MAX, ptr::null_mut()));
    }
}
