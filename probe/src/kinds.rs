//! The kinds of event that probes record: calls, traces, hand-overs and messages between threads and
//! processes, counters, log lines.
//!
//! `kinds/probe.kinds` describes them for other languages. A call is one event, written when it ends: a
//! thread's calls come in the order of their ends, each with its *depth* (how many recorded calls of its
//! thread enclosed it), so the tree of a trace can be built without comparing times: the descendants of a
//! call are the calls of greater depth since the last call of its depth or less.
//!
//! A call of an `async` function runs in *stretches*: one for each time that its future is polled. The first
//! stretch is recorded like a call, each later one as [`Resumed`], so that the call is counted once.

use thalweg_space::{Kind, KindEnum};

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KindEnum)]
pub enum Outcome {
    /// The call returned.
    #[default]
    Returned = 0,
    /// The call returned, and the program reported that it failed.
    Failed = 1,
    /// An exception or a panic left the call.
    Unwound = 2,
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
pub enum Level {
    /// An error.
    Error = 1,
    /// A condition that may lead to an error.
    Warning = 2,
    /// Normal operation.
    Info = 3,
    /// Details for debugging.
    Debug = 4,
    /// Details of every step.
    Trace = 5,
}

/// A call ended (at this event's time).
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.called")]
pub struct Called {
    /// The operation: a site of the catalog.
    pub operation: u32,
    /// The number of recorded calls of this thread that enclosed the call.
    pub depth: u16,
    /// How the call ended.
    pub outcome: Outcome,
    /// The duration of the call.
    #[field(unit = "ticks")]
    pub duration: u64,
}

/// A further stretch of a call ended (at this event's time): the call had paused, and `probe.called` recorded
/// its first stretch.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.resumed")]
pub struct Resumed {
    /// The operation: a site of the catalog.
    pub operation: u32,
    /// The number of recorded calls of this thread that enclosed the stretch.
    pub depth: u16,
    /// How the stretch ended.
    pub outcome: Outcome,
    /// The duration of the stretch.
    #[field(unit = "ticks")]
    pub duration: u64,
}

/// A call ended of a function that is known by its address; the catalog's sites of the kind `mapping` record
/// at which addresses the function's file was mapped.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.called_address")]
pub struct CalledAddress {
    /// The address at which the function begins.
    pub address: u64,
    /// The duration of the call.
    #[field(unit = "ticks")]
    pub duration: u64,
    /// The number of recorded calls of this thread that enclosed the call.
    pub depth: u16,
    /// How the call ended.
    pub outcome: Outcome,
}

/// An object was made: its constructor ended (at this event's time).
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.constructed")]
pub struct Constructed {
    /// The constructor: a site of the catalog.
    pub operation: u32,
    /// The number of recorded calls of this thread that enclosed the call.
    pub depth: u16,
    /// How the call ended.
    pub outcome: Outcome,
    /// The duration of the call.
    #[field(unit = "ticks")]
    pub duration: u64,
    /// The object's number, which the program chose.
    pub object: u64,
}

/// A call began (at this event's time); `probe.left` records its end.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.entered")]
pub struct Entered {
    /// The operation: a site of the catalog.
    pub operation: u32,
    /// The number of recorded calls of this thread that enclose the call.
    pub depth: u16,
}

/// A call ended whose beginning `probe.entered` recorded.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.left")]
pub struct Left {
    /// The operation: a site of the catalog.
    pub operation: u32,
    /// The number of recorded calls of this thread that enclosed the call.
    pub depth: u16,
    /// How the call ended.
    pub outcome: Outcome,
}

/// The identity of this thread's trace, which belongs to the outermost call that encloses this event, or else
/// to the next call.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.trace_begun")]
pub struct TraceBegun {
    /// The trace's identity, high half.
    pub trace_high: u64,
    /// The trace's identity, low half.
    pub trace_low: u64,
    /// The span of another thread or process that the trace continues; 0: the trace begins here.
    pub parent: u64,
}

/// A thread handed over work that continues in another thread, or later.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.handed_over")]
pub struct HandedOver {
    /// The number of the handed-over work, unique among all processes.
    pub span: u64,
    /// The number of recorded calls of this thread that enclose this event.
    pub depth: u16,
}

/// A thread continues work that was handed over: the work is the outermost call that encloses this event, or
/// else the next call.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.taken_over")]
pub struct TakenOver {
    /// The number of the handed-over work.
    pub span: u64,
}

/// A message was sent, with the trace that this thread is in.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.sent")]
pub struct Sent {
    /// The message's number, unique among all processes: the parent's id in a `traceparent`.
    pub span: u64,
    /// The size of the message; 0: not known.
    #[field(unit = "bytes")]
    pub bytes: u64,
    /// The number of recorded calls of this thread that enclose this event.
    pub depth: u16,
}

/// A message was received.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.received")]
pub struct Received {
    /// The message's number; 0: not known.
    pub span: u64,
    /// The size of the message; 0: not known.
    #[field(unit = "bytes")]
    pub bytes: u64,
    /// The number of recorded calls of this thread that enclose this event.
    pub depth: u16,
}

/// A counter changed.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.counted")]
pub struct Counted {
    /// The counter: a site of the catalog.
    pub counter: u32,
    /// The amount added to the counter.
    pub by: i64,
}

/// A gauge was read.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.gauged")]
pub struct Gauged {
    /// The gauge: a site of the catalog.
    pub gauge: u32,
    /// The gauge's value.
    pub value: f64,
}

/// A line of a log.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.logged")]
pub struct Logged<'a> {
    /// The place in the program that logged the line: a site of the catalog; 0: not known.
    pub operation: u32,
    /// The line's severity.
    pub level: Level,
    /// The line's text.
    pub text: &'a str,
}
