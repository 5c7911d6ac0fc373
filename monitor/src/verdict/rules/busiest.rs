//! No limit stands out, so this rule names the busiest task.

use crate::report::{Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (task, shares) = facts.tasks().next()?;
    let found = Finding { worker: task.worker, ..Finding::new(VerdictKind::Unclear).about_task(task) };
    Some(
        found
            .with(Figure::share("busy", shares.busy).of(task))
            .with(Figure::share("input_wait", shares.input_wait).of(task))
            .with(Figure::share("output_wait", shares.output_wait).of(task))
            .with(Figure::share("ready", shares.ready).of(task))
            .rooted(facts),
    )
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "Nothing is busy all the time; the busiest task is {} ({} busy, {} waiting for input, {} for output, {} ready).",
        found.task_name(),
        found.percent("busy"),
        found.percent("input_wait"),
        found.percent("output_wait"),
        found.percent("ready")
    ))
}
