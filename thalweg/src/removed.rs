//! A space of this process that is removed when the command ends.

use std::path::{Path, PathBuf};

use thalweg_space::Space;

/// Removes a space when it is dropped. A `Removed` has to be dropped after the space and its writers.
pub(crate) struct Removed(PathBuf);

impl Removed {
    pub(crate) fn new(space: &Space) -> Removed {
        Removed(space.path().to_path_buf())
    }

    /// The path of the space.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        // An error is ignored, because `thalweg clean` can remove the space later.
        let _ = thalweg_space::discover::remove(&self.0);
    }
}
