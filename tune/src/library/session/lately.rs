//! The last windows of one length, and whether they are alike.

use std::collections::VecDeque;
use std::time::Instant;

/// The number of windows that have to be alike before an action is tried.
pub(super) const STABLE: usize = 3;
/// Windows are alike if their rates differ by less than this factor.
const ALIKE: f64 = 1.6;
/// If a measure of calls changes by more than this fraction, the program is taken to have entered another
/// phase.
pub(super) const SHIFT: f64 = 0.25;

/// The last windows of one length.
#[derive(Debug)]
pub(super) struct Lately {
    /// When the present window began.
    pub(super) begun: Instant,
    pub(super) rates: Vec<f64>,
    /// For each of the last windows, the means of the values kept of calls.
    pub(super) signatures: VecDeque<Vec<f64>>,
}

impl Default for Lately {
    fn default() -> Lately {
        Lately { begun: Instant::now(), rates: Vec::new(), signatures: VecDeque::new() }
    }
}

impl Lately {
    /// Adds a window.
    pub(super) fn add(&mut self, rate: f64, signature: Vec<f64>) {
        self.rates.push(rate);
        self.signatures.push_back(signature);
        while self.signatures.len() > STABLE {
            self.signatures.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.rates.clear();
        self.signatures.clear();
    }

    /// The rates of the last windows, if there were enough to compare.
    pub(super) fn last(&self) -> Option<&[f64]> {
        self.rates.len().checked_sub(STABLE).map(|from| &self.rates[from..])
    }

    /// Whether the last windows are alike: their rates differ little, and so do the means of the values kept
    /// of calls.
    pub(super) fn is_alike(&self) -> bool {
        let Some(rates) = self.last() else { return false };
        let (least, most) = bounds(rates.iter().copied());
        let is_alike = |(least, most): &(f64, f64)| *most <= (1.0 + SHIFT) * (1.0 + SHIFT) * *least;
        most <= ALIKE * least && self.ranges().iter().all(is_alike)
    }

    /// For each mean of the values kept of calls, the least and the greatest value in the last windows.
    pub(super) fn ranges(&self) -> Vec<(f64, f64)> {
        let count = self.signatures.back().map_or(0, Vec::len);
        let of = |at: usize| bounds(self.signatures.iter().filter_map(|known| known.get(at).copied()));
        (0..count).map(of).collect()
    }
}

/// The least and the greatest of the values, leaving out unknown ones.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_longer_than_the_steps_of_a_program_are_alike() {
        // A program that works for five windows without a call, and then makes a hundred calls in one.
        let calls = |window: usize| if window % 6 == 5 { 100.0 } else { 0.0 };
        let alike: Vec<bool> = [1, 2, 4, 8, 16]
            .map(|joined| {
                let mut lately = Lately::default();
                for window in 0..3 {
                    let within = window * joined..(window + 1) * joined;
                    let sum: f64 = within.map(calls).sum();
                    if sum > 0.0 {
                        lately.add(sum / joined as f64, vec![8.0]);
                    }
                }
                lately.is_alike()
            })
            .to_vec();
        assert_eq!(alike, [false, false, false, false, true]);
    }

    #[test]
    fn values_that_differ_or_too_few_windows_are_not_alike() {
        let of = |windows: &[(f64, f64)]| {
            let mut lately = Lately::default();
            windows.iter().for_each(|(rate, value)| lately.add(*rate, vec![*value, f64::NAN]));
            lately.is_alike()
        };
        assert!(of(&[(9.0, 1.0), (8.0, 1.1), (7.0, 1.2)]));
        assert!(!of(&[(9.0, 1.0), (8.0, 1.1)]), "too few");
        assert!(!of(&[(9.0, 1.0), (8.0, 1.1), (5.0, 1.2)]), "another rate");
        assert!(!of(&[(9.0, 1.0), (8.0, 1.1), (9.0, 1.7)]), "other values");
        assert!(of(&[(1.0, 9.0), (9.0, 1.0), (8.0, 1.1), (7.0, 1.2)]), "only the last ones count");
    }
}
