//! One network on several nodes.
//!
//! ```text
//!   thalweg run --nodes a,b            thalweg node --name a
//!   ┌───────────────────────┐ control  ┌────────────────┐ starts  ┌──────────────────────┐
//!   │ sources, sinks, root  ├─────────►│ membership,    ├────────►│ parts of the network │
//!   │ of the network        │          │ box libraries  │         │ of one session       │
//!   └──────────┬────────────┘          └────────────────┘         └──────────┬───────────┘
//!              └──────────────────────── links ──────────────────────────────┘
//! ```
//! A **node** ([`Node`]) is one process a machine. It knows the others, keeps box libraries by their hash, and starts a process of its own
//! for each session, which a box can bring down without the node. A **session** is one run: the process that began it has the
//! inputs and outputs and is its number 0, the nodes are 1, 2, …. All have the whole network; which components run
//! where follows from the text's `@`, a placement, or a mapper ([`Placement`]), and is worked out alike everywhere. Records
//! go over links of `thalweg-link`, straight from process to process.
//!
//! Control goes over connections of its own, each a question and an answer at a time ([`channel`]): the run asks its nodes twenty times
//! a second how they are, so a node that was killed is known within 100 ms and one that is stopped or cut off within the lease.
#![forbid(unsafe_code)]

pub mod channel;
mod cluster;
mod daemon;
mod fabric;
mod members;
mod part;
mod placement;
mod settings;
mod store;
mod watched;

pub use cluster::{Cluster, Known};
pub use daemon::{Node, NodeOptions};
pub use members::{Did, Loss, Members, MembersPlan, OnLoss, OnLost};
pub use part::serve_part;
pub use placement::Placement;
pub use settings::Settings;

/// How long a node may be silent until it counts as lost, by default.
pub const LEASE: std::time::Duration = std::time::Duration::from_secs(2);
