//! The run's control group (a container, a service) has a quota of processor time and has used it up.

use crate::report::{Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::LOST;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let processors = facts.report.processors.as_ref().filter(|processors| processors.span_ns > 0.0)?;
    let throttled = processors.throttled_ns / processors.span_ns;
    (throttled >= LOST && !facts.keeps_up()).then(|| {
        Finding::new(VerdictKind::Contention)
            .with(Figure::share("throttled", throttled.min(1.0)))
            .rooted(facts)
    })
}

pub(super) fn describe(found: &Finding) -> Words {
    Words::text(format!(
        "The limit on the processor time of the run's group limits the flow: the group had spent it {} of the time.",
        found.percent("throttled")
    ))
    .so("raise the limit (`cpu.max` of the cgroup, `--cpus` of a container), or run as many workers as it allows processors")
}
