//! Tuples that were read and are held back, because earlier ones may still come.
//!
//! The tuples of all other sources wait for a source that is far behind. So many more tuples can be held than
//! a pull hands over, and a pull does not examine all of them.

use crate::tuple::{Batch, TupleKind, merge};
use std::sync::Arc;

/// The held tuples, in batches that are each in order of time.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The batches in the order in which they were read, which decides between equal times.
    batches: Vec<Rest>,
    tuples: usize,
}

/// The remaining part of a batch.
#[derive(Debug)]
struct Rest {
    batch: Batch,
    from: usize,
}

impl Rest {
    fn len(&self) -> usize {
        self.batch.len() - self.from
    }

    /// The batch without the tuples that were handed over.
    fn into_batch(mut self) -> Batch {
        self.batch.heads.drain(..self.from);
        self.batch
    }
}

impl Held {
    /// How many tuples are held.
    pub(crate) fn len(&self) -> usize {
        self.tuples
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tuples == 0
    }

    /// Adds these batches, which came after the held ones, and returns all tuples of this time or before;
    /// later tuples stay held. All batches are in order of time.
    pub(crate) fn due(&mut self, batches: Vec<Batch>, until_ns: u64, kinds: &[Arc<TupleKind>]) -> Vec<Batch> {
        let mut due = Vec::with_capacity(self.batches.len() + batches.len());
        for rest in &mut self.batches {
            let begin = rest.from;
            rest.from += rest.batch.heads[begin..].partition_point(|head| head.time_ns <= until_ns);
            if rest.from == begin {
                continue;
            }
            let batch = std::mem::take(&mut rest.batch);
            if rest.from == batch.len() {
                due.push(Rest { batch, from: begin }.into_batch());
                rest.from = 0;
            } else {
                due.push(copied(&batch, begin..rest.from, kinds));
                rest.batch = batch;
                // Copying when most tuples have gone costs at most one copy for each tuple handed over.
                if 2 * rest.from > rest.batch.len() {
                    rest.batch = copied(&rest.batch, rest.from..rest.batch.len(), kinds);
                    rest.from = 0;
                }
            }
        }
        let mut rests = Vec::new();
        for mut batch in batches {
            let at = batch.heads.partition_point(|head| head.time_ns <= until_ns);
            if at < batch.len() {
                rests.push(copied(&batch, at..batch.len(), kinds));
                batch.heads.truncate(at);
                batch.compact(kinds);
            }
            due.push(batch);
        }
        self.batches.retain(|rest| rest.len() > 0);
        self.add(merge(rests, kinds), kinds);
        self.tuples = self.batches.iter().map(Rest::len).sum();
        due
    }

    /// Adds a batch. Neighbours are merged until each is at least twice as long as the next, so the number of
    /// batches and the number of merges of a tuple grow only with the logarithm of the number of held tuples.
    fn add(&mut self, mut batch: Batch, kinds: &[Arc<TupleKind>]) {
        if batch.is_empty() {
            return;
        }
        while self.batches.last().is_some_and(|last| last.len() <= 2 * batch.len()) {
            let before = self.batches.pop().map(Rest::into_batch);
            batch = merge(before.into_iter().chain([batch]).collect(), kinds);
        }
        self.batches.push(Rest { batch, from: 0 });
    }
}

/// The tuples of a batch in this range.
fn copied(batch: &Batch, range: std::ops::Range<usize>, kinds: &[Arc<TupleKind>]) -> Batch {
    let mut copy = Batch { legend: batch.legend.clone(), ..Batch::default() };
    copy.heads.reserve(range.len());
    for head in &batch.heads[range] {
        copy.push_from(batch, head, &kinds[usize::from(head.kind)]);
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuple::{KIND_GAP, Legend};
    use thalweg_chance::Chance;

    #[test]
    fn what_is_held_comes_when_it_is_due_in_order_and_once() {
        let kinds = Legend::default().kinds;
        let mut chance = Chance::new(7);
        for _ in 0..200 {
            let (mut held, mut given, mut due) = (Held::default(), Vec::new(), Vec::new());
            let (mut next, mut until) = ([0_u64; 4], 0);
            for pull in 0..40 {
                let is_last = pull == 39;
                let batches = (0..4).map(|element| {
                    let mut batch = Batch::default();
                    for _ in 0..chance.below(20) {
                        next[element] += chance.below(3);
                        let time = next[element].max(until);
                        next[element] = time;
                        batch.begin((time, given.len() as u64), element as u32, KIND_GAP, 0);
                        batch.words.extend([given.len() as u64, 0]);
                        given.push((time, element as u32, given.len() as u64));
                    }
                    batch
                });
                let batches: Vec<Batch> = batches.collect();
                until += chance.below(9);
                let limit = if is_last { u64::MAX } else { until };
                let batch = merge(held.due(batches, limit, &kinds), &kinds);
                assert!(batch.heads.is_sorted_by_key(|head| head.time_ns));
                due.extend(batch.heads.iter().map(|head| {
                    assert_eq!(batch.word(head, 0), head.sequence, "its words are its own");
                    (head.time_ns, head.element, head.sequence)
                }));
                assert_eq!(held.len(), given.len() - due.len());
                assert!(held.batches.len() <= 12, "{}", held.batches.len());
                until += 1;
            }
            assert!(held.is_empty());
            for element in 0..4 {
                let of = |all: &[(u64, u32, u64)]| {
                    all.iter().filter(|one| one.1 == element).copied().collect::<Vec<_>>()
                };
                assert_eq!(of(&due), of(&given), "no element overtakes itself");
            }
        }
    }
}
