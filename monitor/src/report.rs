//! The report: what a run did, as data. `docs/report.md` describes it for readers of the JSON.
//!
//! Times are nanoseconds, rates messages per second, shares fractions of 1. What is not known in the mode the run was
//! in, or because events were lost, is `None` (`null`), never 0, and [`Report::notes`] says why.

use serde::{Deserialize, Serialize};

/// The name of the schema, in every report.
pub const SCHEMA: &str = "thalweg.report";
/// The version of the schema: raised when a field changes its meaning or goes. New fields do not raise it.
pub const VERSION: u32 = 1;

/// What a run did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`] of the schema.
    pub version: u32,
    /// Where this comes from.
    pub space: SpaceInfo,
    /// The time it speaks of.
    pub window: Window,
    /// What limits the flow, in a sentence.
    pub verdict: Verdict,
    /// Messages per second.
    pub throughput: Throughput,
    /// How long messages took.
    pub latency: Latency,
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
    /// Streams that did, in all; `broken` may be fewer.
    pub broken_count: u64,
    /// Workers in order of their ids.
    pub workers: Vec<Worker>,
    /// What is missing from this report, and why.
    pub notes: Vec<Note>,
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

/// How the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It lives and had not ended its run.
    Running,
    /// It ended its run orderly.
    Ended,
    /// It is gone without having ended its run.
    Killed,
}

/// The time a report speaks of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// From the first to the last moment known of the run.
    pub duration_ns: f64,
    /// How the process is.
    pub state: State,
    /// The modes it was in.
    pub modes: Vec<ModeSpan>,
    /// Whether every event of the run was seen, in mode full throughout.
    pub complete: bool,
    /// Where it is not complete: how much of the window's end the events speak of.
    pub events_ns: Option<f64>,
    /// Events seen.
    pub events: u64,
    /// Events lost: overwritten before they were read, or dropped.
    pub lost: u64,
    /// Places where events were lost.
    pub gaps: u64,
    /// Events that contradict themselves, such as a message count beyond reason; left out.
    pub malformed: u64,
}

/// A mode, for a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModeSpan {
    /// `off`, `metrics` or `full`.
    pub mode: String,
    /// From this moment of the window.
    pub from_ns: f64,
}

/// What limits the flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What kind of limit.
    pub kind: VerdictKind,
    /// The sentence.
    pub text: String,
    /// The component, if it is one.
    pub component: Option<String>,
    /// The worker, if it is one.
    pub worker: Option<u64>,
}

/// What kind of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// A task is busy nearly all the time.
    Task,
    /// A worker is busy nearly all the time.
    Worker,
    /// The network waits for its input.
    Source,
    /// The network waits for its output to be taken.
    Sink,
    /// Nothing is busy nearly all the time.
    Unclear,
    /// The mode does not tell.
    Unknown,
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
    /// Input messages seen entering.
    pub entered: u64,
    /// Of these, not yet left at the window's end.
    pub in_flight: u64,
    /// Of these, left, but not measured because something of them was lost.
    pub unmeasured: u64,
    /// Messages written whose input message is not known.
    pub unattributed: u64,
    /// Share of the execution time that belongs to known input messages.
    pub attributed_share: Option<f64>,
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
    /// Running.
    pub busy: f64,
    /// Waiting for messages.
    pub input_wait: f64,
    /// Waiting for room.
    pub output_wait: f64,
    /// Could have run, and did not.
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
    /// Of these, not ended.
    pub tasks_live: u64,
    /// What all of them did.
    pub work: Work,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: u64,
    /// Its component's path, and its replica in brackets where there are several.
    pub name: String,
    /// The worker it was on, `None` if it has a thread of its own.
    pub worker: Option<u64>,
    /// What it was doing at the window's end.
    pub state: String,
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
    /// Time it ran.
    pub busy_ns: Option<f64>,
    /// How its time divides.
    pub shares: Option<TaskShares>,
    /// Time it ran, per message read (or written, if it reads none).
    pub service_ns: Option<f64>,
    /// Records that failed.
    pub failed: u64,
    /// Tasks that ended by a panic or another failure.
    pub ended_badly: u64,
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
    /// Messages written = read + failed + held + dropped.
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
    /// Mean time of a message in them.
    pub wait_ns: Option<f64>,
    /// Share of time the writer waited for room in one.
    pub full_share: Option<f64>,
    /// Share of time the reader waited for messages of one.
    pub empty_share: Option<f64>,
    /// Whether every one conserved its messages.
    pub conserved: Option<bool>,
}

/// A stream whose messages do not add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrokenStream {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Written.
    pub written: u64,
    /// Read, failed ones included.
    pub read: u64,
    /// Dropped.
    pub dropped: u64,
    /// What does not add up.
    pub what: String,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its id.
    pub id: u64,
    /// The core it is pinned to.
    pub core: Option<u64>,
    /// From its start to its end.
    pub lifetime_ns: f64,
    /// How that divides.
    pub shares: Option<WorkerShares>,
    /// Times it ran a task.
    pub dispatches: Option<u64>,
    /// Messages its tasks read.
    pub messages: Option<u64>,
    /// The task it was on, if the process died then, or if it hangs in it.
    pub on_task: Option<String>,
    /// The message of that task it was on, counted from 0.
    pub on_message: Option<u64>,
    /// For how long it has not gone on from there, if it hangs: at least.
    pub stuck_ns: Option<f64>,
}

/// How a worker's time divides; the three sum to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerShares {
    /// Running tasks.
    pub busy: f64,
    /// Nothing to run.
    pub waiting: f64,
    /// Neither: scheduling, reading the clock.
    pub unaccounted: f64,
}

/// Something the report cannot say, or says with a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// A stable word for it.
    pub code: String,
    /// A sentence.
    pub text: String,
}
