//! A writer overwrites as fast as it can, while a reader in another process or thread reads. Each event is
//! read correctly or counted as lost.
//!
//! With `cargo xtask test --long` the writer writes a billion events.

mod support;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use support::checked::{Checked, CheckedWriter};
use support::{Directory, child, is_long_run, space_in};
use thalweg_space::Policy;
use thalweg_space::reader::{EventStream, SpaceReader};

const EVENTS: u64 = 20_000_000;
const EVENTS_LONG: u64 = 1_000_000_000;

/// Writes the requested number of events, then waits until its standard input ends.
#[test]
#[ignore = "run by another test"]
fn overwriting_process() {
    let Some(parent) = child::given::<PathBuf>("THALWEG_TEST_PARENT") else { return };
    let events = child::given::<u64>("THALWEG_TEST_EVENTS").unwrap();
    // The blocks are small, so that many are recycled while they are read.
    let space = space_in(&parent, 4096, 8, Policy::Overwrite);
    let mut writer = CheckedWriter::new(space.writer("w").unwrap());
    eprintln!("{}", space.path().display());
    while writer.emit() + 1 < events {}
    drop(writer);
    eprintln!("done");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn against_another_process(events: u64, follow: fn(EventStream) -> EventStream) {
    let directory = Directory::new("race");
    let variables = [
        ("THALWEG_TEST_PARENT", directory.path().to_str().unwrap().to_string()),
        ("THALWEG_TEST_EVENTS", events.to_string()),
    ];
    let mut child = child::begin("overwriting_process", &variables);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let path = lines.find(|line| line.starts_with('/')).expect("the child says where");
    let reader = SpaceReader::open(path).unwrap();
    let over = std::thread::spawn(move || lines.any(|line| line == "done"));
    let mut stream = follow(reader.events());
    let mut seen = Checked::default();
    loop {
        let was_over = over.is_finished();
        let taken = stream.poll(10_000, &mut |item| seen.take(&item)).unwrap();
        if taken == 0 && was_over {
            break;
        }
    }
    assert!(over.join().unwrap(), "the writer came to its end");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    eprintln!("{} written: {} read, all right, {} lost, all counted", seen.next, seen.events, seen.lost);
    assert_eq!(seen.next, events, "what was read and what was lost is what was written");
    assert!(seen.events > 0);
}

#[test]
fn a_reader_in_another_process_sees_no_wrong_event() {
    against_another_process(if is_long_run() { EVENTS_LONG } else { EVENTS }, |stream| stream);
}

#[test]
fn a_reader_by_block_in_another_process_sees_no_wrong_event() {
    against_another_process(if is_long_run() { EVENTS_LONG } else { EVENTS }, EventStream::by_block);
}

/// Does in one process what the test above does in two, because ThreadSanitizer cannot observe locks between
/// processes.
#[test]
fn readers_in_one_process_see_no_wrong_event() {
    let directory = Directory::new("threads");
    let space = space_in(directory.path(), 512, 3, Policy::Overwrite);
    let events = 200_000;
    let mut writers: Vec<_> = (0..2).map(|_| CheckedWriter::new(space.writer("w").unwrap())).collect();
    let readers: Vec<_> = (0..2).map(|_| SpaceReader::open(space.path()).unwrap()).collect();
    std::thread::scope(|scope| {
        for writer in &mut writers {
            scope.spawn(move || while writer.emit() + 1 < events {});
        }
        for reader in readers {
            scope.spawn(move || {
                let mut seen = [Checked::default(), Checked::default()];
                let mut stream = reader.events();
                while seen.iter().any(|seen| seen.next < events) {
                    let take = &mut |item: thalweg_space::reader::Item<'_>| {
                        let writer = match &item {
                            thalweg_space::reader::Item::Event(event) => event.writer,
                            thalweg_space::reader::Item::Gap { writer, .. } => *writer,
                        };
                        seen[writer as usize - 1].take(&item);
                    };
                    stream.poll(10_000, take).unwrap();
                }
            });
        }
    });
}
