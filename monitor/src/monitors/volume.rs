//! The volume of data in streams: bytes a second, and how large a message is (LPEL paper, *data volume*).

use std::collections::BTreeMap;

use crate::decoding::events::{Observation, StreamSizeCounts};
use crate::decoding::sizes::Sizes;
use crate::ids::IdMap;
use crate::report::Volume;

/// The number of bits that are dropped from the mantissa of a size; the remaining bits give the size to
/// within a millionth.
const BITS_LESS: u32 = 32;

/// The recorded sizes of closed streams' messages, kept until the last event of these streams.
#[derive(Clone, Default)]
pub(super) struct RecordedSizes {
    counts: IdMap<StreamSizeCounts>,
    sizes: IdMap<Sizes>,
}

impl RecordedSizes {
    /// The kinds that record sizes.
    pub(super) const KINDS: [&str; 2] = ["exec.stream_size_counts", "exec.stream_sizes"];

    pub(super) fn take(&mut self, observation: &Observation) {
        match *observation {
            Observation::StreamSizeCounts(counts) => _ = self.counts.insert(counts.stream, counts),
            Observation::StreamSizes(sizes) => {
                if let Some(counts) = self.counts.remove(&sizes.stream) {
                    self.sizes.insert(sizes.stream, Sizes::of_events(&sizes, &counts));
                }
            }
            _ => {}
        }
    }

    /// The sizes of a stream's messages, as recorded.
    pub(super) fn remove(&mut self, stream: u64) -> Option<Sizes> {
        self.sizes.remove(&stream)
    }
}

/// The sizes of the messages of several streams, in which each message has the same weight.
#[derive(Clone, Debug, Default)]
pub(super) struct Volumes {
    messages: f64,
    bytes: f64,
    taken: u64,
    least: u64,
    most: u64,
    error: f64,
    /// The number of messages by size, for streams whose distribution is known; the key has the upper bits of
    /// the size as a floating-point number.
    sizes: BTreeMap<u32, f64>,
}

impl Volumes {
    /// Adds a stream with this number of messages.
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
        // The tolerance covers rounding errors in sums of shares.
        let wanted = (q - 1e-9) * all;
        let at = self.sizes.iter().find(|&(_, messages)| {
            counted += messages;
            counted >= wanted
        });
        let bytes = f64::from_bits(u64::from(*at?.0) << BITS_LESS);
        Some(bytes.max(self.least as f64).min(self.most as f64))
    }

    /// The reported volume, if sizes are known; `rate_per_s` is the number of messages that pass the streams
    /// in a second.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoding::events::StreamSizes;

    /// A distribution of the sizes of single messages, in buckets of 2^`coarseness` thirty-seconds of a power
    /// of two.
    fn sizes(coarseness: u32, sizes: &[u64]) -> Sizes {
        let bucket = |size: u64| ((size as f64).log2() * 32.0) as u64 >> coarseness;
        let first = sizes.iter().map(|&size| bucket(size)).min().unwrap();
        let mut cells = [0_u64; 7];
        for &size in sizes {
            let at = (bucket(size) - first) as usize;
            cells[at / 4] += 1 << (at % 4 * 16);
        }
        let event = StreamSizes {
            stream: 1,
            messages: sizes.len() as u64,
            bytes: sizes.iter().sum(),
            least: *sizes.iter().min().unwrap(),
            most: *sizes.iter().max().unwrap(),
            scale: u64::from(coarseness) | first << 4 | (sizes.len() as u64) << 24,
        };
        let [counts_0, counts_1, counts_2, counts_3, counts_4, counts_5, counts_6] = cells;
        let counts = StreamSizeCounts {
            stream: 1,
            counts_0,
            counts_1,
            counts_2,
            counts_3,
            counts_4,
            counts_5,
            counts_6,
        };
        Sizes::of_events(&event, &counts)
    }

    fn volume(streams: &[(Sizes, u64)]) -> Volume {
        let mut volumes = Volumes::default();
        streams.iter().for_each(|(sizes, messages)| volumes.add(sizes, *messages));
        volumes.report(Some(10.0)).unwrap()
    }

    #[test]
    fn streams_count_by_their_messages_and_not_by_their_samples() {
        // The first stream has ten sampled sizes for 1,000 messages, and the second stream has fifty for 100.
        let volume = volume(&[(sizes(0, &[100; 10]), 1000), (sizes(0, &[5001; 50]), 100)]);
        assert!((volume.mean_bytes - (100_000.0 + 500_100.0) / 1100.0).abs() < 1e-9);
        assert_eq!(volume.bytes_per_s, Some(10.0 * volume.mean_bytes));
        assert_eq!((volume.p99_bytes, volume.p99_error), (Some(5001.0), Some(0.0)));
        assert_eq!((volume.most_bytes, volume.sizes_taken), (5001, 60));
    }

    #[test]
    fn a_quantile_is_off_by_no_more_than_its_error() {
        for coarseness in 2..=4 {
            let all: Vec<u64> = (0..1000).map(|k| 100 + k * k % 97).collect();
            let mut sorted = all.clone();
            sorted.sort_unstable();
            let volume = volume(&[(sizes(coarseness, &all), 1000)]);
            let (p99, error) = (volume.p99_bytes.unwrap(), volume.p99_error.unwrap());
            assert!(
                (p99 / sorted[989] as f64 - 1.0).abs() <= error,
                "{coarseness}: {p99}, not {}",
                sorted[989]
            );
            assert!(error < 0.2);
        }
    }

    #[test]
    fn nonsense_is_no_worse_than_wrong() {
        let event = StreamSizes { stream: 1, messages: 1, bytes: 9, least: 7, most: 3, scale: !(1 << 23) };
        let ones = u64::MAX;
        let counts = StreamSizeCounts {
            stream: 1,
            counts_0: ones,
            counts_1: ones,
            counts_2: ones,
            counts_3: ones,
            counts_4: ones,
            counts_5: ones,
            counts_6: ones,
        };
        let nonsense = Sizes::of_events(&event, &counts);
        let p99 = volume(&[(nonsense, u64::MAX)]).p99_bytes.unwrap();
        assert!(p99.is_finite(), "{p99}");
        let moving = Sizes::of_events(&StreamSizes { scale: u64::MAX, ..event }, &counts);
        assert_eq!(volume(&[(moving, 5)]).p99_bytes, None);
        assert!(Volumes::default().report(None).is_none());
    }
}
