//! What a running network keeps at most, and how it chooses: settings of its space, which may be changed while it runs.

use thalweg_space::{Setting, SettingSpec, Space};

use crate::error::Error;

/// What a network keeps at most and how it chooses, at its start. With a space these are the settings
/// `net.feedback_records`, `net.replicas`, `net.fold_after` and `net.ties`, and a later network of the same space takes
/// their values of then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartOptions {
    /// How many records wait in the back channel of a feedback; further ones fail.
    pub feedback_records: u64,
    /// How many replicas of a split without state are kept: the one used longest ago is folded back for a new one.
    pub replicas: u64,
    /// After how many records that all left at an exit what follows in a star without state is folded back.
    pub fold_after: u64,
    /// Whether records that fail keep even those values as they came that a box changed in place, as dead letters want it.
    /// Then boxes that change bytes, texts and arrays change copies.
    pub exact_failures: bool,
    /// Which of several branches gets a record that fits them equally well.
    pub ties: Ties,
}

/// Which of several branches that fit a record equally well gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The leftmost, in every run.
    Leftmost,
    /// The one with the most room in its input stream: what a run gives may differ from run to run.
    Demand,
}

impl Default for StartOptions {
    fn default() -> StartOptions {
        StartOptions {
            feedback_records: 1 << 20,
            replicas: 1 << 14,
            fold_after: 1 << 12,
            exact_failures: false,
            ties: Ties::Leftmost,
        }
    }
}

/// The limits of a running network.
#[derive(Debug)]
pub(crate) struct Limits {
    feedback_records: Limit,
    replicas: Limit,
    fold_after: Limit,
    exact_failures: bool,
    ties: Limit,
}

/// A limit: a setting, or a plain number where there is no space.
#[derive(Debug)]
enum Limit {
    Setting(Setting),
    Plain(u64),
}

impl Limit {
    fn new(space: Option<&Space>, name: &str, doc: &str, unit: &str, default: u64) -> Result<Limit, Error> {
        let Some(space) = space else { return Ok(Limit::Plain(default)) };
        let spec = SettingSpec { name, doc, unit, min: 1, max: 1 << 40, default, choices: &[] };
        space.setting(spec).map(Limit::Setting).map_err(|error| Error::new(error.to_string()))
    }

    /// One of some choices, as its number.
    fn choice(
        space: Option<&Space>,
        name: &str,
        doc: &str,
        choices: &[&str],
        default: u64,
    ) -> Result<Limit, Error> {
        let Some(space) = space else { return Ok(Limit::Plain(default)) };
        let spec =
            SettingSpec { name, doc, unit: "", min: 0, max: choices.len() as u64 - 1, default, choices };
        space.setting(spec).map(Limit::Setting).map_err(|error| Error::new(error.to_string()))
    }

    fn value(&self) -> u64 {
        match self {
            Limit::Setting(setting) => setting.load(),
            Limit::Plain(value) => *value,
        }
    }

    fn now(&self) -> usize {
        self.value().max(1) as usize
    }
}

impl Limits {
    pub(crate) fn new(space: Option<&Space>, options: StartOptions) -> Result<Limits, Error> {
        let StartOptions { feedback_records, replicas, fold_after, exact_failures, ties } = options;
        let limit = |name, doc, unit, default| Limit::new(space, name, doc, unit, default);
        Ok(Limits {
            feedback_records: limit(
                "net.feedback_records",
                "Records that wait in the back channel of a feedback at most; further ones fail",
                "records",
                feedback_records,
            )?,
            replicas: limit(
                "net.replicas",
                "Replicas that a split without state keeps; the one used longest ago makes room",
                "replicas",
                replicas,
            )?,
            fold_after: limit(
                "net.fold_after",
                "Records in a row that leave at an exit before what follows in a star without state is folded back",
                "records",
                fold_after,
            )?,
            exact_failures,
            ties: Limit::choice(
                space,
                "net.ties",
                "Which of several branches that fit a record equally well gets it",
                &["leftmost", "demand"],
                ties as u64,
            )?,
        })
    }

    pub(crate) fn feedback_records(&self) -> usize {
        self.feedback_records.now()
    }

    pub(crate) fn replicas(&self) -> usize {
        self.replicas.now()
    }

    pub(crate) fn fold_after(&self) -> usize {
        self.fold_after.now()
    }

    pub(crate) fn exact_failures(&self) -> bool {
        self.exact_failures
    }

    /// Whether the room of the branches decides a tie, and not their order.
    pub(crate) fn ties_by_demand(&self) -> bool {
        self.ties.value() == Ties::Demand as u64
    }
}
