//! The part of a runtime that every task refers to.

use std::sync::{Arc, Mutex};

use thalweg_space::{Error, Space};

use crate::task::admission::Admission;
use crate::task::cell::TaskCell;
use crate::task::inbox::Inbox;
use crate::telemetry::Board;

/// The part of a runtime that every task refers to, aligned so that it lies in other cache lines than its
/// reference count.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Home {
    /// The inbox of each worker, up to the greatest number of workers.
    pub(crate) inboxes: Vec<Inbox<TaskCell>>,
    /// The count of messages under way, and the sources that are held.
    pub(crate) admission: Arc<Admission>,
    /// Where events and counters are recorded.
    pub(crate) board: Arc<Board>,
    /// A lock that is held while a thread iterates over the streams that its tasks wait for.
    pub(crate) asking: Mutex<()>,
}

impl Home {
    /// The home for a runtime of at most `workers` workers; `accounts`: whether busy time is accounted for.
    pub(crate) fn new(workers: usize, space: Option<Space>, accounts: bool) -> Result<Home, Error> {
        let admission = Arc::new(Admission::new(workers));
        let board = Board::new(space)?;
        Ok(Home {
            inboxes: (0..workers).map(|_| Inbox::new(admission.clone())).collect(),
            admission,
            board: Arc::new(if accounts { board } else { board.without_accounts() }),
            asking: Mutex::default(),
        })
    }
}
