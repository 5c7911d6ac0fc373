//! No shares of time are known.

use crate::report::{Action, Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let none = facts.report.tasks.iter().all(|task| task.work.shares.is_none());
    none.then(|| Finding::new(VerdictKind::Unknown).so(Action::set("monitor.mode", "full")))
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text("What limits the flow is unknown: no shares of time are known.")
        .so(format!("switch the run to mode metrics or full (`{}`)", found.action()))
}
