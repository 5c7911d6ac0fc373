//! Tests of events that are longer than a block: they are written in parts, and read completely or counted as
//! lost.

mod support;

use proptest::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::checked::{Checked, CheckedWriter};
use support::{Counted, Directory, space};
use thalweg_space::archive::Archiver;
use thalweg_space::kind::FieldSpec;
use thalweg_space::layout::block;
use thalweg_space::reader::{Event, EventStream, Item, SpaceReader};
use thalweg_space::{CollectorOptions, Kind, Policy};

/// A text and bytes of any length.
#[derive(Kind)]
#[kind(name = "test.letter")]
struct Letter<'a> {
    number: u64,
    text: &'a str,
    bytes: &'a [u8],
}

const WAIT: Policy = Policy::Wait { timeout: Duration::from_secs(60) };

/// A text of `length` bytes that differs for each event `number`.
fn text(number: usize, length: usize) -> String {
    (0..length).map(|at| char::from(b'a' + ((at * 7 + number * 3 + at / 251) % 26) as u8)).collect()
}

/// The written events, for comparison with those that are read.
struct Written {
    letters: Vec<(String, Vec<u8>)>,
    /// The number of the next event.
    next: usize,
    lost: u64,
}

impl Written {
    fn new(lengths: &[(usize, usize)]) -> Written {
        let letter = |(n, (first, second)): (usize, &(usize, usize))| {
            (text(n, *first), text(n + 1, *second).into_bytes())
        };
        Written { letters: lengths.iter().enumerate().map(letter).collect(), next: 0, lost: 0 }
    }

    fn letter(&self, number: usize) -> Letter<'_> {
        let (text, bytes) = &self.letters[number];
        Letter { number: number as u64, text, bytes }
    }

    fn take(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(event) => self.check(event),
            Item::Gap { lost, from_sequence, .. } => {
                assert_eq!(*from_sequence, self.next as u64);
                self.next += *lost as usize;
                self.lost += lost;
            }
        }
    }

    fn check(&mut self, event: &Event<'_>) {
        let field = |name| event.kind.field(name).unwrap();
        let (text, bytes) = &self.letters[self.next];
        assert_eq!((event.sequence, event.u64(field("number"))), (self.next as u64, self.next as u64));
        assert_eq!(event.time, 1000 + self.next as u64);
        if event.is_truncated() {
            let (read, read_bytes) = (event.str(field("text")), event.bytes(field("bytes")));
            assert!(text.starts_with(&*read) && bytes.starts_with(read_bytes));
            assert!(read.len() < text.len() || read_bytes.len() < bytes.len());
        } else {
            assert_eq!(
                (&*event.str(field("text")), event.bytes(field("bytes"))),
                (text.as_str(), &bytes[..])
            );
        }
        self.next += 1;
    }

    fn read(&mut self, stream: &mut EventStream) {
        while stream.poll(usize::MAX, &mut |item| self.take(&item)).unwrap() > 0 {}
    }
}

fn lengths() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let length = prop_oneof![4 => 0usize..60, 2 => 300usize..4_000, 1 => 30_000usize..100 << 10];
    prop::collection::vec((length.clone(), length), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// For all lengths, blocks and policies, every event is read correctly or counted as lost, whether a
    /// reader comes at the end, follows the events, or follows them block by block. No event is lost if an
    /// archiver keeps up.
    #[test]
    fn long_events_come_back(
        lengths in lengths(),
        block in 9u32..17,
        count in 2usize..9,
        policy in prop::sample::select(vec![Policy::Overwrite, Policy::DropNewest, WAIT]),
        second_owner in any::<bool>(),
    ) {
        let directory = Directory::new("long");
        let space = space(&directory, 1 << block, count, policy);
        // Blocks of a second owner begin with its name.
        let mut writer = space.writer("first").unwrap();
        if second_owner {
            drop(writer);
            writer = space.writer("second").unwrap();
        }
        let kind = writer.declare::<Letter<'static>>().unwrap();
        let reader = SpaceReader::open(space.path()).unwrap();
        let mut readers = [reader.events(), reader.events().by_block(), reader.events()];
        let mut seen = [(); 3].map(|()| Written::new(&lengths));
        let mut archiver = (policy != Policy::Overwrite).then(|| Archiver::open(space.path()).unwrap());
        for n in 0..lengths.len() {
            writer.emit_at(1000 + n as u64, kind, &seen[0].letter(n));
            if let Some(archiver) = &mut archiver {
                archiver.step().unwrap();
            }
            // Two readers follow the events, and one reads them at the end.
            for (stream, seen) in readers[..2].iter_mut().zip(&mut seen).filter(|_| n % 3 == 0) {
                seen.read(stream);
            }
        }
        let drops = writer.drops();
        drop(writer);
        if let Some(archiver) = archiver {
            archiver.finish().unwrap();
        }
        for (stream, seen) in readers.iter_mut().zip(&mut seen) {
            seen.read(stream);
            prop_assert_eq!(seen.next, lengths.len());
            prop_assert!(policy == Policy::Overwrite || seen.lost == drops);
        }
        prop_assert_eq!(drops, 0, "an archiver that keeps up makes room for the longest event");
    }
}

/// An event fits unless it would overwrite the block where it begins; a longer one is cut.
#[test]
fn an_event_may_fill_all_blocks_but_one() {
    for (block_bytes, count) in [(512, 2), (512, 5), (64 << 10, 16)] {
        let directory = Directory::new("full");
        let space = space(&directory, block_bytes, count, Policy::Overwrite);
        let mut writer = space.writer("w").unwrap();
        let kind = writer.declare::<Letter<'static>>().unwrap();
        // The lengths and the number take two words, and each part of an event takes eight bytes more; the
        // text and the bytes each get half of the remaining room.
        let room = block_bytes - block::HEADER - 32;
        let fits = (((count - 1) * (room - 8 * room.div_ceil(8 * 4095)) - 16) / 2) & !7;
        let long = text(1, fits + 1);
        writer.emit_at(
            1000,
            kind,
            &Letter { number: 0, text: &long[..fits], bytes: &long.as_bytes()[..fits] },
        );
        writer.emit_at(1001, kind, &Letter { number: 1, text: &long, bytes: long.as_bytes() });
        let mut found = Vec::new();
        let mut take = |item: Item<'_>| {
            if let Item::Event(event) = item {
                found.push((
                    event.sequence,
                    event.is_truncated(),
                    event.str(event.kind.field("text").unwrap()).len(),
                ));
            }
        };
        SpaceReader::open(space.path()).unwrap().events().poll(9, &mut take).unwrap();
        assert_eq!(found.last(), Some(&(1, true, fits)), "{block_bytes} × {count}");
        assert!(found.len() == 1 || found[0] == (0, false, fits));
    }
}

/// Readers in other threads read up to the newest event, or block by block, while blocks are recycled.
#[test]
fn readers_see_no_wrong_long_event() {
    let directory = Directory::new("long-race");
    let space = space(&directory, 4096, 8, Policy::Overwrite);
    let events = 300_000;
    let mut writer = CheckedWriter::with_long(space.writer("w").unwrap(), 20_000);
    let is_over = AtomicBool::new(false);
    let reader = SpaceReader::open(space.path()).unwrap();
    std::thread::scope(|scope| {
        let readers = [reader.events(), reader.events().by_block()].map(|mut stream| {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut seen = Checked::with_long(20_000);
                loop {
                    let was_over = is_over.load(Ordering::Acquire);
                    if stream.poll(1000, &mut |item| seen.take(&item)).unwrap() == 0 && was_over {
                        return seen;
                    }
                }
            })
        });
        while writer.emit() + 1 < events {}
        drop(writer);
        is_over.store(true, Ordering::Release);
        for reader in readers {
            let seen = reader.join().unwrap();
            assert_eq!(seen.next, events);
            assert!(seen.events > 0);
        }
    });
}

/// If a kind written by hand panics in the middle of a long event, the event is dropped and counted, and the
/// next events are correct.
#[test]
fn an_event_given_up_in_its_middle_is_counted() {
    struct Quitter(Cell<u32>, u32);
    impl Kind for Quitter {
        const NAME: &'static str = "test.quitter";
        const DOC: &'static str = "";
        const FIELDS: &'static [FieldSpec] = &[FieldSpec::of::<&[u8]>("a", "", "")];
        type Words = [u64; 1];
        fn words(&self, _: u32) -> [u64; 1] {
            [1600]
        }
        fn tails(&self, visit: &mut dyn FnMut(&[u8])) {
            // `tails` is called first for the sizes, and then for the bytes.
            if self.0.replace(self.0.get() + 1) == 0 {
                return visit(&[7; 1600]);
            }
            assert!(self.1 > 0, "quits before it begins");
            visit(&[7; 600]);
            assert!(self.1 > 1, "quits in its middle");
        }
    }
    let directory = Directory::new("quitter");
    let space = space(&directory, 512, 6, Policy::Overwrite);
    let mut writer = space.writer("w").unwrap();
    let quitter = writer.declare::<Quitter>().unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let mut readers = [reader.events(), reader.events().by_block()].map(|stream| (stream, Vec::new()));
    let take = |counts: &mut Vec<(u64, u64)>, item: Item<'_>| match item {
        Item::Event(event) => counts.push((event.sequence, event.u64(event.kind.field("count").unwrap()))),
        Item::Gap { lost, from_sequence, .. } => counts.extend((0..lost).map(|n| (from_sequence + n, 99))),
    };
    for n in 0..4 {
        writer.emit(counted, &Counted { count: 2 * u64::from(n) });
        let quits = std::panic::AssertUnwindSafe(|| writer.emit(quitter, &Quitter(Cell::new(0), n.min(2))));
        assert!(std::panic::catch_unwind(quits).is_err());
        for (stream, counts) in &mut readers {
            stream.poll(99, &mut |item| take(counts, item)).unwrap();
        }
    }
    writer.emit(counted, &Counted { count: 8 });
    assert_eq!((writer.drops(), writer.sequence()), (4, 9));
    drop(writer);
    for (mut stream, mut counts) in readers {
        while stream.poll(99, &mut |item| take(&mut counts, item)).unwrap() > 0 {}
        let expected = [0, 99, 2, 99, 4, 99, 6, 99, 8].into_iter().enumerate();
        assert_eq!(counts, expected.map(|(n, count)| (n as u64, count)).collect::<Vec<_>>());
    }
}

/// The latest event of an element may begin many blocks before the block where it ends.
#[test]
fn the_latest_event_may_be_long() {
    let directory = Directory::new("latest");
    let space = space(&directory, 512, 9, Policy::Overwrite);
    let options = CollectorOptions { block_count: 9, ..CollectorOptions::default() };
    let texts = [3000, 5, 0, 2900, 400].map(|length| text(1, length));
    let mut collector = space.collector::<Letter<'_>>("path", options).unwrap();
    let mut writer = space.writer("w").unwrap();
    let kind = writer.declare::<Letter<'static>>().unwrap();
    let mut latest = SpaceReader::open(space.path()).unwrap().latest();
    for text in &texts {
        let letter = Letter { number: 0, text, bytes: b"end" };
        collector.record(&letter);
        writer.emit(kind, &letter);
        let mut count = 0;
        let mut take = |event: Event<'_>| {
            count += 1;
            assert_eq!(event.str(event.kind.field("text").unwrap()), text.as_str());
        };
        assert_eq!(latest.look(&mut take).unwrap(), 2);
        assert_eq!(count, 2);
    }
}
