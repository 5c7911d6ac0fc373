//! Records through sixteen boxes on one worker or more, one in flight or many: a row of boxes, of splits or of
//! parallels with a box each, or a star of sixteen stages that each have a box and a filter. To count what a box
//! costs a record, run it on two numbers of records under `valgrind --tool=callgrind` and divide the difference
//! by sixteen and by theirs.
//!
//! usage: boxes RECORDS IN_FLIGHT off|metrics|full fused|apart [row|split|parallel|star] [WORKERS [BOX_NS
//! [QUANTUM_US]]]
//!
//! BOX_NS is how long a box works on a record, in nanoseconds, 0 by default. QUANTUM_US is `exec.quantum_us`:
//! under valgrind everything takes some fifty times as long, so a quantum should be longer, too.

use std::time::{Duration, Instant};

use thalweg_box::Value;
use thalweg_exec::{Context, In, Mode, Options, Out, Ports, Runtime, Stop, Task, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::run::StartOptions;
use thalweg_net::{Boxes, Network, shape};
use thalweg_space::{Space, SpaceOptions};

const BOXES: usize = 16;

/// Sends a record whenever fewer than a given number of records are in the network.
struct Ends {
    left: u64,
    under_way: usize,
    most: usize,
    /// Whether records have a tag `<n>`, which splits and stars look at.
    has_tag: bool,
    output: Option<Out<Record>>,
    input: In<Record>,
}

impl Task for Ends {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.output.iter_mut().for_each(|output| ports.output(output));
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        while self.input.pop(cx).is_some() {
            self.under_way -= 1;
        }
        while self.under_way < self.most
            && self.left > 0
            && let Some(output) = &mut self.output
        {
            let (x, n) = (Label::field("x"), Label::tag("n"));
            let record = if self.has_tag {
                Record::from_pairs([(x, Value::Int(self.left as i64)), (n, Value::Int(BOXES as i64))])
            } else {
                let mut record = Record::with_shape(shape::of(&[x]));
                record.slots_mut()[0] = Value::Int(self.left as i64);
                record
            };
            if output.push(cx, record).is_err() {
                break;
            }
            (self.left, self.under_way) = (self.left - 1, self.under_way + 1);
        }
        if self.left == 0 && self.under_way == 0 {
            self.output = None;
        }
        if self.input.ended() { Stop::Ended } else { Stop::InputEmpty }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [records, most, mode, fuse, others @ ..] = &arguments[..] else {
        panic!("see the usage at the top of the file");
    };
    let network = others.first().map_or("row", String::as_str);
    let number = |text: &str| text.parse().expect("a number");
    let workers = others.get(1).map_or(1, |workers| number(workers)) as usize;
    let box_time = Duration::from_nanos(others.get(2).map_or(0, |ns| number(ns)));
    let quantum_us = others.get(3).map_or(Options::default().quantum_us, |us| number(us));
    let mode = match mode.as_str() {
        "off" => Mode::Off,
        "metrics" => Mode::Metrics,
        "full" => Mode::Full,
        other => panic!("no mode is called {other}"),
    };
    let folder = std::env::temp_dir().join(format!("thalweg-boxes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let space =
        Space::create(SpaceOptions { parent: Some(folder.clone()), ..SpaceOptions::default() }).unwrap();
    let options = Options { workers, mode, space: Some(space), quantum_us, ..Options::default() };
    let runtime = Runtime::new(options).unwrap();
    let boxes = Boxes::new().with("box inc ((x) -> (x))", move |x: i64, out: &mut thalweg_box::Out| {
        if !box_time.is_zero() {
            let begun = Instant::now();
            while begun.elapsed() < box_time {}
        }
        out.emit((x.wrapping_add(1),));
    });
    let connect = match network {
        "row" => ["inc"; BOXES].join(" .. "),
        "split" => ["(inc ! <n>)"; BOXES].join(" .. "),
        "parallel" => ["(inc | [{y} -> {y}])"; BOXES].join(" .. "),
        "star" => "(inc .. [{<n>} -> {<n = n - 1>}]) * {<n>} if <n <= 0>".to_owned(),
        other => panic!("no network is called {other}"),
    };
    let text = format!("net row {{ box inc ((x) -> (x)); }} connect {connect};");
    let parsed = Network::parse("row", &text, &boxes).expect("it is right");
    let limits = StartOptions { fuse: fuse == "fused", ..StartOptions::default() };
    let running = parsed.start_with(&runtime, limits).unwrap();
    let (left, most): (u64, usize) = (number(records), number(most) as usize);
    let (has_tag, output) = (network != "row", Some(running.input));
    let ends = Ends { left, under_way: 0, most, has_tag, output, input: running.output };
    runtime.spawn(TaskSpec::default(), ends);
    let begin = Instant::now();
    runtime.start();
    runtime.join().unwrap();
    let each = begin.elapsed().as_nanos() as f64 / left.max(1) as f64 / BOXES as f64;
    eprintln!("{each:.2} ns a record and box");
    let _ = std::fs::remove_dir_all(folder);
}
