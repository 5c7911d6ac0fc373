//! A run that was mostly its start.

use crate::report::{Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::START_NS;
use crate::wording::counted;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let window = &facts.report.window;
    let messages = facts.report.throughput.messages_in?;
    (!window.partial && window.duration_ns < START_NS).then(|| {
        Finding::new(VerdictKind::Unclear)
            .with(Figure::new("messages", messages as f64, "messages"))
            .with(Figure::new("duration_ns", window.duration_ns, "ns"))
    })
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "The run was too short to tell what limits it: {} in {:.1} ms, most of which was its start.",
        counted(found.count("messages"), "message"),
        found.value("duration_ns") / 1e6
    ))
    .so("give it input for a second or more")
}
