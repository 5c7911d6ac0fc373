//! Labels as bits: the labels of records and of patterns.

/// Labels, by bit.
pub(crate) type Set = u16;

/// A pattern: its labels, and whether it has a guard.
pub(crate) type Pattern = (Set, bool);

/// The number of labels, and which of them are binding tags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) labels: usize,
    pub(crate) binding: Set,
}

impl World {
    /// All sets of labels.
    pub(crate) fn sets(self) -> std::ops::Range<Set> {
        0..1 << self.labels
    }
}
