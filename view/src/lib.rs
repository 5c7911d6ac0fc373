//! Pictures of a run: what a page shows as data, for a file and for a live run alike; the page itself; drawings.
//!
//! [`Timeline`] is a monitor that keeps what every task did, when; [`Network`] lays out components and streams; [`Page`] holds both beside the
//! report. Nothing here opens files, listens or prints: the program does.

#![forbid(unsafe_code)]

mod changes;
mod filling;
pub mod flow;
mod kept;
mod lanes;
pub mod layers;
mod levels;
pub mod names;
mod network;
mod page;
pub mod palette;
mod summary;
pub mod svg;
mod timeline;
pub mod units;

pub use changes::Changes;
pub use kept::Kept;
pub use lanes::{Decided, GapPage, Process, Spans, TaskLane, TimelinePage, WorkerLane};
pub use levels::{KnownTask, Levels};
pub use network::{Line, Network, Node};
pub use page::{
    Applied, CallsPage, Json, Live, Made, MessageStory, Other, Page, SCHEMA, Setting, VERSION, escaped,
    policy, served,
};
pub use summary::{Cell, STATES, State, Summary};
pub use timeline::{Shared, Timeline};
