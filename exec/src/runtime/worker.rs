//! A worker: a thread that dispatches its ready tasks, spins for a short time when there are none, then
//! sleeps.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use thalweg_space::Space;

use crate::affinity;
use crate::dispatch::Core;
use crate::ring::Holder;
use crate::runtime::moves::ASK_AFTER_NS;
use crate::runtime::relief::{Busy, Look};
use crate::shared::Shared;
use crate::shared::letters::Letters;
use crate::slab::{self, Keeps};
use crate::sync::Ordering;
use crate::task::cell::{State, TaskCell};
use crate::telemetry::Recorder;

/// The number of checks for work between two readings of the clock.
const LOOKS: u32 = 16;

/// The time for which a worker polls without `spin_loop`. The instruction of `spin_loop` may take 140 cycles,
/// as long as a message takes from one core to another.
const BARE_NS: u64 = 2_000;

/// Runs worker `number` until the runtime stops.
pub(crate) fn run(shared: Arc<Shared>, number: u32, recorder: Option<Recorder>) {
    let _kept = (Keeps::new(), shared.home.board.space().map(Space::keep_live_rows));
    // An error of pinning is ignored, because an unpinned worker is slower but works.
    let pinned = shared.crew.processor_of(number).filter(|processor| affinity::pin(processor.number).is_ok());
    let mut core = Core::new(shared.clone(), number, recorder);
    core.telemetry.worker_begins(pinned);
    let core = NonNull::from(Box::leak(Box::new(core)));
    Core::with(core, || {
        work(core, &shared, number);
        Core::drop_tasks(core);
        close_inbox(core, &shared, number);
    });
    // SAFETY: this is the thread's own core, and no user's code runs.
    unsafe { &mut *core.as_ptr() }.telemetry.worker_ends();
    // SAFETY: the core was leaked above, and no other reference to it exists.
    drop(unsafe { Box::from_raw(core.as_ptr()) });
    shared.home.admission.falls_asleep();
}

fn work(core: NonNull<Core>, shared: &Shared, number: u32) {
    let inbox = &shared.home.inboxes[number as usize];
    let (stop, attention) = (&shared.stop, &shared.post.attention);
    let is_calm =
        || inbox.is_empty() && attention.load(Ordering::Relaxed) == 0 && !stop.load(Ordering::Relaxed);
    while !shared.stop.load(Ordering::Relaxed) {
        if !inbox.is_empty() {
            // SAFETY: this is the thread's own core, and waking runs no user's code.
            unsafe { &mut *core.as_ptr() }.empty_inbox();
        }
        if shared.post.attention.load(Ordering::Relaxed) != 0 {
            // SAFETY: this is the thread's own core, and waking runs no user's code.
            unsafe { &mut *core.as_ptr() }.attend();
        }
        // SAFETY: this is the thread's own core, and waking runs no user's code.
        match unsafe { &mut *core.as_ptr() }.next_task() {
            Some(task) => Core::dispatch(core, task, is_calm),
            // SAFETY: this is the thread's own core, and waking runs no user's code.
            None => unsafe { &mut *core.as_ptr() }.wait(number),
        }
    }
}

impl Core {
    /// Polls for work for about the time that a sleep costs, then sleeps.
    fn wait(&mut self, number: u32) {
        let before = self.telemetry.own_work();
        self.telemetry.adopt_mode(&self.shared.tuning.settings.mode);
        if self.own_tasks().parked {
            self.telemetry.worker_sleeps_parked();
            slab::trim();
            self.sleep(None, || false);
            return self.telemetry.worker_has_slept_parked(before);
        }
        self.telemetry.worker_waits();
        self.shared.spreading.waits(number, before);
        let (asked, slept, busy) = self.look_out(before);
        self.telemetry.clock();
        self.waited_since(before, asked);
        let in_all = self.telemetry.worker_has_waited(before, slept);
        self.shared.spreading.has_waited(number, in_all);
        if let Some(busy) = busy {
            self.relieve(busy);
        }
    }

    /// Waits until there is work, or until the worker has slept. The result says whether this worker was
    /// marked as hungry while it waited, whether it slept, and behind which other worker's long dispatch it should
    /// look for tasks.
    fn look_out(&mut self, before: u64) -> (bool, bool, Option<Busy>) {
        let spin_ticks = self.shared.tuning.spin_ticks(&mut self.telemetry);
        let ask_ticks = self.shared.clock.ns_to_ticks(ASK_AFTER_NS).min(spin_ticks);
        let bare_ticks = self.shared.clock.ns_to_ticks(BARE_NS);
        let (mut asked, mut waited) = (false, 0);
        while waited < spin_ticks {
            let bare = waited < bare_ticks;
            if (0..LOOKS).any(|_| self.something_came(bare)) {
                return (asked, false, None);
            }
            waited = self.shared.clock.now().saturating_sub(before);
            if waited >= ask_ticks && !asked {
                asked = self.ask(before);
            }
        }
        slab::trim();
        self.begins_watch();
        loop {
            match self.look_around() {
                Look::Found(busy) => return (asked, true, Some(busy)),
                Look::Again(pause) => self.sleep(Some(pause), || false),
                Look::Seldom(pause) => {
                    if self.sleeps_away(Some(pause)) {
                        self.begins_watch();
                    }
                }
                Look::Never => {
                    self.sleeps_away(None);
                    return (asked, true, None);
                }
            }
            if self.something_came(true) {
                return (asked, true, None);
            }
        }
    }

    /// Sleeps, and lets a worker that has been in a long dispatch wake it. Returns whether one did.
    fn sleeps_away(&self, timeout: Option<Duration>) -> bool {
        let is_away = &self.shared.crew.is_away[self.worker as usize];
        is_away.store(true, Ordering::SeqCst);
        // A thread that clears the flag before the worker has noted that it sleeps wakes nobody.
        self.sleep(timeout, || !is_away.load(Ordering::SeqCst));
        !is_away.swap(false, Ordering::AcqRel)
    }

    /// Sleeps until there is work, but not longer than `timeout`, and not at all if `more` is true after the worker
    /// has noted that it sleeps. The call may return early.
    fn sleep(&self, timeout: Option<Duration>, more: impl FnOnce() -> bool) {
        let inbox = &self.shared.home.inboxes[self.worker as usize];
        inbox.dispatches.store(self.telemetry.dispatches(), Ordering::Relaxed);
        inbox.wait_for_room.store(self.own_tasks().wait_for_room, Ordering::Relaxed);
        let (stop, letters) = (&self.shared.stop, self.letters());
        inbox.sleep(timeout, || stop.load(Ordering::SeqCst) || !letters.is_empty_for_sure() || more());
    }

    fn letters(&self) -> &Letters {
        &self.shared.post.of_worker[self.worker as usize]
    }

    /// Whether there is work; if not, yields to the other hardware thread of the core, unless the wait is
    /// `bare`.
    #[inline]
    fn something_came(&self, bare: bool) -> bool {
        let inbox = &self.shared.home.inboxes[self.worker as usize];
        let came =
            !inbox.is_still_empty() || !self.letters().is_empty() || self.shared.stop.load(Ordering::Relaxed);
        if !came && !bare {
            std::hint::spin_loop();
        }
        came
    }
}

/// Closes a worker's inbox: further tasks are refused, and tasks in the inbox, which never ran, are dropped.
fn close_inbox(core: NonNull<Core>, shared: &Shared, number: u32) {
    let inbox = &shared.home.inboxes[number as usize];
    for task in inbox.shut() {
        // SAFETY: this is the thread's own core, adopting a task runs no user's code, and the inbox's
        // reference to the task now belongs to this call.
        unsafe {
            let core = &mut *core.as_ptr();
            match task.as_ref().state.get() {
                State::New | State::Moving => core.adopt(task),
                _ => TaskCell::release(task.as_ptr()),
            }
        }
    }
    Core::drop_tasks(core);
}
