//! The cost of a scope's pulls, and its limit.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// A pull shorter than this is short: two readings of the thread's processor time would take a tenth of it or
/// more.
const SHORT: Duration = Duration::from_micros(10);

/// The processor time of the calling thread in nanoseconds.
pub(super) fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The clocks at the beginning of a pull.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) at: Instant,
    thread_ns: Option<u64>,
}

/// The share of the host's processor time that pulls may take, and the time that they took.
///
/// At most a second's worth of unused time is kept. So a scope that waits as long as [`Price::wait`] returns
/// exceeds its share for a second at most.
#[derive(Clone, Debug)]
pub struct Price {
    /// The share of the time of all processors.
    share: f64,
    processors: f64,
    /// Nanoseconds that may be used now; negative: a pull took more than was left.
    left_ns: f64,
    seen: Instant,
    /// The mean processor time of the pulls so far.
    pull_ns: f64,
    used_ns: u64,
    pulls: u64,
    /// Whether the last pull was short.
    is_short: bool,
}

impl Price {
    /// The share that scopes have by default: 1 %.
    pub const SHARE: f64 = 0.01;

    /// A price of this share (0 to 1) of this machine's processor time.
    pub fn new(share: f64) -> Price {
        let processors = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        let share = share.clamp(1e-6, 1.0);
        let mut price = Price {
            share,
            processors,
            left_ns: 0.0,
            seen: Instant::now(),
            pull_ns: 0.0,
            used_ns: 0,
            pulls: 0,
            is_short: false,
        };
        price.left_ns = price.most_ns();
        price
    }

    /// The share of the host's processor time that pulls may take.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// The time that pulls may take, in processors: more than 1 if they may use several.
    pub(crate) fn per_s(&self) -> f64 {
        self.share * self.processors
    }

    /// The most unused time that is kept: a second's worth.
    fn most_ns(&self) -> f64 {
        self.per_s() * 1e9
    }

    fn look(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.seen).as_nanos() as f64;
        self.seen = now;
        self.left_ns = (self.left_ns + passed * self.per_s()).min(self.most_ns());
    }

    /// How long to wait before the next pull so that the share is not exceeded.
    pub fn wait(&mut self) -> Duration {
        self.wait_at(Instant::now())
    }

    fn wait_at(&mut self, now: Instant) -> Duration {
        self.look(now);
        let missing = self.pull_ns.min(self.most_ns()) - self.left_ns;
        if missing <= 0.0 {
            Duration::ZERO
        } else {
            Duration::from_nanos((missing / self.per_s()).ceil() as u64)
        }
    }

    /// Begins a pull. If the last pull was short, elapsed time is measured instead of processor time: its
    /// clock needs no system call, and it is never less than the processor time.
    pub(super) fn begin(&self) -> Begun {
        Begun { at: Instant::now(), thread_ns: (!self.is_short).then(thread_ns) }
    }

    /// Ends a pull; returns the time now, and the pull's processor time on this thread in nanoseconds.
    pub(super) fn end(&mut self, begun: Begun) -> (Instant, u64) {
        let now = Instant::now();
        let passed = now - begun.at;
        self.is_short = passed < SHORT;
        let of_thread = begun.thread_ns.map(|before| thread_ns().saturating_sub(before));
        (now, of_thread.unwrap_or(passed.as_nanos() as u64))
    }

    /// Charges a pull that took `ns` of processor time.
    pub fn pay(&mut self, ns: u64) {
        self.pay_at(Instant::now(), ns);
    }

    pub(super) fn pay_at(&mut self, now: Instant, ns: u64) {
        self.look(now);
        self.left_ns -= ns as f64;
        let weight = if self.pulls == 0 { 1.0 } else { 0.125 };
        self.pull_ns += weight * (ns as f64 - self.pull_ns);
        self.used_ns += ns;
        self.pulls += 1;
    }

    /// The pulls per second that the share allows, at the mean cost of the pulls so far; infinite before the
    /// first.
    pub fn rate_allowed(&self) -> f64 {
        if self.pull_ns > 0.0 { self.most_ns() / self.pull_ns } else { f64::INFINITY }
    }

    /// The processor time of all pulls in nanoseconds.
    pub fn used_ns(&self) -> u64 {
        self.used_ns
    }

    /// The number of pulls so far.
    pub fn pulls(&self) -> u64 {
        self.pulls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waiting_never_uses_more_than_a_second_ahead(
            share in 0.001_f64..1.0,
            costs in prop::collection::vec(1_000_u64..50_000_000, 1..200),
        ) {
            let mut price = Price::new(share);
            let per_s = price.per_s();
            let begin = price.seen;
            let mut now = begin;
            let mut used = 0.0;
            let mut greatest: f64 = 0.0;
            for cost in costs {
                now += price.wait_at(now);
                // The processor time of all pulls exceeds the share by at most what a second allows.
                let allowed = per_s * (now - begin).as_nanos() as f64 + per_s * 1e9;
                prop_assert!(used <= allowed + 1.0, "{used} {allowed}");
                greatest = greatest.max(cost as f64);
                used += cost as f64;
                price.pay_at(now, cost);
            }
            now += price.wait_at(now);
            let allowed = per_s * ((now - begin).as_nanos() as f64 + 1e9) + greatest;
            prop_assert!(used <= allowed + 1.0);
        }
    }
}
