//! The choice among several sinks for each record.

use std::collections::HashMap;

use thalweg_exec::Out;
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::shape::ShapeId;

use crate::error::Error;
use crate::io::Sink;

/// The choice of a sink for each shape of records.
pub(super) struct Choice {
    pub(super) outs: Vec<Out<Record>>,
    /// The labels that the type of each sink requires.
    accepts: Vec<Vec<Label>>,
    known: HashMap<ShapeId, Option<usize>>,
}

impl Choice {
    pub(super) fn new(sinks: &[Sink]) -> Result<Choice, Error> {
        let accepts: Vec<Vec<Label>> =
            sinks.iter().map(|sink| sink.accepts.clone().unwrap_or_default()).collect();
        for (number, type_) in accepts.iter().enumerate() {
            let same = |other: &Vec<Label>| {
                other.len() == type_.len() && other.iter().all(|label| type_.contains(label))
            };
            if let Some(first) = accepts[..number].iter().position(same) {
                let (first, second) = (&sinks[first].name, &sinks[number].name);
                return Err(Error::coded(
                    "E0902",
                    format!(
                        "--output: {first} and {second} take the same records; \
                         give each a type, as in 'file:bad.jsonl?type={{error}}'"
                    ),
                ));
            }
        }
        Ok(Choice { outs: Vec::new(), accepts, known: HashMap::new() })
    }

    /// The sink whose type has most of the record's labels and no label that the record lacks; among equal
    /// sinks the first.
    pub(super) fn of(&mut self, record: &Record) -> Option<usize> {
        let shape = record.shape();
        *self.known.entry(shape).or_insert_with(|| {
            let fitting = self.accepts.iter().enumerate().filter(|(_, labels)| shape.has_all(labels));
            fitting.rev().max_by_key(|(_, labels)| labels.len()).map(|(index, _)| index)
        })
    }
}
