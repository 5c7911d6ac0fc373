//! What a user writes ([`Task`]) and is given for it ([`Context`], [`Ports`]). What they may ask of the runtime is said where that is known:
//! see `asking`.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::stop::Stop;
use crate::task::cell::{Current, Ring, TaskCell};
use crate::task::spec::TaskId;

/// A state machine that runs to completion: no stack of its own, so a million of them fit into memory.
pub trait Task: Send + 'static {
    /// Called once before the first run: says which ports are the task's. A port that is not named here becomes
    /// the task's when it first uses it.
    fn attach(&mut self, ports: &mut Ports<'_>) {
        let _ = ports;
    }

    /// Works on at most [`Context::quantum`] messages and says why it stopped. What it pushed becomes visible
    /// to the readers when it returns.
    fn run(&mut self, cx: &mut Context<'_>) -> Stop;

    /// The stream that it passes the `next` messages on by, all of them by this one, if it reads one stream and can work on what comes
    /// there next where that stands, each message giving one: see [`Task::work_on`]. Asked while it waits for input. None: it cannot, or
    /// not now, or they go different ways.
    fn passes_to(&mut self, next: HandedOn<'_>) -> Option<PassesTo<'_>> {
        let _ = next;
        None
    }

    /// Works on the next messages of its input where they stand, which is elsewhere than in that: another task has
    /// [handed them on](crate::In::hand_on). As many of them as it says are passed on by its output; those behind come by its input
    /// when it runs next, the first of them as this left it. `progress` counts from 0.
    fn work_on(&mut self, messages: HandedOn<'_>, progress: Progress<'_>) -> usize {
        let _ = (messages, progress);
        0
    }
}

/// The stream that a task passes messages on by: see [`Out::passes_to`](crate::Out::passes_to).
pub struct PassesTo<'a> {
    pub(crate) ring: NonNull<Ring>,
    pub(crate) _out: PhantomData<&'a mut Opaque>,
}

/// Messages of some type that a task is to work on where they stand.
pub struct HandedOn<'a> {
    pub(crate) of: TypeId,
    pub(crate) first: *mut u8,
    pub(crate) count: usize,
    pub(crate) _messages: PhantomData<&'a mut Opaque>,
}

impl<'a> HandedOn<'a> {
    /// The messages, if they are of this type.
    #[inline]
    pub fn of<T: Send + 'static>(self) -> Option<&'a mut [T]> {
        // SAFETY: the maker of this has put so many messages of its type there, and no other code looks at them as long as it lives.
        (self.of == TypeId::of::<T>())
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.first.cast::<T>(), self.count) })
    }
}

/// Says, in the live row of the calling thread's worker, which message its task is on: what a report of a run that died or
/// hangs in a box goes by. Costs a relaxed store a message; nothing without a space.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    pub(crate) cell: Option<&'a AtomicU64>,
    pub(crate) first: u64,
    /// The thread, where the time of each message is recorded.
    pub(crate) times: Option<Thread>,
}

/// The calling thread's part of the runtime: a pointer to its `Core`, for modules that must not know that
/// type.
pub(crate) type Thread = NonNull<Opaque>;

/// An opaque type: only pointers to it exist.
pub(crate) enum Opaque {}

/// A task's view of the runtime during one dispatch.
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

    /// How many messages the task should take at most before it stops with
    /// [`Stop::QuantumSpent`].
    #[inline]
    pub fn quantum(&self) -> usize {
        self.quantum
    }

    /// Says how many messages the next dispatch may take.
    pub(crate) fn set_quantum(&mut self, messages: usize) {
        self.quantum = messages;
    }

    /// Whether everything is being recorded (mode `full`), so that lineage is wanted.
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

/// The ports of a task about to start.
pub struct Ports<'a> {
    pub(crate) thread: Thread,
    pub(crate) task: &'a TaskCell,
}
