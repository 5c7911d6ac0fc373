//! Tests of small and reused elements: pools, latest events, owners, discarding.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use support::{Counted, Directory, Seen, options, read_events, space, totals};
use thalweg_space::archive::Archiver;
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::{Collector, CollectorOptions, Kind, PathCollector, Policy, Space, SpaceOptions};

fn bytes_in(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap()).map(|about| about.blocks() * 512).sum()
}

fn collectors(space: &Space, count: usize) -> Vec<Collector<Counted>> {
    let options = CollectorOptions::default();
    (0..count).map(|n| space.collector(&format!("path {n}"), options).unwrap()).collect()
}

#[test]
fn two_thousand_elements_fit_into_sixteen_megabytes() {
    let directory = Directory::new("small");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let mut all = collectors(&space, 2240);
    for round in 0..3 {
        for (n, collector) in all.iter_mut().enumerate() {
            collector.record_at(round * 10_000 + n as u64, &Counted { count: n as u64 });
        }
    }
    let bytes = bytes_in(space.path());
    assert!(bytes <= 16 << 20, "{bytes}");
    let files = std::fs::read_dir(space.path()).unwrap().count();
    assert!(files < 40, "{files} files");
    let reader = SpaceReader::open(space.path()).unwrap();
    let mut latest = reader.latest();
    let mut seen = Vec::new();
    let count = latest
        .look(&mut |event| {
            let name = reader.name(event.writer_name).unwrap();
            let count = event.u64(event.kind.field("count").unwrap());
            assert_eq!((&*name, event.time, event.sequence), (&*format!("path {count}"), 20_000 + count, 2));
            seen.push(count);
        })
        .unwrap();
    assert_eq!((count, seen), (2240, (0..2240).collect()));
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none(), "{problem:?}");
    assert_eq!(totals(&seen), (3 * 2240, 0));
    let times: Vec<u64> = seen
        .iter()
        .map(|item| match item {
            Seen::Event { time, .. } => *time,
            gap => panic!("{gap:?}"),
        })
        .collect();
    assert!(times.is_sorted());
    let infos = reader.writers().unwrap();
    assert_eq!((infos.len(), infos[7].name.as_str(), infos[7].generation), (2240, "path 7", 1));
}

/// The latest event of each element, of any kind, is the last event that reading all events returns.
#[test]
fn the_latest_event_is_the_last_one() {
    /// An event with more words than fit into a line of a pool.
    #[derive(Kind)]
    #[kind(name = "test.wide")]
    struct Wide<'a> {
        a: u64,
        b: u64,
        c: u64,
        d: u64,
        e: u64,
        text: &'a str,
    }
    let directory = Directory::new("latest");
    let space = space(&directory, 512, 4, Policy::Overwrite);
    let mut small = collectors(&space, 2);
    let mut wide = space.collector::<Wide<'static>>("wide", CollectorOptions::default()).unwrap();
    let mut path = PathCollector::new(&space, "path", CollectorOptions::default()).unwrap();
    let write = space.name("write").unwrap();
    let mut writer = space.writer("own").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let mut latest = SpaceReader::open(space.path()).unwrap().latest();
    assert_eq!(latest.look(&mut |event| panic!("{event:?}")).unwrap(), 0);
    for n in 0..200u64 {
        small[0].record(&Counted { count: n });
        wide.record(&Wide { a: n, b: 1, c: 2, d: 3, e: 4, text: "a text" });
        let started = path.start();
        path.complete(started, write, n, n);
        writer.emit(counted, &Counted { count: n });
        if n % 2 == 1 {
            writer.emit_same_time(counted, &Counted { count: n });
        }
        let mut last = BTreeMap::new();
        let (seen, problem) = read_events(space.path());
        assert!(problem.is_none(), "{problem:?}");
        for item in seen {
            if let Seen::Event { writer, .. } = &item {
                last.insert(*writer, item);
            }
        }
        let mut found = BTreeMap::new();
        let look = &mut |event: thalweg_space::reader::Event<'_>| {
            found.insert(event.writer, support::see(&Item::Event(event)));
        };
        assert_eq!(latest.look(look).unwrap(), 4);
        assert_eq!(found, last);
    }
}

/// A mapped file that is truncated at any moment leads to an error of the reader, and does not end the
/// process.
#[test]
fn files_that_are_cut_short_while_they_are_looked_at_are_errors() {
    let directory = Directory::new("cut");
    let space = space(&directory, 512, 4, Policy::Overwrite);
    let mut all = collectors(&space, 100);
    all.iter_mut().for_each(|collector| collector.record(&Counted { count: 1 }));
    // The test truncates a copy, because the process that made the space needs complete files.
    let copy = directory.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(space.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let pool = std::fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().path());
    let pool = pool.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "pool")).unwrap();
    let cut = |path: &Path| std::fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    let reader = SpaceReader::open(&copy).unwrap();
    let (mut latest, mut other) = (reader.latest(), SpaceReader::open(space.path()).unwrap().latest());
    assert_eq!(latest.look(&mut |_| {}).unwrap(), 100);
    cut(&pool);
    for _ in 0..2 {
        // Events of other pools are still read.
        let mut count = 0;
        let error = latest.look(&mut |_| count += 1).unwrap_err().to_string();
        assert!(count < 100, "{count}");
        assert!(error.contains("is truncated") && error.contains(".pool"), "{error}");
    }
    cut(&copy.join("space"));
    let error = latest.look(&mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("is truncated"), "{error}");
    assert_eq!(other.look(&mut |_| {}).unwrap(), 100, "others are read on");
}

/// Runs a function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// While a writer records as fast as it can, each line that is read holds one whole event.
#[test]
fn the_latest_event_is_never_torn() {
    /// An event with the same number in all its words, so that a torn event is noticed.
    #[derive(Kind)]
    #[kind(name = "test.fourfold")]
    struct Fourfold {
        a: u64,
        b: u64,
        c: u64,
        d: u64,
    }
    let directory = Directory::new("torn");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let mut collector = space.collector::<Fourfold>("fast", CollectorOptions::default()).unwrap();
    let looks = AtomicU64::new(0);
    let mut latest = SpaceReader::open(space.path()).unwrap().latest();
    std::thread::scope(|scope| {
        let looks = &looks;
        scope.spawn(move || {
            let mut n = 0;
            while looks.load(Ordering::Relaxed) < 2_000 {
                collector.record_at(n, &Fourfold { a: n, b: n, c: n, d: n });
                n += 1;
            }
        });
        // The writer also ends when this thread panics.
        let _end = OnDrop(|| looks.store(2_000, Ordering::Relaxed));
        let mut before = 0;
        for _ in 0..2_000 {
            let look = &mut |event: thalweg_space::reader::Event<'_>| {
                let words = ["a", "b", "c", "d"].map(|name| event.u64(event.kind.field(name).unwrap()));
                assert_eq!(words, [event.time; 4]);
                assert_eq!(event.sequence, event.time);
                assert!(event.time >= before, "{} after {before}", event.time);
                before = event.time;
            };
            latest.look(look).unwrap();
            looks.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Threads that come and go share a few elements, and the events of each thread are read under its name until
/// they are overwritten.
#[test]
fn ten_thousand_threads_use_a_few_elements() {
    const THREADS: u64 = 10_000;
    let directory = Directory::new("churn");
    let space = space(&directory, 4096, 16, Policy::Overwrite);
    let mut stream = SpaceReader::open(space.path()).unwrap().events();
    let (mut next, mut events, mut lost) = (BTreeMap::new(), 0, 0);
    let mut poll = || {
        stream
            .poll(usize::MAX, &mut |item| match item {
                Item::Event(event) => {
                    let count = event.u64(event.kind.field("count").unwrap());
                    // The events of a writer have its number in their counts.
                    assert_eq!((u64::from(event.writer), event.sequence), (count / 10, count % 10));
                    let next = next.entry(event.writer).or_insert(0);
                    assert_eq!(event.sequence, *next);
                    *next += 1;
                    events += 1;
                }
                Item::Gap { lost: more, .. } => lost += more,
            })
            .unwrap();
    };
    for round in 0..THREADS / 4 {
        std::thread::scope(|scope| {
            for n in 0..4 {
                let space = &space;
                scope.spawn(move || {
                    let mut writer = space.writer(&format!("thread {n}")).unwrap();
                    let counted = writer.declare::<Counted>().unwrap();
                    for count in 0..5 + u64::from(writer.number()) % 5 {
                        writer.emit(counted, &Counted { count: u64::from(writer.number()) * 10 + count });
                    }
                });
            }
        });
        // Between two polls fewer events are written than a ring holds, so none may be lost.
        if round % 8 == 0 {
            poll();
        }
    }
    poll();
    let expected: u64 = (1..=THREADS).map(|number| 5 + number % 5).sum();
    assert_eq!((events, lost), (expected, 0));
    let elements = std::fs::read_dir(space.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "element"))
        .count();
    assert!(elements <= 4, "{elements} elements for four threads at a time");
    assert!(bytes_in(space.path()) < 1 << 20);
    // Later reads also find the latest events in the rings, each with its own writer.
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none(), "{problem:?}");
    let (held, overwritten) = totals(&seen);
    assert_eq!(held + overwritten, expected);
    // The number of elements depends on the scheduler; each holds at least 15 blocks.
    assert!(held > 2_500, "{held}");
    for item in seen {
        if let Seen::Event { writer, sequence, fields, .. } = item {
            assert_eq!(fields[0], (u64::from(writer) * 10 + sequence).to_string());
        }
    }
}

#[test]
fn owners_of_an_element_keep_their_events_and_losses() {
    let directory = Directory::new("owners");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let emit = |name: &str, events: std::ops::Range<u64>| {
        let mut writer = space.writer(name).unwrap();
        let counted = writer.declare::<Counted>().unwrap();
        for count in events.clone() {
            writer.emit(counted, &Counted { count });
        }
        assert_eq!(writer.sequence(), events.end - events.start);
        writer.generation()
    };
    assert_eq!(
        [emit("a", 0..5), emit("b", 100..110), emit("c", 200..200), emit("d", 300..303)],
        [1, 2, 3, 4]
    );
    let event = |item: &Seen| match item {
        Seen::Event { writer, sequence, fields, .. } => (*writer, *sequence, fields[0].parse().unwrap()),
        gap => panic!("{gap:?}"),
    };
    let (seen, _) = read_events(space.path());
    let mut expected: Vec<(u32, u64, u64)> = (0..5).map(|n| (1, n, n)).collect();
    expected.extend((0..10).map(|n| (2, n, 100 + n)));
    expected.extend((0..3).map(|n| (4, n, 300 + n)));
    assert_eq!(seen.iter().map(event).collect::<Vec<_>>(), expected);
    let info = &SpaceReader::open(space.path()).unwrap().writers().unwrap()[0];
    assert_eq!((info.number, info.name.as_str(), info.generation, info.closed), (4, "d", 4, true));
    // The next writer overwrites these events. Lost events are attributed to the writer that wrote them, if
    // that is known.
    emit("e", 400..450);
    let (seen, _) = read_events(space.path());
    let (events, lost) = totals(&seen);
    assert_eq!(events + lost, 18 + 50);
    assert_eq!(seen[0], Seen::Gap { writer: 1, lost: 18, from_sequence: 0 });
    assert!(matches!(seen[1], Seen::Gap { writer: 5, from_sequence: 0, .. }), "{:?}", seen[1]);
    assert_eq!(event(&seen[2]).0, 5);
    assert_eq!(event(seen.last().unwrap()), (5, 49, 449));
}

#[test]
fn a_released_pool_element_is_used_again() {
    let directory = Directory::new("released");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let mut first = collectors(&space, 16);
    for collector in &mut first {
        collector.record_at(1, &Counted { count: 1 });
    }
    let bytes = bytes_in(space.path());
    let second = first.remove(3).number();
    let mut again = space.collector::<Counted>("again", CollectorOptions::default()).unwrap();
    assert_eq!((again.generation(), first[0].generation()), (2, 1));
    again.record_at(2, &Counted { count: 2 });
    assert_eq!(bytes_in(space.path()), bytes, "no new file");
    let reader = SpaceReader::open(space.path()).unwrap();
    let mut latest = Vec::new();
    reader.latest().look(&mut |event| latest.push((event.writer, event.time, event.sequence))).unwrap();
    assert!(latest.contains(&(again.number(), 2, 0)) && latest.len() == 16);
    let (seen, _) = read_events(space.path());
    assert_eq!(totals(&seen), (17, 0));
    let of =
        |number| seen.iter().filter(move |s| matches!(s, Seen::Event { writer, .. } if *writer == number));
    assert_eq!((of(second).count(), of(again.number()).count()), (1, 1));
}

#[test]
fn discarded_events_are_neither_found_nor_lost() {
    let directory = Directory::new("discard");
    let space = space(&directory, 512, 4, Policy::DropNewest);
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let mut stream = SpaceReader::open(space.path()).unwrap().events();
    writer.discard();
    for count in 0..10 {
        writer.emit(counted, &Counted { count });
    }
    writer.discard();
    assert_eq!(read_events(space.path()).0, []);
    assert_eq!(stream.poll(usize::MAX, &mut |item| panic!("{item:?}")).unwrap(), 0);
    for count in 10..15 {
        writer.emit(counted, &Counted { count });
    }
    let (seen, _) = read_events(space.path());
    assert_eq!(totals(&seen), (5, 0));
    assert!(matches!(seen[0], Seen::Event { sequence: 10, .. }), "{:?}", seen[0]);
    assert_eq!(stream.poll(usize::MAX, &mut |_| {}).unwrap(), 5);
    // Discarded blocks are free, so no event is dropped however long events are discarded.
    for count in 0..1_000 {
        writer.emit(counted, &Counted { count });
        if count % 50 == 0 {
            writer.discard();
        }
    }
    assert_eq!(writer.drops(), 0);
    let mut collector = collectors(&space, 1).remove(0);
    collector.record(&Counted { count: 1 });
    collector.discard();
    collector.record(&Counted { count: 2 });
    let counts = |seen: Vec<Seen>| {
        let of = collector.number();
        seen.into_iter().filter(move |s| matches!(s, Seen::Event { writer, .. } if *writer == of)).count()
    };
    assert_eq!(counts(read_events(space.path()).0), 1);
}

#[test]
fn pools_are_archived_too() {
    let directory = Directory::new("pool-archive");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let mut all = collectors(&space, 3);
    let mut archiver = Archiver::open(space.path()).unwrap();
    for count in 0..1_000 {
        for collector in &mut all {
            collector.record(&Counted { count });
        }
        if count % 100 == 0 {
            archiver.step().unwrap();
        }
    }
    drop(all);
    archiver.finish().unwrap();
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none(), "{problem:?}");
    assert_eq!(totals(&seen), (3_000, 0));
    // The archives can be read after the elements were removed.
    let pool = std::fs::read_dir(space.path()).unwrap().map(|e| e.unwrap().path());
    std::fs::remove_file(pool.into_iter().find(|p| p.extension().is_some_and(|e| e == "pool")).unwrap())
        .unwrap();
    assert_eq!(read_events(space.path()).0, seen);
    space.finish();
    let path = space.path().to_path_buf();
    drop(space);
    thalweg_space::discover::remove(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn a_damaged_pool_is_reported_once() {
    let directory = Directory::new("bad-pool");
    let space =
        Space::create(SpaceOptions { ..options(directory.path(), 512, 2, Policy::Overwrite) }).unwrap();
    let mut all = collectors(&space, 1);
    all[0].record(&Counted { count: 1 });
    let mut writer = space.writer("good").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    writer.emit(counted, &Counted { count: 1 });
    let pool = std::fs::OpenOptions::new().write(true).open(space.path().join("0001.pool")).unwrap();
    pool.set_len(9_000).unwrap();
    let (seen, problem) = read_events(space.path());
    assert_eq!(totals(&seen), (1, 0));
    let problem = problem.unwrap().to_string();
    assert!(problem.contains("0001.pool") && problem.contains("truncated"), "{problem}");
    assert!(SpaceReader::open(space.path()).unwrap().latest().look(&mut |_| {}).is_err());
}

/// Elements in another directory are found, archived, reused and removed with their space.
#[test]
fn elements_may_lie_elsewhere() {
    let directory = Directory::new("here");
    let disk = Directory::on_disk("elsewhere");
    let space = space(&directory, 512, 4, Policy::Overwrite);
    let on_disk = space.elements_in(disk.path()).unwrap();
    let mut writers = [space.writer("here").unwrap(), on_disk.writer("there").unwrap()];
    let again = space.elements_in(disk.path()).unwrap();
    let mut collectors = collectors(&again, 3);
    for (n, writer) in writers.iter_mut().enumerate() {
        let counted = writer.declare::<Counted>().unwrap();
        (0..200).for_each(|count| writer.emit(counted, &Counted { count: count + 1000 * n as u64 }));
    }
    for (n, collector) in collectors.iter_mut().enumerate() {
        (0..200).for_each(|count| collector.record(&Counted { count: count + 10_000 * (n + 1) as u64 }));
    }
    let there: Vec<_> = std::fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(there.len(), 1, "one directory of this space");
    assert!(there[0].join("0002.element").exists() && there[0].join("0003.pool").exists());
    assert!(!space.path().join("0002.element").exists() && space.path().join("0002.at").exists());

    let mut latest = Vec::new();
    let reader = SpaceReader::open(space.path()).unwrap();
    reader.latest().look(&mut |event| latest.push(event.u64(event.kind.field("count").unwrap()))).unwrap();
    latest.sort_unstable();
    assert_eq!(latest, [199, 1199, 10_199, 20_199, 30_199]);
    let (before, problem) = read_events(space.path());
    assert!(problem.is_none(), "{problem:?}");
    Archiver::open(space.path()).unwrap().finish().unwrap();
    assert!(space.path().join("segments").exists());
    assert_eq!(read_events(space.path()).0, before);

    // A dropped writer's element is reused by the next writer with elements in that directory.
    drop(writers);
    assert_eq!(on_disk.writer("there again").unwrap().generation(), 2);
    assert_eq!(space.writer("here again").unwrap().generation(), 2);
    drop(collectors);
    let path = space.path().to_path_buf();
    drop((on_disk, again, space));
    thalweg_space::discover::remove(&path).unwrap();
    assert!(!path.exists() && !there[0].exists() && disk.path().exists());
}

/// A link to another directory is followed only to a directory with the space's UUID in its name: a process
/// that may write into a space cannot make others read or remove files elsewhere.
#[test]
fn a_link_that_lies_is_reported() {
    let directory = Directory::new("lying");
    let disk = Directory::new("lying-disk");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let mut writer = space.elements_in(disk.path()).unwrap().writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    writer.emit(counted, &Counted { count: 1 });
    let link = space.path().join("0001.at");
    let good = std::fs::read(&link).unwrap();
    let victim = disk.path().join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("0001.element"), b"precious").unwrap();
    let lie = |text: &[u8], length: u64| {
        let mut bytes = good.clone();
        bytes[16..24].copy_from_slice(&length.to_le_bytes());
        bytes[24..24 + text.len()].copy_from_slice(text);
        std::fs::write(&link, bytes).unwrap();
        let (seen, problem) = read_events(space.path());
        assert!(seen.is_empty());
        assert!(problem.unwrap().to_string().contains("0001.at"));
    };
    let path = victim.to_str().unwrap();
    lie(path.as_bytes(), path.len() as u64);
    lie(b"..", 2);
    lie(b"", u64::MAX);
    lie(b"", 0);
    thalweg_space::discover::remove(space.path()).unwrap();
    assert!(victim.join("0001.element").exists());
}

/// Threads come and go, each with a name of its own, and the number of stored names is bounded.
#[test]
fn the_names_of_a_hundred_thousand_writers_are_bounded() {
    let directory = Directory::new("names");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let catalog = || std::fs::metadata(space.path().join("0000.catalog")).unwrap().len();
    let mut full = 0;
    for number in 0..100_000 {
        drop(space.writer(&format!("thread {number}")).unwrap());
        if number == 20_000 {
            full = catalog();
        }
    }
    assert_eq!(catalog(), full, "no name more since then");
    assert!(full < 1 << 20, "{full}");
    // Later writers can still use a known name.
    let known = space.writer("thread 7").unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    assert_eq!(reader.names().unwrap().len(), (1 << 14) + 1);
    let writers = reader.writers().unwrap();
    assert_eq!(writers.last().unwrap().name, "thread 7");
    drop(known);
    let late = space.writer("thread 99999").unwrap();
    assert_eq!(reader.writers().unwrap().last().unwrap().name, "one of many");
    drop(late);
}
