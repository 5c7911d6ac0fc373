//! Blocking tasks: work that may sleep (files, sockets, terminals) on a thread of its own, on the same streams.

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

/// A blocking task's view of the runtime.
pub struct Blocking {
    core: NonNull<Core>,
    task: Current,
    shared: Arc<Shared>,
    cx: Context<'static>,
    quantum: usize,
    /// Messages since the last look at what the others should see.
    used: usize,
    sleep: Arc<Sleep>,
    /// It brings messages from the world outside, as it has said.
    is_source: bool,
}

impl Blocking {
    /// Reads the next message; waits for it. `None`: the stream has ended, or the runtime stops.
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

    /// Shows in the task's live row that it read one more message, which it is on from now.
    fn show_read(&self) {
        self.task.get().show_one_more_read();
    }

    /// Writes a message, at once visible to the reader; waits while the stream is full. `Err`: the reader is gone
    /// or the runtime stops.
    pub fn push<T: Send + 'static>(&mut self, out: &mut Out<T>, message: T) -> Result<(), T> {
        self.feed(out, message)?;
        if self.cx.full {
            // Each message is recorded with its own time.
            self.flush();
            return Ok(());
        }
        Core::publish_now(self.core, out.ring_pointer());
        Ok(())
    }

    /// Writes a message like [`Blocking::push`], but shows it to the reader only with others: when the stream is
    /// full, a quantum was written, the task waits or ends, or at [`Blocking::flush`]. For sources that have
    /// the next message at once.
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

    /// Shows the readers everything written, and gives the room of what was read back to the writers.
    pub fn flush(&mut self) {
        self.used = 0;
        // What only lets others in is not armed.
        let _ = Core::pause(self.core, Stop::QuantumSpent, None);
        self.resume();
    }

    /// Does work that waits for something outside of the streams, such as a file or a peer: the time it takes is time
    /// that the task waits for input. What was written before is visible meanwhile.
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

    /// Waits before a source reads a further input, as long as [`Options::unfinished`](crate::Options::unfinished) messages (the
    /// setting `exec.unfinished`) or more are under way in streams; what was written before is visible meanwhile. A task that
    /// brings inputs from the world outside calls this before each. It returns when half as many are left, or when
    /// nothing else could go on (of tasks with threads of their own, those that have used a stream or were attached to one):
    /// messages may lie in streams until another input comes. Several sources look each by itself,
    /// so as many more may come in as there are sources. What a task keeps is not under way.
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
        // SAFETY: the thread's own core, to which no other reference is held.
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

    /// Waits until a stream that had nothing when it was read last (one of [`Inputs`](crate::Inputs), too) has a
    /// message or has ended, but not longer than `patience`. May return early.
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

    /// The rest of what a task may ask: creating streams and tasks.
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

    /// Runs a task that is made for workers on this thread of its own, to its end.
    pub(crate) fn drive(&mut self, mut body: Box<dyn Task>) -> Result<(), String> {
        while !self.stopping() {
            let task = self.task.get();
            task.show_reads();
            // SAFETY: the thread's own core, to which no other reference is held.
            let budget = unsafe { self.core.as_mut() }.begin_budget(task);
            self.cx.set_quantum(budget.messages);
            match body.run(&mut self.cx) {
                Stop::Ended => break,
                stop => self.wait(stop, Some(&budget))?,
            }
        }
        Ok(())
    }

    /// Ends the dispatch and waits, if there is something to wait for. `Err`: nothing can ever wake the task.
    fn wait(&mut self, stop: Stop, budget: Option<&Budget>) -> Result<(), &'static str> {
        self.used = 0;
        let task = self.task.get();
        let waits = Core::pause(self.core, stop, budget);
        if waits == Ok(true) {
            // In every mode, here and below: if the process dies, this task may have been the one.
            task.show_state(match stop {
                Stop::OutputFull => TaskState::BlockedOutput,
                _ => TaskState::BlockedInput,
            });
            self.sleep.begin(stop);
            while !task.in_inbox.swap(false, Ordering::AcqRel) && !self.stopping() {
                if let Some(asked) = self.sleep.take_asked() {
                    // SAFETY: the thread's own core, to which no other reference is held.
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
        // SAFETY: the thread's own core, to which no other reference is held.
        let core = unsafe { self.core.as_mut() };
        self.cx.full = core.telemetry.is_full();
        self.cx.times_each = self.cx.full && core.times_own_messages();
    }
}

/// A user's work, which has nothing to say of its end but by a panic.
pub(crate) fn always_well(
    work: impl FnOnce(&mut Blocking) + Send + 'static,
) -> impl FnOnce(&mut Blocking) -> Result<(), String> + Send + 'static {
    move |blocking| {
        work(blocking);
        Ok(())
    }
}

/// Starts a blocking task's thread, with the caller's reference to the task; if the system refuses one, that stays the
/// caller's.
pub(crate) fn start(
    shared: &Arc<Shared>,
    task: NonNull<TaskCell>,
    sleep: Arc<Sleep>,
    work: impl FnOnce(&mut Blocking) -> Result<(), String> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    struct Handed(NonNull<TaskCell>);
    // SAFETY: the cell is made for sharing; this hands one reference over.
    unsafe impl Send for Handed {}
    // SAFETY: the caller's reference.
    let id = unsafe { task.as_ref() }.id.0;
    let handed = Handed(task);
    let for_thread = shared.clone();
    thread::Builder::new().name("thalweg-blocking".into()).spawn(move || {
        let handed = handed;
        // Here and not above: while its memory is made, others run.
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
    // SAFETY: the reference handed to this thread.
    let cell = unsafe { task.as_ref() };
    cell.state.set(State::Running);
    cell.show_state(TaskState::Running);
    let mut core = Core::new(shared.clone(), FOREIGN, recorder);
    core.telemetry.own_thread_begins(cell);
    // SAFETY: the reference handed to this thread, which keeps it until the core is gone.
    core.task = unsafe { Current::of(task) };
    let core = NonNull::from(Box::leak(Box::new(core)));
    let outcome = Core::with(core, || {
        let quantum = shared.tuning.quantum_now();
        // SAFETY: as above.
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
    // SAFETY: leaked above, and nobody else has it.
    drop(unsafe { Box::from_raw(core.as_ptr()) });
    shared.own_threads.forget(cell.id);
    cell.takes_no_part();
    shared.task_ended(cell, outcome);
    // SAFETY: the reference handed to this thread.
    unsafe { TaskCell::release(task.as_ptr()) }
}
