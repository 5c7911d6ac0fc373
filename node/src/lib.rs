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
//! A **node** ([`Node`]) is one process on each machine. A node knows the other nodes, keeps box libraries by
//! their hash, and starts a separate process for each session, so a box that crashes does not end the node. A
//! **session** is one run: the process that began it has the inputs and outputs and is number 0, the nodes
//! are 1, 2, …. All processes have the whole network; which components run where follows from `@` in the
//! network's text, a placement, or a mapper ([`Placement`]), and each process computes the same result.
//! Records travel over links of `thalweg-link`, directly from process to process.
//!
//! Control uses separate connections, each with one question and one answer at a time ([`channel`]). The run
//! polls its nodes' state up to 40 times a second, so the loss of a killed node is noticed within 100 ms, and
//! that of a stopped or disconnected node within the lease. A control connection that breaks while both
//! processes live is made again.
//!
//! A node also starts the half of a tuner of libraries ([`Half`], [`serve_half`]), and carries the tuner's questions.
#![forbid(unsafe_code)]

mod certificates;
pub mod channel;
mod cluster;
mod daemon;
mod fabric;
mod fetching;
mod folder;
mod hall;
mod held;
mod idle;
mod keeper;
mod members;
mod part;
mod placement;
mod settings;
mod shared_map;
mod store;
mod talk;
mod tuned;
mod watched;

pub use certificates::{DAYS_MAX, May};
pub use cluster::{Cluster, Known, Revoked};
pub use daemon::{Node, NodeOptions};
pub use members::{Did, Loss, Members, MembersPlan, OnJoined, OnLoss, OnLost};
pub use part::serve_part;
pub use placement::Placement;
pub use settings::Settings;
pub use tuned::{Half, serve_half};

/// How long a node may be silent until it counts as lost, by default.
pub const LEASE: std::time::Duration = std::time::Duration::from_secs(2);

#[cfg(test)]
mod tests;
