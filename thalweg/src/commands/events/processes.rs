//! Whose events are read: one process's, or those of all in a session, merged by time.

use std::collections::HashMap;
use std::path::Path;

use thalweg_monitor::Names;
use thalweg_space::reader::{EventStream, Item, Member, Session, SessionStream, SpaceReader};
use thalweg_space::{Clock, Error};

/// A process and what its events need to be told.
pub(super) struct Process {
    /// In a session, who it is.
    pub(super) member: Option<Member>,
    pub(super) names: Names,
    /// The clock of its events. Processes that share a machine share one, or their events of the same moment would be told
    /// as of two.
    pub(super) clock: Clock,
    /// From when times are counted: the start of the process of the first event, in nanoseconds since 1970.
    begin_ns: u64,
    boot_id: [u8; 16],
    reader: SpaceReader,
}

impl Process {
    fn open(reader: SpaceReader, member: Option<Member>) -> Result<Process, Error> {
        let info = reader.info()?;
        let names = thalweg_monitor::names(&reader)?;
        let (clock, boot_id) = (info.clock, info.boot_id);
        Ok(Process { member, names, clock, begin_ns: clock.anchor().real_ns, boot_id, reader })
    }

    fn after(mut self, first: Option<&Process>) -> Process {
        if let Some(first) = first {
            self.begin_ns = first.begin_ns;
            if (first.boot_id, first.clock.kind()) == (self.boot_id, self.clock.kind()) {
                self.clock = first.clock;
            }
        }
        self
    }

    /// When that was, counted from the beginning.
    pub(super) fn seconds(&self, ticks: u64) -> f64 {
        self.clock.real_ns(ticks).wrapping_sub(self.begin_ns).cast_signed() as f64 / 1e9
    }
}

/// Processes in the order of their first events, and the stream of what they say.
pub(super) struct Processes {
    known: Vec<Process>,
    events: Events,
}

enum Events {
    OfOne(EventStream),
    /// With the place of each member among those known; none for one that cannot be read.
    OfSession(SessionStream, Session, HashMap<[u8; 16], Option<usize>>),
}

impl Processes {
    pub(super) fn of_space(path: &Path) -> Result<Processes, Error> {
        let process = Process::open(SpaceReader::open(path)?, None)?;
        let events = Events::OfOne(process.reader.events());
        Ok(Processes { known: vec![process], events })
    }

    pub(super) fn of_session(path: &Path) -> Result<Processes, Error> {
        let stream = Session::open(path)?.events();
        let events = Events::OfSession(stream, Session::open(path)?, HashMap::new());
        Ok(Processes { known: Vec::new(), events })
    }

    /// Whether more may come: a process lives, or none has joined the session yet.
    pub(super) fn is_any_alive(&mut self) -> bool {
        match &mut self.events {
            Events::OfOne(_) => self.known[0].reader.is_alive(),
            Events::OfSession(_, session, _) => {
                let may_come =
                    |members: &[Member]| members.is_empty() || members.iter().any(Member::is_alive);
                session.members().is_ok_and(may_come)
            }
        }
    }

    /// Whether the run ended and took its space along: what is mapped can still be read, its files cannot.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.events, Events::OfOne(_)) && self.known[0].reader.is_gone()
    }

    /// Reads anew what names and sites there are.
    pub(super) fn refresh_names(&mut self) -> Result<(), Error> {
        for process in &mut self.known {
            process.names = thalweg_monitor::names(&process.reader)?;
        }
        Ok(())
    }

    /// Hands at most `limit` items to `take`, each with its process and that one's place among all.
    ///
    /// # Errors
    /// As [`EventStream::poll`] and [`SessionStream::poll`].
    pub(super) fn poll(
        &mut self,
        limit: usize,
        take: &mut impl FnMut(usize, &Process, &Item<'_>),
    ) -> Result<usize, Error> {
        let Processes { known, events } = self;
        let (stream, session, places) = match events {
            Events::OfOne(stream) => return stream.poll(limit, &mut |item| take(0, &known[0], &item)),
            Events::OfSession(stream, session, places) => (stream, session, places),
        };
        let mut problem = None;
        let taken = stream.poll(limit, &mut |member, item| {
            let place = places.entry(member.uuid).or_insert_with(|| {
                let opened =
                    session.space(member).and_then(|space| Process::open(space, Some(member.clone())));
                let process = opened.map_err(|error| problem.get_or_insert(error)).ok()?.after(known.first());
                known.push(process);
                Some(known.len() - 1)
            });
            if let Some(place) = *place {
                take(place, &known[place], &item);
            }
        });
        problem.map_or(taken, Err)
    }
}
