//! Errors of operations on runs.
//!
//! An error says what failed, where, and what to do; the error that caused it is its source. [`chain`] writes
//! an error and its causes in one line.

use std::fmt;

use thalweg_net::syntax::Diagnostic;

pub use thalweg_space::chain;

/// The kind of an [`Error`]. The program has one exit code for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request cannot be fulfilled, because arguments are wrong or files are missing or damaged.
    Usage,
    /// The run failed or refused a command.
    Run,
    /// The operation was interrupted by the signal with this number.
    Interrupted(i32),
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// An error of an operation on a run.
#[derive(Debug)]
pub struct Error(Box<Content>);

#[derive(Debug)]
struct Content {
    kind: ErrorKind,
    code: Option<&'static str>,
    /// The message; `None` if the message of its source is enough.
    message: Option<String>,
    diagnostics: Vec<Diagnostic>,
    source: Option<Source>,
}

impl Error {
    fn new(kind: ErrorKind, code: Option<&'static str>, message: impl Into<String>) -> Error {
        let (message, diagnostics, source) = (Some(message.into()), Vec::new(), None);
        Error(Box::new(Content { kind, code, message, diagnostics, source }))
    }

    /// A usage error: the request cannot be fulfilled. The message says what is wrong, where, and what to do.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Usage, None, message)
    }

    /// A usage error whose code has a page in docs/errors.
    pub fn coded(code: &'static str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Usage, Some(code), message)
    }

    /// An error of the run, which failed or refused a command.
    pub fn run(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Run, None, message)
    }

    pub(crate) fn interrupted(signal: i32) -> Error {
        Error::new(ErrorKind::Interrupted(signal), None, "interrupted")
    }

    /// The error of a network's text with the given diagnostics.
    pub fn text(diagnostics: Vec<Diagnostic>) -> Error {
        let mut error = Error::usage("the network has errors");
        error.0.diagnostics = diagnostics;
        error
    }

    fn of(kind: ErrorKind, code: Option<&'static str>, source: impl Into<Source>) -> Error {
        let (message, diagnostics, source) = (None, Vec::new(), Some(source.into()));
        Error(Box::new(Content { kind, code, message, diagnostics, source }))
    }

    /// A usage error whose message is that of `source`.
    pub fn usage_of(source: impl Into<Source>) -> Error {
        Error::of(ErrorKind::Usage, None, source)
    }

    /// A usage error with a code, whose message is that of `source`.
    pub fn coded_of(code: &'static str, source: impl Into<Source>) -> Error {
        Error::of(ErrorKind::Usage, Some(code), source)
    }

    /// A failure of the run whose message is that of `source`.
    pub fn run_of(source: impl Into<Source>) -> Error {
        Error::of(ErrorKind::Run, None, source)
    }

    /// Returns this error with `source` as its cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Source>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable code that `thalweg explain` knows, if it has one.
    pub fn code(&self) -> Option<&'static str> {
        self.0.code
    }

    /// The errors of a network's text, if this error consists of them.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.0.diagnostics
    }
}

impl fmt::Display for Error {
    /// Writes the message; `{error:#}` adds the causes, as [`chain`] does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.write_str(&chain(self));
        }
        match (&self.0.message, &self.0.source) {
            (Some(message), _) => f.write_str(message),
            (None, Some(source)) => write!(f, "{source}"),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.0.source.as_deref()?;
        if self.0.message.is_some() { Some(source) } else { source.source() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_behind_what_they_caused() {
        let refused = std::io::Error::other("no such thing");
        let error =
            Error::coded("E0901", "cannot read a").because(Error::run("cannot open a").because(refused));
        assert_eq!(error.to_string(), "cannot read a");
        assert_eq!(format!("{error:#}"), "cannot read a: cannot open a: no such thing");
        assert_eq!((error.kind(), error.code()), (ErrorKind::Usage, Some("E0901")));
        assert_eq!(chain(&Error::run_of(error)), "cannot read a: cannot open a: no such thing");
    }
}
