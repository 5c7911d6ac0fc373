//! The colony: trails that record the places of jobs in good orders, and ants that follow them (Dorigo and
//! Gambardella, Ant Colony System, 1997; for this problem Bauer and others, 1999, and Merkle and
//! Middendorf, 2000, whose sums of trails let a job that missed its place come soon after).

use crate::jobs::Jobs;
use crate::random::Random;

/// The number of jobs among which an ant chooses: the next ones in the best order.
const CHOICE: usize = 24;
/// The mean number of times that an ant leaves the strongest trail.
const EXPLORED: f64 = 8.0;
/// The number of jobs that an ant, after its walk, tries at all other places of its order.
const LEAPS: usize = 16;
/// The share of its strength that a trail loses in a step, and the strength that the best order adds to its
/// trails.
const EVAPORATION: f32 = 0.1;
/// The least strength of a trail.
const REMAINS: f32 = 0.1;

/// The strength of each job's trail at each place of the order. The numbers are one array, which records can
/// carry to other machines: the strength of each trail, with a row for each place and a number for each job;
/// the sums of the strengths up to each place; and the order of jobs along which the trails were strengthened
/// last.
#[derive(Clone, Debug)]
pub struct Trails<N> {
    numbers: N,
    /// The number of jobs.
    count: usize,
}

impl Trails<Vec<f32>> {
    /// Trails of equal strength, with an order in which the ants choose.
    pub fn new(order: &[u32]) -> Trails<Vec<f32>> {
        let count = order.len();
        let mut numbers = vec![1.0 / count as f32; count * count];
        numbers.resize(2 * count * count, 0.0);
        numbers.extend(order.iter().map(|job| *job as f32));
        let mut trails = Trails { numbers, count };
        trails.add_up();
        trails
    }

    /// The numbers of the trails.
    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }
}

impl<N: AsRef<[f32]>> Trails<N> {
    /// The trails of this number of jobs that these numbers are; `None`: they are no trails.
    pub fn of(numbers: N, count: usize) -> Option<Trails<N>> {
        let all = numbers.as_ref();
        let is_job = |number: &f32| (0.0..count as f32).contains(number);
        let are_trails =
            all.len() == 2 * count * count + count && all[2 * count * count..].iter().all(is_job);
        are_trails.then_some(Trails { numbers, count })
    }

    /// Lets an ant walk along the trails, and returns its order of the jobs.
    pub fn walk(&self, jobs: &Jobs, mut random: Random) -> Vec<u32> {
        let (count, numbers) = (self.count, self.numbers.as_ref());
        let mut coming = numbers[2 * count * count..].iter().map(|job| *job as u32);
        let mut choice: Vec<u32> = coming.by_ref().take(CHOICE).collect();
        let (mut order, mut now) = (Vec::with_capacity(count), 0);
        for sums in numbers[count * count..2 * count * count].chunks_exact(count) {
            let next = if random.share() < EXPLORED / count as f64 {
                explored(
                    &choice,
                    |job| f64::from(sums[job as usize]) * jobs.urgency(job, now),
                    random.share(),
                )
            } else {
                strongest(&choice, sums)
            };
            let job = choice.remove(next);
            choice.extend(coming.next());
            now += jobs.time(job);
            order.push(job);
        }
        (0..LEAPS).for_each(|_| jobs.leap(&mut order, random.below(count as u64) as usize));
        jobs.improve(&mut order);
        order
    }
}

impl<N: AsMut<[f32]>> Trails<N> {
    /// Ends a step: all trails get weaker, and `order` strengthens its own.
    pub fn mark(&mut self, order: &[u32]) {
        let count = self.count;
        let least = REMAINS / count as f32;
        let (strengths, rest) = self.numbers.as_mut().split_at_mut(count * count);
        for strength in &mut *strengths {
            *strength = (*strength * (1.0 - EVAPORATION)).max(least);
        }
        for (row, job) in strengths.chunks_exact_mut(count).zip(order) {
            row[*job as usize] += EVAPORATION;
        }
        rest[count * count..].iter_mut().zip(order).for_each(|(last, job)| *last = *job as f32);
        self.add_up();
    }

    fn add_up(&mut self) {
        let count = self.count;
        let (strengths, rest) = self.numbers.as_mut().split_at_mut(count * count);
        let sums = &mut rest[..count * count];
        sums[..count].copy_from_slice(&strengths[..count]);
        for place in 1..count {
            let (before, from_here) = sums.split_at_mut(place * count);
            let before = &before[(place - 1) * count..];
            let strengths = &strengths[place * count..];
            for ((sum, before), strength) in from_here.iter_mut().zip(before).zip(strengths).take(count) {
                *sum = before + strength;
            }
        }
    }
}

/// The first place at which the trail is strongest.
fn strongest(choice: &[u32], sums: &[f32]) -> usize {
    let sum = |at: usize| sums[choice[at] as usize];
    (1..choice.len()).fold(0, |best, at| if sum(at) > sum(best) { at } else { best })
}

/// A random place, with probabilities in proportion to the weights; `lot` is a random number from 0 to 1.
fn explored(choice: &[u32], weight: impl Fn(u32) -> f64, lot: f64) -> usize {
    let weights: Vec<f64> = choice.iter().map(|job| weight(*job)).collect();
    let mut left = lot * weights.iter().sum::<f64>();
    let mut passed = |weight: &f64| {
        left -= weight;
        left >= 0.0
    };
    weights.iter().take_while(|weight| passed(weight)).count().min(choice.len() - 1)
}

/// The network's algorithm as a loop: returns the best order of `ants` ants in `steps` steps, and its cost.
pub fn solve(jobs: &Jobs, ants: u64, steps: u64, seed: u64) -> (i64, Vec<u32>) {
    let order = jobs.by_urgency();
    let mut trails = Trails::new(&order);
    let mut best = (jobs.cost(&order), order);
    for left in (1..=steps).rev() {
        let found = (1..=ants).map(|ant| trails.walk(jobs, Random::of([seed, left, ant])));
        let found = found.map(|order| (jobs.cost(&order), order)).min_by_key(|(cost, _)| *cost);
        best = found.filter(|(cost, _)| *cost < best.0).unwrap_or(best);
        trails.mark(&best.1);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lots_fall_by_weight() {
        let weight = |job: u32| f64::from(job);
        for (lot, place) in [(0.0, 0), (0.24, 0), (0.26, 1), (0.999_999, 1)] {
            assert_eq!(explored(&[1, 3], weight, lot), place, "{lot}");
        }
        assert_eq!(explored(&[5, 5], |_| 0.0, 0.5), 1, "without weights the last");
    }

    #[test]
    fn ants_follow_what_was_marked() {
        let [times, weights, due] = crate::jobs::drawn(40, 3);
        let jobs = Jobs::new(&times, &weights, &due).expect("a problem");
        let mut marked = jobs.by_urgency();
        jobs.improve(&mut marked);
        let mut trails = Trails::new(&marked);
        (0..100).for_each(|_| trails.mark(&marked));
        let sums = trails.numbers()[40 * 40..2 * 40 * 40].chunks_exact(40);
        let followed: Vec<u32> = sums
            .zip(&marked)
            .map(|(sums, _)| sums)
            .enumerate()
            .map(|(at, sums)| {
                let choice: Vec<u32> = marked[at..].to_vec();
                choice[strongest(&choice, sums)]
            })
            .collect();
        assert_eq!(followed, marked);
    }
}
