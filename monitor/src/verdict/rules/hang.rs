//! A live run makes no progress because threads sleep in boxes: for locks that these threads hold themselves,
//! or for an event that does not happen.

use crate::report::{Figure, Finding, Hanging, SleepsFor, State, Subject, Task, TaskRef, VerdictKind, Words};
use crate::verdict::accounts::sleeps;
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::{HANG_NS, HANG_TIMES};

/// The maximal number of tasks that the verdict's sentence names; further tasks are listed as evidence.
const NAMED_MAX: usize = 4;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let report = facts.report;
    let still_ns =
        report.waiting.still_ns.filter(|ns| *ns >= HANG_NS && report.window.state == State::Running)?;
    let hanging: Vec<&Hanging> =
        report.waiting.hanging.iter().filter(|hanging| hangs(facts, hanging)).collect();
    let first = hanging.first()?;
    let task = TaskRef { id: first.task, name: first.name.clone() };
    // Several threads that all wait for locks, and not for anything outside the process, are deadlocked.
    let locked = hanging.len() > 1 && hanging.iter().all(|hanging| hanging.sleeps_for == SleepsFor::Lock);
    let kind = if locked { VerdictKind::Deadlock } else { VerdictKind::Hang };
    let mut found = Finding {
        component: Some(task.component().to_owned()),
        worker: first.worker,
        task: Some(task),
        ..Finding::new(kind)
    }
    .with(Figure::new("still_ns", still_ns, "ns"))
    .with(Figure::new("tasks", hanging.len() as f64, "tasks"));
    for hanging in hanging {
        found = found.with(Figure::new("hangs", hanging.ns, "ns").of(Subject::Hanging(hanging.clone())));
    }
    Some(found)
}

/// Whether the thread sleeps for much longer than its messages take.
fn hangs(facts: &Facts<'_>, hanging: &Hanging) -> bool {
    let task = |task: &&Task| task.id == hanging.task;
    let service_ns =
        facts.report.tasks.iter().find(task).and_then(|task| task.work.service_ns).unwrap_or(0.0);
    hanging.ns >= HANG_NS.max(HANG_TIMES * service_ns)
}

pub(super) fn describe(found: &Finding) -> Words {
    let hanging: Vec<&Hanging> = found
        .figures
        .iter()
        .filter_map(|figure| match &figure.of {
            Some(Subject::Hanging(hanging)) => Some(hanging),
            _ => None,
        })
        .collect();
    let mut descriptions: Vec<String> = hanging.iter().map(|hanging| one(hanging)).collect();
    let rest = descriptions.split_off(descriptions.len().min(NAMED_MAX));
    let (seconds, all) = (found.value("still_ns") / 1e9, descriptions.join("; "));
    let text = match found.kind {
        VerdictKind::Deadlock if in_circle(&hanging) => {
            format!(
                "Deadlock: the boxes wait for each other's locks, and nothing has gone on for {seconds:.1} s: {all}."
            )
        }
        VerdictKind::Deadlock => format!(
            "Deadlock, as it seems: {} boxes wait for locks that nobody gives, and nothing has gone on for {seconds:.1} s: {all}.",
            hanging.len()
        ),
        _ => format!("The run hangs: nothing has gone on for {seconds:.1} s: {all}."),
    };
    let so = match found.kind {
        VerdictKind::Deadlock => "let boxes take their locks in the same order, or one at a time",
        _ => {
            "find out what it waits for; if that is what a box behind it gives, cut that circle; if it is to wait for long, give it a time \
             after which it goes on"
        }
    };
    Words { evidence: rest, ..Words::text(text) }.so(so)
}

/// Whether each lock is held by one of the tasks that wait for locks, according to the holder that the lock
/// stores.
fn in_circle(hanging: &[&Hanging]) -> bool {
    let is_here = |name: &str| hanging.iter().any(|hanging| hanging.name == name);
    hanging.len() > 1 && hanging.iter().all(|hanging| hanging.holder.as_deref().is_some_and(is_here))
}

fn one(hanging: &Hanging) -> String {
    let Hanging { name, worker, sleeps_for, ns, lock, holder, .. } = hanging;
    let on = worker.map_or(" on its own thread".to_owned(), |worker| format!(" on worker {worker}"));
    let lock = lock.map_or(String::new(), |lock| format!(" {lock:#x}"));
    let held = holder.as_ref().map_or(String::new(), |holder| format!(", which {holder} holds"));
    format!("{name}{on} {}{lock} for {:.1} s{held}", sleeps(*sleeps_for), ns / 1e9)
}
