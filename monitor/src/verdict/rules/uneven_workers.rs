//! A worker that repeatedly waits for threads to be woken, and has most of the tasks. The rule `mapping`
//! supplies this rule's sentences.

use crate::report::Finding;
use crate::verdict::facts::{Facts, load};
use crate::verdict::moving::better_mapping;
use crate::verdict::thresholds::{UNEVEN, UNEVEN_TIMES};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (high, low) = (load(&facts.workers.first()?.1), load(&facts.workers.last()?.1));
    if facts.keeps_up() || high < UNEVEN || high < UNEVEN_TIMES * low {
        return None;
    }
    better_mapping(facts)
}
