//! The tasks of a worker that are ready to run, and which of them is next.
//!
//! With `exec.order` *fifo* the next task is the first in the queue. With *demand* (LPEL-HRC, ICA3PP 2013)
//! the next task is chosen from the first few: the one with the greatest number of messages that wait for it,
//! less the messages that it wrote and no task has read. With this order a task with a full output lets its
//! reader go first.

use std::ptr::NonNull;

use crate::sync::{Ordering, lock};
use crate::task::cell::TaskCell;
use crate::telemetry::Share;

/// How many tasks in a row may be put at the front of the queue. Two tasks in a loop that wake each other
/// must not keep all other tasks waiting for ever.
const OVERTAKE_MAX: u32 = 256;

/// The number of tasks that are searched for the greatest demand.
const LOOKED_THROUGH: usize = 8;

/// A worker's tasks.
#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) ready: ReadyQueue,
    pub(crate) live: Vec<NonNull<TaskCell>>,
    /// How many idle tasks wait for room.
    pub(crate) wait_for_room: u64,
    /// Whether the worker is parked.
    pub(crate) parked: bool,
}

impl Tasks {
    /// Removes a task from the list of live tasks.
    pub(crate) fn forget(&mut self, task: &TaskCell) {
        let at = task.live_index.get() as usize;
        self.live.swap_remove(at);
        if let Some(moved) = self.live.get(at) {
            // SAFETY: tasks in the list are alive.
            unsafe { moved.as_ref() }.live_index.set(at as u32);
        }
    }

    /// Notes that an idle task is woken or goes to another worker.
    #[inline]
    pub(crate) fn no_longer_idle(&mut self, task: &TaskCell) {
        self.wait_for_room -= u64::from(task.waits_for.get() == Share::OutputWait);
    }
}

/// The tasks ready to run, in the order in which they became ready, except that a task that got input goes
/// first: messages pass through the network before others enter it, so few messages are under way, which
/// keeps them in the cache and lets a run end soon. A task that got the end of a stream also goes first,
/// because otherwise the end would never catch up with a star that unfolds, and all the star's stages would
/// stay.
pub(crate) struct ReadyQueue {
    first: *mut TaskCell,
    last: *mut TaskCell,
    /// How many tasks were pushed to the front since a task was last pushed to the back instead.
    overtakes: u32,
    /// How many tasks were taken by demand since the first task of the queue was taken.
    passed_over: u32,
}

impl Default for ReadyQueue {
    fn default() -> ReadyQueue {
        ReadyQueue::new()
    }
}

impl ReadyQueue {
    pub(crate) fn new() -> ReadyQueue {
        ReadyQueue { first: std::ptr::null_mut(), last: std::ptr::null_mut(), overtakes: 0, passed_over: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, task: &TaskCell) {
        let pointer = std::ptr::from_ref(task).cast_mut();
        task.next_ready.set(std::ptr::null_mut());
        match NonNull::new(self.last) {
            // SAFETY: tasks in the queue are alive.
            Some(last) => unsafe { last.as_ref() }.next_ready.set(pointer),
            None => self.first = pointer,
        }
        self.last = pointer;
    }

    #[inline(always)]
    pub(crate) fn push_front(&mut self, task: &TaskCell) {
        if self.overtakes == OVERTAKE_MAX || self.first.is_null() {
            self.overtakes = 0;
            return self.push(task);
        }
        self.overtakes += 1;
        task.next_ready.set(self.first);
        self.first = std::ptr::from_ref(task).cast_mut();
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<NonNull<TaskCell>> {
        let task = NonNull::new(self.first)?;
        // SAFETY: tasks in the queue are alive.
        self.first = unsafe { task.as_ref() }.next_ready.get();
        if self.first.is_null() {
            self.last = std::ptr::null_mut();
        }
        Some(task)
    }

    /// Takes the task with the greatest demand among the first few tasks; takes the first task if as many
    /// tasks as allowed have overtaken it.
    pub(crate) fn pop_demanded(&mut self) -> Option<NonNull<TaskCell>> {
        // SAFETY: tasks in the queue are alive.
        let demand = |task: &NonNull<TaskCell>| unsafe { task.as_ref() }.demand.get();
        let first = NonNull::new(self.first)?;
        let most = self
            .first_few(LOOKED_THROUGH)
            .reduce(|most, task| if demand(&task) > demand(&most) { task } else { most })?;
        if most == first || self.passed_over == OVERTAKE_MAX {
            self.passed_over = 0;
            return self.pop();
        }
        self.passed_over += 1;
        // SAFETY: tasks in the queue are alive.
        self.remove(unsafe { most.as_ref() });
        Some(most)
    }

    /// The first `count` tasks.
    pub(crate) fn first_few(&self, count: usize) -> impl Iterator<Item = NonNull<TaskCell>> {
        // SAFETY: tasks in the queue are alive.
        let next = |task: &NonNull<TaskCell>| NonNull::new(unsafe { task.as_ref() }.next_ready.get());
        std::iter::successors(NonNull::new(self.first), next).take(count)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Whether there are two tasks or more.
    #[inline]
    pub(crate) fn has_two(&self) -> bool {
        self.first != self.last
    }

    /// The last task, among the first `count` tasks, for which `wanted` returns true.
    pub(crate) fn last_of(
        &self,
        count: usize,
        wanted: impl Fn(&NonNull<TaskCell>) -> bool,
    ) -> Option<NonNull<TaskCell>> {
        self.first_few(count).filter(wanted).last()
    }

    /// Removes a task from any place in the queue.
    pub(crate) fn remove(&mut self, task: &TaskCell) {
        let pointer = std::ptr::from_ref(task).cast_mut();
        let mut before: Option<&TaskCell> = None;
        let mut at = self.first;
        while at != pointer {
            // SAFETY: tasks in the queue are alive.
            let Some(cell) = (unsafe { at.as_ref() }) else { return };
            (before, at) = (Some(cell), cell.next_ready.get());
        }
        let next = task.next_ready.get();
        match before {
            Some(before) => before.next_ready.set(next),
            None => self.first = next,
        }
        if next.is_null() {
            self.last = before.map_or(std::ptr::null_mut(), |before| std::ptr::from_ref(before).cast_mut());
        }
    }
}

/// The demand of a task whose input stream has ended. This demand is the greatest possible, because all tasks
/// behind the task wait for the stream's end.
const ENDED: i32 = i32::MAX;

impl TaskCell {
    /// Adds to the task's demand what the stream for which it sleeps contributes: messages, room, or the
    /// stream's end. The caller is the task's thread.
    pub(crate) fn adds_demand(&self) {
        let _asking = lock(&self.home.asking);
        // SAFETY: the task sleeps, this is the task's thread, and the lock is held.
        let more = match unsafe { self.first_wait() } {
            None => 1, // The task waits for one of several inputs.
            Some(ring) if self.waits_for.get() == Share::OutputWait => {
                (ring.capacity() as usize).saturating_sub(ring.look_for_room()) as i32
            }
            Some(ring) if ring.writing.closed.load(Ordering::Acquire) != 0 => ENDED,
            Some(ring) => ring.look_for_messages() as i32,
        };
        self.demand.set(self.demand.get().saturating_add(more));
    }
}
