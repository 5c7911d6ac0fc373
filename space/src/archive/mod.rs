//! The archive: events that a consumer copied out of elements before they were overwritten.
//!
//! An [`Archiver`] copies the events that the writers of a space commit into *segments*: files with an index
//! and checksums, in which events are coded by columns and take 3 to 6 bytes each, instead of 32 to 42 in
//! elements. The segments lie beside the elements, or in a directory of their own that can be opened like the
//! space. By the element's `read_position` a writer with the policy *wait* or *drop newest* knows which
//! blocks it may overwrite. Readers read the archived events from the segments and continue in the ring. The
//! archived bytes are bit for bit those that the writer committed. `docs/archive.md` of the project describes
//! the files.
//!
//! Archives of former versions, `NNNN.archive`, can still be read: they have an element's header and the same
//! blocks at the same positions, but blocks are not recycled.
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
mod copy;
mod divisions;
mod kept;
mod mirror;
mod segment;
mod source;
mod store;
mod survey;
mod tap;

pub use copy::{ClockMap, SpaceCopy};
pub(crate) use kept::Kept;
pub use kept::{ArchiveInfo, of as info};
pub use source::{COPYING, SpaceSource};

use crate::error::Error;
use crate::reader::Numbers;
use mirror::Mirror;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::Store;
use tap::Tap;
use thalweg_glob::Glob;

/// Options of an archive.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// The directory of the archive: it does not exist yet, is empty, or holds an archive of the same space,
    /// which is continued. `None`: the archive lies in the space's directory, beside the elements.
    pub directory: Option<PathBuf>,
    /// Level of the compressor, 1 to 19; at 0 events are stored unchanged, which takes the least time and the
    /// most disk space.
    pub level: i32,
    /// Bytes after which a segment is finished and the next one begun.
    pub segment_bytes: u64,
    /// The number of bytes of an element in one chunk.
    pub chunk_bytes: usize,
    /// How long events may wait until they are written. Zero: each step writes all blocks that are complete.
    pub interval: Duration,
    /// Whether events that have waited as long as `interval` are written up to the last one (instead of the
    /// last complete block) and synced to the disk. If so, only the events of the last interval are lost when
    /// the machine fails.
    pub is_synced: bool,
    /// The most bytes of all segments together. If the segments have more bytes, the oldest are removed.
    pub bytes_max: Option<u64>,
    /// The age at which a segment is removed.
    pub age_max: Option<Duration>,
    /// A pattern of the names of writers; only their elements are archived. `None`: all elements are
    /// archived.
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

/// The progress of an archiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of archived events.
    pub events: u64,
    /// The bytes that the archived events took in the elements.
    pub event_bytes: u64,
    /// The current size of the archive in bytes.
    pub bytes: u64,
    /// Bytes of events that were overwritten before they could be archived. The archive states how many
    /// events these were.
    pub lost_bytes: u64,
}

/// Copies the events of a space into an archive. A space can have one archiver at a time.
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

    /// Begins to archive the space in `path` with these options.
    ///
    /// # Errors
    /// The errors of [`Archiver::open`], and an error when the directory of the archive holds other files.
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

    /// Archives complete blocks, except those that the options permit to wait; returns how many bytes were
    /// copied from elements. At most 4 MiB are taken from an element before the other elements, so that a
    /// writer that waits for room does not wait until the full rings of all others are archived.
    ///
    /// # Errors
    /// When the disk is full ([`Error::is_full`]) or a file is damaged. The next step tries again to archive
    /// the same blocks. Until a step succeeds, writers wait as long as their policies permit, and then drop
    /// and count events; after [`Archiver::let_go`] writers do not wait.
    pub fn step(&mut self) -> Result<u64, Error> {
        self.find_writers()?;
        let is_due = self.options.is_synced && self.synced.elapsed() >= self.options.interval;
        for tap in &mut self.taps {
            tap.look(is_due)?;
        }
        let mut bytes = 0;
        loop {
            let mut is_done = true;
            for tap in &mut self.taps {
                let mirror = self.mirror.as_mut();
                bytes += tap.copy_some(is_due, &mut self.store, mirror, &self.options, &mut self.progress)?;
                is_done &= tap.is_done();
            }
            // Events are synced up to the same moment in all elements.
            if is_done || !is_due {
                break;
            }
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

    /// The bytes that steps took from an element since the last call, divided by the size of the element's
    /// ring; of all elements, the largest. A ring from which 0.5 is taken each millisecond becomes full in 2
    /// ms.
    pub fn written_share(&mut self) -> f64 {
        self.taps.iter_mut().map(Tap::written_share).fold(0.0, f64::max)
    }

    /// Makes all writers, also new ones, stop waiting: events that do not fit are dropped and counted.
    ///
    /// # Errors
    /// When an element cannot be written any more.
    pub fn let_go(&mut self) -> Result<(), Error> {
        self.find_writers()?;
        self.taps.iter().try_for_each(Tap::let_go)
    }

    /// Makes writers wait again, after [`Archiver::let_go`].
    ///
    /// # Errors
    /// As [`Archiver::let_go`].
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

    /// What was archived so far.
    pub fn progress(&self) -> Progress {
        Progress { bytes: self.store.bytes(), ..self.progress }
    }

    /// Archives all committed events and the final counts, and makes waiting writers stop waiting. To be
    /// called when the writers are closed, or when later events need not be archived.
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
                    // The catalogs are opened now, because the space may have been removed when the element's
                    // first events are written.
                    mirror.catalogs(place.id.file)?;
                }
                self.taps.push(tap);
            }
        }
        problem.map_or(Ok(()), Err)
    }
}
