//! How the time of every worker divides.

use crate::ids::IdMap;
use crate::monitor::{Batch, Moment, Monitor, What};
use crate::monitors::shares::{Cpu, Used};
use crate::observation::{LiveRow, Observation};
use crate::report::{self, Report, State, Throughput, WorkerShares};
use crate::structure::OWN_THREAD;

/// See the module.
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
    busy_ticks: u64,
    waiting_ticks: u64,
    dispatches: u64,
    messages: u64,
    cpu: Option<Cpu>,
    /// Said at its end or by the live table: busy, waiting.
    totals: Option<(u64, u64)>,
    totals_dispatches: Option<u64>,
    /// When its row was last written.
    updated: u64,
    on_task: u64,
    on_message: u64,
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
            busy_ticks: 0,
            waiting_ticks: 0,
            dispatches: 0,
            messages: 0,
            cpu: None,
            totals: None,
            totals_dispatches: None,
            updated: 0,
            on_task: 0,
            on_message: 0,
        }
    }
}

impl Worker {
    fn parked(&mut self, time: u64) {
        self.resumed(time);
        self.parked_since = Some(time);
    }

    fn unparked(&mut self, time: u64) {
        if let Some(since) = self.parked_since.take() {
            self.parked_ticks += time.saturating_sub(since);
        }
    }

    fn resumed(&mut self, time: u64) {
        if let Some(since) = self.waiting_since.take() {
            self.waiting_ticks += time.saturating_sub(since);
        }
    }
}

impl Monitor for Workers {
    fn name(&self) -> &str {
        "workers"
    }

    fn wants(&self) -> &[&str] {
        &["run.dispatch", "exec.worker_*", "exec.thread_used"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Dispatch(dispatch) => {
                    let Some(worker) = dispatch.worker else { continue };
                    let state = self.workers.entry(worker).or_default();
                    state.dispatches += 1;
                    state.messages += batch.reads(&dispatch).iter().map(|run| run.count).sum::<u64>();
                    state.busy_ticks += dispatch.end - dispatch.start;
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
            worker.parked_ticks = 0;
            (worker.busy_ticks, worker.waiting_ticks, worker.dispatches, worker.messages) = (0, 0, 0, 0);
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
            Observation::WorkerStarted { worker, core, node, .. } => {
                let state = self.workers.entry(worker).or_default();
                (state.core, state.node) = (core, node);
                state.started = Some(time);
            }
            Observation::WorkerWaiting { worker } => {
                self.workers.entry(worker).or_default().waiting_since = Some(time);
            }
            Observation::WorkerResumed { worker } => self.workers.entry(worker).or_default().resumed(time),
            Observation::WorkerParked { worker } => self.workers.entry(worker).or_default().parked(time),
            Observation::WorkerUnparked { worker } => self.workers.entry(worker).or_default().unparked(time),
            Observation::WorkerEnded { worker, busy_ticks, waiting_ticks } => {
                let state = self.workers.entry(worker).or_default();
                state.resumed(time);
                state.unparked(time);
                state.ended = Some(time);
                state.totals = Some((busy_ticks, waiting_ticks));
            }
            Observation::ThreadUsed { worker, cpu_ns, preempted, delayed_ns, .. } if worker < OWN_THREAD => {
                let state = self.workers.entry(worker).or_default();
                state.cpu.get_or_insert_default().told(Used { cpu_ns, preempted, delayed_ns });
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
    if known.totals.is_none() {
        known.totals = Some((busy_ticks, waiting_ticks));
    }
    // Events tell it in every mode; the row, if they were overwritten.
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
    let still_waiting = worker.waiting_since.map_or(0, |since| ended.saturating_sub(since));
    let (busy, waiting) = match worker.totals {
        // The row says nothing of a wait that goes on since.
        Some((busy, waiting)) if !moment.whole => (busy, waiting + unpublished(worker, ended)),
        _ => (worker.busy_ticks, worker.waiting_ticks + still_waiting),
    };
    let stuck_since = moment.ending.stuck.get(&id).filter(|_| moment.ending.state == State::Running);
    let held = moment.ending.state == State::Killed || stuck_since.is_some();
    let on_task = (held && worker.ended.is_none() && worker.on_task != 0)
        .then(|| moment.task_name(worker.on_task))
        .flatten();
    report::Worker {
        id,
        core: u64::try_from(worker.core).ok(),
        node: u64::try_from(worker.node).ok(),
        lifetime_ns: moment.ns(lifetime),
        parked_ns: moment.ns(parked),
        shares: shares(lifetime, busy, waiting),
        dispatches: if moment.whole { Some(worker.dispatches) } else { worker.totals_dispatches },
        messages: moment.whole.then_some(worker.messages),
        cpu_ns: worker.cpu.map(|cpu| cpu.used_ns()),
        preempted: worker.cpu.map(|cpu| cpu.preempted()),
        delayed_ns: worker.cpu.and_then(|cpu| cpu.delayed_ns()),
        on_message: on_task.is_some().then_some(worker.on_message),
        stuck_ns: stuck_since.map(|&since| moment.ns(moment.end.saturating_sub(since))),
        on_task,
    }
}

/// How long a worker has waited that its row does not say yet.
fn unpublished(worker: &Worker, end: u64) -> u64 {
    match (worker.ended, worker.waiting_since) {
        (None, Some(since)) => end.saturating_sub(since.max(worker.updated)),
        _ => 0,
    }
}

/// Busy, waiting and the rest of a worker's lifetime. Published at different moments, the parts may exceed the whole by
/// a little: then they are the whole.
fn shares(lifetime: u64, busy: u64, waiting: u64) -> Option<WorkerShares> {
    if busy == 0 && waiting == 0 || lifetime == 0 {
        return None;
    }
    let total = lifetime.max(busy.saturating_add(waiting)) as f64;
    let (busy, waiting) = (busy as f64 / total, waiting as f64 / total);
    Some(WorkerShares { busy, waiting, unaccounted: (1.0 - busy - waiting).max(0.0) })
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
