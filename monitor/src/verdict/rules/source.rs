//! The source is hardly ever held back and works all the time, so it limits the flow.

use crate::report::{Figure, Finding, Task, TaskShares, VerdictKind, Words};
use crate::verdict::accounts::asleep_part;
use crate::verdict::facts::{Facts, load};
use crate::verdict::thresholds::WORKS;
use crate::verdict::words::the;
use crate::wording::percent;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (source, shares) = facts.source_kept_up_with()?;
    works(source, &shares).then(|| kept_up_with(facts, VerdictKind::Source, source, &shares))
}

/// Whether a source works and does not wait for its input from outside: such a wait is recorded, or shows as
/// busy time without processor time.
fn works(source: &Task, shares: &TaskShares) -> bool {
    shares.input_wait < shares.busy
        && asleep_part(source.work.account.as_ref()).is_none_or(|part| part <= 1.0 - WORKS)
        && source.cpu_ns.zip(source.work.busy_ns).is_none_or(|(cpu, busy)| cpu >= WORKS * busy)
}

/// A finding about a source that the network keeps up with.
pub(super) fn kept_up_with(
    facts: &Facts<'_>,
    kind: VerdictKind,
    source: &Task,
    shares: &TaskShares,
) -> Finding {
    let held_back = facts.held_back.unwrap_or(0.0);
    let busiest = facts.workers.first();
    Finding::new(kind)
        .about_task(source)
        .with(Figure::share("busy", shares.busy).of(source))
        .with(busiest.map(|(worker, shares)| Figure::share("worker_busy", load(shares)).of(*worker)))
        .with(Figure::share("held_back", held_back).of(source))
        .with(
            facts.is_in_time(shares).then(|| Figure::share("waits_for_input", shares.input_wait).of(source)),
        )
        .rooted(facts)
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "{} limits the flow: it is busy {} of the time{}.",
        the("source", found.task_name()),
        found.percent("busy"),
        rest(found)
    ))
    .because(waits_for_room(found))
    .so("make the source faster, or split what it reads among several")
}

pub(super) fn waits_for_room(found: &Finding) -> String {
    let source = found.task_name();
    match found.figure("waits_for_input") {
        Some(figure) => {
            format!(
                "{source} waits for its input {} of the time, so nothing made it late",
                percent(figure.value)
            )
        }
        None => format!("{source} waits for room {} of the time", found.percent("held_back")),
    }
}

/// A sentence on what the network does while the source works or waits.
pub(super) fn rest(found: &Finding) -> String {
    found.figure("worker_busy").map_or(String::new(), |figure| {
        let worker = found.worker_of("worker_busy");
        format!("; the busiest worker, {worker}, is busy {} of the time", percent(figure.value))
    })
}
