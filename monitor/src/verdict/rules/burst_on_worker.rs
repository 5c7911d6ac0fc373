//! A worker is busy all the time, and a component before its busiest task writes many messages for each that it reads. Worded as
//! `burst_on_task` is.

use crate::report::Finding;
use crate::verdict::facts::Facts;
use crate::verdict::flood::flooded;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (worker, _) = facts.saturated_worker()?;
    // Where several workers are all busy there is too much work, in bursts or not.
    let saturated = facts.saturated_workers();
    if saturated == facts.workers.len() && saturated > 1 {
        return None;
    }
    let (task, shares) = facts.busiest_on(worker.id)?;
    Some(flooded(facts, task, shares.busy)?.on_worker(worker.id))
}
