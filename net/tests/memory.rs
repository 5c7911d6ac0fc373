//! Memory is bounded for any number of records, through a star whose depth grows and shrinks and a split with
//! ever new values.
//!
//! The process must have the same amount of memory after all records as after a tenth of them. These tests
//! have a binary of their own and run in sequence, because they measure the whole process.
#![allow(clippy::print_stdout)]

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use thalweg_exec::{Context, In, Options, Out, Ports, Runtime, Stop, Task, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::run::{StartOptions, Ties};
use thalweg_net::shape::{self, ShapeId};
use thalweg_net::{Boxes, Network, Value};
use thalweg_space::{Space, SpaceOptions};

const FOLDING: StartOptions = StartOptions {
    feedback_records: 1 << 20,
    replicas: 256,
    fold_after: 100,
    exact_failures: false,
    ties: Ties::Leftmost,
    fuse: true,
};
const NOT_FOLDING: StartOptions = StartOptions { replicas: 1 << 40, fold_after: 1 << 40, ..FOLDING };

/// The allowed growth of memory between a tenth of the records and the end: the allocator keeps some memory.
const GROWTH_MAX: u64 = 4 << 20;
/// The deepest replica of the star, and the number of records before the depth changes by one.
const DEPTH_MAX: u64 = 32;
const RECORDS_PER_DEPTH: u64 = 250;

/// A lock that only one test at a time holds, because each test measures the memory of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// The resident bytes of the process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells what a process has in memory");
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}

/// The depth that a record reaches; it rises and falls again and again.
fn depth(number: u64) -> u64 {
    let step = number / RECORDS_PER_DEPTH % (2 * DEPTH_MAX);
    step.min(2 * DEPTH_MAX - step)
}

struct Source {
    shape: ShapeId,
    next: u64,
    end: u64,
    out: Out<Record>,
}

impl Task for Source {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.out);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.next == self.end {
                return Stop::Ended;
            }
            if self.out.room(cx) == 0 {
                return Stop::OutputFull;
            }
            let mut record = Record::with_shape(self.shape);
            record.set(Label::tag("n"), Value::Int(depth(self.next) as i64));
            record.set(Label::tag("i"), Value::Int(self.next as i64));
            self.out.push(cx, record).expect("there was room");
            self.next += 1;
        }
        Stop::QuantumSpent
    }
}

/// Counts records, and reports the resident memory after a tenth of them and after all.
struct Sink {
    input: In<Record>,
    count: u64,
    early: u64,
    told: Sender<u64>,
}

impl Task for Sink {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        while self.input.pop(cx).is_some() {
            self.count += 1;
            if self.count == self.early || self.count == 10 * self.early {
                self.told.send(resident()).expect("the test listens");
            }
        }
        if self.input.ended() { Stop::Ended } else { Stop::InputEmpty }
    }
}

/// Sends records; returns the resident memory after a tenth of them, and after all.
fn measured(connect: &str, records: u64, workers: usize, limits: StartOptions) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions { path: Some(folder.path().join("space")), ..SpaceOptions::default() };
    let space = Space::create(options).unwrap();
    let network = Network::parse("main", &format!("net main connect {connect};"), &Boxes::new()).unwrap();
    let runtime = Runtime::new(Options { workers, space: Some(space), ..Options::default() }).unwrap();
    let running = network.start_with(&runtime, limits).unwrap();
    let (told, resident) = channel();
    let shape = shape::of(&[Label::tag("n"), Label::tag("i")]);
    let (source, early) = (Source { shape, next: 0, end: records, out: running.input }, records / 10);
    runtime.spawn(TaskSpec::default(), source);
    runtime.spawn(TaskSpec::default(), Sink { input: running.output, count: 0, early, told });
    let summary = runtime.join().unwrap();
    assert_eq!(summary.failures, []);
    let found: Vec<u64> = resident.iter().collect();
    assert_eq!(found.len(), 2, "all records came out");
    (found[0], found[1])
}

const FREE: &str = "([{<n>} -> {<n = n - 1>}] * {<n>} if <n == 0>) .. ([{<i>} -> {<i>}] ! <i>)";
const ORDERED: &str = "([{<n>} -> {<n = n - 1>}] ** {<n>} if <n == 0>) .. ([{<i>} -> {<i>}] !! <i>)";

fn stays_flat(records: u64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (connect, workers) in [(FREE, 1), (ORDERED, 1), (FREE, 2), (ORDERED, 2)] {
        let (early, late) = measured(connect, records, workers, FOLDING);
        println!(
            "{records} records, {workers} workers: {} KiB, then {} KiB: {connect}",
            early >> 10,
            late >> 10
        );
        assert!(
            late <= early + GROWTH_MAX,
            "{early} bytes after a tenth of {records} records, {late} after all"
        );
    }
}

#[test]
fn memory_is_flat_over_many_records() {
    stays_flat(200_000);
}

/// Runs only with `cargo xtask test --long`.
#[test]
#[ignore = "takes minutes"]
fn memory_is_flat_over_ten_million_records() {
    stays_flat(10_000_000);
}

#[test]
fn without_folding_memory_grows() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (early, late) = measured(FREE, 50_000, 1, NOT_FOLDING);
    assert!(late > early + 4 * GROWTH_MAX, "the measurement sees nothing: {early} bytes, then {late}");
}
