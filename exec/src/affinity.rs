//! System calls of the runtime: pinning a thread, the processor time of a thread, and a barrier in every
//! thread.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

const REGISTER_PRIVATE_EXPEDITED: i64 = 1 << 4;
#[cfg_attr(loom, allow(dead_code))]
const PRIVATE_EXPEDITED: i64 = 1 << 3;

/// Announces that the process will use [`barrier_everywhere`]. Returns false if the kernel does not offer the
/// barrier; then every thread must use a fence of its own, as streams do even between the tasks of one worker.
pub fn register_barrier() -> bool {
    membarrier(REGISTER_PRIVATE_EXPEDITED)
}

/// Makes every thread of the process pass a full barrier (Linux's `membarrier`), after [`register_barrier`].
/// Without the kernel's barrier only the calling thread passes one.
#[cfg_attr(loom, allow(dead_code))]
pub fn barrier_everywhere() {
    fence(Ordering::SeqCst);
    membarrier(PRIVATE_EXPEDITED);
}

fn membarrier(command: i64) -> bool {
    // SAFETY: the call has three integers as arguments and accesses no memory of this process.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0_i64, 0_i64) == 0 }
}

/// The processor time and other resources that the calling thread used so far.
pub(crate) struct Used {
    /// The time for which the thread had a processor.
    pub(crate) cpu_ns: u64,
    /// How often the kernel took the processor from the thread for another thread.
    pub(crate) preempted: u64,
    /// The time for which the thread could have run and had no processor; `u64::MAX` if the kernel does not
    /// report it.
    pub(crate) delayed_ns: u64,
    /// How much of its processor time the thread spent in the kernel.
    pub(crate) kernel_ns: u64,
    /// Page faults: pages of memory that the thread accessed before they were mapped.
    pub(crate) faults: u64,
}

/// The processor time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time of all threads of this process.
pub(crate) fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The present time of a clock of the kernel.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the given structure.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn used() -> Used {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the given structure, which consists of integers, for which zeros are valid.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| (time.tv_sec as u64) * 1_000_000_000 + (time.tv_usec as u64) * 1000;
    Used {
        cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
        preempted: usage.ru_nivcsw as u64,
        delayed_ns: delayed_ns().unwrap_or(u64::MAX),
        kernel_ns: ns(usage.ru_stime),
        faults: usage.ru_minflt as u64 + usage.ru_majflt as u64,
    }
}

/// The time that the calling thread spent in a processor's run queue (`proc_pid_schedstat`: the second of
/// three numbers).
fn delayed_ns() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().nth(1)?.parse().ok()
}

/// Reads repeatedly how long the calling thread spent in a processor's run queue.
pub(crate) struct Delays {
    schedstat: std::fs::File,
    told_ns: u64,
}

impl Delays {
    /// Opens the file of the calling thread; `None` if the kernel does not report run queue times.
    pub(crate) fn of_this_thread() -> Option<Delays> {
        let schedstat = std::fs::File::open("/proc/thread-self/schedstat").ok()?;
        let mut delays = Delays { schedstat, told_ns: 0 };
        delays.told_ns = delays.read_ns()?;
        Some(delays)
    }

    /// The time in the run queue since the last call.
    pub(crate) fn more_ns(&mut self) -> u64 {
        let before = self.told_ns;
        self.told_ns = self.read_ns().unwrap_or(before);
        self.told_ns.saturating_sub(before)
    }

    fn read_ns(&self) -> Option<u64> {
        let mut told = [0; 80];
        let length = self.schedstat.read_at(&mut told, 0).ok()?;
        std::str::from_utf8(&told[..length]).ok()?.split_whitespace().nth(1)?.parse().ok()
    }
}

/// A processor that this process may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    pub(crate) number: usize,
    /// The processor's NUMA node, if the kernel reports it.
    pub(crate) node: Option<usize>,
}

/// The processors that this process may run on, ordered by NUMA node, so that workers with consecutive
/// numbers, which have neighbouring pieces of a network, share the caches and memory of a node.
pub(crate) fn processors() -> Vec<Processor> {
    by_node(&allowed(), &nodes(Path::new("/sys/devices/system/node")))
}

fn by_node(allowed: &[usize], nodes: &[(usize, Vec<usize>)]) -> Vec<Processor> {
    let node =
        |number| nodes.iter().find(|(_, processors)| processors.contains(&number)).map(|(node, _)| *node);
    let mut processors: Vec<Processor> =
        allowed.iter().map(|&number| Processor { number, node: node(number) }).collect();
    processors.sort_by_key(|processor| (processor.node, processor.number));
    processors
}

/// The NUMA nodes and their processors, read from a directory of the kernel; empty if the directory does not
/// exist.
fn nodes(directory: &Path) -> Vec<(usize, Vec<usize>)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let node = |entry: std::fs::DirEntry| {
        let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        let list = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
        Some((node, processors_of(&list)))
    };
    entries.filter_map(node).collect()
}

/// Parses a list of processors such as `0-3,8`. Parts that are no numbers are left out.
fn processors_of(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let last: usize = last.parse().ok()?;
        Some(first.parse().ok()?..=last.min(libc::CPU_SETSIZE as usize))
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// The numbers of the processors that this process may use.
pub(crate) fn allowed() -> Vec<usize> {
    // SAFETY: an all-zero `cpu_set_t` is an empty set, and the call fills at most its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        set
    };
    // SAFETY: the index stays below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect()
}

/// Binds the calling thread to one core.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    // SAFETY: the set is a local variable, the core is below CPU_SETSIZE because it came from `allowed`, and
    // the call only reads the set.
    let outcome = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn processors_follow_one_another_node_by_node() {
        let directory = std::env::temp_dir().join(format!("thalweg-nodes-{}", std::process::id()));
        for (name, list) in [("node0", "0,2,4-5\n"), ("node1", "1,3,6-7\n"), ("possible", "0-1\n")] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
            std::fs::write(directory.join(name).join("cpulist"), list).unwrap();
        }
        let nodes = nodes(&directory);
        std::fs::remove_dir_all(&directory).unwrap();
        let order = |allowed: &[usize]| {
            by_node(allowed, &nodes).iter().map(|p| (p.number, p.node)).collect::<Vec<_>>()
        };
        assert_eq!(
            order(&[0, 1, 2, 3, 4, 6]),
            [(0, Some(0)), (2, Some(0)), (4, Some(0)), (1, Some(1)), (3, Some(1)), (6, Some(1))]
        );
        assert_eq!(order(&[5, 9]), [(9, None), (5, Some(0))], "9 is of no node");
    }

    #[test]
    fn one_node_or_none_changes_no_order() {
        let all = [0, 1, 2, 3];
        for nodes in [vec![(0, all.to_vec())], nodes(Path::new("/nowhere"))] {
            assert!(by_node(&all, &nodes).iter().map(|p| p.number).eq(all));
        }
    }

    #[test]
    fn damaged_lists_of_processors_give_what_can_be_read() {
        assert_eq!(processors_of("0-2,x,7,9-8,-,3-\n"), [0, 1, 2, 7]);
        assert_eq!(processors_of(""), Vec::<usize>::new());
        assert!(processors_of("0-99999999999").len() <= 1025);
    }
}
