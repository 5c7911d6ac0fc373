//! Operators that a user writes.

use super::Moment;
use crate::tuple::{Batch, ELEMENT_NONE, Of, Tables, Tuple, TupleKind, Value};

/// An operator that a user writes, which runs on the tuples of a pull.
///
/// ```
/// use thalweg_scope::{Batch, Field, Making, Moment, Of, Operator, TupleKind, Value};
///
/// /// How many tuples there were.
/// struct Counted;
///
/// impl Operator for Counted {
///     fn makes(&self, _: &[TupleKind]) -> Vec<TupleKind> {
///         let count = Field { name: "count".into(), of: Of::Unsigned, unit: String::new(), doc: String::new() };
///         vec![TupleKind { name: "example.counted".into(), doc: String::new(), fields: vec![count] }]
///     }
///
///     fn apply(&mut self, batch: &Batch, moment: &Moment, out: &mut Making<'_>) {
///         out.gaps_of(batch);
///         out.push(0, moment.now_ns, &[Value::Unsigned(batch.len() as u64)]);
///     }
/// }
/// ```
pub trait Operator: Send {
    /// The kinds of tuple that the operator makes from tuples of these kinds, without the kinds that it
    /// passes on unchanged.
    fn makes(&self, kinds: &[TupleKind]) -> Vec<TupleKind>;

    /// Whether the operator passes on tuples other than gaps unchanged.
    fn hands_on(&self) -> bool {
        false
    }

    /// Makes tuples from those of a pull, which include gaps.
    fn apply(&mut self, batch: &Batch, moment: &Moment, out: &mut Making<'_>);
}

/// The output of an operator.
#[derive(Debug)]
pub struct Making<'a> {
    pub(crate) batch: &'a mut Batch,
    pub(crate) tables: &'a Tables,
    /// The kinds that [`Operator::makes`] returned.
    pub(crate) kinds: &'a [TupleKind],
}

impl Making<'_> {
    /// Passes on a tuple unchanged.
    pub fn copy(&mut self, from: &Batch, tuple: &Tuple<'_>) {
        self.batch.push_from(from, tuple.head(), tuple.kind());
    }

    /// Passes on the gaps, which stand for lost events. An operator without this call hides that events were
    /// lost.
    pub fn gaps_of(&mut self, from: &Batch) {
        for tuple in from.tuples().filter(|tuple| tuple.lost().is_some()) {
            self.copy(from, &tuple);
        }
    }

    /// Adds a tuple of the `kind`-th kind that the operator makes. Fields without a value, or with one of
    /// another type, become 0, empty or `NaN`.
    pub fn push(&mut self, kind: usize, time_ns: u64, values: &[Value<'_>]) {
        let Some(kind) = self.kinds.get(kind) else { return };
        let number = self.tables.kind(kind.clone());
        let mut words = Vec::with_capacity(kind.fields.len());
        for (n, field) in kind.fields.iter().enumerate() {
            words.push(match (field.of, values.get(n)) {
                (Of::Text, Some(Value::Text(text))) => self.batch.text_word(text),
                (Of::Text, _) => self.batch.text_word(""),
                (Of::Unsigned | Of::Time, Some(Value::Unsigned(word) | Value::Time(word))) => *word,
                (Of::Signed, Some(Value::Signed(number))) => number.cast_unsigned(),
                (Of::Truth, Some(Value::Truth(truth))) => u64::from(*truth),
                (Of::Real, Some(value)) => value.number().unwrap_or(f64::NAN).to_bits(),
                (Of::Real, None) => f64::NAN.to_bits(),
                _ => 0,
            });
        }
        self.batch.begin((time_ns, 0), ELEMENT_NONE, number, 0);
        self.batch.words.append(&mut words);
    }
}
