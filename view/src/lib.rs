//! Pictures of a run: the data of a page, for a file and for a live run; the page itself; drawings.
//!
//! [`Timeline`] is a monitor that records the state of every task over time; [`Network`] lays out components
//! and streams; [`Page`] contains both and the report. This crate opens no files or sockets and prints
//! nothing.

#![forbid(unsafe_code)]

mod changes;
mod counting;
mod decisions;
mod filling;
pub mod flow;
mod kept;
mod lanes;
pub mod layers;
mod levels;
mod links;
pub mod names;
mod network;
mod page;
pub mod palette;
mod summary;
pub mod svg;
mod timeline;
pub mod units;

pub use changes::Changes;
pub use decisions::Decisions;
pub use kept::Kept;
pub use lanes::{Decided, GapPage, Process, Spans, TaskLane, TimelinePage, WorkerLane};
pub use levels::{KnownTask, Levels};
pub use links::LinkPage;
pub use network::{Line, Network, Node};
pub use page::{
    Applied, CallsPage, Json, Live, Made, MessageStory, Other, Page, SCHEMA, Setting, VERSION, escaped,
    policy, served,
};
pub use summary::{Cell, STATES, State, Summary};
pub use timeline::{Shared, Timeline};
