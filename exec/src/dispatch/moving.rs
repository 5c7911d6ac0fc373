//! A worker's record of tasks that were moved to and from the worker, and of tasks that exchange messages
//! with other workers.

use std::ptr::NonNull;

use crate::ring::NOBODY;
use crate::task::cell::TaskCell;

/// A worker may wait for one part in `TOLERATED` of its time without any move of tasks, because a division of
/// the tasks that keeps neighbours together and is roughly balanced is better than an exactly balanced one
/// that separates neighbours.
const TOLERATED: u64 = 4;

/// A worker's record of moves.
#[derive(Default)]
pub(crate) struct Moving {
    /// The tasks of this worker that last exchanged messages with a task of another worker; one task for each
    /// of two other workers.
    borders: [Border; 2],
    /// When the worker last had nothing to do.
    pub(crate) busy_since: u64,
    /// The time for which the worker waited since it last got a task, less the tolerated part.
    /// `counted_until` is the time up to which the wait is counted, and `patience` the wait after which the
    /// worker asks for a task.
    pub(crate) waited: u64,
    pub(crate) counted_until: u64,
    pub(crate) patience: u64,
    /// The worker to which this worker last gave a task, if this worker got no task since.
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

/// What a worker that waits has seen of another one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// The call of a task's code that the other worker was in, and when it was first seen there or was looked through
    /// in vain.
    pub(crate) turn: u64,
    pub(crate) since: u64,
    /// Whether this worker found nothing in the queue there, which does not grow during the call.
    pub(crate) is_bare: bool,
}

/// What a worker that waits knows of the other workers.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) seen: Vec<Seen>,
    /// For how long, in ticks, a call must last before tasks are taken from behind it; 0: never.
    pub(crate) after: u64,
    /// The time, in ticks, until the next look but one; whether the last look was to see which calls go on.
    pub(crate) pause: u64,
    pub(crate) looked_just_now: bool,
}

impl Moving {
    /// Forgets the tasks at borders, some of which may be gone.
    pub(crate) fn forget_borders(&mut self) {
        self.borders = Default::default();
    }

    /// Subtracts the tolerated part from the time waited. The time before the worker gets its first task is
    /// not counted.
    pub(crate) fn count_until(&mut self, now: u64) {
        let tolerated = now.saturating_sub(self.counted_until) / TOLERATED;
        self.waited = self.waited.saturating_sub(tolerated);
        self.counted_until = now;
    }

    /// Notes that a task exchanged messages with a task of worker `peer`.
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
