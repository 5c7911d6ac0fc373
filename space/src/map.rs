//! The memory map: a file of fixed size, mapped shared, seen as 64-bit atomic words. This module has `unsafe`.
//!
//! Invariant: while a [`Map`] lives, every byte of it is backed by memory that was reserved and touched when
//! the file was made, so a store to it cannot fail. After a `fork` the child's maps are private zeroed
//! memory, so the stores of the child do not reach the parent's files.

use crate::error::Error;
use crate::layout::{LINE, PAGE, element};
use crate::map_list::{Entry, MapList};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file mapped for writing.
#[derive(Debug)]
pub(crate) struct Map {
    pointer: NonNull<u8>,
    wiped_on_fork: Option<&'static Entry>,
    bytes: usize,
}

// SAFETY: the map is plain memory accessed only through atomics; it is unmapped once, by the last owner.
unsafe impl Send for Map {}
// SAFETY: all access to the map's memory is atomic.
unsafe impl Sync for Map {}

impl Map {
    /// Makes the file (it must not exist), reserves its disk space and maps it. All words are zero.
    ///
    /// A full file system is an error here, and not a signal at a later store.
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
        assert!(bytes >= PAGE && bytes.is_multiple_of(8));
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
        // Linux before 5.14 does not know `MADV_POPULATE_WRITE`. The memory is reserved, so without this
        // advice the first touch of a page only costs time.
        if error.raw_os_error() == Some(libc::EINVAL) {
            return Ok(());
        }
        Err(Error::io("touch the memory of", path, error))
    }

    /// The word at byte `at`.
    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        // Every map has at least a page, so the compiler removes the check for a word of the header.
        assert!(at.is_multiple_of(8) && (at < PAGE || at < self.bytes), "a word outside the map");
        // SAFETY: the check above ensures that the access is in range and aligned.
        unsafe { self.word_unchecked(at) }
    }

    /// The address of the `bytes` bytes from byte `at` on, valid while the map lives.
    pub(crate) fn place(&self, at: usize, bytes: usize) -> NonNull<u8> {
        assert!(at.is_multiple_of(8) && at + bytes <= self.bytes, "a place outside the map");
        // SAFETY: the check above ensures that the access is in range.
        unsafe { self.pointer.add(at) }
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

impl Drop for Map {
    fn drop(&mut self) {
        if let Some(entry) = self.wiped_on_fork {
            entry.forget();
        }
        // SAFETY: our own mapping, unmapped once; no reference into it outlives `self`.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.bytes) };
    }
}

impl Map {
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

/// The words into which a ring is written: a [`Region`] of a map, or loom's words in a model. The header
/// begins at byte 0, the blocks at [`element::DATA`].
pub(crate) trait Memory {
    /// Maps the positions of a ring's current block to memory.
    type Base: Copy + std::fmt::Debug + Send;

    /// Size in bytes.
    fn bytes(&self) -> usize;
    /// The base with which the position p of a block stands for the byte p + `bias` of the memory.
    fn base(&self, bias: u64) -> Self::Base;
    /// Stores a word, relaxed.
    ///
    /// # Safety
    /// `base` is of this memory, and `position` + bias is a multiple of 8, at least [`element::DATA`] and less than
    /// [`Memory::bytes`].
    unsafe fn store_unchecked(&self, base: Self::Base, position: u64, value: u64);
    /// Stores the word at byte `at`.
    fn store(&self, at: usize, value: u64, order: Ordering);
    /// Loads the word at byte `at`.
    fn load(&self, at: usize, order: Ordering) -> u64;
    /// A fence.
    fn fence(order: Ordering);
}

/// An address instead of an offset, so that a store on the hot path needs one addition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(*mut u8);

// SAFETY: the value is only an address; using it is unsafe and needs the map, which is Send and Sync.
unsafe impl Send for Address {}

/// The part of a map that is one element: its header, and its blocks at another place of the map.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    header: Address,
    /// The address of the blocks, less [`element::DATA`].
    data: Address,
    data_bytes: usize,
    _map: Arc<Map>,
}

// SAFETY: the addresses lie in a map that is Sync and kept alive by the same struct; all access is atomic.
unsafe impl Sync for Region {}

impl Region {
    /// The element of `map` with its header at byte `header` and `data_bytes` of blocks at byte `data`.
    pub(crate) fn new(map: Arc<Map>, header: usize, data: usize, data_bytes: usize) -> Region {
        assert!(header.is_multiple_of(8) && header + element::HEADER <= map.bytes);
        assert!(data.is_multiple_of(8) && data_bytes.is_multiple_of(8) && data + data_bytes <= map.bytes);
        let start = map.pointer.as_ptr();
        Region {
            header: Address(start.wrapping_add(header)),
            data: Address(start.wrapping_add(data).wrapping_sub(element::DATA)),
            data_bytes,
            _map: map,
        }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "a word outside the element");
        let address = if at < element::HEADER {
            self.header.0.wrapping_add(at)
        } else {
            assert!(
                (element::DATA..element::DATA + self.data_bytes).contains(&at),
                "a word outside the element"
            );
            self.data.0.wrapping_add(at)
        };
        // SAFETY: `new` checked that header and blocks lie in the map, which is kept alive; aligned, as just checked.
        unsafe { &*address.cast::<AtomicU64>() }
    }
}

impl Memory for Region {
    type Base = Address;

    fn bytes(&self) -> usize {
        element::DATA + self.data_bytes
    }

    fn base(&self, bias: u64) -> Address {
        Address(self.data.0.wrapping_add(bias as usize))
    }

    #[inline(always)]
    unsafe fn store_unchecked(&self, base: Address, position: u64, value: u64) {
        let pointer = base.0.wrapping_add(position as usize);
        let start = self.data.0.wrapping_add(element::DATA);
        debug_assert!((pointer as usize).wrapping_sub(start as usize) < self.data_bytes);
        // SAFETY: the caller keeps the address within the blocks and aligned.
        unsafe { &*pointer.cast::<AtomicU64>() }.store(value.to_le(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.word(at).store(value.to_le(), order);
    }

    #[inline(always)]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        u64::from_le(self.word(at).load(order))
    }

    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }
}

/// A cache line of a map, with one writer.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    address: Address,
    _map: Arc<Map>,
}

// SAFETY: the address lies in a map that is Sync and kept alive by the same struct; all access is atomic.
unsafe impl Sync for Line {}

impl Line {
    /// The line at byte `at` of `map`.
    pub(crate) fn new(map: Arc<Map>, at: usize) -> Line {
        assert!(at.is_multiple_of(LINE) && at + LINE <= map.bytes);
        Line { address: Address(map.pointer.as_ptr().wrapping_add(at)), _map: map }
    }

    /// Stores the word at byte `at` of the line.
    #[inline(always)]
    pub(crate) fn store(&self, at: usize, value: u64, order: Ordering) {
        assert!(at < LINE && at.is_multiple_of(8));
        // SAFETY: the word is aligned and lies in the line, which `new` checked to lie in the map.
        unsafe { &*self.address.0.wrapping_add(at).cast::<AtomicU64>() }.store(value.to_le(), order);
    }
}

/// How the child of a `fork` sees a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fork {
    /// As private zeroes: the parent never sees the child's stores.
    Wipe,
    /// As shared memory, like the parent.
    Share,
}

/// The handler that runs first in the child of a `fork`.
mod fork {
    use super::{Entry, MapList};
    use std::sync::Once;

    static MAPS: MapList = MapList::new();
    static HANDLER: Once = Once::new();

    pub(super) fn register(address: usize, bytes: usize) -> &'static Entry {
        HANDLER.call_once(|| {
            // SAFETY: the handler calls only mmap, which is async-signal-safe.
            unsafe { libc::pthread_atfork(None, None, Some(wipe)) };
        });
        MAPS.register(address, bytes)
    }

    extern "C" fn wipe() {
        for (_, range) in MAPS.iter() {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: replaces exactly one mapping of a `Map`, in the child, where no other thread runs.
            unsafe { libc::mmap(range.start as *mut _, range.len(), protection, flags, -1, 0) };
        }
    }
}
