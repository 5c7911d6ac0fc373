//! Events that can be checked one by one: an event's number is its sequence number, which determines all
//! other contents.

use std::sync::LazyLock;
use thalweg_chance::mixed;
use thalweg_space::reader::{Event, Item};
use thalweg_space::{Kind, KindId, Writer};

/// A number and its hash, which the reader checks.
#[derive(Kind)]
#[kind(name = "test.hashed")]
struct Hashed {
    number: u64,
    hash: u64,
}

/// A number and bytes; how many bytes there are follows from the number's hash.
#[derive(Kind)]
#[kind(name = "test.hashed_long")]
struct HashedLong<'a> {
    number: u64,
    bytes: &'a [u8],
}

/// The most bytes of an event that is not a long one.
pub(crate) const EVENT_BYTES_MAX: u64 = 8 + 16 + 64;

/// The most bytes of a long event.
const LONG_BYTES_MAX: usize = 100 << 10;

/// A pattern, of which slices are the bytes of events.
pub(crate) static PATTERN: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..256 + LONG_BYTES_MAX).map(|at| (at * 7 + at / 251) as u8).collect());

/// The bytes of event `number`: one event in 64 has up to `long` bytes.
fn bytes_of(number: u64, long: u64) -> &'static [u8] {
    let hash = mixed(number);
    let from = (hash & 0xff) as usize;
    let length = if long > 0 && number % 64 == 21 { (hash >> 8) % long } else { hash >> 8 & 0x3f };
    &PATTERN[from..from + length as usize]
}

fn is_long(number: u64) -> bool {
    number % 16 == 5
}

fn shares_time(number: u64) -> bool {
    number % 4 == 3
}

fn time_of(number: u64) -> u64 {
    // Two events that do not share a time are 2^20 ticks apart, so an event with its full time is needed
    // every few thousand events.
    (number - u64::from(shares_time(number))) << 20
}

/// A writer of events that can be checked.
pub(crate) struct CheckedWriter {
    pub(crate) writer: Writer,
    hashed: KindId<Hashed>,
    long: KindId<HashedLong<'static>>,
    long_bytes: u64,
}

impl CheckedWriter {
    pub(crate) fn new(writer: Writer) -> CheckedWriter {
        CheckedWriter::with_long(writer, 0)
    }

    /// A writer of events, some of which have up to `long_bytes` bytes.
    pub(crate) fn with_long(mut writer: Writer, long_bytes: u64) -> CheckedWriter {
        assert!(long_bytes <= LONG_BYTES_MAX as u64);
        let hashed = writer.declare().unwrap();
        let long = writer.declare().unwrap();
        CheckedWriter { writer, hashed, long, long_bytes }
    }

    /// Emits the next event; returns its number.
    pub(crate) fn emit(&mut self) -> u64 {
        let number = self.writer.sequence();
        if is_long(number) {
            let bytes = bytes_of(number, self.long_bytes);
            self.writer.emit_at(time_of(number), self.long, &HashedLong { number, bytes });
        } else if shares_time(number) {
            self.writer.emit_same_time(self.hashed, &Hashed { number, hash: mixed(number) });
        } else {
            self.writer.emit_at(time_of(number), self.hashed, &Hashed { number, hash: mixed(number) });
        }
        number
    }
}

/// Checks the events of one writer: each is either read correctly or counted as lost.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    /// The next expected sequence number.
    pub(crate) next: u64,
    /// Events since the last gap.
    pub(crate) since_gap: u64,
    long_bytes: u64,
}

impl Checked {
    /// Makes a checker for the events of a writer made by [`CheckedWriter::with_long`].
    pub(crate) fn with_long(long_bytes: u64) -> Checked {
        Checked { long_bytes, ..Checked::default() }
    }

    /// Checks an item; panics if it is wrong.
    pub(crate) fn take(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(event) => {
                assert_eq!(event.sequence, self.next);
                check(event, self.long_bytes);
                self.events += 1;
                self.since_gap += 1;
                self.next += 1;
            }
            Item::Gap { lost, from_sequence, .. } => {
                assert_eq!(*from_sequence, self.next);
                self.lost += lost;
                self.next += lost;
                self.since_gap = 0;
            }
        }
        assert_eq!(self.events + self.lost, self.next);
    }
}

fn check(event: &Event<'_>, long: u64) {
    let number = event.sequence;
    let field = |name| event.kind.field(name).expect("the kind's own field");
    assert_eq!(event.u64(field("number")), number);
    assert!(!event.is_truncated() && !event.is_interpolated());
    if is_long(number) {
        assert_eq!((event.kind.name.as_str(), event.time), ("test.hashed_long", time_of(number)));
        assert_eq!(event.bytes(field("bytes")), bytes_of(number, long), "{number}");
        return;
    }
    assert_eq!(event.kind.name, "test.hashed");
    assert_eq!(event.u64(field("hash")), mixed(number), "{number}");
    // If the event before was dropped, an event with "the same time" takes the time at which its block
    // begins.
    assert_eq!(event.is_same_time(), shares_time(number));
    assert_eq!(event.time, time_of(number), "{number}");
}
