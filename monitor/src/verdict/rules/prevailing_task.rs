//! A box that makes up most of the busy time of the only saturated worker.

use super::saturated_task::{could_ask, in_kernel, pressed, suggestion};
use crate::report::{Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::{Facts, load};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (task, shares) = facts.prevailing_task()?;
    let (hot, of_worker) = facts.saturated_worker()?;
    let busy = load(&of_worker);
    let found = Finding { worker: Some(hot.id), ..Finding::new(VerdictKind::Task).about_task(task) };
    let found = found
        .with(Figure::share("work", shares.busy / busy).of(task))
        .with(Figure::share("busy", busy).of(hot));
    Some(pressed(in_kernel(found, facts, task), facts, task))
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "{} limits the flow: it takes {} of the time of worker {}, which is busy {} of the time.",
        found.task_name(),
        found.percent("work"),
        found.worker_id(),
        found.percent("busy")
    ))
    .because(could_ask(found))
    .so(suggestion(found))
}
