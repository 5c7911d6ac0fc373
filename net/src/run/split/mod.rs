//! Splits: each record goes to the replica of its tag's value, which is made when the value first occurs.

use std::sync::Arc;

use thalweg_box::Value;
use thalweg_exec::{Context, In, Out, Spread};

use super::around::Around;
use super::component::{ComponentId, Instance, SplitChoice, placed_at};
use super::position::{NewReplica, Position};
use super::replicas::{REPLICAS_MAX, Replicas};
use crate::label::Label;
use crate::record::Record;
use crate::shape::ShapeId;

mod free;
mod ordered;

pub(crate) use self::free::SplitDispatcher;
pub(crate) use self::ordered::OrderedSplit;

/// How a dispatcher reads the replicas of a record from the record's tags.
struct Chooser {
    choice: SplitChoice,
    /// The slot of the tag in the records of one shape: the shape that was met last.
    slot: (ShapeId, Option<usize>),
}

impl Chooser {
    fn new(choice: SplitChoice) -> Chooser {
        Chooser { choice, slot: (ShapeId::UNSET, None) }
    }

    /// The slot of the tag, or of the lower end of the range, in records of a shape.
    #[inline]
    fn slot(&mut self, shape: ShapeId) -> Option<usize> {
        if self.slot.0 != shape {
            self.slot = (shape, shape.slot(self.choice.from));
        }
        self.slot.1
    }

    /// The value of the tag, or of the lower end of the range, if the record has one.
    #[inline]
    fn value(&mut self, record: &Record) -> Option<i64> {
        match record.slots().get(self.slot(record.shape())?) {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// The number of leading records with the shape of the first, and this value of the tag.
    #[inline]
    fn alike_in(&mut self, records: &[Record], value: i64) -> usize {
        let Some(shape) = records.first().map(Record::shape) else { return 0 };
        let Some(slot) = self.slot(shape) else { return 0 };
        let is_alike = |record: &Record| {
            record.shape() == shape && matches!(record.slots()[slot], Value::Int(other) if other == value)
        };
        records.iter().position(|record| !is_alike(record)).unwrap_or(records.len())
    }

    /// The first and the last of the tag values whose replicas get the record.
    fn values(&mut self, record: &Record, replicas: &Replicas) -> Result<(i64, i64), String> {
        let integer = |label: Label, value: Option<&Value>| match value {
            Some(Value::Int(value)) => Ok(*value),
            _ => Err(format!("the record has no {label}, which chooses the replica")),
        };
        let slot = self.slot(record.shape());
        let from = integer(self.choice.from, slot.map(|slot| &record.slots()[slot]))?;
        let to = self.choice.to.map_or(Ok(from), |label| integer(label, record.get(label)))?;
        if from > to {
            return Err(format!("the range {from} to {to} is empty: its first value is the larger"));
        }
        let more = to.abs_diff(from);
        let count = if replicas.folds() { 0 } else { replicas.len() };
        if more < REPLICAS_MAX as u64
            && (count < REPLICAS_MAX || replicas.has(from))
            && (more == 0 || count as u64 + more < REPLICAS_MAX as u64)
        {
            return Ok((from, to));
        }
        Err(format!("a split has at most {REPLICAS_MAX} replicas"))
    }
}

impl SplitChoice {
    /// Makes the replica for a value; returns its input and its output.
    #[cold]
    fn replica(
        &self,
        position: &Position,
        cx: &mut Context<'_>,
        (body, around, spread): &(ComponentId, Around, Spread),
        value: i64,
    ) -> (Out<Record>, In<Record>) {
        let (of, parent) = (position.component, position.instance.clone());
        let instance = Some(Arc::new(Instance { of, replica: value, parent }));
        let nodes = position.shared.nodes.as_ref();
        let node = nodes.and_then(|nodes| nodes.of_replica(of, self.placed, value));
        let is_placed = self.placed && nodes.is_none();
        let place = if is_placed { placed_at(value.cast_unsigned()) } else { around.place };
        cx.replica(spread, |cx, together| {
            let around = Around { place, together, ..*around };
            let number = value as u64;
            position.unfold(cx, &NewReplica { body: *body, instance, number, around, node })
        })
    }
}
