//! The rows of the live table, in which the space shows tasks, streams and workers.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_space::{Error, KindEnum, LIVE_CELLS, LiveRow, NameRef, Row, RowKind, SiteRef, Space};

/// A task that exists.
#[derive(Row)]
#[row(name = "exec.task", former = 1)]
pub(crate) struct TaskRow {
    /// What it is doing.
    state: TaskState,
    /// The component of the network it belongs to.
    component: SiteRef,
    /// Which of the component's replicas it is.
    replica: u64,
    /// Its worker; 4294967295: a thread of its own.
    worker: u64,
    /// How often it was dispatched.
    #[field(unit = "dispatches")]
    dispatches: u64,
    /// Messages it read.
    #[field(unit = "messages")]
    reads: u64,
    /// Messages it wrote.
    #[field(unit = "messages")]
    writes: u64,
    // The next four are in the order of `Share`.
    /// Time it ran.
    #[field(unit = "ticks")]
    busy_ticks: u64,
    /// Time it waited for messages.
    #[field(unit = "ticks")]
    input_wait_ticks: u64,
    /// Time it waited for room.
    #[field(unit = "ticks")]
    output_wait_ticks: u64,
    /// Time it was ready and did not run.
    #[field(unit = "ticks")]
    ready_ticks: u64,
    /// Whether it ended badly.
    failed: bool,
}

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum TaskState {
    /// Nothing yet.
    Idle = 0,
    /// The task waits for its worker, or runs there: the worker's row names the task that runs.
    Ready = 1,
    /// The task runs on a thread of its own.
    Running = 2,
    /// The task waits for messages.
    BlockedInput = 3,
    /// The task waits for room.
    BlockedOutput = 4,
    /// The task has ended.
    Ended = 5,
}

/// A stream that exists.
#[derive(Row)]
#[row(name = "exec.stream", former = 2)]
pub(crate) struct StreamRow {
    /// Its name, if it has one.
    name: NameRef,
    /// The task that reads it, or 0.
    reader: u64,
    /// The task that writes it, or 0.
    writer: u64,
    /// How many messages it holds.
    #[field(unit = "messages")]
    capacity: u64,
    /// Messages written to it.
    #[field(unit = "messages")]
    written: u64,
    /// Messages read from it.
    #[field(unit = "messages")]
    read: u64,
    /// Messages nobody reads, because the reader has left.
    #[field(unit = "messages")]
    dropped: u64,
    /// Whether both its ends are gone.
    closed: bool,
}

/// The sizes of a stream's messages, as far as they were taken: the row has the stream's number.
#[derive(Row)]
#[row(name = "exec.message_sizes")]
pub(crate) struct SizesRow {
    /// Messages that the sizes stand for: those up to the last one whose size was taken.
    #[field(unit = "messages")]
    messages: u64,
    /// How large those are together.
    #[field(unit = "B")]
    bytes: u64,
    /// The least size taken.
    #[field(unit = "B")]
    least: u64,
    /// The largest size taken.
    #[field(unit = "B")]
    most: u64,
    /// How the buckets lie. From the lowest bit on: 4 bits, c; 12 bits, b; 7 bits, u; 1 bit, that they are just being moved; 40 bits, how
    /// many sizes were taken. Bucket k, from 0, has the sizes from 2^((b + k) * 2^c / 32) bytes up to where bucket k + 1 begins, and
    /// counts in units of 2^u messages.
    scale: u64,
    /// Buckets 0 to 3 of 28, 16 bits each from the lowest bit on.
    counts_0: u64,
    /// Buckets 4 to 7.
    counts_1: u64,
    /// Buckets 8 to 11.
    counts_2: u64,
    /// Buckets 12 to 15.
    counts_3: u64,
    /// Buckets 16 to 19.
    counts_4: u64,
    /// Buckets 20 to 23.
    counts_5: u64,
    /// Buckets 24 to 27.
    counts_6: u64,
}

/// A worker.
#[derive(Row)]
#[row(name = "exec.worker", former = 3)]
pub(crate) struct WorkerRow {
    /// The core it is bound to; -1: none.
    core: i64,
    /// What it is doing.
    state: WorkerState,
    /// The task it is on, or 0.
    task: u64,
    /// Index of the message it is on.
    message: u64,
    /// Time it dispatched tasks, the little between them included.
    #[field(unit = "ticks")]
    busy_ticks: u64,
    /// Time it had no ready task, but took part.
    #[field(unit = "ticks")]
    waiting_ticks: u64,
    /// When it began.
    #[field(unit = "ticks")]
    started: u64,
    /// When it ended, or published last.
    #[field(unit = "ticks")]
    updated: u64,
    /// How often it dispatched a task.
    #[field(unit = "dispatches")]
    dispatches: u64,
    /// Events it wrote.
    #[field(unit = "events")]
    events: u64,
    /// What a reading of the clock takes on its thread.
    #[field(unit = "ps")]
    clock_reading_ps: u64,
    /// Time it took no part.
    #[field(unit = "ticks")]
    parked_ticks: u64,
}

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum WorkerState {
    /// The worker runs tasks.
    Running = 0,
    /// The worker has no ready task.
    Waiting = 1,
    /// The worker has ended.
    Ended = 2,
    /// The worker is parked.
    Parked = 3,
}

/// The kinds of row as a space knows them.
pub(crate) struct RowKinds {
    pub(super) task: RowKind,
    pub(super) stream: RowKind,
    pub(super) sizes: RowKind,
    pub(super) worker: RowKind,
}

impl RowKinds {
    pub(crate) fn describe(space: &Space) -> Result<RowKinds, Error> {
        Ok(RowKinds {
            task: space.row_kind::<TaskRow>()?,
            stream: space.row_kind::<StreamRow>()?,
            sizes: space.row_kind::<SizesRow>()?,
            worker: space.row_kind::<WorkerRow>()?,
        })
    }
}

/// The cells of a row, or of private memory if the space had no room for a row, so writers of cells need not
/// check.
pub(crate) struct Cells {
    cells: NonNull<[AtomicU64; LIVE_CELLS]>,
    /// `None`: the cells are private memory.
    row: Option<LiveRow>,
}

// SAFETY: the cells are atomic, and live as long as `self`.
unsafe impl Send for Cells {}
// SAFETY: as above.
unsafe impl Sync for Cells {}

impl Cells {
    pub(super) fn new(row: Option<LiveRow>) -> Cells {
        let cells = match &row {
            Some(row) => NonNull::from(row.cells()),
            None => NonNull::from(Box::leak(Box::default())),
        };
        Cells { cells, row }
    }

    /// The row in the space, if there is one.
    pub(super) fn seen_row(&self) -> Option<&LiveRow> {
        self.row.as_ref()
    }
}

impl Deref for Cells {
    type Target = [AtomicU64; LIVE_CELLS];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64; LIVE_CELLS] {
        // SAFETY: the cells belong to the row, which lives as long as `self`, or to `self`.
        unsafe { self.cells.as_ref() }
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        if self.row.is_none() {
            // SAFETY: `new` leaked the cells, and no other reference to them exists.
            drop(unsafe { Box::from_raw(self.cells.as_ptr()) });
        }
    }
}

/// Stores into a row's cell, which has one writer at a time; readers load each cell independently.
#[inline(always)]
pub(crate) fn put(cells: &[AtomicU64; LIVE_CELLS], cell: usize, value: u64) {
    cells[cell].store(value, Ordering::Relaxed);
}
