//! The reasons why a box library cannot be used.

use std::fmt;

/// A fault of a box library, or an error that it reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFault(String);

impl From<String> for LibraryFault {
    fn from(what: String) -> LibraryFault {
        LibraryFault(what)
    }
}

impl fmt::Display for LibraryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LibraryFault {}
