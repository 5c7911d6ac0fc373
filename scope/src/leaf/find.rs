//! Finds the processes to read: that of a space, those of a session, or all of the machine.

use crate::error::Error;
use crate::view::Leaf;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_glob::Glob;
use thalweg_space::copies::Observer;
use thalweg_space::discover;
use thalweg_space::reader::{Info, Session};

/// The least time between two listings of directories.
const LIST_PAUSE: Duration = Duration::from_millis(100);

/// The processes that a scope reads; more may join.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The process whose space is this directory.
    Space(PathBuf),
    /// The processes of the session in this directory.
    Session(PathBuf),
    /// All processes whose spaces, or sessions, are in this directory.
    All(PathBuf),
}

impl Target {
    /// The target for a directory that holds a space or a session.
    pub fn of(path: impl AsRef<Path>) -> Target {
        let path = path.as_ref().to_path_buf();
        if path.join("session").is_file() { Target::Session(path) } else { Target::Space(path) }
    }
}

/// A process that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// The session's name; empty if there is none.
    pub(crate) session: String,
}

/// Looks for processes.
#[derive(Debug)]
pub(crate) struct Finder {
    target: Target,
    session: Option<Session>,
    /// The number of members that were returned so far.
    members: usize,
    known: HashSet<PathBuf>,
    listed: Option<Instant>,
    /// Asks for copies of the spaces of other machines.
    observer: Observer,
}

impl Finder {
    pub(crate) fn new(target: Target) -> Finder {
        Finder {
            target,
            session: None,
            members: 0,
            known: HashSet::new(),
            listed: None,
            observer: Observer::default(),
        }
    }

    /// Returns the processes that joined since the last look.
    pub(crate) fn look(&mut self) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        match &self.target {
            Target::Space(path) => {
                self.observer.look_of_space(path);
                if self.members == 0 {
                    self.members = 1;
                    found.push(Found { path: path.clone(), session: String::new() });
                }
            }
            Target::Session(path) => {
                self.observer.look(path);
                let session = match &mut self.session {
                    Some(session) => session,
                    none => none.insert(Session::open(path)?),
                };
                let members = session.members()?;
                for member in &members[self.members.min(members.len())..] {
                    // The manifest is not trusted: a directory is accepted only if it lies in the session's
                    // directory.
                    if member.directory.contains('/') || matches!(member.directory.as_str(), "" | "." | "..")
                    {
                        let what = format!(
                            "{} is damaged: it names the space `{}`",
                            path.display(),
                            member.directory
                        );
                        self.members += 1;
                        return Err(Error::new(what));
                    }
                    found.push(Found { path: path.join(&member.directory), session: name_of(path) });
                }
                self.members = members.len();
            }
            Target::All(parent) => {
                if self.listed.is_some_and(|listed| listed.elapsed() < LIST_PAUSE) {
                    return Ok(found);
                }
                self.listed = Some(Instant::now());
                let listed = discover::list(parent)?;
                self.known.retain(|known| listed.iter().any(|space| space.path == *known));
                for space in listed.into_iter().filter(|space| space.alive && space.info.is_ok()) {
                    if self.known.insert(space.path.clone()) {
                        let session = space.session.as_deref().map_or(String::new(), name_of);
                        found.push(Found { path: space.path, session });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Whether other processes may join.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.target, Target::Space(_))
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

impl Leaf {
    /// Whether the leaf may select elements of this process.
    pub(crate) fn wants(&self, info: &Info, session: &str) -> bool {
        let fits = |pattern: &Option<String>, name: &str| {
            pattern.as_ref().is_none_or(|pattern| Glob::new(pattern).matches(name))
        };
        let is_pid = self.process.as_ref().is_some_and(|pattern| *pattern == info.pid.to_string());
        (is_pid || fits(&self.process, &info.name))
            && fits(&self.host, &info.host)
            && fits(&self.session, session)
    }
}
