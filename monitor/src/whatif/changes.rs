//! What could be different, and the network after it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::model::{Model, NOTHING, Place, Reads, Script, Stream, Task};

/// A change of a network, or of how it is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A component, or one task of it, takes less time.
    Faster {
        /// Path of the component.
        component: String,
        /// The task, if it is one of several.
        task: Option<String>,
        /// So many times as fast.
        times: f64,
    },
    /// A component, or one task of it, runs on another worker.
    Place {
        /// Path of the component.
        component: String,
        /// The task, if it is one of several.
        task: Option<String>,
        /// The worker, counted from 0.
        worker: usize,
    },
    /// So many replicas of a component, which take messages in turn, spread over the workers.
    Replicas {
        /// Path of the component.
        component: String,
        /// How many.
        replicas: usize,
    },
    /// More workers, or fewer.
    Workers {
        /// How many.
        workers: usize,
    },
    /// Streams hold more messages.
    Capacity {
        /// So many times what they held.
        times: usize,
    },
    /// Dispatches take other numbers of messages at most.
    Quantum {
        /// How many.
        messages: usize,
    },
    /// Sources are not held by `exec.unfinished`.
    NoLimit {
        /// The limit that is gone.
        was: u64,
    },
    /// What several branches, rounds or replicas give is taken as it comes, not in order.
    Unordered {
        /// Path of the component.
        component: String,
    },
}

/// The same in words.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |component: &String, task: &Option<String>| task.as_ref().unwrap_or(component).clone();
        match self {
            Change::Faster { component, task, times } if *times == 2.0 => {
                write!(f, "{} twice as fast", of(component, task))
            }
            Change::Faster { component, task, times } => {
                write!(f, "{} {:.0} % faster", of(component, task), 100.0 * (times - 1.0))
            }
            Change::Place { component, task, worker } => {
                write!(f, "{} on worker {worker}", of(component, task))
            }
            Change::Replicas { component, replicas } => write!(f, "{replicas} replicas of {component}"),
            Change::Workers { workers: 1 } => f.write_str("1 worker"),
            Change::Workers { workers } => write!(f, "{workers} workers"),
            Change::Capacity { times } => write!(f, "streams that hold {times} times as many messages"),
            Change::Quantum { messages } => write!(f, "dispatches of up to {messages} messages"),
            Change::NoLimit { was } => write!(f, "no limit of {was} messages under way"),
            Change::Unordered { component } => write!(f, "{component} without order"),
        }
    }
}

/// A component whose tasks are busy for less of all busy time is not worth a change.
const WORTH: f64 = 0.02;
/// How much faster something is tried.
const FASTER: [f64; 2] = [1.1, 2.0];
/// How many replicas are tried.
const REPLICAS: usize = 4;
/// A task of several is looked at by itself if it has so many times the mean's work.
const UNEVEN: f64 = 1.5;
/// How many times longer streams are tried.
const LONGER: usize = 16;
/// A dispatch takes so many messages by default.
const QUANTUM: usize = 64;
/// What handing a message to a replica, or taking it from there, costs.
const HAND_OVER_NS: f64 = 150.0;

/// All changes that are tried of a network.
pub(super) fn candidates(model: &Model) -> Vec<Change> {
    let mut all = Vec::new();
    let busy = model.busy_ns().max(1.0);
    for (component, tasks) in components(model) {
        let of_it: f64 = tasks.iter().map(|&at| model.tasks[at].busy_ns()).sum();
        if of_it < WORTH * busy {
            continue;
        }
        all.extend(FASTER.map(|times| Change::Faster { component: component.clone(), task: None, times }));
        of_tasks(model, &component, &tasks, of_it / tasks.len() as f64, &mut all);
        if let [task] = tasks[..]
            && is_replicable(model, task)
        {
            all.push(Change::Replicas { component, replicas: REPLICAS });
        }
    }
    let runtime = &model.runtime;
    all.extend((runtime.workers > 1).then(|| Change::Workers { workers: runtime.workers - 1 }));
    all.push(Change::Workers { workers: runtime.workers + 1 });
    if runtime.workers as f64 > runtime.processors + 1.0 {
        all.push(Change::Workers { workers: runtime.processors as usize });
    }
    all.push(Change::Capacity { times: LONGER });
    let messages = if runtime.quantum < QUANTUM { QUANTUM } else { 8 * runtime.quantum };
    all.push(Change::Quantum { messages });
    all.extend((runtime.unfinished > 0).then_some(Change::NoLimit { was: runtime.unfinished }));
    let ordered = (0..model.tasks.len()).filter(|&at| is_ordered(model, at));
    let mut ordered: Vec<String> = ordered.map(|at| model.tasks[at].component.clone()).collect();
    ordered.dedup();
    all.extend(ordered.into_iter().map(|component| Change::Unordered { component }));
    // Where something outside sets the pace, nothing is known of what other changes would bring.
    let paced = |change: &Change| {
        let of_it =
            |component: &str| model.tasks.iter().any(|task| task.is_paced && task.component == *component);
        matches!(change, Change::Faster { component, .. } if of_it(component))
    };
    if model.tasks.iter().any(|task| task.is_paced) {
        all.retain(paced);
    }
    all
}

/// Changes of single tasks: of a component's only one, or of one that has more work than the others.
fn of_tasks(model: &Model, component: &str, tasks: &[usize], mean_ns: f64, all: &mut Vec<Change>) {
    for &at in tasks {
        let task = &model.tasks[at];
        let single = tasks.len() == 1;
        if !single && task.busy_ns() < UNEVEN * mean_ns {
            continue;
        }
        let name = (!single).then(|| task.name.clone());
        if !single {
            let faster =
                |times| Change::Faster { component: component.to_owned(), task: name.clone(), times };
            all.extend(FASTER.map(faster));
        }
        if let Place::Worker(now) = task.place {
            let others = (0..model.runtime.workers).filter(|&worker| worker != now);
            all.extend(others.map(|worker| Change::Place {
                component: component.to_owned(),
                task: name.clone(),
                worker,
            }));
        }
    }
}

/// The tasks of each component.
fn components(model: &Model) -> BTreeMap<String, Vec<usize>> {
    let mut components: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, task) in model.tasks.iter().enumerate() {
        components.entry(task.component.clone()).or_default().push(at);
    }
    components
}

fn is_replicable(model: &Model, task: usize) -> bool {
    if model.tasks[task].shares {
        return false;
    }
    let [_] = model.inputs(task)[..] else { return false };
    let [_] = model.outputs(task)[..] else { return false };
    matches!(model.tasks[task].place, Place::Worker(_))
}

fn is_ordered(model: &Model, task: usize) -> bool {
    model.tasks[task].reads == Reads::AsRecorded && model.inputs(task).len() > 1
}

impl Change {
    /// The network after it.
    pub(super) fn applied(&self, model: &Model) -> Model {
        let mut changed = model.clone();
        let meant = |component: &String, task: &Option<String>, of: &Task| {
            of.component == *component && task.as_ref().is_none_or(|name| *name == of.name)
        };
        match self {
            Change::Faster { component, task, times } => {
                for of in changed.tasks.iter_mut().filter(|of| meant(component, task, of)) {
                    of.times /= times;
                }
            }
            Change::Place { component, task, worker } => {
                for of in changed.tasks.iter_mut().filter(|of| meant(component, task, of)) {
                    of.place = Place::Worker(*worker);
                }
            }
            Change::Replicas { component, replicas } => replicate(&mut changed, component, *replicas),
            Change::Workers { workers } => place_anew(&mut changed, *workers),
            Change::Capacity { times } => {
                for stream in &mut changed.streams {
                    stream.capacity = stream.capacity.saturating_mul(*times);
                }
            }
            Change::Quantum { messages } => changed.runtime.quantum = *messages,
            Change::NoLimit { .. } => changed.runtime.unfinished = 0,
            Change::Unordered { component } => {
                for of in changed.tasks.iter_mut().filter(|of| of.component == *component) {
                    of.reads = Reads::Any;
                }
            }
        }
        changed
    }
}

/// Places tasks as the mapper would for so many workers: those that it had cut into pieces in order anew, the others
/// where least is to be done.
fn place_anew(model: &mut Model, workers: usize) {
    let before = std::mem::replace(&mut model.runtime.workers, workers).max(1);
    let free = |task: &Task| matches!(task.place, Place::Worker(_)) && !task.is_placed;
    let cut: Vec<usize> =
        (0..model.tasks.len()).filter(|&at| free(&model.tasks[at]) && model.tasks[at].from_start).collect();
    let piece =
        |nth: usize, workers: usize| ((2 * nth + 1) * workers / (2 * cut.len().max(1))).min(workers - 1);
    let in_turn = |nth: usize, workers: usize| nth % workers;
    let fits = |place: &dyn Fn(usize, usize) -> usize| {
        let same = |(nth, &at): (usize, &usize)| model.tasks[at].place == Place::Worker(place(nth, before));
        cut.iter().enumerate().filter(|&pair| same(pair)).count()
    };
    let turns = fits(&in_turn) > fits(&piece);
    let mut load = vec![0.0; workers];
    let mut placed: Vec<(usize, usize)> = Vec::new();
    for (nth, &at) in cut.iter().enumerate() {
        placed.push((at, if turns { in_turn(nth, workers) } else { piece(nth, workers) }));
    }
    for (at, task) in model.tasks.iter().enumerate() {
        if let (Place::Worker(worker), true) = (task.place, task.is_placed) {
            placed.push((at, worker % workers));
        }
    }
    for (at, worker) in placed {
        model.tasks[at].place = Place::Worker(worker);
        load[worker] += model.tasks[at].busy_ns();
    }
    let later = (0..model.tasks.len()).filter(|&at| free(&model.tasks[at]) && !model.tasks[at].from_start);
    spread(model, later.collect(), load);
}

/// The heaviest first, each to where least is to be done.
fn spread(model: &mut Model, mut tasks: Vec<usize>, mut load: Vec<f64>) {
    tasks.sort_by(|&a, &b| model.tasks[b].busy_ns().total_cmp(&model.tasks[a].busy_ns()));
    for at in tasks {
        let least = (0..load.len()).min_by(|&a, &b| load[a].total_cmp(&load[b])).unwrap_or(0);
        model.tasks[at].place = Place::Worker(least);
        load[least] += model.tasks[at].busy_ns();
    }
}

/// In the place of a component's one task: one that hands messages out in turn, the replicas, and one that takes what they give as it comes.
fn replicate(model: &mut Model, component: &str, replicas: usize) {
    let Some(at) = model.tasks.iter().position(|task| task.component == component) else { return };
    let ([input], [output]) = (&model.inputs(at)[..], &model.outputs(at)[..]) else { return };
    let (input, output) = (*input as u32, *output as u32);
    let original = model.tasks[at].clone();
    let capacity = model.streams[input as usize].capacity;
    let first = model.streams.len() as u32;
    // The k-th replica reads stream first + 2 k and writes the one after it.
    model.streams.extend((0..2 * replicas).map(|_| Stream::of(capacity)));
    let mut scripts = vec![Script::default(); replicas];
    let (mut hands_out, mut gathers) = (Script::default(), Script::default());
    let mut turn = 0;
    for (nth, step) in original.script.steps.iter().enumerate() {
        let writes = original.script.writes_of(nth).len();
        let to = first + 2 * turn as u32;
        if step.input != NOTHING {
            hands_out.push(input, HAND_OVER_NS, 0.0, [to]);
        }
        let from = if step.input == NOTHING { NOTHING } else { to };
        scripts[turn].push(from, f64::from(step.busy_ns), 0.0, std::iter::repeat_n(to + 1, writes));
        (0..writes).for_each(|_| gathers.push(to + 1, HAND_OVER_NS, 0.0, [output]));
        if step.input != NOTHING {
            turn = (turn + 1) % replicas;
        }
    }
    let part = |name: &str, script: Script, reads: Reads| Task {
        name: format!("{} {name}", original.name),
        component: format!("{} {name}", original.component),
        reads,
        script: Arc::new(script),
        times: 1.0,
        on_processor: 1.0,
        ..original.clone()
    };
    model.tasks[at] = part("hands out", hands_out, Reads::AsRecorded);
    model.tasks.push(part("gathers", gathers, Reads::Any));
    let workers = model.runtime.workers;
    let mut load = vec![0.0; workers];
    for task in &model.tasks {
        if let Place::Worker(worker) = task.place {
            load[worker % workers] += task.busy_ns();
        }
    }
    let begin = model.tasks.len();
    for script in scripts {
        model.tasks.push(Task { script: Arc::new(script), ..original.clone() });
    }
    // Without that they stay where the component was: the contiguous mapper keeps neighbours together.
    if model.runtime.spreads {
        let all = (begin..model.tasks.len()).collect();
        spread(model, all, load);
    }
    model.settle();
}
