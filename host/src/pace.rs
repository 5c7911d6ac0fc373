//! How long a thread sleeps that archives events and found no new ones.

use std::time::{Duration, Instant};

/// The shortest and the longest time to sleep when there were no new events.
const IDLE_MIN: Duration = Duration::from_micros(50);
const IDLE_MAX: Duration = Duration::from_millis(2);
/// The share of a ring that writers may fill during a sleep.
const SHARE: f64 = 0.25;

/// Sleeps that are the shorter the faster writers fill their rings.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The time when the last sleep began.
    slept: Instant,
}

impl Pace {
    pub(crate) fn new() -> Pace {
        Pace { slept: Instant::now() }
    }

    /// Sleeps until [`SHARE`] of the ring that fills fastest is written, if it fills as fast as since the last
    /// sleep began, in which `share` of it was written.
    pub(crate) fn sleep(&mut self, share: f64) {
        let idle = idle_time(share, self.slept.elapsed());
        self.slept = Instant::now();
        std::thread::sleep(idle);
    }
}

/// The time until [`SHARE`] of a ring is written, at the rate at which `share` of it was written in `time`.
fn idle_time(share: f64, time: Duration) -> Duration {
    let seconds = time.as_secs_f64() * SHARE / share;
    if seconds < IDLE_MAX.as_secs_f64() { Duration::from_secs_f64(seconds).max(IDLE_MIN) } else { IDLE_MAX }
}

#[cfg(test)]
mod tests {
    use super::{IDLE_MAX, IDLE_MIN, idle_time};
    use std::time::Duration;

    #[test]
    fn a_sleep_lasts_until_a_quarter_of_the_fastest_ring_is_written() {
        let us = Duration::from_micros;
        for (share, time, wanted) in [
            (0.0, us(2_000), IDLE_MAX),
            (0.0, us(0), IDLE_MAX),
            (0.01, us(2_000), IDLE_MAX),
            (0.25, us(1_000), us(1_000)),
            (1.0, us(2_000), us(500)),
            (1.0, us(500), us(125)),
            (8.0, us(800), IDLE_MIN),
        ] {
            assert_eq!(idle_time(share, time), wanted, "{share} of a ring in {time:?}");
        }
    }
}
