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
mod base;
mod compose;
mod decode;
mod distribution;
pub mod events;
mod ids;
mod lineage;
mod message;
mod monitor;
mod monitors;
mod notes;
mod observation;
mod perturb;
mod report;
mod roots;
mod story;
mod structure;
mod sums;
mod texts;
mod timeline;
mod verdict;

pub use analysis::{Analysis, Ending, Names, Options, SiteName};
pub use decode::{Follower, names, report_space, slowest, story};
pub use events::Observation;
pub use message::{Message, NotAMessage};
pub use monitor::{Batch, Dispatch, For, Item, Moment, Monitor, Open, Outcome, Value, Wait, What};
pub use observation::{Besides, LiveRow, LiveState, Mode, Run, StreamTotals, TaskCounts, TaskTotals};
pub use perturb::{Dependence, Perturbed, Tried, Unperturbed, perturb};
pub use report::{
    Action, BrokenStream, CommandLine, Component, Deadlock, Distribution, FailedMessage, Figure, Finding,
    Latency, Measured, Measurement, MessageTimes, ModeSpan, NewValue, Note, Occupancy, Report, Root,
    RootState, SCHEMA, SpaceInfo, State, Stream, StreamRef, Subject, Task, TaskRef, TaskShares, Telling,
    Throughput, Utilisation, VERSION, Verdict, VerdictKind, WaitEdge, WaitNow, Waiting, Window, Words, Work,
    Worker, WorkerShares,
};
pub use story::{Hop, Story};
pub use structure::{Role, Structure};
pub use texts::Text;
pub use verdict::{THRESHOLDS, Threshold, rule_names};
