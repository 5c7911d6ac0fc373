//! The archive: events that a consumer copied out of elements before they were overwritten.
//!
//! An [`Archiver`] copies what the writers of a space commit into *segments*, files with an index and checksums in which the
//! events are coded by columns: 3 to 6 bytes an event where elements take 32 to 42. The segments lie beside the elements, or in a
//! directory of their own that is opened as the space is. The element's `read_position` tells a writer with the policy *wait* or
//! *drop newest* which blocks it may use again. Readers take what is kept from the segments and go on in the ring; what they get
//! is bit for bit what the writer committed. `docs/archive.md` of the project describes the files.
//!
//! Archives of former versions, `NNNN.archive`, are read as before: they have an element's header and the same blocks at the
//! same positions, but they do not come around.
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
mod kept;
mod mirror;
mod segment;
mod store;
mod survey;
mod tap;

pub(crate) use kept::Kept;
pub use kept::{ArchiveInfo, of as info};

use crate::error::Error;
use crate::reader::Numbers;
use mirror::Mirror;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::Store;
use tap::Tap;
use thalweg_glob::Glob;

/// How an archive is written.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// Where: a directory that does not exist, is empty, or has an archive of the same space, which is gone on with. None: in the
    /// space's own, beside its elements.
    pub directory: Option<PathBuf>,
    /// Level of the compressor, 1 to 19; 0: events are kept as they are, which takes the least time and the most room.
    pub level: i32,
    /// Bytes after which a segment is finished and the next one begun.
    pub segment_bytes: u64,
    /// How many bytes of an element make one chunk.
    pub chunk_bytes: usize,
    /// How long events may wait until they are written. Zero: each step writes all blocks that are complete.
    pub interval: Duration,
    /// Whether events that have waited for this time are written up to the last one (instead of the last complete
    /// block) and synced to the disk. Then only the last interval is lost when the machine fails.
    pub is_synced: bool,
    /// The most bytes of all segments: beyond, the oldest ones are removed.
    pub bytes_max: Option<u64>,
    /// How old a segment may get.
    pub age_max: Option<Duration>,
    /// Only the elements of writers with such names are kept; none: all.
    pub writers: Option<Glob>,
}

impl Default for ArchiveOptions {
    fn default() -> ArchiveOptions {
        ArchiveOptions {
            directory: None,
            level: 1,
            segment_bytes: 64 << 20,
            chunk_bytes: 1 << 20,
            interval: Duration::ZERO,
            is_synced: false,
            bytes_max: None,
            age_max: None,
            writers: None,
        }
    }
}

/// What an archiver has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events that it kept.
    pub events: u64,
    /// Their bytes in the elements.
    pub event_bytes: u64,
    /// Bytes of the archive now.
    pub bytes: u64,
    /// Bytes of events that were overwritten before they could be kept; the archive states how many events those
    /// were.
    pub lost_bytes: u64,
}

/// Copies what the writers of a space commit into an archive. One per space at a time.
#[derive(Debug)]
pub struct Archiver {
    path: PathBuf,
    numbers: Numbers,
    taps: Vec<Tap>,
    store: Store,
    mirror: Option<Mirror>,
    options: ArchiveOptions,
    synced: Instant,
    progress: Progress,
}

impl Archiver {
    /// Begins to archive the space in `path`, as the consumer that its writers may wait for.
    ///
    /// # Errors
    /// When there is no space, or archives cannot be made beside it.
    pub fn open(path: impl AsRef<Path>) -> Result<Archiver, Error> {
        Archiver::with_options(path, ArchiveOptions::default())
    }

    /// The same, as the options say.
    ///
    /// # Errors
    /// As [`Archiver::open`], and when the directory of the archive holds something else.
    pub fn with_options(path: impl AsRef<Path>, options: ArchiveOptions) -> Result<Archiver, Error> {
        let path = path.as_ref().to_path_buf();
        let mirror = match &options.directory {
            Some(directory) => Some(Mirror::open(&path, directory)?),
            None => None,
        };
        let directory = options.directory.clone().unwrap_or_else(|| path.clone());
        let mut archiver = Archiver {
            store: Store::open(directory, options.clone())?,
            path,
            numbers: Numbers::of_rings(),
            taps: Vec::new(),
            mirror,
            options,
            synced: Instant::now(),
            progress: Progress::default(),
        };
        archiver.find_writers()?;
        Ok(archiver)
    }

    /// Archives the blocks that are complete, as far as the options do not let them wait; returns how many bytes were taken.
    ///
    /// # Errors
    /// When the disk is full ([`Error::is_full`]) or a file is damaged. What could not be archived is tried again by the next
    /// step; until then the writers wait, each as long as its policy says, and drop and count, unless
    /// [`Archiver::let_go`] says otherwise.
    pub fn step(&mut self) -> Result<u64, Error> {
        self.find_writers()?;
        let mut bytes = 0;
        let is_due = self.options.is_synced && self.synced.elapsed() >= self.options.interval;
        for tap in &mut self.taps {
            let head = tap.head()?;
            let limit = if is_due { head } else { head - head % tap.block_bytes() };
            let mirror = self.mirror.as_mut();
            bytes +=
                tap.copy_to(limit, is_due, &mut self.store, mirror, &self.options, &mut self.progress)?;
        }
        if is_due {
            if let Some(mirror) = &mut self.mirror {
                mirror.follow()?;
            }
            self.store.sync()?;
            self.synced = Instant::now();
        }
        Ok(bytes)
    }

    /// Lets no writer wait any more, also new ones: events without room are dropped and counted.
    ///
    /// # Errors
    /// When an element cannot be written any more.
    pub fn let_go(&mut self) -> Result<(), Error> {
        self.find_writers()?;
        self.taps.iter().try_for_each(Tap::let_go)
    }

    /// Lets writers wait again, after [`Archiver::let_go`].
    ///
    /// # Errors
    /// As there.
    pub fn hold(&mut self) -> Result<(), Error> {
        self.taps.iter().try_for_each(Tap::attach)
    }

    /// How many events the writers have dropped so far.
    ///
    /// # Errors
    /// When an element cannot be read any more.
    pub fn dropped(&self) -> Result<u64, Error> {
        self.taps.iter().map(Tap::dropped).sum()
    }

    /// What was done so far.
    pub fn progress(&self) -> Progress {
        Progress { bytes: self.store.bytes(), ..self.progress }
    }

    /// Archives all that is committed, and the final counts. Call it when the writers are closed, or when what they do from now on
    /// is not to be kept: those that wait for the archiver are let go.
    ///
    /// # Errors
    /// As [`Archiver::step`].
    pub fn finish(mut self) -> Result<(), Error> {
        // A space that was removed has no new writers.
        let found = self.find_writers();
        for tap in &mut self.taps {
            let mirror = self.mirror.as_mut();
            tap.finish(&mut self.store, mirror, &self.options, &mut self.progress)?;
        }
        if let Some(mirror) = &mut self.mirror {
            mirror.follow()?;
        }
        self.store.finish()?;
        match found {
            Err(error) if crate::directory::is_space(&self.path) => Err(error),
            _ => Ok(()),
        }
    }

    fn find_writers(&mut self) -> Result<(), Error> {
        let mut problem = None;
        for place in self.numbers.new_ones(&self.path, &mut problem)? {
            let Some(tap) = Tap::open(&self.path, &place, &self.store)? else { continue };
            if self.options.writers.as_ref().is_none_or(|glob| tap.is_called(&self.path, glob)) {
                tap.attach()?;
                if let Some(mirror) = &mut self.mirror {
                    // Opened now, since the space may be gone when the first of its events are written.
                    mirror.catalogs(place.id.file)?;
                }
                self.taps.push(tap);
            }
        }
        problem.map_or(Ok(()), Err)
    }
}
