//! The element: one writer's ring of blocks, and the protocol by which the writer fills it. This module has
//! `unsafe`.
//!
//! The module appends events at the cost of a few stores. Committed events survive the process, and a reader
//! can distinguish valid bytes from overwritten ones at any moment. [`crate::layout`] defines the layout, and
//! `docs/layout.md` draws it. The protocol:
//!
//! * an event: arguments and first word (relaxed), then `head` (release, paired with the reader's acquire of `head`);
//! * a block roll: padding, block number = 0, release fence, the block's header (relaxed), block number
//!   (release, paired with the reader's acquire fence before it loads the number again).
//!
//! Invariants: the next event is written at `position`, which lies within the current block or at its end.
//! `end` is the end of the current block. The high half of every event's time is the one that its block's
//! base states.

use crate::kind::{Kind, KindId, NameRef};
use crate::layout::{PAGE, block, element, event};
use crate::map::{Memory, Region};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes of the event that names the writer.
const OWNER_BYTES: u64 = 8 * event::OWNER_WORDS as u64;

/// A waiting writer sleeps. The first sleep is the shortest; each further one lasts a quarter of the time for
/// which the writer has waited already, up to the longest: thus a wait takes little processor time, and at most
/// a quarter longer than the consumer needs.
const SLEEP_MIN: Duration = Duration::from_micros(50);
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// The time between two checks of a waiting writer whether its consumer is alive, each of which reads a file
/// of /proc.
const LOOK_FOR_READER: Duration = Duration::from_millis(20);

/// The longest event of an element with blocks of this size, in bytes with the first word.
pub(crate) fn event_bytes_max(block_bytes: usize) -> usize {
    // Every block keeps space for the event that names its owner. (The blocks of the loom model are smaller
    // than those of any element.)
    let room = (block_bytes - block::HEADER).saturating_sub(OWNER_BYTES as usize).max(16);
    room.min(8 * event::WORDS_MAX)
}

/// The most bytes of arguments that an event may have with its continuations, which must not overwrite the
/// block where the event begins.
pub(crate) fn argument_bytes_max(block_bytes: usize, block_count: usize) -> usize {
    let room = (block_bytes - block::HEADER).saturating_sub(OWNER_BYTES as usize).max(16);
    let parts = room.div_ceil(8 * event::WORDS_MAX);
    (block_count - 1).saturating_mul(room - 8 * parts).min(event::ARGUMENT_BYTES_MAX)
}

/// What happens to events when the element is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Overwrite the oldest block (flight recorder).
    Overwrite,
    /// Drop the newest events and count them, until a consumer has read a block.
    DropNewest,
    /// Wait until a consumer has read a block; drop and count events when the consumer is dead or the timeout
    /// is over.
    Wait {
        /// The longest wait. After this time, events are dropped until the consumer frees a block.
        timeout: Duration,
    },
}

impl Policy {
    pub(crate) fn code(self) -> u32 {
        match self {
            Policy::Overwrite => 0,
            Policy::DropNewest => 1,
            Policy::Wait { .. } => 2,
        }
    }
}

/// The writer of an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) number: u32,
    pub(crate) thread: u32,
    pub(crate) name: NameRef,
}

impl Owner {
    pub(crate) fn word(&self) -> u64 {
        join(self.number, self.thread)
    }
}

/// The writing end of an element.
#[derive(Clone, Debug)]
pub(crate) struct Ring<M: Memory = Region> {
    /// Position of the next event: bytes since the start, block headers included.
    position: u64,
    /// Maps positions of the current block to places in the map; changes when the next block opens.
    base: M::Base,
    /// End of the current block. An event that does not fit before it opens the next one.
    end: u64,
    /// High half of the times that events of the current block can have.
    high: u32,
    /// Low half of the time of the latest event; the high half is `high`.
    last_low: u32,
    /// Sequence number of the next event.
    sequence: u64,
    map: M,
    block_bytes: u64,
    block_count: u64,
    policy: Policy,
    drops: u64,
    /// The consumer's read position when it was last loaded.
    read_position: u64,
    /// Whether a wait timed out; then the writer does not wait again until the consumer frees a block.
    stalled: bool,
    /// The longest event that needs no continuation, in bytes.
    event_bytes_max: usize,
    /// The most bytes of arguments that an event may have with its continuations.
    argument_bytes_max: usize,
    owner: Owner,
    /// Sequence number of the owner's first event.
    owner_sequence: u64,
    /// The number of events that former owners dropped.
    owner_drops: u64,
    /// How many owners the element has had. Blocks of the first owner do not name their owner.
    generation: u64,
    /// Position before which all events were discarded.
    discarded: u64,
}

impl<M: Memory> Ring<M> {
    /// The size in bytes of the map of a ring with these blocks.
    pub(crate) fn bytes(block_bytes: usize, block_count: usize) -> usize {
        element::DATA + block_bytes * block_count
    }

    /// A ring over a fresh map of [`Ring::bytes`] zero bytes. The first block opens with the first event.
    pub(crate) fn new(map: M, block_bytes: usize, block_count: usize, policy: Policy) -> Ring<M> {
        assert!(block_bytes.is_power_of_two() && block_bytes >= block::HEADER && block_count >= 2);
        assert_eq!(map.bytes(), Self::bytes(block_bytes, block_count));
        Ring {
            position: 0,
            base: map.base(PAGE as u64),
            end: 0,
            high: 0,
            last_low: 0,
            sequence: 0,
            map,
            block_bytes: block_bytes as u64,
            block_count: block_count as u64,
            policy,
            drops: 0,
            read_position: 0,
            stalled: false,
            event_bytes_max: event_bytes_max(block_bytes),
            argument_bytes_max: argument_bytes_max(block_bytes, block_count),
            owner: Owner::default(),
            owner_sequence: 0,
            owner_drops: 0,
            generation: 0,
            discarded: 0,
        }
    }

    /// Makes `owner` the writer, as the first one or after the former owner released the element. The events
    /// of the former owner stay until they are overwritten.
    pub(crate) fn take_over(&mut self, owner: Owner) {
        self.owner = owner;
        (self.owner_sequence, self.owner_drops) = (self.sequence, self.drops);
        self.generation += 1;
        self.stalled = false;
        self.map.store(element::OWNER, owner.word(), Ordering::Relaxed);
        self.map.store(element::OWNER_NAME, owner.name.0, Ordering::Relaxed);
        self.map.store(element::GENERATION, self.generation, Ordering::Relaxed);
        self.map.store(element::STATE, 1, Ordering::Release);
        if self.generation == 1 {
            return;
        }
        if self.position + OWNER_BYTES <= self.end {
            self.put_owner();
            self.map.store(element::HEAD, self.position, Ordering::Release);
        } else {
            self.close_block();
        }
    }

    fn put_owner(&mut self) {
        let words = [
            event::pack(self.last_low, event::KIND_OWNER, event::OWNER_WORDS, 0),
            self.owner.word(),
            self.owner.name.0,
            self.owner_sequence,
        ];
        for word in words {
            self.store(self.position, word);
            self.position += 8;
        }
    }

    /// Discards all events so far: readers find none of them, and do not count them as lost.
    pub(crate) fn discard(&mut self) {
        self.close_block();
        self.discarded = self.end;
        self.map.store(element::DISCARDED_SEQUENCE, self.sequence, Ordering::Relaxed);
        self.map.store(element::DISCARDED, self.end, Ordering::Release);
    }

    /// How many owners the element has had, this one included.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Events that this owner wrote or dropped so far.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence - self.owner_sequence
    }

    /// Events that this owner dropped so far.
    pub(crate) fn drops(&self) -> u64 {
        self.drops - self.owner_drops
    }

    /// Events that all owners wrote or dropped so far.
    pub(crate) fn events(&self) -> u64 {
        self.sequence
    }

    /// Appends an event at a time that is given as low and high half, as the processor returns it.
    #[inline(always)]
    pub(crate) fn emit<K: Kind>(&mut self, (low, high): (u32, u32), flags: u8, kind: KindId<K>, event: &K) {
        if K::VARIABLE {
            return self.emit_variable(join(low, high), flags, kind, event);
        }
        let bytes = (8 * (1 + K::WORDS)) as u64;
        let fits = self.position + bytes <= self.end;
        if (high != self.high || !fits) && !self.make_way(bytes, join(low, high)) {
            return;
        }
        self.last_low = low;
        self.put(kind.word | u64::from(low) | u64::from(flags) << 60, event);
    }

    /// Appends an event with the time of the event before.
    #[inline(always)]
    pub(crate) fn emit_same_time<K: Kind>(&mut self, kind: KindId<K>, event: &K) {
        if K::VARIABLE {
            return self.emit_variable(self.last_ticks(), event::FLAG_SAME_TIME, kind, event);
        }
        let bytes = (8 * (1 + K::WORDS)) as u64;
        if self.position + bytes > self.end && !self.make_way(bytes, self.last_ticks()) {
            return;
        }
        self.put(kind.word | u64::from(event::FLAG_SAME_TIME) << 60, event);
    }

    /// Time of the latest event.
    fn last_ticks(&self) -> u64 {
        join(self.last_low, self.high)
    }

    /// Opens a block if the current one has no space for events of `bytes` bytes together, of which the first
    /// is at `ticks` and all have the same high half of their times. Returns the position at which that block
    /// ends, which identifies it; `None`: the element is full, and one event was counted as dropped.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, bytes: u64, ticks: u64) -> Option<u64> {
        let with_full_time = bytes + 16;
        if self.position + with_full_time > self.end && !self.make_way(with_full_time, ticks) {
            return None;
        }
        Some(self.end)
    }

    /// Appends an event of a fixed size if it fits into the block that ends at `end` (see [`Ring::reserve`]);
    /// otherwise writes nothing and returns `false`.
    #[inline(always)]
    pub(crate) fn emit_into<K: Kind>(&mut self, end: u64, ticks: u64, kind: KindId<K>, event: &K) -> bool {
        const { assert!(!K::VARIABLE) };
        let bytes = (8 * (1 + K::WORDS)) as u64;
        let fits = self.end == end && self.position + bytes <= end && high_half(ticks) == self.high;
        if fits {
            self.last_low = ticks as u32;
            self.put(kind.word | u64::from(ticks as u32), event);
        }
        fits
    }

    /// Stores an event of a fixed size and commits it. The caller has checked that the event fits.
    #[inline(always)]
    fn put<K: Kind>(&mut self, first: u64, event: &K) {
        // The fields are copied to locals, because the compiler cannot know that the stores below leave them
        // unchanged.
        let (position, base) = (self.position, self.base);
        let after = position + (8 * (1 + K::WORDS)) as u64;
        debug_assert!(after <= self.end && position.is_multiple_of(8));
        self.position = after;
        self.sequence += 1;
        let words = event.words(u32::MAX);
        for (index, word) in words.as_ref()[..K::WORDS].iter().enumerate() {
            // SAFETY: the event ends at `after`, which is not beyond the block's end (the callers checked its
            // size).
            unsafe { self.map.store_unchecked(base, position + 8 + 8 * index as u64, *word) };
        }
        // SAFETY: the event ends at `after`, which is not beyond the block's end (the callers checked its
        // size).
        unsafe { self.map.store_unchecked(base, position, first) };
        self.map.store(element::HEAD, after, Ordering::Release);
    }

    #[inline(never)]
    fn emit_variable<K: Kind>(&mut self, ticks: u64, flags: u8, kind: KindId<K>, event: &K) {
        let (mut count, mut longest, mut tails) = (0, 0, 0);
        event.tails(&mut |tail| {
            count += 1;
            longest = longest.max(tail.len());
            tails += tail.len().next_multiple_of(8);
        });
        let (mut share, mut flags) = (longest, flags);
        let room = self.argument_bytes_max.saturating_sub(8 * K::WORDS);
        if tails > room {
            (share, tails) = ((room / count) & !7, 0);
            flags |= event::FLAG_TRUNCATED;
            event.tails(&mut |tail| tails += tail.len().min(share).next_multiple_of(8));
        }
        let first = event::pack(ticks as u32, kind.id(), 0, flags);
        self.append(ticks, first, K::WORDS + tails / 8, |push| visit_words(event, share, push));
    }

    /// The most bytes of arguments that an event may have.
    pub(crate) fn argument_bytes_max(&self) -> usize {
        self.argument_bytes_max
    }

    /// Appends an event of `words` words of arguments, which `visit` enumerates. `first` is the first word
    /// without its length.
    pub(crate) fn append(
        &mut self,
        ticks: u64,
        first: u64,
        words: usize,
        visit: impl FnOnce(&mut dyn FnMut(u64)),
    ) {
        let bytes = 8 * (1 + words as u64);
        if bytes > self.event_bytes_max as u64 {
            return self.emit_long(ticks, first, words as u64, visit);
        }
        let fits = self.position + bytes <= self.end;
        if (high_half(ticks) != self.high || !fits) && !self.make_way(bytes, ticks) {
            return;
        }
        self.last_low = ticks as u32;
        let mut at = self.position;
        self.store(at, first | (bytes / 8) << 48);
        visit(&mut |word| {
            at += 8;
            self.store(at, word);
        });
        debug_assert_eq!(at + 8, self.position + bytes);
        self.commit(bytes);
    }

    /// Appends an event of `words` words of arguments in parts, and commits it after the last part: until
    /// then `head` stays before the first part. `first` is the first word without its length.
    #[cold]
    fn emit_long(&mut self, ticks: u64, first: u64, words: u64, visit: impl FnOnce(&mut dyn FnMut(u64))) {
        // The event continues in the next blocks as if the current block were full. The blocks suffice,
        // because the caller cut the arguments to the size that they hold.
        let room = self.argument_bytes_max as u64 / (self.block_count - 1);
        let blocks = (8 * words).div_ceil(room).min(self.block_count - 1);
        if !self.blocks_are_free(blocks) {
            return self.drop_one(ticks);
        }
        let fits = self.position + 16 <= self.end;
        if (high_half(ticks) != self.high || !fits) && !self.make_way(16, ticks) {
            return;
        }
        self.last_low = ticks as u32;
        // The first event of each block from here on is the event after this one.
        self.sequence += 1;
        let mut parts = Parts { ring: self, ticks, first, left: words, at: 0, end: 0, finished: false };
        visit(&mut |word| parts.push(word));
        parts.finish();
    }

    /// Stores a word of the current block; `at` is a position. The bounds are checked, because a kind that
    /// was written by hand may visit more bytes when its event is stored than when its size was computed.
    fn store(&self, at: u64, word: u64) {
        assert!(at < self.end && at.is_multiple_of(8), "a kind gave more bytes than it announced");
        // SAFETY: `at` < `end`, and `base` maps the current block's positions into the data area of the map, whose
        // size `new` checked.
        unsafe { self.map.store_unchecked(self.base, at, word) };
    }

    fn commit(&mut self, bytes: u64) {
        self.position += bytes;
        self.sequence += 1;
        self.map.store(element::HEAD, self.position, Ordering::Release);
    }

    /// Makes the next `bytes` bytes writable in a block whose base can express `ticks`. `false`: the event
    /// was dropped and counted.
    #[cold]
    #[inline(never)]
    fn make_way(&mut self, bytes: u64, ticks: u64) -> bool {
        let full_time = 16;
        if self.position + bytes + full_time <= self.end {
            self.store(self.position, event::pack(0, event::KIND_FULL_TIME, 2, 0));
            self.store(self.position + 8, ticks);
            self.position += full_time;
            self.high = high_half(ticks);
            return true;
        }
        if bytes as usize > self.event_bytes_max || !self.blocks_are_free(1) {
            self.drop_one(ticks);
            return false;
        }
        self.roll(ticks);
        true
    }

    fn drop_one(&mut self, ticks: u64) {
        self.drop_events(1);
        // The next event that is written opens a block, so its time may be "the same" as that of this dropped
        // event.
        (self.last_low, self.high) = (ticks as u32, high_half(ticks));
    }

    /// Counts events as dropped.
    pub(crate) fn drop_events(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        // The block is closed, because events after a drop would have wrong sequence numbers in it.
        self.close_block();
        self.drops += count;
        self.sequence += count;
        self.map.store(element::DROPS, self.drops, Ordering::Release);
    }

    fn close_block(&mut self) {
        if self.position < self.end {
            self.store(self.position, 0);
            self.position = self.end;
        }
    }

    /// Opens the next block, with `ticks` as its base.
    fn roll(&mut self, ticks: u64) {
        self.close_block();
        let start = self.end;
        let number = start / self.block_bytes;
        let place = element::DATA as u64 + number % self.block_count * self.block_bytes;
        let put = |offset, value, order| self.map.store(place as usize + offset, value, order);
        put(block::NUMBER, 0, Ordering::Relaxed);
        M::fence(Ordering::Release);
        put(block::BASE, ticks, Ordering::Relaxed);
        put(block::SEQUENCE, self.sequence, Ordering::Relaxed);
        put(block::DROPS, self.drops, Ordering::Relaxed);
        put(block::NUMBER, number + 1, Ordering::Release);
        self.map.store(element::SEQUENCE, self.sequence, Ordering::Relaxed);
        self.position = start + block::HEADER as u64;
        self.end = start + self.block_bytes;
        self.base = self.map.base(place.wrapping_sub(start));
        self.high = high_half(ticks);
        if self.generation > 1 {
            self.put_owner();
        }
    }

    /// Whether the next `blocks` blocks may be written; `blocks` is less than the number of blocks of the
    /// ring.
    fn blocks_are_free(&mut self, blocks: u64) -> bool {
        let needed =
            (self.end + self.block_bytes * blocks).saturating_sub(self.block_bytes * self.block_count);
        if self.policy == Policy::Overwrite || self.read_position >= needed || self.is_wiped() {
            return true;
        }
        let before = self.read_position;
        self.look_at_reader();
        if self.read_position != before {
            self.stalled = false;
        }
        if self.read_position >= needed {
            return true;
        }
        match self.policy {
            Policy::Wait { timeout } if !self.stalled => self.wait_for_reader(needed, timeout),
            _ => false,
        }
    }

    /// Whether this is the child of a fork, in which the map is private and zero, so no consumer reads it.
    pub(crate) fn is_wiped(&self) -> bool {
        self.map.load(element::MAGIC, Ordering::Relaxed) == 0
    }

    fn look_at_reader(&mut self) {
        // Acquire, paired with the consumer's release: the consumer has finished reading all blocks before
        // the position.
        let position = self.map.load(element::READ_POSITION, Ordering::Acquire);
        // A read position beyond the written end is damage. The position is clamped, because otherwise the
        // writer would never wait again.
        self.read_position = position.max(self.discarded).min(self.end);
    }

    fn wait_for_reader(&mut self, needed: u64, timeout: Duration) -> bool {
        let start = Instant::now();
        let (mut next_look, mut pause) = (LOOK_FOR_READER, SLEEP_MIN);
        loop {
            self.look_at_reader();
            if self.read_position >= needed {
                return true;
            }
            let waited = start.elapsed();
            if waited >= timeout || (waited >= next_look && self.reader_is_dead()) {
                self.stalled = true;
                return false;
            }
            if waited >= next_look {
                next_look = waited + LOOK_FOR_READER;
            }
            std::thread::sleep(pause);
            pause = ((waited + pause) / 4).clamp(SLEEP_MIN, SLEEP_MAX);
        }
    }

    fn reader_is_dead(&self) -> bool {
        let reader = self.map.load(element::READER, Ordering::Acquire);
        let start = self.map.load(element::READER_START, Ordering::Relaxed);
        reader != 0 && !crate::process::is_alive(reader as u32, start)
    }

    /// Marks the element as closed: no more events follow.
    pub(crate) fn close(&mut self) {
        self.map.store(element::SEQUENCE, self.sequence, Ordering::Relaxed);
        self.map.store(element::STATE, 2, Ordering::Release);
    }
}

/// An event that is being written in parts. If a kind written by hand panics before its end, the event is
/// dropped and counted.
struct Parts<'r, M: Memory> {
    ring: &'r mut Ring<M>,
    ticks: u64,
    /// First word of the next part, without its length and without the flag for a continuation.
    first: u64,
    /// How many words of arguments belong to parts that have not begun.
    left: u64,
    /// The position of the next word that is to be written.
    at: u64,
    /// The position at which the part that is being written ends.
    end: u64,
    finished: bool,
}

impl<M: Memory> Parts<'_, M> {
    fn push(&mut self, word: u64) {
        if self.at == self.end {
            self.begin_part();
        }
        self.ring.store(self.at, word);
        self.at += 8;
        if self.at == self.end {
            self.ring.position = self.end;
        }
    }

    fn begin_part(&mut self) {
        assert!(self.left > 0, "a kind gave more bytes than it announced");
        if self.ring.position + 16 > self.ring.end {
            self.ring.roll(self.ticks);
        }
        let ring = &mut *self.ring;
        let room = (ring.end - ring.position) / 8 - 1;
        let words = self.left.min(room).min(event::WORDS_MAX as u64 - 1);
        self.left -= words;
        let continued = if self.left > 0 { u64::from(event::FLAG_CONTINUED) << 60 } else { 0 };
        ring.store(ring.position, self.first | (words + 1) << 48 | continued);
        self.first = event::pack(self.ticks as u32, event::KIND_CONTINUATION, 0, 0);
        self.at = ring.position + 8;
        self.end = self.at + 8 * words;
    }

    fn finish(mut self) {
        assert!(self.left == 0 && self.at == self.end, "a kind gave fewer bytes than it announced");
        self.ring.map.store(element::HEAD, self.ring.position, Ordering::Release);
        self.finished = true;
    }
}

impl<M: Memory> Drop for Parts<'_, M> {
    fn drop(&mut self) {
        if !self.finished {
            self.ring.sequence -= 1;
            self.ring.drop_one(self.ticks);
        }
    }
}

/// Visits the words of an event's arguments, each of its texts and byte strings cut to `share` bytes.
fn visit_words<K: Kind>(event: &K, share: usize, visit: &mut dyn FnMut(u64)) {
    event.words(share as u32).as_ref().iter().for_each(|word| visit(*word));
    event.tails(&mut |tail| {
        for chunk in tail[..tail.len().min(share)].chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            visit(u64::from_le_bytes(word));
        }
    });
}

fn high_half(ticks: u64) -> u32 {
    (ticks >> 32) as u32
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(all(test, loom))]
mod loom_model;
