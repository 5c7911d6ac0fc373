//! Measures the cost of a hop: a pointer passes through a chain of tasks, each with a dynamic call per
//! message.
//!
//! `cargo run --release -p thalweg-exec --example hop -- [N] [WORKERS] [MODE] [MILLIONS] [RUNS]`: nanoseconds
//! per hop of N tasks, median of 5 runs; with `one` as MODE's suffix (`off-one`), one message in flight,
//! round and round.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use thalweg_exec::{Context, In, Mode, Options, Out, Ports, Runtime, Stop, StreamSpec, Task, TaskSpec};
use thalweg_space::{Space, SpaceOptions};

trait Work: Send {
    fn apply(&mut self, message: usize) -> usize;
}

struct AddOne;
impl Work for AddOne {
    fn apply(&mut self, message: usize) -> usize {
        message.wrapping_add(1)
    }
}

struct Stage {
    input: In<usize>,
    output: Out<usize>,
    work: Box<dyn Work>,
}

impl Task for Stage {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let room = self.output.room(cx);
        for _ in 0..room.min(cx.quantum()) {
            match self.input.pop(cx) {
                Some(message) => self.output.push(cx, self.work.apply(message)).unwrap(),
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        if self.output.room(cx) == 0 { Stop::OutputFull } else { Stop::QuantumSpent }
    }
}

struct Source(Out<usize>, usize);
impl Task for Source {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.1 == 0 {
                return Stop::Ended;
            }
            if self.0.push(cx, self.1).is_err() {
                return Stop::OutputFull;
            }
            self.1 -= 1;
        }
        Stop::QuantumSpent
    }
}

struct Sink(In<usize>, usize);
impl Task for Sink {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            match self.0.pop(cx) {
                Some(message) => self.1 = self.1.wrapping_add(message),
                None if self.0.ended() => {
                    black_box(self.1);
                    return Stop::Ended;
                }
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// Sends the only message again each time it comes out of the chain of tasks.
struct Turn(In<usize>, Option<Out<usize>>, usize, Vec<u64>, Option<Instant>);
impl Task for Turn {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let Some(output) = &mut self.1 else {
            return if self.0.ended() { Stop::Ended } else { Stop::InputEmpty };
        };
        let message = match self.4 {
            None => 0,
            Some(_) => match self.0.pop(cx) {
                Some(message) => message,
                None => return Stop::InputEmpty,
            },
        };
        let now = Instant::now();
        if let Some(before) = self.4.replace(now) {
            self.3.push((now - before).as_nanos() as u64);
        }
        self.2 -= 1;
        if self.2 == 0 {
            self.1 = None;
            self.3.sort_unstable();
            let at = |share: f64| self.3[((self.3.len() - 1) as f64 * share) as usize];
            println!("  round p50 {} ns, p99 {} ns", at(0.5), at(0.99));
            return Stop::QuantumSpent;
        }
        output.push(cx, message).unwrap();
        Stop::QuantumSpent
    }
}

/// The processor time that this process has used, in nanoseconds. Unlike elapsed time, processor time does
/// not contain the time that other programs on the machine used.
fn processor_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is a local variable, and the call fills it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let stages: usize = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let workers: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let mode = arguments.next().unwrap_or_else(|| "none".into());
    let millions: f64 = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let messages = (millions * 1e6) as usize;
    let runs: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let before = processor_ns();
    let mut times = Vec::new();
    for _ in 0..runs {
        times.push(run(stages, workers, &mode, messages)?);
    }
    times.sort_by(f64::total_cmp);
    let (least, median, most) = (times[0], times[runs / 2], times[runs - 1]);
    let hops = if mode.ends_with("-one") { messages / 10 } else { messages } * (stages + 1) * runs;
    let processor = (processor_ns() - before) / hops as f64;
    println!(
        "N={stages} workers={workers} {mode}: {median:.2} ns/hop ({least:.2}–{most:.2}), of the processor {processor:.2}"
    );
    Ok(())
}

fn run(
    stages: usize,
    workers: usize,
    mode: &str,
    messages: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    let space = match mode.split('-').next() {
        Some("none") => None,
        _ => Some(Space::create(SpaceOptions { name: "hop".into(), ..SpaceOptions::default() })?),
    };
    let path = space.as_ref().map(|space| space.path().to_owned());
    let options = Options {
        workers,
        pin: true,
        mode: match mode.split('-').next() {
            Some("full") => Mode::Full,
            Some("metrics") => Mode::Metrics,
            _ => Mode::Off,
        },
        space,
        ..Options::default()
    };
    let runtime = Runtime::new(options)?;
    let one = mode.ends_with("-one");
    let (first, mut input) = runtime.stream(StreamSpec::default());
    let mut tasks = Vec::new();
    for _ in 0..stages {
        let (output, next) = runtime.stream(StreamSpec::default());
        tasks.push(Stage { input, output, work: Box::new(AddOne) });
        input = next;
    }
    let started = Instant::now();
    if one {
        let rounds = messages / 10;
        let turn = Turn(input, Some(first), rounds, Vec::with_capacity(rounds), None);
        runtime.spawn(TaskSpec::default(), turn);
        for task in tasks {
            runtime.spawn(TaskSpec::default(), task);
        }
        runtime.join()?;
        let hops = (rounds * (stages + 1)) as f64;
        let elapsed = started.elapsed().as_nanos() as f64;
        clean(path);
        return Ok(elapsed / hops);
    }
    runtime.spawn(TaskSpec::default(), Source(first, messages));
    for task in tasks {
        runtime.spawn(TaskSpec::default(), task);
    }
    runtime.spawn(TaskSpec::default(), Sink(input, 0));
    let summary = runtime.join()?;
    assert_eq!(summary.failed, 0);
    let elapsed = started.elapsed().as_nanos() as f64;
    clean(path);
    Ok(elapsed / (messages * (stages + 1)) as f64)
}

fn clean(path: Option<std::path::PathBuf>) {
    if let Some(path) = path {
        let _ = std::fs::remove_dir_all(path);
    }
}
