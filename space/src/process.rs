//! Processes: the identity of the calling process, and whether another process is alive.

use std::path::Path;
use std::sync::OnceLock;

/// Start of a process in clock ticks since boot: field 22 of `/proc/PID/stat`. The start and the pid together
/// identify a process uniquely within a boot.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name, in parentheses, may contain any character, so fields are counted from the last `)`.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Whether the process with this pid and start time still runs. A zombie counts as dead.
pub(crate) fn is_alive(pid: u32, start: u64) -> bool {
    pid != 0 && start_time(pid) == Some(start)
}

/// Whether the process with this pid and start time still runs, if `boot` is this boot of this machine. An
/// unknown boot (zeroes) counts as this boot.
pub(crate) fn is_alive_here(boot: [u8; 16], pid: u32, start: u64) -> bool {
    let here = boot_id();
    (boot == here || boot == [0; 16] || here == [0; 16]) && is_alive(pid, start)
}

/// The pid of the parent process.
pub(crate) fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

/// The machine's boot id; zeroes if the id is unknown.
pub(crate) fn boot_id() -> [u8; 16] {
    static ID: OnceLock<[u8; 16]> = OnceLock::new();
    *ID.get_or_init(read_boot_id)
}

fn read_boot_id() -> [u8; 16] {
    let mut id = [0; 16];
    let text = std::fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    if digits.len() == 32 {
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
    }
    id
}

/// The file name of this program.
pub(crate) fn program_name() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.is_empty() { "space".to_string() } else { name }
}

/// The machine's name.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_string()
}

/// The effective user.
pub(crate) fn user() -> u32 {
    // SAFETY: `geteuid` has no precondition and cannot fail.
    unsafe { libc::geteuid() }
}

/// The calling thread's id.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: `gettid` has no precondition and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// A random UUID (version 4).
pub(crate) fn uuid() -> [u8; 16] {
    let mut id = [0u8; 16];
    // SAFETY: the buffer is a local variable of the length that is passed.
    let got = unsafe { libc::getrandom(id.as_mut_ptr().cast(), id.len(), 0) };
    if got != 16 {
        let nanoseconds = crate::clock::system_ns(libc::CLOCK_REALTIME);
        id[..8].copy_from_slice(&nanoseconds.to_le_bytes());
        id[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    }
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    id
}
