//! A distribution of times: quantiles from an HDR histogram, mean and standard deviation from exact sums.

use hdrhistogram::Histogram;

use crate::report::Distribution;

/// Histogram cells are tenths of a nanosecond, since a message's share of a dispatch is often a few nanoseconds.
const PER_NS: f64 = 10.0;
/// Longer times are counted as this long: about 11 days.
const TENTHS_MAX: u64 = 10_000_000_000_000_000;

/// Times recorded one by one, in nanoseconds.
pub(crate) struct Times {
    histogram: Histogram<u64>,
    count: u64,
    /// Sums are kept relative to the first value, so that the variance of large, similar values keeps its digits.
    shift: f64,
    sum: f64,
    squares: f64,
    max: f64,
    min: f64,
}

impl Times {
    pub(crate) fn new() -> Times {
        // Bounds and precision are constants that the histogram accepts, so this cannot fail.
        let histogram = Histogram::new_with_bounds(1, TENTHS_MAX, 3).expect("constant bounds are valid");
        Times { histogram, count: 0, shift: 0.0, sum: 0.0, squares: 0.0, max: 0.0, min: f64::INFINITY }
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: f64) {
        if self.count == 0 {
            self.shift = ns;
        }
        self.count += 1;
        let shifted = ns - self.shift;
        self.sum += shifted;
        self.squares += shifted * shifted;
        self.max = self.max.max(ns);
        self.min = self.min.min(ns);
        self.histogram.saturating_record((ns * PER_NS + 0.5) as u64);
    }

    /// `None` if nothing was recorded. The standard deviation is over all values (LPEL paper, equation 3), not an
    /// estimate from a sample.
    pub(crate) fn summary(&self) -> Option<Distribution> {
        if self.count == 0 {
            return None;
        }
        let count = self.count as f64;
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        let quantile =
            |q: f64| (self.histogram.value_at_quantile(q) as f64 / PER_NS).clamp(self.min, self.max);
        Some(Distribution {
            count: self.count,
            mean_ns: self.shift + mean,
            jitter_ns: variance.sqrt(),
            min_ns: self.min,
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            max_ns: self.max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_known_values() {
        let mut times = Times::new();
        assert!(times.summary().is_none());
        for ns in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0] {
            times.record(1e6 + ns);
        }
        let summary = times.summary().unwrap();
        assert_eq!(summary.count, 8);
        assert!((summary.mean_ns - 1_000_005.0).abs() < 1e-6);
        assert!((summary.jitter_ns - 2.0).abs() < 1e-6, "{}", summary.jitter_ns);
        assert_eq!((summary.min_ns, summary.max_ns), (1_000_002.0, 1_000_009.0));
    }

    #[test]
    fn quantiles_within_a_thousandth() {
        let mut times = Times::new();
        for ns in 1..=100_000 {
            times.record(f64::from(ns));
        }
        let summary = times.summary().unwrap();
        for (got, want) in
            [(summary.p50_ns, 50_000.0), (summary.p90_ns, 90_000.0), (summary.p99_ns, 99_000.0)]
        {
            assert!((got / want - 1.0).abs() < 2e-3, "{got} for {want}");
        }
    }

    #[test]
    fn absurd_times_saturate() {
        let mut times = Times::new();
        times.record(1e30);
        assert_eq!(times.summary().unwrap().count, 1);
    }
}
