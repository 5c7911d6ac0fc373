//! Feeds, which hand over the events of one space, of all spaces of a session, or of another set of spaces.

use super::SpaceReader;
use super::events::{EventStream, Item};
use super::merged::Window;
use super::session::{Session, SessionStream};
use crate::copies::Observer;
use crate::error::Error;
use crate::session::MANIFEST;
use std::path::Path;
use std::time::Duration;

/// Gathers the events of spaces.
///
/// ```
/// use thalweg_space::{Kind, Space, SpaceOptions, reader::{Feed, Item, PathFeed}};
///
/// /// A step was made.
/// #[derive(Kind)]
/// #[kind(name = "example.step")]
/// struct Step {
///     count: u64,
/// }
/// # let parent = std::env::temp_dir().join(format!("thalweg-feed-{}", std::process::id()));
/// let session = parent.join("two of them");
/// for count in 7..9 {
///     let space = Space::create(SpaceOptions { session: Some(session.clone()), ..Default::default() })?;
///     let mut writer = space.writer("main")?;
///     let step = writer.declare::<Step>()?;
///     writer.emit(step, &Step { count });
/// }
/// let mut feed = PathFeed::open(&session)?;
/// let mut counts = Vec::new();
/// feed.poll(usize::MAX, &mut |space, item| {
///     if let Item::Event(event) = item {
///         counts.push((space, event.u64(event.kind.field("count").unwrap())));
///     }
/// })?;
/// assert_eq!((feed.spaces().len(), counts), (2, vec![(0, 7), (1, 8)]));
/// # std::fs::remove_dir_all(parent).unwrap();
/// # Ok::<(), thalweg_space::Error>(())
/// ```
pub trait Feed: Send {
    /// The spaces found so far, in the order in which they joined. Spaces are only ever added at the end.
    fn spaces(&self) -> &[SpaceReader];

    /// Whether the feed has one space and no other can join.
    fn is_single(&self) -> bool;

    /// Looks for spaces that joined since the last call. [`Feed::poll`] also hands over the events of the
    /// spaces that joined.
    ///
    /// # Errors
    /// Fails when a space cannot be read; it is reported once and left out from then on.
    fn look(&mut self) -> Result<(), Error>;

    /// Hands at most `limit` items to `take`, each with the index of its space in [`Feed::spaces`]; returns
    /// their number. 0 means that no items remain now, and fewer than `limit` that all were handed over that were there
    /// when the feed last looked for events; a live process may have written more since. The order is that of
    /// [`EventStream::poll`].
    ///
    /// # Errors
    /// Fails when files are damaged, after everything that could be read was handed over.
    fn poll(&mut self, limit: usize, take: &mut impl FnMut(usize, Item<'_>)) -> Result<usize, Error>;

    /// Restricts the events before `from` to kinds with needed names, and excludes all events after `to`.
    /// Times count from the start of the first process. `focus` must be called before the first poll. A feed
    /// that cannot filter ignores the call and hands over all events.
    ///
    /// # Errors
    /// Fails when a space cannot be read.
    fn focus(&mut self, from: Duration, to: Duration, is_needed: fn(&str) -> bool) -> Result<(), Error> {
        let _ = (from, to, is_needed);
        Ok(())
    }

    /// Passes over the events that were not read, as [`EventStream::leave_out`] does.
    fn leave_out(&mut self);

    /// Whether the space at this index has events after the end that [`Feed::focus`] set.
    fn has_more(&self, space: usize) -> bool {
        let _ = space;
        false
    }

    /// A new feed over the same spaces, from the oldest event that was not overwritten.
    ///
    /// # Errors
    /// Fails when the spaces cannot be read any more.
    fn again(&self) -> Result<Self, Error>
    where
        Self: Sized;
}

/// The events of one space, as a feed.
#[derive(Debug)]
pub struct SpaceFeed {
    reader: [SpaceReader; 1],
    events: EventStream,
    /// Asks for updates if the space is a copy of one of another machine.
    observer: Observer,
}

impl SpaceFeed {
    /// Opens the space in the directory `path`.
    ///
    /// # Errors
    /// Fails as [`SpaceReader::open`] does.
    pub fn open(path: impl AsRef<Path>) -> Result<SpaceFeed, Error> {
        let mut observer = Observer::default();
        observer.look_of_space(path.as_ref());
        let reader = SpaceReader::open(path)?;
        let events = reader.events();
        Ok(SpaceFeed { reader: [reader], events, observer })
    }
}

impl Feed for SpaceFeed {
    fn spaces(&self) -> &[SpaceReader] {
        &self.reader
    }

    fn is_single(&self) -> bool {
        true
    }

    fn look(&mut self) -> Result<(), Error> {
        self.observer.look_of_space(self.reader[0].path());
        Ok(())
    }

    fn poll(&mut self, limit: usize, take: &mut impl FnMut(usize, Item<'_>)) -> Result<usize, Error> {
        self.events.poll(limit, &mut |item| take(0, item))
    }

    fn focus(&mut self, from: Duration, to: Duration, is_needed: fn(&str) -> bool) -> Result<(), Error> {
        let clock = self.reader[0].info()?.clock;
        let window = Window { from, to, whole_blocks: false, is_needed: Some(is_needed) };
        self.events = window.of(self.reader[0].events(), &clock, clock.anchor().real_ns);
        Ok(())
    }

    fn leave_out(&mut self) {
        self.events.leave_out();
    }

    fn has_more(&self, _: usize) -> bool {
        self.events.has_more()
    }

    fn again(&self) -> Result<SpaceFeed, Error> {
        SpaceFeed::open(self.reader[0].path())
    }
}

impl Feed for SessionStream {
    fn spaces(&self) -> &[SpaceReader] {
        self.spaces()
    }

    fn is_single(&self) -> bool {
        false
    }

    fn look(&mut self) -> Result<(), Error> {
        self.find_members()
    }

    fn poll(&mut self, limit: usize, take: &mut impl FnMut(usize, Item<'_>)) -> Result<usize, Error> {
        self.merged().poll(limit, take)
    }

    fn focus(&mut self, from: Duration, to: Duration, is_needed: fn(&str) -> bool) -> Result<(), Error> {
        self.look_through(Window { from, to, whole_blocks: false, is_needed: Some(is_needed) })
    }

    fn leave_out(&mut self) {
        self.merged().leave_out();
    }

    fn has_more(&self, space: usize) -> bool {
        self.has_more_of(space)
    }

    fn again(&self) -> Result<SessionStream, Error> {
        let mut again = Session::open(self.session().path())?.events();
        again.find_members().map(|()| again)
    }
}

/// The events of a directory as a feed: of a space, whose process may have ended, or of a session.
#[derive(Debug)]
pub enum PathFeed {
    /// One space.
    Space(Box<SpaceFeed>),
    /// The spaces of a session, as a feed.
    Session(Box<SessionStream>),
}

impl PathFeed {
    /// Opens the space or session in the directory `path`.
    ///
    /// # Errors
    /// Fails when the directory holds neither a space nor a session, or cannot be read. Unreadable spaces of
    /// a session are left out; if all are unreadable, that is an error.
    pub fn open(path: impl AsRef<Path>) -> Result<PathFeed, Error> {
        if !path.as_ref().join(MANIFEST).is_file() {
            return Ok(PathFeed::Space(Box::new(SpaceFeed::open(path)?)));
        }
        let mut events = Session::open(path)?.events();
        match events.find_members() {
            Err(error) if events.spaces().is_empty() => Err(error),
            _ => Ok(PathFeed::Session(Box::new(events))),
        }
    }
}

impl PathFeed {
    /// Restricts the feed to the events between two times, which count from the start of the first process.
    /// `between` must be called before the first poll. Events outside these times are neither read nor
    /// counted as lost.
    ///
    /// # Errors
    /// Fails when a space cannot be read.
    pub fn between(self, from: Duration, to: Duration) -> Result<PathFeed, Error> {
        self.window(from, to, false)
    }

    /// Restricts the feed as [`PathFeed::between`] does, but includes all events of each writer's first
    /// block, also those older than `from`, because later events may depend on data that an earlier event of
    /// the same block states.
    ///
    /// # Errors
    /// Fails as [`PathFeed::between`] does.
    pub fn between_blocks(self, from: Duration, to: Duration) -> Result<PathFeed, Error> {
        self.window(from, to, true)
    }

    /// The time, in ticks of the clock of the space at this index, before which events of the feed's window
    /// are overwritten; `None` if none are. Known after the first poll.
    pub fn overwritten_until(&self, space: usize) -> Option<u64> {
        match self {
            PathFeed::Space(feed) => feed.events.overwritten_until(),
            PathFeed::Session(feed) => feed.overwritten_until_of(space),
        }
    }

    fn window(self, from: Duration, to: Duration, whole_blocks: bool) -> Result<PathFeed, Error> {
        match self {
            PathFeed::Space(mut feed) => {
                let clock = feed.reader[0].info()?.clock;
                let window = Window { from, to, whole_blocks, is_needed: None };
                feed.events = window.of(feed.reader[0].events(), &clock, clock.anchor().real_ns);
                Ok(PathFeed::Space(feed))
            }
            PathFeed::Session(mut feed) => {
                feed.look_through(Window { from, to, whole_blocks, is_needed: None })?;
                Ok(PathFeed::Session(feed))
            }
        }
    }
}

impl Feed for PathFeed {
    fn spaces(&self) -> &[SpaceReader] {
        match self {
            PathFeed::Space(feed) => feed.spaces(),
            PathFeed::Session(feed) => feed.spaces(),
        }
    }

    fn is_single(&self) -> bool {
        matches!(self, PathFeed::Space(_))
    }

    fn look(&mut self) -> Result<(), Error> {
        match self {
            PathFeed::Space(feed) => feed.look(),
            PathFeed::Session(feed) => feed.look(),
        }
    }

    fn poll(&mut self, limit: usize, take: &mut impl FnMut(usize, Item<'_>)) -> Result<usize, Error> {
        match self {
            PathFeed::Space(feed) => feed.poll(limit, take),
            PathFeed::Session(feed) => Feed::poll(&mut **feed, limit, take),
        }
    }

    fn focus(&mut self, from: Duration, to: Duration, is_needed: fn(&str) -> bool) -> Result<(), Error> {
        match self {
            PathFeed::Space(feed) => feed.focus(from, to, is_needed),
            PathFeed::Session(feed) => feed.focus(from, to, is_needed),
        }
    }

    fn leave_out(&mut self) {
        match self {
            PathFeed::Space(feed) => feed.leave_out(),
            PathFeed::Session(feed) => feed.leave_out(),
        }
    }

    fn has_more(&self, space: usize) -> bool {
        match self {
            PathFeed::Space(feed) => feed.has_more(space),
            PathFeed::Session(feed) => feed.has_more(space),
        }
    }

    fn again(&self) -> Result<PathFeed, Error> {
        match self {
            PathFeed::Space(feed) => Ok(PathFeed::Space(Box::new(feed.again()?))),
            PathFeed::Session(feed) => Ok(PathFeed::Session(Box::new(feed.again()?))),
        }
    }
}
