//! The library's one error: what went wrong, where, and what to do about it.

use std::fmt;
use std::io;
use std::path::Path;

/// An operating error of the event space. Its text says what, where and what to do.
#[derive(Debug)]
pub struct Error {
    text: String,
    source: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Error {
        Error { text: text.into(), source: None }
    }

    pub(crate) fn io(doing: &str, path: &Path, source: io::Error) -> Error {
        let hint = match source.raw_os_error() {
            Some(libc::ENOSPC) => {
                "; the file system is full: free some room (`thalweg clean` removes spaces of dead processes) \
                 or set THALWEG_SPACES to a directory elsewhere"
            }
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                "; set THALWEG_SPACES to a directory you may write to"
            }
            _ => "",
        };
        Error { text: format!("cannot {doing} {}: {source}{hint}", path.display()), source: Some(source) }
    }

    /// Whether there is no room on the disk, so that the same may succeed later.
    pub fn is_full(&self) -> bool {
        matches!(self.source.as_ref().and_then(io::Error::raw_os_error), Some(libc::ENOSPC | libc::EDQUOT))
    }

    /// The operating system's error underneath, where there is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        self.source.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}
