//! A component in which most messages fail.

use crate::report::{Figure, Finding, Subject, VerdictKind, Words};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::STARVED;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let refused = facts.report.components.iter().filter_map(|component| {
        let read = component.work.messages_in.filter(|read| *read > 0)?;
        Some((component, component.work.failed as f64 / read as f64))
    });
    let (component, share) = refused.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|found| found.1 >= STARVED)?;
    Some(
        Finding::new(VerdictKind::Unclear)
            .about_component(&component.path)
            .with(Figure::share("refused", share).of(Subject::Component(component.path.clone())))
            .rooted(facts),
    )
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!("{} refuses {} of what it reads.", found.path(), found.percent("refused")))
        .so("look at what failed: `thalweg message SPACE --failed`")
}
