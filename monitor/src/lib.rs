//! Measurements of a run, from its events: a streaming analysis with bounded memory.
//!
//! [`Analysis`] consumes [`Observation`]s in order of time and makes a [`Report`]: throughput, latencies and
//! jitter by the LPEL paper's equations, how every task's and worker's time divides, what went through every
//! stream and whether it adds up, and one sentence that says what limits the flow.
//!
//! This crate imports nothing of the observed side: it recognises kinds of events only by their names and
//! fields in a space's catalog. What a run did not record (because of its mode, or because events were
//! overwritten) is reported as missing, never as zero.
#![forbid(unsafe_code)]

mod calls;
mod composing;
mod decoding;
mod following;
mod heartbeat;
mod ids;
mod lineage;
mod monitor;
mod monitors;
mod report;
mod verdict;
mod whatif;
mod wording;

pub use calls::{
    Calls, Counter, Edge, Gauge, LogLine, OpenCall, OperationCalls, PathNode, Sequence, SequenceCall,
    SlowTrace, TimesOf, calls, calls_while, sequences,
};
pub use composing::bases::{Bases, WholeDispatch};
pub use composing::dispatch::{Dispatch, For, Item, Outcome, Value, Wait, What};
pub use composing::structure::{Role, Structure};
pub use decoding::called::{Called, Refers};
pub use decoding::events::{self, Observation};
pub use decoding::names::{Names, SiteName, names, number_equal_names};
pub use decoding::observation::{
    Besides, LiveRow, LiveState, Mode, Run, StreamTotals, TaskCounts, TaskTotals, live_rows,
};
pub use decoding::rows;
pub use decoding::sizes::Sizes;
pub use decoding::texts::Text;
pub use following::analysis::{Analysis, Options};
pub use following::follower::{Follower, report, report_space};
pub use following::over_links::over_links;
pub use following::perturb::{Dependence, Interplay, Perturbed, Together, Tried, Unperturbed, perturb};
pub use following::stories::{slowest, stories, story};
pub use heartbeat::{Heartbeat, Standing, Still};
pub use ids::{IdHasher, IdMap, StreamId, TaskId, WorkerId};
pub use lineage::message::{MessageId, NotAMessage};
pub use lineage::story::{Hop, Story};
pub use monitor::{Batch, Ending, Moment, Monitor, Open};
pub use monitors::{LINK_COUNTED, LinkCount, LinkEnd, LinkEnds};
pub use report::{
    Action, Alternative, Asleep, Behind, BehindRecord, BrokenStream, BusyAccount, CommandLine, Component,
    Deadlock, Distribution, Expensive, ExpensiveBy, FailedMessage, Figure, Finding, Hanging, Latency, Limits,
    LinkUse, Measured, Measurement, MessageTimes, ModeSpan, NewValue, Note, Occupancy, OverLinks, Overhead,
    Phase, Processors, Replay, Report, Root, RootState, SCHEMA, SleepsFor, SpaceInfo, State, Stream,
    StreamRef, Subject, Suggestion, Task, TaskRef, TaskShares, Throughput, Utilisation, VERSION, Verdict,
    VerdictKind, Volume, WaitEdge, WaitNow, Waiting, Window, Words, Work, Worker, WorkerShares,
};
pub use verdict::{THRESHOLDS, Threshold, account_is_sure, rule_names};
pub use whatif::{
    Change, Comparison, Difference, Judging, Predicted, Unfolding, WhatIf, compare, judged, what_if,
};
