//! Makes the best move repeatedly, until no move improves the mapping.

use super::{Problem, RMS};

/// If a problem has at most this many tasks, each task may move in each round; otherwise only tasks of the
/// most loaded worker may.
const ALL_MAX: usize = 256;
/// The largest number of tasks that are examined in a round.
const CANDIDATES_MAX: usize = 2048;
/// The largest number of workers that are examined as targets in a round; the workers with the least load
/// are.
const TARGETS_MAX: usize = 16;
/// The least improvement that counts: smaller ones are rounding errors.
const BETTER: f64 = 1e-9;

/// A mapping under refinement.
pub(super) struct Refinement<'p> {
    problem: &'p Problem,
    /// The neighbours of each task with their traffic in both directions are in `beside`; the neighbours of
    /// task `t` begin at `first[t]`.
    first: Vec<u32>,
    beside: Vec<(u32, f64)>,
    places: Vec<u32>,
    loads: Vec<f64>,
    cut: f64,
    /// The tasks of each worker, and for each task its index in the list of its worker.
    members: Vec<Vec<u32>>,
    position: Vec<u32>,
    /// By how much the move that is being examined changes each load.
    change: Vec<f64>,
    /// If a list is longer than the number of candidates, the index at which the next candidates begin.
    turn: usize,
}

/// The best move that was found, with a second move if both have to be made together.
#[derive(Clone, Copy)]
struct Found {
    value: f64,
    first: (u32, u32),
    second: Option<(u32, u32)>,
}

impl<'p> Refinement<'p> {
    pub(super) fn new(problem: &'p Problem) -> Refinement<'p> {
        let tasks = problem.work.len();
        let mut first = vec![0_u32; tasks + 1];
        let between = || problem.links.iter().filter(|link| link.from != link.to);
        for link in between() {
            first[link.from as usize + 1] += 1;
            first[link.to as usize + 1] += 1;
        }
        for at in 0..tasks {
            first[at + 1] += first[at];
        }
        let mut next = first.clone();
        let mut beside = vec![(0, 0.0); first[tasks] as usize];
        for link in between() {
            for (one, other) in [(link.from, link.to), (link.to, link.from)] {
                let at = &mut next[one as usize];
                beside[*at as usize] = (other, link.traffic);
                *at += 1;
            }
        }
        let workers = problem.speeds.len();
        Refinement {
            problem,
            first,
            beside,
            places: vec![0; tasks],
            loads: vec![0.0; workers],
            cut: 0.0,
            members: vec![Vec::new(); workers],
            position: vec![0; tasks],
            change: vec![0.0; workers],
            turn: 0,
        }
    }

    pub(super) fn places(&self) -> &[u32] {
        &self.places
    }

    pub(super) fn begin(&mut self, places: &[u32]) {
        let problem = self.problem;
        self.places.copy_from_slice(places);
        self.loads.fill(0.0);
        self.members.iter_mut().for_each(Vec::clear);
        for (task, &place) in places.iter().enumerate() {
            let members = &mut self.members[place as usize];
            self.position[task] = members.len() as u32;
            members.push(task as u32);
            self.loads[place as usize] += problem.work[task] / problem.speeds[place as usize];
        }
        self.cut = 0.0;
        for link in &problem.links {
            let (from, to) = (places[link.from as usize] as usize, places[link.to as usize] as usize);
            if from != to {
                self.loads[from] += problem.crossing * link.traffic / problem.speeds[from];
                self.loads[to] += problem.crossing * link.traffic / problem.speeds[to];
                self.cut += link.traffic;
            }
        }
        self.turn = 0;
    }

    /// Improves the mapping as long as moves help and steps are left.
    pub(super) fn run(&mut self, steps: &mut u64) {
        if self.loads.len() < 2 {
            return;
        }
        let mut value = self.value();
        while *steps > 0 {
            let candidates = self.candidates();
            let found = self.best_single(&candidates, steps);
            let found = match found.filter(|found| found.value < value - BETTER * value) {
                None if self.places.len() <= ALL_MAX => self.better_double(&candidates, value, steps),
                found => found,
            };
            let Some(found) = found.filter(|found| found.value < value - BETTER * value) else { return };
            self.make(found.first);
            if let Some(second) = found.second {
                self.make(second);
            }
            value = self.value();
        }
    }

    /// The value of the mapping, which the search minimises.
    fn value(&self) -> f64 {
        self.value_with(self.cut)
    }

    /// The value that the mapping would have after the move that is being examined.
    fn value_with(&self, cut: f64) -> f64 {
        let (mut most, mut sum, mut squares) = (0.0_f64, 0.0, 0.0);
        for (load, change) in self.loads.iter().zip(&self.change) {
            let load = load + change;
            most = most.max(load);
            sum += load;
            squares += load * load;
        }
        let problem = self.problem;
        let rms = (squares / self.loads.len() as f64).sqrt();
        most.max(sum / problem.processors.max(1.0)) + problem.delay * cut + RMS * rms
    }

    /// The tasks that may move in this round: all tasks if there are few, otherwise some tasks of the most
    /// loaded worker.
    fn candidates(&mut self) -> Vec<u32> {
        let movable = |task: &u32| self.problem.fixed(*task as usize).is_none();
        if self.places.len() <= ALL_MAX {
            return (0..self.places.len() as u32).filter(movable).collect();
        }
        let loads = self.loads.iter().enumerate();
        let limits = loads.max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(at, _)| at);
        let members = &self.members[limits];
        if members.len() <= CANDIDATES_MAX {
            return members.iter().copied().filter(movable).collect();
        }
        let from = self.turn % members.len();
        self.turn = from + CANDIDATES_MAX;
        members.iter().cycle().skip(from).take(CANDIDATES_MAX).copied().filter(movable).collect()
    }

    /// The workers that tasks may go to: all workers if there are few, otherwise the workers with the least
    /// load.
    fn targets(&self) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.loads.len() as u32).collect();
        if all.len() > TARGETS_MAX {
            all.sort_by(|&a, &b| self.loads[a as usize].total_cmp(&self.loads[b as usize]));
            all.truncate(TARGETS_MAX);
        }
        all
    }

    fn best_single(&mut self, candidates: &[u32], steps: &mut u64) -> Option<Found> {
        let targets = self.targets();
        let mut best: Option<Found> = None;
        for &task in candidates {
            let from = self.places[task as usize];
            for &to in targets.iter().filter(|&&to| to != from) {
                let value = self.look(task, to, steps)?;
                if best.is_none_or(|best| value < best.value) {
                    best = Some(Found { value, first: (task, to), second: None });
                }
            }
        }
        best
    }

    /// A pair of moves that is better than `value`: a task together with one of its neighbours, or in exchange for a task
    /// of its new worker. It is the best pair of the first task that has such a pair; the best pair of all tasks takes many
    /// times as long to find, and leads to no better mappings.
    fn better_double(&mut self, candidates: &[u32], value: f64, steps: &mut u64) -> Option<Found> {
        let targets = self.targets();
        let mut best: Option<Found> = None;
        for &task in candidates {
            if best.is_some_and(|best| best.value < value - BETTER * value) {
                break;
            }
            let from = self.places[task as usize];
            for &to in targets.iter().filter(|&&to| to != from) {
                let swaps = self.members[to as usize].iter().map(|&other| (other, from));
                let beside = self.first[task as usize] as usize..self.first[task as usize + 1] as usize;
                let pairs = self.beside[beside].iter().map(|&(other, _)| (other, to));
                let movable = |&(other, _): &(u32, u32)| self.problem.fixed(other as usize).is_none();
                let seconds: Vec<_> = swaps.chain(pairs).filter(movable).collect();
                self.make((task, to));
                for second in seconds {
                    if self.places[second.0 as usize] == second.1 {
                        continue;
                    }
                    let Some(value) = self.look(second.0, second.1, steps) else {
                        self.make((task, from));
                        return best;
                    };
                    if best.is_none_or(|best| value < best.value) {
                        best = Some(Found { value, first: (task, to), second: Some(second) });
                    }
                }
                self.make((task, from));
            }
        }
        best
    }

    /// The value that the mapping would have if `task` moved to worker `to`; `None` when the steps are used
    /// up.
    fn look(&mut self, task: u32, to: u32, steps: &mut u64) -> Option<f64> {
        let cut = self.change_by(task, to, steps);
        let value = self.value_with(self.cut + cut);
        self.change.fill(0.0);
        *steps = steps.saturating_sub(self.loads.len() as u64 / 4);
        (*steps > 0).then_some(value)
    }

    /// Stores how the loads change if `task` moves to worker `to`; returns by how much the traffic between
    /// workers changes.
    fn change_by(&mut self, task: u32, to: u32, steps: &mut u64) -> f64 {
        let problem = self.problem;
        let (at, from, to) = (task as usize, self.places[task as usize] as usize, to as usize);
        let (slow, fast) = (problem.speeds[from], problem.speeds[to]);
        self.change[from] -= problem.work[at] / slow;
        self.change[to] += problem.work[at] / fast;
        let beside = self.first[at] as usize..self.first[at + 1] as usize;
        *steps = steps.saturating_sub(1 + beside.len() as u64);
        let mut cut = 0.0;
        for &(other, traffic) in &self.beside[beside] {
            let place = self.places[other as usize] as usize;
            let cost = problem.crossing * traffic;
            if place != from {
                self.change[from] -= cost / slow;
                self.change[place] -= cost / problem.speeds[place];
                cut -= traffic;
            }
            if place != to {
                self.change[to] += cost / fast;
                self.change[place] += cost / problem.speeds[place];
                cut += traffic;
            }
        }
        cut
    }

    fn make(&mut self, (task, to): (u32, u32)) {
        let cut = self.change_by(task, to, &mut 0);
        self.cut += cut;
        for (load, change) in self.loads.iter_mut().zip(&mut self.change) {
            *load += std::mem::take(change);
        }
        let from = std::mem::replace(&mut self.places[task as usize], to) as usize;
        let at = self.position[task as usize] as usize;
        self.members[from].swap_remove(at);
        if let Some(&moved) = self.members[from].get(at) {
            self.position[moved as usize] = at as u32;
        }
        self.position[task as usize] = self.members[to as usize].len() as u32;
        self.members[to as usize].push(task);
    }
}
