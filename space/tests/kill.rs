//! Writers with each policy, in memory and on disk, are killed at any moment. The reader gets every event
//! that was acknowledged through a pipe and that the ring must still hold, and every event that is read is
//! correct.
//!
//! `cargo xtask test --long` runs 300 rounds of each case.

mod support;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::checked::{Checked, CheckedWriter, EVENT_BYTES_MAX};
use support::{Directory, child, is_long_run, space_in};
use thalweg_chance::Chance;
use thalweg_space::archive::Archiver;
use thalweg_space::layout::block;
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Policy, SettingSpec, discover};

const ROUNDS: u64 = 30;
const ROUNDS_LONG: u64 = 300;
const BLOCK_BYTES: usize = 4096;
const BLOCK_COUNT: usize = 4;
/// The number of blocks with long events; the next constant is the most bytes of a long event.
const BLOCK_COUNT_LONG: usize = 12;
const LONG_BYTES: u64 = 11_000;
/// The most events between two acknowledgements.
const BATCH: u64 = 64;

const OVERWRITE: Policy = Policy::Overwrite;
const DROP_NEWEST: Policy = Policy::DropNewest;
const WAIT: Policy = Policy::Wait { timeout: Duration::from_secs(3600) };

/// An acknowledgement of the writer: how many events it emitted, and how many of these it dropped.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledged {
    emitted: u64,
    dropped: u64,
}

/// The process that is killed. The process acknowledges events after it has emitted them.
#[test]
#[ignore = "run by the other tests"]
fn acknowledging_process() {
    let Some(parent) = child::given::<PathBuf>("THALWEG_TEST_PARENT") else { return };
    let policies = [OVERWRITE, DROP_NEWEST, WAIT];
    let policy = policies[child::given::<usize>("THALWEG_TEST_POLICY").unwrap()];
    let mut random = Chance::new(child::given::<u64>("THALWEG_TEST_SEED").unwrap());
    let long = child::given::<u64>("THALWEG_TEST_LONG_BYTES").unwrap();
    let blocks = if long > 0 { BLOCK_COUNT_LONG } else { BLOCK_COUNT };
    let space = space_in(&parent, BLOCK_BYTES, blocks, policy);
    let mut writer = CheckedWriter::with_long(space.writer("w").unwrap(), long);
    let mut pipe = std::io::stderr();
    loop {
        for _ in 0..=random.below(BATCH) {
            writer.emit();
        }
        let mut message = [0; 16];
        message[..8].copy_from_slice(&writer.writer.sequence().to_le_bytes());
        message[8..].copy_from_slice(&writer.writer.drops().to_le_bytes());
        // A write that is shorter than `PIPE_BUF` is atomic.
        pipe.write_all(&message).unwrap();
    }
}

/// Reads acknowledgements: the next one, or none at the end.
fn acknowledgement(child: &mut Child) -> Option<Acknowledged> {
    let mut message = [0; 16];
    child.stderr.as_mut().unwrap().read_exact(&mut message).ok()?;
    let word = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().unwrap());
    Some(Acknowledged { emitted: word(0), dropped: word(8) })
}

fn kill_in_rounds(policy: usize, directory: impl Fn() -> Directory) {
    kill_in_rounds_with_long(policy, 0, directory);
}

fn kill_in_rounds_with_long(policy: usize, long: u64, directory: impl Fn() -> Directory) {
    let mut acknowledged = 0;
    let rounds = if is_long_run() { ROUNDS_LONG } else { ROUNDS };
    for round in 0..rounds {
        acknowledged += kill_once(policy, long, round, &directory());
    }
    eprintln!("{rounds} rounds, {acknowledged} acknowledged events, none lost, none wrong");
    assert!(acknowledged > rounds);
}

fn kill_once(policy: usize, long: u64, round: u64, directory: &Directory) -> u64 {
    let mut random = Chance::new(round * 3 + policy as u64);
    let variables = [
        ("THALWEG_TEST_PARENT", directory.path().to_str().unwrap().to_string()),
        ("THALWEG_TEST_POLICY", policy.to_string()),
        ("THALWEG_TEST_SEED", round.to_string()),
        ("THALWEG_TEST_LONG_BYTES", long.to_string()),
    ];
    let mut child = child::begin("acknowledging_process", &variables);
    let mut last = acknowledgement(&mut child).expect("the child begins");
    let path = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if policy != 0 {
            scope.spawn(|| archive_until(&over, &path));
        }
        // The time of the kill is random.
        for _ in 0..random.below(3000) {
            last = acknowledgement(&mut child).expect("the child goes on");
        }
        for _ in 0..random.below(20_000) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The acknowledgements that the process wrote before it died are read to the end.
        while let Some(more) = acknowledgement(&mut child) {
            last = more;
        }
        over.store(true, Ordering::Release);
    });
    check_killed(policy, long, &path, last);
    last.emitted
}

/// Archives events while the writer lives, and the rest after its death.
fn archive_until(over: &AtomicBool, path: &Path) {
    let mut archiver = Archiver::open(path).unwrap();
    while !over.load(Ordering::Acquire) {
        archiver.step().unwrap();
        std::thread::yield_now();
    }
    archiver.finish().unwrap();
}

fn check_killed(policy: usize, long: u64, path: &Path, last: Acknowledged) {
    let reader = SpaceReader::open(path).unwrap();
    assert!(!reader.is_alive());
    let mut seen = Checked::with_long(long);
    read_all(&reader, &mut seen);
    let unacknowledged = BATCH + 1;
    let within = |what: u64, from: u64| (from..=from + unacknowledged).contains(&what);
    assert!(within(seen.next, last.emitted), "{last:?} {seen:?}");
    match policy {
        // A long event that was not finished may occupy three blocks, and a long event whose beginning was
        // overwritten may occupy three more.
        0 if long > 0 => assert!(seen.lost == 0 || seen.since_gap >= 2, "{last:?} {seen:?}"),
        // All blocks except the one being opened are full of events.
        0 => {
            let a_block = (BLOCK_BYTES - block::HEADER) as u64 / EVENT_BYTES_MAX - 1;
            let held = (BLOCK_COUNT as u64 - 1) * a_block;
            assert!(seen.lost == 0 || seen.since_gap >= held, "{last:?} {seen:?}");
        }
        1 => assert!(within(seen.lost, last.dropped), "{last:?} {seen:?}"),
        _ => assert_eq!((seen.lost, last.dropped), (0, 0), "{last:?} {seen:?}"),
    }
}

fn read_all(reader: &SpaceReader, seen: &mut Checked) {
    let mut stream = reader.events();
    while stream.poll(usize::MAX, &mut |item| seen.take(&item)).unwrap() > 0 {}
}

#[test]
fn overwriting_in_memory() {
    kill_in_rounds(0, || Directory::new("kill-overwrite"));
}

#[test]
fn overwriting_on_disk() {
    kill_in_rounds(0, || Directory::on_disk("kill-overwrite"));
}

#[test]
fn dropping_the_newest_in_memory() {
    kill_in_rounds(1, || Directory::new("kill-drop"));
}

#[test]
fn dropping_the_newest_on_disk() {
    kill_in_rounds(1, || Directory::on_disk("kill-drop"));
}

#[test]
fn waiting_for_an_archiver_in_memory() {
    kill_in_rounds(2, || Directory::new("kill-wait"));
}

#[test]
fn waiting_for_an_archiver_on_disk() {
    kill_in_rounds(2, || Directory::on_disk("kill-wait"));
}

#[test]
fn overwriting_with_long_events() {
    kill_in_rounds_with_long(0, LONG_BYTES, || Directory::new("kill-long"));
}

#[test]
fn dropping_the_newest_with_long_events() {
    kill_in_rounds_with_long(1, LONG_BYTES, || Directory::new("kill-long-drop"));
}

#[test]
fn waiting_for_an_archiver_with_long_events() {
    kill_in_rounds_with_long(2, LONG_BYTES, || Directory::on_disk("kill-long-wait"));
}

/// The process that makes spaces, with data in every file, until it is killed.
#[test]
#[ignore = "run by another test"]
fn space_making_process() {
    let Some(parent) = child::given::<PathBuf>("THALWEG_TEST_PARENT") else { return };
    eprint!("begun");
    for count in 0.. {
        let space = space_in(&parent, 512, 2, Policy::Overwrite);
        let mut writer = CheckedWriter::new(space.writer("w").unwrap());
        for _ in 0..40 {
            writer.emit();
        }
        space.name("a name").unwrap();
        let spec = SettingSpec { name: "s", doc: "d", unit: "u", max: 9, default: 3, ..SettingSpec::PLAIN };
        space.setting(spec).unwrap().set(4).unwrap();
        let row = space.live_row(support::thing(&space), count).unwrap();
        Archiver::open(space.path()).unwrap().step().unwrap();
        // The row and the writer are not dropped, so the files are left as a killed process leaves them.
        std::mem::forget((row, writer));
    }
}

#[test]
fn spaces_of_a_maker_that_was_killed_open_or_are_cleaned() {
    let mut random = Chance::new(7);
    let mut opened = 0;
    for _ in 0..200 {
        let directory = Directory::new("making");
        let variables = [("THALWEG_TEST_PARENT", directory.path().to_str().unwrap().to_string())];
        let mut child = child::begin("space_making_process", &variables);
        let mut begun = [0; 5];
        child.stderr.as_mut().unwrap().read_exact(&mut begun).unwrap();
        std::thread::sleep(Duration::from_micros(random.below(6000)));
        child.kill().unwrap();
        child.wait().unwrap();
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.join("space").exists() {
                opened += 1;
                open_all(&path);
            }
        }
        let cleaned = discover::clean(directory.path(), false).unwrap();
        assert!(cleaned.problems.is_empty(), "{cleaned:?}");
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    eprintln!("{opened} spaces opened");
}

fn open_all(path: &Path) {
    let reader = SpaceReader::open(path).unwrap();
    assert!(!reader.is_alive());
    let mut seen = Checked::default();
    read_all(&reader, &mut seen);
    assert!(seen.next <= 40);
    let settings = reader.settings().unwrap();
    assert!(settings.iter().all(|setting| [0, 3, 4].contains(&setting.value)), "{settings:?}");
    assert!(reader.live_rows().unwrap().len() <= 1);
    assert!(reader.names().unwrap().len() <= 2);
    reader.writers().unwrap();
}
