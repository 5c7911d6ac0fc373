//! Findings about components at the network's edge that wait for the world outside the network.

use crate::report::{Figure, Finding, Stream, Subject, TaskShares, VerdictKind};

use super::facts::Facts;
use super::thresholds::STARVED;
use super::words::the;

/// The finding about the component that reads or writes a stream at the network's edge, if the component
/// waits at this stream most of the time. `sides` returns the component and its neighbour outside the
/// network.
pub(super) fn waiting_at(
    facts: &Facts<'_>,
    role: &str,
    kind: VerdictKind,
    sides: impl Fn(&Stream) -> (Option<String>, Option<String>),
    wait: impl Fn(&TaskShares) -> f64,
) -> Option<Finding> {
    let stream = facts.report.streams.iter().find(|stream| stream.role == role)?;
    let (path, outside) = sides(stream);
    let path = path?;
    let share = wait(&facts.component(&path)?.work.shares?);
    (share >= STARVED).then(|| {
        Finding {
            component: outside.or(Some(path.clone())),
            stream: Some(stream.into()),
            ..Finding::new(kind)
        }
        .with(Figure::share("waits", share).of(Subject::Component(path)))
    })
}

/// The source or sink, as the subject of a sentence.
pub(super) fn outside(role: &str, path: Option<&String>) -> String {
    the(role, path.map_or("", String::as_str))
}
