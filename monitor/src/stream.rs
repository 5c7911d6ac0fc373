//! A stream's messages and their times in it.

use crate::observation::{Run, StreamTotals};

/// A stream that exists, or was closed and is not yet fully told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) name: u64,
    pub(crate) reader: u64,
    pub(crate) writer: u64,
    pub(crate) reader_component: u64,
    pub(crate) writer_component: u64,
    pub(crate) capacity: u64,
    /// `None`: it was there before the first event seen.
    pub(crate) opened: Option<u64>,
    pub(crate) closed: Option<u64>,
    /// Positions said at its close, or by the live table.
    pub(crate) totals: Option<StreamTotals>,
    /// Told by dispatches.
    pub(crate) seen: StreamTotals,
    /// Sums of the times of all messages seen, from `seen_since`; their difference is the time integral of the occupancy.
    written_times: i128,
    read_times: i128,
    pub(crate) seen_since: Option<u64>,
    pub(crate) occupancy_max: u64,
    pub(crate) failed: u64,
    pub(crate) full_ticks: u64,
    pub(crate) empty_ticks: u64,
    pub(crate) role_settled: bool,
}

impl Stream {
    /// A dispatch from `start` to `end` wrote these.
    pub(crate) fn wrote(&mut self, run: &Run, start: u64, end: u64) {
        self.seen.written += run.count;
        self.written_times += self.times(run.count, start, end);
        self.occupancy_max = self.occupancy_max.max(self.seen_held());
    }

    /// A dispatch from `start` to `end` read these.
    pub(crate) fn read(&mut self, run: &Run, start: u64, end: u64) {
        self.seen.read += run.count;
        self.read_times += self.times(run.count, start, end);
    }

    /// Sum of the times of `count` messages spread over a dispatch, since the first.
    fn times(&mut self, count: u64, start: u64, end: u64) -> i128 {
        let since = *self.seen_since.get_or_insert(start);
        let twice_middle = (i128::from(start) - i128::from(since)) + (i128::from(end) - i128::from(since));
        i128::from(count) * twice_middle / 2
    }

    /// Messages written and not read, as told so far. A reader may be told before its writer.
    fn seen_held(&self) -> u64 {
        let held = self.seen.written.saturating_sub(self.seen.read);
        if self.capacity > 0 { held.min(self.capacity) } else { held }
    }

    /// Time integral of the occupancy until `end`, in message·ticks: the sum of all messages' times in the stream.
    pub(crate) fn occupancy_ticks(&self, end: u64) -> f64 {
        let Some(since) = self.seen_since else { return 0.0 };
        let held = i128::from(self.seen.written) - i128::from(self.seen.read);
        let until_end = held * (i128::from(end) - i128::from(since));
        (until_end + self.read_times - self.written_times).max(0) as f64
    }

    /// Everything said at its close has been seen.
    pub(crate) fn told(&self) -> bool {
        self.totals.is_some_and(|totals| {
            self.closed.is_some() && self.seen.written >= totals.written && self.seen.read >= totals.read
        })
    }

    /// What does not add up. `whole`: every event of the run was seen, in mode full. A stream that is not closed has
    /// positions published at different moments, so that they may disagree by what it can hold.
    pub(crate) fn contradiction(&self, whole: bool) -> Option<String> {
        let totals = self.totals?;
        let StreamTotals { written, read, dropped } = totals;
        let gone = read.saturating_add(dropped);
        if self.closed.is_none() {
            let slack = self.capacity.max(64);
            return (gone > written.saturating_add(slack))
                .then(|| format!("{gone} messages were read or dropped, only {written} written"));
        }
        if gone > written {
            return Some(format!("{} messages were read or dropped that were never written", gone - written));
        }
        if gone < written {
            return Some(format!("{} messages were written and neither read nor dropped", written - gone));
        }
        if self.failed > read {
            return Some(format!("{} messages failed, only {read} were read", self.failed));
        }
        if whole && self.seen.written != written {
            return Some(format!("its writer told of {} messages written, not {written}", self.seen.written));
        }
        if whole && self.seen.read != read {
            return Some(format!("its reader told of {} messages read, not {read}", self.seen.read));
        }
        None
    }

    /// Best known positions: those it said itself, else those the dispatches told.
    pub(crate) fn positions(&self) -> Option<StreamTotals> {
        self.totals.or((self.seen != StreamTotals::default()).then_some(self.seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, count: u64) -> Run {
        Run { stream: 1, first, count }
    }

    #[test]
    fn occupancy_is_the_sum_of_the_times_in_the_stream() {
        let mut stream = Stream { capacity: 8, ..Stream::default() };
        // 4 messages written at 100, 2 read at 120, 2 held until 200: 2·20 + 2·100.
        stream.wrote(&run(0, 4), 100, 100);
        stream.read(&run(0, 2), 120, 120);
        assert_eq!(stream.occupancy_ticks(200), 240.0);
        assert_eq!(stream.occupancy_max, 4);
        // Spread over dispatches: written around 50 on average, read around 150.
        let mut stream = Stream::default();
        stream.wrote(&run(0, 10), 0, 100);
        stream.read(&run(0, 10), 100, 200);
        assert_eq!(stream.occupancy_ticks(1000), 1000.0);
    }

    #[test]
    fn contradictions() {
        let closed = |written, read, dropped| Stream {
            closed: Some(1),
            totals: Some(StreamTotals { written, read, dropped }),
            seen: StreamTotals { written, read, dropped: 0 },
            ..Stream::default()
        };
        assert_eq!(closed(5, 3, 2).contradiction(true), None);
        assert!(
            closed(5, 3, 1).contradiction(false).unwrap().contains("1 messages were written and neither")
        );
        assert!(closed(5, 3, 3).contradiction(false).unwrap().contains("never written"));
        let mut other = closed(5, 5, 0);
        other.seen.read = 4;
        assert_eq!(other.contradiction(false), None);
        assert!(other.contradiction(true).unwrap().contains("told of 4"));
        other.closed = None;
        assert_eq!(other.contradiction(true), None);
    }
}
