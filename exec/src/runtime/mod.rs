//! The runtime: its workers, their shared state, its start and its end.

pub(crate) mod asking;
pub(crate) mod blocking;
pub(crate) mod deadlock;
pub(crate) mod inputs;
pub(crate) mod moves;
pub(crate) mod parking;
pub(crate) mod ports;
pub(crate) mod relief;
pub(crate) mod spawning;
pub(crate) mod worker;

use std::collections::VecDeque;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use thalweg_space::Space;

use crate::dispatch::Core;
use crate::error::Error;
use crate::ring::{FOREIGN, Holder};
use crate::runtime::blocking::{Blocking, always_well};
use crate::runtime::deadlock::Watch;
use crate::runtime::moves::TaskMover;
use crate::runtime::parking::Workers;
use crate::runtime::ports::{DeepSize, In, Out, StreamSpec};
use crate::runtime::spawning::release_into;
use crate::shared::Shared;
use crate::shared::ends::Failure;
use crate::shared::options::{self, Options};
use crate::shared::own_threads::Handed;
use crate::shared::spread::Spread;
use crate::sync::{AtomicBool, Ordering, lock};
use crate::task::body;
use crate::task::cell::TaskCell;
use crate::task::context::{Ports, Task};
use crate::task::spec::{TaskId, TaskSpec};
use crate::telemetry::{Mode, OWN_THREAD, Sampler};

/// The summary of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The time from the runtime's start to its last task's end.
    pub wall: Duration,
    /// The number of tasks that ended.
    pub tasks: u64,
    /// The number of tasks that failed.
    pub failed: u64,
    /// The failures that occurred first, at most [`FAILURES_KEPT`](crate::FAILURES_KEPT).
    pub failures: Vec<Failure>,
    /// Whether the run was aborted.
    pub aborted: bool,
}

/// A running set of workers. Dropping the runtime without [`Runtime::join`] aborts the run.
pub struct Runtime {
    shared: Arc<Shared>,
    /// Tasks that wait for [`Runtime::start`], in the order they were created.
    waiting: Mutex<VecDeque<Handed>>,
    /// Whether [`Runtime::start`] was called; held sources wait until then.
    started: AtomicBool,
    began: Instant,
    /// Samples the threads while times are measured; `None` without a space, or if the system refuses the
    /// sampler a thread.
    sampler: Option<Sampler>,
}

impl Runtime {
    /// Starts the workers.
    pub fn new(mut options: Options) -> Result<Runtime, Error> {
        options::check(&options)?;
        if cfg!(thalweg_no_probes) {
            options.space = None;
        }
        let count = options.workers;
        let shared = Shared::new(&options)?;
        shared.home.board.open_to_others()?;
        shared.home.board.begins(options.mode);
        let measures = {
            let shared = Arc::clone(&shared);
            move || shared.tuning.mode_now() != Mode::Off
        };
        let sampler =
            options.accounts.then(|| Sampler::start(&shared.home.board, measures).unwrap_or_default());
        let runtime = Runtime {
            sampler: sampler.flatten(),
            shared,
            waiting: Mutex::default(),
            started: AtomicBool::new(false),
            began: Instant::now(),
        };
        runtime.shared.start_workers(&mut lock(&runtime.shared.crew.threads), count)?;
        Ok(runtime)
    }

    /// A handle for the replicas of a split, none of which exists yet.
    pub fn spread(&self) -> Spread {
        self.shared.spreading.new_spread()
    }

    /// The space into which the runtime records its events, if there is one.
    pub fn space(&self) -> Option<&Space> {
        self.shared.home.board.space()
    }

    /// Creates a stream.
    pub fn stream<T: Send + 'static>(&self, spec: StreamSpec) -> (Out<T>, In<T>) {
        self.shared.stream(spec)
    }

    /// Creates a stream of messages that compute their size.
    pub fn sized_stream<T: DeepSize + Send + 'static>(&self, spec: StreamSpec) -> (Out<T>, In<T>) {
        self.shared.sized_stream(spec)
    }

    /// Creates a task. The task is given to a worker and runs from the next [`Runtime::start`] (or
    /// [`Runtime::join`]) on, so the mapper sees all tasks of a network before it divides them among workers.
    /// A task that is placed on another node fails at once.
    pub fn spawn(&self, spec: TaskSpec, mut task: impl Task) -> TaskId {
        if spec.place.here().is_err() {
            // `spawn_blocking_attached` makes a task fail that is placed on another node.
            return self.spawn_blocking_attached(spec, |ports| {
                task.attach(ports);
                move |_| drop(task)
            });
        }
        let cell = body::give(task, |given| {
            let cell = self.shared.new_task(spec, given.methods(), self.shared.mapping.thread_per_task);
            // SAFETY: the cell was just made for this value, and no other thread has it.
            unsafe { cell.as_ref().embody(given) };
            cell
        });
        // SAFETY: the reference to the task was just made, and keeps the task alive.
        let task = unsafe { cell.as_ref() };
        let id = task.id;
        self.shared.home.board.task_made(task, spec.origin());
        lock(&self.waiting).push_back(Handed(cell));
        id
    }

    /// Creates a task with a thread of its own, which runs at once. The task's streams are recorded as opened
    /// when it first uses them. If the system refuses a thread, the task fails: see [`Summary::failures`].
    pub fn spawn_blocking(
        &self,
        spec: TaskSpec,
        work: impl FnOnce(&mut Blocking) + Send + 'static,
    ) -> TaskId {
        self.spawn_blocking_attached(spec, |_| work)
    }

    /// Creates a task with a thread of its own and streams that are opened before anything runs: `attach`
    /// names the streams and returns the work. The events therefore say which task reads a stream before the
    /// stream has its first message.
    ///
    /// ```
    /// # use thalweg_exec::{Options, Runtime, StreamSpec, TaskSpec};
    /// # let runtime = Runtime::new(Options::default())?;
    /// let (mut output, mut input) = runtime.stream::<u64>(StreamSpec::default());
    /// runtime.spawn_blocking_attached(TaskSpec::default(), move |ports| {
    ///     ports.input(&mut input);
    ///     move |task| while task.pop(&mut input).is_some() {}
    /// });
    /// runtime.spawn_blocking(TaskSpec::default(), move |task| task.push(&mut output, 1).expect("the reader lives"));
    /// runtime.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_blocking_attached<W>(
        &self,
        spec: TaskSpec,
        attach: impl FnOnce(&mut Ports<'_>) -> W,
    ) -> TaskId
    where
        W: FnOnce(&mut Blocking) + Send + 'static,
    {
        let mut core = Core::new(self.shared.clone(), FOREIGN, None);
        self.shared.spawn_blocking(NonNull::from(&mut core), spec, |ports| always_well(attach(ports)))
    }

    /// Places the tasks created so far and lets them run. [`Runtime::join`] calls this, too.
    pub fn start(&self) {
        let tasks: Vec<Handed> = lock(&self.waiting).drain(..).collect();
        if !tasks.is_empty() {
            self.start_tasks(&tasks);
        }
        if !self.started.swap(true, Ordering::Relaxed) {
            self.shared.home.admission.falls_asleep();
        }
    }

    fn start_tasks(&self, tasks: &[Handed]) {
        let places = self.places(tasks);
        let mut core = Core::new(self.shared.clone(), FOREIGN, None);
        let core = NonNull::from(&mut core);
        for (task, &place) in tasks.iter().zip(&places) {
            // SAFETY: the reference that was handed over keeps the cell alive, and no other thread accesses
            // the cell's body yet.
            let cell = unsafe { task.0.as_ref() };
            if !cell.blocking {
                cell.place(place);
            }
            self.shared.home.board.task_placed(cell, place);
            // SAFETY: the reference that was handed over keeps the cell alive, and no other thread accesses
            // the cell's body yet.
            unsafe { cell.attach_body(&mut Ports { thread: core.cast(), task: cell }) };
        }
        for task in tasks {
            // SAFETY: the reference that was handed over keeps the cell alive, and no other thread accesses
            // the cell's body yet.
            let own = self.shared.mapping.thread_per_task.then(|| unsafe { task.0.as_ref().take_body() });
            match own.flatten() {
                Some(body) => {
                    self.shared.start_blocking(task.0, move |blocking: &mut Blocking| blocking.drive(body))
                }
                None => release_into(&self.shared, task.0),
            }
        }
    }

    /// The workers that the mapper chooses for tasks that were created before the start.
    fn places(&self, tasks: &[Handed]) -> Vec<u32> {
        if self.shared.mapping.thread_per_task {
            return vec![OWN_THREAD; tasks.len()];
        }
        // SAFETY: each `Handed` holds a reference that keeps its task alive.
        let specs: Vec<TaskSpec> = tasks.iter().map(|task| unsafe { task.0.as_ref() }.spec()).collect();
        let places = self.shared.placing().cut(&specs);
        places.into_iter().map(|place| place as u32).collect()
    }

    /// A handle with which any thread moves tasks while the runtime runs.
    pub fn mover(&self) -> TaskMover {
        TaskMover(self.shared.clone())
    }

    /// A handle with which any thread changes how many workers take part while the runtime runs.
    ///
    /// ```
    /// # use thalweg_exec::{Options, Runtime};
    /// let runtime = Runtime::new(Options { workers: 1, workers_max: 4, ..Options::default() })?;
    /// runtime.workers().set(3)?;
    /// assert_eq!(runtime.workers().count(), 3);
    /// assert!(runtime.workers().set(5).is_err());
    /// # runtime.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn workers(&self) -> Workers {
        Workers(self.shared.clone())
    }

    /// Waits until every task has ended, then ends the workers.
    ///
    /// # Errors
    /// If the run ended in a deadlock; the error names tasks of the deadlock and the streams that they wait
    /// for.
    pub fn join(mut self) -> Result<Summary, Error> {
        self.start();
        let shared = &self.shared;
        let mut watch = Watch::default();
        let is_over = || shared.stop.load(Ordering::Relaxed);
        let deadlock = shared.ends.wait(is_over, deadlock::LOOK_EVERY, || {
            // This thread sets settings back when their leases end, so they are set back even while all
            // workers sleep.
            shared.see_to_leases();
            shared.adopt_workers();
            shared.look_at_limit();
            watch.look(shared)
        });
        let aborted = self.shared.stop.load(Ordering::Relaxed) || deadlock.is_some();
        let wall = self.began.elapsed();
        self.end_workers()?;
        self.shared.own_threads.end(aborted);
        if let Some(deadlock) = deadlock {
            return Err(Error::new(deadlock));
        }
        let bad = self.shared.ends.take_bad();
        let tasks = self.shared.ends.ended();
        Ok(Summary { wall, tasks, failed: bad.failed, failures: bad.failures, aborted })
    }

    /// Ends the run at once: running tasks finish their dispatch, and all others are dropped with their
    /// messages; blocking tasks see the abort in [`Blocking::stopping`].
    pub fn abort(&self) {
        self.shared.stop();
        self.shared.ends.wake();
    }

    fn end_workers(&mut self) -> Result<(), Error> {
        self.shared.stop();
        self.sampler.take().into_iter().for_each(Sampler::end);
        let threads = std::mem::take(&mut *lock(&self.shared.crew.threads));
        let mut outcome = Ok(());
        for (number, handle) in threads.into_iter().enumerate() {
            if handle.join().is_err() {
                outcome = Err(Error::new(format!(
                    "worker {number} panicked: a defect of the runtime, please report it"
                )));
            }
        }
        outcome
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = self.end_workers();
        self.shared.own_threads.end(true);
        for task in lock(&self.waiting).drain(..) {
            // SAFETY: this gives up the reference that was kept for a start that never happened.
            unsafe {
                let cell = task.0.as_ref();
                cell.drop_body();
                self.shared.home.board.task_ended(cell, &Ok(()));
                TaskCell::release(task.0.as_ptr());
            }
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({} workers)", self.shared.taking_part())
    }
}
