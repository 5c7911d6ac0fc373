//! A task that spends its busy time asleep in its box, and therefore limits the flow: the task itself, or its
//! worker, has no spare time.

use crate::report::{Figure, Finding, SleepsFor, Task, VerdictKind, Words};
use crate::verdict::accounts::{COMMAND, of_command, relieve_command, sleeper, sleeps_of};
use crate::verdict::facts::{Facts, load};
use crate::verdict::processor::Processor;
use crate::verdict::thresholds::{LOST, SATURATED};
use crate::wording::declare_blocking;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    if facts.keeps_up() {
        return None;
    }
    let Some((task, asleep)) = sleeper(facts) else { return unseen(facts) };
    let found = Finding { worker: task.worker, ..Finding::new(VerdictKind::Task).about_task(task) };
    let found = found.with(Figure::share("asleep", asleep).of(task));
    let account = facts.account(task).or(task.work.account.as_ref())?;
    let sharing =
        account.lock.map(|lock| facts.tasks().filter(|(other, _)| sleeps_for(facts, other, lock)).count());
    let sharing = sharing.filter(|&tasks| tasks > 1);
    Some(
        found
            .slept(account, task)
            .with(of_command(facts, task, account))
            .with(sharing.map(|tasks| Figure::new("share_the_lock", tasks as f64, "tasks")))
            .rooted(facts),
    )
}

/// Whether a task slept for this lock more than for any other reason.
fn sleeps_for<'r>(facts: &Facts<'r>, task: &'r Task, lock: u64) -> bool {
    let account = facts.account(task);
    account.is_some_and(|account| account.lock == Some(lock) && account.asleep.lock_ns > 0.0)
}

/// A finding, if threads were not sampled, about a worker that was busy but neither used a processor nor
/// waited for one.
fn unseen(facts: &Facts<'_>) -> Option<Finding> {
    let (worker, shares) = *facts.workers.first()?;
    if worker.account.is_some() {
        return None;
    }
    let Processor { asleep, .. } = Processor::of(facts, worker, &shares)?;
    if load(&shares) < SATURATED || asleep < LOST {
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

pub(super) fn describe(found: &Finding) -> Words {
    let Some(what) = found.slept_for() else {
        return Words::text(format!(
            "{} limits the flow: it sleeps, or waits for something outside, {} of the time of worker {}.",
            found.task_name(),
            found.percent("asleep"),
            found.worker_id()
        ))
        .so(declare_blocking(found.path()));
    };
    let sharing = found.figure("share_the_lock").map(|figure| {
        format!(
            "{:.0} tasks sleep for the same lock (or the same part of the memory allocator)",
            figure.value
        )
    });
    let sleeps = sleeps_of(found, what);
    Words::text(format!(
        "{} limits the flow: it {sleeps} {} of its busy time, which is {} of the run.",
        found.task_name(),
        found.percent("asleep_of_busy"),
        found.percent("asleep")
    ))
    .because(sharing)
    .because(format!("its thread was looked at {:.0} times", found.value("looks")))
    .so(remedy(found, what))
}

fn remedy(found: &Finding, what: SleepsFor) -> String {
    let path = found.path();
    match what {
        _ if found.figure(COMMAND).is_some() => relieve_command(path),
        SleepsFor::Lock => format!(
            "let {path} hold what it shares for less time, or give each task its own (memory that is allocated and freed by several \
             threads is shared, too); more replicas or workers would wait for it as well"
        ),
        SleepsFor::PageFault => {
            format!("let {path} touch less memory, or bring it into memory before the run")
        }
        _ if found.worker.is_none() => {
            format!(
                "replicate {path} (`!` in the network): it has a thread of its own, and several can sleep at once"
            )
        }
        SleepsFor::Write => {
            format!("make the reader of what {path} writes faster, or {}", declare_blocking(path))
        }
        _ => declare_blocking(path),
    }
}
