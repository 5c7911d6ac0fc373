//! The decoded form of a run's events and of the rows of its live table.
//!
//! This module shares no code with the observed program: the types of events are generated from the
//! descriptions of the kinds ([`crate::decoding::events`]). Times are ticks of the space's clock; ids are
//! unique in the process and never reused, 0 meaning "none"; indices of messages count from 0 in each stream.

use thalweg_space::reader::{LiveView, RowFinder};

use crate::decoding::events::{
    BriefTaskEnded, Derived, ModeChanged, Observation, RecordFailed, RecordHeld, StreamClosed, StreamOpened,
    StreamRead, StreamWrote, StreamWroteDescent, TaskCreated, TaskEnded, TaskMapped, ThreadUsed, WorkerEnded,
};
use crate::decoding::rows::{ROWS, Row, TaskRowState, WorkerRowState};
use crate::decoding::sizes::Sizes;

/// The amount of events that the observed program records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Only structural events are recorded, and totals once at the end.
    Off,
    /// Counters are published while the program runs.
    Metrics,
    /// Every dispatch is an event.
    Full,
}

impl Mode {
    /// The word used for the mode in settings and reports.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Metrics => "metrics",
            Mode::Full => "full",
        }
    }

    /// The mode with this number (its place among the setting's choices).
    pub fn from_number(number: u64) -> Option<Mode> {
        [Mode::Off, Mode::Metrics, Mode::Full].get(usize::try_from(number).ok()?).copied()
    }

    /// The mode with this name, in upper or lower case.
    pub fn from_word(word: &str) -> Option<Mode> {
        [Mode::Off, Mode::Metrics, Mode::Full].into_iter().find(|mode| mode.word().eq_ignore_ascii_case(word))
    }
}

/// Messages of one stream with consecutive indices: `first..first + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Id of the stream.
    pub stream: u64,
    /// Index of the first message.
    pub first: u64,
    /// Number of messages.
    pub count: u64,
}

impl StreamRead {
    /// The messages read.
    #[inline]
    pub fn run(&self) -> Run {
        Run { stream: self.stream, first: self.first, count: self.count }
    }
}

impl StreamWrote {
    /// The messages written.
    #[inline]
    pub fn run(&self) -> Run {
        Run { stream: self.stream, first: self.first, count: self.count }
    }
}

impl StreamWrote {
    /// The difference between the indices of the parents of two consecutive messages written, if these
    /// messages descend from messages read from the base's input.
    pub(crate) fn step(&self) -> Option<u64> {
        match self.descent {
            StreamWroteDescent::EachFromNext => Some(1),
            StreamWroteDescent::AllFromOne => Some(0),
            StreamWroteDescent::Unrecorded | StreamWroteDescent::Unknown => None,
        }
    }
}

impl From<Run> for StreamRead {
    fn from(Run { stream, first, count }: Run) -> StreamRead {
        StreamRead { stream, first, count }
    }
}

impl From<Run> for StreamWrote {
    fn from(Run { stream, first, count }: Run) -> StreamWrote {
        StreamWrote { stream, first, count, ..StreamWrote::default() }
    }
}

impl Derived {
    /// The written messages whose descent this event records.
    #[inline]
    pub fn child(&self) -> Run {
        Run { stream: self.stream, first: self.first, count: self.count }
    }
}

impl RecordFailed {
    /// The message.
    pub fn message(&self) -> Run {
        Run { stream: self.stream, first: self.index, count: 1 }
    }
}

impl RecordHeld {
    /// The message.
    pub fn message(&self) -> Run {
        Run { stream: self.stream, first: self.index, count: 1 }
    }
}

impl ModeChanged {
    /// The new mode; `None` if this version of the monitor does not know it.
    pub fn known(&self) -> Option<Mode> {
        Mode::from_number(self.mode)
    }
}

impl WorkerEnded {
    /// The part of the worker's time in which it neither dispatched tasks nor waited.
    pub fn besides(&self) -> Besides {
        Besides { own_ticks: self.own_ticks, kept_ticks: self.kept_ticks }
    }
}

/// The value of a figure that was not recorded.
const NOT_RECORDED: u64 = u64::MAX;

impl ThreadUsed {
    /// The time in which the thread was runnable without a processor, if known.
    pub fn delayed(&self) -> Option<u64> {
        (self.delayed_ns != NOT_RECORDED).then_some(self.delayed_ns)
    }

    /// The part of the worker's time in which it neither dispatched tasks nor waited.
    pub fn besides(&self) -> Besides {
        Besides { own_ticks: self.own_ticks, kept_ticks: self.kept_ticks }
    }
}

impl TaskEnded {
    /// The totals of the task's whole life.
    pub fn totals(&self) -> TaskTotals {
        let TaskEnded { dispatches, reads, writes, .. } = *self;
        TaskTotals {
            busy_ticks: self.busy_ticks,
            input_wait_ticks: self.input_wait_ticks,
            output_wait_ticks: self.output_wait_ticks,
            ready_ticks: self.ready_ticks,
            counts: (reads != NOT_RECORDED).then_some(TaskCounts { dispatches, reads, writes }),
        }
    }

    /// This event with other totals.
    pub fn with_totals(self, totals: TaskTotals) -> TaskEnded {
        let counts =
            totals.counts.map_or([NOT_RECORDED; 3], |known| [known.dispatches, known.reads, known.writes]);
        let [dispatches, reads, writes] = counts;
        TaskEnded {
            busy_ticks: totals.busy_ticks,
            input_wait_ticks: totals.input_wait_ticks,
            output_wait_ticks: totals.output_wait_ticks,
            ready_ticks: totals.ready_ticks,
            dispatches,
            reads,
            writes,
            ..self
        }
    }

    /// Whether the task ended by a panic or another failure.
    pub fn ended_badly(&self) -> bool {
        self.failed || self.panicked
    }
}

/// The worker of a task that is not placed yet.
const NOT_PLACED: u64 = u32::MAX as u64 - 1;

impl TaskCreated {
    /// The parts of the event of a task's creation that former versions recorded as separate events.
    pub(crate) fn besides(&self) -> [Option<Observation>; 3] {
        let TaskCreated { task, worker, input, output, capacity, writer_before, .. } = *self;
        let writer = if writer_before == 0 { 0 } else { task.saturating_sub(writer_before) };
        let opened = |stream: u64, (reader, writer)| {
            (stream != 0).then(|| StreamOpened { stream, name: 0, reader, writer, capacity }.into())
        };
        [
            (worker != NOT_PLACED).then(|| TaskMapped { task, worker }.into()),
            opened(input, (task, writer)),
            opened(output, (0, task)),
        ]
    }
}

impl BriefTaskEnded {
    /// The events as which other versions record the contents of this event.
    pub(crate) fn parts(&self) -> [Option<Observation>; 3] {
        let closed = |stream: u64, written: u64| {
            (stream != 0).then(|| StreamClosed { stream, written, read: written, dropped: 0 }.into())
        };
        let other = if self.other == 0 { 0 } else { self.stream.wrapping_add_signed(self.other) };
        let ended = TaskEnded {
            task: self.task,
            busy_ticks: self.busy_ticks,
            input_wait_ticks: self.input_wait_ticks,
            output_wait_ticks: self.output_wait_ticks,
            ready_ticks: self.ready_ticks,
            dispatches: self.dispatches,
            reads: self.reads,
            writes: self.writes,
            failed: false,
            panicked: false,
        };
        [closed(self.stream, self.passed), closed(other, self.other_passed), Some(ended.into())]
    }
}

impl StreamClosed {
    /// The stream's totals.
    pub fn totals(&self) -> StreamTotals {
        StreamTotals { written: self.written, read: self.read, dropped: self.dropped }
    }
}

/// The time, up to a moment, in which a worker neither dispatched tasks nor waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Besides {
    /// The worker's own work, such as waking other threads and moving tasks.
    pub own_ticks: u64,
    /// The time in which the worker was runnable without a processor.
    pub kept_ticks: u64,
}

/// Totals of a task's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTotals {
    /// The time in which the task ran.
    pub busy_ticks: u64,
    /// The time in which the task waited for messages.
    pub input_wait_ticks: u64,
    /// The time in which the task waited for room.
    pub output_wait_ticks: u64,
    /// The time in which the task was ready but did not run.
    pub ready_ticks: u64,
    /// The numbers of dispatches, of messages read and of messages written, if they were recorded.
    pub counts: Option<TaskCounts>,
}

/// Counts of a task's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// The number of the task's dispatches.
    pub dispatches: u64,
    /// Messages it read.
    pub reads: u64,
    /// Messages it wrote.
    pub writes: u64,
}

/// The positions of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Messages written to the stream.
    pub written: u64,
    /// Messages read from the stream.
    pub read: u64,
    /// Messages that will never be read, because the reader has ended.
    pub dropped: u64,
}

/// A row of the live table: a task, a stream, the sizes of a stream's messages, or a worker that existed when
/// the space was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LiveRow {
    /// A task.
    Task {
        /// The task's id.
        task: u64,
        /// The task's state.
        state: LiveState,
        /// The site of the task's component.
        component: u64,
        /// The number of the task's replica.
        replica: u64,
        /// The worker that runs the task.
        worker: u64,
        /// The task's totals when it last published them.
        totals: TaskTotals,
    },
    /// A stream.
    Stream {
        /// The stream's id.
        stream: u64,
        /// The stream's name in the catalog.
        name: u64,
        /// The task that reads the stream.
        reader: u64,
        /// The task that writes the stream.
        writer: u64,
        /// The number of messages that the stream can hold.
        capacity: u64,
        /// The stream's positions when its ends last published them.
        totals: StreamTotals,
    },
    /// The sizes of a stream's messages.
    Sizes {
        /// The stream.
        stream: u64,
        /// The distribution of the sizes.
        sizes: Sizes,
    },
    /// A worker.
    Worker {
        /// The worker's id.
        worker: u64,
        /// The core that the worker's thread is pinned to, −1 if none.
        core: i64,
        /// The task that the worker ran when it last published, 0 if none.
        task: u64,
        /// The index of the message that the worker processed when it last published.
        message: u64,
        /// The time in which the worker ran tasks.
        busy_ticks: u64,
        /// The time in which the worker had no task to run.
        waiting_ticks: u64,
        /// When it started.
        started: u64,
        /// When the worker ended or last published its row.
        updated: u64,
        /// The number of the worker's dispatches.
        dispatches: u64,
        /// The time of a reading of the clock on the worker's thread, in picoseconds; 0 if not recorded.
        clock_reading_ps: u64,
        /// Whether the worker was parked when it last published its row.
        parked: bool,
        /// The time for which the worker was parked, until it last published its row.
        parked_ticks: u64,
        /// Whether the worker has ended.
        ended: bool,
    },
}

/// The state of a task in the live table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveState {
    /// The task is new and has not run.
    Idle,
    /// The task waits for its worker.
    Ready,
    /// Running.
    Running,
    /// Waiting for messages.
    BlockedInput,
    /// Waiting for room.
    BlockedOutput,
    /// The task has ended.
    Ended,
}

impl From<TaskRowState> for LiveState {
    fn from(state: TaskRowState) -> LiveState {
        match state {
            TaskRowState::Idle | TaskRowState::Unknown => LiveState::Idle,
            TaskRowState::Ready => LiveState::Ready,
            TaskRowState::Running => LiveState::Running,
            TaskRowState::BlockedInput => LiveState::BlockedInput,
            TaskRowState::BlockedOutput => LiveState::BlockedOutput,
            TaskRowState::Ended => LiveState::Ended,
        }
    }
}

impl From<Row> for LiveRow {
    fn from(row: Row) -> LiveRow {
        match row {
            Row::Task(row) => LiveRow::Task {
                task: row.id,
                state: row.state.into(),
                component: row.component,
                replica: row.replica,
                worker: row.worker,
                totals: TaskTotals {
                    busy_ticks: row.busy_ticks,
                    input_wait_ticks: row.input_wait_ticks,
                    output_wait_ticks: row.output_wait_ticks,
                    ready_ticks: row.ready_ticks,
                    counts: Some(TaskCounts {
                        dispatches: row.dispatches,
                        reads: row.reads,
                        writes: row.writes,
                    }),
                },
            },
            Row::Stream(row) => LiveRow::Stream {
                stream: row.id,
                name: row.name,
                reader: row.reader,
                writer: row.writer,
                capacity: row.capacity,
                totals: StreamTotals { written: row.written, read: row.read, dropped: row.dropped },
            },
            Row::MessageSizes(row) => LiveRow::Sizes { stream: row.id, sizes: row.into() },
            Row::Worker(row) => LiveRow::Worker {
                worker: row.id,
                core: row.core,
                ended: row.state == WorkerRowState::Ended,
                task: row.task,
                message: row.message,
                busy_ticks: row.busy_ticks,
                waiting_ticks: row.waiting_ticks,
                started: row.started,
                updated: row.updated,
                dispatches: row.dispatches,
                clock_reading_ps: row.clock_reading_ps,
                parked: row.state == WorkerRowState::Parked,
                parked_ticks: row.parked_ticks,
            },
        }
    }
}

/// The rows of the live table whose kinds the monitor knows.
pub fn live_rows(views: &[LiveView]) -> Vec<LiveRow> {
    let mut finder = RowFinder::new(ROWS);
    let known = views.iter().filter_map(|view| {
        let (number, cells) = finder.find(view)?;
        Row::read(number, cells, view).map(LiveRow::from)
    });
    known.collect()
}
