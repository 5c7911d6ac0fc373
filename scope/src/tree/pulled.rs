//! What a pull gives.

use crate::tuple::Batch;

/// What a pull gave.
#[derive(Clone, Debug, Default)]
pub struct Pulled {
    /// The tuples: in order of time, or one for each element.
    pub batch: Batch,
    /// Events that gaps among them count as lost.
    pub lost: u64,
    /// Tuples of a time before that of others which were pulled before: they were committed late.
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
    /// Of the processor time, that of other threads than the one that pulled.
    pub(crate) aside_ns: u64,
    /// More is to come of a time after this.
    pub(crate) stopped_ns: Option<u64>,
}
