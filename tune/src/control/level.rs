//! Estimates by how much a run is better with other values, from its windows with the former and with the new ones.
//!
//! The score of a window scatters, and its mean drifts. In some runs the windows scatter by 10 % and the mean stays where it is
//! for minutes; in others it is the other way round. Where the mean stays, all windows with the former values say what the new
//! ones must exceed, also those before the trial; where it drifts, only the windows next to each change do. The local
//! level model (Durbin and Koopman, Time Series Analysis by State Space Methods, 2012, chapter 2) covers both: the logarithm of the
//! score is
//!
//! ```text
//! y(t) = m(t) + g · (1 with the new values, otherwise 0) + e(t)        e ~ N(0, s² / length)
//! m(t) = m(t − 1) + d(t)                                               d ~ N(0, r · s² · time)
//! ```
//!
//! For a known ratio `r` a Kalman filter has the mean and the variance of `m` and `g` after each window. How much the mean drifts is
//! not known, so filters for several ratios run side by side, and their results count by their likelihoods (the static
//! multiple-model estimator of Magill, IEEE Transactions on Automatic Control 10, 1965).

use super::comparison::{Gain, LIKELY, SCATTER_MIN, Student};

/// The ratios of the variances by drift and by scatter, from one window to the next, and their number.
const RATIOS: [f64; COUNT] = [0.001, 0.01, 0.05, 0.25, 1.0];
const COUNT: usize = 5;
/// The length of the window that the ratios are for, in seconds.
const WINDOW: f64 = 0.15;
/// The variance of what is not known yet, as a multiple of that of a window.
const UNKNOWN: f64 = 1e4;
/// A window that is further from the expected score, in standard deviations, counts as if it were so far.
const FAR: f64 = 3.0;
/// The scatter before anything was measured, and for how many windows this counts.
const SCATTER: f64 = 0.03;
const COUNTS: f64 = 1.0;
/// The factor by which what was learned of the scatter counts less with each window.
const LASTS: f64 = 0.98;

/// One-sided at 97.5 %.
const SURE: Student =
    Student { few: [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228], many: 1.960 };

/// The state of a filter for one ratio. Variances are multiples of that of a window.
#[derive(Clone, Copy, Debug)]
struct Filter {
    ratio: f64,
    mean: f64,
    gain: f64,
    var_mean: f64,
    var_gain: f64,
    covariance: f64,
    /// The sums of the squared errors of the predictions, by their variances, and of the logarithms of these variances.
    squares: f64,
    logarithms: f64,
}

/// The mean and the variance of a gain that an earlier trial measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    mean: f64,
    variance: f64,
}

/// What is known of a run's mean score, and of the gain by the values that are on trial.
#[derive(Clone, Debug)]
pub(super) struct Level {
    filters: [Filter; COUNT],
    /// The number of windows that the sums are of.
    windows: f64,
    /// The end of the last window that was added.
    last: f64,
}

impl Default for Level {
    fn default() -> Level {
        let filter = |ratio| Filter {
            ratio,
            mean: 0.0,
            gain: 0.0,
            var_mean: UNKNOWN,
            var_gain: 0.0,
            covariance: 0.0,
            squares: COUNTS * SCATTER * SCATTER,
            logarithms: 0.0,
        };
        Level { filters: RATIOS.map(filter), windows: COUNTS, last: f64::NAN }
    }
}

impl Filter {
    /// Adds a window, after `gone` windows of the usual length; `noise` is its variance. Returns whether it says something
    /// about the scatter.
    fn add(&mut self, y: f64, is_on: bool, gone: f64, noise: f64, windows: f64) -> bool {
        self.var_mean = (self.var_mean + self.ratio * gone).min(UNKNOWN);
        let on = if is_on { 1.0 } else { 0.0 };
        let (with_mean, with_gain) =
            (self.var_mean + on * self.covariance, self.covariance + on * self.var_gain);
        let variance = with_mean + on * with_gain + noise;
        // Before anything is known, a window says nothing about the scatter.
        let is_first = variance > UNKNOWN / 2.0;
        let error = y - self.mean - on * self.gain;
        let far = FAR * (self.squares / windows * variance).sqrt();
        let error = if is_first { error } else { error.clamp(-far, far) };
        let (of_mean, of_gain) = (with_mean / variance, with_gain / variance);
        self.mean += of_mean * error;
        self.gain += of_gain * error;
        self.var_mean -= of_mean * with_mean;
        self.var_gain -= of_gain * with_gain;
        self.covariance -= of_mean * with_gain;
        (self.squares, self.logarithms) = (LASTS * self.squares, LASTS * self.logarithms);
        if !is_first {
            self.squares += error * error / variance;
            self.logarithms += variance.ln();
        }
        !is_first
    }

    fn begin(&mut self, known: Option<Known>, windows: f64) {
        self.covariance = 0.0;
        (self.gain, self.var_gain) = match known {
            Some(known) => (known.mean, known.variance * windows / self.squares),
            None => (0.0, UNKNOWN),
        };
    }

    fn end(&mut self, is_kept: bool) {
        if is_kept {
            self.mean += self.gain;
            self.var_mean += 2.0 * self.covariance + self.var_gain;
        }
        (self.gain, self.var_gain, self.covariance) = (0.0, 0.0, 0.0);
    }
}

impl Level {
    /// Adds the score of a window that ended at `at` and lasted `lasted` seconds; `is_on` says whether the new values were in force.
    pub(super) fn add(&mut self, score: f64, is_on: bool, at: f64, lasted: f64) {
        let y = score.ln();
        if !y.is_finite() {
            return;
        }
        let gone = if self.last.is_finite() { ((at - self.last) / WINDOW).max(0.0) } else { 0.0 };
        self.last = at;
        let before = self.windows;
        let noise = WINDOW / lasted.max(WINDOW / 4.0);
        // Whether the window is the first one does not depend on the ratio.
        let counts = self.filters.each_mut().map(|filter| filter.add(y, is_on, gone, noise, before));
        self.windows = LASTS * before + if counts[0] { 1.0 } else { 0.0 };
    }

    /// A trial of other values begins, of which an earlier trial may have measured the gain.
    pub(super) fn begin(&mut self, known: Option<Known>) {
        let windows = self.windows;
        self.filters.iter_mut().for_each(|filter| filter.begin(known, windows));
    }

    /// The trial ended, and the new values stay, or not.
    pub(super) fn end(&mut self, is_kept: bool) {
        self.filters.iter_mut().for_each(|filter| filter.end(is_kept));
    }

    /// Forgets the mean, because the run is another one now, but not how it scatters.
    pub(super) fn forget_mean(&mut self) {
        for filter in &mut self.filters {
            (filter.var_mean, filter.covariance) = (UNKNOWN, 0.0);
        }
    }

    /// The weights of the filters, by their likelihoods; together 1.
    fn weights(&self) -> [f64; COUNT] {
        let n = self.windows;
        let likely = |filter: &Filter| -(n * (filter.squares / n).ln() + filter.logarithms) / 2.0;
        let most = self.filters.iter().map(likely).fold(f64::NEG_INFINITY, f64::max);
        let weights = self.filters.map(|filter| (likely(&filter) - most).exp());
        let all: f64 = weights.iter().sum();
        weights.map(|weight| weight / all)
    }

    /// The mean and the variance of the gain's logarithm.
    pub(super) fn known(&self) -> Known {
        let weights = self.weights();
        let weighted = |of: &dyn Fn(&Filter) -> f64| -> f64 {
            self.filters.iter().zip(&weights).map(|(filter, weight)| weight * of(filter)).sum()
        };
        let mean = weighted(&|filter| filter.gain);
        let scatter = |filter: &Filter| (filter.squares / self.windows).max(SCATTER_MIN * SCATTER_MIN);
        let variance = weighted(&|filter| {
            filter.var_gain * scatter(filter) + (filter.gain - mean) * (filter.gain - mean)
        });
        Known { mean, variance }
    }

    /// The score with the former values.
    pub(super) fn former(&self) -> f64 {
        let weights = self.weights();
        self.filters.iter().zip(&weights).map(|(filter, weight)| weight * filter.mean).sum::<f64>().exp()
    }

    /// The gain and what it is at least and at most, by certainty.
    fn between(&self, student: &Student) -> [f64; 3] {
        let Known { mean, variance } = self.known();
        let half = student.of(self.windows - 2.0) * variance.sqrt();
        [mean, mean - half, mean + half].map(f64::exp_m1)
    }

    /// The gain after `pairs` pairs of windows, with its bounds.
    pub(super) fn gain(&self, pairs: usize) -> Gain {
        let [mean, least, most] = self.between(&SURE);
        Gain { mean, least, most, pairs }
    }

    /// The values between which the gain is in 70 of 100 cases.
    pub(super) fn likely(&self) -> (f64, f64) {
        let [_, least, most] = self.between(&LIKELY);
        (least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;

    /// About normal, with variance 1.
    fn normal(chance: &mut Chance) -> f64 {
        (0..3).map(|_| 2.0 * chance.uniform() - 1.0).sum()
    }

    /// Solves a system of equations by elimination.
    fn solved(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
        let n = right.len();
        for row in 0..n {
            for below in row + 1..n {
                let times = matrix[below][row] / matrix[row][row];
                let above = matrix[row].clone();
                for (value, above) in matrix[below].iter_mut().zip(above) {
                    *value -= times * above;
                }
                right[below] -= times * right[row];
            }
        }
        for row in (0..n).rev() {
            let known: f64 = (row + 1..n).map(|column| matrix[row][column] * right[column]).sum();
            right[row] = (right[row] - known) / matrix[row][row];
        }
        right
    }

    /// The generalized least squares of the same model, in which the covariances of all windows are written out.
    fn by_matrix(windows: &[(f64, bool, f64, f64)], ratio: f64) -> (f64, f64) {
        let n = windows.len();
        let covariance = |i: usize, j: usize| {
            let drift = ratio * windows[i].2.min(windows[j].2) / WINDOW;
            drift + if i == j { WINDOW / windows[i].3 } else { 0.0 }
        };
        let matrix: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| covariance(i, j)).collect()).collect();
        let ones = vec![1.0; n];
        let on: Vec<f64> = windows.iter().map(|it| if it.1 { 1.0 } else { 0.0 }).collect();
        let y: Vec<f64> = windows.iter().map(|it| it.0).collect();
        let by = |v: &[f64]| solved(matrix.clone(), v.to_vec());
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (of_ones, of_on) = (by(&ones), by(&on));
        let (a, b, c) = (dot(&ones, &of_ones), dot(&ones, &of_on), dot(&on, &of_on));
        let (p, q) = (dot(&of_ones, &y), dot(&of_on, &y));
        let determinant = a * c - b * b;
        ((a * q - b * p) / determinant, a / determinant)
    }

    #[test]
    fn each_filter_finds_what_least_squares_with_all_covariances_find() {
        for seed in 0..20 {
            let (mut chance, mut level) = (Chance::new(seed), Level::default());
            let (mut at, mut windows) = (0.0, Vec::new());
            for n in 0..24 {
                let lasted = chance.of(&[0.1, 0.15, 0.3]);
                at += lasted + chance.of(&[0.0, 0.0, 0.15]);
                let is_on = n >= 6 && n / 2 % 2 == 1;
                let y = 0.02 * normal(&mut chance) + if is_on { 0.05 } else { 0.0 };
                if n == 6 {
                    level.begin(None);
                }
                level.add(y.exp(), is_on, at, lasted);
                windows.push((y, is_on, at, lasted));
            }
            for filter in &level.filters {
                let (gain, variance) = by_matrix(&windows, filter.ratio);
                // Scores that are far from the expected ones count less, and the mean before is not quite unknown.
                assert!((filter.gain - gain).abs() < 0.006, "{seed}: {} {gain}", filter.gain);
                assert!((filter.var_gain / variance - 1.0).abs() < 0.01, "{} {variance}", filter.var_gain);
            }
        }
    }

    /// Simulates 1000 trials of values with the gain `gain`, in windows that scatter and whose mean drifts. Returns the means
    /// of the estimated gain and of its deviation, and in how many trials the gain is below and above its bounds.
    fn trials(gain: f64, scatter: f64, drift: f64) -> (f64, f64, usize, usize) {
        let (mut sum, mut deviation, mut below, mut above) = (0.0, 0.0, 0, 0);
        for seed in 0..1000 {
            let (mut chance, mut level, mut mean) = (Chance::new(seed), Level::default(), 0.0);
            for n in 0..64 {
                mean += drift * normal(&mut chance);
                if n == 40 {
                    level.begin(None);
                }
                // Of three windows the first one after a change is left out.
                let (is_on, is_left_out) = (n >= 40 && (n - 40) / 3 % 2 == 0, n >= 40 && (n - 40) % 3 == 0);
                let y = mean + scatter * normal(&mut chance) + if is_on { gain.ln_1p() } else { 0.0 };
                if !is_left_out {
                    level.add(y.exp(), is_on, f64::from(n) * WINDOW, WINDOW);
                }
            }
            let found = level.gain(4);
            sum += found.mean;
            deviation += level.known().variance.sqrt();
            below += usize::from(found.least > gain);
            above += usize::from(found.most < gain);
        }
        (sum / 1000.0, deviation / 1000.0, below, above)
    }

    #[test]
    fn windows_before_the_trial_count_where_the_mean_stays_and_not_where_it_drifts() {
        let (mean, deviation, below, above) = trials(0.08, 0.1, 0.0);
        assert!((mean - 0.08).abs() < 0.005, "{mean}");
        // Four pairs alone would have a deviation of 5 %: 10 % · √2 / √(2 · 4).
        assert!((0.032..0.045).contains(&deviation), "{deviation}");
        assert!(below <= 60 && above <= 60, "{below} {above}");
        let (mean, deviation, below, above) = trials(0.08, 0.02, 0.03);
        assert!((mean - 0.08).abs() < 0.005 && deviation < 0.035, "{mean} {deviation}");
        assert!(below <= 60 && above <= 60, "{below} {above}");
    }

    #[test]
    fn after_a_trial_the_mean_is_that_of_the_values_in_force() {
        for is_kept in [false, true] {
            let (mut level, mut at) = (Level::default(), 0.0);
            let mut add = |level: &mut Level, score: f64, is_on: bool| {
                at += WINDOW;
                level.add(score, is_on, at, WINDOW);
            };
            (0..10).for_each(|n| add(&mut level, 1000.0 + f64::from(n % 2), false));
            level.begin(None);
            (0..10).for_each(|n| add(&mut level, if n % 4 < 2 { 1200.0 } else { 1000.0 }, n % 4 < 2));
            assert!((level.gain(5).mean - 0.2).abs() < 0.005, "{:?}", level.gain(5));
            level.end(is_kept);
            let expected = if is_kept { 1200.0 } else { 1000.0 };
            assert!((level.former() / expected - 1.0).abs() < 0.01, "{}", level.former());
            assert_eq!(level.known().variance, 0.0);
        }
    }

    #[test]
    fn what_an_earlier_trial_measured_counts() {
        let (mut chance, mut level) = (Chance::new(7), Level::default());
        let mut at = 0.0;
        let mut phase = |level: &mut Level, is_on: bool, windows: usize| {
            for _ in 0..windows {
                at += WINDOW;
                let y = 0.05 * normal(&mut chance) + if is_on { 0.1 } else { 0.0 };
                level.add(y.exp(), is_on, at, WINDOW);
            }
        };
        phase(&mut level, false, 20);
        level.begin(None);
        phase(&mut level, true, 12);
        let first = level.known();
        level.end(false);
        phase(&mut level, false, 20);
        level.begin(Some(first));
        assert!((level.known().mean - first.mean).abs() < 1e-9);
        assert!((level.known().variance / first.variance - 1.0).abs() < 1e-6);
        phase(&mut level, true, 12);
        assert!(level.known().variance < 0.75 * first.variance, "{first:?} {:?}", level.known());
        assert!((level.known().mean - 0.1).abs() < 0.04, "{:?}", level.known());
    }

    #[test]
    fn after_the_run_became_another_one_a_trial_is_estimated_anew() {
        let (mut level, mut at) = (Level::default(), 0.0);
        let mut add = |level: &mut Level, score: f64, is_on: bool| {
            at += WINDOW;
            level.add(score, is_on, at, WINDOW);
        };
        (0..20).for_each(|n| add(&mut level, 1000.0 + f64::from(n % 3), false));
        level.begin(None);
        (0..2).for_each(|_| add(&mut level, 1200.0, true));
        level.forget_mean();
        level.begin(None);
        let before = level.windows;
        // The first window with each of the values says nothing about the scatter.
        (0..4).for_each(|n| add(&mut level, 550.0 + f64::from(n % 2), true));
        (0..4).for_each(|n| add(&mut level, 500.0 + f64::from(n % 2), false));
        assert!((level.gain(2).mean - 0.1).abs() < 0.005, "{:?}", level.gain(2));
        let after = (0..8).fold(before, |sum, n| LASTS * sum + if n % 4 == 0 { 0.0 } else { 1.0 });
        assert!((level.windows - after).abs() < 1e-9, "{} {after}", level.windows);
    }

    #[test]
    fn what_is_no_score_changes_nothing() {
        let mut level = Level::default();
        (1..9).for_each(|n| level.add(1000.0, false, f64::from(n) * WINDOW, WINDOW));
        let before = level.former();
        for wrong in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            level.add(wrong, false, 10.0 * WINDOW, WINDOW);
        }
        assert_eq!(level.former().to_bits(), before.to_bits());
    }
}
