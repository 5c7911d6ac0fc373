//! The source is hardly ever held back and works slowly, so the network keeps up with it.

use super::source::{kept_up_with, rest, waits_for_room};
use crate::report::{Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;
use crate::verdict::words::the;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (source, shares) = facts.source_kept_up_with()?;
    Some(kept_up_with(facts, VerdictKind::Nothing, source, &shares))
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "Nothing limits the flow: the network keeps up with {}, which takes its time{}.",
        the("source", found.task_name()).replacen("The", "the", 1),
        rest(found)
    ))
    .because(waits_for_room(found))
}
