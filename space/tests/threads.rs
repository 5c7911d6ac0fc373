//! Tests of the data that threads of a process share: writers, readers, collectors, settings, probes,
//! commands and their audit.
//!
//! `cargo xtask test` runs this test under ThreadSanitizer. The test runs without the usual test harness,
//! because the harness's channels use fences, which ThreadSanitizer does not support.
#![allow(missing_docs)]
#![allow(clippy::print_stdout)]

mod support;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;
use support::checked::{Checked, CheckedWriter, PATTERN};
use support::{Counted, Directory, space_in};
use thalweg_space::archive::Archiver;
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::{
    Answer, Collector, CollectorOptions, Command, ElementOptions, Policy, SettingSpec, SignalWriter, Space,
};

const WRITERS: usize = 2;
const EVENTS: u64 = 20_000;
const ROUNDS: u64 = 200;

/// The threads of a scope, joined one by one. A scope waits also for threads whose handles were dropped; but
/// if such a thread has ended before its handle is dropped, ThreadSanitizer does not see the wait.
struct Threads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    spawned: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope> Threads<'scope, '_> {
    fn spawn(&mut self, thread: impl FnOnce() + Send + 'scope) {
        self.spawned.push(self.scope.spawn(thread));
    }
}

/// Runs `body`, and joins the threads that it spawned.
fn scoped<'env>(body: impl for<'scope> FnOnce(&mut Threads<'scope, 'env>)) {
    std::thread::scope(|scope| {
        let mut threads = Threads { scope, spawned: Vec::new() };
        body(&mut threads);
        threads.spawned.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Writers with an element each, while readers read all elements: by head, by block, and from the last block.
fn writers_and_readers() {
    let directory = Directory::new("threads-read");
    let space = space_in(directory.path(), 512, 5, Policy::Overwrite);
    let mut writers: Vec<_> =
        (0..WRITERS).map(|_| CheckedWriter::with_long(space.writer("w").unwrap(), 1_500)).collect();
    let readers = [SpaceReader::open(space.path()).unwrap(), SpaceReader::open(space.path()).unwrap()];
    let done = AtomicU64::new(0);
    scoped(|scope| {
        for mut writer in writers.drain(..) {
            let done = &done;
            scope.spawn(move || {
                while writer.emit() + 1 < EVENTS {}
                drop(writer);
                done.fetch_add(1, Ordering::Release);
            });
        }
        for (n, reader) in readers.iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                let mut seen = [(); WRITERS].map(|()| Checked::with_long(1_500));
                let mut stream = if n == 0 { reader.events() } else { reader.events().by_block() };
                loop {
                    let all_done = done.load(Ordering::Acquire) == WRITERS as u64;
                    let mut take = |item: Item<'_>| {
                        let writer = match &item {
                            Item::Event(event) => event.writer,
                            Item::Gap { writer, .. } => *writer,
                        };
                        seen[writer as usize - 1].take(&item);
                    };
                    if stream.poll(1000, &mut take).unwrap() == 0 && all_done {
                        break;
                    }
                }
                assert!(seen.iter().all(|seen| seen.next == EVENTS));
            });
        }
    });
}

/// A writer that waits for an archiver in another thread.
fn a_writer_waits_for_an_archiver() {
    let directory = Directory::new("threads-wait");
    let space = space_in(directory.path(), 512, 3, Policy::Wait { timeout: Duration::from_secs(60) });
    let mut writer = CheckedWriter::new(space.writer("w").unwrap());
    let done = AtomicBool::new(false);
    scoped(|scope| {
        scope.spawn(|| {
            let mut archiver = Archiver::open(space.path()).unwrap();
            while !done.load(Ordering::Acquire) {
                archiver.step().unwrap();
            }
            archiver.finish().unwrap();
        });
        while writer.emit() + 1 < EVENTS {}
        assert_eq!(writer.writer.drops(), 0);
        done.store(true, Ordering::Release);
    });
}

/// Threads that come and go reuse elements, collectors, live rows and names.
fn threads_come_and_go() {
    let directory = Directory::new("threads-churn");
    let space = space_in(directory.path(), 512, 2, Policy::Overwrite);
    let reader = SpaceReader::open(space.path()).unwrap();
    let done = AtomicU64::new(0);
    scoped(|scope| {
        for thread in 0..3 {
            let (space, done) = (space.clone(), &done);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    come_and_go(&space, thread * ROUNDS + round);
                }
                done.fetch_add(1, Ordering::Release);
            });
        }
        scope.spawn(|| {
            let mut latest = reader.latest();
            while done.load(Ordering::Acquire) < 3 {
                latest.look(&mut |_| {}).unwrap();
                reader.live_rows().unwrap();
                reader.writers().unwrap();
                reader.names().unwrap();
            }
        });
    });
    assert!(reader.writers().unwrap().len() < 20, "elements are used again");
}

fn come_and_go(space: &Space, number: u64) {
    let mut writer = space.writer(if number.is_multiple_of(2) { "even" } else { "odd" }).unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    writer.emit(counted, &Counted { count: number });
    let mut collector: Collector<Counted> = space.collector("c", CollectorOptions::default()).unwrap();
    collector.record(&Counted { count: number });
    let row = space.live_row(support::thing(space), number).unwrap();
    row.cell(0).store(number, Ordering::Relaxed);
}

/// Settings are changed, probes switched and commands sent while other threads adopt and use them.
fn changed_from_outside() {
    let directory = Directory::new("threads-set");
    let space = space_in(directory.path(), 4096, 8, Policy::Overwrite);
    let spec = SettingSpec { name: "s", max: 1 << 40, ..SettingSpec::PLAIN };
    let (setting, probe) = (space.setting(spec).unwrap(), space.probe("p", false).unwrap());
    let mut mailbox = space.mailbox().unwrap();
    let done = AtomicBool::new(false);
    scoped(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    space.adopt().unwrap();
                    assert!(setting.load() <= ROUNDS);
                    std::hint::black_box(probe.is_on());
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                if let Some(received) = mailbox.poll().unwrap() {
                    received.done("it is").unwrap();
                }
            }
        });
        let reader = SpaceReader::open(space.path()).unwrap();
        for value in 1..=ROUNDS {
            reader.set("s", value).unwrap();
            reader.switch("*", value.is_multiple_of(2)).unwrap();
            let sent = reader.send(&Command::new("t", "do").with(value.to_string())).unwrap();
            let answer = sent.wait(Duration::from_secs(60)).unwrap();
            assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
        }
        done.store(true, Ordering::Release);
    });
}

/// Several threads share a signal writer; each writes if it finds the writer free.
fn a_signal_writer_of_many_threads() {
    let directory = Directory::new("threads-signal");
    let space = space_in(directory.path(), 512, 4, Policy::Overwrite);
    let mut writer = SignalWriter::new(&space, "s", ElementOptions::default()).unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let written = AtomicU64::new(0);
    scoped(|scope| {
        let emit = || {
            for count in 0..EVENTS {
                written.fetch_add(u64::from(writer.emit(counted, &Counted { count })), Ordering::Relaxed);
            }
        };
        for _ in 0..3 {
            scope.spawn(emit);
        }
    });
    drop(writer);
    let (seen, problem) = support::read_events(space.path());
    assert!(problem.is_none());
    let (events, lost) = support::totals(&seen);
    // Each count of dropped events ends a block, so the ring is reused from its beginning, and events are
    // lost.
    assert_eq!(events + lost, 3 * EVENTS);
    assert!(events <= written.into_inner());
}

fn main() {
    let tests: [(&str, fn()); 5] = [
        ("writers_and_readers", writers_and_readers),
        ("a_writer_waits_for_an_archiver", a_writer_waits_for_an_archiver),
        ("threads_come_and_go", threads_come_and_go),
        ("changed_from_outside", changed_from_outside),
        ("a_signal_writer_of_many_threads", a_signal_writer_of_many_threads),
    ];
    // `PATTERN` is made before the threads start, because the sanitizer does not see the synchronisation in
    // the standard library, which is not compiled for it.
    LazyLock::force(&PATTERN);
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    println!("test result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", tests.len());
}
