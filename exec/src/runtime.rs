//! The runtime: its workers, what they share, its beginning and its end.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use std::sync::atomic::AtomicU64;

use thalweg_space::{Changes, Clock, Space, Tunable};

use crate::admission::Admission;
use crate::affinity::{self, Processor};
use crate::blocking::{self, Blocking, Sleep, always_well};
use crate::context::Ports;
use crate::deadlock::{self, Watch};
use crate::dispatch::{self, Core};
use crate::error::Error;
use crate::fault::Fault;
use crate::inbox::{Inbox, Pushed};
use crate::mapper::{Mapper, Placing};
use crate::moving::TaskMover;
use crate::parking::Workers;
use crate::placement::Placement;
use crate::ring::{FOREIGN, NO_TOKEN, TOKEN_STEP};
use crate::settings::Settings;
use crate::spread::{self, Spreading};
use crate::stream::{In, Out, StreamSpec, new_stream};
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::task::{Task, TaskCell, TaskId, TaskSpec};
use crate::telemetry::{Board, Cause, Mode, OWN_THREAD, StreamTelemetry, Telemetry, WatchedTask};

/// How to start a runtime.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many workers (at least one). Default: the cores that the process may use, or fewer if its cgroup may not use
    /// all of their time.
    pub workers: usize,
    /// How many workers there may be, if some are added while the runtime runs ([`Runtime::workers`], the setting
    /// `exec.workers`); no fewer than `workers`. Default: the same as that of `workers`.
    pub workers_max: usize,
    /// Whether each worker is bound to a core of its own; cores of one NUMA node follow one another.
    pub pin: bool,
    /// How tasks are placed on workers.
    pub mapper: Mapper,
    /// Where to publish what happens; none: nothing is recorded. A build with `--cfg thalweg_no_probes`, to measure
    /// against, does without.
    pub space: Option<Space>,
    /// How much is recorded at first; the setting `monitor.mode` changes it while running.
    pub mode: Mode,
    /// Messages a dispatch takes at most.
    pub quantum: usize,
    /// Messages a stream holds, unless its own specification says otherwise.
    pub capacity: usize,
    /// As long as so many messages are under way in streams, no source reads a further input
    /// ([`Blocking::admit`](crate::Blocking::admit)); 0: no limit.
    pub unfinished: u64,
    /// Which ready task a worker takes next.
    pub order: Order,
    /// How long a dispatch should last, in microseconds: the number of its messages follows from that.
    pub quantum_us: u64,
    /// How long a worker without work spins before it sleeps, in microseconds.
    pub spin_us: u64,
    /// Whether a worker that has waited for a while gets tasks of a busy one, for good. Tasks that were placed by name
    /// ([`TaskSpec::place`]) or by [`Mapper::User`] stay.
    pub steal: bool,
    /// Whether the replicas of a split move to where there is time for them ([`Spread`](crate::Spread)), if the mapper is
    /// [`Mapper::Contiguous`] and nothing is stolen.
    pub spread: bool,
    /// Whether each task has a thread of its own, as if it were a blocking one: to compare with workers, which then have
    /// nothing to do.
    pub thread_per_task: bool,
}

impl Default for Options {
    fn default() -> Options {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let declared = Settings::DECLARED;
        Options {
            workers,
            workers_max: workers,
            pin: false,
            mapper: Mapper::default(),
            space: None,
            mode: Mode::default(),
            quantum: declared.quantum.default as usize,
            capacity: declared.capacity.default as usize,
            unfinished: declared.unfinished.default,
            order: Order::default(),
            quantum_us: declared.quantum_us.default,
            spin_us: declared.spin_us.default,
            steal: declared.steal.default != 0,
            spread: declared.spread.default != 0,
            thread_per_task: false,
        }
    }
}

/// Which ready task a worker takes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    /// The one that became ready first, but those that were given messages before all others, the last of them first.
    #[default]
    Fifo,
    /// The one with the greatest demand of the first few: messages that wait to be read by it, less those that it wrote and
    /// nobody has read (LPEL-HRC, ICA3PP 2013).
    Demand,
}

impl Order {
    /// The values of the setting `exec.order`, from 0.
    pub const NAMES: [&str; 2] = ["fifo", "demand"];
}

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

/// How long an abort waits for blocking tasks.
const ABORT_PATIENCE: Duration = Duration::from_millis(200);

/// Everything the workers share, in other cache lines than the count of who shares it.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct Shared {
    /// One for each worker that there may be.
    pub(crate) inboxes: Vec<Inbox>,
    /// Messages under way, and sources that are held.
    pub(crate) admission: Arc<Admission>,
    /// How many workers have a thread, and how many of those take part. Written under the lock of `worker_threads`.
    pub(crate) manned: AtomicUsize,
    pub(crate) taking_part: AtomicUsize,
    pub(crate) worker_threads: Mutex<Vec<JoinHandle<()>>>,
    /// What workers are bound to, in turn; empty: they are not.
    processors: Vec<Processor>,
    /// Set once, when the workers are to end.
    pub(crate) stop: AtomicBool,
    /// Whether the kernel makes barriers for us (see `ring`).
    pub(crate) barrier: bool,
    /// Where is told what happens.
    pub(crate) board: Arc<Board>,
    pub(crate) clock: Clock,
    next_task: AtomicU64,
    next_stream: AtomicU64,
    /// How often something was set.
    changes: Option<Changes>,
    pub(crate) settings: Settings,
    pub(crate) spreading: Spreading,
    /// The user's mapper places: nobody steals.
    pub(crate) places: bool,
    thread_per_task: bool,
    /// The mapper wants to know of tasks that end or move.
    weighs: bool,
    /// Workers that are hungry plus workers that have letters: looked at before every dispatch.
    pub(crate) attention: AtomicU32,
    /// The next token (see `ring`).
    tokens: crate::sync::AtomicU64,
    pub(crate) placing: Mutex<Placing>,
    /// The blocking tasks that have not ended, each with a reference.
    blocking: Mutex<HashMap<TaskId, (Handed, Arc<Sleep>)>>,
    /// Held while somebody goes through what the tasks of a thread wait for.
    pub(crate) asking: Mutex<()>,
    /// The threads of blocking tasks.
    own_threads: Mutex<Vec<JoinHandle<()>>>,
    /// Tasks that have not ended.
    live: AtomicU64,
    ended: Mutex<Ended>,
    all_ended: Condvar,
}

#[derive(Default)]
struct Ended {
    failed: u64,
    failures: Vec<Failure>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(options: &Options) -> Result<Arc<Shared>, Error> {
        let (count, most) = (options.workers, options.workers.max(options.workers_max));
        let board = Arc::new(Board::new(options.space.clone())?);
        let settings = settings(options)?;
        let admission = Arc::new(Admission::new(most));
        Ok(Arc::new(Shared {
            inboxes: (0..most).map(|_| Inbox::new(admission.clone())).collect(),
            admission,
            manned: AtomicUsize::new(0),
            taking_part: AtomicUsize::new(count),
            worker_threads: Mutex::default(),
            processors: if options.pin { affinity::processors() } else { Vec::new() },
            stop: AtomicBool::new(false),
            barrier: affinity::register_barrier(),
            next_task: AtomicU64::new(1),
            next_stream: AtomicU64::new(1),
            changes: board.space().map(Space::changes),
            settings,
            spreading: Spreading::new(options, most),
            places: matches!(options.mapper, Mapper::User(_)),
            thread_per_task: options.thread_per_task,
            weighs: matches!(options.mapper, Mapper::LeastLoaded),
            attention: AtomicU32::new(0),
            tokens: crate::sync::AtomicU64::new(0),
            clock: *board.clock(),
            board,
            placing: Mutex::new(Placing::new(options.mapper.clone(), count, most)),
            blocking: Mutex::default(),
            asking: Mutex::default(),
            own_threads: Mutex::default(),
            live: AtomicU64::new(0),
            ended: Mutex::new(Ended::default()),
            all_ended: Condvar::new(),
        }))
    }

    /// Puts back settings whose lease is over, from a thread that runs no tasks and wakes at intervals.
    pub(crate) fn see_to_leases(&self) {
        // Where that fails the space was removed, and nobody sets anything.
        _ = self.board.space().map(Space::see_to_leases);
    }

    /// How often something was set: as long as it is the same, every setting has the value it had.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.as_ref().map_or(0, Changes::load)
    }

    pub(crate) fn quantum(&self, telemetry: &mut Telemetry) -> usize {
        self.adopt(&self.settings.quantum, telemetry) as usize
    }

    /// Likewise, told by nobody.
    pub(crate) fn quantum_now(&self) -> usize {
        self.settings.quantum.load() as usize
    }

    /// How long a dispatch should last, in ticks.
    pub(crate) fn quantum_ticks(&self, telemetry: &mut Telemetry) -> u64 {
        self.clock.ns_to_ticks(self.adopt(&self.settings.quantum_us, telemetry) * 1000)
    }

    pub(crate) fn spin_ticks(&self, telemetry: &mut Telemetry) -> u64 {
        self.clock.ns_to_ticks(self.adopt(&self.settings.spin_us, telemetry) * 1000)
    }

    /// How many messages may be under way before sources are held; 0: any number. A change lets held sources in.
    pub(crate) fn unfinished(&self, telemetry: &mut Telemetry) -> u64 {
        self.look_at_limit();
        self.adopt(&self.settings.unfinished, telemetry)
    }

    /// Lets held sources in if nobody has adopted the limit that is set: they will.
    pub(crate) fn look_at_limit(&self) {
        let unfinished = &self.settings.unfinished;
        if !unfinished.is_adopted(unfinished.load()) {
            self.admission.let_in();
        }
    }

    /// The limit now, told by nobody.
    pub(crate) fn unfinished_now(&self) -> u64 {
        self.settings.unfinished.load()
    }

    pub(crate) fn by_demand(&self, telemetry: &mut Telemetry) -> bool {
        self.adopt(&self.settings.order, telemetry) == Order::Demand as u64
    }

    pub(crate) fn steals(&self, telemetry: &mut Telemetry) -> bool {
        !self.places && self.adopt(&self.settings.steal, telemetry) != 0
    }

    /// Whether replicas are spread now, told by nobody.
    pub(crate) fn spreads(&self) -> bool {
        self.settings.spread.load() != 0 && self.settings.steal.load() == 0
    }

    /// Likewise; the first thread to see a change tells.
    pub(crate) fn spreads_now(&self, telemetry: &mut Telemetry) -> bool {
        self.adopt(&self.settings.spread, telemetry) != 0 && self.spreads()
    }

    /// How many percent of a message's work may go into telling how long it took.
    pub(crate) fn clock_budget(&self, telemetry: &mut Telemetry) -> u64 {
        self.adopt(&self.settings.clock_budget, telemetry)
    }

    /// How many ticks longer than it needs `task` is to take for each message now, so that who observes sees whether the whole
    /// depends on it. It ends by itself at a moment of the clock: who asked for it may die meanwhile.
    #[inline]
    pub(crate) fn delay_ticks(&self, task: TaskId, now: u64) -> u64 {
        let Settings { delay_task, delay_ns, delay_until, .. } = &self.settings;
        if delay_task.load() != task.0 || now >= delay_until.load() {
            return 0;
        }
        self.clock.ns_to_ticks(delay_ns.load())
    }

    /// What a worker is to be bound to.
    pub(crate) fn processor_of(&self, worker: u32) -> Option<Processor> {
        self.processors.get(worker as usize % self.processors.len().max(1)).copied()
    }

    /// A new token for a worker; no token for other threads, and without the kernel's barrier.
    pub(crate) fn token(&self, worker: u32) -> u64 {
        if !self.barrier || worker == FOREIGN {
            return NO_TOKEN;
        }
        self.tokens.fetch_add(TOKEN_STEP, Ordering::Relaxed)
    }

    #[cfg(all(test, loom))]
    pub(crate) fn tokens_for_model(&self) -> u64 {
        self.tokens.fetch_add(TOKEN_STEP, Ordering::Relaxed)
    }

    #[inline]
    fn adopt(&self, tunable: &Tunable, telemetry: &mut Telemetry) -> u64 {
        let value = tunable.load();
        if !tunable.is_adopted(value) {
            self.tell_adopted(tunable, telemetry);
        }
        value
    }

    #[cold]
    #[inline(never)]
    fn tell_adopted(&self, tunable: &Tunable, telemetry: &mut Telemetry) {
        let (new, before) = tunable.adopt();
        if let Some(old) = before {
            telemetry.setting_adopted(tunable.name(), old, new);
        }
    }

    /// The mode now, told by nobody.
    pub(crate) fn mode_now(&self) -> Mode {
        Mode::from_setting(self.settings.mode.load())
    }

    pub(crate) fn stream<T: Send + 'static>(self: &Arc<Self>, spec: StreamSpec) -> (Out<T>, In<T>) {
        let id = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let capacity =
            spec.capacity.unwrap_or_else(|| self.settings.capacity.load() as usize).clamp(1, 1 << 30);
        let telemetry = StreamTelemetry::new(&self.board, id, spec.name, capacity as u32);
        new_stream(id, capacity, telemetry)
    }

    /// The worker of a task created while running, by a task of component `creator` on worker `here`.
    fn place(&self, spec: &TaskSpec, creator: u64, here: usize) -> usize {
        if self.taking_part() == 1 && !self.places && !self.weighs {
            return 0;
        }
        lock(&self.placing).place(spec, creator, here)
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
    pub(crate) fn task_ended(&self, task: &TaskCell, outcome: Result<(), Fault>) {
        if let Err(Fault { message, panicked }) = outcome {
            let mut ended = lock(&self.ended);
            ended.failed += 1;
            if ended.failures.len() < FAILURES_KEPT {
                let component = task.component;
                ended.failures.push(Failure { task: task.id, component, message, panicked });
            }
        }
        if self.weighs && !task.blocking {
            lock(&self.placing).ended(&task.spec(), task.worker());
        }
        if let Some(replica) = task.member_of() {
            self.spreading.task_ended(replica);
        }
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _guard = lock(&self.ended);
            self.all_ended.notify_all();
        }
    }

    /// A task changed workers.
    pub(crate) fn task_moved(&self, task: &TaskCell, from: u32) {
        if self.weighs {
            lock(&self.placing).moved(&task.spec(), from, task.worker());
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        crate::sync::barrier();
        for inbox in self.manned() {
            inbox.wake();
        }
        self.each_blocking(|task, _| _ = self.admission.unpark(&task.parker));
    }

    /// Goes through the blocking tasks that have not ended.
    pub(crate) fn each_blocking(&self, mut each: impl FnMut(&TaskCell, &Sleep)) {
        for (task, sleep) in lock(&self.blocking).values() {
            // SAFETY: the map's reference.
            each(unsafe { task.0.as_ref() }, sleep);
        }
    }

    /// Creates a blocking task and starts its thread, with streams that are opened before it runs. `core` is the calling
    /// thread's. If the system refuses a thread, the task fails.
    pub(crate) fn spawn_blocking<W>(
        self: &Arc<Shared>,
        core: NonNull<Core>,
        spec: TaskSpec,
        attach: impl FnOnce(&mut Ports<'_>) -> W,
    ) -> TaskId
    where
        W: FnOnce(&mut Blocking) -> Result<(), String> + Send + 'static,
    {
        let task = self.new_task(spec, None, true);
        // SAFETY: the reference just made.
        let cell = unsafe { task.as_ref() };
        let id = cell.id;
        self.board.blocking_task_made(cell, spec.origin());
        let work = attach(&mut Ports { core, task: cell });
        match spec.place.here() {
            Ok(_) => self.start_blocking(task, work),
            Err(elsewhere) => {
                drop(work);
                self.refuse(task, elsewhere.to_string());
            }
        }
        id
    }

    /// Starts a blocking task's thread, with the caller's reference. If the system refuses one, the task fails.
    fn start_blocking<W>(self: &Arc<Shared>, task: NonNull<TaskCell>, work: W)
    where
        W: FnOnce(&mut Blocking) -> Result<(), String> + Send + 'static,
    {
        // SAFETY: the caller's reference.
        let cell = unsafe { task.as_ref() };
        let sleep = Arc::new(Sleep::default());
        lock(&self.blocking).insert(cell.id, (Handed(cell.counted_reference()), sleep.clone()));
        match blocking::start(self, task, sleep, work) {
            Ok(thread) => self.keep(thread),
            Err(error) => {
                let reason = format!(
                    "the system refuses it a thread of its own ({error}): allow more threads or memory (`ulimit -u`, \
                     `ulimit -v`, the cgroup's `pids.max`), or run fewer tasks that need one"
                );
                self.refuse(task, reason);
            }
        }
    }

    /// Lets a blocking task fail that has no thread, with the caller's reference.
    fn refuse(self: &Arc<Shared>, task: NonNull<TaskCell>, reason: String) {
        // SAFETY: the caller's reference.
        let cell = unsafe { task.as_ref() };
        let outcome = Err(Fault::found(reason));
        // SAFETY: no thread has the task.
        unsafe { cell.forget_waits() };
        cell.takes_no_part();
        cell.show_end(&outcome);
        self.board.task_ended(cell, &outcome);
        self.forget_blocking(cell.id);
        self.task_ended(cell, outcome);
        // SAFETY: no thread has it, so the reference is still ours.
        unsafe { TaskCell::release(task.as_ptr()) }
    }

    /// Keeps a blocking task's thread until it has ended. A panic in it is caught and told with the task's end, so there is
    /// nothing more to hear of it here.
    fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = lock(&self.own_threads);
        let (ended, running): (Vec<_>, _) = threads.drain(..).partition(JoinHandle::is_finished);
        *threads = running;
        threads.push(thread);
        drop(threads);
        ended.into_iter().for_each(|thread| _ = thread.join());
    }

    /// A blocking task ends: no abort need wake it any more.
    pub(crate) fn forget_blocking(&self, id: TaskId) {
        if let Some((task, _)) = lock(&self.blocking).remove(&id) {
            // SAFETY: the map's reference.
            unsafe { TaskCell::release(task.0.as_ptr()) }
        }
    }
}

impl Core {
    /// Creates a task from a running one.
    pub(crate) fn spawn(core: NonNull<Core>, spec: TaskSpec, mut body: Box<dyn Task>) -> TaskId {
        let (shared, here, creator) = {
            // SAFETY: the thread's own core; the reference ends before a user's code runs.
            let core = unsafe { core.as_ref() };
            let here = if core.worker == FOREIGN { 0 } else { core.worker as usize };
            // SAFETY: the task being dispatched is alive, until this dispatch ends.
            (core.shared.clone(), here, unsafe { &*core.task })
        };
        // One for another node is refused there.
        if shared.thread_per_task || spec.place.here().is_err() {
            return shared.spawn_blocking(core, spec, |ports| {
                body.attach(ports);
                move |blocking: &mut Blocking| blocking.drive(body)
            });
        }
        let worker = match spec.together.filter(|_| spec.place == Placement::ANYWHERE) {
            Some(replica) => replica.worker as usize,
            None => shared.place(&spec, creator.component.0, here),
        };
        let mut task = shared.new_task(spec, None, false);
        if let Some(replica) = spread::joins(&spec, creator, worker == here) {
            // SAFETY: nobody else has the cell yet.
            unsafe { task.as_mut() }.belongs_to(replica);
            shared.spreading.task_created(replica);
        }
        // SAFETY: the reference just made.
        let cell = unsafe { task.as_ref() };
        let id = cell.id;
        cell.place(worker as u32);
        // SAFETY: the thread's own core; the reference ends before a user's code runs.
        unsafe { &mut *core.as_ptr() }.telemetry.task_made(cell, spec.origin(), worker as u32);
        body.attach(&mut Ports { core, task: cell });
        // SAFETY: nobody else knows the cell's body yet.
        unsafe { *cell.body() = Some(body) };
        // SAFETY: the thread's own core; adopting runs no user's code.
        let core = unsafe { &mut *core.as_ptr() };
        if worker as u32 == core.worker {
            core.adopt_new(task);
        } else {
            core.telemetry.task_ready(cell, Cause::Created, 0);
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
    if dispatch::send(&shared, task) == Pushed::Refused {
        // SAFETY: the worker refused it, so nobody else touches the body.
        drop(unsafe { cell.body() }.take());
        shared.board.task_ended(cell, &Ok(()));
        shared.task_ended(cell, Ok(()));
    }
    // SAFETY: taken above.
    unsafe { TaskCell::release(keep) }
}

/// A running set of workers. Dropping it without [`Runtime::join`] aborts.
pub struct Runtime {
    shared: Arc<Shared>,
    /// Tasks that wait for [`Runtime::start`], in the order they were created.
    waiting: Mutex<VecDeque<Handed>>,
    /// Whether it was started: until then held sources wait for that.
    started: AtomicBool,
    began: Instant,
}

/// A new task's one reference, on its way to a worker.
struct Handed(NonNull<TaskCell>);
// SAFETY: the cell is made for sharing.
unsafe impl Send for Handed {}

impl Runtime {
    /// Starts the workers.
    pub fn new(mut options: Options) -> Result<Runtime, Error> {
        check(&options)?;
        if cfg!(thalweg_no_probes) {
            options.space = None;
        }
        let count = options.workers;
        let shared = Shared::new(&options)?;
        shared.board.open_to_others()?;
        shared.board.begins(options.mode);
        let runtime = Runtime {
            shared,
            waiting: Mutex::default(),
            started: AtomicBool::new(false),
            began: Instant::now(),
        };
        runtime.shared.start_workers(&mut lock(&runtime.shared.worker_threads), count)?;
        Ok(runtime)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The space it tells what it does, if there is one.
    pub fn space(&self) -> Option<&Space> {
        self.shared.board.space()
    }

    /// Creates a stream.
    pub fn stream<T: Send + 'static>(&self, spec: StreamSpec) -> (Out<T>, In<T>) {
        self.shared.stream(spec)
    }

    /// Creates a task. It is placed and runs from the next [`Runtime::start`] (or [`Runtime::join`]) on, so that the
    /// mapper sees all tasks of a network before it cuts it. One that is placed on another node fails at once.
    pub fn spawn(&self, spec: TaskSpec, mut task: impl Task) -> TaskId {
        if spec.place.here().is_err() {
            // It is refused there.
            return self.spawn_blocking_attached(spec, |ports| {
                task.attach(ports);
                move |_| drop(task)
            });
        }
        let cell = self.shared.new_task(spec, Some(Box::new(task)), self.shared.thread_per_task);
        // SAFETY: the reference just made.
        let task = unsafe { cell.as_ref() };
        let id = task.id;
        self.shared.board.task_made(task, spec.origin());
        lock(&self.waiting).push_back(Handed(cell));
        id
    }

    /// Creates a task with a thread of its own, which runs at once. Its streams are told as opened when it first uses
    /// them. If the system refuses it a thread, the task fails: see [`Summary::failures`].
    pub fn spawn_blocking(
        &self,
        spec: TaskSpec,
        work: impl FnOnce(&mut Blocking) + Send + 'static,
    ) -> TaskId {
        self.spawn_blocking_attached(spec, |_| work)
    }

    /// Likewise, with streams that are opened before anything runs: `attach` names them and gives the work. So a reader
    /// of the events knows who reads a stream before the first message is in it.
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

    /// Places the tasks created so far and lets them run. [`Runtime::join`] does it too.
    pub fn start(&self) {
        let tasks: Vec<Handed> = lock(&self.waiting).drain(..).collect();
        if !tasks.is_empty() {
            self.start_tasks(&tasks);
        }
        if !self.started.swap(true, Ordering::Relaxed) {
            self.shared.admission.falls_asleep();
        }
    }

    fn start_tasks(&self, tasks: &[Handed]) {
        let places = self.places(tasks);
        let mut core = Core::new(self.shared.clone(), FOREIGN, None);
        let core = NonNull::from(&mut core);
        for (task, &place) in tasks.iter().zip(&places) {
            // SAFETY: the reference handed over; nobody else knows the cell's body yet.
            let cell = unsafe { task.0.as_ref() };
            if !cell.blocking {
                cell.place(place);
            }
            self.shared.board.task_placed(cell, place);
            // SAFETY: as above.
            if let Some(body) = unsafe { cell.body() } {
                body.attach(&mut Ports { core, task: cell });
            }
        }
        for task in tasks {
            // SAFETY: as above.
            match unsafe { task.0.as_ref().body() }.take_if(|_| self.shared.thread_per_task) {
                Some(body) => {
                    self.shared.start_blocking(task.0, move |blocking: &mut Blocking| blocking.drive(body))
                }
                None => release_into(task.0),
            }
        }
    }

    /// The workers that the mapper chooses for tasks before the start.
    fn places(&self, tasks: &[Handed]) -> Vec<u32> {
        if self.shared.thread_per_task {
            return vec![OWN_THREAD; tasks.len()];
        }
        // SAFETY: the references handed over.
        let specs: Vec<TaskSpec> = tasks.iter().map(|task| unsafe { task.0.as_ref() }.spec()).collect();
        let places = lock(&self.shared.placing).cut(&specs);
        places.into_iter().map(|place| place as u32).collect()
    }

    /// A way to move tasks while the runtime runs, for other threads.
    pub fn mover(&self) -> TaskMover {
        TaskMover(self.shared.clone())
    }

    /// How many workers take part, to be changed while the runtime runs, also by other threads.
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
    /// A deadlock: tasks of which none can go on without another of them. Which they are, and for which streams they wait.
    pub fn join(mut self) -> Result<Summary, Error> {
        self.start();
        let mut ended = lock(&self.shared.ended);
        let mut watch = Watch::default();
        let mut deadlock = None;
        while self.shared.live.load(Ordering::Acquire) != 0
            && !self.shared.stop.load(Ordering::Relaxed)
            && deadlock.is_none()
        {
            let waited = self.shared.all_ended.wait_timeout(ended, deadlock::LOOK_EVERY);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                drop(guard);
                // Also if all workers sleep.
                self.shared.see_to_leases();
                self.shared.adopt_workers();
                self.shared.look_at_limit();
                deadlock = watch.look(&self.shared);
                ended = lock(&self.shared.ended);
            } else {
                ended = guard;
            }
        }
        drop(ended);
        let aborted = self.shared.stop.load(Ordering::Relaxed) || deadlock.is_some();
        let wall = self.began.elapsed();
        self.end_workers()?;
        self.end_blocking(aborted);
        if let Some(deadlock) = deadlock {
            return Err(Error::new(deadlock));
        }
        let ended = std::mem::take(&mut *lock(&self.shared.ended));
        let tasks =
            self.shared.next_task.load(Ordering::Relaxed) - 1 - self.shared.live.load(Ordering::Relaxed);
        Ok(Summary { wall, tasks, failed: ended.failed, failures: ended.failures, aborted })
    }

    /// Ends at once: running tasks finish their dispatch, all others are dropped with their messages; blocking tasks
    /// are told ([`Blocking::stopping`]).
    pub fn abort(&self) {
        self.shared.stop();
        let _guard = lock(&self.shared.ended);
        self.shared.all_ended.notify_all();
    }

    /// Ends the threads of blocking tasks. After an abort one that does not look at [`Blocking::stopping`] in time is
    /// left to itself.
    fn end_blocking(&mut self, aborted: bool) {
        let threads = std::mem::take(&mut *lock(&self.shared.own_threads));
        let deadline = Instant::now() + ABORT_PATIENCE;
        for thread in threads {
            while aborted && !thread.is_finished() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            if !aborted || thread.is_finished() {
                let _ = thread.join();
            }
        }
    }

    fn end_workers(&mut self) -> Result<(), Error> {
        self.shared.stop();
        let threads = std::mem::take(&mut *lock(&self.shared.worker_threads));
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
        self.end_blocking(true);
        for task in lock(&self.waiting).drain(..) {
            // SAFETY: the reference kept for the start that never came.
            unsafe {
                let cell = task.0.as_ref();
                drop(cell.body().take());
                self.shared.board.task_ended(cell, &Ok(()));
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

fn check(options: &Options) -> Result<(), Error> {
    let workers = options.workers;
    if (1..=4096).contains(&workers) && options.workers_max <= 4096 {
        return Ok(());
    }
    let most = options.workers_max;
    Err(Error::new(format!(
        "options: workers is {workers}, workers_max {most}, but they have to be 1 to 4096"
    )))
}

/// The settings, as the options want them at first.
fn settings(options: &Options) -> Result<Settings, Error> {
    let mut specs = Settings::DECLARED;
    specs.mode.default = options.mode as u64;
    specs.workers.max = options.workers.max(options.workers_max) as u64;
    specs.workers.default = options.workers as u64;
    specs.quantum.default = options.quantum as u64;
    specs.quantum_us.default = options.quantum_us;
    specs.spin_us.default = options.spin_us;
    specs.capacity.default = options.capacity as u64;
    specs.unfinished.default = options.unfinished;
    specs.order.default = options.order as u64;
    specs.steal.default = u64::from(options.steal);
    specs.spread.default = u64::from(options.spread);
    for spec in specs.all() {
        let (name, value, min, max) = (spec.name, spec.default, spec.min, spec.max);
        if !(min..=max).contains(&value) {
            return Err(Error::new(format!("options: {name} is {value}, but has to be {min} to {max}")));
        }
    }
    let settings = specs.make(options.space.as_ref()).map_err(Error::from)?;
    for (setting, spec) in settings.all().into_iter().zip(specs.all()) {
        // A second runtime of the same space finds the cell there, and its options count.
        setting.show(spec.default).map_err(Error::from)?;
    }
    Ok(settings)
}
