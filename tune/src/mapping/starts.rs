//! The mappings with which the search begins.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Problem;

/// A load that can be sorted: loads have a total order here, because they are never NaN.
#[derive(Clone, Copy, PartialEq)]
struct Load(f64);

impl Eq for Load {}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Load) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Load {
    fn cmp(&self, other: &Load) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The mapping with all tasks on the fastest worker.
pub(super) fn on_one(problem: &Problem) -> Vec<u32> {
    let speeds = problem.speeds.iter().enumerate();
    let fastest = speeds.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0))).map_or(0, |(at, _)| at as u32);
    (0..problem.work.len()).map(|task| problem.fixed(task).unwrap_or(fastest)).collect()
}

/// Places tasks in order of falling work, each on the worker that would finish it first (Graham 1969).
pub(super) fn longest_first(problem: &Problem) -> Vec<u32> {
    let mut loads = vec![0.0; problem.speeds.len()];
    let mut places = vec![0; problem.work.len()];
    let mut order = Vec::with_capacity(places.len());
    for (task, &work) in problem.work.iter().enumerate() {
        match problem.fixed(task) {
            Some(place) => {
                places[task] = place;
                loads[place as usize] += work / problem.speeds[place as usize];
            }
            None => order.push(task),
        }
    }
    order.sort_by(|&a, &b| problem.work[b].total_cmp(&problem.work[a]));
    let mut free: BinaryHeap<_> =
        loads.iter().enumerate().map(|(at, &load)| Reverse((Load(load), at))).collect();
    for task in order {
        if let Some(mut least) = free.peek_mut() {
            let Reverse((load, place)) = *least;
            places[task] = place as u32;
            *least = Reverse((Load(load.0 + problem.work[task] / problem.speeds[place]), place));
        }
    }
    places
}

/// Cuts the tasks along the streams into pieces of equal work, so neighbours stay together.
pub(super) fn along(problem: &Problem) -> Vec<u32> {
    let speed: f64 = problem.speeds.iter().sum();
    let total: f64 = problem.work.iter().sum();
    let mut places = vec![0; problem.work.len()];
    let (mut worker, mut before, mut end) = (0, 0.0, total * problem.speeds[0] / speed);
    for task in order(problem) {
        let work = problem.work[task];
        // A task belongs to the piece that contains the middle of its work.
        while before + work / 2.0 > end && worker + 1 < problem.speeds.len() {
            worker += 1;
            end += total * problem.speeds[worker] / speed;
        }
        before += work;
        places[task] = problem.fixed(task).unwrap_or(worker as u32);
    }
    places
}

/// The tasks in depth-first order along the streams, so a chain stays in one piece. A task that several
/// streams reach is listed when it is first reached.
fn order(problem: &Problem) -> Vec<usize> {
    let tasks = problem.work.len();
    let mut first = vec![0_u32; tasks + 1];
    let mut is_read = vec![false; tasks];
    for link in &problem.links {
        first[link.from as usize + 1] += 1;
        is_read[link.to as usize] |= link.from != link.to;
    }
    for at in 0..tasks {
        first[at + 1] += first[at];
    }
    let mut next = first.clone();
    let mut followers = vec![0_u32; problem.links.len()];
    for link in &problem.links {
        let at = &mut next[link.from as usize];
        followers[*at as usize] = link.to;
        *at += 1;
    }
    let mut seen = vec![false; tasks];
    let mut order = Vec::with_capacity(tasks);
    let mut stack = Vec::new();
    let entries = (0..tasks).filter(|&task| !is_read[task]).chain(0..tasks);
    for entry in entries {
        stack.push(entry);
        while let Some(task) = stack.pop() {
            if std::mem::replace(&mut seen[task], true) {
                continue;
            }
            order.push(task);
            let range = first[task] as usize..first[task + 1] as usize;
            stack.extend(followers[range].iter().rev().map(|&to| to as usize).filter(|&to| !seen[to]));
        }
    }
    order
}

/// A random worker for each task (by the generator SplitMix64; equal seeds give equal mappings).
pub(super) fn random(problem: &Problem, seed: u64) -> Vec<u32> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut any = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % problem.speeds.len() as u64) as u32
    };
    (0..problem.work.len()).map(|task| problem.fixed(task).unwrap_or_else(&mut any)).collect()
}
