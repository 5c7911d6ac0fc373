//! Measures the cost of a record per component of a running network: in nanoseconds here, and in instructions
//! under `valgrind --tool=callgrind` (build with `--profile profiling`).
//!
//! `cargo run --release -p thalweg-net --example network_cost [RECORDS [WORKERS [CASE [REPEATS]]]]`
#![allow(clippy::print_stdout, missing_docs)]

use std::time::Instant;

use thalweg_box::Out as BoxOut;
use thalweg_exec::{Context, In, Mode, Options, Out, Runtime, Stop, Task, TaskSpec};
use thalweg_net::record::Record;
use thalweg_net::{Boxes, Network, json};

/// The number of components in each chain.
const LENGTH: usize = 16;

struct Source {
    out: Out<Record>,
    record: Record,
    left: u64,
}

impl Task for Source {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.left == 0 {
                return Stop::Ended;
            }
            if self.out.room(cx) == 0 {
                return Stop::OutputFull;
            }
            let _ = self.out.push(cx, self.record.clone());
            self.left -= 1;
        }
        Stop::QuantumSpent
    }
}

struct Sink {
    input: In<Record>,
}

impl Task for Sink {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.input.pop(cx).is_none() {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            }
        }
        Stop::QuantumSpent
    }
}

/// The nanoseconds from the time at which the first record is sent until the last record has left.
fn run(connect: &str, records: u64, workers: usize) -> f64 {
    let boxes = Boxes::new()
        .with("box inc ((x) -> (x))", |x: i64, out: &mut BoxOut| out.emit((x + 1,)))
        .with("box swap ((a) -> (b))", |a: i64, out: &mut BoxOut| out.emit((a,)))
        .with("box back ((b) -> (a))", |b: i64, out: &mut BoxOut| out.emit((b,)));
    let text = format!(
        "net main {{ box inc ((x) -> (x)); box swap ((a) -> (b)); box back ((b) -> (a)); }} connect {connect};"
    );
    let network = Network::parse("main", &text, &boxes).unwrap();
    let runtime = Runtime::new(Options { workers, mode: Mode::Off, ..Options::default() }).unwrap();
    let running = network.start(&runtime).unwrap();
    let record = json::read_record(br#"{"x": 1, "a": 2, "<n>": 3}"#).unwrap();
    runtime.spawn(TaskSpec::default(), Source { out: running.input, record, left: records });
    runtime.spawn(TaskSpec::default(), Sink { input: running.output });
    drop(running.errors);
    let start = Instant::now();
    runtime.join().unwrap();
    start.elapsed().as_nanos() as f64
}

fn main() {
    let argument = |n: usize| std::env::args().nth(n).map(|text| text.parse::<u64>().expect("a number"));
    let records = argument(1).unwrap_or(1_000_000);
    let workers = argument(2).unwrap_or(1) as usize;
    let chain = |component: &str| [component; LENGTH].join(" .. ");
    let swaps = ["swap .. back"; LENGTH / 2].join(" .. ");
    let cases = [
        ("nothing: source and sink", "[]".to_owned()),
        ("box (x) -> (x), two inherited", chain("inc")),
        ("box (a) -> (b) and back, two inherited", swaps),
        ("filter [{<n>} -> {<n = n + 1>}]", chain("[{<n>} -> {<n = n + 1>}]")),
        ("filter [{a} -> {a}]", chain("[{a} -> {a}]")),
        ("parallel (inc | [{absent} -> {}])", chain("(inc | [{absent} -> {}])")),
        ("split inc ! <n>", chain("(inc ! <n>)")),
        (
            "star of 16 replicas",
            format!(
                "[{{<n>}} -> {{<n = {LENGTH}>}}] .. (inc .. [{{<n>}} -> {{<n = n - 1>}}]) * {{<n>}} if <n == 0>"
            ),
        ),
    ];
    let only = std::env::args().nth(3).unwrap_or_default();
    let repeats = argument(4).unwrap_or(5);
    let ends = (0..repeats).map(|_| run("[]", records, workers)).fold(f64::INFINITY, f64::min);
    for (name, connect) in cases {
        if !name.contains(&only) {
            continue;
        }
        let best = (0..repeats).map(|_| run(&connect, records, workers)).fold(f64::INFINITY, f64::min);
        let per = (best - ends) / records as f64 / LENGTH as f64;
        println!("{name:44} {per:7.2} ns per component and record ({:.1} ns in all)", best / records as f64);
    }
}
