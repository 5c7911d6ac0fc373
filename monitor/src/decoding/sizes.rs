//! The sizes of a stream's messages, from the samples that its writer took: see `exec.message_sizes` in `kinds/exec.kinds`.

use crate::decoding::events::{StreamSizeCounts, StreamSizes};
use crate::decoding::rows::MessageSizesRow;

/// Cells of buckets, each of four.
const CELLS: usize = 7;
const IN_CELL: usize = 4;
/// Buckets of a power of two where they are finest.
const FINEST: f64 = 32.0;
/// Buckets are never wider than 2^7 of the finest ones, which are 16 powers of two.
const COARSEST: u64 = 7;

/// What is known of the sizes of a stream's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sizes {
    /// Messages that the sizes stand for.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The least size taken.
    pub least: u64,
    /// The largest.
    pub most: u64,
    scale: u64,
    counts: [u64; CELLS],
}

/// A group of sizes that are about the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// The size that is off by the same ratio from the least and from the largest of them, in bytes.
    pub(crate) bytes: f64,
    /// The part of the messages that have such a size.
    pub(crate) share: f64,
}

impl Sizes {
    /// How many messages had their size taken.
    pub fn taken(&self) -> u64 {
        self.scale >> 24
    }

    /// Their mean, in bytes.
    pub fn mean(&self) -> Option<f64> {
        (self.messages > 0 && self.taken() > 0).then(|| self.bytes as f64 / self.messages as f64)
    }

    /// By which part of itself a size may be off in [`Sizes::buckets`].
    pub(crate) fn error(&self) -> f64 {
        if self.least == self.most {
            return 0.0;
        }
        (f64::from(1_u32 << self.coarseness()) / 2.0 / FINEST).exp2() - 1.0
    }

    fn coarseness(&self) -> u64 {
        (self.scale & 0xf).min(COARSEST)
    }

    /// How the messages' sizes are distributed; none while the buckets are being moved.
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
    /// The sizes of a closed stream, which records them by two events.
    pub(crate) fn told(sizes: &StreamSizes, counts: &StreamSizeCounts) -> Sizes {
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
