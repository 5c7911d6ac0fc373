//! The ports of a node: at most `k` links send at once, and `k` receive, each at one k-th of the bandwidth if
//! that is limited.
//!
//! A link takes a port when it has something to send, keeps it through the pauses that the limit requires, and gives
//! it back after a frame if another link waits, so links take turns. A link with a slow receiver has no frame to send
//! and holds no port. This is the k-port model of networks: each node may use k connections at a time.
//!
//! Each port keeps to its share of the bandwidth, and all together keep to the bandwidth while the number of ports
//! changes, too: bytes are counted for all ports, and a port reserves what it is allowed before the bytes go through.

use crate::pace::{BYTES_MIN, Pace};
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
    /// The bytes of all ports in the last window, with those of ports that exist no more. The lock is held for a few
    /// instructions, and only while the bandwidth is limited.
    together: Mutex<Together>,
    /// Each passage of bytes, for tests: when it was allowed and when it was over, and how many bytes it had.
    #[cfg(test)]
    journal: Mutex<Vec<Passage>>,
}

/// Bytes that went through some time between `allowed_ns` and `over_ns`.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
struct Passage {
    allowed_ns: u64,
    over_ns: u64,
    bytes: u64,
}

/// The account of all ports.
#[derive(Debug, Default)]
struct Together {
    pace: Pace,
    /// The bytes that ports are allowed to let through and have not yet.
    reserved: u64,
}

#[derive(Debug, Default)]
struct Turns {
    /// The ports that are not in use; the one that has rested longest is first.
    free: VecDeque<Port>,
    /// The number of ports, free or in use.
    made: u32,
    /// The bytes that went through each of these ports, in the order in which the ports were made.
    carried: Vec<Arc<AtomicU64>>,
    /// The turns of the links that wait, in order.
    waiting: VecDeque<u64>,
    next_turn: u64,
}

#[derive(Debug, Default)]
struct Port {
    pace: Pace,
    /// The bytes that went through this port.
    carried: Arc<AtomicU64>,
}

/// A port in use, which is given back when the value is dropped.
#[derive(Debug)]
pub struct Turn {
    inner: Arc<Inner>,
    port: Option<Port>,
    /// The bytes that this port has reserved.
    reserved: u64,
    /// Whether bytes went through.
    has_carried: bool,
    #[cfg(test)]
    allowed_ns: u64,
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
                together: Mutex::default(),
                #[cfg(test)]
                journal: Mutex::default(),
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

    /// The bytes that went through each port that was used so far, in the order of their first use. Bytes
    /// that went through without a port, because the bandwidth of a receiver is not limited, are not among
    /// these.
    pub fn carried_by_port(&self) -> Vec<u64> {
        self.inner.turns().carried.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect()
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
            && let Some(port) = turns.port(self.count(), self.bandwidth() > 0)
        {
            return Some(Turn::new(&self.inner, port));
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
                && let Some(port) = turns.port(self.count(), self.bandwidth() > 0)
            {
                turns.waiting.pop_front();
                let more = !turns.waiting.is_empty();
                drop(turns);
                if more {
                    self.inner.freed.notify_all();
                }
                return Some(Turn::new(&self.inner, port));
            }
        }
    }
}

impl Inner {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A panic under this lock leaves the account as it was, or changed.
    fn together(&self) -> MutexGuard<'_, Together> {
        self.together.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }
}

impl Turns {
    /// A free port, or a new one while there may be more. If there are too many ports, free ones are removed.
    fn port(&mut self, count: u32, is_limited: bool) -> Option<Port> {
        while self.made > count
            && let Some(port) = self.free.pop_front()
        {
            self.made -= 1;
            self.carried.retain(|carried| !Arc::ptr_eq(carried, &port.carried));
        }
        // With a limit a link that is alone goes through the same port again, because it may have the share
        // of one. Without a limit all ports take turns.
        if is_limited && let Some(port) = self.free.pop_back() {
            return Some(port);
        }
        if self.made >= count {
            return self.free.pop_front();
        }
        self.made += 1;
        let port = Port::default();
        self.carried.push(port.carried.clone());
        Some(port)
    }
}

impl Turn {
    fn new(inner: &Arc<Inner>, port: Port) -> Turn {
        Turn {
            inner: inner.clone(),
            port: Some(port),
            reserved: 0,
            has_carried: false,
            #[cfg(test)]
            allowed_ns: 0,
        }
    }

    /// How many bytes may go through now, headers included.
    ///
    /// # Errors
    /// The time after which bytes may go through again.
    pub fn allowance(&mut self) -> Result<u64, Duration> {
        self.give_back();
        let bandwidth = self.inner.bandwidth.load(Ordering::Relaxed);
        let now_ns = self.inner.now_ns();
        #[cfg(test)]
        {
            self.allowed_ns = now_ns;
        }
        if bandwidth == 0 {
            return Ok(u64::MAX);
        }
        let share = bandwidth / u64::from(self.inner.count.load(Ordering::Relaxed));
        let Some(port) = &mut self.port else { return Ok(0) };
        let after = |then: u64| Duration::from_nanos(then.saturating_sub(now_ns));
        let allowed = port.pace.allowance(now_ns, share).map_err(after)?;
        let mut together = self.inner.together();
        let Together { pace, reserved } = &mut *together;
        let least = allowed.min(BYTES_MIN);
        let granted = allowed.min(pace.room(now_ns, bandwidth).saturating_sub(*reserved));
        if granted < least {
            // Ports that exist no more have used up the window, or ports beyond the present number still use it.
            return Err(after(pace.room_again(now_ns, bandwidth, least)));
        }
        *reserved += granted;
        self.reserved = granted;
        Ok(granted)
    }

    /// Counts bytes that went through.
    pub fn spend(&mut self, bytes: u64) {
        self.inner.carried.fetch_add(bytes, Ordering::Relaxed);
        self.has_carried = true;
        let now_ns = self.inner.now_ns();
        if let Some(port) = &mut self.port {
            port.pace.spend(now_ns, bytes);
            port.carried.fetch_add(bytes, Ordering::Relaxed);
        }
        if self.reserved > 0 {
            self.inner.together().pace.spend(now_ns, bytes);
        }
        self.give_back();
        #[cfg(test)]
        self.inner.journal.lock().unwrap().push(Passage {
            allowed_ns: self.allowed_ns,
            over_ns: now_ns,
            bytes,
        });
    }

    /// Whether it is the turn of another link: bytes went through, and a link waits for a port.
    pub(crate) fn is_over(&self) -> bool {
        self.has_carried && !self.inner.turns().waiting.is_empty()
    }

    /// Gives back what was reserved and not used.
    fn give_back(&mut self) {
        let reserved = std::mem::take(&mut self.reserved);
        if reserved > 0 {
            self.inner.together().reserved -= reserved;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.give_back();
        let Some(port) = self.port.take() else { return };
        let mut turns = self.inner.turns();
        turns.free.push_back(port);
        let someone_waits = !turns.waiting.is_empty();
        drop(turns);
        if someone_waits {
            self.inner.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
