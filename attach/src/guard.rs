//! The guard: a process that undoes all changes when the attaching process is killed. This module has
//! `unsafe`, because it changes the handling of signals.

use crate::claim::{Claim, Claimed};
use crate::error::Error;
use crate::memory::Found;
use crate::process::{Identity, Process};
use crate::restore::{Restored, restore};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The time for which a guard tries to free the attachment's memory in the target.
const PATIENCE: Duration = Duration::from_secs(60);

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
            let _ = life.write_all(format!("{}\0", text.replace('\0', "")).as_bytes());
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

/// Waits for the end of `life`, whose other end the attaching process holds, then undoes the changes that are
/// left in the target. Returns the last text of [`Attachment::note`](crate::Attachment::note).
///
/// # Errors
/// The target's memory cannot be written.
pub fn guard(target: Identity, mut life: impl Read) -> Result<(Restored, String), Error> {
    // SAFETY: `setsid` and `signal` access no memory; they only change which signals reach this process.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    let mut notes = Vec::new();
    // An error is ignored, because text that was read before the error is used all the same.
    let _ = life.read_to_end(&mut notes);
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
    Ok((restored, last_note(&notes)))
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

/// The last complete text: each text ends with a zero byte.
fn last_note(notes: &[u8]) -> String {
    let whole = notes.iter().rposition(|byte| *byte == 0).map_or(&[][..], |end| &notes[..end]);
    let begin = whole.iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1);
    String::from_utf8_lossy(&whole[begin..]).into_owned()
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
}
