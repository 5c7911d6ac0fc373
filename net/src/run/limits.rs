//! The limits and choices of a running network: settings of its space, which may be changed during the run.

use thalweg_space::{Affects, Space, Tunable};

use crate::error::Error;

thalweg_space::settings! {
    /// The settings of a running network. `Settings::DECLARED` describes each setting; [`StartOptions`] are
    /// the initial values.
    pub struct Settings {
        /// Records that wait in the back channel of a feedback at most; further ones fail
        feedback_records: {
            name: "net.feedback_records",
            unit: "records",
            min: 1,
            max: 1 << 40,
            default: 1 << 20,
            affects: Affects::Network,
        },
        /// Replicas that a split without state keeps; the one used longest ago makes room
        replicas: {
            name: "net.replicas",
            unit: "replicas",
            min: 1,
            max: 1 << 40,
            default: 1 << 14,
            affects: Affects::Network,
        },
        /// Records in a row that leave at an exit before what follows in a star without state is folded back
        fold_after: {
            name: "net.fold_after",
            unit: "records",
            min: 1,
            max: 1 << 40,
            default: 1 << 12,
            affects: Affects::Network,
        },
        /// Which of several branches that fit a record equally well gets it
        ties: {
            name: "net.ties",
            choices: &["leftmost", "demand"],
            default: Ties::Leftmost as u64,
            affects: Affects::Network,
        },
        /// Which records from outside go into a feedback's body: all, or (as in S-Net's reference) those that its pattern matches
        feedback_entry: {
            name: "net.feedback_entry",
            choices: &["all", "matching"],
            default: FEEDBACK_ALL,
            affects: Affects::Network,
        },
        /// When a box without input that a network begins with runs: once at the start, or (as in S-Net's reference) once a record
        initialisers: {
            name: "net.initialisers",
            choices: &["start", "records"],
            default: INITIALISERS_START,
            affects: Affects::Network,
        },
        /// Whether a component hands records on to the next component, if that waits for them on the same worker and can work on them in place
        fuse: SWITCH { name: "net.fuse", default: 1, affects: Affects::Network },
    }
}

/// The default of `net.feedback_entry` and of `net.initialisers`.
const FEEDBACK_ALL: u64 = 0;
const INITIALISERS_START: u64 = 0;

/// The limits and choices of a network at its start. With a space they are the initial values of the settings
/// `net.feedback_records`, `net.replicas`, `net.fold_after`, `net.ties` and `net.fuse`; a later network of
/// the same space starts with the values that the settings then have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartOptions {
    /// The most records that wait in the back channel of a feedback; further ones fail.
    pub feedback_records: u64,
    /// The number of replicas of a split without state that are kept: the one used longest ago is folded back
    /// for a new one.
    pub replicas: u64,
    /// The number of records in a row that leave at an exit before the following stages of a star without
    /// state are folded back.
    pub fold_after: u64,
    /// Whether failed records also keep the original of values that a box changed in place, as dead letters
    /// require. If so, boxes that change bytes, texts and arrays change copies.
    pub exact_failures: bool,
    /// The branch that gets a record which fits several branches equally well.
    pub ties: Ties,
    /// Whether components hand records on to a component that waits on the same worker.
    pub fuse: bool,
}

/// The branch that gets a record which fits several branches equally well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The leftmost branch, in every run.
    Leftmost,
    /// The branch with the most space in its input stream: results may differ from run to run.
    Demand,
}

impl Default for StartOptions {
    fn default() -> StartOptions {
        let declared = Settings::DECLARED;
        StartOptions {
            feedback_records: declared.feedback_records.default,
            replicas: declared.replicas.default,
            fold_after: declared.fold_after.default,
            exact_failures: false,
            ties: Ties::Leftmost,
            fuse: declared.fuse.default != 0,
        }
    }
}

/// The limits of a running network.
#[derive(Debug)]
pub(crate) struct Limits {
    settings: Settings,
    exact_failures: bool,
}

impl Limits {
    pub(crate) fn new(space: Option<&Space>, options: StartOptions) -> Result<Limits, Error> {
        let StartOptions { feedback_records, replicas, fold_after, exact_failures, ties, fuse } = options;
        let mut specs = Settings::DECLARED;
        specs.feedback_records.default = feedback_records;
        specs.replicas.default = replicas;
        specs.fold_after.default = fold_after;
        specs.ties.default = ties as u64;
        specs.fuse.default = fuse.into();
        let settings = specs.make(space)?;
        Ok(Limits { settings, exact_failures })
    }

    pub(crate) fn feedback_records(&self) -> usize {
        count(&self.settings.feedback_records)
    }

    pub(crate) fn replicas(&self) -> usize {
        count(&self.settings.replicas)
    }

    pub(crate) fn fold_after(&self) -> usize {
        count(&self.settings.fold_after)
    }

    /// Whether a feedback also tests records from outside, and lets those that its pattern does not match
    /// bypass the body.
    pub(crate) fn feedback_tests_entry(&self) -> bool {
        self.settings.feedback_entry.load() != FEEDBACK_ALL
    }

    /// Whether a box without input at the beginning of a network runs once for each record and not at the
    /// start.
    pub(crate) fn initialisers_wait(&self) -> bool {
        self.settings.initialisers.load() != INITIALISERS_START
    }

    pub(crate) fn exact_failures(&self) -> bool {
        self.exact_failures
    }

    /// Whether a component hands records on to the next one.
    #[inline]
    pub(crate) fn fuses(&self) -> bool {
        self.settings.fuse.load() != 0
    }

    /// Whether free space in the branches decides a tie, and not their order.
    pub(crate) fn ties_by_demand(&self) -> bool {
        self.settings.ties.load() == Ties::Demand as u64
    }
}

/// A limit that is at least 1.
fn count(limit: &Tunable) -> usize {
    limit.load() as usize
}
