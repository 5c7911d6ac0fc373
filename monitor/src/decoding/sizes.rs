//! The sizes of a stream's messages, from the samples that its writer took: see `exec.message_sizes` in
//! `kinds/exec.kinds`.

use crate::decoding::events::{StreamSizeCounts, StreamSizes};
use crate::decoding::rows::MessageSizesRow;

/// The number of cells in a row of the live table; each cell contains four buckets.
const CELLS: usize = 7;
const IN_CELL: usize = 4;
/// The number of buckets in a power of two at the finest width.
const FINEST: f64 = 32.0;
/// The binary logarithm of the width of the widest bucket in units of the finest one: the widest bucket
/// covers 2^7 of the finest, which is 4 powers of two.
const COARSEST: u64 = 7;

/// The distribution of the sizes of a stream's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sizes {
    /// Messages that the sizes stand for.
    pub messages: u64,
    /// The total size of these messages, in bytes.
    pub bytes: u64,
    /// The least size sampled.
    pub least: u64,
    /// The largest size sampled.
    pub most: u64,
    scale: u64,
    counts: [u64; CELLS],
}

/// A group of similar sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// The geometric mean of the bucket's bounds, in bytes.
    pub(crate) bytes: f64,
    /// The part of the messages whose size is in the bucket.
    pub(crate) share: f64,
}

impl Sizes {
    /// The number of messages whose size was sampled.
    pub fn taken(&self) -> u64 {
        self.scale >> 24
    }

    /// The mean size, in bytes.
    pub fn mean(&self) -> Option<f64> {
        (self.messages > 0 && self.taken() > 0).then(|| self.bytes as f64 / self.messages as f64)
    }

    /// The maximal relative error of a size in [`Sizes::buckets`].
    pub(crate) fn error(&self) -> f64 {
        if self.least == self.most {
            return 0.0;
        }
        (f64::from(1_u32 << self.coarseness()) / 2.0 / FINEST).exp2() - 1.0
    }

    fn coarseness(&self) -> u64 {
        (self.scale & 0xf).min(COARSEST)
    }

    /// The distribution of the messages' sizes; `None` while the writer is rearranging the buckets.
    pub(crate) fn buckets(&self) -> Option<impl Iterator<Item = Bucket>> {
        let (first, is_changing) = (self.scale >> 4 & 0xfff, self.scale >> 23 & 1 != 0);
        let counts: Vec<u64> = self
            .counts
            .iter()
            .flat_map(|cell| (0..IN_CELL).map(move |at| cell >> (at * 64 / IN_CELL) & 0xffff))
            .collect();
        let all: u64 = counts.iter().sum();
        let width = f64::from(1_u32 << self.coarseness()) / FINEST;
        let (least, most) = (self.least.max(1) as f64, self.most.max(1) as f64);
        let bucket = move |(number, count): (u64, u64)| {
            let bytes = ((number as f64 + 0.5) * width).exp2();
            Bucket { bytes: bytes.max(least).min(most), share: count as f64 / all as f64 }
        };
        (!is_changing && all > 0).then(|| (first..).zip(counts).filter(|&(_, count)| count > 0).map(bucket))
    }
}

impl From<MessageSizesRow> for Sizes {
    fn from(row: MessageSizesRow) -> Sizes {
        let MessageSizesRow { messages, bytes, least, most, scale, .. } = row;
        let counts = [
            row.counts_0,
            row.counts_1,
            row.counts_2,
            row.counts_3,
            row.counts_4,
            row.counts_5,
            row.counts_6,
        ];
        Sizes { messages, bytes, least, most, scale, counts }
    }
}

impl Sizes {
    /// The sizes of a closed stream, which are recorded as two events.
    pub(crate) fn of_events(sizes: &StreamSizes, counts: &StreamSizeCounts) -> Sizes {
        let StreamSizes { messages, bytes, least, most, scale, .. } = *sizes;
        let counts = [
            counts.counts_0,
            counts.counts_1,
            counts.counts_2,
            counts.counts_3,
            counts.counts_4,
            counts.counts_5,
            counts.counts_6,
        ];
        Sizes { messages, bytes, least, most, scale, counts }
    }
}
