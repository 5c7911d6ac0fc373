//! The activity of a run between two moments.

use std::collections::HashMap;

use thalweg_monitor::{Names, TaskTotals, number_equal_names};

use super::sample::{Sample, TaskAt};
use crate::control::Seen;

/// The least number of messages from which a window's rate is computed.
const ENOUGH: f64 = 20.0;

/// From so many messages in streams for each task on, the number at the end of a window says how many messages
/// are in the network.
const CROWDED: f64 = 4.0;

/// The largest part of the time for which the number of waiting messages is computed; it grows without bound towards 1.
const TAKEN_MAX: f64 = 0.999;

/// The least part of the time for which the sources of a run wait for input if its input comes at a rate of its own.
const FED: f64 = 0.05;

/// What counts as the progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Messages that sinks read.
    Sinks,
    /// Messages that sources wrote.
    Sources,
    /// Tasks that were made, in a network that unfolds with each message.
    Tasks,
    /// Dispatches, if sinks, sources and new tasks are too few to measure.
    Dispatches,
}

/// What a run did between two moments.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The length of the window, in seconds.
    pub lasted: f64,
    /// The tasks that existed during the whole window.
    pub tasks: Vec<TaskIn>,
    /// The streams that existed during the whole window.
    pub streams: Vec<StreamIn>,
    /// The workers that took part in the run at the window's end.
    pub workers: Vec<WorkerIn>,
    /// The number of workers, including parked ones.
    pub workers_known: usize,
    /// The number of tasks that were made per second.
    pub made: f64,
    /// Dispatches per second.
    pub dispatches: f64,
    /// The number of processors that the process used on average.
    pub processors: f64,
    /// The number of threads, of tasks that have one of their own, that could run but had no processor on average.
    pub delayed: f64,
    /// The number of processors that the host of a virtual machine took away from it on average.
    pub stolen: f64,
    /// Memory, in bytes.
    pub memory: f64,
    /// The number of messages in streams at the end of the window.
    pub held: f64,
}

/// A task in a window; times are fractions of the window, counts are per second.
#[derive(Clone, Debug, Default)]
pub struct TaskIn {
    /// The number of the task.
    pub id: u64,
    /// The component's path, the replica in brackets if there are several, and `~2` behind the second task of a name.
    pub name: String,
    /// The kind of the task's component, such as `box` or `source`.
    pub kind: String,
    /// The number of the task's component.
    pub component: u64,
    /// The worker of the task; `None` if the task has a thread of its own.
    pub worker: Option<u32>,
    /// The fraction of time in which the task ran.
    pub busy: f64,
    /// The fraction of time in which the task waited for messages.
    pub input_wait: f64,
    /// The fraction of time in which the task waited for room.
    pub output_wait: f64,
    /// The fraction of time in which the task was ready but did not run.
    pub ready: f64,
    /// Messages read.
    pub reads: f64,
    /// Messages written.
    pub writes: f64,
    /// Dispatches.
    pub dispatches: f64,
}

impl TaskIn {
    /// The mean number of messages that the task works on, or that wait for it. Those that a dispatch takes
    /// together arrived one after the other, so half of them are there on average beside the first.
    fn messages(&self) -> f64 {
        let together = self.reads / self.dispatches;
        let together = if together > 1.0 { together } else { 1.0 };
        (self.busy + self.ready + self.output_wait) * (1.0 + together) / 2.0
    }
}

/// A stream in a window.
#[derive(Clone, Debug)]
pub struct StreamIn {
    /// The task that writes.
    pub writer: u64,
    /// The task that reads.
    pub reader: u64,
    /// The number of messages that the stream can hold.
    pub capacity: u64,
    /// Messages read per second.
    pub rate: f64,
    /// The number of messages in the stream at the end of the window.
    pub held: f64,
}

/// A worker in a window.
#[derive(Clone, Copy, Debug)]
pub struct WorkerIn {
    /// The number of the worker.
    pub id: u64,
    /// The fraction of its time in which it dispatched tasks, without the time in which another process had
    /// its processor.
    pub busy: f64,
    /// The factor that converts times of the worker's tasks to fractions of the time in which the worker had
    /// a processor.
    pub had: f64,
}

impl Window {
    /// The window between two samples; `None` if no time passed.
    pub(super) fn between(from: &Sample, to: &Sample, names: &Names) -> Option<Window> {
        let ticks = to.ticks.checked_sub(from.ticks).filter(|&ticks| ticks > 0)?;
        let lasted = ticks as f64 / to.hz;
        let part = |to: u64, from: u64| to.saturating_sub(from) as f64 / ticks as f64;
        let per_s = |to: u64, from: u64| to.saturating_sub(from) as f64 / lasted;
        let tasks = from.tasks.iter().filter_map(|(id, before)| {
            let after = to.tasks.get(id)?;
            Some(task_in(*id, &before.totals, after, (&part, &per_s), names))
        });
        let mut tasks: Vec<TaskIn> = tasks.collect();
        tasks.sort_by_key(|task| task.id);
        number_equal_names(tasks.iter_mut().map(|task| &mut task.name));
        let streams = from.streams.iter().filter_map(|(id, before)| {
            let after = to.streams.get(id)?;
            Some(StreamIn {
                writer: after.writer,
                reader: after.reader,
                capacity: after.capacity,
                rate: per_s(after.read, before.read),
                held: after.written.saturating_sub(after.read) as f64,
            })
        });
        let workers = to.workers.iter().filter(|(_, worker)| worker.takes_part);
        let workers = workers.filter_map(|(id, after)| {
            let before = from.workers.get(id)?;
            let busy = part(after.busy_ticks, before.busy_ticks);
            let waited = part(after.waiting_ticks, before.waiting_ticks);
            // The factor is bounded: if almost none of the worker's time is known, the known part is not
            // taken for all of it.
            let had = 1.0 / (busy + waited).clamp(0.2, 1.0);
            Some(WorkerIn { id: *id, busy: (busy * had).min(1.0), had })
        });
        let mut workers: Vec<WorkerIn> = workers.collect();
        workers.sort_by_key(|worker| worker.id);
        let dispatches = |sample: &Sample| sample.workers.values().map(|worker| worker.dispatches).sum();
        Some(Window {
            lasted,
            tasks,
            streams: streams.collect(),
            workers,
            workers_known: to.workers.len(),
            made: per_s(to.newest, from.newest),
            dispatches: per_s(dispatches(to), dispatches(from)),
            processors: (to.processor_s - from.processor_s) / lasted,
            delayed: (to.delayed_s - from.delayed_s) / lasted,
            stolen: (to.stolen_s - from.stolen_s) / lasted,
            memory: to.memory,
            held: to.streams.values().map(|stream| stream.written.saturating_sub(stream.read) as f64).sum(),
        })
    }

    fn of_kind<'w>(&'w self, kind: &'w str) -> impl Iterator<Item = &'w TaskIn> {
        self.tasks.iter().filter(move |task| task.kind == kind)
    }

    /// The sources, which are the tasks that read nothing but write messages.
    pub fn sources(&self) -> impl Iterator<Item = &TaskIn> {
        self.of_kind("source")
    }

    /// The progress per second, counted as `of` says.
    pub fn progress(&self, of: Progress) -> f64 {
        match of {
            Progress::Sinks => self.of_kind("sink").map(|task| task.reads).sum(),
            Progress::Sources => self.sources().map(|task| task.writes).sum(),
            Progress::Tasks => self.made,
            Progress::Dispatches => self.dispatches,
        }
    }

    /// The kind of progress that can be measured in this window.
    pub fn measurable_progress(&self) -> Progress {
        let is_enough = |of: &Progress| self.progress(*of) * self.lasted >= ENOUGH;
        [Progress::Sinks, Progress::Sources, Progress::Tasks]
            .into_iter()
            .find(is_enough)
            .unwrap_or(Progress::Dispatches)
    }

    /// The measurements of the window for the controller.
    /// `is_fed` says whether the input comes at a rate of its own.
    pub(super) fn seen(&self, at: f64, of: Progress, shift: f64, is_fed: bool) -> Seen {
        let rate = self.progress(of);
        Seen {
            rate,
            processors: self.processors,
            // By Little's law the latency is the mean number of messages in the network divided by the rate at
            // which they leave.
            latency: self.messages(is_fed) / rate,
            memory: self.memory,
            held: self.waiting(),
            shift,
            ..Seen::nothing(at, self.lasted)
        }
    }

    /// The mean number of messages in the network, or on the way into it. A source's message enters the network only
    /// when the source has written it; but one that there is to read while the source's thread has no processor waits as well.
    /// If the input comes at a rate of its own, messages also wait for a source that has no time for them, because it works,
    /// streams are full, or too many inputs are unfinished.
    fn messages(&self, is_fed: bool) -> f64 {
        // The other tasks that have a thread of their own are ready while it has no processor.
        let ready: f64 = self.inside().filter(|task| task.worker.is_none()).map(|task| task.ready).sum();
        let unread = (self.delayed - ready).max(0.0);
        let unwritten = self.sources().map(|source| waiting_for(1.0 - source.input_wait, TAKEN_MAX));
        let outside = unread + if is_fed { unwritten.sum() } else { 0.0 };
        let (by_tasks, worked_on) = self.by_tasks();
        if self.is_crowded() { (self.held + worked_on).max(by_tasks + outside) } else { by_tasks + outside }
    }

    /// Whether the sources wait for their input, as they do if it comes at a rate of its own.
    pub(super) fn is_fed(&self) -> bool {
        self.sources().next().is_some() && self.sources().all(|source| source.input_wait > FED)
    }

    /// The mean number of messages in streams.
    fn waiting(&self) -> f64 {
        let (by_tasks, worked_on) = self.by_tasks();
        if self.is_crowded() { self.held } else { (by_tasks - worked_on).max(0.0) }
    }

    /// The mean number of messages that tasks have, and of those that they work on. A task that has messages is busy, ready,
    /// or waits for room, and the times for which it does so are known exactly; the messages in streams are known for
    /// the end of the window only, which says little while there are few.
    fn by_tasks(&self) -> (f64, f64) {
        (self.inside().map(TaskIn::messages).sum(), self.inside().map(|task| task.busy).sum())
    }

    /// Whether there are so many messages in streams that their number at the end of the window is about the mean.
    fn is_crowded(&self) -> bool {
        self.held > CROWDED * (1.0 + self.inside().count() as f64)
    }

    fn inside(&self) -> impl Iterator<Item = &TaskIn> {
        self.tasks.iter().filter(|task| task.kind != "source")
    }

    /// The fraction of the work that each component does.
    pub(super) fn profile(&self) -> HashMap<u64, f64> {
        let mut profile = HashMap::new();
        let all: f64 = self.tasks.iter().map(|task| task.busy).sum();
        for task in &self.tasks {
            *profile.entry(task.component).or_insert(0.0) += task.busy / all.max(1e-9);
        }
        profile
    }

    /// The fraction of all messages between tasks on workers that go to another worker.
    pub fn crossing(&self) -> f64 {
        let workers: HashMap<u64, u32> =
            self.tasks.iter().filter_map(|task| Some((task.id, task.worker?))).collect();
        let (mut all, mut across) = (0.0, 0.0);
        for stream in &self.streams {
            if let (Some(from), Some(to)) = (workers.get(&stream.writer), workers.get(&stream.reader)) {
                all += stream.rate;
                across += if from == to { 0.0 } else { stream.rate };
            }
        }
        if all > 0.0 { across / all } else { f64::NAN }
    }
}

/// The mean number of messages that wait for something that is taken for this part of the time, the first one among them
/// (`ρ / (1 − ρ)`); the part counts as `most` at most.
pub(super) fn waiting_for(taken: f64, most: f64) -> f64 {
    let taken = taken.clamp(0.0, most);
    taken / (1.0 - taken)
}

/// The fraction of the work that is now done by other components.
pub(super) fn shift(before: &HashMap<u64, f64>, now: &HashMap<u64, f64>) -> f64 {
    let gone = before.iter().map(|(component, part)| (part - now.get(component).unwrap_or(&0.0)).max(0.0));
    gone.sum()
}

type Parts<'p> = (&'p dyn Fn(u64, u64) -> f64, &'p dyn Fn(u64, u64) -> f64);

fn task_in(id: u64, before: &TaskTotals, after: &TaskAt, (part, per_s): Parts<'_>, names: &Names) -> TaskIn {
    let TaskAt { component, replica, worker, totals } = *after;
    let (counts, counted) = (totals.counts.unwrap_or_default(), before.counts.unwrap_or_default());
    TaskIn {
        id,
        name: names.task(component, replica, replica > 0),
        kind: names.site(component).kind,
        component,
        worker,
        busy: part(totals.busy_ticks, before.busy_ticks),
        input_wait: part(totals.input_wait_ticks, before.input_wait_ticks),
        output_wait: part(totals.output_wait_ticks, before.output_wait_ticks),
        ready: part(totals.ready_ticks, before.ready_ticks),
        reads: per_s(counts.reads, counted.reads),
        writes: per_s(counts.writes, counted.writes),
        dispatches: per_s(counts.dispatches, counted.dispatches),
    }
}
