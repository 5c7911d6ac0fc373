//! Chooses a worker for each task: the cost of a mapping, and the search for a cheap one.
//!
//! **Model.** A task `i` has the work `w_i` (processor time per second, or per input message: any unit, the
//! same for all). The traffic from task `i` to task `j` is `f_ij`. On a mapping `m`, worker `u` of speed
//! `s_u` has the load
//!
//! ```text
//! L_u = ( Σ_{m(i)=u} w_i + c · Σ_{m(i)=u, m(j)≠u} (f_ij + f_ji) ) / s_u
//! P   = max( max_u L_u, Σ_u L_u / p ) + κ · Σ_{m(i)≠m(j)} f_ij
//! ```
//!
//! where `c` is the cost at each end of a message that crosses, `κ` is the delay that a crossing message
//! causes even if no worker is busy (waking a sleeping worker), and `p` is the number of processors that the
//! workers share. `P` is the period: the time for one unit of input.
//!
//! **Search.** The search refines several start mappings: longest-first, a cut along the streams, all tasks
//! on one worker, the present mapping, and random ones. Each step makes the move that lowers `P + 0.001 · rms(L)` most; if
//! none does, it makes a pair of moves or a swap that does, until there is none either. The method is related to Nguyen and Kirner's congestion
//! avoidance (TPDS 2016). The number of steps is bounded, so the search ends in time for a million tasks.

mod refine;
mod starts;
#[cfg(test)]
mod tests;

use refine::Refinement;

/// The weight of the spread of loads; because of it, the more even of two mappings with the same period is
/// better.
const RMS: f64 = 0.001;
/// The largest number of elementary steps of a search; they take less than a tenth of a second.
const STEPS: u64 = 6_000_000;
/// The least and the greatest number of random mappings that are also refined, as long as steps are left. The search in a
/// small problem ends in a poor mapping more often, and takes less time, so this number of tasks is divided among them.
const RESTARTS: (u64, u64) = (2, 8);
const RESTARTED: u64 = 300;

/// The costs of tasks, the traffic between them, and the workers to place them on.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// The work of each task.
    pub work: Vec<f64>,
    /// The traffic between tasks.
    pub links: Vec<Link>,
    /// The speed of each worker, where 1 is the speed at which the work was measured.
    pub speeds: Vec<f64>,
    /// The cost to each of two workers of a unit of traffic between them.
    pub crossing: f64,
    /// By how much a unit of traffic between workers delays the flow.
    pub delay: f64,
    /// The number of workers that can run at the same time.
    pub processors: f64,
    /// For each task that must not move, its worker; `None` for the others. If the list is shorter than
    /// `work`, the tasks beyond its end may go to any worker.
    pub fixed: Vec<Option<u32>>,
}

/// Traffic from one task to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The task that writes.
    pub from: u32,
    /// The task that reads.
    pub to: u32,
    /// The number of messages, per second or per input message like the work.
    pub traffic: f64,
}

/// A mapping and its expected cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// The worker of each task.
    pub places: Vec<u32>,
    /// The mapping's period.
    pub period: f64,
}

impl Problem {
    /// The period of a mapping, which is infinite if the mapping does not fit the problem.
    pub fn period(&self, places: &[u32]) -> f64 {
        let workers = self.speeds.len();
        if places.len() != self.work.len() || places.iter().any(|&place| place as usize >= workers) {
            return f64::INFINITY;
        }
        let mut loads = vec![0.0; workers];
        for (&place, &work) in places.iter().zip(&self.work) {
            loads[place as usize] += work / self.speeds[place as usize];
        }
        let mut cut = 0.0;
        for link in &self.links {
            let (from, to) = (places[link.from as usize] as usize, places[link.to as usize] as usize);
            if from != to {
                loads[from] += self.crossing * link.traffic / self.speeds[from];
                loads[to] += self.crossing * link.traffic / self.speeds[to];
                cut += link.traffic;
            }
        }
        self.period_of(&loads, cut)
    }

    /// The period for these loads and the traffic `cut` between workers.
    fn period_of(&self, loads: &[f64], cut: f64) -> f64 {
        let most = loads.iter().copied().fold(0.0, f64::max);
        let shared = loads.iter().sum::<f64>() / self.processors.max(1.0);
        most.max(shared) + self.delay * cut
    }

    /// The worker on which a task has to stay, if it has to stay on one.
    fn fixed(&self, task: usize) -> Option<u32> {
        self.fixed.get(task).copied().flatten()
    }

    /// Whether all numbers are finite and positive, and the ends of every link exist.
    fn is_sound(&self) -> bool {
        let sound = |value: f64| value.is_finite() && value >= 0.0;
        let tasks = self.work.len();
        !self.speeds.is_empty()
            && self.speeds.iter().all(|&speed| speed.is_finite() && speed > 0.0)
            && self.work.iter().all(|&work| sound(work))
            && self
                .links
                .iter()
                .all(|link| sound(link.traffic) && (link.from as usize) < tasks && (link.to as usize) < tasks)
            && self.fixed.iter().flatten().all(|&place| (place as usize) < self.speeds.len())
            && sound(self.crossing)
            && sound(self.delay)
    }
}

/// The best mapping found, starting also from `present` if that is a valid mapping. `None` if the problem is
/// invalid (a NaN, a worker without speed, a link to a task that does not exist).
///
/// Two searches of the same problem find the same mapping.
pub fn search(problem: &Problem, present: Option<&[u32]>) -> Option<Mapping> {
    if !problem.is_sound() {
        return None;
    }
    let mut refinement = Refinement::new(problem);
    let mut best: Option<Mapping> = None;
    let mut steps = STEPS;
    let given = present.filter(|places| problem.period(places).is_finite()).map(<[u32]>::to_vec);
    let firsts = [given, Some(starts::along(problem)), Some(starts::longest_first(problem))];
    let firsts = firsts.into_iter().flatten().chain([starts::on_one(problem)]);
    let restarts = (RESTARTED / (problem.work.len() as u64).max(1)).clamp(RESTARTS.0, RESTARTS.1);
    let random = (0..restarts).map(|seed| starts::random(problem, seed));
    let count = 4 + restarts;
    for (n, start) in firsts.chain(random).enumerate() {
        if steps == 0 {
            break;
        }
        // Each start may use an equal part of the steps that earlier starts left.
        let mut part = (steps / (count - n as u64).max(1)).max(1);
        let before = part;
        refinement.begin(&start);
        refinement.run(&mut part);
        steps -= before - part;
        let found = refinement.places();
        let period = problem.period(found);
        if best.as_ref().is_none_or(|best| period < best.period) {
            best = Some(Mapping { places: found.to_vec(), period });
        }
    }
    best
}
