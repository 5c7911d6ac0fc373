//! A worker that is busy with dispatches that full or empty streams end too soon.

use crate::report::{Figure, Finding, Stream, Words};
use crate::verdict::dispatches::{Short, describe_too_small, reason, too_small};
use crate::verdict::facts::{Facts, load};
use crate::verdict::thresholds::{CHANGE_NS, CHANGING, NARROW};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (worker, shares) = facts.saturated_worker()?;
    let short = Short::of(facts).filter(|short| CHANGING * short.ns < CHANGE_NS)?;
    let narrow =
        |stream: &&Stream| stream.capacity > 0 && (stream.capacity as f64) < NARROW * short.messages.max(1.0);
    let streams = facts.report.streams.iter().filter(narrow);
    let stream = streams.max_by(|a, b| waits_of(a).total_cmp(&waits_of(b)))?;
    let found = too_small(stream).with(Figure::share("worker_busy", load(&shares)).of(worker));
    Some(short.add_to(found).rooted(facts))
}

fn waits_of(stream: &Stream) -> f64 {
    stream.full_share.unwrap_or(0.0) + stream.empty_share.unwrap_or(0.0)
}

pub(super) fn describe(found: &Finding) -> Words {
    let worker = found.worker_of("worker_busy");
    describe_too_small(found, &format!("worker {worker} spends much of its time on changing tasks"))
        .because(reason(found))
}
