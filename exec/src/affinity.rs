//! What the runtime asks of Linux itself: pinning a thread, what a thread used, and a barrier in every thread.

use std::io;
use std::sync::atomic::{Ordering, fence};

const REGISTER_PRIVATE_EXPEDITED: i64 = 1 << 4;
#[cfg_attr(loom, allow(dead_code))]
const PRIVATE_EXPEDITED: i64 = 1 << 3;

/// Announces that the process will use [`barrier_everywhere`]. False where the kernel does not offer it; then
/// streams make their fences even between the tasks of one worker.
pub(crate) fn register_barrier() -> bool {
    membarrier(REGISTER_PRIVATE_EXPEDITED)
}

#[cfg_attr(loom, allow(dead_code))]
pub(crate) fn barrier_everywhere() {
    fence(Ordering::SeqCst);
    membarrier(PRIVATE_EXPEDITED);
}

fn membarrier(command: i64) -> bool {
    // SAFETY: the call takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0_i64, 0_i64) == 0 }
}

/// What the calling thread used of processors so far.
pub(crate) struct Used {
    /// Time it had one.
    pub(crate) cpu_ns: u64,
    /// How often it was put off its processor for another thread.
    pub(crate) preempted: u64,
    /// Time it could have run and had none; `u64::MAX` where the kernel does not tell.
    pub(crate) delayed_ns: u64,
}

pub(crate) fn used() -> Used {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure it is given; all of it is integers, for which zeros are valid.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| (time.tv_sec as u64) * 1_000_000_000 + (time.tv_usec as u64) * 1000;
    Used {
        cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
        preempted: usage.ru_nivcsw as u64,
        delayed_ns: delayed_ns().unwrap_or(u64::MAX),
    }
}

/// Time that the calling thread stood in a processor's queue (`proc_pid_schedstat`: the second of three numbers).
fn delayed_ns() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().nth(1)?.parse().ok()
}

/// The cores that this process may run on.
pub(crate) fn cores() -> Vec<usize> {
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
    // SAFETY: the set is ours, the core below CPU_SETSIZE (it came from `cores`), the call reads the set only.
    let outcome = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
