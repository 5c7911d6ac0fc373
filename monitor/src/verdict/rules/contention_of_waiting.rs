//! A worker that is not given a processor, and waits besides: perhaps for others that have none. Said as `contention` is.

use crate::report::Finding;
use crate::verdict::facts::Facts;
use crate::verdict::processor::kept_off;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    kept_off(facts, 0.0)
}
