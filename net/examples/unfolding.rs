//! Networks that unfold and synchronise, on one worker and without a space: a star that one record unfolds, a
//! synchrocell in a star that joins pairs, a split over many values, deterministic splits and free ones, and
//! parallels of two shapes that alternate, deterministic (`branches`) and free (`any`). To count what a stage,
//! pair or record costs, run the example on two numbers under `valgrind --tool=callgrind` and divide the
//! difference of the counted instructions by the difference of the numbers.
//!
//! usage: unfolding star|cells|split|ordered|free|branches|any NUMBER [none|off|metrics|full [QUANTUM_US]]
//!
//! The mode is that of a space; `none`, the default, is no space. QUANTUM_US is `exec.quantum_us`: under valgrind
//! everything takes some fifty times as long, so a quantum should be longer, too.
#![allow(clippy::print_stdout, missing_docs)]

use std::time::Instant;

use thalweg_box::Value;
use thalweg_exec::{Context, In, Mode, Options, Out, Ports, Runtime, Stop, Task, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::run::StartOptions;
use thalweg_net::shape::{self, ShapeId};
use thalweg_net::{Boxes, Network};
use thalweg_space::{Space, SpaceOptions};

/// Makes records, the shapes of which take turns.
struct Source {
    next: u64,
    end: u64,
    shapes: Vec<ShapeId>,
    value: fn(u64) -> i64,
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
            let mut record = Record::with_shape(self.shapes[self.next as usize % self.shapes.len()]);
            record.slots_mut()[0] = Value::Int((self.value)(self.next));
            _ = self.out.push(cx, record);
            self.next += 1;
        }
        Stop::QuantumSpent
    }
}

struct Sink {
    input: In<Record>,
}

impl Task for Sink {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.input.pop(cx).is_none() {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            }
        }
        Stop::QuantumSpent
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: unfolding star|cells|split|ordered|free|branches|any NUMBER [none|off|metrics|full [QUANTUM_US]]";
    let (Some(case), Some(number)) = (arguments.first(), arguments.get(1)) else { panic!("{usage}") };
    let number: u64 = number.parse().expect(usage);
    let mode = match arguments.get(2).map(String::as_str) {
        None | Some("none") => None,
        Some("off") => Some(Mode::Off),
        Some("metrics") => Some(Mode::Metrics),
        Some("full") => Some(Mode::Full),
        Some(_) => panic!("{usage}"),
    };
    let quantum_us = arguments.get(3).map_or(Options::default().quantum_us, |us| us.parse().expect(usage));
    let split = |operator| vec![format!("([{{<n>}} -> {{<n>}}] {operator} <n>)"); 4].join(" .. ");
    let parallel =
        |operator| vec![format!("([{{<n>}} -> {{<n>}}] {operator} [{{<m>}} -> {{<m>}}])"); 4].join(" .. ");
    let (text, labels, records, value): (_, _, _, fn(u64) -> i64) = match case.as_str() {
        // A filter gives the only record the number of stages that it unfolds.
        "star" => (
            format!("[{{<n>}} -> {{<n = {number}>}}] .. [{{<n>}} -> {{<n = n - 1>}}] * {{<n>}} if <n == 0>"),
            vec![Label::tag("n")],
            1,
            |_| 0,
        ),
        "cells" => (
            "[|{x}, {y}|] * {x, y}".to_owned(),
            vec![Label::field("x"), Label::field("y")],
            2 * number,
            |next| next as i64,
        ),
        "split" => ("[{<n>} -> {<n>}] ! <n>".to_owned(), vec![Label::tag("n")], number, |next| next as i64),
        "ordered" => (split("!!"), vec![Label::tag("n")], number, |next| next as i64 % 4),
        "free" => (split("!"), vec![Label::tag("n")], number, |next| next as i64 % 4),
        "branches" => (parallel("||"), vec![Label::tag("n"), Label::tag("m")], number, |next| next as i64),
        "any" => (parallel("|"), vec![Label::tag("n"), Label::tag("m")], number, |next| next as i64),
        _ => panic!("{usage}"),
    };
    let shapes = labels.iter().map(|label: &Label| shape::of(&[*label])).collect();
    let network = Network::parse("main", &format!("net main connect {text};"), &Boxes::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let space = mode.map(|_| {
        Space::create(SpaceOptions { parent: Some(folder.path().into()), ..SpaceOptions::default() }).unwrap()
    });
    let options =
        Options { workers: 1, space, mode: mode.unwrap_or_default(), quantum_us, ..Options::default() };
    let runtime = Runtime::new(options).unwrap();
    let limits = StartOptions { replicas: 2 * number, ..StartOptions::default() };
    let running = network.start_with(&runtime, limits).unwrap();
    runtime.spawn(TaskSpec::default(), Source { next: 0, end: records, shapes, value, out: running.input });
    runtime.spawn(TaskSpec::default(), Sink { input: running.output });
    drop(running.errors);
    let begin = Instant::now();
    let summary = runtime.join().unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    println!("{case}: {:.1} ns each of {number}", begin.elapsed().as_nanos() as f64 / number as f64);
}
