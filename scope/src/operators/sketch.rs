//! Quantiles of any number of values in bounded memory, from parts that can be merged.
//!
//! A DDSketch (Masson, Rim, Lee: *DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees*, VLDB 2019):
//! values are counted in buckets whose bounds grow by a constant factor, so any quantile is off by at most 1 % of its value.

use std::collections::BTreeMap;

/// The most buckets; if there are more, the lowest are merged.
const BUCKETS_MAX: usize = 2048;
/// Values closer to 0 than this count as 0.
const LEAST: f64 = 1e-9;

/// Counts of values by buckets of constant relative width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sketch {
    /// The counts of positive values by bucket; the next field holds those of negative values, by the bucket
    /// of the absolute value.
    positive: BTreeMap<i32, u64>,
    negative: BTreeMap<i32, u64>,
    zeros: u64,
    count: u64,
}

impl Sketch {
    /// The largest relative error of a quantile.
    pub const ERROR: f64 = 0.01;

    fn log_base() -> f64 {
        ((1.0 + Sketch::ERROR) / (1.0 - Sketch::ERROR)).ln()
    }

    /// Counts a value; `NaN` is not counted.
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        self.count += 1;
        if value.abs() < LEAST {
            self.zeros += 1;
            return;
        }
        let bucket = (value.abs().min(f64::MAX).ln() / Sketch::log_base()).ceil() as i32;
        let side = if value > 0.0 { &mut self.positive } else { &mut self.negative };
        *side.entry(bucket).or_default() += 1;
        collapse(side);
    }

    /// Adds the counts of another sketch.
    pub fn merge(&mut self, other: &Sketch) {
        self.count += other.count;
        self.zeros += other.zeros;
        for (mine, theirs) in [(&mut self.positive, &other.positive), (&mut self.negative, &other.negative)] {
            for (bucket, count) in theirs {
                *mine.entry(*bucket).or_default() += count;
            }
            collapse(mine);
        }
    }

    /// The number of counted values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The quantile `quantile` (0 to 1), with a relative error of at most [`Sketch::ERROR`]: the value of
    /// rank `floor(quantile * (count - 1))`. `NaN` if there are no values.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let Some(last) = self.count.checked_sub(1) else { return f64::NAN };
        let rank = (quantile.clamp(0.0, 1.0) * last as f64).floor() as u64;
        let middle = |bucket: i32| {
            let base = Sketch::log_base().exp();
            2.0 * (f64::from(bucket) * Sketch::log_base()).exp() / (base + 1.0)
        };
        let negative = self.negative.iter().rev().map(|(bucket, count)| (-middle(*bucket), *count));
        let zeros = std::iter::once((0.0, self.zeros));
        let positive = self.positive.iter().map(|(bucket, count)| (middle(*bucket), *count));
        let mut seen = 0;
        for (value, count) in negative.chain(zeros).chain(positive) {
            seen += count;
            if seen > rank {
                return value;
            }
        }
        f64::NAN
    }
}

fn collapse(side: &mut BTreeMap<i32, u64>) {
    while side.len() > BUCKETS_MAX {
        let Some((_, count)) = side.pop_first() else { return };
        if let Some(mut lowest) = side.first_entry() {
            *lowest.get_mut() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_off_by_a_hundredth_at_most(
            parts in prop::collection::vec(prop::collection::vec(-1e12_f64..1e12, 0..60), 1..5),
            small in prop::collection::vec(-1.0_f64..1.0, 0..20),
            quantile in 0.0_f64..=1.0,
        ) {
            let mut merged = Sketch::default();
            let mut all = small.clone();
            small.iter().for_each(|value| merged.add(*value));
            for part in &parts {
                let mut sketch = Sketch::default();
                part.iter().for_each(|value| sketch.add(*value));
                merged.merge(&sketch);
                all.extend(part);
            }
            all.sort_by(f64::total_cmp);
            if all.is_empty() {
                prop_assert!(merged.quantile(quantile).is_nan());
            } else {
                let exact = all[(quantile * (all.len() - 1) as f64).floor() as usize];
                let found = merged.quantile(quantile);
                prop_assert!((found - exact).abs() <= 1.0001 * Sketch::ERROR * exact.abs() + LEAST, "{found} {exact}");
            }
        }
    }

    #[test]
    fn the_highest_quantiles_stay_exact_when_there_are_too_many_buckets() {
        let mut sketch = Sketch::default();
        (-300..300).for_each(|power| {
            (0..20).for_each(|n| sketch.add(10_f64.powi(power) * (1.0 + f64::from(n) / 20.0)))
        });
        assert!(sketch.positive.len() <= BUCKETS_MAX);
        assert!((sketch.quantile(1.0) / 1.95e299 - 1.0).abs() < 0.011, "{}", sketch.quantile(1.0));
    }
}
