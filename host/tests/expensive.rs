//! Real runs with records that are expensive for a known reason: the report must name the records by that
//! reason.
//!
//! Expensive records sleep hundreds of times longer than other records compute, so the load of the machine
//! does not change the result.

#[path = "../../net/tests/support/ends.rs"]
mod ends;

use std::time::{Duration, Instant};

use thalweg_box::Out;
use thalweg_exec::{Mode, Options, Runtime};
use thalweg_monitor::{Expensive, ExpensiveBy, report_space};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::{Boxes, Network, Value};
use thalweg_space::{Space, SpaceOptions};

/// The computing time of every record.
const COMPUTES: Duration = Duration::from_micros(30);

/// The expensive records that a report names, for a run of a box that sleeps for the records that `is_dear`
/// accepts; `draw` generates the `<k>` and the length of `text` of each of `records` records.
fn expensive_records(
    records: usize,
    draw: impl Fn(usize) -> (i64, usize),
    sleeps: Duration,
    is_dear: fn(i64, usize) -> bool,
) -> Vec<Expensive> {
    let work = work(sleeps, is_dear);
    let boxes = Boxes::new().with("box work ((text, <k>) -> (text, <k>))", work);
    expensive_records_of(&boxes, records, draw)
}

/// The function of the box: it computes for each record, and sleeps for the records that `is_dear` accepts.
fn work(sleeps: Duration, is_dear: fn(i64, usize) -> bool) -> impl Fn(String, i64, &mut Out) + Send + Sync {
    move |text: String, k: i64, out: &mut Out| {
        let until = Instant::now() + COMPUTES;
        while Instant::now() < until {}
        if is_dear(k, text.len()) {
            std::thread::sleep(sleeps);
        }
        out.emit((text, k));
    }
}

/// The expensive records that a report names, for a run of the box `work` among `boxes`.
fn expensive_records_of(
    boxes: &Boxes,
    records: usize,
    draw: impl Fn(usize) -> (i64, usize),
) -> Vec<Expensive> {
    let net = "net main { box work ((text, <k>) -> (text, <k>)); } connect work;";
    let network = Network::parse("main", net, boxes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("space");
    let space = Space::create(SpaceOptions { path: Some(path.clone()), ..SpaceOptions::default() }).unwrap();
    let options = Options { workers: 1, space: Some(space.clone()), mode: Mode::Full, ..Options::default() };
    let runtime = Runtime::new(options).unwrap();
    let running = network.start(&runtime).unwrap();
    let (input, output) = ends::channels(&runtime, running.input, running.output);
    runtime.start();
    for at in 0..records {
        let (k, length) = draw(at);
        let pairs =
            [(Label::tag("k"), Value::Int(k)), (Label::field("text"), Value::from("x".repeat(length)))];
        input.send(Record::from_pairs(pairs)).unwrap();
    }
    drop(input);
    assert_eq!(output.iter().count(), records);
    assert_eq!(runtime.join().unwrap().failures, []);
    let report = report_space(&path, 10).unwrap();
    report.expensive.into_iter().filter(|row| row.component.ends_with("work")).collect()
}

/// A pseudo-random number below `below`.
fn scattered(at: usize, below: usize) -> usize {
    (at * at * 31 + at * 7919) % 1009 % below
}

/// Checks that the report has a single row of expensive records, that `by` is their distinguishing property,
/// and that their share of the time is greater than `time_share`.
fn check(rows: &[Expensive], by: ExpensiveBy, which: &[&str], time_share: f64) {
    let [row] = rows else { panic!("one reason: {rows:?}") };
    assert!(row.by == by && which.contains(&row.which.as_str()), "{row:?}");
    assert!(row.time_share > time_share && row.messages_share < 0.3, "{row:?}");
    assert!(row.service_ns > 10.0 * row.others_ns, "{row:?}");
}

#[test]
fn a_box_that_is_slow_for_a_value_of_a_tag() {
    let draw = |at| (scattered(at, 10) as i64, 8);
    let rows = expensive_records(500, draw, Duration::from_millis(5), |k, _| k == 3);
    check(&rows, ExpensiveBy::Tag, &["<k> = 3"], 0.5);
}

#[test]
fn a_box_with_a_thread_of_its_own_that_is_slow_for_a_value_of_a_tag() {
    let draw = |at| (scattered(at, 10) as i64, 8);
    let work = work(Duration::from_millis(5), |k, _| k == 3);
    let boxes = Boxes::new().with_blocking("box work ((text, <k>) -> (text, <k>))", work);
    let rows = expensive_records_of(&boxes, 500, draw);
    check(&rows, ExpensiveBy::Tag, &["<k> = 3"], 0.5);
}

#[test]
fn a_box_that_is_slow_for_large_records() {
    let draw = |at| (scattered(at, 7) as i64, 100 * (1 + scattered(3 * at + 1, 10)));
    let rows = expensive_records(500, draw, Duration::from_millis(5), |_, length| length == 1000);
    // The size is that of a record of one text and one tag: two slots of 16 bytes, and the text with its
    // header.
    check(&rows, ExpensiveBy::Size, &["records of bytes: 1080 and more"], 0.5);
}

#[test]
fn a_box_that_is_slow_for_one_record_in_a_hundred() {
    let draw = |at: usize| if at % 100 == 40 + at / 100 { (77, 8) } else { (scattered(at, 5) as i64, 8) };
    let rows = expensive_records(2000, draw, Duration::from_millis(20), |k, _| k == 77);
    check(&rows, ExpensiveBy::Tag, &["<k> = 77", "<k> of 77 and more"], 0.5);
}
