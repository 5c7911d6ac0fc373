//! The division of every worker's time.

use crate::composing::dispatch::{Dispatch, What};
use crate::composing::structure::OWN_THREAD;
use crate::decoding::events::{
    Kept, Observation, WorkerParked, WorkerResumed, WorkerUnparked, WorkerWaiting,
};
use crate::decoding::observation::{Besides, LiveRow};
use crate::ids::{IdMap, WorkerId};
use crate::monitor::{Batch, Moment, Monitor};
use crate::monitors::shares::{Cpu, Used};
use crate::report::{self, Report, State, Throughput, WorkerShares};

/// The monitor of workers: see the module.
#[derive(Default)]
pub(crate) struct Workers {
    workers: IdMap<Worker>,
    begin: u64,
}

#[derive(Clone, Copy, Debug)]
struct Worker {
    core: i64,
    node: i64,
    started: Option<u64>,
    ended: Option<u64>,
    waiting_since: Option<u64>,
    parked_since: Option<u64>,
    parked_ticks: u64,
    /// The time up to which the worker's states are known; `kept_since` is the time without a processor since
    /// then.
    until: Option<u64>,
    kept_since: u64,
    ticks: Ticks,
    dispatches: u64,
    messages: u64,
    cpu: Option<Cpu>,
    /// The busy and waiting ticks that the worker recorded when it ended, or in the live table.
    totals: Option<(u64, u64)>,
    /// The recorded time in which the worker neither dispatched nor waited; `besides_before` is this time up
    /// to the start of the measurement.
    besides: Besides,
    besides_before: Besides,
    totals_dispatches: Option<u64>,
    /// The time at which the worker's row was last written.
    updated: u64,
    on_task: u64,
    on_message: u64,
}

/// The division of a worker's time, in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    busy: u64,
    waiting: u64,
    own: u64,
    kept: u64,
}

impl Default for Worker {
    fn default() -> Worker {
        Worker {
            core: -1,
            node: -1,
            started: None,
            ended: None,
            waiting_since: None,
            parked_since: None,
            parked_ticks: 0,
            until: None,
            kept_since: 0,
            ticks: Ticks::default(),
            dispatches: 0,
            messages: 0,
            cpu: None,
            totals: None,
            besides: Besides::default(),
            besides_before: Besides::default(),
            totals_dispatches: None,
            updated: 0,
            on_task: 0,
            on_message: 0,
        }
    }
}

impl Worker {
    /// Extends the time up to which the worker's states are known to `time`. Returns the length of the new
    /// part, less the time without a processor in it.
    fn extend_to(&mut self, time: u64) -> u64 {
        let since = self.until.replace(time).unwrap_or(time);
        self.until = Some(time.max(since));
        let kept = std::mem::take(&mut self.kept_since).min(time.saturating_sub(since));
        self.ticks.kept += kept;
        time.saturating_sub(since) - kept
    }

    fn dispatched(&mut self, dispatch: &Dispatch) {
        self.ticks.own += self.extend_to(dispatch.start);
        // The states of a thread cannot overlap, even if damaged events say so.
        let lasted = self.extend_to(dispatch.end);
        let kept = dispatch.kept.min(lasted);
        self.ticks.busy += lasted - kept;
        self.ticks.kept += kept;
    }

    fn parked(&mut self, time: u64) {
        self.resumed(time);
        self.parked_since = Some(time);
    }

    fn unparked(&mut self, time: u64) {
        if let Some(since) = self.parked_since.take() {
            self.parked_ticks += time.saturating_sub(since);
            self.until = self.until.max(Some(time));
        }
    }

    fn waits(&mut self, time: u64) {
        self.ticks.own += self.extend_to(time);
        self.waiting_since = Some(time);
    }

    /// Ends the worker's wait; if it did not wait, the time since its last known state was its own work.
    fn resumed(&mut self, time: u64) {
        let ticks = self.extend_to(time);
        match self.waiting_since.take() {
            Some(_) => self.ticks.waiting += ticks,
            None => self.ticks.own += ticks,
        }
    }
}

impl Monitor for Workers {
    fn name(&self) -> &str {
        "workers"
    }

    fn wants(&self) -> &[&str] {
        &["run.dispatch", "exec.worker_*", "exec.thread_used", "exec.kept"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Dispatch(dispatch) => {
                    let Some(worker) = dispatch.worker else { continue };
                    let state = self.workers.entry(worker).or_default();
                    state.dispatches += 1;
                    state.messages += batch.reads(&dispatch).iter().map(|run| run.count).sum::<u64>();
                    state.dispatched(&dispatch);
                }
                What::Runtime(observation) => self.observe(item.time, &observation),
                _ => {}
            }
        }
    }

    fn restart(&mut self, time: u64) {
        self.begin = time;
        self.workers.retain(|_, worker| worker.ended.is_none());
        for worker in self.workers.values_mut() {
            worker.started = worker.started.map(|started| started.max(time));
            worker.waiting_since = worker.waiting_since.map(|since| since.max(time));
            worker.parked_since = worker.parked_since.map(|since| since.max(time));
            worker.until = worker.until.map(|until| until.max(time));
            worker.besides_before = worker.besides;
            (worker.ticks, worker.parked_ticks, worker.kept_since) = (Ticks::default(), 0, 0);
            (worker.dispatches, worker.messages) = (0, 0);
            if let Some(cpu) = &mut worker.cpu {
                cpu.restart();
            }
        }
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let mut workers = self.workers.clone();
        for row in &moment.ending.rows {
            take_row(&mut workers, row, self.begin);
        }
        let mut ids: Vec<u64> = workers.keys().copied().collect();
        ids.sort_unstable();
        report.workers = ids.iter().map(|&id| worker_report(moment, id, &workers[&id])).collect();
        report.throughput = throughput(moment, report, &workers);
    }
}

impl Workers {
    fn observe(&mut self, time: u64, observation: &Observation) {
        match *observation {
            Observation::WorkerStarted(started) => {
                let state = self.workers.entry(started.worker).or_default();
                (state.core, state.node) = (started.core, started.node);
                (state.started, state.until) = (Some(time), Some(time));
            }
            Observation::WorkerWaiting(WorkerWaiting { worker }) => {
                self.workers.entry(worker).or_default().waits(time);
            }
            Observation::Kept(Kept { worker, task: 0, duration_ticks }) => {
                self.workers.entry(worker).or_default().kept_since += duration_ticks;
            }
            Observation::WorkerResumed(WorkerResumed { worker }) => {
                self.workers.entry(worker).or_default().resumed(time);
            }
            Observation::WorkerParked(WorkerParked { worker }) => {
                self.workers.entry(worker).or_default().parked(time);
            }
            Observation::WorkerUnparked(WorkerUnparked { worker }) => {
                self.workers.entry(worker).or_default().unparked(time);
            }
            Observation::WorkerEnded(ended) => {
                let state = self.workers.entry(ended.worker).or_default();
                state.unparked(time);
                state.resumed(time);
                state.ended = Some(time);
                state.totals = Some((ended.busy_ticks, ended.waiting_ticks));
                state.besides = ended.besides();
            }
            Observation::ThreadUsed(used) if used.worker < OWN_THREAD => {
                let state = self.workers.entry(used.worker).or_default();
                state.besides = used.besides();
                state.cpu.get_or_insert_default().update(Used::of(&used));
            }
            _ => {}
        }
    }
}

fn take_row(workers: &mut IdMap<Worker>, row: &LiveRow, begin: u64) {
    let LiveRow::Worker {
        worker,
        core,
        task,
        message,
        busy_ticks,
        waiting_ticks,
        started,
        updated,
        dispatches,
        ended,
        parked,
        parked_ticks,
        ..
    } = *row
    else {
        return;
    };
    if ended && updated < begin {
        return;
    }
    let known = workers.entry(worker).or_default();
    if known.started.is_none() && started > 0 {
        known.started = Some(started.max(begin));
        known.core = core;
    }
    if ended && known.ended.is_none() && updated > 0 {
        known.ended = Some(updated);
    }
    // The figures that the worker recorded when it ended cover its whole life and not only the window, so a
    // window uses those of the row.
    if known.totals.is_none() || begin > 0 {
        known.totals = Some((busy_ticks, waiting_ticks));
    }
    // Events record the parked time in every mode; the row is used if they were overwritten.
    if known.parked_ticks == 0 && known.parked_since.is_none() {
        known.parked_ticks = parked_ticks;
        known.parked_since = parked.then_some(updated.max(begin));
    }
    known.totals_dispatches = Some(dispatches);
    known.updated = updated;
    (known.on_task, known.on_message) = (task, message);
}

fn worker_report(moment: &Moment<'_>, id: u64, worker: &Worker) -> report::Worker {
    let started = worker.started.unwrap_or(moment.begin);
    let ended = worker.ended.unwrap_or(moment.end);
    let still_parked = worker.parked_since.map_or(0, |since| ended.saturating_sub(since));
    let parked = worker.parked_ticks + still_parked;
    let lifetime = ended.saturating_sub(started).saturating_sub(parked);
    let ticks = ticks(moment, worker, ended);
    let stuck_since = moment.ending.stuck.get(&id).filter(|_| moment.ending.state == State::Running);
    let held = moment.ending.state == State::Killed || stuck_since.is_some();
    let on_task = (held && worker.ended.is_none() && worker.on_task != 0)
        .then(|| moment.task_name(worker.on_task))
        .flatten();
    report::Worker {
        id: WorkerId::of(id),
        core: u64::try_from(worker.core).ok(),
        node: u64::try_from(worker.node).ok(),
        lifetime_ns: moment.ns(lifetime),
        parked_ns: moment.ns(parked),
        shares: shares(moment, lifetime, ticks),
        dispatches: if moment.whole { Some(worker.dispatches) } else { worker.totals_dispatches },
        messages: moment.whole.then_some(worker.messages),
        cpu_ns: worker.cpu.map(|cpu| cpu.used_ns()),
        preempted: worker.cpu.map(|cpu| cpu.preempted()),
        delayed_ns: worker.cpu.and_then(|cpu| cpu.delayed_ns()),
        on_message: on_task.is_some().then_some(worker.on_message),
        stuck_ns: stuck_since.map(|&since| moment.ns(moment.end.saturating_sub(since))),
        on_task,
        account: None,
    }
}

/// The time of a worker's present wait, which its row does not contain yet.
fn unpublished(worker: &Worker, end: u64) -> u64 {
    match (worker.ended, worker.waiting_since) {
        (None, Some(since)) => end.saturating_sub(since.max(worker.updated)),
        _ => 0,
    }
}

/// The division of a worker's time, from its events, or else from its row or the event of its end.
fn ticks(moment: &Moment<'_>, worker: &Worker, ended: u64) -> Ticks {
    if let (Some((busy, waiting)), false) = (worker.totals, moment.whole) {
        let Besides { own_ticks, kept_ticks } = worker.besides_before;
        let own = worker.besides.own_ticks.saturating_sub(own_ticks);
        // The row does not contain a wait that has not ended.
        let waiting = waiting + unpublished(worker, ended);
        return Ticks { busy, waiting, own, kept: worker.besides.kept_ticks.saturating_sub(kept_ticks) };
    }
    let still_waiting = worker.waiting_since.map_or(0, |since| ended.saturating_sub(since));
    Ticks { waiting: worker.ticks.waiting + still_waiting, ..worker.ticks }
}

/// The shares of a worker's lifetime. While the worker lives, the parts of its lifetime are published at
/// different moments and their sum may exceed the lifetime slightly: the sum is then used as the lifetime.
fn shares(moment: &Moment<'_>, lifetime: u64, ticks: Ticks) -> Option<WorkerShares> {
    let Ticks { busy, waiting, own, kept } = ticks;
    if busy == 0 && waiting == 0 || lifetime == 0 {
        return None;
    }
    let known = [busy, waiting, own, kept].into_iter().fold(0, u64::saturating_add);
    let exact = moment.whole && moment.ending.state == State::Ended;
    let total = if exact { lifetime } else { lifetime.max(known) } as f64;
    let share = |ticks: u64| ticks as f64 / total;
    Some(WorkerShares {
        busy: share(busy),
        waiting: share(waiting),
        own: share(own),
        kept: share(kept),
        unaccounted: ((total - known as f64) / total).max(0.0),
    })
}

fn throughput(moment: &Moment<'_>, report: &Report, workers: &IdMap<Worker>) -> Throughput {
    let total = |role: &str| {
        let mut of_role = report.streams.iter().filter(|stream| stream.role == role).peekable();
        of_role.peek()?;
        of_role.map(|stream| stream.written).sum::<Option<u64>>()
    };
    let messages_in = total("entry");
    let messages_out = total("exit");
    let lifetimes = workers
        .values()
        .filter_map(|worker| Some(worker.ended.unwrap_or(moment.end).saturating_sub(worker.started?)));
    let whole = moment.end.saturating_sub(moment.begin);
    let longest = lifetimes.max().or((whole > 0).then_some(whole)).map(|ticks| moment.ns(ticks));
    let rate = |messages: Option<u64>| Some(messages? as f64 / (longest.filter(|&ns| ns > 0.0)? / 1e9));
    Throughput {
        messages_in,
        messages_out,
        worker_ns_longest: longest,
        entry_per_s: rate(messages_in),
        exit_per_s: rate(messages_out),
    }
}
