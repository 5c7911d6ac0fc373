//! Reading one element: the reader's half of the block protocol.
//!
//! A reader loads `head` (the events before it are complete), copies the block, and then checks that the
//! block still has its number. If the number has changed, the writer has recycled the block meanwhile, and
//! the reader discards the copy; the first sequence number of the next block shows how many events were lost.
//! An archive, if there is one, holds the blocks before those of the ring, at the same positions.
//!
//! The parts of a continued event are joined in a buffer of their own, and the event is returned when its
//! last part was read. If a part was overwritten, the whole event is lost.

use super::blocks::{Blocks, Changing, HEAD_MAX, Place};
use super::consumer::Consumer;
use crate::error::Error;
use crate::file;
use crate::kind::NameRef;
use crate::layout::{block, element, event};
use std::sync::Arc;

/// The contents of an element's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterInfo {
    /// The number of the element's current or latest writer.
    pub number: u32,
    /// The writer's name.
    pub name: String,
    /// The thread that made the writer.
    pub thread: u32,
    /// How many writers have had the element, this one included.
    pub generation: u64,
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
    /// Whether the writer closed the element.
    pub closed: bool,
    /// Whether there is an archive.
    pub archived: bool,
}

/// An event found in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) owner: Owner,
    pub(super) time: u64,
    pub(super) sequence: u64,
    pub(super) kind: u16,
    pub(super) flags: u8,
    /// Where the event's arguments lie in the buffer of the block, or in the buffer of continued events.
    pub(super) from: usize,
    pub(super) to: usize,
    is_long: bool,
}

/// Where to begin to read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// At this time, in ticks.
    Time(u64),
    /// Begin with the block that holds this time, in ticks.
    Block(u64),
    /// At the event of this sequence.
    Sequence(u64),
}

impl Start {
    /// Whether the start may lie in a block with this base and first sequence number, or in a later block.
    fn is_behind(self, base: u64, first_sequence: u64) -> bool {
        match self {
            Start::Time(time) | Start::Block(time) => base < time,
            Start::Sequence(sequence) => first_sequence <= sequence,
        }
    }
}

/// The writer of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) number: u32,
    pub(super) thread: u32,
    pub(super) name: NameRef,
}

impl Owner {
    fn new(word: u64, name: u64) -> Owner {
        Owner { number: word as u32, thread: (word >> 32) as u32, name: NameRef(name) }
    }
}

/// What comes next in an element.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Event(Found),
    Gap { writer: u32, lost: u64, from_sequence: u64, kind_unknown: bool },
    Nothing,
}

/// Reads an element from its oldest event on, in the writer's order.
#[derive(Debug)]
pub(super) struct ElementReader {
    place: Place,
    /// The ring; none when only the archive was kept.
    ring: Option<Blocks>,
    /// Boxed, because it is seldom used and there are thousands of elements.
    archive: Option<Box<Blocks>>,
    /// Position of the next event: bytes since the start.
    position: u64,
    /// Position up to which events were committed when the header was last read.
    limit: u64,
    /// The header's changing words when the ring was last looked at.
    seen: Option<Changing>,
    /// Position up to which the archive has blocks.
    archived: u64,
    /// The current block's bytes from its start, as far as `limit` went when it was copied.
    buffer: Vec<u8>,
    /// Number of the block in the buffer, and the position that it begins at.
    buffered: Option<u64>,
    buffer_start: u64,
    /// An event that was not read to its last part yet, with its arguments so far. Boxed, because events
    /// that are read in several parts are rare.
    begun: Option<Box<Found>>,
    long: Vec<u8>,
    base: u64,
    time: u64,
    /// Sequence number of the next event, counted from the element's first event.
    sequence: u64,
    /// The writer of the next event, and the sequence number of that writer's first event.
    owner: Owner,
    owner_sequence: u64,
    /// A second gap, to be returned after the first.
    gap: Option<Box<Next>>,
    /// Dropped events that were reported already.
    drops_reported: u64,
    /// The number of dropped events in the header, read before `limit`.
    drops: u64,
    /// Where reading is to begin; `None` after that place was searched.
    start: Option<Start>,
    first: Option<Start>,
    /// Whether only complete blocks are read, without loading `head`, so that its cache line stays with the
    /// writer.
    by_block: bool,
    /// Blocks that begin after this time are not read; `is_past_last` reports whether there was one.
    last: u64,
    is_past_last: bool,
    /// The time before which events after the start that was set are overwritten.
    overwritten_until: Option<u64>,
    outline: Option<Outline>,
    /// The consumer for which the writer waits, if this reader is one. Boxed, because it is seldom used.
    consumer: Option<Box<Consumer>>,
    /// The position from which on the outline leaves out nothing; `None` until it was searched.
    whole_from: Option<u64>,
}

/// A filter that leaves out events of some kinds before a time.
#[derive(Clone, Debug)]
pub(super) struct Outline {
    /// In ticks.
    pub(super) until: u64,
    /// Whether each kind is left out, by its number; kinds beyond the end of the list are included.
    pub(super) left_out: Arc<[bool]>,
}

impl Outline {
    fn leaves_out(&self, kind: u16) -> bool {
        self.left_out.get(usize::from(kind)).copied().unwrap_or(false)
    }
}

impl ElementReader {
    /// Opens the element at `place`; `None` if it has neither ring nor archive.
    pub(super) fn open(place: &Place) -> Result<Option<ElementReader>, Error> {
        let ring = Blocks::ring(place)?;
        let archive = Blocks::archived(place)?;
        let archive = archive.map(Box::new);
        let (Some(first), second) = (ring.as_ref().or(archive.as_deref()), archive.as_deref()) else {
            return Ok(None);
        };
        if let Some(archive) = second {
            archive.check_beside(first)?;
        }
        // The first owner's blocks do not name their owner, and the header names only the current one.
        let number = first.fixed.writer;
        let owner = Owner::new(first.fixed.owner, 0);
        let owner = match first.word(element::GENERATION)? {
            0 | 1 => Owner { name: NameRef(first.word(element::OWNER_NAME)?), ..owner },
            _ => Owner { number, ..Owner::default() },
        };
        Ok(Some(ElementReader {
            place: place.clone(),
            ring,
            archive,
            position: 0,
            limit: 0,
            archived: 0,
            buffer: Vec::new(),
            buffered: None,
            buffer_start: 0,
            begun: None,
            long: Vec::new(),
            base: 0,
            time: 0,
            sequence: 0,
            owner: Owner { number, ..owner },
            owner_sequence: 0,
            gap: None,
            drops_reported: 0,
            drops: 0,
            start: None,
            first: None,
            by_block: false,
            last: u64::MAX,
            is_past_last: false,
            seen: None,
            overwritten_until: None,
            outline: None,
            consumer: None,
            whole_from: None,
        }))
    }

    /// Frees the blocks of which all events were handed over, for a writer that waits for its consumer.
    pub(super) fn consume(&mut self) -> Result<(), Error> {
        let Some(ring) = &self.ring else { return Ok(()) };
        if self.consumer.is_none() {
            self.consumer = Some(Box::new(Consumer::begin(&ring.path, ring.start)?));
        }
        // An event in the block that ends here may have been found and not handed over yet.
        let done = self.position.saturating_sub(1) / ring.block_bytes * ring.block_bytes;
        self.consumer.as_mut().map_or(Ok(()), |consumer| consumer.release(done))
    }

    fn main(&self) -> &Blocks {
        self.ring.as_ref().or(self.archive.as_deref()).expect("opened with one of the two")
    }

    /// The contents of the header, and the reference to the writer's name.
    pub(super) fn info(&mut self) -> Result<(WriterInfo, NameRef), Error> {
        self.look()?;
        let blocks = self.main();
        let owner = Owner::new(blocks.word(element::OWNER)?, blocks.word(element::OWNER_NAME)?);
        let info = WriterInfo {
            number: owner.number,
            name: String::new(),
            thread: owner.thread,
            generation: blocks.word(element::GENERATION)?,
            policy: blocks.fixed.policy,
            block_bytes: blocks.block_bytes,
            block_count: blocks.block_count,
            head: self.limit,
            drops: self.drops,
            closed: blocks.word(element::STATE)? == 2,
            archived: self.archive.is_some(),
        };
        Ok((info, owner.name))
    }

    /// Loads the positions that the writer and the archive have reached.
    pub(super) fn look(&mut self) -> Result<(), Error> {
        self.look_at_archive(false)?;
        let seen = self.main().changing()?;
        // Most elements of a space are idle, and have nothing new.
        let is_set_up = self.start.is_none() && (self.outline.is_none() || self.whole_from.is_some());
        if seen.is_some() && self.seen == seen && is_set_up && !self.by_block {
            return Ok(());
        }
        // The number of drops is loaded before `head`: events are dropped between blocks, so the drops that
        // are counted here precede all events after `limit`.
        self.drops = seen.map_or_else(|| self.main().word(element::DROPS), |seen| Ok(seen.drops))?;
        if self.by_block && self.look_at_blocks()? {
            // The header of the next block shows the events dropped after the last complete block.
            self.drops = 0;
        } else {
            self.limit = self.main().head()?;
        }
        if self.ring.is_none() {
            self.limit = self.archived;
        }
        self.skip_discarded()?;
        if self.limit > 0
            && let Some(start) = self.start.take()
        {
            self.first = Some(start);
            self.seek(start)?;
        }
        self.find_whole()?;
        self.seen = seen;
        Ok(())
    }

    /// Skips events that the writer discarded, without counting them as lost.
    fn skip_discarded(&mut self) -> Result<(), Error> {
        let blocks = self.main();
        let discarded = blocks.word(element::DISCARDED)?;
        if discarded <= self.position || discarded > HEAD_MAX || !discarded.is_multiple_of(blocks.block_bytes)
        {
            return Ok(());
        }
        let sequence = blocks.word(element::DISCARDED_SEQUENCE)?;
        (self.position, self.buffered, self.begun, self.gap) = (discarded, None, None, None);
        self.sequence = self.sequence.max(sequence);
        self.drops_reported = self.drops_reported.max(self.drops);
        Ok(())
    }

    /// Sets where to begin. The place is searched once, when there are events.
    pub(super) fn start_at(&mut self, start: Start) {
        self.start = Some(start);
    }

    /// Whether an event precedes the start that was set.
    pub(super) fn is_before_start(&mut self, found: &Found) -> bool {
        let before = match self.first {
            None | Some(Start::Block(_)) => return false,
            Some(Start::Time(time)) => found.time < time,
            Some(Start::Sequence(sequence)) => {
                found.owner.number == self.first_writer() && found.sequence < sequence
            }
        };
        if !before {
            self.first = None;
        }
        before
    }

    /// From now on leaves out the events of the kinds that the outline leaves out, in all blocks that end
    /// before the outline's time. The block that holds the time is read without the outline, because an event
    /// may depend on data that an earlier event of the same block states.
    pub(super) fn outline(&mut self, outline: Outline) {
        if self.whole_from.is_none_or(|from| self.position < from) {
            self.outline = Some(outline);
        }
    }

    /// Finds the beginning of the block that holds the outline's end.
    fn find_whole(&mut self) -> Result<(), Error> {
        if let Some(outline) = self.outline.as_ref().filter(|_| self.whole_from.is_none() && self.limit > 0) {
            let block = self.last_behind(Start::Block(outline.until))?;
            self.whole_from = Some(block * self.main().block_bytes);
        }
        Ok(())
    }

    /// Whether the outline leaves out the event.
    pub(super) fn is_left_out(&self, found: &Found) -> bool {
        self.outline.as_ref().is_some_and(|outline| outline.leaves_out(found.kind))
    }

    /// Skips chunks of the archive that have no event of the outline; returns whether there were any.
    fn pass_over(&mut self) -> bool {
        let (Some(outline), Some(whole_from), Some(Blocks { kept: Some((kept, id)), .. }), None) =
            (&self.outline, self.whole_from, self.archive.as_deref(), &self.begun)
        else {
            return false;
        };
        let limit = whole_from.min(self.limit);
        let passed = kept.passed(*id, (self.position, limit), |kind| outline.leaves_out(kind));
        let Some((to, events)) = passed else { return false };
        self.position = to;
        self.sequence = self.sequence.saturating_add(events);
        self.buffered = None;
        true
    }

    /// Whether an event or block after the end was met.
    pub(super) fn is_past_last(&self) -> bool {
        self.is_past_last
    }

    /// The time, in ticks, before which events after the start that was set are overwritten; `None` if all
    /// events after the start are there, or if events are missing only later, where gaps show them.
    pub(super) fn overwritten_until(&self) -> Option<u64> {
        self.overwritten_until
    }

    /// Sets the time at which reading ends: blocks that begin later are not read.
    pub(super) fn end_at(&mut self, last: u64) {
        self.last = last;
    }

    /// The number of the element's first writer.
    pub(super) fn first_writer(&self) -> u32 {
        self.main().fixed.writer
    }

    /// Reads only complete blocks from now on, until the writer closes.
    pub(super) fn follow_by_block(&mut self) {
        self.by_block = true;
    }

    /// Moves the limit over the blocks that are complete because the next one was opened. `false`: `head`
    /// must be read, since the writer has closed, or has recycled the blocks.
    fn look_at_blocks(&mut self) -> Result<bool, Error> {
        let Some(ring) = &self.ring else { return Ok(false) };
        if ring.word(element::STATE)? != 1 {
            return Ok(false);
        }
        for _ in 0..ring.block_count {
            let number = self.limit.max(self.position) / ring.block_bytes;
            let next = ring.word_at(ring.place(number + 1) + block::NUMBER as u64)?;
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

    /// Updates the position up to which the archive has blocks; `anew`: also looks for segments that appeared
    /// since the last search.
    fn look_at_archive(&mut self, anew: bool) -> Result<(), Error> {
        if anew && let Some(kept) = self.place.kept.get() {
            kept.look()?;
        }
        // Where there are no segments, an archive of a former version is searched when events were
        // overwritten.
        let may_have = anew || self.limit == 0 || self.ring.is_none() || self.place.kept.get().is_some();
        if self.archive.is_none()
            && may_have
            && let Some(archive) = Blocks::archived(&self.place)?
        {
            archive.check_beside(self.main())?;
            self.archive = Some(Box::new(archive));
        }
        if let Some(archive) = &self.archive {
            self.archived = archive.archived_to()?;
        }
        Ok(())
    }

    /// The last block that begins at or before `start`; if there is none, the oldest block.
    fn last_behind(&mut self, start: Start) -> Result<u64, Error> {
        let end = self.limit.div_ceil(self.main().block_bytes);
        let (mut low, mut high) = (self.oldest_held(end)?, end);
        if let Some(Blocks { kept: Some((kept, id)), .. }) = self.archive.as_deref() {
            // The index of the segments shows which chunk holds the start.
            let (first, behind) =
                kept.narrowed(*id, |base, sequence| start.is_behind(base, sequence)).unwrap_or((low, None));
            (low, high) = (low.max(first), behind.map_or(high, |behind| high.min(behind)));
        }
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            // A block that is missing was overwritten, and so were all before it.
            let before = match self.block_header(middle)? {
                Some(header) => {
                    start.is_behind(file::word(&header, block::BASE), file::word(&header, block::SEQUENCE))
                }
                None => true,
            };
            if before { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// Skips the blocks that end before `start`, by reading only their headers. The events of skipped blocks
    /// do not count as lost. If the oldest block begins after `start`, its time is noted.
    fn seek(&mut self, start: Start) -> Result<(), Error> {
        let low = self.last_behind(start)?;
        let block_bytes = self.main().block_bytes;
        let Some(header) = self.block_header(low)? else { return Ok(()) };
        let (base, first) = (file::word(&header, block::BASE), file::word(&header, block::SEQUENCE));
        if low > 0 && !start.is_behind(base, first) {
            self.overwritten_until = Some(base);
        }
        if low * block_bytes > self.position {
            self.position = low * block_bytes;
            // Events after a start that is a sequence number count as lost if they were overwritten.
            self.sequence = if let Start::Sequence(asked) = start { asked.min(first) } else { first };
            (self.buffered, self.begun, self.gap) = (None, None, None);
        }
        Ok(())
    }

    /// Moves to the block that the writer fills at present, if the writer has filled a block or more since the
    /// last event that was read. The events passed over do not count as lost; a gap of no lost events stands
    /// for them.
    pub(super) fn leave_out(&mut self) -> Result<(), Error> {
        let block_bytes = self.main().block_bytes;
        let number = self.limit.saturating_sub(1) / block_bytes;
        if number * block_bytes < self.position.saturating_add(block_bytes) {
            return Ok(());
        }
        let Some(header) = self.block_header(number)? else { return Ok(()) };
        let from_sequence = self.sequence.saturating_sub(self.owner_sequence);
        let gap = Next::Gap { writer: self.owner.number, lost: 0, from_sequence, kind_unknown: false };
        self.sequence = file::word(&header, block::SEQUENCE);
        (self.position, self.buffered, self.begun) = (number * block_bytes, None, None);
        self.gap = Some(Box::new(gap));
        Ok(())
    }

    /// The header of block `number`, from the archive or the ring.
    fn block_header(&mut self, number: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut header = Vec::new();
        let end = number * self.main().block_bytes + block::HEADER as u64;
        let archive = self.archive.as_deref().filter(|_| end <= self.archived);
        for blocks in [archive, self.ring.as_ref()].into_iter().flatten() {
            if blocks.copy(number, block::HEADER, &mut header)? {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// The first block before block `end` that may not be overwritten yet.
    fn oldest_held(&self, end: u64) -> Result<u64, Error> {
        let ring = self.ring.as_ref().map_or(0, |ring| end.saturating_sub(ring.block_count));
        Ok(if self.archived > 0 { 0 } else { ring })
    }

    /// Moves to the block `back` blocks before the last committed one, and skips all before. Returns whether
    /// there is an earlier block, in which an event at the end may have begun.
    pub(super) fn start_at_last_block(&mut self, back: u64) -> Result<bool, Error> {
        self.look()?;
        let end = self.limit.div_ceil(self.main().block_bytes);
        let oldest = self.oldest_held(end)?;
        // Even a block that is in the buffer already is read again from its beginning, because later times
        // depend on its base.
        let first = end.saturating_sub(back + 1).max(oldest);
        self.position = first * self.main().block_bytes;
        (self.buffered, self.begun, self.gap, self.sequence) = (None, None, None, 0);
        self.skip_discarded()?;
        Ok(first > oldest && back * self.main().block_bytes < 2 * event::ARGUMENT_BYTES_MAX as u64)
    }

    /// The arguments of a found event.
    pub(super) fn arguments(&self, found: &Found) -> &[u8] {
        let buffer = if found.is_long { &self.long } else { &self.buffer };
        &buffer[found.from..found.to]
    }

    /// The next event, if it lies in the buffer and needs no special treatment; `None`: the caller has to use
    /// the general path, [`ElementReader::next`].
    #[inline]
    pub(super) fn next_plain(&mut self) -> Option<Found> {
        let is_special = self.gap.is_some()
            || self.begun.is_some()
            || self.first.is_some()
            || self.outline.is_some()
            || self.buffered.is_none();
        if is_special {
            return None;
        }
        let offset = usize::try_from(self.position.wrapping_sub(self.buffer_start)).ok()?;
        let first = u64::from_le_bytes(*self.buffer.get(offset..)?.first_chunk()?);
        let (kind, words, flags) =
            ((first >> 32) as u16, (first >> 48 & 0xfff) as usize, (first >> 60) as u8);
        let end = offset + 8 * words;
        let is_plain = kind >= event::KIND_FIRST
            && words > 0
            && end <= self.buffer.len()
            && flags & event::FLAG_CONTINUED == 0;
        if !is_plain {
            return None;
        }
        self.position += 8 * words as u64;
        if flags & event::FLAG_SAME_TIME == 0 {
            self.time = self.base & !u64::from(u32::MAX) | first & u64::from(u32::MAX);
        }
        let sequence = self.sequence.saturating_sub(self.owner_sequence);
        self.sequence = self.sequence.saturating_add(1);
        let (time, owner, from) = (self.time, self.owner, offset + 8);
        Some(Found { owner, time, sequence, kind, flags, from, to: end, is_long: false })
    }

    /// The next event before the limit that [`ElementReader::look`] set.
    pub(super) fn next(&mut self) -> Result<Next, Error> {
        if let Some(gap) = self.gap.take() {
            return Ok(*gap);
        }
        loop {
            if self.is_past_last {
                return Ok(Next::Nothing);
            }
            // For a position in another block, the difference lies beyond the buffer's end.
            let offset = self.position.wrapping_sub(self.buffer_start);
            if self.buffered.is_some() && offset < self.buffer.len() as u64 {
                match self.parse(offset as usize) {
                    Some(next) => return Ok(next),
                    None => continue,
                }
            }
            if self.position >= self.limit {
                if self.place.id.slot.is_some() {
                    // The buffer is freed, because there are thousands of elements and a block is seldom read
                    // more than once.
                    self.buffer = Vec::new();
                }
                return Ok(self.tail_drops());
            }
            if self.pass_over() {
                continue;
            }
            if let Some(gap) = self.load(self.position / self.main().block_bytes)? {
                return Ok(gap);
            }
        }
    }

    /// Copies block `number`, or the next one that can still be read. Returns a gap in the sequence, if there
    /// is one.
    fn load(&mut self, number: u64) -> Result<Option<Next>, Error> {
        let block_bytes = self.main().block_bytes;
        let start = number * block_bytes;
        let bytes = (self.limit - start).min(block_bytes) as usize;
        if self.whole_from.is_some_and(|from| start >= from) {
            self.outline = None;
        }
        if !self.copy(number, start, bytes)? {
            (self.buffered, self.begun) = (None, None);
            self.position = self.oldest(number + 1)? * block_bytes;
            return Ok(None);
        }
        if self.position > start {
            // The block was read in part before: base, time and sequence number stay valid.
            (self.buffered, self.buffer_start) = (Some(number), start);
            return Ok(None);
        }
        self.position = start + block::HEADER as u64;
        let first = file::word(&self.buffer, block::SEQUENCE);
        // An event that began in the block before continues here; this block's first event is its successor.
        if first != self.sequence.saturating_add(1) {
            self.begun = None;
        }
        if bytes < block::HEADER || first < self.sequence {
            // A block with an earlier sequence number is damaged; the next block shows how many events were
            // lost.
            (self.buffered, self.begun) = (None, None);
            self.position = start + block_bytes;
            return Ok(None);
        }
        (self.buffered, self.buffer_start) = (Some(number), start);
        self.base = file::word(&self.buffer, block::BASE);
        if self.base > self.last {
            self.is_past_last = true;
            // The events before the block are overwritten, if those before the start were read or skipped.
            if first > self.sequence {
                self.overwritten_until = Some(self.base);
                return Ok(self.move_to(first));
            }
            return Ok(None);
        }
        self.time = self.base;
        self.drops_reported = file::word(&self.buffer, block::DROPS);
        Ok(if self.begun.is_some() { None } else { self.move_to(first) })
    }

    /// Continues at sequence number `first`, for the writer of the block. The events between are lost;
    /// returns the first gap.
    fn move_to(&mut self, first: u64) -> Option<Next> {
        let (before, before_sequence) = (self.owner, self.owner_sequence);
        self.read_owner();
        let from = self.sequence;
        self.sequence = first;
        // The lost events before the new writer's first event belong to the former writer.
        let border = self.owner_sequence.clamp(from, first.max(from));
        let lost = [
            (before.number, before_sequence, from, border),
            (self.owner.number, self.owner_sequence, border, first),
        ];
        let mut gaps =
            lost.into_iter().filter(|(_, _, from, to)| to > from).map(|(writer, start, from, to)| {
                let from_sequence = from.saturating_sub(start);
                Next::Gap { writer, lost: to - from, from_sequence, kind_unknown: false }
            });
        let gap = gaps.next();
        self.gap = gaps.next().map(Box::new);
        gap
    }

    /// Reads an event at the current position that names the writer of the following events; returns whether
    /// there was one.
    fn read_owner(&mut self) -> bool {
        let offset = (self.position % self.main().block_bytes) as usize;
        let end = offset + 8 * event::OWNER_WORDS;
        if end > self.buffer.len() {
            return false;
        }
        let word = |n: usize| file::word(&self.buffer, offset + 8 * n);
        let (kind, words) = ((word(0) >> 32) as u16, (word(0) >> 48 & 0xfff) as usize);
        if kind != event::KIND_OWNER || words != event::OWNER_WORDS {
            return false;
        }
        (self.owner, self.owner_sequence) = (Owner::new(word(1), word(2)), word(3));
        true
    }

    fn copy(&mut self, number: u64, start: u64, bytes: usize) -> Result<bool, Error> {
        if bytes < block::HEADER {
            return Ok(false);
        }
        if let Some(archive) = self.archive.as_ref().filter(|_| start + bytes as u64 <= self.archived) {
            let there = archive.copy(number, bytes, &mut self.buffer)?;
            if there && self.buffer.len() as u64 > self.position - start {
                return Ok(true);
            }
        }
        let ring = self.ring.as_ref();
        if ring.map_or(Ok(false), |ring| ring.copy(number, bytes, &mut self.buffer))? {
            return Ok(true);
        }
        // The ring's block was overwritten; by now the archive may hold it, or a part of it.
        self.look_at_archive(true)?;
        let part = self.archived.saturating_sub(start).min(bytes as u64);
        match &self.archive {
            Some(archive) if part > (self.position - start).max(block::HEADER as u64) => {
                let there = archive.copy(number, part as usize, &mut self.buffer)?;
                Ok(there && self.buffer.len() as u64 > self.position - start)
            }
            _ => Ok(false),
        }
    }

    /// The first block from `number` on that may still be readable.
    fn oldest(&mut self, number: u64) -> Result<u64, Error> {
        self.look_at_archive(true)?;
        let block_bytes = self.main().block_bytes;
        if let Some(archive) = self.archive.as_ref().filter(|_| number * block_bytes < self.archived) {
            return Ok(archive.next_written(number, self.archived / block_bytes));
        }
        let Some(ring) = &self.ring else { return Ok(number) };
        let newest = ring.head()?.max(1).div_ceil(ring.block_bytes) - 1;
        // A reader that follows block by block may be within an event that is not committed.
        if newest + ring.block_count < (self.limit - 1) / ring.block_bytes {
            // Without this check, overwritten blocks would be searched one by one.
            return Err(Error::new(format!(
                "{} is damaged: its committed position decreased",
                ring.path.display()
            )));
        }
        let oldest = number.max((newest + 1).saturating_sub(ring.block_count));
        Ok(ring.next_written(oldest, newest).max(oldest))
    }

    /// The event at `offset` of the buffer; `None` after skipping an entry that is no event.
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
            // The rest of the block is damaged. At least this event is lost; the next block shows how many
            // more.
            self.begun = None;
            self.skip_block();
            return Some(self.lose(1));
        }
        if self.begun.is_some() && kind >= event::KIND_FIRST {
            // The writer abandoned the event that it had begun.
            self.begun = None;
            return Some(self.lose(1));
        }
        if kind == event::KIND_OWNER {
            self.read_owner();
        }
        self.position += 8 * words as u64;
        if kind == event::KIND_CONTINUATION {
            return self.go_on(offset + 8, end, flags);
        }
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
        let (time, owner) = (self.time, self.owner);
        let sequence = self.sequence.saturating_sub(self.owner_sequence);
        let from = offset + 8;
        let found = Found { owner, time, sequence, kind, flags, from, to: end, is_long: false };
        if flags & event::FLAG_CONTINUED != 0 {
            self.long.clear();
            self.long.extend_from_slice(&self.buffer[from..end]);
            self.begun = Some(Box::new(found));
            return None;
        }
        self.sequence = self.sequence.saturating_add(1);
        Some(Next::Event(found))
    }

    /// Appends bytes `from` to `to` of the buffer to the begun event, and returns the event if they end it.
    /// If no event was begun, the continuation belongs to an event whose beginning is lost.
    fn go_on(&mut self, from: usize, to: usize, flags: u8) -> Option<Next> {
        let found = self.begun.take()?;
        if self.long.len() + (to - from) > event::ARGUMENT_BYTES_MAX {
            return Some(self.lose(1));
        }
        self.long.extend_from_slice(&self.buffer[from..to]);
        if flags & event::FLAG_CONTINUED != 0 {
            self.begun = Some(found);
            return None;
        }
        self.sequence = self.sequence.saturating_add(1);
        let flags = found.flags & !event::FLAG_CONTINUED;
        Some(Next::Event(Found { flags, from: 0, to: self.long.len(), is_long: true, ..*found }))
    }

    /// Counts events as lost from here on.
    fn lose(&mut self, lost: u64) -> Next {
        let from_sequence = self.sequence.saturating_sub(self.owner_sequence);
        self.sequence = self.sequence.saturating_add(lost);
        Next::Gap { writer: self.owner.number, lost, from_sequence, kind_unknown: false }
    }

    fn skip_block(&mut self) {
        let block_bytes = self.main().block_bytes;
        self.position = (self.position / block_bytes + 1) * block_bytes;
        self.buffered = None;
    }

    /// Events dropped after the last block was full.
    fn tail_drops(&mut self) -> Next {
        let lost = self.drops.saturating_sub(self.drops_reported);
        if lost == 0 {
            return Next::Nothing;
        }
        self.drops_reported = self.drops;
        self.lose(lost)
    }

    /// The time of the latest event.
    pub(super) fn time(&self) -> u64 {
        self.time
    }
}
