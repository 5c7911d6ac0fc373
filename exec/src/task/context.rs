//! What a user writes ([`Task`]) and is given for it ([`Context`], [`Ports`]). What they may ask of the runtime is said where that is known:
//! see `asking`.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::stop::Stop;
use crate::task::cell::{Current, TaskCell};
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
}

/// The calling thread's part of the runtime: a `Core`, as those see it that do not know it.
pub(crate) type Thread = NonNull<Opaque>;

/// Nothing that can be looked at.
pub(crate) enum Opaque {}

/// A task's view of the runtime during one dispatch.
pub struct Context<'a> {
    pub(crate) thread: Thread,
    pub(crate) task: Current,
    quantum: usize,
    pub(crate) full: bool,
    /// Whether the time of each message is told.
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
