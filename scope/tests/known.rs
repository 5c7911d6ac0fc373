//! Tests that each tuple of processes that come, go and are killed arrives once and in order, or is counted
//! in a gap, while the scope's shape changes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_chance::Chance;
use thalweg_scope::{Backlog, Leaf, Pulled, Scope, Shape, Target, Tree, Value, View};
use thalweg_space::{Collector, CollectorOptions, ElementOptions, Kind, Policy, Space, SpaceOptions, Writer};

/// A tuple that identifies itself.
#[derive(Kind)]
#[kind(name = "test.known")]
struct Known {
    /// The index of the thread in its process.
    thread: u32,
    /// The index of the tuple in its thread, from 0.
    number: u64,
    /// A checksum, which shows whether the tuple is whole.
    check: u64,
}

const SESSION: &str = "SCOPE_TEST_SESSION";
const TUPLES: &str = "SCOPE_TEST_TUPLES";

fn check_of(thread: u64, number: u64) -> u64 {
    (thread << 56 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The writing process: it prints how many tuples each of its threads has written so far, until it has
/// written all.
#[test]
#[ignore = "run by other tests, in a process of its own"]
fn child() {
    let given = |name: &str| std::env::var(name).ok();
    let (Some(session), Some(tuples)) = (given(SESSION), given(TUPLES)) else { return };
    let tuples: u64 = tuples.parse().unwrap();
    // The rings are small, so that some events are overwritten.
    let element = ElementOptions { block_bytes: 4096, block_count: 16, policy: Policy::Overwrite };
    let options = SpaceOptions { session: Some(session.into()), element, ..Default::default() };
    let space = Space::create(options).unwrap();
    let mut threads = Vec::new();
    for thread in 0..3_u64 {
        let mut writer = space.writer(&format!("thread {thread}")).unwrap();
        threads.push(std::thread::spawn(move || {
            let known = writer.declare::<Known>().unwrap();
            let mut number = 0;
            while number < tuples {
                for _ in 0..100 {
                    let check = check_of(thread, number);
                    writer.emit(known, &Known { thread: thread as u32, number, check });
                    number += 1;
                }
                // The number is printed after the tuples were written, so the test may rely on it.
                writeln!(std::io::stderr(), "{thread} {number}").unwrap();
                std::thread::sleep(Duration::from_micros(number % 700));
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    space.finish();
}

struct Running {
    child: Child,
    reader: std::thread::JoinHandle<[u64; 3]>,
}

impl Running {
    fn begin(session: &Path, tuples: u64) -> Running {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--ignored", "--exact", "--nocapture"])
            .env(SESSION, session)
            .env(TUPLES, tuples.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut written = [0; 3];
            for line in stderr.lines().map_while(Result::ok) {
                let mut words = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
                if let (Some(thread @ 0..3), Some(number)) = (words.next(), words.next()) {
                    written[thread as usize] = number;
                }
            }
            written
        });
        Running { child, reader }
    }

    /// Ends the process; returns the least number of tuples that each thread had written.
    fn end(mut self, kill: bool) -> (u32, [u64; 3]) {
        if kill {
            self.child.kill().unwrap();
        }
        self.child.wait().unwrap();
        (self.child.id(), self.reader.join().unwrap())
    }
}

/// The account of each element: the next expected number, and how many tuples came and how many are lost.
#[derive(Default)]
struct Account {
    elements: HashMap<(u32, u32), (u64, u64, u64)>,
    threads: HashMap<(u32, u32), u64>,
}

impl Account {
    fn take(&mut self, pulled: &Pulled) {
        assert!(pulled.problems.is_empty(), "{:?}", pulled.problems);
        assert_eq!(pulled.left_out, 0);
        let mut before = 0;
        let mut lost = 0;
        for tuple in pulled.batch.tuples() {
            let head = tuple.head();
            let (pid, writer) = (tuple.process().unwrap().pid, tuple.element().unwrap().writer);
            let (next, came, gone) = self.elements.entry((pid, writer)).or_default();
            // Only tuples that were committed late may be out of order; those of one writer never are.
            before = head.time_ns.max(before);
            if let Some(more) = tuple.lost() {
                assert_eq!(
                    tuple.field("from"),
                    Some(Value::Unsigned(*next)),
                    "a gap where nothing is missing"
                );
                (*next, *gone, lost) = (*next + more, *gone + more, lost + more);
                continue;
            }
            let number = |name: &str| match tuple.field(name) {
                Some(Value::Unsigned(number)) => number,
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!((head.sequence, number("number")), (*next, *next), "once, and in order");
            assert_eq!(number("check"), check_of(number("thread"), *next), "whole");
            self.threads.insert((pid, number("thread") as u32), *next + 1);
            (*next, *came) = (*next + 1, *came + 1);
        }
        assert_eq!(lost, pulled.lost);
    }
}

fn view() -> View {
    let tree = Tree::leaf(Leaf::of_kinds(["test.known"])).filter("number >= 0");
    View::new("known", "Which known tuples came?", tree).unwrap()
}

fn shape(chance: &mut Chance) -> Shape {
    Shape {
        fan_out: chance.between(1, 9) as usize,
        depth: chance.between(1, 5) as usize,
        threads: chance.between(1, 4) as usize,
        batch: chance.of(&[64, 100, 1000, 10_000]),
        buffer: chance.of(&[64, 500, 1 << 20]),
    }
}

#[test]
fn each_tuple_comes_once_or_stands_in_a_gap_whatever_becomes_of_processes_and_shape() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session");
    let mut chance = Chance::new(20);
    // The session must exist before it is opened.
    drop(Space::create(SpaceOptions { session: Some(session.clone()), ..Default::default() }).unwrap());
    let mut scope = Scope::open(&view(), Target::of(&session), Backlog::All).unwrap();
    let (mut account, mut truth) = (Account::default(), HashMap::new());
    let mut running: Vec<Running> = Vec::new();
    let (mut begun, mut rebuilt) = (0, 0);
    while begun < 12 || !running.is_empty() {
        if begun < 12 && running.len() < 4 {
            running.push(Running::begin(&session, 20_000));
            begun += 1;
        }
        for _ in 0..chance.between(1, 20) {
            account.take(&scope.pull_since());
            std::thread::sleep(Duration::from_millis(chance.below(4)));
        }
        scope.reshape(shape(&mut chance));
        rebuilt += 1;
        if running.len() == 4 || begun == 12 {
            let ended = running.remove(chance.below(running.len() as u64) as usize);
            let (pid, written) = ended.end(chance.one_in(2));
            truth.insert(pid, written);
        }
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    // Processes that ended leave the view when all their tuples were pulled.
    while scope.processes() > 1 {
        account.take(&scope.pull_since());
        assert!(Instant::now() < deadline, "{} processes have not left", scope.processes());
    }
    account.take(&scope.pull_since());
    assert!(rebuilt >= 10, "{rebuilt}");
    let came: u64 = account.elements.values().map(|(_, came, _)| came).sum();
    let lost: u64 = account.elements.values().map(|(_, _, lost)| lost).sum();
    assert!(came > 10_000, "{came} came, {lost} lost");
    for (pid, written) in truth {
        for (thread, written) in written.into_iter().enumerate() {
            let last = account.threads.get(&(pid, thread as u32)).copied().unwrap_or(0);
            assert!(last >= written, "process {pid}: of thread {thread} came {last}, {written} were written");
        }
    }
}

#[test]
fn elements_of_collectors_give_each_tuple_once_by_whichever_way_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let space =
        Space::create(SpaceOptions { parent: Some(folder.path().to_path_buf()), ..Default::default() })
            .unwrap();
    let mut chance = Chance::new(5);
    let make =
        |n: usize| space.collector::<Known>(&format!("path {n}"), CollectorOptions::default()).unwrap();
    let mut collectors: Vec<(Collector<Known>, u64)> = (0..40).map(|n| (make(n), 0)).collect();
    let mut scope = Scope::open(&view(), Target::of(space.path()), Backlog::All).unwrap();
    let (mut account, mut written) = (Account::default(), 0);
    for round in 0..600 {
        // Most rounds record one event of each collector. Some rounds have bursts that overwrite events, new
        // collectors, or collectors that take over an element.
        let is_burst = chance.one_in(30);
        for (collector, next) in &mut collectors {
            let count = if is_burst { chance.below(200) } else { chance.below(2) };
            for _ in 0..count {
                collector.record(&Known { thread: 0, number: *next, check: check_of(0, *next) });
                (*next, written) = (*next + 1, written + 1);
            }
        }
        if chance.one_in(40) {
            let gone = chance.below(collectors.len() as u64) as usize;
            drop(collectors.remove(gone));
            collectors.push((make(1000 + round), 0));
        }
        if !chance.one_in(4) {
            account.take(&scope.pull_since());
        }
    }
    account.take(&scope.pull_since());
    let sum = |of: fn(&(u64, u64, u64)) -> u64| account.elements.values().map(of).sum::<u64>();
    assert_eq!(sum(|(_, came, _)| *came) + sum(|(_, _, lost)| *lost), written);
    assert!(sum(|(_, _, lost)| *lost) > 0 && sum(|(_, came, _)| *came) > 10_000);
}

#[test]
fn the_last_tuples_of_a_process_that_takes_its_space_along_are_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let (space, mut writer) = own(folder.path());
    let known = writer.declare::<Known>().unwrap();
    let mut write = |from: u64, to: u64| {
        (from..to)
            .for_each(|number| writer.emit(known, &Known { thread: 0, number, check: check_of(0, number) }));
    };
    let mut scope = Scope::open(&view(), Target::of(space.path()), Backlog::All).unwrap();
    scope.reshape(Shape { batch: 64, buffer: 100, ..Shape::default() });
    let mut account = Account::default();
    write(0, 1000);
    account.take(&scope.pull_since());
    write(1000, 5000);
    std::fs::remove_dir_all(space.path()).unwrap();
    let begin = Instant::now();
    loop {
        let pulled = scope.pull_since();
        account.take(&pulled);
        if pulled.is_over {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not end");
    }
    assert_eq!(account.elements.values().collect::<Vec<_>>(), [&(5000, 5000, 0)]);
}

/// A space with a writer in this process.
fn own(folder: &Path) -> (Space, Writer) {
    let space =
        Space::create(SpaceOptions { parent: Some(folder.to_path_buf()), ..Default::default() }).unwrap();
    let writer = space.writer("own").unwrap();
    (space, writer)
}

#[test]
fn a_gap_precedes_the_tuples_after_it_if_other_elements_have_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (space, mut late) = own(folder.path());
    let mut early = space.writer("early").unwrap();
    let known = [early.declare::<Known>().unwrap(), late.declare::<Known>().unwrap()];
    let known_of = |number| Known { thread: 0, number, check: check_of(0, number) };
    let begin = space.clock().now();
    let mut scope = Scope::open(&view(), Target::of(space.path()), Backlog::All).unwrap();
    let mut account = Account::default();
    early.emit_at(begin, known[0], &known_of(0));
    late.emit_at(begin + 1_000_000, known[1], &known_of(0));
    account.take(&scope.pull_since());
    // These overwrite each other, and are committed after a later event of the other element was read.
    (1..100_000).for_each(|number| early.emit_at(begin + number, known[0], &known_of(number)));
    account.take(&scope.pull_since());
    let [of_early, of_late] =
        [&early, &late].map(|writer| account.elements[&(std::process::id(), writer.number())]);
    assert_eq!((of_early.0, of_late), (100_000, (1, 1, 0)));
    assert!(of_early.2 > 0, "none is overwritten");
}

#[test]
fn the_latest_tuple_of_each_element_is_there_whatever_was_pulled() {
    let folder = tempfile::tempdir().unwrap();
    let (space, mut writer) = own(folder.path());
    let known = writer.declare::<Known>().unwrap();
    let mut scope = Scope::open(&view(), Target::of(space.path()), Backlog::All).unwrap();
    assert!(scope.pull_latest().batch.is_empty());
    for number in 0..5 {
        writer.emit(known, &Known { thread: 0, number, check: 0 });
    }
    let latest = |scope: &mut Scope| {
        let pulled = scope.pull_latest();
        let numbers = pulled.batch.tuples().map(|tuple| tuple.field("number").unwrap().number().unwrap());
        numbers.collect::<Vec<f64>>()
    };
    assert_eq!(latest(&mut scope), [4.0]);
    assert_eq!(scope.pull_since().batch.len(), 5);
    assert_eq!(latest(&mut scope), [4.0]);
}

#[test]
fn a_backlog_is_taken_or_left() {
    let folder = tempfile::tempdir().unwrap();
    let (space, mut writer) = own(folder.path());
    let known = writer.declare::<Known>().unwrap();
    (0..10).for_each(|number| writer.emit(known, &Known { thread: 0, number, check: 0 }));
    let count = |backlog| {
        let mut scope = Scope::open(&view(), Target::of(space.path()), backlog).unwrap();
        let pulled = scope.pull();
        (pulled.batch.len(), pulled.lost)
    };
    assert_eq!(count(Backlog::All), (10, 0));
    assert_eq!(count(Backlog::Nothing), (0, 0));
    assert_eq!(count(Backlog::Last(Duration::from_secs(3600))), (10, 0));
}

#[test]
fn tuples_are_held_until_they_are_old_enough() {
    let folder = tempfile::tempdir().unwrap();
    let (space, mut writer) = own(folder.path());
    let known = writer.declare::<Known>().unwrap();
    writer.emit(known, &Known { thread: 0, number: 0, check: 0 });
    let hour = view().holding(Duration::from_secs(3600));
    let mut scope = Scope::open(&hour, Target::of(space.path()), Backlog::All).unwrap();
    assert_eq!((scope.pull().batch.len(), scope.pull().batch.len()), (0, 0), "not an hour old");
    let moment = view().holding(Duration::from_millis(1));
    let mut scope = Scope::open(&moment, Target::of(space.path()), Backlog::All).unwrap();
    drop(scope.pull());
    std::thread::sleep(Duration::from_millis(2));
    let mut second = Scope::open(&moment, Target::of(space.path()), Backlog::All).unwrap();
    assert_eq!(second.pull().batch.len(), 1);
}

#[test]
fn a_watched_scope_is_seen_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let (space, mut writer) = own(folder.path());
    let known = writer.declare::<Known>().unwrap();
    (0..10).for_each(|number| writer.emit(known, &Known { thread: 0, number, check: 0 }));
    let mut scope = Scope::open(&view(), Target::of(space.path()), Backlog::All).unwrap();
    let (watched, _own) = own(folder.path());
    scope.watched_in(&watched).unwrap();
    assert_eq!(scope.pull().batch.len(), 10);
    let tree = Tree::leaf(Leaf::of_kinds(["path.operation_completed"]).element("scope/known/*"));
    let paths = View::new("paths", "What do scopes do?", tree).unwrap();
    let mut other = Scope::open(&paths, Target::of(watched.path()), Backlog::All).unwrap();
    let pulled = other.pull();
    let seen: Vec<_> = pulled
        .batch
        .tuples()
        .map(|tuple| {
            (tuple.element().unwrap().name.to_string(), tuple.field("operation"), tuple.field("first"))
        })
        .collect();
    let expected =
        |node: &str| (format!("scope/known/{node}"), Some(Value::Text("pull")), Some(Value::Unsigned(10)));
    assert_eq!(seen, [expected("leaf 0"), expected("root")]);
}
