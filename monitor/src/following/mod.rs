//! Where all comes together: events are taken as they come, analysed, reported, judged; and a live run is asked by slowing it.

pub(crate) mod analysis;
pub(crate) mod follower;
mod notes;
pub(crate) mod perturb;
