//! Ends the wait of a link's end from another thread.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the wait of a link's end; the waiting call then returns an error that says that the end was stopped.
/// Clones share the same state.
#[derive(Clone, Debug)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Whether the end was stopped. The field is set once, by the thread that calls [`Stop::stop`], before it
    /// rings the bell.
    asked: AtomicBool,
    bell: OwnedFd,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Stop> {
        Ok(Stop { inner: Arc::new(Inner { asked: AtomicBool::new(false), bell: bell()? }) })
    }

    /// Stops the end, now or when it waits next.
    pub fn stop(&self) {
        self.inner.asked.store(true, Ordering::Release);
        ring(self.inner.bell.as_fd());
    }

    /// Whether this and `other` stop the same end of a link.
    pub fn is_of(&self, other: &Stop) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.inner.asked.load(Ordering::Acquire)
    }

    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.inner.bell.as_fd()
    }
}

/// Makes a file descriptor that is readable after it was rung.
pub(crate) fn bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

pub(crate) fn ring(bell: BorrowedFd<'_>) {
    // The write fails only if the bell was rung 2⁶⁴ times without being read.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Resets a bell that was rung.
pub(crate) fn silence(bell: BorrowedFd<'_>) {
    let _ = rustix::io::read(bell, &mut [0; 8]);
}
