//! Pseudo-random numbers that depend on the ant that draws them and not on the order of execution.

/// A stream of pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream for three numbers, such as a seed, a step and an ant; streams for similar numbers are
    /// independent.
    pub fn of(numbers: [u64; 3]) -> Random {
        numbers.into_iter().fold(Random(0), |stream, number| Random(Random(stream.0 ^ number).next()))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A whole number below `end`, which is small.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number from 0 to less than 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
