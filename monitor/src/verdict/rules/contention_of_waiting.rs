//! A worker that is kept from a processor and also waits, perhaps for other workers that are kept from their
//! processors. This rule has the words of `contention`.

use crate::report::Finding;
use crate::verdict::facts::Facts;
use crate::verdict::processor::kept_off;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    kept_off(facts, 0.0)
}
