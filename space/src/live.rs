//! The live table: what exists now, in rows that are used again. What kinds of thing that are, and what their rows say, is [`crate::row`]'s.
//!
//! A row's tag holds its kind and a generation that grows with each use, so a reader that copies a row and finds the
//! same tag before and after knows that all it read belongs to one owner.

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
    /// Cell `n`, to be stored and loaded relaxed; `n` < [`LIVE_CELLS`], else a panic.
    #[inline(always)]
    pub fn cell(&self, n: usize) -> &AtomicU64 {
        assert!(n < LIVE_CELLS, "a live row has {LIVE_CELLS} cells");
        // SAFETY: the space's share keeps the table.
        unsafe { self.row.word(live::CELLS + 8 * n) }
    }

    /// All its cells.
    #[inline]
    pub fn cells(&self) -> &[AtomicU64; LIVE_CELLS] {
        // SAFETY: the cells stand side by side in the row, and the space's share keeps the table.
        unsafe { &*self.row.0.as_ptr().add(live::CELLS).cast() }
    }

    /// How many owners the row had, this one included.
    pub fn generation(&self) -> u64 {
        // SAFETY: as above.
        unsafe { self.row.generation() }
    }
}

/// A row as another thread of the process that owns it looks at it. When the owner has dropped it, it may be another's.
#[derive(Debug)]
pub struct SeenRow {
    row: Row,
    _shared: Arc<Shared>,
}

impl LiveRow {
    /// The same row for another thread to look at.
    pub fn seen(&self) -> SeenRow {
        SeenRow { row: Row(self.row.0), _shared: Arc::clone(&self.shared) }
    }
}

impl SeenRow {
    /// What cell `n` holds now; `n` < [`LIVE_CELLS`], else a panic.
    pub fn load(&self, n: usize) -> u64 {
        assert!(n < LIVE_CELLS, "a live row has {LIVE_CELLS} cells");
        // SAFETY: the space's share keeps the table.
        unsafe { self.row.word(live::CELLS + 8 * n) }.load(Ordering::Relaxed)
    }
}

impl Drop for LiveRow {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { self.row.end() };
        give_back(&self.shared, Row(self.row.0));
    }
}

/// Where a row is. Its words are there as long as its table is.
#[derive(Debug)]
pub(crate) struct Row(NonNull<u8>);

// SAFETY: it is only an address; using it is unsafe and needs the table, whose words are atomic.
unsafe impl Send for Row {}
// SAFETY: as above.
unsafe impl Sync for Row {}

impl Row {
    /// # Safety
    /// The table lives, and `at` is a multiple of 8 within a row.
    #[inline(always)]
    unsafe fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < live::ROW_BYTES && at.is_multiple_of(8));
        // SAFETY: rows lie in their chunk, aligned; the rest is demanded of the caller.
        unsafe { &*self.0.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// # Safety
    /// The table lives.
    unsafe fn generation(&self) -> u64 {
        // SAFETY: as demanded of the caller.
        unsafe { self.word(live::TAG) }.load(Ordering::Relaxed) >> 8
    }

    /// Gives the row to its next owner, with empty cells.
    ///
    /// # Safety
    /// The table lives.
    unsafe fn begin(&self, kind: RowKind, id: u64) {
        // SAFETY: as demanded of the caller.
        let (word, generation) = unsafe { (|at| self.word(at), self.generation() + 1) };
        word(live::ID).store(id, Ordering::Relaxed);
        for cell in 0..LIVE_CELLS {
            word(live::CELLS + 8 * cell).store(0, Ordering::Relaxed);
        }
        // Release, paired with the reader's first look at the tag: it sees the cells as cleared, or later.
        word(live::TAG).store(generation << 8 | u64::from(kind.0), Ordering::Release);
    }

    /// Takes the row from its owner; what is left of the tag is the generation.
    ///
    /// # Safety
    /// The table lives.
    unsafe fn end(&self) {
        // SAFETY: as demanded of the caller.
        unsafe { self.word(live::TAG).store(self.generation() << 8, Ordering::Relaxed) };
        // Paired with the reader's second look: a reader that sees a later owner's cell sees the changed tag as well.
        fence(Ordering::Release);
    }
}

/// Rows that a thread takes from the table at once, at most; it keeps twice as many.
const RUN_MAX: usize = 64;

/// Free rows of a space that a thread keeps.
#[derive(Debug)]
struct Kept {
    shared: Arc<Shared>,
    rows: Vec<Row>,
    /// How many it takes next time: a thread that needs few keeps few.
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
            // Those that were used longest ago.
            let old = self.rows.drain(..RUN_MAX);
            self.shared.with_live_table(|table| table.free.extend(old));
        }
        self.rows.push(row);
    }

    /// Lets `work` use what this thread keeps of the space's rows.
    fn with<R>(shared: &Arc<Shared>, work: impl FnOnce(&mut Kept) -> R) -> Option<R> {
        let of_space = |kept: &&mut Kept| Arc::ptr_eq(&kept.shared, shared);
        KEPT.try_with(|kept| kept.borrow_mut().as_mut().filter(of_space).map(work)).ok().flatten()
    }
}

/// While this value exists, its thread keeps some of the space's free live rows. Then tasks and streams that
/// come and go need no lock of the space. See [`Space::keep_live_rows`](crate::Space::keep_live_rows).
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

/// A row for a new owner.
pub(crate) fn take(shared: &Arc<Shared>, kind: RowKind, id: u64) -> Result<LiveRow, Error> {
    let row = match Kept::with(shared, Kept::take) {
        Some(row) => row?,
        None => shared.with_live_table(|table| table.take(1))?.pop().expect("it gives one row at least"),
    };
    // SAFETY: the caller's share keeps the table.
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

/// All rows of a space; the space's lock guards it.
#[derive(Debug)]
pub(crate) struct LiveTable {
    directory: PathBuf,
    /// The identity header, whose count of chunks tells readers how many there are.
    identity: Arc<Map>,
    /// They stay as long as the table: rows lie in them.
    chunks: Vec<Map>,
    free: Vec<Row>,
}

impl LiveTable {
    pub(crate) fn new(directory: PathBuf, identity: Arc<Map>) -> LiveTable {
        LiveTable { directory, identity, chunks: Vec::new(), free: Vec::new() }
    }

    /// Up to `most` free rows, one at least.
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
        // Taken from the end: the first row comes last.
        let places = (0..rows).rev().map(|index| live::ROWS + index * live::ROW_BYTES);
        self.free.extend(places.map(|at| Row(chunk.place(at, live::ROW_BYTES))));
        self.chunks.push(chunk);
        self.identity.word(identity::LIVE_CHUNKS).store(self.chunks.len() as u64, Ordering::Release);
        Ok(())
    }
}
