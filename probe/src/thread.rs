//! A thread's writer, and where its calls are. This module has `unsafe`: the thread's state is behind a pointer in its local storage, so
//! that access to it costs one load.

use crate::kinds::{Called, HandedOver, Logged, Sent, TakenOver, TraceBegun};
use crate::process::{Process, count_lost};
use std::cell::Cell;
use std::collections::HashMap;
use std::ptr::null_mut;
use thalweg_space::{Kind, KindId, Writer};

/// What a thread has.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) writer: Writer,
    pub(crate) process: &'static Process,
    pub(crate) called: KindId<Called>,
    pub(crate) begun: KindId<TraceBegun>,
    pub(crate) handed: KindId<HandedOver>,
    pub(crate) taken: KindId<TakenOver>,
    pub(crate) sent: KindId<Sent>,
    pub(crate) logged: KindId<Logged<'static>>,
    /// The kinds of the program's own: their ids, under where the names and the fields of their types are.
    own: HashMap<(usize, usize), OwnKind>,
    /// An event is being written: a signal handler that finds it so loses its own.
    pub(crate) busy: bool,
    /// The trace here is left out.
    pub(crate) muted: bool,
    /// The next trace continues one that is left out.
    pub(crate) skip: bool,
    /// How many recorded calls enclose this point.
    pub(crate) depth: u32,
    /// What the sampling counts.
    pub(crate) traces: u64,
    /// How many changes of settings were adopted.
    pub(crate) changes: u64,
    /// The trace's identity, if it has one; the halves are 0 if only its parent is known.
    pub(crate) trace: Option<(u64, u64)>,
}

/// A kind's id, of whatever kind.
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
            // SAFETY: it was leaked by `open`, and only this thread had it; calls that are under way compare `CURRENT`.
            drop(unsafe { Box::from_raw(thread) });
        }
    }
}

/// The thread's state, made if need be; null where it cannot be made.
#[inline(always)]
pub(crate) fn here() -> *mut Thread {
    let thread = CURRENT.get();
    if thread.is_null() { open() } else { thread }
}

/// Whether `thread` is this thread's still.
#[inline(always)]
pub(crate) fn is_current(thread: *mut Thread) -> bool {
    CURRENT.get() == thread
}

/// Forgets the thread's state: in the child of a fork, where its writer is the parent's.
pub(crate) fn forget() {
    CURRENT.set(null_mut());
}

#[cold]
fn open() -> *mut Thread {
    // A thread that ends has no other state after the one that was dropped.
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

    /// Writes an event unless one is being written, which a signal handler interrupts.
    #[inline(always)]
    pub(crate) fn put<K: Kind>(&mut self, ticks: u64, kind: KindId<K>, event: &K) {
        // Volatile: a handler on this thread looks at it in between.
        // SAFETY: a field of our own.
        if unsafe { std::ptr::from_ref(&self.busy).read_volatile() } {
            return count_lost(1);
        }
        // SAFETY: as above.
        unsafe { std::ptr::from_mut(&mut self.busy).write_volatile(true) };
        self.writer.emit_at(ticks, kind, event);
        // SAFETY: as above.
        unsafe { std::ptr::from_mut(&mut self.busy).write_volatile(false) };
    }
}

/// Writes an event of a kind of one's own into the element of this thread, with the time now. The kind is declared with its first event.
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
    // SAFETY: null or this thread's own; no other reference to it lives here.
    let Some(thread) = (unsafe { here().as_mut() }) else { return };
    if thread.muted {
        return;
    }
    // Two kinds differ in one of them: of equal ones either will do.
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
