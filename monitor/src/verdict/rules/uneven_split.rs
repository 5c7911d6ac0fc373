//! One of several replicas gets more messages than the others.

use super::saturated_task::could_ask;
use super::slow_replica::alone;
use crate::report::{Finding, Words};
use crate::verdict::facts::Facts;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    alone(facts).map(|(found, ..)| found)
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "{} limits the flow: it gets most of the messages and is busy {} of the time, the other replicas {}.",
        found.task_name(),
        found.percent("busy"),
        found.percent("busy_others")
    ))
    .because(could_ask(found))
    .so("split by a tag that spreads the messages more evenly")
}
