//! Following a run: events are read as they are recorded, analysed and reported. Tasks of a live run can be
//! slowed as an experiment.

mod ahead;
pub(crate) mod analysis;
mod copied;
pub(crate) mod follower;
mod gathering;
mod map;
pub(crate) mod notes;
pub(crate) mod over_links;
pub(crate) mod perturb;
pub(crate) mod stories;
pub(crate) mod windows;
