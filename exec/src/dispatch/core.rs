//! The state of the runtime that one thread has: a worker, a blocking task's thread or, for a short time, any
//! other thread.
//!
//! No reference to a core is held while a user's code runs, because that code may drop ports, which reach the core
//! through the thread's own pointer to it.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::dispatch::moving::{Moving, Watch};
use crate::dispatch::used::{Handed, Used};
use crate::ring::FOREIGN;
use crate::shared::Shared;
use crate::shared::spread::Loads;
use crate::task::cell::Current;
use crate::task::context::Thread;
use crate::telemetry::{Recorder, Telemetry};
use crate::wake::lent::Lent;
use crate::wake::ready::Tasks;

/// What a thread needs to run tasks.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    /// The number of the worker that runs on this thread, or [`FOREIGN`].
    pub(crate) worker: u32,
    /// The token by which streams identify this thread (see `ring`): `NO_TOKEN` unless it is a worker's and
    /// the kernel has `membarrier`.
    pub(crate) me: u64,
    /// The task being dispatched.
    pub(crate) task: Current,
    pub(crate) used: Used,
    /// Messages that the current task has handed on.
    pub(crate) handed: Option<Handed>,
    /// The worker's tasks, which it lends to workers that wait while it runs a task's code.
    pub(crate) lent: Arc<Lent<Tasks>>,
    pub(crate) moving: Moving,
    pub(crate) watch: Watch,
    /// The samples of replicas.
    pub(crate) loads: Loads,
    pub(crate) telemetry: Telemetry,
    pub(crate) adopted: Adopted,
}

/// The values of those settings that a dispatch needs.
pub(crate) struct Adopted {
    /// The space's count of changes of settings when settings were last adopted; [`LOOK_UP`] if the thread
    /// must do other work before the next dispatch.
    changes: u64,
    pub(super) quantum: usize,
    pub(crate) unfinished: u64,
    /// The capacity of streams for which the network states none.
    pub(crate) capacity: u64,
    pub(super) by_demand: bool,
    /// Whether a dispatch may end by [`Core::relay`]: ready tasks are not ordered.
    pub(super) relays: bool,
}

/// A value that is never the number of changes of settings.
const LOOK_UP: u64 = u64::MAX;

thread_local! {
    static CORE: Cell<*mut Core> = const { Cell::new(std::ptr::null_mut()) };
}

/// The calling thread's core, while it has one.
pub(crate) fn current() -> Option<NonNull<Core>> {
    NonNull::new(CORE.get())
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>, worker: u32, recorder: Option<Recorder>) -> Core {
        let me = shared.tokens.take(worker);
        let lent = shared.crew.lent.get(worker as usize).cloned().unwrap_or_default();
        let number = (worker != FOREIGN).then_some(worker);
        let capacity = shared.tuning.settings.capacity.load();
        let telemetry = Telemetry::new(shared.home.board.clone(), number, recorder, shared.tuning.mode_now());
        Core {
            shared,
            worker,
            me,
            task: Current::NONE,
            used: Used::new(),
            handed: None,
            lent,
            moving: Moving::default(),
            watch: Watch::default(),
            loads: Loads::default(),
            telemetry,
            adopted: Adopted {
                changes: LOOK_UP,
                quantum: 0,
                unfinished: 0,
                capacity,
                by_demand: false,
                relays: false,
            },
        }
    }

    /// The state that all threads share, without counting a reference.
    #[inline]
    pub(crate) fn shared_state<'a>(&self) -> &'a Shared {
        // SAFETY: the core keeps its reference to the shared state as long as it lives, and callers, which run
        // inside the core's thread, do not keep the result longer.
        unsafe { &*Arc::as_ptr(&self.shared) }
    }

    /// The worker's tasks.
    #[inline(always)]
    pub(crate) fn tasks(&mut self) -> &mut Tasks {
        debug_assert!(self.lent.lent_since().is_none());
        // SAFETY: this is the thread's own core, and nothing is lent.
        unsafe { &mut *self.lent.value() }
    }

    /// The worker's tasks, to look at.
    #[inline(always)]
    pub(crate) fn own_tasks(&self) -> &Tasks {
        debug_assert!(self.lent.lent_since().is_none());
        // SAFETY: this is the thread's own core, and nothing is lent.
        unsafe { &*self.lent.value() }
    }

    /// Lends the worker's tasks to workers that wait, because a task's code runs now.
    #[inline(always)]
    pub(crate) fn lend_tasks(&self) {
        self.lent.lend();
    }

    /// Takes the worker's tasks back, if they are lent. Whatever a task's code calls must take them back before
    /// it uses other tasks than the running one, or what the thread knows of where they are.
    #[inline(always)]
    pub(crate) fn take_tasks_back(&mut self) {
        if self.lent.take_back() {
            self.has_lost_tasks();
        }
    }

    /// The core to which the pointer in a context or in ports refers.
    pub(crate) fn of(thread: Thread) -> NonNull<Core> {
        thread.cast()
    }

    /// Makes `core` the calling thread's core while `work` runs.
    pub(crate) fn with<R>(core: NonNull<Core>, work: impl FnOnce() -> R) -> R {
        struct Reset(*mut Core);
        impl Drop for Reset {
            fn drop(&mut self) {
                CORE.set(self.0);
            }
        }
        let _reset = Reset(CORE.replace(core.as_ptr()));
        work()
    }

    /// Notes that the thread did work that belongs to no dispatch and may take long, such as waking another
    /// thread. The call makes the thread read the clock again before the next dispatch. The clock is read
    /// as part of the check for changed settings, so dispatches pay nothing if no long work came between
    /// them.
    pub(crate) fn did_aside(&mut self) {
        if self.telemetry.did_aside() {
            self.adopted.changes = LOOK_UP;
        }
    }

    /// Makes the thread read the clock again before the next dispatch, if the thread did long work while it
    /// recorded the present dispatch.
    #[inline]
    pub(super) fn look_up_if_it_lags(&mut self) {
        if self.telemetry.lags() {
            self.adopted.changes = LOOK_UP;
        }
    }

    /// Adopts all settings that a dispatch needs if any setting was changed; if none was, the call costs one
    /// load.
    #[inline]
    pub(super) fn adopt_settings(&mut self) {
        let changes = self.shared.tuning.changes();
        if changes != self.adopted.changes {
            self.adopt_changes(changes);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn adopt_changes(&mut self, changes: u64) {
        self.adopted.changes = changes;
        self.telemetry.adopt_mode(&self.shared.tuning.settings.mode);
        self.telemetry.go_short(self.shared.tuning.delays_none());
        self.adopted.quantum = self.shared.tuning.quantum(&mut self.telemetry);
        self.shared.look_at_limit();
        self.adopted.unfinished = self.shared.tuning.unfinished(&mut self.telemetry);
        self.adopted.capacity = self.shared.tuning.settings.capacity.load();
        self.adopted.by_demand = self.shared.tuning.by_demand(&mut self.telemetry);
        self.adopted.relays = !self.adopted.by_demand;
        self.shared.adopt_workers();
        // A task with a thread of its own needs no reading here, because it reads the clock when it resumes.
        if self.telemetry.lags() && self.worker != FOREIGN {
            self.telemetry.own_work();
        }
    }
}
