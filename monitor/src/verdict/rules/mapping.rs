//! A worker that is busy all the time while another has time for one of its tasks.

use crate::report::{Finding, TaskRef, Words};
use crate::verdict::facts::Facts;
use crate::verdict::moving::better_mapping;
use crate::wording::percent;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    facts.saturated_worker()?;
    better_mapping(facts)
}

pub(super) fn describe(found: &Finding) -> Words {
    let (hot, cold) = (found.worker_of("busy"), found.worker_of("busy_least"));
    let task = found.task.as_ref().map_or("", |TaskRef { name, .. }| name);
    let gain = found.actions.first().and_then(|action| action.gain()).unwrap_or(0.0);
    Words::text(format!(
        "The mapping limits the flow: worker {hot} is busy {} of the time, worker {cold} {}.",
        found.percent("busy"),
        found.percent("busy_least")
    ))
    .because(format!("{task} takes {} of worker {hot}", found.percent("busy_with_task")))
    .so(format!("move {task} to worker {cold} (`{}`): up to {} more", found.action(), percent(gain)))
}
