//! The archive: what a consumer keeps of elements, so that nothing is overwritten before it was kept.
//!
//! `NNNN.archive` has an element's header and the same blocks at the same positions, but they do not come around:
//! block k lies at place k. The reader takes archived blocks from there and goes on in the ring. The element's
//! `read_position` tells a writer with the policy *wait* or *drop newest* which blocks it may use again.
//!
//! ```no_run
//! # fn running() -> bool { false }
//! use thalweg_space::archive::Archiver;
//! let mut archiver = Archiver::open("/dev/shm/thalweg-1000/example-4711")?;
//! while running() {
//!     if archiver.step()? == 0 {
//!         std::thread::sleep(std::time::Duration::from_millis(1));
//!     }
//! }
//! archiver.finish()?;
//! # Ok::<(), thalweg_space::Error>(())
//! ```

mod chunk;
#[cfg(test)]
mod chunk_tests;
mod coding;
mod column;
mod divisions;

use crate::error::Error;
use crate::layout::{PAGE, block, element};
use crate::reader::{Blocks, Numbers, Place};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Copies what the writers of a space commit into archives beside their elements. One per space at a time.
#[derive(Debug)]
pub struct Archiver {
    path: PathBuf,
    numbers: Numbers,
    elements: Vec<Archive>,
}

/// The archive of one element.
#[derive(Debug)]
struct Archive {
    ring: Blocks,
    /// The element again, writable: for the fourth line of its header, which is the consumer's.
    element: File,
    /// None until there is room for it.
    file: Option<File>,
    path: PathBuf,
    /// Position up to which everything is archived.
    position: u64,
    buffer: Vec<u8>,
}

/// The words of an element's header that tell how it ended.
const KEPT_AT_THE_END: [usize; 7] = [
    element::SEQUENCE,
    element::STATE,
    element::OWNER,
    element::OWNER_NAME,
    element::GENERATION,
    element::DISCARDED_SEQUENCE,
    element::DISCARDED,
];

impl Archiver {
    /// Begins to archive the space in `path`, as the consumer that its writers may wait for.
    ///
    /// # Errors
    /// When there is no space, or archives cannot be made beside it.
    pub fn open(path: impl AsRef<Path>) -> Result<Archiver, Error> {
        let mut archiver =
            Archiver { path: path.as_ref().to_path_buf(), numbers: Numbers::default(), elements: Vec::new() };
        archiver.find_writers()?;
        Ok(archiver)
    }

    /// Archives the blocks that are complete; returns how many bytes those were.
    ///
    /// # Errors
    /// When the disk is full ([`Error::is_full`]) or a file is damaged. What could not be archived is tried again by the next
    /// step; until then the writers wait, each as long as its policy says, and drop and count, unless
    /// [`Archiver::let_go`] says otherwise.
    pub fn step(&mut self) -> Result<u64, Error> {
        self.find_writers()?;
        let mut bytes = 0;
        for archive in &mut self.elements {
            let head = archive.ring.head()?;
            bytes += archive.copy_to(head - head % archive.ring.block_bytes)?;
        }
        Ok(bytes)
    }

    /// Lets no writer wait, those that came meanwhile included: what finds no room is dropped and counted.
    ///
    /// # Errors
    /// When an element cannot be written any more.
    pub fn let_go(&mut self) -> Result<(), Error> {
        self.find_writers()?;
        self.elements.iter().try_for_each(Archive::let_go)
    }

    /// Lets writers wait again, after [`Archiver::let_go`].
    ///
    /// # Errors
    /// As there.
    pub fn hold(&mut self) -> Result<(), Error> {
        self.elements.iter().try_for_each(Archive::attach)
    }

    /// How many events the writers have dropped so far.
    ///
    /// # Errors
    /// When an element cannot be read any more.
    pub fn dropped(&self) -> Result<u64, Error> {
        self.elements.iter().map(|archive| archive.ring.word(element::DROPS)).sum()
    }

    /// Archives all that is committed, and the final counts. Call it when the writers are closed.
    ///
    /// # Errors
    /// As [`Archiver::step`].
    pub fn finish(mut self) -> Result<(), Error> {
        self.find_writers()?;
        self.elements.iter_mut().try_for_each(Archive::finish)
    }

    fn find_writers(&mut self) -> Result<(), Error> {
        let mut problem = None;
        for place in self.numbers.new_ones(&self.path, &mut problem)? {
            self.elements.extend(Archive::open(&place)?);
        }
        problem.map_or(Ok(()), Err)
    }
}

impl Archive {
    /// Goes on with the archive of the element at `place`, or will make it; `None` if there is no element.
    fn open(place: &Place) -> Result<Option<Archive>, Error> {
        let Some(ring) = Blocks::ring(place)? else { return Ok(None) };
        let element = crate::file::open(&ring.path, OpenOptions::new().write(true));
        let element = element.map_err(|e| Error::io("open for writing", &ring.path, e))?;
        let path = place.archive();
        let (file, position) = match Blocks::open(path.clone(), true)? {
            Some(archive) => {
                let file = crate::file::open(&path, OpenOptions::new().write(true));
                (Some(file.map_err(|e| Error::io("open for writing", &path, e))?), archive.head()?)
            }
            None => (None, 0),
        };
        let archive = Archive { ring, element, file, path, position, buffer: Vec::new() };
        archive.attach()?;
        Ok(Some(archive))
    }

    /// Makes an empty archive of `ring`. It gets its name when its header is complete, so that whoever finds it can read
    /// it, whenever this process is killed.
    fn make(path: &Path, ring: &Blocks) -> Result<File, Error> {
        let mut header = [0; PAGE];
        header[..element::HEADER].copy_from_slice(&ring.header[..]);
        let mut put = |at: usize, value: u64| header[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(element::BLOCKS, ring.block_bytes);
        put(element::HEAD, 0);
        put(element::READ_POSITION, 0);
        put(element::READER, 0);
        put(element::READER_START, 0);
        put(element::MAGIC, element::MAGIC_ARCHIVE);
        let new = path.with_extension("archive.new");
        // One of an archiver that was killed; or a link, through which nothing must be written.
        let _ = std::fs::remove_file(&new);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let file = file.map_err(|e| Error::io("create", &new, e))?;
        file.write_all_at(&header, 0).map_err(|e| Error::io("write", &new, e))?;
        std::fs::rename(&new, path).map_err(|e| Error::io("name", path, e))?;
        Ok(file)
    }

    /// Tells the writer who consumes, so that it does not wait for a dead process.
    fn attach(&self) -> Result<(), Error> {
        let pid = std::process::id();
        self.tell(element::READER_START, crate::process::start_time(pid).unwrap_or(0))?;
        self.tell(element::READER, u64::from(pid))?;
        self.tell(element::READ_POSITION, self.position)
    }

    /// Tells the writer that it waits for nobody: no process has this start.
    fn let_go(&self) -> Result<(), Error> {
        self.tell(element::READER_START, u64::MAX)?;
        self.tell(element::READER, u64::from(std::process::id()))
    }

    fn tell(&self, at: usize, value: u64) -> Result<(), Error> {
        let written = self.element.write_all_at(&value.to_le_bytes(), self.ring.start + at as u64);
        written.map_err(|e| Error::io("write", &self.ring.path, e))
    }

    fn write(&mut self, bytes: &[u8], at: u64) -> Result<(), Error> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Archive::make(&self.path, &self.ring)?),
        };
        file.write_all_at(bytes, at).map_err(|e| Error::io("write", &self.path, e))
    }

    /// Archives what lies before `limit`; returns how many bytes.
    fn copy_to(&mut self, limit: u64) -> Result<u64, Error> {
        let block_bytes = self.ring.block_bytes;
        let before = self.position;
        self.skip_overwritten(limit);
        while self.position < limit {
            let number = self.position / block_bytes;
            let start = number * block_bytes;
            let bytes = (limit - start).min(block_bytes);
            // A block that was overwritten meanwhile stays a hole; the next block's first sequence tells what it held.
            let mut behind = start + bytes;
            if bytes >= block::HEADER as u64 && self.ring.copy(number, bytes as usize, &mut self.buffer)? {
                let buffer = std::mem::take(&mut self.buffer);
                let written = self.write(&buffer, element::DATA as u64 + start);
                self.buffer = buffer;
                written?;
            } else {
                let next = self.ring.next_written(number + 1, limit / block_bytes);
                behind = behind.max(next * block_bytes);
            }
            // Where this fails, the same block is copied again.
            self.write(&behind.to_le_bytes(), element::HEAD as u64)?;
            self.position = behind;
            self.tell(element::READ_POSITION, behind)?;
        }
        Ok(self.position - before)
    }

    /// Skips what the writer must have overwritten already.
    fn skip_overwritten(&mut self, limit: u64) {
        let ring_bytes = self.ring.block_bytes * self.ring.block_count;
        let oldest = limit.saturating_sub(ring_bytes);
        if oldest > self.position {
            self.position = oldest - oldest % self.ring.block_bytes;
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        let drops = self.ring.word(element::DROPS)?;
        let head = self.ring.head()?;
        self.copy_to(head)?;
        self.write(&drops.to_le_bytes(), element::DROPS as u64)?;
        for at in KEPT_AT_THE_END {
            self.write(&self.ring.word(at)?.to_le_bytes(), at as u64)?;
        }
        Ok(())
    }
}
