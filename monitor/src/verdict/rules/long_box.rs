//! Tasks that others wait for are ready on a busy worker, behind a box that takes long, while another worker
//! has spare time.

use crate::report::{Figure, Finding, Root, RootState, Subject, TaskRef, VerdictKind, Words, component_of};
use crate::verdict::facts::{Facts, load};
use crate::verdict::thresholds::{BEHIND, LONG_NS, SATURATED};
use crate::wording::declare_blocking;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (hot, _) = facts.saturated_worker()?;
    let (cold, spare) = *facts.workers.last().filter(|(_, shares)| load(shares) < SATURATED)?;
    let (long, _) = facts.busiest_on(hot.id)?;
    let long_ns = long.work.service_ns.filter(|ns| *ns >= LONG_NS)?;
    let path = component_of(&long.name);
    let behind = |root: &&Root| {
        let task = facts.report.tasks.iter().find(|task| task.id == root.task);
        root.state == RootState::Ready
            && task.is_some_and(|task| task.worker == Some(hot.id) && component_of(&task.name) != path)
    };
    let waited_for = || facts.report.waiting.roots.iter().filter(behind);
    let first = waited_for().next()?;
    let first = TaskRef { id: first.task, name: first.name.clone()? };
    let share: f64 = waited_for().map(|root| root.share).sum();
    (share >= BEHIND).then(|| {
        Finding::new(VerdictKind::Worker)
            .about_task(long)
            .on_worker(hot.id)
            .with(Figure::share("waiting_behind", share).of(Subject::Task(first)))
            .with(Figure::new("service_ns", long_ns, "ns").of(long))
            .with(Figure::share("busy_least", load(&spare)).of(cold))
    })
}

pub(super) fn describe(found: &Finding) -> Words {
    let path = found.path();
    Words::text(format!(
        "Worker {} limits the flow: {}, for which others wait, is ready there behind {path}, which takes {:.1} ms for a message; meanwhile {} is busy only {} of the time.",
        found.worker_id(),
        found.name_of("waiting_behind"),
        found.value("service_ns") / 1e6,
        found.name_of("busy_least"),
        found.percent("busy_least")
    ))
    .because(format!("{} of all waiting leads to such tasks", found.percent("waiting_behind")))
    .so(format!("let more messages be under way at once, or {}", declare_blocking(path)))
}
