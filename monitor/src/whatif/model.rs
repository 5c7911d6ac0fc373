//! What a replay needs to know of a network: its tasks with what each step cost, its streams, its threads and processors.

use std::sync::Arc;

/// A step that reads nothing.
pub(super) const NOTHING: u32 = u32::MAX;

/// A network to be replayed.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) tasks: Vec<Task>,
    pub(super) streams: Vec<Stream>,
    pub(super) runtime: Runtime,
}

/// The threads and the settings that a replay follows.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    pub(super) workers: usize,
    /// Threads that can run at the same time.
    pub(super) processors: f64,
    /// Messages that a dispatch takes at most, and how long it should last.
    pub(super) quantum: usize,
    pub(super) quantum_ns: f64,
    /// Sources rest while so many messages are under way; 0: never.
    pub(super) unfinished: u64,
    /// Time between two dispatches of a worker that has ready tasks.
    pub(super) between_ns: f64,
    /// Until a task runs that was made ready on an idle thread: one that still spins, and one that sleeps.
    pub(super) wake_ns: [f64; 2],
    pub(super) spin_ns: f64,
    /// Replicas move to where there is time for them.
    pub(super) spreads: bool,
    /// Workers without work get tasks of others.
    pub(super) steals: bool,
}

/// Where a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Worker(usize),
    OwnThread,
}

/// Which of its inputs a task reads next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// The one that it read in the recording.
    AsRecorded,
    /// Any that has a message.
    Any,
}

/// A task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) component: String,
    pub(super) place: Place,
    pub(super) reads: Reads,
    pub(super) script: Arc<Script>,
    /// Its steps take so many times what they took.
    pub(super) times: f64,
    /// The share of its busy time in which it has a processor.
    pub(super) on_processor: f64,
    /// With a thread of its own: messages after which others see what it did.
    pub(super) shown_after: usize,
    /// Whether it existed before the first message: then the mapper cuts it with the others.
    pub(super) from_start: bool,
    /// Whether the user gave it its place.
    pub(super) is_placed: bool,
    /// What the mapper expects of it when it cuts a network into contiguous pieces.
    pub(super) weight: u32,
    /// The share of its busy time in which it waits for a lock that is held by tasks which wait for it as well.
    pub(super) locked: f64,
    /// It waits in its box for something that it may share with others: replicas of it would wait as well, and how long is not known.
    pub(super) shares: bool,
    /// It goes at the pace of something outside of the network that it reads in its box.
    pub(super) is_paced: bool,
}

/// A stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) capacity: usize,
    /// The task that reads, and the one that writes: one at a time; an end may have gone from a task to another.
    pub(super) writers: Vec<usize>,
    pub(super) readers: Vec<usize>,
}

/// All that a task did, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    /// Streams that steps wrote to.
    pub(super) writes: Vec<u32>,
}

/// A message read, what it cost, and what was written then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The stream it is read from, or [`NOTHING`].
    pub(super) input: u32,
    /// Where its writes end in the script's; they begin where those of the step before end.
    pub(super) writes_end: u32,
    pub(super) busy_ns: f32,
    /// Time before the step, in which the task waited for something outside.
    pub(super) aside_ns: f32,
}

impl Script {
    /// Adds a step.
    pub(super) fn push(
        &mut self,
        input: u32,
        busy_ns: f64,
        aside_ns: f64,
        writes: impl IntoIterator<Item = u32>,
    ) {
        self.writes.extend(writes);
        let writes_end = self.writes.len() as u32;
        self.steps.push(Step { input, writes_end, busy_ns: busy_ns as f32, aside_ns: aside_ns as f32 });
    }

    /// The streams that a step writes to.
    pub(super) fn writes_of(&self, step: usize) -> &[u32] {
        let begin = step.checked_sub(1).map_or(0, |before| self.steps[before].writes_end);
        &self.writes[begin as usize..self.steps[step].writes_end as usize]
    }

    /// Time of all steps.
    pub(super) fn busy_ns(&self) -> f64 {
        self.steps.iter().map(|step| f64::from(step.busy_ns)).sum()
    }
}

impl Model {
    /// Finds the tasks that read and write each stream.
    pub(super) fn settle(&mut self) {
        for stream in &mut self.streams {
            stream.readers.clear();
            stream.writers.clear();
        }
        for (at, task) in self.tasks.iter().enumerate() {
            for step in task.script.steps.iter().filter(|step| step.input != NOTHING) {
                add(&mut self.streams[step.input as usize].readers, at);
            }
            for &to in &task.script.writes {
                add(&mut self.streams[to as usize].writers, at);
            }
        }
    }

    /// The same network where tasks that wait for locks wait as long as they did, whatever others do; none if no task waits for one.
    pub(super) fn without_locks(&self) -> Option<Model> {
        let mut other = self.clone();
        let mut found = false;
        for task in other.tasks.iter_mut().filter(|task| task.locked > 0.0) {
            task.times /= 1.0 - task.locked;
            task.on_processor *= 1.0 - task.locked;
            (task.locked, task.shares, found) = (0.0, true, true);
        }
        found.then_some(other)
    }

    /// Streams that a task reads.
    pub(super) fn inputs(&self, task: usize) -> Vec<usize> {
        (0..self.streams.len()).filter(|&at| self.streams[at].readers.contains(&task)).collect()
    }

    /// Streams that a task writes.
    pub(super) fn outputs(&self, task: usize) -> Vec<usize> {
        (0..self.streams.len()).filter(|&at| self.streams[at].writers.contains(&task)).collect()
    }

    /// Time that all tasks are busy.
    pub(super) fn busy_ns(&self) -> f64 {
        self.tasks.iter().map(Task::busy_ns).sum()
    }
}

fn add(list: &mut Vec<usize>, task: usize) {
    if list.last() != Some(&task) && !list.contains(&task) {
        list.push(task);
    }
}

impl Stream {
    /// A stream without a reader and a writer.
    pub(super) fn of(capacity: usize) -> Stream {
        Stream { capacity: capacity.max(1), writers: Vec::new(), readers: Vec::new() }
    }
}

impl Task {
    /// Time that it is busy.
    pub(super) fn busy_ns(&self) -> f64 {
        self.script.busy_ns() * self.times
    }
}

impl Default for Runtime {
    /// As many processors as are asked for; only the steps take time.
    fn default() -> Runtime {
        Runtime {
            workers: 1,
            processors: f64::INFINITY,
            quantum: 64,
            quantum_ns: 100_000.0,
            unfinished: 0,
            between_ns: 0.0,
            wake_ns: [0.0; 2],
            spin_ns: 0.0,
            spreads: true,
            steals: false,
        }
    }
}
