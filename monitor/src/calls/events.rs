//! Decodes the events of probes: the kinds of `kinds/probe.kinds`, found by their names in a space's catalog.

use crate::decoding::events::{KnownKind, field};
use std::collections::HashMap;
use thalweg_space::kind::{FieldSpec, FieldType};
use thalweg_space::reader::{Event, Fields};

/// An event of a probe.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ProbeRecord {
    Called {
        what: What,
        depth: u32,
        outcome: Outcome,
        ticks: u64,
        /// Whether this is a further stretch of a call that had paused.
        is_resumed: bool,
    },
    Entered {
        what: What,
        depth: u32,
    },
    Left {
        what: What,
        depth: u32,
        outcome: Outcome,
    },
    /// The trace continues this span; 0: none.
    Continues {
        span: u64,
    },
    /// Work was handed over or a message sent under this span.
    Went {
        span: u64,
        depth: u32,
    },
    Counted {
        counter: u64,
        by: i64,
    },
    Gauged {
        gauge: u64,
        value: f64,
    },
    Logged {
        place: u64,
        level: u64,
        text: String,
    },
}

/// The callee of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// A site of the catalog.
    Site(u64),
    /// A function at an address.
    Address(u64),
}

/// The way in which a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Returned,
    Failed,
    Unwound,
}

const DEPTH: FieldSpec = field("depth", FieldType::U16);
const OPERATION: FieldSpec = field("operation", FieldType::U32);
const SPAN: FieldSpec = field("span", FieldType::U64);
const DURATION: FieldSpec = field("duration", FieldType::U64);
const OUTCOME: FieldSpec = FieldSpec {
    choices: &[(0, "returned"), (1, "failed"), (2, "unwound")],
    ..field("outcome", FieldType::Enum)
};
const LEVEL: FieldSpec = FieldSpec {
    choices: &[(1, "error"), (2, "warning"), (3, "info"), (4, "debug"), (5, "trace")],
    ..field("level", FieldType::Enum)
};

/// The kinds of probes' events, each with the fields that this module reads.
pub(super) const KINDS: &[KnownKind] = &[
    KnownKind { name: "probe.called", fields: &[OPERATION, DEPTH, OUTCOME, DURATION] },
    KnownKind {
        name: "probe.called_address",
        fields: &[field("address", FieldType::U64), DEPTH, OUTCOME, DURATION],
    },
    KnownKind { name: "probe.constructed", fields: &[OPERATION, DEPTH, OUTCOME, DURATION] },
    KnownKind { name: "probe.resumed", fields: &[OPERATION, DEPTH, OUTCOME, DURATION] },
    KnownKind { name: "probe.entered", fields: &[OPERATION, DEPTH] },
    KnownKind { name: "probe.left", fields: &[OPERATION, DEPTH, OUTCOME] },
    KnownKind { name: "probe.trace_begun", fields: &[field("parent", FieldType::U64)] },
    KnownKind { name: "probe.handed_over", fields: &[SPAN, DEPTH] },
    KnownKind { name: "probe.taken_over", fields: &[SPAN] },
    KnownKind { name: "probe.sent", fields: &[SPAN, DEPTH] },
    KnownKind {
        name: "probe.counted",
        fields: &[field("counter", FieldType::U32), field("by", FieldType::I64)],
    },
    KnownKind {
        name: "probe.gauged",
        fields: &[field("gauge", FieldType::U32), field("value", FieldType::F64)],
    },
    KnownKind { name: "probe.logged", fields: &[OPERATION, LEVEL, field("text", FieldType::Str)] },
];

/// Reads the events of one space.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The decoded kinds by their index in the space; `None` for a kind that is not of a probe or lacks a
    /// field.
    kinds: HashMap<usize, Option<(usize, Fields)>>,
}

impl Decoder {
    /// The content of the event; `None` if it is not of a probe.
    pub(super) fn read(&mut self, event: &Event<'_>) -> Option<ProbeRecord> {
        let known = self.kinds.entry(event.kind.index).or_insert_with(|| {
            let number = KINDS.iter().position(|known| known.name == event.kind.name)?;
            Some((number, Fields::find(event.kind, KINDS[number].fields).ok()?))
        });
        let (number, fields) = known.as_ref()?;
        let number_at = |n| fields.u64(event, n);
        let depth = |n| number_at(n) as u32;
        let outcome = |n| match fields.choice(event, n) {
            1 => Outcome::Failed,
            2 => Outcome::Unwound,
            _ => Outcome::Returned,
        };
        Some(match number {
            0..=3 => {
                let what = if *number == 1 { What::Address(number_at(0)) } else { What::Site(number_at(0)) };
                let (depth, outcome, ticks) = (depth(1), outcome(2), number_at(3));
                ProbeRecord::Called { what, depth, outcome, ticks, is_resumed: *number == 3 }
            }
            4 => ProbeRecord::Entered { what: What::Site(number_at(0)), depth: depth(1) },
            5 => ProbeRecord::Left { what: What::Site(number_at(0)), depth: depth(1), outcome: outcome(2) },
            6 => ProbeRecord::Continues { span: number_at(0) },
            7 | 9 => ProbeRecord::Went { span: number_at(0), depth: depth(1) },
            8 => ProbeRecord::Continues { span: number_at(0) },
            10 => ProbeRecord::Counted { counter: number_at(0), by: number_at(1) as i64 },
            11 => ProbeRecord::Gauged { gauge: number_at(0), value: fields.f64(event, 1) },
            _ => {
                let text =
                    event.kind.field("text").map_or_else(String::new, |field| event.str(field).into_owned());
                ProbeRecord::Logged { place: number_at(0), level: fields.choice(event, 1), text }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::KINDS;

    #[test]
    fn the_committed_descriptions_have_every_field() {
        let text = include_str!("../../../kinds/probe.kinds");
        let described = thalweg_space::kinds::parse(text).unwrap();
        for known in KINDS {
            let kind = described.iter().find(|kind| kind.name == known.name).expect(known.name);
            for looked_for in known.fields {
                let field = kind.fields.iter().find(|field| field.name == looked_for.name);
                let field = field.unwrap_or_else(|| panic!("{} has no {}", known.name, looked_for.name));
                assert_eq!(field.field_type, looked_for.field_type, "{} {}", known.name, field.name);
                let choices: Vec<_> = field.choices.iter().map(|(n, name)| (*n, name.as_str())).collect();
                assert_eq!(choices, looked_for.choices, "{} {}", known.name, field.name);
            }
        }
    }
}
