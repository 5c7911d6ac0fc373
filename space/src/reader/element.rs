//! Reading one element: the reader's half of the block protocol.
//!
//! Read `head` (the events before it are complete), copy the block, then look whether the block still has its number:
//! if not, the writer came around meanwhile and the copy is discarded; the next block's first sequence tells how many
//! events were lost. Before the ring comes the archive, if there is one, at the same positions.

use crate::error::Error;
use crate::file;
use crate::layout::{PAGE, block, element, event};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A position beyond this (4 EiB) is nonsense.
const HEAD_MAX: u64 = 1 << 62;

/// What an element's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterInfo {
    /// The writer's number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The thread that made it.
    pub thread: u32,
    /// Policy: 0 overwrite, 1 drop newest, 2 wait.
    pub policy: u32,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Blocks.
    pub block_count: u64,
    /// Committed position in bytes since the start, block headers included.
    pub head: u64,
    /// Events dropped so far.
    pub drops: u64,
    /// Whether the writer closed it.
    pub closed: bool,
    /// Whether there is an archive.
    pub archived: bool,
}

/// An event found in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) time: u64,
    pub(super) sequence: u64,
    pub(super) kind: u16,
    pub(super) flags: u8,
    /// Where its arguments lie in the buffer.
    pub(super) from: usize,
    pub(super) to: usize,
}

/// What comes next in an element.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Event(Found),
    Gap { lost: u64, from_sequence: u64 },
    Nothing,
}

/// One file of blocks: the ring, or the archive.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) block_bytes: u64,
    /// 0: an archive, whose blocks do not come around.
    pub(crate) block_count: u64,
    pub(crate) header: Box<[u8; PAGE]>,
}

impl Blocks {
    /// Opens a file of blocks; `None` if there is none.
    pub(crate) fn open(path: PathBuf, archive: bool) -> Result<Option<Blocks>, Error> {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        let mut header = Box::new([0; PAGE]);
        file::read_exact_at(&file, &path, &mut header[..], 0)?;
        let magic = if archive { element::MAGIC_ARCHIVE } else { element::MAGIC_VALUE };
        file::check_magic(&path, &header[..], magic, if archive { "an archive" } else { "an element" })?;
        let sizes = file::word(&header[..], element::BLOCKS);
        let (block_bytes, block_count) = (sizes & 0xffff_ffff, sizes >> 32);
        let good = block_bytes.is_power_of_two()
            && (block::BYTES_MIN as u64..=block::BYTES_MAX as u64).contains(&block_bytes)
            && (archive && block_count == 0 || !archive && block_count >= 2);
        if !good {
            return Err(Error::new(format!(
                "{} is damaged: it claims {block_count} blocks of {block_bytes} bytes",
                path.display()
            )));
        }
        let needed = element::DATA as u64 + block_bytes * block_count;
        let there = file::length(&file, &path)?;
        if there < needed {
            return Err(Error::new(format!(
                "{} is truncated: it has {there} bytes of {needed}; the events in it are lost",
                path.display()
            )));
        }
        Ok(Some(Blocks { file, path, block_bytes, block_count, header }))
    }

    pub(crate) fn word(&self, at: usize) -> Result<u64, Error> {
        let mut word = [0; 8];
        file::read_exact_at(&self.file, &self.path, &mut word, at as u64)?;
        Ok(u64::from_le_bytes(word))
    }

    /// The committed position. One that no process can have reached is damage; refusing it keeps sums from overflowing.
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

    /// Where block `number` lies in the file.
    pub(crate) fn place(&self, number: u64) -> u64 {
        let slot = if self.block_count == 0 { number } else { number % self.block_count };
        element::DATA as u64 + slot * self.block_bytes
    }

    /// Copies the first `bytes` of block `number`; `false` if it is no longer, or not, there.
    pub(crate) fn copy(&self, number: u64, bytes: usize, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        buffer.resize(bytes, 0);
        let place = self.place(number);
        file::read_exact_at(&self.file, &self.path, buffer, place)?;
        if file::word(buffer, block::NUMBER) != number + 1 {
            return Ok(false);
        }
        // A system call lies between the two looks at the number: no load of the copy can move below it.
        Ok(self.word(place as usize)? == number + 1)
    }
}

/// Reads an element from its oldest event on, in the writer's order.
#[derive(Debug)]
pub(super) struct ElementReader {
    number: u32,
    directory: PathBuf,
    /// The ring; none when only the archive was kept.
    ring: Option<Blocks>,
    archive: Option<Blocks>,
    /// Position of the next event: bytes since the start.
    position: u64,
    /// Position up to which events were committed when last looked at.
    limit: u64,
    /// Up to where the archive has them.
    archived: u64,
    /// The current block's bytes from its start, as far as `limit` went when it was copied.
    buffer: Vec<u8>,
    /// Number of the block in the buffer.
    buffered: Option<u64>,
    base: u64,
    time: u64,
    /// Sequence of the next event.
    sequence: u64,
    /// Dropped events that were told of already.
    drops_told: u64,
    /// Dropped events, as the header said before `limit` was read.
    drops: u64,
    /// Look only at whole blocks, and leave the cache line of `head` to the writer.
    by_block: bool,
}

impl ElementReader {
    /// Opens element `number` of the space in `directory`; `None` if it has neither ring nor archive.
    pub(super) fn open(directory: &Path, number: u32) -> Result<Option<ElementReader>, Error> {
        let ring = Blocks::open(directory.join(format!("{number:04}.element")), false)?;
        let archive = Blocks::open(directory.join(format!("{number:04}.archive")), true)?;
        let (Some(first), second) = (ring.as_ref().or(archive.as_ref()), archive.as_ref()) else {
            return Ok(None);
        };
        if second.is_some_and(|archive| archive.block_bytes != first.block_bytes) {
            return Err(Error::new(format!(
                "{} and its archive disagree about the size of a block: one of them is damaged",
                first.path.display()
            )));
        }
        Ok(Some(ElementReader {
            number,
            directory: directory.to_path_buf(),
            ring,
            archive,
            position: 0,
            limit: 0,
            archived: 0,
            buffer: Vec::new(),
            buffered: None,
            base: 0,
            time: 0,
            sequence: 0,
            drops_told: 0,
            drops: 0,
            by_block: false,
        }))
    }

    fn main(&self) -> &Blocks {
        self.ring.as_ref().or(self.archive.as_ref()).expect("opened with one of the two")
    }

    pub(super) fn info(&mut self) -> Result<WriterInfo, Error> {
        self.look()?;
        let blocks = self.main();
        let word = |at| file::word(&blocks.header[..], at);
        Ok(WriterInfo {
            number: self.number,
            name: file::text(&blocks.header[..], element::NAME, element::NAME_BYTES),
            thread: (word(element::PROCESS) >> 32) as u32,
            policy: (word(element::VERSION) >> 32) as u32,
            block_bytes: blocks.block_bytes,
            block_count: blocks.block_count,
            head: self.limit,
            drops: self.drops,
            closed: blocks.word(element::STATE)? == 2,
            archived: self.archive.is_some(),
        })
    }

    /// Looks how far the writer (and the archive) has come.
    pub(super) fn look(&mut self) -> Result<(), Error> {
        if self.archive.is_none() {
            self.archive = Blocks::open(self.directory.join(format!("{:04}.archive", self.number)), true)?;
        }
        // Drops before head: drops happen between blocks, so those read first belong before what comes after `limit`.
        self.drops = self.main().word(element::DROPS)?;
        if !self.by_block || !self.look_at_blocks()? {
            self.limit = self.main().head()?;
        }
        self.look_at_archive()?;
        if self.ring.is_none() {
            self.limit = self.archived;
        }
        Ok(())
    }

    /// From now on only whole blocks are taken, until the writer closes.
    pub(super) fn follow_by_block(&mut self) {
        self.by_block = true;
    }

    /// Moves the limit over the blocks that are complete because the next one was opened. `false`: `head` must be read,
    /// since the writer has closed, or has come around.
    fn look_at_blocks(&mut self) -> Result<bool, Error> {
        let Some(ring) = &self.ring else { return Ok(false) };
        if ring.word(element::STATE)? != 1 {
            return Ok(false);
        }
        for _ in 0..ring.block_count {
            let number = self.limit.max(self.position) / ring.block_bytes;
            let next = ring.word(ring.place(number + 1) as usize + block::NUMBER)?;
            if next > number + 2 {
                return Ok(false);
            }
            if next != number + 2 {
                break;
            }
            self.limit = (number + 1) * ring.block_bytes;
        }
        Ok(true)
    }

    fn look_at_archive(&mut self) -> Result<(), Error> {
        if let Some(archive) = &self.archive {
            let room = file::length(&archive.file, &archive.path)?.saturating_sub(element::DATA as u64);
            self.archived = archive.head()?.min(room) & !7;
        }
        Ok(())
    }

    /// The arguments of a found event.
    pub(super) fn arguments(&self, found: &Found) -> &[u8] {
        &self.buffer[found.from..found.to]
    }

    /// The next event before the limit of the last look.
    pub(super) fn next(&mut self) -> Result<Next, Error> {
        loop {
            let block_bytes = self.main().block_bytes;
            let (number, offset) = (self.position / block_bytes, (self.position % block_bytes) as usize);
            if self.buffered == Some(number) && offset < self.buffer.len() {
                match self.parse(offset) {
                    Some(next) => return Ok(next),
                    None => continue,
                }
            }
            if self.position >= self.limit {
                return Ok(self.tail_drops());
            }
            if let Some(gap) = self.load(number)? {
                return Ok(gap);
            }
        }
    }

    /// Copies block `number`, or moves on to the next one that can be had. A gap in the sequence is returned.
    fn load(&mut self, number: u64) -> Result<Option<Next>, Error> {
        let block_bytes = self.main().block_bytes;
        let start = number * block_bytes;
        let bytes = (self.limit - start).min(block_bytes) as usize;
        if !self.copy(number, start, bytes)? {
            self.buffered = None;
            self.position = self.oldest(number + 1)? * block_bytes;
            return Ok(None);
        }
        if self.position > start {
            // More of a block that was read in part: base, time and sequence go on.
            self.buffered = Some(number);
            return Ok(None);
        }
        self.position = start + block::HEADER as u64;
        let first = file::word(&self.buffer, block::SEQUENCE);
        if bytes < block::HEADER || first < self.sequence {
            // A block that goes back is damage; what follows will tell how much was lost.
            self.buffered = None;
            self.position = start + block_bytes;
            return Ok(None);
        }
        self.buffered = Some(number);
        self.base = file::word(&self.buffer, block::BASE);
        self.time = self.base;
        self.drops_told = file::word(&self.buffer, block::DROPS);
        let from_sequence = self.sequence;
        self.sequence = first;
        Ok((first > from_sequence).then_some(Next::Gap { lost: first - from_sequence, from_sequence }))
    }

    fn copy(&mut self, number: u64, start: u64, bytes: usize) -> Result<bool, Error> {
        if bytes < block::HEADER {
            return Ok(false);
        }
        if let Some(archive) = self.archive.as_ref().filter(|_| start + bytes as u64 <= self.archived) {
            return archive.copy(number, bytes, &mut self.buffer);
        }
        let ring = self.ring.as_ref();
        if ring.map_or(Ok(false), |ring| ring.copy(number, bytes, &mut self.buffer))? {
            return Ok(true);
        }
        // The ring's block is gone, and the archive may have a part of it.
        let part = self.archived.saturating_sub(start).min(bytes as u64);
        match &self.archive {
            Some(archive) if part > (self.position - start).max(block::HEADER as u64) => {
                archive.copy(number, part as usize, &mut self.buffer)
            }
            _ => Ok(false),
        }
    }

    /// The first block from `number` on that may still be had.
    fn oldest(&mut self, number: u64) -> Result<u64, Error> {
        self.look_at_archive()?;
        let block_bytes = self.main().block_bytes;
        if number * block_bytes < self.archived {
            return Ok(number);
        }
        let Some(ring) = &self.ring else { return Ok(number) };
        let newest = ring.head()?.max(1).div_ceil(ring.block_bytes) - 1;
        Ok(number.max((newest + 1).saturating_sub(ring.block_count)))
    }

    /// The event at `offset` of the buffer; `None` after moving past something that is none.
    fn parse(&mut self, offset: usize) -> Option<Next> {
        let first = file::word(&self.buffer, offset);
        let (time, kind) = (first as u32, (first >> 32) as u16);
        let (words, flags) = ((first >> 48 & 0xfff) as usize, (first >> 60) as u8);
        let end = offset + 8 * words;
        if kind == event::KIND_PADDING && words == 0 {
            self.skip_block();
            return None;
        }
        if words == 0 || end > self.buffer.len() || (kind == event::KIND_FULL_TIME && words != 2) {
            // Damage: the rest of the block cannot be read. At least this event is lost; the next block tells the rest.
            self.skip_block();
            let from_sequence = self.sequence;
            self.sequence = self.sequence.saturating_add(1);
            return Some(Next::Gap { lost: 1, from_sequence });
        }
        self.position += 8 * words as u64;
        if kind == event::KIND_FULL_TIME {
            self.base = file::word(&self.buffer, offset + 8);
            return None;
        }
        if kind < event::KIND_FIRST {
            return None;
        }
        if flags & event::FLAG_SAME_TIME == 0 {
            self.time = self.base & !u64::from(u32::MAX) | u64::from(time);
        }
        let sequence = self.sequence;
        self.sequence = self.sequence.saturating_add(1);
        Some(Next::Event(Found { time: self.time, sequence, kind, flags, from: offset + 8, to: end }))
    }

    fn skip_block(&mut self) {
        let block_bytes = self.main().block_bytes;
        self.position = (self.position / block_bytes + 1) * block_bytes;
        self.buffered = None;
    }

    /// Events dropped after the last block was full.
    fn tail_drops(&mut self) -> Next {
        let lost = self.drops.saturating_sub(self.drops_told);
        if lost == 0 {
            return Next::Nothing;
        }
        let from_sequence = self.sequence;
        self.drops_told = self.drops;
        self.sequence = self.sequence.saturating_add(lost);
        Next::Gap { lost, from_sequence }
    }

    /// The time of the latest event.
    pub(super) fn time(&self) -> u64 {
        self.time
    }
}
