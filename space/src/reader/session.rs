//! The reader of sessions: the processes that joined, and their events.

use super::events::Item;
use super::info::Info;
use super::merged::{Merged, Window};
use super::space::SpaceReader;
use crate::catalog::{CatalogReader, Joined, Record};
use crate::copies::Observer;
use crate::error::Error;
use crate::session::MANIFEST;
use std::path::{Path, PathBuf};

/// A process of a session, as the manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The UUID of the process's space. A space's UUID, a writer's number and a sequence number together
    /// identify an event globally.
    pub uuid: [u8; 16],
    /// The name of the process's space.
    pub name: String,
    /// The directory of the process's space, below the session's directory.
    pub directory: String,
    /// The process id.
    pub pid: u32,
    /// When the process started, in clock ticks since boot.
    pub process_start: u64,
    /// The parent process, which started this one.
    pub parent_pid: u32,
    /// When the parent process started, in clock ticks since boot; 0 if that is not known.
    pub parent_start: u64,
    /// The machine's name.
    pub host: String,
    /// The machine's boot.
    pub boot_id: [u8; 16],
    /// The processor's architecture.
    pub architecture: String,
    /// When the process joined, in nanoseconds since 1970.
    pub joined_ns: u64,
    /// When the process left, in nanoseconds since 1970; none while the process runs, or if it was killed.
    pub left_ns: Option<u64>,
}

impl Member {
    fn new(joined: Joined) -> Member {
        Member {
            uuid: joined.uuid,
            name: joined.name,
            directory: joined.directory,
            pid: joined.pid,
            process_start: joined.process_start,
            parent_pid: joined.parent_pid,
            parent_start: joined.parent_start,
            host: joined.host,
            boot_id: joined.boot_id,
            architecture: joined.architecture,
            joined_ns: joined.time_ns,
            left_ns: None,
        }
    }

    /// Whether the process still runs on this machine.
    pub fn is_alive(&self) -> bool {
        crate::process::is_alive_here(self.boot_id, self.pid, self.process_start)
    }
}

/// A session, read from outside: the spaces of several processes in one directory, with a manifest that
/// records which processes joined and left.
///
/// A process joins a session when it makes its space in the session's directory, which
/// [`crate::SpaceOptions::session`] names, or the variable `$THALWEG_SESSION`, which child processes inherit.
/// The first process that joins makes the session. A process that was killed has an entry for joining and
/// none for leaving.
///
/// ```
/// use thalweg_space::{Kind, Space, SpaceOptions, reader::{Item, Session}};
///
/// /// A step was made.
/// #[derive(Kind)]
/// #[kind(name = "example.step")]
/// struct Step {
///     count: u64,
/// }
/// # let parent = std::env::temp_dir().join(format!("thalweg-session-{}", std::process::id()));
/// let directory = parent.join("all of them");
/// // Usually each in a process of its own, with THALWEG_SESSION in its environment.
/// for count in 0..3 {
///     let options = SpaceOptions { session: Some(directory.clone()), ..Default::default() };
///     let space = Space::create(options)?;
///     let mut writer = space.writer("main")?;
///     let step = writer.declare::<Step>()?;
///     writer.emit(step, &Step { count });
///     space.finish();
/// }
/// let mut session = Session::open(&directory)?;
/// assert!(session.members()?.iter().all(|member| member.left_ns.is_some()));
/// let mut counts = Vec::new();
/// session.events().poll(usize::MAX, &mut |member, item| {
///     if let Item::Event(event) = item {
///         counts.push((member.pid, event.u64(event.kind.field("count").unwrap())));
///     }
/// })?;
/// assert_eq!(counts, [0, 1, 2].map(|count| (std::process::id(), count)));
/// # std::fs::remove_dir_all(parent).unwrap();
/// # Ok::<(), thalweg_space::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    path: PathBuf,
    manifest: CatalogReader,
    members: Vec<Member>,
}

impl Session {
    /// Opens the session in the directory `path`.
    ///
    /// # Errors
    /// Fails when there is no session, or its manifest is damaged or was made by a later version.
    pub fn open(path: impl AsRef<Path>) -> Result<Session, Error> {
        let path = path.as_ref().to_path_buf();
        let manifest = CatalogReader::open(&path.join(MANIFEST))?;
        let mut session = Session { path, manifest, members: Vec::new() };
        session.members()?;
        Ok(session)
    }

    /// The session's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The processes that joined so far, in the order of their joining.
    ///
    /// # Errors
    /// Fails when the manifest is damaged.
    pub fn members(&mut self) -> Result<&[Member], Error> {
        let members = &mut self.members;
        self.manifest.read_new(&mut |record| match record {
            Record::Joined(joined) => members.push(Member::new(joined)),
            Record::Left { uuid, time_ns } => {
                for member in members.iter_mut().filter(|member| member.uuid == uuid) {
                    member.left_ns = Some(time_ns);
                }
            }
            _ => {}
        })?;
        Ok(members)
    }

    /// The space of a process.
    ///
    /// # Errors
    /// Fails as [`SpaceReader::open`] does, and when the directory holds another space.
    pub fn space(&self, member: &Member) -> Result<SpaceReader, Error> {
        open_space(&self.path, member).map(|(space, _)| space)
    }

    /// The events of all processes, also of those that join later, beginning with the oldest that was not
    /// overwritten.
    pub fn events(self) -> SessionStream {
        let (merged, places) = (Merged::default(), Vec::new());
        SessionStream { session: self, opened: 0, merged, places, observer: Observer::default() }
    }
}

fn open_space(path: &Path, member: &Member) -> Result<(SpaceReader, Info), Error> {
    // The manifest is not trusted: a directory is accepted only if it lies in the session's directory.
    if member.directory.contains('/') || matches!(member.directory.as_str(), "" | "." | "..") {
        return Err(Error::new(format!(
            "{} is damaged: it names the space `{}`",
            path.join(MANIFEST).display(),
            member.directory
        )));
    }
    let space = SpaceReader::open(path.join(&member.directory))?;
    let info = space.info()?;
    if info.uuid != member.uuid {
        return Err(Error::new(format!(
            "{} is another space than the one that joined",
            space.path().display()
        )));
    }
    Ok((space, info))
}

/// The events of all processes of a session, merged by time, as [`Merged`] does.
#[derive(Debug)]
pub struct SessionStream {
    session: Session,
    /// For how many of the members the space was looked for.
    opened: usize,
    merged: Merged,
    /// The index of the member to which each space belongs.
    places: Vec<usize>,
    /// Asks for copies of the spaces of other machines.
    observer: Observer,
}

impl SessionStream {
    /// Hands at most `limit` items to `take`, each with its process; returns their number. 0 means that no
    /// items remain now. The order is that of [`EventStream::poll`](super::EventStream::poll).
    ///
    /// # Errors
    /// Fails when files are damaged, after everything that could be read was handed over. A process whose
    /// space is gone or cannot be read is reported once and left out from then on.
    pub fn poll(&mut self, limit: usize, take: &mut impl FnMut(&Member, Item<'_>)) -> Result<usize, Error> {
        let found = self.find_members();
        let (members, places) = (&self.session.members, &self.places);
        let taken = self.merged.poll(limit, &mut |space, item| take(&members[places[space]], item));
        found.and(taken)
    }

    /// The spaces found so far, and their events.
    pub(super) fn merged(&mut self) -> &mut Merged {
        &mut self.merged
    }

    /// Restricts the stream to the events in `window`. `look_through` must be called before the first poll.
    pub(super) fn look_through(&mut self, window: Window) -> Result<(), Error> {
        self.merged.look_through(window)
    }

    /// The spaces found so far.
    pub(super) fn spaces(&self) -> &[SpaceReader] {
        self.merged.spaces()
    }

    /// Whether the space at the index `space` has events after the window.
    pub(super) fn has_more_of(&self, space: usize) -> bool {
        self.merged.has_more(space)
    }

    /// As [`Merged::overwritten_until`].
    pub(super) fn overwritten_until_of(&self, space: usize) -> Option<u64> {
        self.merged.overwritten_until(space)
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Opens the spaces of the members that joined since the last call.
    pub(super) fn find_members(&mut self) -> Result<(), Error> {
        self.observer.look(&self.session.path);
        self.session.members()?;
        let mut problem = None;
        while self.opened < self.session.members.len() {
            let member = self.opened;
            self.opened += 1;
            let opened = open_space(&self.session.path, &self.session.members[member]);
            match opened.and_then(|(space, _)| self.merged.add(space)) {
                Ok(()) => self.places.push(member),
                Err(error) => drop(problem.get_or_insert(error)),
            }
        }
        problem.map_or(Ok(()), Err)
    }
}
