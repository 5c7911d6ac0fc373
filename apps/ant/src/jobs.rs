//! The problem: jobs for one machine, which executes one after the other. A job that ends after its due date
//! costs its weight for each unit of time.

use crate::random::Random;

/// A job: its length, its weight, and when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    time: i64,
    weight: i64,
    due: i64,
}

impl Job {
    /// The cost of the job if it ends at this time.
    pub fn cost(self, end: i64) -> i64 {
        self.weight * (end - self.due).max(0)
    }
}

/// All jobs of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jobs(Vec<Job>);

/// The upper bound of a problem's numbers, so that no sum over a million jobs overflows.
const NUMBER_END: i64 = 1 << 20;
/// The maximal number of jobs, which bounds the memory for their trails.
const JOBS_MAX: usize = 5_000;
/// The maximal distance over which a job is moved.
const REACH: usize = 24;
/// The maximal number of passes that improve an order.
const PASSES: usize = 50;
/// The number of mean job lengths by which the machine looks ahead for urgent jobs.
const FORESIGHT: f64 = 2.0;

impl Jobs {
    /// Makes the jobs from three numbers each.
    ///
    /// # Errors
    /// When the lists differ in length, are empty or too long, or contain a number outside of 0 to a million.
    pub fn new(times: &[i64], weights: &[i64], due: &[i64]) -> Result<Jobs, String> {
        let (count, counts) = (times.len(), [times.len(), weights.len(), due.len()]);
        if counts != [count; 3] || !(1..=JOBS_MAX).contains(&count) {
            return Err(format!(
                "{counts:?} times, weights and dates: from 1 to {JOBS_MAX} jobs have each of them"
            ));
        }
        if let Some(wrong) =
            [times, weights, due].concat().iter().find(|number| !(0..NUMBER_END).contains(*number))
        {
            return Err(format!("{wrong} is no time, weight or date: all are from 0 to {}", NUMBER_END - 1));
        }
        let job = |index: usize| Job { time: times[index], weight: weights[index], due: due[index] };
        Ok(Jobs((0..count).map(job).collect()))
    }

    /// The jobs that these numbers are: all times, then all weights, then all dates.
    ///
    /// # Errors
    /// The errors of [`Jobs::new`].
    pub fn of(numbers: &[i64]) -> Result<Jobs, String> {
        let (times, rest) = numbers.split_at(numbers.len() / 3);
        let (weights, due) = rest.split_at(times.len());
        Jobs::new(times, weights, due)
    }

    /// The number of jobs.
    #[expect(clippy::len_without_is_empty, reason = "a problem has a job at least")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The cost of this order: the total weighted tardiness.
    pub fn cost(&self, order: &[u32]) -> i64 {
        let mut end = 0;
        order.iter().fold(0, |cost, job| {
            end += self.job(*job).time;
            cost + self.job(*job).cost(end)
        })
    }

    /// An initial order, in which the most urgent of the waiting jobs is always next (the apparent
    /// tardiness cost of Vepsalainen and Morton, 1987).
    pub fn by_urgency(&self) -> Vec<u32> {
        let mut waiting: Vec<u32> = (0..self.len() as u32).collect();
        let (mut order, mut now) = (Vec::with_capacity(self.len()), 0);
        while !waiting.is_empty() {
            let urgencies = waiting.iter().map(|job| self.urgency(*job, now)).enumerate();
            let (next, _) = urgencies.max_by(|one, other| one.1.total_cmp(&other.1)).expect("one waits");
            let job = waiting.remove(next);
            now += self.time(job);
            order.push(job);
        }
        order
    }

    /// The urgency of a job when the machine is free: its weight divided by its length, less if its due date
    /// is far.
    pub fn urgency(&self, job: u32, now: i64) -> f64 {
        let job = self.job(job);
        let mean = self.0.iter().map(|job| job.time).sum::<i64>() as f64 / self.len() as f64;
        let slack = (job.due - job.time - now).max(0) as f64 / (FORESIGHT * mean.max(1.0));
        job.weight as f64 / job.time.max(1) as f64 * (-slack).exp()
    }

    /// A job's length.
    pub fn time(&self, job: u32) -> i64 {
        self.job(job).time
    }

    /// Moves single jobs to places where they cost less, until no move helps or the limit of passes is
    /// reached.
    pub fn improve(&self, order: &mut [u32]) {
        for _ in 0..PASSES {
            if !(self.move_back(order) | self.move_forward(order)) {
                break;
            }
        }
    }

    /// Moves the job at one place to the place where it costs least.
    pub fn leap(&self, order: &mut [u32], from: usize) {
        let (start, whole) = (order[..from].iter().map(|job| self.time(*job)).sum::<i64>(), order.len());
        if let Some(to) = self.better_later(order, from, start, whole) {
            order[from..=to].rotate_left(1);
        } else if let Some(to) = self.better_earlier(order, from, start + self.time(order[from]), whole) {
            order[to..=from].rotate_right(1);
        }
    }

    /// Tries to move each job to a later place; returns whether that helped.
    fn move_back(&self, order: &mut [u32]) -> bool {
        let (mut helped, mut start) = (false, 0);
        for from in 0..order.len() {
            if let Some(to) = self.better_later(order, from, start, REACH) {
                order[from..=to].rotate_left(1);
                helped = true;
            }
            start += self.time(order[from]);
        }
        helped
    }

    /// Tries to move each job to an earlier place; returns whether that helped.
    fn move_forward(&self, order: &mut [u32]) -> bool {
        let mut helped = false;
        let mut end = order.iter().map(|job| self.time(*job)).sum();
        for from in (0..order.len()).rev() {
            if let Some(to) = self.better_earlier(order, from, end, REACH) {
                order[to..=from].rotate_right(1);
                helped = true;
            }
            end -= self.time(order[from]);
        }
        helped
    }

    /// The later place that saves most for the job that begins at `start`.
    fn better_later(&self, order: &[u32], from: usize, start: i64, reach: usize) -> Option<usize> {
        let moved = self.job(order[from]);
        let mut end = start + moved.time;
        let (before, mut others) = (moved.cost(end), 0);
        let mut best = (0, None);
        for (to, job) in order.iter().enumerate().skip(from + 1).take(reach) {
            let job = self.job(*job);
            end += job.time;
            others += job.cost(end - moved.time) - job.cost(end);
            best = best.min((others + moved.cost(end) - before, Some(to)));
        }
        best.1.filter(|_| best.0 < 0)
    }

    /// The earlier place that saves most for the job that ends at `end`.
    fn better_earlier(&self, order: &[u32], from: usize, end: i64, reach: usize) -> Option<usize> {
        let moved = self.job(order[from]);
        let (before, mut others) = (moved.cost(end), 0);
        let mut start = end - moved.time;
        let mut best = (0, None);
        for to in (from.saturating_sub(reach)..from).rev() {
            let job = self.job(order[to]);
            others += job.cost(start + moved.time) - job.cost(start);
            start -= job.time;
            best = best.min((others + moved.cost(start + moved.time) - before, Some(to)));
        }
        best.1.filter(|_| best.0 < 0)
    }

    /// The job of this number.
    pub fn job(&self, job: u32) -> Job {
        self.0[job as usize]
    }
}

/// The times, weights and due dates of a random problem, with distributions like those of the OR-Library
/// (Crauwels, Potts and Van Wassenhove, 1998): times up to 100, weights up to 10, dates in the middle of
/// the total time, so that about three of five jobs are late.
pub fn drawn(jobs: usize, seed: u64) -> [Vec<i64>; 3] {
    let mut random = Random::of([seed, jobs as u64, 0]);
    let mut numbers = |least: i64, most: i64| -> Vec<i64> {
        (0..jobs).map(|_| least + random.below((most - least + 1).cast_unsigned()).cast_signed()).collect()
    };
    let (times, weights) = (numbers(1, 100), numbers(1, 10));
    let all: i64 = times.iter().sum();
    let due = numbers(all / 5, all * 3 / 5);
    [times, weights, due]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_costs_what_is_late() {
        let jobs = Jobs::new(&[3, 2, 4], &[1, 5, 2], &[3, 4, 6]).expect("a problem");
        assert_eq!(jobs.cost(&[0, 1, 2]), 5 + 6);
        assert_eq!(jobs.cost(&[1, 0, 2]), 2 + 6);
        assert_eq!(jobs.cost(&[2, 1, 0]), 10 + 6);
    }

    #[test]
    fn what_is_improved_costs_no_more_and_has_every_job() {
        for seed in 0..50 {
            let [times, weights, due] = drawn(60, seed);
            let jobs = Jobs::new(&times, &weights, &due).expect("a problem");
            let mut order: Vec<u32> = (0..60).collect();
            let before = jobs.cost(&order);
            jobs.improve(&mut order);
            assert!(jobs.cost(&order) < before);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..60));
        }
    }

    #[test]
    fn without_dates_the_best_order_is_smiths() {
        let [times, weights, _] = drawn(300, 1);
        let jobs = Jobs::new(&times, &weights, &[0; 300]).expect("a problem");
        let mut smiths: Vec<u32> = (0..300).collect();
        smiths.sort_by(|one, other| jobs.urgency(*other, 0).total_cmp(&jobs.urgency(*one, 0)));
        assert_eq!(jobs.cost(&jobs.by_urgency()), jobs.cost(&smiths));
    }

    #[test]
    fn what_is_no_problem_is_refused() {
        for (times, weights, due) in [
            (&[1, 2][..], &[1][..], &[1, 2][..]),
            (&[], &[], &[]),
            (&[-1], &[1], &[1]),
            (&[1], &[NUMBER_END], &[1]),
        ] {
            assert!(Jobs::new(times, weights, due).is_err(), "{times:?}");
        }
    }
}
