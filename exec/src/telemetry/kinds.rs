//! The runtime's kinds of event.
//!
//! *Structural* events (tasks and streams, their beginning and end; workers; changes of mode) are always written when
//! there is a space; all other events are written in mode `full` only. A dispatch is recorded as one event,
//! whose time is the end of the dispatch.

use crate::procfs::{Doing, Source};
use crate::stop::Stop;
use thalweg_space::{Error, Kind, KindEnum, KindId, NameRef, SiteRef, Writer};

/// The worker number of a blocking task, which has a thread of its own.
pub(crate) const OWN_THREAD: u32 = u32::MAX;

/// The worker number of a task that the mapper has not placed yet.
pub(super) const NOT_PLACED: u32 = u32::MAX - 1;

/// The base number of an event that is no base of dispatches.
pub(super) const NO_BASE: u32 = u32::MAX;

/// Declares kinds of event: each struct in a call becomes a kind that has a number in [`Kinds`] and is
/// written by a `Recorder`.
macro_rules! kinds {
    ($($(#[$attribute:meta])* pub(crate) struct $kind:ident $fields:tt)*) => {
        $($(#[$attribute])* pub(crate) struct $kind $fields)*

        /// The numbers of the kinds as they were declared to one writer; each field has the name of the
        /// kind's type.
        #[allow(non_snake_case)]
        pub(crate) struct Kinds {
            $($kind: KindId<$kind>,)*
            pub(super) TaskFailed: KindId<TaskFailed<'static>>,
        }

        impl Kinds {
            pub(super) fn declare(writer: &mut Writer) -> Result<Kinds, Error> {
                Ok(Kinds { $($kind: writer.declare()?,)* TaskFailed: writer.declare()? })
            }
        }

        $(impl Event for $kind {
            #[inline(always)]
            fn id(kinds: &Kinds) -> KindId<$kind> {
                kinds.$kind
            }
        })*

        #[cfg(all(test, not(loom)))]
        fn descriptions() -> Vec<thalweg_space::kinds::Description> {
            use thalweg_space::kinds::Description;
            use super::rows::{SizesRow, StreamRow, TaskRow, WorkerRow};
            let rows = [Description::of_row::<TaskRow>(), Description::of_row::<StreamRow>(), Description::of_row::<SizesRow>(), Description::of_row::<WorkerRow>()];
            let kinds = [$(Description::of::<$kind>(),)* Description::of::<TaskFailed<'_>>()];
            kinds.into_iter().chain(rows).collect()
        }
    };
}

/// A kind that [`Kinds`] knows.
pub(crate) trait Event: Kind + Sized {
    /// The kind's number with this writer.
    fn id(kinds: &Kinds) -> KindId<Self>;
}

/// What made a task ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum Cause {
    /// The task is new.
    Created = 0,
    /// Messages arrived on a stream that the task reads.
    Input = 1,
    /// A stream that the task writes has room.
    Room = 2,
    /// The task's quantum was spent, the task was woken while it ran, or it moves to another worker.
    Yield = 3,
    /// A stream that the task reads ended, or the reader of a stream that the task writes left.
    End = 4,
    /// The cause is not known.
    Unrecorded = 5,
}

/// Why a dispatch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum Outcome {
    /// The task waits for messages.
    BlockedInput = 0,
    /// The task waits for room.
    BlockedOutput = 1,
    /// The task's quantum is spent, so it could go on.
    Yielded = 2,
    /// The task has ended.
    Ended = 3,
}

impl Outcome {
    #[inline]
    pub(super) fn of(stop: Stop) -> Outcome {
        match stop {
            Stop::InputEmpty => Outcome::BlockedInput,
            Stop::OutputFull => Outcome::BlockedOutput,
            Stop::QuantumSpent => Outcome::Yielded,
            Stop::Ended => Outcome::Ended,
        }
    }
}

/// A stream of a dispatch, by its place in the dispatch's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum Which {
    /// No stream, or several.
    None = 0,
    /// The stream that the dispatch's base (`exec.dispatch_base`) names as input.
    Input = 1,
    /// The stream that the dispatch's base (`exec.dispatch_base`) names as output.
    Output = 2,
    /// The stream that is named by the event `exec.dispatch_streams` just before the dispatch's event.
    Named = 3,
}

/// How messages that a dispatch wrote to the output stream of its base (`exec.dispatch_base`) descend from
/// messages that the same or an earlier dispatch read from the input stream of its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum Descent {
    /// The descent is not recorded in this event.
    Unrecorded = 0,
    /// The k-th message written descends from the k-th message of those read.
    EachFromNext = 1,
    /// All messages written descend from the same message.
    AllFromOne = 2,
}

kinds! {
    /// A worker's thread began to work.
    #[derive(Kind)]
    #[kind(name = "exec.worker_started")]
    pub(crate) struct WorkerStarted {
        /// The worker, counted from 0.
        pub(crate) worker: u32,
        /// The core that the worker's thread is bound to; -1: none.
        #[field(absent = -1)]
        pub(crate) core: i64,
        /// The NUMA node of the worker's core; -1: not known.
        #[field(absent = -1)]
        pub(crate) node: i64,
        /// The time that one reading of the clock takes on the worker's thread.
        #[field(unit = "ps", absent = 0)]
        pub(crate) clock_reading_ps: u64,
    }

    /// A worker was parked: it hands its tasks to other workers and sleeps.
    #[derive(Kind)]
    #[kind(name = "exec.worker_parked")]
    pub(crate) struct WorkerParked {
        /// The worker.
        pub(crate) worker: u32,
    }

    /// A parked worker dispatches tasks again.
    #[derive(Kind)]
    #[kind(name = "exec.worker_unparked")]
    pub(crate) struct WorkerUnparked {
        /// The worker.
        pub(crate) worker: u32,
    }

    /// A worker found no ready task.
    #[derive(Kind)]
    #[kind(name = "exec.worker_waiting")]
    pub(crate) struct WorkerWaiting {
        /// The worker.
        pub(crate) worker: u32,
    }

    /// A worker has a ready task again.
    #[derive(Kind)]
    #[kind(name = "exec.worker_resumed")]
    pub(crate) struct WorkerResumed {
        /// The worker.
        pub(crate) worker: u32,
    }

    /// A worker ended.
    #[derive(Kind)]
    #[kind(name = "exec.worker_ended")]
    pub(crate) struct WorkerEnded {
        /// The worker.
        pub(crate) worker: u32,
        /// The time in which the worker dispatched tasks, with the short gaps between dispatches.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) busy_ticks: u64,
        /// The time in which the worker had no ready task, without the time in which it was parked.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) waiting_ticks: u64,
        /// The measured time of the worker's own work between dispatches and waits, such as waking other
        /// workers or moving tasks.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) own_ticks: u64,
        /// The time in which the worker could have run but had no processor, if the worker noticed it at
        /// once; the busy time, the waiting time and the time of own work do not include this time.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) kept_ticks: u64,
    }

    /// A worker could have run but had no processor for this duration: in the dispatch or wait that ends with
    /// the next event, or in the worker's own work that ends with this event.
    #[derive(Kind)]
    #[kind(name = "exec.kept")]
    pub(crate) struct Kept {
        /// The worker.
        pub(crate) worker: u32,
        /// The task that was dispatched; 0: none.
        pub(crate) task: u64,
        /// The duration.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u64,
    }

    /// The processor time that a thread has used so far; recorded at intervals and when the thread ends
    /// (modes metrics and full).
    #[derive(Kind)]
    #[kind(name = "exec.thread_used")]
    pub(crate) struct ThreadUsed {
        /// The worker; 4294967295: a thread of a task's own.
        pub(crate) worker: u32,
        /// The task that has this thread of its own, or 0.
        pub(crate) task: u64,
        /// The time on a processor.
        #[field(unit = "ns")]
        pub(crate) cpu_ns: u64,
        /// The number of times that the kernel preempted the thread.
        #[field(unit = "times", absent = 0)]
        pub(crate) preempted: u64,
        /// The time in which the thread could have run but had no processor; 18446744073709551615: the kernel
        /// does not report it.
        #[field(unit = "ns", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) delayed_ns: u64,
        /// The time of a worker's own work so far, as in `exec.worker_ended`.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) own_ticks: u64,
        /// The time so far in which a worker could have run but had no processor, as in `exec.worker_ended`.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) kept_ticks: u64,
        /// The time that the thread ran in the kernel; 18446744073709551615: not measured.
        #[field(unit = "ns", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) kernel_ns: u64,
        /// The number of page faults of the thread.
        #[field(unit = "pages", absent = 0)]
        pub(crate) faults: u64,
    }

    /// What a thread did in a task since the last event of this kind about the thread and the task, as
    /// another thread sampled it at intervals (modes metrics and full).
    #[derive(Kind)]
    #[kind(name = "exec.thread_sampled")]
    pub(crate) struct ThreadSampled {
        /// The worker; 4294967295: a thread of a task's own.
        pub(crate) worker: u32,
        /// The task.
        pub(crate) task: u64,
        /// What the thread did.
        pub(crate) doing: Doing,
        /// The file of the kernel from which the sampler knows what the thread did.
        pub(crate) source: Source,
        /// The number of samples that found the thread doing this.
        #[field(unit = "times")]
        pub(crate) looks: u32,
        /// The time that the samples in this event represent: each sample represents the time since the
        /// previous sample.
        #[field(unit = "ticks")]
        pub(crate) interval_ticks: u64,
        /// The time for which the thread had a processor in the time that the samples in this event
        /// represent.
        #[field(unit = "ns")]
        pub(crate) cpu_ns: u64,
        /// The time for which the thread could have run but had no processor in the time that the samples in
        /// this event represent.
        #[field(unit = "ns")]
        pub(crate) delayed_ns: u64,
        /// The address of the lock, or the file descriptor, that the thread waits for; 0: not known.
        pub(crate) on: u64,
        /// The time for which samples have found the thread asleep in the same dispatch; 0: the last sample
        /// found it running, or there was none.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) asleep_ticks: u64,
        /// The task whose thread holds the lock, if the lock records its holder; else 0.
        #[field(absent = 0)]
        pub(crate) holder: u64,
    }

    /// The instructions at which a worker's thread ran in a task since the last event of this kind about the
    /// worker and the task, sampled by the kernel at intervals of the thread's processor time (modes metrics
    /// and full, if the kernel permits it).
    #[derive(Kind)]
    #[kind(name = "exec.instructions_sampled")]
    pub(crate) struct InstructionsSampled {
        /// The worker.
        pub(crate) worker: u32,
        /// The task.
        pub(crate) task: u64,
        /// The number of samples.
        #[field(unit = "times")]
        pub(crate) samples: u32,
        /// The number of samples in a loop that waits for another thread, such as the loop of a spin lock.
        #[field(unit = "times")]
        pub(crate) spinning: u32,
    }

    /// The processor time of a dispatch of a millisecond or more. This event precedes the event of the
    /// measured dispatch.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch_used")]
    pub(crate) struct DispatchUsed {
        /// The worker; 4294967295: a thread of the task's own.
        pub(crate) worker: u32,
        /// The task.
        pub(crate) task: u64,
        /// The duration of the dispatch, without the time in which its thread is known to have had no
        /// processor.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u64,
        /// The time of the dispatch in which its thread is known to have had no processor.
        #[field(unit = "ticks")]
        pub(crate) kept_ticks: u64,
        /// The time on a processor.
        #[field(unit = "ns")]
        pub(crate) cpu_ns: u64,
    }

    /// The time so far that the run and the whole machine have used on the processors that the run may use.
    #[derive(Kind)]
    #[kind(name = "exec.processors_used")]
    pub(crate) struct ProcessorsUsed {
        /// The number of processors that the run may use.
        pub(crate) processors: u32,
        /// The processor time of the run's threads.
        #[field(unit = "ns")]
        pub(crate) run_ns: u64,
        /// The processor time of all processes; 18446744073709551615: the kernel does not report it.
        #[field(unit = "ns", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) machine_ns: u64,
        /// The time for which the run's control group was throttled, because its processor time was used up.
        #[field(unit = "ns", absent = 0)]
        pub(crate) throttled_ns: u64,
        /// The time spent sampling threads.
        #[field(unit = "ns", absent = 0)]
        pub(crate) sampling_ns: u64,
        /// The number of times that threads were sampled.
        #[field(unit = "times", absent = 0)]
        pub(crate) looks: u64,
        /// The processor time of the programs that the run started, such as those of boxes that are programs,
        /// and of what these started.
        #[field(unit = "ns", absent = 0)]
        pub(crate) programs_ns: u64,
    }

    /// A task was created, with a stream that it reads and one that it writes, if it has them. The streams in
    /// this event get no `exec.stream_opened`; the task's other streams do. This event may also be the base
    /// of dispatches, like an `exec.dispatch_base` with no message read or written yet.
    #[derive(Kind)]
    #[kind(name = "exec.task_created")]
    pub(crate) struct TaskCreated {
        /// The task.
        pub(crate) task: u64,
        /// The component of the network that the task belongs to.
        pub(crate) component: SiteRef,
        /// The task that created this task by unfolding the network, or 0.
        #[field(absent = 0)]
        pub(crate) parent: u64,
        /// The number of the component's replica that the task belongs to.
        #[field(absent = 0)]
        pub(crate) replica: u64,
        /// Whether the k-th message that the task writes descends from the k-th message that it reads.
        #[field(absent = 0)]
        pub(crate) one_to_one: bool,
        /// Whether the task has a thread of its own.
        #[field(absent = 0)]
        pub(crate) blocking: bool,
        /// The capacity of each of the two streams in this event.
        #[field(unit = "messages", absent = 0)]
        pub(crate) capacity: u16,
        /// The task's worker; 4294967295: a thread of its own; 4294967294: given by `exec.task_mapped`.
        #[field(absent = 0xffff_fffe)]
        pub(crate) worker: u32,
        /// A stream that the task reads, or 0.
        #[field(absent = 0)]
        pub(crate) input: u64,
        /// A stream that the task writes and that no task reads yet, or 0.
        #[field(absent = 0)]
        pub(crate) output: u64,
        /// This task's id less the id of the task that writes the input; 0: no task writes the input yet.
        #[field(absent = 0)]
        pub(crate) writer_before: u32,
        /// The number by which dispatches name this event as their base; 4294967295: this event is not a
        /// base.
        #[field(absent = 0xffff_ffff)]
        pub(crate) base_number: u32,
    }

    /// The mapper placed a task.
    #[derive(Kind)]
    #[kind(name = "exec.task_mapped")]
    pub(crate) struct TaskMapped {
        /// The task.
        pub(crate) task: u64,
        /// The task's worker; 4294967295: a thread of its own.
        pub(crate) worker: u32,
    }

    /// A task moved to another worker and is ready there.
    #[derive(Kind)]
    #[kind(name = "exec.task_moved")]
    pub(crate) struct TaskMoved {
        /// The task.
        pub(crate) task: u64,
        /// The task's previous worker.
        #[field(absent = 0xffff_ffff)]
        pub(crate) from: u32,
        /// The task's new worker.
        pub(crate) worker: u32,
    }

    /// A base: the fields that a task's later dispatches in the same block of the element share, so that each
    /// dispatch continues where the previous one ended. Base numbers start at 0 in each block.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch_base")]
    pub(crate) struct DispatchBase {
        /// The number by which dispatches name this base.
        pub(crate) number: u32,
        /// The worker; 4294967295: a thread of the task's own.
        pub(crate) worker: u32,
        /// The task.
        pub(crate) task: u64,
        /// A stream that the task reads, or 0.
        pub(crate) input: u64,
        /// The index of the next message that the task reads from the input, counted from 0.
        pub(crate) first_read: u64,
        /// A stream that the task writes, or 0.
        pub(crate) output: u64,
        /// The index of the next message that the task writes to the output.
        pub(crate) first_written: u64,
    }

    /// A dispatch ended (at this event's time). The events `exec.stream_read`, `exec.stream_wrote` and
    /// `exec.derived` just before this event record the messages of streams that the dispatch's base does not
    /// name, and any lineage that the fields of this event do not record.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch")]
    pub(crate) struct Dispatch {
        /// The duration of the dispatch.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u32,
        /// The time for which the task had been ready when the dispatch began.
        #[field(unit = "ticks")]
        pub(crate) ready_ticks: u32,
        /// The number of the dispatch's base, see `exec.dispatch_base`.
        pub(crate) base_number: u32,
        /// Messages read from the stream that the dispatch's base (`exec.dispatch_base`) names as input.
        #[field(unit = "messages")]
        pub(crate) reads: u16,
        /// Messages written to the stream that the dispatch's base (`exec.dispatch_base`) names as output.
        #[field(unit = "messages")]
        pub(crate) writes: u16,
        /// Why the dispatch ended.
        pub(crate) outcome: Outcome,
        /// The stream that the task has waited for since the dispatch ended.
        pub(crate) waits_for: Which,
        /// The cause that had made the task ready.
        pub(crate) cause: Cause,
        /// The stream that had made the task ready.
        pub(crate) ready_by: Which,
        /// How the written messages descend from messages read.
        pub(crate) descent: Descent,
        /// The index of the message that the first written message descends from, less the index of the first
        /// message read.
        pub(crate) parent_offset: i16,
    }

    /// A dispatch whose numbers are too large for `exec.dispatch`.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch_long")]
    pub(crate) struct DispatchLong {
        /// The duration of the dispatch.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u64,
        /// The time for which the task had been ready when the dispatch began.
        #[field(unit = "ticks")]
        pub(crate) ready_ticks: u64,
        /// The number of the dispatch's base, see `exec.dispatch_base`.
        pub(crate) base_number: u32,
        /// Messages read from the stream that the dispatch's base (`exec.dispatch_base`) names as input.
        #[field(unit = "messages")]
        pub(crate) reads: u32,
        /// Messages written to the stream that the dispatch's base (`exec.dispatch_base`) names as output.
        #[field(unit = "messages")]
        pub(crate) writes: u32,
        /// Why the dispatch ended.
        pub(crate) outcome: Outcome,
        /// The stream that the task has waited for since the dispatch ended.
        pub(crate) waits_for: Which,
        /// The cause that had made the task ready.
        pub(crate) cause: Cause,
        /// The stream that had made the task ready.
        pub(crate) ready_by: Which,
        /// How the written messages descend from messages read.
        pub(crate) descent: Descent,
        /// The index of the message that the first written message descends from, less the index of the first
        /// message read.
        pub(crate) parent_offset: i64,
    }

    /// Streams of the next dispatch that its base (`exec.dispatch_base`) does not name.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch_streams")]
    pub(crate) struct DispatchStreams {
        /// The stream that the task has waited for since the dispatch ended, or 0.
        pub(crate) waits_for: u64,
        /// The stream that had made the task ready, or 0.
        pub(crate) ready_by: u64,
    }

    /// A task finished processing a message (at this event's time). Recorded only if processing a message
    /// takes long compared with recording it: see `exec.clock_budget`.
    #[derive(Kind)]
    #[kind(name = "exec.message_worked")]
    pub(crate) struct MessageWorked {
        /// The task.
        pub(crate) task: u64,
        /// The message's index in the stream that the task reads.
        #[field(absent = 0)]
        pub(crate) index: u64,
        /// The duration.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u64,
    }

    /// Messages that the next dispatch read from a stream that its base (`exec.dispatch_base`) does not name.
    #[derive(Kind)]
    #[kind(name = "exec.stream_read")]
    pub(crate) struct StreamRead {
        /// The stream.
        pub(crate) stream: u64,
        /// The index of the first message, counted from 0.
        pub(crate) first: u64,
        /// The number of messages.
        #[field(unit = "messages")]
        pub(crate) count: u32,
    }

    /// Messages that the next dispatch wrote to a stream that its base (`exec.dispatch_base`) does not name.
    #[derive(Kind)]
    #[kind(name = "exec.stream_wrote")]
    pub(crate) struct StreamWrote {
        /// The stream.
        pub(crate) stream: u64,
        /// The index of the first message, counted from 0.
        pub(crate) first: u64,
        /// The number of messages.
        #[field(unit = "messages")]
        pub(crate) count: u32,
        /// How the messages descend from messages that this or an earlier dispatch of the task read from the
        /// stream that its base (`exec.dispatch_base`) names as input.
        #[field(absent = 0)]
        pub(crate) descent: Descent,
        /// The index of the message that the first message descends from, less the index of the first message
        /// that the dispatch read from the input stream of its base.
        #[field(absent = 0)]
        pub(crate) parent_offset: i16,
    }

    /// Lineage: message `first + k` of `stream` descends from message `parent_first + k * step` of `parent_stream`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Kind)]
    #[kind(name = "exec.derived")]
    pub(crate) struct Derived {
        /// The stream written.
        pub(crate) stream: u64,
        /// The index of the first message written.
        pub(crate) first: u64,
        /// The stream read.
        pub(crate) parent_stream: u64,
        /// The index of the message that the first message written descends from.
        pub(crate) parent_first: u64,
        /// The number of messages of `stream`.
        #[field(unit = "messages")]
        pub(crate) count: u32,
        /// 0: all messages descend from the same message; 1: the k-th message descends from the k-th of as
        /// many parent messages.
        pub(crate) step: u32,
    }

    /// A wait that never ends, because the run is deadlocked. Before the run ends, an event is recorded for
    /// each wait that never ends, up to 1,000.
    #[derive(Kind)]
    #[kind(name = "exec.deadlocked")]
    pub(crate) struct Deadlocked {
        /// The task that waits.
        pub(crate) task: u64,
        /// The stream that the task waits for, maybe one of several.
        pub(crate) stream: u64,
        /// The task at the stream's other end.
        pub(crate) peer: u64,
        /// 1: the task waits for room; 0: the task waits for a message.
        pub(crate) for_room: u8,
    }

    /// A task ended. The busy time, the two waiting times and the ready time add up to the measured part of
    /// the task's life (modes metrics and full).
    #[derive(Kind)]
    #[kind(name = "exec.task_ended")]
    pub(crate) struct TaskEnded {
        /// The task.
        pub(crate) task: u64,
        /// The time for which the task ran.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) busy_ticks: u64,
        /// The time for which the task waited for messages.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) input_wait_ticks: u64,
        /// The time for which the task waited for room in a stream.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) output_wait_ticks: u64,
        /// The time for which the task was ready but did not run.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) ready_ticks: u64,
        /// The number of the task's dispatches.
        #[field(unit = "dispatches", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) dispatches: u64,
        /// The number of messages that the task read.
        #[field(unit = "messages", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) reads: u64,
        /// The number of messages that the task wrote.
        #[field(unit = "messages", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) writes: u64,
        /// Whether the task failed.
        #[field(absent = 0)]
        pub(crate) failed: bool,
        /// Whether the task panicked.
        #[field(absent = 0)]
        pub(crate) panicked: bool,
    }

    /// A task ended without an error, and up to two streams closed with all their messages read. This event
    /// replaces `exec.task_ended` and `exec.stream_closed` if all counts fit into it.
    #[derive(Kind)]
    #[kind(name = "exec.brief_task_ended")]
    pub(crate) struct BriefTaskEnded {
        /// The task.
        pub(crate) task: u64,
        /// The time for which the task ran.
        #[field(unit = "ticks")]
        pub(crate) busy_ticks: u32,
        /// The time for which the task waited for messages.
        #[field(unit = "ticks")]
        pub(crate) input_wait_ticks: u32,
        /// The time for which the task waited for room in a stream.
        #[field(unit = "ticks")]
        pub(crate) output_wait_ticks: u32,
        /// The time for which the task was ready but did not run.
        #[field(unit = "ticks")]
        pub(crate) ready_ticks: u32,
        /// The number of the task's dispatches.
        #[field(unit = "dispatches")]
        pub(crate) dispatches: u16,
        /// The number of messages that the task read.
        #[field(unit = "messages")]
        pub(crate) reads: u16,
        /// The number of messages that the task wrote.
        #[field(unit = "messages")]
        pub(crate) writes: u16,
        /// The number of messages that passed the first stream.
        #[field(unit = "messages")]
        pub(crate) passed: u16,
        /// The first stream that closed, or 0.
        pub(crate) stream: u64,
        /// The id of the second stream less the id of the first; 0: there is no second stream.
        pub(crate) other: i32,
        /// The number of messages that passed the second stream.
        #[field(unit = "messages")]
        pub(crate) other_passed: u16,
    }

    /// A task was attached to an end of a stream, or, if neither task is named, the stream's capacity
    /// changed.
    #[derive(Kind)]
    #[kind(name = "exec.stream_opened")]
    pub(crate) struct StreamOpened {
        /// The stream.
        pub(crate) stream: u64,
        /// The stream's name, if it has one.
        #[field(absent = 0)]
        pub(crate) name: NameRef,
        /// The task that reads the stream, or 0.
        #[field(absent = 0)]
        pub(crate) reader: u64,
        /// The task that writes the stream, or 0.
        #[field(absent = 0)]
        pub(crate) writer: u64,
        /// The stream's capacity.
        #[field(unit = "messages", absent = 0)]
        pub(crate) capacity: u64,
    }

    /// Both ends of a stream are closed. Written = read + dropped.
    #[derive(Kind)]
    #[kind(name = "exec.stream_closed")]
    pub(crate) struct StreamClosed {
        /// The stream.
        pub(crate) stream: u64,
        /// The number of messages written to the stream.
        #[field(unit = "messages")]
        pub(crate) written: u64,
        /// The number of messages read from the stream.
        #[field(unit = "messages")]
        pub(crate) read: u64,
        /// Messages that no task read, because the reader had left.
        #[field(unit = "messages", absent = 0)]
        pub(crate) dropped: u64,
    }

    /// The measured sizes of a stream's messages; recorded when both ends of the stream are closed, before
    /// `exec.stream_closed`.
    #[derive(Kind)]
    #[kind(name = "exec.stream_sizes")]
    pub(crate) struct StreamSizes {
        /// The stream.
        pub(crate) stream: u64,
        /// The number of messages that the sizes represent: all up to the last one whose size was measured.
        #[field(unit = "messages")]
        pub(crate) messages: u64,
        /// The total size of the messages that the sizes represent.
        #[field(unit = "B")]
        pub(crate) bytes: u64,
        /// The smallest size measured.
        #[field(unit = "B")]
        pub(crate) least: u64,
        /// The largest size measured.
        #[field(unit = "B")]
        pub(crate) most: u64,
        /// The bounds of the buckets of `exec.stream_size_counts`, coded as in the live row
        /// `exec.message_sizes`.
        pub(crate) scale: u64,
    }

    /// The histogram of a stream's message sizes; `exec.stream_sizes`, the next event, has the bounds of its
    /// buckets.
    #[derive(Kind)]
    #[kind(name = "exec.stream_size_counts")]
    pub(crate) struct StreamSizeCounts {
        /// The stream.
        pub(crate) stream: u64,
        /// Buckets 0 to 3 of 28, 16 bits each from the lowest bit on.
        pub(crate) counts_0: u64,
        /// Buckets 4 to 7.
        pub(crate) counts_1: u64,
        /// Buckets 8 to 11.
        pub(crate) counts_2: u64,
        /// Buckets 12 to 15.
        pub(crate) counts_3: u64,
        /// Buckets 16 to 19.
        pub(crate) counts_4: u64,
        /// Buckets 20 to 23.
        pub(crate) counts_5: u64,
        /// Buckets 24 to 27.
        pub(crate) counts_6: u64,
    }

    /// The new mode of observation: recorded when the run begins, and at each change.
    #[derive(Kind)]
    #[kind(name = "exec.mode_changed")]
    pub(crate) struct ModeChanged {
        /// 0 off, 1 metrics, 2 full.
        pub(crate) mode: u8,
    }

    /// The runtime adopted a setting's new value.
    #[derive(Kind)]
    #[kind(name = "exec.setting_adopted")]
    pub(crate) struct SettingAdopted {
        /// The setting.
        pub(crate) name: NameRef,
        /// The previous value.
        pub(crate) old: u64,
        /// The new value.
        pub(crate) new: u64,
    }
}

/// Why a task failed.
#[derive(Kind)]
#[kind(name = "exec.task_failed")]
pub(crate) struct TaskFailed<'a> {
    /// The task.
    pub(crate) task: u64,
    /// The message of the task's error.
    pub(crate) message: &'a str,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_committed_descriptions_are_what_the_kinds_say() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../kinds/exec.kinds");
        let committed = thalweg_space::kinds::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        let by_name = |kinds: Vec<thalweg_space::kinds::Description>| {
            kinds.into_iter().map(|kind| (kind.name.clone(), kind)).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(by_name(committed), by_name(descriptions()), "run `cargo xtask kinds`");
    }
}
