//! Compares two ways of running by turns, and computes by how much the second is better, and with what
//! certainty.
//!
//! Each pair of windows gives one sample `d_k`, the logarithm of the ratio of scores. The gain is `exp(mean
//! d) − 1`. The bounds of the gain are those of Student's t, one-sided at 99 %, because they are checked after each pair.
//! Three pairs say little about their own scatter. The scatter of the windows before the trial is known, and counts
//! beside theirs as a number of further degrees of freedom, with the pooled variance of both. A gain that is too small
//! needs less certainty, 85 %: a change that
//! was given up wrongly is tried again later, and a change for the worse costs flow as long as it is tried.

/// Student's t, one-sided 99 %, for 1 to 10 degrees of freedom.
const T99: [f64; 10] = [31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764];
/// Student's t, one-sided 85 %, for 1 to 10 degrees of freedom.
const T85: [f64; 10] = [1.963, 1.386, 1.250, 1.190, 1.156, 1.134, 1.119, 1.108, 1.100, 1.093];
/// The least uncertainty of a comparison: short windows that agree exactly do not make the comparison
/// certain.
const SCATTER_MIN: f64 = 0.002;

/// By what pairs of windows with the same settings scatter, and the number of degrees of freedom with which this is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scatter {
    pub(crate) deviation: f64,
    pub(crate) freedom: f64,
}

/// The pairs of windows so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    ratios: Vec<f64>,
    /// The sum of the logarithms of the scores of the first way.
    firsts: f64,
    /// What was known before the first pair.
    before: Scatter,
}

/// The gain of the second way as a fraction of the first, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The estimated gain.
    pub mean: f64,
    /// The gain is at least this value, in 99 of 100 cases.
    pub least: f64,
    /// The gain is at most this value, in 99 of 100 cases.
    pub most: f64,
    /// The number of pairs of windows that were compared.
    pub pairs: usize,
}

impl Comparison {
    /// A comparison without pairs, of a run with pairs that scatter in a known way.
    pub(crate) fn of_scatter(before: Scatter) -> Comparison {
        Comparison { before, ..Comparison::default() }
    }

    /// Adds a pair of scores, both positive.
    pub(crate) fn add(&mut self, first: f64, second: f64) {
        self.ratios.push((second / first).ln());
        self.firsts += first.ln();
    }

    /// The score of the first way, as the geometric mean.
    pub(super) fn former(&self) -> f64 {
        (self.firsts / self.ratios.len().max(1) as f64).exp()
    }

    /// The result so far; one pair gives no bounds.
    pub(crate) fn gain(&self) -> Option<Gain> {
        let (n, mean) = (self.ratios.len(), self.mean()?);
        let Some(half) = self.half_width(&T99) else {
            return Some(Gain { mean: mean.exp_m1(), least: -1.0, most: f64::INFINITY, pairs: n });
        };
        Some(Gain {
            mean: mean.exp_m1(),
            least: (mean - half).exp_m1(),
            most: (mean + half).exp_m1(),
            pairs: n,
        })
    }

    /// The gain is at most this value, in 85 of 100 cases.
    pub(crate) fn likely_most(&self) -> Option<f64> {
        Some((self.mean()? + self.half_width(&T85)?).exp_m1())
    }

    /// The gain is at least this value, in 85 of 100 cases.
    pub(crate) fn likely_least(&self) -> Option<f64> {
        Some((self.mean()? - self.half_width(&T85)?).exp_m1())
    }

    /// The mean of the logarithms of the ratios.
    fn mean(&self) -> Option<f64> {
        let n = self.ratios.len();
        (n > 0).then(|| self.ratios.iter().sum::<f64>() / n as f64)
    }

    /// By how much the mean may be wrong, by a table of Student's t; `None` for fewer than two pairs.
    fn half_width(&self, table: &[f64; 10]) -> Option<f64> {
        let n = self.ratios.len();
        let own = n.checked_sub(1).filter(|own| *own > 0)? as f64;
        let mean = self.mean()?;
        let Scatter { deviation, freedom } = self.before;
        let t = table[((own + freedom) as usize).clamp(1, table.len()) - 1];
        let squares: f64 = self.ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
        let pooled = (squares + freedom * deviation.powi(2)) / (own + freedom);
        let scatter = pooled.sqrt().max(SCATTER_MIN);
        Some(t * scatter / (n as f64).sqrt())
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
