//! What candidates promise: the gain that a model expects, by the weight of the model; or what a trial measured that
//! was put off because something else promised more.

use std::collections::HashMap;

use super::comparison::Comparison;
use super::level::Known;
use crate::action::{Action, Candidate};

/// The pairs of windows of a trial that was put off. They count when it goes on with the same settings beside it.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) gain: Known,
    /// The gain is most likely no more than this.
    pub(super) most: f64,
    pub(super) pairs: usize,
    pub(super) rates: Comparison,
}

/// What is known of candidates beside their models' predictions.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    /// The weight of each model: the fraction of the gains that it predicted which came true.
    weights: HashMap<String, f64>,
    /// The trials that were put off, by the values of their actions.
    put_off: HashMap<String, Begun>,
}

impl Promises {
    /// The gain that a candidate promises. A trial that was put off promises what it most likely gains at most, so that
    /// a model that promises too much comes first only once.
    pub(super) fn of(&self, candidate: &Candidate) -> f64 {
        let predicted = candidate.gain * self.weights.get(&candidate.model).copied().unwrap_or(1.0);
        let begun = self.put_off.get(&candidate.action.exact_key());
        begun.map_or(predicted, |begun| predicted.min(begun.most))
    }

    /// Adjusts the weight of a model: wrong predictions reduce it.
    pub(super) fn learn(&mut self, candidate: &Candidate, gain: f64) {
        let came = (gain / candidate.gain).clamp(0.0, 1.5);
        let weight = self.weights.entry(candidate.model.clone()).or_insert(1.0);
        *weight = (*weight + 0.3 * (came - *weight)).clamp(0.1, 1.5);
    }

    /// Keeps what a trial measured until it goes on.
    pub(super) fn put_off(&mut self, action: &Action, begun: Begun) {
        self.put_off.insert(action.exact_key(), begun);
    }

    /// What a trial of this action measured before it was put off.
    pub(super) fn go_on(&mut self, action: &Action) -> Option<Begun> {
        self.put_off.remove(&action.exact_key())
    }

    /// Forgets what trials measured, because other settings are in force beside them now.
    pub(super) fn settings_changed(&mut self) {
        self.put_off.clear();
    }

    /// Forgets everything, because errors of a model in one regime do not count in another.
    pub(super) fn forget(&mut self) {
        *self = Promises::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::level::Level;
    use super::*;

    #[test]
    fn a_candidate_promises_what_its_model_says_until_it_was_measured() {
        let candidate = |gain: f64| Candidate {
            action: Action::set("x", 1, 2),
            model: "m".to_owned(),
            gain,
            why: String::new(),
        };
        let mut promises = Promises::default();
        assert_eq!(promises.of(&candidate(0.2)), 0.2);
        // Half of the gain came, so the weight is 1 − 0.3 · 0.5.
        promises.learn(&candidate(0.2), 0.1);
        assert!((promises.of(&candidate(0.2)) - 0.17).abs() < 1e-12);
        let gain = Level::default().known();
        let begun = Begun { gain, most: 0.06, pairs: 4, rates: Comparison::default() };
        promises.put_off(&candidate(0.2).action, begun);
        assert_eq!(promises.of(&candidate(0.2)), 0.06);
        assert!((promises.of(&candidate(0.01)) - 0.0085).abs() < 1e-12, "no more than the model says");
        assert!(promises.go_on(&candidate(0.2).action).is_some());
        assert!(promises.go_on(&candidate(0.2).action).is_none());
        promises.forget();
        assert_eq!(promises.of(&candidate(0.2)), 0.2);
    }
}
