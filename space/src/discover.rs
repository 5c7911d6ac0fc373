//! Finds spaces, and removes those of dead processes.

use crate::archive::COPYING;
use crate::copies::{STATE, WANTED};
use crate::directory::{IDENTITY, IDENTITY_HALF_MADE};
use crate::error::Error;
use crate::reader::{Info, Member, Session, SpaceReader};
use crate::session::{MANIFEST, Manifest};
use std::fs::{DirEntry, File, Metadata};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory with the files of a space, which may be damaged or incomplete.
#[derive(Debug)]
pub struct Listed {
    /// The directory.
    pub path: PathBuf,
    /// The process that made the space; an error if the space is damaged, incomplete or of a later version.
    pub info: Result<Info, Error>,
    /// Whether the space's process still runs.
    pub alive: bool,
    /// The directory of the session in which the space lies, if any.
    pub session: Option<PathBuf>,
}

/// The result of [`clean`].
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The directories that were removed.
    pub removed: Vec<PathBuf>,
    /// Directories of dead processes that stay because they are kept.
    pub kept: Vec<PathBuf>,
    /// The directories that could not be judged or removed, with the reasons.
    pub problems: Vec<(PathBuf, Error)>,
}

/// The spaces in the directory `parent` and in the sessions there, by path. A directory that does not exist holds none.
///
/// # Errors
/// When `parent` cannot be read.
pub fn list(parent: &Path) -> Result<Vec<Listed>, Error> {
    let mut listed = list_in(parent, None)?;
    for session in sessions(parent)? {
        listed.extend(list_in(&session, Some(&session))?);
    }
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(listed)
}

/// The sessions in the directory `parent`, by path; see [`crate::reader::Session`].
///
/// # Errors
/// When `parent` cannot be read.
pub fn sessions(parent: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut sessions = directories(parent)?;
    sessions.retain(|path| path.join(MANIFEST).exists());
    Ok(sessions)
}

fn list_in(parent: &Path, session: Option<&Path>) -> Result<Vec<Listed>, Error> {
    let mut listed = Vec::new();
    for path in directories(parent)? {
        if path.join(IDENTITY).exists() || path.join(IDENTITY_HALF_MADE).exists() {
            let info = SpaceReader::open(&path).and_then(|reader| reader.info());
            let alive = info.as_ref().is_ok_and(Info::is_alive);
            listed.push(Listed { path, info, alive, session: session.map(Path::to_path_buf) });
        }
    }
    Ok(listed)
}

/// The directories in `parent`, by path. Links are not followed, because their targets may not belong to a
/// space.
fn directories(parent: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut directories = Vec::new();
    for entry in entries(parent)? {
        let entry = entry.map_err(|e| Error::io("read", parent, e))?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            directories.push(entry.path());
        }
    }
    directories.sort();
    Ok(directories)
}

/// Removes the spaces of dead processes in `parent` and in the sessions there, also incomplete ones. Kept
/// spaces are removed only with `kept_too`, spaces of live processes never. A session is removed with the
/// last of its spaces, when all of its processes are dead.
///
/// A space of another machine, or one that cannot be read, is left alone and reported.
///
/// # Errors
/// When `parent` cannot be read.
pub fn clean(parent: &Path, kept_too: bool) -> Result<Cleaned, Error> {
    let mut cleaned = Cleaned::default();
    let host = crate::process::host();
    for listed in list(parent)? {
        let Listed { path, info, alive, .. } = listed;
        let abandoned = if info.is_err() { abandoned(&path) } else { None };
        match info {
            Err(error) if abandoned.is_none() => cleaned.problems.push((path, error)),
            Ok(_) if alive => {}
            // The copy of a space of another machine is of this one.
            Ok(info) if info.host != host && info.clock_error_ns.is_none() => {
                let error = Error::new(format!("its process ran on {}: clean it there", info.host));
                cleaned.problems.push((path, error));
            }
            Ok(info) if info.keep && !kept_too => cleaned.kept.push(path),
            _ => match abandoned.map_or_else(|| remove(&path), |directory| remove_from(&directory, &path)) {
                Ok(()) => cleaned.removed.push(path),
                Err(error) => cleaned.problems.push((path, error)),
            },
        }
    }
    remove_empty(parent, &mut cleaned)?;
    for session in sessions(parent)? {
        remove_empty(&session, &mut cleaned)?;
        match remove_session(&session, &host) {
            Ok(true) => cleaned.removed.push(session),
            Ok(false) => {}
            Err(error) => cleaned.problems.push((session, error)),
        }
    }
    cleaned.removed.sort();
    Ok(cleaned)
}

/// Removes a session that has no spaces any more and whose processes are dead, all of this machine.
fn remove_session(path: &Path, host: &str) -> Result<bool, Error> {
    if !directories(path)?.is_empty() {
        return Ok(false);
    }
    // A process that joins holds the lock until its space exists.
    let Some(manifest) = Manifest::try_lock(path) else { return Ok(false) };
    let mut session = Session::open(path)?;
    let is_needed = |member: &Member| member.is_alive() || member.host != host;
    if session.members()?.iter().any(is_needed) {
        return Ok(false);
    }
    for entry in entries(path)? {
        let entry = entry.map_err(|e| Error::io("read", path, e))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("session.new-") || [STATE, WANTED, "copies.new"].contains(&&*name) {
            let path = entry.path();
            remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
        }
    }
    manifest.remove().map(|()| true)
}

/// Removes the empty directories that dead processes made for spaces.
fn remove_empty(parent: &Path, cleaned: &mut Cleaned) -> Result<(), Error> {
    for entry in entries(parent)? {
        let entry = entry.map_err(|e| Error::io("read", parent, e))?;
        let is_directory = entry.file_type().is_ok_and(|t| t.is_dir());
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_dead = names_dead_process(&name);
        // What a killed process wanted to send to another machine.
        if is_directory && is_dead && name.starts_with(COPYING) {
            let removed = std::fs::remove_dir_all(entry.path());
            unless_gone(removed).map_err(|e| Error::io("remove", &entry.path(), e))?;
            cleaned.removed.push(entry.path());
            continue;
        }
        // The call fails for a directory that is not empty.
        if is_directory && is_dead && std::fs::remove_dir(entry.path()).is_ok() {
            cleaned.removed.push(entry.path());
        }
    }
    Ok(())
}

/// Whether the name is `NAME-PID` or `NAME-PID.AGAIN`, and that process is dead.
fn names_dead_process(name: &str) -> bool {
    let number = name.rsplit_once('-').and_then(|(_, number)| number.split('.').next()?.parse().ok());
    number.is_some_and(|pid| crate::process::start_time(pid).is_none())
}

/// The directory of this space, locked, if a process died while it made or removed the space. The maker holds
/// the lock until the identity is complete.
fn abandoned(path: &Path) -> Option<File> {
    let directory = File::open(path).ok()?;
    // The lock is held while the files are looked for, because otherwise a process might begin to make the
    // files meanwhile.
    directory.try_lock().ok()?;
    let inside = inside(&directory);
    (inside.join(IDENTITY_HALF_MADE).exists() && !inside.join(IDENTITY).exists()).then_some(directory)
}

/// The path of an open directory, which stays that of the same directory if another one gets its name.
fn inside(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

/// Whether the directory still has this path.
fn is_at(directory: &File, path: &Path) -> bool {
    let id = |about: std::io::Result<Metadata>| about.map(|about| (about.dev(), about.ino())).ok();
    id(directory.metadata()) == id(std::fs::symlink_metadata(path))
}

/// A space whose files are being removed. While this value exists, no other process considers the space
/// abandoned.
#[must_use = "hold it until the files are removed"]
pub struct Withdrawn {
    /// The lock on the directory.
    _directory: Option<File>,
}

/// To be called before the files of a space are removed. A reader that misses one of the files then knows why
/// ([`SpaceReader::is_gone`]), and if this process dies meanwhile, the remaining files count as abandoned.
pub fn withdraw(path: &Path) -> Withdrawn {
    let directory = File::open(path).ok().filter(|directory| directory.try_lock().is_ok());
    withdraw_identity(path);
    Withdrawn { _directory: directory }
}

fn withdraw_identity(directory: &Path) {
    // The error is ignored: the space may have been withdrawn before, or never have been complete.
    let _ = std::fs::rename(directory.join(IDENTITY), directory.join(IDENTITY_HALF_MADE));
}

/// Removes one space of any owner: only the files that a space has, then the directory. The caller ensures
/// that no process uses the space any more. Two processes that remove the same space at once both succeed,
/// and a space that gets the same directory meanwhile keeps its files.
///
/// # Errors
/// When a file cannot be removed, or the directory holds other files.
pub fn remove(path: &Path) -> Result<(), Error> {
    let directory = match File::open(path) {
        Ok(directory) => directory,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io("read", path, e)),
    };
    // Errors are ignored: a space that cannot be read does not show which other directories belong to it.
    if let Ok(info) = SpaceReader::open(path).and_then(|reader| reader.info()) {
        remove_elsewhere(path, info.uuid)?;
    }
    // While the lock is held, no other process considers the space abandoned. The error is ignored: another process
    // may remove the space, too.
    let _ = directory.try_lock();
    remove_from(&directory, path)
}

/// Removes a space's files from its open directory, which has or had this path, and then the directory.
fn remove_from(directory: &File, path: &Path) -> Result<(), Error> {
    let inside = inside(directory);
    withdraw_identity(&inside);
    remove_files(&inside, path)?;
    for file in [IDENTITY_HALF_MADE, IDENTITY] {
        remove_file(&inside.join(file)).map_err(|e| Error::io("remove", &path.join(file), e))?;
    }
    if is_at(directory, path) {
        unless_gone(std::fs::remove_dir(path)).map_err(|e| Error::io("remove", path, e))?;
    }
    Ok(())
}

/// Removes the other directories that hold elements of the space in `path`.
fn remove_elsewhere(path: &Path, uuid: [u8; 16]) -> Result<(), Error> {
    for entry in entries(path)? {
        let name = entry.map_err(|e| Error::io("read", path, e))?.file_name();
        let number = name.to_string_lossy().strip_suffix(".at").and_then(|number| number.parse().ok());
        let Some(Ok(directory)) = number.map(|number| crate::place::read_link(path, number, uuid)) else {
            continue;
        };
        // A link is not followed, because its target may be any directory.
        if std::fs::symlink_metadata(&directory).is_ok_and(|about| about.is_dir()) {
            remove_files(&directory, &directory)?;
            unless_gone(std::fs::remove_dir(&directory)).map_err(|e| Error::io("remove", &directory, e))?;
        }
    }
    Ok(())
}

/// Removes the files of a space from a directory, except the identity; errors name the directory `shown`.
fn remove_files(directory: &Path, shown: &Path) -> Result<(), Error> {
    for entry in entries(directory)? {
        let entry = entry.map_err(|e| Error::io("read", shown, e))?;
        let name = entry.file_name();
        // The identity is removed last, so that `list` still finds the space after an interrupted removal.
        if belongs_to_space(&name.to_string_lossy()) {
            remove_file(&entry.path()).map_err(|e| Error::io("remove", &shown.join(name), e))?;
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> std::io::Result<()> {
    unless_gone(std::fs::remove_file(path))
}

/// The entries of the directory; none if another process has removed it.
fn entries(path: &Path) -> Result<impl Iterator<Item = std::io::Result<DirEntry>>, Error> {
    match std::fs::read_dir(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("read", path, e)),
        entries => Ok(entries.into_iter().flatten()),
    }
}

/// A file that is missing was removed by another process.
fn unless_gone(removed: std::io::Result<()>) -> std::io::Result<()> {
    removed.or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// Whether a file of this name is one of a space's files, except the file `space`, which identifies the
/// space.
fn belongs_to_space(name: &str) -> bool {
    let name = name.strip_suffix(".new").unwrap_or(name);
    // A tuner makes `tuner.lock` and `tuner.pins`; `pictures` holds data for pictures of the run.
    is_numbered(name)
        || matches!(
            name,
            "settings"
                | "asked"
                | "mailbox"
                | "map"
                | "probes"
                | "segments"
                | "tuner.lock"
                | "tuner.pins"
                | "pictures"
        )
}

/// Whether a file of this name is one of a space's files whose names contain a number.
pub(crate) fn is_numbered(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let in_pool = |stem: &str| stem.split_once('-').is_some_and(|(pool, slot)| number(pool) && number(slot));
    name.rsplit_once('.').is_some_and(|(stem, end)| {
        number(stem) && matches!(end, "element" | "pool" | "catalog" | "archive" | "segment" | "at")
            || in_pool(stem) && end == "archive"
            || matches!(stem, "live" | "switches") && number(end)
    })
}
