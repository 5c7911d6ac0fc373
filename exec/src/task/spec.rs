//! How a caller describes a task to the runtime.

use thalweg_space::SiteRef;

use crate::task::placement::Placement;
use crate::telemetry::{About, Origin};

/// A task's number: unique in the process, and never used again. 0 stands for no task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);

/// How a caller describes a task to the runtime.
#[derive(Clone, Copy, Debug)]
pub struct TaskSpec {
    /// The component of the network the task belongs to.
    pub component: SiteRef,
    /// The task that created this task by unfolding, or 0.
    pub parent: TaskId,
    /// Which replica of the component the task is.
    pub replica: u64,
    /// Whether the k-th message that the task writes always descends from the k-th message that it reads (one
    /// input, one output).
    pub one_to_one: bool,
    /// How much work the task is expected to have compared with other tasks, for dividing a network among
    /// workers.
    pub weight: u32,
    /// Where the task must run, if the user specifies it. A task for another node fails: see
    /// [`Summary::failures`](crate::Summary::failures).
    pub place: Placement,
    /// The replica that the task belongs to. The tasks of a replica run on one worker unless the user places
    /// them: see [`Spread`](crate::Spread).
    pub together: Option<Replica>,
}

impl Default for TaskSpec {
    fn default() -> TaskSpec {
        TaskSpec {
            component: SiteRef(0),
            parent: TaskId(0),
            replica: 0,
            one_to_one: false,
            weight: 1,
            place: Placement::ANYWHERE,
            together: None,
        }
    }
}

impl TaskSpec {
    pub(crate) fn about(&self) -> About {
        About { component: self.component, replica: self.replica }
    }

    /// The facts about a task that are recorded when it is made.
    pub(crate) fn origin(&self) -> Origin {
        Origin { about: self.about(), parent: self.parent.0, one_to_one: self.one_to_one }
    }
}

/// Tasks that stay together on a worker: a replica of a [`Spread`](crate::Spread).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    pub(crate) number: u32,
    /// The worker on which the replica's tasks are created.
    pub(crate) worker: u32,
}
