//! The part of the telemetry that all threads of a runtime share: the space, and a recorder for threads that
//! have no recorder of their own.

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

/// The least length of a dispatch after which its thread asks the kernel whether it had a processor all the
/// time; asking takes about 1 µs. If the kernel gives a thread's processor to another process, the thread
/// usually waits for longer than this.
const LONG_NS: u64 = 200_000;

/// The least length of a dispatch after which its thread also asks the kernel for its processor time; asking
/// takes 0.3 µs.
const LONGER_NS: u64 = 1_000_000;

/// The interval at which a thread's processor time is recorded, in nanoseconds.
const USAGE_NS: u64 = 20_000_000;

/// The interval at which a busy worker's row is written, in nanoseconds; readers look at the row less often.
const ROW_NS: u64 = 50_000;

/// The state that the recorders of all threads share. The board is aligned so that it lies in other cache
/// lines than its reference count.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Board {
    space: Option<Space>,
    /// The kinds of live row, as the space numbers them.
    rows: Option<RowKinds>,
    pub(super) clock: Clock,
    /// [`USAGE_NS`] in ticks.
    pub(super) usage_ticks: u64,
    /// [`ROW_NS`] in ticks.
    pub(super) row_ticks: u64,
    /// [`LONG_NS`] in ticks.
    pub(super) long_ticks: u64,
    /// [`LONGER_NS`] in ticks.
    pub(super) longer_ticks: u64,
    /// The threads that dispatch tasks, which the sampler samples.
    pub(super) threads: Arc<Threads>,
    /// The recorder of all threads that are neither workers nor blocking tasks.
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

    /// Makes threads never ask the kernel about their use of a processor at the end of a dispatch.
    pub(crate) fn without_accounts(self) -> Board {
        Board { long_ticks: u64::MAX, longer_ticks: u64::MAX, ..self }
    }

    /// Makes the recorder for threads that have no recorder of their own.
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

    /// A thread's own recorder; `None` without a space.
    pub(crate) fn recorder(&self, name: &str) -> Result<Option<Recorder>, Error> {
        self.space.as_ref().map(|space| Recorder::new(space, name)).transpose()
    }

    /// A row of the live table; `None` without a space, or if the table has no room.
    pub(super) fn live_row(&self, kind: impl FnOnce(&RowKinds) -> RowKind, id: u64) -> Option<LiveRow> {
        self.space.as_ref()?.live_row(kind(self.rows.as_ref()?), id).ok()
    }

    /// Lets a thread without a recorder of its own record events.
    pub(super) fn write_from_outside(&self, write: impl FnOnce(&mut Recorder, u64)) {
        if self.space.is_some()
            && let Some(recorder) = &mut *self.outside.lock().unwrap_or_else(PoisonError::into_inner)
        {
            // The clock is read under the lock, so the element's times do not run backwards.
            write(recorder, self.clock.now());
        }
    }

    // ---- moments outside the threads that run tasks

    /// Records that the runtime begins in the given mode.
    pub(crate) fn begins(&self, mode: Mode) {
        self.write_from_outside(|recorder, now| recorder.at(now, &ModeChanged { mode: mode as u8 }));
    }

    /// Records that the runtime adopted a setting's new value.
    pub(crate) fn setting_adopted(&self, name: NameRef, old: u64, new: u64) {
        self.write_from_outside(|recorder, now| recorder.at(now, &SettingAdopted { name, old, new }));
    }

    /// Records that a task is made that the mapper has not placed yet.
    pub(crate) fn task_made(&self, task: &impl WatchedTask, origin: Origin) {
        self.write_from_outside(|recorder, now| {
            task.begin_times(now);
            recorder.at(now, &origin.created(task, NOT_PLACED));
        });
    }

    /// Records that a task with a thread of its own is made.
    pub(crate) fn blocking_task_made(&self, task: &impl WatchedTask, origin: Origin) {
        self.write_from_outside(|recorder, now| {
            task.begin_times(now);
            recorder.at(now, &origin.created(task, OWN_THREAD));
        });
    }

    /// Records that the mapper has placed a task that was made before the start, and that the task is ready.
    pub(crate) fn task_placed(&self, task: &impl WatchedTask, worker: u32) {
        self.write_from_outside(|recorder, now| {
            recorder.at(now, &TaskMapped { task: task.number(), worker });
            task.set_ready(ReadyBy::new(Cause::Created, 0));
        });
    }

    /// Records the end of a task that no thread has run, or that ran on a thread without a recorder.
    pub(crate) fn task_ended(&self, task: &impl WatchedTask, outcome: &Result<(), Fault>) {
        self.write_from_outside(|recorder, now| task.write_end(recorder, now, outcome, &[]));
    }

    /// Records that both ends of a stream are gone.
    pub(crate) fn stream_closed(&self, stream: &impl WatchedStream) {
        let closed = closed(stream);
        self.write_from_outside(|recorder, now| {
            write_sizes(stream, recorder, now);
            recorder.at(now, &closed);
        });
    }

    /// Records the given waits as a deadlock.
    pub(crate) fn deadlocked(&self, waits: impl Iterator<Item = Deadlocked>) {
        self.write_from_outside(|recorder, now| waits.for_each(|wait| recorder.at(now, &wait)));
    }
}
