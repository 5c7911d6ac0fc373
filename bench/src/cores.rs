//! Restricts the cores that a sample may use.

/// Runs `work` with this thread, and the threads it starts, on the first `count` cores that the process may
/// use.
pub(crate) fn on_cores<T>(count: usize, work: impl FnOnce() -> T) -> T {
    let before = allowed();
    allow(&first(&before, count));
    let result = work();
    allow(&before);
    result
}

/// Restricts this thread to all cores but the first, if there are several.
pub(crate) fn off_first_core() {
    let mut set = allowed();
    let of_first = first(&set, 1);
    // SAFETY: the indices stay below the sets' size.
    let others = unsafe {
        (0..libc::CPU_SETSIZE as usize)
            .filter(|core| libc::CPU_ISSET(*core, &of_first))
            .for_each(|core| libc::CPU_CLR(core, &mut set));
        libc::CPU_COUNT(&set)
    };
    if others > 0 {
        allow(&set);
    }
}

fn allowed() -> libc::cpu_set_t {
    // SAFETY: an all-zero set is a valid set, and the call gets its true size.
    unsafe {
        let mut set = std::mem::zeroed();
        let status = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        assert_eq!(status, 0, "sched_getaffinity: {}", std::io::Error::last_os_error());
        set
    }
}

fn allow(set: &libc::cpu_set_t) {
    // SAFETY: the set is a valid reference and the call gets its true size.
    let status = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
    assert_eq!(status, 0, "sched_setaffinity: {}", std::io::Error::last_os_error());
}

fn first(set: &libc::cpu_set_t, count: usize) -> libc::cpu_set_t {
    // SAFETY: an all-zero set is a valid set; the indices stay below its size.
    unsafe {
        let mut some: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize)
            .filter(|core| libc::CPU_ISSET(*core, set))
            .take(count)
            .for_each(|core| libc::CPU_SET(core, &mut some));
        some
    }
}
