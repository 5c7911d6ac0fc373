//! What the controller remembers of a trial, of the change that it kept last, of failures, and of what the run had to do.

use super::comparison::Comparison;
use super::seen::Seen;
use crate::action::{Action, Candidate};

/// A trial under way.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) candidate: Candidate,
    /// The number of pairs of windows so far, and how many of these were measured before the trial was put off.
    pub(super) pairs: usize,
    pub(super) before: usize,
    pub(super) rates: Comparison,
    /// The score and rate of the first window of the present pair, if that window was measured already.
    pub(super) half: Option<(f64, f64)>,
    /// Whether the new values are in force.
    pub(super) is_on: bool,
    /// The guards that were broken before the trial began, for which the trial is therefore not the cause.
    pub(super) broken_before: Vec<usize>,
    pub(super) unknown: usize,
    /// The number of windows since the former values came back in which the new ones still had an effect.
    pub(super) lingers: usize,
    /// How often the work moved to other components, or the run moved tasks, during the trial.
    pub(super) shifts: usize,
    /// Whether the last window with the former values was far from those before the trial.
    pub(super) has_strayed: bool,
    /// The flow that was missing while the new values were in force, in seconds of flow.
    pub(super) lost: f64,
    /// For a goal that keeps the rate: by which part of itself the measure was worse while the new values were in
    /// force, such as the latency longer, times that time in seconds. A trial ends when that is more than trials may cost.
    pub(super) excess: f64,
}

/// A change that was kept, which is watched for some more windows because its gain or its harm may come late.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) action: Action,
    /// The score that the run had before the change.
    pub(super) former: f64,
    pub(super) scores: Vec<f64>,
}

/// An action that did not help, and when it may be tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) until: f64,
    pub(super) rest: f64,
    pub(super) regime: u64,
    /// Whether the action may gain something beside other values: it did no harm, and takes back none that was kept.
    pub(super) may_gain: bool,
}

/// What a run has to do: messages a second, and the processor time of each, in seconds at the usual speed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) rate: f64,
    pub(super) each: f64,
}

/// Two loads are the same if their rates, and their processor times, differ by no more than these factors.
const SAME_RATE: f64 = 1.05;
const SAME_WORK: f64 = 1.1;

impl Load {
    pub(super) fn of(seen: &Seen) -> Load {
        let speed = if seen.speed.is_finite() { seen.speed } else { 1.0 };
        Load { rate: seen.rate, each: speed * seen.processors / seen.rate }
    }

    pub(super) fn is_about(self, other: Load) -> bool {
        let near = |a: f64, b: f64, times: f64| a <= times * b && b <= times * a;
        near(self.rate, other.rate, SAME_RATE) && near(self.each, other.each, SAME_WORK)
    }
}
