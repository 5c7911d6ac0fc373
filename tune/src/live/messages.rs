//! Measures the latencies and failures of single messages from events in mode full, if a guard limits them.

use thalweg_monitor::{Follower, Report};
use thalweg_space::lease::{Lease, Terms};
use thalweg_space::reader::{SettingView, SpaceReader};

use super::untuned::Untuned;
use crate::control::Seen;

/// The setting for the mode of recording; the next constant is the value that single messages need.
const MODE: &str = "monitor.mode";
const FULL: &str = "full";

/// Follows the messages of a run, and keeps the run in mode full as long as it follows.
pub(super) struct Messages {
    follower: Follower<'static>,
    /// The lease of the mode: when the follower ends, or the tuner is killed, the run gets its former mode
    /// again.
    lease: Option<Lease>,
}

impl Messages {
    pub(super) fn follow(reader: &SpaceReader, settings: &[SettingView]) -> Result<Messages, Untuned> {
        let mode = settings.iter().find(|setting| setting.name == MODE);
        let full = mode.and_then(|mode| mode.choices.iter().position(|choice| choice == FULL));
        let (Some(mode), Some(full)) = (mode, full) else {
            return Err(Untuned::Refused("this run cannot tell how long single messages take".to_owned()));
        };
        let lease = (mode.value != full as u64).then(|| reader.lease(MODE, full as u64, Terms::living()));
        let mut follower = Follower::open(reader.path(), 1)?;
        follower.poll();
        follower.restart();
        Ok(Messages { follower, lease: lease.transpose()? })
    }

    /// Reads the events so far; it must be called often enough that no event is overwritten before it is
    /// read.
    pub(super) fn look(&mut self) {
        self.follower.poll();
    }

    /// Adds the latencies and failures since the last call to `seen`, and starts the next window.
    pub(super) fn add(&mut self, seen: Seen) -> Result<Seen, Untuned> {
        self.follower.poll();
        let report = self.follower.report()?;
        self.follower.restart();
        let Report { latency, components, .. } = &report;
        let p99 = latency.end_to_end.as_ref().map_or(f64::NAN, |times| times.p99_ns / 1e9);
        let failed: u64 = components.iter().map(|component| component.work.failed).sum();
        Ok(Seen { p99, errors: failed as f64 / seen.lasted, ..seen })
    }

    /// Restores the mode.
    pub(super) fn end(self) {
        if let Some(lease) = self.lease {
            // An error is ignored: if another process has set the mode since, that mode stays.
            let _ = lease.give_back();
        }
    }
}
