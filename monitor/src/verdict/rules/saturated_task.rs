//! A box that is busy all the time, or is nearly all that keeps its worker so.

use crate::report::{Figure, Finding, Task, VerdictKind, Words};
use crate::verdict::facts::{Facts, load};
use crate::verdict::thresholds::GAIN;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (task, shares) = facts.saturated_task()?;
    let found = Finding { worker: task.worker, ..Finding::new(VerdictKind::Task).about_task(task) };
    Some(pressed(found.with(Figure::share("busy", shares.busy).of(task)), facts, task))
}

/// With what the source asks of the task, how many workers have no time for a replica of it, and where waiting leads.
pub(super) fn pressed(found: Finding, facts: &Facts<'_>, task: &Task) -> Finding {
    let row = facts.report.utilisation.iter().find(|row| row.task == Some(task.id));
    let found = found.with(row.map(|row| Figure::new("utilisation", row.utilisation, "times").of(task)));
    found.with(no_time(facts)).rooted(facts)
}

/// The number of workers, if they have no time for replicas: the network could not be faster by much, however its work was divided
/// among them.
fn no_time(facts: &Facts<'_>) -> Option<Figure> {
    let gain = evenly(facts)?;
    (gain < GAIN).then(|| Figure::new("workers_without_time", facts.workers.len() as f64, "workers"))
}

/// How many times as much the workers could do, if all of them were busy all the time.
pub(super) fn evenly(facts: &Facts<'_>) -> Option<f64> {
    let all: f64 = facts.workers.iter().map(|(_, shares)| load(shares)).sum();
    (all > 0.0).then(|| facts.workers.len() as f64 / all)
}

/// Whether a worker has time for a replica.
pub(super) fn replicas_gain(found: &Finding) -> bool {
    found.figure("workers_without_time").is_none()
}

fn suggestion(found: &Finding) -> String {
    let path = found.path();
    match found.figure("workers_without_time").map(|figure| figure.value) {
        None => format!("make {path} faster, or replicate it (`!` in the network)"),
        Some(1.0) => format!(
            "make {path} faster, or give the run more workers and replicate it: its one worker has no time for replicas"
        ),
        Some(workers) => format!(
            "make {path} faster, or give the run more workers on more processors: all {workers:.0} are busy, so replicas \
             would gain nothing"
        ),
    }
}

pub(super) fn say(found: &Finding) -> Words {
    let on = found.worker.map_or(String::new(), |worker| format!(" on worker {worker}"));
    Words::text(format!(
        "{} limits the flow: it is busy {} of the time{on}.",
        found.task_name(),
        found.percent("busy")
    ))
    .because(could_ask(found))
    .so(suggestion(found))
}

/// What the source could ask for.
pub(super) fn could_ask(found: &Finding) -> Option<String> {
    let figure = found.figure("utilisation")?;
    Some(format!("the source could ask for {:.1} times what it does", figure.value))
}
