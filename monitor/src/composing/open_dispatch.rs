//! The records of each writer's present dispatch so far.

use crate::decoding::events::Derived;
use crate::decoding::observation::Run;
use crate::ids::IdMap;

/// The records of a dispatch so far.
#[derive(Default)]
pub(super) struct OpenDispatch {
    pub(super) active: bool,
    pub(super) task: u64,
    pub(super) worker: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) kept: u64,
    /// Ticks without a processor, recorded before the dispatch to which they belong.
    pub(super) kept_next: u64,
    pub(super) reads: Vec<Run>,
    pub(super) writes: Vec<Run>,
    pub(super) derived: Vec<Derived>,
    /// Messages that descend from messages read from the base's input: the messages, the step between their
    /// parents, and the offset of the first one's parent.
    pub(super) descents: Vec<(Run, u64, i64)>,
    /// Messages that fail or are held in the dispatch, recorded before it.
    pub(super) failed: Vec<(u64, Run)>,
    pub(super) held: Vec<(u64, Run)>,
}

impl OpenDispatch {
    /// Forgets the messages read and written, and returns the number of parts.
    pub(super) fn forget_messages(&mut self) -> u64 {
        let parts = self.reads.len() + self.writes.len() + self.derived.len();
        self.reads.clear();
        self.writes.clear();
        self.derived.clear();
        self.descents.clear();
        parts as u64
    }
}

/// The records of all writers. Consecutive events often have the same writer, so the last place found is
/// cached.
#[derive(Default)]
pub(super) struct OpenDispatches {
    places: IdMap<usize>,
    dispatches: Vec<(u64, Box<OpenDispatch>)>,
    last: usize,
}

impl OpenDispatches {
    /// The records of this writer.
    #[inline]
    pub(super) fn of(&mut self, writer: u64) -> &mut OpenDispatch {
        if self.dispatches.get(self.last).is_none_or(|&(last, _)| last != writer) {
            self.last = self.find(writer);
        }
        &mut self.dispatches[self.last].1
    }

    #[inline(never)]
    fn find(&mut self, writer: u64) -> usize {
        let dispatches = &mut self.dispatches;
        *self.places.entry(writer).or_insert_with(|| {
            dispatches.push((writer, Box::default()));
            dispatches.len() - 1
        })
    }

    /// Swaps this writer's records with `other`.
    #[inline]
    pub(super) fn swap(&mut self, writer: u64, other: &mut Box<OpenDispatch>) {
        self.of(writer);
        std::mem::swap(&mut self.dispatches[self.last].1, other);
    }

    /// All writers with an open dispatch, in order.
    pub(super) fn active(&self) -> Vec<u64> {
        let active = self.dispatches.iter().filter(|(_, open)| open.active);
        let mut writers: Vec<u64> = active.map(|&(writer, _)| writer).collect();
        writers.sort_unstable();
        writers
    }
}
