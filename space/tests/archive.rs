//! Tests that an archive in segments has the same events as its space, whatever happens to the recorder
//! meanwhile.

mod support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::checked::{Checked, CheckedWriter};
use support::{Directory, Seen, child, is_long_run, read_events, read_stream, space, space_in, totals};
use thalweg_chance::Chance;
use thalweg_space::archive::{self, ArchiveOptions, Archiver};
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::{CollectorOptions, Policy};

const WAIT: Policy = Policy::Wait { timeout: Duration::from_secs(3600) };

fn options(directory: &Path) -> ArchiveOptions {
    ArchiveOptions { directory: Some(directory.into()), ..ArchiveOptions::default() }
}

/// The last segment of an archive.
fn last_segment(directory: &Path) -> PathBuf {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "segment")).max().unwrap()
}

fn emit(writer: &mut CheckedWriter, count: u64) {
    for _ in 0..count {
        writer.emit();
    }
}

fn check_all(path: &Path, long: u64) -> Checked {
    let mut seen = Checked::with_long(long);
    let mut stream = SpaceReader::open(path).unwrap().events();
    while stream.poll(usize::MAX, &mut |item| seen.take(&item)).unwrap() > 0 {}
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Several writers and collectors write long events, full times and shared times. Recorders with chunks
    /// and segments of all sizes are dropped before their end, and later recorders continue their archives.
    /// No event is lost, and reading the archive gives the events of the space.
    #[test]
    fn an_archive_is_read_as_its_space(seed: u64) {
        let mut random = Chance::new(seed);
        let directory = Directory::new("archive");
        let kept = directory.path().join("kept");
        let space = space(&directory, 512 << random.below(4), 24, WAIT);
        let mut writers: Vec<_> = (0..1 + random.below(3))
            .map(|n| CheckedWriter::with_long(space.writer(&format!("w{n}")).unwrap(), random.below(2) * 1200))
            .collect();
        let collected = CollectorOptions { block_bytes: 512, block_count: 4, policy: WAIT };
        let mut collector = space.collector::<support::Counted>("a path", collected).unwrap();
        let recorder = |random: &mut Chance| ArchiveOptions {
            chunk_bytes: 1 << random.between(9, 16),
            segment_bytes: 1 << random.between(10, 20),
            is_synced: random.one_in(2),
            interval: Duration::from_micros(random.below(3) * 200),
            ..options(&kept)
        };
        let mut archiver = Archiver::with_options(space.path(), recorder(&mut random)).unwrap();
        for count in 0..random.between(5, 60) {
            for writer in &mut writers {
                emit(writer, random.below(20));
            }
            collector.record_at(count, &support::Counted { count });
            if random.one_in(8) {
                // The recorder is dropped as if it was killed; the elements still hold the events that it had
                // not written.
                drop(archiver);
                archiver = Archiver::with_options(space.path(), recorder(&mut random)).unwrap();
            }
            archiver.step().unwrap();
            std::thread::sleep(Duration::from_micros(if count % 4 == 0 { 700 } else { 0 }));
            archiver.step().unwrap();
        }
        drop((writers, collector));
        archiver.finish().unwrap();
        let info = archive::info(&kept).unwrap().unwrap();
        let (seen, problem) = read_events(&kept);
        prop_assert!(problem.is_none(), "{:?}", problem);
        let (events, lost) = totals(&seen);
        prop_assert_eq!((lost, events), (0, info.events));
        // The space has overwritten some events; each event that it still holds is equal to that in the
        // archive.
        let (held, _) = read_events(space.path());
        let mut kept_events = seen.iter();
        for item in held.iter().filter(|item| matches!(item, Seen::Event { .. })) {
            prop_assert!(kept_events.any(|kept| kept == item), "{:?} is missing", item);
        }
    }

    /// Changed bytes anywhere in an archive lead to an error or to counted losses, and each event that is
    /// read is one that was written.
    #[test]
    fn a_damaged_archive_is_an_error_or_counted(seed: u64) {
        let mut random = Chance::new(seed);
        let directory = Directory::new("damaged-archive");
        let kept = directory.path().join("kept");
        let space = space(&directory, 1024, 64, Policy::Overwrite);
        let mut writer = CheckedWriter::new(space.writer("w").unwrap());
        let small = ArchiveOptions { chunk_bytes: 4096, segment_bytes: 6000, ..options(&kept) };
        let mut archiver = Archiver::with_options(space.path(), small).unwrap();
        for _ in 0..800 {
            writer.emit();
        }
        archiver.step().unwrap();
        drop(writer);
        archiver.finish().unwrap();
        let names: Vec<_> = std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
        for _ in 0..1 + random.below(3) {
            let path = &names[random.below(names.len() as u64) as usize];
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.contains("segment") {
                continue;
            }
            let mut bytes = std::fs::read(path).unwrap();
            match random.below(4) {
                0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
                1 => bytes.extend(random.bytes(20)),
                _ => {
                    let at = random.below(bytes.len().max(1) as u64) as usize;
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << random.below(8);
                    }
                }
            }
            std::fs::write(path, bytes).unwrap();
        }
        let Ok(reader) = SpaceReader::open(&kept) else { return Ok(()) };
        let mut seen = Checked::default();
        let mut stream = reader.events();
        for _ in 0..10 {
            // Each event that is read is compared with the written one; the reading ends when no items remain
            // or after an error.
            if let Ok(0) = stream.poll(usize::MAX, &mut |item| seen.take(&item)) {
                break;
            }
        }
        let _ = (reader.writers(), archive::info(&kept));
        prop_assert!(seen.events <= 800);
        // A recorder may return an error or continue the archive, but must not panic.
        let _ = Archiver::with_options(space.path(), options(&kept)).and_then(Archiver::finish);
    }
}

/// If an archive is truncated anywhere, as if a recorder was killed, its complete records are read, and the
/// next recorder continues without a gap if the element still holds the events that were cut off.
#[test]
fn a_torn_end_is_cut_off_and_gone_on_with() {
    let mut random = Chance::new(3);
    for _ in 0..if is_long_run() { 400 } else { 40 } {
        let directory = Directory::new("torn");
        let kept = directory.path().join("kept");
        let space = space(&directory, 1024, 64, Policy::Overwrite);
        let mut writer = CheckedWriter::new(space.writer("w").unwrap());
        let small = ArchiveOptions { chunk_bytes: 2048, ..options(&kept) };
        let mut archiver = Archiver::with_options(space.path(), small.clone()).unwrap();
        emit(&mut writer, 900);
        archiver.step().unwrap();
        drop(archiver);
        let path = last_segment(&kept);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..random.below(bytes.len() as u64) as usize]).unwrap();
        let before = check_all(&kept, 0);
        assert!(before.lost == 0 && before.events < 900, "{before:?}");
        let mut archiver = Archiver::with_options(space.path(), small).unwrap();
        emit(&mut writer, 100);
        archiver.step().unwrap();
        drop(writer);
        archiver.finish().unwrap();
        let after = check_all(&kept, 0);
        assert_eq!((after.events, after.lost), (1000, 0));
    }
}

/// The elements of all writers have their turns: a step takes 4 MiB of each, so that no writer with a full
/// ring waits until the full rings of the others are archived. A step that syncs takes everything, also by
/// turns.
#[test]
fn a_step_takes_a_part_of_each_element() {
    const EVENTS: u64 = 250_000;
    let directory = Directory::new("turns");
    let kept = directory.path().join("kept");
    let space = space(&directory, 65_536, 256, WAIT);
    let mut writers: Vec<_> =
        (0..2).map(|n| CheckedWriter::new(space.writer(&format!("w{n}")).unwrap())).collect();
    for writer in &mut writers {
        emit(writer, EVENTS);
    }
    let events = || {
        let (mut counts, mut stream) = (BTreeMap::new(), SpaceReader::open(&kept).unwrap().events());
        let mut count = |item: &Item<'_>| {
            let Item::Event(event) = item else { panic!("{item:?}") };
            *counts.entry(event.writer).or_insert(0) += 1;
        };
        while stream.poll(usize::MAX, &mut |item| count(&item)).unwrap() > 0 {}
        counts.into_values().collect::<Vec<u64>>()
    };
    let mut archiver = Archiver::with_options(space.path(), options(&kept)).unwrap();
    assert_eq!(archiver.step().unwrap(), 2 * (4 << 20));
    assert_eq!(archiver.written_share(), 0.25, "4 MiB of a ring of 16 MiB");
    assert_eq!(archiver.written_share(), 0.0);
    drop(archiver);
    let first = events();
    assert!(first.len() == 2 && first.iter().all(|count| *count < EVENTS), "{first:?}");
    let synced = ArchiveOptions { is_synced: true, ..options(&kept) };
    let mut archiver = Archiver::with_options(space.path(), synced).unwrap();
    archiver.step().unwrap();
    assert_eq!(archiver.step().unwrap(), 0);
    drop(archiver);
    assert_eq!(events(), [EVENTS; 2]);
}

/// If an archive exceeds its limit, its oldest segments are removed. The remaining segments can be read, and
/// the removed events count as removed and not as lost.
#[test]
fn retention_keeps_the_newest() {
    let directory = Directory::new("retention");
    let kept = directory.path().join("kept");
    let space = space(&directory, 1024, 8, WAIT);
    let mut writer = CheckedWriter::new(space.writer("w").unwrap());
    let bounded = ArchiveOptions { segment_bytes: 20_000, bytes_max: Some(60_000), ..options(&kept) };
    let mut archiver = Archiver::with_options(space.path(), bounded).unwrap();
    for _ in 0..2000 {
        emit(&mut writer, 10);
        archiver.step().unwrap();
    }
    assert!(archiver.progress().bytes <= 85_000, "{:?}", archiver.progress());
    drop(writer);
    archiver.finish().unwrap();
    let info = archive::info(&kept).unwrap().unwrap();
    assert!(info.bytes <= 60_000 && info.removed.0 > 0, "{info:?}");
    let (seen, problem) = read_events(&kept);
    assert!(problem.is_none(), "{problem:?}");
    let sequences: Vec<u64> = seen
        .iter()
        .map(|item| match item {
            Seen::Event { sequence, .. } => *sequence,
            Seen::Gap { .. } => panic!("what was removed is not lost: {item:?}"),
        })
        .collect();
    assert!(sequences.windows(2).all(|two| two[0] + 1 == two[1]));
    assert!(sequences[0] > 0 && *sequences.last().unwrap() == 19_999);
    assert!(info.removed.1 <= sequences[0] && sequences.len() as u64 <= info.events);
}

/// Segments that are too old are removed as well.
#[test]
fn age_removes_segments() {
    let directory = Directory::new("age");
    let kept = directory.path().join("kept");
    let space = space(&directory, 1024, 8, WAIT);
    let mut writer = CheckedWriter::new(space.writer("w").unwrap());
    let aged = ArchiveOptions { segment_bytes: 4_000, age_max: Some(Duration::ZERO), ..options(&kept) };
    let mut archiver = Archiver::with_options(space.path(), aged).unwrap();
    for _ in 0..300 {
        emit(&mut writer, 10);
        archiver.step().unwrap();
    }
    drop(writer);
    archiver.finish().unwrap();
    let info = archive::info(&kept).unwrap().unwrap();
    assert!(info.removed.0 > 2 && info.events + info.removed.1 == 3000, "{info:?}");
}

/// Events that were overwritten before the recorder started, or while it did not run, are counted exactly.
#[test]
fn what_was_overwritten_is_counted() {
    let directory = Directory::new("holes");
    let kept = directory.path().join("kept");
    let space = space(&directory, 512, 4, Policy::Overwrite);
    let mut writer = CheckedWriter::new(space.writer("w").unwrap());
    let mut written = 0;
    for round in 0..6 {
        (0..500 + round * 37).for_each(|_| written = writer.emit() + 1);
        let mut archiver = Archiver::with_options(space.path(), options(&kept)).unwrap();
        archiver.step().unwrap();
        (0..10).for_each(|_| written = writer.emit() + 1);
        if round % 2 == 0 {
            archiver.step().unwrap();
        } else {
            archiver.finish().unwrap();
        }
    }
    drop(writer);
    Archiver::with_options(space.path(), options(&kept)).unwrap().finish().unwrap();
    let seen = check_all(&kept, 0);
    assert!(seen.lost > 1000 && seen.events > 60, "{seen:?}");
    assert_eq!(seen.next, written);
}

/// Reading an archive from some time on does not decode earlier chunks, and gives the same events as reading
/// the whole archive gives from that time on.
#[test]
fn reading_begins_at_a_time() {
    let directory = Directory::new("times");
    let kept = directory.path().join("kept");
    let space = space(&directory, 1024, 8, WAIT);
    let mut writer = CheckedWriter::new(space.writer("w").unwrap());
    let small = ArchiveOptions { segment_bytes: 10_000, chunk_bytes: 4096, ..options(&kept) };
    let mut archiver = Archiver::with_options(space.path(), small).unwrap();
    for _ in 0..400 {
        emit(&mut writer, 10);
        archiver.step().unwrap();
    }
    drop(writer);
    archiver.finish().unwrap();
    let reader = SpaceReader::open(&kept).unwrap();
    let (all, _) = read_stream(reader.events());
    let time = |item: &Seen| match item {
        Seen::Event { time, .. } => *time,
        Seen::Gap { .. } => panic!("{item:?}"),
    };
    for from in [0, 1, 1000 << 20, 2001 << 20, 3999 << 20, u64::MAX] {
        for until in [from, from.saturating_add(100 << 20), u64::MAX] {
            let (seen, _) = read_stream(reader.events().since(from).until(until));
            let expected: Vec<Seen> =
                all.iter().filter(|item| (from..=until).contains(&time(item))).cloned().collect();
            assert_eq!(seen, expected, "{from} to {until}");
        }
    }
}

/// A directory with other files is an error for a recorder, and stays unchanged.
#[test]
fn other_directories_are_refused() {
    let directory = Directory::new("refused");
    let space = space(&directory, 1024, 8, WAIT);
    let other = space_in(directory.path(), 1024, 8, WAIT);
    let refusal = |into: &Path| {
        let opened = Archiver::with_options(space.path(), options(into));
        opened.map(|_| ()).unwrap_err().to_string()
    };
    assert!(refusal(other.path()).contains("holds a space"), "{}", refusal(other.path()));
    let foreign = directory.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.tex"), "precious").unwrap();
    assert!(refusal(&foreign).contains("something else"), "{}", refusal(&foreign));
    let kept = directory.path().join("kept");
    Archiver::with_options(other.path(), options(&kept)).unwrap().finish().unwrap();
    assert!(refusal(&kept).contains("archive of another space"), "{}", refusal(&kept));
    assert!(
        Archiver::with_options(directory.path(), options(&kept))
            .unwrap_err()
            .to_string()
            .contains("no space")
    );
}

/// The process that records until it is killed.
#[test]
#[ignore = "run by another test"]
fn recording_process() {
    let Some(path) = child::given::<PathBuf>("THALWEG_TEST_SPACE") else { return };
    let kept = child::given::<PathBuf>("THALWEG_TEST_KEPT").unwrap();
    let recorder = ArchiveOptions {
        chunk_bytes: 8192,
        segment_bytes: 50_000,
        is_synced: true,
        interval: Duration::from_millis(3),
        ..options(&kept)
    };
    let mut archiver = Archiver::with_options(&path, recorder).unwrap();
    std::io::stderr().write_all(b"begun").unwrap();
    loop {
        archiver.step().unwrap();
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Recorders are killed at any moment, one after the other. The archive can be read after each kill, the next
/// recorder continues it, and in the end every event is read or counted as lost.
#[test]
fn recorders_are_killed() {
    let mut random = Chance::new(11);
    let directory = Directory::new("recorder");
    let kept = directory.path().join("kept");
    // The ring holds all events that are written while no recorder runs.
    let space = space(&directory, 4096, 512, Policy::Overwrite);
    let mut writer = CheckedWriter::with_long(space.writer("w").unwrap(), 3000);
    let variables = [
        ("THALWEG_TEST_SPACE", space.path().to_str().unwrap().to_string()),
        ("THALWEG_TEST_KEPT", kept.to_str().unwrap().to_string()),
    ];
    let (mut written, mut kept_before) = (0, 0);
    let rounds = if is_long_run() { 150 } else { 12 };
    for round in 0..rounds {
        let mut recorder = child::begin("recording_process", &variables);
        let mut begun = [0; 5];
        recorder.stderr.as_mut().unwrap().read_exact(&mut begun).unwrap();
        for _ in 0..random.below(40) {
            (0..random.below(80)).for_each(|_| written = writer.emit() + 1);
            std::thread::sleep(Duration::from_micros(random.below(800)));
        }
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        let seen = check_all(&kept, 3000);
        assert!(
            seen.lost == 0 && seen.events >= kept_before,
            "round {round}: {seen:?}, {kept_before} before"
        );
        kept_before = seen.events;
    }
    drop(writer);
    Archiver::with_options(space.path(), options(&kept)).unwrap().finish().unwrap();
    let seen = check_all(&kept, 3000);
    assert_eq!((seen.events, seen.lost), (written, 0));
    eprintln!("{rounds} recorders killed, {written} events, {kept_before} of them kept before the last");
}

/// Measures how long a window takes to open, by the size of the archive.
#[test]
#[ignore = "by hand: THALWEG_TEST_MEGABYTES=2000 THALWEG_TEST_CHUNK=16384"]
fn a_window_of_a_large_archive_opens_fast() {
    let Some(megabytes) = child::given::<u64>("THALWEG_TEST_MEGABYTES") else { return };
    let chunk_bytes = child::given::<usize>("THALWEG_TEST_CHUNK").unwrap_or(1 << 20);
    let directory = Directory::on_disk("large");
    let kept = directory.path().join("kept");
    let space = space(&directory, 16 << 10, 64, WAIT);
    let mut writer = space.writer("w").unwrap();
    let kind = writer.declare::<support::Counted>().unwrap();
    let mut archiver =
        Archiver::with_options(space.path(), ArchiveOptions { chunk_bytes, ..options(&kept) }).unwrap();
    let mut count = 0_u64;
    while archiver.progress().bytes < megabytes << 20 {
        for _ in 0..20_000 {
            // The data cannot be compressed, so the archive grows quickly.
            writer.emit_at(count * 100, kind, &support::Counted { count: thalweg_chance::mixed(count) });
            count += 1;
        }
        archiver.step().unwrap();
    }
    drop(writer);
    archiver.finish().unwrap();
    let info = archive::info(&kept).unwrap().unwrap();
    for _ in 0..5 {
        let begun = std::time::Instant::now();
        let reader = SpaceReader::open(&kept).unwrap();
        let mut stream = reader.events().since(count * 50).until(count * 50 + 100_000);
        let mut seen = 0;
        while stream.poll(usize::MAX, &mut |_| seen += 1).unwrap() > 0 {}
        eprintln!("{info:?}: {seen} events of the window in {:?}", begun.elapsed());
        assert_eq!(seen, 1001);
    }
}
