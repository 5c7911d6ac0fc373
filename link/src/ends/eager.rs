//! How often a receiver looks again for data before it sleeps.
//!
//! To wake a thread that sleeps on another processor takes 20 to 50 µs on a virtual machine, longer than most
//! answers take. A receiver therefore looks again a few times, and leaves the processor to other threads
//! between two looks. A receiver that finds nothing looks less and less often, so waiting for a slow sender costs
//! almost no processor time.

use std::time::{Duration, Instant};

/// The most looks before a sleep.
const LOOKS_MAX: u32 = 32;
/// If looking takes longer, other threads need the processor.
const LONG: Duration = Duration::from_micros(50);
/// The number of sleeps without a look after which looking is tried again.
const SLEEPS: u32 = 64;

/// Decides whether to look again or to sleep.
#[derive(Debug)]
pub(crate) struct Eager {
    /// The most looks before the next sleep.
    most: u32,
    /// The looks since data arrived last, or since the last sleep.
    looks: u32,
    /// The time of the first of these looks.
    begun: Instant,
    /// The sleeps since the last look.
    sleeps: u32,
}

impl Eager {
    pub(crate) fn new() -> Eager {
        Eager { most: LOOKS_MAX, looks: 0, begun: Instant::now(), sleeps: 0 }
    }

    /// No data have arrived. Returns true if the caller looks again; false if it sleeps. Before a look, other threads
    /// get the processor, unless `glance` sees data, which is for connections on which a glance costs next to nothing.
    pub(crate) fn looks_again(&mut self, glance: impl FnOnce() -> bool) -> bool {
        if self.looks < self.most {
            let now = Instant::now();
            if self.looks == 0 {
                self.begun = now;
            }
            if now - self.begun < LONG {
                self.looks += 1;
                if !glance() {
                    std::thread::yield_now();
                }
                return true;
            }
            self.most = 0;
        }
        self.most /= 2;
        self.looks = 0;
        self.sleeps += 1;
        if self.sleeps > SLEEPS {
            (self.most, self.sleeps) = (LOOKS_MAX, 0);
        }
        false
    }

    /// Data have arrived.
    pub(crate) fn arrived(&mut self) {
        if self.looks > 0 {
            (self.most, self.looks, self.sleeps) = (LOOKS_MAX, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of looks before the next sleep.
    fn looks(eager: &mut Eager) -> u32 {
        (0..).find(|_| !eager.looks_again(|| false)).expect("it sleeps")
    }

    #[test]
    fn looks_that_find_nothing_become_few() {
        let mut eager = Eager::new();
        let all: u32 = (0..SLEEPS).map(|_| looks(&mut eager)).sum();
        assert!(all < 2 * LOOKS_MAX, "{all}");
        assert_eq!(looks(&mut eager), 0, "the last of the sleeps without a look");
        assert!(looks(&mut eager) > 0, "it is tried again");
    }

    #[test]
    fn a_look_that_finds_data_makes_further_looks_worthwhile() {
        let mut eager = Eager::new();
        (0..SLEEPS / 2).for_each(|_| _ = looks(&mut eager));
        eager.arrived();
        assert_eq!(looks(&mut eager), 0, "data that come after a sleep change nothing");
        let mut eager = Eager::new();
        for _ in 0..1000 {
            assert!(eager.looks_again(|| false));
            eager.arrived();
        }
    }
}
