//! Finds a task whose move to another worker would help.

use crate::report::{Action, Figure, Finding, VerdictKind};

use super::facts::{Facts, load};
use super::thresholds::GAIN;

/// The finding about the task whose move from the busiest worker to the one with the most spare time helps
/// most, if it helps.
pub(super) fn better_mapping(facts: &Facts<'_>) -> Option<Finding> {
    let (hot, hot_shares) = *facts.workers.first()?;
    let (cold, cold_shares) = *facts.workers.last()?;
    let (high, low) = (load(&hot_shares), load(&cold_shares));
    let after = |busy: f64| (high - busy).max(low + busy);
    let (task, busy) = facts
        .tasks()
        .filter(|(task, _)| task.worker == Some(hot.id))
        .map(|(task, shares)| (task, shares.busy))
        .min_by(|a, b| after(a.1).total_cmp(&after(b.1)))?;
    let gain = high / after(busy);
    let move_it = Action::set(&format!("task/{}.worker", task.id.number), cold.id.number).gaining(gain - 1.0);
    (gain >= GAIN).then(|| {
        Finding::new(VerdictKind::Mapping)
            .about_task(task)
            .on_worker(hot.id)
            .with(Figure::share("busy", high).of(hot))
            .with(Figure::share("busy_least", low).of(cold))
            .with(Figure::share("busy_with_task", busy).of(task))
            .rooted(facts)
            .so(move_it)
    })
}
