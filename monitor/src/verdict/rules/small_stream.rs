//! A stream whose ends wait in turn, now for room, now for messages, while no task is busy.

use super::crowded;
use crate::report::{Figure, Finding, Stream, Words};
use crate::verdict::dispatches::{describe_too_small, too_small};
use crate::verdict::facts::{Facts, load};
use crate::verdict::thresholds::{ALL_BUSY, BOTH_WAIT, HELD_BACK, SATURATED, SMALL, TINY};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (stream, full, empty) = worst(facts, SMALL, by_contents).or_else(|| by_ends(facts))?;
    Some(found(facts, stream, full, empty))
}

fn found(facts: &Facts<'_>, stream: &Stream, full: f64, empty: f64) -> Finding {
    too_small(stream)
        .with(Figure::share("full", full).of(stream))
        .with(Figure::share("empty", empty).of(stream))
        .rooted(facts)
}

/// A stream of one to three messages while a worker is busy for most of its time, but not all, or while there are more
/// workers than processors: with each message tasks or workers change, and that is what the processors are busy with.
pub(super) fn find_tiny(facts: &Facts<'_>) -> Option<Finding> {
    let loads = || facts.workers.iter().map(|(_, shares)| load(shares));
    let is_busy = || loads().any(|load| load >= SATURATED) && loads().all(|load| load < ALL_BUSY);
    let is_held = || facts.held_back.is_some_and(|share| share >= HELD_BACK);
    let has_busy_task = || facts.tasks().any(|(_, shares)| shares.busy >= SATURATED);
    let is_it = crowded::is_crowded(facts) || is_busy() && is_held() && !has_busy_task();
    let (stream, full, empty) = worst_tiny(facts).filter(|_| is_it)?;
    Some(found(facts, stream, full, empty))
}

/// The worst stream of one to three messages.
pub(super) fn worst_tiny<'r>(facts: &Facts<'r>) -> Option<(&'r Stream, f64, f64)> {
    worst(facts, TINY, |stream| by_contents(stream).or_else(|| waits_of_ends(facts, stream)))
}

/// The shares of the time for which a stream is full and empty, if its contents are recorded.
fn by_contents(stream: &Stream) -> Option<(f64, f64)> {
    Some((stream.full_share?, stream.empty_share?))
}

/// The small stream at which both ends wait most, with the shares of the time for which the writer waits for room and the
/// reader for messages.
fn worst<'r>(
    facts: &Facts<'r>,
    messages_max: f64,
    waits: impl Fn(&Stream) -> Option<(f64, f64)>,
) -> Option<(&'r Stream, f64, f64)> {
    let small =
        facts.report.streams.iter().filter(|stream| (1..=messages_max as u64).contains(&stream.capacity));
    let known = small.filter_map(|stream| waits(stream).map(|(full, empty)| (stream, full, empty)));
    let both = |of: &(&Stream, f64, f64)| of.1.min(of.2);
    known.filter(|of| both(of) >= BOTH_WAIT).max_by(|a, b| both(a).total_cmp(&both(b)))
}

/// The worst stream if the contents of streams are not recorded: the source is held back although no task or worker is
/// busy all the time, and the components at both ends of the stream wait.
fn by_ends<'r>(facts: &Facts<'r>) -> Option<(&'r Stream, f64, f64)> {
    let is_busy =
        facts.saturated_worker().is_some() || facts.tasks().any(|(_, shares)| shares.busy >= SATURATED);
    if is_busy || facts.held_back.is_none_or(|share| share < HELD_BACK) {
        return None;
    }
    worst(facts, SMALL, |stream| waits_of_ends(facts, stream))
}

/// The shares of the time for which the components at the ends of a stream wait for room and for messages, if the contents
/// of the stream are not recorded.
fn waits_of_ends(facts: &Facts<'_>, stream: &Stream) -> Option<(f64, f64)> {
    let shares = |path: &Option<String>| facts.component(path.as_deref()?)?.work.shares;
    match stream.full_share {
        None => Some((shares(&stream.writer)?.output_wait, shares(&stream.reader)?.input_wait)),
        Some(_) => None,
    }
}

pub(super) fn describe(found: &Finding) -> Words {
    let (full, empty) = (found.percent("full"), found.percent("empty"));
    describe_too_small(
        found,
        &format!("their writers wait {full} of the time for room and their readers {empty} for messages"),
    )
}
