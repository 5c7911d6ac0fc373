//! Operations and their calls. This module contains `unsafe` code, because a call has a pointer to its
//! thread's state.

use crate::kinds::{Called, Counted, Gauged, Outcome, Resumed};
use crate::process::{Process, count_lost, remember};
use crate::thread::{self, Thread};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

/// The switch of operations that are not declared yet.
static ON: AtomicU64 = AtomicU64::new(1);
/// The switch of all operations if the space cannot be created.
static OFF: AtomicU64 = AtomicU64::new(0);

/// A place in the program whose calls are recorded; also the name of a counter or gauge.
#[derive(Debug)]
pub struct Operation {
    /// The operation's switch: [`ON`], or a word of the space. Stored with release, after `id`.
    on: AtomicPtr<AtomicU64>,
    /// The operation's number in the catalog; 0 if the operation is not declared yet.
    id: AtomicU32,
    /// Whether a thread is declaring the operation.
    declaring: AtomicBool,
    /// The next operation in the list of declared ones, which was declared before this one.
    pub(crate) next: AtomicPtr<Operation>,
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) file: &'static str,
    pub(crate) line: u32,
}

impl Operation {
    /// The operation of this name in this line.
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Operation {
        Operation::of_kind(name, "operation", file, line)
    }

    /// A counter or gauge of this name in this line; `kind` is `counter` or `gauge`.
    pub const fn of_kind(name: &'static str, kind: &'static str, file: &'static str, line: u32) -> Operation {
        Operation {
            on: AtomicPtr::new(std::ptr::from_ref(&ON).cast_mut()),
            id: AtomicU32::new(0),
            declaring: AtomicBool::new(false),
            next: AtomicPtr::new(null_mut()),
            name,
            kind,
            file,
            line,
        }
    }

    /// Begins a call, which ends when the returned value is dropped.
    #[inline(always)]
    #[must_use = "the call ends when this is dropped"]
    pub fn enter(&'static self) -> Call {
        // SAFETY: the switch is a static, or a word of a probe that is never dropped.
        if unsafe { &*self.on.load(Ordering::Relaxed) }.load(Ordering::Relaxed) == 0 {
            return Call::NONE;
        }
        self.begin()
    }

    /// Begins a further stretch of a call that has paused, as the call of an `async` function does between two
    /// polls. The stretch, which ends when the returned value is dropped, adds to the operation's time and not
    /// to its number of calls.
    #[inline(always)]
    #[must_use = "the stretch ends when this is dropped"]
    pub fn resume(&'static self) -> Call {
        let mut call = self.enter();
        call.is_resumed = true;
        call
    }

    /// Begins a call of an operation that is on. This is a separate function, so that a call of an operation
    /// that is off need not save registers.
    #[inline(never)]
    fn begin(&'static self) -> Call {
        let thread = thread::here();
        // SAFETY: `here` returns null or this thread's own state, to which no other reference lives in this
        // function.
        let Some(state) = (unsafe { thread.as_mut() }) else {
            if Process::is_none() {
                self.on.store(std::ptr::from_ref(&OFF).cast_mut(), Ordering::Relaxed);
            }
            return Call::NONE;
        };
        let id = self.id.load(Ordering::Acquire);
        if state.muted || state.depth == 0 || id == 0 {
            match self.begins(state) {
                Begins::Recorded => {}
                Begins::LeftOut => return Call { thread, ..Call::NONE },
                Begins::Not => return Call::NONE,
            }
        }
        let (id, depth) = (self.id.load(Ordering::Relaxed), state.depth);
        state.depth = depth + 1;
        Call { thread, entry: state.writer.clock().now(), id, depth, ..Call::NONE }
    }

    /// Declares the operation, and decides at the start of a trace whether the trace is recorded.
    fn begins(&'static self, state: &mut Thread) -> Begins {
        if state.muted || (self.id.load(Ordering::Acquire) == 0 && !self.declare()) {
            return Begins::Not;
        }
        if state.depth > 0 {
            return Begins::Recorded;
        }
        let changes = state.process.changes.load();
        if changes != state.changes {
            state.changes = changes;
            // A change of settings applies even if it cannot be recorded.
            let _ = state.process.space.adopt();
        }
        let sample = state.process.sample.load().max(1);
        if !std::mem::take(&mut state.skip) {
            if sample == 1 || state.trace.is_some() {
                return Begins::Recorded;
            }
            state.traces += 1;
            if (state.traces - 1).is_multiple_of(sample) {
                return Begins::Recorded;
            }
        }
        state.muted = true;
        Begins::LeftOut
    }

    /// Declares the operation; returns whether it is on.
    #[cold]
    fn declare(&'static self) -> bool {
        let Some(process) = Process::get() else {
            count_lost(1);
            return false;
        };
        while self.declaring.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        if self.id.load(Ordering::Acquire) == 0 {
            match process.declare(self) {
                Some((on, id)) => {
                    self.id.store(id, Ordering::Release);
                    self.on.store(std::ptr::from_ref(on).cast_mut(), Ordering::Release);
                    remember(self);
                }
                None => count_lost(1),
            }
        }
        self.declaring.store(false, Ordering::Release);
        // SAFETY: the switch is a static, or a word of a probe that is never dropped.
        self.id.load(Ordering::Acquire) != 0
            && unsafe { &*self.on.load(Ordering::Acquire) }.load(Ordering::Relaxed) != 0
    }

    /// Resets the operation in the child of a fork, so that it is declared again.
    pub(crate) fn forget(&self) {
        self.id.store(0, Ordering::Relaxed);
        self.declaring.store(false, Ordering::Relaxed);
        self.on.store(std::ptr::from_ref(&ON).cast_mut(), Ordering::Relaxed);
    }

    /// The operation's number, if it is on.
    pub(crate) fn number(&'static self) -> Option<u32> {
        let id = self.id.load(Ordering::Acquire);
        if id == 0 {
            return self.declare().then(|| self.id.load(Ordering::Relaxed));
        }
        // SAFETY: the switch is a static, or a word of a probe that is never dropped.
        (unsafe { &*self.on.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0).then_some(id)
    }

    /// Adds `by` to the counter.
    pub fn count(&'static self, by: i64) {
        if let Some(counter) = self.number() {
            thread::emit(&Counted { counter, by });
        }
    }

    /// Records a value of the gauge.
    pub fn gauge(&'static self, value: f64) {
        if let Some(gauge) = self.number() {
            thread::emit(&Gauged { gauge, value });
        }
    }
}

/// Whether a call is recorded.
enum Begins {
    Recorded,
    /// The call is the outermost one of a trace that is not recorded.
    LeftOut,
    Not,
}

/// A running call, which ends when this value is dropped.
#[derive(Debug)]
pub struct Call {
    /// The state of the call's thread; null if the call is not recorded.
    thread: *mut Thread,
    /// The time at which the call began; 0 if it is the outermost call of a trace that is not recorded.
    entry: u64,
    id: u32,
    depth: u32,
    outcome: Outcome,
    /// Whether this is a further stretch of a call that had paused.
    is_resumed: bool,
    here: PhantomData<*mut ()>,
}

impl Call {
    /// A call that is not recorded.
    const NONE: Call = Call {
        thread: null_mut(),
        entry: 0,
        id: 0,
        depth: 0,
        outcome: Outcome::Returned,
        is_resumed: false,
        here: PhantomData,
    };

    /// Marks the call as failed, although it returns.
    pub fn fail(&mut self) {
        self.outcome = Outcome::Failed;
    }

    /// Marks the call as failed if the result is an error.
    #[inline]
    pub fn result<T, E>(&mut self, result: &Result<T, E>) {
        if result.is_err() {
            self.fail();
        }
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.thread.is_null() {
            self.end();
        }
    }
}

impl Call {
    /// Records the call. This is a separate function, so that a call that is not recorded need not save
    /// registers.
    #[inline(never)]
    fn end(&mut self) {
        // The thread's state was replaced if the thread is ending, or in the child of a fork.
        if !thread::is_current(self.thread) {
            return;
        }
        // SAFETY: the comparison above shows that this is the thread's own state, to which no other reference
        // lives in this function.
        let state = unsafe { &mut *self.thread };
        if self.entry == 0 {
            state.muted = false;
            return;
        }
        let now = state.writer.clock().now();
        state.depth = self.depth;
        let mut outcome = self.outcome;
        if std::thread::panicking() {
            outcome = Outcome::Unwound;
        }
        let (operation, depth) = (self.id, self.depth.min(0xffff) as u16);
        let called = Called { operation, depth, outcome, duration: now.wrapping_sub(self.entry) };
        if self.is_resumed {
            put_resumed(state, now, called);
        } else {
            let kind = state.called;
            state.put(now, kind, &called);
        }
        if depth == 0 {
            state.trace = None;
        }
    }
}

/// Records a further stretch of a call. This is a separate function, so that a call that does not pause has
/// less code.
#[inline(never)]
fn put_resumed(state: &mut Thread, now: u64, stretch: Called) {
    let Called { operation, depth, outcome, duration } = stretch;
    let kind = state.resumed;
    state.put(now, kind, &Resumed { operation, depth, outcome, duration });
}

/// A future that is recorded as one call; each poll of the future is a stretch of the call.
#[derive(Debug)]
pub struct Polled<F> {
    operation: &'static Operation,
    is_begun: bool,
    future: F,
}

impl<F: Future> Polled<F> {
    /// Records `future` as one call of `operation`.
    pub fn new(operation: &'static Operation, future: F) -> Polled<F> {
        Polled { operation, is_begun: false, future }
    }
}

impl<T, E, F: Future<Output = Result<T, E>>> Polled<F> {
    /// Records `future` as one call of `operation`, which has failed if the future returns an error.
    pub fn errors(operation: &'static Operation, future: F) -> impl Future<Output = Result<T, E>> {
        PolledErrors(Polled::new(operation, future))
    }
}

impl<F: Future> Polled<F> {
    /// Begins the next stretch of the call; also returns the future.
    fn begin(self: Pin<&mut Self>) -> (Call, Pin<&mut F>) {
        // SAFETY: the future is never moved out of its place.
        let polled = unsafe { self.get_unchecked_mut() };
        let is_resumed = std::mem::replace(&mut polled.is_begun, true);
        let call = if is_resumed { polled.operation.resume() } else { polled.operation.enter() };
        // SAFETY: as above.
        (call, unsafe { Pin::new_unchecked(&mut polled.future) })
    }
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let (_call, future) = self.begin();
        future.poll(context)
    }
}

struct PolledErrors<F>(Polled<F>);

impl<T, E, F: Future<Output = Result<T, E>>> Future for PolledErrors<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is never moved out of its place.
        let (mut call, future) = unsafe { self.map_unchecked_mut(|polled| &mut polled.0) }.begin();
        let polled = future.poll(context);
        if let Poll::Ready(result) = &polled {
            call.result(result);
        }
        polled
    }
}
