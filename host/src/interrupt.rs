//! Signals that ask a run to end: the first signal lets the run drain, the second signal ends the program at
//! once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::exit;

use crate::error::Error;

/// A request that the run should end. Clones share the request.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    /// The signal that arrived, or 0. The thread that waits for signals writes it.
    signal: Arc<AtomicI32>,
    stopped: Arc<AtomicBool>,
    resting: Arc<AtomicBool>,
    /// The directory to remove when the program ends at once.
    leftover: Arc<Mutex<Option<PathBuf>>>,
}

impl Interrupt {
    /// Handles SIGINT, SIGTERM and SIGHUP from now on: the first one is noted, the second one ends the
    /// program with its code. A SIGHUP that the program was started to ignore (`nohup`) stays ignored.
    pub fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let all = [SIGINT, SIGTERM, SIGHUP];
        let handled = all.iter().filter(|&&signal| signal != SIGHUP || !is_ignored(signal));
        let mut signals = Signals::new(handled)?;
        let noted = interrupt.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                noted.note(signal);
            }
        })?;
        Ok(interrupt)
    }

    fn note(&self, signal: i32) {
        if self.signal.swap(signal, Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(leftover) = self.leftover().take() {
            remove(&leftover);
        }
        exit(i32::from(exit_code(signal)));
    }

    /// Sets the directory to remove when the program ends at once; `None` for no directory.
    pub(crate) fn leave_behind(&self, leftover: Option<&Path>) {
        *self.leftover() = leftover.map(Path::to_path_buf);
    }

    fn leftover(&self) -> std::sync::MutexGuard<'_, Option<PathBuf>> {
        self.leftover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests that the run ends, for a reason inside the run: the output is closed, or a record failed and
    /// the run should end with the first failure.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the source should end.
    pub fn is_stopping(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.is_signalled()
    }

    /// Requests that the source pauses between two records, or continues.
    pub(crate) fn rest(&self, rests: bool) {
        self.resting.store(rests, Ordering::Relaxed);
    }

    /// Whether the source should pause.
    pub(crate) fn is_rest_wanted(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// Whether a signal requested that the run ends.
    pub fn is_signalled(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// The error of an operation that the user interrupted.
    pub fn error(&self) -> Error {
        Error::interrupted(self.signal.load(Ordering::Relaxed))
    }
}

/// The exit code of a program that a signal ended: 128 plus the signal's number, as in shells.
pub fn exit_code(signal: i32) -> u8 {
    128 + u8::try_from(if signal == 0 { SIGINT } else { signal }).unwrap_or(0)
}

/// Removes a directory to which other threads may still be adding files.
fn remove(folder: &Path) {
    let _withdrawn = thalweg_space::discover::withdraw(folder);
    for _ in 0..100 {
        if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            return;
        }
    }
}

/// Whether the program was started with the signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
