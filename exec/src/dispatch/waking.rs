//! Makes tasks ready because of another task's dispatch, and receives tasks that come to a worker.

use std::ptr::NonNull;

use super::core::Core;
use crate::ring::{AWAKE, BORDER, Holder, PORT_WAITS};
use crate::sync::{Ordering, fetch_to_write};
use crate::task::cell::{Ring, State, TaskCell};
use crate::telemetry::Cause;
use crate::wake::{Woken, wake_elsewhere};

impl Core {
    /// Makes a task ready; if the task runs, notes that it must run again.
    #[inline(always)]
    pub(crate) fn wake(&mut self, task: &TaskCell, cause: Cause, by_stream: u64) {
        if task.worker() != self.worker {
            self.wake_away(task, cause, by_stream);
            return;
        }
        match task.state.get() {
            State::Idle => {
                self.telemetry.task_woken(task, cause, by_stream);
                self.no_longer_idle(task);
                task.state.set(State::Ready);
                if self.adopted.by_demand {
                    task.adds_demand();
                }
                if matches!(cause, Cause::Input | Cause::End) {
                    self.tasks().ready.push_front(task);
                } else {
                    self.tasks().ready.push(task);
                }
            }
            State::Running => task.notified.set(true),
            State::New | State::Moving | State::Ready | State::Ended => {}
        }
    }

    /// Notes that an idle task is woken or goes to another worker.
    #[inline]
    pub(crate) fn no_longer_idle(&mut self, task: &TaskCell) {
        self.tasks().no_longer_idle(task);
    }

    /// Wakes a task of another thread.
    #[inline(never)]
    pub(super) fn wake_away(&mut self, task: &TaskCell, cause: Cause, by_stream: u64) {
        let woken = wake_elsewhere(&self.shared.home, task, self.telemetry.waking(cause, by_stream));
        if woken == Woken::Roused {
            self.did_aside();
        }
    }

    #[inline]
    pub(crate) fn make_ready(&mut self, task: &TaskCell) {
        task.state.set(State::Ready);
        self.tasks().ready.push(task);
    }

    #[inline(never)]
    pub(super) fn wake_reader(&mut self, ring: &Ring, how: u8, cause: Cause) {
        // SAFETY: this thread is in the writer's section, so a reference of the ring that is still visible is
        // not given up.
        let Some(task) = (unsafe { ring.reading.task.load(Ordering::SeqCst).as_ref() }) else { return };
        let (border, how) = (how & BORDER != 0, how & !BORDER);
        if border {
            if how != AWAKE {
                fetch_to_write(&task.in_inbox);
            }
            self.moving.border(self.task.pointer(), task.worker());
        }
        if how == AWAKE {
            return;
        }
        if how == PORT_WAITS {
            task.push_ready_port(ring);
        }
        self.wake(task, cause, ring.id);
    }

    #[inline(never)]
    pub(super) fn wake_writer(&mut self, ring: &Ring, how: u8, cause: Cause) {
        // SAFETY: this thread is in the reader's section, so a reference of the ring that is still visible is
        // not given up.
        let Some(task) = (unsafe { ring.writing.task.load(Ordering::SeqCst).as_ref() }) else { return };
        if how & BORDER != 0 {
            self.moving.border(self.task.pointer(), task.worker());
        }
        if how != BORDER {
            self.wake(task, cause, ring.id);
        }
    }

    /// Adds a task that is new to this worker; `task` carries the reference that keeps it alive.
    pub(crate) fn adopt(&mut self, task: NonNull<TaskCell>) {
        // SAFETY: the reference that was handed to this function keeps the task alive.
        let cell = unsafe { task.as_ref() };
        debug_assert!(matches!(cell.state.get(), State::New | State::Moving));
        let live = &mut self.tasks().live;
        cell.live_index.set(live.len() as u32);
        live.push(task);
        self.make_ready(cell);
    }

    /// Adds a task as [`Core::adopt`] does, makes the task ready at once, and records that it is ready.
    pub(crate) fn adopt_new(&mut self, task: NonNull<TaskCell>) {
        self.adopt(task);
        // SAFETY: the reference that was handed to this function keeps the task alive.
        self.telemetry.task_ready(unsafe { task.as_ref() }, Cause::Created, 0);
    }

    /// Takes the tasks that other threads made ready.
    pub(crate) fn empty_inbox(&mut self) {
        let tasks = self.shared.home.inboxes[self.worker as usize].take();
        for task in tasks {
            // SAFETY: the inbox's reference now belongs to this call.
            let cell = unsafe { task.as_ref() };
            if cell.state.get() == State::Moving {
                self.arrive(task);
                self.send_on_if_parked(task);
                continue;
            }
            if self.forward(task) {
                continue;
            }
            // The flag is cleared by a swap with acquire, so this thread sees the writes of every waker that
            // found the flag already set.
            cell.in_inbox.swap(false, Ordering::AcqRel);
            if cell.state.get() == State::New {
                self.adopt(task);
                self.send_on_if_parked(task);
                continue;
            }
            if cell.state.get() == State::Idle {
                self.no_longer_idle(cell);
                if self.adopted.by_demand {
                    cell.adds_demand();
                }
                self.telemetry.task_taken(cell);
                self.make_ready(cell);
            } else {
                debug_assert_ne!(cell.state.get(), State::Running);
            }
            // SAFETY: this gives up the reference that the inbox held.
            unsafe { TaskCell::release(task.as_ptr()) }
        }
    }

    pub(super) fn send_on_if_parked(&mut self, task: NonNull<TaskCell>) {
        if self.own_tasks().parked {
            self.send_on(task);
        }
    }

    #[inline]
    pub(crate) fn next_task(&mut self) -> Option<NonNull<TaskCell>> {
        let by_demand = self.adopted.by_demand;
        let ready = &mut self.tasks().ready;
        if by_demand { ready.pop_demanded() } else { ready.pop() }
    }
}
