//! The division of every task's time, and its messages read and written; published for the tasks of each
//! component together, and for the busiest single tasks.

use std::collections::{BTreeMap, HashMap};

use crate::composing::dispatch::{For, Outcome, Wait, What};
use crate::composing::structure::{Structure, Task};
use crate::decoding::events::{Observation, ThreadUsed};
use crate::decoding::names::SiteName;
use crate::decoding::observation::{LiveRow, LiveState, TaskCounts, TaskTotals};
use crate::ids::{IdMap, TaskId, WorkerId};
use crate::monitor::{Batch, Moment, Monitor, Open};
use crate::report::{self, Component, Report, TaskShares, Work};

/// The least number of ended tasks kept; if there are more, the busiest are kept.
const KEPT_MIN: usize = 256;

/// Ticks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    busy: u64,
    input_wait: u64,
    output_wait: u64,
    ready: u64,
}

impl Ticks {
    fn sum(&self) -> u64 {
        self.busy.saturating_add(self.input_wait).saturating_add(self.output_wait).saturating_add(self.ready)
    }

    fn add(&mut self, other: &Ticks) {
        self.busy = self.busy.saturating_add(other.busy);
        self.input_wait = self.input_wait.saturating_add(other.input_wait);
        self.output_wait = self.output_wait.saturating_add(other.output_wait);
        self.ready = self.ready.saturating_add(other.ready);
    }

    fn wait(&mut self, wait: &Wait) {
        match wait.what {
            For::Turn => {}
            For::Input => self.input_wait += wait.woken - wait.since,
            For::Room => self.output_wait += wait.woken - wait.since,
        }
        self.ready += wait.until - wait.woken;
    }
}

impl From<&TaskTotals> for Ticks {
    fn from(totals: &TaskTotals) -> Ticks {
        Ticks {
            busy: totals.busy_ticks,
            input_wait: totals.input_wait_ticks,
            output_wait: totals.output_wait_ticks,
            ready: totals.ready_ticks,
        }
    }
}

/// The sums of a task.
#[derive(Clone, Copy, Default)]
struct Sum {
    ticks: Ticks,
    counts: TaskCounts,
    yields: Yields,
    empty: Empty,
    moves: u64,
    failed: u64,
    cpu: Option<Cpu>,
}

/// Dispatches that read and wrote nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Empty {
    count: u64,
    ticks: u64,
}

impl Empty {
    fn add(&mut self, other: Empty) {
        self.count += other.count;
        self.ticks += other.ticks;
    }
}

/// The number of dispatches whose events were read, and how many of these ended with their quantum spent.
#[derive(Clone, Copy, Debug, Default)]
struct Yields {
    spent: u64,
    seen: u64,
}

impl Yields {
    fn add(&mut self, other: Yields) {
        self.spent += other.spent;
        self.seen += other.seen;
    }

    fn share(self) -> Option<f64> {
        (self.seen > 0).then(|| self.spent as f64 / self.seen as f64)
    }
}

/// The processor time of a thread up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) cpu_ns: u64,
    pub(crate) preempted: u64,
    pub(crate) delayed_ns: Option<u64>,
}

impl Used {
    pub(crate) fn of(used: &ThreadUsed) -> Used {
        Used { cpu_ns: used.cpu_ns, preempted: used.preempted, delayed_ns: used.delayed() }
    }
}

/// The processor time of a thread until the start of the measurement, and until now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    base: Used,
    now: Used,
}

impl Cpu {
    pub(crate) fn update(&mut self, used: Used) {
        self.now = used;
    }

    pub(crate) fn restart(&mut self) {
        self.base = self.now;
    }

    pub(crate) fn used_ns(&self) -> f64 {
        self.now.cpu_ns.saturating_sub(self.base.cpu_ns) as f64
    }

    pub(crate) fn preempted(&self) -> u64 {
        self.now.preempted.saturating_sub(self.base.preempted)
    }

    pub(crate) fn delayed_ns(&self) -> Option<f64> {
        let before = self.base.delayed_ns.unwrap_or(0);
        self.now.delayed_ns.map(|now| now.saturating_sub(before) as f64)
    }
}

#[derive(Clone, Copy, Default)]
struct ComponentSum {
    tasks: u64,
    tasks_live: u64,
    ticks: Ticks,
    counts: TaskCounts,
    yields: Yields,
    empty: Empty,
    /// The sum of the lifetimes; `lifetimes_unknown` is the number of tasks with unknown lifetime.
    lifetime: u64,
    lifetimes_unknown: u64,
    /// The number of tasks whose counts are not known.
    uncounted: u64,
    failed: u64,
    ended_badly: u64,
}

#[derive(Clone, Copy)]
struct Summary {
    id: u64,
    component: u64,
    replica: u64,
    worker: Option<u64>,
    ticks: Ticks,
    counts: Option<TaskCounts>,
    yields: Yields,
    empty: Empty,
    lifetime: Option<u64>,
    moves: u64,
    failed: u64,
    ended_badly: bool,
    cpu: Option<Cpu>,
    state: &'static str,
}

/// The monitor of tasks' and components' time: see the module.
#[derive(Default)]
pub(crate) struct Shares {
    tasks: IdMap<Sum>,
    ended: Ended,
}

/// The sums of ended tasks.
#[derive(Clone, Default)]
struct Ended {
    components: IdMap<ComponentSum>,
    kept: Vec<Summary>,
    count: u64,
}

impl Ended {
    fn add(&mut self, task: &Summary, live: bool, kept_max: usize) {
        let sum = self.components.entry(task.component).or_default();
        sum.tasks += 1;
        sum.tasks_live += u64::from(live);
        sum.ticks.add(&task.ticks);
        sum.yields.add(task.yields);
        sum.empty.add(task.empty);
        sum.lifetime += task.lifetime.unwrap_or(0);
        sum.lifetimes_unknown += u64::from(task.lifetime.is_none());
        match task.counts {
            None => sum.uncounted += 1,
            Some(counts) => add_counts(&mut sum.counts, &counts),
        }
        sum.failed = sum.failed.saturating_add(task.failed);
        sum.ended_badly += u64::from(task.ended_badly);
        self.count += 1;
        self.kept.push(*task);
        if self.kept.len() >= 2 * kept_max {
            self.keep_busiest(kept_max);
        }
    }

    fn keep_busiest(&mut self, max: usize) {
        // Tasks without a component belong to the run itself and not to its network, so they come last.
        self.kept.sort_by_key(|task| (task.component == 0, std::cmp::Reverse(task.ticks.busy), task.id));
        self.kept.truncate(max);
    }
}

fn add_counts(sum: &mut TaskCounts, counts: &TaskCounts) {
    sum.dispatches = sum.dispatches.saturating_add(counts.dispatches);
    sum.reads = sum.reads.saturating_add(counts.reads);
    sum.writes = sum.writes.saturating_add(counts.writes);
}

impl Monitor for Shares {
    fn name(&self) -> &str {
        "tasks"
    }

    fn wants(&self) -> &[&str] {
        &[
            "run.dispatch",
            "run.wait",
            "net.record_failed",
            "exec.task_moved",
            "exec.thread_used",
            "exec.task_ended",
        ]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Dispatch(dispatch) => {
                    let messages = |runs: &[crate::Run]| runs.iter().map(|run| run.count).sum::<u64>();
                    let task = self.tasks.entry(dispatch.task).or_default();
                    let (reads, writes) =
                        (messages(batch.reads(&dispatch)), messages(batch.writes(&dispatch)));
                    task.counts.dispatches += 1;
                    task.counts.reads += reads;
                    task.counts.writes += writes;
                    if reads == 0 && writes == 0 {
                        task.empty.add(Empty { count: 1, ticks: dispatch.busy() });
                    }
                    let spent = u64::from(dispatch.outcome == Outcome::Yielded);
                    task.yields.add(Yields { spent, seen: 1 });
                    task.ticks.busy += dispatch.busy();
                    task.ticks.ready += dispatch.kept;
                }
                What::Wait(wait) => self.tasks.entry(wait.task).or_default().ticks.wait(&wait),
                What::Runtime(Observation::RecordFailed(failed)) => {
                    self.tasks.entry(failed.task).or_default().failed += 1;
                }
                What::Runtime(Observation::TaskMoved(moved)) => {
                    self.tasks.entry(moved.task).or_default().moves += 1;
                }
                What::Runtime(Observation::ThreadUsed(used)) if used.task != 0 => {
                    let sum = self.tasks.entry(used.task).or_default();
                    sum.cpu.get_or_insert_default().update(Used::of(&used));
                }
                What::Runtime(Observation::TaskEnded(ended)) => {
                    let totals = ended.totals();
                    self.task_ended(batch, item.time, ended.task, &totals, ended.ended_badly());
                }
                _ => {}
            }
        }
    }

    fn restart(&mut self, _time: u64) {
        for sum in self.tasks.values_mut() {
            let cpu = sum.cpu.map(|mut cpu| {
                cpu.restart();
                cpu
            });
            *sum = Sum { cpu, ..Sum::default() };
        }
        self.ended = Ended::default();
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let mut all = self.ended.clone();
        let kept_max = moment.top.max(KEPT_MIN);
        let rows = task_rows(&moment.ending.rows);
        let mut open: Vec<&Open> = moment.open.iter().collect();
        open.sort_unstable_by_key(|open| open.task);
        for open in open {
            all.add(&self.summary(moment, open, &rows), true, kept_max);
        }
        all.keep_busiest(kept_max);
        report.components = components(moment, &all, report);
        report.tasks_count = all.count;
        report.tasks = all.kept.iter().map(|task| task_report(moment, &all, task)).collect();
    }
}

/// The rows of tasks in the live table.
fn task_rows(rows: &[LiveRow]) -> HashMap<u64, (LiveState, TaskTotals)> {
    let of_task = |row: &LiveRow| match *row {
        LiveRow::Task { task, state, totals, .. } => Some((task, (state, totals))),
        _ => None,
    };
    rows.iter().filter_map(of_task).collect()
}

impl Shares {
    fn task_ended(&mut self, batch: &Batch<'_>, time: u64, id: u64, totals: &TaskTotals, ended_badly: bool) {
        let sum = self.tasks.remove(&id).unwrap_or_default();
        let Some(task) = batch.structure().task(id) else { return };
        let whole = batch.structure().whole();
        let summary = Summary {
            id,
            component: task.component,
            replica: task.replica,
            worker: task.worker,
            ticks: if whole { sum.ticks } else { Ticks::from(totals) },
            counts: if whole { Some(sum.counts) } else { totals.counts },
            yields: sum.yields,
            empty: sum.empty,
            lifetime: lifetime(batch.structure(), task, time).filter(|_| whole),
            moves: sum.moves,
            failed: sum.failed,
            ended_badly,
            cpu: sum.cpu,
            state: if ended_badly { "ended badly" } else { "ended" },
        };
        self.ended.add(&summary, false, KEPT_MIN);
    }

    /// The sums of a task that still exists.
    fn summary(
        &self,
        moment: &Moment<'_>,
        open: &Open,
        rows: &HashMap<u64, (LiveState, TaskTotals)>,
    ) -> Summary {
        let id = open.task;
        let sum = self.tasks.get(&id).copied().unwrap_or_default();
        let row = rows.get(&id).map(|(_, totals)| totals);
        let task = moment.structure.task(id).copied().unwrap_or_default();
        let mut ticks = sum.ticks;
        if let Some(wait) = &open.wait {
            ticks.wait(wait);
        }
        if let Some(since) = open.running_since {
            ticks.busy += moment.end.saturating_sub(since);
        }
        let lifetime = lifetime(moment.structure, &task, moment.end).filter(|_| moment.whole);
        if let (Some(lifetime), Some(wait)) = (lifetime, &open.wait) {
            ticks.ready -= excess(&ticks, lifetime).min(wait.until - wait.woken);
        }
        Summary {
            id,
            component: task.component,
            replica: task.replica,
            worker: task.worker,
            ticks: if moment.whole { ticks } else { row.map_or(ticks, Ticks::from) },
            counts: if moment.whole { Some(sum.counts) } else { row.and_then(|row| row.counts) },
            yields: sum.yields,
            empty: sum.empty,
            lifetime,
            moves: sum.moves,
            failed: sum.failed,
            ended_badly: false,
            cpu: sum.cpu,
            state: state(open, task.timeline.now().is_some()),
        }
    }
}

/// By how much a task's known times and its present wait are together longer than its lifetime. This was seen once, in a live
/// report on a run that recorded more than was read: the wait seemed to go on since the task was created, although a
/// dispatch was known. A creation that is read after a dispatch led to this, and no longer does ([`Timeline::created`]).
///
/// [`Timeline::created`]: crate::composing::timeline::Timeline::created
fn excess(ticks: &Ticks, lifetime: u64) -> u64 {
    ticks.sum().saturating_sub(lifetime)
}

/// The time for which a task lived within the measurement, up to `until`; `None` if its creation is not
/// known.
fn lifetime(structure: &Structure, task: &Task, until: u64) -> Option<u64> {
    let begin = structure.begin.unwrap_or(0);
    Some(until.saturating_sub(task.created?.max(begin)))
}

/// The word for a task's state at the end of the window.
fn state(open: &Open, known: bool) -> &'static str {
    match open.wait {
        _ if open.running_since.is_some() => "running",
        Some(wait) if wait.what == For::Input && !wait.ended => "waiting for input",
        Some(wait) if wait.what == For::Room && !wait.ended => "waiting for output",
        _ if known => "ready",
        _ => "unknown",
    }
}

/// What is known of the time and messages of a task, or of all tasks of a component.
struct Account<'a> {
    ticks: &'a Ticks,
    counts: Option<TaskCounts>,
    yields: Yields,
    empty: Empty,
    lifetime: Option<u64>,
    failed: u64,
    ended_badly: u64,
}

fn work(moment: &Moment<'_>, of: Account<'_>) -> Work {
    let Account { ticks, counts, yields, empty, lifetime, failed, ended_badly } = of;
    let sum = ticks.sum();
    let share = |part: u64| part as f64 / lifetime.filter(|&ticks| ticks > 0).unwrap_or(sum) as f64;
    // If some dispatches were lost, the number of empty ones is not known.
    let empty = Some(empty).filter(|_| moment.whole);
    let worked = ticks.busy.saturating_sub(empty.map_or(0, |empty| empty.ticks));
    let messages = counts.map(|counts| if counts.reads > 0 { counts.reads } else { counts.writes });
    Work {
        messages_in: counts.map(|counts| counts.reads),
        messages_out: counts.map(|counts| counts.writes),
        selectivity: counts
            .filter(|counts| counts.reads > 0)
            .map(|counts| counts.writes as f64 / counts.reads as f64),
        dispatches: counts.map(|counts| counts.dispatches).filter(|&dispatches| dispatches > 0),
        yields: moment.whole.then_some(yields.spent),
        yield_share: yields.share(),
        empty: empty.map(|empty| empty.count),
        busy_ns: (sum > 0).then(|| moment.ns(ticks.busy)),
        empty_ns: empty.map(|empty| moment.ns(empty.ticks)),
        lifetime_ns: lifetime.map(|ticks| moment.ns(ticks)),
        shares: (sum > 0).then(|| TaskShares {
            busy: share(ticks.busy),
            input_wait: share(ticks.input_wait),
            output_wait: share(ticks.output_wait),
            ready: share(ticks.ready),
        }),
        service_ns: messages
            .filter(|&messages| messages > 0 && sum > 0)
            .map(|messages| moment.ns(worked) / messages as f64),
        failed,
        ended_badly,
        account: None,
    }
}

fn components(moment: &Moment<'_>, all: &Ended, report: &Report) -> Vec<Component> {
    // Sites with the same path (a network that was loaded twice) are one component.
    let mut by_path: BTreeMap<String, (SiteName, ComponentSum)> = BTreeMap::new();
    for (&site, sum) in &all.components {
        let name = moment.names.site(site);
        let (_, total) = by_path.entry(name.path.clone()).or_insert_with(|| (name, ComponentSum::default()));
        total.add(sum);
    }
    let mut components: Vec<Component> = by_path
        .into_values()
        .map(|(name, sum)| {
            let counts = (sum.uncounted == 0).then_some(sum.counts).or_else(|| counted(report, &name.path));
            let account = Account {
                ticks: &sum.ticks,
                counts,
                yields: sum.yields,
                empty: sum.empty,
                lifetime: (sum.lifetimes_unknown == 0).then_some(sum.lifetime),
                failed: sum.failed,
                ended_badly: sum.ended_badly,
            };
            Component {
                path: name.path,
                kind: name.kind,
                place: name.place,
                tasks: sum.tasks,
                tasks_live: sum.tasks_live,
                work: work(moment, account),
                service: None,
            }
        })
        .collect();
    components.sort_by(|a, b| {
        let busy = |component: &Component| component.work.busy_ns.unwrap_or(0.0);
        let own = |component: &Component| component.path == crate::decoding::names::NO_COMPONENT;
        own(a).cmp(&own(b)).then(busy(b).total_cmp(&busy(a))).then_with(|| a.path.cmp(&b.path))
    });
    components
}

/// The messages read and written by a component whose tasks do not record them, from the positions of its
/// streams.
fn counted(report: &Report, path: &str) -> Option<TaskCounts> {
    let mut counts = None;
    for stream in &report.streams {
        let counts: &mut TaskCounts = match (&stream.reader, &stream.writer) {
            (Some(reader), writer) if reader == path || writer.as_deref() == Some(path) => {
                counts.get_or_insert_default()
            }
            (None, Some(writer)) if writer == path => counts.get_or_insert_default(),
            _ => continue,
        };
        if stream.reader.as_deref() == Some(path) {
            counts.reads += stream.read.unwrap_or(0) + stream.failed;
        }
        if stream.writer.as_deref() == Some(path) {
            counts.writes += stream.written.unwrap_or(0);
        }
    }
    counts
}

fn task_report(moment: &Moment<'_>, all: &Ended, task: &Summary) -> report::Task {
    let several = all.components.get(&task.component).is_some_and(|sum| sum.tasks > 1);
    let account = Account {
        ticks: &task.ticks,
        counts: task.counts,
        yields: task.yields,
        empty: task.empty,
        lifetime: task.lifetime,
        failed: task.failed,
        ended_badly: u64::from(task.ended_badly),
    };
    report::Task {
        id: TaskId::of(task.id),
        name: moment.names.task(task.component, task.replica, several),
        worker: task.worker.map(WorkerId::of),
        state: task.state.to_owned(),
        moves: task.moves,
        cpu_ns: task.cpu.map(|cpu| cpu.used_ns()),
        delayed_ns: task.cpu.and_then(|cpu| cpu.delayed_ns()),
        work: work(moment, account),
    }
}

impl ComponentSum {
    fn add(&mut self, other: &ComponentSum) {
        self.tasks += other.tasks;
        self.tasks_live += other.tasks_live;
        self.ticks.add(&other.ticks);
        add_counts(&mut self.counts, &other.counts);
        self.yields.add(other.yields);
        self.empty.add(other.empty);
        self.lifetime += other.lifetime;
        self.lifetimes_unknown += other.lifetimes_unknown;
        self.uncounted += other.uncounted;
        self.failed += other.failed;
        self.ended_badly += other.ended_badly;
    }
}
