//! Measures the cost of operations on records: in nanoseconds here, and in instructions by the difference of
//! two runs under `valgrind --tool=callgrind` with different numbers of rounds.
//!
//! `cargo run --release -p thalweg-net --example record_cost [ROUNDS [PART_OF_NAME]]`
#![allow(clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use thalweg_net::filter::Filter;
use thalweg_net::label::Label;
use thalweg_net::pattern::Pattern;
use thalweg_net::plan::{OutPlan, PlanCache, TakePlan};
use thalweg_net::record::{Record, take_just_written};
use thalweg_net::router::{Choice, Router};
use thalweg_net::syntax::ast::{self, Def, NetBody, TopoKind};
use thalweg_net::syntax::{Source, parse};
use thalweg_net::{Value, json};

/// The number of records in a batch.
const BATCH: i64 = 64;

struct Box1 {
    input: Vec<Label>,
    output: Vec<Label>,
    plans: PlanCache<(TakePlan, OutPlan)>,
}

impl Box1 {
    fn new(input: &str, output: &str) -> Box1 {
        let [input, output] = [input, output].map(|label| vec![Label::parse(label).unwrap()]);
        Box1 { input, output, plans: PlanCache::new() }
    }

    #[inline]
    fn run(&mut self, mut record: Record) -> Record {
        let shape = record.shape();
        let (take, out) = self.plans.get(shape, || {
            let take = TakePlan::new(shape, &self.input).unwrap();
            (take, OutPlan::new(shape, &self.input, &self.output))
        });
        let mut argument = record.take(take.arguments()[0]);
        if let Value::Int(number) = &mut argument {
            *number += 1;
        }
        out.build_last(record, |_| take_just_written(&mut argument))
    }
}

#[inline(never)]
fn measured(rounds: u64, mut operation: impl FnMut(u64)) {
    (0..rounds).for_each(&mut operation);
}

/// Prints the best time of many short runs, because other load on the machine disturbs some of the runs but
/// not all.
fn measure(name: &str, rounds: u64, operations: u64, mut operation: impl FnMut(u64)) {
    const RUNS: u64 = 200;
    if std::env::args().nth(2).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let best = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            measured(rounds / RUNS, &mut operation);
            start.elapsed().as_nanos() as f64 / (rounds / RUNS * operations) as f64
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:58} {best:7.2} ns");
}

fn topology(text: &str) -> TopoKind {
    let (file, diagnostics) = parse(&Source::new("cost.snet", format!("net cost connect {text};")));
    assert!(diagnostics.is_empty(), "{text}");
    match file.defs.into_iter().next() {
        Some(Def::Net(ast::NetDef { body: NetBody::Defined { connect: Some(topo), .. }, .. })) => topo.kind,
        _ => unreachable!("a net was written"),
    }
}

fn filter(text: &str) -> Filter {
    match topology(text) {
        TopoKind::Filter(filter) => Filter::compile(&filter),
        _ => unreachable!("a filter was written"),
    }
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).map_or(20_000_000, |text| text.parse().expect("a number"));
    let record = |n: i64| {
        json::read_record(format!(r#"{{"a": {n}, "p": 1, "q": 2, "<t>": {n}}}"#).as_bytes()).unwrap()
    };
    let small = record(1);
    measure("make and drop, {a, p, q, <t>}", rounds, 1, |n| {
        let mut record = Record::with_shape(small.shape());
        record.slots_mut()[0] = Value::Int(n as i64);
        drop(black_box(record));
    });
    measure("clone and drop", rounds, 1, |_| drop(black_box(small.clone())));

    // The measurement imitates a dispatch: a batch of records, each a message of its own.
    let mut batch: Vec<Option<Record>> = (0..BATCH).map(|n| Some(record(n))).collect();
    let (mut same, mut there, mut back) = (Box1::new("a", "a"), Box1::new("a", "b"), Box1::new("b", "a"));
    let batches = rounds / BATCH as u64;
    measure("box (a) -> (a), two fields and a tag inherited", batches, BATCH as u64, |_| {
        for slot in black_box(&mut batch) {
            *slot = slot.take().map(|record| same.run(record));
        }
    });
    measure("box (a) -> (b), then (b) -> (a), per box", batches, 2 * BATCH as u64, |_| {
        for slot in black_box(&mut batch) {
            *slot = slot.take().map(|record| there.run(record));
        }
        for slot in black_box(&mut batch) {
            *slot = slot.take().map(|record| back.run(record));
        }
    });
    for text in [
        "[]",
        "[{<t>} -> {<t=t+1>}]",
        "[{a,p} -> {a=p,p=a}]",
        "[{<t>} -> if <t > 0> then {<t=t-t>} else {<t=1>}]",
        "[{a} -> {a};{a=p}]",
    ] {
        let mut filter = filter(text);
        measure(text, batches, BATCH as u64, |_| {
            for slot in black_box(&mut batch) {
                let input = slot.take().expect("every filter here gives a record back");
                filter.apply(input, &mut |output| *slot = Some(output)).unwrap();
            }
        });
    }

    let TopoKind::Star { exits, .. } = topology("[] * {<t>} if <t == 0>") else { unreachable!("a star") };
    let mut exit = Pattern::compile(&exits[0]);
    measure("{<t>} if <t == 0>", rounds, 1, |_| drop(black_box(exit.matches(black_box(&small)))));
    let variants = [vec!["a"], vec!["a", "p"], vec!["b"]];
    let mut router = Router::new(
        variants.iter().map(|v| vec![v.iter().map(|label| Label::field(label)).collect()]).collect(),
    );
    measure("choose among three branches", rounds, 1, |_| {
        assert_eq!(router.choose(black_box(&small)), Choice::One(1));
    });

    let lines = rounds / 20;
    let line = br#"{"a": 12345, "p": "text", "q": 2, "<t>": 77}"#;
    let mut out = Vec::new();
    measure("read a line of 45 bytes", lines, 1, |_| drop(black_box(json::read_record(black_box(line)))));
    let record = json::read_record(line).unwrap();
    measure("write it", lines, 1, |_| {
        out.clear();
        json::write_record(black_box(&record), &mut out);
    });
}
