//! `thalweg diagnose --perturb`: whether the flow depends on a task, found out by slowing it in the live run.
//!
//! The task takes longer for each message, for a while, again and again in turn with not (Coz's virtual speed-up, SOSP 2015, turned
//! round). Its *sensitivity* is by how much the network's time for an input message grows, over by how much the task's own does: 1,
//! the flow depends on this task alone; 0, not at all.
//!
//! A delay ends when it is taken back, and by itself at a moment that the run knows: so also if this program is killed.

use std::thread;
use std::time::{Duration, Instant};

use thalweg_host::{Interrupt, spaces};
use thalweg_monitor::{Component, Follower, Measurement, Report, Task};
use thalweg_space::reader::SpaceReader;

use crate::commands::look::{Look, usage};
use crate::failure::Failure;

/// What is measured at first, unless `--window` says otherwise; later, each time.
const FIRST: Duration = Duration::from_secs(1);
const EACH: Duration = Duration::from_millis(250);
/// After a change: what was on its way leaves.
const SETTLE: Duration = Duration::from_millis(50);
/// Tasks tried, the most suspected first, and how often each.
const TASKS_MAX: usize = 3;
const PAIRS: usize = 5;
/// A message takes longer by this part of its service time, and by at least so many nanoseconds.
const LONGER: f64 = 0.5;
const DELAY_NS_MIN: f64 = 20.0;
/// A delay that nobody takes back lasts so much longer than it should.
const GRACE: Duration = Duration::from_secs(1);
/// How often the events are taken, and an interruption is seen.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The flow depends on a task from here on, and does not below that.
pub(super) const DEPENDS: f64 = 0.5;
pub(super) const INDEPENDENT: f64 = 0.2;

/// A task that was slowed.
pub(super) struct Tried {
    pub(super) name: String,
    /// Whether it is of the component that the verdict names.
    pub(super) named: bool,
    pub(super) service_ns: f64,
    pub(super) delay_ns: f64,
    /// Input messages per second, without the delay and with it: medians.
    pub(super) rate: f64,
    pub(super) slowed_rate: f64,
    /// Of all pairs: median, least and most.
    pub(super) sensitivity: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// Measures the live run, then slows the tasks that may limit it.
pub(super) fn perturb(look: &Look) -> Result<(Report, Vec<Tried>), Failure> {
    let interrupt = Interrupt::listen()
        .map_err(|error| Failure::run("cannot listen to signals, without which nothing is slowed", error))?;
    let path = spaces::find(look.space.as_deref())?;
    let follower = Follower::open(&path, look.top).map_err(usage)?;
    let reader = SpaceReader::open(&path).map_err(usage)?;
    let mut live = Live { reader, follower, interrupt };
    if !live.follower.is_running() {
        let why = "has ended: only a live run can be slowed (`thalweg ls` shows what runs)";
        return Err(Failure::Usage(format!("the run of {} {why}", path.display())));
    }
    live.follower.poll();
    let mut report = live.window(look.window.unwrap_or(FIRST))?;
    if inputs(&report) == 0 {
        let why = "no message entered the network while it was measured, so nothing can depend on a task; \
                   measure longer (--window), or switch the run to mode metrics (`thalweg set monitor.mode metrics`)";
        return Err(Failure::Run(why.to_owned()));
    }
    let tried = suspects(&report).map(|task| live.slow(task, &report)).collect::<Result<Vec<_>, _>>()?;
    let table =
        |value: fn(&Tried) -> f64| tried.iter().map(|tried| (tried.name.clone(), value(tried))).collect();
    report.measurements.extend([
        Measurement::table("perturb.sensitivity", "", table(|tried| tried.sensitivity)),
        Measurement::table("perturb.delay", "ns", table(|tried| tried.delay_ns)),
    ]);
    Ok((report, tried))
}

/// Messages that sources wrote.
fn inputs(report: &Report) -> u64 {
    let source = |component: &&Component| component.work.messages_in == Some(0);
    report.components.iter().filter(source).filter_map(|component| component.work.messages_out).sum()
}

/// The tasks to slow: those of the component that the verdict names, then the busiest.
fn suspects(report: &Report) -> impl Iterator<Item = &Task> {
    let busy = |task: &Task| task.work.shares.map_or(0.0, |shares| shares.busy);
    let mut tasks: Vec<&Task> = report
        .tasks
        .iter()
        .filter(|task| task.work.messages_in > Some(0) && task.work.service_ns > Some(0.0))
        .collect();
    tasks.sort_by(|a, b| is_named(report, b).cmp(&is_named(report, a)).then(busy(b).total_cmp(&busy(a))));
    tasks.into_iter().take(TASKS_MAX)
}

fn is_named(report: &Report, task: &Task) -> bool {
    let path = task.name.split('[').next();
    path.is_some() && report.verdict.component.as_deref() == path
}

/// A run that goes on.
struct Live {
    reader: SpaceReader,
    follower: Follower<'static>,
    interrupt: Interrupt,
}

impl Live {
    /// The report of so much time from now on.
    fn window(&mut self, time: Duration) -> Result<Report, Failure> {
        self.follower.restart();
        self.wait(time)?;
        self.follower.report().map_err(usage)
    }

    /// Takes events for so long.
    fn wait(&mut self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            thread::sleep(left.min(LOOK_EVERY));
            self.follower.poll();
            if self.interrupt.is_signalled() {
                return Err(self.interrupt.error().into());
            }
            if !self.follower.is_running() {
                return Err(Failure::Run("the run ended before it was measured".to_owned()));
            }
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    /// Input messages per second, from now on.
    fn rate(&mut self) -> Result<f64, Failure> {
        self.wait(SETTLE)?;
        let report = self.window(EACH)?;
        Ok(inputs(&report) as f64 / (report.window.duration_ns / 1e9))
    }

    /// Slows a task by turns.
    fn slow(&mut self, task: &Task, report: &Report) -> Result<Tried, Failure> {
        let service_ns = task.work.service_ns.unwrap_or(0.0);
        let delay_ns = (service_ns * LONGER).max(DELAY_NS_MIN).round();
        let mut pairs = Vec::new();
        for pair in 0..PAIRS {
            let mut rates = [0.0; 2];
            for half in 0..2 {
                // Which goes first changes, so that a drift of the machine favours none.
                let slowed = (pair + half) % 2;
                let delay = (slowed == 1).then(|| Delay::of(&self.reader, task.id, delay_ns)).transpose()?;
                rates[slowed] = self.rate()?;
                delay.map_or(Ok(()), Delay::end)?;
            }
            pairs.push(rates);
        }
        let sensitivity = |[rate, slowed]: &[f64; 2]| (rate / slowed.max(1e-3) - 1.0) * service_ns / delay_ns;
        let sensitivities = sorted(pairs.iter().map(sensitivity));
        Ok(Tried {
            name: task.name.clone(),
            named: is_named(report, task),
            service_ns,
            delay_ns,
            rate: sorted(pairs.iter().map(|pair| pair[0]))[PAIRS / 2],
            slowed_rate: sorted(pairs.iter().map(|pair| pair[1]))[PAIRS / 2],
            sensitivity: sensitivities[PAIRS / 2],
            least: sensitivities[0],
            most: sensitivities[PAIRS - 1],
        })
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// A delay of one task, which is over with this.
struct Delay {
    reader: SpaceReader,
}

impl Delay {
    fn of(reader: &SpaceReader, task: u64, ns: f64) -> Result<Delay, Failure> {
        let clock = reader.info().map_err(usage)?.clock;
        let lasts = EACH + SETTLE + GRACE;
        reader.set("exec.delay_ns", ns as u64).map_err(usage)?;
        reader
            .set("exec.delay_until", clock.now() + clock.ns_to_ticks(lasts.as_nanos() as u64))
            .map_err(usage)?;
        let delay = Delay { reader: SpaceReader::open(reader.path()).map_err(usage)? };
        reader.set("exec.delay_task", task).map_err(usage)?;
        Ok(delay)
    }

    fn end(self) -> Result<(), Failure> {
        self.reader.set("exec.delay_task", 0).map_err(usage)
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        // Where this fails, the delay ends by itself.
        let _ = self.reader.set("exec.delay_task", 0);
    }
}
