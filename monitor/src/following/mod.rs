//! Following a run: events are taken as they come, analysed, reported and judged; and tasks of a live run are slowed on trial.

mod ahead;
pub(crate) mod analysis;
pub(crate) mod follower;
mod gathering;
mod notes;
pub(crate) mod perturb;
pub(crate) mod windows;
