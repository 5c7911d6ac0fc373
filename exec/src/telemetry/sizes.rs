//! The sizes of a stream's messages: the writer measures some of the messages before it publishes them.
//!
//! Messages are chosen by their index in the stream alone, at random distances with a mean that follows from
//! the costs of a measurement and of the task's work for a message; so a large message is as likely to be
//! chosen as a small one. A measured size stands for all messages since the message that was measured before.
//! Measuring may use the part of a task's time that `exec.clock_budget` allows. The mean distance of each
//! stream is chosen for that budget. Each thread as a whole keeps to the budget as well, because it may write
//! to millions of streams.
//!
//! From the first measured size on a live row holds the results, and two events repeat the results when the
//! stream ends. The sketch of the sizes in the row and the events has buckets of equal ratios, which are
//! merged by pairs when sizes are too far apart (Epicoco et al., *UDDSketch*, IEEE Access 2020), so a
//! quantile's error is known.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use thalweg_space::LiveRow;

use super::kinds::{StreamSizeCounts, StreamSizes};
use super::recorder::Recorder;
use super::rows::{SizesRow, put};

/// The value of `next` if no further message of the stream is measured.
const NEVER: usize = usize::MAX;

/// The state for measuring a stream's messages. Only the stream's writer accesses this state, except for the
/// row.
pub(super) struct Sizes {
    /// The index of the next message to measure.
    next: AtomicUsize,
    /// The mean distance, in messages, from one measured message to the next.
    distance: AtomicU64,
    random: AtomicU64,
    /// The writing task's busy ticks, and the messages that it had written, at the last measurement.
    worked: AtomicU64,
    written: AtomicU64,
    row: OnceLock<LiveRow>,
}

#[inline]
fn get(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

impl Sizes {
    pub(super) fn new(stream: u64) -> Sizes {
        Sizes {
            next: AtomicUsize::new(0),
            distance: AtomicU64::new(1),
            random: AtomicU64::new(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            worked: AtomicU64::new(0),
            written: AtomicU64::new(0),
            row: OnceLock::new(),
        }
    }

    /// Whether one of the messages before index `end` must be measured.
    #[inline]
    pub(super) fn are_due(&self, end: usize) -> bool {
        self.next.load(Ordering::Relaxed) < end
    }

    pub(super) fn never(&self) {
        self.next.store(NEVER, Ordering::Relaxed);
    }

    /// Chooses the next message to measure, at least one after `index` and on average about `distance` later;
    /// all distances below twice `distance` are equally likely.
    pub(super) fn go_on(&self, index: usize, distance: u64) {
        let ahead = 1 + self.random(2 * distance - 1);
        self.next.store(index.saturating_add(ahead as usize), Ordering::Relaxed);
    }

    /// A random number below `limit`, from Knuth's linear congruential generator. The generator's lower bits
    /// are mixed with its upper bits, because the lower bits of such a generator have short periods.
    fn random(&self, limit: u64) -> u64 {
        let state =
            get(&self.random).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random.store(state, Ordering::Relaxed);
        let mixed = (state ^ state >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((u128::from(mixed ^ mixed >> 32) * u128::from(limit)) >> 64) as u64
    }

    /// The index of the next message to measure; `None` if no more are measured.
    pub(super) fn next(&self) -> Option<usize> {
        Some(self.next.load(Ordering::Relaxed)).filter(|&next| next != NEVER)
    }

    pub(super) fn distance(&self) -> u64 {
        get(&self.distance)
    }

    pub(super) fn set_distance(&self, distance: u64) {
        self.distance.store(distance, Ordering::Relaxed);
    }

    /// The ticks worked and messages written since the last call, from the task's totals so far.
    pub(super) fn done_since(&self, worked: u64, written: u64) -> (u64, u64) {
        let did = worked.saturating_sub(self.worked.swap(worked, Ordering::Relaxed));
        (did, written.saturating_sub(self.written.swap(written, Ordering::Relaxed)))
    }

    /// Counts a measured size for all messages since the message measured before; `make` makes the row when
    /// the first size is counted.
    pub(super) fn record(&self, make: impl FnOnce() -> Option<LiveRow>, index: usize, bytes: u64) {
        let Some(row) = self.row(make) else { return self.never() };
        let seen = get(row.cell(SizesRow::MESSAGES));
        let messages = (index as u64 + 1).saturating_sub(seen);
        let sum = get(row.cell(SizesRow::BYTES)).saturating_add(bytes.saturating_mul(messages));
        let scale = Scale::of(get(row.cell(SizesRow::SCALE)));
        let least = if scale.samples == 0 { bytes } else { get(row.cell(SizesRow::LEAST)).min(bytes) };
        put(row.cells(), SizesRow::LEAST, least);
        put(row.cells(), SizesRow::MOST, get(row.cell(SizesRow::MOST)).max(bytes));
        let mut sketch = Sketch { row, scale };
        sketch.count(finest(bytes), messages, self.random(u64::MAX));
        sketch.scale.samples += 1;
        put(row.cells(), SizesRow::SCALE, sketch.scale.word());
        put(row.cells(), SizesRow::BYTES, sum);
        put(row.cells(), SizesRow::MESSAGES, seen + messages);
    }

    fn row(&self, make: impl FnOnce() -> Option<LiveRow>) -> Option<&LiveRow> {
        if self.row.get().is_none() {
            _ = self.row.set(make()?);
        }
        self.row.get()
    }

    /// Records the sizes when the stream is closed.
    pub(super) fn write(&self, recorder: &mut Recorder, now: u64, stream: u64) {
        let Some(row) = self.row.get() else { return };
        let cell = |cell| get(row.cell(cell));
        let [messages, bytes] = [cell(SizesRow::MESSAGES), cell(SizesRow::BYTES)];
        let [least, most, scale] = [cell(SizesRow::LEAST), cell(SizesRow::MOST), cell(SizesRow::SCALE)];
        let [counts_0, counts_1, counts_2, counts_3, counts_4, counts_5, counts_6] =
            std::array::from_fn(|at| cell(SizesRow::COUNTS_0 + at));
        recorder.at(
            now,
            &StreamSizeCounts {
                stream,
                counts_0,
                counts_1,
                counts_2,
                counts_3,
                counts_4,
                counts_5,
                counts_6,
            },
        );
        recorder.at(now, &StreamSizes { stream, messages, bytes, least, most, scale });
    }
}

// ---- the sketch

/// The number of buckets in a sketch, and how many buckets one cell of a live row holds.
const BUCKETS: u64 = 28;
const IN_CELL: u64 = 4;
const BUCKET_BITS: u64 = 64 / IN_CELL;
const COUNT_MAX: u64 = (1 << BUCKET_BITS) - 1;

/// The number of the narrowest possible buckets for each power of two.
const FINEST: f64 = 32.0;

/// The layout of the sketch's buckets, stored as a word: see [`SizesRow::SCALE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    /// A bucket consists of 2^coarseness buckets of the narrowest kind.
    coarseness: u64,
    /// The number of the first bucket.
    first: u64,
    /// A bucket counts in units of 2^unit messages.
    unit: u64,
    /// Whether the buckets are being moved.
    changing: bool,
    samples: u64,
}

impl Scale {
    fn of(word: u64) -> Scale {
        Scale {
            coarseness: word & 0xf,
            first: word >> 4 & 0xfff,
            unit: word >> 16 & 0x7f,
            changing: word >> 23 & 1 != 0,
            samples: word >> 24,
        }
    }

    fn word(self) -> u64 {
        let Scale { coarseness, first, unit, changing, samples } = self;
        coarseness | first << 4 | unit << 16 | u64::from(changing) << 23 | samples << 24
    }
}

/// The index of the bucket of the narrowest kind that contains a size of `bytes` bytes.
fn finest(bytes: u64) -> u64 {
    ((bytes.max(1) as f64).log2() * FINEST) as u64
}

struct Sketch<'a> {
    row: &'a LiveRow,
    scale: Scale,
}

impl Sketch<'_> {
    /// Counts `messages` messages whose size lies in `bucket`, an index of buckets of the narrowest kind.
    fn count(&mut self, bucket: u64, messages: u64, mut random: u64) {
        if self.scale.samples == 0 {
            self.scale.first = bucket.saturating_sub(BUCKETS / 2);
        }
        loop {
            let at = (bucket >> self.scale.coarseness).wrapping_sub(self.scale.first);
            if at >= BUCKETS {
                self.reach(bucket);
                continue;
            }
            // The count is rounded up or down at random, so that many small numbers are right on average.
            let below_unit = (1_u64 << self.scale.unit) - 1;
            let count = self.at(at) + ((messages.saturating_add(random & below_unit)) >> self.scale.unit);
            if count <= COUNT_MAX {
                return self.put(at, count);
            }
            random = random.rotate_left(17);
            self.halve(random);
        }
    }

    fn at(&self, at: u64) -> u64 {
        let cell = get(self.row.cell(SizesRow::COUNTS_0 + (at / IN_CELL) as usize));
        cell >> (at % IN_CELL * BUCKET_BITS) & COUNT_MAX
    }

    fn put(&self, at: u64, count: u64) {
        let (cell, shift) = (SizesRow::COUNTS_0 + (at / IN_CELL) as usize, at % IN_CELL * BUCKET_BITS);
        let others = get(self.row.cell(cell)) & !(COUNT_MAX << shift);
        put(self.row.cells(), cell, others | count << shift);
    }

    fn counts(&self) -> [u64; BUCKETS as usize] {
        std::array::from_fn(|at| self.at(at as u64))
    }

    /// Writes all buckets again. While the buckets are written, the scale says that they are changing, which
    /// a reader sees even if the process dies meanwhile.
    #[cold]
    fn replace(&mut self, scale: Scale, counts: [u64; BUCKETS as usize]) {
        put(self.row.cells(), SizesRow::SCALE, Scale { changing: true, ..self.scale }.word());
        std::sync::atomic::fence(Ordering::Release);
        (0..).zip(counts).for_each(|(at, count)| self.put(at, count));
        self.scale = scale;
        std::sync::atomic::fence(Ordering::Release);
        put(self.row.cells(), SizesRow::SCALE, scale.word());
    }

    /// Extends the buckets so that they cover `bucket`, an index of buckets of the narrowest kind, and makes
    /// buckets wider if necessary.
    #[cold]
    fn reach(&mut self, bucket: u64) {
        let (mut scale, before) = (self.scale, self.counts());
        let used = |scale: &Scale| {
            let numbers =
                (scale.first..).zip(before).filter(|&(_, count)| count > 0).map(|(number, _)| number);
            numbers.fold((u64::MAX, 0), |(low, high), number| (low.min(number), high.max(number)))
        };
        let (low, high) = used(&scale);
        let mut merged = 0;
        let (low, high) = loop {
            let bucket = bucket >> (scale.coarseness + merged);
            let reached = ((low >> merged).min(bucket), (high >> merged).max(bucket));
            if reached.1 - reached.0 < BUCKETS {
                break reached;
            }
            merged += 1;
        };
        scale.coarseness += merged;
        scale.first = low.saturating_sub((BUCKETS - 1 - (high - low)) / 2);
        let (mut counts, mut unit) = ([0; BUCKETS as usize], 0);
        for (number, count) in (self.scale.first..).zip(before).filter(|&(_, count)| count > 0) {
            counts[((number >> merged) - scale.first) as usize] += count;
        }
        while counts.iter().any(|&count| count > COUNT_MAX) {
            counts = counts.map(|count| count.div_ceil(2));
            unit += 1;
        }
        scale.unit += unit;
        self.replace(scale, counts);
    }

    /// Lets the buckets count in units of twice as many messages.
    #[cold]
    fn halve(&mut self, random: u64) {
        let mut scale = self.scale;
        scale.unit += 1;
        let mut at = 0;
        let counts = self.counts().map(|count| {
            at += 1;
            (count + (random >> at & 1)) >> 1
        });
        self.replace(scale, counts);
    }
}
