//! Sends one message round a ring of tasks on one worker, so each dispatch reads one message. To count the
//! cost of a dispatch in a mode, run the example under `valgrind --tool=callgrind` with two numbers of hops,
//! and divide the difference of the counted instructions by the difference of the numbers.
//!
//! usage: lone HOPS off|metrics|full

use thalweg_exec::{Context, In, Mode, Options, Out, Ports, Runtime, Stop, StreamSpec, Task, TaskSpec};
use thalweg_space::{Space, SpaceOptions};

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
    let [hops, mode] = &arguments[..] else { panic!("usage: lone HOPS off|metrics|full") };
    let hops: u64 = hops.parse().expect("a number of hops");
    let mode = match mode.as_str() {
        "off" => Mode::Off,
        "metrics" => Mode::Metrics,
        "full" => Mode::Full,
        other => panic!("no mode is called {other}"),
    };
    let folder = std::env::temp_dir().join(format!("thalweg-lone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let space =
        Space::create(SpaceOptions { parent: Some(folder.clone()), ..SpaceOptions::default() }).unwrap();
    let options = Options { workers: 1, mode, space: Some(space), ..Options::default() };
    let runtime = Runtime::new(options).unwrap();
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
    runtime.start();
    runtime.join().unwrap();
    let _ = std::fs::remove_dir_all(folder);
}
