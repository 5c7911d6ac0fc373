//! Errors of libraries of boxes and of starting a network; errors in the text of a network are diagnostics.

use std::fmt;
use std::sync::Arc;

type Source = dyn std::error::Error + Send + Sync;

/// An error of a library, or of starting a network: what failed, where, and what to do. The cause of an error
/// is its source; `{error:#}` writes both. Two errors are equal if their texts are equal.
#[derive(Clone, Debug)]
pub struct Error {
    /// The message; `None` if the source is the message.
    message: Option<String>,
    source: Option<Arc<Source>>,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { message: Some(message.into()), source: None }
    }

    pub(crate) fn because(self, source: impl Into<Box<Source>>) -> Error {
        Error { source: Some(Arc::from(source.into())), ..self }
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
