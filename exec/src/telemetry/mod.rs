//! Telemetry: what the runtime records about itself, as events in a space and as rows of its live table.
//!
//! The runtime calls telemetry at named moments ("a dispatch begins", "a task is woken"); only this module
//! decides what is written then, and in which mode. [`Telemetry`] is the state of a thread, [`Board`] that of
//! all threads of a runtime, and [`TaskTelemetry`] and [`StreamTelemetry`] are kept with each task and
//! stream.
//!
//! This module does not depend on how tasks and streams work: it uses only [`WatchedTask`] and
//! [`WatchedStream`].
//!
//! | file | what |
//! |---|---|
//! | `kinds`, `rows` | the kinds of event and of live row |
//! | `recorder` | the writer of a thread's events |
//! | `mode` | how much is recorded |
//! | `board` | the state that all threads of a runtime share, and the moments outside workers' threads |
//! | `task`, `stream` | the state kept with each task and stream |
//! | `lineage` | the lineage of messages in one dispatch |
//! | `making` | how a task that a running task makes is recorded |
//! | `clock` | a thread's time |
//! | `base` | what dispatches of a task have in common |
//! | `dispatches` | how a dispatch is recorded |
//! | `sizes`, `measuring` | the sizes of messages, and when a thread measures them |
//! | `thread` | the telemetry of a thread, and the moments of tasks and streams |
//! | `worker` | the moments of a worker |
//! | `threads` | the threads that dispatch tasks, for the sampler |
//! | `sampler` | the thread that samples what threads do in tasks |

mod base;
mod board;
mod clock;
mod dispatches;
mod kinds;
mod lineage;
mod making;
mod measuring;
mod mode;
mod recorder;
mod rows;
mod sampler;
mod sizes;
mod stream;
mod task;
mod thread;
mod threads;
mod worker;

pub(crate) use base::MadeReady;
pub(crate) use board::Board;
pub(crate) use kinds::{Cause, Deadlocked, OWN_THREAD};
pub(crate) use measuring::SizeBudget;
pub use mode::Mode;
pub(crate) use recorder::Recorder;
pub(crate) use rows::TaskState;
pub(crate) use sampler::Sampler;
pub(crate) use stream::{StreamTelemetry, WatchedStream};
pub(crate) use task::{About, Counts, Origin, Share, TaskTelemetry, WatchedTask};
pub(crate) use thread::Telemetry;
