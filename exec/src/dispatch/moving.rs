//! A worker's record of tasks that were moved to and from it, and of those at its borders.

use std::ptr::NonNull;

use crate::ring::NOBODY;
use crate::task::cell::TaskCell;

/// One in this many parts of a worker's time may be waiting without any move, because a roughly balanced cut
/// that keeps neighbours together is better than an exactly balanced one that does not.
const TOLERATED: u64 = 4;

/// A worker's record of moves.
#[derive(Default)]
pub(crate) struct Moving {
    /// The tasks that last exchanged messages with one of another worker: one for each of two such workers.
    borders: [Border; 2],
    /// When the worker last had nothing to do.
    pub(crate) busy_since: u64,
    /// The time waited since a task came, less the tolerated part. `counted_until` is the time up to which it
    /// is counted, and `patience` the wait after which the worker asks for a task.
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
    /// Subtracts the tolerated part from the time waited. The wait for the first task does not count.
    pub(crate) fn count_until(&mut self, now: u64) {
        let tolerated = now.saturating_sub(self.counted_until) / TOLERATED;
        self.waited = self.waited.saturating_sub(tolerated);
        self.counted_until = now;
    }

    /// A task exchanged messages with a task of worker `peer`.
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
