//! From single events to what belongs together: each dispatch as a whole, each wait, and what exists in a run.

pub(crate) mod base;
pub(crate) mod bases;
pub(crate) mod composer;
pub(crate) mod dispatch;
mod open_dispatch;
pub(crate) mod structure;
pub(crate) mod timeline;
