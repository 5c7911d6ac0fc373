//! A full disk: threads that write events wait for free space in the middle of their work, so all other
//! measured times include this wait.

use crate::report::{Action, Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::LOST;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let window = &facts.report.window;
    let (full_ns, held_ns) = (window.disk_full_ns?, window.disk_held_ns?);
    (held_ns >= LOST * window.duration_ns).then(|| {
        Finding::new(VerdictKind::Disk)
            .with(Figure::new("held_ns", held_ns, "ns"))
            .with(Figure::new("duration_ns", window.duration_ns, "ns"))
            .with(Figure::new("full_ns", full_ns, "ns"))
            .so(Action::run("run", &["--on-full", "drop"]))
    })
}

pub(super) fn describe(found: &Finding) -> Words {
    let seconds = |figure: &str| found.value(figure) / 1e9;
    Words::text(format!(
        "The disk that keeps the events was full: the run waited for room there in {:.1} s of its {:.1} s.",
        seconds("held_ns"),
        seconds("duration_ns")
    ))
    .because(format!("the disk was full for {:.1} s", seconds("full_ns")))
    .so("free room where the space lies, or keep it on another disk (thalweg run --space); --on-full drop goes on without \
         the events that find no room")
}
