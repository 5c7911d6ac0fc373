//! Merging batches that are in order of time into one.

use super::batch::Batch;
use super::described::TupleKind;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Merges batches, each in order of time, by time; at equal times the tuples of the first batch come first.
/// Words and texts are copied batch by batch; only heads are merged.
pub(crate) fn merge(mut batches: Vec<Batch>, kinds: &[Arc<TupleKind>]) -> Batch {
    batches.retain(|batch| !batch.is_empty());
    if batches.len() < 2 {
        return batches.pop().unwrap_or_default();
    }
    let mut merged = Batch::default();
    let mut runs = Vec::with_capacity(batches.len());
    for batch in batches {
        let from = merged.heads.len();
        merged.append(batch, kinds);
        runs.push((from, merged.heads.len()));
    }
    let heads = &merged.heads;
    let mut order = Vec::with_capacity(heads.len());
    let next = |run: usize, at: usize| Reverse((heads[at].time_ns, run));
    let mut queue: BinaryHeap<_> = runs.iter().enumerate().map(|(run, (from, _))| next(run, *from)).collect();
    while let Some(Reverse((_, run))) = queue.pop() {
        let until = queue.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
        let (at, end) = &mut runs[run];
        while *at < *end && (heads[*at].time_ns, run) <= until {
            order.push(heads[*at]);
            *at += 1;
        }
        if *at < *end {
            queue.push(next(run, *at));
        }
    }
    merged.heads = order;
    merged
}
