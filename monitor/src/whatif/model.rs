//! The model of a network for replays: its tasks with the cost of each step, its streams, its threads and
//! processors.

use std::collections::HashSet;
use std::sync::Arc;

/// The number in place of a stream for a step that reads nothing.
pub(super) const NOTHING: u32 = u32::MAX;

/// A network to be replayed.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) tasks: Vec<Task>,
    pub(super) streams: Vec<Stream>,
    pub(super) runtime: Runtime,
}

/// The threads of the runtime and its settings, as a replay simulates them.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    pub(super) workers: usize,
    /// The number of threads that can run at the same time.
    pub(super) processors: f64,
    /// The maximal number of messages in a dispatch; `quantum_ns` is the duration to which the runtime adapts
    /// dispatches.
    pub(super) quantum: usize,
    pub(super) quantum_ns: f64,
    /// The number of messages in flight at which sources pause; 0 for no limit.
    pub(super) unfinished: u64,
    /// The time between two dispatches of a worker that has ready tasks.
    pub(super) between_ns: f64,
    /// The time from the moment at which a task is made ready on an idle thread until the task runs: if the
    /// thread still spins, and if it sleeps.
    pub(super) wake_ns: [f64; 2],
    pub(super) spin_ns: f64,
    /// Whether the mapper places tasks on the workers in turn, or keeps neighbours together; `None` if it is neither of
    /// both, or not known.
    pub(super) in_turn: Option<bool>,
    /// Whether replicas move to workers with free time.
    pub(super) spreads: bool,
    /// Whether workers without work get tasks of other workers.
    pub(super) steals: bool,
}

/// The thread on which a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Worker(usize),
    OwnThread,
}

/// The time at which the runtime creates a task, which decides how the runtime places it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Before the first message: the mapper places the task together with all others.
    Start,
    /// During the run, but in no replica of a split, such as a stage of a star: the mapper places the task
    /// near the task that creates it, and it stays there.
    Later,
    /// During the run, in a replica of a split: the runtime places the task where there is time for it.
    Replica,
}

/// The stars and splits of a network: their tasks are created during the run.
#[derive(Clone, Debug, Default)]
pub struct Unfolding {
    stars: HashSet<String>,
    splits: HashSet<String>,
}

impl Unfolding {
    /// Those among components, which are given by their paths and kinds.
    pub fn of<'a>(components: impl Iterator<Item = (&'a str, &'a str)>) -> Unfolding {
        let mut found = Unfolding::default();
        for (path, kind) in components.filter(|(path, _)| !is_collector(path)) {
            match kind {
                "star" => found.stars.insert(path.to_owned()),
                "split" => found.splits.insert(path.to_owned()),
                _ => false,
            };
        }
        found
    }

    /// The origin of the task with this number among the tasks of a component, by the component's path.
    pub(super) fn origin(&self, component: &str, replica: u64) -> Origin {
        match () {
            () if self.is_in_replica(component) => Origin::Replica,
            () if within(component, &self.stars) || (replica > 0 && self.stars.contains(component)) => {
                Origin::Later
            }
            () => Origin::Start,
        }
    }

    /// Whether the tasks of a component, which is given by its path, belong to replicas of a split. The runtime
    /// places such tasks itself while `exec.spread` is set.
    pub fn is_in_replica(&self, component: &str) -> bool {
        within(component, &self.splits)
    }
}

/// Whether a component lies within one of the components `parts`. The collector behind a split or a star is no
/// part of the replicas or stages.
fn within(component: &str, parts: &HashSet<String>) -> bool {
    let collected = is_collector(component).then(|| parent(component)).flatten();
    ancestors(collected.unwrap_or(component)).any(|at| parts.contains(at))
}

/// Whether a path is that of the collector of a combinator.
fn is_collector(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|last| last.starts_with("collector"))
}

fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(before, _)| before)
}

/// The paths of the components around a component, the innermost first.
pub(super) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(path), |path| parent(path))
}

/// The choice of the input that a task reads next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// The input that the task read in the recording.
    AsRecorded,
    /// Any input that has a message.
    Any,
    /// As the task at both ends of a feedback: messages that left the body on the stream `back` are read first
    /// and always find room on their way into the body by the stream `into`; messages from outside are read
    /// only while the stream `into` has room.
    Loop { into: u32, back: u32 },
}

/// A task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) component: String,
    pub(super) place: Place,
    pub(super) reads: Reads,
    pub(super) script: Arc<Script>,
    /// The factor by which the task's steps take longer than recorded.
    pub(super) times: f64,
    /// The share of the task's busy time in which its thread has a processor.
    pub(super) on_processor: f64,
    /// For a task with a thread of its own, the number of messages after which the task shows its writes to
    /// the readers.
    pub(super) shown_after: usize,
    pub(super) origin: Origin,
    /// Whether the user chose the task's worker.
    pub(super) is_placed: bool,
    /// The weight that the mapper assigns to the task when it cuts a network into contiguous pieces.
    pub(super) weight: u32,
    /// The share of the recorded busy time in which the task waited for a lock that it shares with other
    /// tasks. The wait is not part of `times`, because the replay finds its length.
    pub(super) locked: f64,
    /// The share of the task's busy time in which it waits for a lock, if the wait is part of `times`, because
    /// it is as long as it was recorded.
    pub(super) waits: f64,
    /// The share of these waits in which the task keeps its processor, in a loop.
    pub(super) spun: f64,
    /// Whether the task waits in its box for a resource that it may share with others: replicas of it would
    /// wait for an unknown time as well.
    pub(super) shares: bool,
    /// Whether something outside the network sets the task's pace: an input that its box reads, or the reader of what
    /// a sink writes.
    pub(super) is_paced: bool,
}

/// A stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) capacity: usize,
    /// The tasks that wrote the stream. One task at a time writes, but several tasks may have written one
    /// after the other.
    pub(super) writers: Vec<usize>,
    pub(super) readers: Vec<usize>,
}

/// The steps of a task, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    /// Streams that steps wrote to.
    pub(super) writes: Vec<u32>,
}

/// A message read, its cost, and the messages that the task wrote when it had processed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The stream from which the step reads its message, or [`NOTHING`].
    pub(super) input: u32,
    /// The end of the step's writes in [`Script::writes`]; they begin where the writes of the previous step
    /// end.
    pub(super) writes_end: u32,
    pub(super) busy_ns: f32,
    /// The time before the step in which the task waited for outside input.
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

    /// The total time of all steps.
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

    /// Finds the streams into and out of the body of each feedback among the tasks that read any input.
    pub(super) fn close_loops(&mut self, is_feedback: impl Fn(&Task) -> bool) {
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            if task.reads != Reads::Any || !is_feedback(task) {
                continue;
            }
            // The body may be no more than a stream from the task to itself.
            let in_body = |&other: &usize| {
                other == at || ancestors(&self.tasks[other].component).any(|path| path == task.component)
            };
            let into = self.outputs(at).into_iter().find(|&to| self.streams[to].readers.iter().any(in_body));
            let back =
                self.inputs(at).into_iter().find(|&from| self.streams[from].writers.iter().any(in_body));
            if let (Some(into), Some(back)) = (into, back) {
                self.tasks[at].reads = Reads::Loop { into: into as u32, back: back as u32 };
            }
        }
    }

    /// The same network, but with each task's wait for a lock fixed to its recorded time; `None` if no task
    /// waits for a lock.
    pub(super) fn without_locks(&self) -> Option<Model> {
        let mut other = self.clone();
        let mut found = false;
        for task in other.tasks.iter_mut().filter(|task| task.locked > 0.0) {
            let locked = task.locked;
            task.times /= 1.0 - locked;
            task.on_processor = (1.0 - locked) * task.on_processor + locked * task.spun;
            (task.locked, task.waits, task.shares, found) = (0.0, locked, true, true);
        }
        found.then_some(other)
    }

    /// The same network in which no task waits for a lock.
    pub(super) fn unlocked(&self) -> Model {
        let mut other = self.clone();
        for task in &mut other.tasks {
            let waits = task.waits;
            task.times *= 1.0 - waits;
            task.on_processor = ((task.on_processor - waits * task.spun) / (1.0 - waits)).clamp(0.02, 1.0);
            (task.locked, task.waits) = (0.0, 0.0);
        }
        other
    }

    /// Streams that a task reads.
    pub(super) fn inputs(&self, task: usize) -> Vec<usize> {
        (0..self.streams.len()).filter(|&at| self.streams[at].readers.contains(&task)).collect()
    }

    /// Streams that a task writes.
    pub(super) fn outputs(&self, task: usize) -> Vec<usize> {
        (0..self.streams.len()).filter(|&at| self.streams[at].writers.contains(&task)).collect()
    }

    /// The total time in which all tasks are busy.
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
    /// The time in which the task is busy.
    pub(super) fn busy_ns(&self) -> f64 {
        self.script.busy_ns() * self.times
    }
}

impl Default for Runtime {
    /// A runtime with unlimited processors, in which only the steps take time.
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
            in_turn: None,
            spreads: true,
            steals: false,
        }
    }
}
