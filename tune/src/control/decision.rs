//! The decisions of a tuner, which the log holds.

use std::fmt;

use super::comparison::Gain;
use crate::action::Action;

/// The kind of decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A tuner began.
    Began,
    /// The run's behaviour changed; actions that failed may be tried again.
    Changed,
    /// An action is tried by turns with the former values.
    Tried,
    /// An action was better, and stays.
    Kept,
    /// An action was not better, or broke a guard, and was taken back.
    TakenBack,
    /// A change that was kept broke a guard later, and was taken back.
    Undone,
    /// A person or another tool set or pinned a knob, which the tuner leaves alone from now on.
    Pinned,
    /// An action would be tried, but the tuner may only report.
    Advised,
    /// The tuner ended.
    Ended,
}

impl What {
    /// All kinds with their words in the log; a kind's index in this list is its number in events.
    pub const ALL: [(What, &'static str); 9] = [
        (What::Began, "began"),
        (What::Changed, "changed"),
        (What::Tried, "tried"),
        (What::Kept, "kept"),
        (What::TakenBack, "taken back"),
        (What::Undone, "undone"),
        (What::Pinned, "pinned"),
        (What::Advised, "advised"),
        (What::Ended, "ended"),
    ];

    /// The word of this kind.
    pub fn word(self) -> &'static str {
        What::ALL.iter().find(|(what, _)| *what == self).map_or("", |(_, word)| word)
    }

    /// The kind for which the word `word` stands.
    pub fn of_word(word: &str) -> Option<What> {
        What::ALL.iter().find(|(_, known)| *known == word).map(|(what, _)| *what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A decision of a tuner.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The decision's number in the log, which continues the numbers of former tuners.
    pub number: u64,
    /// The time, in seconds of the tuner's clock.
    pub at: f64,
    /// The kind of decision.
    pub what: What,
    /// The action that was decided on, if any.
    pub action: Option<Action>,
    /// The action in words.
    pub change: String,
    /// The model or rule that proposed the action.
    pub model: String,
    /// The gain that the model expected.
    pub predicted: Option<f64>,
    /// The measured gain, if the action was tried.
    pub gain: Option<Gain>,
    /// The reason.
    pub why: String,
}

/// A fraction as a percentage: `+12.3 %`.
pub fn percent(part: f64) -> String {
    match part {
        part if !part.is_finite() => "–".to_owned(),
        part if part.abs() >= 9.995 => format!("{:+.0} %", 100.0 * part),
        part => format!("{:+.1} %", 100.0 * part),
    }
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mean, least, most) = (percent(self.mean), percent(self.least), percent(self.most));
        match self.pairs {
            1 => write!(f, "{mean} in one pair of windows"),
            pairs => write!(f, "{mean} ({least} to {most}, {pairs} pairs of windows)"),
        }
    }
}
