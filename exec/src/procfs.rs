//! What the kernel reports about this process's threads and about the machine, in `/proc` and
//! `/sys/fs/cgroup` (`proc_pid_schedstat`, `proc_pid_syscall`, `proc_pid_wchan`, `proc_stat`, `cgroups`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use thalweg_space::KindEnum;

/// Nanoseconds of a clock tick in `/proc/stat`.
const USER_TICK_NS: u64 = 10_000_000;

/// What a thread did when it was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum Doing {
    /// The thread had a processor, or waited for one.
    Runs = 0,
    /// The thread slept for a lock, or until another thread wakes it.
    Lock = 1,
    /// The thread waited until it can read something.
    Read = 2,
    /// The thread waited until something is written.
    Write = 3,
    /// The thread waited for a time.
    Sleep = 4,
    /// The thread waited for a page of memory.
    PageFault = 5,
    /// The thread slept for another reason.
    Other = 6,
}

/// The file of the kernel from which it is known what a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
pub(crate) enum Source {
    /// The system call that the thread was in.
    Call = 0,
    /// The kernel function that the thread slept in.
    Function = 1,
    /// The thread's state alone, which says whether it slept.
    State = 2,
    /// The kernel reports nothing.
    Nothing = 3,
}

/// A sample of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) doing: Doing,
    pub(crate) source: Source,
    /// The address of the lock, or the file descriptor, that the thread waits for; 0 if it is not known.
    pub(crate) on: u64,
}

/// The files of a thread, which stay open for many samples.
pub(crate) struct ThreadFiles {
    schedstat: Option<File>,
    call: Option<File>,
    function: Option<File>,
    state: Option<File>,
}

impl ThreadFiles {
    /// The files of a thread of this process.
    pub(crate) fn of(thread: i32) -> ThreadFiles {
        ThreadFiles::within(&PathBuf::from(format!("/proc/self/task/{thread}")))
    }

    fn within(folder: &Path) -> ThreadFiles {
        let open = |name: &str| File::open(folder.join(name)).ok();
        let (call, state) =
            (open("syscall").filter(|file| text(file, &mut [0; 128]).is_some()), open("stat"));
        let function = if call.is_none() { open("wchan") } else { None };
        ThreadFiles { schedstat: open("schedstat"), call, function, state }
    }

    /// How long the thread had a processor so far, and how long it could have run and had none.
    pub(crate) fn used_ns(&self) -> Option<(u64, u64)> {
        let buffer = &mut [0; 80];
        let mut words = text(self.schedstat.as_ref()?, buffer)?.split_ascii_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    }

    pub(crate) fn look(&self) -> Look {
        let buffer = &mut [0; 256];
        if let Some(look) = self.call.as_ref().and_then(|file| in_call(text(file, buffer)?)) {
            return look;
        }
        let Some(state) = self.state.as_ref().and_then(|file| state_of(text(file, buffer)?)) else {
            return Look { doing: Doing::Other, source: Source::Nothing, on: 0 };
        };
        let of = |doing, source| Look { doing, source, on: 0 };
        if state == 'R' {
            return of(Doing::Runs, if self.function.is_some() { Source::Function } else { Source::State });
        }
        let name = &mut [0; 128];
        match self
            .function
            .as_ref()
            .and_then(|file| text(file, name))
            .filter(|name| !matches!(*name, "" | "0"))
        {
            Some(name) => of(in_function(name), Source::Function),
            None => of(Doing::Other, Source::State),
        }
    }
}

/// The present text of a small file.
fn text<'b>(file: &File, buffer: &'b mut [u8]) -> Option<&'b str> {
    let length = file.read_at(buffer, 0).ok()?;
    Some(std::str::from_utf8(&buffer[..length]).ok()?.trim_end())
}

/// The state in `/proc/PID/stat`, which follows the process's name. The name may contain any characters.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Parses `/proc/PID/syscall`: `running`, or the number of the call and its arguments; -1 if the thread
/// sleeps outside of a call.
fn in_call(told: &str) -> Option<Look> {
    let of = |doing, on| Some(Look { doing, source: Source::Call, on });
    let mut words = told.split_ascii_whitespace();
    let number = match words.next()? {
        "running" => return of(Doing::Runs, 0),
        "-1" => return of(Doing::PageFault, 0),
        number => number.parse::<i64>().ok()?,
    };
    let first = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let doing = of_call(number);
    of(doing, first.filter(|_| matches!(doing, Doing::Lock | Doing::Read | Doing::Write)).unwrap_or(0))
}

fn of_call(number: i64) -> Doing {
    match number {
        libc::SYS_futex | libc::SYS_flock | libc::SYS_semop | libc::SYS_semtimedop => Doing::Lock,
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_preadv2
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_openat
        | libc::SYS_connect => Doing::Read,
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_sendfile
        | libc::SYS_splice
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_msync
        | libc::SYS_sync_file_range => Doing::Write,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Doing::Sleep,
        _ => Doing::Other,
    }
}

/// What a thread sleeps for, from the name of the kernel function in which it sleeps.
fn in_function(name: &str) -> Doing {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&["futex", "flock", "sem_"]) {
        Doing::Lock
    } else if has(&["nanosleep"]) {
        Doing::Sleep
    } else if has(&["folio_wait", "page_wait", "wait_on_page", "filemap_fault"]) {
        Doing::PageFault
    } else if has(&["write", "sendmsg", "fsync", "sk_stream_wait_memory"]) {
        Doing::Write
    } else if has(&["read", "recv", "accept", "fifo_open"]) {
        Doing::Read
    } else {
        Doing::Other
    }
}

/// This process's memory, read through a file so that an unmapped address is an error.
pub(crate) struct Memory(File);

impl Memory {
    /// Opens the file; `None` if the kernel refuses it.
    pub(crate) fn open() -> Option<Memory> {
        File::open("/proc/self/mem").ok().map(Memory)
    }

    /// Reads the memory from an address on; false if not all of it is there.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.0.read_exact_at(into, address).is_ok()
    }

    /// The thread that holds the lock at this address, if the lock is held and records its holder, as a
    /// `pthread_mutex_t` of the C libraries of Linux does in its third word. For any other kind of lock the
    /// result is meaningless.
    pub(crate) fn holder(&self, lock: u64) -> Option<i32> {
        let mut words = [0; 12];
        self.0.read_exact_at(&mut words, lock).ok()?;
        let word = |at: usize| i32::from_ne_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
        (word(0) != 0 && word(8) > 0).then_some(word(8))
    }
}

/// What the processors that this process may run on did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processors {
    /// The time for which the processors worked for any process, including other guests of a virtual
    /// machine's host.
    pub(crate) busy_ns: u64,
    /// The time for which the processors were idle.
    pub(crate) idle_ns: u64,
}

/// Parses `/proc/stat`; `allowed` are the numbers of the processors.
pub(crate) fn processors_used(stat: &str, allowed: &[usize]) -> Option<Processors> {
    let mut used = Processors::default();
    let mut found = 0;
    for line in stat.lines() {
        let Some((number, rest)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        if !number.parse().is_ok_and(|number: usize| allowed.contains(&number)) {
            continue;
        }
        // The columns are user nice system idle iowait irq softirq steal; the time of guests is part of user.
        let ticks: Vec<u64> =
            rest.split_ascii_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
        let [user, nice, system, idle, waiting, interrupts @ ..] = &ticks[..] else { return None };
        used.idle_ns += (idle + waiting) * USER_TICK_NS;
        used.busy_ns += (user + nice + system + interrupts.iter().sum::<u64>()) * USER_TICK_NS;
        found += 1;
    }
    (found > 0).then_some(used)
}

/// The most threads, and the most programs, that are asked for the programs that they started.
const STARTED_MAX: usize = 256;

/// The processor time, so far, of the programs that this process started and of those that these started, in
/// nanoseconds. A program that has ended is counted from the moment at which its end was waited for.
pub(crate) fn programs_ns() -> u64 {
    // SAFETY: any bit pattern is a valid `rusage`, which the call fills.
    let ended = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    let mut used_ns = ns(ended.ru_utime) + ns(ended.ru_stime);
    let mut programs = started_by(Path::new("/proc/self"));
    let mut at = 0;
    while let Some(program) = programs.get(at).filter(|_| at < STARTED_MAX) {
        let folder = PathBuf::from(format!("/proc/{program}"));
        let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
        used_ns += program_ticks(&stat).unwrap_or(0) * USER_TICK_NS;
        programs.extend(started_by(&folder));
        at += 1;
    }
    used_ns
}

/// The numbers of the programs that the threads of a process started and that have not ended.
fn started_by(process: &Path) -> Vec<u32> {
    let threads = std::fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let started = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children")).ok();
    let numbers = |list: String| -> Vec<u32> {
        list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    threads.take(STARTED_MAX).filter_map(started).flat_map(numbers).collect()
}

/// The processor time of a process and of its children that have ended, in ticks, from its file `stat`.
fn program_ticks(stat: &str) -> Option<u64> {
    // The name of the program, in parentheses, may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    words.get(11..15)?.iter().map(|word| word.parse::<u64>().ok()).sum()
}

/// How long this process's cgroup has been throttled so far, because it had spent its quota of processor
/// time.
pub(crate) struct Throttled(File);

impl Throttled {
    pub(crate) fn open() -> Option<Throttled> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        Throttled::within(Path::new("/sys/fs/cgroup"), &groups)
    }

    /// Opens the file of the nearest enclosing cgroup that reports throttling.
    fn within(root: &Path, groups: &str) -> Option<Throttled> {
        let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let nearest = root.join(group);
        let files = nearest.ancestors().take_while(|folder| folder.starts_with(root));
        let open = |folder: &Path| File::open(folder.join("cpu.stat")).ok().map(Throttled);
        files.filter_map(open).find(|file| file.ns().is_some())
    }

    pub(crate) fn ns(&self) -> Option<u64> {
        let buffer = &mut [0; 1024];
        let line = text(&self.0, buffer)?.lines().find_map(|line| line.strip_prefix("throttled_usec "))?;
        Some(line.trim().parse::<u64>().ok()? * 1000)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn doing(told: &str) -> Option<(Doing, u64)> {
        in_call(told).map(|look| (look.doing, look.on))
    }

    #[test]
    fn a_call_tells_what_a_thread_waits_for() {
        let call = |number: i64| format!("{number} 0x7f10 0x80 0x0 0x0 0x0 0x0 0x7ffd 0x7f2a");
        assert_eq!(doing("running"), Some((Doing::Runs, 0)));
        assert_eq!(doing("-1 0x7ffd 0x55a0"), Some((Doing::PageFault, 0)));
        assert_eq!(doing(&call(libc::SYS_futex)), Some((Doing::Lock, 0x7f10)));
        assert_eq!(doing(&call(libc::SYS_read)), Some((Doing::Read, 0x7f10)));
        assert_eq!(doing(&call(libc::SYS_write)), Some((Doing::Write, 0x7f10)));
        assert_eq!(doing(&call(libc::SYS_clock_nanosleep)), Some((Doing::Sleep, 0)));
        assert_eq!(doing(&call(libc::SYS_ppoll)), Some((Doing::Other, 0)));
        for nonsense in ["", "x", "0x12", " "] {
            assert_eq!(doing(nonsense), None, "{nonsense:?}");
        }
    }

    /// The time of a program counts while it runs, that of a program that it started as well, and both after
    /// they ended.
    #[test]
    fn the_time_of_programs_counts_while_they_run_and_afterwards() {
        let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("sh -c '{burn}; read x'; read x")]);
        command.stdin(std::process::Stdio::piped());
        let before = programs_ns();
        let mut child = command.spawn().expect("sh starts");
        let began = std::time::Instant::now();
        while programs_ns() < before + 2 * USER_TICK_NS {
            assert!(began.elapsed().as_secs() < 60, "{} ns", programs_ns());
            std::thread::yield_now();
        }
        drop(child.stdin.take());
        child.wait().expect("a child of ours");
        assert!(programs_ns() >= before + 2 * USER_TICK_NS);
    }

    #[test]
    fn a_programs_time_follows_its_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 90 0 0 0 5 6 7 8 20 0 1 0 100 0 0";
        assert_eq!(program_ticks(stat), Some(26));
        assert_eq!(program_ticks("7 (a) S 1"), None);
        assert_eq!(program_ticks(""), None);
    }

    #[test]
    fn where_the_call_is_refused_the_kernels_function_or_the_state_tells() {
        let folder = std::env::temp_dir().join(format!("thalweg-procfs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let look = || ThreadFiles::within(&folder).look();
        let nothing = look();
        std::fs::write(folder.join("stat"), "7 (a) b) S 1 7 7 0").unwrap();
        let state = look();
        std::fs::write(folder.join("wchan"), "futex_wait_queue").unwrap();
        let function = look();
        std::fs::write(folder.join("syscall"), "running").unwrap();
        let call = look();
        std::fs::remove_dir_all(&folder).unwrap();
        let of = |doing, source| Look { doing, source, on: 0 };
        assert_eq!(nothing, of(Doing::Other, Source::Nothing));
        assert_eq!(state, of(Doing::Other, Source::State));
        assert_eq!(function, of(Doing::Lock, Source::Function));
        assert_eq!(call, of(Doing::Runs, Source::Call));
    }

    #[test]
    fn a_thread_that_sleeps_is_seen_to_sleep() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: the call has no arguments.
            tell.send(unsafe { libc::gettid() }).unwrap();
            _ = ended.recv();
        });
        let files = ThreadFiles::of(told.recv().unwrap());
        let sleeps = || !matches!(files.look().doing, Doing::Runs);
        while !sleeps() {
            std::thread::yield_now();
        }
        assert!(files.used_ns().is_none_or(|(cpu, _)| cpu > 0));
        drop(end);
        thread.join().unwrap();
    }

    #[test]
    fn a_lock_of_the_c_library_says_who_holds_it() {
        let memory = Memory::open().expect("the kernel shows a process its own memory");
        let mutex = Box::new(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let address = mutex.get() as u64;
        assert_eq!(memory.holder(address), None);
        // SAFETY: the mutex is initialised, does not move, and is unlocked by this thread; `gettid` has no
        // arguments.
        unsafe {
            libc::pthread_mutex_lock(mutex.get());
            assert_eq!(memory.holder(address), Some(libc::gettid()));
            libc::pthread_mutex_unlock(mutex.get());
        }
        assert_eq!(memory.holder(8), None, "nothing is there");
    }

    #[test]
    fn processors_add_up_those_that_are_allowed() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 10 0 0 1 0 0 0 0 0 0\nintr 7\n";
        let ns = |ticks| ticks * USER_TICK_NS;
        let both = Processors { busy_ns: ns(37), idle_ns: ns(10) };
        assert_eq!(processors_used(stat, &[0, 1, 7]), Some(both));
        assert_eq!(processors_used(stat, &[1]), Some(Processors { busy_ns: ns(10), idle_ns: ns(1) }));
        assert_eq!(processors_used(stat, &[7]), None);
        assert_eq!(processors_used("cpu0 1 2\n", &[0]), None);
    }

    #[test]
    fn the_nearest_group_with_a_limit_tells_how_long_it_had_spent_it() {
        let root = std::env::temp_dir().join(format!("thalweg-groups-{}", std::process::id()));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/cpu.stat"), "usage_usec 7\n").unwrap();
        std::fs::write(root.join("a/cpu.stat"), "usage_usec 7\nnr_throttled 2\nthrottled_usec 1500\n")
            .unwrap();
        let ns = Throttled::within(&root, "1:cpu:/x\n0::/a/b\n").and_then(|file| file.ns());
        let none = Throttled::within(&root, "1:cpu:/x\n").is_none();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(ns, Some(1_500_000));
        assert!(none);
    }
}
