//! The join of the records of a synchrocell.

use crate::label::Label;
use crate::pattern::Pattern;
use crate::plan::{Rearrangement, Source};
use crate::record::Record;
use crate::run::message::Message;
use crate::shape::ShapeId;

/// The plan of joining the records of a full cell, computed once for the latest shapes.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    /// The shapes of the records, and the record that fills each pattern.
    shapes: Vec<ShapeId>,
    filled: Vec<Option<usize>>,
    plan: Option<Join>,
}

#[derive(Debug)]
struct Join {
    rearrangement: Rearrangement,
    /// The index of the record that gets the labels of the others. When this record is removed from the list,
    /// the last record of the list moves to the index.
    whole: usize,
    /// The source of each value that the rearrangement is given: the record's index, and the slot.
    given: Vec<(usize, usize)>,
}

impl Joins {
    pub(super) fn join(
        &mut self,
        filled: &[Option<usize>],
        patterns: &[Pattern],
        records: &mut Vec<(Record, Message)>,
    ) -> Record {
        let shapes = records.iter().map(|(record, _)| record.shape());
        let plan = match &self.plan {
            Some(plan) if self.filled == filled && self.shapes.iter().copied().eq(shapes.clone()) => plan,
            _ => {
                let shapes: Vec<ShapeId> = shapes.collect();
                let plan = Join::new(&shapes, filled, patterns);
                (self.shapes, self.filled) = (shapes, filled.to_vec());
                self.plan.insert(plan)
            }
        };
        let (whole, _) = records.swap_remove(plan.whole);
        plan.rearrangement.reuse(whole, |n| {
            let (record, slot) = plan.given[n];
            records[record].0.take(slot)
        })
    }
}

impl Joins {
    /// Joins two records as [`join`](Joins::join) joined the last two, which had the same shapes.
    #[inline]
    pub(super) fn join_two(&self, first: Record, second: Record) -> Option<Record> {
        let plan = self.plan.as_ref()?;
        let (whole, mut other) = if plan.whole == 0 { (first, second) } else { (second, first) };
        Some(plan.rearrangement.reuse(whole, |n| other.take(plan.given[n].1)))
    }
}

impl Join {
    fn new(shapes: &[ShapeId], filled: &[Option<usize>], patterns: &[Pattern]) -> Join {
        let filled: Vec<usize> = filled.iter().flatten().copied().collect();
        let whole = filled[0];
        let mut given = Vec::new();
        let labels = shapes[whole].labels().iter().enumerate();
        let mut explicit: Vec<(Label, Source)> =
            labels.map(|(slot, &label)| (label, Source::Input(slot))).collect();
        for (&record, pattern) in filled.iter().zip(patterns).filter(|(record, _)| **record != whole) {
            for &label in pattern.labels() {
                if explicit.iter().all(|(known, _)| *known != label)
                    && let Some(slot) = shapes[record].slot(label)
                {
                    explicit.push((label, Source::Given(given.len())));
                    given.push((if record == shapes.len() - 1 { whole } else { record }, slot));
                }
            }
        }
        Join { rearrangement: Rearrangement::new(shapes[whole], &[], explicit), whole, given }
    }
}
