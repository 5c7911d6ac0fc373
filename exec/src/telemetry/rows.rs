//! The rows of the live table, in which the space shows tasks, streams and workers.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_space::{Error, KindEnum, LIVE_CELLS, LiveRow, NameRef, Row, RowKind, SiteRef, Space};

/// The row of a task.
#[derive(Row)]
#[row(name = "exec.task", former = 1)]
pub(crate) struct TaskRow {
    /// The state.
    state: TaskState,
    /// The component of the network that the task belongs to.
    component: SiteRef,
    /// The number of the component's replica that the task belongs to.
    replica: u64,
    /// The task's worker; 4294967295: a thread of its own.
    worker: u64,
    /// The number of the task's dispatches.
    #[field(unit = "dispatches")]
    dispatches: u64,
    /// The number of messages that the task read.
    #[field(unit = "messages")]
    reads: u64,
    /// The number of messages that the task wrote.
    #[field(unit = "messages")]
    writes: u64,
    // This field and the three fields after it are in the order of `Share`.
    /// The time for which the task ran.
    #[field(unit = "ticks")]
    busy_ticks: u64,
    /// The time for which the task waited for messages.
    #[field(unit = "ticks")]
    input_wait_ticks: u64,
    /// The time for which the task waited for room in a stream.
    #[field(unit = "ticks")]
    output_wait_ticks: u64,
    /// The time for which the task was ready but did not run.
    #[field(unit = "ticks")]
    ready_ticks: u64,
    /// Whether the task failed.
    failed: bool,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum TaskState {
    /// The task has not been ready yet.
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

/// The row of a stream.
#[derive(Row)]
#[row(name = "exec.stream", former = 2)]
pub(crate) struct StreamRow {
    /// The stream's name, if it has one.
    name: NameRef,
    /// The task that reads the stream, or 0.
    reader: u64,
    /// The task that writes the stream, or 0.
    writer: u64,
    /// The stream's capacity.
    #[field(unit = "messages")]
    capacity: u64,
    /// The number of messages written to the stream.
    #[field(unit = "messages")]
    written: u64,
    /// The number of messages read from the stream.
    #[field(unit = "messages")]
    read: u64,
    /// The number of messages that no task reads, because the reader has left.
    #[field(unit = "messages")]
    dropped: u64,
    /// Whether both ends of the stream are closed.
    closed: bool,
}

/// The measured sizes of a stream's messages. The row's id is the stream's id.
#[derive(Row)]
#[row(name = "exec.message_sizes")]
pub(crate) struct SizesRow {
    /// The number of messages that the sizes represent: all up to the last one whose size was measured.
    #[field(unit = "messages")]
    messages: u64,
    /// The total size of the messages that the sizes represent.
    #[field(unit = "B")]
    bytes: u64,
    /// The smallest size measured.
    #[field(unit = "B")]
    least: u64,
    /// The largest size measured.
    #[field(unit = "B")]
    most: u64,
    /// The bounds of the buckets. From the lowest bit on: 4 bits, c; 12 bits, b; 7 bits, u; 1 bit, set while
    /// the bounds are being changed; 40 bits, the number of sizes measured. Bucket k, from 0, counts the
    /// sizes from 2^((b + k) * 2^c / 32) bytes up to the start of bucket k + 1, in units of 2^u messages.
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
    /// The core that the worker's thread is bound to; -1: none.
    core: i64,
    /// The state.
    state: WorkerState,
    /// The task that the worker dispatches, or 0.
    task: u64,
    /// The index of the message that the task processes.
    message: u64,
    /// The time in which the worker dispatched tasks, with the short gaps between dispatches.
    #[field(unit = "ticks")]
    busy_ticks: u64,
    /// The time in which the worker had no ready task, without the time in which it was parked.
    #[field(unit = "ticks")]
    waiting_ticks: u64,
    /// When the worker started.
    #[field(unit = "ticks")]
    started: u64,
    /// When the worker ended or last published its row.
    #[field(unit = "ticks")]
    updated: u64,
    /// The number of the worker's dispatches.
    #[field(unit = "dispatches")]
    dispatches: u64,
    /// The number of events that the worker wrote.
    #[field(unit = "events")]
    events: u64,
    /// The time that one reading of the clock takes on the worker's thread.
    #[field(unit = "ps")]
    clock_reading_ps: u64,
    /// The time in which the worker was parked.
    #[field(unit = "ticks")]
    parked_ticks: u64,
}

/// The state of a worker.
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

/// The kinds of row, as declared in a space.
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
    /// The row in the space; `None` if the cells are private memory.
    row: Option<LiveRow>,
}

// SAFETY: the cells are atomic, and live as long as `self`.
unsafe impl Send for Cells {}
// SAFETY: the cells are atomic, and live as long as `self`.
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
