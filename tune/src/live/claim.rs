//! The lock that admits one tuner at a time, and the users' list of settings that tuners must not change.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::untuned::Untuned;

/// The file in the run's space that a tuner holds locked; the kernel releases the lock when the process ends
/// in whatever way.
const CLAIM: &str = "tuner.lock";
/// The file of names that a tuner must not change, one on each line.
const PINS: &str = "tuner.pins";
/// The largest number of bytes that are read from a file of pins.
const PINS_MAX: u64 = 1 << 20;

/// The right to tune a run.
#[derive(Debug)]
pub(super) struct Claim {
    /// The locked file.
    _file: File,
}

impl Claim {
    /// Takes the lock, if no other tuner has it.
    pub(super) fn take(space: &Path) -> Result<Claim, Untuned> {
        let path = space.join(CLAIM);
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open().map_err(|error| cannot("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = (&file).take(32).read_to_string(&mut holder);
                let holder = holder.trim();
                return Err(Untuned::Refused(format!(
                    "process {holder} tunes {} already: `thalweg tune log` says what it does, `kill {holder}` ends it",
                    space.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(cannot("lock", &path, &error)),
        }
        let written = file.set_len(0).and_then(|()| file.rewind());
        let written = written.and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| cannot("write", &path, &error))?;
        Ok(Claim { _file: file })
    }
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Untuned {
    Untuned::Refused(format!("cannot {what} {}: {error}", path.display()))
}

fn pins_path(space: &Path) -> PathBuf {
    space.join(PINS)
}

/// Makes present and later tuners of this run leave a setting or a task's worker (`task/17.worker`) alone.
///
/// # Errors
/// Fails when the space cannot be written.
pub fn pin(space: &Path, name: &str) -> Result<(), Untuned> {
    let path = pins_path(space);
    let open = OpenOptions::new().append(true).create(true).open(&path);
    // The line is written by one call, so two tuners cannot mix their lines.
    let written = open.and_then(|mut file| file.write_all(format!("{name}\n").as_bytes()));
    written.map_err(|error| cannot("write", &path, &error))
}

/// The names that tuners of this run leave alone.
pub fn pins(space: &Path) -> Vec<String> {
    let mut text = String::new();
    let read = File::open(pins_path(space)).and_then(|file| file.take(PINS_MAX).read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_tuner_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let first = Claim::take(folder.path()).unwrap();
        let error = Claim::take(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {} tunes", std::process::id())), "{error}");
        assert_eq!(error.lines().count(), 1);
        drop(first);
        Claim::take(folder.path()).unwrap();
    }

    #[test]
    fn pins_are_found_again() {
        let folder = tempfile::tempdir().unwrap();
        assert!(pins(folder.path()).is_empty());
        pin(folder.path(), "exec.quantum").unwrap();
        pin(folder.path(), "task/17.worker").unwrap();
        assert_eq!(pins(folder.path()), ["exec.quantum", "task/17.worker"]);
    }
}
