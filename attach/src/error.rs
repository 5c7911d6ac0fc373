//! Errors: one sentence that says what failed, where, and what to do.

use std::fmt;

/// A refusal, or an operation that failed: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }

    /// An error with its cause, preceded by the failed operation.
    pub(crate) fn of(doing: &str, because: impl fmt::Display) -> Error {
        Error(format!("{doing}: {because}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
