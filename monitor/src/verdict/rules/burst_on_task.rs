//! A task is busy all the time, because a component before it writes many messages for each that it reads.

use super::saturated_task::{could_ask, pressed, replicas_gain};
use crate::report::{Finding, Words};
use crate::verdict::facts::Facts;
use crate::verdict::flood::flooded;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (task, shares) = facts.saturated_task()?;
    let found = Finding { worker: task.worker, ..flooded(facts, task, shares.busy)? };
    Some(pressed(found, facts, task))
}

pub(super) fn describe(found: &Finding) -> Words {
    let (by, path) = (found.path(), found.task_path());
    Words::text(format!(
        "Bursts of {by} limit the flow: it writes {:.0} messages for each it reads, and {} cannot keep up with them.",
        found.value("written_per_read"),
        if by == path { "the component that reads them" } else { path }
    ))
    .because(could_ask(found))
    .so(match replicas_gain(found) {
        true => format!("replicate {path}, or let {by} write less"),
        false => format!("let {by} write less, or give the run more workers: none has time for a replica of {path}"),
    })
}
