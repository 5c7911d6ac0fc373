//! A sink that is busy all the time.

use crate::report::{Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::{Facts, is_sink};
use crate::verdict::thresholds::SATURATED;
use crate::verdict::words::the;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (task, shares) = facts.tasks().find(|(task, shares)| is_sink(task) && shares.busy >= SATURATED)?;
    let found = Finding { worker: task.worker, ..Finding::new(VerdictKind::Sink).about_task(task) };
    Some(found.with(Figure::share("busy", shares.busy).of(task)).rooted(facts))
}

pub(super) fn say(found: &Finding) -> Words {
    Words::text(format!(
        "{} limits the flow: it is busy {} of the time.",
        the("sink", found.task_name()),
        found.percent("busy")
    ))
    .so("make the sink faster, or let several write")
}
