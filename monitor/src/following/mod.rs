//! Where all comes together: events are taken as they come, analysed, reported, judged; and a live run is asked by slowing it.

mod ahead;
pub(crate) mod analysis;
pub(crate) mod follower;
mod gathering;
mod notes;
pub(crate) mod perturb;
pub(crate) mod windows;
