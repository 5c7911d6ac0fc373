//! No task is busy, and the source is held back: messages wait until woken threads run.

use crate::ids::WorkerId;
use crate::report::{Action, Figure, Finding, Subject, VerdictKind, Words};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::{IDLE, LONGER_STREAM, WOKEN};
use crate::wording::counted;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    if facts.keeps_up() {
        return None;
    }
    let idle = |id: WorkerId| {
        let workers = facts.report.workers.iter().filter(|worker| worker.id == id);
        workers.filter_map(|worker| worker.shares).map(|shares| shares.waiting).find(|share| *share >= IDLE)
    };
    let (task, ready, worker, idle) = facts
        .tasks()
        .filter_map(|(task, shares)| Some((task, shares.ready, task.worker?, idle(task.worker?)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, ready, ..)| *ready >= WOKEN)?;
    let room = facts.report.streams.iter().map(|stream| stream.capacity).filter(|&room| room > 1).min()?;
    let longer = room.saturating_mul(LONGER_STREAM as u64).to_string();
    Some(
        Finding::new(VerdictKind::Capacity)
            .about_task(task)
            .on_worker(worker)
            .with(Figure::share("ready", ready).of(task))
            .with(Figure::share("idle", idle).of(Subject::Worker(worker)))
            .with(Figure::new("capacity_least", room as f64, "messages"))
            .rooted(facts)
            .so(Action::run("run", &["--capacity", &longer])),
    )
}

pub(super) fn describe(found: &Finding) -> Words {
    let room = found.count("capacity_least");
    let longer = match found.actions.first() {
        Some(Action::Run(line)) => line.arguments.last().map_or("", String::as_str),
        _ => "",
    };
    Words::text(format!(
        "Waking threads limits the flow: {} could run {} of the time and did not yet, while its worker waits {}; \
         the streams hold {} each.",
        found.task_name(),
        found.percent("ready"),
        found.percent("idle"),
        counted(room, "message")
    ))
    .so(format!(
        "let threads be woken for more messages at once: streams that hold {longer} (`{}`)",
        found.action()
    ))
}
