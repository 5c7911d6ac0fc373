//! Reasons why a run is not tuned.

use std::{error, fmt};

use thalweg_space::Error;

/// Reasons why a run is not tuned.
#[derive(Debug)]
pub enum Untuned {
    /// The run cannot be tuned; the text gives the reason, and what to do.
    Refused(String),
    /// The run's space could not be read, or a setting could not be set.
    Space(Error),
}

impl fmt::Display for Untuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untuned::Refused(why) => f.write_str(why),
            Untuned::Space(error) => error.fmt(f),
        }
    }
}

impl error::Error for Untuned {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Untuned::Refused(_) => None,
            // The text of this error is that of the inner error, so the inner error's source is returned as
            // the source.
            Untuned::Space(error) => error.source(),
        }
    }
}

impl From<Error> for Untuned {
    fn from(error: Error) -> Untuned {
        Untuned::Space(error)
    }
}
