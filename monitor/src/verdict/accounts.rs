//! Reads accounts of busy time, and decides which findings they rule out.

use crate::report::{
    BusyAccount, Figure, Finding, Processors, SleepsFor, Subject, Task, TaskShares, VerdictKind, Worker,
    component_of,
};

use super::facts::{Facts, load};
use super::processor::Processor;
use super::thresholds::{ASLEEP, LOOKS, LOOKS_READING, LOST, OWN_USE, SATURATED, STARVED};

/// Whether an account is based on enough samples, or enough measured time, to be used.
pub fn is_sure(account: &BusyAccount) -> bool {
    account.looks as f64 >= LOOKS || 2.0 * account.measured_ns >= account.total_ns()
}

/// The share of busy time in which the thread was asleep, if known.
pub(super) fn asleep_part(account: Option<&BusyAccount>) -> Option<f64> {
    let account = account.filter(|account| is_sure(account) && account.total_ns() > 0.0)?;
    Some(account.asleep.total_ns() / account.total_ns())
}

/// The share of the time in which a task was asleep in a write, if known.
pub(super) fn writing_part(task: &Task, shares: &TaskShares) -> f64 {
    let account = task.work.account.as_ref().filter(|account| is_sure(account) && account.total_ns() > 0.0);
    shares.busy * account.map_or(0.0, |account| account.asleep.write_ns / account.total_ns())
}

/// The share of the time in which a task was asleep in a read, if enough samples found it so.
pub(super) fn reading_part(task: &Task, shares: &TaskShares) -> f64 {
    let account = task.work.account.as_ref().filter(|account| account.total_ns() > 0.0);
    let part = account.map(|account| (account, account.asleep.read_ns / account.total_ns()));
    let part = part.filter(|(account, part)| account.looks as f64 * part >= LOOKS_READING);
    shares.busy * part.map_or(0.0, |(_, part)| part)
}

/// The share of busy time in which the thread waited in a loop for another thread, if known.
pub(crate) fn spinning_part(account: Option<&BusyAccount>) -> Option<f64> {
    let account = account.filter(|account| account.total_ns() > 0.0)?;
    Some(account.spinning_ns? / account.total_ns())
}

/// The share of busy time in which the thread worked, if known.
pub(super) fn computing_part(account: Option<&BusyAccount>) -> Option<f64> {
    let account = account.filter(|account| is_sure(account) && account.total_ns() > 0.0)?;
    Some((account.computing_ns + account.runtime_ns) / account.total_ns())
}

impl Finding {
    /// Adds the share of its busy time for which a thread slept, the main reason, and the number of samples.
    pub(super) fn slept(self, account: &BusyAccount, of: impl Into<Subject>) -> Finding {
        let (part, most) = (account.asleep.total_ns() / account.total_ns(), account.asleep.most());
        let slept = self.with(Figure::share("asleep_of_busy", part).of(of));
        slept
            .with(most.map(|(what, ns)| {
                Figure::share(&format!("asleep_for_{}", what.word()), ns / account.total_ns())
            }))
            .with(Figure::new("looks", account.looks as f64, "times"))
    }

    /// The main reason for which the thread slept.
    pub(crate) fn slept_for(&self) -> Option<SleepsFor> {
        let has = |what: &SleepsFor| self.figure(&format!("asleep_for_{}", what.word())).is_some();
        SleepsFor::ALL.into_iter().find(has)
    }
}

/// The words for a thread that sleeps for this reason.
pub(super) fn sleeps(what: SleepsFor) -> &'static str {
    match what {
        SleepsFor::Lock => "sleeps in `futex` (a lock, or until another thread wakes it)",
        SleepsFor::Read => "waits in `read` until there is something to read",
        SleepsFor::Write => "waits in `write` until the other side takes it",
        SleepsFor::Sleep => "sleeps for a time (`nanosleep`)",
        SleepsFor::PageFault => "waits for pages of memory",
        SleepsFor::Other => "sleeps in a call of the kernel",
    }
}

/// The words for the reason for which the thread of a finding's task slept.
pub(super) fn sleeps_of(found: &Finding, what: SleepsFor) -> &'static str {
    match found.figure(COMMAND) {
        Some(_) => "waits for its command",
        None => sleeps(what),
    }
}

/// What to do about a box that waits for its command.
pub(super) fn relieve_command(path: &str) -> String {
    format!(
        "make the command of {path} faster, or replicate {path} (`!` in the network): each replica has its own command"
    )
}

/// The figure by which a finding says that its task sleeps because it waits for the command of its box.
pub(super) const COMMAND: &str = "commands";

/// The figure [`COMMAND`], if a task waits for its command. A box that is a command has two tasks with the same name and
/// threads of their own: one writes to the command, and the other reads what the command writes.
pub(super) fn of_command(facts: &Facts<'_>, task: &Task, account: &BusyAccount) -> Option<Figure> {
    use SleepsFor::{Other, Read, Write};
    let is_other = |other: &Task| other.id != task.id && other.name == task.name && other.worker.is_none();
    let waits = account.asleep.most().is_some_and(|(what, _)| matches!(what, Other | Read | Write));
    let is_command = waits && task.worker.is_none() && facts.inside().any(|(other, _)| is_other(other));
    is_command.then(|| Figure::new(COMMAND, 1.0, "commands"))
}

/// The share of its processors' time that the run's threads used.
pub(super) fn used_by_run(processors: &Processors) -> f64 {
    processors.run_ns / (processors.count.max(1) as f64 * processors.span_ns)
}

/// Whether an account rules out a finding, which then cannot be the verdict.
pub(super) fn contradicts(facts: &Facts<'_>, found: &Finding) -> bool {
    let task =
        || facts.report.tasks.iter().find(|task| found.task.as_ref().is_some_and(|of| of.id == task.id));
    let implies_work = !matches!(found.rule.as_str(), "asleep" | "spinning" | "hang")
        && found.figure("asleep_of_busy").is_none();
    match found.kind {
        // A finding that others used the processors is ruled out if no worker was kept from a processor, or if the
        // run's own threads used nearly all of the processors.
        VerdictKind::Contention => {
            let is_own = |used: &Processors| used.throttled_ns <= 0.0 && used_by_run(used) >= OWN_USE;
            facts.report.processors.as_ref().is_some_and(is_own)
                || !facts.workers.iter().any(|(worker, shares)| is_delayed(facts, worker, shares))
        }
        // A finding that a task has too much work is ruled out if the task mostly sleeps: with less work it
        // would not be faster.
        VerdictKind::Task | VerdictKind::Burst if implies_work => {
            let account = task().and_then(|task| facts.account(task));
            let spins = spinning_part(account).filter(|_| found.figure("gain_without_lock").is_none());
            asleep_part(account).unwrap_or(0.0) + spins.unwrap_or(0.0) > ASLEEP
        }
        // If workers sleep in boxes, neither the number of workers nor the mapping of tasks is the limit.
        VerdictKind::Worker | VerdictKind::Mapping | VerdictKind::Quantum | VerdictKind::Grain => {
            let of_finding = |worker: &&Worker| found.worker.is_none_or(|id| id == worker.id);
            let mut workers = facts.workers.iter().map(|(worker, _)| *worker).filter(of_finding).peekable();
            let sleeps =
                |worker: &Worker| asleep_part(worker.account.as_ref()).is_some_and(|part| part > ASLEEP);
            workers.peek().is_some() && workers.all(sleeps)
        }
        _ => false,
    }
}

/// Whether a worker was runnable without a processor for a significant share of its time.
fn is_delayed(facts: &Facts<'_>, worker: &Worker, shares: &crate::report::WorkerShares) -> bool {
    let kept = worker.account.as_ref().filter(|account| is_sure(account));
    let kept = kept.map_or(0.0, |account| account.kept_ns / worker.lifetime_ns.max(1.0));
    let processor = Processor::of(facts, worker, shares);
    let throttled =
        facts.report.processors.as_ref().is_some_and(|used| used.throttled_ns >= LOST * used.span_ns);
    throttled || kept >= LOST || processor.is_some_and(|processor| processor.lost >= LOST)
}

/// The task that sleeps most, among those on the worker with the least spare time and those with threads of
/// their own, and the share of time for which it sleeps.
pub(super) fn sleeper<'r>(facts: &Facts<'r>) -> Option<(&'r Task, f64)> {
    let presses = |task: &Task, shares: &TaskShares| match task.worker {
        None => shares.busy >= SATURATED,
        Some(id) => facts.workers.iter().any(|(worker, shares)| worker.id == id && load(shares) >= SATURATED),
    };
    // A box that is often asleep in a read has taken all that there was: its input from outside sets the pace, if no
    // worker is busy all the time.
    let reads = facts.inside().map(|(task, shares)| (task, reading_part(task, &shares)));
    let reads = reads.filter(|(_, part)| *part >= LOST && facts.saturated_workers() == 0);
    if let Some(reader) = reads.max_by(|a, b| a.1.total_cmp(&b.1)) {
        return Some(reader);
    }
    let asleep = facts.inside().filter_map(|(task, shares)| {
        let asleep = shares.busy * asleep_part(facts.account(task))?;
        let asleep = Some(asleep).filter(|asleep| *asleep >= LOST)?;
        (presses(task, &shares) && !passes_on(facts, task)).then_some((task, asleep))
    });
    asleep.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Whether a task sleeps in writes because the readers of its component's output are slow: another task of the component
/// reads what comes of these writes, as in a box that is a command, and waits for room.
fn passes_on(facts: &Facts<'_>, task: &Task) -> bool {
    let writes = facts.account(task).and_then(|account| account.asleep.most()).map(|(what, _)| what);
    let of_same = |other: &Task| other.id != task.id && component_of(&other.name) == component_of(&task.name);
    writes == Some(SleepsFor::Write)
        && facts.tasks().any(|(other, shares)| of_same(other) && shares.output_wait >= STARVED)
}
