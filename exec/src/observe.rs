//! What the space shows of tasks and streams: their rows in the live table and a task's time, in four shares.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use thalweg_space::{LiveRow, NameRef, RowKind, Space};

use crate::runtime::{Mode, Shared};
use crate::spare::{Spare, spared};
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

    /// So much of the time counted as busy was not: the thread had no processor.
    pub(crate) fn kept(&self, ticks: u64) {
        let [busy, .., ready] = &self.shares;
        let ticks = ticks.min(busy.get());
        busy.set(busy.get() - ticks);
        ready.set(ready.get() + ticks);
    }

    #[inline]
    pub(crate) fn share(&self, share: Share) -> u64 {
        self.shares[share as usize].get()
    }
}

/// What is kept of a task for who observes it. In mode off only tasks that live long have it: a row is more than half as
/// much again as all else, and a network that unfolds makes and ends tasks all the time.
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
    pub(crate) fn new(space: &Space, id: u64, spec: &TaskSpec) -> ObservedTask {
        let row = space.live_row(RowKind::Task, id).ok();
        if let Some(row) = &row {
            put(row, task_cell::STATE, task_state::READY);
            put(row, task_cell::COMPONENT, spec.component.0);
            put(row, task_cell::REPLICA, spec.replica);
        }
        ObservedTask { row, times: Times::default(), read_before: Cell::default() }
    }
}

/// A stream's way to the space: none, the runtime whose space it is, or from its first measured message on (with a name,
/// from its beginning) a row.
pub(crate) struct ObservedStream(
    /// Null, a share of the runtime (marked by [`UNSHOWN`]), or what is shown, which has the share then. Goes forward only.
    AtomicPtr<u8>,
);

/// The lowest bit of a pointer to a runtime; that to what is shown has none.
const UNSHOWN: usize = 1;

/// What the space shows of a stream.
pub(crate) struct ShownStream {
    /// None if the space had no room.
    row: Option<LiveRow>,
    /// The share of the runtime: it is the [`ObservedStream`]'s to drop.
    shared: *const Shared,
}

spared!(ShownStream);

impl ObservedStream {
    /// Without a space.
    pub(crate) fn none() -> ObservedStream {
        ObservedStream(AtomicPtr::new(std::ptr::null_mut()))
    }

    pub(crate) fn new(shared: &Arc<Shared>, id: u64, name: NameRef, capacity: u32) -> ObservedStream {
        if shared.space.is_none() {
            return ObservedStream::none();
        }
        let share = Arc::into_raw(shared.clone()).cast_mut().cast::<u8>();
        let observed = ObservedStream(AtomicPtr::new(share.map_addr(|address| address | UNSHOWN)));
        if name != NameRef::NONE
            && let Some(row) = observed.show(id, capacity)
        {
            put(row, stream_cell::NAME, name.0);
        }
        observed
    }

    fn shown(&self) -> Option<&ShownStream> {
        let pointer = self.0.load(Ordering::Acquire);
        // SAFETY: what is shown is kept as long as this; the low bit tells it from a runtime.
        if pointer.addr() & UNSHOWN == 0 { unsafe { pointer.cast::<ShownStream>().as_ref() } } else { None }
    }

    /// The stream's row, if it has one.
    #[inline]
    pub(crate) fn row(&self) -> Option<&LiveRow> {
        self.shown()?.row.as_ref()
    }

    /// The runtime whose space it is told to.
    pub(crate) fn shared(&self) -> Option<&Shared> {
        // SAFETY: a share that is kept as long as this.
        unsafe { self.share().as_ref() }
    }

    /// The share of the runtime; null: none.
    fn share(&self) -> *const Shared {
        let pointer = self.0.load(Ordering::Acquire);
        if pointer.addr() & UNSHOWN != 0 {
            return unmarked(pointer);
        }
        self.shown().map_or(std::ptr::null(), |shown| shown.shared)
    }

    /// The stream's row, made now if it has none. Any thread may ask for it.
    #[cold]
    pub(crate) fn show(&self, id: u64, capacity: u32) -> Option<&LiveRow> {
        let pointer = self.0.load(Ordering::Acquire);
        if pointer.addr() & UNSHOWN == 0 {
            return self.row();
        }
        let share = unmarked(pointer);
        // SAFETY: as in `shared`.
        let space = unsafe { &*share }.space.as_ref();
        let row = space.and_then(|space| space.live_row(RowKind::Stream, id).ok());
        if let Some(row) = &row {
            put(row, stream_cell::CAPACITY, u64::from(capacity));
        }
        let made = Spare::make(ShownStream { row, shared: share }).as_ptr();
        let first = self.0.compare_exchange(pointer, made.cast(), Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() {
            // SAFETY: the other end was first, and nobody has seen this.
            unsafe { Spare::free(made) }
        }
        self.row()
    }
}

/// The runtime that a marked pointer leads to.
fn unmarked(pointer: *mut u8) -> *const Shared {
    pointer.map_addr(|address| address & !UNSHOWN).cast_const().cast()
}

impl Drop for ObservedStream {
    fn drop(&mut self) {
        let (share, pointer) = (self.share(), self.0.load(Ordering::Acquire));
        if share.is_null() {
            return;
        }
        // SAFETY: the share is this's own, and so is what is shown; nobody else has this any more. The row goes first, as long
        // as there is the runtime with its space.
        unsafe {
            if pointer.addr() & UNSHOWN == 0 {
                Spare::free(pointer.cast::<ShownStream>());
            }
            drop(Arc::from_raw(share));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::runtime::Options;
    use thalweg_space::SpaceOptions;
    use thalweg_space::reader::SpaceReader;

    #[test]
    fn both_ends_of_a_stream_may_show_it_first_and_give_all_back() {
        let folder = std::env::temp_dir().join(format!("thalweg-exec-shown-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let space =
            Space::create(SpaceOptions { parent: Some(folder.clone()), ..SpaceOptions::default() }).unwrap();
        let reader = SpaceReader::open(space.path()).unwrap();
        let options = Options { space: Some(space.clone()), ..Options::default() };
        let shared = Shared::new(&options, None).unwrap();
        for round in 1..200 {
            let name = NameRef(round % 2);
            let observed = ObservedStream::new(&shared, round, name, 7);
            assert_eq!(observed.row().is_some(), name != NameRef::NONE);
            std::thread::scope(|threads| {
                for _ in 0..2 {
                    threads.spawn(|| {
                        let row = observed.show(round, 7).expect("the space has room");
                        assert!(std::ptr::eq(row, observed.row().unwrap()));
                        assert!(std::ptr::eq(observed.shared().unwrap(), &*shared));
                    });
                }
            });
            let rows = reader.live_rows().unwrap();
            assert_eq!((rows.len(), rows[0].id, rows[0].cells[stream_cell::CAPACITY]), (1, round, 7));
            assert_eq!(rows[0].cells[stream_cell::NAME], name.0);
            drop(observed);
            assert_eq!((reader.live_rows().unwrap().len(), Arc::strong_count(&shared)), (0, 1));
        }
        drop(ObservedStream::new(&shared, 1, NameRef::NONE, 7));
        assert_eq!(Arc::strong_count(&shared), 1);
        drop(shared);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
