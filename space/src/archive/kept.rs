//! The reader of an archive: opens its segments, and returns the blocks of each element from their chunks.

use super::chunk::{Decoder, Extent};
use super::segment::{ChunkInfo, Contents, KeptHeader, LIST, List, STATE, SegmentReader, What};
use crate::directory::IDENTITY;
use crate::error::Error;
use crate::file::{self, word};
use crate::layout::{block, element, identity};
use crate::reader::ElementId;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of decoded chunks that are held.
const HELD_BYTES_MAX: usize = 256 << 20;

/// The archive in a directory.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The path of the list of segments, for messages.
    pub(crate) path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    list: List,
    /// How many segments were removed, and their events.
    removed: (u64, u64),
    directory: PathBuf,
    uuid: [u8; 16],
    segments: BTreeMap<u64, SegmentReader>,
    elements: BTreeMap<ElementId, KeptElement>,
    /// The chunk of each element that was decoded last: its index in the element, and its bytes.
    held: HashMap<ElementId, (usize, Vec<u8>)>,
    held_bytes: usize,
    decoder: Decoder,
    coded: Vec<u8>,
}

/// The archived chunks of an element.
#[derive(Debug)]
struct KeptElement {
    header: KeptHeader,
    state: [u64; STATE.len()],
    chunks: Vec<KeptChunk>,
}

/// The place of a chunk, and the positions that it holds.
#[derive(Clone, Copy, Debug)]
struct KeptChunk {
    segment: u64,
    at: u64,
    from: u64,
    to: u64,
    base: u64,
    sequence: u64,
}

impl KeptChunk {
    /// The number of the first block that begins in the chunk.
    fn first_block(&self, block_bytes: u64) -> Option<u64> {
        let first = self.from.div_ceil(block_bytes);
        (first * block_bytes + block::HEADER as u64 <= self.to).then_some(first)
    }
}

/// The counts and sizes of the segments and events of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveInfo {
    /// The number of segments.
    pub segments: u64,
    /// The bytes of the segments.
    pub bytes: u64,
    /// The bytes that the archived events take in elements.
    pub event_bytes: u64,
    /// Events.
    pub events: u64,
    /// The time of the first and the last event, in ticks of the space's clock.
    pub ticks: Option<(u64, u64)>,
    /// The number of segments that were removed, because they were too old or the archive too large, and of
    /// their events.
    pub removed: (u64, u64),
}

impl Kept {
    /// Opens the archive in `directory`; none if there is none.
    pub(crate) fn open(directory: &Path) -> Result<Option<Arc<Kept>>, Error> {
        let Some(list) = List::open(directory)? else { return Ok(None) };
        let failed = |e| Error::io("make a decompressor for", directory, e);
        let state = State {
            list,
            removed: (0, 0),
            directory: directory.to_path_buf(),
            uuid: uuid_of(directory)?,
            segments: BTreeMap::new(),
            elements: BTreeMap::new(),
            held: HashMap::new(),
            held_bytes: 0,
            decoder: Decoder::new().map_err(failed)?,
            coded: Vec::new(),
        };
        let kept = Kept { path: directory.join(LIST), state: Mutex::new(state) };
        Ok(Some(Arc::new(kept)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for segments that were added since the last call. A segment that cannot be read is reported as
    /// an error once.
    pub(crate) fn look(&self) -> Result<(), Error> {
        self.state().look()
    }

    /// The elements with archived events.
    pub(crate) fn elements(&self) -> Vec<ElementId> {
        self.state().elements.keys().copied().collect()
    }

    /// The header of an element, in the form of an archive of blocks.
    pub(crate) fn header(&self, id: ElementId) -> Option<Box<[u8; element::HEADER]>> {
        let state = self.state();
        state.elements.get(&id).map(|element| element.header.header.clone())
    }

    /// A word of an element's header at the end of the archive.
    pub(crate) fn word(&self, id: ElementId, at: usize) -> u64 {
        let state = self.state();
        let Some(element) = state.elements.get(&id) else { return 0 };
        if at == element::HEAD {
            return element.chunks.last().map_or(0, |chunk| chunk.to);
        }
        // A gap at the beginning counts as removed only if segments were removed; otherwise its events are
        // lost.
        let removed = element.removed().filter(|_| state.removed.0 > 0);
        match (STATE.iter().position(|word| *word == at), removed) {
            (_, Some((position, _))) if at == element::DISCARDED => position.max(element.state[6]),
            (_, Some((position, sequence))) if at == element::DISCARDED_SEQUENCE => {
                if position > element.state[6] { sequence } else { element.state[7] }
            }
            (Some(place), _) => element.state[place],
            (None, _) => word(&element.header.header[..], at),
        }
    }

    /// Copies up to `bytes` bytes of block `number` from its beginning, as many as are archived; `false` if
    /// its beginning is not.
    pub(crate) fn copy(
        &self,
        id: ElementId,
        number: u64,
        bytes: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        buffer.clear();
        let mut guard = self.state();
        let State { directory, elements, held, held_bytes, decoder, coded, .. } = &mut *guard;
        let Some(element) = elements.get(&id) else { return Ok(false) };
        let block_bytes = element.block_bytes();
        let (start, end) = (number * block_bytes, number * block_bytes + bytes as u64);
        let mut at = start;
        let mut index = element.chunks.partition_point(|chunk| chunk.to <= start);
        while let Some(chunk) = element.chunks.get(index).filter(|chunk| chunk.from <= at && at < end) {
            if held.get(&id).is_none_or(|(held, _)| *held != index) {
                let mut decoded = held.remove(&id).map_or_else(Vec::new, |(_, bytes)| bytes);
                *held_bytes -= decoded.capacity().min(*held_bytes);
                if !chunk.decode(directory, block_bytes, decoder, coded, &mut decoded)? {
                    break;
                }
                *held_bytes += decoded.capacity();
                if *held_bytes > HELD_BYTES_MAX {
                    held.clear();
                    *held_bytes = decoded.capacity();
                }
                held.insert(id, (index, decoded));
            }
            let decoded = &held[&id].1;
            let to = end.min(chunk.to);
            buffer.extend_from_slice(&decoded[(at - chunk.from) as usize..(to - chunk.from) as usize]);
            at = to;
            index += 1;
        }
        Ok(buffer.len() >= block::HEADER.min(bytes))
    }

    /// The first block from `number` on, before `end`, whose beginning is archived; `end` if there is none.
    pub(crate) fn next_written(&self, id: ElementId, number: u64, end: u64) -> u64 {
        let state = self.state();
        let Some(element) = state.elements.get(&id) else { return end };
        let block_bytes = element.block_bytes();
        let from = element.chunks.partition_point(|chunk| chunk.to <= number.saturating_mul(block_bytes));
        let blocks = element.chunks[from..].iter().find_map(|chunk| chunk.first_block(block_bytes));
        // The block may begin within a chunk, after other blocks.
        let within =
            element.chunks.get(from).filter(|chunk| chunk.from <= number * block_bytes).map(|_| number);
        within.or(blocks).map_or(end, |block| block.max(number).min(end))
    }

    /// Bounds the search for the last block with a base and first sequence number for which `is_before`
    /// holds. The block to be found is the first returned one or a later one, and precedes the second
    /// returned one; if the second is `None`, there is no upper bound.
    pub(crate) fn narrowed(
        &self,
        id: ElementId,
        is_before: impl Fn(u64, u64) -> bool,
    ) -> Option<(u64, Option<u64>)> {
        let state = self.state();
        let element = state.elements.get(&id)?;
        let block_bytes = element.block_bytes();
        let begun =
            || element.chunks.iter().filter_map(|chunk| Some((chunk.first_block(block_bytes)?, chunk)));
        let before = begun().take_while(|(_, chunk)| is_before(chunk.base, chunk.sequence)).last()?.0;
        let after = begun().map(|(block, _)| block).find(|block| *block > before);
        Some((before, after))
    }

    /// Finds chunks that can be skipped. Chunks can be skipped if they begin at the given position (the
    /// beginning of a block), end before the limit, have only events of kinds that are left out, and no other
    /// writer takes the element over in them. Returns the position after the skipped chunks, where a block
    /// begins, and how many events they have; `None` if the first chunk cannot be skipped.
    pub(crate) fn passed(
        &self,
        id: ElementId,
        (position, limit): (u64, u64),
        is_left_out: impl Fn(u16) -> bool,
    ) -> Option<(u64, u64)> {
        let state = self.state();
        let element = state.elements.get(&id)?;
        let block_bytes = element.block_bytes();
        if !position.is_multiple_of(block_bytes) {
            return None;
        }
        let (mut at, mut events, mut passed) = (position, 0, None);
        let first = element.chunks.partition_point(|chunk| chunk.from < position);
        for (n, chunk) in element.chunks.iter().enumerate().skip(first) {
            // The last chunk is not skipped, because no later chunk would show which events it lacks.
            let is_last = n + 1 == element.chunks.len();
            let info = state.segments.get(&chunk.segment).and_then(|segment| segment.chunk(chunk.at))?;
            let is_of_use = info.kinds.iter().any(|(kind, count)| *count > 0 && !is_left_out(*kind));
            if is_last || chunk.from != at || chunk.to > limit || is_of_use || !info.owners.is_empty() {
                break;
            }
            (at, events) = (chunk.to, events + info.events());
            if at.is_multiple_of(block_bytes) {
                passed = Some((at, events));
            }
        }
        passed
    }

    /// The size of the archive in figures.
    pub(crate) fn info(&self) -> ArchiveInfo {
        let state = self.state();
        let mut info = ArchiveInfo { removed: state.removed, ..ArchiveInfo::default() };
        for segment in state.segments.values() {
            info.segments += 1;
            info.bytes += segment.contents.end;
            for (_, _, chunk) in &segment.contents.chunks {
                info.events += chunk.events();
                info.event_bytes += chunk.to - chunk.from;
                if chunk.times.0 <= chunk.times.1 {
                    let (first, last) = info.ticks.unwrap_or(chunk.times);
                    info.ticks = Some((first.min(chunk.times.0), last.max(chunk.times.1)));
                }
            }
        }
        info
    }
}

impl KeptElement {
    fn block_bytes(&self) -> u64 {
        word(&self.header.header[..], element::BLOCKS) & 0xffff_ffff
    }

    /// Position and sequence number before which everything was removed; `None` if nothing was removed.
    fn removed(&self) -> Option<(u64, u64)> {
        let first = self.chunks.first()?;
        if first.from <= self.header.first.0 {
            return None;
        }
        let block_bytes = self.block_bytes();
        let first = self.chunks.iter().find(|chunk| chunk.first_block(block_bytes).is_some())?;
        Some((first.first_block(block_bytes)? * block_bytes, first.sequence))
    }

    /// Adds a chunk of this element. Chunks come in the order of their positions; one that does not has
    /// damaged positions and is ignored.
    fn take(&mut self, segment: u64, at: u64, chunk: &ChunkInfo) {
        self.state = chunk.state;
        if chunk.from == chunk.to || self.chunks.last().is_some_and(|last| chunk.from < last.to) {
            return;
        }
        let ChunkInfo { from, to, first_block: (base, sequence), .. } = *chunk;
        self.chunks.push(KeptChunk { segment, at, from, to, base, sequence });
    }
}

impl KeptChunk {
    /// Reads and decodes a chunk; `false` if the chunk was removed.
    fn decode(
        &self,
        directory: &Path,
        block_bytes: u64,
        decoder: &mut Decoder,
        coded: &mut Vec<u8>,
        bytes: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let path = super::segment::path(directory, self.segment);
        let Some(from) = SegmentReader::coded(&path, self.at, coded)? else { return Ok(false) };
        let extent = Extent { from: self.from, to: self.to, block_bytes };
        match decoder.decode(&coded[from..], extent, bytes) {
            Ok(()) => Ok(true),
            Err(_) => Err(Error::new(format!(
                "{} is damaged at byte {}: a chunk of events does not decode",
                path.display(),
                self.at
            ))),
        }
    }
}

impl State {
    fn look(&mut self) -> Result<(), Error> {
        let mut problem = None;
        match self.list.look() {
            Ok(listed) => {
                for one in listed {
                    if one.what == What::Removed {
                        self.segments.remove(&one.number);
                        self.removed = (self.removed.0 + 1, self.removed.1 + one.events);
                    } else if !self.segments.contains_key(&one.number) {
                        match SegmentReader::open(&self.directory, one.number, self.uuid) {
                            Ok(segment) => self.segments.extend(segment.map(|segment| (one.number, segment))),
                            Err(error) => drop(problem.get_or_insert(error)),
                        }
                    }
                }
            }
            Err(error) => problem = Some(error),
        }
        // All segments but the last ones are finished, so they have no new chunks.
        for segment in self.segments.values_mut().filter(|segment| !segment.contents.finished) {
            let (known, headers) = (segment.contents.chunks.len(), segment.contents.headers.len());
            if let Err(error) = segment.look() {
                problem.get_or_insert(error);
            }
            let Contents { headers: all, chunks, .. } = &segment.contents;
            for header in &all[headers..] {
                let new =
                    || KeptElement { header: header.clone(), state: [0; STATE.len()], chunks: Vec::new() };
                self.elements.entry(header.id).or_insert_with(new);
            }
            for (at, _, chunk) in &chunks[known..] {
                if let Some(element) = self.elements.get_mut(&chunk.id) {
                    element.take(segment.number, *at, chunk);
                }
            }
        }
        problem.map_or(Ok(()), Err)
    }
}

/// The size of the archive in the directory of a space; `None` if there is no archive.
///
/// # Errors
/// When a file of the archive is damaged.
pub fn of(directory: impl AsRef<Path>) -> Result<Option<ArchiveInfo>, Error> {
    let Some(kept) = Kept::open(directory.as_ref())? else { return Ok(None) };
    kept.look()?;
    Ok(Some(kept.info()))
}

/// The UUID of the space in `directory`.
pub(super) fn uuid_of(directory: &Path) -> Result<[u8; 16], Error> {
    let path = directory.join(IDENTITY);
    let file = file::open_to_read(&path).map_err(|e| Error::io("open", &path, e))?;
    let mut uuid = [0; 16];
    file::read_exact_at(&file, &path, &mut uuid, identity::UUID as u64)?;
    Ok(uuid)
}
