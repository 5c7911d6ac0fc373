//! Where tasks run: the mapper at work.

use std::sync::Mutex;

use crate::shared::mapper::{Mapper, Placing};
use crate::shared::options::Options;
use crate::sync::lock;
use crate::task::cell::TaskCell;
use crate::task::spec::TaskSpec;

/// The mapper of a runtime.
pub(crate) struct Mapping {
    pub(crate) placing: Mutex<Placing>,
    /// The user's mapper places tasks, so no worker steals.
    pub(crate) places: bool,
    /// The mapper wants to know of tasks that end or move.
    weighs: bool,
    /// Each task has a thread of its own.
    pub(crate) thread_per_task: bool,
}

impl Mapping {
    /// For so many workers at most.
    pub(crate) fn new(options: &Options, most: usize) -> Mapping {
        let mapper = &options.mapper;
        Mapping {
            placing: Mutex::new(Placing::new(mapper.clone(), options.workers, most)),
            places: matches!(mapper, Mapper::User(_)),
            weighs: matches!(mapper, Mapper::LeastLoaded),
            thread_per_task: options.thread_per_task,
        }
    }

    /// The worker, of so many that take part, of a task created while running, by a task of component `creator` on worker `here`.
    pub(crate) fn place(&self, spec: &TaskSpec, creator: u64, (here, workers): (usize, usize)) -> usize {
        if workers == 1 && !self.places && !self.weighs {
            return 0;
        }
        lock(&self.placing).place(spec, creator, here)
    }

    /// A task has ended.
    pub(crate) fn task_ended(&self, task: &TaskCell) {
        if self.weighs && !task.blocking {
            lock(&self.placing).ended(&task.spec(), task.worker());
        }
    }

    /// A task changed workers.
    pub(crate) fn task_moved(&self, task: &TaskCell, from: u32) {
        if self.weighs {
            lock(&self.placing).moved(&task.spec(), from, task.worker());
        }
    }
}
