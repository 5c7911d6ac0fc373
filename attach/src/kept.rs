//! The first or the last calls of a function, kept one by one in the target: each has a record with its begin, its arguments and, once it has
//! returned, its duration and result.
//!
//! Each stripe of a point has a ring of records. A call takes the next record of its thread's stripe; so the first `n` calls are among the first
//! `n` of every stripe, and the last among the last. `blob.s` says how a record is laid out.

use crate::error::Error;
use crate::points::STRIPES;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a record with the registers of the arguments.
pub(crate) const RECORD_BYTES: u64 = 192;
/// The offset in a stripe of the number of calls that found no free record.
const WITHOUT_OFFSET: u64 = 88;

/// Which calls of a function are kept, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The number of calls to keep.
    pub calls: usize,
    /// Which calls are kept if there are more calls than [`Keep::calls`].
    pub which: Which,
}

/// Which of a function's calls are kept: the first, the last, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The calls that began first.
    First,
    /// The calls that began last.
    Last,
    /// All calls: a [`Follower`](crate::Follower) reads them while the target runs, and [`Keep::calls`] is
    /// the number of calls for which there is room between two reads.
    Every,
}

/// A call that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// When the call began, in ticks of the processor's clock.
    pub begin: u64,
    /// The thread of the target that made the call, as the address of its thread block.
    pub thread: u64,
    /// The first six arguments that are integers or pointers, as the caller gave them.
    pub arguments: [u64; 6],
    /// The bits of the first eight arguments that are floating-point numbers.
    pub floats: [u64; 8],
    /// The end of the call; `None` if the call has not ended or its end was not recorded.
    pub ended: Option<Ended>,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How long the call lasted, in ticks of the processor's clock.
    pub ticks: u64,
    /// The contents of the result registers for integers and for floating-point numbers; the function's type
    /// tells which of them is the result. `None` if the call ended by a jump into another timed function,
    /// which returned in its place.
    pub result: Option<(u64, u64)>,
}

/// The ring of call records in each stripe of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// The offset of the first record in the stripe.
    pub(crate) offset: u64,
    /// The number of records, a power of two.
    pub(crate) records: u64,
    pub(crate) keep: Keep,
}

impl Ring {
    pub(crate) fn at(offset: u64, keep: Keep) -> Ring {
        let records = (keep.calls.max(1) as u64).next_power_of_two();
        Ring { offset: offset.next_multiple_of(64), records, keep }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.records * RECORD_BYTES
    }

    /// The words of a point's descriptor, from its offset 64 on, that describe the ring to the trampolines.
    pub(crate) fn described(&self) -> [u64; 4] {
        [self.offset, self.records - 1, RECORD_BYTES, u64::from(self.keep.which == Which::First)]
    }

    /// The kept calls, ordered by their begin, and the number of calls that could not be kept.
    pub(crate) fn read(
        &self,
        memory: &File,
        begin: u64,
        stripe_bytes: u64,
    ) -> Result<(Vec<Call>, u64), Error> {
        let failed = |error| Error::of("cannot read the calls that were kept", error);
        let mut calls = Vec::new();
        let mut without = 0;
        let (mut bytes, mut again) = (vec![0; self.bytes() as usize], vec![0; self.bytes() as usize]);
        for stripe in 0..STRIPES {
            let stripe = begin + stripe * stripe_bytes;
            let mut word = [0; 8];
            memory.read_exact_at(&mut word, stripe + WITHOUT_OFFSET).map_err(failed)?;
            without += u64::from_le_bytes(word);
            // Two reads that give the same bytes, with no thread writing the record, show that the record is
            // complete.
            memory.read_exact_at(&mut bytes, stripe + self.offset).map_err(failed)?;
            memory.read_exact_at(&mut again, stripe + self.offset).map_err(failed)?;
            let records = bytes.chunks_exact(RECORD_BYTES as usize);
            let same = records.zip(again.chunks_exact(RECORD_BYTES as usize)).filter(|(one, two)| one == two);
            calls.extend(same.filter_map(|(record, _)| call(record)));
        }
        calls.sort_by_key(|call| call.begin);
        let more = calls.len().saturating_sub(self.keep.calls);
        match self.keep.which {
            Which::First => calls.truncate(self.keep.calls),
            Which::Last | Which::Every => drop(calls.drain(..more)),
        }
        Ok((calls, without))
    }
}

/// The call in a record; `None` if the record is not in use or a thread is writing it.
fn call(record: &[u8]) -> Option<Call> {
    let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
    let is_written = word(0) == 0 && word(8) != 0;
    is_written.then(|| Call {
        begin: word(16),
        thread: word(32),
        arguments: std::array::from_fn(|number| word(64 + 8 * number)),
        floats: std::array::from_fn(|number| word(112 + 8 * number)),
        ended: match word(48) {
            0 => None,
            how => Some(Ended { ticks: word(24), result: (how == 1).then(|| (word(40), word(56))) }),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, begin: u64, how: u64) -> Vec<u8> {
        let mut words = [0_u64; 24];
        (words[1], words[2], words[3], words[5], words[6]) = (number, begin, 7, 42, how);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn kept(which: Which) -> Vec<u64> {
        let ring = Ring::at(128, Keep { calls: 2, which });
        let stripe_bytes = ring.offset + ring.bytes();
        let file = tempfile::tempfile().expect("a file");
        file.set_len(stripe_bytes * STRIPES).expect("room");
        for (stripe, place, bytes) in [
            (0, 0, record(1, 50, 1)),
            (0, 1, record(2, 10, 0)),
            (5, 0, record(1, 30, 2)),
            (6, 1, record(0, 5, 1)),
        ] {
            let at = stripe * stripe_bytes + ring.offset + place * RECORD_BYTES;
            file.write_all_at(&bytes, at).expect("written");
        }
        let (calls, without) = ring.read(&file, 0, stripe_bytes).expect("read");
        assert_eq!(without, 0);
        calls.iter().map(|call| call.begin).collect()
    }

    #[test]
    fn the_first_and_the_last_of_all_stripes_are_chosen() {
        assert_eq!(kept(Which::First), [10, 30]);
        assert_eq!(kept(Which::Last), [30, 50]);
    }

    #[test]
    fn a_record_holds_how_the_call_ended() {
        let ended = |how| call(&record(1, 50, how)).expect("in use").ended;
        assert_eq!(ended(0), None);
        assert_eq!(ended(1), Some(Ended { ticks: 7, result: Some((42, 0)) }));
        assert_eq!(ended(2), Some(Ended { ticks: 7, result: None }));
    }
}
