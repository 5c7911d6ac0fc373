//! The library's error type, which states what failed, where, and what to do.

use std::fmt;
use std::io;
use std::path::Path;

/// An operating error of the event space. The error's text states what failed and where. The error's source,
/// if there is one, is the operating system's error with advice. `{error:#}` writes the text and the source
/// in one line, as [`chain`] does for any error.
#[derive(Debug)]
pub struct Error {
    text: String,
    source: Option<Refusal>,
}

/// An error of the operating system, with advice.
#[derive(Debug)]
struct Refusal {
    error: io::Error,
    hint: &'static str,
}

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Error {
        Error { text: text.into(), source: None }
    }

    pub(crate) fn io(doing: &str, path: &Path, error: io::Error) -> Error {
        let hint = match error.raw_os_error() {
            Some(libc::ENOSPC) => {
                "; the file system is full: free some room (`thalweg clean` removes spaces of dead processes) \
                 or set THALWEG_SPACES to a directory elsewhere"
            }
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                "; set THALWEG_SPACES to a directory you may write to"
            }
            _ => "",
        };
        Error { text: format!("cannot {doing} {}", path.display()), source: Some(Refusal { error, hint }) }
    }

    /// Whether the disk is full, so that a retry may succeed later.
    pub fn is_full(&self) -> bool {
        matches!(self.io_error().and_then(io::Error::raw_os_error), Some(libc::ENOSPC | libc::EDQUOT))
    }

    /// The operating system's error that caused this one, if there is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        self.source.as_ref().map(|refusal| &refusal.error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.source {
            Some(refusal) if f.alternate() => write!(f, ": {refusal}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.error, self.hint)
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

/// An error and the errors that caused it, in one line: `what: why: why`.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_stands_behind_what_it_caused_once() {
        let refused = io::Error::from_raw_os_error(libc::EACCES);
        let cause = refused.to_string();
        let error = Error::io("open", Path::new("/a"), refused);
        assert_eq!(error.to_string(), "cannot open /a");
        let all = format!("cannot open /a: {cause}; set THALWEG_SPACES to a directory you may write to");
        assert_eq!((format!("{error:#}"), chain(&error)), (all.clone(), all));
        assert_eq!(error.io_error().map(io::Error::kind), Some(io::ErrorKind::PermissionDenied));
        assert_eq!(chain(&Error::new("no space")), "no space");
    }
}
