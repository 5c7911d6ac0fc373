//! The counters of a link. Each end writes its own counters, and any thread may read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters of one end of a link. Clones share the same counters.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    inner: Arc<Inner>,
}

/// The counters, which only the link's end writes. The counters are read at any time with relaxed loads,
/// because nothing depends on their order.
#[derive(Debug, Default)]
struct Inner {
    messages: AtomicU64,
    bytes: AtomicU64,
    wire_bytes: AtomicU64,
    frames: AtomicU64,
    connections: AtomicU64,
    resent_bytes: AtomicU64,
    queued_bytes: AtomicU64,
    credit_wait_ns: AtomicU64,
    port_wait_ns: AtomicU64,
    pace_wait_ns: AtomicU64,
    connection_wait_ns: AtomicU64,
}

/// The values of an end's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages accepted from the user (sender) or returned to the user (receiver).
    pub messages: u64,
    /// The bytes of the messages that were accepted or returned, without the lengths between messages.
    pub bytes: u64,
    /// Bytes written or read, headers included, after compression.
    pub wire_bytes: u64,
    /// Data frames.
    pub frames: u64,
    /// Connections that were made, the first included.
    pub connections: u64,
    /// Bytes of the stream that were sent again after a connection broke.
    pub resent_bytes: u64,
    /// Bytes that wait at this end now: not sent (sender), not consumed (receiver).
    pub queued_bytes: u64,
    /// Time for which the receiver had no room.
    pub credit_wait_ns: u64,
    /// Time for which all ports were in use.
    pub port_wait_ns: u64,
    /// Time for which the port's share of the bandwidth was used up.
    pub pace_wait_ns: u64,
    /// Time for which there was no connection, or the connection accepted nothing (sender) or held nothing
    /// (receiver).
    pub connection_wait_ns: u64,
}

/// What an end of a link waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Credit,
    Port,
    Pace,
    Connection,
}

impl Counters {
    /// The present values.
    pub fn read(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let inner = &self.inner;
        Counts {
            messages: of(&inner.messages),
            bytes: of(&inner.bytes),
            wire_bytes: of(&inner.wire_bytes),
            frames: of(&inner.frames),
            connections: of(&inner.connections),
            resent_bytes: of(&inner.resent_bytes),
            queued_bytes: of(&inner.queued_bytes),
            credit_wait_ns: of(&inner.credit_wait_ns),
            port_wait_ns: of(&inner.port_wait_ns),
            pace_wait_ns: of(&inner.pace_wait_ns),
            connection_wait_ns: of(&inner.connection_wait_ns),
        }
    }

    pub(crate) fn message(&self, bytes: usize) {
        add(&self.inner.messages, 1);
        add(&self.inner.bytes, bytes as u64);
    }

    pub(crate) fn frame(&self) {
        add(&self.inner.frames, 1);
    }

    pub(crate) fn wire(&self, bytes: usize) {
        add(&self.inner.wire_bytes, bytes as u64);
    }

    pub(crate) fn connection(&self, resent_bytes: u64) {
        add(&self.inner.connections, 1);
        add(&self.inner.resent_bytes, resent_bytes);
    }

    pub(crate) fn queued(&self, bytes: u64) {
        self.inner.queued_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn waited(&self, wait: Wait, time: Duration) {
        let counter = match wait {
            Wait::Credit => &self.inner.credit_wait_ns,
            Wait::Port => &self.inner.port_wait_ns,
            Wait::Pace => &self.inner.pace_wait_ns,
            Wait::Connection => &self.inner.connection_wait_ns,
        };
        add(counter, time.as_nanos() as u64);
    }
}

/// Adds to a counter by a load and a store and without a locked instruction, because only one thread writes
/// the counter.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
