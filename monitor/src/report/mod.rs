//! The report: what a run did, as data. `docs/report.md` describes it for readers of the JSON.
//!
//! Times are nanoseconds, rates messages per second, shares fractions of 1. What is not known in the mode the run was
//! in, or because events were lost, is `None` (`null`), never 0, and [`Report::notes`] says why.

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
/// The version of the schema: raised when a field changes its meaning or goes. New fields do not raise it.
pub const VERSION: u32 = 2;

/// What a run did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`] of the schema.
    pub version: u32,
    /// The process that was observed.
    pub space: SpaceInfo,
    /// The time that the report is about.
    pub window: Window,
    /// What limits the flow, in a sentence.
    pub verdict: Verdict,
    /// What changes would bring, if the run was replayed: `thalweg diagnose` computes that from a whole recording.
    #[serde(default)]
    pub replay: Option<Replay>,
    /// Parts of the run, if what limits the flow changed. Set like `replay`.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Messages that take longer than others of their component, those with most time first.
    #[serde(default)]
    pub expensive: Vec<Expensive>,
    /// Messages per second.
    pub throughput: Throughput,
    /// How long messages took.
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
    /// Tasks and workers by what the source asks of them, most pressed first (true-rate utilisation).
    #[serde(default)]
    pub utilisation: Vec<Utilisation>,
    /// Boxes, filters, combinators: all their tasks together, busiest first.
    pub components: Vec<Component>,
    /// The busiest tasks.
    pub tasks: Vec<Task>,
    /// Tasks in all; `tasks` may be fewer.
    pub tasks_count: u64,
    /// Streams between the same components, together: entries and exits, then most written first.
    pub streams: Vec<Stream>,
    /// Streams that lost or invented messages.
    pub broken: Vec<BrokenStream>,
    /// Streams that lost or invented messages, in all; `broken` may be fewer.
    pub broken_count: u64,
    /// Workers in order of their ids.
    pub workers: Vec<Worker>,
    /// What the run and the machine used of processors, if that was recorded twice.
    #[serde(default)]
    pub processors: Option<Processors>,
    /// What limits the run as it is set, if its settings say so.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// What being observed cost the run.
    #[serde(default)]
    #[serde(alias = "telling")]
    pub overhead: Overhead,
    /// What other monitors measured.
    #[serde(default)]
    pub measurements: Vec<Measurement>,
    /// What is missing from this report, and why.
    pub notes: Vec<Note>,
    /// Of a session: the report on each of its spaces, in the order in which they joined. Of one space: none.
    #[serde(default)]
    pub spaces: Vec<Report>,
}

/// A measurement of a monitor that has no part of its own in the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Its name: the monitor's, a dot, its own.
    pub name: String,
    /// Unit of the value, or of the numbers in a table.
    pub unit: String,
    /// What was measured.
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
    /// A number for each of several things, in the order in which they are to be shown.
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

    /// A number for each of several things.
    pub fn table(name: &str, unit: &str, rows: Vec<(String, f64)>) -> Measurement {
        Measurement { name: name.to_owned(), unit: unit.to_owned(), value: Measured::Table(rows) }
    }
}

/// How long an input message took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageTimes {
    /// The message, `STREAM:INDEX`.
    pub message: String,
    /// When it entered, from the window's begin.
    pub entered_ns: f64,
    /// Until its last descendant left.
    pub end_to_end_ns: f64,
    /// Execution time of it and all its descendants.
    pub service_ns: f64,
}

/// A message that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedMessage {
    /// The message that was refused, `STREAM:INDEX`.
    pub message: String,
    /// The input message it descends from, if that is known.
    pub input: Option<String>,
    /// The task that refused it.
    pub task: TaskId,
    /// Path of that task's component.
    pub component: Option<String>,
    /// When, from the window's begin.
    pub at_ns: f64,
}

/// Which tasks waited for which. A task that waits for messages waits for the stream's writer, one that waits for room for its
/// reader.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// All tasks' waiting for others.
    pub total_ns: f64,
    /// Waits that went on at the end, by task.
    pub now: Vec<WaitNow>,
    /// Such waits in all; `now` may be fewer.
    pub now_count: u64,
    /// The waiting matrix, longest first.
    pub matrix: Vec<WaitEdge>,
    /// Where all waiting leads, most first.
    pub roots: Vec<Root>,
    /// Tasks that wait for one another in circles.
    pub deadlock: Option<Deadlock>,
    /// Which tasks wait behind which where order is kept, longest first.
    #[serde(default)]
    pub behind: Vec<Behind>,
    /// Of a run that lives: tasks whose threads have been asleep in one dispatch for long, longest first.
    #[serde(default)]
    pub hanging: Vec<Hanging>,
    /// Of a run that lives: for how long no worker has ended a dispatch or a wait.
    #[serde(default)]
    pub still_ns: Option<f64>,
}

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitNow {
    /// The task.
    pub task: TaskId,
    /// Its name.
    pub name: String,
    /// `input` or `room`.
    pub what: String,
    /// The stream, if it is a certain one.
    pub stream: Option<StreamId>,
    /// The task at the stream's other end.
    pub peer: Option<TaskId>,
    /// Its name.
    pub peer_name: Option<String>,
    /// For how long.
    pub ns: f64,
}

/// How long the tasks of one component waited for those of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitEdge {
    /// Path of the component that waited.
    pub waiter: Option<String>,
    /// Path of the component it waited for.
    pub peer: Option<String>,
    /// `input` or `room`.
    pub what: String,
    /// How often.
    pub waits: u64,
    /// How long in all.
    pub ns: f64,
    /// Its share of all waiting.
    pub share: f64,
}

/// A task at the end of a chain of tasks that wait for one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Root {
    /// The task.
    pub task: TaskId,
    /// Its name.
    pub name: Option<String>,
    /// Path of its component.
    pub component: Option<String>,
    /// What it was doing while others waited.
    pub state: RootState,
    /// Time that others waited because of it.
    pub ns: f64,
    /// Its share of all waiting.
    pub share: f64,
}

/// What a task that others wait for was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootState {
    /// The task ran.
    Running,
    /// The task could have run, and did not.
    Ready,
    /// The task waited for itself, by way of others.
    Circle,
    /// What it was doing is not known.
    Unknown,
}

/// Tasks that wait for one another in circles: none of them can go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deadlock {
    /// How many tasks.
    pub tasks: u64,
    /// Their waits; may be fewer.
    pub waits: Vec<WaitNow>,
}

/// How much of a task's or worker's time the source asks for when it runs at its own speed (Kalavri et al., OSDI 2018).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// The task's or worker's name.
    pub name: String,
    /// The task, if it is one.
    pub task: Option<TaskId>,
    /// The worker: this one, or the task's.
    pub worker: Option<WorkerId>,
    /// Useful time for each input message.
    pub demand_ns: f64,
    /// Demand over what the fastest source leaves: above 1 the task or worker cannot keep up.
    pub utilisation: f64,
    /// Share of its time it was busy.
    pub busy: f64,
}

impl Report {
    /// A report that says nothing.
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
    /// Its name.
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
    /// The process lives and had not ended its run.
    Running,
    /// The process ended its run orderly.
    Ended,
    /// The process is gone without having ended its run.
    Killed,
}

/// The time a report speaks of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// From the first to the last moment known of the run.
    pub duration_ns: f64,
    /// Whether the process lives, has ended, or died.
    pub state: State,
    /// For how long its sources have rested because of `thalweg pause` or `drain`, if they do.
    #[serde(default)]
    pub paused_ns: Option<f64>,
    /// The modes that the run was in.
    pub modes: Vec<ModeSpan>,
    /// Whether every event of the run was seen, in mode full throughout.
    pub complete: bool,
    /// The window is a part of the run: counts are of this part only.
    #[serde(default)]
    pub partial: bool,
    /// If the report is not complete: the length of the window's last part from which the events are.
    pub events_ns: Option<f64>,
    /// Events seen.
    pub events: u64,
    /// Events lost: overwritten before they were read, or dropped.
    pub lost: u64,
    /// Places where events were lost.
    pub gaps: u64,
    /// Events that contradict themselves, such as a message count beyond reason; left out.
    pub malformed: u64,
    /// How long the disk was full on which a run with `--keep` keeps its events; null if it keeps none.
    #[serde(default)]
    pub disk_full_ns: Option<f64>,
    /// How much of that time writers of events waited for the disk to have room.
    #[serde(default)]
    pub disk_held_ns: Option<f64>,
}

/// A mode, for a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModeSpan {
    /// `off`, `metrics` or `full`.
    pub mode: String,
    /// From this moment of the window.
    pub from_ns: f64,
}

/// Messages per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Input messages: those of the entry streams.
    pub messages_in: Option<u64>,
    /// Output messages: those of the exit streams.
    pub messages_out: Option<u64>,
    /// The longest worker's time from its start to its end.
    pub worker_ns_longest: Option<f64>,
    /// Input messages per second of that time (LPEL paper, equation 1).
    pub entry_per_s: Option<f64>,
    /// Output messages per second of that time.
    pub exit_per_s: Option<f64>,
}

/// How long messages took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Execution time of an input message and its descendants (LPEL paper, equation 2).
    pub service: Option<Distribution>,
    /// From an input message's entry until its last descendant left.
    pub end_to_end: Option<Distribution>,
    /// End-to-end less service time; of a message whose descendants ran at the same time, not below 0.
    #[serde(default)]
    pub waiting: Option<Distribution>,
    /// Input messages seen entering.
    pub entered: u64,
    /// Those of `entered` that had not left at the window's end.
    pub in_flight: u64,
    /// Those of `entered` that left, but were not measured because some of their events were lost.
    pub unmeasured: u64,
    /// Messages written whose input message is not known.
    pub unattributed: u64,
    /// Share of the tasks' busy time inside the network that belongs to known input messages, and so is in `service`. The rest is
    /// that of messages whose input is not known, and of dispatches that read and wrote nothing.
    pub attributed_share: Option<f64>,
    /// Busy time that belongs to known input messages, of those that did not leave as well. This and the three that follow are all
    /// tasks' busy time, as far as dispatches were seen.
    #[serde(default)]
    pub attributed_ns: Option<f64>,
    /// Busy time that belongs to messages whose input message is not known.
    #[serde(default)]
    pub unattributed_ns: Option<f64>,
    /// Busy time of dispatches inside the network that read and wrote nothing.
    #[serde(default)]
    pub empty_ns: Option<f64>,
    /// Busy time outside the network: of tasks that write input messages or read output messages.
    #[serde(default)]
    pub outside_ns: Option<f64>,
}

/// Times of many messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation (LPEL paper, equation 3).
    pub jitter_ns: f64,
    /// Least.
    pub min_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 9 of 10 are at most this.
    pub p90_ns: f64,
    /// 99 of 100 are at most this.
    pub p99_ns: f64,
    /// Most.
    pub max_ns: f64,
}

/// How a task's time divides; the four sum to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskShares {
    /// It ran.
    pub busy: f64,
    /// It waited for messages.
    pub input_wait: f64,
    /// It waited for room.
    pub output_wait: f64,
    /// It could have run, and did not: others did, or its thread had no processor, or woke others.
    pub ready: f64,
}

/// All tasks of a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// Path in the network, such as `des/rounds/star`.
    pub path: String,
    /// What it is: `box`, `filter`, `star`, …
    pub kind: String,
    /// Where it is written, `file:line:column`, if known.
    pub place: Option<String>,
    /// Tasks it had.
    pub tasks: u64,
    /// Those of them that have not ended.
    pub tasks_live: u64,
    /// What all tasks together did.
    pub work: Work,
    /// How long single messages took, where they take so long that the clock was read for each (`exec.clock_budget`).
    #[serde(default)]
    pub service: Option<Distribution>,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its component's path, and its replica in brackets where there are several.
    pub name: String,
    /// The worker it was on, `None` if it has a thread of its own.
    pub worker: Option<WorkerId>,
    /// What it was doing at the window's end.
    pub state: String,
    /// Times it moved to another worker.
    #[serde(default)]
    pub moves: u64,
    /// Processor time of its own thread, if it has one.
    #[serde(default)]
    pub cpu_ns: Option<f64>,
    /// Time that thread could have run and had no processor.
    #[serde(default)]
    pub delayed_ns: Option<f64>,
    /// What it did.
    pub work: Work,
}

/// What a task, or all tasks of a component, did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Messages read.
    pub messages_in: Option<u64>,
    /// Messages written.
    pub messages_out: Option<u64>,
    /// Written per read.
    pub selectivity: Option<f64>,
    /// Times it was run.
    pub dispatches: Option<u64>,
    /// Dispatches that ended with the quantum spent.
    #[serde(default)]
    pub yields: Option<u64>,
    /// Their share of the dispatches seen.
    #[serde(default)]
    pub yield_share: Option<f64>,
    /// Dispatches that read and wrote nothing.
    #[serde(default)]
    pub empty: Option<u64>,
    /// Time it ran.
    pub busy_ns: Option<f64>,
    /// The part of that time in dispatches that read and wrote nothing.
    #[serde(default)]
    pub empty_ns: Option<f64>,
    /// From its beginning, or the window's, to its end, or the window's; of a component, that of all its tasks together.
    #[serde(default)]
    pub lifetime_ns: Option<f64>,
    /// How its time divides.
    pub shares: Option<TaskShares>,
    /// Time it ran, per message read (or written, if it reads none), without that of dispatches that read and wrote nothing where that
    /// is known.
    pub service_ns: Option<f64>,
    /// Records that failed.
    pub failed: u64,
    /// Tasks that ended by a panic or another failure.
    pub ended_badly: u64,
    /// What the busy time was spent on, if its threads were looked at.
    #[serde(default)]
    pub account: Option<BusyAccount>,
}

/// All streams of one name between the same two components.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Name, else `writer → reader`.
    pub name: String,
    /// Path of the component that writes.
    pub writer: Option<String>,
    /// Path of the component that reads.
    pub reader: Option<String>,
    /// `entry`, `exit` or `inner`.
    pub role: String,
    /// Streams.
    pub streams: u64,
    /// Messages each can hold (the largest).
    pub capacity: u64,
    /// Messages written: the sum of read, failed, held and dropped.
    pub written: Option<u64>,
    /// Messages read, without those that failed in the reader.
    pub read: Option<u64>,
    /// Messages that failed in the reader.
    pub failed: u64,
    /// Messages in them at the window's end.
    pub held: Option<u64>,
    /// Messages nobody will read, since the reader was gone.
    pub dropped: Option<u64>,
    /// Messages read per second.
    pub rate_per_s: Option<f64>,
    /// Mean number of messages in them, each.
    pub occupancy_mean: Option<f64>,
    /// Most messages in one of them, seen at the ends of dispatches.
    pub occupancy_max: Option<u64>,
    /// Messages in all of them over time.
    #[serde(default)]
    pub occupancy: Option<Occupancy>,
    /// Mean time of a message in them.
    pub wait_ns: Option<f64>,
    /// Share of time the writer waited for room in one.
    pub full_share: Option<f64>,
    /// Share of time the reader waited for messages of one.
    pub empty_share: Option<f64>,
    /// Whether every one conserved its messages.
    pub conserved: Option<bool>,
    /// How much data went through them, if the sizes of messages are known.
    #[serde(default)]
    pub volume: Option<Volume>,
}

/// How much data went through streams, from the sizes of some of their messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Bytes read per second: messages read per second times their mean size.
    pub bytes_per_s: Option<f64>,
    /// Mean size of a message, in bytes.
    pub mean_bytes: f64,
    /// The size, in bytes, that 99 of 100 messages do not exceed.
    pub p99_bytes: Option<f64>,
    /// By which part of itself it may be off, besides for having been estimated from the sizes taken.
    pub p99_error: Option<f64>,
    /// The largest size taken, in bytes.
    pub most_bytes: u64,
    /// How many messages had their size taken.
    pub sizes_taken: u64,
}

/// Messages in a stream over time: the means over steps of the same length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// From this moment of the window.
    pub from_ns: f64,
    /// How long a step is.
    pub step_ns: f64,
    /// The means.
    pub messages: Vec<f64>,
}

/// A stream whose messages do not add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrokenStream {
    /// Its id.
    pub id: StreamId,
    /// Its name.
    pub name: String,
    /// Written.
    pub written: u64,
    /// Read, failed ones included.
    pub read: u64,
    /// Dropped.
    pub dropped: u64,
    /// What does not add up, in words.
    pub what: String,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its id.
    pub id: WorkerId,
    /// The core it is pinned to.
    pub core: Option<u64>,
    /// The NUMA node of that core, if it is known.
    #[serde(default)]
    pub node: Option<u64>,
    /// From its start to its end, without the time it was parked.
    pub lifetime_ns: f64,
    /// Time it was parked: it took no part and slept.
    #[serde(default)]
    pub parked_ns: f64,
    /// How that divides.
    pub shares: Option<WorkerShares>,
    /// Times it ran a task.
    pub dispatches: Option<u64>,
    /// Messages its tasks read.
    pub messages: Option<u64>,
    /// Processor time of its thread.
    #[serde(default)]
    pub cpu_ns: Option<f64>,
    /// Times its thread was put off its processor for another.
    #[serde(default)]
    pub preempted: Option<u64>,
    /// Time its thread could have run and had no processor.
    #[serde(default)]
    pub delayed_ns: Option<f64>,
    /// The task that the worker was on, if the process died then, or if it hangs in it.
    pub on_task: Option<String>,
    /// The message of that task it was on, counted from 0.
    pub on_message: Option<u64>,
    /// For how long it has not gone on from that message, if it hangs: at least.
    pub stuck_ns: Option<f64>,
    /// What its busy time was spent on, if it was looked at.
    #[serde(default)]
    pub account: Option<BusyAccount>,
}

/// How a worker's time divides; the five sum to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerShares {
    /// It ran tasks.
    pub busy: f64,
    /// It had nothing to run.
    pub waiting: f64,
    /// It did its own work: it woke other threads, moved tasks.
    #[serde(default)]
    pub own: f64,
    /// It could have run and had no processor, as far as it noticed at once; `delayed_ns` is what the kernel says of its whole life.
    #[serde(default)]
    pub kept: f64,
    /// None of these: the rest, of which nothing is known.
    pub unaccounted: f64,
}

/// What being observed cost the run: an estimate, of what its threads did to write events, not of what a reader that follows
/// the run took from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Readings of the clock for events: those of a writer that share their time share one. Of lost events, in proportion.
    pub clock_readings: u64,
    /// What a reading takes, as the workers measured it when they started (their mean); null if that was overwritten.
    pub clock_reading_ns: Option<f64>,
    /// What writing an event takes besides: an assumption, from the benchmark `event`.
    pub event_ns: f64,
    /// Time that recording took: readings of the clock and events, also of those events that readers lost.
    pub ns: Option<f64>,
    /// That time as a share of all workers' time together.
    pub share: Option<f64>,
    /// Bytes of events written, headers of blocks included.
    pub bytes: Option<u64>,
    /// Bytes of events written per second of the window.
    pub bytes_per_s: Option<f64>,
}

/// Something the report cannot say, or says with a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// A stable word for the note.
    pub code: String,
    /// The note as a sentence.
    pub text: String,
}
