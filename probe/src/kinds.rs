//! The kinds of event that probes record: calls, traces, hand-overs and messages between threads and
//! processes, counters, log lines.
//!
//! `kinds/probe.kinds` describes them for other languages. A call is one event, written when it ends: a thread's calls come in the order of
//! their ends, each with its *depth* (how many recorded calls of its thread enclosed it), so the tree of a
//! trace can be built without comparing times: the descendants of a call are the calls of greater depth since
//! the last call of its depth or less.

use thalweg_space::{Kind, KindEnum};

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KindEnum)]
pub enum Outcome {
    /// It returned.
    #[default]
    Returned = 0,
    /// It returned an error, as the program says.
    Failed = 1,
    /// An exception or a panic left it.
    Unwound = 2,
}

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
pub enum Level {
    /// It fails.
    Error = 1,
    /// It may fail.
    Warning = 2,
    /// What happens.
    Info = 3,
    /// For people who look for a mistake.
    Debug = 4,
    /// Every step.
    Trace = 5,
}

/// A call ended (at this event's time).
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.called")]
pub struct Called {
    /// The operation: a site of the catalog.
    pub operation: u32,
    /// How many recorded calls of this thread enclosed it.
    pub depth: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it lasted.
    #[field(unit = "ticks")]
    pub duration: u64,
}

/// A call ended of a function that is known by its address: the catalog's sites of the kind `mapping` say where its file lay.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.called_address")]
pub struct CalledAddress {
    /// Where the function begins.
    pub address: u64,
    /// How long it lasted.
    #[field(unit = "ticks")]
    pub duration: u64,
    /// How many recorded calls of this thread enclosed it.
    pub depth: u16,
    /// How it ended.
    pub outcome: Outcome,
}

/// An object was made: its constructor ended (at this event's time).
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.constructed")]
pub struct Constructed {
    /// The constructor: a site of the catalog.
    pub operation: u32,
    /// How many recorded calls of this thread enclosed it.
    pub depth: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it lasted.
    #[field(unit = "ticks")]
    pub duration: u64,
    /// The object, by a number of the program's own.
    pub object: u64,
}

/// A call began (at this event's time); `probe.left` tells its end.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.entered")]
pub struct Entered {
    /// The operation: a site of the catalog.
    pub operation: u32,
    /// How many recorded calls of this thread enclose it.
    pub depth: u16,
}

/// A call ended whose beginning `probe.entered` recorded.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.left")]
pub struct Left {
    /// The operation: a site of the catalog.
    pub operation: u32,
    /// How many recorded calls of this thread enclosed it.
    pub depth: u16,
    /// How it ended.
    pub outcome: Outcome,
}

/// The trace that this thread is in has this identity: that of the outermost call which encloses this event, or which comes next.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.trace_begun")]
pub struct TraceBegun {
    /// Its identity, high half.
    pub trace_high: u64,
    /// Low half.
    pub trace_low: u64,
    /// The span of another thread or process that it continues; 0: it begins here.
    pub parent: u64,
}

/// Work was handed over that goes on elsewhere: in another thread, or later.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.handed_over")]
pub struct HandedOver {
    /// A number for it that is unique among all processes.
    pub span: u64,
    /// How many recorded calls of this thread enclose this.
    pub depth: u16,
}

/// Work was taken over: the outermost call which encloses this event, or which comes next, is what was handed over.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.taken_over")]
pub struct TakenOver {
    /// Its number.
    pub span: u64,
}

/// A message was sent, with the trace that this thread is in.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.sent")]
pub struct Sent {
    /// A number for it that is unique among all processes: the parent's in a `traceparent`.
    pub span: u64,
    /// Its bytes; 0: not known.
    #[field(unit = "bytes")]
    pub bytes: u64,
    /// How many recorded calls of this thread enclose this.
    pub depth: u16,
}

/// A message was received.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.received")]
pub struct Received {
    /// Its number; 0: not known.
    pub span: u64,
    /// Its bytes; 0: not known.
    #[field(unit = "bytes")]
    pub bytes: u64,
    /// How many recorded calls of this thread enclose this.
    pub depth: u16,
}

/// A counter went on.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.counted")]
pub struct Counted {
    /// The counter: a site of the catalog.
    pub counter: u32,
    /// By how much.
    pub by: i64,
}

/// A gauge was read.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.gauged")]
pub struct Gauged {
    /// The gauge: a site of the catalog.
    pub gauge: u32,
    /// What it shows.
    pub value: f64,
}

/// A line for a log.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "probe.logged")]
pub struct Logged<'a> {
    /// Where in the program: a site of the catalog; 0: not known.
    pub operation: u32,
    /// How grave it is.
    pub level: Level,
    /// What it says.
    pub text: &'a str,
}
