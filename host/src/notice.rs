//! Notices of a run while it goes on: failed records, a full disk, a listening socket. The code that starts
//! the run decides where notices are shown.

use std::fmt;
use std::sync::Arc;

use thalweg_net::syntax::Diagnostic;

use crate::error::{Error, chain};

/// A notice of a run. [`fmt::Display`] writes a notice as a line without colours.
#[derive(Clone, Debug)]
pub enum Notice {
    /// An error after which the run goes on or ends in an orderly way.
    Error {
        /// The code for `thalweg explain`, if it has one.
        code: Option<&'static str>,
        /// The message: what failed, where, and what to do.
        message: String,
    },
    /// A warning about a possible problem.
    Warning {
        /// The code for `thalweg explain`.
        code: &'static str,
        /// The message: what may be wrong, and where.
        message: String,
    },
    /// Information for the user that is no problem.
    Note(String),
    /// A diagnostic of the network's text.
    Diagnostic(Diagnostic),
}

impl Notice {
    /// The notice of an error, with its causes.
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

/// The receiver of notices. Clones have the same receiver.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(Notice) + Send + Sync>);

impl Notices {
    /// Passes each notice to `take`, on the thread that creates it, so `take` should return soon.
    pub fn to(take: impl Fn(Notice) + Send + Sync + 'static) -> Notices {
        Notices(Arc::new(take))
    }

    /// Drops all notices.
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
