//! Shapes: the sets of labels that records have, interned for the whole process.
//!
//! The slot of a label in a record is its index in the shape's ascending labels. Components look labels up
//! once per shape and keep the result in a [`PlanCache`](crate::plan::PlanCache); for each record they
//! compare one number.
//!
//! ```
//! use thalweg_net::{label::Label, shape};
//! let (a, n) = (Label::field("a"), Label::tag("n"));
//! let shape = shape::of(&[n, a, n]);
//! assert_eq!(shape, shape::of(&[a, n]));
//! assert_eq!(shape.slot(Label::tag("a")), None);
//! ```

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::interner::{AppendTable, ENTRIES_MAX};
use crate::label::Label;

/// The most labels that a record may have.
pub const LABELS_MAX: usize = 4096;

/// The most shapes that data may introduce. The shapes of records that components make of these data are not
/// counted.
pub const SHAPES_FROM_DATA_MAX: usize = 1 << 16;

static SHAPES: AppendTable<Shape> = AppendTable::new();
static INDEX: LazyLock<Mutex<HashMap<&'static [Label], ShapeId>>> = LazyLock::new(|| {
    let content: &'static [Label] = vec![Label::field("(a message of the runtime)")].leak();
    SHAPES.set(ShapeId::MARK.0 as usize, Shape { labels: &[], shown: &[] });
    SHAPES.set(ShapeId::MESSAGE.0 as usize, Shape { labels: content, shown: &[0] });
    Mutex::default()
});
/// The number of shapes that are reserved for marks and messages.
const RESERVED: usize = 2;

/// A set of labels.
struct Shape {
    labels: &'static [Label],
    /// The slots in the order of files: fields, tags, binding tags, each sorted by name.
    shown: &'static [u16],
}

/// The number of a shape.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(u32);

/// Why data cannot have this shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// One record has more than [`LABELS_MAX`] labels.
    TooManyLabels,
    /// Data introduced more than [`SHAPES_FROM_DATA_MAX`] shapes.
    TooManyShapes,
}

/// The shape with these labels; their order and repetitions do not matter.
///
/// # Panics
/// With more than [`LABELS_MAX`] labels, or if the process has some two million shapes.
pub fn of(labels: &[Label]) -> ShapeId {
    match intern(labels, ENTRIES_MAX) {
        Ok(id) => id,
        Err(error) => panic!("{error}"),
    }
}

/// Returns a shape as [`of`] does, for labels that come from data and not from a program; an error if data
/// introduce too many.
pub fn from_data(labels: &[Label]) -> Result<ShapeId, ShapeError> {
    intern(labels, SHAPES_FROM_DATA_MAX)
}

fn intern(labels: &[Label], shapes_max: usize) -> Result<ShapeId, ShapeError> {
    let mut sorted = labels.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() > LABELS_MAX {
        return Err(ShapeError::TooManyLabels);
    }
    let mut index = INDEX.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&known) = index.get(sorted.as_slice()) {
        return Ok(known);
    }
    let next = RESERVED + index.len();
    if next >= shapes_max {
        return Err(ShapeError::TooManyShapes);
    }
    let mut shown: Vec<u16> = (0..sorted.len() as u16).collect();
    shown.sort_by_key(|&slot| (sorted[slot as usize].kind(), sorted[slot as usize].name()));
    let labels: &'static [Label] = sorted.leak();
    SHAPES.set(next, Shape { labels, shown: shown.leak() });
    let id = ShapeId(next as u32);
    index.insert(labels, id);
    Ok(id)
}

impl ShapeId {
    /// The shape of a block of memory that is not a record yet.
    pub(crate) const UNSET: ShapeId = ShapeId(u32::MAX);
    /// The shape of [`Record::mark`](crate::record::Record::mark): it has no labels, but differs from that of
    /// the empty record.
    pub(crate) const MARK: ShapeId = ShapeId(0);
    /// The shape of [`Record::message`](crate::record::Record::message).
    pub(crate) const MESSAGE: ShapeId = ShapeId(1);

    /// Whether the shape is [`MARK`](Self::MARK) or [`MESSAGE`](Self::MESSAGE), which no record of a network
    /// has.
    #[inline]
    pub(crate) fn is_reserved(self) -> bool {
        self.0 < RESERVED as u32
    }

    fn shape(self) -> &'static Shape {
        if self.is_reserved() {
            LazyLock::force(&INDEX);
        }
        SHAPES.get(self.0 as usize).expect("shapes are made by interning")
    }

    /// The labels, ascending.
    pub fn labels(self) -> &'static [Label] {
        self.shape().labels
    }

    /// The slots in the order of files and messages: fields, tags, binding tags, each sorted by name.
    pub fn shown(self) -> &'static [u16] {
        self.shape().shown
    }

    /// The number of the shape, constant for the life of the process.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// The slot of a label.
    pub fn slot(self, label: Label) -> Option<usize> {
        let labels = self.labels();
        match labels.len() {
            0..=8 => labels.iter().position(|&l| l == label),
            _ => labels.binary_search(&label).ok(),
        }
    }

    /// Whether the shape has the label.
    pub fn has(self, label: Label) -> bool {
        self.slot(label).is_some()
    }

    /// Whether the shape has all these labels.
    pub fn has_all(self, labels: &[Label]) -> bool {
        labels.iter().all(|&label| self.has(label))
    }
}

impl fmt::Display for ShapeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, &slot) in self.shown().iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, self.labels()[slot as usize])?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for ShapeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::TooManyLabels => write!(f, "more than {LABELS_MAX} labels in one record"),
            ShapeError::TooManyShapes => write!(
                f,
                "more than {SHAPES_FROM_DATA_MAX} different sets of labels in the records; are data used as labels?"
            ),
        }
    }
}

impl std::error::Error for ShapeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_labels_is_one_shape() {
        let labels: Vec<Label> = (0..20).map(|i| Label::field(&format!("shape_{i}"))).collect();
        let backwards: Vec<Label> = labels.iter().rev().chain(&labels).copied().collect();
        for n in 0..=labels.len() {
            let shape = of(&labels[..n]);
            assert_eq!(shape, of(&backwards[labels.len() - n..labels.len()]));
            assert_eq!(shape.labels().len(), n);
            for (i, &label) in labels.iter().enumerate() {
                assert_eq!(shape.has(label), i < n);
                assert_eq!(shape.slot(label).map(|slot| shape.labels()[slot]), (i < n).then_some(label));
            }
        }
    }

    #[test]
    fn shapes_are_shown_by_kind_and_name() {
        let shape = of(&[Label::binding_tag("a"), Label::tag("z"), Label::tag("b"), Label::field("q")]);
        assert_eq!(shape.to_string(), "{q, <b>, <z>, <#a>}");
        assert_eq!(of(&[]).to_string(), "{}");
    }

    #[test]
    fn too_many_labels_are_an_error() {
        let labels: Vec<Label> = (0..=LABELS_MAX).map(|i| Label::tag(&format!("many_{i}"))).collect();
        assert_eq!(from_data(&labels), Err(ShapeError::TooManyLabels));
        assert!(from_data(&labels[1..]).is_ok());
    }
}
