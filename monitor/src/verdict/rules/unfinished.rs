//! The source is held back by the limit on messages in flight, while the tasks after it have spare time.

use crate::report::{Action, Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::{Facts, is_source, load};
use crate::verdict::thresholds::{HELD_BACK, LONGER_STREAM, READ_SLOWLY, SATURATED, STARVED};
use crate::wording::counted;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let limit = facts.report.limits?.unfinished;
    let (source, shares) = facts
        .tasks()
        .filter(|(task, shares)| is_source(task) && shares.output_wait >= STARVED)
        .max_by(|a, b| a.1.output_wait.total_cmp(&b.1.output_wait))?;
    let full = |role: &str| {
        let entries = facts.report.streams.iter().filter(|stream| stream.role == role);
        entries.filter_map(|stream| stream.full_share).fold(0.0, f64::max)
    };
    // The limit on messages is not the cause if the source waits for its input as well, if a task or worker is
    // busy all the time, if tasks wait for room, because then a reader is the cause, or if the program that reads
    // what a sink writes sets the pace.
    let is_pressed = facts.is_in_time(&shares)
        || facts.inside().any(|(_, shares)| shares.busy >= SATURATED)
        || facts.workers.iter().any(|(_, shares)| load(shares) >= SATURATED)
        || full("entry") >= HELD_BACK
        || facts.is_read_slowly(READ_SLOWLY);
    (limit > 0 && !is_pressed).then(|| {
        Finding::new(VerdictKind::Capacity)
            .about_task(source)
            .with(Figure::new("unfinished", limit as f64, "messages"))
            .with(Figure::share("held_back", shares.output_wait).of(source))
            .with(
                facts
                    .workers
                    .first()
                    .map(|(worker, shares)| Figure::share("worker_busy", load(shares)).of(*worker)),
            )
            .rooted(facts)
            .so(Action::set("exec.unfinished", limit.saturating_mul(LONGER_STREAM as u64)))
    })
}

pub(super) fn describe(found: &Finding) -> Words {
    let busiest = found.figure("worker_busy").map(|_| {
        format!(
            "{} is the busiest, and is busy {} of the time",
            found.name_of("worker_busy"),
            found.percent("worker_busy")
        )
    });
    Words::text(format!(
        "The limit on messages under way limits the flow: no more than {} may be unfinished, and for that the source waits {} of the time.",
        counted(found.count("unfinished"), "message"),
        found.percent("held_back")
    ))
    .because(busiest)
    .so(format!("allow more (`{}`), or none (0)", found.action()))
}
