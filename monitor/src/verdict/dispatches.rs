//! Findings about dispatches that are too short.

use crate::report::{Action, Figure, Finding, Stream, Task, VerdictKind, Words};
use crate::wording::counted;

use super::facts::Facts;
use super::thresholds::{FILLS, LONGER_STREAM, SHORT_MESSAGES, SHORT_NS, SMALL};

/// The mean figures of the dispatches of the workers' tasks, if the dispatches are short.
pub(super) struct Short {
    /// The mean number of messages of a dispatch; `ns` is the mean duration of a dispatch.
    pub(super) messages: f64,
    pub(super) ns: f64,
    /// The share of the dispatches that ended with the quantum spent.
    pub(super) yields: f64,
}

impl Short {
    pub(super) fn of(facts: &Facts<'_>) -> Option<Short> {
        let on_workers = || facts.tasks().map(|(task, _)| task).filter(|task| task.worker.is_some());
        let sum = |value: &dyn Fn(&Task) -> Option<f64>| on_workers().filter_map(value).sum::<f64>();
        let dispatches = sum(&|task| Some(task.work.dispatches? as f64));
        let short = Short {
            messages: sum(&|task| Some(task.work.messages_in? as f64)) / dispatches,
            ns: sum(&|task| task.work.busy_ns) / dispatches,
            yields: sum(&|task| Some(task.work.yield_share? * task.work.dispatches? as f64)) / dispatches,
        };
        // If dispatches use up most of a small quantum, the quantum counts as the reason for their ends,
        // whatever reason they recorded.
        let quantum = facts.report.limits.map(|limits| limits.quantum as f64);
        let all_of_it = quantum.is_some_and(|quantum| quantum < SMALL && short.messages >= FILLS * quantum);
        let short = Short {
            yields: if all_of_it {
                short.yields.max(short.messages / quantum.unwrap_or(1.0)).min(1.0)
            } else {
                short.yields
            },
            ..short
        };
        let is_short = dispatches > 0.0 && short.messages < SHORT_MESSAGES && short.ns < SHORT_NS;
        is_short.then_some(short)
    }

    /// Adds the figures of the dispatches to a finding.
    pub(super) fn add_to(&self, found: Finding) -> Finding {
        found
            .with(Figure::share("quantum_spent", self.yields))
            .with(Figure::new("dispatch_messages", self.messages, "messages"))
            .with(Figure::new("dispatch_ns", self.ns, "ns"))
    }
}

/// A finding about streams whose capacity is too small, with an action that increases the capacity.
pub(super) fn too_small(stream: &Stream) -> Finding {
    let longer = stream.capacity.saturating_mul(LONGER_STREAM as u64);
    Finding {
        component: stream.writer.clone(),
        stream: Some(stream.into()),
        ..Finding::new(VerdictKind::Capacity)
    }
    .with(Figure::new("capacity", stream.capacity as f64, "messages").of(stream))
    .so(Action::set("exec.capacity", longer))
}

/// The words of a finding about short dispatches.
pub(super) fn reason(found: &Finding) -> String {
    format!(
        "{} of the dispatches end with the quantum spent; they take {:.1} messages and {:.0} ns",
        found.percent("quantum_spent"),
        found.value("dispatch_messages"),
        found.value("dispatch_ns")
    )
}

/// The words of a finding about streams whose capacity is too small.
pub(super) fn describe_too_small(found: &Finding, why: &str) -> Words {
    let name = found.stream.as_ref().map_or("", |stream| &stream.name);
    Words::text(format!(
        "The streams {name} are too small: they hold {}, and {why}.",
        counted(found.count("capacity"), "message")
    ))
    .so(format!("raise the capacity of all streams (`{}`), or of these", found.action()))
}
