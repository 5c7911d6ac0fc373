//! The calls that a running task may make to the runtime.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_space::Writer;

use crate::dispatch::Core;
use crate::runtime::blocking::{Blocking, always_well};
use crate::runtime::inputs::Inputs;
use crate::runtime::ports::{DeepSize, In, Out, StreamSpec};
use crate::shared::Shared;
use crate::shared::spread::Spread;
use crate::task::body;
use crate::task::context::{Context, Ports, Progress, Task};
use crate::task::spec::{Replica, TaskId, TaskSpec};

impl<'a> Progress<'a> {
    /// Reports that the task now works on message `nth`, counted from the first message of this dispatch.
    #[inline(always)]
    pub fn on(&self, nth: usize) {
        if let Some(cell) = self.cell {
            cell.store(self.first + nth as u64, Ordering::Relaxed);
        }
        if let Some(thread) = self.times {
            // SAFETY: the core outlives the dispatch, which `self` borrows, and no other reference to it is
            // held.
            unsafe { Core::of(thread).as_mut() }.message_begins(self.first + nth as u64);
        }
    }

    /// Whether the time of each message is recorded (in mode `full`, if messages take long enough); the task
    /// must then call [`Progress::on`] for each message.
    #[inline]
    pub fn times_each(&self) -> bool {
        self.times.is_some()
    }

    /// Lets `write` describe the present message after [`Progress::on`], if the times of messages are
    /// recorded and messages take so long that the description costs little (`exec.clock_budget`). `write`
    /// gets the writer of events, the time at which the work on the message began, the running task, and the
    /// message's number.
    #[inline]
    pub fn describe(&self, write: impl FnOnce(&mut Writer, u64, TaskId, u64)) {
        if let Some(thread) = self.times {
            // SAFETY: the core outlives the dispatch, which `self` borrows, and `write` gets nothing that
            // gives access to the core.
            let core = unsafe { Core::of(thread).as_mut() };
            let task = core.task.get();
            let number = task.id;
            if let Some((writer, since, index)) = core.telemetry.describes_message(task) {
                write(writer, since, number, index);
            }
        }
    }

    /// The cell that shows observers the number of the present message, if there is one, and the number of
    /// the dispatch's first message, for a task that writes the cell itself.
    #[inline]
    pub fn cell(self) -> (Option<&'a AtomicU64>, u64) {
        (self.cell, self.first)
    }

    /// Returns a copy of this handle whose count begins `nth` messages later.
    pub fn after(self, nth: usize) -> Progress<'a> {
        Progress { first: self.first + nth as u64, ..self }
    }
}

impl Context<'_> {
    /// A handle by which the task reports the message that it works on, counted from `first`. Between
    /// dispatches the runtime reports the present message; a task that runs users' code reports the message
    /// before it begins to work on it.
    #[inline]
    pub fn progress(&self, first: u64) -> Progress<'_> {
        // SAFETY: the context's core outlives it, and its row stays as it is during a dispatch.
        let cell = unsafe { &(*self.core().as_ptr()).telemetry }.message_cell();
        Progress { cell, first, times: self.times_each.then_some(self.thread) }
    }

    /// How many messages of `input` can be [handed on](crate::In::hand_on) to the task that waits for the
    /// next message of `out` on this thread, if that task works in place. 0 means that the messages must be
    /// written. Messages from another thread must always be written, so that the other thread has room for
    /// further messages at once.
    #[inline]
    pub fn hands_on<T: Send + 'static>(&mut self, input: &In<T>, out: &Out<T>) -> usize {
        // SAFETY: the context's core outlives the context, and no other reference to the core is held.
        let core = unsafe { self.core().as_mut() };
        if !input.ring().is_written_here(core.me) {
            return 0;
        }
        core.take_tasks_back();
        let is_waiting = input.ring().is_written_here(core.me) && core.waiting_reader(out.ring()).is_some();
        core.lend_tasks();
        if is_waiting { out.ring().capacity() as usize } else { 0 }
    }

    /// Makes the runtime record no time for the present message, because the work on it goes on in other
    /// dispatches.
    pub fn forget_time(&mut self) {
        // SAFETY: the context's core outlives the context, and no other reference to the core is held.
        unsafe { self.core().as_mut() }.telemetry.message_goes_on();
    }

    /// Creates a task. The new task runs for the first time after this dispatch, on the worker that the
    /// mapper chooses.
    pub fn spawn(&mut self, spec: TaskSpec, task: impl Task) -> TaskId {
        body::give(task, |task| Core::spawn(self.core(), spec, task))
    }

    /// Creates a task with a thread of its own, which starts at once: see
    /// [`Runtime::spawn_blocking`](crate::Runtime::spawn_blocking).
    pub fn spawn_blocking(
        &mut self,
        spec: TaskSpec,
        work: impl FnOnce(&mut Blocking) + Send + 'static,
    ) -> TaskId {
        // SAFETY: the context's core outlives the context, and no other reference to the core is held.
        let shared = unsafe { self.core().as_ref() }.shared.clone();
        shared.spawn_blocking(self.core(), spec, |_| always_well(work))
    }

    /// A handle for the replicas of a split, none of which exists yet.
    pub fn spread(&mut self) -> Spread {
        self.shared().spreading.new_spread()
    }

    /// Makes a replica: `make` creates the replica's tasks, with the given [`Replica`] in their
    /// specifications ([`TaskSpec::together`]).
    pub fn replica<R>(&mut self, spread: &Spread, make: impl FnOnce(&mut Self, Option<Replica>) -> R) -> R {
        let shared = self.shared();
        let siblings = spread.0.as_ref().filter(|_| shared.tuning.spreads());
        let Some(siblings) = siblings else { return make(self, None) };
        // SAFETY: the context's core outlives it; the reference ends with this statement.
        let (now, worker) = unsafe { (self.core().as_mut().telemetry.clock(), self.core().as_ref().worker) };
        let here = (worker, shared.taking_part());
        siblings.is_dealt_by(self.task.get());
        let replica = shared.spreading.new_replica(siblings, here, &shared.clock, now);
        let made = make(self, Some(replica));
        // While its tasks were made, the replica counted as one more task; from now on it lives as long as
        // its tasks.
        shared.spreading.task_ended(replica.number);
        made
    }

    fn shared(&self) -> Arc<Shared> {
        // SAFETY: the context's core outlives the context, and no other reference to the core is held.
        unsafe { self.core().as_ref() }.shared.clone()
    }

    /// The core of the context's thread.
    #[inline(always)]
    pub(crate) fn core(&self) -> NonNull<Core> {
        Core::of(self.thread)
    }

    /// Creates a stream.
    pub fn stream<T: Send + 'static>(&mut self, spec: StreamSpec) -> (Out<T>, In<T>) {
        // SAFETY: the context's core outlives the context, and no other reference to the core is held.
        unsafe { self.core().as_ref() }.shared.stream(spec)
    }

    /// Creates a stream of messages that compute their size.
    pub fn sized_stream<T: DeepSize + Send + 'static>(&mut self, spec: StreamSpec) -> (Out<T>, In<T>) {
        // SAFETY: the context's core outlives the context, and no other reference to the core is held.
        unsafe { self.core().as_ref() }.shared.sized_stream(spec)
    }

    /// Registers this task as the writer of a stream that was created while the task runs. The first push on
    /// the stream registers the task, too.
    pub fn attach_output<T: Send + 'static>(&mut self, out: &mut Out<T>) {
        // SAFETY: the context's core outlives the context, and no other reference to the core is held.
        let core = unsafe { self.core().as_mut() };
        core.take_tasks_back();
        core.attach_writer(out.ring_pointer(), self.task.get());
    }

    /// Records that the message just pushed on `out` descends from the message popped last, in this or a
    /// former dispatch. Only mode `full` uses this record, and only for tasks that are not
    /// [`one_to_one`](TaskSpec::one_to_one).
    #[inline]
    pub fn derived<T: Send + 'static>(&mut self, out: &Out<T>) {
        if self.full {
            // SAFETY: the context's core outlives the context, and no other reference to the core is held.
            unsafe { self.core().as_mut() }.note_derived(out.ring())
        }
    }

    /// The stream and index of the message popped last, in this or a former dispatch; `None` in every mode
    /// but `full`. Tasks that write the results later keep the returned value for [`Context::derived_from`].
    #[inline]
    pub fn last_read(&self) -> Option<(u64, u64)> {
        // SAFETY: the context's core outlives the context, and no other reference to the core is held.
        if self.full { unsafe { self.core().as_ref() }.last_read() } else { None }
    }

    /// Records that the message just pushed on `out` descends from the message `read`, which the task popped
    /// earlier or will pop in this dispatch. If `read` is `None`, nothing is recorded.
    #[inline]
    pub fn derived_from<T: Send + 'static>(&mut self, out: &Out<T>, read: Option<(u64, u64)>) {
        if let (true, Some(parent)) = (self.full, read) {
            // SAFETY: the context's core outlives the context, and no other reference to the core is held.
            unsafe { self.core().as_mut() }.note(out.ring(), parent, None)
        }
    }

    /// The writer for the program's own events, into this thread's element; `None` without a space.
    pub fn writer(&mut self) -> Option<&mut Writer> {
        // SAFETY: the context's core outlives it, and the context stays borrowed as long as the writer does.
        unsafe { self.core().as_mut() }.telemetry.writer()
    }
}

impl Ports<'_> {
    fn core(&self) -> NonNull<Core> {
        Core::of(self.thread)
    }

    /// Declares that the task reads `input`.
    pub fn input<T: Send + 'static>(&mut self, input: &mut In<T>) {
        // SAFETY: the core outlives the ports, and no other reference to it is held.
        unsafe { self.core().as_mut() }.attach_reader(input.ring_pointer(), self.task);
    }

    /// Declares that the task reads all of `inputs`.
    pub fn inputs<T: Send + 'static>(&mut self, inputs: &mut Inputs<T>) {
        inputs.bind(self.core(), self.task);
    }

    /// Declares that the task writes `output`.
    pub fn output<T: Send + 'static>(&mut self, output: &mut Out<T>) {
        // SAFETY: the core outlives the ports, and no other reference to it is held.
        unsafe { self.core().as_mut() }.attach_writer(output.ring_pointer(), self.task);
    }
}
