//! A stream whose ends wait in turn, now for room, now for messages, while no task is busy.

use crate::report::{Figure, Finding, Stream, Words};
use crate::verdict::dispatches::{describe_too_small, too_small};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::{BOTH_WAIT, HELD_BACK, SATURATED, SMALL};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let both = |stream: &Stream| Some(stream.full_share?.min(stream.empty_share?));
    let streams = facts.report.streams.iter().filter_map(|stream| Some((stream, both(stream)?)));
    let worst = streams
        .filter(|&(stream, share)| share >= BOTH_WAIT && is_small(stream))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((stream, _)) = worst else { return of_ends(facts) };
    Some(
        too_small(stream)
            .with(Figure::share("full", stream.full_share?).of(stream))
            .with(Figure::share("empty", stream.empty_share?).of(stream))
            .rooted(facts),
    )
}

fn is_small(stream: &Stream) -> bool {
    (1..=SMALL as u64).contains(&stream.capacity)
}

/// The finding if the contents of streams are not recorded: the source is held back although no task or worker is
/// busy all the time, and of a small stream the writer waits for room and the reader for messages.
fn of_ends(facts: &Facts<'_>) -> Option<Finding> {
    let is_busy =
        facts.saturated_worker().is_some() || facts.tasks().any(|(_, shares)| shares.busy >= SATURATED);
    if is_busy || facts.held_back.is_none_or(|share| share < HELD_BACK) {
        return None;
    }
    let shares = |path: &Option<String>| facts.component(path.as_deref()?)?.work.shares;
    let waits =
        |stream: &Stream| Some((shares(&stream.writer)?.output_wait, shares(&stream.reader)?.input_wait));
    let unknown =
        facts.report.streams.iter().filter(|stream| stream.full_share.is_none() && is_small(stream));
    let (stream, (room, input)) = unknown
        .filter_map(|stream| Some((stream, waits(stream)?)))
        .filter(|(_, (room, input))| room.min(*input) >= BOTH_WAIT)
        .max_by(|(_, a), (_, b)| a.0.min(a.1).total_cmp(&b.0.min(b.1)))?;
    Some(
        too_small(stream)
            .with(Figure::share("full", room).of(stream))
            .with(Figure::share("empty", input).of(stream))
            .rooted(facts),
    )
}

pub(super) fn describe(found: &Finding) -> Words {
    let (full, empty) = (found.percent("full"), found.percent("empty"));
    describe_too_small(
        found,
        &format!("their writers wait {full} of the time for room and their readers {empty} for messages"),
    )
}
