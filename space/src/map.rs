//! The memory map: a file of fixed size, mapped shared, seen as 64-bit atomic words. One of the rooms for unsafe.
//!
//! Invariant: while a [`Map`] lives, every byte of it is backed by memory that was reserved and touched when the
//! file was made, so a store to it cannot fail. After a `fork` the child's maps are private zeroed memory: whatever
//! it still writes goes nowhere, at no cost to the parent.

use crate::error::Error;
use crate::sync::{AtomicU64, Ordering};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
#[cfg(not(loom))]
use std::ptr::NonNull;

/// A file mapped for writing.
#[derive(Debug)]
pub(crate) struct Map {
    #[cfg(not(loom))]
    pointer: NonNull<u8>,
    #[cfg(not(loom))]
    wiped_on_fork: Option<&'static fork::Entry>,
    #[cfg(loom)]
    words: Vec<AtomicU64>,
    bytes: usize,
}

// SAFETY: the map is plain memory accessed only through atomics; it is unmapped once, by the last owner.
#[cfg(not(loom))]
unsafe impl Send for Map {}
// SAFETY: as above: all access is atomic.
#[cfg(not(loom))]
unsafe impl Sync for Map {}

#[cfg(not(loom))]
impl Map {
    /// Makes the file (it must not exist), reserves its room and maps it. All words are zero.
    ///
    /// A full file system is an error here, never a signal later.
    pub(crate) fn create(path: &Path, bytes: usize, fork: Fork) -> Result<Map, Error> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|e| Error::io("create", path, e))?;
        let made = Map::reserve(&file, path, bytes, fork);
        if made.is_err() {
            let _ = std::fs::remove_file(path);
        }
        made
    }

    fn reserve(file: &File, path: &Path, bytes: usize, fork: Fork) -> Result<Map, Error> {
        assert!(bytes > 0 && bytes.is_multiple_of(8));
        let length = libc::off_t::try_from(bytes).map_err(|_| Error::new("the file would be too large"))?;
        // SAFETY: a plain system call on a descriptor we own.
        let failed = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
        if failed != 0 {
            let error = std::io::Error::from_raw_os_error(failed);
            return Err(Error::io(&format!("reserve {bytes} bytes for"), path, error));
        }
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is touched.
        let address = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(Error::io("map", path, std::io::Error::last_os_error()));
        }
        let pointer = NonNull::new(address.cast::<u8>()).expect("mmap never returns null");
        let mut map = Map { pointer, wiped_on_fork: None, bytes };
        map.populate(path)?;
        if fork == Fork::Wipe {
            map.wiped_on_fork = Some(fork::register(pointer.as_ptr() as usize, bytes));
        }
        Ok(map)
    }

    fn populate(&self, path: &Path) -> Result<(), Error> {
        // SAFETY: the range is exactly our own mapping.
        let done =
            unsafe { libc::madvise(self.pointer.as_ptr().cast(), self.bytes, libc::MADV_POPULATE_WRITE) };
        if done == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        // Before Linux 5.14 there is no such advice; the room is reserved, so first touches only cost time.
        if error.raw_os_error() == Some(libc::EINVAL) {
            return Ok(());
        }
        Err(Error::io("touch the memory of", path, error))
    }

    /// The word at byte `at`.
    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.bytes, "a word outside the map");
        // SAFETY: in range and aligned, just checked.
        unsafe { self.word_unchecked(at) }
    }

    /// The word at byte `at`, without a check.
    ///
    /// # Safety
    /// `at` is a multiple of 8 and less than the map's size.
    #[inline(always)]
    pub(crate) unsafe fn word_unchecked(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at < self.bytes);
        // SAFETY: the caller keeps `at` within the mapping, which lives as long as `self`; mappings are page
        // aligned, so the word is aligned.
        unsafe { &*self.pointer.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

#[cfg(not(loom))]
impl Drop for Map {
    fn drop(&mut self) {
        if let Some(entry) = self.wiped_on_fork {
            fork::forget(entry);
        }
        // SAFETY: our own mapping, unmapped once; no reference into it outlives `self`.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(loom)]
impl Map {
    /// A map over a vector, for models.
    pub(crate) fn for_model(bytes: usize) -> Map {
        Map { words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(), bytes }
    }

    /// The word at byte `at`.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.words[at / 8]
    }

    /// The word at byte `at`.
    ///
    /// # Safety
    /// None needed: checked in models.
    pub(crate) unsafe fn word_unchecked(&self, at: usize) -> &AtomicU64 {
        &self.words[at / 8]
    }
}

/// Where positions of a ring's current block lie: position + bias = byte of the map. Kept as one pointer, so that a
/// store of the hot path takes one addition.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base(*mut u8);

// SAFETY: it is only an address; using it is unsafe and needs the map, which is Send and Sync.
#[cfg(not(loom))]
unsafe impl Send for Base {}

#[cfg(not(loom))]
impl Base {
    pub(crate) fn new(map: &Map, bias: u64) -> Base {
        Base(map.pointer.as_ptr().wrapping_add(bias as usize))
    }

    /// The word at `position` of `map`, the map that the base was made with.
    ///
    /// # Safety
    /// `position` + bias is a multiple of 8 and less than the map's size.
    #[inline(always)]
    pub(crate) unsafe fn word<'a>(&self, map: &'a Map, position: u64) -> &'a AtomicU64 {
        let pointer = self.0.wrapping_add(position as usize);
        debug_assert!((pointer as usize).wrapping_sub(map.pointer.as_ptr() as usize) < map.bytes);
        // SAFETY: the caller keeps the address within the map, which outlives the reference.
        unsafe { &*pointer.cast::<AtomicU64>() }
    }
}

/// As above, for models.
#[cfg(loom)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base(u64);

#[cfg(loom)]
impl Base {
    pub(crate) fn new(_: &Map, bias: u64) -> Base {
        Base(bias)
    }

    /// # Safety
    /// None needed: checked in models.
    pub(crate) unsafe fn word<'a>(&self, map: &'a Map, position: u64) -> &'a AtomicU64 {
        map.word(self.0.wrapping_add(position) as usize)
    }
}

impl Map {
    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes `text` as a length word and bytes at `at`, cut to `room` bytes.
    pub(crate) fn put_text(&self, at: usize, room: usize, text: &str) {
        let mut bytes = text.len().min(room);
        while !text.is_char_boundary(bytes) {
            bytes -= 1;
        }
        for (index, chunk) in text.as_bytes()[..bytes].chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(at + 8 + 8 * index).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.word(at).store(bytes as u64, Ordering::Relaxed);
    }
}

/// What a map becomes in the child of a `fork`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fork {
    /// Private zeroes: the child's stores go nowhere.
    Wipe,
    /// Shared as it is.
    Share,
}

/// The maps to wipe in the child of a `fork`: a list that only grows, whose entries are used again.
///
/// It is read by the `pthread_atfork` handler, so it takes no lock: after a `fork` a lock may be held by a thread
/// that does not exist in the child.
#[cfg(not(loom))]
mod fork {
    use std::sync::Once;
    use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

    #[derive(Debug)]
    pub(super) struct Entry {
        /// Start of the map, 0 when free. Claimed by compare-exchange; released by its owner.
        address: AtomicUsize,
        /// Size of the map; set before `address` becomes a real one (release, paired with the handler's acquire).
        bytes: AtomicUsize,
        /// Next entry; set before this entry is published.
        next: AtomicPtr<Entry>,
    }

    /// First entry; pushed with release, walked with acquire.
    static FIRST: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());
    static HANDLER: Once = Once::new();
    const CLAIMED: usize = 1;

    pub(super) fn register(address: usize, bytes: usize) -> &'static Entry {
        HANDLER.call_once(|| {
            // SAFETY: the handler calls only mmap, which is async-signal-safe.
            unsafe { libc::pthread_atfork(None, None, Some(wipe)) };
        });
        let entry = claim();
        entry.bytes.store(bytes, Ordering::Relaxed);
        entry.address.store(address, Ordering::Release);
        entry
    }

    pub(super) fn forget(entry: &'static Entry) {
        entry.address.store(0, Ordering::Release);
    }

    fn claim() -> &'static Entry {
        let mut at = FIRST.load(Ordering::Acquire);
        // SAFETY: entries are leaked boxes, so every pointer in the list stays good.
        while let Some(entry) = unsafe { at.as_ref() } {
            if entry.address.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return entry;
            }
            at = entry.next.load(Ordering::Relaxed);
        }
        let entry: &'static Entry = Box::leak(Box::new(Entry {
            address: AtomicUsize::new(CLAIMED),
            bytes: AtomicUsize::new(0),
            next: AtomicPtr::new(FIRST.load(Ordering::Acquire)),
        }));
        let new = std::ptr::from_ref(entry).cast_mut();
        while let Err(now) = FIRST.compare_exchange(
            entry.next.load(Ordering::Relaxed),
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            entry.next.store(now, Ordering::Relaxed);
        }
        entry
    }

    extern "C" fn wipe() {
        let mut at = FIRST.load(Ordering::Acquire);
        // SAFETY: as in `claim`.
        while let Some(entry) = unsafe { at.as_ref() } {
            let address = entry.address.load(Ordering::Acquire);
            if address > CLAIMED {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
                let bytes = entry.bytes.load(Ordering::Relaxed);
                // SAFETY: replaces exactly a mapping of ours, in the child, where no other thread runs.
                unsafe {
                    let protection = libc::PROT_READ | libc::PROT_WRITE;
                    libc::mmap(address as *mut _, bytes, protection, flags, -1, 0);
                }
            }
            at = entry.next.load(Ordering::Relaxed);
        }
    }
}
