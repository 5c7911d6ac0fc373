//! Which task belongs on which worker: what a mapping costs, and the search for a cheap one.
//!
//! **Model.** A task `i` has the work `w_i` (processor time per second, or per input message: any unit, the same for all). What task `i`
//! sends to task `j` is the traffic `f_ij`. On a mapping `m`, worker `u` of speed `s_u` bears
//!
//! ```text
//! L_u = ( Σ_{m(i)=u} w_i + c · Σ_{m(i)=u, m(j)≠u} (f_ij + f_ji) ) / s_u
//! P   = max( max_u L_u, Σ_u L_u / p ) + κ · Σ_{m(i)≠m(j)} f_ij
//! ```
//!
//! with `c` what each end pays for a message that crosses, `κ` what a crossing delays the flow although nobody is busy (waking a
//! worker that sleeps), and `p` the processors that the workers share. `P` is the period: what one unit of input takes.
//!
//! **Search.** Refinement that is driven by the bottleneck: from longest-first, a cut along the streams, all on one worker, the present
//! mapping and random ones, the best move, pair move or swap is made that lowers `P + 0.001 · rms(L)`, until none does. The family is that of
//! Nguyen and Kirner's congestion avoidance (TPDS 2016). What it may spend is bounded, so it ends in time for a million tasks.

mod refine;
mod starts;
#[cfg(test)]
mod tests;

use refine::Refinement;

/// Weight of the spread of loads: among mappings of the same period the even one is better.
const RMS: f64 = 0.001;
/// Elementary steps that a search may take: less than a tenth of a second.
const STEPS: u64 = 6_000_000;
/// Random mappings that are refined, too, while there are steps left.
const RESTARTS: u64 = 8;

/// What tasks cost, which sends to which, and what there is to place them on.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// The work of each task.
    pub work: Vec<f64>,
    /// How much each task sends to each other one.
    pub links: Vec<Link>,
    /// The speed of each worker; 1 is that at which the work was measured.
    pub speeds: Vec<f64>,
    /// What each of two workers pays for a unit of traffic between them.
    pub crossing: f64,
    /// By how much a unit of traffic between workers delays the flow.
    pub delay: f64,
    /// Workers that can run at the same time.
    pub processors: f64,
    /// Tasks that stay where they are, and where that is; shorter than `work`: the others may go anywhere.
    pub fixed: Vec<Option<u32>>,
}

/// Traffic from a task to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The task that writes.
    pub from: u32,
    /// The task that reads.
    pub to: u32,
    /// Messages, in the same unit as the work.
    pub traffic: f64,
}

/// A mapping and what it is expected to cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// The worker of each task.
    pub places: Vec<u32>,
    /// Its period.
    pub period: f64,
}

impl Problem {
    /// The period of a mapping; infinite where it does not fit the problem.
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

    /// The period of these loads, with so much traffic between workers.
    fn period_of(&self, loads: &[f64], cut: f64) -> f64 {
        let most = loads.iter().copied().fold(0.0, f64::max);
        let shared = loads.iter().sum::<f64>() / self.processors.max(1.0);
        most.max(shared) + self.delay * cut
    }

    /// The worker on which a task has to stay.
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

/// The best mapping found, starting also from `present` where that is one. None where the problem makes no sense (a NaN, a worker
/// without speed, a link to a task that does not exist).
///
/// The same problem gives the same mapping.
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
    let random = (0..RESTARTS).map(|seed| starts::random(problem, seed));
    let count = 4 + RESTARTS;
    for (n, start) in firsts.chain(random).enumerate() {
        if steps == 0 {
            break;
        }
        // Each may spend its part, and what those before it left.
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
