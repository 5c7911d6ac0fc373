//! Proposes which tasks should move to which workers, by a model of the mapping with measured costs.

use std::collections::{HashMap, HashSet};

use super::window::{StreamIn, TaskIn, Window};
use crate::action::{Action, Candidate, Change, Knob};
use crate::mapping::{Link, Mapping, Problem, search};

/// The processor time spent at each end of a message to another worker, in seconds.
const CROSSING_S: f64 = 100e-9;
/// The largest number of moves in one trial.
const MOVES_MAX: usize = 48;
/// If a move gains less than this fraction, it is left out.
const WORTH: f64 = 0.002;
/// The number of messages in a stream from which tasks of one worker need not wait for each other at every
/// message.
const ROOM: f64 = 16.0;
/// Streams with less room lower an expected gain to no less than this, which is enough for a trial.
const DECIDED_BY_TRIAL: f64 = 0.03;
/// A plan that promises less than this for each of its moves is not tried, because the errors of the measured costs are
/// larger: of 14 such plans for random networks none was kept, and they lost 5.5 % on average.
const WORTH_A_MOVE: f64 = 0.003;
/// If sources wait for room for less than this fraction of the time, and no worker is busy for [`BUSY`] of
/// the time, the network does not limit the flow.
const SOURCE_WAITS: f64 = 0.05;
const BUSY: f64 = 0.9;

/// The setting with the number of workers that take part.
pub(super) const WORKERS: &str = "exec.workers";

/// What a placement depends on besides the window: the machine, and the user's pins.
pub(super) struct Around<'a> {
    pub(super) processors: f64,
    /// Whether the worker of a task is pinned.
    pub(super) pinned: &'a dyn Fn(u64) -> bool,
}

/// Whether the network itself limits the flow, and not the sources that feed it.
pub(super) fn is_network_limited(window: &Window) -> bool {
    let busiest = window.workers.iter().map(|worker| worker.busy).fold(0.0, f64::max);
    let mut sources = window.sources().peekable();
    // A source that has ended does not wait, so a run without sources counts as limited by the network.
    let ended = sources.peek().is_none();
    busiest > BUSY || ended || window.sources().any(|source| source.output_wait > SOURCE_WAITS)
}

/// The present mapping, and what it costs.
struct Present {
    problem: Problem,
    places: Vec<u32>,
    period: f64,
    /// What moves of tasks do not change: messages that cross on any mapping, and waits for room.
    stays: f64,
}

impl Present {
    fn of(window: &Window, around: &Around<'_>, workers: &HashMap<u64, u32>) -> Present {
        let mut problem = problem(window, around, workers);
        let places = present(window, workers);
        // Messages between a task on a worker and a task with a thread of its own cross between threads on any
        // mapping.
        let outside = outside(window, workers);
        problem.delay = delay(&problem, &places, outside) * room(window);
        let period = problem.period(&places);
        let crosses = problem.delay * outside;
        let stays = crosses + (1.0 - period - crosses).max(0.0);
        Present { problem, places, period, stays }
    }
}

/// The mapping that is expected to be best, if it is better than the present one.
pub(super) fn propose(window: &Window, around: &Around<'_>) -> Option<Candidate> {
    if window.workers.len() < 2 || !is_network_limited(window) {
        return None;
    }
    let workers: HashMap<u64, u32> =
        window.workers.iter().enumerate().map(|(n, w)| (w.id, n as u32)).collect();
    let Present { problem, places: present, period: now, stays } = Present::of(window, around, &workers);
    let found = search(&problem, Some(&present))?;
    let places = fewest_moves(&problem, &present, relabelled(&problem, &present, found));
    let moved = (0..present.len()).filter(|&at| places[at] != present[at]);
    let tasks: Vec<_> = window.tasks.iter().filter(|task| is_on(task.worker, &workers)).collect();
    let id = |place: u32| window.workers[place as usize].id;
    let changes: Vec<Change> = moved
        .filter_map(|at| {
            let task = tasks.get(at)?;
            let knob = Knob::Worker { task: task.id, name: task.name.clone() };
            Some(Change { knob, from: id(present[at]), to: id(places[at]) })
        })
        .collect();
    let period = problem.period(&places);
    if changes.is_empty() || period >= now {
        return None;
    }
    // With streams of a few messages, tasks wait for each other at every message also on different workers, so
    // that workers share little of the work. Where one worker has most of it they may not, so a trial decides.
    let gain = ((now + stays) / (period + stays) - 1.0).min(4.0);
    if gain < WORTH_A_MOVE * changes.len() as f64 {
        return None;
    }
    let gain = (gain * room(window)).max(gain.min(DECIDED_BY_TRIAL));
    Some(Candidate {
        gain,
        why: why(&problem, &present, &places),
        action: Action { changes },
        model: "mapping".into(),
    })
}

/// The largest number of tasks that are placed anew with a change of the number of workers, or moved back after it.
pub(super) const PLACED_MAX: usize = 512;

/// A change of the number of workers, with the mapping that is expected to be best for the new number: the run
/// itself would place all tasks by its mapper, which knows no costs, and so a good number of workers could look
/// bad. Other changes stay as they are. `is_placed_by_run` says which tasks the run will place itself later on.
pub(super) fn with_places(
    candidate: Candidate,
    window: &Window,
    around: &Around<'_>,
    is_placed_by_run: &dyn Fn(u64) -> bool,
) -> Candidate {
    let workers: HashMap<u64, u32> =
        window.workers.iter().enumerate().map(|(n, w)| (w.id, n as u32)).collect();
    let [Change { knob: Knob::Setting(name), from, to }] = &candidate.action.changes[..] else {
        return candidate;
    };
    let (from, to) = (*from, *to);
    // The workers that take part are the first ones.
    let are_first = (0..from).all(|worker| workers.get(&worker) == Some(&(worker as u32)));
    let is_known = name == WORKERS && workers.len() as u64 == from && are_first && to >= 1;
    let tasks: Vec<_> = window.tasks.iter().filter(|task| is_on(task.worker, &workers)).collect();
    if !is_known || tasks.len() > PLACED_MAX {
        return candidate;
    }
    let Present { mut problem, places, period: now, stays } = Present::of(window, around, &workers);
    // Workers that no longer take part give what they have to the others.
    let among = |place: u32| place % to as u32;
    problem.speeds = vec![1.0; to as usize];
    problem.fixed.iter_mut().flatten().for_each(|place| *place = among(*place));
    let present: Vec<u32> = places.into_iter().map(among).collect();
    let Some(found) = search(&problem, Some(&present)) else { return candidate };
    let gain = ((now + stays) / (found.period + stays) - 1.0).min(4.0);
    let mut action = candidate.action;
    for (task, &place) in tasks.iter().zip(&found.places) {
        if (around.pinned)(task.id) || is_placed_by_run(task.id) {
            continue;
        }
        let knob = Knob::Worker { task: task.id, name: task.name.clone() };
        action.changes.push(Change { knob, from: task.worker.map_or(0, u64::from), to: u64::from(place) });
    }
    let loads = loads(&problem, &found.places);
    Candidate {
        action,
        gain: candidate.gain.max(gain),
        why: format!("{} With the tasks placed for that number, workers bear {loads}.", candidate.why),
        model: candidate.model,
    }
}

pub(super) fn is_on(worker: Option<u32>, workers: &HashMap<u64, u32>) -> bool {
    worker.is_some_and(|worker| workers.contains_key(&u64::from(worker)))
}

/// The present workers of the tasks, and of the placeholders for tasks that lived shorter than the window.
pub(super) fn present(window: &Window, workers: &HashMap<u64, u32>) -> Vec<u32> {
    let places = window.tasks.iter().filter_map(|task| workers.get(&u64::from(task.worker?)).copied());
    places.chain(0..window.workers.len() as u32).collect()
}

pub(super) fn problem(window: &Window, around: &Around<'_>, workers: &HashMap<u64, u32>) -> Problem {
    let tasks: Vec<_> = window.tasks.iter().filter(|task| is_on(task.worker, workers)).collect();
    let place = |worker: Option<u32>| workers[&u64::from(worker.unwrap_or_default())] as usize;
    // The time is relative to the time that the task's worker had, and so are the loads.
    let busy = |task: &TaskIn| task.busy * window.workers[place(task.worker)].had;
    let mut work: Vec<f64> = tasks.iter().map(|task| busy(task)).collect();
    let mut fixed: Vec<Option<u32>> = vec![None; tasks.len()];
    let mut left: Vec<f64> = window.workers.iter().map(|worker| worker.busy).collect();
    for (at, task) in tasks.iter().enumerate() {
        let place = place(task.worker);
        left[place] -= work[at];
        fixed[at] = (around.pinned)(task.id).then_some(place as u32);
    }
    // The work of tasks that lived shorter than the window is given to a placeholder on each worker, which
    // cannot be moved.
    for (place, left) in left.into_iter().enumerate() {
        work.push(left.max(0.0));
        fixed.push(Some(place as u32));
    }
    let index: HashMap<u64, u32> = tasks.iter().enumerate().map(|(at, task)| (task.id, at as u32)).collect();
    let links = window.streams.iter().filter_map(|stream| {
        let (&from, &to) = (index.get(&stream.writer)?, index.get(&stream.reader)?);
        Some(Link { from, to, traffic: stream.rate })
    });
    Problem {
        links: links.collect(),
        work,
        speeds: vec![1.0; window.workers.len()],
        crossing: CROSSING_S,
        delay: 0.0,
        processors: around.processors,
        fixed,
    }
}

/// Messages per second between tasks on workers and tasks with a thread of their own, which are sources and
/// sinks.
fn outside(window: &Window, workers: &HashMap<u64, u32>) -> f64 {
    let on_workers: HashSet<u64> =
        window.tasks.iter().filter(|task| is_on(task.worker, workers)).map(|task| task.id).collect();
    let is_outside = |writer: u64, reader: u64| on_workers.contains(&writer) != on_workers.contains(&reader);
    let crossing = window.streams.iter().filter(|stream| is_outside(stream.writer, stream.reader));
    crossing.map(|stream| stream.rate).sum()
}

/// The delay per crossing message: the part of the present period (which is 1) that the loads do not explain,
/// divided by the crossings. `outside` messages cross on any mapping: if streams hold almost no messages,
/// these crossings cause most of the waiting, which no move of tasks removes.
fn delay(problem: &Problem, present: &[u32], outside: f64) -> f64 {
    let crosses = |link: &&Link| present[link.from as usize] != present[link.to as usize];
    let cut: f64 = problem.links.iter().filter(crosses).map(|link| link.traffic).sum::<f64>() + outside;
    let unexplained = 1.0 - problem.period(present);
    if cut > 0.0 && unexplained > 0.0 { unexplained / cut } else { 0.0 }
}

/// The part of the waiting that is attributed to messages that cross: if streams hold fewer messages than
/// [`ROOM`], tasks also wait for neighbours on the same worker.
fn room(window: &Window) -> f64 {
    let of = |stream: &StreamIn| (stream.capacity as f64 / ROOM).min(1.0);
    let (sum, rate) = window
        .streams
        .iter()
        .fold((0.0, 0.0), |(sum, rate), stream| (sum + stream.rate * of(stream), rate + stream.rate));
    if rate > 0.0 { sum / rate } else { 1.0 }
}

/// Renumbers the workers of a mapping so that most work stays on its present worker.
fn relabelled(problem: &Problem, present: &[u32], found: Mapping) -> Vec<u32> {
    let workers = problem.speeds.len();
    let mut shared = vec![vec![0.0; workers]; workers];
    for (at, &place) in found.places.iter().enumerate() {
        shared[place as usize][present[at] as usize] += problem.work[at] + 1e-6;
    }
    let mut pairs: Vec<(usize, usize)> = (0..workers * workers).map(|n| (n / workers, n % workers)).collect();
    pairs.sort_by(|a, b| shared[b.0][b.1].total_cmp(&shared[a.0][a.1]));
    let mut label: Vec<Option<u32>> = vec![None; workers];
    let mut taken = HashSet::new();
    for (from, to) in pairs {
        if label[from].is_none() && taken.insert(to) {
            label[from] = Some(to as u32);
        }
    }
    let places = found.places.iter().enumerate().map(|(at, &place)| {
        let stays = problem.fixed.get(at).copied().flatten();
        stays.or(label[place as usize]).unwrap_or(place)
    });
    let places: Vec<u32> = places.collect();
    if problem.period(&places) <= found.period * (1.0 + WORTH) { places } else { found.places }
}

/// Leaves out moves with very little gain, those with the least work first, and limits the number of moves.
fn fewest_moves(problem: &Problem, present: &[u32], mut places: Vec<u32>) -> Vec<u32> {
    let mut moved: Vec<usize> = (0..places.len()).filter(|&at| places[at] != present[at]).collect();
    moved.sort_by(|&a, &b| problem.work[a].total_cmp(&problem.work[b]));
    let mut period = problem.period(&places);
    // If the network is small enough for that, each move is examined on its own.
    let (mut count, looked) = (moved.len(), if problem.links.len() < 20_000 { moved.len() } else { 0 });
    for (n, &at) in moved.iter().enumerate() {
        let to = std::mem::replace(&mut places[at], present[at]);
        let without = if n < looked { problem.period(&places) } else { f64::INFINITY };
        if without <= period * (1.0 + WORTH) || count > MOVES_MAX && n + MOVES_MAX < moved.len() {
            count -= 1;
            period = problem.period(&places);
        } else {
            places[at] = to;
        }
    }
    places
}

/// The load of each of the first eight workers, as a text.
fn loads(problem: &Problem, places: &[u32]) -> String {
    let mut loads = vec![0.0; problem.speeds.len()];
    for (at, &place) in places.iter().enumerate() {
        loads[place as usize] += problem.work[at];
    }
    let shown: Vec<String> = loads.iter().take(8).map(|load| format!("{:.0} %", 100.0 * load)).collect();
    shown.join(", ")
}

pub(super) fn why(problem: &Problem, present: &[u32], places: &[u32]) -> String {
    let crossing = |places: &[u32]| {
        let crosses = |link: &&Link| places[link.from as usize] != places[link.to as usize];
        let (cut, all) = (
            problem.links.iter().filter(crosses).map(|link| link.traffic).sum::<f64>(),
            problem.links.iter().map(|link| link.traffic).sum::<f64>(),
        );
        if all > 0.0 && cut > 0.0 { 100.0 * cut / all } else { 0.0 }
    };
    format!(
        "Workers bear {} of their time, and {:.0} % of messages cross between them; with this {} and {:.0} %.",
        loads(problem, present),
        crossing(present),
        loads(problem, places),
        crossing(places)
    )
}

#[cfg(test)]
mod tests {
    use super::super::window::{Progress, WorkerIn};
    use super::*;

    /// A chain of tasks that alternate between two workers, behind a source that waits for room.
    fn chain(work: &[f64], load: [f64; 2]) -> Window {
        let on_worker = |n: usize, busy: f64| TaskIn {
            id: n as u64 + 1,
            name: format!("net/box{n}"),
            kind: "box".to_owned(),
            component: n as u64,
            worker: Some(n as u32 % 2),
            busy,
            input_wait: 0.0,
            output_wait: 0.0,
            ready: 0.0,
            reads: 1e4,
            writes: 1e4,
            dispatches: 1e4,
        };
        let mut tasks: Vec<TaskIn> = work.iter().enumerate().map(|(n, &busy)| on_worker(n, busy)).collect();
        let source =
            TaskIn { id: 99, kind: "source".into(), worker: None, output_wait: 0.5, ..on_worker(98, 0.1) };
        tasks.push(source);
        let stream = |n: u64| StreamIn { writer: n, reader: n + 1, capacity: 64, rate: 1e4, held: 9.0 };
        Window {
            lasted: 0.2,
            streams: (1..work.len() as u64).map(stream).collect(),
            tasks,
            workers: load.into_iter().zip(0..).map(|(busy, id)| WorkerIn { id, busy, had: 1.0 }).collect(),
            workers_known: 2,
            made: 0.0,
            dispatches: 1e4,
            processors: 1.2,
            delayed: 0.0,
            stolen: 0.0,
            memory: 1e7,
            held: 30.0,
        }
    }

    fn propose_for(window: &Window, pinned: u64) -> Option<Candidate> {
        propose(window, &Around { processors: 2.0, pinned: &|task| task == pinned })
    }

    #[test]
    fn a_chain_that_crosses_at_each_step_is_cut_in_two() {
        let window = chain(&[0.3, 0.3, 0.3, 0.3], [0.6, 0.6]);
        let candidate = propose_for(&window, 0).expect("crossings delay it");
        assert!(candidate.gain > 0.2, "{candidate:?}");
        // Two moves divide the chain into two pieces.
        assert_eq!(candidate.action.changes.len(), 2, "{candidate:?}");
        assert!(candidate.why.contains("100 % of messages cross"), "{}", candidate.why);
        let candidate = propose_for(&window, 2).expect("the others may move");
        assert!(candidate.action.changes.iter().all(|change| change.knob.name() != "task/2.worker"));
    }

    #[test]
    fn many_moves_for_little_gain_are_not_proposed() {
        // Without traffic, loads of 52 and 48 % of the work become equal by moves of tasks of the given size.
        let loads = |size: f64| {
            let tasks = vec![size; (1.0 / size).round() as usize];
            let mut window = chain(&tasks, [1.0, 1.0 / 1.08]);
            window.streams.clear();
            let on_first = (0.52 / size).round() as usize;
            let workers = (0..tasks.len()).map(|n| u32::from(n >= on_first));
            window.tasks.iter_mut().zip(workers).for_each(|(task, worker)| task.worker = Some(worker));
            window.tasks.iter_mut().for_each(|task| task.busy /= 0.52);
            window
        };
        let few = propose_for(&loads(0.02), 0).expect("one move gains 4 %");
        assert_eq!(few.action.changes.len(), 1, "{few:?}");
        let many = propose_for(&loads(0.00125), 0);
        assert_eq!(many, None, "16 moves gain 4 %");
    }

    #[test]
    fn what_waits_for_source_and_sink_is_not_promised_to_a_move() {
        // With streams of two messages no worker is busy, because all tasks wait for each other.
        let mut window = chain(&[0.04, 0.04, 0.04, 0.04], [0.08, 0.08]);
        let promised = |window: &Window| propose_for(window, 0).map_or(0.0, |candidate| candidate.gain);
        assert_eq!(promised(&window), 4.0);
        let stream = |writer, reader| StreamIn { writer, reader, capacity: 2, rate: 1e4, held: 1.0 };
        let sink = TaskIn { id: 100, kind: "sink".into(), worker: None, ..window.tasks[0].clone() };
        window.tasks.push(sink);
        window.streams.extend([stream(99, 1), stream(4, 100)]);
        // Two of the five streams between workers connect the source and the sink.
        let gain = promised(&window);
        // Three streams hold 64 messages and two hold 2, so a factor of (3 + 2 / 8) / 5 of the waiting, which is
        // 0.92 of the time, is attributed to the five that cross. With all tasks on one worker three of these do
        // not cross, and the worker bears 0.16 instead of 0.08.
        let by_crossings = 0.92 * (3.0 + 2.0 / 8.0) / 5.0;
        // The same factor says how much workers share.
        let wanted = (1.0 / (1.0 - by_crossings * 3.0 / 5.0 + 0.08) - 1.0) * (3.0 + 2.0 / 8.0) / 5.0;
        assert!((gain / wanted - 1.0).abs() < 0.02, "{gain}, not {wanted}");
        window.streams.extend([stream(99, 2), stream(99, 3), stream(99, 4)]);
        assert!(promised(&window) < gain, "{}", promised(&window));
    }

    #[test]
    fn a_small_task_leaves_a_full_worker_although_streams_are_small() {
        // Worker 0 has tasks 1 and 3, and task 3 may as well wait for messages on worker 1.
        let mut window = chain(&[0.89, 0.2, 0.07], [0.96, 0.2]);
        window.streams.iter_mut().for_each(|stream| stream.capacity = 3);
        let candidate = propose_for(&window, 0).expect("worker 1 has time");
        let moved: Vec<_> = candidate.action.changes.iter().map(|change| change.knob.name()).collect();
        assert_eq!(moved, ["task/3.worker"]);
        // 8 % by 3/16 would be too little for a trial.
        assert_eq!(candidate.gain, DECIDED_BY_TRIAL);
    }

    #[test]
    fn the_latency_is_known_although_streams_are_empty() {
        let window = Window { held: 0.0, ..chain(&[0.3, 0.2], [0.3, 0.2]) };
        let of = |window: &Window| window.seen(1.0, Progress::Tasks, 0.0, false).latency;
        let held = |window: &Window| window.seen(1.0, Progress::Tasks, 0.0, false).held;
        // A hundred messages a second leave, and on average half a message is worked on; what the source makes
        // is not in the network yet.
        let window = Window { made: 100.0, ..window };
        assert!((of(&window) - 0.005).abs() < 1e-9, "{}", of(&window));
        // What is in streams for a moment does not count, but what tasks that are ready have waiting.
        let waiting = Window { held: 2.0, ..window.clone() };
        assert!((of(&waiting) - 0.005).abs() < 1e-9, "{}", of(&waiting));
        let mut waiting = window.clone();
        waiting.tasks[1].ready = 1.5;
        assert!((of(&waiting) - 0.02).abs() < 1e-9, "{}", of(&waiting));
        assert!(held(&window).abs() < 1e-9 && (held(&waiting) - 1.5).abs() < 1e-9, "{}", held(&waiting));
        // A task that takes five messages in a dispatch has three of them on average, one of which is the first.
        waiting.tasks[1].dispatches = 2e3;
        assert!((of(&waiting) - (0.3 + 3.0 * 1.7) / 100.0).abs() < 1e-9, "{}", of(&waiting));
        let crowded = Window { held: 200.0, ..window.clone() };
        assert!((of(&crowded) - 2.005).abs() < 1e-9, "{}", of(&crowded));
        assert!((held(&crowded) - 200.0).abs() < 1e-9, "{}", held(&crowded));
        // A message waits while the source's thread has no processor, and the sink is ready while its own has none.
        let mut late = Window { delayed: 0.3, ..window.clone() };
        assert!((of(&late) - (0.5 + 0.3) / 100.0).abs() < 1e-9, "{}", of(&late));
        late.tasks.push(TaskIn { kind: "sink".into(), worker: None, ready: 0.2, ..TaskIn::default() });
        assert!((of(&late) - (0.5 + 0.2 + 0.1) / 100.0).abs() < 1e-9, "{}", of(&late));
        // If the input comes at a rate of its own, messages wait for a source that has no time.
        let fed = |waits: f64| {
            let mut fed = window.clone();
            fed.tasks.iter_mut().filter(|it| it.kind == "source").for_each(|it| it.input_wait = waits);
            (fed.is_fed(), fed.seen(1.0, Progress::Tasks, 0.0, true).latency)
        };
        let (waits, has_no_time) = (fed(0.5), fed(0.0));
        assert!(waits.0 && (waits.1 - 1.5 / 100.0).abs() < 1e-9, "{waits:?}");
        assert!(!has_no_time.0 && (has_no_time.1 - 999.5 / 100.0).abs() < 1e-6, "{has_no_time:?}");
    }

    #[test]
    fn another_number_of_workers_comes_with_places_for_all_tasks() {
        let mut window = chain(&[0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], [0.0, 0.0]);
        // Round-robin over four workers, of which each has two tasks.
        for (n, task) in window.tasks.iter_mut().take(8).enumerate() {
            task.worker = Some(n as u32 % 4);
        }
        window.workers = (0..4).map(|id| WorkerIn { id, busy: 0.2, had: 1.0 }).collect();
        let of = |from, to| Candidate {
            action: Action::set(WORKERS, from, to),
            model: "m".into(),
            gain: 0.1,
            why: "Crowded.".into(),
        };
        let around = Around { processors: 2.0, pinned: &|task| task == 3 };
        let found = with_places(of(4, 2), &window, &around, &|task| task == 5);
        let moves: HashMap<String, u64> =
            found.action.changes.iter().map(|change| (change.knob.name(), change.to)).collect();
        assert_eq!(moves.get(WORKERS), Some(&2));
        // The pinned task and the one that the run places are left to the run.
        assert_eq!(moves.len(), 1 + 8 - 2, "{moves:?}");
        let on = |task: u64| moves.get(&format!("task/{task}.worker")).copied();
        assert!((1..=8).filter_map(on).all(|worker| worker < 2), "{moves:?}");
        // The chain is cut once or twice instead of at each step: the pinned task may stand alone.
        let known: Vec<u64> = (1..=8).filter_map(on).collect();
        let cuts = known.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(cuts <= 2 && found.gain > 0.5, "{known:?}, {found:?}");
        assert!(found.why.starts_with("Crowded. With the tasks placed"), "{}", found.why);
        // More workers than now.
        let more = with_places(of(4, 5), &window, &around, &|_| false);
        assert!(more.action.changes.len() > 1 && more.action.changes[1..].iter().all(|of| of.to < 5));
        // A number that is not the present one, and another setting.
        assert_eq!(with_places(of(3, 2), &window, &around, &|_| false), of(3, 2));
        let other = Candidate { action: Action::set("exec.steal", 4, 1), ..of(4, 2) };
        assert_eq!(with_places(other.clone(), &window, &around, &|_| false), other);
    }

    #[test]
    fn where_the_source_limits_nothing_is_proposed() {
        let mut window = chain(&[0.1, 0.1, 0.1, 0.1], [0.2, 0.2]);
        window.tasks.last_mut().unwrap().output_wait = 0.0;
        assert_eq!(propose_for(&window, 0), None);
        assert!(!is_network_limited(&window));
    }
}
