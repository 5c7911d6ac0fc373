//! The result of a pull.

use crate::tuple::Batch;

/// The result of a pull.
#[derive(Clone, Debug, Default)]
pub struct Pulled {
    /// The tuples: in order of time, or one for each element.
    pub batch: Batch,
    /// The number of events that gaps in the batch count as lost.
    pub lost: u64,
    /// The number of tuples that are earlier than tuples of former pulls, because they were committed late.
    pub late: u64,
    /// The number of tuples that were left out: beyond the limit of groups, or by an operator that could not
    /// use them.
    pub left_out: u64,
    /// The bound on the error of differences between times; `None` if tuples come from machines whose clocks
    /// were not compared.
    pub bound_ns: Option<u64>,
    /// The processor time of the pull.
    pub cost_ns: u64,
    /// Errors of reading and evaluating; a scope reports each one once.
    pub problems: Vec<String>,
    /// Whether all processes have ended, no other can join, and all tuples were handed over.
    pub is_over: bool,
    /// The part of the processor time on threads other than the caller's.
    pub(crate) aside_ns: u64,
    /// The time after which more tuples will come.
    pub(crate) stopped_ns: Option<u64>,
}
