//! Dispatches that the quantum ends too soon, while a task is busy all the time or the source is held back.
//! The threads of sources and sinks also check their streams once a quantum, so the busy task may be a source
//! or sink.

use crate::report::{Action, Finding, VerdictKind, Words};
use crate::verdict::dispatches::{Short, reason};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::{SATURATED, SPENT};

/// The default quantum.
const USUAL: u64 = 64;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let short = Short::of(facts).filter(|short| short.yields >= SPENT)?;
    let worker = facts.saturated_worker();
    let thread = facts.tasks().any(|(_, shares)| shares.busy >= SATURATED);
    if worker.is_none() && !thread && facts.keeps_up() {
        return None;
    }
    // A sink that waits for its reader sets the pace, however long dispatches are.
    if streams_are_shorter(facts) || facts.is_read_slowly(SATURATED) {
        return None;
    }
    let mut found = short.add_to(Finding::new(VerdictKind::Quantum));
    found.worker = worker.map(|(worker, _)| worker.id);
    Some(found.rooted(facts).so(Action::set("exec.quantum", USUAL)))
}

/// Whether most streams hold no more than a quantum of messages: then the streams end dispatches as soon.
fn streams_are_shorter(facts: &Facts<'_>) -> bool {
    let Some(limits) = facts.report.limits else { return false };
    let count = |is_it: &dyn Fn(u64) -> bool| {
        let of_it = facts.report.streams.iter().filter(|stream| is_it(stream.capacity));
        of_it.map(|stream| stream.streams).sum::<u64>()
    };
    let shorter = count(&|capacity| (1..=limits.quantum).contains(&capacity));
    shorter > count(&|capacity| capacity > limits.quantum)
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "The quantum is too small: it ends dispatches after {:.1} messages and {:.0} ns, in the mean.",
        found.value("dispatch_messages"),
        found.value("dispatch_ns")
    ))
    .because(reason(found))
    .so(format!("raise exec.quantum (`{}`)", found.action()))
}
