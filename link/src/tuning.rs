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
    inner: Arc<Inner>,
}

/// Written by anybody, read by the link's ends before each frame (the address before each connection).
#[derive(Debug)]
struct Inner {
    frame_bytes: AtomicUsize,
    encoding: AtomicU8,
    buffer_bytes: AtomicUsize,
    window_bytes: AtomicU64,
    address: Mutex<Address>,
    /// Counts changes of the address: a sender whose number is another connects again.
    address_changes: AtomicU64,
}

impl Tuning {
    /// Frames of 256 KiB as they are, at most 1 MiB unacknowledged, 512 KiB of room at the receiver.
    pub fn new(address: Address) -> Tuning {
        Tuning {
            inner: Arc::new(Inner {
                frame_bytes: AtomicUsize::new(256 << 10),
                encoding: AtomicU8::new(Encoding::Plain.code()),
                buffer_bytes: AtomicUsize::new(1 << 20),
                window_bytes: AtomicU64::new(512 << 10),
                address: Mutex::new(address),
                address_changes: AtomicU64::new(0),
            }),
        }
    }

    /// The most payload bytes of a frame (MATE's fragment size).
    pub fn frame_bytes(&self) -> usize {
        self.inner.frame_bytes.load(Ordering::Relaxed)
    }

    /// Sets them: [`FRAME_BYTES_MIN`] to [`PAYLOAD_BYTES_MAX`].
    pub fn set_frame_bytes(&self, bytes: usize) {
        let bytes = bytes.clamp(FRAME_BYTES_MIN, PAYLOAD_BYTES_MAX);
        self.inner.frame_bytes.store(bytes, Ordering::Relaxed);
    }

    /// How payloads are encoded.
    pub fn encoding(&self) -> Encoding {
        Encoding::of(self.inner.encoding.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Sets it.
    pub fn set_encoding(&self, encoding: Encoding) {
        self.inner.encoding.store(encoding.code(), Ordering::Relaxed);
    }

    /// The most bytes that the sender keeps until they are acknowledged; the message that exceeds it is the last it takes.
    pub fn buffer_bytes(&self) -> usize {
        self.inner.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Sets them, at least 1.
    pub fn set_buffer_bytes(&self, bytes: usize) {
        self.inner.buffer_bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    /// How many bytes the receiver holds for its user; a message that is longer than this has room all the same.
    pub fn window_bytes(&self) -> u64 {
        self.inner.window_bytes.load(Ordering::Relaxed)
    }

    /// Sets them, at least 1.
    pub fn set_window_bytes(&self, bytes: u64) {
        self.inner.window_bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    /// Where the sender connects to.
    pub fn address(&self) -> Address {
        self.inner.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets it; a sender that is connected elsewhere connects again, and goes on where it was.
    pub fn set_address(&self, address: Address) {
        *self.inner.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
        self.inner.address_changes.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn address_changes(&self) -> u64 {
        self.inner.address_changes.load(Ordering::Acquire)
    }
}
