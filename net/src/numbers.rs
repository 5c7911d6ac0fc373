//! Maps by one or a few numbers that no attacker chooses, such as those of streams and shapes, or places in a
//! network's text. The standard library's hash protects a map against chosen keys, and would take longer than the
//! rest of a look-up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// The hash of a few numbers, by products with an odd constant.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberHasher(u64);

/// 2^64 divided by the golden ratio, made odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for NumberHasher {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The hash table takes its bucket from the low bits and its tag from the high ones, but a product is
        // well mixed only in its high bits.
        self.0 = (self.0 ^ number).wrapping_mul(FACTOR).rotate_left(32);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_was_inserted_is_found() {
        let mut map = NumberMap::default();
        for number in (0..10_000_u64).map(|number| number << 20 | number) {
            assert_eq!(map.insert(number, number + 1), None);
        }
        assert!((0..10_000_u64).all(|number| map.remove(&(number << 20 | number)).is_some()));
        assert!(map.is_empty());
    }

    #[test]
    fn numbers_of_32_bits_that_end_alike_fall_into_different_buckets() {
        let bucket = |number: u64| {
            let mut hasher = NumberHasher::default();
            hasher.write_u64(number);
            hasher.finish() & 0xff
        };
        for shift in 0..=24 {
            let buckets: HashSet<u64> = (0..256).map(|number| bucket(number << shift)).collect();
            // Without the rotation there is one bucket for all numbers that are shifted by 8 bits or more.
            assert!(buckets.len() >= 32, "shifted by {shift}: {} of 256 buckets", buckets.len());
        }
    }
}
