//! Composes single events into complete dispatches and waits, and keeps the tasks and streams of a run.

pub(crate) mod base;
pub(crate) mod bases;
pub(crate) mod composer;
pub(crate) mod dispatch;
mod open_dispatch;
pub(crate) mod structure;
pub(crate) mod timeline;
