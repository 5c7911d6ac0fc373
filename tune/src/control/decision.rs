//! What a tuner decided: what the log holds.

use std::fmt;

use super::comparison::Gain;
use crate::action::Action;

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A tuner began.
    Began,
    /// The run's behaviour changed; actions that failed may be tried again.
    Changed,
    /// An action is tried by turns with the former values.
    Tried,
    /// It was better, and stays.
    Kept,
    /// It was not better, or broke a guard, and was taken back.
    TakenBack,
    /// A change that was kept broke a guard later, and was taken back.
    Undone,
    /// A person or another tool set it or pinned it: the tuner leaves it alone.
    Pinned,
    /// It would be tried, if the tuner were allowed to.
    Advised,
    /// The tuner ended.
    Ended,
}

impl What {
    /// All of them with the words by which the log calls them; their places are their numbers in events.
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

    /// The word for it.
    pub fn word(self) -> &'static str {
        What::ALL.iter().find(|(what, _)| *what == self).map_or("", |(_, word)| word)
    }

    /// What this word stands for.
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
    /// Its number: the log's own, counted on from tuners before.
    pub number: u64,
    /// When, in seconds of the tuner's clock.
    pub at: f64,
    /// What was decided.
    pub what: What,
    /// About what, if about an action.
    pub action: Option<Action>,
    /// The action in words.
    pub change: String,
    /// The model or rule that proposed it.
    pub model: String,
    /// What the model expected it to bring.
    pub predicted: Option<f64>,
    /// What it brought, as far as it was tried.
    pub gain: Option<Gain>,
    /// Why.
    pub why: String,
}

/// A part as a person reads it: `+12.3 %`.
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
