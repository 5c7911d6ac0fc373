//! Head-of-line blocking: tasks have no room for their output, because order is kept and another task has not
//! written yet.

use crate::report::{Action, Figure, Finding, Subject, VerdictKind, Words};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::{BLOCKED, LONGER_STREAM};
use crate::wording::percent;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    if facts.keeps_up() {
        return None;
    }
    let row = facts.report.waiting.behind.first().filter(|row| row.share >= BLOCKED)?;
    let reads = |stream: &&crate::report::Stream| stream.reader.as_deref() == Some(row.keeper.as_str());
    let capacity = facts.report.streams.iter().filter(reads).map(|stream| stream.capacity).max();
    let found = Finding::new(VerdictKind::Order).about_component(&row.keeper);
    let found = found
        .with(Figure::share("behind", row.share).of(Subject::Component(row.behind.clone())))
        .with(Figure::new("tasks_behind", row.tasks as f64, "tasks"))
        .with(Figure::new("behind_ns", row.ns, "ns").of(Subject::Component(row.awaited.clone())));
    let longer = capacity.map(|capacity| capacity.saturating_mul(LONGER_STREAM as u64));
    let found = match longer {
        Some(longer) => found.so(Action::set("exec.capacity", longer)),
        None => found,
    };
    Some(found.rooted(facts))
}

pub(super) fn describe(found: &Finding) -> Words {
    let awaited = found.name_of("behind_ns");
    let longer = match found.actions.first() {
        Some(action) => format!(", or let more wait behind it (`{action}`)"),
        None => String::new(),
    };
    Words::text(format!(
        "The order that {} keeps limits the flow: it waits for {awaited}, and behind that {} has no room for what it wrote {} of the time.",
        found.path(),
        found.name_of("behind"),
        percent(found.value("behind"))
    ))
    .because(format!(
        "{:.0} tasks wait behind {awaited}, {:.0} ms together",
        found.value("tasks_behind"),
        found.value("behind_ns") / 1e6
    ))
    .so(format!("give up the order (`|`, `*` or `!` for `||`, `**` or `!!`) where it is not needed{longer}, or make what {awaited} takes longest for cheaper"))
}
