//! The replicas of a split, by tag value, of which those without state are folded back when there are too many.
//!
//! A replica is folded back by closing its input: what is inside leaves, then its tasks end. Which one, a hand says that
//! goes round and takes the first that was not used since it came by last (second chance).

use std::collections::HashMap;

/// Replicas by tag value. Each has a place, a number from 0 that another may get when it was folded back.
#[derive(Debug)]
pub(crate) struct Replicas {
    places: HashMap<i64, usize>,
    /// By place: the value, and whether it was used since the hand came by.
    used: Vec<(i64, bool)>,
    hand: usize,
    /// Whether replicas may be folded back.
    folds: bool,
}

/// Where a new replica goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// To the next place.
    Next,
    /// To the place of the replica of a value, which is folded back.
    Instead(usize, i64),
}

impl Replicas {
    pub(crate) fn new(folds: bool) -> Replicas {
        Replicas { places: HashMap::new(), used: Vec::new(), hand: 0, folds }
    }

    /// Whether there may be ever more values.
    pub(crate) fn folds(&self) -> bool {
        self.folds
    }

    pub(crate) fn len(&self) -> usize {
        self.used.len()
    }

    pub(crate) fn has(&self, value: i64) -> bool {
        self.places.contains_key(&value)
    }

    /// The place of a value's replica, which is used now.
    #[inline]
    pub(crate) fn place(&mut self, value: i64) -> Option<usize> {
        let &place = self.places.get(&value)?;
        self.used[place].1 = true;
        Some(place)
    }

    /// Makes room for the replica of a new value, where `kept` are kept.
    pub(crate) fn insert(&mut self, value: i64, kept: usize) -> Room {
        if !self.folds || self.used.len() < kept.max(1) {
            self.places.insert(value, self.used.len());
            self.used.push((value, true));
            return Room::Next;
        }
        let place = self.oldest();
        let (before, _) = std::mem::replace(&mut self.used[place], (value, true));
        self.places.remove(&before);
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
        // All were used: the hand goes once round, then takes the first.
        assert_eq!(replicas.insert(4, 3), Room::Instead(0, 1));
        assert_eq!(replicas.place(2), Some(1));
        assert_eq!(replicas.insert(5, 3), Room::Instead(2, 3));
        assert_eq!(
            [1, 2, 3, 4, 5].map(|value| replicas.place(value)),
            [None, Some(1), None, Some(0), Some(2)]
        );
    }

    #[test]
    fn replicas_with_state_stay() {
        let mut replicas = Replicas::new(false);
        assert!((0..100).all(|value| replicas.insert(value, 3) == Room::Next));
        assert!((0..100).all(|value| replicas.has(value)));
    }
}
