//! A run whose sources were paused by a command for most of the measured time.

use crate::report::{Action, Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::RESTED;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let window = &facts.report.window;
    let share = (window.paused_ns? / window.duration_ns).min(1.0);
    (share >= RESTED).then(|| {
        Finding::new(VerdictKind::Paused).with(Figure::share("rested", share)).so(Action::run("resume", &[]))
    })
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "The run is paused: its sources have rested for {} of the time, because of a command.",
        found.percent("rested")
    ))
    .so(format!("let it go on with `{}`", found.action()))
}
