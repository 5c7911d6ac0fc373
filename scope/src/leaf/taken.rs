//! The events of each writer that were read so far, so that none is read twice, whether it comes from an
//! element or from a line of latest events.

use thalweg_space::reader::Item;

/// The largest number of a writer. Numbers are consecutive; an event with a larger one is damaged.
const WRITERS_MAX: usize = 1 << 24;
/// The most pulls that read the elements themselves before a pull reads only the lines of latest events
/// again.
const PAUSE_MAX: u32 = 63;

/// The next sequence number of each writer.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// For each writer, the next sequence number plus 1; 0 if it is unknown.
    next: Vec<u64>,
    /// How many more pulls read the elements themselves before a pull reads only the lines of latest events
    /// again.
    pause: u32,
    pauses: u32,
    /// Whether an earlier pull has read the elements.
    is_begun: bool,
}

/// The state of the latest event of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latest {
    /// The event was read before.
    Old,
    /// The event is the next one of its writer.
    Next,
    /// Events before this one were not read yet.
    Behind,
}

impl Progress {
    /// Whether the latest events are probably the only new events of the elements.
    pub(crate) fn may_be_quiet(&mut self) -> bool {
        if !self.is_begun || self.pause > 0 {
            self.pause = self.pause.saturating_sub(1);
            return false;
        }
        true
    }

    /// Notes that elements had more new events than their latest ones, which is probable for the next pulls,
    /// too.
    pub(crate) fn is_not_quiet(&mut self) {
        self.pauses = (2 * self.pauses + 1).min(PAUSE_MAX);
        self.pause = self.pauses;
    }

    /// Notes that the latest events were the only new ones.
    pub(crate) fn is_quiet(&mut self) {
        self.pauses = 0;
    }

    /// Notes that elements were read.
    pub(crate) fn begin(&mut self) {
        self.is_begun = true;
    }

    #[inline]
    pub(crate) fn latest(&self, writer: u32, sequence: u64) -> Latest {
        match self.next.get(writer as usize) {
            None | Some(0) => Latest::Behind,
            Some(next) if sequence + 1 == *next => Latest::Next,
            Some(next) if sequence + 1 < *next => Latest::Old,
            Some(_) => Latest::Behind,
        }
    }

    /// Notes that the event with this sequence number of this writer was read.
    pub(crate) fn advance(&mut self, writer: u32, sequence: u64) {
        let at = writer as usize;
        if at >= WRITERS_MAX {
            return;
        }
        if self.next.len() <= at {
            self.next.resize(at + 1, 0);
        }
        self.next[at] = sequence.saturating_add(2);
    }

    /// The part of the item that was not read before; `None` if all of it was.
    #[inline]
    pub(crate) fn new_part<'a>(&mut self, item: Item<'a>) -> Option<Item<'a>> {
        match item {
            Item::Event(event) => {
                let is_old = self.latest(event.writer, event.sequence) == Latest::Old;
                (!is_old).then(|| self.advance(event.writer, event.sequence))?;
                Some(item)
            }
            Item::Gap { time, writer, lost, from_sequence, kind_unknown } => {
                let next = self.next.get(writer as usize).copied().unwrap_or(0).saturating_sub(1);
                let end = from_sequence.saturating_add(lost);
                let from = from_sequence.max(next);
                let lost = end.checked_sub(from).filter(|lost| *lost > 0)?;
                self.advance(writer, end - 1);
                Some(Item::Gap { time, writer, lost, from_sequence: from, kind_unknown })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_not_taken_again() {
        let mut progress = Progress::default();
        let gap = |from_sequence, lost| {
            let (time, writer, kind_unknown) = (0, 3, false);
            Item::Gap { time, writer, lost, from_sequence, kind_unknown }
        };
        let mut check = |item, expected: Option<(u64, u64)>| {
            let found = match progress.new_part(item) {
                Some(Item::Gap { lost, from_sequence, .. }) => Some((from_sequence, lost)),
                _ => None,
            };
            assert_eq!(found, expected);
        };
        check(gap(0, 5), Some((0, 5)));
        check(gap(2, 3), None);
        check(gap(3, 4), Some((5, 2)));
        assert_eq!(progress.latest(3, 6), Latest::Old);
        assert_eq!(progress.latest(3, 7), Latest::Next);
        assert_eq!(progress.latest(3, 8), Latest::Behind);
        assert_eq!(progress.latest(4, 0), Latest::Behind);
        progress.advance(3, 7);
        assert_eq!(progress.latest(3, 7), Latest::Old);
    }
}
