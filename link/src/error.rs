//! The library's error type.

use crate::Violation;
use std::fmt;
use std::io;

/// The reason why a link cannot continue. The error's text says what failed and where; its source is the
/// error of the operating system or the violation of the protocol.
#[derive(Debug)]
pub struct Error {
    text: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    is_stopped: bool,
}

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Error {
        Error { text: text.into(), source: None, is_stopped: false }
    }

    pub(crate) fn io(text: impl Into<String>, error: io::Error) -> Error {
        Error { text: text.into(), source: Some(Box::new(error)), is_stopped: false }
    }

    pub(crate) fn violation(text: impl Into<String>, violation: Violation) -> Error {
        Error { text: text.into(), source: Some(Box::new(violation)), is_stopped: false }
    }

    pub(crate) fn stopped() -> Error {
        Error { text: "the link was stopped".into(), source: None, is_stopped: true }
    }

    /// Whether the other end does not accept the certificate of this one.
    pub fn is_refused(&self) -> bool {
        let source = self.source.as_deref().and_then(|source| source.downcast_ref::<io::Error>());
        source.is_some_and(crate::secure::is_refused)
    }

    /// Whether the link was stopped by [`crate::Stop`].
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.source {
            Some(source) if f.alternate() => write!(f, ": {source}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
