//! Errors of the runtime itself.

use std::fmt;
use std::sync::Arc;

/// An error of the runtime itself. The error's text says what went wrong, where, and what to do. The cause is
/// its source; `{error:#}` writes both. Two errors are equal if their texts are equal.
#[derive(Clone, Debug)]
pub struct Error {
    /// The error's own text; `None` if the source's text is used.
    message: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { message: Some(message.into()), source: None }
    }

    pub(crate) fn because(self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error { source: Some(Arc::new(source)), ..self }
    }
}

impl From<thalweg_space::Error> for Error {
    fn from(error: thalweg_space::Error) -> Error {
        Error { message: None, source: Some(Arc::new(error)) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.write_str(&thalweg_space::chain(self));
        }
        match (&self.message, &self.source) {
            (Some(message), _) => f.write_str(message),
            (None, Some(source)) => write!(f, "{source}"),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.source.as_deref()?;
        if self.message.is_some() { Some(source) } else { source.source() }
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        format!("{self:#}") == format!("{other:#}")
    }
}

impl Eq for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_kept_and_said_once() {
        let refused = || std::io::Error::other("no threads");
        let error = Error::new("cannot start a worker").because(refused());
        assert_eq!(error.to_string(), "cannot start a worker");
        assert_eq!(format!("{error:#}"), "cannot start a worker: no threads");
        assert_eq!(error, Error::new("cannot start a worker").because(refused()));
        assert_ne!(error, Error::new("cannot start a worker"));
    }
}
