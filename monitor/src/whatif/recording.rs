//! Makes a [`Model`] from a run's events: the steps of each task in order, message by message.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::changes::BOX_WEIGHT;
use super::model::{Model, NOTHING, Origin, Place, Reads, Runtime, Script, Stream, Task, Unfolding};
use crate::composing::dispatch::{Dispatch, For, Wait, What};
use crate::decoding::events::{Observation, ThreadSampledDoing};
use crate::decoding::observation::Run;
use crate::monitor::{Batch, Moment, Monitor};
use crate::monitors::{Busy, INSTRUCTIONS_MIN, Locks, Waited};
use crate::report::Report;

/// The maximal number of messages replayed; of a run with more messages, only the beginning is replayed.
pub(super) const STEPS_MAX: usize = 1_500_000;
/// The maximal number of times kept that threads took to wake.
const SAMPLES_MAX: usize = 20_000;
/// The time between two dispatches of a worker counts as the runtime's work only if it is not longer than
/// this.
const BETWEEN_MAX_NS: f64 = 20_000.0;

/// The least number of samples from which a thread is judged by its samples.
const LOOKS_MIN: u64 = 5;
/// The number of samples of a task's instructions that count as much as all those of its component.
const INSTRUCTIONS_FEW: f64 = 20.0;
/// A task depends on a shared resource if this share of its samples shows it asleep for a lock or a read.
const SHARES: f64 = 0.2;

/// A task shares a lock with other tasks if at least this share of its samples shows it asleep for a lock.
pub(super) const LOCKED: f64 = 0.05;

/// A box counts as sleeping if its thread has a processor for less than this share of its busy time.
/// [`TICKS_MIN`] is the least number of messages from which it is judged whether they end at regular
/// intervals. Messages end at regular intervals if the standard deviation of the intervals is at most
/// [`REGULAR`] times that of the messages' times.
const AWAKE: f64 = 0.5;
const TICKS_MIN: f64 = 30.0;
const REGULAR: f64 = 0.5;

/// A box runs at the pace of its outside input if this share of its samples shows it asleep in a read, and a sink
/// at the pace of the program that reads what it writes if it is asleep in a write for this share of the run: then
/// the pipe is full again and again, so its reader always has something to read.
pub(super) const PACED: f64 = 0.3;

/// Gathers the data for the replay of a run.
pub(super) struct Recording {
    ns_per_tick: f64,
    spin_ns: f64,
    tasks: HashMap<u64, TaskLog>,
    capacities: HashMap<u64, u64>,
    threads: HashMap<u64, ThreadLog>,
    begin: Option<u64>,
    end: u64,
    steps: usize,
    steps_max: usize,
    /// Whether events were lost, or the mode was not full throughout.
    pub(super) incomplete: bool,
    between: (f64, u64),
    wakes: [Vec<f64>; 2],
    locks: Locks,
}

/// Finds out whether an outside event sets the pace of a box: the box's messages then end at more regular
/// intervals than the times that they take suggest, for example at the ticks of a clock.
#[derive(Clone, Copy, Debug, Default)]
struct Paces {
    last_end: Option<u64>,
    count: f64,
    /// The sum and the sum of squares of the times between the ends of consecutive messages; `takes` holds
    /// the two sums of the times that messages take.
    between: [f64; 2],
    takes: [f64; 2],
}

impl Paces {
    fn add(&mut self, end: u64, busy: u64) {
        if let Some(last) = self.last_end.replace(end) {
            self.count += 1.0;
            for (sums, value) in
                [(&mut self.between, (end - last.min(end)) as f64), (&mut self.takes, busy as f64)]
            {
                sums[0] += value;
                sums[1] += value * value;
            }
        }
    }

    fn are_regular(&self) -> bool {
        let deviation =
            |[sum, squares]: [f64; 2]| (squares / self.count - (sum / self.count).powi(2)).max(0.0).sqrt();
        self.count >= TICKS_MIN && deviation(self.between) < REGULAR * deviation(self.takes)
    }
}

#[derive(Default)]
struct TaskLog {
    site: u64,
    replica: u64,
    called: Called,
    own_thread: bool,
    created: Option<u64>,
    script: Script,
    by_worker: HashMap<u64, u64>,
    worked: Vec<u64>,
    wait: Option<Wait>,
    aside: u64,
    dispatches: u64,
    /// The number of waits for one particular input, and of waits for any of several inputs.
    waits: [u64; 2],
    streams_read: HashSet<u64>,
    paces: Paces,
    /// The numbers of samples of the task's thread: of all samples, and of those that found it asleep for a lock, in
    /// a read, and in a write.
    looks: [u64; 4],
    /// The numbers of sampled instructions, and of those in loops that wait for another thread.
    instructions: [u64; 2],
}

impl TaskLog {
    /// The worker on which the task was busy longest, and for how long in ticks; `None` for a task with a thread
    /// of its own.
    fn worker(&self) -> Option<(u64, u64)> {
        let most = self.by_worker.iter().max_by_key(|&(worker, busy)| (*busy, *worker));
        let (&worker, &busy) = most?;
        (worker != u64::MAX && !self.own_thread).then_some((worker, busy))
    }

    /// The share of samples that found the task's thread asleep for one of the reasons from `first` to `last`
    /// in `looks`; 0 if there were too few samples.
    fn seen(&self, [first, last]: [usize; 2]) -> f64 {
        let asleep: u64 = self.looks[first..=last].iter().sum();
        if self.looks[0] < LOOKS_MIN { 0.0 } else { asleep as f64 / self.looks[0] as f64 }
    }

    /// Whether the task reads its inputs in an order that it keeps: it waits for one of several inputs rather
    /// than for any of them. The task at a feedback's begin keeps no order, even if its waits look so because
    /// one of its two inputs always has messages.
    fn reads_in_order(&self) -> bool {
        self.streams_read.len() < 2 || self.called.kind != "feedback" && self.waits[0] > self.waits[1]
    }

    /// The share of its time on a processor in which the task's thread waited for another thread in a loop; 0
    /// if there were too few samples. The fewer samples there are of the task, the more counts the share of
    /// all tasks of its component; `of_component` has the numbers of their samples.
    fn spins(&self, of_component: [u64; 2]) -> f64 {
        let [all, spinning] = of_component.map(|count| count as f64);
        if of_component[0] < INSTRUCTIONS_MIN {
            return 0.0;
        }
        let [own, own_spinning] = self.instructions.map(|count| count as f64);
        (own_spinning + INSTRUCTIONS_FEW * spinning / all) / (own + INSTRUCTIONS_FEW)
    }
}

impl TaskLog {
    /// The weight that the mapper assigns to the task: boxes and collectors behind replicas are heavy, other
    /// tasks only pass messages on.
    fn weight(&self) -> u32 {
        let is_collector =
            self.called.component.rsplit('/').next().is_some_and(|last| last.starts_with("collector"));
        match self.called.kind.as_str() {
            "box" => BOX_WEIGHT,
            "split" if is_collector => 16,
            _ => 1,
        }
    }
}

/// A task's name and kind, known at the end of the run.
#[derive(Clone, Default)]
struct Called {
    name: String,
    component: String,
    kind: String,
    is_placed: bool,
    in_replica: bool,
}

impl Called {
    /// The path of a feedback.
    fn feedback(&self) -> Option<&str> {
        (self.kind == "feedback").then_some(self.component.as_str())
    }
}

#[derive(Default)]
struct ThreadLog {
    last_end: Option<u64>,
    waited: bool,
    busy: u64,
    cpu_ns: u64,
    delayed_ns: u64,
    /// The time for which a worker was runnable without a processor, inside and outside of dispatches.
    kept: u64,
}

impl ThreadLog {
    /// The share of a thread's busy time that remains without the time in which it was runnable without a
    /// processor, and the share of the remaining time in which it ran. A worker's dispatches record the time
    /// without a processor, so this time is subtracted from each dispatch; for a task with a thread of its
    /// own, only the total is known.
    fn of_busy(&self, busy_ns: f64, own_thread: bool) -> (f64, f64) {
        let cpu_ns = (self.cpu_ns as f64).min(busy_ns);
        let worked_ns = match own_thread {
            true => (busy_ns - self.delayed_ns as f64).max(cpu_ns),
            false => busy_ns,
        };
        ((worked_ns / busy_ns).clamp(0.02, 1.0), (cpu_ns / worked_ns).clamp(0.02, 1.0))
    }
}

/// The number of a thread; threads that belong to one task are numbered after the workers.
fn thread_of(worker: Option<u64>, task: u64) -> u64 {
    worker.unwrap_or(u64::from(u32::MAX) + task)
}

impl Recording {
    pub(super) fn new(ns_per_tick: f64, spin_ns: f64, steps_max: usize) -> Recording {
        Recording {
            ns_per_tick,
            spin_ns,
            tasks: HashMap::new(),
            capacities: HashMap::new(),
            threads: HashMap::new(),
            begin: None,
            end: 0,
            steps: 0,
            steps_max,
            incomplete: false,
            between: (0.0, 0),
            wakes: Default::default(),
            locks: Locks::default(),
        }
    }

    fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    fn observe(&mut self, time: u64, observation: &Observation) {
        match observation {
            Observation::TaskCreated(created) => {
                let task = self.tasks.entry(created.task).or_default();
                task.created = Some(time);
                (task.site, task.replica) = (created.component, created.replica);
                task.own_thread = created.blocking;
            }
            Observation::StreamOpened(opened) if opened.capacity != 0 => {
                self.capacities.insert(opened.stream, opened.capacity);
            }
            Observation::MessageWorked(worked) => {
                self.tasks.entry(worked.task).or_default().worked.push(worked.duration_ticks);
            }
            Observation::WorkerWaiting(waiting) => {
                self.threads.entry(waiting.worker).or_default().waited = true;
            }
            Observation::WorkerEnded(ended) => {
                let thread = self.threads.entry(ended.worker).or_default();
                thread.kept = thread.kept.max(ended.kept_ticks);
            }
            Observation::ThreadSampled(sampled) => {
                self.locks.sampled(sampled);
                let task = self.tasks.entry(sampled.task).or_default();
                let looks = sampled.looks;
                task.looks[0] += looks;
                match sampled.doing {
                    ThreadSampledDoing::Lock => task.looks[1] += looks,
                    ThreadSampledDoing::Read => task.looks[2] += looks,
                    ThreadSampledDoing::Write => task.looks[3] += looks,
                    _ => {}
                }
            }
            Observation::InstructionsSampled(sampled) => {
                let task = self.tasks.entry(sampled.task).or_default();
                task.instructions[0] += sampled.samples;
                task.instructions[1] += sampled.spinning;
            }
            Observation::ThreadUsed(used) => {
                self.locks.used(used);
                let own = used.worker >= u64::from(u32::MAX);
                let thread = thread_of((!own).then_some(used.worker), used.task);
                let thread = self.threads.entry(thread).or_default();
                thread.kept = thread.kept.max(used.kept_ticks);
                thread.cpu_ns = thread.cpu_ns.max(used.cpu_ns);
                thread.delayed_ns = thread.delayed_ns.max(used.delayed().unwrap_or(0));
            }
            _ => {}
        }
    }

    fn waited(&mut self, wait: &Wait) {
        let task = self.tasks.entry(wait.task).or_default();
        if wait.what == For::Input && task.own_thread && !wait.certain && !wait.ended {
            task.aside += wait.until - wait.since;
        }
        if wait.what == For::Input && wait.ended {
            task.waits[usize::from(!wait.certain)] += 1;
        }
        task.wait = Some(*wait);
    }

    fn dispatched(&mut self, dispatch: &Dispatch, reads: &[Run], writes: &[Run]) {
        self.between_dispatches(dispatch);
        if self.steps >= self.steps_max {
            return;
        }
        self.begin = Some(self.begin.unwrap_or(dispatch.start).min(dispatch.start));
        self.end = self.end.max(dispatch.end);
        let busy_ns = self.ns(dispatch.busy());
        let ns_per_tick = self.ns_per_tick;
        let task = self.tasks.entry(dispatch.task).or_default();
        let read: u64 = reads.iter().map(|run| run.count).sum();
        let written: u64 = writes.iter().map(|run| run.count).sum();
        let worked = std::mem::take(&mut task.worked);
        if read + written == 0 {
            return;
        }
        task.dispatches += 1;
        if read == 1 {
            task.paces.add(dispatch.end, dispatch.busy());
        }
        *task.by_worker.entry(dispatch.worker.unwrap_or(u64::MAX)).or_default() += dispatch.busy();
        task.streams_read.extend(reads.iter().map(|run| run.stream));
        let aside_ns = std::mem::take(&mut task.aside) as f64 * ns_per_tick;
        let steps = read.max(if read == 0 { written } else { 0 });
        let each = Each { worked: &worked, busy_ns, steps, ns_per_tick };
        let mut inputs = reads.iter().flat_map(|run| std::iter::repeat_n(run.stream, run.count as usize));
        for step in 0..steps {
            // Steps contain the run's numbers of streams until the model is made, which numbers streams anew.
            let input = inputs.next().map_or(NOTHING, |stream| stream as u32);
            let aside = if step == 0 { aside_ns } else { 0.0 };
            let due = |run: &Run| {
                let until = |step: u64| (run.count * step / steps) as usize;
                std::iter::repeat_n(run.stream as u32, until(step + 1) - until(step))
            };
            task.script.push(input, each.ns(step), aside, writes.iter().flat_map(due));
        }
        self.steps += steps as usize;
    }

    /// Measures the time of a thread between two dispatches, and the time that an idle thread took to wake.
    fn between_dispatches(&mut self, dispatch: &Dispatch) {
        let wait = self.tasks.entry(dispatch.task).or_default().wait.take();
        let (ns_per_tick, spin_ns) = (self.ns_per_tick, self.spin_ns);
        let thread = self.threads.entry(thread_of(dispatch.worker, dispatch.task)).or_default();
        thread.busy += dispatch.busy();
        let waited = std::mem::take(&mut thread.waited);
        let Some(last_end) = thread.last_end.replace(dispatch.end) else { return };
        let gap_ns = dispatch.start.saturating_sub(last_end) as f64 * ns_per_tick;
        if dispatch.worker.is_some() && !waited {
            self.between.0 += gap_ns.min(BETWEEN_MAX_NS);
            self.between.1 += 1;
        } else if let Some(wait) = wait.filter(|wait| wait.ended && wait.woken >= last_end) {
            let idle_ns = (wait.woken - last_end) as f64 * ns_per_tick;
            let samples = &mut self.wakes[usize::from(idle_ns > spin_ns)];
            if samples.len() < SAMPLES_MAX {
                samples.push((wait.until - wait.woken) as f64 * ns_per_tick);
            }
        }
    }

    /// The duration of the replayed part of the run.
    pub(super) fn lasted_ns(&self) -> f64 {
        self.ns(self.end.saturating_sub(self.begin.unwrap_or(self.end)))
    }

    /// The part of the replayed duration in which the busiest worker was runnable without a processor; other
    /// threads may have waited for this worker.
    pub(super) fn kept_ns(&self) -> f64 {
        let workers = self.threads.iter().filter(|(id, _)| **id < u64::from(u32::MAX));
        let most = workers.max_by_key(|(id, thread)| (thread.busy + thread.kept, **id));
        most.map_or(0.0, |(_, thread)| self.ns(thread.kept)).min(self.lasted_ns())
    }

    /// Whether the run was longer than the replayed part.
    pub(super) fn is_cut(&self) -> bool {
        self.steps >= self.steps_max
    }

    /// The model of the network, or the reason why there is none.
    pub(super) fn model(&self, runtime: Runtime) -> Result<Model, String> {
        let mut ids: Vec<u64> = self.tasks.keys().copied().collect();
        ids.retain(|id| !self.tasks[id].script.steps.is_empty());
        ids.sort_unstable();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut model = Model { tasks: Vec::new(), streams: Vec::new(), runtime };
        let mut instructions: HashMap<u64, [u64; 2]> = HashMap::new();
        for log in self.tasks.values() {
            let of_site = instructions.entry(log.site).or_default();
            of_site.iter_mut().zip(log.instructions).for_each(|(sum, more)| *sum += more);
        }
        let waited = self.waited_for_lock();
        for id in ids {
            let log = &self.tasks[&id];
            let mut script = log.script.clone();
            let used = script.steps.iter_mut().map(|step| &mut step.input).chain(&mut script.writes);
            for stream in used.filter(|stream| **stream != NOTHING) {
                *stream = *numbers.entry(*stream).or_insert_with(|| {
                    let capacity = self.capacities.get(&u64::from(*stream)).copied().unwrap_or(0);
                    model.streams.push(Stream::of(if capacity == 0 {
                        usize::MAX
                    } else {
                        capacity as usize
                    }));
                    model.streams.len() as u32 - 1
                });
            }
            let of_component = instructions.get(&log.site).copied().unwrap_or_default();
            let waits = Waits { spins: log.spins(of_component), for_lock: waited.get(&id).copied() };
            model.tasks.push(self.task(id, log, script, waits)?);
        }
        model.runtime.between_ns = self.between.0 / self.between.1.max(1) as f64;
        model.runtime.wake_ns = self.wakes.each_ref().map(|samples| median(samples));
        model.settle();
        let feedbacks: HashSet<&str> =
            self.tasks.values().map(|log| &log.called).filter_map(Called::feedback).collect();
        model.close_loops(|task| feedbacks.contains(task.component.as_str()));
        Ok(model)
    }

    /// The waits of tasks for a lock that they share.
    fn waited_for_lock(&self) -> HashMap<u64, Waited> {
        let busy = self.tasks.iter().filter_map(|(&task, log)| {
            let (worker, ticks) = log.worker()?;
            Some(Busy { task, component: &log.called.component, worker, busy_ns: self.ns(ticks) })
        });
        self.locks.waits(&busy.collect::<Vec<_>>())
    }

    fn task(&self, id: u64, log: &TaskLog, script: Script, waited: Waits) -> Result<Task, String> {
        let reads_nothing = script.steps.iter().all(|step| step.input == NOTHING);
        if log.own_thread && reads_nothing && log.called.kind != "source" {
            return Err(format!(
                "{} gets its messages past the streams (a program, or a box without input): what it waits for is not recorded",
                log.called.name
            ));
        }
        let worker = log.worker().map(|(worker, _)| worker);
        let thread = self.threads.get(&thread_of(worker, id));
        let (times, on_processor) = match thread.filter(|thread| thread.cpu_ns > 0 && thread.busy > 0) {
            Some(thread) => thread.of_busy(self.ns(thread.busy), worker.is_none()),
            None => (1.0, 1.0),
        };
        let messages = script.steps.len().max(script.writes.len());
        let waits = |part: f64| if part < LOCKED { 0.0 } else { part.min(0.95) };
        let asleep = waits(waited.for_lock.map_or_else(|| log.seen([1, 1]), |lock| lock.asleep));
        let in_kernel = waited.for_lock.map_or(0.0, |lock| lock.in_kernel);
        let awake = in_kernel + (1.0 - asleep - in_kernel) * waits(waited.spins);
        let locked = (asleep + awake).min(0.95);
        // The wait for the lock is removed from the costs, so the share of the remaining time on a processor
        // is greater if the thread slept in its wait.
        let on_processor = match waited.for_lock {
            Some(lock) => on_processor + lock.of_sleep * (1.0 - on_processor),
            None => (on_processor / (1.0 - asleep)).min(1.0),
        };
        let times = times * (1.0 - locked);
        Ok(Task {
            name: log.called.name.clone(),
            component: log.called.component.clone(),
            place: worker.map_or(Place::OwnThread, |worker| Place::Worker(worker as usize)),
            reads: if log.reads_in_order() { Reads::AsRecorded } else { Reads::Any },
            script: Arc::new(script),
            times,
            on_processor,
            shown_after: (messages as u64).div_ceil(log.dispatches.max(1)) as usize,
            origin: match log.called.in_replica {
                true => Origin::Replica,
                _ if log.created.zip(self.begin).is_none_or(|(created, begin)| created <= begin) => {
                    Origin::Start
                }
                _ => Origin::Later,
            },
            is_placed: log.called.is_placed,
            weight: log.weight(),
            locked,
            waits: 0.0,
            spun: if locked > 0.0 { awake / (asleep + awake) } else { 0.0 },
            shares: log.seen([2, 2]) >= SHARES,
            is_paced: match &*log.called.kind {
                "box" => log.seen([2, 2]) >= PACED || on_processor < AWAKE && log.paces.are_regular(),
                "sink" => {
                    let busy = thread.map_or(0.0, |thread| self.ns(thread.busy) / self.lasted_ns().max(1.0));
                    log.seen([3, 3]) * busy >= PACED
                }
                _ => false,
            },
        })
    }
}

/// What is known of a task's waits for locks: the share of its time on a processor in which it waited in a
/// loop, and its waits for a lock for which several tasks sleep.
#[derive(Clone, Copy, Default)]
struct Waits {
    spins: f64,
    for_lock: Option<Waited>,
}

/// The costs of the steps of a dispatch.
struct Each<'a> {
    worked: &'a [u64],
    busy_ns: f64,
    steps: u64,
    ns_per_tick: f64,
}

impl Each<'_> {
    /// The cost of a message: the time recorded for the message itself, or else an equal share of the
    /// dispatch's time. The costs of a dispatch's messages add up to the dispatch's time.
    fn ns(&self, step: u64) -> f64 {
        let recorded: u64 = self.worked.iter().sum();
        if self.worked.len() as u64 != self.steps || recorded == 0 {
            return self.busy_ns / self.steps as f64;
        }
        let rest = (self.busy_ns - recorded as f64 * self.ns_per_tick) / self.steps as f64;
        (self.worked[step as usize] as f64 * self.ns_per_tick + rest).max(0.0)
    }
}

fn median(samples: &[f64]) -> f64 {
    let mut samples = samples.to_vec();
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(0.0)
}

impl Monitor for Recording {
    fn name(&self) -> &str {
        "whatif"
    }

    fn wants(&self) -> &[&str] {
        &[
            "run.dispatch",
            "run.wait",
            "exec.task_created",
            "exec.stream_opened",
            "exec.message_worked",
            "exec.worker_waiting",
            "exec.worker_ended",
            "exec.thread_used",
            "exec.thread_sampled",
            "exec.instructions_sampled",
        ]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match &item.what {
                What::Dispatch(dispatch) => {
                    self.dispatched(dispatch, batch.reads(dispatch), batch.writes(dispatch));
                }
                What::Wait(wait) => self.waited(wait),
                What::Runtime(observation) => self.observe(item.time, observation),
                What::Gap { .. } => self.incomplete = true,
                _ => {}
            }
        }
    }

    fn publish(&mut self, moment: &Moment<'_>, _report: &mut Report) {
        self.incomplete |= !moment.whole;
        let mut of_site: HashMap<u64, u64> = HashMap::new();
        for task in self.tasks.values() {
            *of_site.entry(task.site).or_default() += 1;
        }
        let sites = moment.names.sites.values();
        let unfolding = Unfolding::of(sites.map(|site| (site.path.as_str(), site.kind.as_str())));
        for task in self.tasks.values_mut() {
            let site = moment.names.site(task.site);
            task.called = Called {
                name: moment.names.task(task.site, task.replica, of_site[&task.site] > 1),
                // The path of a component inside `A @ 1` contains the word `place`.
                is_placed: site.path.split('/').any(|part| part.split('#').next() == Some("place")),
                in_replica: unfolding.origin(&site.path, task.replica) == Origin::Replica,
                component: site.path,
                kind: site.kind,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoding::events::{
        self, DispatchBase, DispatchOutcome, MessageWorked, ModeChanged, StreamOpened, TaskCreated,
        ThreadUsed,
    };
    use crate::decoding::names::{Names, SiteName};
    use crate::following::analysis::{Analysis, Options};
    use crate::monitor::Ending;

    /// A source with a thread of its own that writes four messages, and a box on worker 1 that reads them in
    /// two dispatches.
    fn observed(recording: &mut Recording, kind_of_source: &str) {
        let mut analysis = Analysis::bare(Options { ns_per_tick: 2.0, top: 1 });
        analysis.add(Box::new(&mut *recording));
        let created =
            |task, blocking| TaskCreated { task, component: task, blocking, ..TaskCreated::default() };
        let own = u64::from(u32::MAX);
        let base = |worker, task, input, output| DispatchBase {
            number: 0,
            worker,
            task,
            input,
            first_read: 0,
            output,
            first_written: 0,
        };
        let dispatch = |duration_ticks, reads, writes, outcome| events::Dispatch {
            duration_ticks,
            reads,
            writes,
            outcome,
            ..events::Dispatch::default()
        };
        let (on, off) = (DispatchOutcome::BlockedInput, DispatchOutcome::Ended);
        let observations: Vec<(u64, u64, Observation)> = vec![
            (1, 9, ModeChanged { mode: 2 }.into()),
            (1, 9, created(1, true).into()),
            (1, 9, created(2, false).into()),
            (
                1,
                9,
                StreamOpened { stream: 7, reader: 2, writer: 1, capacity: 3, ..StreamOpened::default() }
                    .into(),
            ),
            (5, 1, base(own, 1, 0, 7).into()),
            (105, 1, dispatch(100, 0, 4, off).into()),
            (110, 2, base(1, 2, 7, 0).into()),
            (140, 2, dispatch(30, 1, 0, on).into()),
            (190, 2, MessageWorked { task: 2, index: 1, duration_ticks: 10 }.into()),
            (200, 2, MessageWorked { task: 2, index: 2, duration_ticks: 10 }.into()),
            (240, 2, MessageWorked { task: 2, index: 3, duration_ticks: 40 }.into()),
            (240, 2, dispatch(60, 3, 0, off).into()),
            // The source's thread ran for 50 of its 200 ns and was runnable without a processor for 100 ns.
            (
                250,
                1,
                ThreadUsed { worker: own, task: 1, cpu_ns: 50, delayed_ns: 100, ..ThreadUsed::default() }
                    .into(),
            ),
        ];
        for (time, writer, observation) in observations {
            analysis.observe(time, writer, &observation);
        }
        let mut names = Names::default();
        for (site, path, kind) in [(1, "in", kind_of_source), (2, "net/w", "box")] {
            let name = SiteName { path: path.to_owned(), kind: kind.to_owned(), place: None };
            names.sites.insert(site, name);
        }
        analysis.finish(&names, Ending::default());
    }

    #[test]
    fn a_model_has_each_message_with_what_it_cost() {
        let mut recording = Recording::new(2.0, 0.0, STEPS_MAX);
        observed(&mut recording, "source");
        assert!(!recording.incomplete);
        assert_eq!(recording.lasted_ns(), 2.0 * 235.0);
        let model = recording.model(Runtime::default()).expect("all is there");
        let [source, work] = &model.tasks[..] else { panic!("{model:?}") };
        assert_eq!((source.component.as_str(), work.component.as_str()), ("in", "net/w"));
        assert_eq!((source.place, work.place), (Place::OwnThread, Place::Worker(1)));
        assert_eq!((source.times, source.on_processor), (0.5, 0.5));
        assert_eq!(model.streams[0].capacity, 3);
        assert_eq!((&model.streams[0].writers[..], &model.streams[0].readers[..]), (&[0][..], &[1][..]));
        let costs = |task: &Task| task.script.steps.iter().map(|step| step.busy_ns).collect::<Vec<f32>>();
        assert_eq!(costs(source), [50.0; 4]);
        // There is a dispatch of one message, and one of three messages whose times were recorded.
        assert_eq!(costs(work), [60.0, 20.0, 20.0, 80.0]);
        assert!(
            (0..4).all(|step| source.script.writes_of(step) == [0] && work.script.writes_of(step).is_empty())
        );
    }

    #[test]
    fn what_comes_past_the_streams_is_not_replayed() {
        let mut recording = Recording::new(2.0, 0.0, STEPS_MAX);
        observed(&mut recording, "box");
        let why = recording.model(Runtime::default()).expect_err("it is a program");
        assert!(why.starts_with("in gets its messages past the streams"), "{why}");
    }

    #[test]
    fn a_feedback_keeps_no_order() {
        let log = |kind: &str, waits: [u64; 2]| TaskLog {
            called: Called { kind: kind.to_owned(), ..Called::default() },
            streams_read: HashSet::from([1, 2]),
            waits,
            ..TaskLog::default()
        };
        assert!(log("parallel", [5, 1]).reads_in_order());
        assert!(!log("parallel", [1, 5]).reads_in_order());
        assert!(!log("feedback", [5, 1]).reads_in_order());
        // A task with one input reads it as it was recorded.
        let one = TaskLog { streams_read: HashSet::from([1]), ..log("feedback", [0, 0]) };
        assert!(one.reads_in_order());
    }
}
