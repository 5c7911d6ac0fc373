//! One clock for all processes of a machine, and the bound on the differences between clocks.

use std::sync::{Mutex, PoisonError};
use thalweg_space::Clock;
use thalweg_space::reader::Info;

/// The largest disorder between readings of the time stamp counter on different processors of a machine.
const SKEW_NS: u64 = 85;

/// The clocks met so far: one for each machine and kind of clock, and one for each copy of a space of another
/// machine.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    known: Mutex<Vec<Known>>,
}

#[derive(Debug)]
struct Known {
    boot: [u8; 16],
    clock: Clock,
    /// The largest error of the clock's real time, if it is that of a copy.
    error_ns: Option<u64>,
}

impl Clocks {
    /// The clock for the times of this process: the clock of the first process on the same machine. The second
    /// value is whether the clock is that of a copy: such a clock becomes more exact while the copy is updated.
    pub(crate) fn of(&self, info: &Info) -> (Clock, bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &&Known| {
            known.boot == info.boot_id
                && info.boot_id != [0; 16]
                && known.clock.kind() == info.clock.kind()
                && known.error_ns.is_none()
        };
        if let Some(Known { clock, .. }) = known.iter().find(same) {
            return (*clock, false);
        }
        known.push(Known { boot: info.boot_id, clock: info.clock, error_ns: info.clock_error_ns });
        (info.clock, info.clock_error_ns.is_some())
    }

    /// The largest error of the difference of two tuples' times; `None` if tuples come from machines whose
    /// clocks were not compared.
    pub(crate) fn bound_ns(&self) -> Option<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().filter(|known| known.error_ns.is_none()).count() > 1 {
            return None;
        }
        // The difference of two times has the errors of both.
        let mut errors: Vec<u64> = known.iter().filter_map(|known| known.error_ns).collect();
        errors.sort_unstable();
        Some(errors.iter().rev().take(2).fold(SKEW_NS, |sum, error| sum.saturating_add(*error)))
    }
}
