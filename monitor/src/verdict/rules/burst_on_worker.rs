//! A worker is busy all the time, and a component before its busiest task writes many messages for each that
//! it reads. The rule `burst_on_task` supplies this rule's sentences.

use crate::report::Finding;
use crate::verdict::facts::Facts;
use crate::verdict::flood::flooded;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (worker, _) = facts.saturated_worker()?;
    // If several workers are all busy, there is too much work for the workers, whether it comes in bursts or
    // not.
    let saturated = facts.saturated_workers();
    if saturated == facts.workers.len() && saturated > 1 {
        return None;
    }
    let (task, shares) = facts.busiest_on(worker.id)?;
    Some(flooded(facts, task, shares.busy)?.on_worker(worker.id))
}
