//! The division of busy time into work, sleep in the box, and waiting for a processor, computed from samples
//! of the threads' states and from the processor time of long dispatches. This monitor publishes after the
//! monitors of tasks and workers, because it divides the busy time that they publish.

use std::collections::HashMap;

use crate::composing::dispatch::What;
use crate::composing::structure::OWN_THREAD;
use crate::decoding::events::{
    DispatchUsed, InstructionsSampled, Observation, ProcessorsUsed, ThreadSampled, ThreadSampledDoing,
};
use crate::decoding::names::Names;
use crate::decoding::observation::LiveRow;
use crate::ids::{IdMap, TaskId, WorkerId};
use crate::monitor::{Batch, Moment, Monitor};
use crate::monitors::{Busy, Locks};
use crate::report::{
    Asleep, BusyAccount, Hanging, Note, Processors, Report, SleepsFor, State, WorkerShares, component_of,
};

/// The maximal number of tasks whose time is divided; for further tasks, only the component's time is
/// divided.
const TASKS_MAX: usize = 4096;
/// The approximate time that a worker takes to change from one task to the next.
const CHANGE_NS: f64 = crate::verdict::thresholds::CHANGE_NS;
/// The least number of sampled instructions from which it is known for how long a thread waits in loops.
pub(crate) const INSTRUCTIONS_MIN: u64 = 10;
/// A thread that was sampled asleep for less than this time does not hang.
const HANGS_NS: f64 = 500e6;
/// The maximal age of a sample that shows a hanging thread.
const LATELY_NS: f64 = 2.5e9;

/// The monitor of busy time: see the module.
#[derive(Default)]
pub(crate) struct Accounts {
    tasks: IdMap<Sum>,
    components: IdMap<Sum>,
    /// The samples of tasks that had ended before, so that their component was no longer known.
    ended: IdMap<Sum>,
    workers: IdMap<Sum>,
    /// The last sample of each task that slept.
    last: IdMap<(u64, ThreadSampled)>,
    /// The use of processors at the start of the measurement; `used` is their use at the last event that
    /// recorded it.
    used_before: Option<(u64, ProcessorsUsed)>,
    used: Option<(u64, ProcessorsUsed)>,
    /// The end of the last recorded dispatch.
    dispatched: u64,
    /// The kernel's work for the thread of each worker until the start of the measurement, and until now;
    /// `of_tasks` has that for tasks with threads of their own.
    of_workers: IdMap<[InKernel; 2]>,
    of_tasks: IdMap<[InKernel; 2]>,
    locks: Locks,
    refused: bool,
}

/// Processor time in the kernel and page faults of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct InKernel {
    ns: u64,
    faults: u64,
}

/// The samples of the busy time of a task, component or worker.
#[derive(Clone, Debug, Default)]
struct Sum {
    looks: u64,
    /// The time that the samples represent, divided into running, runnable without a processor, and asleep.
    ran: f64,
    delayed: f64,
    asleep: [f64; 6],
    /// The duration of dispatches whose processor time is known, without the noticed time without a
    /// processor; `cpu_ns` is the processor time of these dispatches.
    measured: f64,
    cpu_ns: f64,
    /// The number of sampled instructions, and of those in loops that wait for another thread.
    instructions: u64,
    spinning: u64,
    lock: Vote,
}

/// Finds the value with the majority of votes, if there is one (Boyer and Moore, 1981).
#[derive(Clone, Copy, Debug, Default)]
struct Vote {
    of: u64,
    count: u64,
}

impl Vote {
    fn add(&mut self, of: u64, count: u64) {
        if self.of == of {
            self.count += count;
        } else if self.count >= count {
            self.count -= count;
        } else {
            *self = Vote { of, count: count - self.count };
        }
    }
}

/// What a thread sleeps for; `None` if it is runnable.
fn sleeps_for(doing: ThreadSampledDoing) -> Option<SleepsFor> {
    Some(match doing {
        ThreadSampledDoing::Runs => return None,
        ThreadSampledDoing::Lock => SleepsFor::Lock,
        ThreadSampledDoing::Read => SleepsFor::Read,
        ThreadSampledDoing::Write => SleepsFor::Write,
        ThreadSampledDoing::Sleep => SleepsFor::Sleep,
        ThreadSampledDoing::PageFault => SleepsFor::PageFault,
        _ => SleepsFor::Other,
    })
}

impl Sum {
    fn looked(&mut self, sample: &ThreadSampled) {
        let ticks = sample.interval_ticks as f64;
        self.looks += sample.looks;
        match sleeps_for(sample.doing) {
            None => {
                // Samples do not distinguish a running thread from a runnable one; the thread's times from
                // the kernel do.
                let (cpu, delayed) = (sample.cpu_ns as f64, sample.delayed_ns as f64);
                let kept = if delayed > 0.0 { ticks * delayed / (cpu + delayed) } else { 0.0 };
                // A worker's busy time already leaves out most of the time in which it had no processor,
                // because the worker notices such time.
                self.delayed += if sample.worker < OWN_THREAD { 0.0 } else { kept };
                self.ran += ticks - kept;
            }
            Some(what) => {
                self.asleep[what as usize] += ticks;
                if what == SleepsFor::Lock && sample.on != 0 {
                    self.lock.add(sample.on, sample.looks);
                }
            }
        }
    }

    fn measured(&mut self, used: &DispatchUsed) {
        self.measured += used.duration_ticks as f64;
        self.cpu_ns += used.cpu_ns as f64;
    }

    fn ran(&mut self, sampled: &InstructionsSampled) {
        self.instructions += sampled.samples;
        self.spinning += sampled.spinning;
    }

    fn add(&mut self, other: &Sum) {
        self.instructions += other.instructions;
        self.spinning += other.spinning;
        self.looks += other.looks;
        self.ran += other.ran;
        self.delayed += other.delayed;
        self.asleep.iter_mut().zip(other.asleep).for_each(|(sum, more)| *sum += more);
        self.measured += other.measured;
        self.cpu_ns += other.cpu_ns;
        self.lock.add(other.lock.of, other.lock.count);
    }

    /// Splits a task's busy time into its parts.
    fn account(&self, busy_ns: f64, dispatches: u64, ns_per_tick: f64) -> Option<BusyAccount> {
        if busy_ns <= 0.0 || (self.looks == 0 && self.measured <= 0.0) {
            return None;
        }
        // The measured dispatches may be longer than the busy time, because some began before the
        // measurement; then they count in proportion.
        let part = (busy_ns / (self.measured * ns_per_tick)).min(1.0);
        let measured_ns = part * self.measured * ns_per_tick;
        let worked_ns = (part * self.cpu_ns).min(measured_ns);
        let looked = self.ran + self.delayed + self.asleep.iter().sum::<f64>();
        let of_looks = |ticks: f64| if looked > 0.0 { ticks / looked * busy_ns } else { 0.0 };
        let mut asleep = self.asleep.map(of_looks);
        let slept: f64 = asleep.iter().sum();
        // The time asleep is at least that measured in long dispatches, and at most the busy time that is not
        // known to be work. Because of rounding errors, the lower bound may exceed the upper one, and each
        // may be below 0.
        let most = (busy_ns - worked_ns).max(0.0);
        let known = slept.clamp((measured_ns - worked_ns).clamp(0.0, most), most);
        match slept > 0.0 {
            true => asleep.iter_mut().for_each(|ns| *ns *= known / slept),
            false => asleep[SleepsFor::Other as usize] = known,
        }
        let kept_ns = of_looks(self.delayed).clamp(0.0, (busy_ns - known - worked_ns).max(0.0));
        let ran_ns = (busy_ns - known - kept_ns).max(0.0);
        let runtime_ns = (dispatches as f64 * CHANGE_NS).min(ran_ns);
        let spins = self.spinning.min(self.instructions) as f64 / self.instructions.max(1) as f64;
        let spinning_ns = (self.instructions >= INSTRUCTIONS_MIN).then_some(spins * (ran_ns - runtime_ns));
        Some(BusyAccount {
            computing_ns: ran_ns - runtime_ns - spinning_ns.unwrap_or(0.0),
            spinning_ns,
            asleep: Asleep::of(asleep),
            kept_ns,
            runtime_ns,
            looks: self.looks,
            measured_ns,
            kernel_ns: None,
            faults: None,
            lock: Some(self.lock).filter(|lock| lock.count > 0 && lock.of != 0).map(|lock| lock.of),
        })
    }
}

/// Sets the time for which a thread slept for a lock, known from the processor time of its worker; all other
/// parts keep their proportions.
fn sleeps_for_lock(account: &mut Option<BusyAccount>, busy_ns: f64, lock_ns: f64, lock: u64) {
    let account =
        account.get_or_insert_with(|| BusyAccount { computing_ns: busy_ns, ..BusyAccount::default() });
    let (total, rest) = (account.total_ns(), account.total_ns() - account.asleep.lock_ns);
    if rest <= 0.0 || lock_ns > total {
        return;
    }
    let part = (total - lock_ns) / rest;
    let Asleep { lock_ns: of_lock, read_ns, write_ns, sleep_ns, page_fault_ns, other_ns } =
        &mut account.asleep;
    let parts = [&mut account.computing_ns, &mut account.kept_ns, &mut account.runtime_ns];
    let asleep = [read_ns, write_ns, sleep_ns, page_fault_ns, other_ns];
    let all = parts.into_iter().chain(asleep).chain(account.spinning_ns.as_mut());
    all.for_each(|ns| *ns *= part);
    *of_lock = lock_ns;
    (account.lock, account.measured_ns) = (Some(lock), total);
}

/// Adds the kernel's work for a thread to the thread's account.
fn in_kernel(account: Option<&mut BusyAccount>, used: Option<&[InKernel; 2]>) {
    if let (Some(account), Some([before, now])) = (account, used) {
        account.kernel_ns = Some(now.ns.saturating_sub(before.ns) as f64);
        account.faults = Some(now.faults.saturating_sub(before.faults));
    }
}

impl Monitor for Accounts {
    fn name(&self) -> &str {
        "accounts"
    }

    fn wants(&self) -> &[&str] {
        &[
            "run.dispatch",
            "exec.thread_sampled",
            "exec.instructions_sampled",
            "exec.dispatch_used",
            "exec.processors_used",
            "exec.thread_used",
        ]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Dispatch(dispatch) => self.dispatched = self.dispatched.max(dispatch.end),
                What::Runtime(Observation::ThreadSampled(sample)) => {
                    self.locks.sampled(&sample);
                    self.refused |= sample.source == crate::events::ThreadSampledSource::Nothing;
                    self.each(batch, sample.task, sample.worker, |sum| sum.looked(&sample));
                    self.last.insert(sample.task, (item.time, sample));
                }
                What::Runtime(Observation::InstructionsSampled(sampled)) => {
                    self.each(batch, sampled.task, sampled.worker, |sum| sum.ran(&sampled));
                }
                What::Runtime(Observation::DispatchUsed(used)) => {
                    self.each(batch, used.task, used.worker, |sum| sum.measured(&used));
                }
                What::Runtime(Observation::ThreadUsed(used)) => {
                    self.locks.used(&used);
                    if used.kernel_ns == u64::MAX {
                        continue;
                    }
                    let kernel_use = match used.worker < OWN_THREAD {
                        true => self.of_workers.entry(used.worker).or_default(),
                        false => self.of_tasks.entry(used.task).or_default(),
                    };
                    kernel_use[1] = InKernel { ns: used.kernel_ns, faults: used.faults };
                }
                What::Runtime(Observation::ProcessorsUsed(used)) => {
                    self.used_before.get_or_insert((item.time, used));
                    self.used = Some((item.time, used));
                }
                _ => {}
            }
        }
        if self.last.len() > TASKS_MAX {
            let structure = batch.structure();
            self.last.retain(|task, _| structure.task(*task).is_some());
        }
    }

    fn restart(&mut self, _time: u64) {
        self.tasks.clear();
        self.components.clear();
        self.ended.clear();
        self.workers.clear();
        self.locks.restart();
        for [before, now] in self.of_workers.values_mut().chain(self.of_tasks.values_mut()) {
            *before = *now;
        }
        self.used_before = self.used.take();
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let by_path = self.by_path(moment.names, report);
        for component in &mut report.components {
            let work = &mut component.work;
            let sum = by_path.get(component.path.as_str());
            work.account = sum.zip(work.busy_ns).and_then(|(sum, busy_ns)| {
                sum.account(busy_ns, work.dispatches.unwrap_or(0), moment.ns_per_tick)
            });
        }
        for task in &mut report.tasks {
            let work = &mut task.work;
            let sum = self.tasks.get(&task.id.number);
            work.account = sum.zip(work.busy_ns).and_then(|(sum, busy_ns)| {
                sum.account(busy_ns, work.dispatches.unwrap_or(0), moment.ns_per_tick)
            });
            in_kernel(work.account.as_mut(), self.of_tasks.get(&task.id.number));
        }
        for worker in &mut report.workers {
            let busy_ns = worker.shares.map(|WorkerShares { busy, .. }| busy * worker.lifetime_ns);
            let sum = self.workers.get(&worker.id.number);
            worker.account = sum.zip(busy_ns).and_then(|(sum, busy_ns)| {
                sum.account(busy_ns, worker.dispatches.unwrap_or(0), moment.ns_per_tick)
            });
            in_kernel(worker.account.as_mut(), self.of_workers.get(&worker.id.number));
        }
        self.divide_by_locks(report);
        report.processors = self.processors(moment);
        if moment.ending.state == State::Running {
            report.waiting.still_ns = self.still_ns(moment);
            report.waiting.hanging = self.hanging(moment);
        }
        if self.refused {
            report.notes.push(Note { code: "accounts_refused".to_owned(), text: REFUSED.to_owned() });
        }
    }
}

/// The least time between two records from which the processor time of other processes is computed: the
/// kernel counts this time in ticks, which are too coarse for a shorter time.
const TICKS_NS: f64 = 100e6;

const REFUSED: &str = "The kernel does not say what the run's threads do (/proc/self/task is not there or not readable): busy time is not \
     divided into work and sleep, but for dispatches of a millisecond or more.";

impl Accounts {
    /// Calls `add` with the sums of the task, of its component, and of its worker.
    fn each(&mut self, batch: &Batch<'_>, task: u64, worker: u64, mut add: impl FnMut(&mut Sum)) {
        if self.tasks.len() < TASKS_MAX || self.tasks.contains_key(&task) {
            add(self.tasks.entry(task).or_default());
        }
        match batch.structure().task(task) {
            Some(task) => add(self.components.entry(task.component).or_default()),
            None if self.ended.len() < TASKS_MAX || self.ended.contains_key(&task) => {
                add(self.ended.entry(task).or_default());
            }
            None => {}
        }
        if worker < OWN_THREAD {
            add(self.workers.entry(worker).or_default());
        }
    }

    /// Where several tasks sleep for one lock, corrects their times by the processor times of workers.
    fn divide_by_locks(&self, report: &mut Report) {
        let busy = report.tasks.iter().filter_map(|task| {
            let (task_id, component) = (task.id.number, component_of(&task.name));
            Some(Busy { task: task_id, component, worker: task.worker?.number, busy_ns: task.work.busy_ns? })
        });
        let waits = self.locks.waits(&busy.collect::<Vec<_>>());
        let mut of_components: HashMap<String, f64> = HashMap::new();
        let mut of_workers: HashMap<u64, f64> = HashMap::new();
        let mut of_lock = 0;
        for task in &mut report.tasks {
            let (Some(waited), Some(busy_ns)) = (waits.get(&task.id.number), task.work.busy_ns) else {
                continue;
            };
            let lock_ns = waited.asleep * busy_ns;
            of_lock = waited.lock;
            *of_components.entry(component_of(&task.name).to_owned()).or_default() += lock_ns;
            let worker = task.worker.map_or(OWN_THREAD, |worker| worker.number);
            *of_workers.entry(worker).or_default() += lock_ns;
            if lock_ns > 0.0 {
                sleeps_for_lock(&mut task.work.account, busy_ns, lock_ns, waited.lock);
            }
        }
        for component in &mut report.components {
            let lock_ns = of_components.get(&component.path).copied().filter(|ns| *ns > 0.0);
            if let Some((lock_ns, busy_ns)) = lock_ns.zip(component.work.busy_ns) {
                sleeps_for_lock(&mut component.work.account, busy_ns, lock_ns, of_lock);
            }
        }
        for worker in &mut report.workers {
            let busy_ns = worker.shares.map(|shares| shares.busy * worker.lifetime_ns);
            if let Some((&lock_ns, busy_ns)) = of_workers.get(&worker.id.number).zip(busy_ns) {
                sleeps_for_lock(&mut worker.account, busy_ns, lock_ns, of_lock);
            }
        }
    }

    /// The sums of components by path. Sites with the same path count as one component.
    fn by_path(&self, names: &Names, report: &Report) -> HashMap<String, Sum> {
        let mut by_path: HashMap<String, Sum> = HashMap::new();
        for (&site, sum) in &self.components {
            by_path.entry(names.site(site).path).or_default().add(sum);
        }
        for task in &report.tasks {
            if let Some(sum) = self.ended.get(&task.id.number) {
                by_path.entry(component_of(&task.name).to_owned()).or_default().add(sum);
            }
        }
        by_path
    }

    fn processors(&self, moment: &Moment<'_>) -> Option<Processors> {
        let ((from, before), (until, now)) = self.used_before.zip(self.used)?;
        let span_ns = moment.ns(until.saturating_sub(from));
        (span_ns > 0.0).then(|| used_between(before, now, span_ns))
    }

    /// The time since a worker last ended a dispatch or a wait.
    fn still_ns(&self, moment: &Moment<'_>) -> Option<f64> {
        let updated = moment.ending.rows.iter().filter_map(|row| match row {
            LiveRow::Worker { updated, ended: false, .. } => Some(*updated),
            _ => None,
        });
        let last = updated.max()?.max(self.dispatched);
        Some(moment.ns(moment.end.saturating_sub(last)))
    }

    /// The threads that had been asleep in one dispatch for long at their last sample, longest first.
    fn hanging(&self, moment: &Moment<'_>) -> Vec<Hanging> {
        let hangs = |(&task, &(time, sample)): (&u64, &(u64, ThreadSampled))| {
            let since = moment.ns(moment.end.saturating_sub(time));
            let ns = moment.ns(sample.asleep_ticks);
            let sleeps_for = sleeps_for(sample.doing).filter(|_| ns >= HANGS_NS && since <= LATELY_NS)?;
            Some(Hanging {
                task: TaskId::of(task),
                name: moment.task_name(task)?,
                worker: (sample.worker < OWN_THREAD).then(|| WorkerId::of(sample.worker)),
                sleeps_for,
                ns: ns + since,
                lock: (sample.on != 0 && sleeps_for == SleepsFor::Lock).then_some(sample.on),
                holder: (sample.holder != 0).then(|| moment.task_name(sample.holder)).flatten(),
            })
        };
        let mut hanging: Vec<Hanging> = self.last.iter().filter_map(hangs).collect();
        hanging.sort_by(|a, b| b.ns.total_cmp(&a.ns).then_with(|| a.task.number.cmp(&b.task.number)));
        hanging.truncate(moment.top);
        hanging
    }
}

/// The use of processors between two records.
fn used_between(before: ProcessorsUsed, now: ProcessorsUsed, span_ns: f64) -> Processors {
    let more = |now: u64, before: u64| now.saturating_sub(before) as f64;
    let run_ns = more(now.run_ns, before.run_ns);
    let own_ns = run_ns + more(now.programs_ns, before.programs_ns);
    // The kernel counts the machine's time in ticks of 1 to 10 ms.
    let is_known = now.machine_ns != u64::MAX && before.machine_ns != u64::MAX && span_ns >= TICKS_NS;
    Processors {
        count: now.processors,
        span_ns,
        run_ns,
        others_ns: is_known.then(|| (more(now.machine_ns, before.machine_ns) - own_ns).max(0.0)),
        throttled_ns: more(now.throttled_ns, before.throttled_ns),
        sampling_ns: more(now.sampling_ns, before.sampling_ns),
        looks: now.looks.saturating_sub(before.looks),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_chance::Chance;

    use super::*;

    /// The parts of an account add up to the busy time, and none is negative, even if samples and measured
    /// dispatches disagree.
    #[test]
    fn parts_add_up_whatever_is_recorded() {
        let mut chance = Chance::new(3);
        let mut some = 0;
        for _ in 0..100_000 {
            // The numbers include odd ones, whose sums have rounding errors.
            let mut ticks = || {
                let round = [0.0, 0.0, 1.0, 7e3, 2e6, 3e9][chance.below(6) as usize];
                if chance.one_in(2) { round } else { round * chance.uniform() }
            };
            let sum = Sum {
                ran: ticks(),
                delayed: ticks(),
                asleep: [ticks(), 0.0, ticks(), 0.0, 0.0, ticks()],
                measured: ticks(),
                cpu_ns: ticks(),
                looks: ticks() as u64,
                instructions: ticks() as u64,
                spinning: ticks() as u64,
                ..Sum::default()
            };
            let (busy_ns, dispatches) = (ticks(), ticks() as u64);
            let Some(account) = sum.account(busy_ns, dispatches, 0.5) else { continue };
            some += 1;
            let parts = account.parts().into_iter().chain(account.asleep.parts());
            assert!(
                parts.into_iter().all(|part| (0.0..=busy_ns * (1.0 + 1e-9)).contains(&part)),
                "{sum:?} {account:?}"
            );
            assert!((account.total_ns() - busy_ns).abs() <= 1e-9 * busy_ns, "{busy_ns} {sum:?} {account:?}");
        }
        assert!(some > 10_000);
    }

    fn look(doing: ThreadSampledDoing, ticks: u64, cpu_ns: u64, delayed_ns: u64) -> ThreadSampled {
        ThreadSampled {
            worker: 0,
            task: 1,
            doing,
            source: crate::events::ThreadSampledSource::Call,
            looks: 1,
            interval_ticks: ticks,
            cpu_ns,
            delayed_ns,
            on: 0,
            asleep_ticks: 0,
            holder: 0,
        }
    }

    #[test]
    fn samples_of_tasks_that_have_ended_count_for_their_component() {
        let looks = |looks: u64| Sum { looks, ..Sum::default() };
        let mut accounts = Accounts::default();
        accounts.components.insert(7, looks(2));
        accounts.ended.insert(3, looks(5));
        accounts.ended.insert(4, looks(1));
        let mut names = Names::default();
        names.sites.insert(7, crate::SiteName { path: "net/a".to_owned(), ..Default::default() });
        let task = |id: u64, name: &str| crate::report::Task {
            id: crate::ids::TaskId::of(id),
            name: name.to_owned(),
            ..Default::default()
        };
        let report = Report { tasks: vec![task(3, "net/a[1]"), task(4, "net/b")], ..Report::empty() };
        let by_path = accounts.by_path(&names, &report);
        assert_eq!((by_path["net/a"].looks, by_path["net/b"].looks), (7, 1));
    }

    #[test]
    fn looks_divide_busy_time_and_measured_dispatches_correct_them() {
        let mut sum = Sum::default();
        // The time in which a worker had no processor does not belong to its busy time.
        sum.looked(&look(ThreadSampledDoing::Runs, 200, 50, 50));
        sum.looked(&look(ThreadSampledDoing::Lock, 300, 0, 0));
        let account = sum.account(4000.0, 0, 1.0).expect("it was looked at");
        assert_eq!((account.computing_ns, account.kept_ns, account.asleep.lock_ns), (1000.0, 0.0, 3000.0));
        let mut sum = Sum::default();
        let own = ThreadSampled { worker: OWN_THREAD, ..look(ThreadSampledDoing::Runs, 100, 60, 40) };
        sum.looked(&own);
        sum.looked(&look(ThreadSampledDoing::Lock, 300, 0, 0));
        let account = sum.account(4000.0, 0, 1.0).expect("it was looked at");
        assert_eq!((account.computing_ns, account.kept_ns, account.asleep.lock_ns), (600.0, 400.0, 3000.0));
        // Of the 4,000 ns, 2,000 ns were measured as work, so at most the other 2,000 ns were sleep.
        sum.measured(&DispatchUsed { worker: 0, task: 1, duration_ticks: 2000, kept_ticks: 0, cpu_ns: 2000 });
        let account = sum.account(4000.0, 0, 1.0).expect("as above");
        assert_eq!((account.asleep.lock_ns, account.computing_ns), (2000.0, 2000.0));
        // Without samples, the half of the measured time that was not work counts as sleep.
        let mut sum = Sum::default();
        sum.measured(&DispatchUsed { worker: 0, task: 1, duration_ticks: 4000, kept_ticks: 0, cpu_ns: 2000 });
        let account = sum.account(4000.0, 2, 1.0).expect("it was measured");
        assert_eq!(
            (account.asleep.other_ns, account.runtime_ns, account.computing_ns),
            (2000.0, 300.0, 1700.0)
        );
    }

    /// A few microseconds are too short for the kernel's ticks to show other processes.
    #[test]
    fn others_are_known_only_where_ticks_show_them() {
        let used = |machine_ns, run_ns| ProcessorsUsed { machine_ns, run_ns, ..ProcessorsUsed::default() };
        let others = |before, now, span_ns| used_between(before, now, span_ns).others_ns;
        assert_eq!(others(used(5_000_000, 1_000_000), used(5_000_000, 1_024_000), 24e3), None);
        assert_eq!(others(used(0, 0), used(390_000_000, 90_000_000), 200e6), Some(300e6));
        assert_eq!(others(used(u64::MAX, 0), used(u64::MAX, 90_000_000), 200e6), None);
    }
}
