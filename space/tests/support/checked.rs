//! Events of which each can be told right from wrong: its number is its sequence, and all else in it follows from that.

use super::hash;
use thalweg_space::reader::{Event, Item};
use thalweg_space::{Kind, KindId, Writer};

/// A number and what follows from it.
#[derive(Kind)]
#[kind(name = "test.hashed")]
struct Hashed {
    number: u64,
    hash: u64,
}

/// The same with as many bytes as the hash says.
#[derive(Kind)]
#[kind(name = "test.hashed_long")]
struct HashedLong<'a> {
    number: u64,
    bytes: &'a [u8],
}

/// The longest event in bytes.
pub(crate) const EVENT_BYTES_MAX: u64 = 8 + 16 + 64;

/// Bytes of the events of all kinds, to take slices from.
const PATTERN: [u8; 320] = {
    let mut pattern = [0; 320];
    let mut at = 0;
    while at < 320 {
        pattern[at] = (at * 7) as u8;
        at += 1;
    }
    pattern
};

fn bytes_of(number: u64) -> &'static [u8] {
    let hash = hash(number);
    let from = (hash & 0xff) as usize;
    &PATTERN[from..from + (hash >> 8 & 0x3f) as usize]
}

fn is_long(number: u64) -> bool {
    number % 16 == 5
}

fn shares_time(number: u64) -> bool {
    number % 4 == 3
}

fn time_of(number: u64) -> u64 {
    // Every 2^32 ticks a full time is due; here every some thousand events.
    (number - u64::from(shares_time(number))) << 20
}

/// A writer of such events.
pub(crate) struct CheckedWriter {
    pub(crate) writer: Writer,
    hashed: KindId<Hashed>,
    long: KindId<HashedLong<'static>>,
}

impl CheckedWriter {
    pub(crate) fn new(mut writer: Writer) -> CheckedWriter {
        let hashed = writer.declare().unwrap();
        let long = writer.declare().unwrap();
        CheckedWriter { writer, hashed, long }
    }

    /// Emits the event whose turn it is; gives its number.
    pub(crate) fn emit(&mut self) -> u64 {
        let number = self.writer.sequence();
        if is_long(number) {
            self.writer.emit_at(time_of(number), self.long, &HashedLong { number, bytes: bytes_of(number) });
        } else if shares_time(number) {
            self.writer.emit_same_time(self.hashed, &Hashed { number, hash: hash(number) });
        } else {
            self.writer.emit_at(time_of(number), self.hashed, &Hashed { number, hash: hash(number) });
        }
        number
    }
}

/// What was read of one writer's events so far: every one right, every one counted or there.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    /// Sequence of the next one.
    pub(crate) next: u64,
    /// Events since the last gap.
    pub(crate) since_gap: u64,
}

impl Checked {
    /// Takes an item; panics at one that is wrong.
    pub(crate) fn take(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(event) => {
                assert_eq!(event.sequence, self.next);
                check(event);
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

fn check(event: &Event<'_>) {
    let number = event.sequence;
    let field = |name| event.kind.field(name).expect("the kind's own field");
    assert_eq!(event.u64(field("number")), number);
    assert!(!event.is_truncated() && !event.is_interpolated());
    if is_long(number) {
        assert_eq!((event.kind.name.as_str(), event.time), ("test.hashed_long", time_of(number)));
        assert_eq!(event.bytes(field("bytes")), bytes_of(number), "{number}");
        return;
    }
    assert_eq!(event.kind.name, "test.hashed");
    assert_eq!(event.u64(field("hash")), hash(number), "{number}");
    // After a dropped event "the same time" is that of the block's base.
    assert_eq!(event.is_same_time(), shares_time(number));
    assert_eq!(event.time, time_of(number), "{number}");
}
