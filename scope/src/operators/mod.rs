//! Operators, which process tuples between the elements and the consumer.

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

/// The times of a pull, for operators that depend on time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Now, in nanoseconds since 1970.
    pub now_ns: u64,
    /// The time of the last pull; 0 if there was none.
    pub before_ns: u64,
    /// The time before which no more tuples will come, except late ones.
    pub complete_ns: u64,
    /// Whether no more tuples will come.
    pub is_end: bool,
}

/// State that operators share during a pull.
#[derive(Debug)]
pub(crate) struct During<'a> {
    pub(crate) moment: Moment,
    pub(crate) legend: Arc<Legend>,
    pub(crate) tables: &'a Tables,
    /// Problems of evaluation, each reported once.
    pub(crate) problems: Vec<String>,
    /// The number of tuples that an operator could not use.
    pub(crate) left_out: u64,
}
