//! What is reported of a program's calls: operations, their callers, trees of paths, slow and failed traces, counters.

use serde::Serialize;

/// The calls of a space or session.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Calls {
    /// The version of this structure.
    pub version: u32,
    /// From the first event of a probe to the last, in seconds.
    pub seconds: f64,
    /// Calls recorded.
    pub calls: u64,
    /// Events that were overwritten, dropped or damaged.
    pub lost: u64,
    /// Events for which no element could be made.
    pub not_recorded: u64,
    /// Traces whose outermost call has no known caller.
    pub traces: u64,
    /// One trace in so many was recorded last, in the process that recorded fewest.
    pub sample: u64,
    /// Operations, those with the most own time first.
    pub operations: Vec<OperationCalls>,
    /// Who calls whom, the most time first.
    pub edges: Vec<Edge>,
    /// Calls by their paths from the outermost, a node after the one that it is below.
    pub tree: Vec<PathNode>,
    /// The slowest traces, and of those with an outermost call that failed the slowest.
    pub slowest: Vec<SlowTrace>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Gauges.
    pub gauges: Vec<Gauge>,
    /// The last log lines.
    pub log: Vec<LogLine>,
    /// Calls whose beginning was recorded, and whose end was not.
    pub open: Vec<OpenCall>,
    /// What the figures do not show, in words.
    pub notes: Vec<String>,
}

/// An operation's calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OperationCalls {
    /// Its number in this report.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// What it is part of: its name up to the last `::` or `.`, else its file.
    pub component: String,
    /// The space, or spaces, in which it was called.
    pub process: String,
    /// Where it is in the program; empty: not known.
    pub file: String,
    /// The line; 0: not known.
    pub line: u32,
    /// How many calls.
    pub count: u64,
    /// Calls a second of the whole time.
    pub rate: f64,
    /// Calls that failed, as the program says.
    pub failed: u64,
    /// Calls that an exception or a panic left.
    pub unwound: u64,
    /// Time from entry to exit.
    pub total: TimesOf,
    /// The same without the time of the recorded calls that these made; of calls all of whose events are there.
    pub own: TimesOf,
    /// Calls whose own time is not known: events in them are lost.
    pub incomplete: u64,
}

/// Times of calls, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TimesOf {
    /// All together.
    pub sum_ns: f64,
    /// Half of the calls take no longer.
    pub p50_ns: f64,
    /// 99 of 100.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// Calls of one operation by another.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Edge {
    /// The operation that calls; none: nothing that is recorded.
    pub caller: Option<u32>,
    /// The operation that is called.
    pub callee: u32,
    /// How often.
    pub count: u64,
    /// Calls that failed or were left by an exception.
    pub failed: u64,
    /// Time in them.
    pub total_ns: f64,
    /// Whether through a hand-over or a message, not by a call.
    pub is_remote: bool,
}

/// Calls at one path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PathNode {
    /// The node that it is below, by its place in the list.
    pub parent: Option<usize>,
    /// The operation.
    pub operation: u32,
    /// How often.
    pub count: u64,
    /// Calls that failed or were left by an exception.
    pub failed: u64,
    /// Time in them.
    pub total_ns: f64,
    /// The same without the time of the calls below, but for those through a hand-over or a message.
    pub own_ns: f64,
    /// The node is below the other by a hand-over or a message.
    pub is_remote: bool,
}

/// One trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlowTrace {
    /// When it began, in seconds from the first event of a probe.
    pub begin_s: f64,
    /// How long it took.
    pub total_ns: f64,
    /// Its outermost call failed, or was left by an exception.
    pub is_failed: bool,
    /// Its calls by path, as in [`Calls::tree`].
    pub tree: Vec<PathNode>,
}

/// A counter.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// By how much it went on.
    pub sum: i64,
    /// How often.
    pub count: u64,
}

/// A gauge.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Gauge {
    /// Its name.
    pub name: String,
    /// What it showed last.
    pub last: f64,
    /// The least that it showed.
    pub min: f64,
    /// The most that it showed.
    pub max: f64,
    /// How often it was read.
    pub count: u64,
}

/// A log line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogLine {
    /// In seconds from the first event of a probe.
    pub time_s: f64,
    /// `error`, `warning`, `info`, `debug`, `trace`.
    pub level: &'static str,
    /// Where in the program; empty: not known.
    pub place: String,
    /// What it says.
    pub text: String,
}

/// A call whose beginning was recorded.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OpenCall {
    /// The operation.
    pub name: String,
    /// When it began, in seconds from the first event of a probe.
    pub begin_s: f64,
}
