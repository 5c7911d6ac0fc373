//! Opens and reads files with untrusted contents. This module has `unsafe`, for one system call.

use crate::error::Error;
use crate::layout::VERSION;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait for the lock while other processes write into the same file.
const LOCK_MAX: Duration = Duration::from_secs(2);

/// Opens a file of a space. Anything but a plain file is an error: a FIFO would block the reader, and a link
/// may lead anywhere.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let refused = |what| io::Error::other(format!("it is {what}, and the files of a space are plain ones"));
    // `O_NONBLOCK` keeps the opening of a FIFO from blocking; it has no effect on a plain file.
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = file.map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP) => refused("a symbolic link"),
        Some(libc::ENXIO) => refused("a FIFO or a device"),
        _ => e,
    })?;
    if !file.metadata()?.is_file() {
        return Err(refused("a directory, a FIFO or a device"));
    }
    Ok(file)
}

/// Opens a file of a space for reading, as [`open`] does.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Locks a file that several processes write into. The kernel releases the lock when its holder dies.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", path, e)),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_MAX => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::new(format!(
                    "{} is locked by another process, for more than {} seconds: is it stopped?",
                    path.display(),
                    LOCK_MAX.as_secs()
                )));
            }
        }
    }
}

pub(crate) fn length(file: &File, path: &Path) -> Result<u64, Error> {
    Ok(file.metadata().map_err(|e| Error::io("examine", path, e))?.len())
}

pub(crate) fn read_exact_at(file: &File, path: &Path, bytes: &mut [u8], at: u64) -> Result<(), Error> {
    file.read_exact_at(bytes, at).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::new(format!(
            "{} is truncated: it ends before byte {}; the space was damaged or is still being made",
            path.display(),
            at + bytes.len() as u64
        )),
        _ => Error::io("read", path, e),
    })
}

/// The offset of the first byte from `at` on that was ever written, as far as the file system knows; `None`
/// if the rest of the file is a hole.
///
/// A sparse file may be larger than any disk. A search by this function visits only the parts that were
/// written.
pub(crate) fn next_data(file: &File, at: u64) -> Option<u64> {
    let at = libc::off_t::try_from(at).ok()?;
    // SAFETY: moves the position of a descriptor that is borrowed; all reading is done at explicit positions.
    let found = unsafe { libc::lseek(file.as_raw_fd(), at, libc::SEEK_DATA) };
    match u64::try_from(found) {
        Ok(found) => Some(found),
        Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => None,
        // The file system does not distinguish holes from data.
        Err(_) => Some(at as u64),
    }
}

/// Checks magic and version, the first two words of every file.
pub(crate) fn check_magic(path: &Path, header: &[u8], magic: u64, what: &str) -> Result<(), Error> {
    let found = word(header, 0);
    if found != magic {
        let why = if found == 0 { "was never completed" } else { "has another magic number" };
        return Err(Error::new(format!("{} is not {what} of a Thalweg space: it {why}", path.display())));
    }
    let version = word(header, 8) as u32;
    if version == 0 || version > VERSION {
        return Err(Error::new(format!(
            "{} has version {version}, and this program reads up to version {VERSION}: use a newer thalweg",
            path.display()
        )));
    }
    Ok(())
}

/// The little-endian word at byte `at`. Panics if `bytes` ends before `at + 8`.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// A text that is stored as a length word and bytes within `room` bytes; a length beyond that is cut.
pub(crate) fn text(bytes: &[u8], at: usize, room: usize) -> String {
    let length = (word(bytes, at) as usize).min(room);
    String::from_utf8_lossy(&bytes[at + 8..at + 8 + length]).into_owned()
}
