//! The blocks of a slab that threads other than its own have returned.

use crate::sync::{AtomicU64, Ordering};

/// The blocks that other threads have returned to a slab: a linked list. One word has its first block, its
/// length, and the number of blocks that are missing if the slab was left by its thread.
///
/// A block is named by its place in the slab, which is never 0; 0 ends the list.
pub(crate) struct Returned(
    /// From the lowest bit: 16 bits, the first block; 16 bits, the number of blocks; 16 bits, [`OWNED`], or
    /// the number of blocks of a left slab that are not returned yet. Threads that return a block and the
    /// slab's thread change the word.
    AtomicU64,
);

/// The number of missing blocks of a slab that was not left.
const OWNED: u16 = u16::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Word {
    first: u16,
    count: u16,
    missing: u16,
}

impl Word {
    const NONE: Word = Word { first: 0, count: 0, missing: OWNED };

    fn of(word: u64) -> Word {
        Word { first: word as u16, count: (word >> 16) as u16, missing: (word >> 32) as u16 }
    }

    fn word(self) -> u64 {
        u64::from(self.first) | u64::from(self.count) << 16 | u64::from(self.missing) << 32
    }
}

/// The result of returning a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gave {
    /// The slab is still in use.
    Block,
    /// The slab was left, and the block was the last one in use: the caller owns the slab now.
    Slab,
}

impl Returned {
    pub(crate) fn new() -> Returned {
        Returned(AtomicU64::new(Word::NONE.word()))
    }

    /// Returns the block at `place`. `link` stores into the block which block is next in the list.
    pub(crate) fn give(&self, place: u16, link: impl Fn(u16)) -> Gave {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let before = Word::of(now);
            link(before.first);
            let missing = if before.missing == OWNED { OWNED } else { before.missing - 1 };
            let after = Word { first: place, count: before.count.wrapping_add(1), missing };
            // Release: the thread that takes the block, or frees the slab, sees that the block is no longer
            // used. Acquire: the thread that frees the slab sees the same of all other blocks.
            match self.0.compare_exchange_weak(now, after.word(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return if missing == 0 { Gave::Slab } else { Gave::Block },
                Err(other) => now = other,
            }
        }
    }

    /// Takes all returned blocks: the first one, which is linked to the others, and how many there are.
    /// Only the slab's thread may call this.
    #[inline]
    pub(crate) fn take(&self) -> Option<(u16, u16)> {
        if self.0.load(Ordering::Relaxed) == Word::NONE.word() {
            return None;
        }
        let Word { first, count, .. } = Word::of(self.0.swap(Word::NONE.word(), Ordering::Acquire));
        Some((first, count))
    }

    /// Notes that the slab's thread leaves the slab, of which `used` blocks are in use or were returned.
    /// Returns whether no block is in use, so that the caller still owns the slab.
    pub(crate) fn leave(&self, used: u16) -> bool {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let missing = used - Word::of(now).count;
            let left = Word { first: 0, count: 0, missing };
            match self.0.compare_exchange_weak(now, left.word(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return missing == 0,
                Err(other) => now = other,
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use loom::cell::UnsafeCell;
    use loom::thread;

    use super::*;

    /// A slab of two blocks: what is in a block is the place of the next one.
    struct Model {
        returned: Returned,
        blocks: [UnsafeCell<u16>; 3],
    }
    // SAFETY: loom checks that no two threads access a block at once.
    unsafe impl Sync for Model {}

    impl Model {
        fn new() -> Arc<Model> {
            Arc::new(Model {
                returned: Returned::new(),
                blocks: std::array::from_fn(|_| UnsafeCell::new(77)),
            })
        }

        fn give(&self, place: u16) -> Gave {
            // SAFETY: the thread has the block.
            let link = |next| self.blocks[usize::from(place)].with_mut(|block| unsafe { *block = next });
            self.returned.give(place, link)
        }

        /// Takes all blocks, and adds their places up.
        fn take(&self) -> (u16, u16) {
            let Some((first, count)) = self.returned.take() else { return (0, 0) };
            let (mut sum, mut at, mut found) = (0, first, 0);
            while at != 0 {
                // SAFETY: the blocks that were taken belong to this thread.
                (sum, found) = (sum + at, found + 1);
                at = self.blocks[usize::from(at)]
                    .with_mut(|block| unsafe { std::mem::replace(&mut *block, 77) });
            }
            assert_eq!(found, count);
            (sum, count)
        }

        /// Uses all of the slab, as the allocator does when it gets the slab back.
        fn end(&self) {
            // SAFETY: the last thread has the slab.
            self.blocks.iter().for_each(|block| block.with_mut(|block| unsafe { *block = 0 }));
        }
    }

    /// Two threads return a block each while the slab's thread takes blocks: it gets each one once.
    #[test]
    fn loom_each_returned_block_is_taken_once() {
        loom::model(|| {
            let slab = Model::new();
            let giving = [1, 2].map(|place| {
                let slab = slab.clone();
                thread::spawn(move || assert_eq!(slab.give(place), Gave::Block))
            });
            let early = slab.take();
            giving.into_iter().for_each(|thread| thread.join().unwrap());
            let late = slab.take();
            assert_eq!((early.0 + late.0, early.1 + late.1), (3, 2));
        });
    }

    /// A thread leaves a slab while two threads return its last blocks: one of the three gets the slab, when
    /// no other uses it any more.
    #[test]
    fn loom_a_left_slab_goes_back_once_with_its_last_block() {
        loom::model(|| {
            let slab = Model::new();
            let giving = [1, 2].map(|place| {
                let slab = slab.clone();
                thread::spawn(move || {
                    let gave = slab.give(place) == Gave::Slab;
                    if gave {
                        slab.end();
                    }
                    u32::from(gave)
                })
            });
            let (_, taken) = slab.take();
            let left = slab.returned.leave(2 - taken);
            if left {
                slab.end();
            }
            let ends: u32 = giving.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(ends + u32::from(left), 1);
        });
    }
}
