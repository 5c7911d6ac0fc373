//! What records cost per operation: nanoseconds here, instructions under
//! `valgrind --tool=callgrind --toggle-collect='*measured*'`.
//!
//! `cargo run --release -p thalweg-net --example record_cost [ROUNDS]`
#![allow(clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use thalweg_net::filter::Filter;
use thalweg_net::label::Label;
use thalweg_net::pattern::Pattern;
use thalweg_net::plan::{OutPlan, PlanCache, TakePlan};
use thalweg_net::record::Record;
use thalweg_net::router::{Choice, Router};
use thalweg_net::syntax::ast::{self, Def, NetBody, TopoKind};
use thalweg_net::syntax::{Source, parse};
use thalweg_net::{Value, json};

struct Box1 {
    input: Vec<Label>,
    output: Vec<Label>,
    take: PlanCache<TakePlan>,
    out: PlanCache<OutPlan>,
}

impl Box1 {
    fn new(input: &str, output: &str) -> Box1 {
        let [input, output] = [input, output].map(|label| vec![Label::parse(label).unwrap()]);
        Box1 { input, output, take: PlanCache::new(), out: PlanCache::new() }
    }

    #[inline]
    fn run(&mut self, mut record: Record) -> Record {
        let shape = record.shape();
        let take = self.take.get(shape, || TakePlan::new(shape, &self.input).unwrap());
        let mut argument = record.take(take.arguments()[0]);
        if let Value::Int(number) = &mut argument {
            *number += 1;
        }
        let out = self.out.get(shape, || OutPlan::new(shape, &self.input, &self.output));
        out.build_last(record, |_| std::mem::take(&mut argument))
    }
}

#[inline(never)]
fn measured(rounds: u64, mut operation: impl FnMut(u64)) {
    (0..rounds).for_each(&mut operation);
}

fn measure(name: &str, rounds: u64, operations: u64, mut operation: impl FnMut(u64)) {
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            measured(rounds, &mut operation);
            start.elapsed().as_nanos() as f64 / (rounds * operations) as f64
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

    let (mut same, mut there, mut back) = (Box1::new("a", "a"), Box1::new("a", "b"), Box1::new("b", "a"));
    let mut slot = Some(record(1));
    measure("box (a) -> (a), two fields and a tag inherited", rounds, 1, |_| {
        slot = black_box(Some(same.run(slot.take().unwrap())));
    });
    measure("box (a) -> (b), then (b) -> (a), per box", rounds, 2, |_| {
        let middle = black_box(there.run(slot.take().unwrap()));
        slot = black_box(Some(back.run(middle)));
    });

    for text in [
        "[]",
        "[{<t>} -> {<t=t+1>}]",
        "[{a,p} -> {a=p,p=a}]",
        "[{<t>} -> if <t > 0> then {<t=t-t>} else {<t=1>}]",
    ] {
        let mut filter = filter(text);
        let mut slot = Some(record(1));
        measure(text, rounds, 1, |_| {
            let input = slot.take().unwrap();
            filter.apply(input, &mut |output| slot = black_box(Some(output))).unwrap();
        });
    }
    let (mut split, mut record_in) = (filter("[{a} -> {b=a};{c=a}]"), Some(record(1)));
    measure("[{a} -> {b=a};{c=a}], the first put back as {a}", rounds / 4, 1, |_| {
        let mut first = None;
        split
            .apply(record_in.take().unwrap(), &mut |output| first = first.take().or(black_box(Some(output))))
            .unwrap();
        record_in = first.map(|record| back.run(record));
    });

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
