//! The processor time that workers needed and did not get, or did not use.

use crate::report::{Figure, Finding, VerdictKind, Worker, WorkerShares};

use super::facts::{Facts, load};
use super::thresholds::{LOST, SLEEP_NS};

/// The processor time that a worker needed and did not get, or did not use, as shares of its lifetime.
pub(super) struct Processor {
    /// The share in which the worker was running or runnable.
    pub(super) wanted: f64,
    /// The share in which other processes used the worker's processor, at least.
    pub(super) lost: f64,
    /// The share in which the worker was busy but its thread was asleep.
    pub(super) asleep: f64,
}

impl Processor {
    /// Computes the shares. The worker's processor may also have been used by other threads of the run. So
    /// the share of other processes is at most their total processor time; if the kernel does not report this
    /// time, the share is the worker's delay less the processor time of tasks with threads of their own. If
    /// the kernel reports no delays, a busy worker that did not run counts as preempted; it counts as asleep
    /// if it was preempted too seldom for the missing time.
    pub(super) fn of(facts: &Facts<'_>, worker: &Worker, shares: &WorkerShares) -> Option<Processor> {
        let busy_ns = load(shares) * worker.lifetime_ns;
        let cpu_ns = worker.cpu_ns.filter(|_| worker.lifetime_ns > 0.0)?;
        let of_lifetime = |ns: f64| (ns / worker.lifetime_ns).max(0.0);
        if let Some(delayed_ns) = worker.delayed_ns {
            return Some(Processor {
                wanted: of_lifetime(cpu_ns + delayed_ns),
                lost: of_lifetime(delayed_ns).min(had_by_others(facts, worker, of_lifetime(delayed_ns))),
                asleep: of_lifetime(busy_ns - cpu_ns - delayed_ns),
            });
        }
        let gone_ns = busy_ns - cpu_ns;
        let slept = gone_ns > SLEEP_NS * worker.preempted.unwrap_or(0) as f64 && gone_ns > SLEEP_NS;
        let (lost_ns, asleep_ns) = if slept { (0.0, gone_ns) } else { (gone_ns, 0.0) };
        Some(Processor { wanted: load(shares), lost: of_lifetime(lost_ns), asleep: of_lifetime(asleep_ns) })
    }
}

/// The share of the worker's lifetime for which other processes can have delayed it, if its whole delay was
/// the share `delayed`.
fn had_by_others(facts: &Facts<'_>, worker: &Worker, delayed: f64) -> f64 {
    let known = facts.report.processors.as_ref().filter(|processors| processors.span_ns > 0.0);
    if let Some((processors, others_ns)) =
        known.and_then(|processors| Some((processors, processors.others_ns?)))
    {
        let others = others_ns / processors.span_ns;
        if facts.workers.len() as u64 <= processors.count {
            return others;
        }
        // The run's own threads delay each other as well, so the delay is divided between these threads and
        // other processes in proportion to their processor times.
        let run = processors.run_ns / processors.span_ns - worker.cpu_ns.unwrap_or(0.0) / worker.lifetime_ns;
        return delayed * others / (others + run.max(0.0)).max(f64::MIN_POSITIVE);
    }
    let own_threads = facts.report.tasks.iter().filter(|task| task.worker.is_none());
    let theirs_ns: f64 = own_threads.filter_map(|task| task.cpu_ns).sum();
    (delayed - theirs_ns / worker.lifetime_ns).max(0.0)
}

/// The largest share of its lifetime for which a worker would be running or runnable if other processes used no processor.
pub(super) fn needed_alone(facts: &Facts<'_>) -> f64 {
    of_workers(facts).map(|(_, of)| of.wanted.min(1.0) - of.lost).fold(0.0, f64::max)
}

/// The workers for which these shares are known.
fn of_workers<'r>(facts: &Facts<'r>) -> impl Iterator<Item = (&'r Worker, Processor)> {
    let workers = facts.workers.iter();
    workers.filter_map(|(worker, shares)| Some((*worker, Processor::of(facts, worker, shares)?)))
}

/// The finding about the worker that lost most of its time to other processes, among those that were running or runnable
/// for at least the share `wanted_min` of their lifetime.
pub(super) fn kept_off(facts: &Facts<'_>, wanted_min: f64) -> Option<Finding> {
    if facts.keeps_up() {
        return None;
    }
    let (worker, Processor { wanted, lost, .. }) = of_workers(facts)
        .filter(|(_, of)| of.lost >= LOST && of.wanted >= wanted_min)
        .max_by(|(_, a), (_, b)| a.lost.total_cmp(&b.lost))?;
    let preempted = worker.preempted.unwrap_or(0) as f64;
    let found = Finding::new(VerdictKind::Contention);
    let found = match facts.busiest_on(worker.id) {
        Some((task, _)) => found.about_task(task),
        None => found,
    };
    Some(
        found
            .on_worker(worker.id)
            .with(Figure::share("wanted", wanted.min(1.0)).of(worker))
            .with(Figure::share("lost", lost).of(worker))
            .with(Figure::new("preempted", preempted, "times").of(worker))
            .rooted(facts),
    )
}
