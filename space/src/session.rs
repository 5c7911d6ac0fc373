//! Sessions: the spaces of several processes in one directory, with a manifest that records which processes
//! joined and left.
//!
//! A process joins a session when it makes its space in the session's directory, which
//! [`crate::SpaceOptions::session`] names, or the variable `$THALWEG_SESSION`, which child processes inherit.
//! The first process that joins makes the session. The manifest is a catalog file called `session`, to which
//! processes append records while they hold the file's lock; a killed process has a record that it joined and
//! none that it left.
//!
//! [`crate::reader::Session`] reads the manifest, and the events of all processes in the order of their times.

use crate::catalog::{Catalog, Joined, Record, append_under_lock};
use crate::clock::system_ns;
use crate::directory::{default_parent, make_private};
use crate::error::Error;
use crate::file::lock;
use crate::identity::Identity;
use crate::options::SpaceOptions;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file name of the manifest; a directory with a file of this name is a session.
pub(crate) const MANIFEST: &str = "session";
/// The most bytes of the manifest: enough for some ten thousand processes.
const BYTES_MAX: u64 = 8 << 20;
/// How often making a session is tried again while `clean` removes it at the same time.
const TRIES: usize = 100;

/// A session whose manifest is locked.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) directory: PathBuf,
    path: PathBuf,
    file: File,
}

/// The session that a space with these options joins: the session that the options name, or, if they set
/// neither `parent` nor `path`, the one that the environment names. `None` if neither the options nor the
/// environment name a session. A name without a slash stands for a session in the default directory of
/// spaces.
pub(crate) fn chosen(options: &SpaceOptions) -> Result<Option<PathBuf>, Error> {
    let from_environment = || {
        let is_placed = options.path.is_some() || options.parent.is_some();
        std::env::var_os("THALWEG_SESSION").filter(|value| !is_placed && !value.is_empty()).map(PathBuf::from)
    };
    let Some(session) = options.session.clone().or_else(from_environment) else { return Ok(None) };
    if options.path.is_some() {
        return Err(Error::new(
            "a space that joins a session lies in the session's directory: give one of the two",
        ));
    }
    if session.parent() == Some(Path::new("")) {
        let parent = options.parent.clone().map_or_else(default_parent, Ok)?;
        return Ok(Some(parent.join(session)));
    }
    Ok(Some(session))
}

impl Manifest {
    /// Opens and locks the manifest of the session in `directory`, and makes the session if there is none.
    pub(crate) fn enter(directory: PathBuf) -> Result<Manifest, Error> {
        let path = directory.join(MANIFEST);
        let mut tries = 0..TRIES;
        loop {
            match made_and_locked(&directory, &path) {
                Ok(Some(file)) => return Ok(Manifest { directory, path, file }),
                // Another process removed the session between its making and the locking.
                Ok(None) if tries.next().is_some() => {}
                // Another process may have made the directory again since, so only the error tells that it
                // was gone.
                Err(error) if is_gone(&error) && tries.next().is_some() => {}
                Err(error) => return Err(error),
                Ok(None) => {
                    let path = path.display();
                    return Err(Error::new(format!("{path} is removed each time it is made: by whom?")));
                }
            }
        }
    }

    /// Locks the manifest of a session; `None` if another process is joining it at this moment.
    pub(crate) fn try_lock(directory: &Path) -> Option<Manifest> {
        let path = directory.join(MANIFEST);
        let file = crate::file::open_to_read(&path).ok()?;
        file.try_lock().ok()?;
        Some(Manifest { directory: directory.to_path_buf(), path, file })
    }

    /// Records that the process of `identity` joined.
    pub(crate) fn join(&self, identity: &Identity, name: &str) -> Result<(), Error> {
        let directory = identity.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parent_pid = crate::process::parent();
        self.append(&Record::Joined(Joined {
            uuid: identity.uuid(),
            pid: identity.pid,
            parent_pid,
            process_start: identity.process_start,
            parent_start: crate::process::start_time(parent_pid).unwrap_or(0),
            boot_id: crate::process::boot_id(),
            time_ns: system_ns(libc::CLOCK_REALTIME),
            directory,
            name: name.to_string(),
            host: crate::process::host(),
            architecture: std::env::consts::ARCH.to_string(),
        }))
    }

    /// Records that a process joined whose copy another process writes.
    pub(crate) fn append_joined(&self, joined: Joined) -> Result<(), Error> {
        self.append(&Record::Joined(joined))
    }

    fn append(&self, record: &Record) -> Result<(), Error> {
        append_under_lock(&self.path, record, BYTES_MAX)
    }

    /// Removes the manifest and the directory of the session; the caller ensures that no process needs them.
    pub(crate) fn remove(self) -> Result<(), Error> {
        std::fs::remove_file(&self.path).map_err(|e| Error::io("remove", &self.path, e))?;
        std::fs::remove_dir(&self.directory).map_err(|e| Error::io("remove", &self.directory, e))?;
        drop(self.file);
        Ok(())
    }
}

/// Records that the process of `identity` left the session in which its space lies.
pub(crate) fn leave(identity: &Identity) -> Result<(), Error> {
    left(&identity.path, identity.uuid())
}

/// Records that the process with the space of this number, in the directory `space`, left its session.
pub(crate) fn left(space: &Path, uuid: [u8; 16]) -> Result<(), Error> {
    let Some(directory) = space.parent() else { return Ok(()) };
    let Some(file) = lock_existing(&directory.join(MANIFEST))? else { return Ok(()) };
    let manifest = Manifest { directory: directory.to_path_buf(), path: directory.join(MANIFEST), file };
    manifest.append(&Record::Left { uuid, time_ns: system_ns(libc::CLOCK_REALTIME) })
}

/// Whether the error says that a file has been removed.
fn is_gone(error: &Error) -> bool {
    error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

/// Makes the session if it does not exist, and locks it; `None` if another process has removed it by then.
fn made_and_locked(directory: &Path, path: &Path) -> Result<Option<File>, Error> {
    make_private(directory)?;
    if !path.exists() {
        make(directory, path)?;
    }
    lock_existing(path)
}

/// Makes the manifest with a complete header, unless another process has made it.
fn make(directory: &Path, path: &Path) -> Result<(), Error> {
    // The new file's name has the id of the thread, which is unique among all processes of a machine.
    let new = directory.join(format!("{MANIFEST}.new-{}", crate::process::thread_id()));
    let _ = std::fs::remove_file(&new);
    drop(Catalog::create(new.clone(), 0)?);
    let linked = std::fs::hard_link(&new, path);
    let _ = std::fs::remove_file(&new);
    match linked {
        // If another process made the manifest, or the session is being removed, the attempt to lock the
        // manifest shows which.
        Err(e) if matches!(e.kind(), std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotFound) => {
            Ok(())
        }
        Err(e) => Err(Error::io("name", path, e)),
        Ok(()) => Ok(()),
    }
}

/// Locks the manifest; `None` if another process has removed it.
fn lock_existing(path: &Path) -> Result<Option<File>, Error> {
    let file = match crate::file::open(path, OpenOptions::new().read(true).append(true)) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("open", path, e)),
    };
    lock(&file, path)?;
    let inode = |about: std::io::Result<std::fs::Metadata>| about.map(|about| about.ino()).ok();
    Ok((inode(std::fs::symlink_metadata(path)) == inode(file.metadata())).then_some(file))
}
