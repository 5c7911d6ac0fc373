//! The guard: a process that undoes all changes when the attaching process is killed, or lets its lease run out.
//! This module has `unsafe`, because it changes the handling of signals, sends one, and waits for a pipe.

use crate::claim::{Claim, Claimed};
use crate::error::Error;
use crate::memory::Found;
use crate::process::{Identity, Process};
use crate::restore::{Restored, restore};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time for which a guard tries to free the attachment's memory in the target.
const PATIENCE: Duration = Duration::from_secs(60);

/// The byte by which the attaching process renews its lease. Texts do not contain it.
const RENEWED: u8 = 1;
/// The character with which a message begins that releases a target. Each message ends with a zero byte; the others
/// consist of the target's process id, its start time, and a text.
const RELEASED: char = '-';

/// The guard of any number of targets, a process that starts with the first of them. It ends when this value and the
/// attachments that it guards are dropped, or when this process ends.
#[derive(Clone, Debug)]
pub struct Guards(Arc<Mutex<Running>>);

#[derive(Debug)]
struct Running {
    command: Command,
    /// The process, and the pipe from which it reads.
    child: Option<(Child, Option<ChildStdin>)>,
}

/// The part of a guard that is about one attachment.
#[derive(Debug)]
pub(crate) struct Guard {
    guards: Guards,
    target: Identity,
}

impl Guards {
    /// A guard that is started by `command`, which has to call [`guard`] with its standard input.
    pub fn new(mut command: Command) -> Guards {
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        Guards(Arc::new(Mutex::new(Running { command, child: None })))
    }

    /// Lets the guard watch a target, too, until the value is dropped.
    pub(crate) fn watch(&self, target: Identity) -> Result<Guard, Error> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.child.is_none() {
            let started = running.command.spawn();
            let mut child = started.map_err(|error| Error::of("cannot start the guard", error))?;
            let life = child.stdin.take();
            running.child = Some((child, life));
        }
        drop(running);
        let guard = Guard { guards: self.clone(), target };
        guard.note("");
        Ok(guard)
    }

    /// Renews the lease.
    pub fn renew(&self) {
        self.write(&[RENEWED]);
    }

    fn write(&self, bytes: &[u8]) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, Some(life))) = &mut running.child {
            // A guard that has ended reads nothing, so errors are ignored.
            let _ = life.write_all(bytes);
        }
    }
}

impl Guard {
    /// Gives the guard a text about the target that [`guard`] returns when this process was killed; only the last
    /// text is kept.
    pub(crate) fn note(&self, text: &str) {
        let text: String = text.chars().filter(|c| !['\0', char::from(RENEWED)].contains(c)).collect();
        let Identity { pid, start } = self.target;
        self.guards.write(format!("{pid} {start} {text}\0").as_bytes());
    }

    /// Renews the lease.
    pub(crate) fn renew(&self) {
        self.guards.renew();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Identity { pid, start } = self.target;
        // The guard undoes the changes that are left in the target.
        self.guards.write(format!("{RELEASED}{pid} {start}\0").as_bytes());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((child, life)) = &mut self.child {
            // At the end of `life` the guard ends, after it has undone the changes that are left.
            *life = None;
            let _ = child.wait();
        }
    }
}

/// What a guard has done about a target.
#[derive(Clone, Debug)]
pub struct Guarded {
    /// The target.
    pub target: Identity,
    /// What was undone in the target.
    pub restored: Restored,
    /// The last text of [`Attachment::note`](crate::Attachment::note).
    pub note: String,
    /// Whether the attaching process let its lease run out, and was killed by the guard.
    pub lease_ran_out: bool,
}

/// The targets that a guard watches, as far as the attaching process has written about them.
#[derive(Debug, Default)]
struct Watched {
    /// Each target with its last text.
    targets: Vec<(Identity, String)>,
    /// The beginning of a message that has not come whole.
    rest: Vec<u8>,
}

/// Waits for the end of `life`, whose other end the attaching process holds, then undoes the changes that are
/// left in all targets. `undone` is called with each target after that, from a thread of its own.
///
/// With a lease, the attaching process has to call
/// [`Attachment::renew_lease`](crate::Attachment::renew_lease) more often than that. If the attaching process does
/// not, because it hangs or is stopped, the guard kills it: so two processes never change the target at the same
/// time.
///
/// `maker` is the process id of the attaching process, which has started this one.
///
/// # Errors
/// The memory of a target cannot be written.
pub fn guard(
    maker: i32,
    mut life: impl Read + AsFd,
    lease: Option<Duration>,
    undone: &(dyn Fn(&Guarded) + Sync),
) -> Result<(), Error> {
    // SAFETY: `setsid`, `signal` and `getppid` access no memory; the first two only change which signals reach
    // this process.
    let maker = unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // If the maker has ended already, this process has another parent, which is not to be killed.
        Some(libc::getppid()).filter(|parent| *parent == maker).and_then(Identity::of)
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut release = |(target, note): (Identity, String), lease_ran_out: bool| {
            threads.push(scope.spawn(move || {
                let restored = restored(target)?;
                undone(&Guarded { target, restored, note, lease_ran_out });
                Ok(())
            }));
        };
        let mut watched = Watched::default();
        let lease_ran_out = !watched.read(&mut life, lease, &mut |released| release(released, false));
        if lease_ran_out && let Some(maker) = maker.filter(Identity::lives) {
            // SAFETY: `kill` accesses no memory.
            unsafe { libc::kill(maker.pid, libc::SIGKILL) };
            // The rest is read to its end, which comes with the end of the killed process.
            watched.read(&mut life, Some(PATIENCE), &mut |released| release(released, true));
        }
        for target in watched.targets {
            release(target, lease_ran_out);
        }
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::new("a thread of the guard has failed".to_owned())))
        });
        ended.fold(Ok(()), Result::and)
    })
}

/// Undoes what is left in a target, as soon as no thread of the attaching process traces it.
fn restored(target: Identity) -> Result<Restored, Error> {
    // The threads of a killed process end one after the other, so one of them may still trace the target and
    // keep it stopped.
    let begin = Instant::now();
    while is_traced(target.pid) && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut restored = Restored::default();
    // Without the claim, changes of the next attachment could be mistaken for leftovers.
    if let Some(_claim) = claimed(target) {
        // A thread of the target may still execute a system call that the killed process started; the second
        // pass finds mappings that this system call makes after the first pass.
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(2));
            if target.lives() {
                restored.and(restore(target.pid, PATIENCE)?);
            }
        }
    }
    Ok(restored)
}

impl Watched {
    /// Reads messages to their end, and calls `release` with each target that the attaching process releases;
    /// returns false if for the time of the lease nothing came.
    fn read(
        &mut self,
        life: &mut (impl Read + AsFd),
        lease: Option<Duration>,
        release: &mut dyn FnMut((Identity, String)),
    ) -> bool {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            if lease.is_some_and(|lease| !comes_within(life.as_fd().as_raw_fd(), lease)) {
                return false;
            }
            match life.read(&mut bytes) {
                Ok(0) => return true,
                Ok(count) => self.take(&bytes[..count], release),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What was read before the error is used all the same.
                Err(_) => return true,
            }
        }
    }

    fn take(&mut self, bytes: &[u8], release: &mut dyn FnMut((Identity, String))) {
        self.rest.extend(bytes.iter().filter(|byte| **byte != RENEWED));
        while let Some(end) = self.rest.iter().position(|byte| *byte == 0) {
            let message: Vec<u8> = self.rest.drain(..=end).collect();
            let message = String::from_utf8_lossy(&message[..end]);
            let is_release = message.starts_with(RELEASED);
            let Some((target, note)) = about(message.trim_start_matches(RELEASED)) else { continue };
            let known = self.targets.iter().position(|(known, _)| *known == target);
            match (known, is_release) {
                (Some(known), true) => release(self.targets.swap_remove(known)),
                (Some(known), false) => self.targets[known].1 = note,
                (None, false) => self.targets.push((target, note)),
                (None, true) => {}
            }
        }
    }
}

/// The target that a message is about, and the text after it.
fn about(message: &str) -> Option<(Identity, String)> {
    let (pid, rest) = message.split_once(' ')?;
    let (start, note) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((Identity { pid: pid.parse().ok()?, start: start.parse().ok()? }, note.to_owned()))
}

/// Whether a pipe has something to read, or its end, within this time.
fn comes_within(pipe: i32, time: Duration) -> bool {
    let begin = Instant::now();
    loop {
        let left = time.saturating_sub(begin.elapsed()).as_millis().try_into().unwrap_or(i32::MAX);
        let mut wanted = libc::pollfd { fd: pipe, events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` writes to `wanted` only, which is one entry long and lives as long as the call.
        let count = unsafe { libc::poll(&raw mut wanted, 1, left) };
        match count {
            0 if begin.elapsed() >= time => return false,
            0 => {}
            1.. => return true,
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            // What cannot be waited for is read, which says why.
            _ => return true,
        }
    }
}

/// The claim on the target. `None` if the target has ended, or if another process has claimed the target,
/// because that process restores the target before it does anything else.
fn claimed(target: Identity) -> Option<Claim> {
    let begin = Instant::now();
    loop {
        match Claim::tried(target).ok()? {
            Claimed::Ours(claim) => return Some(claim),
            Claimed::By(by) => {
                let process = Process::open(target.pid).ok()?;
                let found = Found::in_target(&process).ok()?;
                // The killed process still has the claim until the kernel has closed all of its files.
                let is_anew = !by.is_some_and(is_ending)
                    && found.is_none_or(|found| found.maker.is_some_and(|maker| by == Some(maker.pid)));
                if is_anew || begin.elapsed() > PATIENCE {
                    return None;
                }
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is ending: its memory is gone, which is given back before its files are closed.
fn is_ending(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/maps")).map_or(true, |maps| maps.is_empty())
}

fn is_traced(pid: i32) -> bool {
    let Ok(process) = Process::open(pid) else { return false };
    let traced = |thread: &i32| process.status(*thread, "TracerPid").is_some_and(|tracer| tracer != "0");
    process.threads().iter().any(traced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(pid: i32) -> Identity {
        Identity { pid, start: 7 }
    }

    #[test]
    fn the_last_whole_note_of_each_target_counts() {
        let mut watched = Watched::default();
        let mut released = Vec::new();
        let mut take = |bytes: &[u8]| watched.take(bytes, &mut |target| released.push(target));
        take(b"11 7 \0");
        take(b"12 7 one\x01\0");
        take(b"12 7 two lines\n\x0012 7 cu");
        take(b"nonsense\0-13 7\0-11 7\0");
        take(b"14 7 a");
        assert_eq!(watched.targets, [(target(12), "cunonsense".to_owned())]);
        assert_eq!(released, [(target(11), String::new())]);
    }

    #[test]
    fn a_lease_runs_out_unless_it_is_renewed() {
        let lease = Duration::from_millis(300);
        let (mut read, mut write) = io::pipe().expect("a pipe");
        let holder = std::thread::spawn(move || {
            write.write_all(b"1 7 one\0").expect("room");
            for _ in 0..8 {
                std::thread::sleep(lease / 4);
                write.write_all(&[RENEWED]).expect("room");
            }
            write.write_all(b"1 7 two\0").expect("room");
            write
        });
        let (begin, mut watched) = (Instant::now(), Watched::default());
        let mut none = |_| panic!("nothing is released");
        assert!(!watched.read(&mut read, Some(lease), &mut none), "it has run out");
        assert!(begin.elapsed() > 2 * lease, "it was renewed, but ran out after {:?}", begin.elapsed());
        assert_eq!(watched.targets, [(target(1), "two".to_owned())]);
        drop(holder.join().expect("the holder"));
        assert!(watched.read(&mut read, Some(lease), &mut none), "an end is no lease that ran out");
    }
}
