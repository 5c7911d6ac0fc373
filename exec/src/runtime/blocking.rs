//! Blocking tasks: tasks that may sleep in system calls (files, sockets, terminals), so each has a thread of
//! its own; they use the same streams as other tasks.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::dispatch::{Budget, Core};
use crate::fault::Fault;
use crate::ring::{FOREIGN, Holder};
use crate::runtime::ports::{In, Out};
use crate::shared::Shared;
use crate::shared::own_threads::Sleep;
use crate::stop::Stop;
use crate::sync::Ordering;
use crate::task::cell::{Current, State, TaskCell};
use crate::task::context::{Context, Task};
use crate::task::spec::TaskId;
use crate::telemetry::{Recorder, TaskState, WatchedTask};
use crate::wake;

/// The calls that a blocking task may make to the runtime.
pub struct Blocking {
    core: NonNull<Core>,
    task: Current,
    shared: Arc<Shared>,
    cx: Context<'static>,
    quantum: usize,
    /// The number of messages since the task last published its positions.
    used: usize,
    sleep: Arc<Sleep>,
    /// Whether the task has said, by [`Blocking::admit`], that it brings messages from outside the network.
    is_source: bool,
}

impl Blocking {
    /// Waits for the next message and reads it. `None`: the stream has ended, or the runtime stops.
    pub fn pop<T: Send + 'static>(&mut self, input: &mut In<T>) -> Option<T> {
        loop {
            if let Some(message) = input.pop(&mut self.cx) {
                self.show_read();
                self.count();
                return Some(message);
            }
            if input.ended() || self.stopping() {
                self.flush();
                return None;
            }
            let _ = self.wait(Stop::InputEmpty, None);
        }
    }

    /// Reads the next message if there is one.
    pub fn try_pop<T: Send + 'static>(&mut self, input: &mut In<T>) -> Option<T> {
        let message = input.pop(&mut self.cx);
        if message.is_some() {
            self.show_read();
        }
        self.count();
        message
    }

    /// Shows in the task's live row that the task has read one more message and works on that message from
    /// now on.
    fn show_read(&self) {
        self.task.get().show_one_more_read();
    }

    /// Writes a message that the reader sees at once; waits while the stream is full. `Err`: the reader is
    /// gone or the runtime stops.
    pub fn push<T: Send + 'static>(&mut self, out: &mut Out<T>, message: T) -> Result<(), T> {
        self.feed(out, message)?;
        if self.cx.full {
            // The flush ends the dispatch, so each message is recorded with its own time.
            self.flush();
            return Ok(());
        }
        Core::publish_now(self.core, out.ring_pointer());
        Ok(())
    }

    /// Writes a message like [`Blocking::push`], but the reader sees the message only when the stream is
    /// full, a quantum was written, the task waits or ends, or [`Blocking::flush`] is called. Sources call
    /// this function instead of `push` if they already have the next message.
    pub fn feed<T: Send + 'static>(&mut self, out: &mut Out<T>, message: T) -> Result<(), T> {
        let mut message = message;
        loop {
            if out.ring().reading.reader_gone.load(Ordering::Acquire) != 0 || self.stopping() {
                return Err(message);
            }
            match out.push(&mut self.cx, message) {
                Ok(()) => {
                    self.count();
                    return Ok(());
                }
                Err(back) => message = back,
            }
            let _ = self.wait(Stop::OutputFull, None);
        }
    }

    /// Publishes all messages written, so readers see them, and all reading, so writers may use the room
    /// again.
    pub fn flush(&mut self) {
        self.used = 0;
        // A dispatch that ends only to publish arms no wake-up.
        let _ = Core::pause(self.core, Stop::QuantumSpent, None);
        self.resume();
    }

    /// Does work that waits for something outside of the streams, such as a file or a peer. The time of the
    /// work counts as time in which the task waits for input. Messages that the task wrote before are visible
    /// to readers during the work.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use thalweg_exec::{Options, Runtime, TaskSpec};
    /// # let runtime = Runtime::new(Options::default())?;
    /// runtime.spawn_blocking(TaskSpec::default(), |task| {
    ///     task.aside(|| std::thread::sleep(Duration::from_millis(1)));
    /// });
    /// runtime.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn aside<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.used = 0;
        Core::step_aside(self.core, Stop::InputEmpty);
        let done = if self.is_source {
            self.task.get().takes_part();
            self.shared.home.admission.asleep_while(work)
        } else {
            work()
        };
        Core::come_back(self.core);
        self.resume();
        done
    }

    /// Waits, before a source reads a further input, while
    /// [`Options::unfinished`](crate::Options::unfinished) messages (the setting `exec.unfinished`) or more
    /// are under way in streams. Messages that the task wrote before are visible to readers during the wait.
    /// A task that brings inputs from outside the network calls this before each input. The call returns when
    /// half as many messages are left. The call also returns when no other task could go on, because messages
    /// may stay in streams until another input comes. A task with a thread of its own counts as a task that
    /// could go on only if it has used a stream or was attached to one. Several sources check independently,
    /// so the limit may be exceeded by as many messages as there are sources. Messages that a task has read
    /// and keeps do not count as under way.
    ///
    /// ```
    /// # use thalweg_exec::{Options, Runtime, StreamSpec, TaskSpec};
    /// let runtime = Runtime::new(Options { unfinished: 10, ..Options::default() })?;
    /// let (mut output, mut input) = runtime.stream::<u64>(StreamSpec::default());
    /// runtime.spawn_blocking(TaskSpec::default(), move |task| {
    ///     for number in 0..1000 {
    ///         task.admit();
    ///         task.feed(&mut output, number).expect("the reader lives");
    ///     }
    /// });
    /// runtime.spawn_blocking(TaskSpec::default(), move |task| {
    ///     while task.pop(&mut input).is_some() {
    ///         assert!(input.len() < 10);
    ///     }
    /// });
    /// runtime.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn admit(&mut self) {
        self.is_source = true;
        // SAFETY: this is the thread's own core, to which no other reference is held.
        let limit = unsafe { self.core.as_ref() }.adopted.unfinished;
        if limit != 0 && self.shared.home.admission.under_way() + self.used as u64 >= limit {
            self.hold(limit);
        }
    }

    #[cold]
    fn hold(&mut self, limit: u64) {
        let task = self.task.get();
        task.takes_part();
        self.used = 0;
        Core::step_aside(self.core, Stop::OutputFull);
        task.show_state(TaskState::BlockedOutput);
        let shared = self.shared.clone();
        wake::hold(&shared.home.admission, task, limit);
        if shared.tuning.unfinished_now() != limit {
            shared.home.admission.let_in();
        }
        while shared.home.admission.holds(task.id.0) {
            shared.home.admission.park(&task.parker, None);
            if self.stopping() {
                shared.home.admission.let_in();
            }
        }
        task.show_state(TaskState::Running);
        Core::come_back(self.core);
        self.resume();
    }

    /// Waits until a stream that the task last found empty (also one of [`Inputs`](crate::Inputs)) has a
    /// message or has ended, but not longer than `patience`. The call may return early.
    pub fn wait_for_input(&mut self, patience: Duration) {
        self.used = 0;
        let task = self.task.get();
        if Core::pause(self.core, Stop::InputEmpty, None) == Ok(true) {
            let mut woken = task.in_inbox.swap(false, Ordering::AcqRel);
            if !woken && !self.stopping() {
                self.shared.home.admission.park(&task.parker, Some(patience));
                woken = task.in_inbox.swap(false, Ordering::AcqRel);
            }
            if !woken {
                Core::come_back(self.core);
            }
        }
        self.resume();
    }

    /// Whether the runtime was aborted.
    pub fn stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// The task's number.
    pub fn task_id(&self) -> TaskId {
        self.cx.task_id()
    }

    /// The task's context, which creates streams and tasks.
    pub fn context(&mut self) -> &mut Context<'static> {
        &mut self.cx
    }

    #[inline]
    fn count(&mut self) {
        self.used += 1;
        if self.used >= self.quantum {
            self.flush();
        }
    }

    /// Runs on this thread, until it ends, a task that was written to be run by workers.
    pub(crate) fn drive(&mut self, mut body: Box<dyn Task>) -> Result<(), String> {
        while !self.stopping() {
            let task = self.task.get();
            task.show_reads();
            // SAFETY: this is the thread's own core, to which no other reference is held.
            let budget = unsafe { self.core.as_mut() }.begin_budget(task);
            self.cx.set_quantum(budget.messages);
            match body.run(&mut self.cx) {
                Stop::Ended => break,
                stop => self.wait(stop, Some(&budget))?,
            }
        }
        Ok(())
    }

    /// Ends the dispatch, and waits if the task has something to wait for. `Err`: nothing can ever wake the
    /// task.
    fn wait(&mut self, stop: Stop, budget: Option<&Budget>) -> Result<(), &'static str> {
        self.used = 0;
        let task = self.task.get();
        let waits = Core::pause(self.core, stop, budget);
        if waits == Ok(true) {
            // The task's state is shown in every mode, here and below, because if the process dies in this
            // task, a reader must see the state.
            task.show_state(match stop {
                Stop::OutputFull => TaskState::BlockedOutput,
                _ => TaskState::BlockedInput,
            });
            self.sleep.begin(stop);
            while !task.in_inbox.swap(false, Ordering::AcqRel) && !self.stopping() {
                if let Some(asked) = self.sleep.take_asked() {
                    // SAFETY: this is the thread's own core, to which no other reference is held.
                    asked.answer(unsafe { self.core.as_mut() });
                }
                self.shared.home.admission.park(&task.parker, None);
            }
            self.sleep.end();
            task.show_state(TaskState::Running);
        }
        self.resume();
        waits.map(|_| ())
    }

    fn resume(&mut self) {
        Core::resume(self.core);
        // SAFETY: this is the thread's own core, to which no other reference is held.
        let core = unsafe { self.core.as_mut() };
        self.cx.full = core.telemetry.is_full();
        self.cx.times_each = self.cx.full && core.times_own_messages();
    }
}

/// Wraps a user's work that can fail only by a panic.
pub(crate) fn always_well(
    work: impl FnOnce(&mut Blocking) + Send + 'static,
) -> impl FnOnce(&mut Blocking) -> Result<(), String> + Send + 'static {
    move |blocking| {
        work(blocking);
        Ok(())
    }
}

/// Starts a blocking task's thread and hands it the caller's reference to the task. If the system refuses a
/// thread, the caller keeps the reference.
pub(crate) fn start(
    shared: &Arc<Shared>,
    task: NonNull<TaskCell>,
    sleep: Arc<Sleep>,
    work: impl FnOnce(&mut Blocking) -> Result<(), String> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    struct Handed(NonNull<TaskCell>);
    // SAFETY: the cell may be shared between threads; this value carries one reference to the other thread.
    unsafe impl Send for Handed {}
    // SAFETY: the caller has a reference, so the task is alive.
    let id = unsafe { task.as_ref() }.id.0;
    let handed = Handed(task);
    let for_thread = shared.clone();
    thread::Builder::new().name("thalweg-blocking".into()).spawn(move || {
        let handed = handed;
        // The recorder is made on the new thread, so other threads run while its memory is allocated.
        let recorder = for_thread.home.board.recorder(&format!("blocking task {id}"));
        run(for_thread, handed.0, sleep, recorder, work);
    })
}

fn run(
    shared: Arc<Shared>,
    task: NonNull<TaskCell>,
    sleep: Arc<Sleep>,
    recorder: Result<Option<Recorder>, thalweg_space::Error>,
    work: impl FnOnce(&mut Blocking) -> Result<(), String>,
) {
    let (recorder, refused) = match recorder {
        Ok(recorder) => (recorder, None),
        Err(error) => (None, Some(format!("it has nowhere to record its events: {error:#}"))),
    };
    // SAFETY: this thread owns the reference that was handed to it.
    let cell = unsafe { task.as_ref() };
    cell.state.set(State::Running);
    cell.show_state(TaskState::Running);
    let mut core = Core::new(shared.clone(), FOREIGN, recorder);
    core.telemetry.own_thread_begins(cell);
    // SAFETY: this thread keeps the reference that was handed to it until the core is dropped.
    core.task = unsafe { Current::of(task) };
    let core = NonNull::from(Box::leak(Box::new(core)));
    let outcome = Core::with(core, || {
        let quantum = shared.tuning.quantum_now();
        // SAFETY: this thread keeps the reference that was handed to it until the core is dropped.
        let current = unsafe { Current::of(task) };
        let cx = Context::new(core.cast(), current, quantum, (false, false));
        let (task, shared) = (current, shared.clone());
        let mut blocking = Blocking { core, task, shared, cx, quantum, used: 0, sleep, is_source: false };
        blocking.resume();
        let outcome = match refused {
            Some(reason) => {
                drop(work);
                Err(Fault::found(reason))
            }
            None => match catch_unwind(AssertUnwindSafe(|| work(&mut blocking))) {
                Ok(outcome) => outcome.map_err(Fault::found),
                Err(panic) => Err(Fault::panicked(&*panic)),
            },
        };
        Core::close_task(core, cell, &outcome);
        outcome
    });
    // SAFETY: the core was leaked above, and no other reference to it exists.
    drop(unsafe { Box::from_raw(core.as_ptr()) });
    shared.own_threads.forget(cell.id);
    cell.takes_no_part();
    shared.task_ended(cell, outcome);
    // SAFETY: this thread owns the reference that was handed to it.
    unsafe { TaskCell::release(task.as_ptr()) }
}
