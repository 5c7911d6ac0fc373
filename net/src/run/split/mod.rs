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

mod free;
mod ordered;

pub(crate) use self::free::SplitDispatcher;
pub(crate) use self::ordered::OrderedSplit;

impl SplitChoice {
    /// The first and the last of the tag values whose replicas get the record.
    fn values(&self, record: &Record, replicas: &Replicas) -> Result<(i64, i64), String> {
        let tag = |label: Label| match record.get(label) {
            Some(Value::Int(value)) => Ok(*value),
            _ => Err(format!("the record has no {label}, which chooses the replica")),
        };
        let from = tag(self.from)?;
        let to = self.to.map_or(Ok(from), tag)?;
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
