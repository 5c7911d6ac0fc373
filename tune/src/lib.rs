//! Settings tuned while a network runs: models say what would help, trials by turns verify it, and a log says why.
//!
//! The crate sees measurements and settings only, of a run in another process or in this one. [`mapping`] finds which task belongs on which
//! worker, [`Rules`] are knowledge as data, [`Controller`] decides what to try and whether it stays, and [`tune`] is the loop over a run that lives.
#![forbid(unsafe_code)]

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
    Options, Progress, StreamIn, TOOL, TaskIn, TuneProgress, Tuned, Untuned, Window, WorkerIn, log, noted,
    pin, pins, tune,
};
