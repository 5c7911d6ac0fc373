//! A read-only map of a file that another process may truncate at any time. This module has `unsafe`.
//!
//! An access to a page beyond the end of a truncated file raises `SIGBUS`. A handler of that signal maps
//! zeros in place of the file and marks the map as broken. A reader gets zeros, checks the mark, and returns
//! an error. Signals for other addresses go to the handler that was installed before.

use crate::error::Error;
use crate::file;
use crate::map_list::Entry;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A read-only map of the first bytes of a file.
#[derive(Debug)]
pub(crate) struct ReadMap {
    pointer: NonNull<u8>,
    bytes: usize,
    guard: &'static Entry,
}

// SAFETY: the map is read through atomics only; it is unmapped once, by its owner.
unsafe impl Send for ReadMap {}
// SAFETY: the map is read through atomics only; it is unmapped once, by its owner.
unsafe impl Sync for ReadMap {}

impl ReadMap {
    /// Maps the first `bytes` bytes of a file that has at least that length.
    pub(crate) fn of(file: &File, path: &Path, bytes: usize) -> Result<ReadMap, Error> {
        if file::length(file, path)? < bytes as u64 {
            return Err(shorter(path));
        }
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is touched.
        let address = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(Error::io("map", path, std::io::Error::last_os_error()));
        }
        let pointer = NonNull::new(address.cast::<u8>()).expect("mmap never returns null");
        Ok(ReadMap { pointer, bytes, guard: guard::register(pointer.as_ptr() as usize, bytes) })
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.bytes && self.bytes - at >= 8, "a word outside the map");
        // SAFETY: in range and aligned, as mappings are aligned to pages. The mapping lives as long as
        // `self`, and the handler has mapped zeros where the file was truncated.
        unsafe { &*self.pointer.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Loads the word at byte `at` with acquire: later loads see everything that its writer stored before it.
    #[inline]
    pub(crate) fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Copies words from byte `at` on, where a version lies. Returns whether the version was even and the
    /// same before and after the copy.
    #[inline]
    pub(crate) fn versioned<const N: usize>(&self, at: usize, words: &mut [u64; N]) -> bool {
        let version = self.load(at);
        if version & 1 == 1 {
            return false;
        }
        words[0] = version;
        for (n, word) in words.iter_mut().enumerate().skip(1) {
            *word = self.word(at + 8 * n).load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        self.word(at).load(Ordering::Relaxed) == version
    }

    /// Copies words from byte `at` on, the first of which names the owner of the others; 0 in its low byte:
    /// none. Returns whether there is an owner, and the same one before and after the copy.
    #[inline]
    pub(crate) fn owned<const N: usize>(&self, at: usize, words: &mut [u64; N]) -> bool {
        let owner = self.load(at);
        if owner as u8 == 0 {
            return false;
        }
        words[0] = owner;
        for (n, word) in words.iter_mut().enumerate().skip(1) {
            *word = self.word(at + 8 * n).load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        self.word(at).load(Ordering::Relaxed) == owner
    }

    /// Returns an error if the file at the path was truncated. The words that were read are zeros if the file
    /// was truncated.
    #[inline]
    pub(crate) fn check<P: AsRef<Path>>(&self, path: impl FnOnce() -> P) -> Result<(), Error> {
        if self.guard.is_broken() { Err(shorter(path().as_ref())) } else { Ok(()) }
    }
}

fn shorter(path: &Path) -> Error {
    Error::new(format!("{} is truncated; the space was damaged or is still being made", path.display()))
}

impl Drop for ReadMap {
    fn drop(&mut self) {
        self.guard.forget();
        // SAFETY: our own mapping, unmapped once; no reference into it outlives `self`.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.bytes) };
    }
}

/// The handler of `SIGBUS`.
mod guard {
    use crate::map_list::{Entry, MapList};
    use std::mem::MaybeUninit;
    use std::sync::OnceLock;

    static MAPS: MapList = MapList::new();
    /// The action that the signal had before this handler was installed.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    pub(super) fn register(address: usize, bytes: usize) -> &'static Entry {
        BEFORE.get_or_init(install);
        MAPS.register(address, bytes)
    }

    fn install() -> libc::sigaction {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: zeros are a valid action; the handler keeps the kernel's contract for SA_SIGINFO, on the alternate stack if there is one.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr());
            before.assume_init()
        }
    }

    /// Handles `SIGBUS` with loads, stores and system calls only, which are async-signal-safe.
    extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel hands over a good `info` for this signal.
        let fault = unsafe { (*info).si_addr() } as usize;
        for (entry, range) in MAPS.iter().filter(|(_, range)| range.contains(&fault)) {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: replaces exactly one mapping of a `ReadMap`, whose owner waits for this handler;
            // `errno` is restored.
            let made = unsafe {
                let errno = *libc::__errno_location();
                let made = libc::mmap(range.start as *mut _, range.len(), libc::PROT_READ, flags, -1, 0);
                *libc::__errno_location() = errno;
                made
            };
            if made != libc::MAP_FAILED {
                return entry.mark_broken();
            }
        }
        before(signal, info, context);
    }

    /// Passes the signal to the action that it had before.
    fn before(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let Some(action) = BEFORE.get() else { return };
        match action.sa_sigaction {
            // SAFETY: the access faults again after the handler returns, and then has the default action.
            libc::SIG_DFL | libc::SIG_IGN => unsafe {
                let mut default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, std::ptr::null_mut());
            },
            // SAFETY: a handler that was installed for this signal with `SA_SIGINFO`, called with its three
            // arguments.
            handler if action.sa_flags & libc::SA_SIGINFO != 0 => unsafe {
                type WithInfo = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
                std::mem::transmute::<usize, WithInfo>(handler)(signal, info, context);
            },
            // SAFETY: a handler that was installed for this signal with `SA_SIGINFO`, called with its three
            // arguments.
            handler => unsafe {
                std::mem::transmute::<usize, extern "C" fn(i32)>(handler)(signal);
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("thalweg-read-map-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_file_that_is_shortened_reads_as_zeros_and_is_reported() {
        let path = path("shortened");
        let mut file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        file.write_all(&[2; 1 << 16]).unwrap();
        let two = u64::from_le_bytes([2; 8]);
        let (map, other) = (ReadMap::of(&file, &path, 1 << 16), ReadMap::of(&file, &path, 4096));
        let (map, other) = (map.unwrap(), other.unwrap());
        assert!(ReadMap::of(&file, &path, (1 << 16) + 1).is_err(), "longer than the file");
        assert_eq!((map.load(0), map.load((1 << 16) - 8)), (two, two));
        file.set_len(8192).unwrap();
        map.check(|| &path).unwrap();
        assert_eq!(map.load((1 << 16) - 8), 0);
        let error = map.check(|| &path).unwrap_err().to_string();
        assert!(error.contains("is truncated"), "{error}");
        let mut words = [7; 8];
        assert!(map.versioned(64, &mut words) && words == [0; 8], "all of it is zeros");
        assert_eq!(other.load(0), two, "others are not touched");
        other.check(|| &path).unwrap();
        drop(map);
        let again = ReadMap::of(&file, &path, 8192).unwrap();
        again.check(|| &path).unwrap();
        assert_eq!(again.load(8184), two);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_copy_between_two_versions_is_whole() {
        let path = path("versions");
        std::fs::write(&path, [0; 4096]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let map = ReadMap::of(&file, &path, 4096).unwrap();
        let mut words = [0; 8];
        assert!(map.versioned(64, &mut words));
        std::os::unix::fs::FileExt::write_all_at(&file, &3_u64.to_le_bytes(), 64).unwrap();
        assert!(!map.versioned(64, &mut words), "it is being written");
        std::os::unix::fs::FileExt::write_all_at(&file, &4_u64.to_le_bytes(), 64).unwrap();
        assert!(map.versioned(64, &mut words) && words[0] == 4);
        std::fs::remove_file(path).unwrap();
    }
}
