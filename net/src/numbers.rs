//! Maps by numbers that the program itself chooses, such as those of streams and shapes. The standard library's
//! hash protects a map against keys that an attacker chooses; these keys need no such protection, and the hash
//! would take longer than the rest of a look-up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// The hash of one number: its product with an odd constant, which spreads consecutive numbers over all bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberHasher(u64);

/// 2^64 divided by the golden ratio, made odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for NumberHasher {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(FACTOR);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
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

    #[test]
    fn what_was_inserted_is_found() {
        let mut map = NumberMap::default();
        for number in (0..10_000_u64).map(|number| number << 20 | number) {
            assert_eq!(map.insert(number, number + 1), None);
        }
        assert!((0..10_000_u64).all(|number| map.remove(&(number << 20 | number)).is_some()));
        assert!(map.is_empty());
    }
}
