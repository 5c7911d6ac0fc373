//! Faults of connections and disks, brought about from outside of the processes that have them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::{connect_unspec, getpeername};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// The ids of the processes that the process `parent` has started.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let child = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The fields after the name are the state and the parent; the name may have any characters, so the
        // last parenthesis is searched.
        let of = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()?;
        (of == parent).then(|| entry.file_name().to_str()?.parse().ok())?
    };
    processes.filter_map(child).collect()
}

/// A process and those that it has started.
pub(crate) fn family(process: u32) -> Vec<u32> {
    [vec![process], children(process)].concat()
}

pub(crate) fn signal(signal: &str, processes: &[u32]) {
    for process in processes {
        // A process may have ended already.
        let _ = Command::new("kill").args([signal, &process.to_string()]).status();
    }
}

/// Sockets of TCP of a process, as this process holds them, too: connections, and sockets that listen.
fn sockets(process: u32) -> Vec<OwnedFd> {
    let pid = Pid::from_raw(process.cast_signed()).expect("a process");
    // A process may end at any time, and a descriptor may be closed.
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return Vec::new() };
    let held = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let socket = |entry: std::fs::DirEntry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        let is_socket = target.to_str()?.starts_with("socket:");
        let socket = is_socket.then(|| pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()).ok())??;
        let is_tcp = rustix::net::sockopt::socket_domain(&socket) == Ok(rustix::net::AddressFamily::INET)
            && rustix::net::sockopt::socket_type(&socket) == Ok(rustix::net::SocketType::STREAM);
        is_tcp.then_some(socket)
    };
    held.filter_map(socket).collect()
}

/// The addresses at which a process listens.
#[allow(dead_code, reason = "not every test asks")]
pub(crate) fn listening(process: u32) -> Vec<String> {
    let is_listening = |socket: &OwnedFd| rustix::net::sockopt::socket_acceptconn(socket) == Ok(true);
    let address = |socket: OwnedFd| {
        let socket = TcpListener::from(socket);
        socket.local_addr().expect("it listens").to_string()
    };
    sockets(process).into_iter().filter(is_listening).map(address).collect()
}

/// Resets the connections of these processes for which `is_hit` says so: both ends get errors, and what was
/// under way is lost. Returns the number of connections.
pub(crate) fn reset(processes: &[u32], mut is_hit: impl FnMut() -> bool) -> usize {
    let connections = processes.iter().flat_map(|process| sockets(*process));
    let connections: Vec<_> = connections.filter(|socket| getpeername(socket).is_ok() && is_hit()).collect();
    // An error is ignored: the connection was closed meanwhile.
    connections.iter().filter(|socket| connect_unspec(socket).is_ok()).count()
}

/// Drops one of `once_in` packets that come to the sockets that these processes have now; 1: all.
pub(crate) fn drop_packets(processes: &[u32], once_in: u32) {
    let step =
        |code: u32, yes: u8, value: u32| libc::sock_filter { code: code as u16, jt: yes, jf: 0, k: value };
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM).cast_unsigned();
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, random),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, u32::MAX / once_in),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
    ];
    if once_in == 1 {
        program[1] = step(libc::BPF_RET | libc::BPF_K, 0, 0);
    }
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    for socket in processes.iter().flat_map(|process| sockets(*process)) {
        // SAFETY: the option's value is a program of four steps, which the system copies.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const filter).cast(),
                size_of_val(&filter) as libc::socklen_t,
            )
        };
        assert_eq!(set, 0, "a filter of packets: {}", std::io::Error::last_os_error());
    }
}

/// Ends what [`drop_packets`] began. A socket that was accepted by one that drops packets drops them, too.
pub(crate) fn pass_packets(processes: &[u32]) {
    for socket in processes.iter().flat_map(|process| sockets(*process)) {
        let ignored: libc::c_int = 0;
        // SAFETY: the option's value is ignored. The call fails for a socket without a filter.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_DETACH_FILTER,
                (&raw const ignored).cast(),
                size_of_val(&ignored) as libc::socklen_t,
            );
        }
    }
}

/// A file system with little room, which needs root.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`: this process may not mount one.
    pub(crate) fn mount(megabytes: u32) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "none"]).arg(folder.path());
        mount.output().is_ok_and(|output| output.status.success()).then_some(SmallDisk(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Fills the disk, except for this many bytes.
    pub(crate) fn fill(&self, except: usize) {
        let mut file = std::fs::File::create(self.filler()).expect("a disk");
        while file.write_all(&[0; 4096]).is_ok() {}
        let full = file.metadata().expect("a file").len();
        file.set_len(full.saturating_sub(except as u64)).expect("a file");
    }

    pub(crate) fn clear(&self) {
        let _ = std::fs::remove_file(self.filler());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

/// A clock that processes have in place of the system's: ahead of it, or behind, by a time that may change at any moment.
pub(crate) struct OwnClock {
    library: PathBuf,
    ahead: PathBuf,
}

/// The system's clock with another offset, which lies in a file. It replaces the function of the C library by which
/// programs ask for the time.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long long *ahead;
__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("THALWEG_TEST_CLOCK"), O_RDONLY);
    void *map = mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) ahead = map;
    close(file);
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && ahead && clock == CLOCK_REALTIME) {
        long long ns = time->tv_sec * 1000000000LL + time->tv_nsec + *ahead;
        time->tv_sec = ns / 1000000000LL;
        time->tv_nsec = ns % 1000000000LL;
    }
    return (int)failed;
}
"#;

#[allow(dead_code, reason = "not every test sets clocks")]
impl OwnClock {
    pub(crate) fn new(folder: &Path) -> OwnClock {
        let [source, library, ahead] = ["clock.c", "clock.so", "ahead"].map(|name| folder.join(name));
        std::fs::write(&source, CLOCK).expect("a folder");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        assert!(compile.status().expect("cc").success());
        let clock = OwnClock { library, ahead };
        clock.set(0);
        clock
    }

    /// The command's process, and those that it starts, have this clock.
    pub(crate) fn given_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("THALWEG_TEST_CLOCK", &self.ahead);
    }

    /// Sets the clock ahead of the system's by so many nanoseconds.
    pub(crate) fn set(&self, ahead_ns: i64) {
        // The file's length does not change, so processes that have it in their memory see one of the two times.
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(&self.ahead);
        let written = file.as_mut().map(|file| file.write_all(&ahead_ns.to_ne_bytes()));
        written.expect("a file").expect("a file");
    }
}

/// Carries connections to a node, and replaces bytes that come from it.
pub(crate) struct Changing {
    pub(crate) address: String,
    pub(crate) changed: Arc<AtomicU64>,
}

impl Changing {
    /// `with` is as long as `what`.
    pub(crate) fn new(to: String, what: &'static str, with: &'static str) -> Changing {
        assert_eq!(what.len(), with.len());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a port").to_string();
        let changed = Arc::new(AtomicU64::new(0));
        let count = changed.clone();
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            while let Ok((from, _)) = listener.accept() {
                let Ok(to) = TcpStream::connect(&to) else { return };
                let (back_from, back_to) =
                    (to.try_clone().expect("a socket"), from.try_clone().expect("a socket"));
                let count = count.clone();
                std::thread::spawn(move || carry(from, to, |_| ()));
                std::thread::spawn(move || {
                    carry(back_from, back_to, |bytes| {
                        // Each message fits into one read: the node writes it by one call.
                        let at = bytes.windows(what.len()).position(|part| part == what.as_bytes());
                        if let Some(at) = at {
                            bytes[at..][..what.len()].copy_from_slice(with.as_bytes());
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                });
            }
        });
        Changing { address, changed }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut [u8])) {
    let mut bytes = [0; 65536];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        change(&mut bytes[..read]);
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
