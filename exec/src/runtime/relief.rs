//! Tasks that are ready behind a long dispatch go to a worker that waits.
//!
//! A worker gives tasks away between two dispatches (`moves`), so whatever is ready on a worker that is inside a
//! box waits until the box returns. A worker that has nothing to do therefore looks at the others from time to
//! time. If one of them has been inside the same call of a task's code for `exec.steal_after_us`, the worker that
//! waits takes half of the tasks that are ready there, from the queue and from the inbox, and keeps them: it makes
//! the move in the other worker's stead, while the other worker lends its tasks (`wake/lent.rs`).
//!
//! The worker that lost tasks takes a new token as soon as it has its tasks back, as if it had given them away
//! itself, before it publishes anything or looks at another task. Until then its code only moves the positions
//! of the running task's own ends, which is the same for a task at the other end on another thread.
//!
//! While another worker works, a worker that waits wakes at intervals that double, up to thirty-two times as long. If
//! the interval is longer than four times, another worker that has been in a long dispatch wakes it, and it looks
//! often again. While all others sleep it sleeps until it is woken so, or for work.

use std::ptr::NonNull;
use std::time::Duration;

use crate::dispatch::Core;
use crate::dispatch::moving::Seen;
use crate::ring::{FOREIGN, Holder, NO_TOKEN, NOBODY};
use crate::shared::Shared;
use crate::sync::{Ordering, barrier, lock};
use crate::task::cell::{State, TaskCell};
use crate::task::inbox::Pushed;
use crate::telemetry::Share;
use crate::wake::ready::Tasks;

/// The longest pause of a worker that waits, while another one works, in halves of the time after which a call is
/// long; the first pause is one half.
const PAUSE_MAX: u64 = 64;
/// During a pause that is longer, in the same unit, a worker is woken by another one that has been in a long call.
const PAUSE_ALONE: u64 = 8;
/// A dispatch that is shorter, in nanoseconds, is never long, whatever the setting.
const SHORT_NS: u64 = 100_000;
/// The most tasks that a worker takes at once.
const TAKEN_MAX: usize = 64;

/// A worker that is in a long dispatch, and in which call.
#[derive(Clone, Copy)]
pub(crate) struct Busy {
    worker: u32,
    turn: u64,
}

/// What a look at the other workers says.
pub(crate) enum Look {
    /// No other worker works, or tasks are not taken.
    Never,
    /// The next look is due after this time.
    Again(Duration),
    /// The next look is due after this time, or when another worker has been in a long dispatch.
    Seldom(Duration),
    /// This worker is in a long dispatch.
    Found(Busy),
}

impl Core {
    /// Begins a wait in which the worker looks at the others, often at first.
    pub(crate) fn begins_watch(&mut self) {
        let may = !self.own_tasks().parked
            && self.shared.taking_part() > 1
            && !self.shared.mapping.places
            && self.me != NO_TOKEN;
        let after = if may { self.shared.tuning.steal_after_ticks(&mut self.telemetry) } else { 0 };
        self.watch.after = after;
        self.watch.pause = after / 2;
    }

    /// Looks whether another worker has been in one call for long, and may have ready tasks.
    pub(crate) fn look_around(&mut self) -> Look {
        if self.watch.after == 0 {
            return Look::Never;
        }
        let (shared, now) = (self.shared_state(), self.shared.clock.now());
        let inboxes = shared.manned();
        self.watch.seen.resize(inboxes.len(), Seen::default());
        let (mut works, mut is_new) = (false, false);
        for (worker, inbox) in
            inboxes.iter().enumerate().filter(|(worker, _)| *worker != self.worker as usize)
        {
            let Some(turn) = shared.crew.lent[worker].lent_since() else {
                works |= inbox.asleep_after().is_none();
                continue;
            };
            works = true;
            let seen = &mut self.watch.seen[worker];
            if seen.turn != turn {
                *seen = Seen { turn, since: now, is_bare: false };
                is_new = true;
            } else if now.saturating_sub(seen.since) < self.watch.after {
                is_new = true;
            } else if !seen.is_bare || !inbox.is_empty() {
                return Look::Found(Busy { worker: worker as u32, turn });
            }
        }
        if !works {
            return Look::Never;
        }
        // Two looks show that a call is long: the second one follows as soon as the call would be.
        if is_new && !self.watch.looked_just_now {
            self.watch.looked_just_now = true;
            return Look::Again(self.lasting(self.watch.after));
        }
        self.watch.looked_just_now = false;
        let (pause, half) = (self.watch.pause, self.watch.after / 2);
        self.watch.pause = (pause * 2).min(half * PAUSE_MAX);
        if pause > half * PAUSE_ALONE {
            Look::Seldom(self.lasting(pause))
        } else {
            Look::Again(self.lasting(pause))
        }
    }

    fn lasting(&self, ticks: u64) -> Duration {
        Duration::from_nanos(self.shared.clock.ticks_to_ns(ticks))
    }

    /// Takes tasks that are ready on a worker that is in a long call.
    pub(crate) fn relieve(&mut self, busy: Busy) {
        let shared = self.shared.clone();
        let Busy { worker, turn } = busy;
        let mut is_bare = true;
        let has_taken = shared.crew.lent[worker as usize].borrow(turn, |theirs| {
            let from_inbox = self.take_from_inbox(&shared, theirs, worker);
            let from_queue = self.take_from_queue(theirs, worker);
            is_bare = from_queue == 0;
            from_inbox + from_queue > 0
        });
        if let Some(seen) = self.watch.seen.get_mut(worker as usize) {
            seen.is_bare = is_bare;
            if !has_taken {
                seen.since = self.telemetry.own_work();
            }
        }
    }

    /// Whether a worker's dispatch took so long that other workers may take tasks from behind it.
    pub(crate) fn is_long(&mut self, ticks: u64) -> bool {
        self.worker != FOREIGN && ticks >= self.shared.clock.ns_to_ticks(SHORT_NS) && {
            let after = self.shared.tuning.steal_after_ticks(&mut self.telemetry);
            after != 0 && ticks >= after
        }
    }

    /// Wakes a worker that does not look at the others for some time, because this worker has been in a long dispatch
    /// and has further tasks.
    #[cold]
    pub(crate) fn wakes_watcher(&mut self) {
        let shared = self.shared_state();
        if self.own_tasks().ready.is_empty() && shared.home.inboxes[self.worker as usize].is_empty() {
            return;
        }
        let asleep = shared
            .crew
            .is_away
            .iter()
            .take(shared.taking_part())
            .position(|sleeps| sleeps.load(Ordering::Relaxed) && sleeps.swap(false, Ordering::AcqRel));
        if let Some(asleep) = asleep {
            barrier();
            shared.home.inboxes[asleep].wake();
            self.did_aside();
        }
    }

    /// Takes those tasks out of another worker's inbox that may run here; the others stay there.
    fn take_from_inbox(&mut self, shared: &Shared, theirs: &mut Tasks, from: u32) -> usize {
        let inbox = &shared.home.inboxes[from as usize];
        let mut taken = 0;
        for task in inbox.take() {
            // SAFETY: the inbox's reference, which now belongs to this call, keeps the task alive; the task is
            // the other worker's, which lends its tasks to this thread.
            let cell = unsafe { task.as_ref() };
            let state = cell.state.get();
            let may_go = match state {
                State::New => true,
                State::Idle => goes_on(cell),
                // A ready task may be next on its thread without being in the queue.
                State::Ready | State::Running | State::Moving | State::Ended => false,
            };
            if taken == TAKEN_MAX || !may_go || !self.may_take(cell) {
                if inbox.push(task) == Pushed::Refused {
                    // SAFETY: the inbox refused the task, so this call still owns the reference.
                    unsafe { TaskCell::release(task.as_ptr()) }
                }
                continue;
            }
            taken += 1;
            if state == State::Idle {
                theirs.no_longer_idle(cell);
                theirs.forget(cell);
                self.telemetry.task_taken(cell);
                // SAFETY: this gives up the inbox's reference; the task's own reference keeps it alive.
                unsafe { TaskCell::release(task.as_ptr()) }
            }
            self.takes_over(task, from);
        }
        taken
    }

    /// Takes half of the tasks in another worker's queue that may run here.
    fn take_from_queue(&mut self, theirs: &mut Tasks, from: u32) -> usize {
        // SAFETY: tasks in the queue are alive, and the other worker lends them to this thread.
        let may_go = |task: &NonNull<TaskCell>| self.may_take(unsafe { task.as_ref() });
        let may_go: Vec<_> = theirs.ready.first_few(2 * TAKEN_MAX).filter(may_go).collect();
        let half = may_go.len().div_ceil(2);
        let mut taken = 0;
        for task in may_go.into_iter().take(half) {
            // SAFETY: as above; its own reference keeps a live task alive.
            let cell = unsafe { task.as_ref() };
            // A thread that wakes the task puts it into its worker's inbox, unless the flag says that it is there.
            if !cell.in_inbox.swap(true, Ordering::AcqRel) {
                theirs.ready.remove(cell);
                theirs.forget(cell);
                self.takes_over(task, from);
                taken += 1;
            }
        }
        taken
    }

    /// Whether a task of another worker may run on this worker: no user has placed it, and it is no replica that
    /// moves as a whole.
    fn may_take(&self, task: &TaskCell) -> bool {
        let moves_whole = task.member_of().is_some() && self.shared.tuning.spreads();
        task.wanted.get() == NOBODY && !task.stays.get() && !task.is_placed() && !moves_whole
    }

    /// Makes a task of worker `from`, with its `in_inbox` set, one of this worker; the other worker does not know it
    /// any more.
    fn takes_over(&mut self, task: NonNull<TaskCell>, from: u32) {
        // SAFETY: the task's own reference keeps it alive, and comes to this worker.
        let cell = unsafe { task.as_ref() };
        self.telemetry.task_moves(cell, (from, self.worker));
        cell.waits_for.set(Share::Ready);
        cell.state.set(State::Moving);
        cell.leave_worker();
        cell.wanted.set(from);
        self.arrive(task);
    }

    /// Notes that other workers took tasks of this worker during the call that has just ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_lost_tasks(&mut self) {
        self.me = self.shared.tokens.take(self.worker);
        self.moving.forget_borders();
    }
}

/// Whether a task that was woken while it slept has something to do. A task to which messages may be handed on
/// (`dispatch/handing.rs`) waits for the next message of a stream that is empty.
fn goes_on(task: &TaskCell) -> bool {
    if task.waits_for.get() != Share::InputWait {
        return true;
    }
    let _asking = lock(&task.home.asking);
    let (mut waits, mut goes_on) = (false, false);
    // SAFETY: the task's thread lends the task to this one, and the lock is held.
    unsafe {
        task.each_wait(|ring| {
            waits = true;
            goes_on |= ring.writing.closed.load(Ordering::Acquire) != 0 || ring.look_for_messages() > 0;
        });
    }
    goes_on || !waits
}
