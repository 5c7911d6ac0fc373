//! The report on a program's calls: operations, their callers, trees of paths, slow and failed traces,
//! counters.

use serde::Serialize;

/// The calls of a space or session.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Calls {
    /// The version of this structure.
    pub version: u32,
    /// The time from the first event of a probe to the last, in seconds.
    pub seconds: f64,
    /// Calls recorded.
    pub calls: u64,
    /// Events that were overwritten, dropped or damaged.
    pub lost: u64,
    /// The number of events not recorded because their element could not be created.
    pub not_recorded: u64,
    /// Traces whose outermost call has no known caller.
    pub traces: u64,
    /// The last sampling rate: one in `sample` traces was recorded, in the process that recorded the smallest
    /// share.
    pub sample: u64,
    /// Operations, those with the most own time first.
    pub operations: Vec<OperationCalls>,
    /// Pairs of caller and callee, the pair with the most time first.
    pub edges: Vec<Edge>,
    /// Calls by their paths from the outermost, each node after its parent.
    pub tree: Vec<PathNode>,
    /// The slowest traces, and the slowest traces whose outermost call failed.
    pub slowest: Vec<SlowTrace>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Gauges.
    pub gauges: Vec<Gauge>,
    /// The last log lines.
    pub log: Vec<LogLine>,
    /// Calls whose beginning was recorded, and whose end was not.
    pub open: Vec<OpenCall>,
    /// Limitations of the figures, each as a sentence.
    pub notes: Vec<String>,
}

/// An operation's calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OperationCalls {
    /// The operation's number in this report.
    pub id: u32,
    /// The operation's name.
    pub name: String,
    /// The operation's component: the operation's name up to the last `::` or `.`, else its file.
    pub component: String,
    /// The space, or spaces, in which the operation was called.
    pub process: String,
    /// The host, or hosts, on which the operation was called.
    pub host: String,
    /// The operation's source file; empty if not known.
    pub file: String,
    /// The operation's line; 0 if not known.
    pub line: u32,
    /// The number of the operation's calls.
    pub count: u64,
    /// The number of further stretches of these calls, if the calls paused, as those of `async` functions do.
    pub resumed: u64,
    /// The operation's calls a second, over [`Calls::seconds`].
    pub rate: f64,
    /// Calls that failed, as the program recorded.
    pub failed: u64,
    /// Calls that ended by an exception or a panic.
    pub unwound: u64,
    /// The time from entry to exit; of a call that paused, each stretch is a time of its own.
    pub total: TimesOf,
    /// The time from entry to exit without the time in recorded callees, for calls whose events were all
    /// read.
    pub own: TimesOf,
    /// Calls whose own time is not known because events within them were lost.
    pub incomplete: u64,
}

/// Times of calls, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TimesOf {
    /// The sum of all times.
    pub sum_ns: f64,
    /// The time that half of the calls do not exceed.
    pub p50_ns: f64,
    /// The time that 99 of 100 calls do not exceed.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// Calls of one operation by another.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Edge {
    /// The calling operation; `None` if no caller was recorded.
    pub caller: Option<u32>,
    /// The operation that is called.
    pub callee: u32,
    /// The number of calls.
    pub count: u64,
    /// Calls that failed or were left by an exception.
    pub failed: u64,
    /// The total time of the calls.
    pub total_ns: f64,
    /// Whether the callee was reached through a hand-over or a message instead of a call.
    pub is_remote: bool,
}

/// Calls at one path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PathNode {
    /// The index of the node's parent in the list of nodes.
    pub parent: Option<usize>,
    /// The operation.
    pub operation: u32,
    /// The number of calls.
    pub count: u64,
    /// Calls that failed or were left by an exception.
    pub failed: u64,
    /// The total time of the calls.
    pub total_ns: f64,
    /// The total time without the time of the child nodes, except children reached through a hand-over or a
    /// message.
    pub own_ns: f64,
    /// Whether the node's parent reached the node through a hand-over or a message.
    pub is_remote: bool,
}

/// One trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlowTrace {
    /// When the call began, in seconds from the first event of a probe.
    pub begin_s: f64,
    /// The duration of the trace.
    pub total_ns: f64,
    /// Whether the outermost call of the trace failed or ended by an exception.
    pub is_failed: bool,
    /// The calls of the trace by path, as in [`Calls::tree`].
    pub tree: Vec<PathNode>,
}

/// A counter.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counter {
    /// The counter's name.
    pub name: String,
    /// The sum of all amounts that were added to the counter.
    pub sum: i64,
    /// The number of times that an amount was added to the counter.
    pub count: u64,
}

/// A gauge.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Gauge {
    /// The gauge's name.
    pub name: String,
    /// The gauge's last value.
    pub last: f64,
    /// The gauge's least value.
    pub min: f64,
    /// The gauge's greatest value.
    pub max: f64,
    /// The number of times that the gauge was read.
    pub count: u64,
}

/// A log line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogLine {
    /// The time, in seconds from the first event of a probe.
    pub time_s: f64,
    /// `error`, `warning`, `info`, `debug`, `trace`.
    pub level: &'static str,
    /// The place in the program that logged the line; empty if not known.
    pub place: String,
    /// The text of the log line.
    pub text: String,
}

/// A call whose start was recorded, and whose end was not.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OpenCall {
    /// The operation.
    pub name: String,
    /// When the call began, in seconds from the first event of a probe.
    pub begin_s: f64,
}
