//! The volume of data in streams: bytes a second, and how large a message is (LPEL paper, *data volume*).

use std::collections::BTreeMap;

use crate::decoding::events::{Observation, StreamSizeCounts};
use crate::decoding::sizes::Sizes;
use crate::ids::IdMap;
use crate::report::Volume;

/// Sizes are told apart by so many bits less of their mantissas than a number has: by less than a millionth.
const BITS_LESS: u32 = 32;

/// What closed streams have told of their messages' sizes, until they are done with.
#[derive(Clone, Default)]
pub(super) struct ToldSizes {
    counts: IdMap<StreamSizeCounts>,
    sizes: IdMap<Sizes>,
}

impl ToldSizes {
    /// The kinds that tell.
    pub(super) const KINDS: [&str; 2] = ["exec.stream_size_counts", "exec.stream_sizes"];

    pub(super) fn take(&mut self, observation: &Observation) {
        match *observation {
            Observation::StreamSizeCounts(counts) => _ = self.counts.insert(counts.stream, counts),
            Observation::StreamSizes(sizes) => {
                if let Some(counts) = self.counts.remove(&sizes.stream) {
                    self.sizes.insert(sizes.stream, Sizes::told(&sizes, &counts));
                }
            }
            _ => {}
        }
    }

    /// What a stream has told.
    pub(super) fn remove(&mut self, stream: u64) -> Option<Sizes> {
        self.sizes.remove(&stream)
    }
}

/// The sizes of the messages of several streams, each message as likely as any other.
#[derive(Clone, Debug, Default)]
pub(super) struct Volumes {
    messages: f64,
    bytes: f64,
    taken: u64,
    least: u64,
    most: u64,
    error: f64,
    /// Messages by size, of streams whose distribution is known; the size as the upper bits of its number.
    sizes: BTreeMap<u32, f64>,
}

impl Volumes {
    /// Adds a stream with so many messages.
    pub(super) fn add(&mut self, sizes: &Sizes, messages: u64) {
        let Some(mean) = sizes.mean() else { return };
        let messages = messages as f64;
        self.least = if self.taken == 0 { sizes.least } else { self.least.min(sizes.least) };
        self.most = self.most.max(sizes.most);
        self.taken += sizes.taken();
        self.messages += messages;
        self.bytes += mean * messages;
        self.error = self.error.max(sizes.error());
        for bucket in sizes.buckets().into_iter().flatten() {
            let key = (bucket.bytes.to_bits() >> BITS_LESS) as u32;
            *self.sizes.entry(key).or_default() += bucket.share * messages;
        }
    }

    /// The size that a share `q` of the messages does not exceed.
    fn quantile(&self, q: f64) -> Option<f64> {
        let all: f64 = self.sizes.values().sum();
        let mut counted = 0.0;
        // Sums of shares are off by less than this.
        let wanted = (q - 1e-9) * all;
        let at = self.sizes.iter().find(|&(_, messages)| {
            counted += messages;
            counted >= wanted
        });
        let bytes = f64::from_bits(u64::from(*at?.0) << BITS_LESS);
        Some(bytes.max(self.least as f64).min(self.most as f64))
    }

    /// What is reported, if anything is known; the streams had so many messages a second.
    pub(super) fn report(&self, rate_per_s: Option<f64>) -> Option<Volume> {
        if self.taken == 0 || self.messages == 0.0 {
            return None;
        }
        let mean_bytes = self.bytes / self.messages;
        let p99_bytes = self.quantile(0.99);
        Some(Volume {
            bytes_per_s: rate_per_s.map(|rate| rate * mean_bytes),
            mean_bytes,
            p99_bytes,
            p99_error: p99_bytes.map(|_| self.error),
            most_bytes: self.most,
            sizes_taken: self.taken,
        })
    }
}
