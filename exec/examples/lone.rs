//! Sends one message round a ring of tasks on one worker, so each dispatch reads one message. To count the
//! cost of a dispatch in a mode, run the example under `valgrind --tool=callgrind` with two numbers of hops,
//! and divide the difference of the counted instructions by the difference of the numbers.
//!
//! usage: lone HOPS none|off|metrics|full

mod measured;

use thalweg_exec::{Context, In, Out, Ports, Stop, StreamSpec, Task, TaskSpec};

use measured::Measured;

const STAGES: usize = 16;

/// Passes the message on until it has made enough hops; the first task begins with the message.
struct Hop {
    input: In<u64>,
    output: Out<u64>,
    begins_with: Option<u64>,
}

impl Task for Hop {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if let Some(hops) = self.begins_with.take() {
            _ = self.output.push(cx, hops);
        }
        for _ in 0..cx.quantum() {
            match self.input.pop(cx) {
                Some(0) => return Stop::Ended,
                Some(left) => {
                    if self.output.push(cx, left - 1).is_err() {
                        return Stop::Ended;
                    }
                }
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [hops, mode] = &arguments[..] else { panic!("usage: lone HOPS none|off|metrics|full") };
    let hops: u64 = hops.parse().expect("a number of hops");
    let measured = Measured::new("lone", mode);
    let runtime = &measured.runtime;
    let (first, mut input) = runtime.stream(StreamSpec::default());
    for _ in 1..STAGES {
        let (output, next) = runtime.stream(StreamSpec::default());
        let input = std::mem::replace(&mut input, next);
        runtime.spawn(
            TaskSpec { one_to_one: true, ..TaskSpec::default() },
            Hop { input, output, begins_with: None },
        );
    }
    runtime.spawn(
        TaskSpec { one_to_one: true, ..TaskSpec::default() },
        Hop { input, output: first, begins_with: Some(hops) },
    );
    measured.end();
}
