//! Which task an event is about, and which component that is of.
//!
//! Dispatches name a *base*, recorded before in the same block of their element, that says the task. Which component a task belongs
//! to was recorded when it was made, and stands in the live table as long as it exists.

use super::texts::ByNumber;
use std::collections::VecDeque;
use thalweg_space::reader::{Event, KindInfo, SpaceReader};

/// More bases than this no block has.
const BASES_MAX: u64 = 1 << 21;
/// How many tasks that have ended are remembered.
const ENDED_MAX: usize = 1 << 16;

/// What an event says about tasks, besides its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The event says nothing about tasks.
    None,
    /// The event is about the task in its field `task`.
    About,
    /// A task was created; the event is about that task, too. The task may be a base of dispatches.
    Created,
    /// A task ended; the event is about that task, too.
    Ended,
    /// A base of dispatches; the event is about the base's task, too.
    Base,
    /// A dispatch, about the task of its base.
    Dispatch,
}

impl Role {
    pub(crate) fn of(kind: &KindInfo) -> Role {
        match kind.name.as_str() {
            "exec.task_created" => Role::Created,
            "exec.task_ended" | "exec.brief_task_ended" => Role::Ended,
            "exec.dispatch_base" => Role::Base,
            "exec.dispatch" | "exec.dispatch_long" => Role::Dispatch,
            name if name.starts_with("exec.") && kind.field("task").is_some() => Role::About,
            _ => Role::None,
        }
    }
}

/// The tasks of a process.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    components: ByNumber<u64>,
    ended: VecDeque<u64>,
    /// The tasks of each writer's bases in its present block.
    bases: ByNumber<Vec<u64>>,
    has_looked: bool,
}

impl Tasks {
    /// A pull begins: tasks that are not known may be looked for once more.
    pub(crate) fn new_pull(&mut self) {
        self.has_looked = false;
    }

    /// Takes an event of a writer, the next one if they come in order; returns the task that it is about, or 0.
    pub(crate) fn take(&mut self, role: Role, event: &Event<'_>, is_in_order: bool) -> u64 {
        let field = |name: &str| event.kind.field(name).map_or(0, |field| event.u64(field));
        match role {
            // An event out of order is not related to those that come next.
            Role::Base if !is_in_order => field("task"),
            Role::Dispatch if !is_in_order => 0,
            Role::None => 0,
            Role::About => field("task"),
            Role::Created => {
                let task = field("task");
                self.components.insert(task, field("component"));
                // Events of former versions have no such field, and those of tasks that are no base have a number beyond all.
                if is_in_order && event.kind.field("base_number").is_some() {
                    self.base(event.writer, field("base_number"), task);
                }
                task
            }
            Role::Ended => {
                let task = field("task");
                self.ended.push_back(task);
                if self.ended.len() > ENDED_MAX
                    && let Some(oldest) = self.ended.pop_front()
                {
                    self.components.remove(&oldest);
                }
                task
            }
            Role::Base => {
                let task = field("task");
                self.base(event.writer, field("number"), task);
                task
            }
            Role::Dispatch => {
                let bases = self.bases.get(&event.writer.into());
                bases.and_then(|bases| bases.get(field("base_number") as usize)).copied().unwrap_or(0)
            }
        }
    }

    /// A writer has recorded a base of this number, of a task.
    fn base(&mut self, writer: u32, number: u64, task: u64) {
        if number < BASES_MAX {
            let bases = self.bases.entry(writer.into()).or_default();
            // A number of 0 begins another block.
            bases.truncate(number as usize);
            bases.resize(number as usize, 0);
            bases.push(task);
        }
    }

    /// Events of this writer were lost: its bases may be among them.
    pub(crate) fn forget(&mut self, writer: u32) {
        self.bases.remove(&writer.into());
    }

    /// The site of a task's component, or 0.
    pub(crate) fn component(&mut self, task: u64, space: &SpaceReader) -> u64 {
        if let Some(component) = self.components.get(&task) {
            return *component;
        }
        if task == 0 || std::mem::replace(&mut self.has_looked, true) {
            return 0;
        }
        for row in space.live_rows().unwrap_or_default() {
            if row.kind_name() == "exec.task"
                && let Some(component) = row.cell("component")
            {
                self.components.insert(row.id, component);
            }
        }
        self.components.get(&task).copied().unwrap_or(0)
    }
}
