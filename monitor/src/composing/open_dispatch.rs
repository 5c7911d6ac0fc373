//! What each writer has recorded so far about its present dispatch.

use crate::decoding::events::Derived;
use crate::decoding::observation::Run;
use crate::ids::IdMap;

/// What a writer has recorded so far about a dispatch.
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
    /// Messages that descend from messages read from the base's input: the messages, the step between the
    /// indices of their parents, and the offset of the first message's parent.
    pub(super) descents: Vec<(Run, u64, i64)>,
    /// Messages that fail or are held in the dispatch, recorded before it.
    pub(super) failed: Vec<(u64, Run)>,
    pub(super) held: Vec<(u64, Run)>,
}

impl OpenDispatch {
    /// Forgets the messages read and written, and returns the number of events that recorded them.
    pub(super) fn forget_messages(&mut self) -> u64 {
        let parts = self.reads.len() + self.writes.len() + self.derived.len();
        self.reads.clear();
        self.writes.clear();
        self.derived.clear();
        self.descents.clear();
        parts as u64
    }
}

/// What all writers have recorded about their present dispatches. Consecutive events often have the same
/// writer, so the place of the last writer is cached.
#[derive(Default)]
pub(super) struct OpenDispatches {
    places: IdMap<usize>,
    dispatches: Vec<(u64, Box<OpenDispatch>)>,
    last: usize,
}

impl OpenDispatches {
    /// What this writer has recorded about its present dispatch.
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
