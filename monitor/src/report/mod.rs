//! The report: what a run did, as data. `docs/report.md` describes the report's JSON.
//!
//! Times are nanoseconds, rates messages per second, shares fractions of 1. Values that are unknown because
//! of the run's mode or because events were lost are `None` (`null`), never 0, and [`Report::notes`] gives
//! the reason.

mod account;
pub(crate) mod distribution;
mod finding;
mod prediction;
mod sums;

use serde::{Deserialize, Serialize};

use crate::ids::{StreamId, TaskId, WorkerId};

pub use account::{Asleep, BusyAccount, Hanging, Limits, Processors, SleepsFor};
pub(crate) use finding::component_of;
pub use finding::{
    Action, CommandLine, Figure, Finding, NewValue, StreamRef, Subject, TaskRef, Verdict, VerdictKind, Words,
};
pub(crate) use prediction::NO_LOCK;
pub use prediction::{Alternative, Behind, BehindRecord, Expensive, ExpensiveBy, Phase, Replay, Suggestion};

/// The name of the schema, in every report.
pub const SCHEMA: &str = "thalweg.report";
/// The version of the schema, which is raised when a field changes its meaning or is removed. New fields do
/// not raise the version.
pub const VERSION: u32 = 2;

/// The report on a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`] of the schema.
    pub version: u32,
    /// The process that was observed.
    pub space: SpaceInfo,
    /// The time that the report covers.
    pub window: Window,
    /// What limits the flow, in a sentence.
    pub verdict: Verdict,
    /// The predicted effects of changes, if the run was replayed: `thalweg diagnose` computes them from a
    /// complete recording.
    #[serde(default)]
    pub replay: Option<Replay>,
    /// The parts of the run with different limits, if the limit of the flow changed during the run. The list
    /// of phases is computed only if `replay` is.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Groups of messages that take longer than the other messages of their component, the group with the
    /// most total time first.
    #[serde(default)]
    pub expensive: Vec<Expensive>,
    /// Messages per second.
    pub throughput: Throughput,
    /// The latencies of messages.
    pub latency: Latency,
    /// The input messages that took longest, slowest first.
    #[serde(default)]
    pub slowest: Vec<MessageTimes>,
    /// Messages that failed, oldest first, at most a thousand.
    #[serde(default)]
    pub failures: Vec<FailedMessage>,
    /// Which tasks waited for which.
    #[serde(default)]
    pub waiting: Waiting,
    /// Tasks and workers by the share of their time that the source demands, highest first (true-rate
    /// utilisation).
    #[serde(default)]
    pub utilisation: Vec<Utilisation>,
    /// Components (boxes, filters, combinators), each with all its tasks together, busiest first.
    pub components: Vec<Component>,
    /// The busiest tasks.
    pub tasks: Vec<Task>,
    /// The number of tasks; the list `tasks` may contain fewer.
    pub tasks_count: u64,
    /// The streams; those of one name between the same components are taken together. Entries and exits come
    /// first, then the streams with the most messages written.
    pub streams: Vec<Stream>,
    /// Streams that lost or duplicated messages.
    pub broken: Vec<BrokenStream>,
    /// The number of streams that lost or duplicated messages; the list `broken` may contain fewer.
    pub broken_count: u64,
    /// Workers in order of their ids.
    pub workers: Vec<Worker>,
    /// The use of processors by the run and the rest of the machine, if recorded at least twice.
    #[serde(default)]
    pub processors: Option<Processors>,
    /// The settings that limit the run's dispatches and its messages in flight, if they can be read.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// The estimated cost of the observation to the run.
    #[serde(default)]
    #[serde(alias = "telling")]
    pub overhead: Overhead,
    /// The links to and from other nodes of a run over nodes.
    #[serde(default)]
    pub links: Vec<LinkUse>,
    /// The measurements of monitors that have no part of their own in the report.
    #[serde(default)]
    pub measurements: Vec<Measurement>,
    /// The data missing from this report, with the reasons.
    pub notes: Vec<Note>,
    /// For a session, the reports on its spaces, in the order in which the spaces joined the session; empty
    /// for a single space.
    #[serde(default)]
    pub spaces: Vec<Report>,
}

/// The links of one direction and one way of travelling between a process and a node, in the measured time. Times
/// of several links are added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkUse {
    /// In a report on several spaces, the name of the process's space.
    #[serde(default)]
    pub process: Option<String>,
    /// The name of the node at the other end.
    pub node: String,
    /// `out`: records leave the process; `in`: records enter it.
    pub direction: String,
    /// How the bytes travel: `tcp`, `tls`, `unix`, `memory`, or `routed` (through a third process); `unknown` for
    /// `in`, and `` for records of earlier versions.
    pub carrier: String,
    /// The number of links.
    pub links: u64,
    /// Messages (records, and the marks between them).
    pub messages: u64,
    /// Bytes of these messages.
    pub payload_bytes: u64,
    /// Bytes over connections, with headers and after compression.
    pub wire_bytes: u64,
    /// Bytes that were sent again after a connection broke.
    pub resent_bytes: u64,
    /// Connections that were made since the links exist; more than `links` if one broke or moved.
    pub connections: u64,
    /// Bytes that waited at this end when it was looked at last.
    pub queued_bytes: u64,
    /// The time for which links waited because the receiver had no room.
    pub credit_wait_ns: f64,
    /// The time for which links waited for a port.
    pub port_wait_ns: f64,
    /// The time for which links waited because the allowed bandwidth was used up.
    pub pace_wait_ns: f64,
    /// The time for which connections accepted no bytes (out) or delivered none (in).
    pub connection_wait_ns: f64,
}

/// A measurement of a monitor that has no part of its own in the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The name of the monitor, a dot, and the measurement's own name.
    pub name: String,
    /// Unit of the value, or of the numbers in a table.
    pub unit: String,
    /// The measured value.
    pub value: Measured,
}

/// The value of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Pairs of a name and a number, in the order in which they are shown.
    Table(Vec<(String, f64)>),
}

impl Measurement {
    /// A number.
    pub fn number(name: &str, unit: &str, value: f64) -> Measurement {
        Measurement { name: name.to_owned(), unit: unit.to_owned(), value: Measured::Number(value) }
    }

    /// A text.
    pub fn text(name: &str, value: &str) -> Measurement {
        Measurement { name: name.to_owned(), unit: String::new(), value: Measured::Text(value.to_owned()) }
    }

    /// A measurement of several named numbers.
    pub fn table(name: &str, unit: &str, rows: Vec<(String, f64)>) -> Measurement {
        Measurement { name: name.to_owned(), unit: unit.to_owned(), value: Measured::Table(rows) }
    }
}

/// The latencies of an input message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageTimes {
    /// The message, `STREAM:INDEX`.
    pub message: String,
    /// The time at which the message entered the network, from the window's start.
    pub entered_ns: f64,
    /// The time from the message's entry until its last descendant left the network.
    pub end_to_end_ns: f64,
    /// Execution time of the message and of all its descendants.
    pub service_ns: f64,
}

/// A message that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedMessage {
    /// The message that failed, `STREAM:INDEX`.
    pub message: String,
    /// The input message from which the failed message descends, if known.
    pub input: Option<String>,
    /// The task in which the message failed.
    pub task: TaskId,
    /// Path of the component of the task in which it failed.
    pub component: Option<String>,
    /// The time of the failure, from the window's start.
    pub at_ns: f64,
}

/// Which tasks waited for which. A task that waits for messages waits for the stream's writer; a task that
/// waits for room waits for the stream's reader.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The total time in which tasks waited for other tasks.
    pub total_ns: f64,
    /// The waits that had not ended at the window's end, by task.
    pub now: Vec<WaitNow>,
    /// The number of waits that had not ended; the list `now` may contain fewer.
    pub now_count: u64,
    /// The waiting matrix: for each pair of components, the waiting of one for the other, longest first.
    pub matrix: Vec<WaitEdge>,
    /// The roots of waiting, the root with the most waiting first.
    pub roots: Vec<Root>,
    /// Tasks that wait for one another in circles.
    pub deadlock: Option<Deadlock>,
    /// Tasks that waited behind another task because the order of messages is kept, the longest wait first.
    #[serde(default)]
    pub behind: Vec<Behind>,
    /// Tasks of a live run whose threads have been asleep in one dispatch for long, longest first.
    #[serde(default)]
    pub hanging: Vec<Hanging>,
    /// The time since a worker last ended a dispatch or a wait, if the run is live.
    #[serde(default)]
    pub still_ns: Option<f64>,
}

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitNow {
    /// The task.
    pub task: TaskId,
    /// The task's name.
    pub name: String,
    /// `input` or `room`.
    pub what: String,
    /// The stream, if the task waits for one particular stream.
    pub stream: Option<StreamId>,
    /// The task at the stream's other end.
    pub peer: Option<TaskId>,
    /// The name of the task at the stream's other end.
    pub peer_name: Option<String>,
    /// The length of the wait so far.
    pub ns: f64,
}

/// The waiting of one component's tasks for the tasks of another component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitEdge {
    /// Path of the component that waited.
    pub waiter: Option<String>,
    /// Path of the component that `waiter` waited for.
    pub peer: Option<String>,
    /// `input` or `room`.
    pub what: String,
    /// The number of waits.
    pub waits: u64,
    /// The total length of the waits.
    pub ns: f64,
    /// The share of all waiting time that the waits of the component for its peer make up.
    pub share: f64,
}

/// A task at the end of a chain of tasks that wait for one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Root {
    /// The task.
    pub task: TaskId,
    /// The task's name.
    pub name: Option<String>,
    /// Path of the task's component.
    pub component: Option<String>,
    /// The task's state while others waited for it.
    pub state: RootState,
    /// The time for which other tasks waited because of the task.
    pub ns: f64,
    /// The share of all waiting that this time makes up.
    pub share: f64,
}

/// The state of a task that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootState {
    /// The task ran.
    Running,
    /// The task was ready but did not run.
    Ready,
    /// The task waited for itself through other tasks.
    Circle,
    /// The task's state is not known.
    Unknown,
}

/// Tasks that wait for one another in circles, so none of them can continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deadlock {
    /// The number of tasks.
    pub tasks: u64,
    /// Waits of the tasks in the circles. If there are many, the list does not contain all of them.
    pub waits: Vec<WaitNow>,
}

/// The share of a task's or worker's time that the source demands when the source runs at its own speed
/// (Kalavri et al., OSDI 2018).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// The task's or worker's name.
    pub name: String,
    /// The task, if the row is about a task.
    pub task: Option<TaskId>,
    /// The worker that the row is about, or the worker of the task.
    pub worker: Option<WorkerId>,
    /// The useful time spent for each input message.
    pub demand_ns: f64,
    /// The busy time of the task or worker divided by the busy time of the busiest source: above 1, the task
    /// or worker cannot keep up with the source.
    pub utilisation: f64,
    /// The share of its time in which the task or worker was busy.
    pub busy: f64,
}

impl Report {
    /// A report without any content.
    pub(crate) fn empty() -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            space: SpaceInfo::default(),
            window: Window {
                duration_ns: 0.0,
                state: State::Ended,
                paused_ns: None,
                modes: Vec::new(),
                complete: false,
                partial: false,
                events_ns: None,
                events: 0,
                lost: 0,
                gaps: 0,
                malformed: 0,
                disk_full_ns: None,
                disk_held_ns: None,
            },
            verdict: Verdict::of(Finding::new(VerdictKind::Unknown), Words::default()),
            replay: None,
            phases: Vec::new(),
            expensive: Vec::new(),
            throughput: Throughput::default(),
            latency: Latency::default(),
            slowest: Vec::new(),
            failures: Vec::new(),
            waiting: Waiting::default(),
            utilisation: Vec::new(),
            components: Vec::new(),
            tasks: Vec::new(),
            tasks_count: 0,
            streams: Vec::new(),
            broken: Vec::new(),
            broken_count: 0,
            workers: Vec::new(),
            processors: None,
            limits: None,
            overhead: Overhead::default(),
            links: Vec::new(),
            measurements: Vec::new(),
            notes: Vec::new(),
            spaces: Vec::new(),
        }
    }
}

/// The observed process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpaceInfo {
    /// Path of the space.
    pub path: String,
    /// The space's name.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Host.
    pub host: String,
    /// Command line.
    pub command: String,
}

/// Whether the process lives, has ended, or died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The process lives and has not ended its run.
    Running,
    /// The process ended its run in order.
    Ended,
    /// The process ended without recording the end of its run, for example because it was killed.
    Killed,
}

/// The time that a report covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The time from the first to the last known moment of the run.
    pub duration_ns: f64,
    /// Whether the process lives, has ended, or died.
    pub state: State,
    /// The time for which the run's sources have been paused by `thalweg pause` or `drain`; null if they are
    /// not paused.
    #[serde(default)]
    pub paused_ns: Option<f64>,
    /// The modes that the run was in.
    pub modes: Vec<ModeSpan>,
    /// Whether every event of the run was read and the mode was full throughout.
    pub complete: bool,
    /// Whether the window is only a part of the run: if so, counts cover this part only.
    #[serde(default)]
    pub partial: bool,
    /// If the report is not complete, the length of the last part of the window of which the events were
    /// read.
    pub events_ns: Option<f64>,
    /// Events read.
    pub events: u64,
    /// Events lost: overwritten before they were read, or dropped.
    pub lost: u64,
    /// Places where events were lost.
    pub gaps: u64,
    /// Events that contradict themselves, such as an impossible number of messages; they are ignored.
    pub malformed: u64,
    /// The time for which the disk of the archive was full; null if the run keeps no events (`--keep`).
    #[serde(default)]
    pub disk_full_ns: Option<f64>,
    /// The part of `disk_full_ns` in which writers of events waited for free space on the disk.
    #[serde(default)]
    pub disk_held_ns: Option<f64>,
}

/// A mode and the time from which it applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModeSpan {
    /// The mode: `off`, `metrics` or `full`.
    pub mode: String,
    /// The time from which the mode applied, from the window's start.
    pub from_ns: f64,
}

/// Messages per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Input messages: the messages of the entry streams.
    pub messages_in: Option<u64>,
    /// Output messages: the messages of the exit streams.
    pub messages_out: Option<u64>,
    /// The time from start to end of the worker that existed longest.
    pub worker_ns_longest: Option<f64>,
    /// Input messages per second of `worker_ns_longest` (LPEL paper, equation 1).
    pub entry_per_s: Option<f64>,
    /// Output messages per second of `worker_ns_longest`.
    pub exit_per_s: Option<f64>,
}

/// The latencies of messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Execution time of an input message and its descendants (LPEL paper, equation 2).
    pub service: Option<Distribution>,
    /// The time from an input message's entry until its last descendant left.
    pub end_to_end: Option<Distribution>,
    /// End-to-end latency less service time; 0 if descendants ran at the same time, so that the difference
    /// would be negative.
    #[serde(default)]
    pub waiting: Option<Distribution>,
    /// Input messages whose entry was recorded.
    pub entered: u64,
    /// Messages of `entered` of which some descendant was still in the network at the window's end.
    pub in_flight: u64,
    /// Messages of `entered` that left the network, but whose latencies are unknown because events about them
    /// were lost.
    pub unmeasured: u64,
    /// The number of written messages whose input message is not known.
    pub unattributed: u64,
    /// Share of the tasks' busy time inside the network that belongs to known input messages and is therefore
    /// in `service`. The rest of the busy time belongs to messages whose input message is not known, and to
    /// dispatches that read and wrote nothing.
    pub attributed_share: Option<f64>,
    /// Busy time that belongs to known input messages, including those that are still in the network.
    /// `attributed_ns`, `unattributed_ns`, `empty_ns` and `outside_ns` add up to the busy time of all
    /// recorded dispatches.
    #[serde(default)]
    pub attributed_ns: Option<f64>,
    /// Busy time that belongs to messages whose input message is not known.
    #[serde(default)]
    pub unattributed_ns: Option<f64>,
    /// Busy time of dispatches inside the network that read and wrote nothing.
    #[serde(default)]
    pub empty_ns: Option<f64>,
    /// Busy time outside the network, in tasks that write input messages or read output messages.
    #[serde(default)]
    pub outside_ns: Option<f64>,
    /// The times from input to output across links. Null if the session has no links, or if the report does not cover the
    /// whole run.
    #[serde(default)]
    pub over_links: Option<OverLinks>,
}

/// The times of a sample of the inputs of a run over several nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverLinks {
    /// The time from an input message's entry until its last descendant left, on whatever node it was meanwhile; null
    /// if no message of the sample left.
    pub end_to_end: Option<Distribution>,
    /// Messages of the sample that have not left yet, or of which not all was recorded.
    pub left_out: u64,
    /// The largest error of the differences between times of different machines, in nanoseconds; null if all times are
    /// of one machine.
    pub clock_error_ns: Option<f64>,
}

/// Times of many messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of messages.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation (LPEL paper, equation 3).
    pub jitter_ns: f64,
    /// The least time.
    pub min_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// The time that 9 of 10 messages do not exceed.
    pub p90_ns: f64,
    /// The time that 99 of 100 messages do not exceed.
    pub p99_ns: f64,
    /// The greatest time.
    pub max_ns: f64,
}

/// The shares of a task's time, which add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskShares {
    /// The share in which the task ran.
    pub busy: f64,
    /// The share in which the task waited for messages.
    pub input_wait: f64,
    /// The share in which the task waited for room.
    pub output_wait: f64,
    /// The share in which the task was ready but did not run: other tasks ran, or its thread had no processor
    /// or was waking other threads.
    pub ready: f64,
}

/// All tasks of a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// Path in the network, such as `des/rounds/star`.
    pub path: String,
    /// The kind of component: `box`, `filter`, `star`, …
    pub kind: String,
    /// The component's place in the network's text, `file:line:column`, if known.
    pub place: Option<String>,
    /// The number of the component's tasks.
    pub tasks: u64,
    /// The number of the component's tasks that have not ended.
    pub tasks_live: u64,
    /// The work of all tasks of the component together.
    pub work: Work,
    /// The times of single messages, if messages take long enough for the clock to be read after each
    /// (`exec.clock_budget`).
    #[serde(default)]
    pub service: Option<Distribution>,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The task's id.
    pub id: TaskId,
    /// The path of the task's component, and the number of the replica in brackets if the component has
    /// several tasks.
    pub name: String,
    /// The worker that ran the task last; null if the task has a thread of its own.
    pub worker: Option<WorkerId>,
    /// The task's state at the window's end.
    pub state: String,
    /// The number of times that the task moved to another worker.
    #[serde(default)]
    pub moves: u64,
    /// Processor time of the task's own thread, if the task has one.
    #[serde(default)]
    pub cpu_ns: Option<f64>,
    /// Time in which the task's own thread was runnable without a processor.
    #[serde(default)]
    pub delayed_ns: Option<f64>,
    /// The work that the task did.
    pub work: Work,
}

/// The work of a task, or of all tasks of a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Messages read.
    pub messages_in: Option<u64>,
    /// Messages written.
    pub messages_out: Option<u64>,
    /// Messages written per message read.
    pub selectivity: Option<f64>,
    /// The number of the dispatches of the task, or of all tasks of the component.
    pub dispatches: Option<u64>,
    /// Dispatches that ended with the quantum spent.
    #[serde(default)]
    pub yields: Option<u64>,
    /// The share of the dispatches that ended with the quantum spent.
    #[serde(default)]
    pub yield_share: Option<f64>,
    /// Dispatches that read and wrote nothing.
    #[serde(default)]
    pub empty: Option<u64>,
    /// The time in which the task ran; for a component, the sum over its tasks.
    pub busy_ns: Option<f64>,
    /// The part of `busy_ns` in dispatches that read and wrote nothing.
    #[serde(default)]
    pub empty_ns: Option<f64>,
    /// The time for which the task existed within the window; for a component, the sum over its tasks.
    #[serde(default)]
    pub lifetime_ns: Option<f64>,
    /// The division of the time of the task, or of all tasks of the component.
    pub shares: Option<TaskShares>,
    /// `busy_ns`, less `empty_ns` where that is known, per message read; per message written, if none are
    /// read.
    pub service_ns: Option<f64>,
    /// Records that failed.
    pub failed: u64,
    /// Tasks that ended by a panic or another failure.
    pub ended_badly: u64,
    /// The division of the busy time, if the threads that ran were sampled.
    #[serde(default)]
    pub account: Option<BusyAccount>,
}

/// All streams of one name between the same two components.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// The name of the streams; if they have none, `writer → reader`.
    pub name: String,
    /// Path of the component that writes.
    pub writer: Option<String>,
    /// Path of the component that reads.
    pub reader: Option<String>,
    /// `entry`, `exit` or `inner`.
    pub role: String,
    /// The number of streams.
    pub streams: u64,
    /// The number of messages that a stream can hold (the largest number, if the streams differ).
    pub capacity: u64,
    /// Messages written: the sum of read, failed, held and dropped.
    pub written: Option<u64>,
    /// Messages read, without those that failed in the reader.
    pub read: Option<u64>,
    /// Messages that failed in the reader.
    pub failed: u64,
    /// Messages in the streams at the window's end.
    pub held: Option<u64>,
    /// Messages that will never be read, because the reader ended before.
    pub dropped: Option<u64>,
    /// Messages read per second.
    pub rate_per_s: Option<f64>,
    /// Mean number of messages in one stream.
    pub occupancy_mean: Option<f64>,
    /// The greatest number of messages in one stream, from the positions at the ends of dispatches.
    pub occupancy_max: Option<u64>,
    /// Messages in all of the streams over time.
    #[serde(default)]
    pub occupancy: Option<Occupancy>,
    /// Mean time that a message spends in a stream.
    pub wait_ns: Option<f64>,
    /// Share of time in which the writer waited for room in a stream.
    pub full_share: Option<f64>,
    /// Share of time in which the reader waited for messages from a stream.
    pub empty_share: Option<f64>,
    /// Whether all messages written to each stream are accounted for: none were lost or duplicated.
    pub conserved: Option<bool>,
    /// The amount of data that passed the streams, if the sizes of messages are known.
    #[serde(default)]
    pub volume: Option<Volume>,
}

/// The amount of data that passed streams, estimated from a sample of the messages' sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Bytes read per second: messages read per second times their mean size.
    pub bytes_per_s: Option<f64>,
    /// Mean size of a message, in bytes.
    pub mean_bytes: f64,
    /// The size, in bytes, that 99 of 100 messages do not exceed.
    pub p99_bytes: Option<f64>,
    /// The relative error of `p99_bytes` from the width of the histogram's buckets; the error of sampling is
    /// not included.
    pub p99_error: Option<f64>,
    /// The largest size sampled, in bytes.
    pub most_bytes: u64,
    /// The number of messages whose size was sampled.
    pub sizes_taken: u64,
}

/// Messages in a stream over time: the mean number in each of several steps of the same length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// The start of the first step, from the window's start.
    pub from_ns: f64,
    /// The length of a step.
    pub step_ns: f64,
    /// The mean number of messages in each step.
    pub messages: Vec<f64>,
}

/// A stream whose messages do not add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrokenStream {
    /// The stream's id.
    pub id: StreamId,
    /// The stream's name.
    pub name: String,
    /// Messages written.
    pub written: u64,
    /// Messages read, including those that failed in the reader.
    pub read: u64,
    /// Messages that were never read, because the reader ended before.
    pub dropped: u64,
    /// A sentence that names the contradiction.
    pub what: String,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// The worker's id.
    pub id: WorkerId,
    /// The core that the worker's thread is pinned to.
    pub core: Option<u64>,
    /// The NUMA node of the worker's core, if known.
    #[serde(default)]
    pub node: Option<u64>,
    /// The time from the worker's start to its end, without the time for which it was parked.
    pub lifetime_ns: f64,
    /// The time for which the worker was parked: it slept and ran no tasks.
    #[serde(default)]
    pub parked_ns: f64,
    /// The division of `lifetime_ns`.
    pub shares: Option<WorkerShares>,
    /// The number of the worker's dispatches.
    pub dispatches: Option<u64>,
    /// The number of messages that the worker's tasks read.
    pub messages: Option<u64>,
    /// Processor time of the worker's thread.
    #[serde(default)]
    pub cpu_ns: Option<f64>,
    /// The number of times that the kernel preempted the worker's thread.
    #[serde(default)]
    pub preempted: Option<u64>,
    /// Time in which the worker's thread was runnable without a processor.
    #[serde(default)]
    pub delayed_ns: Option<f64>,
    /// The task that the worker was running when the process died, or in which the worker hangs.
    pub on_task: Option<String>,
    /// The index of the message that the worker was processing in `on_task`, counted from 0.
    pub on_message: Option<u64>,
    /// The least time for which the worker has been processing the message `on_message`, if it hangs.
    pub stuck_ns: Option<f64>,
    /// The division of the worker's busy time, if its thread was sampled.
    #[serde(default)]
    pub account: Option<BusyAccount>,
}

/// The shares of a worker's time, which add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerShares {
    /// The share in which the worker ran tasks.
    pub busy: f64,
    /// The share in which the worker had no task to run.
    pub waiting: f64,
    /// The share of the worker's own work, such as waking other threads and moving tasks.
    #[serde(default)]
    pub own: f64,
    /// The share in which the worker was runnable without a processor and noticed it at once. The kernel's
    /// figure for the worker's whole life is `delayed_ns`.
    #[serde(default)]
    pub kept: f64,
    /// The share that belongs to none of the other shares.
    pub unaccounted: f64,
}

/// The estimated cost of the observation to the run: the time that the run's threads spent on writing events.
/// The processor time and cache that a reader of events takes from the run are not included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Readings of the clock for events: events of one writer with equal times share one reading. The
    /// readings for lost events are estimated in proportion to those for the events read.
    pub clock_readings: u64,
    /// The mean time of a reading of the clock, which each worker measures and records when it starts; null
    /// if the events of the workers' starts were overwritten.
    pub clock_reading_ns: Option<f64>,
    /// The assumed time of writing an event without reading the clock, as the benchmark `event` measured it.
    pub event_ns: f64,
    /// The time of recording: readings of the clock and writing of events, including events that readers
    /// lost.
    pub ns: Option<f64>,
    /// The time of recording as a share of the time of all workers together.
    pub share: Option<f64>,
    /// Bytes of events written, headers of blocks included.
    pub bytes: Option<u64>,
    /// Bytes of events written per second of the window.
    pub bytes_per_s: Option<f64>,
}

/// A value that the report lacks, or a reason to doubt a value of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The word by which a program recognises the note. A note's word does not change between versions.
    pub code: String,
    /// The note as a sentence.
    pub text: String,
}
