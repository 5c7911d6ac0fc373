//! Child processes of the tests: each runs one test of the same binary, with limits on its resources.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Begins the ignored test `name` of this binary in a process of its own, with `variables` in its
/// environment. The child prints its messages on standard error.
pub(crate) fn begin(name: &str, variables: &[(&str, String)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([name, "--ignored", "--exact", "--nocapture"])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the ignored test `name` in a process of its own, which must succeed; returns its messages.
pub(crate) fn run(name: &str, variables: &[(&str, String)]) -> String {
    let output = begin(name, variables).wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name} {variables:?}: {}: {}", output.status, last_lines(&stderr));
    stderr.lines().filter_map(|line| line.strip_prefix("skipped: ")).for_each(super::skip);
    stderr
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// The value of a variable that [`begin`] set; `None` in an ordinary run of the ignored tests.
pub(crate) fn given<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Limits the resources of this process: the bytes that it can write below `path`, its address space, and the
/// seconds until a signal ends it (0: no limit).
pub(crate) fn confine(path: &Path, room: u64, memory: u64, seconds: u32) {
    limit(libc::RLIMIT_AS, memory);
    end_after(seconds);
    confine_writing(path, room);
}

/// Mounts a file system of `room` bytes at `path`, which only this thread and its children see, and which
/// ends with them. If mounting is not permitted, limits the size of files instead.
pub(crate) fn confine_writing(path: &Path, room: u64) {
    if !mount_privately(path, room) {
        // SAFETY: ignoring a signal has no precondition. Without the signal, a file that grows too large is
        // an error.
        #[allow(unsafe_code)]
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
        limit(libc::RLIMIT_FSIZE, room / 16);
    }
}

/// Ends this process by a signal after this many seconds, so that a hang does not block its parent.
pub(crate) fn end_after(seconds: u32) {
    // SAFETY: `alarm` has no precondition.
    #[allow(unsafe_code)]
    unsafe {
        libc::alarm(seconds)
    };
}

fn limit(what: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: `limit` is a valid reference.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::setrlimit(what, &limit) };
    assert_eq!(failed, 0);
}

/// Mounts a small file system at `path` in a name space of this thread's own. Returns `false` if mounting is
/// not permitted.
pub(crate) fn mount_privately(path: &Path, room: u64) -> bool {
    let target = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let options = std::ffi::CString::new(format!("size={room}")).unwrap();
    let none = c"none".as_ptr();
    // SAFETY: every pointer is null or points to a text that ends with a zero and lives as long as the calls.
    #[allow(unsafe_code)]
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, std::ptr::null()) == 0
            && libc::mount(none, target.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) == 0
    }
}

/// Makes the file system that [`mount_privately`] mounted at `path` read-only.
pub(crate) fn remount_read_only(path: &Path) {
    let target = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let flags = libc::MS_REMOUNT | libc::MS_RDONLY;
    // SAFETY: all texts end with a zero and live as long as the call.
    #[allow(unsafe_code)]
    let failed =
        unsafe { libc::mount(c"none".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), flags, std::ptr::null()) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
}
