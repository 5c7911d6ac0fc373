//! What the space shows of tasks and streams: their rows in the live table and a task's time, in four shares.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_space::{LiveRow, NameRef, RowKind, Space};

use crate::runtime::{Mode, Shared};
use crate::spare::{Spared, spared};
use crate::task::TaskSpec;

/// Cells of a task's live row.
pub(crate) mod task_cell {
    pub(crate) const STATE: usize = 0;
    pub(crate) const COMPONENT: usize = 1;
    pub(crate) const REPLICA: usize = 2;
    pub(crate) const WORKER: usize = 3;
    pub(crate) const DISPATCHES: usize = 4;
    pub(crate) const READS: usize = 5;
    pub(crate) const WRITES: usize = 6;
    /// Busy, waiting for input, waiting for output, ready: four cells in the order of [`super::Share`].
    pub(crate) const SHARES: usize = 7;
    pub(crate) const FAILED: usize = 11;
}

/// Values of a task's state cell.
pub(crate) mod task_state {
    pub(crate) const READY: u64 = 1;
    pub(crate) const RUNNING: u64 = 2;
    pub(crate) const BLOCKED_INPUT: u64 = 3;
    pub(crate) const BLOCKED_OUTPUT: u64 = 4;
    pub(crate) const ENDED: u64 = 5;
}

/// Cells of a stream's live row.
pub(crate) mod stream_cell {
    pub(crate) const NAME: usize = 0;
    pub(crate) const READER: usize = 1;
    pub(crate) const WRITER: usize = 2;
    pub(crate) const CAPACITY: usize = 3;
    pub(crate) const WRITTEN: usize = 4;
    pub(crate) const READ: usize = 5;
    pub(crate) const DROPPED: usize = 6;
    pub(crate) const CLOSED: usize = 7;
}

/// Cells of a worker's live row.
pub(crate) mod worker_cell {
    pub(crate) const CORE: usize = 0;
    pub(crate) const STATE: usize = 1;
    pub(crate) const TASK: usize = 2;
    pub(crate) const MESSAGE: usize = 3;
    pub(crate) const BUSY: usize = 4;
    pub(crate) const WAITING: usize = 5;
    pub(crate) const STARTED: usize = 6;
    pub(crate) const UPDATED: usize = 7;
    pub(crate) const DISPATCHES: usize = 8;
    pub(crate) const EVENTS: usize = 9;
    /// What a reading of the clock takes on the worker's thread, in picoseconds.
    pub(crate) const CLOCK_READING: usize = 10;
    /// Time the worker was parked.
    pub(crate) const PARKED: usize = 11;
}

/// Values of a worker's state cell.
pub(crate) mod worker_state {
    pub(crate) const RUNNING: u64 = 0;
    pub(crate) const WAITING: u64 = 1;
    pub(crate) const ENDED: u64 = 2;
    pub(crate) const PARKED: u64 = 3;
}

/// Stores into a row's cell, which has one writer at a time; readers take each cell as it comes.
#[inline]
pub(crate) fn put(row: &LiveRow, cell: usize, value: u64) {
    row.cell(cell).store(value, Ordering::Relaxed);
}

/// The mode that a thread has adopted. A build with `--cfg thalweg_no_probes`, to measure against, knows that it is off: what
/// asks for another one is not in its code.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct AdoptedMode(pub(crate) Mode);

impl PartialEq<Mode> for AdoptedMode {
    #[inline]
    fn eq(&self, mode: &Mode) -> bool {
        *mode == if cfg!(thalweg_no_probes) { Mode::Off } else { self.0 }
    }
}

/// What a task's time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Busy = 0,
    InputWait = 1,
    OutputWait = 2,
    Ready = 3,
}

/// A task's time. Belongs to the task's thread, but for `woken_at`.
#[derive(Default)]
pub(crate) struct Times {
    shares: [Cell<u64>; 4],
    /// Until when the time is told.
    until: Cell<u64>,
    /// When another thread woke the task, in ticks; 0: not measured. Written by that thread before it puts the task
    /// into the inbox, read by the task's worker after it took it out.
    pub(crate) woken_at: AtomicU64,
}

impl Times {
    /// Starts at `now`.
    pub(crate) fn begin(&self, now: u64) {
        self.until.set(now);
    }

    /// Tells the time until `now` as `share`. Nothing is told of what was before `measured_since`.
    #[inline]
    pub(crate) fn turn(&self, share: Share, now: u64, measured_since: u64) {
        let from = self.until.get().max(measured_since);
        // Clocks of two cores may disagree by some ticks: time never runs backwards here, so the shares add up.
        let now = now.max(from);
        let told = &self.shares[share as usize];
        told.set(told.get() + (now - from));
        self.until.set(now);
    }

    #[inline]
    pub(crate) fn share(&self, share: Share) -> u64 {
        self.shares[share as usize].get()
    }
}

/// What is kept of a task for who observes it: nothing of it is there without a space.
pub(crate) struct ObservedTask {
    /// Its row; none if the space had no room.
    pub(crate) row: Option<LiveRow>,
    pub(crate) times: Times,
    /// The last message popped in a dispatch before, while everything is told.
    pub(crate) read_before: Cell<ReadBefore>,
}

/// A message that a dispatch popped last.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReadBefore {
    pub(crate) stream: u64,
    pub(crate) index: u64,
    /// When that dispatch ended; 0: there is none.
    pub(crate) at: u64,
}

spared!(ObservedTask);

impl ObservedTask {
    pub(crate) fn new(space: &Space, id: u64, spec: &TaskSpec) -> Spared<ObservedTask> {
        let row = space.live_row(RowKind::Task, id).ok();
        if let Some(row) = &row {
            put(row, task_cell::STATE, task_state::READY);
            put(row, task_cell::COMPONENT, spec.component.0);
            put(row, task_cell::REPLICA, spec.replica);
        }
        Spared::new(ObservedTask { row, times: Times::default(), read_before: Cell::default() })
    }
}

/// What the space shows of a stream.
pub(crate) struct ObservedStream {
    pub(crate) row: LiveRow,
    pub(crate) shared: Arc<Shared>,
}

spared!(ObservedStream);

impl ObservedStream {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        id: u64,
        name: NameRef,
        capacity: usize,
    ) -> Option<Spared<ObservedStream>> {
        let row = shared.space.as_ref()?.live_row(RowKind::Stream, id).ok()?;
        put(&row, stream_cell::NAME, name.0);
        put(&row, stream_cell::CAPACITY, capacity as u64);
        Some(Spared::new(ObservedStream { row, shared: shared.clone() }))
    }
}
