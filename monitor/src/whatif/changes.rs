//! Changes of a network or of its settings, and the network after each change.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::report::NO_LOCK;

use super::model::{Model, NOTHING, Origin, Place, Reads, Script, Stream, Task, ancestors};

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
        /// The factor by which the component or task is faster.
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
    /// A component gets replicas, which read messages in turn and are spread over the workers.
    Replicas {
        /// Path of the component.
        component: String,
        /// The number of replicas.
        replicas: usize,
    },
    /// More workers, or fewer.
    Workers {
        /// The number of workers.
        workers: usize,
    },
    /// Streams hold more messages.
    Capacity {
        /// The factor by which streams hold more messages than before.
        times: usize,
    },
    /// The quantum of dispatches differs.
    Quantum {
        /// The maximal number of messages in a dispatch.
        messages: usize,
    },
    /// Tasks without a place chosen by the user go to the workers in turn, or tasks that are neighbours in
    /// the network go to the same worker.
    Mapper {
        /// Whether tasks go to the workers in turn.
        in_turn: bool,
    },
    /// Workers without work take over tasks of other workers.
    Steal,
    /// The places that the user chose for tasks are ignored.
    Unplaced,
    /// Boxes that share a lock no longer use it.
    Unlocked {
        /// The component that waits longest for the lock.
        component: String,
    },
    /// The limit `exec.unfinished` on messages in flight is removed, so it holds back no source.
    NoLimit {
        /// The value of the limit before the change.
        was: u64,
    },
    /// The output of several branches, rounds or replicas is collected as it arrives, not in order.
    Unordered {
        /// Path of the component.
        component: String,
    },
}

/// Displays the change in words.
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
            Change::Mapper { in_turn: true } => f.write_str("tasks on the workers in turn"),
            Change::Mapper { in_turn: false } => f.write_str("neighbours on the same worker"),
            Change::Steal => f.write_str("workers without work get tasks of others"),
            Change::Unplaced => f.write_str("no task where the user placed it"),
            Change::Unlocked { component } => write!(f, "{NO_LOCK} {component} shares with others"),
            Change::NoLimit { was } => write!(f, "no limit of {was} messages under way"),
            Change::Unordered { component } => write!(f, "{component} without order"),
        }
    }
}

/// The least share of all busy time that makes a component worth a change.
const WORTH: f64 = 0.02;
/// The factors by which components are made faster in replays.
const FASTER: [f64; 2] = [1.1, 2.0];
/// The number of replicas that is tried.
const REPLICAS: usize = 4;
/// Replicas are tried of components with up to this number of tasks, because a network with more of them would take
/// long to replay.
const REPLICATED: usize = 16;
/// A task of a component is tried separately if its work is this multiple of the mean.
const UNEVEN: f64 = 1.5;
/// The factor by which streams are made longer in replays.
const LONGER: usize = 16;
/// The default maximal number of messages in a dispatch.
const QUANTUM: usize = 64;
/// A replica moves if this relieves the worker with the most work by so much of its work.
const RELIEVES: f64 = 0.05;
/// The weight that the mapper assigns to a box.
pub(super) const BOX_WEIGHT: u32 = 8;
/// The weight that the mapper assigns to tasks that only pass messages on; [`REPLICAS_WEIGHT`] is the weight
/// of the collector behind replicas.
const GLUE_WEIGHT: u32 = 1;
const REPLICAS_WEIGHT: u32 = 16;
/// A loss up to this share is none.
pub(super) const NO_LOSS: f64 = 0.03;
/// The number of tasks of a component that the mapper places on their creator's worker, before the next
/// worker gets some (the default of `Mapper::Contiguous`).
const BLOCK: usize = 8;
/// The assumed time to pass a message to a replica, or to collect a message from it.
const HAND_OVER_NS: f64 = 150.0;

/// The least share of the busy time of tasks on workers in which they are asleep, from which a further worker
/// may be of use although there is no processor for it.
const ASLEEP: f64 = 0.25;

/// Whether a further worker may be of use: there is a processor for it, or tasks sleep on the workers and
/// leave their processors to others. Otherwise threads take turns on processors, and each turn lasts as long
/// as the kernel's time slice, which a replay does not model: where replays predicted a gain of such a
/// worker, runs lost a quarter of their flow.
fn can_use_a_worker(model: &Model) -> bool {
    let runtime = &model.runtime;
    let on_workers = || model.tasks.iter().filter(|task| matches!(task.place, Place::Worker(_)));
    let busy: f64 = on_workers().map(Task::busy_ns).sum();
    let asleep: f64 = on_workers().map(|task| task.busy_ns() * (1.0 - task.on_processor)).sum();
    runtime.workers as f64 + 1.0 <= runtime.processors || asleep >= ASLEEP * busy.max(1.0)
}

/// All changes of a network that the replay tries.
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
        if tasks.len() <= REPLICATED && tasks.iter().all(|&task| is_replicable(model, task)) {
            all.push(Change::Replicas { component, replicas: REPLICAS });
        }
    }
    let runtime = &model.runtime;
    all.extend((runtime.workers > 1).then(|| Change::Workers { workers: runtime.workers - 1 }));
    all.extend(can_use_a_worker(model).then(|| Change::Workers { workers: runtime.workers + 1 }));
    if runtime.workers as f64 > runtime.processors + 1.0 {
        all.push(Change::Workers { workers: runtime.processors as usize });
    }
    if runtime.workers > 1 {
        all.push(Change::Mapper { in_turn: !is_in_turn(model) });
        all.extend((!runtime.steals).then_some(Change::Steal));
        all.extend(model.tasks.iter().any(|task| task.is_placed).then_some(Change::Unplaced));
    }
    all.extend(most_locked(model).map(|component| Change::Unlocked { component }));
    all.push(Change::Capacity { times: LONGER });
    let messages = if runtime.quantum < QUANTUM { QUANTUM } else { 8 * runtime.quantum };
    all.push(Change::Quantum { messages });
    all.extend((runtime.unfinished > 0).then_some(Change::NoLimit { was: runtime.unfinished }));
    let ordered = (0..model.tasks.len()).filter(|&at| is_ordered(model, at));
    let mut ordered: Vec<String> = ordered.map(|at| model.tasks[at].component.clone()).collect();
    ordered.dedup();
    all.extend(ordered.into_iter().map(|component| Change::Unordered { component }));
    // If an outside input sets the pace of a component, only the changes that make such a component faster
    // are kept, because the effect of all other changes is unknown.
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

/// Adds changes of single tasks: of a component's only task, or of a task that has more work than the others.
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
    if model.streams.is_empty() {
        // A model made from sums has no streams; in such a model only boxes are replicated.
        return model.tasks[task].weight == BOX_WEIGHT && matches!(model.tasks[task].place, Place::Worker(_));
    }
    let [_] = model.inputs(task)[..] else { return false };
    let [_] = model.outputs(task)[..] else { return false };
    matches!(model.tasks[task].place, Place::Worker(_))
}

fn is_ordered(model: &Model, task: usize) -> bool {
    model.tasks[task].reads == Reads::AsRecorded && model.inputs(task).len() > 1
}

/// The network with its tasks placed as another run with the same settings would place them: that run would not
/// move replicas or tasks as the runtime or the user did in this one.
pub(super) fn placed_anew(model: &Model) -> Model {
    let mut anew = model.clone();
    place_anew(&mut anew, model.runtime.workers, is_in_turn(model));
    anew
}

impl Change {
    /// Whether a predicted gain says something. A loss by fewer workers does not: if fewer threads run, each
    /// message takes less time (hyperthreads, caches, memory and spin locks are shared by fewer), which a
    /// recording does not show, so the true loss is smaller by an unknown amount. In each of 20 measured
    /// changes to fewer workers with a predicted flow that differed from the measured flow by 3 % or more, the
    /// measured flow was higher.
    pub(super) fn is_known(&self, model: &Model, gain: f64) -> bool {
        !matches!(self, Change::Workers { workers } if *workers < model.runtime.workers && gain < -NO_LOSS)
    }

    /// Whether tasks run on other workers after the change. A loss by such a change is overrated for the reason for
    /// which one by fewer workers is, because it usually comes from work that is no longer spread: of 55 changes of
    /// this kind with a predicted loss of 15 % or more, the measured flow was higher for 48, by 15 % in the median.
    pub(super) fn moves_tasks(&self) -> bool {
        matches!(
            self,
            Change::Place { .. }
                | Change::Replicas { .. }
                | Change::Mapper { .. }
                | Change::Steal
                | Change::Unplaced
        )
    }

    /// Whether all tasks are placed anew in the network after the change, as in another run. What is gained
    /// by the new places alone is not gained by the change.
    pub(super) fn places_anew(&self, model: &Model) -> bool {
        match self {
            Change::Workers { .. } | Change::Mapper { .. } | Change::Unplaced => true,
            // In a model without streams, the other tasks keep their places.
            Change::Replicas { .. } => !model.streams.is_empty(),
            _ => false,
        }
    }

    /// Whether replicas may move to other workers after the change, because other workers have spare time then. What
    /// such moves would gain without the change is not gained by it.
    pub(super) fn rebalances(&self) -> bool {
        matches!(self, Change::Faster { .. } | Change::Unlocked { .. })
    }

    /// The network after the change.
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
            Change::Workers { workers } => {
                let in_turn = is_in_turn(model);
                place_anew(&mut changed, *workers, in_turn);
            }
            Change::Mapper { in_turn } => place_anew(&mut changed, model.runtime.workers, *in_turn),
            Change::Steal => changed.runtime.steals = true,
            Change::Unplaced => {
                changed.tasks.iter_mut().for_each(|task| task.is_placed = false);
                let in_turn = is_in_turn(model);
                place_anew(&mut changed, model.runtime.workers, in_turn);
            }
            Change::Unlocked { .. } => changed = model.unlocked(),
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
        if self.rebalances() {
            rebalance(&mut changed);
        }
        changed
    }
}

/// The component that waits longest for a lock.
fn most_locked(model: &Model) -> Option<String> {
    let waits_ns = |task: &&Task| task.busy_ns() * (task.locked / (1.0 - task.locked) + task.waits);
    let locked = model.tasks.iter().filter(|task| task.locked + task.waits > 0.0);
    Some(locked.max_by(|a, b| waits_ns(a).total_cmp(&waits_ns(b)))?.component.clone())
}

/// Tasks that the mapper places before the start, in their order.
fn cut_by_mapper(model: &Model) -> Vec<usize> {
    let is_cut = |task: &Task| is_free(task) && task.origin == Origin::Start;
    (0..model.tasks.len()).filter(|&at| is_cut(&model.tasks[at])).collect()
}

fn is_free(task: &Task) -> bool {
    matches!(task.place, Place::Worker(_)) && !task.is_placed
}

/// The workers that the mapper would choose for the tasks `cut`: in turn, or in pieces of neighbours that
/// weigh about the same.
fn mapped(model: &Model, cut: &[usize], workers: usize, in_turn: bool) -> Vec<usize> {
    if in_turn {
        return (0..cut.len()).map(|nth| nth % workers).collect();
    }
    let total: u64 = cut.iter().map(|&at| u64::from(model.tasks[at].weight)).sum();
    let mut before = 0;
    let piece = |&at: &usize| {
        let weight = u64::from(model.tasks[at].weight);
        let middle = 2 * before + weight;
        before += weight;
        ((middle * workers as u64 / (2 * total.max(1))) as usize).min(workers - 1)
    };
    cut.iter().map(piece).collect()
}

/// Whether the mapper places tasks on the workers in turn. If the recording does not say it, the places of the tasks do.
fn is_in_turn(model: &Model) -> bool {
    if let Some(in_turn) = model.runtime.in_turn {
        return in_turn;
    }
    let cut = cut_by_mapper(model);
    let fits = |in_turn: bool| {
        let places = mapped(model, &cut, model.runtime.workers.max(1), in_turn);
        let same = |(at, place): (&usize, usize)| model.tasks[*at].place == Place::Worker(place);
        cut.iter().zip(places).filter(|&(at, place)| same((at, place))).count()
    };
    fits(true) > fits(false)
}

/// Places tasks as the runtime would for this number of workers: tasks that existed before the start are
/// mapped again, tasks that are created later are placed near their creators, and each replica of a split
/// goes to the worker with the least work.
fn place_anew(model: &mut Model, workers: usize, in_turn: bool) {
    model.runtime.workers = workers;
    let cut = cut_by_mapper(model);
    let mut placed: Vec<(usize, usize)> =
        cut.iter().copied().zip(mapped(model, &cut, workers, in_turn)).collect();
    for (at, task) in model.tasks.iter().enumerate() {
        if let (Place::Worker(worker), true) = (task.place, task.is_placed) {
            placed.push((at, worker % workers));
        }
    }
    for &(at, worker) in &placed {
        model.tasks[at].place = Place::Worker(worker);
    }
    let spreads = spreads(model, in_turn);
    let is_spread = |task: &Task| is_free(task) && task.origin == Origin::Replica && spreads;
    let is_later = |task: &Task| is_free(task) && task.origin != Origin::Start && !is_spread(task);
    place_later(model, &of_origin(model, is_later), in_turn.then_some(cut.len()));
    let replicas = of_origin(model, is_spread);
    let load = load_without(model, &replicas);
    spread(model, replicas, load);
}

/// Whether the runtime moves replicas of splits while the network runs: only if the mapper keeps neighbours together and
/// workers do not steal.
fn spreads(model: &Model, in_turn: bool) -> bool {
    model.runtime.spreads && !model.runtime.steals && !in_turn
}

/// The network with replicas where the runtime would have moved them, if that changes anything.
pub(super) fn rebalanced(model: &Model) -> Option<Model> {
    let mut other = model.clone();
    rebalance(&mut other).then_some(other)
}

/// Moves replicas of splits from the worker with the most work to the one with the least, as the runtime does while the
/// network runs, as long as a move relieves the former by a significant part. Returns whether any moved.
fn rebalance(model: &mut Model) -> bool {
    let replicas = of_origin(model, |task| is_free(task) && task.origin == Origin::Replica);
    if replicas.is_empty() || !spreads(model, is_in_turn(model)) {
        return false;
    }
    let mut load = load_without(model, &[]);
    let mut has_moved = false;
    for _ in 0..replicas.len() {
        let by_load = |a: &usize, b: &usize| load[*a].total_cmp(&load[*b]);
        let (Some(most), Some(least)) = ((0..load.len()).max_by(by_load), (0..load.len()).min_by(by_load))
        else {
            break;
        };
        let highest = |at: &usize| {
            let work = model.tasks[*at].busy_ns();
            (load[most] - work).max(load[least] + work)
        };
        let on_it = replicas.iter().copied().filter(|&at| model.tasks[at].place == Place::Worker(most));
        let best = on_it.min_by(|a, b| highest(a).total_cmp(&highest(b)));
        let Some(at) = best.filter(|at| highest(at) < (1.0 - RELIEVES) * load[most]) else { break };
        let work = model.tasks[at].busy_ns();
        load[most] -= work;
        load[least] += work;
        model.tasks[at].place = Place::Worker(least);
        has_moved = true;
    }
    has_moved
}

fn of_origin(model: &Model, wanted: impl Fn(&Task) -> bool) -> Vec<usize> {
    (0..model.tasks.len()).filter(|&at| wanted(&model.tasks[at])).collect()
}

/// The work of each worker, without the work of some tasks.
fn load_without(model: &Model, left_out: &[usize]) -> Vec<f64> {
    let workers = model.runtime.workers;
    let mut load = vec![0.0; workers];
    for (_, task) in model.tasks.iter().enumerate().filter(|(at, _)| !left_out.contains(at)) {
        if let Place::Worker(worker) = task.place {
            load[worker % workers] += task.busy_ns();
        }
    }
    load
}

/// Places tasks that are created during the run, as the runtime's mapper does: in turn after the `placed`
/// tasks, or on the worker of the creator, where each component gets [`BLOCK`] tasks before the next worker
/// gets some. The creator is assumed to be the innermost surrounding component that existed before the start;
/// if there is none, a task keeps its worker.
fn place_later(model: &mut Model, later: &[usize], placed: Option<usize>) {
    let workers = model.runtime.workers;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (nth, &at) in later.iter().enumerate() {
        let Place::Worker(recorded) = model.tasks[at].place else { continue };
        let component = model.tasks[at].component.clone();
        let of_it = counts.entry(component.clone()).or_default();
        let place = match placed {
            Some(before) => before + nth,
            None => creator(model, &component).unwrap_or(recorded) + *of_it / BLOCK,
        };
        *of_it += 1;
        model.tasks[at].place = Place::Worker(place % workers);
    }
}

/// The worker of the innermost component around a component, or of the component itself, that existed before
/// the start.
fn creator(model: &Model, component: &str) -> Option<usize> {
    std::iter::once(component).chain(ancestors(component)).find_map(|path| {
        let is_it = |task: &&Task| task.origin == Origin::Start && task.component == path;
        match model.tasks.iter().find(is_it)?.place {
            Place::Worker(worker) => Some(worker),
            Place::OwnThread => None,
        }
    })
}

/// Assigns the tasks, heaviest first, each to the worker with the least work.
fn spread(model: &mut Model, mut tasks: Vec<usize>, mut load: Vec<f64>) {
    tasks.sort_by(|&a, &b| model.tasks[b].busy_ns().total_cmp(&model.tasks[a].busy_ns()));
    for at in tasks {
        let least = (0..load.len()).min_by(|&a, &b| load[a].total_cmp(&load[b])).unwrap_or(0);
        model.tasks[at].place = Place::Worker(least);
        load[least] += model.tasks[at].busy_ns();
    }
}

/// Replaces each of a component's tasks by replicas. A component has several tasks if it is inside a star or a split,
/// where each stage or each replica of the split has its own.
fn replicate(model: &mut Model, component: &str, replicas: usize) {
    let tasks = of_origin(model, |task| task.component == component);
    if model.streams.is_empty() {
        return divide(model, &tasks, replicas);
    }
    let (workers, in_turn) = (model.runtime.workers, is_in_turn(model));
    // The last one comes first, because the tasks behind a replaced one get other numbers.
    for at in tasks.into_iter().rev() {
        replicate_task(model, at, replicas);
    }
    model.settle();
    place_anew(model, workers, in_turn);
}

/// Replaces a task by a task that distributes messages in turn, the replicas, and a task that collects their output as
/// it arrives.
fn replicate_task(model: &mut Model, at: usize, replicas: usize) {
    let ([input], [output]) = (&model.inputs(at)[..], &model.outputs(at)[..]) else { return };
    let (input, output) = (*input as u32, *output as u32);
    let original = model.tasks[at].clone();
    let capacity = model.streams[input as usize].capacity;
    let first = model.streams.len() as u32;
    // The k-th replica reads stream first + 2 k and writes the stream with the next number.
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
    let part = |name: &str, weight: u32, script: Script, reads: Reads| Task {
        name: format!("{} {name}", original.name),
        component: format!("{} {name}", original.component),
        reads,
        script: Arc::new(script),
        times: 1.0,
        on_processor: 1.0,
        locked: 0.0,
        waits: 0.0,
        is_placed: false,
        weight,
        ..original.clone()
    };
    model.tasks[at] = part("hands out", GLUE_WEIGHT, hands_out, Reads::AsRecorded);
    model.tasks.insert(at + 1, part("gathers", REPLICAS_WEIGHT, gathers, Reads::Any));
    for script in scripts {
        let replica =
            Task { script: Arc::new(script), origin: Origin::Replica, is_placed: false, ..original.clone() };
        model.tasks.push(replica);
    }
}

/// Replicates tasks of one component in a model without streams: each replica gets an equal part of a task's work.
fn divide(model: &mut Model, tasks: &[usize], replicas: usize) {
    let Some(&first) = tasks.first() else { return };
    for &at in tasks {
        let of = &mut model.tasks[at];
        (of.times, of.origin, of.is_placed) = (of.times / replicas as f64, Origin::Replica, false);
        let replica = of.clone();
        model.tasks.extend(std::iter::repeat_n(replica, replicas - 1));
    }
    // Replicas of other components keep their places: what they gain elsewhere is not gained by these replicas.
    let component = &model.tasks[first].component;
    let replicas = of_origin(model, |task| task.component == *component);
    let load = load_without(model, &replicas);
    spread(model, replicas, load);
}
