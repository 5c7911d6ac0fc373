//! What a worker remembers of tasks that came and went, and of those at its borders.

use std::ptr::NonNull;

use crate::ring::NOBODY;
use crate::task::cell::TaskCell;

/// The part of its time that a worker may wait for ever: a half-way balanced cut with its neighbours side by side is
/// better than a balanced one without.
const TOLERATED: u64 = 4;

/// What a worker remembers of moves.
#[derive(Default)]
pub(crate) struct Moving {
    /// The tasks that last exchanged messages with one of another worker: one for each of two such workers.
    borders: [Border; 2],
    /// When the worker last had nothing to do.
    pub(crate) busy_since: u64,
    /// Time it waited since a task came, less what is tolerated; until when that is counted; how much of it it bears.
    pub(crate) waited: u64,
    pub(crate) counted_until: u64,
    pub(crate) patience: u64,
    /// The worker to which this one gave a task last, if none came to this one since.
    pub(crate) gave_to: Option<u32>,
    pub(crate) until_look: u32,
}

#[derive(Clone, Copy)]
struct Border {
    task: *mut TaskCell,
    peer: u32,
}

impl Default for Border {
    fn default() -> Border {
        Border { task: std::ptr::null_mut(), peer: NOBODY }
    }
}

impl Moving {
    /// Takes what is tolerated off the time waited. What it waited for its first task is forgiven.
    pub(crate) fn count_until(&mut self, now: u64) {
        let tolerated = now.saturating_sub(self.counted_until) / TOLERATED;
        self.waited = self.waited.saturating_sub(tolerated);
        self.counted_until = now;
    }

    /// A task exchanged messages with one of worker `peer`.
    #[inline]
    pub(crate) fn border(&mut self, task: *mut TaskCell, peer: u32) {
        let at = usize::from(self.borders[0].peer != peer);
        if self.borders[at].peer != peer {
            self.borders.swap(0, 1);
            self.borders[0] = Border { task, peer };
        } else {
            self.borders[at].task = task;
        }
    }

    pub(crate) fn forget(&mut self, task: &TaskCell) {
        for border in &mut self.borders {
            if std::ptr::eq(border.task, task) {
                *border = Border::default();
            }
        }
    }

    pub(crate) fn at_border_with(&self, peer: u32) -> Option<NonNull<TaskCell>> {
        let border = self.borders.iter().find(|border| border.peer == peer && !border.task.is_null())?;
        NonNull::new(border.task)
    }
}
