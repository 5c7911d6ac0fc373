//! Reading files that nobody promises anything about.

use crate::error::Error;
use crate::layout::VERSION;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) fn length(file: &File, path: &Path) -> Result<u64, Error> {
    Ok(file.metadata().map_err(|e| Error::io("examine", path, e))?.len())
}

pub(crate) fn read_exact_at(file: &File, path: &Path, bytes: &mut [u8], at: u64) -> Result<(), Error> {
    file.read_exact_at(bytes, at).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::new(format!(
            "{} is truncated: it ends before byte {}; the space was damaged or is still being made",
            path.display(),
            at + bytes.len() as u64
        )),
        _ => Error::io("read", path, e),
    })
}

/// Checks magic and version, the first two words of every file.
pub(crate) fn check_magic(path: &Path, header: &[u8], magic: u64, what: &str) -> Result<(), Error> {
    let found = word(header, 0);
    if found != magic {
        let why = if found == 0 { "was never completed" } else { "has another magic number" };
        return Err(Error::new(format!("{} is not {what} of a Thalweg space: it {why}", path.display())));
    }
    let version = word(header, 8) as u32;
    if version == 0 || version > VERSION {
        return Err(Error::new(format!(
            "{} has version {version}, and this program reads up to version {VERSION}: use a newer thalweg",
            path.display()
        )));
    }
    Ok(())
}

/// The little-endian word at byte `at`; `at + 8` must be within.
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// A text stored as length word and bytes, in `room` bytes; whatever the length says.
pub(crate) fn text(bytes: &[u8], at: usize, room: usize) -> String {
    let length = (word(bytes, at) as usize).min(room);
    String::from_utf8_lossy(&bytes[at + 8..at + 8 + length]).into_owned()
}
