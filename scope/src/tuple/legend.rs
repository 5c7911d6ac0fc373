//! The legend, which explains the numbers in tuples' heads: kinds, elements, processes.

use super::described::{Field, Of, TupleKind};
use std::sync::{Arc, Mutex, PoisonError};

/// The kind of tuples that stand for lost events.
pub const KIND_GAP: u16 = 0;
/// The element of tuples that an operator made.
pub const ELEMENT_NONE: u32 = 0;

/// A process whose elements are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The name of the process's space.
    pub name: String,
    /// The process id.
    pub pid: u32,
    /// The machine's name.
    pub host: String,
    /// The name of the session's directory; empty if there is no session.
    pub session: String,
    /// The UUID of the process's space.
    pub uuid: [u8; 16],
}

/// An element, which holds the events of one writer of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The index of the process in [`Legend::processes`].
    pub process: u32,
    /// The writer's number in the process.
    pub writer: u32,
    /// The writer's name, of a thread or of a collector's path; empty if it is no longer known.
    pub name: Arc<str>,
}

/// The kinds, elements and processes that the numbers in tuples' heads denote. A legend only grows, so
/// numbers keep their meaning from pull to pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Legend {
    /// The kinds, indexed by a head's `kind`.
    pub kinds: Vec<Arc<TupleKind>>,
    /// The elements, indexed by a head's `element`.
    pub elements: Vec<Element>,
    /// The processes, indexed by an element's `process`.
    pub processes: Vec<Arc<Process>>,
}

impl Default for Legend {
    fn default() -> Legend {
        Legend {
            kinds: vec![Arc::new(gap_kind())],
            elements: vec![Element { process: 0, writer: 0, name: "".into() }],
            processes: vec![Arc::new(Process::default())],
        }
    }
}

impl Legend {
    /// The process of an element.
    pub fn process(&self, element: u32) -> Option<&Process> {
        self.processes.get(self.elements.get(element as usize)?.process as usize).map(|process| &**process)
    }
}

/// The kind of tuples that stand for lost events.
fn gap_kind() -> TupleKind {
    let number = |name: &str, unit: &str, doc: &str| Field {
        name: name.to_owned(),
        of: Of::Unsigned,
        unit: unit.to_owned(),
        doc: doc.to_owned(),
    };
    TupleKind {
        name: "scope.gap".to_owned(),
        doc: "Events of an element that are lost: overwritten before they were pulled, dropped or damaged."
            .to_owned(),
        fields: vec![
            number("lost", "events", "How many."),
            number("from", "", "The sequence of the first of them."),
        ],
    }
}

/// The growing legend, which all readers of a scope share.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    legend: Mutex<Arc<Legend>>,
}

impl Tables {
    pub(crate) fn now(&self) -> Arc<Legend> {
        self.locked(|legend| legend.clone())
    }

    fn locked<R>(&self, change: impl FnOnce(&mut Arc<Legend>) -> R) -> R {
        change(&mut self.legend.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of this kind. Kinds with the same name and fields have the same number.
    pub(crate) fn kind(&self, kind: TupleKind) -> u16 {
        self.locked(|legend| {
            if let Some(known) = legend.kinds.iter().position(|known| **known == kind) {
                return known as u16;
            }
            // If there are more kinds than numbers, the last number stands for all further kinds.
            if legend.kinds.len() < usize::from(u16::MAX) {
                Arc::make_mut(legend).kinds.push(Arc::new(kind));
            }
            (legend.kinds.len() - 1) as u16
        })
    }

    pub(crate) fn process(&self, process: Process) -> u32 {
        self.locked(|legend| {
            if let Some(known) = legend.processes.iter().position(|known| **known == process) {
                return known as u32;
            }
            let legend = Arc::make_mut(legend);
            legend.processes.push(Arc::new(process));
            (legend.processes.len() - 1) as u32
        })
    }

    /// Adds an element; the caller keeps its number.
    pub(crate) fn element(&self, element: Element) -> u32 {
        self.locked(|legend| {
            let legend = Arc::make_mut(legend);
            legend.elements.push(element);
            (legend.elements.len() - 1) as u32
        })
    }
}
