//! The directory of a space: its path and its creation.

use crate::error::Error;
use crate::options::SpaceOptions;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of the identity's file, which makes a directory a space.
pub(crate) const IDENTITY: &str = "space";
/// The name of the identity's file until its contents are complete.
pub(crate) const IDENTITY_HALF_MADE: &str = "space.new";

/// Where spaces are by default: `$THALWEG_SPACES`, else `/dev/shm/thalweg-UID`, else `$XDG_RUNTIME_DIR/thalweg`.
///
/// The directory need not exist yet.
///
/// # Errors
/// When no directory for spaces is available.
pub fn default_parent() -> Result<PathBuf, Error> {
    if let Some(chosen) = std::env::var_os("THALWEG_SPACES").filter(|v| !v.is_empty()) {
        return Ok(PathBuf::from(chosen));
    }
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() {
        return Ok(shared_memory.join(format!("thalweg-{}", crate::process::user())));
    }
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty()) {
        return Ok(Path::new(&runtime).join("thalweg"));
    }
    Err(Error::new(
        "there is nowhere to put a space: /dev/shm is missing and XDG_RUNTIME_DIR is not set; \
         set THALWEG_SPACES to a directory",
    ))
}

/// Makes a new directory for this process, at the place that the options name.
pub(crate) fn make_directory(options: &SpaceOptions, name: &str) -> Result<PathBuf, Error> {
    if let Some(path) = &options.path {
        return claim_exact(path);
    }
    let parent = match &options.parent {
        Some(parent) => parent.clone(),
        None => default_parent()?,
    };
    make_private(&parent)?;
    make_numbered(&parent, name)
}

/// Makes a new directory for this process in `parent`.
pub(crate) fn make_numbered(parent: &Path, name: &str) -> Result<PathBuf, Error> {
    let stem = format!("{}-{}", file_name(name), std::process::id());
    // A process may have several spaces of one name, and a dead process with the same pid may have left one.
    for again in 0..10_000 {
        let path = parent.join(if again == 0 { stem.clone() } else { format!("{stem}.{again}") });
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(Error::io("create the space directory", &path, e)),
        }
    }
    Err(Error::new(format!("{} holds too many spaces called {stem}: run `thalweg clean`", parent.display())))
}

/// Makes the directory of spaces. An existing directory must belong to this user, so that no other user can
/// place files in it.
pub(crate) fn make_private(parent: &Path) -> Result<(), Error> {
    if let Err(e) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent) {
        return Err(Error::io("create the directory of spaces", parent, e));
    }
    let about = std::fs::metadata(parent).map_err(|e| Error::io("examine", parent, e))?;
    let user = crate::process::user();
    // A directory that belongs to root, such as /tmp, is accepted.
    if user != 0 && about.uid() != user && about.uid() != 0 {
        return Err(Error::new(format!(
            "{} belongs to another user: set THALWEG_SPACES to a directory of your own",
            parent.display()
        )));
    }
    Ok(())
}

fn claim_exact(path: &Path) -> Result<PathBuf, Error> {
    match std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) => return Err(Error::io("create the space directory", path, e)),
    }
    let mut entries = std::fs::read_dir(path).map_err(|e| Error::io("read", path, e))?;
    if entries.next().is_some() {
        return Err(Error::new(format!(
            "{} is not empty, and a space needs a directory of its own: choose another, or remove it",
            path.display()
        )));
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        .map_err(|e| Error::io("change the mode of", path, e))?;
    Ok(path.to_path_buf())
}

/// Whether there is a space in this directory.
pub(crate) fn is_space(path: &Path) -> bool {
    path.join(IDENTITY).exists()
}

/// Converts a name to one that is safe as part of a file name.
fn file_name(name: &str) -> String {
    let good = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.chars().take(64).map(good).collect();
    name.trim_start_matches('.').to_string()
}
