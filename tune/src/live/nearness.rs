//! Proposes places of tasks with which messages take less time through a network that has time to spare.
//!
//! **Model.** By Little's law the latency is the mean number of messages in the network divided by their rate. A
//! message is in the network while a task works on it, while it waits for the worker that has other work, and
//! while a worker is woken for it because it comes from another worker. With the load `ρ` of each worker, and
//! `c` messages a second between workers, the mean number is `Σ ρ / (1 − ρ) + c · W`, where `W` is the time to wake
//! a worker. So neighbours belong on one worker as long as that worker is not too busy.

use std::collections::HashMap;

use super::placing::{self, Around, PLACED_MAX, is_on, why};
use super::window::{Window, waiting_for};
use crate::action::{Action, Candidate, Change, Knob};
use crate::mapping::Problem;

/// The time until a worker that waits for work begins with what another worker gives it, in seconds: a worker
/// that still looks for work needs a tenth of it, and one that sleeps two or three times as much.
const WAKE_S: f64 = 10e-6;
/// The largest load for which the number of waiting messages is computed; it grows without bound towards 1.
const LOAD_MAX: f64 = 0.98;
/// The least expected gain for which tasks are moved.
const WORTH: f64 = 0.05;
/// Places count as equally good if there are at most so many times as many messages in the network.
const AS_GOOD: f64 = 1.01;
/// The largest number of times that all tasks are looked at.
const PASSES: usize = 20;

/// The places with which messages are expected to take the least time, if it is less than now.
pub(super) fn propose(window: &Window, around: &Around<'_>) -> Option<Candidate> {
    let workers: HashMap<u64, u32> =
        window.workers.iter().enumerate().map(|(n, worker)| (worker.id, n as u32)).collect();
    let tasks: Vec<_> = window.tasks.iter().filter(|task| is_on(task.worker, &workers)).collect();
    if workers.len() < 2 || tasks.len() > PLACED_MAX {
        return None;
    }
    let problem = placing::problem(window, around, &workers);
    let present = placing::present(window, &workers);
    let places = Places::nearest(&problem, &present);
    let gain = waiting(&problem, &present) / waiting(&problem, &places) - 1.0;
    let id = |place: u32| window.workers[place as usize].id;
    let moved = (0..tasks.len()).filter(|&at| places[at] != present[at]);
    let changes: Vec<Change> = moved
        .map(|at| {
            let knob = Knob::Worker { task: tasks[at].id, name: tasks[at].name.clone() };
            Change { knob, from: id(present[at]), to: id(places[at]) }
        })
        .collect();
    (!changes.is_empty() && gain >= WORTH).then(|| Candidate {
        gain,
        why: why(&problem, &present, &places),
        action: Action { changes },
        model: "nearness".into(),
    })
}

/// The number of messages at a worker with this load, waiting or worked on.
fn at_worker(load: f64) -> f64 {
    waiting_for(load, LOAD_MAX)
}

/// The expected number of messages in the network.
fn waiting(problem: &Problem, places: &[u32]) -> f64 {
    let cut = problem.links.iter().filter(|link| places[link.from as usize] != places[link.to as usize]);
    let cut: f64 = cut.map(|link| link.traffic).sum();
    loads(problem, places).into_iter().map(at_worker).sum::<f64>() + WAKE_S * cut
}

fn loads(problem: &Problem, places: &[u32]) -> Vec<f64> {
    let mut loads = vec![0.0; problem.speeds.len()];
    for (work, &place) in problem.work.iter().zip(places) {
        loads[place as usize] += work;
    }
    loads
}

/// Places that are improved move by move.
struct Places<'p> {
    problem: &'p Problem,
    /// The neighbours of each task, with the messages a second.
    neighbours: Vec<Vec<(u32, f64)>>,
}

impl Places<'_> {
    /// The places with the fewest messages in the network that are found from the present ones, and from all
    /// tasks on one worker.
    fn nearest(problem: &Problem, present: &[u32]) -> Vec<u32> {
        let mut neighbours = vec![Vec::new(); problem.work.len()];
        for link in problem.links.iter().filter(|link| link.from != link.to) {
            neighbours[link.from as usize].push((link.to, link.traffic));
            neighbours[link.to as usize].push((link.from, link.traffic));
        }
        let search = Places { problem, neighbours };
        let together = |worker: u32| {
            let place = |(at, &now): (usize, &u32)| if search.is_fixed(at) { now } else { worker };
            present.iter().enumerate().map(place).collect::<Vec<u32>>()
        };
        let starts = (0..problem.speeds.len() as u32).map(together);
        let moves = |places: &[u32]| places.iter().zip(present).filter(|(to, now)| to != now).count();
        let found = std::iter::once(present.to_vec()).chain(starts).map(|start| search.improved(start));
        let found: Vec<(f64, Vec<u32>)> = found.map(|places| (waiting(problem, &places), places)).collect();
        let least = found.iter().map(|(waiting, _)| *waiting).fold(f64::INFINITY, f64::min);
        // Of places that are about as good, those with the fewest moves are taken.
        let as_good = found.into_iter().filter(|(waiting, _)| *waiting <= AS_GOOD * least);
        let fewest = as_good.map(|(_, places)| places).min_by_key(|places| moves(places));
        fewest.unwrap_or_else(|| present.to_vec())
    }

    fn is_fixed(&self, at: usize) -> bool {
        self.problem.fixed.get(at).is_some_and(Option::is_some)
    }

    fn improved(&self, mut places: Vec<u32>) -> Vec<u32> {
        let mut loads = loads(self.problem, &places);
        for _ in 0..PASSES {
            let mut is_better = false;
            for at in (0..places.len()).filter(|&at| !self.is_fixed(at)) {
                let (from, work) = (places[at] as usize, self.problem.work[at]);
                let mut traffic = vec![0.0; loads.len()];
                for &(other, rate) in &self.neighbours[at] {
                    traffic[places[other as usize] as usize] += rate;
                }
                let change = |to: usize| {
                    let at_workers = at_worker(loads[from] - work) + at_worker(loads[to] + work)
                        - at_worker(loads[from])
                        - at_worker(loads[to]);
                    at_workers + WAKE_S * (traffic[from] - traffic[to])
                };
                let others = (0..loads.len()).filter(|&to| to != from);
                let best = others.map(|to| (to, change(to))).min_by(|a, b| a.1.total_cmp(&b.1));
                if let Some((to, _)) = best.filter(|(_, change)| *change < -1e-9) {
                    loads[from] -= work;
                    loads[to] += work;
                    places[at] = to as u32;
                    is_better = true;
                }
            }
            if !is_better {
                break;
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::{StreamIn, TaskIn, WorkerIn};
    use super::*;

    /// A chain of tasks that are on the two workers in turn, through which 10,000 messages a second go.
    fn chain(work: &[f64]) -> Window {
        let task = |(n, &busy): (usize, &f64)| TaskIn {
            id: n as u64 + 1,
            name: format!("net/box{n}"),
            worker: Some(n as u32 % 2),
            busy,
            ..TaskIn::default()
        };
        let stream = |n: u64| StreamIn { writer: n, reader: n + 1, capacity: 64, rate: 1e4, held: 0.0 };
        let load = |worker: usize| work.iter().skip(worker).step_by(2).sum();
        Window {
            lasted: 0.2,
            tasks: work.iter().enumerate().map(task).collect(),
            streams: (1..work.len() as u64).map(stream).collect(),
            workers: (0..2).map(|id| WorkerIn { id: id as u64, busy: load(id), had: 1.0 }).collect(),
            ..Window::default()
        }
    }

    fn moved(window: &Window, pinned: u64) -> Option<Vec<(String, u64)>> {
        let around = Around { processors: 2.0, pinned: &|task| task == pinned };
        let changes = propose(window, &around)?.action.changes;
        Some(changes.into_iter().map(|change| (change.knob.name(), change.to)).collect())
    }

    #[test]
    fn a_light_chain_comes_together() {
        let to = |worker, tasks: [u64; 2]| tasks.map(|task| (format!("task/{task}.worker"), worker)).to_vec();
        let found = moved(&chain(&[0.05; 4]), 0).expect("three of three messages cross");
        assert!(found == to(0, [2, 4]) || found == to(1, [1, 3]), "{found:?}");
        // With the first task pinned, the others come to it.
        assert_eq!(moved(&chain(&[0.05; 4]), 1), Some(to(0, [2, 4])));
    }

    #[test]
    fn workers_that_would_be_too_busy_are_not_filled() {
        // On one worker nine of ten units of time would be taken, and nine messages would wait instead of 1.6.
        let window = chain(&[0.225; 4]);
        let found = moved(&window, 0).expect("the chain can be cut once");
        assert_eq!(found.len(), 2, "{found:?}");
        let places = |n: u64| found.iter().find(|(name, _)| *name == format!("task/{n}.worker"));
        let at = |n: u64| places(n).map_or((n + 1) % 2, |(_, to)| *to);
        assert_eq!((at(1), at(3)), (at(2), at(4)));
        assert_ne!(at(1), at(3));
    }

    #[test]
    fn what_is_near_already_stays() {
        let mut window = chain(&[0.05; 4]);
        window.tasks.iter_mut().for_each(|task| task.worker = Some(0));
        (window.workers[0].busy, window.workers[1].busy) = (0.2, 0.0);
        assert_eq!(moved(&window, 0), None);
    }

    #[test]
    fn no_single_move_improves_what_is_found() {
        use thalweg_chance::Chance;

        use crate::mapping::Link;
        let mut chance = Chance::new(7);
        for _ in 0..200 {
            let (tasks, workers) = (chance.between(2, 13) as u32, chance.between(2, 5) as u32);
            let work = (0..tasks).map(|_| chance.uniform() * 0.6 / f64::from(tasks)).collect::<Vec<f64>>();
            let links = (0..2 * tasks).map(|_| Link {
                from: chance.below(u64::from(tasks)) as u32,
                to: chance.below(u64::from(tasks)) as u32,
                traffic: chance.uniform() * 2e4,
            });
            let links = links.collect();
            let speeds = vec![1.0; workers as usize];
            let problem = Problem { work, links, speeds, ..Problem::default() };
            let present: Vec<u32> = (0..tasks).map(|_| chance.below(u64::from(workers)) as u32).collect();
            let found = Places::nearest(&problem, &present);
            let least = waiting(&problem, &found);
            assert!(least <= waiting(&problem, &present) + 1e-9);
            for at in 0..tasks as usize {
                for to in 0..workers {
                    let mut other = found.clone();
                    other[at] = to;
                    assert!(waiting(&problem, &other) >= least - 1e-6, "{problem:?} {found:?} {at} to {to}");
                }
            }
        }
    }
}
