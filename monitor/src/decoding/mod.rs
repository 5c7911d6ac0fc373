//! Decodes the bytes of a space: typed events, rows of the live table, names and component paths.

pub(crate) mod called;
pub mod events;
pub(crate) mod names;
pub(crate) mod observation;
pub mod rows;
pub(crate) mod sizes;
pub(crate) mod texts;
