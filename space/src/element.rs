//! The element: one writer's ring of blocks, and the protocol by which it is written. A room for unsafe.
//!
//! Job: append events at the cost of a few stores, so that whatever was committed survives the process and a reader
//! that looks at any moment can tell good bytes from overwritten ones. The layout is in [`crate::layout`], the
//! protocol follows the Perfetto-like block scheme of `docs/layout.md`:
//!
//! * an event: arguments and first word (relaxed), then `head` (release, paired with the reader's acquire of `head`);
//! * a block roll: padding, block number = 0, release fence, the block's header (relaxed), block number (release,
//!   paired with the acquire fence and second look of the reader).
//!
//! Invariant: `position` is where the next event goes, within the current block or at its end; `end` is the end of
//! that block; every event's time lies within ±2³¹ ticks of the base that the reader will know.

use crate::kind::{Kind, KindId};
use crate::layout::{PAGE, block, element, event};
use crate::map::{Base, Map};
use crate::sync::{Ordering, fence};
use std::time::{Duration, Instant};

/// What a full element does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Overwrite the oldest block (flight recorder).
    Overwrite,
    /// Drop the newest events and count them, until a consumer has read a block.
    DropNewest,
    /// Wait until a consumer has read a block; drop and count when the consumer is dead or the time is over.
    Wait {
        /// The longest wait. After it, events are dropped until the consumer moves again.
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

/// Half of the span that 32 bits of time cover.
const WINDOW_HALF: u64 = 1 << 31;

/// The writing end of an element.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Where the next event goes: bytes since the start, block headers included.
    position: u64,
    /// Where positions lie in the map; changes when a block rolls.
    base: Base,
    /// End of the current block; equal to `position`'s block start when no block is writable.
    end: u64,
    /// Lowest time that the current base can express.
    window_low: u64,
    /// Time of the latest event.
    last_ticks: u64,
    /// Sequence of the next event.
    sequence: u64,
    map: Map,
    block_bytes: u64,
    block_count: u64,
    policy: Policy,
    drops: u64,
    /// `read_position` when last looked at.
    read_position: u64,
    /// A wait ran out of time; no more waiting until the consumer moves.
    stalled: bool,
    /// Longest event in bytes.
    event_bytes_max: usize,
}

impl Ring {
    /// Bytes of a map for such a ring.
    pub(crate) fn bytes(block_bytes: usize, block_count: usize) -> usize {
        element::DATA + block_bytes * block_count
    }

    /// A ring over a fresh map of [`Ring::bytes`] zero bytes. The first block opens with the first event.
    pub(crate) fn new(map: Map, block_bytes: usize, block_count: usize, policy: Policy) -> Ring {
        assert!(block_bytes.is_power_of_two() && block_bytes >= block::BYTES_MIN && block_count >= 2);
        assert_eq!(map.bytes(), Ring::bytes(block_bytes, block_count));
        Ring {
            position: 0,
            base: Base::new(&map, PAGE as u64),
            end: 0,
            window_low: 0,
            last_ticks: 0,
            sequence: 0,
            map,
            block_bytes: block_bytes as u64,
            block_count: block_count as u64,
            policy,
            drops: 0,
            read_position: 0,
            stalled: false,
            event_bytes_max: (8 * event::WORDS_MAX).min(block_bytes - block::HEADER),
        }
    }

    /// Longest event in bytes, first word included.
    pub(crate) fn event_bytes_max(&self) -> usize {
        self.event_bytes_max
    }

    /// Events written or dropped so far.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// Appends an event at `ticks`.
    #[inline(always)]
    pub(crate) fn emit<K: Kind>(&mut self, ticks: u64, flags: u8, kind: KindId<K>, event: &K) {
        if K::VARIABLE {
            return self.emit_variable(ticks, flags, kind, event);
        }
        let bytes = (8 * (1 + K::WORDS)) as u64;
        // One branch for both: no room in the block (wraps to a huge number), or time outside the base's window.
        let room = self.end.wrapping_sub(self.position + bytes);
        let offset = ticks.wrapping_sub(self.window_low);
        if (room | offset) >> 32 != 0 && !self.make_way(bytes, ticks) {
            return;
        }
        self.last_ticks = ticks;
        self.put(kind.word | u64::from(ticks as u32) | u64::from(flags) << 60, event);
    }

    /// Appends an event with the time of the one before.
    #[inline(always)]
    pub(crate) fn emit_same_time<K: Kind>(&mut self, kind: KindId<K>, event: &K) {
        if K::VARIABLE {
            return self.emit_variable(self.last_ticks, event::FLAG_SAME_TIME, kind, event);
        }
        let bytes = (8 * (1 + K::WORDS)) as u64;
        if self.position + bytes > self.end && !self.make_way(bytes, self.last_ticks) {
            return;
        }
        self.put(kind.word | u64::from(event::FLAG_SAME_TIME) << 60, event);
    }

    /// Stores an event of a fixed size, for which there is room, and commits it.
    #[inline(always)]
    fn put<K: Kind>(&mut self, first: u64, event: &K) {
        // Copies, since the compiler cannot know that the stores below do not change the fields.
        let (position, base) = (self.position, self.base);
        let after = position + (8 * (1 + K::WORDS)) as u64;
        debug_assert!(after <= self.end && position.is_multiple_of(8));
        self.position = after;
        self.sequence += 1;
        let words = event.words(u32::MAX);
        for (index, word) in words.as_ref()[..K::WORDS].iter().enumerate() {
            // SAFETY: the event ends at `after`, which is not beyond the block's end (the callers made way).
            let place = unsafe { base.word(&self.map, position + 8 + 8 * index as u64) };
            place.store(word.to_le(), Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { base.word(&self.map, position) }.store(first.to_le(), Ordering::Relaxed);
        // SAFETY: the header page is part of every map.
        unsafe { self.map.word_unchecked(element::HEAD) }.store(after.to_le(), Ordering::Release);
    }

    #[inline(never)]
    fn emit_variable<K: Kind>(&mut self, ticks: u64, flags: u8, kind: KindId<K>, event: &K) {
        let mut count = 0;
        let mut longest = 0;
        event.tails(&mut |tail| {
            count += 1;
            longest = longest.max(tail.len());
        });
        let fixed = 8 * (1 + K::WORDS);
        let share = (self.event_bytes_max.saturating_sub(fixed) / count.max(1)) & !7;
        let share = share.min(u32::MAX as usize & !7);
        let flags = if longest > share { flags | event::FLAG_TRUNCATED } else { flags };
        let mut bytes = fixed as u64;
        event.tails(&mut |tail| bytes += tail.len().min(share).next_multiple_of(8) as u64);
        let room = self.end.wrapping_sub(self.position + bytes);
        let offset = ticks.wrapping_sub(self.window_low);
        if (room | offset) >> 32 != 0 && !self.make_way(bytes, ticks) {
            return;
        }
        self.last_ticks = ticks;
        let mut at = self.position;
        self.store(at, event::pack(ticks as u32, kind.id(), bytes as usize / 8, flags));
        for word in event.words(share as u32).as_ref() {
            at += 8;
            self.store(at, *word);
        }
        event.tails(&mut |tail| {
            for chunk in tail[..tail.len().min(share)].chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                at += 8;
                self.store(at, u64::from_le_bytes(word));
            }
        });
        debug_assert_eq!(at + 8, self.position + bytes);
        self.commit(bytes);
    }

    /// Stores a word of the current block; `at` is a position.
    fn store(&self, at: u64, word: u64) {
        debug_assert!(at < self.end && at.is_multiple_of(8));
        // SAFETY: `at` < `end`, and `base` maps the current block's positions into the data area of the map, whose
        // size `new` checked.
        let place = unsafe { self.base.word(&self.map, at) };
        place.store(word.to_le(), Ordering::Relaxed);
    }

    fn commit(&mut self, bytes: u64) {
        self.position += bytes;
        self.sequence += 1;
        self.map.word(element::HEAD).store(self.position.to_le(), Ordering::Release);
    }

    /// Makes the next `bytes` writable with a base that can express `ticks`. `false`: the event was dropped and counted.
    #[cold]
    #[inline(never)]
    fn make_way(&mut self, bytes: u64, ticks: u64) -> bool {
        let full_time = 16;
        let offset = ticks.wrapping_sub(self.window_low);
        if self.position + bytes + full_time <= self.end && offset >> 32 != 0 {
            self.store(self.position, event::pack(0, event::KIND_FULL_TIME, 2, 0));
            self.store(self.position + 8, ticks);
            self.position += full_time;
            self.window_low = ticks.wrapping_sub(WINDOW_HALF);
            return true;
        }
        if bytes as usize > self.event_bytes_max || !self.next_block_is_free() {
            self.drop_one(ticks);
            return false;
        }
        self.roll(ticks);
        true
    }

    fn drop_one(&mut self, ticks: u64) {
        // The next event kept opens a block, so "the same time" may refer to this one.
        self.last_ticks = ticks;
        self.drops += 1;
        self.sequence += 1;
        self.map.word(element::DROPS).store(self.drops, Ordering::Release);
    }

    /// Opens the next block, with `ticks` as its base.
    fn roll(&mut self, ticks: u64) {
        if self.position < self.end {
            self.store(self.position, 0);
        }
        let start = self.end;
        let number = start / self.block_bytes;
        let place = element::DATA as u64 + number % self.block_count * self.block_bytes;
        let word = |offset| self.map.word(place as usize + offset);
        word(block::NUMBER).store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        word(block::BASE).store(ticks, Ordering::Relaxed);
        word(block::SEQUENCE).store(self.sequence, Ordering::Relaxed);
        word(block::DROPS).store(self.drops, Ordering::Relaxed);
        word(block::NUMBER).store(number + 1, Ordering::Release);
        self.map.word(element::SEQUENCE).store(self.sequence, Ordering::Relaxed);
        self.position = start + block::HEADER as u64;
        self.end = start + self.block_bytes;
        self.base = Base::new(&self.map, place.wrapping_sub(start));
        self.window_low = ticks.wrapping_sub(WINDOW_HALF);
    }

    fn next_block_is_free(&mut self) -> bool {
        let needed = (self.end + self.block_bytes).saturating_sub(self.block_bytes * self.block_count);
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

    /// Whether this is the child of a fork, whose map is private zeroes: no consumer will ever read there.
    fn is_wiped(&self) -> bool {
        self.map.word(element::MAGIC).load(Ordering::Relaxed) == 0
    }

    fn look_at_reader(&mut self) {
        // Acquire, paired with the consumer's release: it has finished reading what lies before.
        let position = self.map.word(element::READ_POSITION).load(Ordering::Acquire);
        // A position beyond what was written is nonsense, and must not make us believe that there is room for ever.
        self.read_position = position.min(self.end);
    }

    fn wait_for_reader(&mut self, needed: u64, timeout: Duration) -> bool {
        let start = Instant::now();
        let mut rounds = 0u32;
        loop {
            self.look_at_reader();
            if self.read_position >= needed {
                return true;
            }
            rounds += 1;
            if start.elapsed() >= timeout || (rounds.is_multiple_of(16) && self.reader_is_dead()) {
                self.stalled = true;
                return false;
            }
            if rounds < 64 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    fn reader_is_dead(&self) -> bool {
        let reader = self.map.word(element::READER).load(Ordering::Acquire);
        let start = self.map.word(element::READER_START).load(Ordering::Relaxed);
        reader != 0 && !crate::process::is_alive(reader as u32, start)
    }

    /// Says that nothing more comes.
    pub(crate) fn close(&mut self) {
        self.map.word(element::SEQUENCE).store(self.sequence, Ordering::Relaxed);
        self.map.word(element::STATE).store(2, Ordering::Release);
    }
}
