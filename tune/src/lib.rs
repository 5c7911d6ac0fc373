//! Tunes settings while a network runs: models propose changes, trials by turns verify them, and a log
//! records the reasons.
//!
//! The crate needs nothing but the measurements and settings of a run, in another process or in this one.
//! [`mapping`] finds a worker for each task, [`Rules`] are proposals as data, [`Controller`] decides which
//! actions to try and to keep, and [`tune`] is the loop over a live run.
#![deny(unsafe_code)]

mod action;
mod control;
mod knowledge;
pub mod library;
mod live;
pub mod mapping;

pub use action::{Action, Candidate, Change, Knob};
pub use control::{Controller, Decision, Gain, Goal, Guard, Judged, Order, Policy, Seen, What, percent};
pub use knowledge::{BadPack, Rules};
pub use live::{
    Options, Place, Progress, StreamIn, TOOL, TaskIn, TuneProgress, Tuned, Untuned, Window, WorkerIn, log,
    noted, pin, pins, tune,
};
