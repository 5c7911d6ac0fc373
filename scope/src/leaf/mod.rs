//! The leaves of a view: they find processes, and make tuples of the events and live rows.

mod clocks;
mod columns;
mod decoder;
mod find;
mod source;
mod taken;
mod tasks;
mod texts;

pub(crate) use clocks::Clocks;
pub use find::Target;
pub(crate) use find::{Finder, Found};
pub(crate) use source::{Source, Taken};
