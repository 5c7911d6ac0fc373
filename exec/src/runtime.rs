//! The runtime: its workers, what they share, its beginning and its end.

use std::collections::VecDeque;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use std::sync::atomic::AtomicU64;

use crate::affinity;
use crate::blocking::{self, Blocking};
use crate::context::Ports;
use crate::dispatch::{self, Core};
use crate::inbox::Inbox;
use crate::mapper::{Mapper, Placing};
use crate::ring::FOREIGN;
use crate::stream::{In, Out, StreamSpec, new_stream};
use crate::sync::{AtomicBool, Ordering};
use crate::task::{Task, TaskCell, TaskId, TaskSpec};
use crate::worker;

/// How much is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Only what has to be known of the structure: tasks and streams, their beginning and end.
    Off,
    /// Counters and times of tasks, streams and workers, in the live table.
    #[default]
    Metrics,
    /// Every dispatch, wait, and message.
    Full,
}

/// How to start a runtime.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many workers (at least one). Default: the cores that the process may use.
    pub workers: usize,
    /// Whether each worker is bound to a core of its own.
    pub pin: bool,
    /// How tasks are placed on workers.
    pub mapper: Mapper,
    /// How much is recorded.
    pub mode: Mode,
    /// Messages a dispatch takes at most.
    pub quantum: usize,
    /// Messages a stream holds, unless its own specification says otherwise.
    pub capacity: usize,
    /// How long a dispatch should last, in microseconds: the number of its messages follows from that.
    pub quantum_us: u64,
    /// How long a worker without work spins before it sleeps, in microseconds.
    pub spin_us: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            workers: affinity::cores().len().max(1),
            pin: false,
            mapper: Mapper::default(),
            mode: Mode::default(),
            quantum: 64,
            capacity: 64,
            quantum_us: 100,
            spin_us: 30,
        }
    }
}

/// What went wrong with the runtime itself: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(message: String) -> Error {
        Error(message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A task that ended badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub task: TaskId,
    /// What it was, as its creator said.
    pub component: crate::SiteRef,
    /// What it said.
    pub message: String,
    /// Whether it panicked (else the runtime ended it).
    pub panicked: bool,
}

/// What a run was.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// From the runtime's beginning to its last task's end.
    pub wall: Duration,
    /// Tasks that ended.
    pub tasks: u64,
    /// Tasks that ended badly.
    pub failed: u64,
    /// The first of them (at most [`FAILURES_KEPT`]).
    pub failures: Vec<Failure>,
    /// Whether the run was aborted.
    pub aborted: bool,
}

/// How many failures a [`Summary`] tells in full.
pub const FAILURES_KEPT: usize = 100;

/// Everything the workers share.
pub(crate) struct Shared {
    pub(crate) inboxes: Vec<Inbox>,
    /// Set once, when the workers are to end.
    pub(crate) stop: AtomicBool,
    /// Whether the kernel makes barriers for us (see `ring`).
    pub(crate) barrier: bool,
    next_task: AtomicU64,
    next_stream: AtomicU64,
    quantum: AtomicU64,
    quantum_us: AtomicU64,
    spin_us: AtomicU64,
    capacity: AtomicU64,
    placing: Mutex<Placing>,
    /// Tasks that have not ended.
    live: AtomicU64,
    ended: Mutex<Ended>,
    all_ended: Condvar,
}

#[derive(Default)]
struct Ended {
    tasks: u64,
    failed: u64,
    failures: Vec<Failure>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    #[inline]
    pub(crate) fn quantum(&self) -> usize {
        self.quantum.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn quantum_us(&self) -> u64 {
        self.quantum_us.load(Ordering::Relaxed)
    }

    pub(crate) fn spin_us(&self) -> u64 {
        self.spin_us.load(Ordering::Relaxed)
    }

    pub(crate) fn stream<T: Send + 'static>(&self, spec: StreamSpec) -> (Out<T>, In<T>) {
        let id = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let capacity = spec.capacity.unwrap_or_else(|| self.capacity.load(Ordering::Relaxed) as usize);
        new_stream(id, spec.name, capacity.clamp(1, 1 << 30))
    }

    /// A new task's cell, counted as alive; the caller owns its one reference.
    fn new_task(
        self: &Arc<Self>,
        spec: TaskSpec,
        body: Option<Box<dyn Task>>,
        blocking: bool,
    ) -> NonNull<TaskCell> {
        let id = TaskId(self.next_task.fetch_add(1, Ordering::Relaxed));
        self.live.fetch_add(1, Ordering::Relaxed);
        TaskCell::new(self.clone(), id, spec, body, blocking)
    }

    /// A task has ended, and said so in the space.
    pub(crate) fn task_ended(&self, task: &TaskCell, outcome: Result<(), (String, bool)>) {
        if let Err((message, panicked)) = outcome {
            let mut ended = lock(&self.ended);
            ended.failed += 1;
            if ended.failures.len() < FAILURES_KEPT {
                let component = task.spec.component;
                ended.failures.push(Failure { task: task.id, component, message, panicked });
            }
        }
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _guard = lock(&self.ended);
            self.all_ended.notify_all();
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        crate::sync::barrier();
        for inbox in &self.inboxes {
            inbox.wake();
        }
    }
}

impl Core {
    /// Creates a task from a running one.
    pub(crate) fn spawn(core: NonNull<Core>, spec: TaskSpec, mut body: Box<dyn Task>) -> TaskId {
        let (shared, here, creator) = {
            // SAFETY: the thread's own core; the reference ends before a user's code runs.
            let core = unsafe { core.as_ref() };
            // SAFETY: the task being dispatched is alive.
            let creator = unsafe { &*core.task }.spec.component.0;
            let here = if core.worker == FOREIGN { 0 } else { core.worker as usize };
            (core.shared.clone(), here, creator)
        };
        let worker = lock(&shared.placing).place(&spec, creator, here);
        let task = shared.new_task(spec, None, false);
        // SAFETY: the reference just made.
        let cell = unsafe { task.as_ref() };
        let id = cell.id;
        cell.place(worker as u32);
        body.attach(&mut Ports { core, task: cell });
        // SAFETY: nobody else knows the cell's body yet.
        unsafe { *cell.body() = Some(body) };
        // SAFETY: the thread's own core; adopting runs no user's code.
        let core = unsafe { &mut *core.as_ptr() };
        if worker as u32 == core.worker {
            core.adopt(task);
        } else {
            release_into(task);
        }
        id
    }
}

/// Sends a new task to its worker; if that has ended, the task ends unborn.
fn release_into(task: NonNull<TaskCell>) {
    // SAFETY: the caller's reference.
    let cell = unsafe { task.as_ref() };
    let (shared, keep) = (cell.shared.clone(), cell.counted());
    cell.in_inbox.store(true, Ordering::Relaxed);
    if !dispatch::send(task) {
        // SAFETY: the worker refused it, so nobody else touches the body.
        drop(unsafe { cell.body() }.take());
        shared.task_ended(cell, Ok(()));
    }
    // SAFETY: taken above.
    unsafe { TaskCell::release(keep) }
}

/// A running set of workers. Dropping it without [`Runtime::join`] aborts.
pub struct Runtime {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Tasks that wait for [`Runtime::start`], in the order they were created.
    waiting: Mutex<VecDeque<Handed>>,
    began: Instant,
}

/// A new task's one reference, on its way to a worker.
struct Handed(NonNull<TaskCell>);
// SAFETY: the cell is made for sharing.
unsafe impl Send for Handed {}

impl Runtime {
    /// Starts the workers.
    pub fn new(options: Options) -> Result<Runtime, Error> {
        check(&options)?;
        let count = options.workers;
        let shared = Arc::new(Shared {
            inboxes: (0..count).map(|_| Inbox::new()).collect(),
            stop: AtomicBool::new(false),
            barrier: affinity::register_barrier(),
            next_task: AtomicU64::new(1),
            next_stream: AtomicU64::new(1),
            quantum: AtomicU64::new(options.quantum as u64),
            quantum_us: AtomicU64::new(options.quantum_us),
            spin_us: AtomicU64::new(options.spin_us),
            capacity: AtomicU64::new(options.capacity as u64),
            placing: Mutex::new(Placing::new(options.mapper.clone(), count)),
            live: AtomicU64::new(0),
            ended: Mutex::new(Ended::default()),
            all_ended: Condvar::new(),
        });
        let cores = if options.pin { affinity::cores() } else { Vec::new() };
        let mut runtime =
            Runtime { shared, workers: Vec::new(), waiting: Mutex::default(), began: Instant::now() };
        for number in 0..count {
            let shared = runtime.shared.clone();
            let core = cores.get(number % cores.len().max(1)).copied();
            let name = format!("thalweg-{number}");
            let started =
                thread::Builder::new().name(name).spawn(move || worker::run(shared, number as u32, core));
            match started {
                Ok(handle) => runtime.workers.push(handle),
                Err(error) => return Err(Error(format!("cannot start worker {number} of {count}: {error}"))),
            }
        }
        Ok(runtime)
    }

    /// Creates a stream.
    pub fn stream<T: Send + 'static>(&self, spec: StreamSpec) -> (Out<T>, In<T>) {
        self.shared.stream(spec)
    }

    /// Creates a task. It is placed and runs from the next [`Runtime::start`] (or [`Runtime::join`]) on, so that the
    /// mapper sees all tasks of a network before it cuts it.
    pub fn spawn(&self, spec: TaskSpec, task: impl Task) -> TaskId {
        let cell = self.shared.new_task(spec, Some(Box::new(task)), false);
        // SAFETY: the reference just made.
        let id = unsafe { cell.as_ref() }.id;
        lock(&self.waiting).push_back(Handed(cell));
        id
    }

    /// Creates a task with a thread of its own, which runs at once.
    ///
    /// # Panics
    /// When the system refuses a thread.
    pub fn spawn_blocking(
        &self,
        spec: TaskSpec,
        work: impl FnOnce(&mut Blocking) + Send + 'static,
    ) -> TaskId {
        let task = self.shared.new_task(spec, None, true);
        // SAFETY: the reference just made, and one kept for the error's sake.
        let id = unsafe { task.as_ref() }.id;
        if let Err(error) = blocking::start(&self.shared, task, work) {
            self.shared.live.fetch_sub(1, Ordering::AcqRel);
            panic!("{error}");
        }
        id
    }

    /// Places the tasks created so far and lets them run. [`Runtime::join`] does it too.
    pub fn start(&self) {
        let tasks: Vec<Handed> = lock(&self.waiting).drain(..).collect();
        if tasks.is_empty() {
            return;
        }
        // SAFETY: the references handed over.
        let specs: Vec<TaskSpec> = tasks.iter().map(|task| unsafe { task.0.as_ref() }.spec).collect();
        let places = lock(&self.shared.placing).cut(&specs);
        let mut core = Core::new(self.shared.clone(), FOREIGN);
        let core = NonNull::from(&mut core);
        for (task, &place) in tasks.iter().zip(&places) {
            // SAFETY: the reference handed over; nobody else knows the cell's body yet.
            let cell = unsafe { task.0.as_ref() };
            cell.place(place as u32);
            // SAFETY: as above.
            if let Some(body) = unsafe { cell.body() } {
                body.attach(&mut Ports { core, task: cell });
            }
        }
        for task in tasks {
            release_into(task.0);
        }
    }

    /// Waits until every task has ended, then ends the workers.
    pub fn join(mut self) -> Result<Summary, Error> {
        self.start();
        let mut ended = lock(&self.shared.ended);
        while self.shared.live.load(Ordering::Acquire) != 0 && !self.shared.stop.load(Ordering::Relaxed) {
            ended = self.shared.all_ended.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
        drop(ended);
        let aborted = self.shared.stop.load(Ordering::Relaxed);
        let wall = self.began.elapsed();
        self.end_workers()?;
        let ended = std::mem::take(&mut *lock(&self.shared.ended));
        let tasks =
            self.shared.next_task.load(Ordering::Relaxed) - 1 - self.shared.live.load(Ordering::Relaxed);
        let _ = ended.tasks;
        Ok(Summary { wall, tasks, failed: ended.failed, failures: ended.failures, aborted })
    }

    /// Ends at once: running tasks finish their dispatch, all others are dropped with their messages; blocking tasks
    /// are told ([`Blocking::stopping`]).
    pub fn abort(&self) {
        self.shared.stop();
        let _guard = lock(&self.shared.ended);
        self.shared.all_ended.notify_all();
    }

    fn end_workers(&mut self) -> Result<(), Error> {
        self.shared.stop();
        let mut outcome = Ok(());
        for (number, handle) in self.workers.drain(..).enumerate() {
            if handle.join().is_err() {
                outcome = Err(Error(format!(
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
        for task in lock(&self.waiting).drain(..) {
            // SAFETY: the reference kept for the start that never came.
            unsafe {
                drop(task.0.as_ref().body().take());
                TaskCell::release(task.0.as_ptr());
            }
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({} workers)", self.shared.inboxes.len())
    }
}

fn check(options: &Options) -> Result<(), Error> {
    let limits = [
        ("workers", options.workers as u64, 1, 4096),
        ("quantum", options.quantum as u64, 1, 1 << 20),
        ("capacity", options.capacity as u64, 1, 1 << 30),
    ];
    for (name, value, min, max) in limits {
        if !(min..=max).contains(&value) {
            return Err(Error(format!("options: {name} is {value}, but has to be {min} to {max}")));
        }
    }
    Ok(())
}
