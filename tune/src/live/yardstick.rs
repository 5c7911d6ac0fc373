//! Measures how fast the machine works, by the time of a fixed piece of work.
//!
//! The host of a virtual machine, or a limit of power or heat, may make a processor several times as slow for a tenth of a
//! second, and no counter of the kernel shows this; it may also be 10 % faster in one tenth of a second than in the next. The work takes about
//! four microseconds.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

/// The steps of the work, each of which depends on the one before, and how often it is done; the shorter time counts,
/// because another thread may have had the processor during the longer one.
const STEPS: u64 = 2_000;
const TIMES: usize = 2;
/// The work is slow if it takes this many times as long as it usually does.
const SLOW: f64 = 1.5;
/// The usual time is the median of so many times, and is known after the second number of them.
const USUAL_OF: usize = 64;
const KNOWN_AFTER: usize = 8;

/// The times that the work took, and what was seen since the last call of [`Yardstick::take`].
#[derive(Clone, Debug, Default)]
pub(super) struct Yardstick {
    times: VecDeque<f64>,
    /// The usual time, which is computed after each [`KNOWN_AFTER`] looks, and what it was when it was known first.
    usual: Option<f64>,
    first: Option<f64>,
    noted: usize,
    missing: f64,
    /// The sum of the speeds, in pieces of work a second.
    speeds: f64,
    looks: usize,
}

/// What a yardstick saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// The part of the machine's usual work that it did not do.
    pub(super) missing: f64,
    /// The mean speed, as a part of the usual speed when it was known first; NaN until then.
    pub(super) speed: f64,
}

impl Yardstick {
    /// Does the work.
    pub(super) fn look(&mut self) {
        let took = (0..TIMES).map(|_| work()).fold(f64::INFINITY, f64::min);
        self.note(took);
    }

    fn note(&mut self, took: f64) {
        if let Some(usual) = self.usual.filter(|usual| took > SLOW * usual) {
            self.missing += 1.0 - usual / took;
        }
        self.looks += 1;
        self.speeds += 1.0 / took;
        self.times.push_back(took);
        if self.times.len() > USUAL_OF {
            self.times.pop_front();
        }
        self.noted += 1;
        if self.noted.is_multiple_of(KNOWN_AFTER) {
            self.usual = Some(self.median());
            self.first = self.first.or(self.usual);
        }
    }

    fn median(&self) -> f64 {
        let mut times: Vec<f64> = self.times.iter().copied().collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// What was seen since the last call.
    pub(super) fn take(&mut self) -> Look {
        let looks = std::mem::take(&mut self.looks).max(1) as f64;
        let mean = |sum: &mut f64| std::mem::take(sum) / looks;
        let (missing, speed) = (mean(&mut self.missing), mean(&mut self.speeds));
        Look {
            missing,
            speed: if speed > 0.0 { self.first.map_or(f64::NAN, |first| first * speed) } else { f64::NAN },
        }
    }
}

/// Does the work once; returns its time in seconds.
fn work() -> f64 {
    let begun = Instant::now();
    let mut number = black_box(1_u64);
    for _ in 0..STEPS {
        number = (number ^ number >> 29).wrapping_mul(6_364_136_223_846_793_005);
    }
    black_box(number);
    begun.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_follows_from_the_usual_time() {
        let mut yardstick = Yardstick::default();
        assert!(yardstick.take().speed.is_nan());
        (0..20).for_each(|n| yardstick.note(if n % 2 == 0 { 10e-6 } else { 12e-6 }));
        let look = yardstick.take();
        assert_eq!(look.missing, 0.0);
        // The usual time is 12 µs.
        assert!((look.speed - 1.1).abs() < 0.001, "{look:?}");
        // Two of four looks take five times as long as usual.
        [12e-6, 60e-6, 60e-6, 10e-6].into_iter().for_each(|took| yardstick.note(took));
        let look = yardstick.take();
        assert!((look.missing - 0.4).abs() < 0.02 && (look.speed - 0.65).abs() < 0.001, "{look:?}");
        let look = yardstick.take();
        assert!(look.missing == 0.0 && look.speed.is_nan(), "{look:?}");
        // A machine that stays slower is slow as usual soon.
        (0..USUAL_OF).for_each(|_| yardstick.note(60e-6));
        yardstick.take();
        yardstick.note(60e-6);
        let look = yardstick.take();
        assert!(look.missing == 0.0 && (look.speed - 0.2).abs() < 0.001, "{look:?}");
    }

    #[test]
    fn the_work_takes_time() {
        let mut yardstick = Yardstick::default();
        (0..KNOWN_AFTER).for_each(|_| yardstick.look());
        assert!(yardstick.usual.is_some_and(|usual| usual > 1e-6), "{yardstick:?}");
    }
}
