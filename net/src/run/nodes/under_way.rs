//! What was sent to a part on another node and did not come back.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::record::{Ends, Record};
use crate::run::message::Message;

/// At most so many records that were sent to a lost part wait until they are reported.
const LOST_MAX: usize = 4096;

/// What was sent to a part and did not come back.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they were sent; empty where they are only counted.
    held: VecDeque<Held>,
    sent: u64,
    back: u64,
    /// Why nothing comes back any more.
    lost: Option<Arc<str>>,
    /// Nothing more will be sent.
    is_over: bool,
}

/// A record, or mark, that was sent.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) record: Option<Record>,
    pub(super) message: Message,
    /// What ends behind it here; there it is a group of its own.
    pub(super) ends: Ends,
}

impl UnderWay {
    /// A panic under the lock leaves every step either done or not begun.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records sent, and records that came back.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.sent, state.back)
    }

    /// A record was sent.
    pub(super) fn sent_one(&self) {
        self.state().sent += 1;
    }

    /// A record came back.
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

    /// The first reason stays.
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

    /// The group of the first that is held has come back whole: what ends behind it.
    pub(super) fn settle(&self) -> Option<Ends> {
        Some(self.state().held.pop_front()?.ends)
    }

    pub(super) fn over(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// The next of what is lost; waits for it. None: no more will be.
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
