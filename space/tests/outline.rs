//! Tests of outlines: an outline has only the events of some kinds before a given time, and reads only those
//! chunks of an archive that have such events.

mod support;

use std::os::unix::fs::FileExt;
use std::path::Path;
use support::{Directory, Seen, read_stream, space, totals};
use thalweg_chance::Chance;
use thalweg_space::archive::{ArchiveOptions, Archiver};
use thalweg_space::reader::{Feed, Item, PathFeed, SpaceReader};
use thalweg_space::{ElementOptions, Kind, KindId, Policy, Space, SpaceOptions, Writer};

/// What happens seldom.
#[derive(Kind)]
#[kind(name = "test.seldom")]
struct Seldom {
    number: u64,
}

/// An event that happens often.
#[derive(Kind)]
#[kind(name = "test.often")]
struct Often {
    number: u64,
    more: u32,
}

struct Mixed {
    writer: Writer,
    seldom: KindId<Seldom>,
    often: KindId<Often>,
    number: u64,
}

impl Mixed {
    fn new(mut writer: Writer) -> Mixed {
        let seldom = writer.declare::<Seldom>().unwrap();
        let often = writer.declare::<Often>().unwrap();
        Mixed { writer, seldom, often, number: 0 }
    }

    fn emit(&mut self, ticks: u64, is_seldom: bool) {
        let number = self.number;
        self.number += 1;
        match is_seldom {
            true => self.writer.emit_at(ticks, self.seldom, &Seldom { number }),
            false => self.writer.emit_at(ticks, self.often, &Often { number, more: number as u32 }),
        }
    }
}

fn is_wanted(kind: &str) -> bool {
    kind != "test.often"
}

/// Compares an outline with all events: the outline has the wanted events of each writer, and all its events
/// from at most one block before `until`, or before the end, on.
fn check_outline(all: &[Seen], seen: &[Seen], until: u64, what: &str) {
    let of = |items: &[Seen], wanted: u32| -> Vec<(u64, bool, Seen)> {
        let event = |item: &Seen| match item {
            Seen::Event { time, kind, writer, .. } if *writer == wanted => {
                Some((*time, is_wanted(kind), item.clone()))
            }
            _ => None,
        };
        items.iter().filter_map(event).collect()
    };
    for writer in 0..10 {
        let (all, seen) = (of(all, writer), of(seen, writer));
        let outline = |whole: usize| {
            let stays = |(n, item): &(usize, &(u64, bool, Seen))| *n >= whole || item.1;
            all.iter().enumerate().filter(stays).map(|(_, item)| item.clone()).collect::<Vec<_>>()
        };
        // If unwanted events are left out in a growing first part, the number of remaining events only falls;
        // so at most one such part gives the number that was seen.
        let mut whole = all.len();
        let mut count = all.iter().filter(|item| item.1).count();
        while count < seen.len() && whole > 0 {
            whole -= 1;
            count += usize::from(!all[whole].1);
        }
        assert_eq!(seen, outline(whole), "{what}, writer {writer}");
        let end = all.partition_point(|item| item.0 < until);
        assert!(all[end.min(whole)..whole].iter().all(|item| item.1), "{what}: what comes after is whole");
        let before = all[whole.min(end)..end].len();
        assert!(before <= BLOCK_BYTES / 16, "{what}: {before} events more than asked for");
    }
}

const BLOCK_BYTES: usize = 1024;

/// Events of two writers, some of which are overwritten before they are archived; if `is_whole` is set, the
/// writers wait for the archiver, so no event is overwritten.
fn kept(chance: &mut Chance, kept: &Path, directory: &Directory, is_whole: bool) -> thalweg_space::Space {
    let policy = if is_whole {
        Policy::Wait { timeout: std::time::Duration::from_secs(3600) }
    } else {
        Policy::Overwrite
    };
    let space = space(directory, BLOCK_BYTES, 16, policy);
    let mut writers = [0, 1].map(|n| Mixed::new(space.writer(&format!("w{n}")).unwrap()));
    let options = ArchiveOptions {
        directory: Some(kept.into()),
        chunk_bytes: 1 << chance.between(9, 13),
        segment_bytes: 1 << chance.between(12, 18),
        is_synced: chance.one_in(2),
        ..ArchiveOptions::default()
    };
    let mut archiver = Archiver::with_options(space.path(), options).unwrap();
    let mut ticks = 1 << 40;
    for _ in 0..chance.between(20, 300) {
        for writer in &mut writers {
            // Long parts have no rare events.
            let is_seldom = chance.one_in(25);
            for _ in 0..if is_whole { chance.below(60) } else { chance.below(600) } {
                ticks += chance.below(1 << 22);
                writer.emit(ticks, is_seldom && chance.one_in(4));
            }
        }
        archiver.step().unwrap();
    }
    if chance.one_in(2) {
        drop(writers);
        archiver.finish().unwrap();
    }
    space
}

#[test]
fn an_outline_is_what_all_is_without_what_is_left_out() {
    for seed in 0..60 {
        let mut chance = Chance::new(seed);
        let directory = Directory::new("outline");
        let archive = directory.path().join("kept");
        let space = kept(&mut chance, &archive, &directory, chance_is_whole(seed));
        for path in [&archive, space.path()] {
            let reader = SpaceReader::open(path).unwrap();
            let (all, problem) = read_stream(reader.events());
            assert!(problem.is_none(), "{problem:?}");
            let times: Vec<u64> = all
                .iter()
                .filter_map(|item| if let Seen::Event { time, .. } = item { Some(*time) } else { None })
                .collect();
            for until in [0, times[times.len() / 3], times[times.len() - 1], u64::MAX] {
                let (seen, problem) = read_stream(reader.events().outlined(until, is_wanted));
                assert!(problem.is_none(), "{problem:?}");
                check_outline(&all, &seen, until, &format!("seed {seed}, until {until}"));
                assert_eq!(lost(&seen), lost(&all), "seed {seed}, until {until}");
            }
        }
    }
}

fn chance_is_whole(seed: u64) -> bool {
    !seed.is_multiple_of(3)
}

/// The number of lost events of each writer. Gaps within skipped chunks are reported as one gap.
fn lost(seen: &[Seen]) -> [u64; 3] {
    let mut lost = [0; 3];
    for item in seen {
        if let Seen::Gap { writer, lost: more, .. } = item {
            lost[*writer as usize % 3] += more;
        }
    }
    lost
}

/// Chunks that an outline leaves out are not read, so they may be damaged.
#[test]
fn chunks_without_anything_of_the_outline_are_not_read() {
    let directory = Directory::new("outline");
    let archive = directory.path().join("kept");
    let space = space(&directory, 1024, 64, Policy::Overwrite);
    let mut writer = Mixed::new(space.writer("w").unwrap());
    let options =
        ArchiveOptions { directory: Some(archive.clone()), chunk_bytes: 8192, ..ArchiveOptions::default() };
    let mut archiver = Archiver::with_options(space.path(), options).unwrap();
    for n in 0..100_000_u64 {
        // The first and the last chunk have rare events.
        writer.emit(n << 20, !(10..=99_990).contains(&n));
        if n % 500 == 0 {
            archiver.step().unwrap();
        }
    }
    drop(writer);
    archiver.finish().unwrap();
    let count = |until: u64| {
        let reader = SpaceReader::open(&archive).unwrap();
        let (seen, problem) = read_stream(reader.events().outlined(until, is_wanted));
        let (events, lost) = totals(&seen);
        (events, lost, problem.is_some())
    };
    // The last block is read with all its events.
    let (few, lost, is_error) = count(u64::MAX);
    assert!((19..19 + 1024 / 16).contains(&few) && lost == 0 && !is_error, "{few}");
    // Bytes in the middle of the segment belong to events that happen often, and are damaged here.
    let segment = archive.join("000001.segment");
    let segment = if segment.exists() { segment } else { archive.join("000000.segment") };
    let file = std::fs::File::options().write(true).open(&segment).unwrap();
    let length = file.metadata().unwrap().len();
    for at in (length / 4..length / 2).step_by(1000) {
        file.write_all_at(&[0x5a; 8], at).unwrap();
    }
    assert_eq!(count(u64::MAX), (few, 0, false));
    let (events, lost, is_error) = count(0);
    assert!(lost > 0 && events < 100_000 || is_error, "a reader of all of it meets the damage");
}

#[test]
fn a_feed_is_focused_on_a_window() {
    let directory = Directory::new("outline");
    let archive = directory.path().join("kept");
    let mut chance = Chance::new(5);
    let space = kept(&mut chance, &archive, &directory, true);
    let begin = SpaceReader::open(space.path()).unwrap().info().unwrap().clock;
    let mut feed = PathFeed::open(&archive).unwrap();
    // All events lie before the time `far`, because their times were computed.
    let far = std::time::Duration::from_secs(1 << 30);
    feed.focus(std::time::Duration::ZERO, far, is_wanted).unwrap();
    let mut count = 0;
    while feed.poll(100, &mut |_, item| count += u64::from(matches!(item, Item::Event(_)))).unwrap() > 0 {}
    let (all, _) = read_stream(SpaceReader::open(&archive).unwrap().events());
    let anchor = begin.anchor().ticks;
    let expected = all.iter().filter(|item| matches!(item, Seen::Event { .. })).count() as u64;
    assert!(anchor > 0 && count == expected, "{count} of {expected}");
    assert!(!feed.has_more(0));
}

#[test]
fn a_window_that_begins_with_overwritten_events_has_a_time_before_which_they_are() {
    let directory = Directory::new("overwritten");
    let space = space(&directory, 4096, 4, Policy::Overwrite);
    let start = space.clock().anchor().ticks;
    let mut slow = Mixed::new(space.writer("slow").unwrap());
    let mut fast = Mixed::new(space.writer("fast").unwrap());
    let count = 3000;
    for n in 0..count {
        fast.emit(start + 1000 * n, false);
        if n % 300 == 0 {
            slow.emit(start + 1000 * n, false);
        }
    }
    let first_held = |since: u64, until: u64| {
        let mut events = SpaceReader::open(space.path()).unwrap().events().since_block(since).until(until);
        let mut first = None;
        let mut take = |item: Item<'_>| {
            if let Item::Event(event) = item
                && event.writer == fast.writer.number()
            {
                first.get_or_insert(event.time);
            }
        };
        while events.poll(usize::MAX, &mut take).unwrap() > 0 {}
        (first, events.overwritten_until())
    };
    let (first, until) = first_held(start, u64::MAX);
    assert!(first > Some(start + 1000 * 2000) && until == first, "{first:?}, {until:?}");
    // All events of the window are overwritten, so none of that writer's is handed over.
    assert_eq!(first_held(start + 1000, start + 9000), (None, until));
    // A window of events that are there.
    assert_eq!(first_held(first.unwrap() + 1, u64::MAX).1, None);
}

/// What is left out of a busy writer does not count as lost, and no event of an idle writer is left out.
#[test]
fn events_that_are_left_out_are_not_lost() {
    let directory = Directory::new("left-out");
    let options = SpaceOptions {
        path: Some(directory.path().join("space")),
        element: ElementOptions { block_bytes: BLOCK_BYTES, block_count: 8, ..ElementOptions::default() },
        ..SpaceOptions::default()
    };
    let space = Space::create(options).unwrap();
    let mut busy = Mixed::new(space.writer("busy").unwrap());
    let mut idle = Mixed::new(space.writer("idle").unwrap());
    let mut feed = PathFeed::open(space.path()).unwrap();
    // For each writer, the numbers of its events and the lost events of its gaps.
    let read = |feed: &mut PathFeed| {
        let mut seen = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
        let mut take = |_: usize, item: Item<'_>| match item {
            Item::Event(event) => {
                let number = event.u64(event.kind.field("number").unwrap());
                seen[event.writer as usize - 1].0.push(number);
            }
            Item::Gap { writer, lost, .. } => seen[writer as usize - 1].1.push(lost),
        };
        while feed.poll(100, &mut take).unwrap() > 0 {}
        seen
    };
    let mut ticks = 1;
    let mut emit = |of: &mut Mixed, count: usize| {
        for _ in 0..count {
            of.emit(ticks, false);
            ticks += 1;
        }
    };
    let in_block = BLOCK_BYTES / 24;
    emit(&mut busy, 10);
    emit(&mut idle, 10);
    feed.leave_out();
    let [(of_busy, gaps_of_busy), (of_idle, gaps_of_idle)] = read(&mut feed);
    assert_eq!((of_busy.len(), of_idle.len()), (10, 10), "less than a block was written");
    assert!(gaps_of_busy.is_empty() && gaps_of_idle.is_empty());
    // Blocks are passed over if they are there still, and also if they are overwritten.
    for blocks in [3, 5, 40] {
        let before = (busy.number, idle.number);
        emit(&mut busy, blocks * in_block);
        emit(&mut idle, 2);
        feed.leave_out();
        let [(of_busy, gaps_of_busy), (of_idle, gaps_of_idle)] = read(&mut feed);
        assert_eq!(of_idle, [before.1, before.1 + 1]);
        assert!(gaps_of_idle.is_empty());
        assert_eq!(gaps_of_busy, [0], "{blocks} blocks: one gap of no lost events");
        let newest: Vec<u64> = (busy.number - of_busy.len() as u64..busy.number).collect();
        assert_eq!(of_busy, newest, "the newest events, without a gap");
        assert!((1..=in_block).contains(&of_busy.len()), "{} of a block", of_busy.len());
        // What comes later is read in whole.
        let before = busy.number;
        emit(&mut busy, 3 * in_block);
        let [(of_busy, gaps_of_busy), _] = read(&mut feed);
        assert_eq!(of_busy, (before..busy.number).collect::<Vec<_>>());
        assert!(gaps_of_busy.is_empty());
    }
}
