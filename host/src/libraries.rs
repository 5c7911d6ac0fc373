//! The search for box libraries: at the path that the user wrote, or by name in the directories of
//! `THALWEG_BOXES`. The current directory is never searched; for a library in the current directory the user
//! must write `./libNAME.so`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use thalweg_net::{Boxes, Loading};

use crate::error::Error;

/// The environment variable with the directories to search, separated by `:`.
const VARIABLE: &str = "THALWEG_BOXES";

/// Loads the libraries; returns the boxes of all of them.
///
/// # Errors
/// An error with the code E0904 if a library is not found or cannot be loaded.
pub fn load(libraries: &[PathBuf], loading: Loading) -> Result<Boxes, Error> {
    let mut boxes = Boxes::new();
    libraries.iter().try_for_each(|library| add(&mut boxes, library, loading))?;
    Ok(boxes)
}

/// Adds the boxes of a library.
pub(crate) fn add(boxes: &mut Boxes, library: &Path, loading: Loading) -> Result<(), Error> {
    boxes.load_library_as(&find(library)?, loading).map_err(|error| Error::coded_of("E0904", error))
}

/// The file of the library that a user named by `--boxes`.
pub fn find(named: &Path) -> Result<PathBuf, Error> {
    find_in(named, std::env::var_os(VARIABLE).as_deref())
}

fn find_in(named: &Path, directories: Option<&OsStr>) -> Result<PathBuf, Error> {
    let name = named.to_string_lossy();
    if name.contains('/') {
        return Ok(named.to_owned());
    }
    // Empty and relative entries are ignored, because the current directory must not be searched.
    let all = directories.map(|all| std::env::split_paths(all).collect::<Vec<_>>()).unwrap_or_default();
    let searched: Vec<&PathBuf> = all.iter().filter(|directory| directory.is_absolute()).collect();
    let candidates = [name.to_string(), format!("lib{name}.so")];
    let found = searched
        .iter()
        .flat_map(|directory| candidates.iter().map(|candidate| directory.join(candidate)))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        let searched = match searched.as_slice() {
            [] => format!("{VARIABLE} names no directory by its full path"),
            some => {
                let some: Vec<String> =
                    some.iter().map(|directory| directory.display().to_string()).collect();
                format!("{VARIABLE} names {}", some.join(", "))
            }
        };
        Error::coded(
            "E0904",
            format!(
                "cannot find the box library {name}: {searched}; a file of the current directory is ./{name}"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_searched_and_paths_are_taken_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libtidy.so");
        std::fs::write(&library, "").unwrap();
        let mut both = std::ffi::OsString::from("/no/such/directory:");
        both.push(folder.path());
        let found = |name: &str, directories: &OsStr| find_in(Path::new(name), Some(directories)).ok();
        assert_eq!(found("tidy", &both), Some(library.clone()));
        assert_eq!(found("libtidy.so", &both), Some(library));
        assert_eq!(found("./libtidy.so", &both), Some("./libtidy.so".into()));
        // Empty and relative entries are not searched. The file `Cargo.toml` is in the current directory of
        // the test, so a search of the current directory would find it.
        assert!(Path::new("Cargo.toml").is_file());
        assert_eq!(found("Cargo.toml", OsStr::new("::.:./")), None);
        let error = find_in(Path::new("libtidy.so"), None).unwrap_err().to_string();
        assert!(error.contains("THALWEG_BOXES") && error.contains("./libtidy.so"), "{error}");
    }
}
