//! A box that is busy all the time, or is nearly all that keeps its worker so.

use crate::report::{Figure, Finding, Task, VerdictKind, Words};
use crate::verdict::facts::Facts;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (task, shares) = facts.saturated_task()?;
    let found = Finding { worker: task.worker, ..Finding::new(VerdictKind::Task).about_task(task) };
    Some(pressed(found.with(Figure::share("busy", shares.busy).of(task)), facts, task))
}

/// With what the source asks of the task, and where waiting leads.
pub(super) fn pressed(found: Finding, facts: &Facts<'_>, task: &Task) -> Finding {
    let row = facts.report.utilisation.iter().find(|row| row.task == Some(task.id));
    found.with(row.map(|row| Figure::new("utilisation", row.utilisation, "times").of(task))).rooted(facts)
}

pub(super) fn say(found: &Finding) -> Words {
    let path = found.path();
    let on = found.worker.map_or(String::new(), |worker| format!(" on worker {worker}"));
    Words::text(format!(
        "{} limits the flow: it is busy {} of the time{on}.",
        found.task_name(),
        found.percent("busy")
    ))
    .because(could_ask(found))
    .so(format!("make {path} faster, or replicate it (`!` in the network)"))
}

/// What the source could ask for.
pub(super) fn could_ask(found: &Finding) -> Option<String> {
    let figure = found.figure("utilisation")?;
    Some(format!("the source could ask for {:.1} times what it does", figure.value))
}
