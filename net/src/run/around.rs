//! The context that enclosing components give to the tasks of a component.

use thalweg_exec::{Placement, Replica, SiteRef, TaskId, TaskSpec};

/// The context that a component inherits from the combinators around it when it is unfolded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around {
    /// Whether records come in groups that must stay together: see `ordered.rs`.
    pub(crate) ordered: bool,
    /// The placement (`@`) that the network's text gives the component.
    pub(crate) place: Placement,
    /// The replica of a split that the component belongs to.
    pub(crate) together: Option<Replica>,
}

impl Around {
    /// The context of components that are unfolded later.
    pub(crate) fn later(self) -> Around {
        Around { together: None, ..self }
    }

    /// The specification of a task that `parent` makes, as part of this replica.
    pub(crate) fn task(self, component: SiteRef, parent: TaskId, replica: u64) -> TaskSpec {
        let Around { place, together, .. } = self;
        TaskSpec { component, parent, replica, place, together, ..TaskSpec::default() }
    }
}
