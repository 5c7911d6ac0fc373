//! Writes a thread's events.

use thalweg_space::{Error, Space, Writer};

use super::base::Bases;
use super::kinds::{Event, Kinds, TaskFailed};

/// The writer of one thread, with the numbers of its kinds of event.
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

    /// Writes an event with the same time as the event before.
    #[inline]
    pub(crate) fn same<E: Event>(&mut self, event: &E) {
        self.writer.emit_same_time(E::id(&self.kinds), event);
    }

    /// Writes why a task failed, with the same time as the event before.
    pub(crate) fn failed(&mut self, task: u64, message: &str) {
        self.writer.emit_same_time(self.kinds.TaskFailed, &TaskFailed { task, message });
    }
}
