//! What the monitor understands of a run: the events of the runtime, as plain values.
//!
//! The observed program's code is unknown here. [`crate::decode`] makes observations from the kinds a catalog
//! declares, and tests make them by hand. Times are ticks of the space's clock; ids are unique in the process
//! and never reused, 0 meaning "none"; indices of messages count from 0 in each stream.

/// How much the observed program tells about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Structural events only; totals once, at the end.
    Off,
    /// Counters are published while it runs.
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

    /// The mode of a number (its place among the setting's choices).
    pub fn from_number(number: u64) -> Option<Mode> {
        [Mode::Off, Mode::Metrics, Mode::Full].get(usize::try_from(number).ok()?).copied()
    }

    /// The mode of a word.
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

/// The k-th message of `child` descends from message `parent_first + k * step` of `parent_stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The messages written.
    pub child: Run,
    /// The stream their ancestors were read from.
    pub parent_stream: u64,
    /// Index of the first ancestor.
    pub parent_first: u64,
    /// 0: all have one ancestor; 1: consecutive ancestors.
    pub step: u64,
}

/// One thing the observed program said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation {
    /// A worker's thread began.
    WorkerStarted {
        /// Its id.
        worker: u64,
        /// The core it is pinned to, −1 if none.
        core: i64,
        /// The NUMA node of that core, −1 if it is not known.
        node: i64,
        /// What a reading of the clock takes on its thread; 0: not told.
        clock_reading_ps: u64,
    },
    /// A worker takes no part from now on: it gives its tasks away and sleeps.
    WorkerParked {
        /// Its id.
        worker: u64,
    },
    /// A worker takes part again.
    WorkerUnparked {
        /// Its id.
        worker: u64,
    },
    /// The run found a deadlock; this is one of its waits.
    Deadlocked {
        /// Who waits.
        task: u64,
        /// For this stream, maybe one of several.
        stream: u64,
        /// Who is at its other end.
        peer: u64,
        /// For room; else for a message.
        for_room: bool,
    },
    /// A worker found nothing to run.
    WorkerWaiting {
        /// Its id.
        worker: u64,
    },
    /// A worker has work again.
    WorkerResumed {
        /// Its id.
        worker: u64,
    },
    /// A worker's thread ended, with its totals.
    WorkerEnded {
        /// Its id.
        worker: u64,
        /// Time it ran tasks.
        busy_ticks: u64,
        /// Time it found nothing to run.
        waiting_ticks: u64,
        /// What else it told of its time.
        besides: Besides,
    },
    /// For so long a worker could have run and had no processor.
    Kept {
        /// The worker.
        worker: u64,
        /// The task whose dispatch, which is told next, it was; 0: none, so it was in the wait that ends next, or in the worker's own
        /// work that ends now.
        task: u64,
        /// For how long.
        duration: u64,
    },
    /// A task exists.
    TaskCreated {
        /// Its id.
        task: u64,
        /// Its component's site.
        component: u64,
        /// The task that created it.
        parent: u64,
        /// Which replica of its component it is.
        replica: u64,
        /// Its k-th written message descends from its k-th read one.
        one_to_one: bool,
        /// It has a thread of its own.
        blocking: bool,
    },
    /// A task was given to a worker.
    TaskMapped {
        /// Its id.
        task: u64,
        /// The worker's id.
        worker: u64,
    },
    /// A task goes to another worker.
    TaskMoved {
        /// Its id.
        task: u64,
        /// The worker's id from now on.
        worker: u64,
    },
    /// What a thread used of its processor so far.
    ThreadUsed {
        /// The worker; `u32::MAX` or more: the thread of a task.
        worker: u64,
        /// That task's id.
        task: u64,
        /// Time it had a processor.
        cpu_ns: u64,
        /// Times it was put off its processor for another thread.
        preempted: u64,
        /// Time it could have run and had no processor, if that is known.
        delayed_ns: Option<u64>,
        /// Of a worker: what else it told of its time.
        besides: Besides,
    },
    /// A task may run.
    TaskReady {
        /// Its id.
        task: u64,
        /// The stream that made it ready, 0 if none.
        by_stream: u64,
    },
    /// A dispatch ended now, having taken `duration` ticks. What it read and wrote follows from the same writer.
    TaskDispatched {
        /// The task's id.
        task: u64,
        /// The worker that ran it.
        worker: u64,
        /// Ticks from its start to this event.
        duration: u64,
    },
    /// The dispatch read these.
    StreamRead(Run),
    /// The dispatch wrote these.
    StreamWrote(Run),
    /// The dispatch wrote these, from these.
    Derived(Derived),
    /// The dispatch ended for want of input.
    BlockedInput {
        /// The task's id.
        task: u64,
        /// The stream it waits on, 0 if several.
        stream: u64,
    },
    /// The dispatch ended for want of room.
    BlockedOutput {
        /// The task's id.
        task: u64,
        /// The stream it waits on, 0 if several.
        stream: u64,
    },
    /// The dispatch ended with its quantum spent.
    Yielded {
        /// The task's id.
        task: u64,
    },
    /// A task is no more.
    TaskEnded {
        /// Its id.
        task: u64,
        /// What it did in all its life.
        totals: TaskTotals,
        /// It ended by a panic or another failure.
        ended_badly: bool,
    },
    /// A stream exists, or one of its ends was attached or changed hands.
    StreamOpened {
        /// Its id.
        stream: u64,
        /// Its name in the catalog.
        name: u64,
        /// The task that reads it, 0 if none yet.
        reader: u64,
        /// The task that writes it, 0 if none yet.
        writer: u64,
        /// Messages it can hold.
        capacity: u64,
    },
    /// A stream is no more, with its positions.
    StreamClosed {
        /// Its id.
        stream: u64,
        /// What went through it.
        totals: StreamTotals,
    },
    /// The program tells more or less from now on.
    ModeChanged {
        /// The mode from now on.
        mode: Mode,
    },
    /// A box refused a message it had read.
    RecordFailed {
        /// The task's id.
        task: u64,
        /// The message.
        message: Run,
    },
    /// A task keeps a message that it reads in the dispatch that is told next, and will say what it writes from it.
    RecordHeld {
        /// The task's id.
        task: u64,
        /// The message.
        message: Run,
    },
    /// A task worked on a message.
    MessageWorked {
        /// The task.
        task: u64,
        /// For how long.
        duration: u64,
    },
    /// Sources rest from now on, or go on, as a command asked for.
    Paused {
        /// They rest.
        paused: bool,
    },
    /// The network's input messages come through this stream.
    Entry {
        /// Its id.
        stream: u64,
    },
    /// The network's output messages leave through this stream.
    Exit {
        /// Its id.
        stream: u64,
    },
}

/// What a worker's time was besides dispatches and waits, up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Besides {
    /// Own work: it woke other threads, moved tasks.
    pub own_ticks: u64,
    /// It could have run and had no processor.
    pub kept_ticks: u64,
}

/// Names of the runtime's kinds in the catalog, by [`Observation::number`].
pub(crate) const KIND_NAMES: [&str; 30] = [
    "exec.worker_started",
    "exec.worker_waiting",
    "exec.worker_resumed",
    "exec.worker_ended",
    "exec.task_created",
    "exec.task_mapped",
    "exec.task_moved",
    "exec.thread_used",
    "exec.task_ready",
    "exec.task_dispatched",
    "exec.stream_read",
    "exec.stream_wrote",
    "exec.derived",
    "exec.task_blocked_input",
    "exec.task_blocked_output",
    "exec.task_yielded",
    "exec.task_ended",
    "exec.stream_opened",
    "exec.stream_closed",
    "exec.mode_changed",
    "net.record_failed",
    "net.entry",
    "net.exit",
    "exec.worker_parked",
    "exec.worker_unparked",
    "exec.message_worked",
    "exec.deadlocked",
    "control.paused",
    "exec.kept",
    "net.record_held",
];

impl Observation {
    /// The place of its kind's name in [`KIND_NAMES`].
    #[inline]
    pub(crate) fn number(&self) -> u16 {
        match self {
            Observation::WorkerStarted { .. } => 0,
            Observation::WorkerWaiting { .. } => 1,
            Observation::WorkerResumed { .. } => 2,
            Observation::WorkerEnded { .. } => 3,
            Observation::TaskCreated { .. } => 4,
            Observation::TaskMapped { .. } => 5,
            Observation::TaskMoved { .. } => 6,
            Observation::ThreadUsed { .. } => 7,
            Observation::TaskReady { .. } => 8,
            Observation::TaskDispatched { .. } => 9,
            Observation::StreamRead(_) => 10,
            Observation::StreamWrote(_) => 11,
            Observation::Derived(_) => 12,
            Observation::BlockedInput { .. } => 13,
            Observation::BlockedOutput { .. } => 14,
            Observation::Yielded { .. } => 15,
            Observation::TaskEnded { .. } => 16,
            Observation::StreamOpened { .. } => 17,
            Observation::StreamClosed { .. } => 18,
            Observation::ModeChanged { .. } => 19,
            Observation::RecordFailed { .. } => 20,
            Observation::Entry { .. } => 21,
            Observation::Exit { .. } => 22,
            Observation::WorkerParked { .. } => 23,
            Observation::WorkerUnparked { .. } => 24,
            Observation::MessageWorked { .. } => 25,
            Observation::Deadlocked { .. } => 26,
            Observation::Paused { .. } => 27,
            Observation::Kept { .. } => 28,
            Observation::RecordHeld { .. } => 29,
        }
    }
}

/// Totals of a task's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTotals {
    /// Time it ran.
    pub busy_ticks: u64,
    /// Time it waited for messages.
    pub input_wait_ticks: u64,
    /// Time it waited for room.
    pub output_wait_ticks: u64,
    /// Time it could have run and did not.
    pub ready_ticks: u64,
    /// Dispatches, reads and writes, where they are told.
    pub counts: Option<TaskCounts>,
}

/// Counts of a task's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Times it was run.
    pub dispatches: u64,
    /// Messages it read.
    pub reads: u64,
    /// Messages it wrote.
    pub writes: u64,
}

/// Positions of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Messages written to it.
    pub written: u64,
    /// Messages read from it.
    pub read: u64,
    /// Messages nobody will read, because the reader is gone.
    pub dropped: u64,
}

/// A row of the live table: a task, stream or worker that existed when the space was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LiveRow {
    /// A task.
    Task {
        /// Its id.
        task: u64,
        /// What it was doing.
        state: LiveState,
        /// Its component's site.
        component: u64,
        /// Which replica it is.
        replica: u64,
        /// The worker it is on.
        worker: u64,
        /// What it did until its last publication.
        totals: TaskTotals,
    },
    /// A stream.
    Stream {
        /// Its id.
        stream: u64,
        /// Its name in the catalog.
        name: u64,
        /// The task that reads it.
        reader: u64,
        /// The task that writes it.
        writer: u64,
        /// Messages it can hold.
        capacity: u64,
        /// Its positions at the last publication.
        totals: StreamTotals,
    },
    /// A worker.
    Worker {
        /// Its id.
        worker: u64,
        /// The core it is pinned to, −1 if none.
        core: i64,
        /// The task it was on, 0 if none.
        task: u64,
        /// Index of the message it was on.
        message: u64,
        /// Time it ran tasks.
        busy_ticks: u64,
        /// Time it found nothing to run.
        waiting_ticks: u64,
        /// When it started.
        started: u64,
        /// When it ended or last published.
        updated: u64,
        /// Dispatches.
        dispatches: u64,
        /// What a reading of the clock takes on its thread, in picoseconds; 0: not told.
        clock_reading_ps: u64,
        /// It took no part when it last published.
        parked: bool,
        /// Time it took no part, until it last published.
        parked_ticks: u64,
        /// It has ended.
        ended: bool,
    },
}

/// What a task in the live table was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveState {
    /// Nothing yet.
    Idle,
    /// Waiting for its worker.
    Ready,
    /// Running.
    Running,
    /// Waiting for messages.
    BlockedInput,
    /// Waiting for room.
    BlockedOutput,
    /// No more.
    Ended,
}

impl LiveState {
    /// The state of a cell's number.
    pub fn from_number(number: u64) -> LiveState {
        match number {
            1 => LiveState::Ready,
            2 => LiveState::Running,
            3 => LiveState::BlockedInput,
            4 => LiveState::BlockedOutput,
            5 => LiveState::Ended,
            _ => LiveState::Idle,
        }
    }
}
