//! The trait that a user implements ([`Task`]), and the values that the runtime passes to it ([`Context`],
//! [`Ports`]). The methods of `Context` and `Ports` that call the runtime are in `runtime/asking.rs`.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::stop::Stop;
use crate::task::cell::{Current, Ring, TaskCell};
use crate::task::spec::TaskId;

/// A state machine that runs to completion. A task has no stack of its own, so a million tasks fit into
/// memory.
pub trait Task: Send + 'static {
    /// Names the task's ports. The runtime calls this once, before it first runs the task. A port that is not
    /// named here becomes the task's when the task first uses it.
    fn attach(&mut self, ports: &mut Ports<'_>) {
        let _ = ports;
    }

    /// Works on at most [`Context::quantum`] messages and returns why it stopped. Messages that the call
    /// pushed become visible to their readers when it returns.
    fn run(&mut self, cx: &mut Context<'_>) -> Stop;

    /// The output stream that the `next` messages all pass to, if the task reads one stream, can work on these
    /// messages in place, and writes one message for each: see [`Task::work_on`]. The runtime calls this while
    /// the task waits for input. `None` means that the task cannot work in place, or not now, or that the
    /// messages pass to different streams.
    fn passes_to(&mut self, next: HandedOn<'_>) -> Option<PassesTo<'_>> {
        let _ = next;
        None
    }

    /// Works in place on the next messages of the task's input, which are not in the input stream because
    /// another task has [handed them on](crate::In::hand_on). Returns how many of the messages go on to the
    /// task's output; the others come by the input stream when the task runs next, the first of them in the
    /// state in which this call left it. `progress` counts from 0.
    fn work_on(&mut self, messages: HandedOn<'_>, progress: Progress<'_>) -> usize {
        let _ = (messages, progress);
        0
    }
}

/// The stream by which a task passes messages on: see [`Out::passes_to`](crate::Out::passes_to).
pub struct PassesTo<'a> {
    pub(crate) ring: NonNull<Ring>,
    pub(crate) _out: PhantomData<&'a mut Opaque>,
}

/// Messages of some type on which a task works in place.
pub struct HandedOn<'a> {
    pub(crate) of: TypeId,
    pub(crate) first: *mut u8,
    pub(crate) count: usize,
    pub(crate) _messages: PhantomData<&'a mut Opaque>,
}

impl<'a> HandedOn<'a> {
    /// The messages, if they are of the type `T`.
    #[inline]
    pub fn of<T: Send + 'static>(self) -> Option<&'a mut [T]> {
        // SAFETY: the code that made this value guarantees `count` messages of the type `of` at `first`,
        // which no other code accesses while the value lives.
        (self.of == TypeId::of::<T>())
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.first.cast::<T>(), self.count) })
    }
}

/// Shows, in the live row of the calling thread's worker, which message its task works on, for reports on a
/// run that died or hangs in a box. A report costs a relaxed store for each message, and nothing without a
/// space.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    pub(crate) cell: Option<&'a AtomicU64>,
    pub(crate) first: u64,
    /// The calling thread, if the time of each message is recorded.
    pub(crate) times: Option<Thread>,
}

/// The calling thread's part of the runtime: a pointer to its `Core`, for modules that must not know that
/// type.
pub(crate) type Thread = NonNull<Opaque>;

/// An opaque type: only pointers to it exist.
pub(crate) enum Opaque {}

/// The calls that a task may make to the runtime during one dispatch.
pub struct Context<'a> {
    pub(crate) thread: Thread,
    pub(crate) task: Current,
    quantum: usize,
    pub(crate) full: bool,
    /// Whether the time of each message is recorded.
    pub(crate) times_each: bool,
    _dispatch: PhantomData<&'a mut Opaque>,
}

impl Context<'_> {
    #[inline]
    pub(crate) fn new(
        thread: Thread,
        task: Current,
        quantum: usize,
        (full, times_each): (bool, bool),
    ) -> Self {
        Context { thread, task, quantum, full, times_each, _dispatch: PhantomData }
    }

    /// The most messages that the task should read before it stops with [`Stop::QuantumSpent`].
    #[inline]
    pub fn quantum(&self) -> usize {
        self.quantum
    }

    /// Sets how many messages the next dispatch may read.
    pub(crate) fn set_quantum(&mut self, messages: usize) {
        self.quantum = messages;
    }

    /// Whether the mode is `full`, in which lineage is recorded.
    #[inline]
    pub fn full(&self) -> bool {
        self.full
    }

    /// The task being dispatched.
    #[inline]
    pub(crate) fn task(&self) -> &TaskCell {
        self.task.get()
    }

    /// The running task's number.
    pub fn task_id(&self) -> TaskId {
        self.task().id
    }
}

/// Registers the ports of a task that is about to start.
pub struct Ports<'a> {
    pub(crate) thread: Thread,
    pub(crate) task: &'a TaskCell,
}
