//! The pace of one port: a rate that holds in every window of 100 ms, not only in the long run.
//!
//! Two limits apply together. A token bucket spreads the bytes evenly; its burst of 10 ms compensates for a
//! thread that woke late. The bytes of the last 100 ms are counted, too, so that a burst after a rest does
//! not exceed what the window allows. With enough to send, 99.5 % of the rate are used by a thread that wakes
//! at most 0.2 ms late. One that always wakes 1 ms late uses 98 %: the bytes of a full window leave it in the
//! order in which they came, so each of them can be followed by others only as much later as the thread
//! wakes.

/// The window in which the rate is never exceeded, in nanoseconds.
pub const WINDOW_NS: u64 = 100_000_000;
/// The length of the slots in which the window is counted. The oldest slot is counted completely although a
/// part of it is outside of the window, which costs 1/400 of the rate.
const SLOT_NS: u64 = 250_000;
const SLOTS: usize = (WINDOW_NS / SLOT_NS) as usize + 1;
/// The capacity of a bucket, as time at its rate.
const BURST_NS: u64 = 10_000_000;
/// The bucket fills at the rate less one part in this many.
const STEADY: u64 = 400;
/// The least bytes of a frame, if the rate allows more in a window.
pub(crate) const BYTES_MIN: u64 = 512;

/// The pace of one port.
#[derive(Debug)]
pub struct Pace {
    /// The bytes of each slot of time; the index of a slot is its number modulo the number of slots.
    slots: Box<[u64; SLOTS]>,
    /// The number of the newest slot.
    newest: u64,
    /// Bytes in all slots.
    in_window: u64,
    /// The bucket, in bytes times nanoseconds per second.
    tokens: u128,
    filled_ns: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { slots: Box::new([0; SLOTS]), newest: 0, in_window: 0, tokens: 0, filled_ns: 0 }
    }
}

impl Pace {
    /// How many bytes may be sent now at this rate in bytes per second.
    ///
    /// # Errors
    /// The time in nanoseconds at which something may be sent again.
    pub fn allowance(&mut self, now_ns: u64, rate: u64) -> Result<u64, u64> {
        let rate = rate.max(1);
        self.advance(now_ns);
        // The bucket fills a little below the rate, so the window has room for the bursts of a thread that
        // woke late.
        let steady = u128::from(rate - rate / STEADY);
        let full = steady * u128::from(BURST_NS);
        let since = now_ns.saturating_sub(self.filled_ns);
        self.filled_ns = self.filled_ns.max(now_ns);
        self.tokens = (self.tokens + steady * u128::from(since)).min(full);
        let in_bucket = (self.tokens / 1_000_000_000) as u64;
        let of_window = window_bytes(rate).saturating_sub(self.in_window);
        let allowed = in_bucket.min(of_window);
        // At a slow rate the window and the bucket may hold fewer bytes than [`BYTES_MIN`].
        let least = BYTES_MIN.min(window_bytes(rate)).min((full / 1_000_000_000) as u64).max(1);
        if allowed >= least {
            return Ok(allowed);
        }
        // A full window takes nothing from the bucket: at a slow rate, 512 bytes are two per cent of a
        // window.
        let lacking = (u128::from(least) * 1_000_000_000).saturating_sub(self.tokens);
        let by_bucket = now_ns + (lacking.div_ceil(steady) as u64).max(1);
        Err(if of_window < least { by_bucket.max(self.slot_leaves(least, rate)) } else { by_bucket })
    }

    /// How many bytes have room in the window now, however they are spread within it.
    pub fn room(&mut self, now_ns: u64, rate: u64) -> u64 {
        self.advance(now_ns);
        window_bytes(rate.max(1)).saturating_sub(self.in_window)
    }

    /// The time when there is room for this many bytes, at least a slot from now.
    pub fn room_again(&mut self, now_ns: u64, rate: u64, bytes: u64) -> u64 {
        self.advance(now_ns);
        self.slot_leaves(bytes.min(window_bytes(rate.max(1))), rate.max(1)).max(now_ns + SLOT_NS)
    }

    /// Counts bytes that were sent.
    pub fn spend(&mut self, now_ns: u64, bytes: u64) {
        self.advance(now_ns);
        self.slots[(self.newest % SLOTS as u64) as usize] += bytes;
        self.in_window += bytes;
        self.tokens = self.tokens.saturating_sub(u128::from(bytes) * 1_000_000_000);
    }

    fn advance(&mut self, now_ns: u64) {
        let now = now_ns / SLOT_NS;
        if now.saturating_sub(self.newest) >= SLOTS as u64 {
            self.slots.fill(0);
            (self.newest, self.in_window) = (now, 0);
        }
        while self.newest < now {
            self.newest += 1;
            self.in_window -= std::mem::take(&mut self.slots[(self.newest % SLOTS as u64) as usize]);
        }
    }

    /// The time when enough old slots have left the window to send this many bytes.
    fn slot_leaves(&self, least: u64, rate: u64) -> u64 {
        let mut in_window = self.in_window;
        for age in (0..SLOTS as u64).rev() {
            if window_bytes(rate).saturating_sub(in_window) >= least {
                break;
            }
            let Some(slot) = self.newest.checked_sub(age) else { continue };
            in_window -= self.slots[(slot % SLOTS as u64) as usize];
            if window_bytes(rate).saturating_sub(in_window) >= least {
                return (slot + SLOTS as u64) * SLOT_NS;
            }
        }
        0
    }
}

/// The bytes of a window at this rate.
fn window_bytes(rate: u64) -> u64 {
    (u128::from(rate) * u128::from(WINDOW_NS) / 1_000_000_000).max(1) as u64
}

#[cfg(test)]
mod tests;
