//! A worker that is busy all the time, although none of its tasks is.

use std::collections::BTreeMap;

use super::saturated_task::evenly;
use crate::report::{Figure, Finding, Subject, VerdictKind, Words, Worker, component_of};
use crate::verdict::facts::{Facts, load};
use crate::verdict::thresholds::{GAIN, MOST};
use crate::wording::percent;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (hot, shares) = facts.saturated_worker()?;
    // Components that read no messages (sources, and tasks that only wait) are left out, because their tasks
    // have threads of their own and do not load the workers.
    let working = || facts.report.components.iter().filter(|component| component.work.messages_in > Some(0));
    let all: f64 = working().filter_map(|component| component.work.busy_ns).sum();
    let of_hot = (facts.saturated_workers() == 1).then(|| most_work_on(facts, hot)).flatten();
    let top = working().find(|component| of_hot.is_none_or(|path| path == component.path));
    let top = top.filter(|_| all > 0.0);
    let most_share = top.map_or(0.0, |component| component.work.busy_ns.unwrap_or(0.0) / all);
    let most =
        top.map(|component| Figure::share("work", most_share).of(Subject::Component(component.path.clone())));
    let found = Finding {
        component: top.map(|component| component.path.clone()),
        ..Finding::new(VerdictKind::Worker)
    };
    Some(
        found
            .on_worker(hot.id)
            .with(Figure::share("busy", load(&shares)).of(hot))
            .with(Figure::new("saturated", facts.saturated_workers() as f64, "workers"))
            .with(Figure::new("workers", facts.workers.len() as f64, "workers"))
            .with(most)
            .with(top.filter(|component| component.tasks == 1).and(replicas_gain(facts, most_share)))
            .rooted(facts),
    )
}

/// The component with the most work on a worker.
fn most_work_on<'r>(facts: &Facts<'r>, worker: &Worker) -> Option<&'r str> {
    let mut work: BTreeMap<&str, f64> = BTreeMap::new();
    for (task, shares) in facts.tasks().filter(|(task, _)| task.worker == Some(worker.id)) {
        *work.entry(component_of(&task.name)).or_default() += shares.busy;
    }
    work.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(path, _)| path)
}

/// The possible gain from replicas of a component that does the share `share` of all work, if share and gain
/// are large enough.
fn replicas_gain(facts: &Facts<'_>, share: f64) -> Option<Figure> {
    let gain = evenly(facts).filter(|&gain| share >= MOST && gain >= GAIN)?;
    Some(Figure::new("replicas_gain_at_most", gain, "times"))
}

pub(super) fn describe(found: &Finding) -> Words {
    let most = found.figure("work").map_or(String::new(), |work| {
        format!("; of all work, {} is in {}", percent(work.value), found.path())
    });
    let (busy, saturated) = (found.percent("busy"), found.count("saturated"));
    let limit = if saturated == found.count("workers") && saturated > 1 {
        format!("All {saturated} workers limit the flow: the busiest is busy {busy} of the time")
    } else {
        format!("Worker {} limits the flow: it is busy {busy} of the time", found.worker_id())
    };
    Words::text(format!("{limit}{most}.")).so(match &found.component {
        Some(path) if found.figure("replicas_gain_at_most").is_some() => format!(
            "replicate {path} (`!` in the network), since other workers have time: up to {:.1} times as much, or make it faster",
            found.value("replicas_gain_at_most")
        ),
        Some(path) => format!("more workers on more processors, or a faster {path}"),
        None => "more workers on more processors".to_owned(),
    })
}
