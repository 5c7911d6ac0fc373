//! The records that were sent to a part on another node and have not come back.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::record::{Ends, Record};
use crate::run::message::Message;

/// The most records sent to a lost part that wait to be reported.
const LOST_MAX: usize = 4096;

/// The records that were sent to a part and have not come back.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The records in the order in which they were sent; empty if they are only counted.
    held: VecDeque<Held>,
    sent: u64,
    back: u64,
    /// Why no more records will come back.
    lost: Option<Arc<str>>,
    /// Whether nothing more will be sent.
    is_over: bool,
}

/// A record, or mark, that was sent.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) record: Option<Record>,
    pub(super) message: Message,
    /// The groups that end after the record in this process; in the part the record is a group of its own.
    pub(super) ends: Ends,
}

impl UnderWay {
    /// Locks the state. A panic under the lock leaves every step either done or not begun.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of records sent, and the number that came back.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.sent, state.back)
    }

    /// Counts a record that was sent.
    pub(super) fn sent_one(&self) {
        self.state().sent += 1;
    }

    /// Counts a record that came back.
    pub(super) fn back_one(&self) {
        self.state().back += 1;
    }

    /// Whether nothing more will be sent.
    pub(super) fn is_over(&self) -> bool {
        self.state().is_over
    }

    pub(super) fn lost(&self) -> Option<Arc<str>> {
        self.state().lost.clone()
    }

    /// Marks the part as lost; the first reason is kept.
    pub(super) fn lose(&self, why: String) {
        self.state().lost.get_or_insert_with(|| why.into());
        self.changed.notify_all();
    }

    pub(super) fn hold(&self, held: Held) {
        let mut state = self.state();
        while state.lost.is_some() && state.held.len() >= LOST_MAX {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.held.push_back(held);
        if state.lost.is_some() {
            self.changed.notify_all();
        }
    }

    /// Removes the first record that is held, because its group has come back completely; returns the groups
    /// that end after the record.
    pub(super) fn settle(&self) -> Option<Ends> {
        Some(self.state().held.pop_front()?.ends)
    }

    pub(super) fn over(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// The next lost record; waits for it. `None` if no more will be lost.
    pub(super) fn next_lost(&self) -> Option<Held> {
        let mut state = self.state();
        loop {
            if let Some(held) = state.held.pop_front() {
                self.changed.notify_all();
                return Some(held);
            }
            if state.is_over {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
