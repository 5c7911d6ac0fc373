//! Where the blocks of an element lie: in a ring (a file of its own, or a place in a pool), in an archive of former versions, or coded in
//! segments.

use crate::archive::Kept;
use crate::error::Error;
use crate::file;
use crate::layout::{block, element, pool};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The largest valid position (4 EiB); a larger one is damage.
pub(super) const HEAD_MAX: u64 = 1 << 62;

/// Identifies an element of a space: by the number in its file's name and, in a pool, by its index there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ElementId {
    /// The number of the file, and of the catalog with its kinds.
    pub(crate) file: u32,
    pub(crate) slot: Option<u32>,
}

/// An element that was found in a space.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) id: ElementId,
    pub(crate) pool: Option<Arc<PoolFile>>,
    /// The directory of the element and of its archive.
    pub(crate) directory: Arc<Path>,
    /// The segments of the space's archive, once there are any.
    pub(crate) kept: KeptCell,
}

/// The segments of a space's archive, once there are any.
pub(crate) type KeptCell = Arc<OnceLock<Arc<Kept>>>;

impl Place {
    pub(crate) fn archive(&self) -> PathBuf {
        self.directory.join(match self.id.slot {
            None => format!("{:04}.archive", self.id.file),
            Some(slot) => format!("{:04}-{slot:04}.archive", self.id.file),
        })
    }
}

/// A pool, opened.
#[derive(Debug)]
pub(crate) struct PoolFile {
    pub(crate) number: u32,
    pub(crate) file: Arc<File>,
    pub(crate) path: Arc<Path>,
    block_bytes: u64,
    block_count: u64,
    pub(crate) slots: u32,
}

impl PoolFile {
    pub(crate) fn open(path: PathBuf, number: u32) -> Result<PoolFile, Error> {
        let file = file::open_to_read(&path).map_err(|e| Error::io("open", &path, e))?;
        let mut header = [0; pool::USED + 8];
        file::read_exact_at(&file, &path, &mut header, 0)?;
        file::check_magic(&path, &header, pool::MAGIC_VALUE, "a pool")?;
        let (block_bytes, block_count) = checked_blocks(&path, file::word(&header, pool::BLOCKS), false)?;
        let slots = file::word(&header, pool::SLOTS);
        if !(1..=pool::SLOTS_MAX as u64).contains(&slots) {
            return Err(Error::new(format!("{} is damaged: it claims {slots} elements", path.display())));
        }
        let slot_bytes = element::HEADER as u64 + block_bytes * block_count;
        let needed = (pool::elements(slots as usize) as u64).saturating_add(slots.saturating_mul(slot_bytes));
        check_length(&file, &path, needed)?;
        Ok(PoolFile {
            number,
            file: Arc::new(file),
            path: path.into(),
            block_bytes,
            block_count,
            slots: slots as u32,
        })
    }

    /// How many elements of the pool have ever been in use.
    pub(crate) fn used(&self) -> Result<u32, Error> {
        let mut word = [0; 8];
        file::read_exact_at(&self.file, &self.path, &mut word, pool::USED as u64)?;
        Ok(u64::from_le_bytes(word).min(u64::from(self.slots)) as u32)
    }
}

/// The constant fields of an element's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    /// The number of the first writer.
    pub(super) writer: u32,
    /// The element's owner when it was opened.
    pub(super) owner: u64,
    pub(super) policy: u32,
}

impl Fixed {
    fn of(header: &[u8]) -> Fixed {
        Fixed {
            writer: file::word(header, element::WRITER) as u32,
            owner: file::word(header, element::OWNER),
            policy: (file::word(header, element::VERSION) >> 32) as u32,
        }
    }
}

/// The words of an element's header that change when there is something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changing {
    head: u64,
    pub(super) drops: u64,
    state: u64,
    discarded: u64,
}

/// One file of blocks: the ring, or the archive.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub(crate) file: Arc<File>,
    pub(crate) path: Arc<Path>,
    /// Where the element's header lies in the file, and where its blocks begin.
    pub(crate) start: u64,
    data: u64,
    pub(crate) block_bytes: u64,
    /// The number of blocks; 0 for an archive, in which blocks are not recycled.
    pub(crate) block_count: u64,
    pub(super) fixed: Fixed,
    /// The segments that hold the coded blocks, if the blocks do not lie in the file.
    pub(super) kept: Option<(Arc<Kept>, ElementId)>,
}

impl Blocks {
    /// Opens a file of blocks; `None` if there is none.
    pub(crate) fn open(path: PathBuf, archive: bool) -> Result<Option<Blocks>, Error> {
        let file = match file::open_to_read(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        let mut header = [0; element::HEADER];
        file::read_exact_at(&file, &path, &mut header[..], 0)?;
        let magic = if archive { element::MAGIC_ARCHIVE } else { element::MAGIC_VALUE };
        file::check_magic(&path, &header[..], magic, if archive { "an archive" } else { "an element" })?;
        let (block_bytes, block_count) =
            checked_blocks(&path, file::word(&header[..], element::BLOCKS), archive)?;
        check_length(&file, &path, (element::DATA as u64).saturating_add(block_bytes * block_count))?;
        let (start, data) = (0, element::DATA as u64);
        let (file, path, fixed) = (Arc::new(file), path.into(), Fixed::of(&header));
        Ok(Some(Blocks { file, path, start, data, block_bytes, block_count, fixed, kept: None }))
    }

    /// The element at place `slot` of a pool.
    pub(crate) fn in_pool(pool: &PoolFile, slot: u32) -> Result<Blocks, Error> {
        let PoolFile { block_bytes, block_count, .. } = *pool;
        let slot_bytes = element::HEADER as u64 + block_bytes * block_count;
        let start = pool::elements(pool.slots as usize) as u64 + u64::from(slot) * slot_bytes;
        let mut header = [0; element::HEADER];
        file::read_exact_at(&pool.file, &pool.path, &mut header[..], start)?;
        file::check_magic(&pool.path, &header[..], element::MAGIC_VALUE, "a pool with elements")?;
        let (file, path, data) = (pool.file.clone(), pool.path.clone(), start + element::HEADER as u64);
        let fixed = Fixed::of(&header);
        Ok(Blocks { file, path, start, data, block_bytes, block_count, fixed, kept: None })
    }

    /// The element at `place`; `None` if it has no ring.
    pub(crate) fn ring(place: &Place) -> Result<Option<Blocks>, Error> {
        match (&place.pool, place.id.slot) {
            (Some(pool), Some(slot)) => Blocks::in_pool(pool, slot).map(Some),
            (None, Some(_)) => Ok(None),
            _ => Blocks::open(place.directory.join(format!("{:04}.element", place.id.file)), false),
        }
    }

    /// The archive of the element at `place`: its blocks in segments, or in a file as former versions wrote
    /// them.
    pub(super) fn archived(place: &Place) -> Result<Option<Blocks>, Error> {
        let Some(kept) = place.kept.get() else { return Blocks::open(place.archive(), true) };
        let Some(header) = kept.header(place.id) else { return Blocks::open(place.archive(), true) };
        let path = kept.path.clone();
        let (block_bytes, block_count) =
            checked_blocks(&path, file::word(&header[..], element::BLOCKS), true)?;
        let file = Arc::new(file::open_to_read(&path).map_err(|e| Error::io("open", &path, e))?);
        let kept = Some((kept.clone(), place.id));
        Ok(Some(Blocks {
            file,
            path: path.into(),
            start: 0,
            data: 0,
            block_bytes,
            block_count,
            fixed: Fixed::of(&header[..]),
            kept,
        }))
    }

    /// The position up to which an archive has blocks.
    pub(super) fn archived_to(&self) -> Result<u64, Error> {
        if self.kept.is_some() {
            return self.head();
        }
        let room = file::length(&self.file, &self.path)?.saturating_sub(element::DATA as u64);
        Ok(self.head()?.min(room) & !7)
    }

    /// Returns an error if these blocks cannot be the archive of `ring`.
    pub(super) fn check_beside(&self, ring: &Blocks) -> Result<(), Error> {
        if self.block_bytes == ring.block_bytes {
            return Ok(());
        }
        Err(Error::new(format!(
            "{} and its archive disagree about the size of a block: one of them is damaged",
            ring.path.display()
        )))
    }

    /// The current header of a ring.
    pub(crate) fn header(&self) -> Result<Box<[u8; element::HEADER]>, Error> {
        let mut header = Box::new([0; element::HEADER]);
        file::read_exact_at(&self.file, &self.path, &mut header[..], self.start)?;
        Ok(header)
    }

    /// The number of the element's [`Policy`](crate::Policy), which states what happens when the oldest block
    /// was not read.
    pub(crate) fn policy(&self) -> u32 {
        self.fixed.policy
    }

    /// A word of the header.
    pub(crate) fn word(&self, at: usize) -> Result<u64, Error> {
        if let Some((kept, id)) = &self.kept {
            return Ok(kept.word(*id, at));
        }
        self.word_at(self.start + at as u64)
    }

    pub(super) fn word_at(&self, at: u64) -> Result<u64, Error> {
        let mut word = [0; 8];
        file::read_exact_at(&self.file, &self.path, &mut word, at)?;
        Ok(u64::from_le_bytes(word))
    }

    /// The committed position. A position that no process can have reached is damage; refusing it keeps sums from
    /// overflowing.
    pub(crate) fn head(&self) -> Result<u64, Error> {
        let head = self.word(element::HEAD)?;
        if head > HEAD_MAX {
            return Err(Error::new(format!(
                "{} is damaged: it claims {head} bytes of events",
                self.path.display()
            )));
        }
        Ok(head & !7)
    }

    /// The words of a ring's header that change, loaded in any order by one system call; `None` for an
    /// archive.
    pub(super) fn changing(&self) -> Result<Option<Changing>, Error> {
        if self.block_count == 0 {
            return Ok(None);
        }
        let mut words = [0; element::READ_POSITION - element::HEAD];
        file::read_exact_at(&self.file, &self.path, &mut words, self.start + element::HEAD as u64)?;
        let word = |at: usize| file::word(&words, at - element::HEAD);
        let [head, drops, state, discarded] =
            [element::HEAD, element::DROPS, element::STATE, element::DISCARDED].map(word);
        Ok(Some(Changing { head, drops, state, discarded }))
    }

    /// Where block `number` lies in the file.
    pub(crate) fn place(&self, number: u64) -> u64 {
        let slot = if self.block_count == 0 { number } else { number % self.block_count };
        self.data + slot * self.block_bytes
    }

    /// The first block from `number` on, before `end`, into which anything was ever written; `end` if there
    /// is none. Examines all blocks of the ring at most.
    pub(crate) fn next_written(&self, number: u64, end: u64) -> u64 {
        if let Some((kept, id)) = &self.kept {
            return kept.next_written(*id, number, end);
        }
        let place = self.place(number);
        let found = match file::next_data(&self.file, place) {
            Some(data) => number + data.saturating_sub(place) / self.block_bytes,
            None => end,
        };
        // The block after a ring's last one lies at the place of the first.
        let turn = number.checked_div(self.block_count).map_or(end, |turns| (turns + 1) * self.block_count);
        found.min(turn).min(end)
    }

    /// Copies the first `bytes` bytes of block `number`; `false` if the block was overwritten or does not
    /// exist. A block that was overwritten while it was archived may have fewer bytes in a segment.
    pub(crate) fn copy(&self, number: u64, bytes: usize, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        if let Some((kept, id)) = &self.kept {
            return kept.copy(*id, number, bytes, buffer);
        }
        buffer.resize(bytes, 0);
        let place = self.place(number);
        file::read_exact_at(&self.file, &self.path, buffer, place)?;
        if file::word(buffer, block::NUMBER) != number + 1 {
            return Ok(false);
        }
        // The copy is made by a system call, so none of its loads can move behind the second load of the
        // number.
        Ok(self.word_at(place)? == number + 1)
    }
}

fn checked_blocks(path: &Path, sizes: u64, archive: bool) -> Result<(u64, u64), Error> {
    let (block_bytes, block_count) = (sizes & 0xffff_ffff, sizes >> 32);
    let good = block_bytes.is_power_of_two()
        && (block::BYTES_MIN as u64..=block::BYTES_MAX as u64).contains(&block_bytes)
        && (archive && block_count == 0 || !archive && block_count >= 2);
    if good {
        return Ok((block_bytes, block_count));
    }
    Err(Error::new(format!(
        "{} is damaged: it claims {block_count} blocks of {block_bytes} bytes",
        path.display()
    )))
}

fn check_length(file: &File, path: &Path, needed: u64) -> Result<(), Error> {
    let there = file::length(file, path)?;
    if there >= needed {
        return Ok(());
    }
    Err(Error::new(format!(
        "{} is truncated: it has {there} bytes of {needed}; the events in it are lost",
        path.display()
    )))
}
