//! Findings about components that write many messages for each message read, and flood the components after
//! them.

use crate::report::{Figure, Finding, Report, Subject, Task, VerdictKind, component_of};

use super::facts::Facts;
use super::thresholds::{FLOOD, FLOOD_READS};

/// A finding if this task's component, or one from which its messages come, floods the task.
pub(super) fn flooded(facts: &Facts<'_>, task: &Task, busy: f64) -> Option<Finding> {
    let floods = |path: &str| {
        let work = &facts.component(path)?.work;
        let has_read = work.messages_in.is_some_and(|read| read as f64 >= FLOOD_READS);
        work.selectivity.filter(|selectivity| *selectivity >= FLOOD && has_read)
    };
    let before = upstream(facts.report, component_of(&task.name));
    let (by, selectivity) = before.into_iter().find_map(|path| Some((path, floods(path)?)))?;
    let written = Figure::new("written_per_read", selectivity, "messages");
    Some(
        Finding::new(VerdictKind::Burst)
            .about_task(task)
            .about_component(by)
            .with(written.of(Subject::Component(by.to_owned())))
            .with(Figure::share("busy", busy).of(task)),
    )
}

/// The component of this path and those from which its messages come, the nearest first.
fn upstream<'r>(report: &'r Report, path: &'r str) -> Vec<&'r str> {
    let mut found = vec![path];
    let mut next = 0;
    while let Some(&reader) = found.get(next) {
        next += 1;
        for stream in report.streams.iter().filter(|stream| stream.reader.as_deref() == Some(reader)) {
            if let Some(writer) = stream.writer.as_deref()
                && !found.contains(&writer)
            {
                found.push(writer);
            }
        }
    }
    found
}
