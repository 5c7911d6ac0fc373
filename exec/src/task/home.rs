//! Where tasks live: what every task knows of its runtime.

use std::sync::{Arc, Mutex};

use thalweg_space::{Error, Space};

use crate::task::admission::Admission;
use crate::task::cell::TaskCell;
use crate::task::inbox::Inbox;
use crate::telemetry::Board;

/// What every task knows of its runtime, in other cache lines than its count of references.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Home {
    /// One for each worker that there may be.
    pub(crate) inboxes: Vec<Inbox<TaskCell>>,
    /// Messages under way, and sources that are held.
    pub(crate) admission: Arc<Admission>,
    /// Where events and counters are recorded.
    pub(crate) board: Arc<Board>,
    /// Held while a thread goes through the streams that a thread's tasks wait for.
    pub(crate) asking: Mutex<()>,
}

impl Home {
    /// Of a runtime of so many workers at most, which accounts for busy time or does not.
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
