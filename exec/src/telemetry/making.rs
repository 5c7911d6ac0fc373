//! Records a task that a running task makes; one event contains the new task and the streams that are
//! attached when it is created.

use super::base::{Bases, ReadyBy};
use super::kinds::{NO_BASE, StreamOpened, TaskCreated};
use super::recorder::Recorder;
use super::task::{ObservedTask, Origin, WatchedTask};

/// A task that is being made, until its streams are attached.
#[derive(Default)]
pub(super) struct Making {
    /// The event of the task that is being made; `None` if no task is being made.
    created: Option<TaskCreated>,
    /// The attached ends of streams for which the new task's event has no fields.
    besides: Vec<StreamOpened>,
}

impl Making {
    /// Whether a task is being made.
    pub(super) fn is_under_way(&self) -> bool {
        self.created.is_some()
    }

    /// Notes that a task is made that will run on `worker`. The new task's streams are attached next.
    pub(super) fn begin(&mut self, task: &impl WatchedTask, origin: Origin, worker: u32) {
        self.created = Some(origin.created(task, worker));
        self.besides.clear();
    }

    /// Whether the task that is being made is `task`.
    pub(super) fn makes(&self, task: u64) -> bool {
        self.created.as_ref().is_some_and(|created| created.task == task)
    }

    /// Adds an end that is attached to the task.
    pub(super) fn take(&mut self, opened: &StreamOpened, writes: bool) {
        let Some(created) = &mut self.created else { return };
        let peer = if writes { opened.reader } else { opened.writer };
        let is_first = created.input == 0 && created.output == 0;
        let capacity = u16::try_from(opened.capacity).unwrap_or(0);
        let fits = opened.name.0 == 0 && capacity != 0 && (is_first || capacity == created.capacity);
        match (writes, peer) {
            (true, 0) if fits && created.output == 0 => created.output = opened.stream,
            (false, 0) if fits && created.input == 0 => created.input = opened.stream,
            (false, writer) if fits && created.input == 0 && before(created.task, writer).is_some() => {
                created.input = opened.stream;
                created.writer_before = before(created.task, writer).unwrap_or(0);
            }
            _ => return self.besides.push(StreamOpened { ..*opened }),
        }
        created.capacity = capacity;
    }

    /// Records the task that was being made, if any, after its streams were attached. If `observed` is given,
    /// the new task's dispatches are recorded by the same `recorder`, and the event of the new task is their
    /// base.
    pub(super) fn end(&mut self, now: u64, recorder: &mut Recorder, observed: Option<&ObservedTask>) {
        let Some(mut created) = self.created.take() else { return };
        if let Some(observed) = observed {
            created.base_number = recorder.base_of_new(now, &created, observed);
        }
        recorder.at(now, &created);
        self.besides.drain(..).for_each(|opened| recorder.same(&opened));
    }
}

/// The difference between the numbers of `task` and `writer`, if `writer` is smaller.
fn before(task: u64, writer: u64) -> Option<u32> {
    task.checked_sub(writer).filter(|before| *before > 0).and_then(|before| u32::try_from(before).ok())
}

impl Recorder {
    /// The base number of the next event, which records a new task.
    fn base_of_new(&mut self, now: u64, created: &TaskCreated, observed: &ObservedTask) -> u32 {
        let words = 1 + <TaskCreated as thalweg_space::Kind>::WORDS as u64;
        let Some(block) = self.writer.reserve(now, words) else { return NO_BASE };
        let stated = &observed.recorded().stated;
        let number = self.next_base(block);
        stated.block.set(block);
        stated.base.set(number);
        stated.input.set(created.input);
        stated.next_read.set(0);
        stated.output.set(created.output);
        stated.next_written.set(0);
        stated.usual_by.set(ReadyBy::NOTHING);
        number
    }

    /// The number of the next base, which will be recorded in the block `block`.
    pub(super) fn next_base(&mut self, block: u64) -> u32 {
        if block != self.bases.block {
            self.bases = Bases { block, next: 0 };
        }
        self.bases.next += 1;
        self.bases.next - 1
    }
}
