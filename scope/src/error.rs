//! The error of scopes.

use std::fmt;

/// An error of a scope, with its place and advice; `source` is the error that caused it.
#[derive(Debug)]
pub struct Error {
    text: String,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Error {
        Error { text: text.into(), cause: None }
    }

    pub(crate) fn because(
        text: impl Into<String>,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error { text: text.into(), cause: Some(cause.into()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) if self.text.is_empty() => write!(f, "{cause}"),
            Some(cause) if f.alternate() => write!(f, "{}: {cause:#}", self.text),
            _ => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Some(cause) if self.text.is_empty() => cause.source(),
            Some(cause) => Some(&**cause),
            None => None,
        }
    }
}

impl From<thalweg_space::Error> for Error {
    fn from(error: thalweg_space::Error) -> Error {
        Error { text: String::new(), cause: Some(Box::new(error)) }
    }
}
