//! The writer of an archive: it appends chunks to the open segment, finishes a full segment with its index,
//! and removes old segments.

use super::ArchiveOptions;
use super::chunk::{Divisions, Encoder, Extent};
use super::kept::uuid_of;
use super::segment::{
    ChunkInfo, KeptHeader, List, Listed, STATE, SegmentReader, SegmentWriter, What, Words, path,
};
use crate::error::Error;
use crate::file::word;
use crate::layout::block;
use crate::reader::ElementId;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A segment that was finished.
#[derive(Clone, Copy, Debug)]
struct Finished {
    number: u64,
    bytes: u64,
    events: u64,
    /// When the segment was finished, in nanoseconds since 1970.
    real_ns: u64,
}

/// Writes an archive.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    uuid: [u8; 16],
    options: ArchiveOptions,
    encoder: Encoder,
    segment: Option<SegmentWriter>,
    /// The number of events in the open segment.
    events: u64,
    next_number: u64,
    finished: Vec<Finished>,
    /// The header of each element that an earlier recorder archived, and the position up to which the element
    /// is archived.
    before: BTreeMap<ElementId, (KeptHeader, u64)>,
    payload: Words,
    coded: Vec<u8>,
    /// Whether something was written since the last sync.
    is_dirty: bool,
}

/// A piece of an element that is to be archived.
pub(super) struct Piece<'a> {
    pub(super) header: &'a KeptHeader,
    pub(super) extent: Extent,
    pub(super) bytes: &'a [u8],
    pub(super) state: [u64; STATE.len()],
    /// The base of event times where the piece begins.
    pub(super) base: u64,
}

impl Store {
    /// Opens the archive in `directory`, which has the identity of a space, for writing.
    pub(super) fn open(directory: PathBuf, options: ArchiveOptions) -> Result<Store, Error> {
        let uuid = uuid_of(&directory)?;
        let encoder =
            Encoder::new(options.level).map_err(|e| Error::io("make a compressor for", &directory, e))?;
        let mut store = Store {
            directory,
            uuid,
            options,
            encoder,
            segment: None,
            events: 0,
            next_number: 1,
            finished: Vec::new(),
            before: BTreeMap::new(),
            payload: Words::default(),
            coded: Vec::new(),
            is_dirty: false,
        };
        store.find_former()?;
        Ok(store)
    }

    /// Reads the segments of earlier recorders. The open segment of a killed recorder is finished.
    fn find_former(&mut self) -> Result<(), Error> {
        let Some(mut list) = List::open(&self.directory)? else { return Ok(()) };
        let mut last = BTreeMap::new();
        for listed in list.look()? {
            last.insert(listed.number, listed);
        }
        for (number, listed) in last {
            self.next_number = number + 1;
            if listed.what == What::Removed {
                continue;
            }
            let Some(mut segment) = SegmentReader::open(&self.directory, number, self.uuid)? else {
                continue;
            };
            segment.look()?;
            for header in &segment.contents.headers {
                self.before.entry(header.id).or_insert_with(|| (header.clone(), 0));
            }
            let mut events = 0;
            for (_, _, chunk) in &segment.contents.chunks {
                events += chunk.events();
                if let Some((_, to)) = self.before.get_mut(&chunk.id) {
                    *to = (*to).max(chunk.to);
                }
            }
            let (bytes, real_ns) = (segment.contents.end, listed.real_ns);
            if segment.contents.finished {
                self.finished.push(Finished { number, bytes, events, real_ns });
            } else {
                self.segment = Some(SegmentWriter::go_on(segment)?);
                self.events = events;
                self.roll()?;
            }
        }
        Ok(())
    }

    /// The header of an element that an earlier recorder archived, and the position up to which the element
    /// is archived.
    pub(super) fn before(&self, id: ElementId) -> Option<(KeptHeader, u64)> {
        self.before.get(&id).cloned()
    }

    /// The size of all segments in bytes, including the open one.
    pub(super) fn bytes(&self) -> u64 {
        let open = self.segment.as_ref().map_or(0, |segment| segment.bytes);
        open + self.finished.iter().map(|segment| segment.bytes).sum::<u64>()
    }

    /// Archives a piece, and returns how many events it has. If that fails, nothing of the piece is in the
    /// archive, and the caller can pass the same piece again.
    pub(super) fn keep(&mut self, piece: &Piece<'_>, divisions: Divisions<'_>) -> Result<u64, Error> {
        let Piece { header, extent, bytes, state, base } = *piece;
        self.coded.clear();
        let contents = self.encoder.encode(bytes, extent, base, divisions, &mut self.coded);
        let first = (extent.from.next_multiple_of(extent.block_bytes) - extent.from) as usize;
        let first_block = match bytes.get(first..first + block::HEADER) {
            Some(block) => (word(block, block::BASE), word(block, block::SEQUENCE)),
            None => (0, 0),
        };
        let chunk = ChunkInfo {
            id: header.id,
            from: extent.from,
            to: extent.to,
            times: contents.times.unwrap_or((u64::MAX, 0)),
            first_block,
            state,
            kinds: contents.kinds,
            owners: contents.owners,
        };
        self.payload.0.clear();
        self.payload.chunk(&chunk);
        self.payload.0.extend_from_slice(&self.coded);
        let events = chunk.events();
        let payload = std::mem::take(&mut self.payload);
        let kept = self.append(header, chunk, &payload.0);
        self.payload = payload;
        kept?;
        self.events += events;
        self.is_dirty = true;
        if self.segment.as_ref().is_some_and(|segment| segment.bytes >= self.options.segment_bytes) {
            // The error is ignored: the chunks are in the file even if the disk is too full for the index,
            // and the start of the next segment tries again.
            let _ = self.roll();
        }
        Ok(events)
    }

    fn append(&mut self, header: &KeptHeader, chunk: ChunkInfo, payload: &[u8]) -> Result<(), Error> {
        if self.segment.as_ref().is_some_and(|segment| segment.bytes >= self.options.segment_bytes) {
            self.roll()?;
        }
        let segment = match &mut self.segment {
            Some(segment) => segment,
            none => {
                let segment = SegmentWriter::create(&self.directory, self.next_number, self.uuid)?;
                self.next_number += 1;
                let number = segment.number;
                let listed = Listed { what: What::Begun, number, bytes: 0, events: 0, real_ns: now_ns() };
                if let Err(error) = List::append(&self.directory, &listed) {
                    let _ = std::fs::remove_file(path(&self.directory, number));
                    self.next_number = number;
                    return Err(error);
                }
                none.insert(segment)
            }
        };
        segment.header(header)?;
        segment.chunk(chunk, payload)
    }

    /// Finishes the open segment.
    fn roll(&mut self) -> Result<(), Error> {
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.finish()?;
        let (number, bytes, events) = (segment.number, segment.bytes, self.events);
        let finished = Finished { number, bytes, events, real_ns: now_ns() };
        let listed = Listed { what: What::Finished, number, bytes, events, real_ns: finished.real_ns };
        (self.segment, self.events) = (None, 0);
        self.finished.push(finished);
        List::append(&self.directory, &listed)?;
        self.retain()
    }

    /// Removes the oldest segment as long as the archive is too large or the segment is too old.
    pub(super) fn retain(&mut self) -> Result<(), Error> {
        let too_old = |finished: &Finished, age: Duration| {
            u128::from(now_ns().saturating_sub(finished.real_ns)) > age.as_nanos()
        };
        while let Some(oldest) = self.finished.first().copied() {
            let is_too_much = self.options.bytes_max.is_some_and(|max| self.bytes() > max);
            if !is_too_much && !self.options.age_max.is_some_and(|age| too_old(&oldest, age)) {
                break;
            }
            let Finished { number, bytes, events, .. } = oldest;
            let listed = Listed { what: What::Removed, number, bytes, events, real_ns: now_ns() };
            // The removal is listed before it is done, so a reader that misses the segment knows why.
            List::append(&self.directory, &listed)?;
            let path = path(&self.directory, number);
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path, e));
                }
                _ => {}
            }
            self.finished.remove(0);
        }
        Ok(())
    }

    /// Syncs the archive to the disk.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.is_dirty)
            && let Some(segment) = &self.segment
        {
            segment.sync()?;
        }
        self.retain()
    }

    /// Finishes the archive: the last segment gets its index.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.roll()
    }
}

/// Nanoseconds since 1970.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
