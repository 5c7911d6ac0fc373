//! Replicas that are not needed any more are folded back: the number of live tasks is bounded, for any number
//! of records and tag values.

#[path = "support/ends.rs"]
mod ends;

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use thalweg_exec::{Options, Runtime};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::run::{StartOptions, Ties};
use thalweg_net::{Boxes, Network, Value};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Space, SpaceOptions};

const LIMITS: StartOptions = StartOptions {
    feedback_records: 1 << 20,
    replicas: 32,
    fold_after: 100,
    exact_failures: false,
    ties: Ties::Leftmost,
    fuse: true,
};

/// A running network that the test feeds and reads.
struct Course {
    runtime: Option<Runtime>,
    reader: SpaceReader,
    input: Option<Sender<Record>>,
    output: Receiver<Record>,
    _folder: tempfile::TempDir,
}

impl Course {
    fn start(connect: &str, workers: usize) -> Course {
        let folder = tempfile::tempdir().unwrap();
        let options = SpaceOptions { path: Some(folder.path().join("space")), ..SpaceOptions::default() };
        let space = Space::create(options).unwrap();
        let reader = SpaceReader::open(space.path()).unwrap();
        let boxes = Boxes::new();
        let network = Network::parse("main", &format!("net main connect {connect};"), &boxes).unwrap();
        let options = Options { workers, space: Some(space), ..Options::default() };
        let runtime = Runtime::new(options).unwrap();
        let running = network.start_with(&runtime, LIMITS).unwrap();
        let (input, output) = ends::channels(&runtime, running.input, running.output);
        runtime.start();
        Course { runtime: Some(runtime), reader, input: Some(input), output, _folder: folder }
    }

    /// Sends records with these values of `<n>`; returns the numbers of the output records, counted from 0 in
    /// the order of the input.
    fn pass(&self, values: impl Iterator<Item = i64>) -> Vec<i64> {
        let mut count = 0;
        for value in values {
            self.send(value, count);
            count += 1;
        }
        (0..count).map(|_| self.next()).collect()
    }

    fn send(&self, value: i64, number: i64) {
        let (n, i) = (Label::tag("n"), Label::tag("i"));
        let record = Record::from_pairs([(n, Value::Int(value)), (i, Value::Int(number))]);
        self.input.as_ref().unwrap().send(record).unwrap();
    }

    fn next(&self) -> i64 {
        let record = self.output.recv_timeout(Duration::from_secs(60)).expect("a record for each");
        match record.get(Label::tag("i")) {
            Some(Value::Int(number)) => *number,
            other => panic!("no number: {other:?}"),
        }
    }

    /// Waits until at most this many tasks and streams live, while records with `<n> = 0` pass.
    fn settles_at(&self, tasks_max: usize, streams_max: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let rows = self.reader.live_rows().unwrap();
            let count = |kind| rows.iter().filter(|row| row.kind_name() == kind).count();
            let (tasks, streams) = (count("exec.task"), count("exec.stream"));
            if tasks <= tasks_max && streams <= streams_max {
                return;
            }
            assert!(Instant::now() < until, "{tasks} tasks and {streams} streams live");
            self.pass(std::iter::once(0));
        }
    }

    fn end(mut self) {
        drop(self.input.take());
        let summary = self.runtime.take().unwrap().join().unwrap();
        assert_eq!(summary.failures, []);
    }
}

const DOWN: &str = "[{<n>} -> {<n = n - 1>}]";

#[test]
fn a_split_keeps_as_many_replicas_as_it_may() {
    for (split, workers) in [("!", 1), ("!!", 1), ("!", 2), ("!!", 2)] {
        let course = Course::start(&format!("({DOWN} .. {DOWN}) {split} <n>"), workers);
        for round in 0..3 {
            let given: HashSet<i64> = course.pass(round * 2_000..(round + 1) * 2_000).into_iter().collect();
            assert_eq!(given.len(), 2_000);
            // The tasks are dispatcher, collector, source and sink, and two for each replica.
            course.settles_at(4 + 2 * 32, 5 + 3 * 32);
        }
        // Replicas that were folded back are made again, and the records of each value stay in order.
        let given = course.pass((0..4_000).map(|i| i % 40));
        for value in 0..40 {
            let numbers: Vec<i64> = given.iter().copied().filter(|number| number % 40 == value).collect();
            assert!(numbers.len() == 100 && numbers.is_sorted(), "{split}: {numbers:?}");
        }
        course.end();
    }
}

#[test]
fn a_star_folds_back_what_is_not_reached_any_more() {
    for (star, workers) in [("*", 1), ("**", 1), ("*", 2), ("**", 2)] {
        let course = Course::start(&format!("{DOWN} {star} {{<n>}} if <n == 0>"), workers);
        for _ in 0..3 {
            assert_eq!(course.pass([300, 300].into_iter()), [0, 1]);
            course.settles_at(4 + 2 * 300, 5 + 3 * 300);
            // The tasks are dispatcher, collector, source, sink, two replicas and their exits.
            assert_eq!(course.pass((0..1_000).map(|i| i % 3)).len(), 1_000);
            course.settles_at(4 + 2 * 2, 5 + 3 * 2);
        }
        course.end();
    }
}

#[test]
fn replicas_with_state_stay() {
    let course = Course::start("[|{<n>}, {<never>}|] ! <n>", 1);
    // The cell of each value holds the first record, and lets the second pass.
    (0..200).for_each(|value| course.send(value, 0));
    (0..200).for_each(|value| course.send(value, 1));
    assert!((0..200).all(|_| course.next() == 1));
    course.end();
}
