//! Where an element lies: in its space's directory, or in another directory.
//!
//! An element in another directory lies in a directory `thalweg-UUID` with the UUID of its space, and the
//! space has a file `NNNN.at` that holds the path. So readers find elements in other directories, and such
//! elements are removed with their space. A damaged file can lead only to a directory with the space's own
//! UUID in its name.

use crate::directory::make_private;
use crate::error::Error;
use crate::file;
use crate::layout::{PAGE, VERSION, link};
use crate::options::ElementOptions;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The size, policy and directory of the element that a writer or collector requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) options: ElementOptions,
    /// The index of one of the space's directories; 0 is the directory of the space.
    pub(crate) directory: usize,
}

/// The name of the directories that hold elements of the space with this UUID.
fn directory_name(uuid: [u8; 16]) -> String {
    let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("thalweg-{digits}")
}

/// Makes a directory for elements of the space with this UUID below `parent`.
pub(crate) fn make_directory(parent: &Path, uuid: [u8; 16]) -> Result<PathBuf, Error> {
    let parent = std::path::absolute(parent).map_err(|e| Error::io("find", parent, e))?;
    make_private(&parent)?;
    let path = parent.join(directory_name(uuid));
    if path.as_os_str().len() > link::PATH_BYTES {
        return Err(Error::new(format!(
            "{} is too long: the path of a directory for elements may have {} bytes",
            path.display(),
            link::PATH_BYTES
        )));
    }
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::io("create", &path, e)),
        _ => Ok(path),
    }
}

fn link_path(space: &Path, number: u32) -> PathBuf {
    space.join(format!("{number:04}.at"))
}

/// Writes a file into the directory `space` which states that the element or pool `number` lies in
/// `directory`.
pub(crate) fn write_link(space: &Path, number: u32, directory: &Path) -> Result<(), Error> {
    let bytes = directory.as_os_str().as_bytes();
    let mut page = [0; PAGE];
    let mut put = |at: usize, value: u64| page[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(link::MAGIC, link::MAGIC_VALUE);
    put(link::VERSION, u64::from(VERSION));
    put(link::PATH, bytes.len() as u64);
    page[link::PATH + 8..][..bytes.len()].copy_from_slice(bytes);
    let path = link_path(space, number);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(&page)).map_err(|e| Error::io("write", &path, e))
}

/// The directory in which the element or pool `number` lies, as the file in the directory `space` states.
/// `uuid` is the UUID of the space.
pub(crate) fn read_link(space: &Path, number: u32, uuid: [u8; 16]) -> Result<PathBuf, Error> {
    let path = link_path(space, number);
    let file = file::open_to_read(&path).map_err(|e| Error::io("open", &path, e))?;
    let mut page = [0; PAGE];
    file::read_exact_at(&file, &path, &mut page, 0)?;
    file::check_magic(&path, &page, link::MAGIC_VALUE, "a link")?;
    let directory = PathBuf::from(file::text(&page, link::PATH, link::PATH_BYTES));
    if !directory.is_absolute() || !directory.ends_with(directory_name(uuid)) {
        return Err(Error::new(format!(
            "{} is damaged: it leads to a directory of another space",
            path.display()
        )));
    }
    Ok(directory)
}
