//! Finds the task of an event, and the component of that task.
//!
//! A dispatch refers to a *base*, which was recorded before in the same block of the element and names the
//! task. The component of a task is recorded when the task is made, and lies in the live table while the task
//! exists.

use super::texts::ByNumber;
use std::collections::VecDeque;
use thalweg_space::reader::{Event, KindInfo, SpaceReader};

/// An upper bound of the number of bases in a block.
const BASES_MAX: u64 = 1 << 21;
/// The number of ended tasks that are remembered.
const ENDED_MAX: usize = 1 << 16;

/// The relation of an event to tasks, besides its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The event does not concern a task.
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
    /// The tasks of each writer's bases in its current block.
    bases: ByNumber<Vec<u64>>,
    has_looked: bool,
}

impl Tasks {
    /// Begins a pull, in which unknown tasks may be looked for once.
    pub(crate) fn new_pull(&mut self) {
        self.has_looked = false;
    }

    /// Processes an event of a writer, which is the next one if events come in order; returns its task, or 0.
    pub(crate) fn take(&mut self, role: Role, event: &Event<'_>, is_in_order: bool) -> u64 {
        let field = |name: &str| event.kind.field(name).map_or(0, |field| event.u64(field));
        match role {
            // A base that comes out of order does not hold for the events that come next.
            Role::Base if !is_in_order => field("task"),
            Role::Dispatch if !is_in_order => 0,
            Role::None => 0,
            Role::About => field("task"),
            Role::Created => {
                let task = field("task");
                self.components.insert(task, field("component"));
                // Events of former versions lack this field. The number of a task without a base exceeds all
                // valid numbers.
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

    /// Adds a base of this number for a task, which the writer recorded.
    fn base(&mut self, writer: u32, number: u64, task: u64) {
        if number < BASES_MAX {
            let bases = self.bases.entry(writer.into()).or_default();
            // A base with the number 0 is the first of another block.
            bases.truncate(number as usize);
            bases.resize(number as usize, 0);
            bases.push(task);
        }
    }

    /// Forgets the bases of this writer, because lost events may include later ones.
    pub(crate) fn forget(&mut self, writer: u32) {
        self.bases.remove(&writer.into());
    }

    /// The site of a task's component; 0 if it is unknown.
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
