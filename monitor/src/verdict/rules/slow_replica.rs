//! One of several replicas takes longer for a message than the others.

use super::saturated_task::{could_ask, pressed};
use crate::report::{Figure, Finding, Task, TaskShares, VerdictKind, Words, component_of};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::{SHARED, SLOWER};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (found, service_ns, others_ns) = alone(facts)?;
    (service_ns >= SLOWER * others_ns).then_some(found)
}

/// A finding about a replica that is busy all the time, or makes up most of the busy time of the only saturated
/// worker, while the others are not busy; with the time of a message in it and in the others.
pub(super) fn alone(facts: &Facts<'_>) -> Option<(Finding, f64, f64)> {
    let (task, shares) = facts.saturated_task().or_else(|| facts.prevailing_task())?;
    let path = component_of(&task.name);
    let is_other = |other: &Task| other.id != task.id && component_of(&other.name) == path;
    let others: Vec<(&Task, TaskShares)> = facts.tasks().filter(|(other, _)| is_other(other)).collect();
    let mean = |value: &dyn Fn(&(&Task, TaskShares)) -> f64| {
        others.iter().map(value).sum::<f64>() / others.len() as f64
    };
    let busy_others = mean(&|(_, shares)| shares.busy);
    if others.is_empty() || busy_others > SHARED * shares.busy {
        return None;
    }
    let service_ns = task.work.service_ns?;
    let others_ns = mean(&|(other, _)| other.work.service_ns.unwrap_or(0.0));
    let found = Finding { worker: task.worker, ..Finding::new(VerdictKind::Replica).about_task(task) }
        .with(Figure::share("busy", shares.busy).of(task))
        .with(Figure::share("busy_others", busy_others))
        .with(Figure::new("service_ns", service_ns, "ns").of(task))
        .with(Figure::new("service_ns_others", others_ns, "ns"));
    Some((pressed(found, facts, task), service_ns, others_ns))
}

pub(super) fn describe(found: &Finding) -> Words {
    let times = found.value("service_ns") / found.value("service_ns_others").max(1.0);
    Words::text(format!(
        "{} limits the flow: it takes {times:.1} times as long for a message as the other replicas, and is busy {} of the time.",
        found.task_name(),
        found.percent("busy")
    ))
    .because(could_ask(found))
    .so("find out what is special about the messages it gets, or spread them")
}
