//! Processes of the tests: a test of the same binary run alone, and what may be taken from it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Begins the ignored test `name` of this binary in a process of its own, with `variables` in its environment. It says
/// what it has to say on its standard error.
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

/// Runs it to its end, which must be a good one; gives what it said.
pub(crate) fn run(name: &str, variables: &[(&str, String)]) -> String {
    let output = begin(name, variables).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name} {variables:?}: {}: {}", output.status, last_lines(&said));
    said.lines().filter_map(|line| line.strip_prefix("skipped: ")).for_each(super::skip);
    said
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// A number or text that [`begin`] was given; none in an ordinary run of the ignored tests.
pub(crate) fn given<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Bounds what this process may do to the machine if it goes wrong: what it can write below `path`, its address space,
/// and the seconds until a signal ends it (0: none).
pub(crate) fn confine(path: &Path, room: u64, memory: u64, seconds: u32) {
    limit(libc::RLIMIT_AS, memory);
    end_after(seconds);
    confine_writing(path, room);
}

/// Mounts a file system of `room` bytes at `path`, seen by this thread and its children and gone with them. A user who may not
/// mount one may not have large files either.
pub(crate) fn confine_writing(path: &Path, room: u64) {
    if !mount_privately(path, room) {
        // SAFETY: ignores a signal, so that a file that grows too large is an error.
        #[allow(unsafe_code)]
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
        limit(libc::RLIMIT_FSIZE, room / 16);
    }
}

/// Ends this process by a signal when it takes longer than this: a hang must not hang its parent.
pub(crate) fn end_after(seconds: u32) {
    // SAFETY: has no precondition.
    #[allow(unsafe_code)]
    unsafe {
        libc::alarm(seconds)
    };
}

fn limit(what: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the limit is a valid reference.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::setrlimit(what, &limit) };
    assert_eq!(failed, 0);
}

/// Mounts a small file system at `path` in a name space of this thread's own. Returns `false` where this
/// process must not do that.
pub(crate) fn mount_privately(path: &Path, room: u64) -> bool {
    let target = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let options = std::ffi::CString::new(format!("size={room}")).unwrap();
    let none = c"none".as_ptr();
    // SAFETY: all texts end with a zero and live over the calls.
    #[allow(unsafe_code)]
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, std::ptr::null()) == 0
            && libc::mount(none, target.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) == 0
    }
}

/// Makes what [`mount_privately`] mounted at `path` read-only.
pub(crate) fn remount_read_only(path: &Path) {
    let target = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let flags = libc::MS_REMOUNT | libc::MS_RDONLY;
    // SAFETY: all texts end with a zero and live over the call.
    #[allow(unsafe_code)]
    let failed =
        unsafe { libc::mount(c"none".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), flags, std::ptr::null()) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
}
