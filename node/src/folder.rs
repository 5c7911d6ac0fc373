//! The folders of sessions on a node. A node keeps its sessions' folders locked, and the system unlocks them when the
//! node is killed, so the other nodes of the machine, and the next one, know which folders nobody uses any more.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::channel::{hex, random};

/// The folder of a session, which is removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes a folder in the folder of all sessions, and removes those that killed nodes have left.
    pub(crate) fn new(sessions: &Path) -> io::Result<Folder> {
        remove_abandoned(sessions);
        loop {
            let path = sessions.join(hex(&random::<8>()?));
            DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
            // Another node may find the folder before it is locked, and remove it.
            let lock = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if lock.try_lock().is_ok() && path.is_dir() {
                return Ok(Folder { path, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // An error is ignored, because nothing in the folder is needed any more.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of sessions whose nodes were killed.
pub(crate) fn remove_abandoned(sessions: &Path) {
    for folder in std::fs::read_dir(sessions).into_iter().flatten().flatten() {
        let Ok(lock) = File::open(folder.path()) else { continue };
        if lock.try_lock().is_ok() {
            // An error is ignored: what could not be removed stays until the next attempt.
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_in_use_stay_and_others_go() {
        let at = tempfile::tempdir().expect("a temporary folder");
        let sessions = at.path().join("sessions");
        let first = Folder::new(&sessions).expect("a folder");
        let abandoned = sessions.join("abandoned");
        std::fs::create_dir_all(abandoned.join("0")).expect("a folder");
        let second = Folder::new(&sessions).expect("a folder");
        assert!(first.path().is_dir() && second.path().is_dir() && !abandoned.exists());
        remove_abandoned(&sessions);
        assert!(first.path().is_dir() && second.path().is_dir());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().is_dir());
    }
}
