//! The network waits for a source that records no times of its own.

use crate::report::{Finding, Stream, VerdictKind, Words};
use crate::verdict::edges::{outside, waiting_at};
use crate::verdict::facts::Facts;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let sides = |stream: &Stream| (stream.reader.clone(), stream.writer.clone());
    waiting_at(facts, "entry", VerdictKind::Source, sides, |shares| shares.input_wait)
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "{} limits the flow: {} waits {} of the time for input.",
        outside("source", found.stream.as_ref().and_then(|entry| entry.writer.as_ref())),
        found.name_of("waits"),
        found.percent("waits")
    ))
}
