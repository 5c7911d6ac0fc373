//! A worker that is runnable all the time, but does not get a processor.

use crate::report::{Finding, Words};
use crate::verdict::facts::Facts;
use crate::verdict::processor::kept_off;
use crate::verdict::thresholds::SATURATED;
use crate::wording::counted;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    kept_off(facts, SATURATED)
}

pub(super) fn describe(found: &Finding) -> Words {
    let worker = found.worker_id();
    Words::text(format!(
        "Other processes limit the flow: worker {worker} could have run {} of the time, and had no processor {} of the time.",
        found.percent("wanted"),
        found.percent("lost")
    ))
    .because(format!("worker {worker} was put off its processor {}", counted(found.count("preempted"), "time")))
    .so("give the run processors of its own (`taskset`), or stop what else runs")
}
