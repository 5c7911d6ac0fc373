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

/// The processor time of the calling thread in nanoseconds, and how often it was put off its processor for another.
pub(crate) fn used() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure it is given; all of it is integers, for which zeros are valid.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| (time.tv_sec as u64) * 1_000_000_000 + (time.tv_usec as u64) * 1000;
    (ns(usage.ru_utime) + ns(usage.ru_stime), usage.ru_nivcsw as u64)
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
