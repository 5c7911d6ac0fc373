//! The space that a command refers to: a path, a name or process id that `thalweg ls` shows, or else the
//! newest.

use std::path::{Path, PathBuf};

use thalweg_scope::ScopeFeed;
use thalweg_space::default_parent;
use thalweg_space::discover::{self, Listed};

use crate::error::Error;

/// The file that makes a directory a session.
const MANIFEST: &str = "session";

/// The names of spaces of observers (scope servers, recorders of views), which are no runs.
const LOOKING_ON: [&str; 2] = ["scope server", VIEW_RECORDER];
/// The name of the space of a recorder of a view.
pub const VIEW_RECORDER: &str = "view recorder";

/// The directory of the space the user named, or the newest.
pub fn find(name: Option<&str>) -> Result<PathBuf, Error> {
    match name {
        Some(name) if Path::new(name).join("space").is_file() => Ok(PathBuf::from(name)),
        Some(name) if name.contains('/') || Path::new(name).is_dir() => Err(no_space_at(Path::new(name))),
        Some(name) => match session(Some(name))? {
            Some(session) => Err(no_space_at(&session)),
            None => named(&listed()?, name),
        },
        None => newest(&listed()?),
    }
}

/// The directory of the space or session the user named, or of the newest space.
///
/// # Errors
/// There is no such space.
pub fn find_feed(name: Option<&str>) -> Result<PathBuf, Error> {
    let is_space = name.is_some_and(|name| Path::new(name).join("space").is_file());
    match session(name.filter(|_| !is_space))? {
        Some(session) => Ok(session),
        None => find(name),
    }
}

/// The events of the run or session that the user named, or of the newest run, for
/// [`thalweg_monitor::report`], [`thalweg_monitor::story`] and [`thalweg_monitor::slowest`].
///
/// # Errors
/// There is no such run or session, or it cannot be read.
pub fn feed(name: Option<&str>) -> Result<ScopeFeed, Error> {
    ScopeFeed::of(find_feed(name)?).map_err(Error::usage_of)
}

/// The directory of the session that the user named by its path or by its name in `thalweg ls`; `None` if no
/// session has this name.
pub fn session(name: Option<&str>) -> Result<Option<PathBuf>, Error> {
    let Some(name) = name else { return Ok(None) };
    if is_session(Path::new(name)) {
        // The spaces of a session are found in the directory that contains the session.
        return Ok(Some(std::path::absolute(name).unwrap_or_else(|_| PathBuf::from(name))));
    }
    let is_called = |session: &PathBuf| session.file_name().is_some_and(|file| file == name);
    Ok(sessions()?.into_iter().find(is_called))
}

/// Whether this directory holds the spaces of a session.
pub fn is_session(path: &Path) -> bool {
    path.join(MANIFEST).is_file()
}

/// Whether this is the name of the space of a part of a run over nodes: `NETWORK@NODE`.
pub fn is_part(name: &str) -> bool {
    name.contains('@')
}

/// All spaces in the default directory.
pub fn listed() -> Result<Vec<Listed>, Error> {
    let parent = parent()?;
    discover::list(&parent).map_err(Error::usage_of)
}

/// The sessions in the default directory.
pub fn sessions() -> Result<Vec<PathBuf>, Error> {
    discover::sessions(&parent()?).map_err(Error::usage_of)
}

/// The default directory of spaces.
pub fn parent() -> Result<PathBuf, Error> {
    default_parent().map_err(Error::usage_of)
}

fn no_space_at(path: &Path) -> Error {
    Error::usage(if is_session(path) {
        format!(
            "{} is a session: give one of the spaces in it, which `thalweg ls` lists (`thalweg report` and `thalweg events` take them all)",
            path.display()
        )
    } else if path.is_dir() {
        format!(
            "{} is a directory, but not a space: it holds no file `space`. `thalweg ls` lists the spaces there are",
            path.display()
        )
    } else if path.exists() {
        format!(
            "{} is a file; a space is a directory. `thalweg ls` lists the spaces there are",
            path.display()
        )
    } else {
        format!("there is no {}: `thalweg ls` lists the spaces there are", path.display())
    })
}

fn named(listed: &[Listed], name: &str) -> Result<PathBuf, Error> {
    let directory = |space: &Listed| space.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let matches = |space: &&Listed| {
        directory(space).as_deref() == Some(name)
            || space.info.as_ref().is_ok_and(|info| info.name == name || info.pid.to_string() == name)
    };
    let mut found: Vec<&Listed> = listed.iter().filter(matches).collect();
    if found.iter().any(|space| space.alive) {
        found.retain(|space| space.alive);
    }
    found.sort_by_key(|space| started(space));
    if let Some(space) = found.last() {
        return Ok(space.path.clone());
    }
    let names: Vec<String> = listed
        .iter()
        .flat_map(|space| {
            directory(space).into_iter().chain(space.info.as_ref().ok().map(|info| info.name.clone()))
        })
        .collect();
    Err(Error::usage(match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("there is no space `{name}`: did you mean `{near}`? `thalweg ls` lists them"),
        None if names.is_empty() => {
            format!("there is no space `{name}`, and none at all: start a run, or give the path of a space")
        }
        None => format!("there is no space `{name}`: `thalweg ls` lists those there are"),
    }))
}

fn newest(listed: &[Listed]) -> Result<PathBuf, Error> {
    let looks_on =
        |space: &Listed| space.info.as_ref().is_ok_and(|info| LOOKING_ON.contains(&info.name.as_str()));
    let runs = listed.iter().filter(|space| space.info.is_ok());
    let newest = runs.max_by_key(|space| (!looks_on(space), started(space)));
    newest.map(|space| space.path.clone()).ok_or_else(|| {
        Error::usage(
            "there is no space: start a run with `thalweg run`, or give the path of a space".to_owned(),
        )
    })
}

/// The time when the process made the space, in nanoseconds since 1970.
pub fn started(space: &Listed) -> u64 {
    space.info.as_ref().map_or(0, |info| info.clock.anchor().real_ns)
}

/// The candidate that differs from the name by a likely typing error, or else one that contains the name.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    thalweg_pack::nearest(name, candidates.clone())
        .or_else(|| candidates.filter(|candidate| name.len() > 2 && candidate.contains(name)).min())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen() {
        let names = ["exec.quantum", "exec.capacity", "monitor.mode"];
        let near = |name| nearest(name, names.into_iter());
        assert_eq!(near("exec.quantun"), Some("exec.quantum"));
        assert_eq!(near("monitor.mod"), Some("monitor.mode"));
        assert_eq!(near("capacity"), Some("exec.capacity"));
        assert_eq!(near("zzz"), None);
    }

    #[test]
    fn a_path_without_a_space_is_reported() {
        let message = |name: &str| match find(Some(name)) {
            Err(error) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(message("/nowhere/at/all").contains("there is no /nowhere/at/all"));
        let directory = env!("CARGO_MANIFEST_DIR");
        assert!(message(directory).contains("not a space"));
        assert!(message(&format!("{directory}/Cargo.toml")).contains("is a file"));
    }
}
