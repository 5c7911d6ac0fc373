//! A segment: a file of an archive, with the chunks of all elements in the order in which they were archived,
//! and an index at its end.
//!
//! `NNNNNN.segment` begins with a header that names its space. Records follow, each with its length and a
//! checksum: the header of each element that has a chunk in the segment, the chunks, and, when the segment is
//! finished, the index: where each chunk lies, and which positions, times, kinds and writers it holds. A
//! segment has no index while its recorder writes it, or if the recorder was killed; it is then read record
//! by record up to the first incomplete one.
//!
//! The file `segments` lists the segments: one record of fixed size for each begin, end and removal of a
//! segment.

use super::coding::Damaged;
use crate::error::Error;
use crate::file::{self, word};
use crate::layout::{VERSION, element};
use crate::reader::ElementId;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The first word of a segment.
const MAGIC: u64 = u64::from_le_bytes(*b"thalwegG");
/// The last word of a finished segment.
const MAGIC_END: u64 = u64::from_le_bytes(*b"thalwegF");
/// The first word of the list of segments.
const MAGIC_LIST: u64 = u64::from_le_bytes(*b"thalwegT");
/// Bytes of the header: magic, version, the space's UUID, the segment's number.
pub(super) const HEADER: usize = 64;
/// Bytes of a record's header: type, length, checksum, padding.
pub(super) const RECORD_HEADER: usize = 16;
/// The longest record.
const RECORD_BYTES_MAX: usize = 72 << 20;
/// The least number of bytes of a chunk in the index: its place, and the words that every chunk has.
const INDEXED_BYTES_MIN: usize = 8 * (2 + 8 + STATE.len());
/// Bytes of the list that are read at a time.
const LIST_READ_BYTES: u64 = 1 << 16;
/// Bytes of a record in the list.
const LISTED_BYTES: usize = 64;
/// The name of the list.
pub(super) const LIST: &str = "segments";

/// The types of records.
pub(super) const ELEMENT: u32 = 1;
pub(super) const CHUNK: u32 = 2;
const INDEX: u32 = 3;

/// The words of an element's header that change. Each chunk holds the values that these words had when the
/// chunk was written.
pub(super) const STATE: [usize; 8] = [
    element::DROPS,
    element::STATE,
    element::SEQUENCE,
    element::OWNER,
    element::OWNER_NAME,
    element::GENERATION,
    element::DISCARDED,
    element::DISCARDED_SEQUENCE,
];

/// The header of an element with chunks in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptHeader {
    pub(super) id: ElementId,
    /// Position and sequence number at which the archive of this element begins, in this or an earlier
    /// segment.
    pub(super) first: (u64, u64),
    pub(super) header: Box<[u8; element::HEADER]>,
}

/// The description of a chunk in the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkInfo {
    pub(super) id: ElementId,
    pub(super) from: u64,
    pub(super) to: u64,
    /// The least and the greatest time of the chunk's events. If the first is greater than the second, the
    /// chunk has no events.
    pub(super) times: (u64, u64),
    /// Base and sequence number of the first block that begins in the chunk, if there is one.
    pub(super) first_block: (u64, u64),
    pub(super) state: [u64; STATE.len()],
    /// The kinds of the chunk's events, each with the number of events.
    pub(super) kinds: Vec<(u16, u64)>,
    /// The writers that took the element over in this chunk.
    pub(super) owners: Vec<u32>,
}

impl ChunkInfo {
    pub(super) fn events(&self) -> u64 {
        self.kinds.iter().map(|(_, count)| count).sum()
    }
}

/// Words that are written and read in order.
#[derive(Debug, Default)]
pub(super) struct Words(pub(super) Vec<u8>);

impl Words {
    fn put(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    fn id(&mut self, id: ElementId) {
        self.put(u64::from(id.file) | u64::from(id.slot.map_or(0, |slot| slot + 1)) << 32);
    }

    pub(super) fn header(&mut self, kept: &KeptHeader) {
        self.id(kept.id);
        self.put(kept.first.0);
        self.put(kept.first.1);
        self.0.extend_from_slice(&kept.header[..]);
    }

    pub(super) fn chunk(&mut self, chunk: &ChunkInfo) {
        self.id(chunk.id);
        for word in
            [chunk.from, chunk.to, chunk.times.0, chunk.times.1, chunk.first_block.0, chunk.first_block.1]
        {
            self.put(word);
        }
        chunk.state.iter().for_each(|word| self.put(*word));
        self.put(chunk.kinds.len() as u64 | (chunk.owners.len() as u64) << 32);
        chunk.kinds.iter().for_each(|(kind, count)| self.put(u64::from(*kind) | count << 16));
        chunk.owners.iter().for_each(|owner| self.put(u64::from(*owner)));
    }
}

/// A reader of words from untrusted bytes.
#[derive(Debug)]
pub(super) struct WordsIn<'a>(pub(super) &'a [u8]);

impl WordsIn<'_> {
    fn take(&mut self) -> Result<u64, Damaged> {
        let (first, rest) = self.0.split_at_checked(8).ok_or(Damaged)?;
        self.0 = rest;
        Ok(word(first, 0))
    }

    fn id(&mut self) -> Result<ElementId, Damaged> {
        let word = self.take()?;
        let slot = (word >> 32) as u32;
        Ok(ElementId { file: word as u32, slot: slot.checked_sub(1) })
    }

    pub(super) fn header(&mut self) -> Result<KeptHeader, Damaged> {
        let (id, first) = (self.id()?, (self.take()?, self.take()?));
        let (header, rest) = self.0.split_at_checked(element::HEADER).ok_or(Damaged)?;
        self.0 = rest;
        Ok(KeptHeader { id, first, header: Box::new(header.try_into().expect("as many bytes")) })
    }

    pub(super) fn chunk(&mut self) -> Result<ChunkInfo, Damaged> {
        let id = self.id()?;
        let mut fixed = [0; 6];
        for word in &mut fixed {
            *word = self.take()?;
        }
        let [from, to, least, greatest, base, sequence] = fixed;
        let mut chunk = ChunkInfo {
            id,
            from,
            to,
            times: (least, greatest),
            first_block: (base, sequence),
            ..ChunkInfo::default()
        };
        for word in &mut chunk.state {
            *word = self.take()?;
        }
        let counts = self.take()?;
        for _ in 0..counts as u32 {
            let word = self.take()?;
            chunk.kinds.push((word as u16, word >> 16));
        }
        for _ in 0..counts >> 32 {
            chunk.owners.push(self.take()? as u32);
        }
        if from > to || to > 1 << 62 || !from.is_multiple_of(8) || !to.is_multiple_of(8) {
            return Err(Damaged);
        }
        Ok(chunk)
    }
}

/// The contents of a segment that were read so far.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) headers: Vec<KeptHeader>,
    /// Each chunk with the place and the length of its record.
    pub(super) chunks: Vec<(u64, u32, ChunkInfo)>,
    /// The end of the last complete record.
    pub(super) end: u64,
    /// Whether the segment has an index.
    pub(super) finished: bool,
}

/// The file of segment `number`.
pub(super) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.segment"))
}

/// The checksum of a record.
fn checksum(record_type: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record_type.to_le_bytes());
    hasher.update(&(payload.len() as u32).to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Appends a record to `out`.
fn put_record(out: &mut Vec<u8>, record_type: u32, payload: &[u8]) {
    out.extend(record_type.to_le_bytes());
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend(checksum(record_type, payload).to_le_bytes());
    out.extend([0; 4]);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(8), 0);
}

/// Reads the record at `at`; returns its type and the place after it, or `None` if it is incomplete.
pub(super) fn read_record(
    file: &File,
    path: &Path,
    at: u64,
    payload: &mut Vec<u8>,
) -> Result<Option<(u32, u64)>, Error> {
    let length = file::length(file, path)?;
    let mut header = [0; RECORD_HEADER];
    if at + RECORD_HEADER as u64 > length {
        return Ok(None);
    }
    file::read_exact_at(file, path, &mut header, at)?;
    let half = |from: usize| u32::from_le_bytes(header[from..from + 4].try_into().expect("4 bytes"));
    let bytes = half(4) as usize;
    let end = at + RECORD_HEADER as u64 + bytes as u64;
    if bytes > RECORD_BYTES_MAX || end > length {
        return Ok(None);
    }
    payload.clear();
    // A damaged length may exceed the memory.
    if payload.try_reserve_exact(bytes).is_err() {
        return Ok(None);
    }
    payload.resize(bytes, 0);
    file::read_exact_at(file, path, payload, at + RECORD_HEADER as u64)?;
    let is_whole = checksum(half(0), payload) == half(8);
    Ok(is_whole.then(|| (half(0), end.next_multiple_of(8))))
}

/// The reader of a segment.
#[derive(Debug)]
pub(super) struct SegmentReader {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) contents: Contents,
    file: File,
}

impl SegmentReader {
    /// Opens segment `number` of the space with this UUID without reading its contents; `None` if it does not
    /// exist.
    pub(super) fn open(
        directory: &Path,
        number: u64,
        uuid: [u8; 16],
    ) -> Result<Option<SegmentReader>, Error> {
        let path = path(directory, number);
        let file = match file::open_to_read(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        if file::length(&file, &path)? < HEADER as u64 {
            // The recorder was killed before the header was complete.
            return Ok(None);
        }
        let mut header = [0; HEADER];
        file::read_exact_at(&file, &path, &mut header, 0)?;
        file::check_magic(&path, &header, MAGIC, "a segment of an archive")?;
        if header[16..32] != uuid || word(&header, 32) != number {
            return Err(Error::new(format!("{} is a segment of another archive", path.display())));
        }
        let contents = Contents { end: HEADER as u64, ..Contents::default() };
        Ok(Some(SegmentReader { number, path, contents, file }))
    }

    /// Reads the index, or the records that were added since the last look. Returns how many chunks were
    /// known before.
    pub(super) fn look(&mut self) -> Result<usize, Error> {
        let known = self.contents.chunks.len();
        if self.contents.finished || known == 0 && self.read_index()? {
            return Ok(known);
        }
        let mut payload = Vec::new();
        while let Some((record_type, end)) =
            read_record(&self.file, &self.path, self.contents.end, &mut payload)?
        {
            let at = self.contents.end;
            let mut words = WordsIn(&payload);
            let taken = match record_type {
                ELEMENT => words.header().map(|header| self.contents.headers.push(header)),
                CHUNK => words.chunk().map(|chunk| self.contents.chunks.push((at, (end - at) as u32, chunk))),
                INDEX => {
                    self.contents.finished = true;
                    Ok(())
                }
                _ => Ok(()),
            };
            taken.map_err(|Damaged| self.damaged())?;
            self.contents.end = end;
        }
        Ok(known)
    }

    fn damaged(&self) -> Error {
        Error::new(format!("{} is damaged: a record does not decode", self.path.display()))
    }

    /// Reads the index; `false` if there is no complete one, so that records have to be read one by one.
    fn read_index(&mut self) -> Result<bool, Error> {
        let length = file::length(&self.file, &self.path)?;
        if length < (HEADER + 16) as u64 {
            return Ok(false);
        }
        let mut end = [0; 16];
        file::read_exact_at(&self.file, &self.path, &mut end, length - 16)?;
        if word(&end, 8) != MAGIC_END || word(&end, 0) >= length {
            return Ok(false);
        }
        let mut payload = Vec::new();
        let Some((INDEX, _)) = read_record(&self.file, &self.path, word(&end, 0), &mut payload)? else {
            return Ok(false);
        };
        let mut words = WordsIn(&payload);
        let mut read = || {
            let (mut headers, mut chunks) = (Vec::new(), Vec::new());
            let counts = words.take()?;
            for _ in 0..counts as u32 {
                headers.push(words.header()?);
            }
            // The size of the record bounds the allocation, because the count may be damaged.
            chunks.reserve_exact((counts >> 32).min((words.0.len() / INDEXED_BYTES_MIN) as u64) as usize);
            for _ in 0..counts >> 32 {
                let (at, bytes) = (words.take()?, words.take()? as u32);
                chunks.push((at, bytes, words.chunk()?));
            }
            Ok::<_, Damaged>((headers, chunks))
        };
        let Ok((headers, chunks)) = read() else { return Ok(false) };
        self.contents = Contents { headers, chunks, end: length, finished: true };
        Ok(true)
    }

    /// The description of the chunk whose record is at `at`.
    pub(super) fn chunk(&self, at: u64) -> Option<&ChunkInfo> {
        let place = self.contents.chunks.binary_search_by_key(&at, |(at, _, _)| *at).ok()?;
        Some(&self.contents.chunks[place].2)
    }

    /// The coded bytes of the chunk whose record is at `at`; none if the record is incomplete.
    pub(super) fn coded(path: &Path, at: u64, payload: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        let file = match file::open_to_read(path) {
            Ok(file) => file,
            // The segment was removed meanwhile, because it was too old or the archive too large.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", path, e)),
        };
        let Some((CHUNK, _)) = read_record(&file, path, at, payload)? else { return Ok(None) };
        let mut words = WordsIn(payload);
        Ok(words.chunk().ok().map(|_| payload.len() - words.0.len()))
    }
}

/// The writer of a segment.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    pub(super) number: u64,
    path: PathBuf,
    file: File,
    pub(super) bytes: u64,
    pub(super) contents: Contents,
    record: Vec<u8>,
}

impl SegmentWriter {
    /// Makes segment `number`.
    pub(super) fn create(directory: &Path, number: u64, uuid: [u8; 16]) -> Result<SegmentWriter, Error> {
        let path = path(directory, number);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|e| Error::io("create", &path, e))?;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC.to_le_bytes());
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..32].copy_from_slice(&uuid);
        header[32..40].copy_from_slice(&number.to_le_bytes());
        if let Err(error) = file.write_all_at(&header, 0) {
            let _ = std::fs::remove_file(&path);
            return Err(Error::io("write", &path, error));
        }
        let bytes = HEADER as u64;
        Ok(SegmentWriter { number, path, file, bytes, contents: Contents::default(), record: Vec::new() })
    }

    /// Continues a segment of a killed recorder; an incomplete record at its end is cut off.
    pub(super) fn go_on(reader: SegmentReader) -> Result<SegmentWriter, Error> {
        let SegmentReader { number, path, contents, .. } = reader;
        let file = file::open(&path, OpenOptions::new().write(true));
        let file = file.map_err(|e| Error::io("open for writing", &path, e))?;
        let bytes = contents.end;
        file.set_len(bytes).map_err(|e| Error::io("shorten", &path, e))?;
        Ok(SegmentWriter { number, path, file, bytes, contents, record: Vec::new() })
    }

    /// Appends the header of an element, unless the segment has it.
    pub(super) fn header(&mut self, kept: &KeptHeader) -> Result<(), Error> {
        if self.contents.headers.iter().any(|there| there.id == kept.id) {
            return Ok(());
        }
        let mut words = Words::default();
        words.header(kept);
        self.append(ELEMENT, &words.0)?;
        self.contents.headers.push(kept.clone());
        Ok(())
    }

    /// Appends a chunk: `payload` is its description by [`Words::chunk`], followed by its coded bytes.
    pub(super) fn chunk(&mut self, chunk: ChunkInfo, payload: &[u8]) -> Result<(), Error> {
        let at = self.bytes;
        self.append(CHUNK, payload)?;
        self.contents.chunks.push((at, (self.bytes - at) as u32, chunk));
        Ok(())
    }

    fn append(&mut self, record_type: u32, payload: &[u8]) -> Result<(), Error> {
        self.record.clear();
        put_record(&mut self.record, record_type, payload);
        if let Err(error) = self.file.write_all_at(&self.record, self.bytes) {
            // A partly written record is removed, because the next one is written at its place.
            let _ = self.file.set_len(self.bytes);
            return Err(Error::io("write", &self.path, error));
        }
        self.bytes += self.record.len() as u64;
        Ok(())
    }

    /// Syncs the file to the disk.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|e| Error::io("write to the disk", &self.path, e))
    }

    /// Writes the index, which ends the segment.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        let Contents { headers, chunks, .. } = &self.contents;
        let mut words = Words::default();
        words.put(headers.len() as u64 | (chunks.len() as u64) << 32);
        headers.iter().for_each(|header| words.header(header));
        for (at, bytes, chunk) in chunks {
            words.put(*at);
            words.put(u64::from(*bytes));
            words.chunk(chunk);
        }
        if words.0.len() > RECORD_BYTES_MAX {
            // An index that would be too large is left out: the segment is then read record by record.
            return self.sync();
        }
        self.record.clear();
        put_record(&mut self.record, INDEX, &words.0);
        self.record.extend(self.bytes.to_le_bytes());
        self.record.extend(MAGIC_END.to_le_bytes());
        if let Err(error) = self.file.write_all_at(&self.record, self.bytes) {
            let _ = self.file.set_len(self.bytes);
            return Err(Error::io("write", &self.path, error));
        }
        self.bytes += self.record.len() as u64;
        self.sync()
    }
}

/// A record of the list of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) what: What,
    pub(super) number: u64,
    /// The segment's length when it was finished.
    pub(super) bytes: u64,
    pub(super) events: u64,
    /// The time of the record, in nanoseconds since 1970.
    pub(super) real_ns: u64,
}

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Begun = 1,
    Finished = 2,
    Removed = 3,
}

impl Listed {
    fn record(&self) -> [u8; LISTED_BYTES] {
        let mut record = [0; LISTED_BYTES];
        let words = [self.what as u64, self.number, self.bytes, self.events, self.real_ns];
        for (word, place) in words.iter().zip(record.chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = u64::from(crc32fast::hash(&record[..LISTED_BYTES - 8]));
        record[LISTED_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        record
    }

    fn from_record(record: &[u8]) -> Option<Listed> {
        let what = match word(record, 0) {
            1 => What::Begun,
            2 => What::Finished,
            3 => What::Removed,
            _ => return None,
        };
        let is_whole =
            word(record, LISTED_BYTES - 8) == u64::from(crc32fast::hash(&record[..LISTED_BYTES - 8]));
        let [number, bytes, events, real_ns] = [1, 2, 3, 4].map(|n| word(record, 8 * n));
        is_whole.then_some(Listed { what, number, bytes, events, real_ns })
    }
}

/// The list of an archive's segments.
#[derive(Debug)]
pub(super) struct List {
    path: PathBuf,
    file: File,
    read_to: u64,
}

impl List {
    /// Opens the list; `None` if there is none, as in a space without an archive.
    pub(super) fn open(directory: &Path) -> Result<Option<List>, Error> {
        let path = directory.join(LIST);
        let file = match file::open_to_read(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        let mut header = [0; LISTED_BYTES];
        file::read_exact_at(&file, &path, &mut header, 0)?;
        file::check_magic(&path, &header, MAGIC_LIST, "the list of an archive's segments")?;
        Ok(Some(List { path, file, read_to: LISTED_BYTES as u64 }))
    }

    /// The records that were added since the last look, up to the first incomplete one. Records after an
    /// incomplete one are an error.
    pub(super) fn look(&mut self) -> Result<Vec<Listed>, Error> {
        let length = file::length(&self.file, &self.path)?;
        let whole = length.saturating_sub(self.read_to) / LISTED_BYTES as u64 * LISTED_BYTES as u64;
        let end = self.read_to + whole;
        let mut listed = Vec::new();
        while self.read_to < end {
            let mut bytes = vec![0; (end - self.read_to).min(LIST_READ_BYTES) as usize];
            file::read_exact_at(&self.file, &self.path, &mut bytes, self.read_to)?;
            for record in bytes.chunks_exact(LISTED_BYTES) {
                let Some(one) = Listed::from_record(record) else {
                    let at = self.read_to;
                    return Err(Error::new(format!("{} is damaged at byte {at}", self.path.display())));
                };
                listed.push(one);
                self.read_to += LISTED_BYTES as u64;
            }
        }
        Ok(listed)
    }

    /// Appends to the list, which is made if there is none. A new list gets its name when it is complete.
    pub(super) fn append(directory: &Path, listed: &Listed) -> Result<(), Error> {
        let path = directory.join(LIST);
        if !path.exists() {
            let mut bytes = [0; LISTED_BYTES];
            bytes[..8].copy_from_slice(&MAGIC_LIST.to_le_bytes());
            bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
            let new = path.with_extension("new");
            let _ = std::fs::remove_file(&new);
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
            let file = file.map_err(|e| Error::io("create", &new, e))?;
            file.write_all_at(&bytes, 0).map_err(|e| Error::io("write", &new, e))?;
            std::fs::rename(&new, &path).map_err(|e| Error::io("name", &path, e))?;
        }
        let file = file::open(&path, OpenOptions::new().write(true));
        let file = file.map_err(|e| Error::io("open for writing", &path, e))?;
        // An incomplete record of a killed recorder is overwritten.
        let length = file::length(&file, &path)?;
        let end = (length / LISTED_BYTES as u64 * LISTED_BYTES as u64).max(LISTED_BYTES as u64);
        if let Err(error) = file.write_all_at(&listed.record(), end) {
            let _ = file.set_len(end);
            return Err(Error::io("write", &path, error));
        }
        Ok(())
    }
}
