//! A thread's writer and the state of its calls. This module contains `unsafe` code: the thread's state is
//! behind a pointer in its local storage, so that access to it costs one load.

use crate::kinds::{Called, HandedOver, Logged, Resumed, Sent, TakenOver, TraceBegun};
use crate::process::{Process, count_lost};
use std::cell::Cell;
use std::collections::HashMap;
use std::ptr::null_mut;
use thalweg_space::{Kind, KindId, Writer};

/// The state of a thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) writer: Writer,
    pub(crate) process: &'static Process,
    pub(crate) called: KindId<Called>,
    pub(crate) resumed: KindId<Resumed>,
    pub(crate) begun: KindId<TraceBegun>,
    pub(crate) handed: KindId<HandedOver>,
    pub(crate) taken: KindId<TakenOver>,
    pub(crate) sent: KindId<Sent>,
    pub(crate) logged: KindId<Logged<'static>>,
    /// The ids of the program's own kinds, by the addresses of the names and fields of their types.
    own: HashMap<(usize, usize), OwnKind>,
    /// Whether an event is being written: a signal handler that interrupts the writing loses its own event.
    pub(crate) busy: bool,
    /// Whether the present trace is not recorded.
    pub(crate) muted: bool,
    /// Whether the next trace continues one that is not recorded.
    pub(crate) skip: bool,
    /// The number of recorded calls that enclose the present point.
    pub(crate) depth: u32,
    /// The number of traces, counted for sampling.
    pub(crate) traces: u64,
    /// The number of changes of settings that were adopted.
    pub(crate) changes: u64,
    /// The identity of the present trace, if it has one; the halves are 0 if only the trace's parent is
    /// known.
    pub(crate) trace: Option<(u64, u64)>,
}

/// The id of a kind that the program defines, without the kind's type.
#[derive(Clone, Copy, Debug)]
struct OwnKind(KindId<()>);

thread_local! {
    static CURRENT: Cell<*mut Thread> = const { Cell::new(null_mut()) };
    static OWNER: Owner = const { Owner };
}

/// Ends the thread's writer when the thread ends.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        let thread = CURRENT.replace(null_mut());
        if !thread.is_null() {
            // SAFETY: the state was leaked by `open`, and only this thread used it; running calls compare
            // `CURRENT` before they use it.
            drop(unsafe { Box::from_raw(thread) });
        }
    }
}

/// The thread's state, created if needed; null if it cannot be created.
#[inline(always)]
pub(crate) fn here() -> *mut Thread {
    let thread = CURRENT.get();
    if thread.is_null() { open() } else { thread }
}

/// Whether `thread` is still the state of this thread.
#[inline(always)]
pub(crate) fn is_current(thread: *mut Thread) -> bool {
    CURRENT.get() == thread
}

/// Forgets the thread's state in the child of a fork, because its writer belongs to the parent.
pub(crate) fn forget() {
    CURRENT.set(null_mut());
}

#[cold]
fn open() -> *mut Thread {
    // A thread that is ending gets no new state after its state was dropped.
    if OWNER.try_with(|_| ()).is_err() {
        count_lost(1);
        return null_mut();
    }
    match Thread::new() {
        Some(thread) => {
            let thread = Box::into_raw(Box::new(thread));
            CURRENT.set(thread);
            thread
        }
        None => {
            count_lost(1);
            null_mut()
        }
    }
}

impl Thread {
    fn new() -> Option<Thread> {
        let process = Process::get()?;
        let current = std::thread::current();
        let mut writer = process.space.writer(current.name().unwrap_or("thread")).ok()?;
        Some(Thread {
            called: writer.declare().ok()?,
            resumed: writer.declare().ok()?,
            begun: writer.declare().ok()?,
            handed: writer.declare().ok()?,
            taken: writer.declare().ok()?,
            sent: writer.declare().ok()?,
            logged: writer.declare::<Logged<'static>>().ok()?,
            writer,
            process,
            own: HashMap::new(),
            busy: false,
            muted: false,
            skip: false,
            depth: 0,
            traces: 0,
            changes: process.changes.load(),
            trace: None,
        })
    }

    /// Writes an event, unless this is called by a signal handler that interrupted the writing of another
    /// event.
    #[inline(always)]
    pub(crate) fn put<K: Kind>(&mut self, ticks: u64, kind: KindId<K>, event: &K) {
        // The access is volatile, because a signal handler on this thread may read the flag in between.
        // SAFETY: the pointer is to a field of `self`.
        if unsafe { std::ptr::from_ref(&self.busy).read_volatile() } {
            return count_lost(1);
        }
        // SAFETY: the pointer is to a field of `self`.
        unsafe { std::ptr::from_mut(&mut self.busy).write_volatile(true) };
        self.writer.emit_at(ticks, kind, event);
        // SAFETY: the pointer is to a field of `self`.
        unsafe { std::ptr::from_mut(&mut self.busy).write_volatile(false) };
    }
}

/// Writes an event of a kind that the program defines into the element of this thread, with the present time.
/// The kind is declared with its first event.
///
/// ```
/// /// An order was placed.
/// #[derive(thalweg_space::Kind)]
/// #[kind(name = "shop.order_placed")]
/// struct OrderPlaced<'a> {
///     customer: u64,
///     item: &'a str,
/// }
/// # let parent = std::env::temp_dir().join(format!("thalweg-emit-{}", std::process::id()));
/// # unsafe { std::env::set_var("THALWEG_SPACES", &parent) };
/// thalweg_probe::emit(&OrderPlaced { customer: 7, item: &String::from("tea") });
/// # std::fs::remove_dir_all(parent).unwrap();
/// ```
pub fn emit<K: Kind>(event: &K) {
    // SAFETY: `here` returns null or this thread's own state, to which no other reference lives in this
    // function.
    let Some(thread) = (unsafe { here().as_mut() }) else { return };
    if thread.muted {
        return;
    }
    // Two different kinds differ in the address of their name or of their fields; equal kinds may be
    // registered twice without harm.
    let of_kind = (K::NAME.as_ptr() as usize, K::FIELDS.as_ptr() as usize);
    let kind = match thread.own.get(&of_kind) {
        Some(own) => own.0.of_type(),
        None => {
            let Ok(kind) = thread.writer.declare::<K>() else { return count_lost(1) };
            thread.own.insert(of_kind, OwnKind(kind.of_type()));
            kind
        }
    };
    let now = thread.writer.clock().now();
    thread.put(now, kind, event);
}
