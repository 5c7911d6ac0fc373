//! How long single messages take, and which fail: known only from events, in mode full. It is asked for where a guard speaks of it.

use thalweg_monitor::{Follower, Report};
use thalweg_space::lease::{Lease, Terms};
use thalweg_space::reader::{SettingView, SpaceReader};

use super::untuned::Untuned;
use crate::control::Seen;

/// The setting, and what it has to be.
const MODE: &str = "monitor.mode";
const FULL: &str = "full";

/// Follows the messages of a run, which is in mode full meanwhile.
pub(super) struct Messages {
    follower: Follower<'static>,
    /// Puts the mode back when this is over, also by being killed.
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

    /// Takes the events so far: often enough that none is overwritten.
    pub(super) fn look(&mut self) {
        self.follower.poll();
    }

    /// Adds what was recorded since the last time to what was seen, and begins anew.
    pub(super) fn add(&mut self, seen: Seen) -> Result<Seen, Untuned> {
        self.follower.poll();
        let report = self.follower.report()?;
        self.follower.restart();
        let Report { latency, components, .. } = &report;
        let p99 = latency.end_to_end.as_ref().map_or(f64::NAN, |times| times.p99_ns / 1e9);
        let failed: u64 = components.iter().map(|component| component.work.failed).sum();
        Ok(Seen { p99, errors: failed as f64 / seen.lasted, ..seen })
    }

    /// Puts the mode back.
    pub(super) fn end(self) {
        if let Some(lease) = self.lease {
            // Where somebody else has set it meanwhile it stays.
            let _ = lease.give_back();
        }
    }
}
