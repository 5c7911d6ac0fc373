//! The network waits for a sink that records no times of its own.

use crate::report::{Finding, Stream, VerdictKind, Words};
use crate::verdict::edges::{outside, waiting_at};
use crate::verdict::facts::Facts;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let sides = |stream: &Stream| (stream.writer.clone(), stream.reader.clone());
    waiting_at(facts, "exit", VerdictKind::Sink, sides, |shares| shares.output_wait)
}

pub(super) fn describe(found: &Finding) -> Words {
    let path = found.name_of("waits");
    Words::text(format!(
        "{} limits the flow: {path} waits {} of the time for room in the exit.",
        outside("sink", found.stream.as_ref().and_then(|exit| exit.reader.as_ref())),
        found.percent("waits")
    ))
}
