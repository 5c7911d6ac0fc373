//! The archiver's reader of one element.

use super::ArchiveOptions;
use super::Progress;
use super::chunk::{CHUNK_BYTES_MAX, Extent};
use super::divisions::KindDivisions;
use super::mirror::Mirror;
use super::segment::{KeptHeader, STATE};
use super::store::{Piece, Store};
use crate::element::Policy;
use crate::error::Error;
use crate::file::word;
use crate::kind::NameRef;
use crate::layout::{block, element, event};
use crate::reader::{Blocks, Place, SpaceReader};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;
use thalweg_glob::Glob;

/// The bytes that are taken from an element before it is the turn of the next element.
const TURN_BYTES: u64 = 4 << 20;

/// One element that is archived.
#[derive(Debug)]
pub(super) struct Tap {
    ring: Blocks,
    /// The element's file, opened for writing the fourth line of its header, which belongs to the consumer.
    element: File,
    header: KeptHeader,
    divisions: KindDivisions,
    /// Whether events of the element were archived, by this recorder or an earlier one.
    has_begun: bool,
    /// Position up to which the element was copied, and up to which this step copies it.
    position: u64,
    limit: u64,
    /// Bytes that were copied and not written yet, the position where they begin, and the time since which
    /// they wait.
    waiting: Vec<u8>,
    waiting_from: u64,
    /// Bytes that the writer wrote and that were copied or skipped since [`Tap::written_share`] was last
    /// called.
    taken: u64,
    since: Instant,
    /// The base of event times where the waiting bytes begin.
    base: u64,
    buffer: Vec<u8>,
    /// The words of the element's header that were last written to the archive.
    written_state: [u64; STATE.len()],
}

impl Tap {
    /// Opens the element at `place`, to continue its archive or to begin one; `None` if there is no element.
    pub(super) fn open(space: &Path, place: &Place, store: &Store) -> Result<Option<Tap>, Error> {
        let Some(ring) = Blocks::ring(place)? else { return Ok(None) };
        let element = crate::file::open(&ring.path, OpenOptions::new().write(true));
        let element = element.map_err(|e| Error::io("open for writing", &ring.path, e))?;
        let (header, position, has_begun) = match store.before(place.id) {
            Some((header, position)) => (header, position, true),
            None => {
                let mut header = ring.header()?;
                let mut put =
                    |at: usize, value: u64| header[at..at + 8].copy_from_slice(&value.to_le_bytes());
                put(element::BLOCKS, ring.block_bytes);
                put(element::READER, 0);
                put(element::READER_START, 0);
                put(element::MAGIC, element::MAGIC_ARCHIVE);
                (KeptHeader { id: place.id, first: (0, 0), header }, 0, false)
            }
        };
        if word(&header.header[..], element::BLOCKS) & 0xffff_ffff != ring.block_bytes {
            let what = ring.path.display();
            return Err(Error::new(format!(
                "{what} has blocks of another size than its archive: keep it elsewhere"
            )));
        }
        let divisions = KindDivisions::open(space, place.id.file)?;
        Ok(Some(Tap {
            ring,
            element,
            header,
            divisions,
            has_begun,
            position,
            limit: position,
            waiting: Vec::new(),
            waiting_from: position,
            taken: 0,
            since: Instant::now(),
            base: 0,
            buffer: Vec::new(),
            written_state: [u64::MAX; STATE.len()],
        }))
    }

    /// Whether the name of the element's writer matches.
    pub(super) fn is_called(&self, space: &Path, glob: &Glob) -> bool {
        let name = self.ring.word(element::OWNER_NAME).map(NameRef);
        let text = name.ok().and_then(|name| SpaceReader::open(space).ok()?.name(name));
        text.is_some_and(|text| glob.matches(&text))
    }

    /// Begins a step, which copies the element up to its last event, or else to its last complete block.
    pub(super) fn look(&mut self, is_due: bool) -> Result<(), Error> {
        let head = self.ring.head()?;
        self.limit = if is_due { head } else { head - head % self.ring.block_bytes };
        Ok(())
    }

    /// Whether everything was copied that the step copies.
    pub(super) fn is_done(&self) -> bool {
        self.position >= self.limit
    }

    /// Copies the next bytes of the step, [`TURN_BYTES`] at most. Returns how many bytes were copied.
    pub(super) fn copy_some(
        &mut self,
        is_due: bool,
        store: &mut Store,
        mirror: Option<&mut Mirror>,
        options: &ArchiveOptions,
        progress: &mut Progress,
    ) -> Result<u64, Error> {
        let block = self.ring.block_bytes;
        let turn_end = (self.position / block + (TURN_BYTES / block).max(1)) * block;
        let is_last = turn_end >= self.limit;
        self.copy_to(self.limit.min(turn_end), is_due && is_last, store, mirror, options, progress)
    }

    pub(super) fn dropped(&self) -> Result<u64, Error> {
        self.ring.word(element::DROPS)
    }

    /// Writes the consumer's process into the header, so that the writer does not wait for a dead process.
    pub(super) fn attach(&self) -> Result<(), Error> {
        let pid = std::process::id();
        self.put(element::READER_START, crate::process::start_time(pid).unwrap_or(0))?;
        self.put(element::READER, u64::from(pid))?;
        self.put(element::READ_POSITION, self.waiting_from)
    }

    /// Writes a consumer that does not exist (no process has this start time) into the header, so that the
    /// writer does not wait.
    pub(super) fn let_go(&self) -> Result<(), Error> {
        self.put(element::READER_START, u64::MAX)?;
        self.put(element::READER, u64::from(std::process::id()))
    }

    fn put(&self, at: usize, value: u64) -> Result<(), Error> {
        let written = self.element.write_all_at(&value.to_le_bytes(), self.ring.start + at as u64);
        written.map_err(|e| Error::io("write", &self.ring.path, e))
    }

    /// The most bytes that may wait to be written. For a writer that waits for its consumer, at most a quarter of
    /// the ring's blocks may wait, so that the writer fills the others while these are compressed.
    fn waiting_max(&self, options: &ArchiveOptions) -> usize {
        let is_overwriting = self.ring.policy() == Policy::Overwrite.code();
        let ring = (self.ring.block_bytes * self.ring.block_count / 4) as usize;
        let most = if is_overwriting { options.chunk_bytes } else { options.chunk_bytes.min(ring) };
        most.clamp(1, CHUNK_BYTES_MAX)
    }

    /// Copies the bytes before `limit`. Writes the waiting bytes if they have waited long enough, suffice for
    /// a chunk, or `is_due`. Returns how many bytes were copied.
    fn copy_to(
        &mut self,
        limit: u64,
        is_due: bool,
        store: &mut Store,
        mut mirror: Option<&mut Mirror>,
        options: &ArchiveOptions,
        progress: &mut Progress,
    ) -> Result<u64, Error> {
        let before = self.position;
        let most = self.waiting_max(options);
        self.skip_overwritten(limit, store, mirror.as_deref_mut(), progress)?;
        while self.position < limit {
            let number = self.position / self.ring.block_bytes;
            let start = number * self.ring.block_bytes;
            let bytes = (limit - start).min(self.ring.block_bytes);
            if bytes >= block::HEADER as u64 && self.ring.copy(number, bytes as usize, &mut self.buffer)? {
                let new = (self.position - start) as usize;
                if self.waiting.len() + self.buffer.len() - new > CHUNK_BYTES_MAX {
                    self.write(store, mirror.as_deref_mut(), progress)?;
                }
                if self.waiting.is_empty() {
                    self.since = Instant::now();
                    self.base = base_at(&self.buffer, new);
                }
                self.waiting.extend_from_slice(&self.buffer[new..]);
                self.position = start + bytes;
            } else {
                // A block that was overwritten meanwhile stays a hole; the next block's first sequence shows how many events it held.
                let next = self.ring.next_written(number + 1, limit / self.ring.block_bytes);
                self.move_to(
                    (start + bytes).max(next * self.ring.block_bytes),
                    store,
                    mirror.as_deref_mut(),
                    progress,
                )?;
            }
            if self.waiting.len() >= most {
                self.write(store, mirror.as_deref_mut(), progress)?;
            }
        }
        if !self.waiting.is_empty() && (is_due || self.since.elapsed() >= options.interval) {
            self.write(store, mirror, progress)?;
        }
        self.taken += self.position - before;
        Ok(self.position - before)
    }

    /// The bytes that the writer wrote since the last call, divided by the size of the ring.
    pub(super) fn written_share(&mut self) -> f64 {
        std::mem::take(&mut self.taken) as f64 / (self.ring.block_bytes * self.ring.block_count) as f64
    }

    /// Skips blocks that the writer must have overwritten already.
    fn skip_overwritten(
        &mut self,
        limit: u64,
        store: &mut Store,
        mirror: Option<&mut Mirror>,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let oldest = self.limit.max(limit).saturating_sub(self.ring.block_bytes * self.ring.block_count);
        if oldest <= self.position {
            return Ok(());
        }
        self.move_to(oldest - oldest % self.ring.block_bytes, store, mirror, progress)
    }

    /// Continues at `position`; bytes before it that were not copied are lost.
    fn move_to(
        &mut self,
        position: u64,
        store: &mut Store,
        mirror: Option<&mut Mirror>,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        if position <= self.position {
            return Ok(());
        }
        self.write(store, mirror, progress)?;
        // The archive's first sequence number shows how many events were overwritten before the recording
        // began.
        if self.has_begun {
            progress.lost_bytes += position - self.position;
        }
        (self.position, self.waiting_from) = (position, position);
        self.put(element::READ_POSITION, position)
    }

    /// Writes the waiting bytes. If this fails, the element's writer continues to wait.
    fn write(
        &mut self,
        store: &mut Store,
        mirror: Option<&mut Mirror>,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let state = self.state()?;
        self.keep(state, store, mirror, progress)?;
        self.put(element::READ_POSITION, self.waiting_from)
    }

    fn keep(
        &mut self,
        state: [u64; STATE.len()],
        store: &mut Store,
        mirror: Option<&mut Mirror>,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        if let Some(mirror) = mirror {
            mirror.catalogs(self.header.id.file)?;
        }
        if !self.has_begun {
            // Events that were overwritten before are lost; readers must not treat them as removed from the
            // archive.
            self.header.first.0 = self.waiting_from;
        }
        let (from, block_bytes) = (self.waiting_from, self.ring.block_bytes);
        let extent = Extent { from, to: from + self.waiting.len() as u64, block_bytes };
        let piece = Piece { header: &self.header, extent, bytes: &self.waiting, state, base: self.base };
        let divisions = &mut self.divisions;
        let events = store.keep(&piece, &mut |kind| divisions.find(kind))?;
        progress.events += events;
        progress.event_bytes += self.waiting.len() as u64;
        (self.waiting_from, self.written_state, self.has_begun) = (extent.to, state, true);
        self.waiting.clear();
        Ok(())
    }

    /// The current header of the element.
    fn state(&self) -> Result<[u64; STATE.len()], Error> {
        let mut state = [0; STATE.len()];
        for (value, at) in state.iter_mut().zip(STATE) {
            *value = self.ring.word(at)?;
        }
        Ok(state)
    }

    /// Copies and writes all remaining bytes and the final header.
    pub(super) fn finish(
        &mut self,
        store: &mut Store,
        mut mirror: Option<&mut Mirror>,
        options: &ArchiveOptions,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        // The count of drops is read before `head`, as readers do, so that it does not include later drops.
        let state = self.state()?;
        let head = self.ring.head()?;
        self.copy_to(head, true, store, mirror.as_deref_mut(), options, progress)?;
        if state != self.written_state && (self.position > 0 || state[0] > 0) {
            self.keep(state, store, mirror, progress)?;
        }
        if state[1] == 1 { self.let_go() } else { Ok(()) }
    }
}

/// The base of event times at `offset` of a block, which begins at the start of the buffer.
fn base_at(buffer: &[u8], offset: usize) -> u64 {
    if buffer.len() < block::HEADER {
        return 0;
    }
    let mut base = word(buffer, block::BASE);
    let mut at = block::HEADER;
    while at < offset && at + 8 <= buffer.len() {
        let first = word(buffer, at);
        let (kind, words) = ((first >> 32) as u16, (first >> 48 & 0xfff) as usize);
        if kind == event::KIND_FULL_TIME && words == 2 && at + 16 <= buffer.len() {
            base = word(buffer, at + 8);
        }
        if words == 0 {
            break;
        }
        at += 8 * words;
    }
    base
}
