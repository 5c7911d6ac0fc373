//! Events from signal handlers. This module has `unsafe`: a handler and the code that it interrupts share the
//! writer.
//!
//! A handler may interrupt a writer in the middle of an event, so handlers have a writer of their own; a
//! handler may also interrupt another handler, or run on several threads at once. A handler that finds the
//! writer busy drops its event and counts it.

use crate::element::Policy;
use crate::error::Error;
use crate::kind::{Kind, KindId};
use crate::options::ElementOptions;
use crate::space::Space;
use crate::writer::Writer;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Writes events from signal handlers and from other code, without a system call, a lock or an allocation.
///
/// ```
/// # use std::sync::OnceLock;
/// # use thalweg_space::{ElementOptions, Kind, KindId, SignalWriter, Space, SpaceOptions};
/// /// A signal came.
/// #[derive(Kind)]
/// #[kind(name = "example.signal")]
/// struct Signal {
///     number: u32,
/// }
///
/// static WRITER: OnceLock<(SignalWriter, KindId<Signal>)> = OnceLock::new();
///
/// extern "C" fn handler(number: i32) {
///     if let Some((writer, signal)) = WRITER.get() {
///         writer.emit(*signal, &Signal { number: number as u32 });
///     }
/// }
/// # let parent = std::env::temp_dir().join(format!("thalweg-signal-{}", std::process::id()));
/// # std::fs::create_dir_all(&parent).unwrap();
/// # let options = SpaceOptions { name: "signal".into(), parent: Some(parent.clone()), ..Default::default() };
/// # let space = Space::create(options)?;
/// let mut writer = SignalWriter::new(&space, "signals", ElementOptions::default())?;
/// let signal = writer.declare::<Signal>()?;
/// let _ = WRITER.set((writer, signal));
/// // … and now sigaction(SIGUSR1, handler).
/// # handler(10);
/// # std::fs::remove_dir_all(parent).unwrap();
/// # Ok::<(), thalweg_space::Error>(())
/// ```
#[derive(Debug)]
pub struct SignalWriter {
    /// Whether a thread or handler uses the writer; set by a swap with acquire ordering, cleared by a store
    /// with release ordering.
    busy: AtomicBool,
    /// The number of events that were dropped because the writer was busy, since the last event that was
    /// written.
    missed: AtomicU64,
    /// Used only by the thread or handler that set `busy`, or through an exclusive reference to the
    /// `SignalWriter`.
    writer: UnsafeCell<Writer>,
}

// SAFETY: the writer is `Send`, and `busy` admits one thread or handler at a time.
unsafe impl Sync for SignalWriter {}

impl SignalWriter {
    /// A writer for handlers, with an element of its own.
    ///
    /// # Errors
    /// Fails as [`Space::writer_with`] does, and when the policy is to wait, which a handler must not do.
    pub fn new(space: &Space, name: &str, options: ElementOptions) -> Result<SignalWriter, Error> {
        if matches!(options.policy, Policy::Wait { .. }) {
            return Err(Error::new("a signal handler must not wait: take another policy than that"));
        }
        let writer = UnsafeCell::new(space.writer_with(name, options)?);
        Ok(SignalWriter { busy: AtomicBool::new(false), missed: AtomicU64::new(0), writer })
    }

    /// Declares a kind. Signal handlers must not call this function.
    ///
    /// # Errors
    /// Fails as [`Writer::declare`] does.
    pub fn declare<K: Kind>(&mut self) -> Result<KindId<K>, Error> {
        self.writer.get_mut().declare()
    }

    /// Writes an event with the current time; returns `false` if another event was just being written, in
    /// which case this event is dropped and counted.
    pub fn emit<K: Kind>(&self, kind: KindId<K>, event: &K) -> bool {
        if self.busy.swap(true, Ordering::Acquire) {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        // SAFETY: `busy` was clear and this thread set it, so no other thread or handler uses the writer
        // until it is cleared.
        let writer = unsafe { &mut *self.writer.get() };
        writer.drop_events(self.missed.swap(0, Ordering::Relaxed));
        writer.emit(kind, event);
        self.busy.store(false, Ordering::Release);
        true
    }
}

impl Drop for SignalWriter {
    fn drop(&mut self) {
        self.writer.get_mut().drop_events(*self.missed.get_mut());
    }
}
