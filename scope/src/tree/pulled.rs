//! The result of a pull.

use crate::tuple::Batch;

/// The result of a pull.
#[derive(Clone, Debug, Default)]
pub struct Pulled {
    /// The tuples: in order of time, or one for each element.
    pub batch: Batch,
    /// Events that gaps among them count as lost.
    pub lost: u64,
    /// Tuples of an earlier time than others that were pulled before: they were committed late.
    pub late: u64,
    /// Tuples that no group or kind has a place for.
    pub left_out: u64,
    /// The bound on the error of times between tuples; `None`: they come from machines whose clocks were not compared.
    pub bound_ns: Option<u64>,
    /// Processor time that the pull took.
    pub cost_ns: u64,
    /// What could not be read or evaluated; a scope reports each problem once.
    pub problems: Vec<String>,
    /// All processes have ended, no other can join, and nothing is left.
    pub is_over: bool,
    /// The part of the processor time that threads other than the caller's took.
    pub(crate) aside_ns: u64,
    /// More tuples of a time after this will come.
    pub(crate) stopped_ns: Option<u64>,
}
