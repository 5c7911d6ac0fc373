//! Boxes that are functions of a library or of the program.

pub(crate) mod plan;
pub(crate) mod seat;
mod task;

pub(crate) use self::task::{BoxTask, InitialiserTask};
