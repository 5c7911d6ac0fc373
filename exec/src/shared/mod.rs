//! The state that all threads of a runtime share.

pub(crate) mod balance;
pub(crate) mod ends;
pub(crate) mod letters;
pub(crate) mod mapper;
pub(crate) mod mapping;
pub(crate) mod options;
pub(crate) mod own_threads;
pub(crate) mod settings;
pub(crate) mod spread;
pub(crate) mod tuning;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;

use thalweg_space::{Clock, Space};

use crate::affinity::{self, Processor};
use crate::error::Error;
use crate::fault::Fault;
use crate::ring::tokens::Tokens;
use crate::shared::ends::Ends;
use crate::shared::letters::{Asked, Post};
use crate::shared::mapper::{Mapper, Placing};
use crate::shared::mapping::Mapping;
use crate::shared::options::Options;
use crate::shared::own_threads::OwnThreads;
use crate::shared::spread::Spreading;
use crate::shared::tuning::Tuning;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, lock};
use crate::task::body::Methods;
use crate::task::cell::{Kind, TaskCell};
use crate::task::home::Home;
use crate::task::inbox::Inbox;
use crate::task::spec::TaskSpec;
use crate::telemetry::Mode;
use crate::wake::lent::Lent;
use crate::wake::ready::Tasks;

/// The state that all threads share, aligned so that it lies in other cache lines than its reference count.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Shared {
    /// The part of the state that tasks refer to as well.
    pub(crate) home: Arc<Home>,
    pub(crate) clock: Clock,
    pub(crate) tuning: Tuning,
    /// Whether the workers must end. The field is set once.
    pub(crate) stop: AtomicBool,
    pub(crate) crew: Crew,
    pub(crate) post: Post,
    pub(crate) tokens: Tokens,
    pub(crate) mapping: Mapping,
    pub(crate) spreading: Spreading,
    pub(crate) own_threads: OwnThreads,
    pub(crate) ends: Ends,
    next_stream: AtomicU64,
}

/// The workers' threads.
pub(crate) struct Crew {
    /// How many workers have a thread, including workers that are parked. The field is written under the lock
    /// of `threads`.
    pub(crate) manned: AtomicUsize,
    pub(crate) taking_part: AtomicUsize,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// The tasks of each worker, up to the greatest number of workers.
    pub(crate) lent: Vec<Arc<Lent<Tasks>>>,
    /// Which workers sleep without a look at the others for some time, or for good. A worker sets its flag before it
    /// sleeps, and a worker that wakes it for a look clears the flag.
    pub(crate) is_away: Vec<AtomicBool>,
    /// The processors that workers are bound to, in turn; empty if workers are not bound.
    processors: Vec<Processor>,
}

impl Crew {
    fn new(options: &Options, most: usize) -> Crew {
        Crew {
            lent: (0..most).map(|_| Arc::default()).collect(),
            is_away: (0..most).map(|_| AtomicBool::new(false)).collect(),
            manned: AtomicUsize::new(0),
            taking_part: AtomicUsize::new(options.workers),
            threads: Mutex::default(),
            processors: if options.pin { affinity::processors() } else { Vec::new() },
        }
    }

    /// The processor that a worker must be bound to.
    pub(crate) fn processor_of(&self, worker: u32) -> Option<Processor> {
        self.processors.get(worker as usize % self.processors.len().max(1)).copied()
    }
}

impl Shared {
    pub(crate) fn new(options: &Options) -> Result<Arc<Shared>, Error> {
        let most = options.workers.max(options.workers_max);
        let home = Home::new(most, options.space.clone(), options.accounts)?;
        let clock = *home.board.clock();
        let may_spread = !options.thread_per_task
            && matches!(options.mapper, Mapper::Contiguous { .. } | Mapper::RoundRobin);
        Ok(Arc::new(Shared {
            home: Arc::new(home),
            clock,
            tuning: Tuning::new(options, clock)?,
            stop: AtomicBool::new(false),
            crew: Crew::new(options, most),
            post: Post::new(most),
            tokens: Tokens::new(),
            mapping: Mapping::new(options, most),
            spreading: Spreading::new(may_spread, most),
            own_threads: OwnThreads::default(),
            ends: Ends::new(),
            next_stream: AtomicU64::new(1),
        }))
    }

    /// Sets settings back whose leases have ended. The caller is a thread that runs no tasks and wakes at
    /// intervals.
    pub(crate) fn see_to_leases(&self) {
        // An error means that the space was removed, so no process can change a setting.
        _ = self.home.board.space().map(Space::see_to_leases);
    }

    /// If no thread has adopted the present limit on unfinished inputs yet, lets the held sources continue,
    /// so that they adopt the limit.
    pub(crate) fn look_at_limit(&self) {
        if !self.tuning.is_limit_adopted() {
            self.home.admission.let_in();
        }
    }

    /// The number and the capacity of a new stream.
    pub(crate) fn new_stream(&self, capacity: Option<usize>) -> (u64, usize) {
        let id = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let capacity = capacity.unwrap_or_else(|| self.tuning.settings.capacity.load() as usize);
        (id, capacity.clamp(1, 1 << 30))
    }

    /// Makes the cell of a new task, which is counted as alive, with room for a body with these methods; the
    /// caller owns the only reference to the cell.
    pub(crate) fn new_task(
        &self,
        spec: TaskSpec,
        methods: &'static Methods,
        blocking: bool,
    ) -> NonNull<TaskCell> {
        let is_shown = blocking || self.tuning.mode_now() != Mode::Off;
        // The cell keeps the whole specification only if a user's mapper places tasks, because only such a
        // mapper reads it.
        let kind = Kind { blocking, is_shown, keeps_spec: self.mapping.places };
        TaskCell::new(self.home.clone(), self.ends.task_made(), spec, methods.empty(), kind)
    }

    /// The mapper, after it has adopted the setting `exec.mapper`.
    pub(crate) fn placing(&self) -> MutexGuard<'_, Placing> {
        let mut placing = lock(&self.mapping.placing);
        placing.choose(self.tuning.mapper_now());
        placing
    }

    /// Counts a task as ended, after its end was recorded in the space.
    pub(crate) fn task_ended(&self, task: &TaskCell, outcome: Result<(), Fault>) {
        if let Err(fault) = outcome {
            self.ends.task_failed(task, fault);
        }
        self.mapping.task_ended(task);
        if let Some(replica) = task.member_of() {
            self.now_stays(task, false);
            self.spreading.task_ended(replica);
        }
        self.ends.task_ended();
    }

    /// How many workers take part.
    pub(crate) fn taking_part(&self) -> usize {
        self.crew.taking_part.load(Ordering::Acquire)
    }

    /// The inboxes of the workers that have a thread.
    pub(crate) fn manned(&self) -> &[Inbox<TaskCell>] {
        &self.home.inboxes[..self.crew.manned.load(Ordering::Acquire)]
    }

    /// Ends the run.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        crate::sync::barrier();
        for inbox in self.manned() {
            inbox.wake();
        }
        self.own_threads.each(|task, _| _ = self.home.admission.unpark(&task.parker));
    }

    /// Writes a letter to every worker that has a thread.
    pub(crate) fn ask_all(&self, asked: Arc<dyn Asked>) {
        self.ask(self.manned().len(), asked);
    }

    /// Writes a letter to the first `workers` workers.
    pub(crate) fn ask(&self, workers: usize, asked: Arc<dyn Asked>) {
        for (inbox, letters) in self.home.inboxes.iter().zip(&self.post.of_worker).take(workers) {
            if letters.write(asked.clone()) {
                self.post.attention.fetch_add(1, Ordering::SeqCst);
            }
            crate::sync::barrier();
            inbox.wake();
        }
    }
}
