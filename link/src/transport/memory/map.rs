//! Memory that two processes share: the marks of two rings, one for each direction, and the rings' bytes.

use super::marks::{Asks, Marks};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// The bytes of the ring from the sender to the receiver. Most records of a batch fit into the processor's second
/// cache together with both ends' buffers.
const DATA_BYTES: usize = 64 << 10;
/// The bytes of the ring from the receiver to the sender, for acknowledgements.
const ANSWER_BYTES: usize = 4 << 10;
/// The bytes before the rings, for the marks.
const MARKS_BYTES: usize = 4 << 10;
const BYTES: usize = MARKS_BYTES + DATA_BYTES + ANSWER_BYTES;
/// The distance between the marks of the two rings, and between what the two ends ask for.
const APART: usize = 256;
/// Where the marks say what the ends ask for.
const ASKS: usize = 1024;

/// A direction in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the sender to the receiver.
    There = 0,
    /// From the receiver to the sender.
    Back = 1,
}

impl Way {
    pub(super) fn other(self) -> Way {
        match self {
            Way::There => Way::Back,
            Way::Back => Way::There,
        }
    }

    /// The bytes of the ring.
    pub(super) fn capacity(self) -> usize {
        match self {
            Way::There => DATA_BYTES,
            Way::Back => ANSWER_BYTES,
        }
    }

    fn begin(self) -> usize {
        match self {
            Way::There => MARKS_BYTES,
            Way::Back => MARKS_BYTES + DATA_BYTES,
        }
    }
}

/// The shared memory, in this process's address space.
#[derive(Debug)]
pub(super) struct Map {
    base: NonNull<u8>,
}

// SAFETY: the marks are atomics, and the bytes of the rings are only copied through raw pointers.
unsafe impl Send for Map {}
// SAFETY: as above; `copy_in` and `copy_out` leave it to the caller that two threads do not use the same bytes.
unsafe impl Sync for Map {}

impl Map {
    /// Makes the memory; returns the file by which another process gets it.
    pub(super) fn create() -> io::Result<(Map, OwnedFd)> {
        let file = memfd_create("thalweg-link", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        // All memory is allocated now, so no later access fails for lack of memory.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, BYTES as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Map::of(file.as_fd())?, file))
    }

    /// The memory that another process has made. A file of another size, or one whose size may change, is refused,
    /// because an access beyond its end would end this process.
    pub(super) fn take(file: &OwnedFd) -> io::Result<Map> {
        let seals = fcntl_get_seals(file)?;
        if fstat(file)?.st_size != BYTES as i64 || !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no memory of a link"));
        }
        Map::of(file.as_fd())
    }

    fn of(file: BorrowedFd<'_>) -> io::Result<Map> {
        // SAFETY: the system chooses an address at which nothing is mapped.
        let base = unsafe {
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), BYTES, rights, MapFlags::SHARED, file, 0)?
        };
        Ok(Map { base: NonNull::new(base.cast()).expect("mmap never returns null") })
    }

    /// The positions of a direction's ring.
    pub(super) fn marks(&self, way: Way) -> &Marks {
        // SAFETY: the offset is within the mapping and aligned, all bytes are valid for atomics, and other
        // processes use the same atomics.
        unsafe { self.base.add(way as usize * APART).cast::<Marks>().as_ref() }
    }

    /// What the end that writes in this direction asks for.
    pub(super) fn asks(&self, writer_of: Way) -> &Asks {
        // SAFETY: as in `marks`.
        unsafe { self.base.add(ASKS + writer_of as usize * APART).cast::<Asks>().as_ref() }
    }

    /// Copies bytes into a ring from the place `at` on, and on from the ring's begin after its end. `bytes` is not
    /// longer than the ring.
    pub(super) fn copy_in(&self, way: Way, at: usize, bytes: &[u8]) {
        let first = bytes.len().min(way.capacity() - at);
        assert!(bytes.len() <= way.capacity());
        for (piece, at) in [(&bytes[..first], at), (&bytes[first..], 0)] {
            // SAFETY: the piece fits between `at` and the end of the ring, which is within the mapping. The reader
            // does not use bytes that are not published; a process that does so nevertheless reads wrong bytes,
            // which it checks as those of any connection.
            unsafe {
                let to = self.base.add(way.begin() + at).as_ptr();
                std::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len());
            }
        }
    }

    /// Copies bytes out of a ring; the counterpart of [`Map::copy_in`].
    pub(super) fn copy_out(&self, way: Way, at: usize, bytes: &mut [u8]) {
        assert!(bytes.len() <= way.capacity());
        let (first, second) = bytes.split_at_mut(bytes.len().min(way.capacity() - at));
        for (piece, at) in [(first, at), (second, 0)] {
            // SAFETY: as in `copy_in`; the writer does not change bytes that are not released.
            unsafe {
                let from = self.base.add(way.begin() + at).as_ptr();
                std::ptr::copy_nonoverlapping(from, piece.as_mut_ptr(), piece.len());
            }
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `of` made, and no reference to it outlives the value.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<Marks>() <= APART && ASKS >= 2 * APART && ASKS + 2 * APART <= MARKS_BYTES,
    "the marks do not overlap"
);
