//! The events that the monitor knows, typed. Written by `cargo xtask kinds` from `kinds/exec.kinds`, `kinds/net.kinds`, `kinds/host.kinds`.
//!
//! A field that a space of another version lacks has the value that its description gives. Numbers are widened to 64
//! bits, so that a version may change their size; names and sites are the numbers by which the catalog knows them.

use thalweg_space::kind::{FieldSpec, FieldType};
use thalweg_space::reader::{Event, Fields};

use crate::decoding::texts::{Text, Texts};

/// A kind as it is looked for in a catalog.
pub(crate) struct KnownKind {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [FieldSpec],
}

/// One event of the observed program, decoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation {
    /// A worker's thread began to work.
    WorkerStarted(WorkerStarted),
    /// A worker was parked: it hands its tasks to other workers and sleeps.
    WorkerParked(WorkerParked),
    /// A parked worker dispatches tasks again.
    WorkerUnparked(WorkerUnparked),
    /// A worker found no ready task.
    WorkerWaiting(WorkerWaiting),
    /// A worker has a ready task again.
    WorkerResumed(WorkerResumed),
    /// A worker ended.
    WorkerEnded(WorkerEnded),
    /// A worker could have run but had no processor for this duration: in the dispatch or wait that ends with the next event, or in the worker's own work that ends with this event.
    Kept(Kept),
    /// The processor time that a thread has used so far; recorded at intervals and when the thread ends (modes metrics and full).
    ThreadUsed(ThreadUsed),
    /// What a thread did in a task since the last event of this kind about the thread and the task, as another thread sampled it at intervals (modes metrics and full).
    ThreadSampled(ThreadSampled),
    /// The instructions at which a worker's thread ran in a task since the last event of this kind about the worker and the task, sampled by the kernel at intervals of the thread's processor time (modes metrics and full, if the kernel permits it).
    InstructionsSampled(InstructionsSampled),
    /// The processor time of a dispatch of a millisecond or more. This event precedes the event of the measured dispatch.
    DispatchUsed(DispatchUsed),
    /// The time so far that the run and the whole machine have used on the processors that the run may use.
    ProcessorsUsed(ProcessorsUsed),
    /// A task was created, with a stream that it reads and one that it writes, if it has them. The streams in this event get no `exec.stream_opened`; the task's other streams do. This event may also be the base of dispatches, like an `exec.dispatch_base` with no message read or written yet.
    TaskCreated(TaskCreated),
    /// The mapper placed a task.
    TaskMapped(TaskMapped),
    /// A task moved to another worker and is ready there.
    TaskMoved(TaskMoved),
    /// A base: the fields that a task's later dispatches in the same block of the element share, so that each dispatch continues where the previous one ended. Base numbers start at 0 in each block.
    DispatchBase(DispatchBase),
    /// A dispatch ended (at this event's time). The events `exec.stream_read`, `exec.stream_wrote` and `exec.derived` just before this event record the messages of streams that the dispatch's base does not name, and any lineage that the fields of this event do not record.
    Dispatch(Dispatch),
    /// A dispatch whose numbers are too large for `exec.dispatch`.
    DispatchLong(DispatchLong),
    /// Streams of the next dispatch that its base (`exec.dispatch_base`) does not name.
    DispatchStreams(DispatchStreams),
    /// A task finished processing a message (at this event's time). Recorded only if processing a message takes long compared with recording it: see `exec.clock_budget`.
    MessageWorked(MessageWorked),
    /// Messages that the next dispatch read from a stream that its base (`exec.dispatch_base`) does not name.
    StreamRead(StreamRead),
    /// Messages that the next dispatch wrote to a stream that its base (`exec.dispatch_base`) does not name.
    StreamWrote(StreamWrote),
    /// Lineage: message `first + k` of `stream` descends from message `parent_first + k * step` of `parent_stream`.
    Derived(Derived),
    /// A wait that never ends, because the run is deadlocked. Before the run ends, an event is recorded for each wait that never ends, up to 1,000.
    Deadlocked(Deadlocked),
    /// A task ended. The busy time, the two waiting times and the ready time add up to the measured part of the task's life (modes metrics and full).
    TaskEnded(TaskEnded),
    /// A task ended without an error, and up to two streams closed with all their messages read. This event replaces `exec.task_ended` and `exec.stream_closed` if all counts fit into it.
    BriefTaskEnded(BriefTaskEnded),
    /// A task was attached to an end of a stream, or, if neither task is named, the stream's capacity changed.
    StreamOpened(StreamOpened),
    /// Both ends of a stream are closed. Written = read + dropped.
    StreamClosed(StreamClosed),
    /// The measured sizes of a stream's messages; recorded when both ends of the stream are closed, before `exec.stream_closed`.
    StreamSizes(StreamSizes),
    /// The histogram of a stream's message sizes; `exec.stream_sizes`, the next event, has the bounds of its buckets.
    StreamSizeCounts(StreamSizeCounts),
    /// The new mode of observation: recorded when the run begins, and at each change.
    ModeChanged(ModeChanged),
    /// The runtime adopted a setting's new value.
    SettingAdopted(SettingAdopted),
    /// Why a task failed.
    TaskFailed(TaskFailed),
    /// The stream by which records enter a network.
    Entry(Entry),
    /// The stream by which records leave a network.
    Exit(Exit),
    /// A record failed and left the network.
    RecordFailed(RecordFailed),
    /// A component keeps a record beyond the dispatch in which it read it, and sends it on later.
    RecordHeld(RecordHeld),
    /// A type of records that the task reads: recorded before the task describes the first record of the type.
    RecordType(RecordType),
    /// Describes the record on which a box begins to work. Recorded only where the box takes much longer for a record than recording this event takes: see `exec.clock_budget`.
    RecordDescribed(RecordDescribed),
    /// From this message on, messages of a link and of a stream correspond one by one. Recorded at the first message, and whenever another message of the stream follows than the next one.
    Joint(Joint),
    /// A tuner decided something about this run.
    Decided(Decided),
    /// A command paused the run's sources, or let them continue.
    Paused(Paused),
    /// A task became ready; the thread that made the task ready wrote this event.
    TaskReady(TaskReady),
    /// A dispatch ended (at this event's time).
    TaskDispatched(TaskDispatched),
    /// A task waits for messages.
    TaskBlockedInput(TaskBlockedInput),
    /// A task waits for room.
    TaskBlockedOutput(TaskBlockedOutput),
    /// A task stopped although it could have gone on: its quantum was spent.
    TaskYielded(TaskYielded),
}

/// The kinds, by [`Observation::number`].
pub(crate) const KINDS: [KnownKind; 47] = [
    KnownKind { name: "exec.worker_started", fields: WorkerStarted::FIELDS },
    KnownKind { name: "exec.worker_parked", fields: WorkerParked::FIELDS },
    KnownKind { name: "exec.worker_unparked", fields: WorkerUnparked::FIELDS },
    KnownKind { name: "exec.worker_waiting", fields: WorkerWaiting::FIELDS },
    KnownKind { name: "exec.worker_resumed", fields: WorkerResumed::FIELDS },
    KnownKind { name: "exec.worker_ended", fields: WorkerEnded::FIELDS },
    KnownKind { name: "exec.kept", fields: Kept::FIELDS },
    KnownKind { name: "exec.thread_used", fields: ThreadUsed::FIELDS },
    KnownKind { name: "exec.thread_sampled", fields: ThreadSampled::FIELDS },
    KnownKind { name: "exec.instructions_sampled", fields: InstructionsSampled::FIELDS },
    KnownKind { name: "exec.dispatch_used", fields: DispatchUsed::FIELDS },
    KnownKind { name: "exec.processors_used", fields: ProcessorsUsed::FIELDS },
    KnownKind { name: "exec.task_created", fields: TaskCreated::FIELDS },
    KnownKind { name: "exec.task_mapped", fields: TaskMapped::FIELDS },
    KnownKind { name: "exec.task_moved", fields: TaskMoved::FIELDS },
    KnownKind { name: "exec.dispatch_base", fields: DispatchBase::FIELDS },
    KnownKind { name: "exec.dispatch", fields: Dispatch::FIELDS },
    KnownKind { name: "exec.dispatch_long", fields: DispatchLong::FIELDS },
    KnownKind { name: "exec.dispatch_streams", fields: DispatchStreams::FIELDS },
    KnownKind { name: "exec.message_worked", fields: MessageWorked::FIELDS },
    KnownKind { name: "exec.stream_read", fields: StreamRead::FIELDS },
    KnownKind { name: "exec.stream_wrote", fields: StreamWrote::FIELDS },
    KnownKind { name: "exec.derived", fields: Derived::FIELDS },
    KnownKind { name: "exec.deadlocked", fields: Deadlocked::FIELDS },
    KnownKind { name: "exec.task_ended", fields: TaskEnded::FIELDS },
    KnownKind { name: "exec.brief_task_ended", fields: BriefTaskEnded::FIELDS },
    KnownKind { name: "exec.stream_opened", fields: StreamOpened::FIELDS },
    KnownKind { name: "exec.stream_closed", fields: StreamClosed::FIELDS },
    KnownKind { name: "exec.stream_sizes", fields: StreamSizes::FIELDS },
    KnownKind { name: "exec.stream_size_counts", fields: StreamSizeCounts::FIELDS },
    KnownKind { name: "exec.mode_changed", fields: ModeChanged::FIELDS },
    KnownKind { name: "exec.setting_adopted", fields: SettingAdopted::FIELDS },
    KnownKind { name: "exec.task_failed", fields: TaskFailed::FIELDS },
    KnownKind { name: "net.entry", fields: Entry::FIELDS },
    KnownKind { name: "net.exit", fields: Exit::FIELDS },
    KnownKind { name: "net.record_failed", fields: RecordFailed::FIELDS },
    KnownKind { name: "net.record_held", fields: RecordHeld::FIELDS },
    KnownKind { name: "net.record_type", fields: RecordType::FIELDS },
    KnownKind { name: "net.record_described", fields: RecordDescribed::FIELDS },
    KnownKind { name: "net.joint", fields: Joint::FIELDS },
    KnownKind { name: "tuner.decided", fields: Decided::FIELDS },
    KnownKind { name: "control.paused", fields: Paused::FIELDS },
    KnownKind { name: "exec.task_ready", fields: TaskReady::FIELDS },
    KnownKind { name: "exec.task_dispatched", fields: TaskDispatched::FIELDS },
    KnownKind { name: "exec.task_blocked_input", fields: TaskBlockedInput::FIELDS },
    KnownKind { name: "exec.task_blocked_output", fields: TaskBlockedOutput::FIELDS },
    KnownKind { name: "exec.task_yielded", fields: TaskYielded::FIELDS },
];

impl Observation {
    /// The place of the event's kind in [`KINDS`].
    #[inline]
    pub(crate) fn number(&self) -> u16 {
        match self {
            Observation::WorkerStarted(_) => 0,
            Observation::WorkerParked(_) => 1,
            Observation::WorkerUnparked(_) => 2,
            Observation::WorkerWaiting(_) => 3,
            Observation::WorkerResumed(_) => 4,
            Observation::WorkerEnded(_) => 5,
            Observation::Kept(_) => 6,
            Observation::ThreadUsed(_) => 7,
            Observation::ThreadSampled(_) => 8,
            Observation::InstructionsSampled(_) => 9,
            Observation::DispatchUsed(_) => 10,
            Observation::ProcessorsUsed(_) => 11,
            Observation::TaskCreated(_) => 12,
            Observation::TaskMapped(_) => 13,
            Observation::TaskMoved(_) => 14,
            Observation::DispatchBase(_) => 15,
            Observation::Dispatch(_) => 16,
            Observation::DispatchLong(_) => 17,
            Observation::DispatchStreams(_) => 18,
            Observation::MessageWorked(_) => 19,
            Observation::StreamRead(_) => 20,
            Observation::StreamWrote(_) => 21,
            Observation::Derived(_) => 22,
            Observation::Deadlocked(_) => 23,
            Observation::TaskEnded(_) => 24,
            Observation::BriefTaskEnded(_) => 25,
            Observation::StreamOpened(_) => 26,
            Observation::StreamClosed(_) => 27,
            Observation::StreamSizes(_) => 28,
            Observation::StreamSizeCounts(_) => 29,
            Observation::ModeChanged(_) => 30,
            Observation::SettingAdopted(_) => 31,
            Observation::TaskFailed(_) => 32,
            Observation::Entry(_) => 33,
            Observation::Exit(_) => 34,
            Observation::RecordFailed(_) => 35,
            Observation::RecordHeld(_) => 36,
            Observation::RecordType(_) => 37,
            Observation::RecordDescribed(_) => 38,
            Observation::Joint(_) => 39,
            Observation::Decided(_) => 40,
            Observation::Paused(_) => 41,
            Observation::TaskReady(_) => 42,
            Observation::TaskDispatched(_) => 43,
            Observation::TaskBlockedInput(_) => 44,
            Observation::TaskBlockedOutput(_) => 45,
            Observation::TaskYielded(_) => 46,
        }
    }

    /// The event as the type of the kind at place `number` of [`KINDS`].
    #[inline]
    pub(crate) fn read(
        number: u16,
        fields: &Fields,
        event: &Event<'_>,
        texts: &mut Texts,
    ) -> Option<Observation> {
        Some(match number {
            0 => Observation::WorkerStarted(WorkerStarted::read(fields, event)),
            1 => Observation::WorkerParked(WorkerParked::read(fields, event)),
            2 => Observation::WorkerUnparked(WorkerUnparked::read(fields, event)),
            3 => Observation::WorkerWaiting(WorkerWaiting::read(fields, event)),
            4 => Observation::WorkerResumed(WorkerResumed::read(fields, event)),
            5 => Observation::WorkerEnded(WorkerEnded::read(fields, event)),
            6 => Observation::Kept(Kept::read(fields, event)),
            7 => Observation::ThreadUsed(ThreadUsed::read(fields, event)),
            8 => Observation::ThreadSampled(ThreadSampled::read(fields, event)),
            9 => Observation::InstructionsSampled(InstructionsSampled::read(fields, event)),
            10 => Observation::DispatchUsed(DispatchUsed::read(fields, event)),
            11 => Observation::ProcessorsUsed(ProcessorsUsed::read(fields, event)),
            12 => Observation::TaskCreated(TaskCreated::read(fields, event)),
            13 => Observation::TaskMapped(TaskMapped::read(fields, event)),
            14 => Observation::TaskMoved(TaskMoved::read(fields, event)),
            15 => Observation::DispatchBase(DispatchBase::read(fields, event)),
            16 => Observation::Dispatch(Dispatch::read(fields, event)),
            17 => Observation::DispatchLong(DispatchLong::read(fields, event)),
            18 => Observation::DispatchStreams(DispatchStreams::read(fields, event)),
            19 => Observation::MessageWorked(MessageWorked::read(fields, event)),
            20 => Observation::StreamRead(StreamRead::read(fields, event)),
            21 => Observation::StreamWrote(StreamWrote::read(fields, event)),
            22 => Observation::Derived(Derived::read(fields, event)),
            23 => Observation::Deadlocked(Deadlocked::read(fields, event)),
            24 => Observation::TaskEnded(TaskEnded::read(fields, event)),
            25 => Observation::BriefTaskEnded(BriefTaskEnded::read(fields, event)),
            26 => Observation::StreamOpened(StreamOpened::read(fields, event)),
            27 => Observation::StreamClosed(StreamClosed::read(fields, event)),
            28 => Observation::StreamSizes(StreamSizes::read(fields, event)),
            29 => Observation::StreamSizeCounts(StreamSizeCounts::read(fields, event)),
            30 => Observation::ModeChanged(ModeChanged::read(fields, event)),
            31 => Observation::SettingAdopted(SettingAdopted::read(fields, event)),
            32 => Observation::TaskFailed(TaskFailed::read(fields, event, texts)),
            33 => Observation::Entry(Entry::read(fields, event)),
            34 => Observation::Exit(Exit::read(fields, event)),
            35 => Observation::RecordFailed(RecordFailed::read(fields, event, texts)),
            36 => Observation::RecordHeld(RecordHeld::read(fields, event)),
            37 => Observation::RecordType(RecordType::read(fields, event, texts)),
            38 => Observation::RecordDescribed(RecordDescribed::read(fields, event)),
            39 => Observation::Joint(Joint::read(fields, event)),
            40 => Observation::Decided(Decided::read(fields, event, texts)),
            41 => Observation::Paused(Paused::read(fields, event)),
            42 => Observation::TaskReady(TaskReady::read(fields, event)),
            43 => Observation::TaskDispatched(TaskDispatched::read(fields, event)),
            44 => Observation::TaskBlockedInput(TaskBlockedInput::read(fields, event)),
            45 => Observation::TaskBlockedOutput(TaskBlockedOutput::read(fields, event)),
            46 => Observation::TaskYielded(TaskYielded::read(fields, event)),
            _ => return None,
        })
    }
}

/// The specification of a field that readers look for in a catalog.
pub(crate) const fn field(name: &'static str, field_type: FieldType) -> FieldSpec {
    FieldSpec { name, field_type, unit: "", doc: "", choices: &[], absent: None }
}

/// A worker's thread began to work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerStarted {
    /// The worker, counted from 0.
    pub worker: u64,
    /// The core that the worker's thread is bound to; -1: none.
    pub core: i64,
    /// The NUMA node of the worker's core; -1: not known.
    pub node: i64,
    /// The time that one reading of the clock takes on the worker's thread.
    pub clock_reading_ps: u64,
}

impl Default for WorkerStarted {
    fn default() -> WorkerStarted {
        WorkerStarted { worker: 0, core: -1, node: -1, clock_reading_ps: 0 }
    }
}

impl From<WorkerStarted> for Observation {
    fn from(event: WorkerStarted) -> Observation {
        Observation::WorkerStarted(event)
    }
}

impl WorkerStarted {
    const FIELDS: &'static [FieldSpec] = &[
        field("worker", FieldType::U32),
        field("core", FieldType::I64).absent(-1),
        field("node", FieldType::I64).absent(-1),
        field("clock_reading_ps", FieldType::U64).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> WorkerStarted {
        if let Some([word_0, word_1, word_2, word_3]) = fields.words(event) {
            return WorkerStarted {
                worker: u64::from(word_0 as u32),
                core: word_1 as i64,
                node: word_2 as i64,
                clock_reading_ps: word_3,
            };
        }
        WorkerStarted {
            worker: fields.u64(event, 0),
            core: fields.u64(event, 1) as i64,
            node: fields.u64(event, 2) as i64,
            clock_reading_ps: fields.u64(event, 3),
        }
    }
}

/// A worker was parked: it hands its tasks to other workers and sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerParked {
    /// The worker.
    pub worker: u64,
}

impl From<WorkerParked> for Observation {
    fn from(event: WorkerParked) -> Observation {
        Observation::WorkerParked(event)
    }
}

impl WorkerParked {
    const FIELDS: &'static [FieldSpec] = &[field("worker", FieldType::U32)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> WorkerParked {
        if let Some([word_0]) = fields.words(event) {
            return WorkerParked { worker: u64::from(word_0 as u32) };
        }
        WorkerParked { worker: fields.u64(event, 0) }
    }
}

/// A parked worker dispatches tasks again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerUnparked {
    /// The worker.
    pub worker: u64,
}

impl From<WorkerUnparked> for Observation {
    fn from(event: WorkerUnparked) -> Observation {
        Observation::WorkerUnparked(event)
    }
}

impl WorkerUnparked {
    const FIELDS: &'static [FieldSpec] = &[field("worker", FieldType::U32)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> WorkerUnparked {
        if let Some([word_0]) = fields.words(event) {
            return WorkerUnparked { worker: u64::from(word_0 as u32) };
        }
        WorkerUnparked { worker: fields.u64(event, 0) }
    }
}

/// A worker found no ready task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerWaiting {
    /// The worker.
    pub worker: u64,
}

impl From<WorkerWaiting> for Observation {
    fn from(event: WorkerWaiting) -> Observation {
        Observation::WorkerWaiting(event)
    }
}

impl WorkerWaiting {
    const FIELDS: &'static [FieldSpec] = &[field("worker", FieldType::U32)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> WorkerWaiting {
        if let Some([word_0]) = fields.words(event) {
            return WorkerWaiting { worker: u64::from(word_0 as u32) };
        }
        WorkerWaiting { worker: fields.u64(event, 0) }
    }
}

/// A worker has a ready task again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerResumed {
    /// The worker.
    pub worker: u64,
}

impl From<WorkerResumed> for Observation {
    fn from(event: WorkerResumed) -> Observation {
        Observation::WorkerResumed(event)
    }
}

impl WorkerResumed {
    const FIELDS: &'static [FieldSpec] = &[field("worker", FieldType::U32)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> WorkerResumed {
        if let Some([word_0]) = fields.words(event) {
            return WorkerResumed { worker: u64::from(word_0 as u32) };
        }
        WorkerResumed { worker: fields.u64(event, 0) }
    }
}

/// A worker ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerEnded {
    /// The worker.
    pub worker: u64,
    /// The time in which the worker dispatched tasks, with the short gaps between dispatches.
    pub busy_ticks: u64,
    /// The time in which the worker had no ready task, without the time in which it was parked.
    pub waiting_ticks: u64,
    /// The measured time of the worker's own work between dispatches and waits, such as waking other workers or moving tasks.
    pub own_ticks: u64,
    /// The time in which the worker could have run but had no processor, if the worker noticed it at once; the busy time, the waiting time and the time of own work do not include this time.
    pub kept_ticks: u64,
}

impl From<WorkerEnded> for Observation {
    fn from(event: WorkerEnded) -> Observation {
        Observation::WorkerEnded(event)
    }
}

impl WorkerEnded {
    const FIELDS: &'static [FieldSpec] = &[
        field("worker", FieldType::U32),
        field("busy_ticks", FieldType::U64).absent(0),
        field("waiting_ticks", FieldType::U64).absent(0),
        field("own_ticks", FieldType::U64).absent(0),
        field("kept_ticks", FieldType::U64).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> WorkerEnded {
        if let Some([word_0, word_1, word_2, word_3, word_4]) = fields.words(event) {
            return WorkerEnded {
                worker: u64::from(word_0 as u32),
                busy_ticks: word_1,
                waiting_ticks: word_2,
                own_ticks: word_3,
                kept_ticks: word_4,
            };
        }
        WorkerEnded {
            worker: fields.u64(event, 0),
            busy_ticks: fields.u64(event, 1),
            waiting_ticks: fields.u64(event, 2),
            own_ticks: fields.u64(event, 3),
            kept_ticks: fields.u64(event, 4),
        }
    }
}

/// A worker could have run but had no processor for this duration: in the dispatch or wait that ends with the next event, or in the worker's own work that ends with this event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kept {
    /// The worker.
    pub worker: u64,
    /// The task that was dispatched; 0: none.
    pub task: u64,
    /// The duration.
    pub duration_ticks: u64,
}

impl From<Kept> for Observation {
    fn from(event: Kept) -> Observation {
        Observation::Kept(event)
    }
}

impl Kept {
    const FIELDS: &'static [FieldSpec] = &[
        field("worker", FieldType::U32),
        field("task", FieldType::U64),
        field("duration_ticks", FieldType::U64),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> Kept {
        if let Some([word_0, word_1, word_2]) = fields.words(event) {
            return Kept { worker: u64::from(word_0 as u32), task: word_1, duration_ticks: word_2 };
        }
        Kept {
            worker: fields.u64(event, 0),
            task: fields.u64(event, 1),
            duration_ticks: fields.u64(event, 2),
        }
    }
}

/// The processor time that a thread has used so far; recorded at intervals and when the thread ends (modes metrics and full).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadUsed {
    /// The worker; 4294967295: a thread of a task's own.
    pub worker: u64,
    /// The task that has this thread of its own, or 0.
    pub task: u64,
    /// The time on a processor.
    pub cpu_ns: u64,
    /// The number of times that the kernel preempted the thread.
    pub preempted: u64,
    /// The time in which the thread could have run but had no processor; 18446744073709551615: the kernel does not report it.
    pub delayed_ns: u64,
    /// The time of a worker's own work so far, as in `exec.worker_ended`.
    pub own_ticks: u64,
    /// The time so far in which a worker could have run but had no processor, as in `exec.worker_ended`.
    pub kept_ticks: u64,
    /// The time that the thread ran in the kernel; 18446744073709551615: not measured.
    pub kernel_ns: u64,
    /// The number of page faults of the thread.
    pub faults: u64,
}

impl Default for ThreadUsed {
    fn default() -> ThreadUsed {
        ThreadUsed {
            worker: 0,
            task: 0,
            cpu_ns: 0,
            preempted: 0,
            delayed_ns: u64::MAX,
            own_ticks: 0,
            kept_ticks: 0,
            kernel_ns: u64::MAX,
            faults: 0,
        }
    }
}

impl From<ThreadUsed> for Observation {
    fn from(event: ThreadUsed) -> Observation {
        Observation::ThreadUsed(event)
    }
}

impl ThreadUsed {
    const FIELDS: &'static [FieldSpec] = &[
        field("worker", FieldType::U32),
        field("task", FieldType::U64),
        field("cpu_ns", FieldType::U64),
        field("preempted", FieldType::U64).absent(0),
        field("delayed_ns", FieldType::U64).absent(18446744073709551615),
        field("own_ticks", FieldType::U64).absent(0),
        field("kept_ticks", FieldType::U64).absent(0),
        field("kernel_ns", FieldType::U64).absent(18446744073709551615),
        field("faults", FieldType::U64).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> ThreadUsed {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5, word_6, word_7, word_8]) =
            fields.words(event)
        {
            return ThreadUsed {
                worker: u64::from(word_0 as u32),
                task: word_1,
                cpu_ns: word_2,
                preempted: word_3,
                delayed_ns: word_4,
                own_ticks: word_5,
                kept_ticks: word_6,
                kernel_ns: word_7,
                faults: word_8,
            };
        }
        ThreadUsed {
            worker: fields.u64(event, 0),
            task: fields.u64(event, 1),
            cpu_ns: fields.u64(event, 2),
            preempted: fields.u64(event, 3),
            delayed_ns: fields.u64(event, 4),
            own_ticks: fields.u64(event, 5),
            kept_ticks: fields.u64(event, 6),
            kernel_ns: fields.u64(event, 7),
            faults: fields.u64(event, 8),
        }
    }
}

/// What a thread did in a task since the last event of this kind about the thread and the task, as another thread sampled it at intervals (modes metrics and full).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadSampled {
    /// The worker; 4294967295: a thread of a task's own.
    pub worker: u64,
    /// The task.
    pub task: u64,
    /// What the thread did.
    pub doing: ThreadSampledDoing,
    /// The file of the kernel from which the sampler knows what the thread did.
    pub source: ThreadSampledSource,
    /// The number of samples that found the thread doing this.
    pub looks: u64,
    /// The time that the samples in this event represent: each sample represents the time since the previous sample.
    pub interval_ticks: u64,
    /// The time for which the thread had a processor in the time that the samples in this event represent.
    pub cpu_ns: u64,
    /// The time for which the thread could have run but had no processor in the time that the samples in this event represent.
    pub delayed_ns: u64,
    /// The address of the lock, or the file descriptor, that the thread waits for; 0: not known.
    pub on: u64,
    /// The time for which samples have found the thread asleep in the same dispatch; 0: the last sample found it running, or there was none.
    pub asleep_ticks: u64,
    /// The task whose thread holds the lock, if the lock records its holder; else 0.
    pub holder: u64,
}

impl From<ThreadSampled> for Observation {
    fn from(event: ThreadSampled) -> Observation {
        Observation::ThreadSampled(event)
    }
}

impl ThreadSampled {
    const FIELDS: &'static [FieldSpec] = &[
        field("worker", FieldType::U32),
        field("task", FieldType::U64),
        FieldSpec {
            choices: &[
                (0, "runs"),
                (1, "lock"),
                (2, "read"),
                (3, "write"),
                (4, "sleep"),
                (5, "page_fault"),
                (6, "other"),
            ],
            ..field("doing", FieldType::Enum)
        },
        FieldSpec {
            choices: &[(0, "call"), (1, "function"), (2, "state"), (3, "nothing")],
            ..field("source", FieldType::Enum)
        },
        field("looks", FieldType::U32),
        field("interval_ticks", FieldType::U64),
        field("cpu_ns", FieldType::U64),
        field("delayed_ns", FieldType::U64),
        field("on", FieldType::U64),
        field("asleep_ticks", FieldType::U64).absent(0),
        field("holder", FieldType::U64).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> ThreadSampled {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5, word_6, word_7, word_8]) =
            fields.words(event)
        {
            return ThreadSampled {
                worker: u64::from(word_0 as u32),
                task: word_1,
                doing: ThreadSampledDoing::of(u64::from(word_2 as u8)),
                source: ThreadSampledSource::of(u64::from((word_2 >> 8) as u8)),
                looks: u64::from((word_2 >> 32) as u32),
                interval_ticks: word_3,
                cpu_ns: word_4,
                delayed_ns: word_5,
                on: word_6,
                asleep_ticks: word_7,
                holder: word_8,
            };
        }
        ThreadSampled {
            worker: fields.u64(event, 0),
            task: fields.u64(event, 1),
            doing: ThreadSampledDoing::of(fields.choice(event, 2)),
            source: ThreadSampledSource::of(fields.choice(event, 3)),
            looks: fields.u64(event, 4),
            interval_ticks: fields.u64(event, 5),
            cpu_ns: fields.u64(event, 6),
            delayed_ns: fields.u64(event, 7),
            on: fields.u64(event, 8),
            asleep_ticks: fields.u64(event, 9),
            holder: fields.u64(event, 10),
        }
    }
}

/// What the thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadSampledDoing {
    /// `runs`.
    #[default]
    Runs,
    /// `lock`.
    Lock,
    /// `read`.
    Read,
    /// `write`.
    Write,
    /// `sleep`.
    Sleep,
    /// `page_fault`.
    PageFault,
    /// `other`.
    Other,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl ThreadSampledDoing {
    #[inline]
    fn of(number: u64) -> ThreadSampledDoing {
        match number {
            0 => ThreadSampledDoing::Runs,
            1 => ThreadSampledDoing::Lock,
            2 => ThreadSampledDoing::Read,
            3 => ThreadSampledDoing::Write,
            4 => ThreadSampledDoing::Sleep,
            5 => ThreadSampledDoing::PageFault,
            6 => ThreadSampledDoing::Other,
            _ => ThreadSampledDoing::Unknown,
        }
    }
}

/// The file of the kernel from which the sampler knows what the thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadSampledSource {
    /// `call`.
    #[default]
    Call,
    /// `function`.
    Function,
    /// `state`.
    State,
    /// `nothing`.
    Nothing,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl ThreadSampledSource {
    #[inline]
    fn of(number: u64) -> ThreadSampledSource {
        match number {
            0 => ThreadSampledSource::Call,
            1 => ThreadSampledSource::Function,
            2 => ThreadSampledSource::State,
            3 => ThreadSampledSource::Nothing,
            _ => ThreadSampledSource::Unknown,
        }
    }
}

/// The instructions at which a worker's thread ran in a task since the last event of this kind about the worker and the task, sampled by the kernel at intervals of the thread's processor time (modes metrics and full, if the kernel permits it).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InstructionsSampled {
    /// The worker.
    pub worker: u64,
    /// The task.
    pub task: u64,
    /// The number of samples.
    pub samples: u64,
    /// The number of samples in a loop that waits for another thread, such as the loop of a spin lock.
    pub spinning: u64,
}

impl From<InstructionsSampled> for Observation {
    fn from(event: InstructionsSampled) -> Observation {
        Observation::InstructionsSampled(event)
    }
}

impl InstructionsSampled {
    const FIELDS: &'static [FieldSpec] = &[
        field("worker", FieldType::U32),
        field("task", FieldType::U64),
        field("samples", FieldType::U32),
        field("spinning", FieldType::U32),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> InstructionsSampled {
        if let Some([word_0, word_1, word_2]) = fields.words(event) {
            return InstructionsSampled {
                worker: u64::from(word_0 as u32),
                task: word_1,
                samples: u64::from(word_2 as u32),
                spinning: u64::from((word_2 >> 32) as u32),
            };
        }
        InstructionsSampled {
            worker: fields.u64(event, 0),
            task: fields.u64(event, 1),
            samples: fields.u64(event, 2),
            spinning: fields.u64(event, 3),
        }
    }
}

/// The processor time of a dispatch of a millisecond or more. This event precedes the event of the measured dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DispatchUsed {
    /// The worker; 4294967295: a thread of the task's own.
    pub worker: u64,
    /// The task.
    pub task: u64,
    /// The duration of the dispatch, without the time in which its thread is known to have had no processor.
    pub duration_ticks: u64,
    /// The time of the dispatch in which its thread is known to have had no processor.
    pub kept_ticks: u64,
    /// The time on a processor.
    pub cpu_ns: u64,
}

impl From<DispatchUsed> for Observation {
    fn from(event: DispatchUsed) -> Observation {
        Observation::DispatchUsed(event)
    }
}

impl DispatchUsed {
    const FIELDS: &'static [FieldSpec] = &[
        field("worker", FieldType::U32),
        field("task", FieldType::U64),
        field("duration_ticks", FieldType::U64),
        field("kept_ticks", FieldType::U64),
        field("cpu_ns", FieldType::U64),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> DispatchUsed {
        if let Some([word_0, word_1, word_2, word_3, word_4]) = fields.words(event) {
            return DispatchUsed {
                worker: u64::from(word_0 as u32),
                task: word_1,
                duration_ticks: word_2,
                kept_ticks: word_3,
                cpu_ns: word_4,
            };
        }
        DispatchUsed {
            worker: fields.u64(event, 0),
            task: fields.u64(event, 1),
            duration_ticks: fields.u64(event, 2),
            kept_ticks: fields.u64(event, 3),
            cpu_ns: fields.u64(event, 4),
        }
    }
}

/// The time so far that the run and the whole machine have used on the processors that the run may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessorsUsed {
    /// The number of processors that the run may use.
    pub processors: u64,
    /// The processor time of the run's threads.
    pub run_ns: u64,
    /// The processor time of all processes; 18446744073709551615: the kernel does not report it.
    pub machine_ns: u64,
    /// The time for which the run's control group was throttled, because its processor time was used up.
    pub throttled_ns: u64,
    /// The time spent sampling threads.
    pub sampling_ns: u64,
    /// The number of times that threads were sampled.
    pub looks: u64,
    /// The processor time of the programs that the run started, such as those of boxes that are programs, and of what these started.
    pub programs_ns: u64,
}

impl Default for ProcessorsUsed {
    fn default() -> ProcessorsUsed {
        ProcessorsUsed {
            processors: 0,
            run_ns: 0,
            machine_ns: u64::MAX,
            throttled_ns: 0,
            sampling_ns: 0,
            looks: 0,
            programs_ns: 0,
        }
    }
}

impl From<ProcessorsUsed> for Observation {
    fn from(event: ProcessorsUsed) -> Observation {
        Observation::ProcessorsUsed(event)
    }
}

impl ProcessorsUsed {
    const FIELDS: &'static [FieldSpec] = &[
        field("processors", FieldType::U32),
        field("run_ns", FieldType::U64),
        field("machine_ns", FieldType::U64).absent(18446744073709551615),
        field("throttled_ns", FieldType::U64).absent(0),
        field("sampling_ns", FieldType::U64).absent(0),
        field("looks", FieldType::U64).absent(0),
        field("programs_ns", FieldType::U64).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> ProcessorsUsed {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5, word_6]) = fields.words(event) {
            return ProcessorsUsed {
                processors: u64::from(word_0 as u32),
                run_ns: word_1,
                machine_ns: word_2,
                throttled_ns: word_3,
                sampling_ns: word_4,
                looks: word_5,
                programs_ns: word_6,
            };
        }
        ProcessorsUsed {
            processors: fields.u64(event, 0),
            run_ns: fields.u64(event, 1),
            machine_ns: fields.u64(event, 2),
            throttled_ns: fields.u64(event, 3),
            sampling_ns: fields.u64(event, 4),
            looks: fields.u64(event, 5),
            programs_ns: fields.u64(event, 6),
        }
    }
}

/// A task was created, with a stream that it reads and one that it writes, if it has them. The streams in this event get no `exec.stream_opened`; the task's other streams do. This event may also be the base of dispatches, like an `exec.dispatch_base` with no message read or written yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskCreated {
    /// The task.
    pub task: u64,
    /// The component of the network that the task belongs to.
    pub component: u64,
    /// The task that created this task by unfolding the network, or 0.
    pub parent: u64,
    /// The number of the component's replica that the task belongs to.
    pub replica: u64,
    /// Whether the k-th message that the task writes descends from the k-th message that it reads.
    pub one_to_one: bool,
    /// Whether the task has a thread of its own.
    pub blocking: bool,
    /// The capacity of each of the two streams in this event.
    pub capacity: u64,
    /// The task's worker; 4294967295: a thread of its own; 4294967294: given by `exec.task_mapped`.
    pub worker: u64,
    /// A stream that the task reads, or 0.
    pub input: u64,
    /// A stream that the task writes and that no task reads yet, or 0.
    pub output: u64,
    /// This task's id less the id of the task that writes the input; 0: no task writes the input yet.
    pub writer_before: u64,
    /// The number by which dispatches name this event as their base; 4294967295: this event is not a base.
    pub base_number: u64,
}

impl Default for TaskCreated {
    fn default() -> TaskCreated {
        TaskCreated {
            task: 0,
            component: 0,
            parent: 0,
            replica: 0,
            one_to_one: false,
            blocking: false,
            capacity: 0,
            worker: 4294967294,
            input: 0,
            output: 0,
            writer_before: 0,
            base_number: 4294967295,
        }
    }
}

impl From<TaskCreated> for Observation {
    fn from(event: TaskCreated) -> Observation {
        Observation::TaskCreated(event)
    }
}

impl TaskCreated {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("component", FieldType::Site),
        field("parent", FieldType::U64).absent(0),
        field("replica", FieldType::U64).absent(0),
        field("one_to_one", FieldType::Bool).absent(0),
        field("blocking", FieldType::Bool).absent(0),
        field("capacity", FieldType::U16).absent(0),
        field("worker", FieldType::U32).absent(4294967294),
        field("input", FieldType::U64).absent(0),
        field("output", FieldType::U64).absent(0),
        field("writer_before", FieldType::U32).absent(0),
        field("base_number", FieldType::U32).absent(4294967295),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> TaskCreated {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5, word_6, word_7]) = fields.words(event) {
            return TaskCreated {
                task: word_0,
                component: word_1,
                parent: word_2,
                replica: word_3,
                one_to_one: word_4 as u8 != 0,
                blocking: (word_4 >> 8) as u8 != 0,
                capacity: u64::from((word_4 >> 16) as u16),
                worker: u64::from((word_4 >> 32) as u32),
                input: word_5,
                output: word_6,
                writer_before: u64::from(word_7 as u32),
                base_number: u64::from((word_7 >> 32) as u32),
            };
        }
        TaskCreated {
            task: fields.u64(event, 0),
            component: fields.u64(event, 1),
            parent: fields.u64(event, 2),
            replica: fields.u64(event, 3),
            one_to_one: fields.u64(event, 4) != 0,
            blocking: fields.u64(event, 5) != 0,
            capacity: fields.u64(event, 6),
            worker: fields.u64(event, 7),
            input: fields.u64(event, 8),
            output: fields.u64(event, 9),
            writer_before: fields.u64(event, 10),
            base_number: fields.u64(event, 11),
        }
    }
}

/// The mapper placed a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskMapped {
    /// The task.
    pub task: u64,
    /// The task's worker; 4294967295: a thread of its own.
    pub worker: u64,
}

impl From<TaskMapped> for Observation {
    fn from(event: TaskMapped) -> Observation {
        Observation::TaskMapped(event)
    }
}

impl TaskMapped {
    const FIELDS: &'static [FieldSpec] = &[field("task", FieldType::U64), field("worker", FieldType::U32)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> TaskMapped {
        if let Some([word_0, word_1]) = fields.words(event) {
            return TaskMapped { task: word_0, worker: u64::from(word_1 as u32) };
        }
        TaskMapped { task: fields.u64(event, 0), worker: fields.u64(event, 1) }
    }
}

/// A task moved to another worker and is ready there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskMoved {
    /// The task.
    pub task: u64,
    /// The task's previous worker.
    pub from: u64,
    /// The task's new worker.
    pub worker: u64,
}

impl Default for TaskMoved {
    fn default() -> TaskMoved {
        TaskMoved { task: 0, from: 4294967295, worker: 0 }
    }
}

impl From<TaskMoved> for Observation {
    fn from(event: TaskMoved) -> Observation {
        Observation::TaskMoved(event)
    }
}

impl TaskMoved {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("from", FieldType::U32).absent(4294967295),
        field("worker", FieldType::U32),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> TaskMoved {
        if let Some([word_0, word_1]) = fields.words(event) {
            return TaskMoved {
                task: word_0,
                from: u64::from(word_1 as u32),
                worker: u64::from((word_1 >> 32) as u32),
            };
        }
        TaskMoved { task: fields.u64(event, 0), from: fields.u64(event, 1), worker: fields.u64(event, 2) }
    }
}

/// A base: the fields that a task's later dispatches in the same block of the element share, so that each dispatch continues where the previous one ended. Base numbers start at 0 in each block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DispatchBase {
    /// The number by which dispatches name this base.
    pub number: u64,
    /// The worker; 4294967295: a thread of the task's own.
    pub worker: u64,
    /// The task.
    pub task: u64,
    /// A stream that the task reads, or 0.
    pub input: u64,
    /// The index of the next message that the task reads from the input, counted from 0.
    pub first_read: u64,
    /// A stream that the task writes, or 0.
    pub output: u64,
    /// The index of the next message that the task writes to the output.
    pub first_written: u64,
}

impl From<DispatchBase> for Observation {
    fn from(event: DispatchBase) -> Observation {
        Observation::DispatchBase(event)
    }
}

impl DispatchBase {
    const FIELDS: &'static [FieldSpec] = &[
        field("number", FieldType::U32),
        field("worker", FieldType::U32),
        field("task", FieldType::U64),
        field("input", FieldType::U64),
        field("first_read", FieldType::U64),
        field("output", FieldType::U64),
        field("first_written", FieldType::U64),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> DispatchBase {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5]) = fields.words(event) {
            return DispatchBase {
                number: u64::from(word_0 as u32),
                worker: u64::from((word_0 >> 32) as u32),
                task: word_1,
                input: word_2,
                first_read: word_3,
                output: word_4,
                first_written: word_5,
            };
        }
        DispatchBase {
            number: fields.u64(event, 0),
            worker: fields.u64(event, 1),
            task: fields.u64(event, 2),
            input: fields.u64(event, 3),
            first_read: fields.u64(event, 4),
            output: fields.u64(event, 5),
            first_written: fields.u64(event, 6),
        }
    }
}

/// A dispatch ended (at this event's time). The events `exec.stream_read`, `exec.stream_wrote` and `exec.derived` just before this event record the messages of streams that the dispatch's base does not name, and any lineage that the fields of this event do not record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dispatch {
    /// The duration of the dispatch.
    pub duration_ticks: u64,
    /// The time for which the task had been ready when the dispatch began.
    pub ready_ticks: u64,
    /// The number of the dispatch's base, see `exec.dispatch_base`.
    pub base_number: u64,
    /// Messages read from the stream that the dispatch's base (`exec.dispatch_base`) names as input.
    pub reads: u64,
    /// Messages written to the stream that the dispatch's base (`exec.dispatch_base`) names as output.
    pub writes: u64,
    /// Why the dispatch ended.
    pub outcome: DispatchOutcome,
    /// The stream that the task has waited for since the dispatch ended.
    pub waits_for: DispatchWaitsFor,
    /// The cause that had made the task ready.
    pub cause: DispatchCause,
    /// The stream that had made the task ready.
    pub ready_by: DispatchReadyBy,
    /// How the written messages descend from messages read.
    pub descent: DispatchDescent,
    /// The index of the message that the first written message descends from, less the index of the first message read.
    pub parent_offset: i64,
}

impl From<Dispatch> for Observation {
    fn from(event: Dispatch) -> Observation {
        Observation::Dispatch(event)
    }
}

impl Dispatch {
    const FIELDS: &'static [FieldSpec] = &[
        field("duration_ticks", FieldType::U32),
        field("ready_ticks", FieldType::U32),
        field("base_number", FieldType::U32),
        field("reads", FieldType::U16),
        field("writes", FieldType::U16),
        FieldSpec {
            choices: &[(0, "blocked_input"), (1, "blocked_output"), (2, "yielded"), (3, "ended")],
            ..field("outcome", FieldType::Enum)
        },
        FieldSpec {
            choices: &[(0, "none"), (1, "input"), (2, "output"), (3, "named")],
            ..field("waits_for", FieldType::Enum)
        },
        FieldSpec {
            choices: &[
                (0, "created"),
                (1, "input"),
                (2, "room"),
                (3, "yield"),
                (4, "end"),
                (5, "unrecorded"),
            ],
            ..field("cause", FieldType::Enum)
        },
        FieldSpec {
            choices: &[(0, "none"), (1, "input"), (2, "output"), (3, "named")],
            ..field("ready_by", FieldType::Enum)
        },
        FieldSpec {
            choices: &[(0, "unrecorded"), (1, "each_from_next"), (2, "all_from_one")],
            ..field("descent", FieldType::Enum)
        },
        field("parent_offset", FieldType::I16),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> Dispatch {
        if let Some([word_0, word_1, word_2]) = fields.words(event) {
            return Dispatch {
                duration_ticks: u64::from(word_0 as u32),
                ready_ticks: u64::from((word_0 >> 32) as u32),
                base_number: u64::from(word_1 as u32),
                reads: u64::from((word_1 >> 32) as u16),
                writes: u64::from((word_1 >> 48) as u16),
                outcome: DispatchOutcome::of(u64::from(word_2 as u8)),
                waits_for: DispatchWaitsFor::of(u64::from((word_2 >> 8) as u8)),
                cause: DispatchCause::of(u64::from((word_2 >> 16) as u8)),
                ready_by: DispatchReadyBy::of(u64::from((word_2 >> 24) as u8)),
                descent: DispatchDescent::of(u64::from((word_2 >> 32) as u8)),
                parent_offset: i64::from((word_2 >> 48) as i16),
            };
        }
        Dispatch {
            duration_ticks: fields.u64(event, 0),
            ready_ticks: fields.u64(event, 1),
            base_number: fields.u64(event, 2),
            reads: fields.u64(event, 3),
            writes: fields.u64(event, 4),
            outcome: DispatchOutcome::of(fields.choice(event, 5)),
            waits_for: DispatchWaitsFor::of(fields.choice(event, 6)),
            cause: DispatchCause::of(fields.choice(event, 7)),
            ready_by: DispatchReadyBy::of(fields.choice(event, 8)),
            descent: DispatchDescent::of(fields.choice(event, 9)),
            parent_offset: fields.u64(event, 10) as i64,
        }
    }
}

/// Why the dispatch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchOutcome {
    /// `blocked_input`.
    #[default]
    BlockedInput,
    /// `blocked_output`.
    BlockedOutput,
    /// `yielded`.
    Yielded,
    /// `ended`.
    Ended,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchOutcome {
    #[inline]
    fn of(number: u64) -> DispatchOutcome {
        match number {
            0 => DispatchOutcome::BlockedInput,
            1 => DispatchOutcome::BlockedOutput,
            2 => DispatchOutcome::Yielded,
            3 => DispatchOutcome::Ended,
            _ => DispatchOutcome::Unknown,
        }
    }
}

/// The stream that the task has waited for since the dispatch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchWaitsFor {
    /// `none`.
    #[default]
    None,
    /// `input`.
    Input,
    /// `output`.
    Output,
    /// `named`.
    Named,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchWaitsFor {
    #[inline]
    fn of(number: u64) -> DispatchWaitsFor {
        match number {
            0 => DispatchWaitsFor::None,
            1 => DispatchWaitsFor::Input,
            2 => DispatchWaitsFor::Output,
            3 => DispatchWaitsFor::Named,
            _ => DispatchWaitsFor::Unknown,
        }
    }
}

/// The cause that had made the task ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchCause {
    /// `created`.
    #[default]
    Created,
    /// `input`.
    Input,
    /// `room`.
    Room,
    /// `yield`.
    Yield,
    /// `end`.
    End,
    /// `unrecorded`.
    Unrecorded,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchCause {
    #[inline]
    fn of(number: u64) -> DispatchCause {
        match number {
            0 => DispatchCause::Created,
            1 => DispatchCause::Input,
            2 => DispatchCause::Room,
            3 => DispatchCause::Yield,
            4 => DispatchCause::End,
            5 => DispatchCause::Unrecorded,
            _ => DispatchCause::Unknown,
        }
    }
}

/// The stream that had made the task ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchReadyBy {
    /// `none`.
    #[default]
    None,
    /// `input`.
    Input,
    /// `output`.
    Output,
    /// `named`.
    Named,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchReadyBy {
    #[inline]
    fn of(number: u64) -> DispatchReadyBy {
        match number {
            0 => DispatchReadyBy::None,
            1 => DispatchReadyBy::Input,
            2 => DispatchReadyBy::Output,
            3 => DispatchReadyBy::Named,
            _ => DispatchReadyBy::Unknown,
        }
    }
}

/// How the written messages descend from messages read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchDescent {
    /// `unrecorded`.
    #[default]
    Unrecorded,
    /// `each_from_next`.
    EachFromNext,
    /// `all_from_one`.
    AllFromOne,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchDescent {
    #[inline]
    fn of(number: u64) -> DispatchDescent {
        match number {
            0 => DispatchDescent::Unrecorded,
            1 => DispatchDescent::EachFromNext,
            2 => DispatchDescent::AllFromOne,
            _ => DispatchDescent::Unknown,
        }
    }
}

/// A dispatch whose numbers are too large for `exec.dispatch`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DispatchLong {
    /// The duration of the dispatch.
    pub duration_ticks: u64,
    /// The time for which the task had been ready when the dispatch began.
    pub ready_ticks: u64,
    /// The number of the dispatch's base, see `exec.dispatch_base`.
    pub base_number: u64,
    /// Messages read from the stream that the dispatch's base (`exec.dispatch_base`) names as input.
    pub reads: u64,
    /// Messages written to the stream that the dispatch's base (`exec.dispatch_base`) names as output.
    pub writes: u64,
    /// Why the dispatch ended.
    pub outcome: DispatchLongOutcome,
    /// The stream that the task has waited for since the dispatch ended.
    pub waits_for: DispatchLongWaitsFor,
    /// The cause that had made the task ready.
    pub cause: DispatchLongCause,
    /// The stream that had made the task ready.
    pub ready_by: DispatchLongReadyBy,
    /// How the written messages descend from messages read.
    pub descent: DispatchLongDescent,
    /// The index of the message that the first written message descends from, less the index of the first message read.
    pub parent_offset: i64,
}

impl From<DispatchLong> for Observation {
    fn from(event: DispatchLong) -> Observation {
        Observation::DispatchLong(event)
    }
}

impl DispatchLong {
    const FIELDS: &'static [FieldSpec] = &[
        field("duration_ticks", FieldType::U64),
        field("ready_ticks", FieldType::U64),
        field("base_number", FieldType::U32),
        field("reads", FieldType::U32),
        field("writes", FieldType::U32),
        FieldSpec {
            choices: &[(0, "blocked_input"), (1, "blocked_output"), (2, "yielded"), (3, "ended")],
            ..field("outcome", FieldType::Enum)
        },
        FieldSpec {
            choices: &[(0, "none"), (1, "input"), (2, "output"), (3, "named")],
            ..field("waits_for", FieldType::Enum)
        },
        FieldSpec {
            choices: &[
                (0, "created"),
                (1, "input"),
                (2, "room"),
                (3, "yield"),
                (4, "end"),
                (5, "unrecorded"),
            ],
            ..field("cause", FieldType::Enum)
        },
        FieldSpec {
            choices: &[(0, "none"), (1, "input"), (2, "output"), (3, "named")],
            ..field("ready_by", FieldType::Enum)
        },
        FieldSpec {
            choices: &[(0, "unrecorded"), (1, "each_from_next"), (2, "all_from_one")],
            ..field("descent", FieldType::Enum)
        },
        field("parent_offset", FieldType::I64),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> DispatchLong {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5]) = fields.words(event) {
            return DispatchLong {
                duration_ticks: word_0,
                ready_ticks: word_1,
                base_number: u64::from(word_2 as u32),
                reads: u64::from((word_2 >> 32) as u32),
                writes: u64::from(word_3 as u32),
                outcome: DispatchLongOutcome::of(u64::from((word_3 >> 32) as u8)),
                waits_for: DispatchLongWaitsFor::of(u64::from((word_3 >> 40) as u8)),
                cause: DispatchLongCause::of(u64::from((word_3 >> 48) as u8)),
                ready_by: DispatchLongReadyBy::of(u64::from((word_3 >> 56) as u8)),
                descent: DispatchLongDescent::of(u64::from(word_4 as u8)),
                parent_offset: word_5 as i64,
            };
        }
        DispatchLong {
            duration_ticks: fields.u64(event, 0),
            ready_ticks: fields.u64(event, 1),
            base_number: fields.u64(event, 2),
            reads: fields.u64(event, 3),
            writes: fields.u64(event, 4),
            outcome: DispatchLongOutcome::of(fields.choice(event, 5)),
            waits_for: DispatchLongWaitsFor::of(fields.choice(event, 6)),
            cause: DispatchLongCause::of(fields.choice(event, 7)),
            ready_by: DispatchLongReadyBy::of(fields.choice(event, 8)),
            descent: DispatchLongDescent::of(fields.choice(event, 9)),
            parent_offset: fields.u64(event, 10) as i64,
        }
    }
}

/// Why the dispatch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchLongOutcome {
    /// `blocked_input`.
    #[default]
    BlockedInput,
    /// `blocked_output`.
    BlockedOutput,
    /// `yielded`.
    Yielded,
    /// `ended`.
    Ended,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchLongOutcome {
    #[inline]
    fn of(number: u64) -> DispatchLongOutcome {
        match number {
            0 => DispatchLongOutcome::BlockedInput,
            1 => DispatchLongOutcome::BlockedOutput,
            2 => DispatchLongOutcome::Yielded,
            3 => DispatchLongOutcome::Ended,
            _ => DispatchLongOutcome::Unknown,
        }
    }
}

/// The stream that the task has waited for since the dispatch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchLongWaitsFor {
    /// `none`.
    #[default]
    None,
    /// `input`.
    Input,
    /// `output`.
    Output,
    /// `named`.
    Named,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchLongWaitsFor {
    #[inline]
    fn of(number: u64) -> DispatchLongWaitsFor {
        match number {
            0 => DispatchLongWaitsFor::None,
            1 => DispatchLongWaitsFor::Input,
            2 => DispatchLongWaitsFor::Output,
            3 => DispatchLongWaitsFor::Named,
            _ => DispatchLongWaitsFor::Unknown,
        }
    }
}

/// The cause that had made the task ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchLongCause {
    /// `created`.
    #[default]
    Created,
    /// `input`.
    Input,
    /// `room`.
    Room,
    /// `yield`.
    Yield,
    /// `end`.
    End,
    /// `unrecorded`.
    Unrecorded,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchLongCause {
    #[inline]
    fn of(number: u64) -> DispatchLongCause {
        match number {
            0 => DispatchLongCause::Created,
            1 => DispatchLongCause::Input,
            2 => DispatchLongCause::Room,
            3 => DispatchLongCause::Yield,
            4 => DispatchLongCause::End,
            5 => DispatchLongCause::Unrecorded,
            _ => DispatchLongCause::Unknown,
        }
    }
}

/// The stream that had made the task ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchLongReadyBy {
    /// `none`.
    #[default]
    None,
    /// `input`.
    Input,
    /// `output`.
    Output,
    /// `named`.
    Named,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchLongReadyBy {
    #[inline]
    fn of(number: u64) -> DispatchLongReadyBy {
        match number {
            0 => DispatchLongReadyBy::None,
            1 => DispatchLongReadyBy::Input,
            2 => DispatchLongReadyBy::Output,
            3 => DispatchLongReadyBy::Named,
            _ => DispatchLongReadyBy::Unknown,
        }
    }
}

/// How the written messages descend from messages read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchLongDescent {
    /// `unrecorded`.
    #[default]
    Unrecorded,
    /// `each_from_next`.
    EachFromNext,
    /// `all_from_one`.
    AllFromOne,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DispatchLongDescent {
    #[inline]
    fn of(number: u64) -> DispatchLongDescent {
        match number {
            0 => DispatchLongDescent::Unrecorded,
            1 => DispatchLongDescent::EachFromNext,
            2 => DispatchLongDescent::AllFromOne,
            _ => DispatchLongDescent::Unknown,
        }
    }
}

/// Streams of the next dispatch that its base (`exec.dispatch_base`) does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DispatchStreams {
    /// The stream that the task has waited for since the dispatch ended, or 0.
    pub waits_for: u64,
    /// The stream that had made the task ready, or 0.
    pub ready_by: u64,
}

impl From<DispatchStreams> for Observation {
    fn from(event: DispatchStreams) -> Observation {
        Observation::DispatchStreams(event)
    }
}

impl DispatchStreams {
    const FIELDS: &'static [FieldSpec] =
        &[field("waits_for", FieldType::U64), field("ready_by", FieldType::U64)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> DispatchStreams {
        if let Some([word_0, word_1]) = fields.words(event) {
            return DispatchStreams { waits_for: word_0, ready_by: word_1 };
        }
        DispatchStreams { waits_for: fields.u64(event, 0), ready_by: fields.u64(event, 1) }
    }
}

/// A task finished processing a message (at this event's time). Recorded only if processing a message takes long compared with recording it: see `exec.clock_budget`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MessageWorked {
    /// The task.
    pub task: u64,
    /// The message's index in the stream that the task reads.
    pub index: u64,
    /// The duration.
    pub duration_ticks: u64,
}

impl From<MessageWorked> for Observation {
    fn from(event: MessageWorked) -> Observation {
        Observation::MessageWorked(event)
    }
}

impl MessageWorked {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("index", FieldType::U64).absent(0),
        field("duration_ticks", FieldType::U64),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> MessageWorked {
        if let Some([word_0, word_1, word_2]) = fields.words(event) {
            return MessageWorked { task: word_0, index: word_1, duration_ticks: word_2 };
        }
        MessageWorked {
            task: fields.u64(event, 0),
            index: fields.u64(event, 1),
            duration_ticks: fields.u64(event, 2),
        }
    }
}

/// Messages that the next dispatch read from a stream that its base (`exec.dispatch_base`) does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamRead {
    /// The stream.
    pub stream: u64,
    /// The index of the first message, counted from 0.
    pub first: u64,
    /// The number of messages.
    pub count: u64,
}

impl From<StreamRead> for Observation {
    fn from(event: StreamRead) -> Observation {
        Observation::StreamRead(event)
    }
}

impl StreamRead {
    const FIELDS: &'static [FieldSpec] =
        &[field("stream", FieldType::U64), field("first", FieldType::U64), field("count", FieldType::U32)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> StreamRead {
        if let Some([word_0, word_1, word_2]) = fields.words(event) {
            return StreamRead { stream: word_0, first: word_1, count: u64::from(word_2 as u32) };
        }
        StreamRead { stream: fields.u64(event, 0), first: fields.u64(event, 1), count: fields.u64(event, 2) }
    }
}

/// Messages that the next dispatch wrote to a stream that its base (`exec.dispatch_base`) does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamWrote {
    /// The stream.
    pub stream: u64,
    /// The index of the first message, counted from 0.
    pub first: u64,
    /// The number of messages.
    pub count: u64,
    /// How the messages descend from messages that this or an earlier dispatch of the task read from the stream that its base (`exec.dispatch_base`) names as input.
    pub descent: StreamWroteDescent,
    /// The index of the message that the first message descends from, less the index of the first message that the dispatch read from the input stream of its base.
    pub parent_offset: i64,
}

impl From<StreamWrote> for Observation {
    fn from(event: StreamWrote) -> Observation {
        Observation::StreamWrote(event)
    }
}

impl StreamWrote {
    const FIELDS: &'static [FieldSpec] = &[
        field("stream", FieldType::U64),
        field("first", FieldType::U64),
        field("count", FieldType::U32),
        FieldSpec {
            choices: &[(0, "unrecorded"), (1, "each_from_next"), (2, "all_from_one")],
            ..field("descent", FieldType::Enum)
        }
        .absent(0),
        field("parent_offset", FieldType::I16).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> StreamWrote {
        if let Some([word_0, word_1, word_2]) = fields.words(event) {
            return StreamWrote {
                stream: word_0,
                first: word_1,
                count: u64::from(word_2 as u32),
                descent: StreamWroteDescent::of(u64::from((word_2 >> 32) as u8)),
                parent_offset: i64::from((word_2 >> 48) as i16),
            };
        }
        StreamWrote {
            stream: fields.u64(event, 0),
            first: fields.u64(event, 1),
            count: fields.u64(event, 2),
            descent: StreamWroteDescent::of(fields.choice(event, 3)),
            parent_offset: fields.u64(event, 4) as i64,
        }
    }
}

/// How the messages descend from messages that this or an earlier dispatch of the task read from the stream that its base (`exec.dispatch_base`) names as input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamWroteDescent {
    /// `unrecorded`.
    #[default]
    Unrecorded,
    /// `each_from_next`.
    EachFromNext,
    /// `all_from_one`.
    AllFromOne,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl StreamWroteDescent {
    #[inline]
    fn of(number: u64) -> StreamWroteDescent {
        match number {
            0 => StreamWroteDescent::Unrecorded,
            1 => StreamWroteDescent::EachFromNext,
            2 => StreamWroteDescent::AllFromOne,
            _ => StreamWroteDescent::Unknown,
        }
    }
}

/// Lineage: message `first + k` of `stream` descends from message `parent_first + k * step` of `parent_stream`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Derived {
    /// The stream written.
    pub stream: u64,
    /// The index of the first message written.
    pub first: u64,
    /// The stream read.
    pub parent_stream: u64,
    /// The index of the message that the first message written descends from.
    pub parent_first: u64,
    /// The number of messages of `stream`.
    pub count: u64,
    /// 0: all messages descend from the same message; 1: the k-th message descends from the k-th of as many parent messages.
    pub step: u64,
}

impl From<Derived> for Observation {
    fn from(event: Derived) -> Observation {
        Observation::Derived(event)
    }
}

impl Derived {
    const FIELDS: &'static [FieldSpec] = &[
        field("stream", FieldType::U64),
        field("first", FieldType::U64),
        field("parent_stream", FieldType::U64),
        field("parent_first", FieldType::U64),
        field("count", FieldType::U32),
        field("step", FieldType::U32),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> Derived {
        if let Some([word_0, word_1, word_2, word_3, word_4]) = fields.words(event) {
            return Derived {
                stream: word_0,
                first: word_1,
                parent_stream: word_2,
                parent_first: word_3,
                count: u64::from(word_4 as u32),
                step: u64::from((word_4 >> 32) as u32),
            };
        }
        Derived {
            stream: fields.u64(event, 0),
            first: fields.u64(event, 1),
            parent_stream: fields.u64(event, 2),
            parent_first: fields.u64(event, 3),
            count: fields.u64(event, 4),
            step: fields.u64(event, 5),
        }
    }
}

/// A wait that never ends, because the run is deadlocked. Before the run ends, an event is recorded for each wait that never ends, up to 1,000.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deadlocked {
    /// The task that waits.
    pub task: u64,
    /// The stream that the task waits for, maybe one of several.
    pub stream: u64,
    /// The task at the stream's other end.
    pub peer: u64,
    /// 1: the task waits for room; 0: the task waits for a message.
    pub for_room: u64,
}

impl From<Deadlocked> for Observation {
    fn from(event: Deadlocked) -> Observation {
        Observation::Deadlocked(event)
    }
}

impl Deadlocked {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("stream", FieldType::U64),
        field("peer", FieldType::U64),
        field("for_room", FieldType::U8),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> Deadlocked {
        if let Some([word_0, word_1, word_2, word_3]) = fields.words(event) {
            return Deadlocked {
                task: word_0,
                stream: word_1,
                peer: word_2,
                for_room: u64::from(word_3 as u8),
            };
        }
        Deadlocked {
            task: fields.u64(event, 0),
            stream: fields.u64(event, 1),
            peer: fields.u64(event, 2),
            for_room: fields.u64(event, 3),
        }
    }
}

/// A task ended. The busy time, the two waiting times and the ready time add up to the measured part of the task's life (modes metrics and full).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskEnded {
    /// The task.
    pub task: u64,
    /// The time for which the task ran.
    pub busy_ticks: u64,
    /// The time for which the task waited for messages.
    pub input_wait_ticks: u64,
    /// The time for which the task waited for room in a stream.
    pub output_wait_ticks: u64,
    /// The time for which the task was ready but did not run.
    pub ready_ticks: u64,
    /// The number of the task's dispatches.
    pub dispatches: u64,
    /// The number of messages that the task read.
    pub reads: u64,
    /// The number of messages that the task wrote.
    pub writes: u64,
    /// Whether the task failed.
    pub failed: bool,
    /// Whether the task panicked.
    pub panicked: bool,
}

impl Default for TaskEnded {
    fn default() -> TaskEnded {
        TaskEnded {
            task: 0,
            busy_ticks: 0,
            input_wait_ticks: 0,
            output_wait_ticks: 0,
            ready_ticks: 0,
            dispatches: u64::MAX,
            reads: u64::MAX,
            writes: u64::MAX,
            failed: false,
            panicked: false,
        }
    }
}

impl From<TaskEnded> for Observation {
    fn from(event: TaskEnded) -> Observation {
        Observation::TaskEnded(event)
    }
}

impl TaskEnded {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("busy_ticks", FieldType::U64).absent(0),
        field("input_wait_ticks", FieldType::U64).absent(0),
        field("output_wait_ticks", FieldType::U64).absent(0),
        field("ready_ticks", FieldType::U64).absent(0),
        field("dispatches", FieldType::U64).absent(18446744073709551615),
        field("reads", FieldType::U64).absent(18446744073709551615),
        field("writes", FieldType::U64).absent(18446744073709551615),
        field("failed", FieldType::Bool).absent(0),
        field("panicked", FieldType::Bool).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> TaskEnded {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5, word_6, word_7, word_8]) =
            fields.words(event)
        {
            return TaskEnded {
                task: word_0,
                busy_ticks: word_1,
                input_wait_ticks: word_2,
                output_wait_ticks: word_3,
                ready_ticks: word_4,
                dispatches: word_5,
                reads: word_6,
                writes: word_7,
                failed: word_8 as u8 != 0,
                panicked: (word_8 >> 8) as u8 != 0,
            };
        }
        TaskEnded {
            task: fields.u64(event, 0),
            busy_ticks: fields.u64(event, 1),
            input_wait_ticks: fields.u64(event, 2),
            output_wait_ticks: fields.u64(event, 3),
            ready_ticks: fields.u64(event, 4),
            dispatches: fields.u64(event, 5),
            reads: fields.u64(event, 6),
            writes: fields.u64(event, 7),
            failed: fields.u64(event, 8) != 0,
            panicked: fields.u64(event, 9) != 0,
        }
    }
}

/// A task ended without an error, and up to two streams closed with all their messages read. This event replaces `exec.task_ended` and `exec.stream_closed` if all counts fit into it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BriefTaskEnded {
    /// The task.
    pub task: u64,
    /// The time for which the task ran.
    pub busy_ticks: u64,
    /// The time for which the task waited for messages.
    pub input_wait_ticks: u64,
    /// The time for which the task waited for room in a stream.
    pub output_wait_ticks: u64,
    /// The time for which the task was ready but did not run.
    pub ready_ticks: u64,
    /// The number of the task's dispatches.
    pub dispatches: u64,
    /// The number of messages that the task read.
    pub reads: u64,
    /// The number of messages that the task wrote.
    pub writes: u64,
    /// The number of messages that passed the first stream.
    pub passed: u64,
    /// The first stream that closed, or 0.
    pub stream: u64,
    /// The id of the second stream less the id of the first; 0: there is no second stream.
    pub other: i64,
    /// The number of messages that passed the second stream.
    pub other_passed: u64,
}

impl From<BriefTaskEnded> for Observation {
    fn from(event: BriefTaskEnded) -> Observation {
        Observation::BriefTaskEnded(event)
    }
}

impl BriefTaskEnded {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("busy_ticks", FieldType::U32),
        field("input_wait_ticks", FieldType::U32),
        field("output_wait_ticks", FieldType::U32),
        field("ready_ticks", FieldType::U32),
        field("dispatches", FieldType::U16),
        field("reads", FieldType::U16),
        field("writes", FieldType::U16),
        field("passed", FieldType::U16),
        field("stream", FieldType::U64),
        field("other", FieldType::I32),
        field("other_passed", FieldType::U16),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> BriefTaskEnded {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5]) = fields.words(event) {
            return BriefTaskEnded {
                task: word_0,
                busy_ticks: u64::from(word_1 as u32),
                input_wait_ticks: u64::from((word_1 >> 32) as u32),
                output_wait_ticks: u64::from(word_2 as u32),
                ready_ticks: u64::from((word_2 >> 32) as u32),
                dispatches: u64::from(word_3 as u16),
                reads: u64::from((word_3 >> 16) as u16),
                writes: u64::from((word_3 >> 32) as u16),
                passed: u64::from((word_3 >> 48) as u16),
                stream: word_4,
                other: i64::from(word_5 as i32),
                other_passed: u64::from((word_5 >> 32) as u16),
            };
        }
        BriefTaskEnded {
            task: fields.u64(event, 0),
            busy_ticks: fields.u64(event, 1),
            input_wait_ticks: fields.u64(event, 2),
            output_wait_ticks: fields.u64(event, 3),
            ready_ticks: fields.u64(event, 4),
            dispatches: fields.u64(event, 5),
            reads: fields.u64(event, 6),
            writes: fields.u64(event, 7),
            passed: fields.u64(event, 8),
            stream: fields.u64(event, 9),
            other: fields.u64(event, 10) as i64,
            other_passed: fields.u64(event, 11),
        }
    }
}

/// A task was attached to an end of a stream, or, if neither task is named, the stream's capacity changed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamOpened {
    /// The stream.
    pub stream: u64,
    /// The stream's name, if it has one.
    pub name: u64,
    /// The task that reads the stream, or 0.
    pub reader: u64,
    /// The task that writes the stream, or 0.
    pub writer: u64,
    /// The stream's capacity.
    pub capacity: u64,
}

impl From<StreamOpened> for Observation {
    fn from(event: StreamOpened) -> Observation {
        Observation::StreamOpened(event)
    }
}

impl StreamOpened {
    const FIELDS: &'static [FieldSpec] = &[
        field("stream", FieldType::U64),
        field("name", FieldType::Name).absent(0),
        field("reader", FieldType::U64).absent(0),
        field("writer", FieldType::U64).absent(0),
        field("capacity", FieldType::U64).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> StreamOpened {
        if let Some([word_0, word_1, word_2, word_3, word_4]) = fields.words(event) {
            return StreamOpened {
                stream: word_0,
                name: word_1,
                reader: word_2,
                writer: word_3,
                capacity: word_4,
            };
        }
        StreamOpened {
            stream: fields.u64(event, 0),
            name: fields.u64(event, 1),
            reader: fields.u64(event, 2),
            writer: fields.u64(event, 3),
            capacity: fields.u64(event, 4),
        }
    }
}

/// Both ends of a stream are closed. Written = read + dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamClosed {
    /// The stream.
    pub stream: u64,
    /// The number of messages written to the stream.
    pub written: u64,
    /// The number of messages read from the stream.
    pub read: u64,
    /// Messages that no task read, because the reader had left.
    pub dropped: u64,
}

impl From<StreamClosed> for Observation {
    fn from(event: StreamClosed) -> Observation {
        Observation::StreamClosed(event)
    }
}

impl StreamClosed {
    const FIELDS: &'static [FieldSpec] = &[
        field("stream", FieldType::U64),
        field("written", FieldType::U64),
        field("read", FieldType::U64),
        field("dropped", FieldType::U64).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> StreamClosed {
        if let Some([word_0, word_1, word_2, word_3]) = fields.words(event) {
            return StreamClosed { stream: word_0, written: word_1, read: word_2, dropped: word_3 };
        }
        StreamClosed {
            stream: fields.u64(event, 0),
            written: fields.u64(event, 1),
            read: fields.u64(event, 2),
            dropped: fields.u64(event, 3),
        }
    }
}

/// The measured sizes of a stream's messages; recorded when both ends of the stream are closed, before `exec.stream_closed`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamSizes {
    /// The stream.
    pub stream: u64,
    /// The number of messages that the sizes represent: all up to the last one whose size was measured.
    pub messages: u64,
    /// The total size of the messages that the sizes represent.
    pub bytes: u64,
    /// The smallest size measured.
    pub least: u64,
    /// The largest size measured.
    pub most: u64,
    /// The bounds of the buckets of `exec.stream_size_counts`, coded as in the live row `exec.message_sizes`.
    pub scale: u64,
}

impl From<StreamSizes> for Observation {
    fn from(event: StreamSizes) -> Observation {
        Observation::StreamSizes(event)
    }
}

impl StreamSizes {
    const FIELDS: &'static [FieldSpec] = &[
        field("stream", FieldType::U64),
        field("messages", FieldType::U64),
        field("bytes", FieldType::U64),
        field("least", FieldType::U64),
        field("most", FieldType::U64),
        field("scale", FieldType::U64),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> StreamSizes {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5]) = fields.words(event) {
            return StreamSizes {
                stream: word_0,
                messages: word_1,
                bytes: word_2,
                least: word_3,
                most: word_4,
                scale: word_5,
            };
        }
        StreamSizes {
            stream: fields.u64(event, 0),
            messages: fields.u64(event, 1),
            bytes: fields.u64(event, 2),
            least: fields.u64(event, 3),
            most: fields.u64(event, 4),
            scale: fields.u64(event, 5),
        }
    }
}

/// The histogram of a stream's message sizes; `exec.stream_sizes`, the next event, has the bounds of its buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamSizeCounts {
    /// The stream.
    pub stream: u64,
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

impl From<StreamSizeCounts> for Observation {
    fn from(event: StreamSizeCounts) -> Observation {
        Observation::StreamSizeCounts(event)
    }
}

impl StreamSizeCounts {
    const FIELDS: &'static [FieldSpec] = &[
        field("stream", FieldType::U64),
        field("counts_0", FieldType::U64),
        field("counts_1", FieldType::U64),
        field("counts_2", FieldType::U64),
        field("counts_3", FieldType::U64),
        field("counts_4", FieldType::U64),
        field("counts_5", FieldType::U64),
        field("counts_6", FieldType::U64),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> StreamSizeCounts {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5, word_6, word_7]) = fields.words(event) {
            return StreamSizeCounts {
                stream: word_0,
                counts_0: word_1,
                counts_1: word_2,
                counts_2: word_3,
                counts_3: word_4,
                counts_4: word_5,
                counts_5: word_6,
                counts_6: word_7,
            };
        }
        StreamSizeCounts {
            stream: fields.u64(event, 0),
            counts_0: fields.u64(event, 1),
            counts_1: fields.u64(event, 2),
            counts_2: fields.u64(event, 3),
            counts_3: fields.u64(event, 4),
            counts_4: fields.u64(event, 5),
            counts_5: fields.u64(event, 6),
            counts_6: fields.u64(event, 7),
        }
    }
}

/// The new mode of observation: recorded when the run begins, and at each change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModeChanged {
    /// 0 off, 1 metrics, 2 full.
    pub mode: u64,
}

impl From<ModeChanged> for Observation {
    fn from(event: ModeChanged) -> Observation {
        Observation::ModeChanged(event)
    }
}

impl ModeChanged {
    const FIELDS: &'static [FieldSpec] = &[field("mode", FieldType::U8)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> ModeChanged {
        if let Some([word_0]) = fields.words(event) {
            return ModeChanged { mode: u64::from(word_0 as u8) };
        }
        ModeChanged { mode: fields.u64(event, 0) }
    }
}

/// The runtime adopted a setting's new value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SettingAdopted {
    /// The setting.
    pub name: u64,
    /// The previous value.
    pub old: u64,
    /// The new value.
    pub new: u64,
}

impl From<SettingAdopted> for Observation {
    fn from(event: SettingAdopted) -> Observation {
        Observation::SettingAdopted(event)
    }
}

impl SettingAdopted {
    const FIELDS: &'static [FieldSpec] =
        &[field("name", FieldType::Name), field("old", FieldType::U64), field("new", FieldType::U64)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> SettingAdopted {
        if let Some([word_0, word_1, word_2]) = fields.words(event) {
            return SettingAdopted { name: word_0, old: word_1, new: word_2 };
        }
        SettingAdopted { name: fields.u64(event, 0), old: fields.u64(event, 1), new: fields.u64(event, 2) }
    }
}

/// Why a task failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskFailed {
    /// The task.
    pub task: u64,
    /// The message of the task's error.
    pub message: Text,
}

impl From<TaskFailed> for Observation {
    fn from(event: TaskFailed) -> Observation {
        Observation::TaskFailed(event)
    }
}

impl TaskFailed {
    const FIELDS: &'static [FieldSpec] = &[field("task", FieldType::U64), field("message", FieldType::Str)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>, texts: &mut Texts) -> TaskFailed {
        if let Some([word_0, _]) = fields.words(event) {
            return TaskFailed { task: word_0, message: texts.keep(fields.bytes(event, 1)) };
        }
        TaskFailed { task: fields.u64(event, 0), message: texts.keep(fields.bytes(event, 1)) }
    }
}

/// The stream by which records enter a network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entry {
    /// The stream.
    pub stream: u64,
}

impl From<Entry> for Observation {
    fn from(event: Entry) -> Observation {
        Observation::Entry(event)
    }
}

impl Entry {
    const FIELDS: &'static [FieldSpec] = &[field("stream", FieldType::U64)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> Entry {
        if let Some([word_0]) = fields.words(event) {
            return Entry { stream: word_0 };
        }
        Entry { stream: fields.u64(event, 0) }
    }
}

/// The stream by which records leave a network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Exit {
    /// The stream.
    pub stream: u64,
}

impl From<Exit> for Observation {
    fn from(event: Exit) -> Observation {
        Observation::Exit(event)
    }
}

impl Exit {
    const FIELDS: &'static [FieldSpec] = &[field("stream", FieldType::U64)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> Exit {
        if let Some([word_0]) = fields.words(event) {
            return Exit { stream: word_0 };
        }
        Exit { stream: fields.u64(event, 0) }
    }
}

/// A record failed and left the network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecordFailed {
    /// The task that worked on the record.
    pub task: u64,
    /// The task's component.
    pub component: u64,
    /// The stream of the record, as a message.
    pub stream: u64,
    /// The number of the record in this stream, from 0.
    pub index: u64,
    /// The reason of the failure.
    pub reason: Text,
}

impl From<RecordFailed> for Observation {
    fn from(event: RecordFailed) -> Observation {
        Observation::RecordFailed(event)
    }
}

impl RecordFailed {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("component", FieldType::Site).absent(0),
        field("stream", FieldType::U64),
        field("index", FieldType::U64),
        field("reason", FieldType::Str).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>, texts: &mut Texts) -> RecordFailed {
        if let Some([word_0, word_1, word_2, word_3, _]) = fields.words(event) {
            return RecordFailed {
                task: word_0,
                component: word_1,
                stream: word_2,
                index: word_3,
                reason: texts.keep(fields.bytes(event, 4)),
            };
        }
        RecordFailed {
            task: fields.u64(event, 0),
            component: fields.u64(event, 1),
            stream: fields.u64(event, 2),
            index: fields.u64(event, 3),
            reason: texts.keep(fields.bytes(event, 4)),
        }
    }
}

/// A component keeps a record beyond the dispatch in which it read it, and sends it on later.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecordHeld {
    /// The task that keeps the record.
    pub task: u64,
    /// The stream of the record, as a message.
    pub stream: u64,
    /// The number of the record in this stream, from 0.
    pub index: u64,
}

impl From<RecordHeld> for Observation {
    fn from(event: RecordHeld) -> Observation {
        Observation::RecordHeld(event)
    }
}

impl RecordHeld {
    const FIELDS: &'static [FieldSpec] =
        &[field("task", FieldType::U64), field("stream", FieldType::U64), field("index", FieldType::U64)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> RecordHeld {
        if let Some([word_0, word_1, word_2]) = fields.words(event) {
            return RecordHeld { task: word_0, stream: word_1, index: word_2 };
        }
        RecordHeld { task: fields.u64(event, 0), stream: fields.u64(event, 1), index: fields.u64(event, 2) }
    }
}

/// A type of records that the task reads: recorded before the task describes the first record of the type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecordType {
    /// The task.
    pub task: u64,
    /// The type's number in this run.
    pub record_type: u64,
    /// The labels of the type as files show them, tags first; only the first 200 bytes of a longer text.
    pub labels: Text,
}

impl From<RecordType> for Observation {
    fn from(event: RecordType) -> Observation {
        Observation::RecordType(event)
    }
}

impl RecordType {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("record_type", FieldType::U32),
        field("labels", FieldType::Str),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>, texts: &mut Texts) -> RecordType {
        if let Some([word_0, word_1]) = fields.words(event) {
            return RecordType {
                task: word_0,
                record_type: u64::from(word_1 as u32),
                labels: texts.keep(fields.bytes(event, 2)),
            };
        }
        RecordType {
            task: fields.u64(event, 0),
            record_type: fields.u64(event, 1),
            labels: texts.keep(fields.bytes(event, 2)),
        }
    }
}

/// Describes the record on which a box begins to work. Recorded only where the box takes much longer for a record than recording this event takes: see `exec.clock_budget`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecordDescribed {
    /// The task.
    pub task: u64,
    /// The record's index in the stream that the task reads.
    pub index: u64,
    /// The number of the record's type.
    pub record_type: u64,
    /// The bytes of the record's values, without values that only a library understands.
    pub size_bytes: u64,
    /// The value of the record's first tag, in the order of the type's labels; 0 without a tag.
    pub tag_0: i64,
    /// The value of the record's second tag; 0 without a second tag.
    pub tag_1: i64,
    /// The value of the record's third tag; 0 without a third tag.
    pub tag_2: i64,
}

impl From<RecordDescribed> for Observation {
    fn from(event: RecordDescribed) -> Observation {
        Observation::RecordDescribed(event)
    }
}

impl RecordDescribed {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("index", FieldType::U64),
        field("record_type", FieldType::U32),
        field("size_bytes", FieldType::U64),
        field("tag_0", FieldType::I64),
        field("tag_1", FieldType::I64),
        field("tag_2", FieldType::I64),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> RecordDescribed {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5, word_6]) = fields.words(event) {
            return RecordDescribed {
                task: word_0,
                index: word_1,
                record_type: u64::from(word_2 as u32),
                size_bytes: word_3,
                tag_0: word_4 as i64,
                tag_1: word_5 as i64,
                tag_2: word_6 as i64,
            };
        }
        RecordDescribed {
            task: fields.u64(event, 0),
            index: fields.u64(event, 1),
            record_type: fields.u64(event, 2),
            size_bytes: fields.u64(event, 3),
            tag_0: fields.u64(event, 4) as i64,
            tag_1: fields.u64(event, 5) as i64,
            tag_2: fields.u64(event, 6) as i64,
        }
    }
}

/// From this message on, messages of a link and of a stream correspond one by one. Recorded at the first message, and whenever another message of the stream follows than the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Joint {
    /// The task at this end of the link.
    pub task: u64,
    /// The link's number in its session.
    pub link: u64,
    /// The direction in which records travel.
    pub way: JointWay,
    /// The number of the message in the link, from 0.
    pub number: u64,
    /// The stream.
    pub stream: u64,
    /// The number of the message in the stream, from 0.
    pub index: u64,
}

impl From<Joint> for Observation {
    fn from(event: Joint) -> Observation {
        Observation::Joint(event)
    }
}

impl Joint {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("link", FieldType::U64),
        FieldSpec { choices: &[(0, "out"), (1, "in")], ..field("way", FieldType::Enum) },
        field("number", FieldType::U64),
        field("stream", FieldType::U64),
        field("index", FieldType::U64),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> Joint {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5]) = fields.words(event) {
            return Joint {
                task: word_0,
                link: word_1,
                way: JointWay::of(u64::from(word_2 as u8)),
                number: word_3,
                stream: word_4,
                index: word_5,
            };
        }
        Joint {
            task: fields.u64(event, 0),
            link: fields.u64(event, 1),
            way: JointWay::of(fields.choice(event, 2)),
            number: fields.u64(event, 3),
            stream: fields.u64(event, 4),
            index: fields.u64(event, 5),
        }
    }
}

/// The direction in which records travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JointWay {
    /// `out`.
    #[default]
    Out,
    /// `in`.
    In,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl JointWay {
    #[inline]
    fn of(number: u64) -> JointWay {
        match number {
            0 => JointWay::Out,
            1 => JointWay::In,
            _ => JointWay::Unknown,
        }
    }
}

/// A tuner decided something about this run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decided {
    /// The decision's number.
    pub number: u64,
    /// What was decided.
    pub what: DecidedWhat,
    /// The expected gain: the part by which the goal was expected to become better; not a number if unknown.
    pub predicted: f64,
    /// The gain measured in the trial: the part by which the goal became better.
    pub gain: f64,
    /// The lower bound of the gain, with a confidence of 99 %.
    pub least: f64,
    /// The upper bound of the gain.
    pub most: f64,
    /// The number of pairs of windows that the trial compared.
    pub pairs: u64,
    /// The change that the tuner decided about, in words.
    pub change: Text,
    /// The settings' values that the change sets, as `NAME=VALUE`.
    pub values: Text,
    /// The settings' values that undo the change, as `NAME=VALUE`.
    pub back: Text,
    /// The model or rule that proposed the change.
    pub model: Text,
    /// The reason for the decision.
    pub why: Text,
}

impl From<Decided> for Observation {
    fn from(event: Decided) -> Observation {
        Observation::Decided(event)
    }
}

impl Decided {
    const FIELDS: &'static [FieldSpec] = &[
        field("number", FieldType::U64),
        FieldSpec {
            choices: &[
                (0, "began"),
                (1, "changed"),
                (2, "tried"),
                (3, "kept"),
                (4, "taken_back"),
                (5, "undone"),
                (6, "pinned"),
                (7, "advised"),
                (8, "ended"),
            ],
            ..field("what", FieldType::Enum)
        },
        field("predicted", FieldType::F64),
        field("gain", FieldType::F64),
        field("least", FieldType::F64),
        field("most", FieldType::F64),
        field("pairs", FieldType::U32),
        field("change", FieldType::Str),
        field("values", FieldType::Str),
        field("back", FieldType::Str),
        field("model", FieldType::Str),
        field("why", FieldType::Str),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>, texts: &mut Texts) -> Decided {
        if let Some([word_0, word_1, word_2, word_3, word_4, word_5, word_6, _, _]) = fields.words(event) {
            return Decided {
                number: word_0,
                what: DecidedWhat::of(u64::from(word_1 as u8)),
                predicted: f64::from_bits(word_2),
                gain: f64::from_bits(word_3),
                least: f64::from_bits(word_4),
                most: f64::from_bits(word_5),
                pairs: u64::from(word_6 as u32),
                change: texts.keep(fields.bytes(event, 7)),
                values: texts.keep(fields.bytes(event, 8)),
                back: texts.keep(fields.bytes(event, 9)),
                model: texts.keep(fields.bytes(event, 10)),
                why: texts.keep(fields.bytes(event, 11)),
            };
        }
        Decided {
            number: fields.u64(event, 0),
            what: DecidedWhat::of(fields.choice(event, 1)),
            predicted: fields.f64(event, 2),
            gain: fields.f64(event, 3),
            least: fields.f64(event, 4),
            most: fields.f64(event, 5),
            pairs: fields.u64(event, 6),
            change: texts.keep(fields.bytes(event, 7)),
            values: texts.keep(fields.bytes(event, 8)),
            back: texts.keep(fields.bytes(event, 9)),
            model: texts.keep(fields.bytes(event, 10)),
            why: texts.keep(fields.bytes(event, 11)),
        }
    }
}

/// What was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecidedWhat {
    /// `began`.
    #[default]
    Began,
    /// `changed`.
    Changed,
    /// `tried`.
    Tried,
    /// `kept`.
    Kept,
    /// `taken_back`.
    TakenBack,
    /// `undone`.
    Undone,
    /// `pinned`.
    Pinned,
    /// `advised`.
    Advised,
    /// `ended`.
    Ended,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl DecidedWhat {
    #[inline]
    fn of(number: u64) -> DecidedWhat {
        match number {
            0 => DecidedWhat::Began,
            1 => DecidedWhat::Changed,
            2 => DecidedWhat::Tried,
            3 => DecidedWhat::Kept,
            4 => DecidedWhat::TakenBack,
            5 => DecidedWhat::Undone,
            6 => DecidedWhat::Pinned,
            7 => DecidedWhat::Advised,
            8 => DecidedWhat::Ended,
            _ => DecidedWhat::Unknown,
        }
    }
}

/// A command paused the run's sources, or let them continue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Paused {
    /// Whether the sources are paused.
    pub paused: bool,
}

impl From<Paused> for Observation {
    fn from(event: Paused) -> Observation {
        Observation::Paused(event)
    }
}

impl Paused {
    const FIELDS: &'static [FieldSpec] = &[field("paused", FieldType::Bool)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> Paused {
        if let Some([word_0]) = fields.words(event) {
            return Paused { paused: word_0 as u8 != 0 };
        }
        Paused { paused: fields.u64(event, 0) != 0 }
    }
}

/// A task became ready; the thread that made the task ready wrote this event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskReady {
    /// The task.
    pub task: u64,
    /// The stream that made the task ready, or 0.
    pub by_stream: u64,
    /// The cause that made the task ready.
    pub cause: TaskReadyCause,
}

impl From<TaskReady> for Observation {
    fn from(event: TaskReady) -> Observation {
        Observation::TaskReady(event)
    }
}

impl TaskReady {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("by_stream", FieldType::U64).absent(0),
        FieldSpec {
            choices: &[(0, "created"), (1, "input"), (2, "room"), (3, "yield"), (4, "end")],
            ..field("cause", FieldType::Enum)
        }
        .absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> TaskReady {
        if let Some([word_0, word_1, word_2]) = fields.words(event) {
            return TaskReady {
                task: word_0,
                by_stream: word_1,
                cause: TaskReadyCause::of(u64::from(word_2 as u8)),
            };
        }
        TaskReady {
            task: fields.u64(event, 0),
            by_stream: fields.u64(event, 1),
            cause: TaskReadyCause::of(fields.choice(event, 2)),
        }
    }
}

/// The cause that made the task ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskReadyCause {
    /// `created`.
    #[default]
    Created,
    /// `input`.
    Input,
    /// `room`.
    Room,
    /// `yield`.
    Yield,
    /// `end`.
    End,
    /// A value that this version of the reader does not know.
    Unknown,
}

impl TaskReadyCause {
    #[inline]
    fn of(number: u64) -> TaskReadyCause {
        match number {
            0 => TaskReadyCause::Created,
            1 => TaskReadyCause::Input,
            2 => TaskReadyCause::Room,
            3 => TaskReadyCause::Yield,
            4 => TaskReadyCause::End,
            _ => TaskReadyCause::Unknown,
        }
    }
}

/// A dispatch ended (at this event's time).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskDispatched {
    /// The task.
    pub task: u64,
    /// The duration of the dispatch.
    pub duration_ticks: u64,
    /// The worker; 4294967295: the task has a thread of its own.
    pub worker: u64,
    /// Messages read.
    pub reads: u64,
    /// Messages written.
    pub writes: u64,
}

impl From<TaskDispatched> for Observation {
    fn from(event: TaskDispatched) -> Observation {
        Observation::TaskDispatched(event)
    }
}

impl TaskDispatched {
    const FIELDS: &'static [FieldSpec] = &[
        field("task", FieldType::U64),
        field("duration_ticks", FieldType::U64),
        field("worker", FieldType::U32),
        field("reads", FieldType::U32).absent(0),
        field("writes", FieldType::U32).absent(0),
    ];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> TaskDispatched {
        if let Some([word_0, word_1, word_2, word_3]) = fields.words(event) {
            return TaskDispatched {
                task: word_0,
                duration_ticks: word_1,
                worker: u64::from(word_2 as u32),
                reads: u64::from((word_2 >> 32) as u32),
                writes: u64::from(word_3 as u32),
            };
        }
        TaskDispatched {
            task: fields.u64(event, 0),
            duration_ticks: fields.u64(event, 1),
            worker: fields.u64(event, 2),
            reads: fields.u64(event, 3),
            writes: fields.u64(event, 4),
        }
    }
}

/// A task waits for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskBlockedInput {
    /// The task.
    pub task: u64,
    /// The stream that the task waits for; 0: any of several.
    pub stream: u64,
}

impl From<TaskBlockedInput> for Observation {
    fn from(event: TaskBlockedInput) -> Observation {
        Observation::TaskBlockedInput(event)
    }
}

impl TaskBlockedInput {
    const FIELDS: &'static [FieldSpec] =
        &[field("task", FieldType::U64), field("stream", FieldType::U64).absent(0)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> TaskBlockedInput {
        if let Some([word_0, word_1]) = fields.words(event) {
            return TaskBlockedInput { task: word_0, stream: word_1 };
        }
        TaskBlockedInput { task: fields.u64(event, 0), stream: fields.u64(event, 1) }
    }
}

/// A task waits for room.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskBlockedOutput {
    /// The task.
    pub task: u64,
    /// The stream that the task waits for; 0: any of several.
    pub stream: u64,
}

impl From<TaskBlockedOutput> for Observation {
    fn from(event: TaskBlockedOutput) -> Observation {
        Observation::TaskBlockedOutput(event)
    }
}

impl TaskBlockedOutput {
    const FIELDS: &'static [FieldSpec] =
        &[field("task", FieldType::U64), field("stream", FieldType::U64).absent(0)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> TaskBlockedOutput {
        if let Some([word_0, word_1]) = fields.words(event) {
            return TaskBlockedOutput { task: word_0, stream: word_1 };
        }
        TaskBlockedOutput { task: fields.u64(event, 0), stream: fields.u64(event, 1) }
    }
}

/// A task stopped although it could have gone on: its quantum was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskYielded {
    /// The task.
    pub task: u64,
}

impl From<TaskYielded> for Observation {
    fn from(event: TaskYielded) -> Observation {
        Observation::TaskYielded(event)
    }
}

impl TaskYielded {
    const FIELDS: &'static [FieldSpec] = &[field("task", FieldType::U64)];

    #[inline(always)]
    fn read(fields: &Fields, event: &Event<'_>) -> TaskYielded {
        if let Some([word_0]) = fields.words(event) {
            return TaskYielded { task: word_0 };
        }
        TaskYielded { task: fields.u64(event, 0) }
    }
}
