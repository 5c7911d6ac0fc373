//! The actions of a tuner: settings that get other values, tasks that move to other workers.

use std::fmt;

/// Something that a tuner can change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Knob {
    /// The setting with this name.
    Setting(String),
    /// The worker of a task.
    Worker {
        /// The task's number.
        task: u64,
        /// The task's name.
        name: String,
    },
}

/// A change of a knob from one value to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The knob.
    pub knob: Knob,
    /// The value before.
    pub from: u64,
    /// The value after.
    pub to: u64,
}

/// Changes that are tried as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// The changes, with each knob at most once.
    pub changes: Vec<Change>,
}

/// An action that a model proposes.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The action.
    pub action: Action,
    /// The model or rule that proposes the action.
    pub model: String,
    /// The expected improvement of the goal, as a fraction.
    pub gain: f64,
    /// The observation that speaks for the action.
    pub why: String,
}

impl Knob {
    /// The name by which users pin and set the knob: `exec.quantum`, `task/17.worker`.
    pub fn name(&self) -> String {
        match self {
            Knob::Setting(name) => name.clone(),
            Knob::Worker { task, .. } => format!("task/{task}.worker"),
        }
    }
}

impl Candidate {
    /// A candidate with an action that no model proposed.
    pub(crate) fn of(action: Action) -> Candidate {
        Candidate { action, model: String::new(), gain: f64::NAN, why: String::new() }
    }
}

impl Action {
    /// An action that sets one setting.
    pub fn set(name: impl Into<String>, from: u64, to: u64) -> Action {
        Action { changes: vec![Change { knob: Knob::Setting(name.into()), from, to }] }
    }

    /// Whether the action changes one of these settings.
    pub(crate) fn changes_one_of(&self, settings: &[&str]) -> bool {
        let is_it = |knob: &Knob| matches!(knob, Knob::Setting(name) if settings.contains(&name.as_str()));
        self.changes.iter().any(|change| is_it(&change.knob))
    }

    /// The key under which an action that did not help is remembered: a setting and the direction of its
    /// change, or a move of tasks.
    pub fn key(&self) -> String {
        let keys = self.changes.iter().map(|change| match &change.knob {
            Knob::Setting(name) if change.to > change.from => format!("{name} up"),
            Knob::Setting(name) => format!("{name} down"),
            Knob::Worker { .. } => "mapping".to_owned(),
        });
        let mut keys: Vec<String> = keys.collect();
        keys.sort();
        keys.dedup();
        keys.join(", ")
    }

    /// The key under which only an action with the same values is remembered.
    pub fn exact_key(&self) -> String {
        let values = self.values();
        let mut values: Vec<&str> = values.split(' ').collect();
        values.sort_unstable();
        values.join(" ")
    }

    /// The key under which this action alone is remembered, if its key stands for different actions: one mapping
    /// says little of others. Else the key.
    pub(crate) fn own_key(&self) -> String {
        if self.only_moves() { self.exact_key() } else { self.key() }
    }

    /// Whether the action moves tasks, and changes nothing else.
    pub(crate) fn only_moves(&self) -> bool {
        self.changes.iter().all(|change| matches!(change.knob, Knob::Worker { .. }))
    }

    /// The action that undoes this one.
    pub fn inverse(&self) -> Action {
        let back = |change: &Change| Change { from: change.to, to: change.from, ..change.clone() };
        Action { changes: self.changes.iter().rev().map(back).collect() }
    }

    /// The values that the action sets, as a list of `NAME=VALUE` that [`Action::read`] reads.
    pub fn values(&self) -> String {
        let value = |change: &Change| format!("{}={}", change.knob.name(), change.to);
        self.changes.iter().map(value).collect::<Vec<_>>().join(" ")
    }

    /// Reads an action from two lists: the values that it sets, and the values that undo it. `None` if the
    /// two lists do not name the same settings, or are malformed.
    pub fn read(values: &str, back: &str) -> Option<Action> {
        let pair = |text: &str| {
            let (name, value) = text.split_once('=')?;
            Some((name.to_owned(), value.parse::<u64>().ok()?))
        };
        let before: Vec<(String, u64)> = back.split_whitespace().map(pair).collect::<Option<_>>()?;
        let change = |text: &str| {
            let (name, to) = pair(text)?;
            let from = before.iter().find(|(known, _)| *known == name)?.1;
            let task = name.strip_prefix("task/").and_then(|rest| rest.strip_suffix(".worker"));
            let knob = match task {
                Some(task) => Knob::Worker { task: task.parse().ok()?, name: name.clone() },
                None => Knob::Setting(name),
            };
            Some(Change { knob, from, to })
        };
        Some(Action { changes: values.split_whitespace().map(change).collect::<Option<_>>()? })
    }
}

/// The most moves that a text lists.
const SPELT: usize = 3;

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut moves = Vec::new();
        for Change { knob, from, to } in &self.changes {
            match knob {
                Knob::Setting(name) => parts.push(format!("{name} {from} → {to}")),
                // A task that stays is listed only where the run would otherwise place it itself.
                Knob::Worker { .. } if from == to => {}
                Knob::Worker { name, .. } => moves.push(format!("{name} from worker {from} to {to}")),
            }
        }
        let more = moves.len().saturating_sub(SPELT);
        parts.extend(moves.into_iter().take(SPELT));
        f.write_str(&parts.join(", "))?;
        match more {
            0 => Ok(()),
            1 => f.write_str(" and 1 more task"),
            more => write!(f, " and {more} more tasks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_an_action_is_read_again() {
        let worker = Knob::Worker { task: 17, name: "task/17.worker".into() };
        let mut action = Action::set("exec.quantum", 64, 128);
        action.changes.push(Change { knob: worker, from: 0, to: 1 });
        assert_eq!(action.values(), "exec.quantum=128 task/17.worker=1");
        let read = Action::read(&action.values(), &action.inverse().values());
        assert_eq!(read.as_ref(), Some(&action));
        assert_eq!(Action::read("a=1", "b=2"), None);
        assert_eq!(Action::read("a=x", "a=2"), None);
        assert_eq!(action.key(), "exec.quantum up, mapping");
        assert_eq!(action.inverse().key(), "exec.quantum down, mapping");
        assert_eq!(action.inverse().inverse().exact_key(), action.exact_key());
        assert_ne!(action.inverse().exact_key(), action.exact_key());
    }
}
