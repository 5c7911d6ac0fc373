//! The events of a run, or of all runs of a session, as they arrive, with the times, names and processes for
//! printing them.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use thalweg_monitor::{Bases, Called, Names, Refers, WholeDispatch};
use thalweg_scope::ScopeFeed;
use thalweg_space::Clock;
use thalweg_space::reader::{Event, Feed, Item, KindInfo, SpaceReader};

use crate::error::Error;
use crate::spaces;

/// The process that the items of a feed come from, for code that prints them.
pub struct Origin {
    /// In a session, the name of the directory of the process's space.
    pub directory: Option<String>,
    /// The process.
    pub pid: u32,
    /// The texts for the numbers of names in the process's events.
    pub names: Names,
    /// The names of the process's tasks and streams.
    called: Called,
    /// The bases of the process's dispatches, and the dispatch that the current event records.
    bases: Bases,
    dispatch: Option<WholeDispatch>,
    /// Whether a requested name was not in `names`.
    missed: Cell<bool>,
    /// The clock of the process's events. Processes on the same machine share a clock, so that events of the
    /// same moment have the same time.
    pub clock: Clock,
    /// The origin of times: the start of the first process, in nanoseconds since 1970.
    begin_ns: u64,
    boot_id: [u8; 16],
}

impl Origin {
    fn of(
        space: &SpaceReader,
        directory: Option<String>,
        first: Option<&Origin>,
    ) -> Result<Origin, thalweg_space::Error> {
        let info = space.info()?;
        let names = thalweg_monitor::names(space)?;
        let mut called = Called::default();
        // A damaged live table does not prevent events from being read.
        let _ = called.look(space);
        let (pid, mut clock, boot_id) = (info.pid, info.clock, info.boot_id);
        let mut begin_ns = clock.anchor().real_ns;
        if let Some(first) = first {
            begin_ns = first.begin_ns;
            if (first.boot_id, first.clock.kind()) == (boot_id, clock.kind()) {
                clock = first.clock;
            }
        }
        let (bases, dispatch, missed) = (Bases::default(), None, Cell::new(false));
        Ok(Origin { directory, pid, names, called, bases, dispatch, missed, clock, begin_ns, boot_id })
    }

    /// The event's time, in seconds from the origin.
    pub fn seconds(&self, ticks: u64) -> f64 {
        self.clock.real_ns(ticks).wrapping_sub(self.begin_ns).cast_signed() as f64 / 1e9
    }

    /// The name of the task, stream or operation that a field of an event refers to; `None` if the field
    /// refers to none of these, or the name is not known.
    pub fn called(&self, event: &Event<'_>, field: &str) -> Option<String> {
        if is_operation(event.kind, field) {
            let site = event.u64(event.kind.field(field)?);
            return self.names.sites.get(&site).map(|site| site.path.clone());
        }
        let refers = Refers::of(event.kind, field)?;
        self.name(refers, event.u64(event.kind.field(field)?))
    }

    /// Whether, in events of the kind `kind`, the field refers to an object that has a name.
    pub fn has_name(&self, kind: &KindInfo, field: &str) -> bool {
        is_operation(kind, field) || Refers::of(kind, field).is_some()
    }

    /// The name of the task or stream with the given number, if the name is known.
    pub fn name(&self, refers: Refers, id: u64) -> Option<String> {
        let name = self.called.name(refers, id, &self.names);
        if name.is_none() && id != 0 {
            self.missed.set(true);
        }
        name
    }

    /// The dispatch that the current event records, if it records one.
    pub fn dispatch(&self) -> Option<&WholeDispatch> {
        self.dispatch.as_ref()
    }

    /// The path of a task's component, if it is known.
    pub fn component(&self, task: u64) -> Option<&str> {
        let site = self.names.sites.get(&self.called.component(task)?)?;
        Some(&site.path)
    }
}

/// Whether the field has the number of an operation with a probe, of a counter or of a gauge: a site of the catalog.
fn is_operation(kind: &KindInfo, field: &str) -> bool {
    kind.name.starts_with("probe.") && matches!(field, "operation" | "counter" | "gauge")
}

/// The events of a run, or of all runs of a session, in the order of time.
///
/// ```no_run
/// use thalweg_host::LiveEvents;
/// use thalweg_space::reader::Item;
///
/// let mut events = LiveEvents::find(None)?;
/// events.look()?;
/// events.poll(100, &mut |_, origin, item| {
///     if let Item::Event(event) = item {
///         println!("{:.6} {} {:?}", origin.seconds(event.time), event.kind.name, origin.called(event, "task"));
///     }
/// })?;
/// # Ok::<(), thalweg_host::Error>(())
/// ```
pub struct LiveEvents {
    feed: ScopeFeed,
    origins: Vec<Origin>,
    /// Whether some process of the session cannot be read.
    is_damaged: bool,
}

impl LiveEvents {
    /// The events of the run or session that the user named, or of the newest run.
    ///
    /// # Errors
    /// If there is no such run or session, or it cannot be read.
    pub fn find(name: Option<&str>) -> Result<LiveEvents, Error> {
        match spaces::session(name)? {
            Some(session) => Ok(LiveEvents::of(ScopeFeed::of_session(session).map_err(Error::usage_of)?)),
            None => LiveEvents::open(&spaces::find(name)?),
        }
    }

    /// The events of the run whose space is the directory `path`.
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub fn open(path: &Path) -> Result<LiveEvents, Error> {
        let mut events = LiveEvents::of(ScopeFeed::of(path).map_err(Error::usage_of)?);
        events.meet()?;
        Ok(events)
    }

    /// Restricts the events to those between two times, counted from the start of the first process. Events
    /// outside the range are not read. This must be called before the first poll.
    ///
    /// # Errors
    /// If a space cannot be read.
    pub fn between(mut self, from: Duration, to: Duration) -> Result<LiveEvents, Error> {
        self.feed = self.feed.between(from, to).map_err(Error::usage_of)?;
        Ok(self)
    }

    fn of(feed: ScopeFeed) -> LiveEvents {
        LiveEvents { feed, origins: Vec::new(), is_damaged: false }
    }

    /// Looks for processes that joined, and reads the names again. This must be called before the first poll,
    /// and again when a poll returns 0.
    ///
    /// # Errors
    /// If a process of a session cannot be read, or a catalog is damaged. The error of a process is returned
    /// once, and the other processes are read nevertheless.
    pub fn look(&mut self) -> Result<(), Error> {
        let found = self.feed.look().map_err(Error::usage_of);
        self.is_damaged |= found.is_err();
        for (origin, space) in self.origins.iter_mut().zip(self.feed.spaces()) {
            origin.names = thalweg_monitor::names(space).map_err(Error::usage_of)?;
            // A missing name may be in the live table by now, because a stream has a row there only from its
            // first message on.
            if origin.missed.take() {
                let _ = origin.called.look(space);
            }
        }
        self.meet()?;
        found
    }

    /// Opens the spaces of the processes that were found.
    fn meet(&mut self) -> Result<(), Error> {
        for space in &self.feed.spaces()[self.origins.len()..] {
            let name =
                || space.path().file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
            let directory = (!self.feed.is_single()).then(name);
            self.origins.push(Origin::of(space, directory, self.origins.first()).map_err(Error::usage_of)?);
        }
        Ok(())
    }

    /// Whether more events may come: a process is running, or none has joined the session yet.
    pub fn may_come(&self) -> bool {
        let spaces = self.feed.spaces();
        spaces.iter().any(SpaceReader::is_alive) || (spaces.is_empty() && !self.is_damaged)
    }

    /// Whether the events are those of a single run that has ended and removed its space. Memory that is
    /// mapped can still be read then, and files cannot.
    pub fn is_gone(&self) -> bool {
        self.feed.is_single() && self.feed.spaces().iter().all(SpaceReader::is_gone)
    }

    /// Passes at most `limit` items to `take`, each with its process and the index of the process; returns
    /// their number. 0 means that there are no more items now.
    ///
    /// # Errors
    /// If files are damaged; all readable items were passed to `take` before.
    pub fn poll(
        &mut self,
        limit: usize,
        take: &mut impl FnMut(usize, &Origin, &Item<'_>),
    ) -> Result<usize, Error> {
        let LiveEvents { feed, origins, .. } = self;
        let taken = feed.poll(limit, &mut |place, item| {
            let Some(origin) = origins.get_mut(place) else { return };
            match &item {
                Item::Event(event) => {
                    origin.called.note(event);
                    origin.dispatch = origin.bases.take(event);
                }
                // An event of an unknown kind cannot be decoded, so it does not change the current dispatch.
                Item::Gap { kind_unknown: true, .. } => {}
                Item::Gap { writer, .. } => origin.bases.forget((*writer).into()),
            }
            take(place, origin, &item);
        });
        taken.map_err(Error::usage_of)
    }
}

impl std::fmt::Debug for LiveEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LiveEvents({} processes)", self.origins.len())
    }
}
