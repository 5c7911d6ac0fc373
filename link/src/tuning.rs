//! What may be changed about a link while it runs.

use crate::transport::Address;
use crate::wire::{Encoding, PAYLOAD_BYTES_MAX};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The least payload of a frame.
pub const FRAME_BYTES_MIN: usize = 64;

/// The settings of one link. Clones are the same settings; a change holds from the next frame on.
#[derive(Clone, Debug)]
pub struct Tuning {
    knobs: Arc<Knobs>,
    target: Arc<Target>,
}

/// What several links may share. Written by anybody, read by the links' ends before each frame.
#[derive(Debug)]
struct Knobs {
    frame_bytes: AtomicUsize,
    encoding: AtomicU8,
    buffer_bytes: AtomicUsize,
    window_bytes: AtomicU64,
}

/// Where a link's sender connects to. Written by anybody, read by the sender before each connection.
#[derive(Debug)]
struct Target {
    address: Mutex<Address>,
    /// Counts changes of the address: a sender whose number is another connects again.
    changes: AtomicU64,
}

/// Until it is set otherwise: the most payload bytes of a frame, the most bytes that are unacknowledged, the receiver's room in bytes.
pub const FRAME_BYTES: usize = 256 << 10;
/// As [`FRAME_BYTES`] says.
pub const BUFFER_BYTES: usize = 1 << 20;
/// As [`FRAME_BYTES`] says.
pub const WINDOW_BYTES: u64 = 512 << 10;

impl Tuning {
    /// [`FRAME_BYTES`] a frame, without compression, [`BUFFER_BYTES`] unacknowledged, [`WINDOW_BYTES`] of room at the receiver.
    pub fn new(address: Address) -> Tuning {
        Tuning {
            knobs: Arc::new(Knobs {
                frame_bytes: AtomicUsize::new(FRAME_BYTES),
                encoding: AtomicU8::new(Encoding::Plain.code()),
                buffer_bytes: AtomicUsize::new(BUFFER_BYTES),
                window_bytes: AtomicU64::new(WINDOW_BYTES),
            }),
            target: Arc::new(Target { address: Mutex::new(address), changes: AtomicU64::new(0) }),
        }
    }

    /// The settings of another link, to this address: what is set of one of the two is set of both, except for the address.
    #[must_use]
    pub fn shared_to(&self, address: Address) -> Tuning {
        let target = Target { address: Mutex::new(address), changes: AtomicU64::new(0) };
        Tuning { knobs: self.knobs.clone(), target: Arc::new(target) }
    }

    /// The most payload bytes of a frame (MATE's fragment size).
    pub fn frame_bytes(&self) -> usize {
        self.knobs.frame_bytes.load(Ordering::Relaxed)
    }

    /// Sets them: [`FRAME_BYTES_MIN`] to [`PAYLOAD_BYTES_MAX`].
    pub fn set_frame_bytes(&self, bytes: usize) {
        let bytes = bytes.clamp(FRAME_BYTES_MIN, PAYLOAD_BYTES_MAX);
        self.knobs.frame_bytes.store(bytes, Ordering::Relaxed);
    }

    /// How payloads are encoded.
    pub fn encoding(&self) -> Encoding {
        Encoding::of(self.knobs.encoding.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Sets it.
    pub fn set_encoding(&self, encoding: Encoding) {
        self.knobs.encoding.store(encoding.code(), Ordering::Relaxed);
    }

    /// The most bytes that the sender keeps until they are acknowledged; the message that exceeds it is the last it takes.
    pub fn buffer_bytes(&self) -> usize {
        self.knobs.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Sets them, at least 1.
    pub fn set_buffer_bytes(&self, bytes: usize) {
        self.knobs.buffer_bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    /// How many bytes the receiver holds for its user; a message that is longer than this has room all the same.
    pub fn window_bytes(&self) -> u64 {
        self.knobs.window_bytes.load(Ordering::Relaxed)
    }

    /// Sets them, at least 1.
    pub fn set_window_bytes(&self, bytes: u64) {
        self.knobs.window_bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    /// Where the sender connects to.
    pub fn address(&self) -> Address {
        self.target.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets it; a sender that is connected elsewhere connects again, and goes on where it was.
    pub fn set_address(&self, address: Address) {
        *self.target.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
        self.target.changes.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn address_changes(&self) -> u64 {
        self.target.changes.load(Ordering::Acquire)
    }
}
