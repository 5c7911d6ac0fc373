//! What a running task may ask of the runtime.

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
use crate::task::context::{Context, Ports, Progress, Task};
use crate::task::spec::{Replica, TaskId, TaskSpec};

impl<'a> Progress<'a> {
    /// The task now works on message `nth`, counted from the first message of this dispatch.
    #[inline(always)]
    pub fn on(&self, nth: usize) {
        if let Some(cell) = self.cell {
            cell.store(self.first + nth as u64, Ordering::Relaxed);
        }
        if let Some(thread) = self.times {
            // SAFETY: the core outlives the dispatch, which this borrows, and no other reference to it is held.
            unsafe { Core::of(thread).as_mut() }.message_begins(self.first + nth as u64);
        }
    }

    /// Whether it is recorded how long each message takes (mode `full`, and the messages take long enough for that): then
    /// [`Progress::on`] is to be called for each.
    #[inline]
    pub fn times_each(&self) -> bool {
        self.times.is_some()
    }

    /// After [`Progress::on`]: `write` records what the message is that the task is on, if the times of messages are recorded and they
    /// take so long that this costs little as well (`exec.clock_budget`). It is given the way to write events, the time at which the
    /// work on the message began, the running task, and the message's number.
    #[inline]
    pub fn describe(&self, write: impl FnOnce(&mut Writer, u64, TaskId, u64)) {
        if let Some(thread) = self.times {
            // SAFETY: as above; `write` gets nothing by which it could come to the core.
            let core = unsafe { Core::of(thread).as_mut() };
            let task = core.task.get();
            let number = task.id;
            if let Some((writer, since, index)) = core.telemetry.describes_message(task) {
                write(writer, since, number, index);
            }
        }
    }

    /// The cell that shows the message's number, if there is a reader for it, and the number of the message that this counts
    /// from: for a task that writes the cell itself.
    #[inline]
    pub fn cell(self) -> (Option<&'a AtomicU64>, u64) {
        (self.cell, self.first)
    }

    /// The same, counting from `nth` messages later.
    pub fn after(self, nth: usize) -> Progress<'a> {
        Progress { first: self.first + nth as u64, ..self }
    }
}

impl Context<'_> {
    /// A way to say which message the task is on, counted from its `first`. Between dispatches the runtime says it; a task
    /// that runs users' code says it before each message.
    #[inline]
    pub fn progress(&self, first: u64) -> Progress<'_> {
        // SAFETY: the context's core outlives it, and its row stays as it is during a dispatch.
        let cell = unsafe { &(*self.core().as_ptr()).telemetry }.message_cell();
        Progress { cell, first, times: self.times_each.then_some(self.thread) }
    }

    /// How many messages of `input` can be [handed on](crate::In::hand_on) to the task that waits for the next one of `out` on this
    /// thread, if it works on messages where they stand; 0: they are to be written, as messages from another thread are, so that it has room for others meanwhile.
    #[inline]
    pub fn hands_on<T: Send + 'static>(&mut self, input: &In<T>, out: &Out<T>) -> usize {
        // SAFETY: the context's core outlives it, and no other reference to it is held.
        let core = unsafe { self.core().as_ref() };
        if !input.ring().is_written_here(core.me) {
            return 0;
        }
        core.waiting_reader(out.ring()).map_or(0, |_| out.ring().capacity() as usize)
    }

    /// The time of the message on which the task works is not recorded, since the work goes on in other dispatches.
    pub fn forget_time(&mut self) {
        // SAFETY: the context's core outlives it, and no other reference to it is held.
        unsafe { self.core().as_mut() }.telemetry.message_goes_on();
    }

    /// Creates a task. It runs for the first time after this dispatch, on the worker that the mapper chooses.
    pub fn spawn(&mut self, spec: TaskSpec, task: impl Task) -> TaskId {
        Core::spawn(self.core(), spec, Box::new(task))
    }

    /// Creates a task with a thread of its own, which starts at once: see [`Runtime::spawn_blocking`](crate::Runtime::spawn_blocking).
    pub fn spawn_blocking(
        &mut self,
        spec: TaskSpec,
        work: impl FnOnce(&mut Blocking) + Send + 'static,
    ) -> TaskId {
        // SAFETY: the context's core outlives it, and no other reference to it is held.
        let shared = unsafe { self.core().as_ref() }.shared.clone();
        shared.spawn_blocking(self.core(), spec, |_| always_well(work))
    }

    /// The replicas of a split that are made later.
    pub fn spread(&mut self) -> Spread {
        self.shared().spreading.new_spread()
    }

    /// Makes a replica: `make` creates its tasks, with this in their specifications ([`TaskSpec::together`]).
    pub fn replica<R>(&mut self, spread: &Spread, make: impl FnOnce(&mut Self, Option<Replica>) -> R) -> R {
        let shared = self.shared();
        let siblings = spread.0.as_ref().filter(|_| shared.tuning.spreads());
        let Some(siblings) = siblings else { return make(self, None) };
        // SAFETY: the context's core outlives it; the reference ends with the line.
        let (now, worker) = unsafe { (self.core().as_mut().telemetry.clock(), self.core().as_ref().worker) };
        let here = (worker, shared.taking_part());
        siblings.is_dealt_by(self.task.get());
        let replica = shared.spreading.new_replica(siblings, here, &shared.clock, now);
        let made = make(self, Some(replica));
        // From now on it lives as long as its tasks.
        shared.spreading.task_ended(replica.number);
        made
    }

    fn shared(&self) -> Arc<Shared> {
        // SAFETY: the context's core outlives it, and no other reference to it is held.
        unsafe { self.core().as_ref() }.shared.clone()
    }

    /// The core that the context is of.
    #[inline(always)]
    pub(crate) fn core(&self) -> NonNull<Core> {
        Core::of(self.thread)
    }

    /// Creates a stream.
    pub fn stream<T: Send + 'static>(&mut self, spec: StreamSpec) -> (Out<T>, In<T>) {
        // SAFETY: the context's core outlives it, and no other reference to it is held.
        unsafe { self.core().as_ref() }.shared.stream(spec)
    }

    /// Creates a stream of messages that say how large they are.
    pub fn sized_stream<T: DeepSize + Send + 'static>(&mut self, spec: StreamSpec) -> (Out<T>, In<T>) {
        // SAFETY: the context's core outlives it, and no other reference to it is held.
        unsafe { self.core().as_ref() }.shared.sized_stream(spec)
    }

    /// Says that a stream created while running is written by this task (its first push would do).
    pub fn attach_output<T: Send + 'static>(&mut self, out: &mut Out<T>) {
        // SAFETY: the context's core outlives it, and no other reference to it is held.
        unsafe { self.core().as_mut() }.attach_writer(out.ring_pointer(), self.task.get())
    }

    /// Says that what was just pushed on `out` descends from the message popped last, in this dispatch or in one
    /// before. Only needed in mode
    /// `full`, and only of tasks that are not [`one_to_one`](TaskSpec::one_to_one).
    #[inline]
    pub fn derived<T: Send + 'static>(&mut self, out: &Out<T>) {
        if self.full {
            // SAFETY: the context's core outlives it, and no other reference to it is held.
            unsafe { self.core().as_mut() }.note_derived(out.ring())
        }
    }

    /// The message popped last, in this dispatch or in one before: its stream and its index there. None but in mode `full`.
    /// For tasks that write later what came of it: see [`Context::derived_from`].
    #[inline]
    pub fn last_read(&self) -> Option<(u64, u64)> {
        // SAFETY: the context's core outlives it, and no other reference to it is held.
        if self.full { unsafe { self.core().as_ref() }.last_read() } else { None }
    }

    /// As [`Context::derived`], of a message popped earlier, or of one that the task takes in this dispatch. Records nothing if `read` is
    /// None: the message is not known.
    #[inline]
    pub fn derived_from<T: Send + 'static>(&mut self, out: &Out<T>, read: Option<(u64, u64)>) {
        if let (true, Some(parent)) = (self.full, read) {
            // SAFETY: the context's core outlives it, and no other reference to it is held.
            unsafe { self.core().as_mut() }.note(out.ring(), parent, None)
        }
    }

    /// The writer for events of the program's own, into this thread's element. None without a space.
    pub fn writer(&mut self) -> Option<&mut Writer> {
        // SAFETY: the context's core outlives it, and the context stays borrowed as long as the writer does.
        unsafe { self.core().as_mut() }.telemetry.writer()
    }
}

impl Ports<'_> {
    fn core(&self) -> NonNull<Core> {
        Core::of(self.thread)
    }

    /// The task reads `input`.
    pub fn input<T: Send + 'static>(&mut self, input: &mut In<T>) {
        // SAFETY: the core outlives the ports, and no other reference to it is held.
        unsafe { self.core().as_mut() }.attach_reader(input.ring_pointer(), self.task);
    }

    /// The task reads all of `inputs`.
    pub fn inputs<T: Send + 'static>(&mut self, inputs: &mut Inputs<T>) {
        inputs.bind(self.core(), self.task);
    }

    /// The task writes `output`.
    pub fn output<T: Send + 'static>(&mut self, output: &mut Out<T>) {
        // SAFETY: the core outlives the ports, and no other reference to it is held.
        unsafe { self.core().as_mut() }.attach_writer(output.ring_pointer(), self.task);
    }
}
