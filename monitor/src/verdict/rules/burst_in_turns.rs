//! A component writes bursts, and no task is busy all the time because the tasks after it wait between
//! bursts. The rule `burst_on_task` supplies this rule's sentences.

use crate::report::Finding;
use crate::verdict::facts::Facts;
use crate::verdict::flood::flooded;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    if facts.keeps_up() {
        return None;
    }
    let (task, shares) = facts.inside().max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))?;
    Some(flooded(facts, task, shares.busy)?.rooted(facts))
}
