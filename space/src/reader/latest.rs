//! Reads the latest event of each element (heartbeats) without reading the earlier events.
//!
//! A pool has a line per element with its latest event; the lines are mapped, so reading them takes no system
//! call. The version of a line is odd while the line is written, so a copy between two equal, even versions
//! is complete. The latest event is read from the element's last block if the element has a file of its own,
//! or the event does not fit into the line.

use super::blocks::{Blocks, ElementId, Place, PoolFile};
use super::element::{ElementReader, Found, Next};
use super::events::Event;
use super::info::FLAG_ARCHIVE;
use super::kinds::Catalogs;
use super::numbers::Numbers;
use crate::directory::IDENTITY;
use crate::error::Error;
use crate::file;
use crate::kind::NameRef;
use crate::layout::{PAGE, element, event, identity, latest, pool};
use crate::read_map::ReadMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How often a line is read if a writer writes it during each of these reads.
const TRIES: usize = 64;

/// Reads the latest event of each element of a space. See [`crate::Collector`] for an example.
#[derive(Debug)]
pub struct LatestEvents {
    path: PathBuf,
    /// The space's identity. The counts in the identity show whether elements were added since the last look.
    identity: Option<ReadMap>,
    /// The counts at the last look.
    count: Option<u64>,
    numbers: Numbers,
    pools: Vec<Lines>,
    /// The elements with files of their own.
    singles: Vec<(ElementReader, usize)>,
    catalogs: Catalogs,
}

/// The lines of a pool.
#[derive(Debug)]
struct Lines {
    pool: Arc<PoolFile>,
    catalog: usize,
    map: ReadMap,
    /// The lines in use.
    used: usize,
    /// The names of the writers that were read so far.
    names: Vec<(u32, NameRef)>,
    /// For each element, the writer and the sequence number of the latest event that was read. The line in
    /// the pool may be one event older than the element's last block.
    given: Vec<(u32, u64)>,
}

impl LatestEvents {
    pub(super) fn new(path: PathBuf) -> LatestEvents {
        LatestEvents {
            path,
            identity: None,
            count: None,
            numbers: Numbers::default(),
            pools: Vec::new(),
            singles: Vec::new(),
            catalogs: Catalogs::default(),
        }
    }

    /// Hands the latest event of each element that has one to `take`; returns how many there were.
    ///
    /// # Errors
    /// Fails when files are damaged, after everything that could be read was handed over.
    pub fn look(&mut self, take: &mut impl FnMut(Event<'_>)) -> Result<usize, Error> {
        let mut problem = None;
        if let Err(error) = self.find_elements(&mut problem) {
            problem.get_or_insert(error);
        }
        let mut count = 0;
        for lines in &mut self.pools {
            match lines.look(&mut self.catalogs, take) {
                Ok(found) => count += found,
                Err(error) => drop(problem.get_or_insert(error)),
            }
        }
        for (reader, catalog) in &mut self.singles {
            match latest_of(reader, *catalog, &mut self.catalogs, take) {
                Ok(found) => count += usize::from(found),
                Err(error) => drop(problem.get_or_insert(error)),
            }
        }
        problem.map_or(Ok(count), Err)
    }

    fn find_elements(&mut self, problem: &mut Option<Error>) -> Result<(), Error> {
        let identity = match &self.identity {
            Some(identity) => identity,
            None => {
                let path = self.path.join(IDENTITY);
                let file = file::open_to_read(&path).map_err(|e| Error::io("open", &path, e))?;
                self.identity.insert(ReadMap::of(&file, &path, PAGE)?)
            }
        };
        let count = identity.load(identity::WRITERS);
        let is_archive = identity.load(identity::FLAGS) & FLAG_ARCHIVE != 0;
        identity.check(|| self.path.join(IDENTITY))?;
        // If an archive lies in another directory, its segments show new elements, and the counts do not.
        if self.count == Some(count) && !is_archive {
            return Ok(());
        }
        self.count = Some(count);
        for place in self.numbers.new_ones(&self.path, problem)? {
            if let Err(error) = self.add(&place) {
                problem.get_or_insert(error);
            }
        }
        Ok(())
    }

    fn add(&mut self, place: &Place) -> Result<(), Error> {
        let catalog = self.catalogs.open(&self.path, place.id.file)?;
        match (&place.pool, place.id.slot) {
            (Some(pool), Some(slot)) => {
                let known = self.pools.iter_mut().find(|lines| lines.pool.number == pool.number);
                let lines = match known {
                    Some(lines) => lines,
                    None => {
                        self.pools.push(Lines::new(pool.clone(), catalog)?);
                        self.pools.last_mut().expect("just pushed")
                    }
                };
                lines.used = lines.used.max(slot as usize + 1);
            }
            _ => self.singles.extend(ElementReader::open(place)?.map(|reader| (reader, catalog))),
        }
        Ok(())
    }
}

impl Lines {
    fn new(pool: Arc<PoolFile>, catalog: usize) -> Result<Lines, Error> {
        let bytes = pool::LINES + pool.slots as usize * pool::LINE_BYTES;
        let map = ReadMap::of(&pool.file, &pool.path, bytes)?;
        Ok(Lines { pool, catalog, map, used: 0, names: Vec::new(), given: Vec::new() })
    }

    fn look(&mut self, catalogs: &mut Catalogs, take: &mut impl FnMut(Event<'_>)) -> Result<usize, Error> {
        self.names.resize(self.used, (0, NameRef::NONE));
        self.given.resize(self.used, (0, 0));
        let mut count = 0;
        for slot in 0..self.used {
            count += usize::from(self.look_at(slot, catalogs, take)?);
        }
        self.map.check(|| &*self.pool.path)?;
        Ok(count)
    }

    fn look_at(
        &mut self,
        slot: usize,
        catalogs: &mut Catalogs,
        take: &mut impl FnMut(Event<'_>),
    ) -> Result<bool, Error> {
        let at = pool::LINES + slot * pool::LINE_BYTES;
        let mut words = [0; pool::LINE_BYTES / 8];
        let whole = (0..TRIES).any(|_| self.map.versioned(at, &mut words));
        if whole && words[latest::VERSION / 8] == 0 {
            return Ok(false);
        }
        let mut bytes = [0; pool::LINE_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let line = &bytes[..];
        let first = file::word(line, latest::FIRST);
        let (writer, kind, words) = (first as u32, (first >> 32) as u16, (first >> 48 & 0xfff) as usize);
        let arguments = latest::ARGUMENTS..latest::ARGUMENTS + 8 * words.saturating_sub(1);
        let (given_by, given) = self.given[slot];
        let is_behind = given_by == writer && file::word(line, latest::SEQUENCE) < given;
        if !whole || is_behind || words == 0 || arguments.end > pool::LINE_BYTES || kind < event::KIND_FIRST {
            let mut given = self.given[slot];
            let found = self.read_element(slot, catalogs, &mut |event: Event<'_>| {
                given = (event.writer, event.sequence);
                take(event);
            });
            self.given[slot] = given;
            return found;
        }
        if self.names[slot].0 != writer {
            self.names[slot] = (writer, self.name(slot, writer)?);
        }
        let arguments = &line[arguments];
        let Some(kind) = catalogs.find(self.catalog, kind)?.filter(|kind| kind.fits(arguments)) else {
            return Ok(false);
        };
        take(Event {
            time: file::word(line, latest::TIME),
            writer,
            writer_name: self.names[slot].1,
            thread: 0,
            sequence: file::word(line, latest::SEQUENCE),
            kind,
            flags: (first >> 60) as u8,
            arguments,
        });
        Ok(true)
    }

    /// The name of `writer`, if it still owns the element.
    fn name(&self, slot: usize, writer: u32) -> Result<NameRef, Error> {
        let blocks = Blocks::in_pool(&self.pool, slot as u32)?;
        let name = NameRef(blocks.word(element::OWNER_NAME)?);
        let owner = blocks.word(element::OWNER)? as u32;
        Ok(if owner == writer { name } else { NameRef::NONE })
    }

    fn read_element(
        &self,
        slot: usize,
        catalogs: &mut Catalogs,
        take: &mut impl FnMut(Event<'_>),
    ) -> Result<bool, Error> {
        let id = ElementId { file: self.pool.number, slot: Some(slot as u32) };
        let directory = self.pool.path.parent().expect("opened in a directory").into();
        let place = Place { id, pool: Some(self.pool.clone()), directory, kept: Default::default() };
        let Some(mut reader) = ElementReader::open(&place)? else { return Ok(false) };
        latest_of(&mut reader, self.catalog, catalogs, take)
    }
}

/// Hands over the latest event of one element, from its last blocks.
fn latest_of(
    reader: &mut ElementReader,
    catalog: usize,
    catalogs: &mut Catalogs,
    take: &mut impl FnMut(Event<'_>),
) -> Result<bool, Error> {
    let mut arguments = Vec::new();
    let Some(found) = last_event(reader, &mut arguments)? else { return Ok(false) };
    let Some(kind) = catalogs.find(catalog, found.kind)?.filter(|kind| kind.fits(&arguments)) else {
        return Ok(false);
    };
    take(Event {
        time: found.time,
        writer: found.owner.number,
        writer_name: found.owner.name,
        thread: found.owner.thread,
        sequence: found.sequence,
        kind,
        flags: found.flags,
        arguments: &arguments,
    });
    Ok(true)
}

/// The last event and its arguments. The last blocks may have no event: a new owner has just opened a block,
/// or the blocks hold the end of a long event.
fn last_event(reader: &mut ElementReader, arguments: &mut Vec<u8>) -> Result<Option<Found>, Error> {
    let mut back = 0;
    loop {
        let is_more_before = reader.start_at_last_block(back)?;
        let mut last = None;
        loop {
            match reader.next()? {
                Next::Event(found) => {
                    arguments.clear();
                    arguments.extend_from_slice(reader.arguments(&found));
                    last = Some(found);
                }
                Next::Gap { .. } => {}
                Next::Nothing => break,
            }
        }
        if last.is_some() || !is_more_before {
            return Ok(last);
        }
        back = 2 * back + 1;
    }
}
