//! Operators: what is done with tuples between the elements and the consumer.

mod aggregate;
mod convert;
mod filter;
mod limit;
mod naming;
mod own;
mod reduce;
mod sketch;
mod top;

pub(crate) use aggregate::Aggregation;
pub(crate) use convert::{Convert, Made};
pub(crate) use filter::Filter;
pub(crate) use limit::Limit;
pub(crate) use naming::Names;
pub use own::{Making, Operator};
pub use reduce::Every;
pub(crate) use reduce::{Part, Reduce};
pub use sketch::Sketch;
pub(crate) use top::top;

use crate::tuple::{Legend, Tables};
use std::sync::Arc;

/// When a pull is, for operators that count by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Now, in nanoseconds since 1970.
    pub now_ns: u64,
    /// When the pull before was; 0: there was none.
    pub before_ns: u64,
    /// No tuple of an earlier time is to come, but for those that are late.
    pub complete_ns: u64,
    /// Nothing is to come at all.
    pub is_end: bool,
}

/// What operators share in a pull.
#[derive(Debug)]
pub(crate) struct During<'a> {
    pub(crate) moment: Moment,
    pub(crate) legend: Arc<Legend>,
    pub(crate) tables: &'a Tables,
    /// What cannot be evaluated, each reported once.
    pub(crate) problems: Vec<String>,
    /// Tuples that an operator could not place.
    pub(crate) left_out: u64,
}
