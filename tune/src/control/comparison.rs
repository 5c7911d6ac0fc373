//! Compares two ways of running by turns, and computes by how much the second is better, and with what
//! certainty.
//!
//! Each pair of windows gives one sample `d_k`, the logarithm of the ratio of scores. The gain is `exp(mean
//! d) − 1`. The bounds of the gain are those of Student's t, one-sided at 99 %, because they are checked after each pair.

/// Quantiles of Student's distribution, for 1 to 10 degrees of freedom, and for very many.
pub(super) struct Student {
    pub(super) few: [f64; 10],
    pub(super) many: f64,
}

impl Student {
    /// The quantile for so many degrees of freedom; for more than ten by the first terms of its expansion by Fisher and Cornish.
    pub(super) fn of(&self, freedom: f64) -> f64 {
        match freedom {
            10.0.. => self.many + (self.many.powi(3) + self.many) / (4.0 * freedom),
            _ => self.few[freedom.max(1.0) as usize - 1],
        }
    }
}

/// One-sided at 99 %.
const CERTAIN: Student =
    Student { few: [31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764], many: 2.326 };
/// One-sided at 85 %.
pub(super) const LIKELY: Student =
    Student { few: [1.963, 1.386, 1.250, 1.190, 1.156, 1.134, 1.119, 1.108, 1.100, 1.093], many: 1.036 };
/// The least uncertainty of a comparison: short windows that agree exactly do not make the comparison
/// certain.
pub(super) const SCATTER_MIN: f64 = 0.002;

/// The pairs of windows so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    ratios: Vec<f64>,
}

/// The gain of the second way as a fraction of the first, with its bounds: one-sided at 97.5 % in runs of networks, and at 99 % for
/// libraries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The estimated gain.
    pub mean: f64,
    /// The gain is at least this value.
    pub least: f64,
    /// The gain is at most this value.
    pub most: f64,
    /// The number of pairs of windows that were compared.
    pub pairs: usize,
}

impl Comparison {
    /// Adds a pair of scores, both positive.
    pub(crate) fn add(&mut self, first: f64, second: f64) {
        self.ratios.push((second / first).ln());
    }

    /// The result so far; one pair gives no bounds.
    pub(crate) fn gain(&self) -> Option<Gain> {
        let (pairs, mean) = (self.ratios.len(), self.mean()?);
        let Some(half) = self.half_width(&CERTAIN) else {
            return Some(Gain { mean: mean.exp_m1(), least: -1.0, most: f64::INFINITY, pairs });
        };
        let [mean, least, most] = [mean, mean - half, mean + half].map(f64::exp_m1);
        Some(Gain { mean, least, most, pairs })
    }

    /// The gain is at most this value, in 85 of 100 cases.
    pub(crate) fn likely_most(&self) -> Option<f64> {
        Some((self.mean()? + self.half_width(&LIKELY)?).exp_m1())
    }

    /// The mean of the logarithms of the ratios.
    fn mean(&self) -> Option<f64> {
        let n = self.ratios.len();
        (n > 0).then(|| self.ratios.iter().sum::<f64>() / n as f64)
    }

    /// By how much the mean may be wrong; `None` for fewer than two pairs.
    fn half_width(&self, student: &Student) -> Option<f64> {
        let n = self.ratios.len();
        let freedom = n.checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
        let mean = self.mean()?;
        let squares: f64 = self.ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
        let scatter = (squares / freedom).sqrt().max(SCATTER_MIN);
        Some(student.of(freedom) * scatter / (n as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;

    #[test]
    fn the_bounds_are_those_of_a_textbook() {
        let mut comparison = Comparison::default();
        for ratio in [1.10_f64, 1.20, 1.15] {
            comparison.add(100.0, 100.0 * ratio);
        }
        let gain = comparison.gain().unwrap();
        // By hand: the logarithms are 0.09531, 0.18232 and 0.13976; their mean is 0.13913, the deviation
        // 0.04351, and the half-width 6.965 · 0.04351 / √3 = 0.17497.
        assert!((gain.mean - 0.13913_f64.exp_m1()).abs() < 1e-4, "{gain:?}");
        assert!((gain.least - (0.13913_f64 - 0.17497).exp_m1()).abs() < 2e-4, "{gain:?}");
        assert!((gain.most - (0.13913_f64 + 0.17497).exp_m1()).abs() < 2e-4, "{gain:?}");
    }

    #[test]
    fn what_is_no_better_is_hardly_ever_called_better() {
        let mut chance = Chance::new(3);
        let mut called = 0;
        for _ in 0..1000 {
            let mut comparison = Comparison::default();
            let mut noisy = || 100.0 * (1.0 + 0.1 * (chance.uniform() - 0.5));
            let better = (0..8).any(|_| {
                comparison.add(noisy(), noisy());
                comparison.gain().is_some_and(|gain| gain.pairs >= 3 && gain.least > 0.02)
            });
            called += usize::from(better);
        }
        assert!(called <= 10, "{called} of 1000");
    }
}
