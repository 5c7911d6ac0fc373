//! The replicas of a split, by tag value; replicas without state are folded back when there are too many.
//!
//! A replica is folded back by closing its input: its records leave, then its tasks end. The replica is
//! chosen by the second-chance algorithm: a hand goes round and takes the first one that was not used since
//! it last passed.

use std::collections::HashMap;

/// The most replicas of a star or a split.
pub(crate) const REPLICAS_MAX: usize = 1 << 20;

/// Replicas by tag value. Each has a place, a number from 0 that can be reused after the replica was folded
/// back.
#[derive(Debug)]
pub(crate) struct Replicas {
    places: Places,
    /// By place: the value, and whether it was used since the hand last passed.
    used: Vec<(i64, bool)>,
    hand: usize,
    /// Whether replicas may be folded back.
    folds: bool,
}

/// The places of values. Most splits are over a few small values, whose places are adjacent in an array: a
/// hash of each record's value would take longer than the rest of the dispatch.
#[derive(Debug, Default)]
struct Places {
    /// The place of each small value, indexed by the value; [`NOWHERE`] if it has no place.
    small: Vec<u32>,
    others: HashMap<i64, usize>,
}

/// Values from 0 up to this bound, exclusive, are small: their places are kept in an array.
const SMALL: usize = 1024;
const NOWHERE: u32 = u32::MAX;

impl Places {
    #[inline]
    fn small(value: i64) -> Option<usize> {
        usize::try_from(value).ok().filter(|&value| value < SMALL)
    }

    #[inline]
    fn get(&self, value: i64) -> Option<usize> {
        match Places::small(value) {
            Some(value) => {
                self.small.get(value).filter(|&&place| place != NOWHERE).map(|&place| place as usize)
            }
            None => self.others.get(&value).copied(),
        }
    }

    fn insert(&mut self, value: i64, place: usize) {
        match Places::small(value) {
            Some(value) => {
                if self.small.len() <= value {
                    self.small.resize(value + 1, NOWHERE);
                }
                // The cast is safe: there are at most `REPLICAS_MAX` places.
                self.small[value] = place as u32;
            }
            None => _ = self.others.insert(value, place),
        }
    }

    fn remove(&mut self, value: i64) {
        match Places::small(value) {
            Some(value) => self.small[value] = NOWHERE,
            None => _ = self.others.remove(&value),
        }
    }
}

/// The place of a new replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The next free place.
    Next,
    /// The place of a replica that is folded back; fields: the place, and the replica's value.
    Instead(usize, i64),
}

impl Replicas {
    pub(crate) fn new(folds: bool) -> Replicas {
        Replicas { places: Places::default(), used: Vec::new(), hand: 0, folds }
    }

    /// Whether replicas are folded back, so that the number of values is unlimited.
    pub(crate) fn folds(&self) -> bool {
        self.folds
    }

    pub(crate) fn len(&self) -> usize {
        self.used.len()
    }

    pub(crate) fn has(&self, value: i64) -> bool {
        self.places.get(value).is_some()
    }

    /// The place of a value's replica, which is marked as used.
    #[inline]
    pub(crate) fn place(&mut self, value: i64) -> Option<usize> {
        let place = self.places.get(value)?;
        self.used[place].1 = true;
        Some(place)
    }

    /// Makes a place for the replica of a new value, if `kept` replicas are kept.
    pub(crate) fn insert(&mut self, value: i64, kept: usize) -> Room {
        if !self.folds || self.used.len() < kept.max(1) {
            self.places.insert(value, self.used.len());
            self.used.push((value, true));
            return Room::Next;
        }
        let place = self.oldest();
        let (before, _) = std::mem::replace(&mut self.used[place], (value, true));
        self.places.remove(before);
        self.places.insert(value, place);
        Room::Instead(place, before)
    }

    fn oldest(&mut self) -> usize {
        loop {
            let place = self.hand % self.used.len();
            self.hand = place + 1;
            if !std::mem::replace(&mut self.used[place].1, false) {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays() {
        let mut replicas = Replicas::new(true);
        assert_eq!([1, 2, 3].map(|value| replicas.insert(value, 3)), [Room::Next; 3]);
        // All replicas were used: the hand goes round once, then takes the first one.
        assert_eq!(replicas.insert(4, 3), Room::Instead(0, 1));
        assert_eq!(replicas.place(2), Some(1));
        assert_eq!(replicas.insert(5, 3), Room::Instead(2, 3));
        assert_eq!(
            [1, 2, 3, 4, 5].map(|value| replicas.place(value)),
            [None, Some(1), None, Some(0), Some(2)]
        );
    }

    #[test]
    fn small_and_other_values_have_places_alike() {
        let values = [i64::MIN, -1, 0, 1, 1023, 1024, 1 << 40, i64::MAX];
        let mut replicas = Replicas::new(true);
        for (place, &value) in values.iter().enumerate() {
            assert!(!replicas.has(value) && replicas.place(value).is_none());
            assert_eq!(replicas.insert(value, values.len()), Room::Next);
            assert_eq!(replicas.place(value), Some(place));
        }
        assert_eq!((replicas.place(2), replicas.place(1022), replicas.place(1025)), (None, None, None));
        // Each replica gives its place to a new value: small values replace large ones, and large ones
        // replace small.
        for (place, &value) in values.iter().enumerate() {
            assert_eq!(replicas.insert(500 + place as i64, values.len()), Room::Instead(place, value));
            assert!(!replicas.has(value));
            assert_eq!(replicas.place(500 + place as i64), Some(place));
        }
    }

    #[test]
    fn replicas_with_state_stay() {
        let mut replicas = Replicas::new(false);
        assert!((0..100).all(|value| replicas.insert(value, 3) == Room::Next));
        assert!((0..100).all(|value| replicas.has(value)));
    }
}
