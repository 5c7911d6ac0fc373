//! The counts of a run.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::amount::{count, counted};

/// The counts of sources, sinks and the thread that reports failures. [`fmt::Display`] writes the counts as
/// `3 records in, 2 out, 1 failed`.
#[derive(Debug, Default)]
pub struct Tally {
    pub(super) records_in: AtomicU64,
    pub(super) records_out: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) broken: AtomicBool,
}

impl Tally {
    /// Records that entered the network.
    pub fn records_in(&self) -> u64 {
        self.records_in.load(Ordering::Relaxed)
    }

    /// Records that left the network and were written.
    pub fn records_out(&self) -> u64 {
        self.records_out.load(Ordering::Relaxed)
    }

    /// Failed records, and pieces of the input that are no records.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Records that synchrocells held when the network ended, and that do not count as failures.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether the input could not be read to its end, or the output could not be written.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in, {} out", counted(self.records_in(), "record"), count(self.records_out()))?;
        if self.failed() > 0 {
            write!(f, ", {} failed", self.failed())?;
        }
        match self.waiting() {
            0 => Ok(()),
            waiting => write!(f, ", {waiting} still waiting"),
        }
    }
}
