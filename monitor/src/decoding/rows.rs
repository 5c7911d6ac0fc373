//! The live rows that the monitor knows, typed. Written by `cargo xtask kinds` from `kinds/*.kinds`.

use thalweg_space::RowSpec;
use thalweg_space::kind::{FieldSpec, FieldType};
use thalweg_space::reader::{Cells, LiveView};

use crate::decoding::events::field;

/// A live row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row {
    /// The row of a task.
    Task(TaskRow),
    /// The row of a stream.
    Stream(StreamRow),
    /// The measured sizes of a stream's messages. The row's id is the stream's id.
    MessageSizes(MessageSizesRow),
    /// A worker.
    Worker(WorkerRow),
}

/// The kinds of row that a reader looks for, by name.
pub(crate) const ROWS: &[RowSpec] = &[
    RowSpec { name: "exec.task", doc: "", former: Some(1), cells: TaskRow::CELLS },
    RowSpec { name: "exec.stream", doc: "", former: Some(2), cells: StreamRow::CELLS },
    RowSpec { name: "exec.message_sizes", doc: "", former: None, cells: MessageSizesRow::CELLS },
    RowSpec { name: "exec.worker", doc: "", former: Some(3), cells: WorkerRow::CELLS },
];

impl Row {
    /// The row as the type of the kind at place `number` of [`ROWS`].
    pub(crate) fn read(number: usize, cells: &Cells, view: &LiveView) -> Option<Row> {
        Some(match number {
            0 => Row::Task(TaskRow::read(cells, view)),
            1 => Row::Stream(StreamRow::read(cells, view)),
            2 => Row::MessageSizes(MessageSizesRow::read(cells, view)),
            3 => Row::Worker(WorkerRow::read(cells, view)),
            _ => return None,
        })
    }
}

/// The row of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskRow {
    /// The id of the object that the row shows.
    pub id: u64,
    /// The state.
    pub state: TaskRowState,
    /// The component of the network that the task belongs to.
    pub component: u64,
    /// The number of the component's replica that the task belongs to.
    pub replica: u64,
    /// The task's worker; 4294967295: a thread of its own.
    pub worker: u64,
    /// The number of the task's dispatches.
    pub dispatches: u64,
    /// The number of messages that the task read.
    pub reads: u64,
    /// The number of messages that the task wrote.
    pub writes: u64,
    /// The time for which the task ran.
    pub busy_ticks: u64,
    /// The time for which the task waited for messages.
    pub input_wait_ticks: u64,
    /// The time for which the task waited for room in a stream.
    pub output_wait_ticks: u64,
    /// The time for which the task was ready but did not run.
    pub ready_ticks: u64,
    /// Whether the task failed.
    pub failed: bool,
}

impl TaskRow {
    const CELLS: &'static [FieldSpec] = &[
        FieldSpec {
            choices: &[
                (0, "idle"),
                (1, "ready"),
                (2, "running"),
                (3, "blocked_input"),
                (4, "blocked_output"),
                (5, "ended"),
            ],
            ..field("state", FieldType::Enum)
        },
        field("component", FieldType::Site),
        field("replica", FieldType::U64),
        field("worker", FieldType::U64),
        field("dispatches", FieldType::U64),
        field("reads", FieldType::U64),
        field("writes", FieldType::U64),
        field("busy_ticks", FieldType::U64),
        field("input_wait_ticks", FieldType::U64),
        field("output_wait_ticks", FieldType::U64),
        field("ready_ticks", FieldType::U64),
        field("failed", FieldType::Bool),
    ];

    fn read(cells: &Cells, view: &LiveView) -> TaskRow {
        TaskRow {
            id: view.id,
            state: TaskRowState::of(cells.choice(view, 0)),
            component: cells.u64(view, 1),
            replica: cells.u64(view, 2),
            worker: cells.u64(view, 3),
            dispatches: cells.u64(view, 4),
            reads: cells.u64(view, 5),
            writes: cells.u64(view, 6),
            busy_ticks: cells.u64(view, 7),
            input_wait_ticks: cells.u64(view, 8),
            output_wait_ticks: cells.u64(view, 9),
            ready_ticks: cells.u64(view, 10),
            failed: cells.u64(view, 11) != 0,
        }
    }
}

/// The state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskRowState {
    /// `idle`.
    #[default]
    Idle,
    /// `ready`.
    Ready,
    /// `running`.
    Running,
    /// `blocked_input`.
    BlockedInput,
    /// `blocked_output`.
    BlockedOutput,
    /// `ended`.
    Ended,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl TaskRowState {
    #[inline]
    fn of(number: u64) -> TaskRowState {
        match number {
            0 => TaskRowState::Idle,
            1 => TaskRowState::Ready,
            2 => TaskRowState::Running,
            3 => TaskRowState::BlockedInput,
            4 => TaskRowState::BlockedOutput,
            5 => TaskRowState::Ended,
            _ => TaskRowState::Unknown,
        }
    }
}

/// The row of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamRow {
    /// The id of the object that the row shows.
    pub id: u64,
    /// The stream's name, if it has one.
    pub name: u64,
    /// The task that reads the stream, or 0.
    pub reader: u64,
    /// The task that writes the stream, or 0.
    pub writer: u64,
    /// The stream's capacity.
    pub capacity: u64,
    /// The number of messages written to the stream.
    pub written: u64,
    /// The number of messages read from the stream.
    pub read: u64,
    /// The number of messages that no task reads, because the reader has left.
    pub dropped: u64,
    /// Whether both ends of the stream are closed.
    pub closed: bool,
}

impl StreamRow {
    const CELLS: &'static [FieldSpec] = &[
        field("name", FieldType::Name),
        field("reader", FieldType::U64),
        field("writer", FieldType::U64),
        field("capacity", FieldType::U64),
        field("written", FieldType::U64),
        field("read", FieldType::U64),
        field("dropped", FieldType::U64),
        field("closed", FieldType::Bool),
    ];

    fn read(cells: &Cells, view: &LiveView) -> StreamRow {
        StreamRow {
            id: view.id,
            name: cells.u64(view, 0),
            reader: cells.u64(view, 1),
            writer: cells.u64(view, 2),
            capacity: cells.u64(view, 3),
            written: cells.u64(view, 4),
            read: cells.u64(view, 5),
            dropped: cells.u64(view, 6),
            closed: cells.u64(view, 7) != 0,
        }
    }
}

/// The measured sizes of a stream's messages. The row's id is the stream's id.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MessageSizesRow {
    /// The id of the object that the row shows.
    pub id: u64,
    /// The number of messages that the sizes represent: all up to the last one whose size was measured.
    pub messages: u64,
    /// The total size of the messages that the sizes represent.
    pub bytes: u64,
    /// The smallest size measured.
    pub least: u64,
    /// The largest size measured.
    pub most: u64,
    /// The bounds of the buckets. From the lowest bit on: 4 bits, c; 12 bits, b; 7 bits, u; 1 bit, set while the bounds are being changed; 40 bits, the number of sizes measured. Bucket k, from 0, counts the sizes from 2^((b + k) * 2^c / 32) bytes up to the start of bucket k + 1, in units of 2^u messages.
    pub scale: u64,
    /// Buckets 0 to 3 of 28, 16 bits each from the lowest bit on.
    pub counts_0: u64,
    /// Buckets 4 to 7.
    pub counts_1: u64,
    /// Buckets 8 to 11.
    pub counts_2: u64,
    /// Buckets 12 to 15.
    pub counts_3: u64,
    /// Buckets 16 to 19.
    pub counts_4: u64,
    /// Buckets 20 to 23.
    pub counts_5: u64,
    /// Buckets 24 to 27.
    pub counts_6: u64,
}

impl MessageSizesRow {
    const CELLS: &'static [FieldSpec] = &[
        field("messages", FieldType::U64),
        field("bytes", FieldType::U64),
        field("least", FieldType::U64),
        field("most", FieldType::U64),
        field("scale", FieldType::U64),
        field("counts_0", FieldType::U64),
        field("counts_1", FieldType::U64),
        field("counts_2", FieldType::U64),
        field("counts_3", FieldType::U64),
        field("counts_4", FieldType::U64),
        field("counts_5", FieldType::U64),
        field("counts_6", FieldType::U64),
    ];

    fn read(cells: &Cells, view: &LiveView) -> MessageSizesRow {
        MessageSizesRow {
            id: view.id,
            messages: cells.u64(view, 0),
            bytes: cells.u64(view, 1),
            least: cells.u64(view, 2),
            most: cells.u64(view, 3),
            scale: cells.u64(view, 4),
            counts_0: cells.u64(view, 5),
            counts_1: cells.u64(view, 6),
            counts_2: cells.u64(view, 7),
            counts_3: cells.u64(view, 8),
            counts_4: cells.u64(view, 9),
            counts_5: cells.u64(view, 10),
            counts_6: cells.u64(view, 11),
        }
    }
}

/// A worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerRow {
    /// The id of the object that the row shows.
    pub id: u64,
    /// The core that the worker's thread is bound to; -1: none.
    pub core: i64,
    /// The state.
    pub state: WorkerRowState,
    /// The task that the worker dispatches, or 0.
    pub task: u64,
    /// The index of the message that the task processes.
    pub message: u64,
    /// The time in which the worker dispatched tasks, with the short gaps between dispatches.
    pub busy_ticks: u64,
    /// The time in which the worker had no ready task, without the time in which it was parked.
    pub waiting_ticks: u64,
    /// When the worker started.
    pub started: u64,
    /// When the worker ended or last published its row.
    pub updated: u64,
    /// The number of the worker's dispatches.
    pub dispatches: u64,
    /// The number of events that the worker wrote.
    pub events: u64,
    /// The time that one reading of the clock takes on the worker's thread.
    pub clock_reading_ps: u64,
    /// The time in which the worker was parked.
    pub parked_ticks: u64,
}

impl WorkerRow {
    const CELLS: &'static [FieldSpec] = &[
        field("core", FieldType::I64),
        FieldSpec {
            choices: &[(0, "running"), (1, "waiting"), (2, "ended"), (3, "parked")],
            ..field("state", FieldType::Enum)
        },
        field("task", FieldType::U64),
        field("message", FieldType::U64),
        field("busy_ticks", FieldType::U64),
        field("waiting_ticks", FieldType::U64),
        field("started", FieldType::U64),
        field("updated", FieldType::U64),
        field("dispatches", FieldType::U64),
        field("events", FieldType::U64),
        field("clock_reading_ps", FieldType::U64),
        field("parked_ticks", FieldType::U64),
    ];

    fn read(cells: &Cells, view: &LiveView) -> WorkerRow {
        WorkerRow {
            id: view.id,
            core: cells.u64(view, 0) as i64,
            state: WorkerRowState::of(cells.choice(view, 1)),
            task: cells.u64(view, 2),
            message: cells.u64(view, 3),
            busy_ticks: cells.u64(view, 4),
            waiting_ticks: cells.u64(view, 5),
            started: cells.u64(view, 6),
            updated: cells.u64(view, 7),
            dispatches: cells.u64(view, 8),
            events: cells.u64(view, 9),
            clock_reading_ps: cells.u64(view, 10),
            parked_ticks: cells.u64(view, 11),
        }
    }
}

/// The state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerRowState {
    /// `running`.
    #[default]
    Running,
    /// `waiting`.
    Waiting,
    /// `ended`.
    Ended,
    /// `parked`.
    Parked,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl WorkerRowState {
    #[inline]
    fn of(number: u64) -> WorkerRowState {
        match number {
            0 => WorkerRowState::Running,
            1 => WorkerRowState::Waiting,
            2 => WorkerRowState::Ended,
            3 => WorkerRowState::Parked,
            _ => WorkerRowState::Unknown,
        }
    }
}
