//! Tasks that wait for one another.

use crate::report::{Figure, Finding, Subject, TaskRef, VerdictKind, WaitNow, Words};
use crate::verdict::facts::Facts;

/// The maximal number of waits that the verdict's sentence names; further waits are listed as evidence.
const NAMED_MAX: usize = 4;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let deadlock = facts.report.waiting.deadlock.as_ref()?;
    let first = deadlock.waits.first().map(|wait| TaskRef { id: wait.task, name: wait.name.clone() });
    let mut found = Finding {
        component: first.as_ref().map(|task| task.component().to_owned()),
        task: first,
        ..Finding::new(VerdictKind::Deadlock)
    }
    .with(Figure::new("tasks", deadlock.tasks as f64, "tasks"));
    for wait in &deadlock.waits {
        found = found.with(Figure::new("wait", wait.ns, "ns").of(Subject::Wait(wait.clone())));
    }
    Some(found)
}

pub(super) fn describe(found: &Finding) -> Words {
    let waits = found.figures.iter().filter_map(|figure| match &figure.of {
        Some(Subject::Wait(wait)) => Some(describe_wait(wait)),
        _ => None,
    });
    let mut first: Vec<String> = waits.collect();
    let rest = first.split_off(first.len().min(NAMED_MAX));
    let text =
        format!("Deadlock: {} tasks wait for one another: {}.", found.count("tasks"), first.join("; "));
    Words { evidence: rest, ..Words::text(text) }.so(
        "give a full stream of the circle more room (exec.capacity), if what goes round is bounded; else cut the circle",
    )
}

fn describe_wait(wait: &WaitNow) -> String {
    let what = if wait.what == "room" { "room in" } else { "messages of" };
    let stream = wait.stream.map_or("several streams".to_owned(), |stream| format!("stream {stream}"));
    let peer = wait.peer_name.as_deref().unwrap_or("nobody known");
    format!("{} waits for {what} {stream} of {peer}", wait.name)
}
