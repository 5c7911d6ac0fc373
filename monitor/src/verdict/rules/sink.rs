//! A sink that is busy all the time, or that waits most of the time for its output to be accepted.

use crate::report::{Figure, Finding, SleepsFor, Task, TaskShares, VerdictKind, Words};
use crate::verdict::accounts::{asleep_part, computing_part, is_sure, sleeps, writing_part};
use crate::verdict::facts::{Facts, is_sink};
use crate::verdict::thresholds::{ASLEEP, READ_SLOWLY, SATURATED, STARVED};
use crate::verdict::words::the;
use crate::wording::percent;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    // A sink that waits most of the time for its output to be accepted is limited by this wait, whatever else
    // it does.
    let presses = |task: &Task, shares: &TaskShares| {
        let slept = asleep_part(task.work.account.as_ref()).unwrap_or(0.0);
        let waits = shares.busy >= STARVED && slept >= ASLEEP || writing_part(task, shares) >= READ_SLOWLY;
        shares.busy >= SATURATED || waits && !facts.keeps_up()
    };
    let (task, shares) = facts.tasks().find(|(task, shares)| is_sink(task) && presses(task, shares))?;
    let found = Finding { worker: task.worker, ..Finding::new(VerdictKind::Sink).about_task(task) };
    let found = found.with(Figure::share("busy", shares.busy).of(task)).rooted(facts);
    let account = task.work.account.as_ref().filter(|account| is_sure(account));
    Some(match account {
        Some(account) => found
            .with(computing_part(Some(account)).map(|part| Figure::share("computing_of_busy", part).of(task)))
            .slept(account, task),
        None => found,
    })
}

pub(super) fn describe(found: &Finding) -> Words {
    let sink = the("sink", found.task_name());
    let busy = found.percent("busy");
    let slept = found.slept_for().filter(|_| found.value("asleep_of_busy") >= ASLEEP);
    match (slept, found.figure("computing_of_busy")) {
        (Some(what), _) => Words::text(format!(
            "{sink} limits the flow: it is busy {busy} of the time, and {} {} of that.",
            sleeps(what),
            found.percent("asleep_of_busy")
        ))
        .so(match what {
            SleepsFor::Write => {
                "make the reader of what the sink writes faster (the program behind the pipe or socket, or the disk)"
            }
            _ => "find out what the sink waits for: it writes no faster with less to write",
        }),
        (None, Some(computing)) => Words::text(format!(
            "{sink} limits the flow: it is busy {busy} of the time, and computes {} of that (it makes bytes of records).",
            percent(computing.value)
        ))
        .so("write fewer or shorter fields, or a format that is cheaper to make, or let several write"),
        _ => Words::text(format!("{sink} limits the flow: it is busy {busy} of the time."))
            .so("make the sink faster, or let several write"),
    }
}
