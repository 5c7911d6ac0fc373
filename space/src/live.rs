//! The live table: a row for each object that exists now. Rows are reused. [`crate::row`] describes kinds of
//! rows and their cells.
//!
//! A row's tag holds its kind and a generation that grows with each use, so if a row's tag is the same before
//! and after the row is copied, the copy belongs to one owner.

use crate::error::Error;
use crate::layout::{VERSION, identity, live};
use crate::map::{Fork, Map};
use crate::row::RowKind;
use crate::shared::Shared;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Cells of a row.
pub const LIVE_CELLS: usize = live::CELL_COUNT;

/// A row that this process owns. Each cell has one writer at a time; dropping the row frees it.
#[derive(Debug)]
pub struct LiveRow {
    row: Row,
    shared: Arc<Shared>,
}

impl LiveRow {
    /// Cell `n`, to be stored and loaded relaxed. Panics unless `n` < [`LIVE_CELLS`].
    #[inline(always)]
    pub fn cell(&self, n: usize) -> &AtomicU64 {
        assert!(n < LIVE_CELLS, "a live row has {LIVE_CELLS} cells");
        // SAFETY: `self` holds the space's shared state, which keeps the table alive.
        unsafe { self.row.word(live::CELLS + 8 * n) }
    }

    /// All its cells.
    #[inline]
    pub fn cells(&self) -> &[AtomicU64; LIVE_CELLS] {
        // SAFETY: the cells are contiguous in the row, and `self` holds the space's shared state, which keeps
        // the table alive.
        unsafe { &*self.row.0.as_ptr().add(live::CELLS).cast() }
    }

    /// How many owners the row has had, this one included.
    pub fn generation(&self) -> u64 {
        // SAFETY: the cells are contiguous in the row, and `self` holds the space's shared state, which keeps
        // the table alive.
        unsafe { self.row.generation() }
    }
}

/// A row for reading by another thread of its process. After the owner has dropped it, the row may belong to
/// another owner.
#[derive(Debug)]
pub struct SeenRow {
    row: Row,
    _shared: Arc<Shared>,
}

impl LiveRow {
    /// The same row, for reading by another thread.
    pub fn seen(&self) -> SeenRow {
        SeenRow { row: Row(self.row.0), _shared: Arc::clone(&self.shared) }
    }
}

impl SeenRow {
    /// The current value of cell `n`. Panics unless `n` < [`LIVE_CELLS`].
    pub fn load(&self, n: usize) -> u64 {
        assert!(n < LIVE_CELLS, "a live row has {LIVE_CELLS} cells");
        // SAFETY: `self` holds the space's shared state, which keeps the table alive.
        unsafe { self.row.word(live::CELLS + 8 * n) }.load(Ordering::Relaxed)
    }
}

impl Drop for LiveRow {
    fn drop(&mut self) {
        // SAFETY: `self` holds the space's shared state, which keeps the table alive.
        unsafe { self.row.end() };
        give_back(&self.shared, Row(self.row.0));
    }
}

/// The address of a row, valid while its table lives.
#[derive(Debug)]
pub(crate) struct Row(NonNull<u8>);

// SAFETY: the value is only an address; using it is unsafe and needs the table, whose words are atomic.
unsafe impl Send for Row {}
// SAFETY: the pointer is only an address; using it is unsafe and needs the table, whose words are atomic.
unsafe impl Sync for Row {}

impl Row {
    /// # Safety
    /// The table lives, and `at` is a multiple of 8 within a row.
    #[inline(always)]
    unsafe fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < live::ROW_BYTES && at.is_multiple_of(8));
        // SAFETY: a row lies in its chunk and is aligned; the caller ensures that the table lives and that
        // `at` is a multiple of 8 within the row.
        unsafe { &*self.0.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// # Safety
    /// The table lives.
    unsafe fn generation(&self) -> u64 {
        // SAFETY: the caller ensures that the table lives; `live::TAG` is a multiple of 8 within the row.
        unsafe { self.word(live::TAG) }.load(Ordering::Relaxed) >> 8
    }

    /// Gives the row to its next owner, with empty cells.
    ///
    /// # Safety
    /// The table lives.
    unsafe fn begin(&self, kind: RowKind, id: u64) {
        // SAFETY: the caller ensures that the table lives; `live::TAG` is a multiple of 8 within the row.
        let (word, generation) = unsafe { (|at| self.word(at), self.generation() + 1) };
        word(live::ID).store(id, Ordering::Relaxed);
        for cell in 0..LIVE_CELLS {
            word(live::CELLS + 8 * cell).store(0, Ordering::Relaxed);
        }
        // Release, paired with the reader's first load of the tag: the reader sees the cells cleared, or
        // later values.
        word(live::TAG).store(generation << 8 | u64::from(kind.0), Ordering::Release);
    }

    /// Frees the row: its tag then holds only the generation.
    ///
    /// # Safety
    /// The table lives.
    unsafe fn end(&self) {
        // SAFETY: the caller ensures that the table lives; `live::TAG` is a multiple of 8 within the row.
        unsafe { self.word(live::TAG).store(self.generation() << 8, Ordering::Relaxed) };
        // Release fence, paired with the reader's second load of the tag: a reader that sees a later owner's
        // cell also sees the changed tag.
        fence(Ordering::Release);
    }
}

/// The most rows that a thread takes from the table at once; it keeps at most twice as many.
const RUN_MAX: usize = 64;

/// Free rows of a space that a thread keeps.
#[derive(Debug)]
struct Kept {
    shared: Arc<Shared>,
    rows: Vec<Row>,
    /// How many rows the thread takes next time. The number grows with use, so a thread that needs few rows
    /// keeps few.
    run: usize,
}

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

impl Kept {
    fn take(&mut self) -> Result<Row, Error> {
        if let Some(row) = self.rows.pop() {
            return Ok(row);
        }
        self.rows = self.shared.with_live_table(|table| table.take(self.run))?;
        self.run = (2 * self.run).min(RUN_MAX);
        Ok(self.rows.pop().expect("the table gives one row at least"))
    }

    fn give_back(&mut self, row: Row) {
        if self.rows.len() == 2 * RUN_MAX {
            // The rows that were used longest ago are returned.
            let old = self.rows.drain(..RUN_MAX);
            self.shared.with_live_table(|table| table.free.extend(old));
        }
        self.rows.push(row);
    }

    /// Runs `work` on the rows of the space that this thread keeps.
    fn with<R>(shared: &Arc<Shared>, work: impl FnOnce(&mut Kept) -> R) -> Option<R> {
        let of_space = |kept: &&mut Kept| Arc::ptr_eq(&kept.shared, shared);
        KEPT.try_with(|kept| kept.borrow_mut().as_mut().filter(of_space).map(work)).ok().flatten()
    }
}

/// While this value exists, its thread keeps some of the space's free live rows. So tasks and streams that
/// this thread makes and ends need no lock of the space. See
/// [`Space::keep_live_rows`](crate::Space::keep_live_rows).
#[derive(Debug)]
#[must_use = "dropping it gives the rows back"]
pub struct KeepsRows {
    before: Option<Kept>,
    not_send: PhantomData<*const ()>,
}

pub(crate) fn keep(shared: &Arc<Shared>) -> KeepsRows {
    let kept = Kept { shared: shared.clone(), rows: Vec::new(), run: 1 };
    KeepsRows { before: KEPT.replace(Some(kept)), not_send: PhantomData }
}

impl Drop for KeepsRows {
    fn drop(&mut self) {
        if let Some(Kept { shared, rows, .. }) = KEPT.replace(self.before.take()) {
            shared.with_live_table(|table| table.free.extend(rows));
        }
    }
}

/// Takes a free row for a new owner.
pub(crate) fn take(shared: &Arc<Shared>, kind: RowKind, id: u64) -> Result<LiveRow, Error> {
    let row = match Kept::with(shared, Kept::take) {
        Some(row) => row?,
        None => shared.with_live_table(|table| table.take(1))?.pop().expect("it gives one row at least"),
    };
    // SAFETY: `shared` keeps the table alive.
    unsafe { row.begin(kind, id) };
    Ok(LiveRow { row, shared: shared.clone() })
}

fn give_back(shared: &Arc<Shared>, row: Row) {
    let mut row = Some(row);
    Kept::with(shared, |kept| row.take().map(|row| kept.give_back(row)));
    if row.is_some() {
        shared.with_live_table(|table| table.free.extend(row));
    }
}

/// All rows of a space, guarded by the space's lock.
#[derive(Debug)]
pub(crate) struct LiveTable {
    directory: PathBuf,
    /// The identity's map, which holds the count of chunks for readers.
    identity: Arc<Map>,
    /// The maps that hold the rows; none is removed while the table lives.
    chunks: Vec<Map>,
    free: Vec<Row>,
}

impl LiveTable {
    pub(crate) fn new(directory: PathBuf, identity: Arc<Map>) -> LiveTable {
        LiveTable { directory, identity, chunks: Vec::new(), free: Vec::new() }
    }

    /// Takes up to `most` free rows, at least one.
    fn take(&mut self, most: usize) -> Result<Vec<Row>, Error> {
        if self.free.is_empty() {
            self.grow()?;
        }
        let from = self.free.len().saturating_sub(most);
        Ok(self.free.split_off(from))
    }

    fn grow(&mut self) -> Result<(), Error> {
        let rows = (live::CHUNK_ROWS_FIRST << self.chunks.len().min(16)).min(live::CHUNK_ROWS_MAX);
        let path = self.directory.join(format!("live.{}", self.chunks.len()));
        let chunk = Map::create(&path, live::ROWS + rows * live::ROW_BYTES, Fork::Wipe)?;
        chunk.word(8).store(u64::from(VERSION), Ordering::Relaxed);
        chunk.word(16).store(rows as u64, Ordering::Relaxed);
        chunk.word(0).store(live::MAGIC_VALUE, Ordering::Release);
        // Rows are taken from the end of the list, so the first row is put last.
        let places = (0..rows).rev().map(|index| live::ROWS + index * live::ROW_BYTES);
        self.free.extend(places.map(|at| Row(chunk.place(at, live::ROW_BYTES))));
        self.chunks.push(chunk);
        self.identity.word(identity::LIVE_CHUNKS).store(self.chunks.len() as u64, Ordering::Release);
        Ok(())
    }
}
