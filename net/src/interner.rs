//! An append-only table read without a lock: the store behind labels and shapes.
//!
//! Entries live as long as the process. Chunk `c` holds `64 << c` entries, so that the table grows without
//! moving its entries and an index leads to its entry in two dependent loads.

#![forbid(unsafe_code)]

use std::sync::OnceLock;

const CHUNK_FIRST: usize = 64;
const CHUNKS: usize = 15;

/// The most entries that a table holds.
pub(crate) const ENTRIES_MAX: usize = CHUNK_FIRST * ((1 << CHUNKS) - 1);

type Chunk<T> = Box<[OnceLock<T>]>;

/// An append-only table: see the module's description.
pub(crate) struct AppendTable<T> {
    chunks: [OnceLock<Chunk<T>>; CHUNKS],
}

impl<T> AppendTable<T> {
    pub(crate) const fn new() -> AppendTable<T> {
        AppendTable { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// The entry at `index`, if it was set.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let (chunk, offset) = place(index);
        self.chunks.get(chunk)?.get()?[offset].get()
    }

    /// Sets the entry at `index`. The caller assigns the indices: each index below [`ENTRIES_MAX`] is set
    /// once.
    pub(crate) fn set(&self, index: usize, entry: T) {
        let (chunk, offset) = place(index);
        let chunk =
            self.chunks[chunk].get_or_init(|| (0..CHUNK_FIRST << chunk).map(|_| OnceLock::new()).collect());
        assert!(chunk[offset].set(entry).is_ok(), "index {index} is set twice");
    }
}

#[inline]
fn place(index: usize) -> (usize, usize) {
    let from_one = index + CHUNK_FIRST;
    let chunk = (from_one / CHUNK_FIRST).ilog2() as usize;
    (chunk, from_one - (CHUNK_FIRST << chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_fill_the_chunks_without_gaps() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(place(index), expected);
            expected.1 += 1;
            if expected.1 == CHUNK_FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(place(ENTRIES_MAX), (CHUNKS, 0));
    }

    #[test]
    fn entries_stay_where_they_are() {
        let table = AppendTable::new();
        table.set(0, 0);
        let first: *const usize = table.get(0).unwrap();
        (1..1000).for_each(|i| table.set(i, i * i));
        assert!((0..1000).all(|i| table.get(i) == Some(&(i * i))));
        assert_eq!(table.get(1000), None);
        assert_eq!(table.get(ENTRIES_MAX), None);
        assert!(std::ptr::eq(first, table.get(0).unwrap()));
    }
}
