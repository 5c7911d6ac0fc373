//! Measurements of a run, from its events: a streaming analysis with bounded memory.
//!
//! [`Analysis`] consumes [`Observation`]s in order of time and makes a [`Report`]: throughput, latencies and jitter by
//! the LPEL paper's equations, how every task's and worker's time divides, what went through every stream and whether
//! it adds up, and a first sentence on what limits the flow.
//!
//! The observed side is unknown here: kinds of events are known by the names and fields in a space's catalog only. What
//! a run did not tell (its mode, events overwritten) is reported as missing, never as zero.
#![forbid(unsafe_code)]

mod analysis;
mod decode;
mod distribution;
mod ids;
mod lineage;
mod observation;
mod report;
mod roots;
mod stream;
mod task;
mod verdict;

pub use analysis::{Analysis, Ending, Names, Options, SiteName};
pub use decode::{names, report_space};
pub use observation::{
    Derived, LiveRow, LiveState, Mode, Observation, Run, StreamTotals, TaskCounts, TaskTotals,
};
pub use report::{
    BrokenStream, Component, Distribution, Latency, ModeSpan, Note, Report, SCHEMA, SpaceInfo, State, Stream,
    Task, TaskShares, Throughput, VERSION, Verdict, VerdictKind, Window, Work, Worker, WorkerShares,
};
