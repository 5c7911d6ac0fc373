//! Chooses where tasks run, by the runtime's mapper.

use std::sync::Mutex;

use crate::shared::mapper::{Mapper, Placing};
use crate::shared::options::Options;
use crate::sync::lock;
use crate::task::cell::TaskCell;
use crate::task::spec::TaskSpec;

/// The mapper of a runtime.
pub(crate) struct Mapping {
    pub(crate) placing: Mutex<Placing>,
    /// Whether the user's own mapper places tasks, in which case no worker steals tasks.
    pub(crate) places: bool,
    /// Whether the mapper must be notified of tasks that end or move.
    weighs: bool,
    /// Whether each task has a thread of its own.
    pub(crate) thread_per_task: bool,
}

impl Mapping {
    /// The mapping for at most `most` workers.
    pub(crate) fn new(options: &Options, most: usize) -> Mapping {
        let mapper = &options.mapper;
        Mapping {
            placing: Mutex::new(Placing::new(mapper.clone(), options.workers, most)),
            places: matches!(mapper, Mapper::User(_)),
            weighs: matches!(mapper, Mapper::LeastLoaded),
            thread_per_task: options.thread_per_task,
        }
    }

    /// The worker, of the `workers` that take part, for a task created during the run by a task of component
    /// `creator` on worker `here`. `choice` is the value of the setting `exec.mapper`.
    pub(crate) fn place(
        &self,
        spec: &TaskSpec,
        creator: u64,
        (here, workers): (usize, usize),
        choice: u64,
    ) -> usize {
        if workers == 1 && !self.places && !self.weighs {
            return 0;
        }
        let mut placing = lock(&self.placing);
        placing.choose(choice);
        placing.place(spec, creator, here)
    }

    /// Notes for the mapper that a task has ended.
    pub(crate) fn task_ended(&self, task: &TaskCell) {
        if self.weighs && !task.blocking {
            lock(&self.placing).ended(&task.spec(), task.worker());
        }
    }

    /// Notes for the mapper that a task changed workers.
    pub(crate) fn task_moved(&self, task: &TaskCell, from: u32) {
        if self.weighs {
            lock(&self.placing).moved(&task.spec(), from, task.worker());
        }
    }
}
