//! What a run has to say while it goes on: failed records, a full disk, a socket that listens. The code that starts the run decides
//! where that is shown.

use std::fmt;
use std::sync::Arc;

use thalweg_net::syntax::Diagnostic;

use crate::error::{Error, chain};

/// Something that a run has to say. [`fmt::Display`] writes it as a line without colours.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Something went wrong, and the run goes on or ends in order.
    Error {
        /// The code that `thalweg explain` knows, if there is one.
        code: Option<&'static str>,
        /// What, where, what to do.
        message: String,
    },
    /// A warning: something may be wrong.
    Warning {
        /// The code that `thalweg explain` knows.
        code: &'static str,
        /// What, where.
        message: String,
    },
    /// Nothing is wrong, but a user should know it.
    Note(String),
    /// Something about the text of the network.
    Diagnostic(Diagnostic),
}

impl Notice {
    /// An error, with what caused it.
    pub(crate) fn of(error: &Error) -> Notice {
        Notice::Error { code: error.code(), message: chain(error) }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Error { code: Some(code), message } => write!(f, "error[{code}]: {message}"),
            Notice::Error { code: None, message } => write!(f, "error: {message}"),
            Notice::Warning { code, message } => write!(f, "warning[{code}]: {message}"),
            Notice::Note(message) => f.write_str(message),
            Notice::Diagnostic(diagnostic) => f.write_str(&diagnostic.render(false)),
        }
    }
}

/// Where notices go. Clones lead to the same place.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(Notice) + Send + Sync>);

impl Notices {
    /// Passes each notice to `take`, on the thread that gives it, so `take` should return soon.
    pub fn to(take: impl Fn(Notice) + Send + Sync + 'static) -> Notices {
        Notices(Arc::new(take))
    }

    /// Nobody wants to know.
    pub fn none() -> Notices {
        Notices::to(drop)
    }

    pub(crate) fn give(&self, notice: Notice) {
        (self.0)(notice);
    }

    pub(crate) fn note(&self, message: impl Into<String>) {
        self.give(Notice::Note(message.into()));
    }

    pub(crate) fn warn(&self, code: &'static str, message: impl Into<String>) {
        self.give(Notice::Warning { code, message: message.into() });
    }

    pub(crate) fn coded(&self, code: &'static str, message: impl Into<String>) {
        self.give(Notice::Error { code: Some(code), message: message.into() });
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}
