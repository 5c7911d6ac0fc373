//! A worker that is busy with sleeping in a box.

use crate::report::{Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::{Facts, load};
use crate::verdict::processor::Processor;
use crate::verdict::thresholds::{LOST, SATURATED};
use crate::wording::declare_blocking;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (worker, shares) = *facts.workers.first()?;
    let Processor { asleep, .. } = Processor::of(facts, worker, &shares)?;
    if facts.keeps_up() || load(&shares) < SATURATED || asleep < LOST {
        return None;
    }
    let (task, _) = facts.busiest_on(worker.id)?;
    Some(
        Finding::new(VerdictKind::Task)
            .about_task(task)
            .on_worker(worker.id)
            .with(Figure::share("asleep", asleep).of(worker))
            .rooted(facts),
    )
}

pub(super) fn say(found: &Finding) -> Words {
    Words::text(format!(
        "{} limits the flow: it sleeps, or waits for something outside, {} of the time of worker {}.",
        found.task_name(),
        found.percent("asleep"),
        found.worker_id()
    ))
    .so(declare_blocking(found.path()))
}
