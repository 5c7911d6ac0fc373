//! The state of the shared map in a process, which the space keeps.

use super::replica::{Replica, Update};
use super::slot;
use super::value::MapValue;
use crate::audit::Audit;
use crate::layout::shared_map as layout;
use crate::map::Map;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The writer of a value, for the event that records the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The system's number of the process.
    pub pid: u32,
    /// The user id of the process.
    pub user: u32,
    /// `box`, or the name of the tool.
    pub tool: String,
}

impl Author {
    /// A box of this process.
    pub fn of_box() -> Author {
        Author { pid: std::process::id(), user: crate::process::user(), tool: "box".to_owned() }
    }
}

/// A compare-and-set of one process that another process decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The number of the request in the process that asks.
    pub number: u64,
    /// The key.
    pub key: String,
    /// The value that the key is to have.
    pub expected: MapValue,
    /// The value that the key then gets.
    pub value: MapValue,
    /// The writer.
    pub author: Author,
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The number of the request.
    pub number: u64,
    /// Whether the value was written; the reason why the request is refused.
    pub is_done: Result<bool, String>,
    /// The key's value after the decision.
    pub now: Option<Update>,
}

/// The state that the space keeps.
#[derive(Debug)]
pub(crate) struct MapState {
    pub(super) map: Arc<Map>,
    inside: Mutex<Inside>,
    /// Notified when a compare-and-set was decided.
    pub(super) decided: Condvar,
}

/// The state under the lock.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) replica: Replica,
    /// The names of the session's processes, by number.
    pub(super) names: Vec<String>,
    pub(super) decides: Decides,
    /// Requests that were not sent yet.
    pub(super) asks: VecDeque<Ask>,
    pub(super) asked: u64,
    /// The decisions that the threads which wait for them have not taken yet; `None`: not decided yet.
    pub(super) answers: HashMap<u64, Option<Result<bool, String>>>,
    pub(super) log: Option<Audit>,
}

/// The process that decides about a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decides {
    /// This process.
    Here,
    /// Another process, which cannot be asked yet.
    NotYet,
    /// Another process, which asks this one for its requests.
    Elsewhere,
}

impl MapState {
    pub(super) fn new(map: Map) -> MapState {
        let inside = Inside {
            replica: Replica::default(),
            names: Vec::new(),
            decides: Decides::Here,
            asks: VecDeque::new(),
            asked: 0,
            answers: HashMap::new(),
            log: None,
        };
        MapState { map: Arc::new(map), inside: Mutex::new(inside), decided: Condvar::new() }
    }

    /// A panic under this lock leaves every step either done or not begun.
    pub(super) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes new keys into the file, and then their number.
    pub(super) fn publish(&self, replica: &Replica) {
        let known = u64::from_le(self.map.word(layout::KEYS).load(Ordering::Relaxed)) as usize;
        for (at, entry) in replica.entries().iter().enumerate().skip(known) {
            slot::describe(&self.map, at, entry);
        }
        self.map.word(layout::KEYS).store((replica.entries().len() as u64).to_le(), Ordering::Release);
    }
}
