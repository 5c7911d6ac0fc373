//! Random numbers for tests and benchmarks: the same for the same seed, so that a failing seed can be run again.
//!
//! ```
//! use thalweg_chance::Chance;
//!
//! let mut chance = Chance::new(7);
//! let thrown: Vec<u64> = (0..5).map(|_| chance.below(6) + 1).collect();
//! assert_eq!(thrown, [4, 1, 1, 4, 5]);
//! ```
#![forbid(unsafe_code)]

/// A generator (SplitMix64: every seed is as good as any other).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A number of 64 bits.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number below a limit; 0 if the limit is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// A number that is at least `from` and below `to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    /// True once in `times` calls on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One element of `all`.
    ///
    /// # Panics
    /// If `all` is empty.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A number that is at least 0 and below 1.
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from an exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Bytes without a pattern.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

/// The number that an environment variable has; `otherwise` if it is not set, or is no number. Tests that last as long
/// as a user wants take their seeds, counts and seconds from such variables.
pub fn number_of(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// A number that looks random; different numbers give different results.
pub fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix() {
        let mut chance = Chance::new(1_234_567);
        let wanted = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423_u64];
        assert_eq!([chance.next(), chance.next(), chance.next()], wanted);
    }

    #[test]
    fn what_is_drawn_is_within_its_bounds_and_fills_them() {
        let mut chance = Chance::new(0);
        let (mut seen, mut sum) = ([false; 5], 0.0);
        for _ in 0..10_000 {
            seen[chance.between(3, 8) as usize - 3] = true;
            let uniform = chance.uniform();
            assert!((0.0..1.0).contains(&uniform));
            sum += chance.exponential(2.0);
        }
        assert_eq!(seen, [true; 5]);
        assert!((sum / 10_000.0 - 2.0).abs() < 0.1, "{sum}");
        assert_eq!(chance.below(0), 0);
        assert_eq!((chance.bytes(13).len(), chance.bytes(0).len()), (13, 0));
    }
}
