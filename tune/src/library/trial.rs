//! Decides whether a change of a library helps: compares the rates before and after it, then takes turns
//! until the result is clear.

use crate::control::{Comparison, Gain};

/// The number of windows after a change that are not counted.
const SETTLE: usize = 1;
/// The number of windows that are compared at first.
const FIRST: usize = 2;
/// If each window after the change is faster than each window before it by at least this factor, or slower by
/// at least the factor `HARM`, the trial ends early.
const CLEAR: f64 = 1.10;
const HARM: f64 = 0.75;
/// If the first window after the change is slower by this factor, and the next one, too, the trial ends at
/// once.
const MUCH_HARM: f64 = 0.5;
/// The largest number of pairs that are compared.
const PAIRS: usize = 8;
/// The largest number of pairs for a change that stays unless it is worse.
const PAIRS_TRUSTED: usize = 4;
/// The number of windows for a change with a lasting effect, which cannot be compared by turns.
const LASTING: usize = 8;
/// The least gain of a change, and the greatest loss with which a change stays that is kept unless it is
/// worse.
const GAIN: f64 = 0.02;
const LOSS: f64 = 0.01;

/// The result of a window of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The trial goes on.
    On,
    /// Apply the new values for now if true, and the former ones if false.
    Turn(bool),
    /// The change stays.
    Keep(Gain),
    /// The change is taken back, for this reason.
    Back(Option<Gain>, &'static str),
}

/// A trial under way.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    before: Vec<f64>,
    after: Vec<f64>,
    pairs: Comparison,
    is_lasting: bool,
    is_trusted: bool,
    is_on: bool,
    settle: usize,
    /// Whether the first window with the change was slower by the factor `MUCH_HARM`.
    is_much_slower: bool,
    former: Option<f64>,
}

impl Trial {
    /// A trial of a change that was just made, after windows with these rates.
    pub(super) fn new(before: Vec<f64>, is_lasting: bool, is_trusted: bool) -> Trial {
        Trial {
            before,
            after: Vec::new(),
            pairs: Comparison::default(),
            is_lasting,
            is_trusted,
            is_on: true,
            settle: SETTLE,
            is_much_slower: false,
            former: None,
        }
    }

    /// The rates of the windows with the change, which the next trial uses as its windows before the change.
    pub(super) fn after(&self) -> &[f64] {
        &self.after
    }

    /// Adds the rate of a window, and decides how the trial continues.
    pub(super) fn take(&mut self, rate: f64) -> Verdict {
        let is_much_slower = self.is_on
            && self.pairs.gain().is_none()
            && self.before.iter().all(|before| rate < MUCH_HARM * before);
        if self.settle > 0 {
            self.settle -= 1;
            self.is_much_slower = is_much_slower;
            return Verdict::On;
        }
        if is_much_slower && self.is_much_slower && self.former.is_none() {
            self.after.push(rate);
            return Verdict::Back(Some(self.gain()), "it was much worse at once");
        }
        if !self.is_on {
            self.former = Some(rate);
            self.is_on = true;
            self.settle = SETTLE;
            return Verdict::Turn(true);
        }
        self.after.push(rate);
        if let Some(former) = self.former.take() {
            self.pairs.add(former, rate);
            return self.judge();
        }
        if self.after.len() < FIRST {
            return Verdict::On;
        }
        let (before, after) = (&self.before, &self.after);
        if least(after) > CLEAR * most(before) {
            return Verdict::Keep(self.gain());
        }
        if most(after) < HARM * least(before) {
            return Verdict::Back(Some(self.gain()), "it was worse at once");
        }
        if self.is_lasting {
            return self.judge_lasting(self.gain());
        }
        self.pairs.add(mean(before), mean(after));
        self.turn()
    }

    /// The gain from the windows before and after the change.
    fn gain(&self) -> Gain {
        let (before, after) = (&self.before, &self.after);
        Gain {
            mean: (mean(after) / mean(before)).ln().exp_m1(),
            least: least(after) / most(before) - 1.0,
            most: most(after) / least(before) - 1.0,
            pairs: after.len().min(before.len()),
        }
    }

    fn turn(&mut self) -> Verdict {
        self.is_on = false;
        self.settle = SETTLE;
        Verdict::Turn(false)
    }

    /// Judges a lasting change by the windows before and after it, because such a change cannot be compared
    /// by turns.
    fn judge_lasting(&self, gain: Gain) -> Verdict {
        if self.after.len() < LASTING {
            return Verdict::On;
        }
        let bounds = scatter(&self.before).hypot(scatter(&self.after)) * 3.0;
        let gain =
            Gain { least: gain.mean - bounds, most: gain.mean + bounds, pairs: self.after.len(), ..gain };
        self.end(gain)
    }

    fn judge(&mut self) -> Verdict {
        let Some(gain) = self.pairs.gain() else { return self.turn() };
        if gain.pairs >= 3 && gain.least > GAIN {
            return Verdict::Keep(gain);
        }
        if gain.pairs >= 3 && gain.most < if self.is_trusted { -LOSS } else { GAIN } {
            return Verdict::Back(Some(gain), "it gains nothing worth while");
        }
        // A trial costs what the new values lose, so it does not go on for a gain that is unlikely.
        let likely_most = self.pairs.likely_most().filter(|_| !self.is_trusted && gain.pairs >= 3);
        if likely_most.is_some_and(|most| most < GAIN) {
            return Verdict::Back(Some(gain), "most likely it gains nothing worth while");
        }
        if gain.pairs >= if self.is_trusted { PAIRS_TRUSTED } else { PAIRS } {
            return self.end(gain);
        }
        self.turn()
    }

    fn end(&self, gain: Gain) -> Verdict {
        match gain {
            gain if gain.least > GAIN => Verdict::Keep(gain),
            gain if self.is_trusted && gain.mean > -LOSS => Verdict::Keep(gain),
            gain if self.is_trusted => Verdict::Back(Some(gain), "it is rather worse"),
            gain => Verdict::Back(Some(gain), "whether it gains is not clear"),
        }
    }
}

fn least(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

fn mean(rates: &[f64]) -> f64 {
    (rates.iter().map(|rate| rate.ln()).sum::<f64>() / rates.len().max(1) as f64).exp()
}

/// The standard error of the mean of the logarithms.
fn scatter(rates: &[f64]) -> f64 {
    let count = rates.len().max(2) as f64;
    let mean = mean(rates).ln();
    let squares: f64 = rates.iter().map(|rate| (rate.ln() - mean).powi(2)).sum();
    (squares / (count - 1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;

    /// Runs a trial of a change that multiplies the rate by `factor`: returns the verdict, and the number of
    /// windows that the trial took.
    fn run(seed: u64, factor: f64, noise: f64, is_lasting: bool, is_trusted: bool) -> (Verdict, usize) {
        let mut chance = Chance::new(seed);
        let mut noisy = |rate: f64| rate * (1.0 + noise * (chance.uniform() - 0.5));
        let before = (0..3).map(|_| noisy(1000.0)).collect();
        let mut trial = Trial::new(before, is_lasting, is_trusted);
        let mut is_on = true;
        for window in 1..200 {
            let rate = if is_on || is_lasting { 1000.0 * factor } else { 1000.0 };
            match trial.take(noisy(rate)) {
                Verdict::On => {}
                Verdict::Turn(on) => is_on = on,
                verdict => return (verdict, window),
            }
        }
        panic!("a trial that does not end: seed {seed}, factor {factor}");
    }

    #[test]
    fn what_helps_much_is_seen_at_once() {
        for seed in 0..20 {
            let (verdict, windows) = run(seed, 2.0, 0.2, false, false);
            assert!(
                matches!(verdict, Verdict::Keep(_)) && windows == 3,
                "{seed}: {verdict:?} after {windows}"
            );
            let (verdict, windows) = run(seed, 0.3, 0.2, false, true);
            assert!(
                matches!(verdict, Verdict::Back(..)) && windows == 2,
                "{seed}: {verdict:?} after {windows}"
            );
            let (verdict, windows) = run(seed, 0.55, 0.1, false, true);
            assert!(
                matches!(verdict, Verdict::Back(..)) && windows == 3,
                "{seed}: {verdict:?} after {windows}"
            );
        }
    }

    #[test]
    fn what_helps_nothing_is_kept_only_if_it_is_trusted() {
        let kept = |trusted, factor: f64| {
            (0..200)
                .filter(|seed| matches!(run(*seed, factor, 0.05, false, trusted).0, Verdict::Keep(_)))
                .count()
        };
        assert!(kept(false, 1.0) <= 6, "{}", kept(false, 1.0));
        assert!(kept(false, 1.06) >= 150, "{}", kept(false, 1.06));
        assert!(kept(true, 1.0) >= 120, "{}", kept(true, 1.0));
        assert!(kept(true, 0.94) <= 10, "{}", kept(true, 0.94));
    }

    #[test]
    fn a_lasting_change_is_compared_with_the_time_before() {
        let kept = |factor: f64| {
            (0..100)
                .filter(|seed| matches!(run(*seed, factor, 0.05, true, false).0, Verdict::Keep(_)))
                .count()
        };
        assert!(kept(1.08) >= 60 && kept(1.0) <= 10, "{} and {}", kept(1.08), kept(1.0));
        assert!(run(1, 1.0, 0.05, true, true).1 <= 9);
    }
}
