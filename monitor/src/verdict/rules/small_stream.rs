//! A stream whose ends wait in turn, now for room, now for messages, while no task is busy.

use crate::report::{Figure, Finding, Stream, Words};
use crate::verdict::dispatches::{describe_too_small, too_small};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::{BOTH_WAIT, SMALL};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let both = |stream: &Stream| Some(stream.full_share?.min(stream.empty_share?));
    let streams = facts.report.streams.iter().filter_map(|stream| Some((stream, both(stream)?)));
    let small = |stream: &Stream| (1..=SMALL as u64).contains(&stream.capacity);
    let (stream, _) = streams
        .filter(|&(stream, share)| share >= BOTH_WAIT && small(stream))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(
        too_small(stream)
            .with(Figure::share("full", stream.full_share?).of(stream))
            .with(Figure::share("empty", stream.empty_share?).of(stream))
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
