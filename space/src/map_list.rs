//! The maps that a handler of a signal or of `fork` needs: a list that only grows and reuses its entries.
//! This module has `unsafe`.
//!
//! The list has no lock, because a handler must not take one: the interrupted thread may hold it, or a thread
//! that does not exist in the child.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// The address of an entry that is being filled.
const CLAIMED: usize = 1;

/// A map in the list.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Start of the map; 0 if the entry is free. Claimed by compare-exchange; released by its owner.
    address: AtomicUsize,
    /// Size of the map; stored before `address` (release, paired with the handler's acquire).
    bytes: AtomicUsize,
    is_broken: AtomicBool,
    /// Next entry; set before this entry is published.
    next: AtomicPtr<Entry>,
}

impl Entry {
    /// Removes the map from its list. Must be called before the map is unmapped.
    pub(crate) fn forget(&self) {
        self.address.store(0, Ordering::Release);
    }

    /// Marks that the map's memory was replaced by zeros.
    pub(crate) fn mark_broken(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

/// A list of maps for one handler.
#[derive(Debug)]
pub(crate) struct MapList {
    /// First entry; pushed with release, walked with acquire.
    first: AtomicPtr<Entry>,
}

impl MapList {
    pub(crate) const fn new() -> MapList {
        MapList { first: AtomicPtr::new(std::ptr::null_mut()) }
    }

    pub(crate) fn register(&self, address: usize, bytes: usize) -> &'static Entry {
        let entry = self.claim();
        entry.is_broken.store(false, Ordering::Relaxed);
        entry.bytes.store(bytes, Ordering::Relaxed);
        entry.address.store(address, Ordering::Release);
        entry
    }

    /// The maps and their addresses. A handler may use this iterator, because it only loads words.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Entry, Range<usize>)> {
        self.entries().filter_map(|entry| {
            let from = entry.address.load(Ordering::Acquire);
            (from > CLAIMED).then(|| (entry, from..from + entry.bytes.load(Ordering::Relaxed)))
        })
    }

    fn entries(&self) -> impl Iterator<Item = &'static Entry> {
        let mut at = self.first.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: entries are leaked boxes, so every pointer in the list stays valid.
            let entry: &'static Entry = unsafe { at.as_ref() }?;
            at = entry.next.load(Ordering::Relaxed);
            Some(entry)
        })
    }

    fn claim(&self) -> &'static Entry {
        let take = |entry: &&Entry| {
            entry.address.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        if let Some(free) = self.entries().find(take) {
            return free;
        }
        let mut next = self.first.load(Ordering::Acquire);
        let entry: &'static Entry = Box::leak(Box::new(Entry {
            address: AtomicUsize::new(CLAIMED),
            bytes: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
            next: AtomicPtr::new(next),
        }));
        let new = std::ptr::from_ref(entry).cast_mut();
        while let Err(now) = self.first.compare_exchange(next, new, Ordering::AcqRel, Ordering::Acquire) {
            entry.next.store(now, Ordering::Relaxed);
            next = now;
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::MapList;

    #[test]
    fn entries_are_used_again_and_a_free_one_is_no_map() {
        let list = MapList::new();
        let (a, b) = (list.register(4096, 100), list.register(8192, 50));
        let addresses = || {
            let mut all: Vec<_> = list.iter().map(|(_, range)| (range.start, range.end)).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(addresses(), [(4096, 4196), (8192, 8242)]);
        a.mark_broken();
        a.forget();
        assert_eq!(addresses(), [(8192, 8242)]);
        let again = list.register(12288, 8);
        assert!(std::ptr::eq(a, again) && !again.is_broken(), "it is whole again");
        b.forget();
        assert_eq!(addresses(), [(12288, 12296)]);
        assert_eq!(list.entries().count(), 2);
    }

    #[test]
    fn entries_that_threads_register_at_once_are_all_there() {
        let list = MapList::new();
        std::thread::scope(|scope| {
            for thread in 1..=4_usize {
                let list = &list;
                scope.spawn(move || {
                    (1..=100).for_each(|n| {
                        list.register(thread << 20 | n << 8, 8);
                    })
                });
            }
        });
        let mut starts: Vec<usize> = list.iter().map(|(_, range)| range.start).collect();
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len(), 400);
    }
}
