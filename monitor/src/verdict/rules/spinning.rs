//! A task that spends its busy time in a loop that waits for another thread, such as the loop of a spin lock,
//! and therefore limits the flow: its worker has no spare time.

use crate::report::{Figure, Finding, Task, TaskShares, VerdictKind, Words};
use crate::verdict::accounts::spinning_part;
use crate::verdict::facts::{Facts, load};
use crate::verdict::thresholds::{LOST, SATURATED};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    if facts.keeps_up() {
        return None;
    }
    let part = |task: &Task| spinning_part(facts.account(task)).unwrap_or(0.0);
    let is_pressed = |task: &Task| {
        let of_task = |id| facts.workers.iter().find(|(worker, _)| worker.id == id);
        task.worker.and_then(of_task).is_some_and(|(_, shares)| load(shares) >= SATURATED)
    };
    let spins = |(task, shares): &(&Task, TaskShares)| shares.busy * part(task);
    let spinning = facts.inside().filter(|of| spins(of) >= LOST && is_pressed(of.0));
    let most = spinning.max_by(|a, b| spins(a).total_cmp(&spins(b)))?;
    let others = facts.tasks().filter(|(task, _)| part(task) >= LOST / 2.0).count();
    let task = most.0;
    let found = Finding { worker: task.worker, ..Finding::new(VerdictKind::Task).about_task(task) };
    Some(
        found
            .with(Figure::share("spinning", spins(&most)).of(task))
            .with(Figure::share("spinning_of_busy", part(task)).of(task))
            .with((others > 1).then(|| Figure::new("tasks_that_spin", others as f64, "tasks")))
            .rooted(facts),
    )
}

pub(super) fn describe(found: &Finding) -> Words {
    let path = found.path();
    let others = found
        .figure("tasks_that_spin")
        .map(|figure| format!("{:.0} tasks wait in such loops, so they probably share a lock", figure.value));
    Words::text(format!(
        "{} limits the flow: it waits in a loop for another thread (a spin lock) {} of its busy time, which is {} of the run.",
        found.task_name(),
        found.percent("spinning_of_busy"),
        found.percent("spinning")
    ))
    .because(others)
    .so(format!(
        "let {path} hold what it shares for less time, or give each task its own; more replicas or workers would wait for it as well"
    ))
}
