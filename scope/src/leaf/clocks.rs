//! One clock for all processes of a machine, and the bound on the differences between clocks.

use std::sync::{Mutex, PoisonError};
use thalweg_space::Clock;
use thalweg_space::reader::Info;

/// The largest disorder between readings of the time stamp counter on different processors of a machine.
const SKEW_NS: u64 = 85;

/// The clocks met so far, one for each machine and kind of clock.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    known: Mutex<Vec<([u8; 16], Clock)>>,
}

impl Clocks {
    /// The clock for the times of this process: the clock of the first process on the same machine.
    pub(crate) fn of(&self, info: &Info) -> Clock {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(boot, clock): &&([u8; 16], Clock)| {
            *boot == info.boot_id && info.boot_id != [0; 16] && clock.kind() == info.clock.kind()
        };
        if let Some((_, clock)) = known.iter().find(same) {
            return *clock;
        }
        known.push((info.boot_id, info.clock));
        info.clock
    }

    /// The largest error of the difference of two tuples' times; `None` if tuples come from machines whose
    /// clocks were not compared.
    pub(crate) fn bound_ns(&self) -> Option<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        (known.len() < 2).then_some(SKEW_NS)
    }
}
