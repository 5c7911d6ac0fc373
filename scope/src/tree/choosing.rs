//! Chooses the shape of a scope by trials during pulls that are made anyway.
//!
//! From time to time some pulls are made in a neighbouring shape, and their processor time per tuple is
//! compared with that of the best known shape. If a pull takes too long for the requested rate, elapsed times
//! are compared instead, as long as the scope's limit of processor time permits. After trials without an
//! improvement, trials become more and more rare.

use super::shape::Shape;
use std::time::Instant;

/// The number of pulls in a trial.
const TRIAL_PULLS: u32 = 4;
/// The least number of pulls between two trials; `PAUSE_MAX` is the greatest.
const PAUSE_MIN: u32 = 16;
const PAUSE_MAX: u32 = 1024;
/// A shape is better only if its cost is less than this share of the cost of the best shape so far.
const BETTER: f64 = 0.93;
/// Pulls of fewer tuples are not used to compare shapes.
const TUPLES_MIN: u64 = 64;
/// The share of the time between two pulls that a pull may take before elapsed times are compared.
const HURRY: f64 = 0.5;

/// The times of a pull.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    pub(crate) tuples: u64,
    /// Processor time.
    pub(crate) cost_ns: u64,
    /// The elapsed time of the pull; the next field is the time from its begin to that of the next pull.
    pub(crate) passed_ns: u64,
    pub(crate) between_ns: u64,
}

/// Chooses a shape.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    best: Shape,
    /// The sum over the latest pulls in the best shape.
    usual: Sum,
    trial: Option<(Shape, Sum)>,
    /// The number of pulls until the next trial; the next field is the number between two trials.
    left: u32,
    pause: u32,
    /// The index of the neighbouring shape that is tried next.
    turn: usize,
    processors: usize,
}

/// Chooses the shape of each pull from the times of those before it.
#[derive(Clone, Debug)]
pub(crate) struct Choosing {
    chooser: Chooser,
    /// When the last pull began, and its times.
    last: Option<(Instant, Took)>,
}

impl Default for Choosing {
    fn default() -> Choosing {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Choosing { chooser: Chooser::new(processors), last: None }
    }
}

impl Choosing {
    /// Begins a pull and returns its shape. Measures the time since the last pull began. The scope may use
    /// the share `allowed` of the time of one processor.
    pub(crate) fn begin(&mut self, now: Instant, allowed: f64) -> Shape {
        if let Some((began, took)) = self.last.take() {
            let between_ns = now.duration_since(began).as_nanos() as u64;
            self.chooser.learn(Took { between_ns, ..took }, allowed);
        }
        self.last = Some((now, Took::default()));
        self.chooser.shape()
    }

    /// Ends a pull that read `tuples` tuples in `cost_ns` of processor time.
    pub(crate) fn end(&mut self, now: Instant, tuples: u64, cost_ns: u64) {
        if let Some((began, took)) = &mut self.last {
            let passed_ns = now.saturating_duration_since(*began).as_nanos() as u64;
            *took = Took { tuples, cost_ns, passed_ns, between_ns: 0 };
        }
    }
}

/// The number of some pulls, and the sum of their times.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    pulls: u32,
    took: Took,
}

impl Sum {
    fn add(&mut self, took: Took) {
        self.pulls += 1;
        self.took.tuples += took.tuples;
        self.took.cost_ns += took.cost_ns;
        self.took.passed_ns += took.passed_ns;
        self.took.between_ns += took.between_ns;
    }

    /// Whether a pull takes too much of the time between two pulls.
    fn is_in_a_hurry(&self) -> bool {
        self.took.passed_ns as f64 > HURRY * self.took.between_ns as f64
    }

    fn of_a_tuple(&self, ns: u64) -> f64 {
        ns as f64 / self.took.tuples.max(1) as f64
    }
}

impl Chooser {
    pub(crate) fn new(processors: usize) -> Chooser {
        let (best, usual) = (Shape::default(), Sum::default());
        Chooser { best, usual, trial: None, left: PAUSE_MIN, pause: PAUSE_MIN, turn: 0, processors }
    }

    /// The shape of the next pull.
    pub(crate) fn shape(&self) -> Shape {
        self.trial.map_or(self.best, |(shape, _)| shape)
    }

    /// Learns from the times of a pull in this shape; the scope may use the share `allowed` of the time of
    /// one processor.
    pub(crate) fn learn(&mut self, took: Took, allowed: f64) {
        if took.tuples < TUPLES_MIN || took.between_ns == 0 {
            return;
        }
        if let Some((shape, mut sum)) = self.trial {
            sum.add(took);
            self.trial = Some((shape, sum));
            if sum.pulls == TRIAL_PULLS {
                self.judge(shape, sum, allowed);
            }
            return;
        }
        // Only the latest pulls count, because the number of tuples changes.
        if self.usual.pulls >= self.pause.min(4 * PAUSE_MIN) {
            self.usual = Sum::default();
        }
        self.usual.add(took);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 && self.usual.pulls >= TRIAL_PULLS {
            let others = self.neighbours();
            self.turn = self.turn.wrapping_add(1) % others.len();
            self.trial = Some((others[self.turn], Sum::default()));
        }
    }

    fn judge(&mut self, shape: Shape, tried: Sum, allowed: f64) {
        let of = |sum: &Sum| {
            let hurries = self.usual.is_in_a_hurry();
            sum.of_a_tuple(if hurries { sum.took.passed_ns } else { sum.took.cost_ns })
        };
        let of_a_pull = |sum: &Sum| sum.took.cost_ns as f64 / f64::from(sum.pulls.max(1));
        let is_affordable = tried.took.cost_ns as f64 <= allowed * tried.took.between_ns as f64
            || of_a_pull(&tried) <= of_a_pull(&self.usual);
        let is_better = of(&tried) < BETTER * of(&self.usual) && is_affordable;
        self.trial = None;
        if is_better {
            (self.best, self.usual, self.pause) = (shape, tried, PAUSE_MIN);
            // After an improvement the same parameter is changed again.
            self.turn = self.turn.wrapping_sub(1);
        } else {
            self.pause = (self.pause * 5 / 4).min(PAUSE_MAX);
        }
        self.left = self.pause;
    }

    /// The shapes that differ from the best one in one parameter.
    fn neighbours(&self) -> Vec<Shape> {
        let best = self.best;
        let (more, fewer) = ((2 * best.threads).min(self.processors), (best.threads / 2).max(1));
        let all = [
            Shape { batch: best.batch * 4, ..best },
            Shape { batch: (best.batch / 4).max(256), ..best },
            Shape { fan_out: best.fan_out * 4, ..best },
            Shape { fan_out: (best.fan_out / 4).max(4), ..best },
            Shape { threads: more, ..best },
            Shape { threads: fewer, ..best },
        ];
        let clamped = all.into_iter().map(Shape::clamped);
        clamped.filter(|shape| *shape != best && shape.batch <= 1 << 16 && shape.fan_out <= 1024).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses a shape for modelled pulls, given their costs by shape, the time between pulls, and the share
    /// of a processor that they may use.
    fn chosen(between_ns: u64, allowed: f64, cost: impl Fn(Shape) -> (f64, f64)) -> (Shape, u32) {
        let mut chooser = Chooser::new(8);
        let mut trials = 0;
        for _ in 0..3000 {
            let shape = chooser.shape();
            trials += u32::from(chooser.trial.is_some());
            let (cost, passed) = cost(shape);
            let took = Took { tuples: 1000, cost_ns: cost as u64, passed_ns: passed as u64, between_ns };
            chooser.learn(took, allowed);
        }
        (chooser.best, trials)
    }

    #[test]
    fn the_cheapest_shape_is_found_with_few_trials() {
        let near = |value: usize, best: usize| ((value as f64 / best as f64).log2().abs() + 1.0) * 10_000.0;
        let cost = |shape: Shape| {
            let cost = near(shape.batch, 16_384) + near(shape.fan_out, 64) + 5_000.0 * shape.threads as f64;
            (cost, cost / shape.threads as f64)
        };
        let (best, trials) = chosen(1_000_000_000, 0.01, cost);
        assert_eq!((best.batch, best.fan_out, best.threads), (16_384, 64, 1));
        assert!(trials < 300, "{trials} of 3000 pulls were trials");
    }

    #[test]
    fn threads_are_taken_when_time_is_short_and_only_as_the_price_allows() {
        let cost = |shape: Shape| {
            let cost = 900_000.0 + 20_000.0 * shape.threads as f64;
            (cost, cost / shape.threads as f64)
        };
        // With a pull each millisecond, one thread needs nearly all of the time.
        assert!(chosen(1_000_000, 8.0, cost).0.threads > 1);
        assert_eq!(chosen(1_000_000, 0.5, cost).0.threads, 1, "not for more than is allowed");
        assert_eq!(chosen(1_000_000_000, 8.0, cost).0.threads, 1, "there is time");
    }

    #[test]
    fn pulls_of_nothing_choose_nothing() {
        let mut chooser = Chooser::new(8);
        for _ in 0..1000 {
            chooser.learn(Took { tuples: 3, cost_ns: 100, passed_ns: 100, between_ns: 1000 }, 1.0);
        }
        assert_eq!(chooser.shape(), Shape::default());
    }
}
