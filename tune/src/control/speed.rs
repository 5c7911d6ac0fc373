//! Takes out of a score what the speed of the machine did to it.
//!
//! The processors of a virtual machine may work 10 % faster in one window than in the next. The score of a run that
//! computes all the time changes as much, and that of a run with slow input does not. Therefore the speed is a
//! control variate (Lavenberg and Welch, Management Science 27, 1981): how much of it shows in the score is the slope
//! of the logarithms, `b = Σ dx · dv / Σ dv²`, where `dx` and `dv` are the differences of score and speed between windows
//! that follow each other and have the same settings. The score without it is `x − b · (v − mean v)`.

/// The slope before anything was measured, the one of a run that computes all the time; and the sum of squared differences
/// of speed that this counts for, about as much as four windows of which each is 5 % faster or slower than the one before.
const SLOPE: f64 = 1.0;
const WEIGHT: f64 = 0.01;
/// A greater slope is not believed: a network in which messages queue is slower by more than the machine is.
const SLOPE_MAX: f64 = 1.5;
/// The factor by which the sums become less with each window.
const LASTS: f64 = 0.98;
/// The mean speed is that of the first windows, so many of them, and follows the speed slowly afterwards.
const FIRST: usize = 8;
const FOLLOWS: f64 = 1.0 / 64.0;

/// What was measured of the speed and of its effect.
#[derive(Clone, Debug, Default)]
pub(super) struct Speed {
    windows: usize,
    mean: f64,
    /// The logarithms of the score and the speed of the window before, if it had the same settings.
    before: Option<(f64, f64)>,
    /// The sums of `dx · dv` and `dv²`.
    both: f64,
    squares: f64,
}

impl Speed {
    /// The score that a window would have at the mean speed. `is_settled` says whether the window shows nothing of other
    /// settings; only such windows show what the speed does.
    pub(super) fn level(&mut self, score: f64, speed: f64, is_settled: bool) -> f64 {
        let before = self.before.take();
        if !(speed.is_finite() && speed > 0.0) {
            return score;
        }
        let (x, v) = (score.ln(), speed.ln());
        self.windows += 1;
        let follows = if self.windows <= FIRST { 1.0 / self.windows as f64 } else { FOLLOWS };
        self.mean += follows * (v - self.mean);
        if is_settled {
            if let Some((score, speed)) = before {
                let (dx, dv) = (x - score, v - speed);
                self.both = LASTS * self.both + dx * dv;
                self.squares = LASTS * self.squares + dv * dv;
            }
            self.before = Some((x, v));
        }
        (x - self.slope() * (v - self.mean)).exp()
    }

    /// Forgets the window before, because the settings are others now.
    pub(super) fn restart(&mut self) {
        self.before = None;
    }

    fn slope(&self) -> f64 {
        ((self.both + SLOPE * WEIGHT) / (self.squares + WEIGHT)).clamp(0.0, SLOPE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;

    /// The scatter of the scores of 100 windows, as they are and without what the speed did, when the score is the speed
    /// to the power `slope`, and scatters by `noise` besides.
    fn scatters(slope: f64, noise: f64) -> (f64, f64) {
        let (mut chance, mut speed) = (Chance::new(1), Speed::default());
        let scores = (0..200).map(|_| {
            let its = 0.8 + 0.2 * chance.uniform();
            let score = 1000.0 * its.powf(slope) * (1.0 + noise * (chance.uniform() - 0.5));
            (score.ln(), speed.level(score, its, true).ln())
        });
        let later: Vec<(f64, f64)> = scores.skip(100).collect();
        let scatter = |of: &dyn Fn(&(f64, f64)) -> f64| {
            let mean = later.iter().map(of).sum::<f64>() / 100.0;
            (later.iter().map(|it| (of(it) - mean).powi(2)).sum::<f64>() / 99.0).sqrt()
        };
        (scatter(&|it| it.0), scatter(&|it| it.1))
    }

    #[test]
    fn what_the_speed_does_is_taken_out_and_nothing_else_is_put_in() {
        let (raw, level) = scatters(1.0, 0.02);
        assert!(raw > 0.05 && level < 0.012, "{raw} {level}");
        // The score of a run with slow input does not depend on the speed.
        let (raw, level) = scatters(0.0, 0.02);
        assert!(raw < 0.0065 && level < 1.3 * raw, "{raw} {level}");
        let (raw, level) = scatters(0.5, 0.02);
        assert!(raw > 0.03 && level < 0.012, "{raw} {level}");
    }

    #[test]
    fn a_speed_that_is_no_number_changes_nothing() {
        let mut speed = Speed::default();
        for wrong in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            assert_eq!(speed.level(500.0, wrong, true).to_bits(), 500.0_f64.to_bits());
        }
        // A tuner that sees a wrong speed once sees right ones afterwards.
        let level = speed.level(500.0, 1.0, true);
        assert!((level - 500.0).abs() < 1e-9, "{level}");
    }

    #[test]
    fn a_gain_by_other_settings_is_no_effect_of_the_speed() {
        let mut speed = Speed::default();
        for n in 0..40 {
            // The settings change in each second window, and the speed is then higher by chance.
            let (score, its) = if n % 4 < 2 { (1000.0, 1.0) } else { (1200.0, 1.1) };
            if n % 2 == 0 {
                speed.restart();
            }
            speed.level(score, its, true);
        }
        assert!((speed.slope() - SLOPE).abs() < 1e-9, "{}", speed.slope());
    }
}
