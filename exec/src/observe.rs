//! What the space shows of tasks and streams: their rows in the live table and a task's time, in four shares.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use thalweg_space::{Error, KindEnum, LiveRow, NameRef, Row, RowKind, SiteRef, Space};

use crate::runtime::{Mode, Shared};
use crate::spare::{Spare, spared};
use crate::task::TaskSpec;

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
    // These four in the order of `Share`.
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
    /// It waits for its worker.
    Ready = 1,
    /// It runs.
    Running = 2,
    /// It waits for messages.
    BlockedInput = 3,
    /// It waits for room.
    BlockedOutput = 4,
    /// It is no more.
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
    /// It runs tasks.
    Running = 0,
    /// It has no ready task.
    Waiting = 1,
    /// It is no more.
    Ended = 2,
    /// It takes no part.
    Parked = 3,
}

/// The kinds of row as a space knows them.
pub(crate) struct RowKinds {
    task: RowKind,
    stream: RowKind,
    pub(crate) worker: RowKind,
}

impl RowKinds {
    pub(crate) fn describe(space: &Space) -> Result<RowKinds, Error> {
        Ok(RowKinds {
            task: space.row_kind::<TaskRow>()?,
            stream: space.row_kind::<StreamRow>()?,
            worker: space.row_kind::<WorkerRow>()?,
        })
    }
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
    pub(crate) fn new(shared: &Shared, id: u64, spec: &TaskSpec) -> ObservedTask {
        let row = shared.live_row(|rows| rows.task, id);
        if let Some(row) = &row {
            put(row, TaskRow::STATE, TaskState::Ready as u64);
            put(row, TaskRow::COMPONENT, spec.component.0);
            put(row, TaskRow::REPLICA, spec.replica);
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
            put(row, StreamRow::NAME, name.0);
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
        let row = unsafe { &*share }.live_row(|rows| rows.stream, id);
        if let Some(row) = &row {
            put(row, StreamRow::CAPACITY, u64::from(capacity));
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
            assert_eq!((rows.len(), rows[0].id, rows[0].cell("capacity")), (1, round, Some(7)));
            assert_eq!(rows[0].cell("name"), Some(name.0));
            drop(observed);
            assert_eq!((reader.live_rows().unwrap().len(), Arc::strong_count(&shared)), (0, 1));
        }
        drop(ObservedStream::new(&shared, 1, NameRef::NONE, 7));
        assert_eq!(Arc::strong_count(&shared), 1);
        drop(shared);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
