//! The ports of a node: at most `k` links send at once, and `k` receive, each at one k-th of the bandwidth if
//! that is limited.
//!
//! A link takes a port for one frame and gives it back, so links take turns; a link with a slow receiver has
//! no frame to send and holds no port. This is the k-port model of networks: each node may use k connections
//! at a time.

use crate::pace::Pace;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most ports of a node in one direction.
pub const PORTS_MAX: u32 = 256;

/// The ports of a node in one direction. Clones share the same ports.
#[derive(Clone, Debug)]
pub struct Ports {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// The number of ports. The field is written by any thread, read when a port is taken.
    count: AtomicU32,
    /// Bytes per second of all ports together; 0: no limit. The field is written by any thread, read before
    /// each frame.
    bandwidth: AtomicU64,
    /// The bytes that went through all ports.
    carried: AtomicU64,
    begun: Instant,
    turns: Mutex<Turns>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    /// The ports that are not in use, as a stack with the last used one on top.
    free: Vec<Port>,
    /// The number of ports, free or in use.
    made: u32,
    /// The turns of the links that wait, in order.
    waiting: VecDeque<u64>,
    next_turn: u64,
}

#[derive(Debug, Default)]
struct Port {
    pace: Pace,
}

/// A port in use, which is given back when the value is dropped.
#[derive(Debug)]
pub struct Turn {
    inner: Arc<Inner>,
    port: Option<Port>,
}

impl Ports {
    /// Makes `count` ports, which share `bandwidth` bytes per second; 0: no limit.
    pub fn new(count: u32, bandwidth: u64) -> Ports {
        Ports {
            inner: Arc::new(Inner {
                count: AtomicU32::new(count.clamp(1, PORTS_MAX)),
                bandwidth: AtomicU64::new(bandwidth),
                carried: AtomicU64::new(0),
                begun: Instant::now(),
                turns: Mutex::new(Turns::default()),
                freed: Condvar::new(),
            }),
        }
    }

    /// The number of ports.
    pub fn count(&self) -> u32 {
        self.inner.count.load(Ordering::Relaxed)
    }

    /// Changes the number of ports to 1 to [`PORTS_MAX`], with effect for all frames that have not begun.
    pub fn set_count(&self, count: u32) {
        self.inner.count.store(count.clamp(1, PORTS_MAX), Ordering::Relaxed);
        self.inner.freed.notify_all();
    }

    /// Bytes per second of all ports together; 0 is no limit.
    pub fn bandwidth(&self) -> u64 {
        self.inner.bandwidth.load(Ordering::Relaxed)
    }

    /// Changes the bandwidth, from the next frame on.
    pub fn set_bandwidth(&self, bytes_per_s: u64) {
        self.inner.bandwidth.store(bytes_per_s, Ordering::Relaxed);
        self.inner.freed.notify_all();
    }

    /// Bytes that went through these ports, headers included.
    pub fn carried(&self) -> u64 {
        self.inner.carried.load(Ordering::Relaxed)
    }

    /// Counts bytes that went through without a port, because the bandwidth is not limited.
    pub(crate) fn carry(&self, bytes: u64) {
        self.inner.carried.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The number of links that wait for a port now.
    pub fn waiting(&self) -> usize {
        self.inner.turns().waiting.len()
    }

    /// Waits for a port, at most until `deadline`. First come, first served.
    pub fn take(&self, deadline: Instant) -> Option<Turn> {
        let mut turns = self.inner.turns();
        if turns.waiting.is_empty()
            && let Some(port) = turns.port(self.count())
        {
            return Some(Turn { inner: self.inner.clone(), port: Some(port) });
        }
        let mine = turns.next_turn;
        turns.next_turn += 1;
        turns.waiting.push_back(mine);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                turns.waiting.retain(|turn| *turn != mine);
                // The notification may have been meant for the next link in the queue, so it is passed on.
                self.inner.freed.notify_all();
                return None;
            }
            turns = self.inner.freed.wait_timeout(turns, left).unwrap_or_else(PoisonError::into_inner).0;
            if turns.waiting.front() == Some(&mine)
                && let Some(port) = turns.port(self.count())
            {
                turns.waiting.pop_front();
                let more = !turns.waiting.is_empty();
                drop(turns);
                if more {
                    self.inner.freed.notify_all();
                }
                return Some(Turn { inner: self.inner.clone(), port: Some(port) });
            }
        }
    }
}

impl Inner {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }
}

impl Turns {
    /// A free port, made if there may be one more. If there are too many ports, free ones are removed.
    fn port(&mut self, count: u32) -> Option<Port> {
        while self.made > count && self.free.pop().is_some() {
            self.made -= 1;
        }
        if let Some(port) = self.free.pop() {
            return Some(port);
        }
        if self.made >= count {
            return None;
        }
        self.made += 1;
        Some(Port::default())
    }
}

impl Turn {
    /// How many bytes may go through now, headers included.
    ///
    /// # Errors
    /// The time after which bytes may go through again.
    pub fn allowance(&mut self) -> Result<u64, Duration> {
        let bandwidth = self.inner.bandwidth.load(Ordering::Relaxed);
        if bandwidth == 0 {
            return Ok(u64::MAX);
        }
        let share = bandwidth / u64::from(self.inner.count.load(Ordering::Relaxed));
        let now_ns = self.inner.now_ns();
        let Some(port) = &mut self.port else { return Ok(0) };
        port.pace.allowance(now_ns, share).map_err(|then| Duration::from_nanos(then.saturating_sub(now_ns)))
    }

    /// Counts bytes that went through.
    pub fn spend(&mut self, bytes: u64) {
        self.inner.carried.fetch_add(bytes, Ordering::Relaxed);
        let now_ns = self.inner.now_ns();
        if let Some(port) = &mut self.port {
            port.pace.spend(now_ns, bytes);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(port) = self.port.take() else { return };
        let mut turns = self.inner.turns();
        turns.free.push(port);
        let someone_waits = !turns.waiting.is_empty();
        drop(turns);
        if someone_waits {
            self.inner.freed.notify_all();
        }
    }
}
