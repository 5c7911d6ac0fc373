//! Finding spaces, and removing those of dead processes.

use crate::error::Error;
use crate::reader::{Info, SpaceReader};
use crate::space::{IDENTITY, IDENTITY_HALF_MADE};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A directory that holds a space, or looks as if it did.
#[derive(Debug)]
pub struct Listed {
    /// The directory.
    pub path: PathBuf,
    /// Who made it; an error if the space is damaged, half made or of a later version.
    pub info: Result<Info, Error>,
    /// Whether its process still runs.
    pub alive: bool,
}

/// What [`clean`] did.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The directories that are gone.
    pub removed: Vec<PathBuf>,
    /// The kept ones that it left alone, though their process is dead.
    pub kept: Vec<PathBuf>,
    /// What it could not judge or remove, and why.
    pub problems: Vec<(PathBuf, Error)>,
}

/// The spaces in the directory `parent`, by path. A directory that does not exist holds none.
///
/// # Errors
/// When `parent` cannot be read.
pub fn list(parent: &Path) -> Result<Vec<Listed>, Error> {
    let entries = match std::fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read", parent, e)),
    };
    let mut listed = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("read", parent, e))?;
        // Not through links: what they point to is not ours to judge.
        let is_directory = entry.file_type().is_ok_and(|t| t.is_dir());
        let path = entry.path();
        if is_directory && (path.join(IDENTITY).exists() || path.join(IDENTITY_HALF_MADE).exists()) {
            let info = SpaceReader::open(&path).and_then(|reader| reader.info());
            let alive = info.as_ref().is_ok_and(Info::is_alive);
            listed.push(Listed { path, info, alive });
        }
    }
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(listed)
}

/// Removes the spaces in `parent` whose processes are dead, half-made ones too; kept ones only with `kept_too`, live ones never.
///
/// A space of another machine, or one that cannot be read, is left alone and told of.
///
/// # Errors
/// When `parent` cannot be read.
pub fn clean(parent: &Path, kept_too: bool) -> Result<Cleaned, Error> {
    let mut cleaned = Cleaned::default();
    let host = crate::process::host();
    for listed in list(parent)? {
        let Listed { path, info, alive } = listed;
        match info {
            Err(error) if !is_abandoned(&path) => cleaned.problems.push((path, error)),
            Ok(_) if alive => {}
            Ok(info) if info.host != host => {
                let error = Error::new(format!("its process ran on {}: clean it there", info.host));
                cleaned.problems.push((path, error));
            }
            Ok(info) if info.keep && !kept_too => cleaned.kept.push(path),
            _ => match remove(&path) {
                Ok(()) => cleaned.removed.push(path),
                Err(error) => cleaned.problems.push((path, error)),
            },
        }
    }
    remove_empty(parent, &mut cleaned)?;
    Ok(cleaned)
}

/// Removes the directories that dead processes made for spaces and had put nothing into.
fn remove_empty(parent: &Path, cleaned: &mut Cleaned) -> Result<(), Error> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("read", parent, e))?;
        let is_directory = entry.file_type().is_ok_and(|t| t.is_dir());
        let is_dead = names_dead_process(&entry.file_name().to_string_lossy());
        // One that is not empty is not removed by this call.
        if is_directory && is_dead && std::fs::remove_dir(entry.path()).is_ok() {
            cleaned.removed.push(entry.path());
        }
    }
    cleaned.removed.sort();
    Ok(())
}

/// Whether the name is `NAME-PID` or `NAME-PID.AGAIN`, and that process does not live.
fn names_dead_process(name: &str) -> bool {
    let number = name.rsplit_once('-').and_then(|(_, number)| number.split('.').next()?.parse().ok());
    number.is_some_and(|pid| crate::process::start_time(pid).is_none())
}

/// Whether a process died while it made this space. It holds a lock on the directory until the identity is complete.
fn is_abandoned(path: &Path) -> bool {
    let unlocked = File::open(path).is_ok_and(|directory| directory.try_lock().is_ok());
    unlocked && path.join(IDENTITY_HALF_MADE).exists() && !path.join(IDENTITY).exists()
}

/// Removes one space, whoever's it is: only the files that a space has, then the directory. The caller knows that its
/// process is done with it.
///
/// # Errors
/// When a file cannot be removed, or the directory holds something else.
pub fn remove(path: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(path).map_err(|e| Error::io("read", path, e))? {
        let entry = entry.map_err(|e| Error::io("read", path, e))?;
        let name = entry.file_name();
        // The identity goes last, so that a removal cut short still shows as a space.
        if belongs_to_space(&name.to_string_lossy()) {
            remove_file(&entry.path())?;
        }
    }
    remove_file(&path.join(IDENTITY_HALF_MADE))?;
    remove_file(&path.join(IDENTITY))?;
    std::fs::remove_dir(path).map_err(|e| Error::io("remove", path, e))
}

fn remove_file(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}

/// Whether a file of this name is a space's, its identity apart.
fn belongs_to_space(name: &str) -> bool {
    let name = name.strip_suffix(".new").unwrap_or(name);
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let in_pool = |stem: &str| stem.split_once('-').is_some_and(|(pool, slot)| number(pool) && number(slot));
    let numbered = name.rsplit_once('.').is_some_and(|(stem, end)| {
        number(stem) && matches!(end, "element" | "pool" | "catalog" | "archive")
            || in_pool(stem) && end == "archive"
            || stem == "live" && number(end)
    });
    numbered || matches!(name, "settings" | "mailbox" | "probes")
}
