//! The claim on a target: one process at a time has it, and the kernel releases it when that process ends,
//! however it ends. This module has `unsafe`: the standard library has no `pidfd_open`.
//!
//! A claim is a lock on a file of the kernel that represents the target, so no file has to be made or
//! removed. From Linux 6.9 on this file is the target's process descriptor, which is the same file in all
//! containers. On older kernels it is `/proc/PID/mem`, which is the same for all processes that see the same
//! `/proc`.
//!
//! The holder of a claim may attach to the target, restore it, or only examine it.
//!
//! Any process can lock the file that represents a target. So that others recognise the holder as an attaching
//! process of Thalweg, the holder also keeps an empty file in memory, the *mark*. The name of the mark says
//! which file is locked, and other processes see the mark among the holder's descriptors. A process can give a
//! mark only to processes that have no more rights than itself.

use crate::error::Error;
use crate::memory::Found;
use crate::process::{Identity, Process};
use std::fs::{File, TryLockError};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// The longest time to wait for a claim that is held by a process which examines or restores the target, and
/// not by an attachment.
const WAIT: Duration = Duration::from_secs(2);
/// The number of times that the kernel's list of locks is read before a claim counts as one of a process in
/// another container.
const LOOKS: u32 = 8;
/// The kind of file system that process descriptors have from Linux 6.9 on, as `<linux/magic.h>` numbers it.
const PID_FS_MAGIC: i64 = 0x5049_4446;

/// A held claim, which is released when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    _locked: File,
    _mark: File,
    /// Whether the claim also holds against processes of other containers.
    pub(crate) is_everywhere: bool,
}

/// The result of an attempt to claim a target.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// This process has the claim.
    Ours(Claim),
    /// Another process has the claim: its process id, unless it is in another container.
    By(Option<i32>),
}

impl Claim {
    /// Claims the target, if no process has claimed it.
    pub(crate) fn tried(target: Identity) -> Result<Claimed, Error> {
        let (file, is_everywhere) = standing_for(target)?;
        if !target.lives() {
            return Err(Error::new(format!("process {} has ended", target.pid)));
        }
        for _ in 0..LOOKS {
            match file.try_lock() {
                Ok(()) => {
                    return Ok(Claimed::Ours(Claim { _mark: mark(&file)?, _locked: file, is_everywhere }));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(Error::of("cannot claim the process", error)),
            }
            // The kernel's list of locks may lack the holder for a moment: the lock may have been released
            // since, and other locks that come and go while the list is read move its entries.
            if let Some(by) = holder(&file) {
                return Ok(Claimed::By(Some(by)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Claimed::By(None))
    }

    /// Claims the target. Waits a moment for a process that has claimed the target and is not attached to it.
    pub(crate) fn new(process: &Process) -> Result<Claim, Error> {
        let begin = Instant::now();
        loop {
            let by = match Claim::tried(process.identity)? {
                Claimed::Ours(claim) => return Ok(claim),
                Claimed::By(by) => by,
            };
            let is_attached = Found::in_target(process)?
                .is_some_and(|found| found.maker.is_some_and(|maker| maker.lives() && by == Some(maker.pid)));
            if is_attached || begin.elapsed() > WAIT {
                return Err(attached_by(process.identity, by));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The error of a second attachment.
pub(crate) fn attached_by(target: Identity, by: Option<i32>) -> Error {
    let pid = target.pid;
    Error::new(match by {
        Some(by) if !has_mark(target, by) => return not_ours(target, by),
        Some(by) => format!("process {pid} is attached to by process {by}: `thalweg detach {pid}` ends that"),
        None => {
            format!("process {pid} is attached to by a process of another container: detach from it there")
        }
    })
}

/// The error if a process without a mark holds the lock on the target.
pub(crate) fn not_ours(target: Identity, by: i32) -> Error {
    let pid = target.pid;
    let name = std::fs::read_to_string(format!("/proc/{by}/comm")).unwrap_or_default();
    Error::new(format!(
        "process {by} ({}) holds the lock that keeps others from attaching to process {pid}, and is not known to have attached to it: it is left \
         alone",
        name.trim_end()
    ))
}

/// Asks the process that has the claim on a target to end. A process without the mark gets no signal: the
/// kernel may have given the holder's number to another process since.
pub(crate) fn end_holder(target: Identity, holder: i32) -> Result<(), Error> {
    let failed = |error| Error::of(&format!("cannot end process {holder}"), error);
    // From here on the descriptor refers to the same process, even if the process id is reused.
    let Some(descriptor) = descriptor_of(holder) else { return Err(failed(std::io::Error::last_os_error())) };
    if !has_mark(target, holder) {
        return Err(not_ours(target, holder));
    }
    let (number, no_details) = (descriptor.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
    // SAFETY: the descriptor is open, and with a null pointer in place of the signal's details the call reads
    // no memory.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, number, libc::SIGTERM, no_details, 0) };
    if result == 0 { Ok(()) } else { Err(failed(std::io::Error::last_os_error())) }
}

/// Makes the mark of this process, which has locked the file `locked`.
fn mark(locked: &File) -> Result<File, Error> {
    let failed = |error| Error::of("cannot claim the process", error);
    let name = mark_of(locked).map_err(failed)? + "\0";
    // SAFETY: the name ends with a zero byte.
    let number = unsafe { libc::memfd_create(name.as_ptr().cast(), libc::MFD_CLOEXEC) };
    if number < 0 {
        return Err(failed(std::io::Error::last_os_error()));
    }
    // SAFETY: the system call has just opened this descriptor, and no other value owns it.
    Ok(unsafe { File::from_raw_fd(number) })
}

/// The name of the mark of a locked file. The name contains the file's inode, which is the same in all
/// containers that share the lock, whereas the target's process id differs between containers.
fn mark_of(locked: &File) -> std::io::Result<String> {
    let about = locked.metadata()?;
    Ok(format!("thalweg-claim-{:x}-{}", about.dev(), about.ino()))
}

/// Whether a process has the mark of a claim on this target. False if its descriptors may not be read.
fn has_mark(target: Identity, holder: i32) -> bool {
    let Some(name) = standing_for(target).ok().and_then(|(file, _)| mark_of(&file).ok()) else {
        return false;
    };
    let name = format!("/memfd:{name} (deleted)");
    let list = std::fs::read_dir(format!("/proc/{holder}/fd")).into_iter().flatten().flatten();
    list.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|link| link.to_str() == Some(&name))
}

/// A descriptor of the process that has this process id now; the descriptor still refers to that process
/// after the id was reused.
fn descriptor_of(pid: i32) -> Option<OwnedFd> {
    // SAFETY: the system call takes only numbers, so it accesses no memory of this process.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0)?;
    // SAFETY: the system call has just opened this descriptor, and no other value owns it.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The file that represents a process, and whether it is the same in all containers.
fn standing_for(target: Identity) -> Result<(File, bool), Error> {
    if let Some(descriptor) = descriptor_of(target.pid) {
        let file = File::from(descriptor);
        // SAFETY: the structure consists of plain numbers, so all zeroes are a valid value.
        let mut about: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and the call writes only to `about`, which has the type that it
        // fills.
        let result = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut about) };
        if result == 0 && about.f_type == PID_FS_MAGIC {
            return Ok((file, true));
        }
    }
    let memory = File::open(format!("/proc/{}/mem", target.pid));
    let memory = memory.map_err(|error| crate::process::refused(target.pid, &error))?;
    Ok((memory, false))
}

/// The process that has locked a file, if it is visible to this process.
fn holder(file: &File) -> Option<i32> {
    let about = file.metadata().ok()?;
    let (major, minor) = (libc::major(about.dev()), libc::minor(about.dev()));
    let name = format!("{major:02x}:{minor:02x}:{}", about.ino());
    holder_in(&std::fs::read_to_string("/proc/locks").ok()?, &name)
}

/// The process that has the lock on the file of this name, in the text of `/proc/locks`.
fn holder_in(locks: &str, name: &str) -> Option<i32> {
    let line =
        locks.lines().find(|line| line.split(' ').any(|word| word == name) && line.contains("FLOCK"))?;
    let before = line.split_ascii_whitespace().take_while(|word| *word != name).last()?;
    before.parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_claim_at_a_time() {
        let own = Identity::of(std::process::id().cast_signed()).expect("oneself");
        let Ok(Claimed::Ours(first)) = Claim::tried(own) else { panic!("nobody has it") };
        let Ok(Claimed::By(by)) = Claim::tried(own) else { panic!("it is taken") };
        assert_eq!(by, Some(own.pid));
        assert!(has_mark(own, own.pid));
        drop(first);
        assert!(!has_mark(own, own.pid));
        assert!(matches!(Claim::tried(own), Ok(Claimed::Ours(_))));
    }

    #[test]
    fn holders_are_read_from_the_kernels_list() {
        let locks = "1: FLOCK  ADVISORY  WRITE 2815 00:05:35273 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 11 00:15:27461 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 12 00:15:27461 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 00:15:9 0 EOF\n";
        assert_eq!(holder_in(locks, "00:05:35273"), Some(2815));
        assert_eq!(holder_in(locks, "00:15:27461"), Some(12));
        assert_eq!(holder_in(locks, "00:15:9"), None);
        assert_eq!(holder_in(locks, "00:05:3527"), None);
    }
}
