//! A thread's way to write events.

use thalweg_space::{Error, Space, Writer};

use super::base::Bases;
use super::kinds::{Event, Kinds, TaskFailed};

/// With this one thread records its events.
pub(crate) struct Recorder {
    pub(crate) writer: Writer,
    pub(super) kinds: Kinds,
    pub(super) bases: Bases,
}

impl Recorder {
    pub(crate) fn new(space: &Space, name: &str) -> Result<Recorder, Error> {
        let mut writer = space.writer(name)?;
        let kinds = Kinds::declare(&mut writer)?;
        Ok(Recorder { writer, kinds, bases: Bases::default() })
    }

    /// Writes an event that happened at `ticks`.
    #[inline]
    pub(crate) fn at<E: Event>(&mut self, ticks: u64, event: &E) {
        self.writer.emit_at(ticks, E::id(&self.kinds), event);
    }

    /// Writes an event that happened when the one before did.
    #[inline]
    pub(crate) fn same<E: Event>(&mut self, event: &E) {
        self.writer.emit_same_time(E::id(&self.kinds), event);
    }

    /// Writes why a task failed, at the time of the event before.
    pub(crate) fn failed(&mut self, task: u64, message: &str) {
        self.writer.emit_same_time(self.kinds.TaskFailed, &TaskFailed { task, message });
    }
}
