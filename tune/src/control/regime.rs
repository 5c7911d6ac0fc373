//! Detects that a run behaves differently from before, by the test of Page and Hinkley for a change of the
//! mean (Page, Biometrika 1954).
//!
//! The test uses the logarithms `x_k` of the scores, with their mean `m` so far and their scatter `s` from
//! one to the next. The test sums `u_k = max(0, u_{k-1} + (x_k − m) − δ)` for changes upwards, and a mirrored
//! sum for changes downwards. If a sum exceeds `λ` the regime has changed, where `δ = max(3 %, s/2)` and `λ =
//! max(20 %, 6 s)`. Therefore a step of 30 % is seen within two or three windows, and noise is not.

/// The number of windows after which a regime counts as stable.
pub(super) const STABLE: usize = 3;
/// The least change of the mean that counts as a change.
const DELTA: f64 = 0.03;
/// The least threshold of the sums, above which the regime has changed.
const LAMBDA: f64 = 0.2;
/// The scatter is the mean of so many steps.
const STEPS: f64 = 16.0;
/// A greater loss is never taken for chance.
const LOSS_MAX: f64 = 0.6;
/// If at least this fraction of the work moves to other components, the regime has changed, whatever the
/// score.
const SHIFT: f64 = 0.25;

/// Whether so much of the work moved to other components that the regime is another one.
pub(super) fn is_other_work(shift: f64) -> bool {
    shift > SHIFT
}

/// In what a new regime differs from the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Other {
    /// The score is so many times the mean of the former regime.
    Score(f64),
    /// This fraction of the work is done by other components.
    Work(f64),
}

/// Watches for changes of the regime.
#[derive(Clone, Debug, Default)]
pub(super) struct Regime {
    count: usize,
    mean: f64,
    last: f64,
    /// The mean size of a step from one score to the next, and the number of steps of which it is the mean.
    scatter: f64,
    steps: usize,
    up: f64,
    down: f64,
    /// Whether the regime was compared with something else a moment ago.
    is_known: bool,
}

impl Regime {
    /// Adds a score. Returns what is different if the regime changed; the present window is then the first one of the
    /// new regime.
    pub(super) fn take(&mut self, score: f64, shift: f64) -> Option<Other> {
        let x = score.ln();
        if self.count == 0 {
            let is_known = self.is_known;
            *self = Regime { count: 1, mean: x, last: x, is_known, ..self.scattering() };
            return None;
        }
        if is_other_work(shift) && self.count >= STABLE {
            *self = Regime { count: 1, mean: x, last: x, ..self.scattering() };
            return Some(Other::Work(shift));
        }
        let before = self.mean;
        let step = (x - self.last).abs();
        // A step counts towards the scatter with at most twice the scatter so far; otherwise the first large
        // step would raise the scatter so much that it would not be noticed.
        let believed = if self.steps < STABLE { step } else { step.min(2.0 * self.scatter.max(DELTA)) };
        self.steps += 1;
        let weight = 1.0 / (self.steps as f64).min(STEPS);
        let delta = DELTA.max(self.scatter / 2.0);
        let lambda = LAMBDA.max(6.0 * self.scatter);
        self.up = (self.up + (x - self.mean) - delta).max(0.0);
        self.down = (self.down - (x - self.mean) - delta).max(0.0);
        self.scatter += weight * (believed - self.scatter);
        self.count += 1;
        self.mean += (x - self.mean) / (self.count as f64).min(64.0);
        self.last = x;
        if self.up.max(self.down) > lambda && self.count > STABLE {
            *self = Regime { count: 1, mean: x, last: x, ..self.scattering() };
            return Some(Other::Score((x - before).exp()));
        }
        None
    }

    /// How a score compares with the mean so far.
    pub(super) fn other(&self, score: f64) -> Other {
        Other::Score((score.ln() - self.mean).exp())
    }

    /// Whether the regime has been stable for long enough for comparisons.
    pub(super) fn is_stable(&self) -> bool {
        self.count >= if self.is_known { 1 } else { STABLE }
    }

    /// Whether a score is so far from the mean that it indicates another regime.
    pub(super) fn is_left_by(&self, score: f64) -> bool {
        self.count > 0 && (score.ln() - self.mean).abs() > LAMBDA.max(6.0 * self.scatter)
    }

    /// The loss from one window to another that hardly occurs by chance, as a fraction, by the scatter of the scores.
    pub(super) fn loss_by_chance(&self) -> f64 {
        (-(-4.0 * self.scatter).exp_m1()).min(LOSS_MAX)
    }

    /// Whether two scores deviate from the mean in the same direction.
    pub(super) fn are_on_one_side(&self, score: f64, other: f64) -> bool {
        (score.ln() - self.mean) * (other.ln() - self.mean) > 0.0
    }

    /// A regime without scores, in a run of which the scatter is known.
    fn scattering(&self) -> Regime {
        Regime { scatter: self.scatter, steps: self.steps, ..Regime::default() }
    }

    /// Restarts the statistics in the same regime, because the tuner's own change moved the mean.
    pub(super) fn restart(&mut self) {
        *self = self.scattering();
    }

    /// Restarts the statistics after a trial in which the run was as it is now again. Therefore a single window shows
    /// that it is stable.
    pub(super) fn resume(&mut self) {
        *self = Regime { is_known: true, ..self.scattering() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;

    fn noise(chance: &mut Chance) -> f64 {
        1.0 + 0.06 * (chance.uniform() + chance.uniform() - 1.0)
    }

    #[test]
    fn a_step_is_seen_soon_and_noise_is_not() {
        let mut false_alarms = 0;
        for seed in 0..40 {
            let mut chance = Chance::new(seed);
            let mut regime = Regime::default();
            false_alarms +=
                (0..300).filter(|_| regime.take(1000.0 * noise(&mut chance), 0.0).is_some()).count();
            assert!(regime.is_stable());
            let factor = chance.of(&[0.6, 1.5]);
            let seen =
                (0..6).find_map(|n| Some((n, regime.take(1000.0 * factor * noise(&mut chance), 0.0)?)));
            let is_right = |(windows, other)| match other {
                Other::Score(times) => windows <= 3 && (0.8..1.25).contains(&(times / factor)),
                Other::Work(_) => false,
            };
            assert!(seen.is_some_and(is_right), "seed {seed}: {seen:?}");
            assert!(!regime.is_stable());
        }
        assert!(false_alarms <= 4, "{false_alarms} in 12,000 windows");
    }

    #[test]
    fn work_that_is_done_elsewhere_is_another_regime() {
        let mut regime = Regime::default();
        assert!((0..10).all(|_| regime.take(1000.0, 0.02).is_none()));
        assert_eq!(regime.take(1000.0, 0.6), Some(Other::Work(0.6)));
    }
}
