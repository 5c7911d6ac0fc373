//! Finds the kinds, times and owners of the events of a chunk that is stored without columns.

use super::chunk::{Contents, Extent};
use crate::file::word;
use crate::layout::{block, event};

/// Reads the first word of each event. If the bytes begin within a block, `base` is the base of that block.
pub(super) fn of(bytes: &[u8], extent: Extent, base: u64) -> Contents {
    let mut survey = Survey { base, times: (u64::MAX, 0), counts: Vec::new(), owners: Vec::new() };
    let mut at = 0;
    while at < bytes.len() {
        let end = extent.block_end(at);
        if extent.is_block_start(at) {
            let number = (extent.from + at as u64) / extent.block_bytes + 1;
            if end - at < block::HEADER || word(bytes, at + block::NUMBER) != number {
                break;
            }
            survey.base = word(bytes, at + block::BASE);
            at += block::HEADER;
        }
        survey.block(&bytes[..end], at);
        at = end;
    }
    survey.contents()
}

struct Survey {
    base: u64,
    times: (u64, u64),
    counts: Vec<(u16, u64)>,
    owners: Vec<u32>,
}

impl Survey {
    /// Counts the events from `at` to the end of the bytes, or to bytes that are no event.
    fn block(&mut self, bytes: &[u8], mut at: usize) {
        // Events are counted in runs of one kind, because nearly every event of a block has the kind of the
        // event before.
        let (mut kind, mut count) = (0, 0);
        while at < bytes.len() {
            let first = word(bytes, at);
            let (this, words) = ((first >> 32) as u16, (first >> 48 & 0xfff) as usize);
            if words == 0 || at + 8 * words > bytes.len() {
                break;
            }
            if this < event::KIND_FIRST {
                self.reserved(this, words, bytes, at);
            } else {
                if this != kind {
                    self.count(kind, count);
                    (kind, count) = (this, 0);
                }
                count += 1;
                if (first >> 60) as u8 & event::FLAG_SAME_TIME == 0 {
                    let time = self.base & !u64::from(u32::MAX) | first & u64::from(u32::MAX);
                    self.times = (self.times.0.min(time), self.times.1.max(time));
                }
            }
            at += 8 * words;
        }
        self.count(kind, count);
    }

    /// An event of a reserved kind: a full time, or a change of owner.
    fn reserved(&mut self, kind: u16, words: usize, bytes: &[u8], at: usize) {
        match (kind, words) {
            (event::KIND_FULL_TIME, 2) => self.base = word(bytes, at + 8),
            (event::KIND_OWNER, event::OWNER_WORDS) => self.owners.push(word(bytes, at + 8) as u32),
            _ => {}
        }
    }

    fn count(&mut self, kind: u16, more: u64) {
        match self.counts.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += more,
            None if more > 0 => self.counts.push((kind, more)),
            None => {}
        }
    }

    fn contents(mut self) -> Contents {
        self.counts.sort_unstable();
        self.owners.dedup();
        let times = (self.times.0 <= self.times.1).then_some(self.times);
        Contents { kinds: self.counts, owners: self.owners, times }
    }
}
