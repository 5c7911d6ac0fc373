//! The guard: a process that undoes all changes when the attaching process is killed, or lets its lease run out.
//! This module has `unsafe`, because it changes the handling of signals, sends one, and waits for a pipe.

use crate::claim::{Claim, Claimed};
use crate::error::Error;
use crate::memory::Found;
use crate::process::{Identity, Process};
use crate::restore::{Restored, restore};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The time for which a guard tries to free the attachment's memory in the target.
const PATIENCE: Duration = Duration::from_secs(60);

/// The byte by which the attaching process renews its lease. Texts do not contain it.
const RENEWED: u8 = 1;

/// A running guard, which ends when the value is dropped or this process ends.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    /// The pipe whose end the guard reads.
    life: Option<ChildStdin>,
}

impl Guard {
    /// Starts `command`, which has to call [`guard`] with the target's process id and start time, which are
    /// its last two arguments.
    pub(crate) fn start(mut command: Command, target: Identity) -> Result<Guard, Error> {
        command.args([target.pid.to_string(), target.start.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| Error::of("cannot start the guard", error))?;
        let life = child.stdin.take();
        Ok(Guard { child, life })
    }
}

impl Guard {
    /// Gives the guard a text that [`guard`] returns when this process was killed; only the last text is
    /// kept.
    pub(crate) fn note(&mut self, text: &str) {
        if let Some(life) = &mut self.life {
            // A guard that has ended does not need the text, so errors are ignored.
            let text: String = text.chars().filter(|c| !['\0', char::from(RENEWED)].contains(c)).collect();
            let _ = life.write_all(format!("{text}\0").as_bytes());
        }
    }

    /// Renews the lease.
    pub(crate) fn renew(&mut self) {
        if let Some(life) = &mut self.life {
            let _ = life.write_all(&[RENEWED]);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.life = None;
        // Closing `life` makes the guard undo the changes that are left and end.
        let _ = self.child.wait();
    }
}

/// What a guard has done.
#[derive(Clone, Debug, Default)]
pub struct Guarded {
    /// What was undone in the target.
    pub restored: Restored,
    /// The last text of [`Attachment::note`](crate::Attachment::note).
    pub note: String,
    /// Whether the attaching process let its lease run out, and was killed by the guard.
    pub lease_ran_out: bool,
}

/// Waits for the end of `life`, whose other end the attaching process holds, then undoes the changes that are
/// left in the target.
///
/// With a lease, the attaching process has to call
/// [`Attachment::renew_lease`](crate::Attachment::renew_lease) more often than that. If the attaching process does
/// not, because it hangs or is stopped, the guard kills it: so two processes never change the target at the same
/// time.
///
/// # Errors
/// The target's memory cannot be written.
pub fn guard(
    target: Identity,
    mut life: impl Read + AsFd,
    lease: Option<Duration>,
) -> Result<Guarded, Error> {
    // SAFETY: `setsid`, `signal` and `getppid` access no memory; the first two only change which signals reach
    // this process.
    let maker = unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        Identity::of(libc::getppid())
    };
    let mut notes = Vec::new();
    let lease_ran_out = !read_while_renewed(&mut life, lease, &mut notes);
    if lease_ran_out && let Some(maker) = maker.filter(Identity::lives) {
        // SAFETY: `kill` accesses no memory.
        unsafe { libc::kill(maker.pid, libc::SIGKILL) };
        // The rest is read to its end, which comes with the end of the killed process.
        read_while_renewed(&mut life, Some(PATIENCE), &mut notes);
    }
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
    Ok(Guarded { restored, note: last_note(&notes), lease_ran_out })
}

/// Reads texts to their end; returns false if for the time of the lease nothing came.
fn read_while_renewed(life: &mut (impl Read + AsFd), lease: Option<Duration>, notes: &mut Vec<u8>) -> bool {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        if lease.is_some_and(|lease| !comes_within(life.as_fd().as_raw_fd(), lease)) {
            return false;
        }
        match life.read(&mut bytes) {
            Ok(0) => return true,
            Ok(count) => notes.extend(bytes[..count].iter().filter(|byte| **byte != RENEWED)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Text that was read before the error is used all the same.
            Err(_) => return true,
        }
        notes.drain(..last_text(notes).start);
    }
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

/// Where the last complete text is: each text ends with a zero byte.
fn last_text(notes: &[u8]) -> Range<usize> {
    let end = notes.iter().rposition(|byte| *byte == 0).unwrap_or(0);
    let begin = notes[..end].iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1);
    begin..end
}

fn last_note(notes: &[u8]) -> String {
    String::from_utf8_lossy(&notes[last_text(notes)]).into_owned()
}

fn is_traced(pid: i32) -> bool {
    let Ok(process) = Process::open(pid) else { return false };
    let traced = |thread: &i32| process.status(*thread, "TracerPid").is_some_and(|tracer| tracer != "0");
    process.threads().iter().any(traced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_note_counts() {
        assert_eq!(last_note(b""), "");
        assert_eq!(last_note(b"cut"), "");
        assert_eq!(last_note(b"one\0two\0cu"), "two");
        assert_eq!(last_note(b"one\0\0"), "");
    }

    #[test]
    fn a_lease_runs_out_unless_it_is_renewed() {
        let lease = Duration::from_millis(300);
        let (mut read, mut write) = io::pipe().expect("a pipe");
        let holder = std::thread::spawn(move || {
            write.write_all(b"one\0").expect("room");
            for _ in 0..8 {
                std::thread::sleep(lease / 4);
                write.write_all(&[RENEWED]).expect("room");
            }
            write.write_all(b"two\0").expect("room");
            write
        });
        let (begin, mut notes) = (Instant::now(), Vec::new());
        assert!(!read_while_renewed(&mut read, Some(lease), &mut notes), "it has run out");
        assert!(begin.elapsed() > 2 * lease, "it was renewed, but ran out after {:?}", begin.elapsed());
        assert_eq!((last_note(&notes), notes.len()), ("two".to_owned(), 4), "older texts are forgotten");
        drop(holder.join().expect("the holder"));
        assert!(read_while_renewed(&mut read, Some(lease), &mut notes), "an end is no lease that ran out");
    }
}
