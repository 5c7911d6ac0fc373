//! Why a run is not tuned.

use std::{error, fmt};

use thalweg_space::Error;

/// Why a run is not tuned.
#[derive(Debug)]
pub enum Untuned {
    /// It cannot be: what stands in the way, and what to do.
    Refused(String),
    /// Its space could not be read, or a setting not be set.
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
            // Its text is the error's own.
            Untuned::Space(error) => error.source(),
        }
    }
}

impl From<Error> for Untuned {
    fn from(error: Error) -> Untuned {
        Untuned::Space(error)
    }
}
