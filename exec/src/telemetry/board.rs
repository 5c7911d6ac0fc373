//! What all threads of a runtime share of its telemetry: the space, and a way to write for threads that have none of their own.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_space::{Clock, Error, LiveRow, NameRef, RowKind, Space};

use super::base::ReadyBy;
use super::kinds::{Cause, Deadlocked, ModeChanged, NOT_PLACED, OWN_THREAD, SettingAdopted, TaskMapped};
use super::mode::Mode;
use super::recorder::Recorder;
use super::rows::RowKinds;
use super::stream::{WatchedStream, closed, write_sizes};
use super::task::{Origin, WatchedTask};
use super::threads::Threads;
use crate::fault::Fault;

/// A dispatch that lasts longer asks the kernel whether its thread had a processor all the while, which takes about 1 µs. A thread that
/// the kernel puts off its processor for another process waits for longer than this.
const LONG_NS: u64 = 200_000;

/// A dispatch that lasts longer asks what it used of its processor, too, which takes 0.3 µs.
const LONGER_NS: u64 = 1_000_000;

/// How often it is looked what a thread used of its processor, in nanoseconds.
const USAGE_NS: u64 = 20_000_000;

/// How often a worker's row is shown while the worker has something to do, in nanoseconds: readers look at it less often.
const ROW_NS: u64 = 50_000;

/// What the recorders of all threads share. It is aligned so that it lies in other cache lines than its
/// reference count.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Board {
    space: Option<Space>,
    /// The kinds of live row, as the space numbers them.
    rows: Option<RowKinds>,
    pub(super) clock: Clock,
    /// Ticks between two looks at what a thread used of its processor.
    pub(super) usage_ticks: u64,
    /// Ticks between two times that a worker's row is shown, while it has something to do.
    pub(super) row_ticks: u64,
    /// What a dispatch lasts at least that asks whether its thread was kept from its processor.
    pub(super) long_ticks: u64,
    /// What one lasts at least that asks what it used of it.
    pub(super) longer_ticks: u64,
    /// The threads that dispatch tasks.
    pub(super) threads: Arc<Threads>,
    /// Threads that are neither workers nor blocking tasks write through this.
    outside: Mutex<Option<Recorder>>,
}

impl Board {
    pub(crate) fn new(space: Option<Space>) -> Result<Board, Error> {
        let rows = space.as_ref().map(RowKinds::describe).transpose()?;
        let clock = space.as_ref().map_or_else(Clock::new, |space| *space.clock());
        Ok(Board {
            space,
            rows,
            clock,
            usage_ticks: clock.ns_to_ticks(USAGE_NS),
            row_ticks: clock.ns_to_ticks(ROW_NS),
            long_ticks: clock.ns_to_ticks(LONG_NS),
            longer_ticks: clock.ns_to_ticks(LONGER_NS),
            threads: Arc::default(),
            outside: Mutex::default(),
        })
    }

    /// No dispatch is long enough to be asked what it used of its processor.
    pub(crate) fn without_accounts(self) -> Board {
        Board { long_ticks: u64::MAX, longer_ticks: u64::MAX, ..self }
    }

    /// Lets threads without a recorder of their own write, too.
    pub(crate) fn open_to_others(&self) -> Result<(), Error> {
        *self.outside.lock().unwrap_or_else(PoisonError::into_inner) = self.recorder("outside")?;
        Ok(())
    }

    pub(crate) fn space(&self) -> Option<&Space> {
        self.space.as_ref()
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A thread's own way to write events; none without a space.
    pub(crate) fn recorder(&self, name: &str) -> Result<Option<Recorder>, Error> {
        self.space.as_ref().map(|space| Recorder::new(space, name)).transpose()
    }

    /// A row of the live table; none without a space, or if it had no room.
    pub(super) fn live_row(&self, kind: impl FnOnce(&RowKinds) -> RowKind, id: u64) -> Option<LiveRow> {
        self.space.as_ref()?.live_row(kind(self.rows.as_ref()?), id).ok()
    }

    /// Writes from a thread without a recorder of its own.
    pub(super) fn write_from_outside(&self, write: impl FnOnce(&mut Recorder, u64)) {
        if self.space.is_some()
            && let Some(recorder) = &mut *self.outside.lock().unwrap_or_else(PoisonError::into_inner)
        {
            // Under the lock, so that the element's times do not run backwards.
            write(recorder, self.clock.now());
        }
    }

    // ---- moments outside of the threads that run tasks

    /// The runtime begins in this mode.
    pub(crate) fn begins(&self, mode: Mode) {
        self.write_from_outside(|recorder, now| recorder.at(now, &ModeChanged { mode: mode as u8 }));
    }

    /// The runtime adopted a setting's new value.
    pub(crate) fn setting_adopted(&self, name: NameRef, old: u64, new: u64) {
        self.write_from_outside(|recorder, now| recorder.at(now, &SettingAdopted { name, old, new }));
    }

    /// A task is made that the mapper is yet to place.
    pub(crate) fn task_made(&self, task: &impl WatchedTask, origin: Origin) {
        self.write_from_outside(|recorder, now| {
            task.begin_times(now);
            recorder.at(now, &origin.created(task, NOT_PLACED));
        });
    }

    /// A task with a thread of its own is made.
    pub(crate) fn blocking_task_made(&self, task: &impl WatchedTask, origin: Origin) {
        self.write_from_outside(|recorder, now| {
            task.begin_times(now);
            recorder.at(now, &origin.created(task, OWN_THREAD));
        });
    }

    /// The mapper has placed a task that was made before the start, and it is ready.
    pub(crate) fn task_placed(&self, task: &impl WatchedTask, worker: u32) {
        self.write_from_outside(|recorder, now| {
            recorder.at(now, &TaskMapped { task: task.number(), worker });
            task.set_ready(ReadyBy::new(Cause::Created, 0));
        });
    }

    /// A task has ended that no thread has run, or whose thread has no recorder.
    pub(crate) fn task_ended(&self, task: &impl WatchedTask, outcome: &Result<(), Fault>) {
        self.write_from_outside(|recorder, now| task.write_end(recorder, now, outcome, &[]));
    }

    /// Both ends of a stream are gone.
    pub(crate) fn stream_closed(&self, stream: &impl WatchedStream) {
        let closed = closed(stream);
        self.write_from_outside(|recorder, now| {
            write_sizes(stream, recorder, now);
            recorder.at(now, &closed);
        });
    }

    /// These waits are a deadlock.
    pub(crate) fn deadlocked(&self, waits: impl Iterator<Item = Deadlocked>) {
        self.write_from_outside(|recorder, now| waits.for_each(|wait| recorder.at(now, &wait)));
    }
}
