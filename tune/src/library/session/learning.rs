//! What a session learns of a pack's models: the weight of each, and the coefficients that are fitted.

use super::Session;
use super::running::Candidate;
use crate::library::member::Member;

/// How far a model's weight follows the last trial.
const STEP: f64 = 0.3;
/// The least and the greatest weight of a model.
const LEAST: f64 = 0.1;
const MOST: f64 = 1.5;
/// Weights that differ by less are not reported.
const SMALL: f64 = 0.05;

impl Session<'_, '_> {
    /// The gain that a candidate promises, by the weight of its model.
    pub(super) fn hoped(&self, candidate: &Candidate) -> f64 {
        candidate.gain * self.trust.get(&candidate.model).copied().unwrap_or(1.0)
    }

    /// Adjusts the weight of a candidate's model after a trial with this gain. Returns a text that says the
    /// new weight, empty if the weight is about as before.
    pub(super) fn learned(&mut self, candidate: &Candidate, gain: f64) -> String {
        let before = self.trust.get(&candidate.model).copied().unwrap_or(1.0);
        let now = weight(before, candidate.gain, gain);
        self.trust.insert(candidate.model.clone(), now);
        if (now - before).abs() < SMALL {
            return String::new();
        }
        format!("; the weight of {} is {now:.2} now", candidate.model)
    }

    /// A reason with the coefficients that were fitted, or that nothing is fitted yet, in a pack that has
    /// coefficients.
    pub(super) fn with_fitted(&self, why: &str, target: Option<&Member<'_>>) -> String {
        let pack = self.library.pack;
        let Some(target) = target.filter(|_| !pack.fits.is_empty()) else { return why.to_owned() };
        match self.fits.fitted(pack, &target.row) {
            none if none.is_empty() => {
                format!("{why} Nothing is fitted yet: the coefficients are the pack's start values.")
            }
            fitted => format!("{why} Fitted: {fitted}."),
        }
    }
}

/// The weight of a model that predicted a gain, after a trial with the gain that came. Without a prediction
/// nothing is learned.
fn weight(before: f64, predicted: f64, came: f64) -> f64 {
    let part = (came / predicted).clamp(0.0, MOST);
    if part.is_nan() { before } else { (before + STEP * (part - before)).clamp(LEAST, MOST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_fails_loses_its_weight_and_gets_it_back() {
        let after = |gains: &[(f64, f64)]| {
            gains.iter().fold(1.0, |before, (predicted, came)| weight(before, *predicted, *came))
        };
        assert_eq!(after(&[(0.5, 0.5)]), 1.0);
        assert!((after(&[(0.5, 0.0)]) - 0.7).abs() < 1e-9);
        assert_eq!(after(&[(0.5, -0.2); 20]), LEAST, "never without any weight");
        assert!(after(&[(0.5, 5.0); 20]) > MOST - 0.01, "what gains more than predicted has more weight");
        let mended = [[(0.5, 0.0); 20], [(0.5, 0.5); 20]].concat();
        assert!((after(&mended) - 1.0).abs() < 0.01);
        assert_eq!(after(&[(f64::NAN, 0.5), (0.0, 0.0)]), 1.0, "what was not predicted teaches nothing");
    }
}
