//! Reads a thread's state in another process from the kernel: whether it runs, sleeps (and for what) or is
//! stopped, and its processor time (`proc_pid_stat`, `proc_pid_syscall`, `proc_pid_wchan`,
//! `proc_pid_schedstat`).

use std::fs;

use crate::report::SleepsFor;

/// The state of a thread in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// The thread has a processor, or waits for one.
    Runs,
    /// The thread sleeps.
    Sleeps(SleepsFor),
    /// A signal or a debugger stopped the thread.
    Stopped,
}

/// The processor time of a thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// The time in which the thread ran on a processor.
    pub(super) ran_ns: u64,
    /// The time in which the thread was runnable without a processor.
    pub(super) delayed_ns: u64,
}

/// The threads of a process; empty if the process has ended.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    let listed = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The thread with this name in a process, if exactly one thread has the name.
pub(super) fn thread_called(pid: u32, name: &str) -> Option<u32> {
    let is_called = |thread: &u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    let mut found = threads(pid).into_iter().filter(is_called);
    found.next().filter(|_| found.next().is_none())
}

/// The state of a thread; `None` if it has ended or the kernel does not report its state.
pub(super) fn doing(pid: u32, thread: u32) -> Option<Doing> {
    let text_of = |name: &str| fs::read_to_string(format!("/proc/{pid}/task/{thread}/{name}")).ok();
    let stat = text_of("stat")?;
    match state_of(&stat)? {
        'R' => Some(Doing::Runs),
        'T' | 't' => Some(Doing::Stopped),
        'Z' | 'X' | 'x' => None,
        _ => {
            let call = text_of("syscall").and_then(|text| in_call(&text));
            let function = || text_of("wchan").and_then(|name| in_function(name.trim()));
            Some(Doing::Sleeps(call.or_else(function).unwrap_or(SleepsFor::Other)))
        }
    }
}

/// The processor time of a thread so far; `None` if it has ended or the kernel does not report it.
pub(super) fn used(pid: u32, thread: u32) -> Option<Used> {
    let schedstat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    let mut words = schedstat.split_ascii_whitespace().map(str::parse);
    Some(Used { ran_ns: words.next()?.ok()?, delayed_ns: words.next()?.ok()? })
}

/// The state in `/proc/PID/task/TID/stat`. The state follows the last `)`, because the thread's name in
/// parentheses may contain any character.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// What a thread sleeps for, from the number of its system call on x86-64; -1 means that it sleeps outside a
/// system call.
fn in_call(syscall: &str) -> Option<SleepsFor> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    Some(match syscall.split_ascii_whitespace().next()?.parse::<i64>().ok()? {
        -1 => SleepsFor::PageFault,
        // futex, flock, semop, semtimedop.
        202 | 73 | 65 | 220 => SleepsFor::Lock,
        // read, readv, pread64, preadv, recvfrom, recvmsg, accept, accept4, openat, connect.
        0 | 19 | 17 | 295 | 45 | 47 | 43 | 288 | 257 | 42 => SleepsFor::Read,
        // write, writev, pwrite64, pwritev, sendto, sendmsg, sendfile, splice, fsync, fdatasync, msync.
        1 | 20 | 18 | 296 | 44 | 46 | 40 | 275 | 74 | 75 | 26 => SleepsFor::Write,
        // nanosleep, clock_nanosleep.
        35 | 230 => SleepsFor::Sleep,
        _ => SleepsFor::Other,
    })
}

/// What a thread sleeps for, by the name of the kernel's function in which it sleeps.
fn in_function(name: &str) -> Option<SleepsFor> {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    Some(match name {
        "" | "0" => return None,
        _ if has(&["futex", "flock", "sem_"]) => SleepsFor::Lock,
        _ if has(&["nanosleep"]) => SleepsFor::Sleep,
        _ if has(&["folio_wait", "page_wait", "filemap_fault"]) => SleepsFor::PageFault,
        _ if has(&["write", "sendmsg", "fsync", "sk_stream_wait_memory"]) => SleepsFor::Write,
        _ if has(&["read", "recv", "accept", "fifo_open"]) => SleepsFor::Read,
        _ => SleepsFor::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_stands_behind_any_name() {
        assert_eq!(state_of("12 (a) R (b)) S 1 2"), Some('S'));
        assert_eq!(state_of("12 (a"), None);
        assert_eq!(state_of(""), None);
    }

    #[test]
    fn a_thread_sleeps_for_what_the_kernel_reports() {
        assert_eq!(in_function("futex_do_wait"), Some(SleepsFor::Lock));
        assert_eq!(in_function("hrtimer_nanosleep"), Some(SleepsFor::Sleep));
        assert_eq!(in_function("pipe_read"), Some(SleepsFor::Read));
        assert_eq!(in_function("0"), None);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(in_call("230 0x0 0x0"), Some(SleepsFor::Sleep));
            assert_eq!(in_call("202 0x7f"), Some(SleepsFor::Lock));
            assert_eq!(in_call("running"), None);
        }
    }

    #[test]
    fn this_thread_runs_and_one_that_sleeps_sleeps() {
        let pid = std::process::id();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            let link = fs::read_link("/proc/thread-self").unwrap();
            sender.send(link.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()).unwrap();
            _ = ended.recv();
        });
        let thread = receiver.recv().unwrap();
        while doing(pid, thread) == Some(Doing::Runs) {
            std::thread::yield_now();
        }
        assert!(matches!(doing(pid, thread), Some(Doing::Sleeps(_))), "{:?}", doing(pid, thread));
        assert!(threads(pid).contains(&thread));
        drop(end);
        sleeper.join().unwrap();
        assert_eq!(doing(u32::MAX, 1), None);
        assert_eq!(used(u32::MAX, 1), None);
        assert!(threads(u32::MAX).is_empty());
    }
}
