//! A box that is busy all the time, or that makes up nearly all the busy time of a saturated worker.

use crate::report::{Figure, Finding, Task, VerdictKind, Words};
use crate::verdict::facts::{Facts, load};
use crate::verdict::thresholds::{FAULTS, GAIN, KERNEL};
use crate::wording::percent;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (task, shares) = facts.saturated_task()?;
    let found = Finding { worker: task.worker, ..Finding::new(VerdictKind::Task).about_task(task) };
    let found = found.with(Figure::share("busy", shares.busy).of(task));
    Some(pressed(in_kernel(found, facts, task), facts, task))
}

/// Adds the share of its processor time that the task's thread, or the thread of the task's worker, spends in
/// the kernel, and the number of page faults.
pub(super) fn in_kernel(found: Finding, facts: &Facts<'_>, task: &Task) -> Finding {
    let worker = facts.report.workers.iter().find(|worker| Some(worker.id) == task.worker);
    let (account, cpu_ns, lifetime_ns) = match worker {
        Some(worker) => (worker.account.as_ref(), worker.cpu_ns, worker.lifetime_ns),
        None => (task.work.account.as_ref(), task.cpu_ns, facts.report.window.duration_ns),
    };
    let kernel = account.and_then(|account| account.kernel_ns).zip(cpu_ns).map(|(kernel, cpu)| kernel / cpu);
    let Some(kernel) = kernel.filter(|part| (KERNEL..=1.0).contains(part)) else { return found };
    let faults = account.and_then(|account| account.faults).map(|faults| faults as f64 / (lifetime_ns / 1e9));
    let faults = faults.filter(|faults| faults.is_finite());
    let of =
        |figure: Figure| worker.map_or_else(|| figure.clone().of(task), |worker| figure.clone().of(worker));
    found
        .with(of(Figure::share("kernel", kernel)))
        .with(faults.map(|faults| of(Figure::new("faults_per_s", faults, "pages"))))
}

/// Adds the task's true-rate utilisation, the number of workers if they have no time for replicas of the
/// task, and the root of waiting.
pub(super) fn pressed(found: Finding, facts: &Facts<'_>, task: &Task) -> Finding {
    let row = facts.report.utilisation.iter().find(|row| row.task == Some(task.id));
    let found = found.with(row.map(|row| Figure::new("utilisation", row.utilisation, "times").of(task)));
    found.with(no_time(facts)).rooted(facts)
}

/// The number of workers, if they have no time left for replicas, so that no other division of the work among
/// the workers would make the network much faster.
fn no_time(facts: &Facts<'_>) -> Option<Figure> {
    let gain = evenly(facts)?;
    (gain < GAIN).then(|| Figure::new("workers_without_time", facts.workers.len() as f64, "workers"))
}

/// The factor by which the workers' work would grow if all workers were busy all the time.
pub(super) fn evenly(facts: &Facts<'_>) -> Option<f64> {
    let all: f64 = facts.workers.iter().map(|(_, shares)| load(shares)).sum();
    (all > 0.0).then(|| facts.workers.len() as f64 / all)
}

/// Whether the workers have time for a replica of the task.
pub(super) fn replicas_gain(found: &Finding) -> bool {
    found.figure("workers_without_time").is_none()
}

pub(super) fn suggestion(found: &Finding) -> String {
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

pub(super) fn describe(found: &Finding) -> Words {
    let kernel = found.figure("kernel").map(|kernel| {
        let faults = found.figure("faults_per_s").filter(|faults| faults.value >= FAULTS).map_or(
            String::new(),
            |faults| {
                format!(
                    ", which gives {:.0} new pages of memory a second: memory that is used again costs none",
                    faults.value
                )
            },
        );
        format!(
            "{} spends {} of its processor time in the kernel{faults}",
            found.name_of("kernel"),
            percent(kernel.value)
        )
    });
    let on = found.worker.map_or(String::new(), |worker| format!(" on worker {worker}"));
    Words::text(format!(
        "{} limits the flow: it is busy {} of the time{on}.",
        found.task_name(),
        found.percent("busy")
    ))
    .because(could_ask(found))
    .because(kernel)
    .so(suggestion(found))
}

/// A sentence on the rate that the source could demand.
pub(super) fn could_ask(found: &Finding) -> Option<String> {
    let figure = found.figure("utilisation")?;
    Some(format!("the source could ask for {:.1} times what it does", figure.value))
}
