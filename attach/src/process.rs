//! The target, read through `/proc`: its identity, its maps, its threads, its memory. This module has `unsafe`,
//! because a system call that reads several ranges of memory has pointers as arguments.

use crate::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// A process, identified by its id and its start time, because ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The process's id, as the process that runs this code sees it.
    pub pid: i32,
    /// When the process began, in the kernel's ticks since the machine was started.
    pub start: u64,
}

impl Identity {
    /// The identity of the process that has this id at present.
    pub fn of(pid: i32) -> Option<Identity> {
        Identity::parsed(pid, &Identity::read(pid).ok()?)
    }

    /// Whether the process still runs.
    pub fn lives(&self) -> bool {
        Identity::of(self.pid) == Some(*self)
    }

    /// Whether the process has certainly ended: not if that cannot be found out.
    pub(crate) fn has_ended(&self) -> bool {
        match Identity::read(self.pid) {
            Ok(stat) => Identity::parsed(self.pid, &stat) != Some(*self),
            Err(error) => is_gone(&error),
        }
    }

    fn read(pid: i32) -> io::Result<String> {
        fs::read_to_string(format!("/proc/{pid}/stat"))
    }

    /// A process has ended when its last thread has: the first thread may end before the others (`pthread_exit`
    /// in `main`), and is then listed as a zombie of a process with further threads.
    fn parsed(pid: i32, stat: &str) -> Option<Identity> {
        let (_, after) = stat.rsplit_once(") ")?;
        let field = |number| after.split(' ').nth(number)?.parse().ok();
        let (threads, start): (u64, u64) = (field(17)?, field(19)?);
        (!has_ended(after) || threads > 1).then_some(Identity { pid, start })
    }
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) is_readable: bool,
    pub(crate) is_executable: bool,
    pub(crate) offset: u64,
    /// The file, as the target names it; empty for memory without a file.
    pub(crate) path: String,
}

impl Mapping {
    pub(crate) fn has(&self, address: u64) -> bool {
        (self.begin..self.end).contains(&address)
    }

    fn parsed(line: &str) -> Option<Mapping> {
        let mut fields = line.splitn(6, ' ');
        let (begin, end) = fields.next()?.split_once('-')?;
        let rights = fields.next()?;
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let path = fields.nth(2).unwrap_or("").trim_start().to_owned();
        Some(Mapping {
            begin: u64::from_str_radix(begin, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            is_readable: rights.starts_with('r'),
            is_executable: rights.as_bytes().get(2) == Some(&b'x'),
            offset,
            path,
        })
    }
}

/// The target: its identity and its memory, which belongs to one program: after `exec` it can be neither read
/// nor written.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) identity: Identity,
    /// The address of the program's arguments, directly above the stack of the first thread; 0 if it is not known.
    pub(crate) arguments: u64,
    /// A thread that has not ended as far as is known: the first one, unless that has ended before the others. The
    /// kernel shows the process's memory, files and program only below threads that have not ended.
    via: AtomicI32,
    memory: File,
}

impl Process {
    pub(crate) fn open(pid: i32) -> Result<Process, Error> {
        let identity = Identity::of(pid).ok_or_else(|| Error::new(format!("there is no process {pid}")))?;
        let via = if thread_has_ended(pid, pid) { living_thread(pid).unwrap_or(pid) } else { pid };
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{via}/mem"));
        let memory = memory.map_err(|error| refused(pid, &error))?;
        let number = |stat: String| stat.rsplit_once(") ")?.1.split(' ').nth(25)?.parse().ok();
        let arguments = Identity::read(via).ok().and_then(number).unwrap_or(0);
        Ok(Process { identity, arguments, via: via.into(), memory })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.identity.pid
    }

    /// A thread that has not ended as far as is known.
    pub(crate) fn via(&self) -> i32 {
        self.via.load(Ordering::Relaxed)
    }

    /// A path below `/proc/PID`.
    pub(crate) fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.via()).into()
    }

    /// A file of the target's, where this process sees it: the target may have another root.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.proc(&format!("root{path}"))
    }

    pub(crate) fn maps(&self) -> Result<Vec<Mapping>, Error> {
        let mut text = fs::read(self.proc("maps"));
        // A thread that has ended has no maps, or is not listed any more.
        if text.as_ref().map_or(true, Vec::is_empty)
            && let Some(thread) = living_thread(self.pid())
        {
            self.via.store(thread, Ordering::Relaxed);
            text = fs::read(self.proc("maps"));
        }
        let text = text.map_err(|error| Error::of("cannot read the target's maps", error))?;
        Ok(String::from_utf8_lossy(&text).lines().filter_map(Mapping::parsed).collect())
    }

    /// The ids of the process's threads.
    pub(crate) fn threads(&self) -> Vec<i32> {
        threads(self.pid())
    }

    /// The number of threads, from the link count of the folder of threads; among them is the first thread, even if
    /// it has ended before the others.
    pub(crate) fn thread_count(&self) -> Option<usize> {
        thread_count(self.pid())
    }

    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(into, address)
    }

    /// Reads up to the length of `into`, and fewer bytes if the mapping ends before.
    pub(crate) fn read_some(&self, address: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            match self.memory.read_at(&mut into[done..], address + done as u64) {
                Ok(bytes) if bytes > 0 => done += bytes,
                _ => break,
            }
        }
        done
    }

    /// Reads ranges of memory by one system call, which takes a part of the time of a call for each. The bytes of all
    /// ranges, one after the other; fewer, if one of them cannot be read to its end.
    pub(crate) fn read_ranges(&self, ranges: &[(u64, u64)]) -> Vec<u8> {
        let remote = |(begin, end): &(u64, u64)| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(*begin as usize),
            iov_len: (end - begin) as usize,
        };
        let remote: Vec<libc::iovec> = ranges.iter().map(remote).collect();
        let mut bytes = vec![0_u8; remote.iter().map(|range| range.iov_len).sum()];
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let (count, via) = (remote.len() as libc::c_ulong, self.via());
        // SAFETY: the call writes only to `bytes`, within its length, and reads the two lists, which outlive it.
        let read = unsafe { libc::process_vm_readv(via, &raw const local, 1, remote.as_ptr(), count, 0) };
        bytes.truncate(usize::try_from(read).unwrap_or(0));
        bytes
    }

    pub(crate) fn read_word(&self, address: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Writes memory, also if the target itself must not: the kernel then copies the page first.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, address)
    }

    /// Whether a thread has certainly ended, though the kernel may still list it.
    pub(crate) fn thread_has_ended(&self, thread: i32) -> bool {
        thread_has_ended(self.pid(), thread)
    }

    /// How often a thread has been given a processor, if the kernel counts that.
    pub(crate) fn turns(&self, thread: i32) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/task/{thread}/schedstat", self.pid())).ok()?;
        text.split_ascii_whitespace().nth(2)?.parse().ok()
    }

    /// A field of `/proc/PID/status`, or of one of its threads.
    pub(crate) fn status(&self, thread: i32, field: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/task/{thread}/status", self.pid())).ok()?;
        let line =
            text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::trim))?;
        Some(line.to_owned())
    }
}

/// Whether the fields of a `stat` from the state on are those of a process or thread that has ended.
fn has_ended(state: &str) -> bool {
    state.starts_with(['Z', 'X'])
}

fn thread_has_ended(pid: i32, thread: i32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")) {
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, after)| has_ended(after)),
        Err(error) => is_gone(&error),
    }
}

fn threads(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

fn thread_count(pid: i32) -> Option<usize> {
    use std::os::unix::fs::MetadataExt;
    let links = fs::metadata(format!("/proc/{pid}/task")).ok()?.nlink();
    usize::try_from(links.checked_sub(2)?).ok()
}

/// A thread of the process that has not ended; the first one, if that has not.
fn living_thread(pid: i32) -> Option<i32> {
    threads(pid).into_iter().find(|thread| !thread_has_ended(pid, *thread))
}

/// The text of a process's memory maps; empty if it has ended or may not be read.
pub(crate) fn maps_of(pid: i32) -> Vec<u8> {
    let read = |thread: i32| fs::read(format!("/proc/{thread}/maps")).ok().filter(|maps| !maps.is_empty());
    let is_one = || thread_count(pid).is_none_or(|count| count < 2);
    let other = || if is_one() { None } else { living_thread(pid).and_then(read) };
    read(pid).or_else(other).unwrap_or_default()
}

/// Whether the error of a read below `/proc` says that the process or thread does not exist.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The reason why a process's memory cannot be accessed, and what the user can do.
pub(crate) fn refused(pid: i32, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        return Error::new(format!("process {pid} has ended"));
    }
    if error.raw_os_error() == Some(libc::ESRCH) {
        return Error::new(format!(
            "process {pid} has no memory of its own: it is the kernel's, or has just ended"
        ));
    }
    if error.kind() != io::ErrorKind::PermissionDenied && error.raw_os_error() != Some(libc::EPERM) {
        return Error::of(&format!("cannot open the memory of process {pid}"), error);
    }
    let field = |of: &str, name: &str| {
        let text = fs::read_to_string(format!("/proc/{of}/status")).ok()?;
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t").map(str::to_owned))?;
        Some(line)
    };
    let first = |line: Option<String>| line.and_then(|line| line.split('\t').next().map(str::to_owned));
    let tracer = field(&pid.to_string(), "TracerPid").filter(|tracer| tracer != "0");
    if let Some(tracer) = tracer {
        return Error::new(format!(
            "process {pid} is traced by process {tracer}, a debugger perhaps: end that first, since a process has one tracer"
        ));
    }
    let theirs = field(&pid.to_string(), "Uid");
    let ids: Vec<&str> = theirs.as_deref().unwrap_or("").split('\t').collect();
    if ids.len() >= 3 && (ids[0] != ids[1] || ids[0] != ids[2]) {
        return Error::new(format!(
            "process {pid} has changed its user (set-user-ID): only root may attach to it"
        ));
    }
    let (theirs, ours) = (first(theirs), first(field("self", "Uid")));
    if theirs != ours {
        return Error::new(format!(
            "process {pid} belongs to the user with id {}: attach as that user or as root",
            theirs.unwrap_or_default()
        ));
    }
    by_scope(pid, fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default().trim())
}

/// The reason for which the kernel refuses a process of the same user, by `kernel.yama.ptrace_scope`.
fn by_scope(pid: i32, scope: &str) -> Error {
    match scope {
        "1" => Error::new(format!(
            "the kernel lets a process attach to its own children only: attach to {pid} as root, start the program by \
             `thalweg attach -- COMMAND`, or allow it with `sysctl kernel.yama.ptrace_scope=0`"
        )),
        "2" => Error::new("the kernel lets only root attach (kernel.yama.ptrace_scope is 2)"),
        "3" => {
            Error::new("the kernel lets nobody attach until the next start (kernel.yama.ptrace_scope is 3)")
        }
        _ => Error::new(format!(
            "may not attach to process {pid}: it has rights that this process lacks, or has forbidden it by prctl(PR_SET_DUMPABLE); attach as root"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read_and_written() {
        let process = Process::open(std::process::id() as i32).expect("oneself");
        assert!(process.identity.lives());
        let word = Box::new(0x1234_5678_9abc_def0_u64);
        let address = std::ptr::from_ref(&*word).addr() as u64;
        assert_eq!(process.read_word(address).expect("a word"), *word);
        let maps = process.maps().expect("maps");
        let code = maps.iter().find(|mapping| mapping.has(refused as *const () as usize as u64));
        assert!(
            code.is_some_and(|mapping| mapping.is_executable && mapping.path.starts_with('/')),
            "{maps:?}"
        );
        assert!(!process.threads().is_empty());
        let stack = maps.iter().find(|mapping| mapping.path == "[stack]");
        assert!(stack.is_some_and(|mapping| mapping.has(process.arguments)), "{:#x}", process.arguments);
        assert_eq!(process.status(process.pid(), "TracerPid").as_deref(), Some("0"));
    }

    #[test]
    fn the_scope_of_tracing_is_explained() {
        for (scope, part) in [
            ("1", "attach to 7 as root, start the program by `thalweg attach -- COMMAND`, or allow it"),
            ("2", "only root attach (kernel.yama.ptrace_scope is 2)"),
            ("3", "nobody attach until the next start (kernel.yama.ptrace_scope is 3)"),
            ("0", "may not attach to process 7: it has rights that this process lacks"),
            ("", "may not attach to process 7"),
        ] {
            let reason = by_scope(7, scope).to_string();
            assert!(reason.contains(part) && !reason.contains('\n'), "{scope}: {reason}");
        }
    }

    #[test]
    fn nobody_there() {
        let error = Process::open(i32::MAX - 1).expect_err("no process");
        assert_eq!(error.to_string(), "there is no process 2147483646");
    }
}
