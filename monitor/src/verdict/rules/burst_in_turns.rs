//! No task is busy all the time: between bursts the tasks behind them wait. Worded as `burst_on_task` is.

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
