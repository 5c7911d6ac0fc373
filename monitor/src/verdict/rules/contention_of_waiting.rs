//! A worker that is kept from a processor and also waits, perhaps for other workers that are kept from their
//! processors. The rule `contention` supplies this rule's sentences.

use crate::report::Finding;
use crate::verdict::facts::Facts;
use crate::verdict::processor::kept_off;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    kept_off(facts, 0.0)
}
