//! Moves tasks from worker to worker, because a user or a tuner asks for a move or because a worker has
//! nothing to do.
//!
//! **A move** is made by the task's own worker, between dispatches. The worker sets the task's `in_inbox`, so
//! during the move no waking thread can push the task into an inbox. The worker clears the task's worker
//! number, takes a new token, which makes the task's streams fence from now on (see `ring`), and pushes the
//! task into the other worker's inbox. A thread that wakes the task during the move finds `in_inbox` set and
//! does nothing more, because a task that arrives is ready. If the task already is in its worker's inbox,
//! because another thread woke it, the worker sends the task on when it empties the inbox.
//!
//! **Stealing** is done by the worker that gives a task away. A worker marks itself as hungry when the time
//! that it waited beyond a quarter of its time exceeds its patience. A worker that has been busy for a while
//! and has more than one ready task gives the hungry worker a task for good: if possible a task that
//! exchanges messages with the hungry worker's tasks, so that neighbours stay together. A task that comes
//! straight back makes the worker that gave it more patient, so balanced workers do not disturb each other.
//! (Tasks that are ready behind a long call are taken by the worker that waits: see `relief`.)

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dispatch::Core;
use crate::error::Error;
use crate::parker::Parker;
use crate::ring::{Holder, NOBODY};
use crate::shared::Shared;
use crate::shared::letters::{Answering, Asked};
use crate::shared::spread::Sample;
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::task::cell::{State, TaskCell};
use crate::task::inbox::{Inbox, Pushed};
use crate::task::placement::Placement;
use crate::task::spec::TaskId;
use crate::telemetry::{Cause, Share};

/// The least and the greatest patience, in nanoseconds: how long a worker waits in total, beyond the
/// tolerated share of its time, before it asks for a task of another worker.
const PATIENCE_NS: (u64, u64) = (500_000, 100_000_000);
/// The length of one wait after which a worker marks itself as hungry.
pub(crate) const ASK_AFTER_NS: u64 = 5_000;
/// The time for which a worker has been busy before it gives a task away.
const BUSY_NS: u64 = 20_000;
/// How many dispatches a worker makes between two checks for a task that it should give away.
const LOOK_EVERY: u32 = 4;
/// The number of ready tasks that are searched for one that may be moved.
const LOOKED_THROUGH: usize = 64;
/// How often all workers are asked whether they have a task before the task counts as not found. A single
/// question may miss a task that is moving between two workers.
const SEARCHES: usize = 4;
/// How long a thread that waits for a move sleeps before it checks whether the workers have ended.
const LOOK_FOR_END: Duration = Duration::from_millis(10);

/// A request to move a task to a worker, which every worker receives as a letter.
struct Request {
    task: TaskId,
    worker: u32,
    /// Whether the runtime must not move the task later.
    stays: bool,
    /// The number of letters not yet read. Each worker that reads its letter subtracts 1 (release).
    unread: AtomicU32,
    /// The worker that had the task; [`NOBODY`] if no worker had it. The worker that had the task sets the
    /// field before it subtracts 1 from `unread`.
    from: AtomicU32,
    /// Whether the runtime could not move the task before; set together with `from`.
    stayed: AtomicBool,
    /// The parker on which the thread that waits for the move sleeps.
    parker: Parker,
}

impl Asked for Request {
    fn answer(&self, thread: &mut dyn Answering) {
        // SAFETY: tasks in the list are alive.
        let here = thread.tasks().iter().copied().find(|task| unsafe { task.as_ref() }.id == self.task);
        // The task may have been moved to this worker after another worker answered and before this worker
        // read the letter.
        let first = || {
            self.from.compare_exchange(NOBODY, thread.number(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if let Some(task) = here
            && first()
        {
            {
                // SAFETY: tasks in the list are alive, and the reference ends before the task is given away:
                // the other worker may end and free the task at once.
                let cell = unsafe { task.as_ref() };
                self.stayed.store(thread.shared().now_stays(cell, self.stays), Ordering::Relaxed);
            }
            thread.give(task, self.worker);
        }
        if self.unread.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.parker.unpark();
        }
    }
}

/// Moves tasks of a runtime from one worker to another, from any thread.
#[derive(Clone)]
pub struct TaskMover(pub(crate) Arc<Shared>);

/// A move that was asked for.
#[must_use = "only `wait` returns whether the task was there to be moved"]
pub struct Move {
    mover: TaskMover,
    request: Arc<Request>,
}

/// Where a task was before a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Former {
    /// The worker's number.
    pub worker: usize,
    /// Whether the task had to stay there, because a user had moved it.
    pub stayed: bool,
}

impl TaskMover {
    /// Requests that a task is moved to another worker, where it stays until another number of workers takes part, for which
    /// the mapper places all tasks again. The task moves between two of its dispatches, and no message is lost or reordered. Tasks that were placed by name or by the user's mapper are moved, too.
    ///
    /// # Errors
    /// If there is no such node or worker, the worker takes no part now, or `to` names no worker.
    pub fn move_task(&self, task: TaskId, to: Placement) -> Result<Move, Error> {
        self.request(task, to, true)
    }

    /// Like [`move_task`](TaskMover::move_task), but the runtime may move the task later, as it may move any task that no
    /// user has moved, also if this task was moved by `move_task` before.
    ///
    /// # Errors
    /// Those of `move_task`.
    pub fn move_freely(&self, task: TaskId, to: Placement) -> Result<Move, Error> {
        self.request(task, to, false)
    }

    fn request(&self, task: TaskId, to: Placement, stays: bool) -> Result<Move, Error> {
        let worker = to.here()?.ok_or_else(|| {
            Error::new("a move goes to a worker of this node: say which, as in `worker 1`".to_owned())
        })?;
        let workers = self.0.taking_part();
        if worker >= workers {
            return Err(Error::new(format!("no worker {worker} takes part: there are {workers}, from 0")));
        }
        Ok(Move { mover: self.clone(), request: self.0.request_move(task, worker as u32, stays) })
    }
}

impl std::fmt::Debug for TaskMover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskMover")
    }
}

impl std::fmt::Debug for Move {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Move(task {} to worker {})", self.request.task.0, self.request.worker)
    }
}

impl Move {
    /// Waits until the task's worker has read the request, and returns that worker's number. A task that runs
    /// on a worker must not call this, because it would wait for itself.
    ///
    /// # Errors
    /// If no worker has the task, the runtime has ended, or a worker did not read the request within
    /// `patience`.
    pub fn wait(self, patience: Duration) -> Result<usize, Error> {
        self.wait_for_former(patience).map(|former| former.worker)
    }

    /// Like [`wait`](Move::wait), but also returns whether the task had to stay where it was.
    ///
    /// # Errors
    /// Those of `wait`.
    pub fn wait_for_former(mut self, patience: Duration) -> Result<Former, Error> {
        let deadline = Instant::now() + patience;
        let Request { task, worker, stays, .. } = *self.request;
        for _ in 0..SEARCHES {
            self.wait_for_letters(deadline)?;
            match self.request.from.load(Ordering::Relaxed) {
                NOBODY => self.request = self.mover.0.request_move(task, worker, stays),
                from => {
                    let stayed = self.request.stayed.load(Ordering::Relaxed);
                    return Ok(Former { worker: from as usize, stayed });
                }
            }
        }
        let TaskId(number) = task;
        Err(Error::new(format!(
            "task {number} is on no worker: it has ended, has a thread of its own, or never was"
        )))
    }

    fn wait_for_letters(&self, deadline: Instant) -> Result<(), Error> {
        loop {
            let unread = self.request.unread.load(Ordering::Acquire);
            if unread == 0 {
                return Ok(());
            }
            if self.mover.0.stop.load(Ordering::Relaxed) {
                return Err(Error::new("the runtime has ended".to_owned()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(format!(
                    "{unread} workers have not looked yet: each does so when the box that it runs returns"
                )));
            }
            self.mover.0.see_to_leases();
            self.request.parker.park_timeout(left.min(LOOK_FOR_END));
        }
    }
}

impl Shared {
    /// Asks every worker whether it has the task.
    fn request_move(&self, task: TaskId, worker: u32, stays: bool) -> Arc<Request> {
        let asked = self.manned().len();
        let request = Arc::new(Request {
            task,
            worker,
            stays,
            unread: AtomicU32::new(asked as u32),
            from: AtomicU32::new(NOBODY),
            stayed: AtomicBool::new(false),
            parker: Parker::new(),
        });
        self.ask(asked, request.clone());
        request
    }

    /// Notes that the task, which is one of the calling worker's, stays on its worker or may be moved by the runtime.
    /// Returns which of the two was true before.
    pub(crate) fn now_stays(&self, task: &TaskCell, stays: bool) -> bool {
        let stayed = task.stays.replace(stays);
        if let Some(replica) = task.member_of().filter(|_| stayed != stays) {
            self.spreading.stays(replica, stayed, stays);
        }
        stayed
    }

    /// Marks the worker as waiting for a task from `at` on.
    fn hungry(&self, inbox: &Inbox<TaskCell>, at: u64) {
        inbox.hungry_at.store(at.max(1), Ordering::Release);
        self.post.attention.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a worker's wait for a task; returns false if it did not wait.
    fn no_longer_hungry(&self, inbox: &Inbox<TaskCell>) -> bool {
        let hungry = inbox.hungry_at.swap(0, Ordering::AcqRel) != 0;
        if hungry {
            self.post.attention.fetch_sub(1, Ordering::Relaxed);
        }
        hungry
    }
}

impl Answering for Core {
    fn number(&self) -> u32 {
        self.worker
    }

    fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    fn tasks(&self) -> &[NonNull<TaskCell>] {
        &self.own_tasks().live
    }

    fn own_task(&self) -> Option<&TaskCell> {
        self.task.look().filter(|task| task.blocking)
    }

    fn give(&mut self, task: NonNull<TaskCell>, to: u32) {
        Core::give(self, task, to);
    }

    fn park(&mut self, parked: bool) {
        if self.own_tasks().parked != parked {
            self.tasks().parked = parked;
            self.telemetry.worker_parks(parked);
        }
    }
}

impl Core {
    /// Marks this worker, which waits since `before`, as hungry from the moment on at which it will have
    /// waited long enough. Returns false, and marks nothing, if the worker may not get tasks of others.
    pub(crate) fn ask(&mut self, before: u64) -> bool {
        if self.own_tasks().parked || self.shared.taking_part() == 1 || !self.may_steal() {
            return false;
        }
        let at_least = self.shared.clock.ns_to_ticks(PATIENCE_NS.0);
        let moving = &mut self.moving;
        moving.count_until(before);
        moving.patience = moving.patience.max(at_least);
        let at = before + moving.patience.saturating_sub(moving.waited);
        self.shared.hungry(&self.shared.home.inboxes[self.worker as usize], at);
        true
    }

    fn may_steal(&mut self) -> bool {
        !self.shared.mapping.places && self.shared.tuning.steals(&mut self.telemetry)
    }

    /// Adds a sample of a replica that was taken on this worker.
    pub(crate) fn sampled(&mut self, replica: u32, sample: Sample) {
        let now = self.telemetry.now();
        if self.loads.add(replica, sample, now) {
            self.look_at_loads(now);
        }
    }

    #[cold]
    fn look_at_loads(&mut self, now: u64) {
        let (shared, telemetry) = (self.shared.clone(), &mut self.telemetry);
        let here = (self.worker, shared.taking_part());
        let may_move = || shared.tuning.spreads_now(telemetry);
        let moves = shared.spreading.look(&mut self.loads, here, &shared.clock, now, may_move);
        if !moves.is_empty() {
            shared.ask_all(Arc::new(Moves { of_replica: moves.into_iter().collect() }));
        }
    }

    /// Counts that the worker waited from `before` until now.
    pub(crate) fn waited_since(&mut self, before: u64, asked: bool) {
        if asked {
            self.shared.no_longer_hungry(&self.shared.home.inboxes[self.worker as usize]);
        }
        let now = self.telemetry.now();
        self.moving.waited += now - before;
        self.moving.count_until(now);
        self.moving.busy_since = now;
    }

    /// Gives a task to a hungry worker, or reads the letters to this worker.
    #[cold]
    #[inline(never)]
    pub(crate) fn attend(&mut self) {
        let letters = self.shared.post.of_worker[self.worker as usize].read();
        if !letters.is_empty() {
            self.shared.post.attention.fetch_sub(1, Ordering::Relaxed);
        }
        for asked in letters {
            asked.answer(self);
            self.did_aside();
        }
        self.feed();
    }

    /// Gives a hungry worker a task if this worker has enough ready tasks.
    fn feed(&mut self) {
        if !self.own_tasks().ready.has_two() {
            return;
        }
        if self.moving.until_look != 0 {
            self.moving.until_look -= 1;
            return;
        }
        self.moving.until_look = LOOK_EVERY;
        let now = self.telemetry.own_work();
        if now < self.moving.busy_since + self.shared.clock.ns_to_ticks(BUSY_NS) {
            return;
        }
        let shared = self.shared.clone();
        for (thief, inbox) in shared.manned().iter().enumerate() {
            let hungry_at = inbox.hungry_at.load(Ordering::Relaxed);
            if thief as u32 == self.worker || hungry_at == 0 || hungry_at > now {
                continue;
            }
            if let Some(task) = self.spare(thief as u32)
                && shared.no_longer_hungry(inbox)
            {
                self.give(task, thief as u32);
                return;
            }
        }
    }

    /// A task of this worker that may be given to the worker `thief`.
    fn spare(&self, thief: u32) -> Option<NonNull<TaskCell>> {
        let free = |task: &NonNull<TaskCell>| {
            // SAFETY: tasks at borders and in the queue are alive.
            let task = unsafe { task.as_ref() };
            !task.is_placed() && !task.stays.get() && task.wanted.get() == NOBODY
        };
        let border = self.moving.at_border_with(thief).filter(free);
        border.or_else(|| self.own_tasks().ready.last_of(LOOKED_THROUGH, free))
    }

    /// Sends on to another worker a task that arrived at this worker although this worker is parked.
    pub(crate) fn send_on(&mut self, task: NonNull<TaskCell>) {
        // SAFETY: the task is one of the worker's live tasks.
        let spec = unsafe { task.as_ref() }.spec();
        let place = self.shared.placing().instead_of(self.worker as usize, &spec);
        self.give(task, place as u32);
    }

    /// Moves a ready or idle task of this worker, now or as soon as the inbox is emptied.
    pub(crate) fn give(&mut self, task: NonNull<TaskCell>, to: u32) {
        // SAFETY: the task is one of the worker's live tasks.
        let cell = unsafe { task.as_ref() };
        if to == self.worker {
            return;
        }
        cell.wanted.set(to);
        if !cell.in_inbox.swap(true, Ordering::AcqRel) {
            self.send_away(task);
        }
    }

    /// Sends a task in the inbox on if it is wanted elsewhere; `task` carries the inbox's reference.
    pub(crate) fn forward(&mut self, task: NonNull<TaskCell>) -> bool {
        // SAFETY: the inbox's reference keeps the task alive.
        let cell = unsafe { task.as_ref() };
        if cell.wanted.get() == NOBODY || !matches!(cell.state.get(), State::Idle | State::Ready) {
            return false;
        }
        // SAFETY: this gives up the inbox's reference; the task's own reference keeps it alive.
        unsafe { TaskCell::release(task.as_ptr()) }
        self.send_away(task);
        true
    }

    /// Moves a task after this worker has set its `in_inbox`.
    fn send_away(&mut self, task: NonNull<TaskCell>) {
        // SAFETY: the task is one of the worker's live tasks, and its reference moves with it.
        let cell = unsafe { task.as_ref() };
        let to = cell.wanted.replace(self.worker);
        if cell.state.get() == State::Ready {
            self.tasks().ready.remove(cell);
        } else {
            self.no_longer_idle(cell);
            self.telemetry.task_woken(cell, Cause::Yield, 0);
        }
        self.forget(cell);
        self.me = self.shared.tokens.take(self.worker);
        self.moving.gave_to = Some(to);
        self.telemetry.task_moves(cell, (self.worker, to));
        cell.waits_for.set(Share::Ready);
        cell.state.set(State::Moving);
        cell.leave_worker();
        let shared = self.shared.clone();
        // The time that the move takes must not count as part of the next dispatch.
        self.did_aside();
        if shared.home.inboxes[to as usize].push(task) == Pushed::Refused {
            // The inbox refuses the task if the other worker has ended because the run is aborted; the task
            // then stays on this worker.
            self.arrive(task);
        }
    }

    /// Receives a task that was moved to this worker; `task` carries the reference that keeps it alive.
    pub(crate) fn arrive(&mut self, task: NonNull<TaskCell>) {
        // SAFETY: the reference that was handed to this function keeps the task alive.
        let cell = unsafe { task.as_ref() };
        cell.place(self.worker);
        let from = cell.wanted.replace(NOBODY);
        self.shared.mapping.task_moved(cell, from);
        cell.in_inbox.swap(false, Ordering::AcqRel);
        self.me = self.shared.tokens.take(self.worker);
        self.did_aside();
        self.adopt(task);
        let (least, most) = PATIENCE_NS;
        let clock = &self.shared.clock;
        let (least, most) = (clock.ns_to_ticks(least), clock.ns_to_ticks(most));
        let moving = &mut self.moving;
        let patience =
            if moving.gave_to.take() == Some(from) { moving.patience * 4 } else { moving.patience / 2 };
        moving.patience = patience.clamp(least, most);
        moving.waited = 0;
    }
}

/// A letter to every worker that says to which worker each replica moves.
struct Moves {
    of_replica: HashMap<u32, u32>,
}

impl Asked for Moves {
    fn answer(&self, thread: &mut dyn Answering) {
        let elsewhere = |task: &NonNull<TaskCell>| {
            // SAFETY: tasks in the list are alive.
            let worker = *self.of_replica.get(&unsafe { task.as_ref() }.member_of()?)?;
            (worker != thread.number()).then_some((*task, worker))
        };
        let moves: Vec<_> = thread.tasks().iter().filter_map(elsewhere).collect();
        for (task, worker) in moves {
            thread.give(task, worker);
        }
    }
}
