//! The records that a synchrocell holds.

use thalweg_exec::Context;

use super::joins::Joins;
use crate::label::Label;
use crate::pattern::Pattern;
use crate::record::Record;
use crate::run::message::Message;
use crate::run::position::Position;
use crate::shape::ShapeId;

/// The records that fill a cell's patterns.
#[derive(Debug)]
pub(crate) struct Cell {
    records: Vec<(Record, Message)>,
    /// The record that fills each pattern.
    filled: Vec<Option<usize>>,
}

impl Cell {
    pub(crate) fn new(patterns: usize) -> Cell {
        Cell { records: Vec::new(), filled: vec![None; patterns] }
    }

    pub(crate) fn is_filled(&self, pattern: usize) -> bool {
        self.filled[pattern].is_some()
    }

    /// Lets a record fill some of the empty patterns.
    pub(crate) fn fill(&mut self, patterns: impl Iterator<Item = usize>, record: Record, message: Message) {
        patterns.for_each(|pattern| self.filled[pattern] = Some(self.records.len()));
        self.records.push((record, message));
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.filled.iter().all(Option::is_some)
    }

    /// The shapes of the cell's records, if there are two.
    pub(super) fn shapes_of_two(&self) -> Option<[ShapeId; 2]> {
        match self.records.as_slice() {
            [(first, _), (second, _)] => Some([first.shape(), second.shape()]),
            _ => None,
        }
    }

    /// Joins the records that fill the patterns: the result has all labels of the first record, and those
    /// pattern labels of the other records that the first record does not have. The cell is empty afterwards.
    pub(crate) fn join(&mut self, patterns: &[Pattern], joins: &mut Joins) -> Record {
        let whole = joins.join(&self.filled, patterns, &mut self.records);
        self.records.clear();
        self.filled.fill(None);
        whole
    }

    /// Reports the held records, which waited for other records that never came.
    pub(crate) fn report(self, cx: &mut Context<'_>, patterns: &[Pattern], position: &Position) {
        let empty = self.filled.iter().zip(patterns).filter(|(filled, _)| filled.is_none());
        let missing: Vec<String> = empty.map(|(_, pattern)| shown(pattern.labels())).collect();
        for (record, message) in self.records {
            let reason = format!("the synchrocell still waits for {} at the end", missing.join(" and "));
            position.release(cx, message, record, reason);
        }
    }
}

fn shown(labels: &[Label]) -> String {
    let names: Vec<String> = labels.iter().map(Label::to_string).collect();
    format!("{{{}}}", names.join(", "))
}
