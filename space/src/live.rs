//! The live table: what exists now (tasks, streams, workers), in rows that are used again.
//!
//! A row's tag holds its kind and a generation that grows with each use, so a reader that copies a row and finds the
//! same tag before and after knows that all it read belongs to one owner.

use crate::error::Error;
use crate::layout::{VERSION, identity, live};
use crate::map::{Fork, Map};
use crate::space::Shared;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Cells of a row.
pub const LIVE_CELLS: usize = live::CELL_COUNT;

/// What a row describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// A task.
    Task = 1,
    /// A stream.
    Stream = 2,
    /// A worker.
    Worker = 3,
}

impl RowKind {
    pub(crate) fn from_code(code: u8) -> Option<RowKind> {
        [RowKind::Task, RowKind::Stream, RowKind::Worker].into_iter().find(|k| *k as u8 == code)
    }
}

/// A row that this process owns. Each cell has one writer at a time; dropping the row frees it.
#[derive(Debug)]
pub struct LiveRow {
    row: Row,
    shared: Arc<Shared>,
}

impl LiveRow {
    pub(crate) fn new(row: Row, shared: Arc<Shared>) -> LiveRow {
        LiveRow { row, shared }
    }

    /// Cell `n`, to be stored and loaded relaxed; `n` < [`LIVE_CELLS`], else a panic.
    #[inline(always)]
    pub fn cell(&self, n: usize) -> &AtomicU64 {
        assert!(n < LIVE_CELLS, "a live row has {LIVE_CELLS} cells");
        // SAFETY: `n` is less than the cells of a row, and the row lies in its chunk.
        unsafe { self.row.chunk.word_unchecked(self.row.at + live::CELLS + 8 * n) }
    }

    /// How many owners the row had, this one included.
    pub fn generation(&self) -> u64 {
        self.row.generation
    }
}

impl Drop for LiveRow {
    fn drop(&mut self) {
        self.shared.release_row(&self.row);
    }
}

/// Where a row is.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    chunk: Arc<Map>,
    at: usize,
    generation: u64,
}

/// All rows of a space; the space's lock guards it.
#[derive(Debug)]
pub(crate) struct LiveTable {
    directory: PathBuf,
    /// The identity header, whose count of chunks tells readers how many there are.
    identity: Arc<Map>,
    chunks: usize,
    free: Vec<Row>,
}

impl LiveTable {
    pub(crate) fn new(directory: PathBuf, identity: Arc<Map>) -> LiveTable {
        LiveTable { directory, identity, chunks: 0, free: Vec::new() }
    }

    pub(crate) fn take(&mut self, kind: RowKind, id: u64) -> Result<Row, Error> {
        if self.free.is_empty() {
            self.grow()?;
        }
        let mut row = self.free.pop().expect("the table just grew");
        row.generation += 1;
        let word = |offset| row.chunk.word(row.at + offset);
        word(live::ID).store(id, Ordering::Relaxed);
        for cell in 0..LIVE_CELLS {
            word(live::CELLS + 8 * cell).store(0, Ordering::Relaxed);
        }
        // Release, paired with the reader's first look at the tag: it sees the cells as cleared, or later.
        word(live::TAG).store(row.generation << 8 | kind as u64, Ordering::Release);
        Ok(row)
    }

    pub(crate) fn give_back(&mut self, row: &Row) {
        row.chunk.word(row.at + live::TAG).store(0, Ordering::Relaxed);
        // Paired with the reader's second look: whoever sees a later owner's cell sees the tag changed as well.
        fence(Ordering::Release);
        self.free.push(row.clone());
    }

    fn grow(&mut self) -> Result<(), Error> {
        let rows = (live::CHUNK_ROWS_FIRST << self.chunks.min(16)).min(live::CHUNK_ROWS_MAX);
        let path = self.directory.join(format!("live.{}", self.chunks));
        let chunk = Map::create(&path, live::ROWS + rows * live::ROW_BYTES, Fork::Wipe)?;
        chunk.word(8).store(u64::from(VERSION), Ordering::Relaxed);
        chunk.word(16).store(rows as u64, Ordering::Relaxed);
        chunk.word(0).store(live::MAGIC_VALUE, Ordering::Release);
        let chunk = Arc::new(chunk);
        // Taken from the end: the first row comes last.
        self.free.extend((0..rows).rev().map(|index| Row {
            chunk: chunk.clone(),
            at: live::ROWS + index * live::ROW_BYTES,
            generation: 0,
        }));
        self.chunks += 1;
        self.identity.word(identity::LIVE_CHUNKS).store(self.chunks as u64, Ordering::Release);
        Ok(())
    }
}
