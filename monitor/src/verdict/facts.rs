//! Facts of a report that all rules need.

use crate::ids::WorkerId;
use crate::report::{
    BusyAccount, Component, Figure, Finding, LinkUse, Report, RootState, Subject, Task, TaskRef, TaskShares,
    Work, Worker, WorkerShares, component_of,
};

use super::accounts::{is_sure, writing_part};
use super::thresholds::{HELD_BACK, LINKED, PREVAILS, SATURATED, SHORT_LIFE, STARVED};

/// A report, and facts derived from it for rules.
pub(crate) struct Facts<'r> {
    pub(super) report: &'r Report,
    /// The largest share of its time for which a source waits for room; `None` if no source is known.
    pub(super) held_back: Option<f64>,
    /// Workers whose shares are known, the busiest first.
    pub(super) workers: Vec<(&'r Worker, WorkerShares)>,
}

impl<'r> Facts<'r> {
    pub(super) fn new(report: &'r Report) -> Facts<'r> {
        // A source that ended long before the run did is not considered.
        let run_ns = report.window.duration_ns;
        let lived = |task: &Task| {
            task.work.shares.is_none_or(|shares| {
                let lived_ns = task.work.busy_ns.unwrap_or(0.0) / shares.busy;
                !lived_ns.is_finite() || lived_ns >= SHORT_LIFE * run_ns
            })
        };
        let sources = report.tasks.iter().filter(|task| is_source(task) && lived(task));
        let held_back = sources.filter_map(|task| Some(task.work.shares?.output_wait)).reduce(f64::max);
        let mut workers: Vec<(&Worker, WorkerShares)> =
            report.workers.iter().filter_map(|worker| Some((worker, worker.shares?))).collect();
        workers.sort_by(|a, b| load(&b.1).total_cmp(&load(&a.1)));
        Facts { report, held_back, workers }
    }

    /// Whether no source is held back for a considerable share of its time: then the network keeps up with
    /// the sources.
    pub(super) fn keeps_up(&self) -> bool {
        self.held_back.is_some_and(|share| share < HELD_BACK)
    }

    /// The node to which links waited for the largest share of their time, and this share, if records were held
    /// back by that; `waited` is the time that counts.
    pub(super) fn linked(&self, waited: impl Fn(&LinkUse) -> f64) -> Option<Figure> {
        let run_ns = self.report.window.duration_ns;
        let out = self.report.links.iter().filter(|link| link.direction == "out" && link.links > 0);
        let shares = out.map(|link| (link, waited(link) / (run_ns * link.links as f64)));
        let (link, share) = shares.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (share >= LINKED && !self.keeps_up())
            .then(|| Figure::share("waited", share.min(1.0)).of(Subject::Node(link.node.clone())))
    }

    /// The share of all waiting whose root is this component.
    fn blame(&self, path: &str) -> f64 {
        let roots = self.report.waiting.roots.iter();
        roots.filter(|root| root.component.as_deref() == Some(path)).map(|root| root.share).sum()
    }

    /// The task that is the root of most waiting, and its share.
    pub(super) fn root(&self) -> Option<Figure> {
        let root = self.report.waiting.roots.first()?;
        let task = TaskRef { id: root.task, name: root.name.clone()? };
        let name = match root.state {
            RootState::Running => "waiting_for_running",
            RootState::Ready => "waiting_for_ready",
            RootState::Circle => "waiting_for_itself",
            RootState::Unknown => "waiting_for",
        };
        Some(Figure::share(name, root.share).of(Subject::Task(task)))
    }

    /// The tasks with their states as shares of the whole run's time, also for a task that lived for a part
    /// of the run only.
    pub(super) fn tasks(&self) -> impl Iterator<Item = (&'r Task, TaskShares)> {
        let run_ns = self.report.window.duration_ns;
        let tasks = self.report.tasks.iter().filter(|task| moves(task));
        tasks.filter_map(move |task| Some((task, of_run(&task.work, task.work.shares?, run_ns))))
    }

    /// The tasks that are neither sources nor sinks.
    pub(super) fn inside(&self) -> impl Iterator<Item = (&'r Task, TaskShares)> {
        self.tasks().filter(|(task, _)| !is_source(task) && !is_sink(task))
    }

    /// The busiest task of a worker.
    pub(super) fn busiest_on(&self, worker: WorkerId) -> Option<(&'r Task, TaskShares)> {
        let tasks = self.tasks().filter(|(task, _)| task.worker == Some(worker));
        tasks.max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))
    }

    /// The busiest worker, if it has no spare time.
    pub(super) fn saturated_worker(&self) -> Option<(&'r Worker, WorkerShares)> {
        self.workers.first().copied().filter(|(_, shares)| load(shares) >= SATURATED)
    }

    /// The number of workers without spare time.
    pub(super) fn saturated_workers(&self) -> usize {
        self.workers.iter().filter(|(_, shares)| load(shares) >= SATURATED).count()
    }

    /// A task inside the network that is busy all the time, or that makes up nearly all the busy time of a
    /// saturated worker.
    pub(super) fn saturated_task(&self) -> Option<(&'r Task, TaskShares)> {
        let fills = |task: &Task, busy: f64| {
            let of = self.workers.iter().find(|(worker, _)| Some(worker.id) == task.worker);
            let load = of.map(|(_, shares)| load(shares));
            load.is_some_and(|load| load >= SATURATED && busy >= SATURATED * load)
        };
        let weight = |task: &Task, shares: &TaskShares| shares.busy + self.blame(component_of(&task.name));
        self.inside()
            .filter(|(task, shares)| shares.busy >= SATURATED || fills(task, shares.busy))
            .max_by(|a, b| weight(a.0, &a.1).total_cmp(&weight(b.0, &b.1)))
    }

    /// A task inside the network that makes up most of the busy time of the only saturated worker.
    pub(super) fn prevailing_task(&self) -> Option<(&'r Task, TaskShares)> {
        let (hot, shares) = self.saturated_worker().filter(|_| self.saturated_workers() == 1)?;
        let prevails =
            |task: &Task, busy: f64| task.worker == Some(hot.id) && busy >= PREVAILS * load(&shares);
        self.inside().find(|(task, shares)| prevails(task, shares.busy))
    }

    /// Whether a sink is asleep in a write for at least this share of the time.
    pub(super) fn is_read_slowly(&self, share: f64) -> bool {
        self.tasks().any(|(task, shares)| is_sink(task) && writing_part(task, &shares) >= share)
    }

    /// The source with the most work or the most waiting for the outside, if the network keeps up with it.
    pub(super) fn source_kept_up_with(&self) -> Option<(&'r Task, TaskShares)> {
        // The source is not held back yet while its messages fill the pipe of a slow reader.
        if self.is_read_slowly(SATURATED) {
            return None;
        }
        let sources = self.tasks().filter(|(task, shares)| is_source(task) && self.is_kept_up_with(shares));
        sources.max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))
    }

    fn is_kept_up_with(&self, shares: &TaskShares) -> bool {
        self.is_in_time(shares) || self.keeps_up() && shares.busy + shares.input_wait >= STARVED
    }

    /// Whether a source, which a limit on messages in flight holds back at times, also waits for its input from
    /// outside, such as the moment for its next message: then the limit does not make the source late.
    pub(super) fn is_in_time(&self, shares: &TaskShares) -> bool {
        self.report.limits.is_some_and(|limits| limits.unfinished > 0) && shares.input_wait >= HELD_BACK
    }

    /// The account of a task's busy time; if it is based on too few samples, the account of the task's
    /// component.
    pub(super) fn account(&self, task: &'r Task) -> Option<&'r BusyAccount> {
        let own = task.work.account.as_ref().filter(|account| is_sure(account));
        let of_component = || self.component(component_of(&task.name))?.work.account.as_ref();
        own.or_else(|| of_component().filter(|account| is_sure(account)))
    }

    pub(super) fn component(&self, path: &str) -> Option<&'r Component> {
        self.report.components.iter().find(|component| component.path == path)
    }
}

impl Finding {
    /// Adds the root of most waiting to the figures of a finding.
    pub(super) fn rooted(self, facts: &Facts<'_>) -> Finding {
        self.with(facts.root())
    }
}

/// Converts a task's shares of its own time to shares of the run's time, if the task lived for a short part
/// of the run.
fn of_run(work: &Work, shares: TaskShares, run_ns: f64) -> TaskShares {
    let lived_ns = work.busy_ns.unwrap_or(0.0) / shares.busy;
    if !lived_ns.is_finite() || lived_ns >= SHORT_LIFE * run_ns {
        return shares;
    }
    let part = |share: f64| share * lived_ns / run_ns;
    TaskShares {
        busy: part(shares.busy),
        input_wait: part(shares.input_wait),
        output_wait: part(shares.output_wait),
        ready: part(shares.ready),
    }
}

/// The share of its time in which a worker is not free to run more tasks.
pub(super) fn load(shares: &WorkerShares) -> f64 {
    shares.busy + shares.own + shares.kept + shares.unaccounted
}

/// Whether a task moves messages; a task that moves none, such as one that waits for the run's end, cannot
/// limit the flow.
pub(super) fn moves(task: &Task) -> bool {
    let work = &task.work;
    (work.messages_in, work.messages_out) != (Some(0), Some(0))
}

pub(crate) fn is_source(task: &Task) -> bool {
    task.work.messages_in == Some(0) && task.work.messages_out > Some(0)
}

pub(crate) fn is_sink(task: &Task) -> bool {
    task.work.messages_out == Some(0) && task.work.messages_in > Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_short_life_are_small_shares_of_the_run() {
        let shares = TaskShares { busy: 0.9, input_wait: 0.1, output_wait: 0.0, ready: 0.0 };
        let work = |busy_ns| Work { busy_ns: Some(busy_ns), ..Work::default() };
        assert_eq!(of_run(&work(0.9e9), shares, 1e9), shares);
        let short = of_run(&work(0.9e6), shares, 1e9);
        assert!((short.busy - 0.9e-3).abs() < 1e-9 && (short.input_wait - 0.1e-3).abs() < 1e-9, "{short:?}");
    }
}
