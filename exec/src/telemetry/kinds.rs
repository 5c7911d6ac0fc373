//! The runtime's kinds of event.
//!
//! *Structural* events (tasks and streams, their beginning and end; workers; changes of mode) are always written when
//! there is a space; the others in mode `full` only. A dispatch is one event, at the time of its end.

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

        /// The kinds as declared to one writer, each under the name of its type.
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
    /// A stream that the task reads ended, or the reader of one that it writes left.
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
    /// The base's input.
    Input = 1,
    /// The base's output.
    Output = 2,
    /// The one that the event `exec.dispatch_streams` just before names.
    Named = 3,
}

/// How the messages that a dispatch wrote to its base's output descend from messages that this or a former
/// dispatch read from its base's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum Descent {
    /// The descent is not recorded in this event.
    Unrecorded = 0,
    /// Each message descends from the next one read.
    EachFromNext = 1,
    /// All messages descend from the same one.
    AllFromOne = 2,
}

kinds! {
    /// A worker's thread began to work.
    #[derive(Kind)]
    #[kind(name = "exec.worker_started")]
    pub(crate) struct WorkerStarted {
        /// The worker, counted from 0.
        pub(crate) worker: u32,
        /// The core it is bound to; -1: none.
        #[field(absent = -1)]
        pub(crate) core: i64,
        /// The NUMA node of that core; -1: not known.
        #[field(absent = -1)]
        pub(crate) node: i64,
        /// What a reading of the clock takes on its thread.
        #[field(unit = "ps", absent = 0)]
        pub(crate) clock_reading_ps: u64,
    }

    /// A worker takes no part from now on: it gives its tasks away and sleeps.
    #[derive(Kind)]
    #[kind(name = "exec.worker_parked")]
    pub(crate) struct WorkerParked {
        /// The worker.
        pub(crate) worker: u32,
    }

    /// A worker takes part again.
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
        /// Time it dispatched tasks, the little between them included.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) busy_ticks: u64,
        /// Time it had no ready task, but took part.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) waiting_ticks: u64,
        /// Time between dispatches and waits that it measured: it woke others, moved tasks.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) own_ticks: u64,
        /// Time it could have run and had no processor, as far as it was noticed at once: part of none of the others.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) kept_ticks: u64,
    }

    /// For so long a worker could have run and had no processor: in the dispatch, or the wait, that ends with the next event; or in its
    /// own work that ends with this one.
    #[derive(Kind)]
    #[kind(name = "exec.kept")]
    pub(crate) struct Kept {
        /// The worker.
        pub(crate) worker: u32,
        /// The task that was dispatched; 0: none.
        pub(crate) task: u64,
        /// For how long.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u64,
    }

    /// What a thread used of its processor so far; recorded at intervals and at its end (modes metrics and full).
    #[derive(Kind)]
    #[kind(name = "exec.thread_used")]
    pub(crate) struct ThreadUsed {
        /// The worker; 4294967295: a thread of a task's own.
        pub(crate) worker: u32,
        /// That task, or 0.
        pub(crate) task: u64,
        /// Time it had a processor.
        #[field(unit = "ns")]
        pub(crate) cpu_ns: u64,
        /// How often it was put off its processor for another thread.
        #[field(unit = "times", absent = 0)]
        pub(crate) preempted: u64,
        /// Time it could have run and had no processor; 18446744073709551615 where the kernel does not report it.
        #[field(unit = "ns", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) delayed_ns: u64,
        /// Of a worker: its own work so far, see `exec.worker_ended`.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) own_ticks: u64,
        /// Of a worker: for how long it was kept from its processor so far, see `exec.worker_ended`.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) kept_ticks: u64,
        /// Time it had a processor and was in the kernel; 18446744073709551615: not measured.
        #[field(unit = "ns", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) kernel_ns: u64,
        /// Pages of memory that it touched and that were not there yet.
        #[field(unit = "pages", absent = 0)]
        pub(crate) faults: u64,
    }

    /// What a thread did in a task, as it was seen from outside, at intervals, since the last such event (modes metrics and full).
    #[derive(Kind)]
    #[kind(name = "exec.thread_sampled")]
    pub(crate) struct ThreadSampled {
        /// The worker; 4294967295: a thread of a task's own.
        pub(crate) worker: u32,
        /// The task.
        pub(crate) task: u64,
        /// What the thread did.
        pub(crate) doing: Doing,
        /// By what that is known.
        pub(crate) source: Source,
        /// How often it was seen to do that.
        #[field(unit = "times")]
        pub(crate) looks: u32,
        /// How much time these looks stand for: each for that since the one before.
        #[field(unit = "ticks")]
        pub(crate) interval_ticks: u64,
        /// For how long the thread had a processor in that time.
        #[field(unit = "ns")]
        pub(crate) cpu_ns: u64,
        /// For how long it could have run in that time, and had no processor.
        #[field(unit = "ns")]
        pub(crate) delayed_ns: u64,
        /// The address of the lock that it sleeps for, or the file descriptor; 0: not known.
        pub(crate) on: u64,
        /// For how long it has been seen asleep in the same dispatch; 0: it ran last, or was not seen before.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) asleep_ticks: u64,
        /// The task whose thread holds the lock, if the lock says so; else 0.
        #[field(absent = 0)]
        pub(crate) holder: u64,
    }

    /// What a dispatch of a millisecond or more used of its processor. In time it stands before that dispatch's event.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch_used")]
    pub(crate) struct DispatchUsed {
        /// The worker; 4294967295: a thread of the task's own.
        pub(crate) worker: u32,
        /// The task.
        pub(crate) task: u64,
        /// How long it lasted, without the time that its thread is known to have had no processor.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u64,
        /// That time.
        #[field(unit = "ticks")]
        pub(crate) kept_ticks: u64,
        /// Time it had a processor.
        #[field(unit = "ns")]
        pub(crate) cpu_ns: u64,
    }

    /// What the run and the machine used of the processors that the run may use, so far.
    #[derive(Kind)]
    #[kind(name = "exec.processors_used")]
    pub(crate) struct ProcessorsUsed {
        /// How many processors it may use.
        pub(crate) processors: u32,
        /// Time that threads of the run had one.
        #[field(unit = "ns")]
        pub(crate) run_ns: u64,
        /// Time that any process had one; 18446744073709551615 where the kernel does not report it.
        #[field(unit = "ns", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) machine_ns: u64,
        /// Time for which the run's group had spent the processor time that it is allowed.
        #[field(unit = "ns", absent = 0)]
        pub(crate) throttled_ns: u64,
        /// Time that looking at threads took.
        #[field(unit = "ns", absent = 0)]
        pub(crate) sampling_ns: u64,
        /// How often threads were looked at.
        #[field(unit = "times", absent = 0)]
        pub(crate) looks: u64,
    }

    /// A task was created, with a stream that it reads and one that it writes, if it has them; it stands for their `exec.stream_opened`, which records the
    /// others. It may be the base of dispatches, too: as by `exec.dispatch_base`, where no message was read or written yet.
    #[derive(Kind)]
    #[kind(name = "exec.task_created")]
    pub(crate) struct TaskCreated {
        /// The task.
        pub(crate) task: u64,
        /// The component of the network it belongs to.
        pub(crate) component: SiteRef,
        /// The task that unfolded it, or 0.
        #[field(absent = 0)]
        pub(crate) parent: u64,
        /// Which of the component's replicas it is.
        #[field(absent = 0)]
        pub(crate) replica: u64,
        /// Whether its k-th message written descends from the k-th read.
        #[field(absent = 0)]
        pub(crate) one_to_one: bool,
        /// Whether it has a thread of its own.
        #[field(absent = 0)]
        pub(crate) blocking: bool,
        /// How many messages each of these streams holds.
        #[field(unit = "messages", absent = 0)]
        pub(crate) capacity: u16,
        /// Its worker; 4294967295: a thread of its own; 4294967294: given by `exec.task_mapped`.
        #[field(absent = 0xffff_fffe)]
        pub(crate) worker: u32,
        /// A stream that it reads, or 0.
        #[field(absent = 0)]
        pub(crate) input: u64,
        /// A stream that it writes and no task reads yet, or 0.
        #[field(absent = 0)]
        pub(crate) output: u64,
        /// The task that writes the input has a number that is less by this; 0: no task writes it yet.
        #[field(absent = 0)]
        pub(crate) writer_before: u32,
        /// The number by which dispatches name it as their base; 4294967295: it is none.
        #[field(absent = 0xffff_ffff)]
        pub(crate) base_number: u32,
    }

    /// The mapper placed a task.
    #[derive(Kind)]
    #[kind(name = "exec.task_mapped")]
    pub(crate) struct TaskMapped {
        /// The task.
        pub(crate) task: u64,
        /// Its worker; 4294967295: a thread of its own.
        pub(crate) worker: u32,
    }

    /// A task moves to another worker, where it is ready.
    #[derive(Kind)]
    #[kind(name = "exec.task_moved")]
    pub(crate) struct TaskMoved {
        /// The task.
        pub(crate) task: u64,
        /// Its worker until now.
        #[field(absent = 0xffff_ffff)]
        pub(crate) from: u32,
        /// Its worker from now on.
        pub(crate) worker: u32,
    }

    /// What the dispatches of a task that follow in the same block of the element have in common; each continues where the one before ended.
    /// A number of this kind counts from 0 in each block.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch_base")]
    pub(crate) struct DispatchBase {
        /// The number by which dispatches name it.
        pub(crate) number: u32,
        /// The worker; 4294967295: a thread of the task's own.
        pub(crate) worker: u32,
        /// The task.
        pub(crate) task: u64,
        /// A stream that it reads, or 0.
        pub(crate) input: u64,
        /// Index of the next message that it reads there, counted from 0.
        pub(crate) first_read: u64,
        /// A stream that it writes, or 0.
        pub(crate) output: u64,
        /// Index of the next message that it writes there.
        pub(crate) first_written: u64,
    }

    /// A dispatch ended (at this event's time). What it read and wrote besides the streams of its base, and what descends from what that
    /// these do not say, are the events `exec.stream_read`, `exec.stream_wrote` and `exec.derived` just before.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch")]
    pub(crate) struct Dispatch {
        /// How long it lasted.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u32,
        /// How long the task had been ready when it began.
        #[field(unit = "ticks")]
        pub(crate) ready_ticks: u32,
        /// The number of its base, see `exec.dispatch_base`.
        pub(crate) base_number: u32,
        /// Messages read from the base's input.
        #[field(unit = "messages")]
        pub(crate) reads: u16,
        /// Messages written to the base's output.
        #[field(unit = "messages")]
        pub(crate) writes: u16,
        /// Why it ended.
        pub(crate) outcome: Outcome,
        /// The stream that it waits for since.
        pub(crate) waits_for: Which,
        /// What had made the task ready.
        pub(crate) cause: Cause,
        /// The stream that had made it ready.
        pub(crate) ready_by: Which,
        /// What the messages written descend from.
        pub(crate) descent: Descent,
        /// Index of the message that the first one written descends from, less that of the first one read.
        pub(crate) parent_offset: i16,
    }

    /// A dispatch whose numbers are too large for `exec.dispatch`.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch_long")]
    pub(crate) struct DispatchLong {
        /// How long it lasted.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u64,
        /// How long the task had been ready when it began.
        #[field(unit = "ticks")]
        pub(crate) ready_ticks: u64,
        /// The number of its base, see `exec.dispatch_base`.
        pub(crate) base_number: u32,
        /// Messages read from the base's input.
        #[field(unit = "messages")]
        pub(crate) reads: u32,
        /// Messages written to the base's output.
        #[field(unit = "messages")]
        pub(crate) writes: u32,
        /// Why it ended.
        pub(crate) outcome: Outcome,
        /// The stream that it waits for since.
        pub(crate) waits_for: Which,
        /// What had made the task ready.
        pub(crate) cause: Cause,
        /// The stream that had made it ready.
        pub(crate) ready_by: Which,
        /// What the messages written descend from.
        pub(crate) descent: Descent,
        /// Index of the message that the first one written descends from, less that of the first one read.
        pub(crate) parent_offset: i64,
    }

    /// Streams of the dispatch that comes next and that are neither its base's input nor its output.
    #[derive(Kind)]
    #[kind(name = "exec.dispatch_streams")]
    pub(crate) struct DispatchStreams {
        /// The stream that the task waits for since, or 0.
        pub(crate) waits_for: u64,
        /// The stream that had made it ready, or 0.
        pub(crate) ready_by: u64,
    }

    /// A message was worked on, until now. Recorded where messages take long against recording it: see `exec.clock_budget`.
    #[derive(Kind)]
    #[kind(name = "exec.message_worked")]
    pub(crate) struct MessageWorked {
        /// The task.
        pub(crate) task: u64,
        /// The message's index in the stream that the task reads.
        #[field(absent = 0)]
        pub(crate) index: u64,
        /// For how long.
        #[field(unit = "ticks")]
        pub(crate) duration_ticks: u64,
    }

    /// Messages read in the dispatch that comes next, from a stream that is not its base's input.
    #[derive(Kind)]
    #[kind(name = "exec.stream_read")]
    pub(crate) struct StreamRead {
        /// The stream.
        pub(crate) stream: u64,
        /// Index of the first message, counted from 0.
        pub(crate) first: u64,
        /// How many.
        #[field(unit = "messages")]
        pub(crate) count: u32,
    }

    /// Messages written in the dispatch that comes next, to a stream that is not its base's output.
    #[derive(Kind)]
    #[kind(name = "exec.stream_wrote")]
    pub(crate) struct StreamWrote {
        /// The stream.
        pub(crate) stream: u64,
        /// Index of the first message, counted from 0.
        pub(crate) first: u64,
        /// How many.
        #[field(unit = "messages")]
        pub(crate) count: u32,
        /// What they descend from: of messages that the dispatch read, or had read, from its base's input.
        #[field(absent = 0)]
        pub(crate) descent: Descent,
        /// Index of the message that the first one descends from, less that of the first one read from that input.
        #[field(absent = 0)]
        pub(crate) parent_offset: i16,
    }

    /// Lineage: message `first + k` of `stream` descends from message `parent_first + k * step` of `parent_stream`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Kind)]
    #[kind(name = "exec.derived")]
    pub(crate) struct Derived {
        /// The stream written.
        pub(crate) stream: u64,
        /// Index of its first message.
        pub(crate) first: u64,
        /// The stream read.
        pub(crate) parent_stream: u64,
        /// Index of the message that the first descends from.
        pub(crate) parent_first: u64,
        /// How many messages of `stream`.
        #[field(unit = "messages")]
        pub(crate) count: u32,
        /// 0: all from the same message; 1: each from the next.
        pub(crate) step: u32,
    }

    /// A deadlock was found: this is one of the waits that never end. Recorded once for each, up to 1,000, before the run ends.
    #[derive(Kind)]
    #[kind(name = "exec.deadlocked")]
    pub(crate) struct Deadlocked {
        /// The task that waits.
        pub(crate) task: u64,
        /// The stream that it waits for, maybe one of several.
        pub(crate) stream: u64,
        /// The task at the stream's other end.
        pub(crate) peer: u64,
        /// 1: it waits for room; 0: for a message.
        pub(crate) for_room: u8,
    }

    /// A task ended. The four times add up to its life, as far as it was measured (modes metrics and full).
    #[derive(Kind)]
    #[kind(name = "exec.task_ended")]
    pub(crate) struct TaskEnded {
        /// The task.
        pub(crate) task: u64,
        /// Time it ran.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) busy_ticks: u64,
        /// Time it waited for messages.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) input_wait_ticks: u64,
        /// Time it waited for room.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) output_wait_ticks: u64,
        /// Time it was ready and did not run.
        #[field(unit = "ticks", absent = 0)]
        pub(crate) ready_ticks: u64,
        /// How often it was dispatched.
        #[field(unit = "dispatches", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) dispatches: u64,
        /// Messages it read.
        #[field(unit = "messages", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) reads: u64,
        /// Messages it wrote.
        #[field(unit = "messages", absent = 0xffff_ffff_ffff_ffff)]
        pub(crate) writes: u64,
        /// Whether it ended badly.
        #[field(absent = 0)]
        pub(crate) failed: bool,
        /// Whether it panicked.
        #[field(absent = 0)]
        pub(crate) panicked: bool,
    }

    /// A task ended without an error, and with it up to two streams all of whose messages were read; its counts fit into this event. It stands for `exec.task_ended` and
    /// `exec.stream_closed`.
    #[derive(Kind)]
    #[kind(name = "exec.brief_task_ended")]
    pub(crate) struct BriefTaskEnded {
        /// The task.
        pub(crate) task: u64,
        /// Time it ran.
        #[field(unit = "ticks")]
        pub(crate) busy_ticks: u32,
        /// Time it waited for messages.
        #[field(unit = "ticks")]
        pub(crate) input_wait_ticks: u32,
        /// Time it waited for room.
        #[field(unit = "ticks")]
        pub(crate) output_wait_ticks: u32,
        /// Time it was ready and did not run.
        #[field(unit = "ticks")]
        pub(crate) ready_ticks: u32,
        /// How often it was dispatched.
        #[field(unit = "dispatches")]
        pub(crate) dispatches: u16,
        /// Messages it read.
        #[field(unit = "messages")]
        pub(crate) reads: u16,
        /// Messages it wrote.
        #[field(unit = "messages")]
        pub(crate) writes: u16,
        /// Messages that passed the stream.
        #[field(unit = "messages")]
        pub(crate) passed: u16,
        /// A stream that closed, or 0.
        pub(crate) stream: u64,
        /// Another one has a number that is greater by this; 0: there is none.
        pub(crate) other: i32,
        /// Messages that passed the other one.
        #[field(unit = "messages")]
        pub(crate) other_passed: u16,
    }

    /// A stream has an end attached to a task, for the first time or anew; or, where neither task is named, it holds another number
    /// of messages from now on.
    #[derive(Kind)]
    #[kind(name = "exec.stream_opened")]
    pub(crate) struct StreamOpened {
        /// The stream.
        pub(crate) stream: u64,
        /// Its name, if it has one.
        #[field(absent = 0)]
        pub(crate) name: NameRef,
        /// The task that reads it, or 0.
        #[field(absent = 0)]
        pub(crate) reader: u64,
        /// The task that writes it, or 0.
        #[field(absent = 0)]
        pub(crate) writer: u64,
        /// How many messages it holds.
        #[field(unit = "messages", absent = 0)]
        pub(crate) capacity: u64,
    }

    /// Both ends of a stream are gone. Written = read + dropped.
    #[derive(Kind)]
    #[kind(name = "exec.stream_closed")]
    pub(crate) struct StreamClosed {
        /// The stream.
        pub(crate) stream: u64,
        /// Messages written to it.
        #[field(unit = "messages")]
        pub(crate) written: u64,
        /// Messages read from it.
        #[field(unit = "messages")]
        pub(crate) read: u64,
        /// Messages that no task read, because the reader had left.
        #[field(unit = "messages", absent = 0)]
        pub(crate) dropped: u64,
    }

    /// The sizes of a stream's messages, as far as they were taken; recorded when both its ends are gone, before `exec.stream_closed`.
    #[derive(Kind)]
    #[kind(name = "exec.stream_sizes")]
    pub(crate) struct StreamSizes {
        /// The stream.
        pub(crate) stream: u64,
        /// Messages that the sizes stand for: those up to the last one whose size was taken.
        #[field(unit = "messages")]
        pub(crate) messages: u64,
        /// How large those are together.
        #[field(unit = "B")]
        pub(crate) bytes: u64,
        /// The least size taken.
        #[field(unit = "B")]
        pub(crate) least: u64,
        /// The largest size taken.
        #[field(unit = "B")]
        pub(crate) most: u64,
        /// How the buckets of `exec.stream_size_counts` lie: as in the live row `exec.message_sizes`.
        pub(crate) scale: u64,
    }

    /// How many messages had which size: the buckets that `exec.stream_sizes`, which comes next, speaks of.
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

    /// The mode from now on: recorded when the run begins, and at each change.
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
        /// The value until now.
        pub(crate) old: u64,
        /// The value from now on.
        pub(crate) new: u64,
    }
}

/// Why a task failed.
#[derive(Kind)]
#[kind(name = "exec.task_failed")]
pub(crate) struct TaskFailed<'a> {
    /// The task.
    pub(crate) task: u64,
    /// What it said.
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
