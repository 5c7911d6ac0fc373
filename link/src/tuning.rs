//! The settings of a link, which may be changed while it runs.

use crate::transport::Address;
use crate::wire::{Encoding, PAYLOAD_BYTES_MAX};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The least payload of a frame.
pub const FRAME_BYTES_MIN: usize = 64;

/// The settings of one link. Clones share the same settings; a change takes effect with the next frame.
#[derive(Clone, Debug)]
pub struct Tuning {
    knobs: Arc<Knobs>,
    target: Arc<Target>,
}

/// The settings that several links may share, written by any thread, read by the links' ends before each
/// frame.
#[derive(Debug)]
struct Knobs {
    frame_bytes: AtomicUsize,
    encoding: AtomicU8,
    buffer_bytes: AtomicUsize,
    window_bytes: AtomicU64,
}

/// The address that a link's sender connects to, written by any thread, read by the sender before each
/// connection.
#[derive(Debug)]
struct Target {
    address: Mutex<Address>,
    /// The number of changes of the address: a sender that made its connection when the number was lower
    /// connects again.
    changes: AtomicU64,
}

/// The default of the most payload bytes of a frame.
pub const FRAME_BYTES: usize = 256 << 10;
/// The default of the most unacknowledged bytes.
pub const BUFFER_BYTES: usize = 1 << 20;
/// The default of the receiver's room in bytes.
pub const WINDOW_BYTES: u64 = 512 << 10;

impl Tuning {
    /// The default settings: [`FRAME_BYTES`] a frame, no compression, [`BUFFER_BYTES`] unacknowledged, and
    /// [`WINDOW_BYTES`] of room at the receiver.
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

    /// The settings of another link, to `address`. The two links share all settings except the address, so a
    /// change for one link applies to the other as well.
    #[must_use]
    pub fn shared_to(&self, address: Address) -> Tuning {
        let target = Target { address: Mutex::new(address), changes: AtomicU64::new(0) };
        Tuning { knobs: self.knobs.clone(), target: Arc::new(target) }
    }

    /// The most payload bytes of a frame.
    pub fn frame_bytes(&self) -> usize {
        self.knobs.frame_bytes.load(Ordering::Relaxed)
    }

    /// Sets the most payload bytes of a frame, [`FRAME_BYTES_MIN`] to [`PAYLOAD_BYTES_MAX`].
    pub fn set_frame_bytes(&self, bytes: usize) {
        let bytes = bytes.clamp(FRAME_BYTES_MIN, PAYLOAD_BYTES_MAX);
        self.knobs.frame_bytes.store(bytes, Ordering::Relaxed);
    }

    /// How payloads are encoded.
    pub fn encoding(&self) -> Encoding {
        Encoding::of(self.knobs.encoding.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Sets the encoding.
    pub fn set_encoding(&self, encoding: Encoding) {
        self.knobs.encoding.store(encoding.code(), Ordering::Relaxed);
    }

    /// The most bytes that the sender keeps until they are acknowledged; the message that exceeds this is the
    /// last that it accepts.
    pub fn buffer_bytes(&self) -> usize {
        self.knobs.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Sets the most bytes that the sender keeps, at least 1.
    pub fn set_buffer_bytes(&self, bytes: usize) {
        self.knobs.buffer_bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    /// How many bytes the receiver holds for its user; a longer message has room nevertheless.
    pub fn window_bytes(&self) -> u64 {
        self.knobs.window_bytes.load(Ordering::Relaxed)
    }

    /// Sets the bytes that the receiver holds, at least 1.
    pub fn set_window_bytes(&self, bytes: u64) {
        self.knobs.window_bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    /// Where the sender connects to.
    pub fn address(&self) -> Address {
        self.target.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the address; a sender that is connected elsewhere connects again, and continues where it was.
    pub fn set_address(&self, address: Address) {
        *self.target.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
        self.target.changes.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn address_changes(&self) -> u64 {
        self.target.changes.load(Ordering::Acquire)
    }
}
