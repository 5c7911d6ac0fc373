//! The directory of the run's space. It is removed when the run ends, unless the user wants to keep it, and always
//! if the run is refused, so that the next run can have the same directory.

use std::path::{Path, PathBuf};

use thalweg_space::discover::withdraw;

use crate::error::Error;
use crate::interrupt::Interrupt;

pub(super) struct Folder {
    path: PathBuf,
    stays: bool,
    interrupt: Interrupt,
}

impl Folder {
    /// The directory of a run that begins.
    pub(super) fn new(path: &Path, interrupt: &Interrupt) -> Folder {
        interrupt.leave_behind(Some(path));
        Folder { path: path.to_path_buf(), stays: false, interrupt: interrupt.clone() }
    }

    /// Lets the directory stay when the run ends.
    pub(super) fn stay(&mut self) {
        self.interrupt.leave_behind(None);
        self.stays = true;
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory; if it is to be kept, returns its path instead.
    pub(super) fn close(mut self) -> Result<Option<PathBuf>, Error> {
        self.interrupt.leave_behind(None);
        if self.stays {
            return Ok(Some(std::mem::take(&mut self.path)));
        }
        self.stays = true;
        let _withdrawn = withdraw(&self.path);
        std::fs::remove_dir_all(&self.path).map(|()| None).map_err(|error| {
            Error::run(format!("cannot remove the space {}", self.path.display())).because(error)
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.stays {
            let _withdrawn = withdraw(&self.path);
            // An error of the removal is ignored, because the run has failed and the error of the run is
            // reported.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
