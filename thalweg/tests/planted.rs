//! Planted causes in real time: networks made to be slow for one known reason, run, and diagnosed. The verdict has to name
//! the reason.
//!
//! A machine that does something else meanwhile is itself a cause, and the verdict then rightly speaks of that. So it is
//! asked how much of the processors others had; a run they disturbed is made again, whatever its verdict.
//!
//! `PLANTED` is the number of networks of each cause, `PLANTED_CAUSE` chooses one cause, `PLANTED_SEED` one network.

#![allow(clippy::print_stdout, reason = "what was named, for who looks")]

#[path = "../../monitor/tests/planted_nets/mod.rs"]
mod planted_nets;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use planted_nets::{CAUSES, Cause, Net, Score};
use thalweg_exec::{
    Blocking, Context, In, Mode, Options, Out, Ports, Runtime, Stop, StreamSpec, Task, TaskSpec,
};
use thalweg_monitor::{Report, report_space};
use thalweg_space::{ElementOptions, Policy, Site, SiteRef, Space, SpaceOptions};

/// How long a source goes on.
const LASTS: Duration = Duration::from_millis(200);
/// Runs of one network at most, until the machine leaves one alone.
const RUNS_MAX: usize = 6;
/// Others may have had so much of the processors.
const FOREIGN_MAX: f64 = 0.1;

/// Uses the processor for so many nanoseconds. However often it is put off its processor meanwhile, its work stays the same.
fn work(ns: u64) {
    let turns = ns * turns_per_us() / 1000;
    let mut done = 0u64;
    while done < turns {
        done = std::hint::black_box(done + 1);
    }
}

/// Turns of that loop in a microsecond.
fn turns_per_us() -> u64 {
    static TURNS: OnceLock<u64> = OnceLock::new();
    *TURNS.get_or_init(|| {
        let tries = (0..20).map(|_| {
            let begun = Instant::now();
            let mut done = 0u64;
            while done < 200_000 {
                done = std::hint::black_box(done + 1);
            }
            begun.elapsed().as_nanos().max(1)
        });
        (200_000 * 1000 / tries.min().unwrap_or(1)) as u64
    })
}

/// A task of a planted network, on a worker.
struct Stage {
    of: planted_nets::Task,
    inputs: Vec<In<u64>>,
    outputs: Vec<Out<u64>>,
    next_input: usize,
    next_output: usize,
    /// Still to be written, of this message; `None`: it has read nothing.
    owes: u64,
    message: Option<u64>,
}

impl Stage {
    /// Writes what it owes. Whether there was room for all of it.
    fn pay(&mut self, cx: &mut Context<'_>) -> bool {
        while self.owes > 0 {
            let output = &mut self.outputs[self.next_output];
            if output.room(cx) == 0 {
                return false;
            }
            output.push(cx, self.message.unwrap_or(0)).expect("there was room");
            if self.message.is_some() {
                cx.derived(output);
            }
            self.owes -= 1;
            self.next_output = (self.next_output + 1) % self.outputs.len();
        }
        true
    }

    /// The input that is next after the one that was read, or has ended. Whether there is one.
    fn turn(&mut self, ended: bool) -> bool {
        if ended {
            self.inputs.remove(self.next_input);
        } else {
            self.next_input += 1;
        }
        self.next_input %= self.inputs.len().max(1);
        !self.inputs.is_empty()
    }
}

impl Task for Stage {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.inputs.iter_mut().for_each(|input| ports.input(input));
        self.outputs.iter_mut().for_each(|output| ports.output(output));
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if !self.pay(cx) {
                return Stop::OutputFull;
            }
            let input = &mut self.inputs[self.next_input];
            match input.pop(cx) {
                Some(message) => {
                    work(self.of.service);
                    (self.message, self.owes) = (Some(message), self.of.copies);
                    self.turn(false);
                }
                None if !input.ended() => return Stop::InputEmpty,
                None if self.turn(true) => {}
                None => return Stop::Ended,
            }
        }
        Stop::QuantumSpent
    }
}

/// A space in a directory of its own, gone with the test.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("thalweg-planted-{}-{number}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that wants one processor all the time; gone with this.
struct Burner(Child);

impl Burner {
    fn on(core: usize) -> Option<Burner> {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string(), "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
        command.spawn().ok().map(Burner)
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor time of all processors and of this process, in ticks of the kernel's accounts.
struct Processors {
    all: u64,
    ours: u64,
    since: Instant,
}

impl Processors {
    fn look() -> Option<Processors> {
        let numbers = |text: &str, skip: usize, take: usize| -> Option<Vec<u64>> {
            text.split_whitespace().skip(skip).take(take).map(|field| field.parse().ok()).collect()
        };
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        // user, nice, system, idle, iowait, irq, softirq, steal
        let all = numbers(stat.lines().next()?, 1, 8)?;
        let own = std::fs::read_to_string("/proc/self/stat").ok()?;
        let ours = numbers(own.rsplit(')').next()?, 11, 2)?;
        let idle = all[3] + all[4];
        let used = |ticks: &[u64]| ticks.iter().sum::<u64>();
        Some(Processors { all: used(&all) - idle, ours: used(&ours), since: Instant::now() })
    }

    /// Share of two processors that others had since.
    fn foreign_since(&self) -> Option<f64> {
        let now = Processors::look()?;
        let foreign = (now.all - self.all).saturating_sub(now.ours - self.ours);
        Some(foreign as f64 / 100.0 / (2.0 * self.since.elapsed().as_secs_f64()))
    }
}

/// Runs the network: the report, and the share of the processors that others had.
fn run(net: &Net) -> (Report, f64) {
    let place = Place::new();
    let space = Space::create(SpaceOptions {
        name: "planted".into(),
        path: Some(place.0.clone()),
        element: ElementOptions { block_bytes: 1 << 20, block_count: 64, policy: Policy::Overwrite },
        ..SpaceOptions::default()
    })
    .unwrap();
    let burners: Vec<Burner> =
        (0..2).filter(|_| net.preempted_every.is_some()).filter_map(|_| Burner::on(0)).collect();
    let before = Processors::look();
    let runtime = Runtime::new(Options {
        workers: net.workers,
        quantum: net.quantum as usize,
        capacity: net.capacity as usize,
        pin: true,
        mode: Mode::Full,
        space: Some(space.clone()),
        ..Options::default()
    })
    .unwrap();
    build(net, &runtime, &space);
    let outcome = runtime.join();
    let foreign = before.and_then(|before| before.foreign_since()).unwrap_or(0.0);
    assert_eq!(outcome.is_err(), net.cause == Cause::Deadlock, "{outcome:?}");
    let foreign = if burners.is_empty() { foreign } else { 0.0 };
    drop(burners);
    space.finish();
    drop(space);
    (report_space(&place.0, 32).unwrap(), foreign)
}

fn build(net: &Net, runtime: &Runtime, space: &Space) {
    let site = |name: &str, kind, parent| {
        let site = Site { name, kind, parent, file: "planted", line: 1, column: 1 };
        space.site(&site).unwrap()
    };
    let root: SiteRef = site("net", "net", None);
    let (mut outs, mut ins): (Vec<_>, Vec<_>) = (0..net.streams)
        .map(|_| runtime.stream(StreamSpec::default()))
        .map(|(out, input)| (Some(out), Some(input)))
        .unzip();
    for task in &net.tasks {
        let mut outputs: Vec<Out<u64>> =
            task.outputs.iter().map(|&stream| outs[stream].take().expect("one writer")).collect();
        let mut inputs: Vec<In<u64>> =
            task.inputs.iter().map(|&stream| ins[stream].take().expect("one reader")).collect();
        let component = site(&task.name, "box", Some(root));
        let spec = TaskSpec { component, replica: task.replica, place: task.worker, ..TaskSpec::default() };
        if task.worker.is_some() {
            let of = task.clone();
            let owes = of.seed;
            let stage = Stage { of, inputs, outputs, next_input: 0, next_output: 0, owes, message: None };
            runtime.spawn(spec, stage);
        } else if let Some(input) = inputs.pop() {
            sink(runtime, spec, input, task.service);
        } else if let Some(output) = outputs.pop() {
            source(runtime, spec, output, task);
        }
    }
}

fn sink(runtime: &Runtime, spec: TaskSpec, mut input: In<u64>, service: u64) {
    runtime.spawn_blocking_attached(spec, move |ports| {
        ports.input(&mut input);
        move |task: &mut Blocking| {
            while task.pop(&mut input).is_some() {
                work(service);
            }
        }
    });
}

fn source(runtime: &Runtime, spec: TaskSpec, mut output: Out<u64>, of: &planted_nets::Task) {
    let (service, sleeps) = (of.service, of.sleeps);
    runtime.spawn_blocking(spec, move |task| {
        let begun = Instant::now();
        let mut number = 0;
        while begun.elapsed() < LASTS {
            if sleeps {
                std::thread::sleep(Duration::from_nanos(service));
            } else {
                work(service);
            }
            let sent =
                if service == 0 { task.feed(&mut output, number) } else { task.push(&mut output, number) };
            if sent.is_err() {
                return;
            }
            number += 1;
        }
    });
}

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// However busy the machine is, a circle that nobody can leave is one.
#[test]
fn deadlocks_are_named_on_any_machine() {
    let mut score = Score::default();
    for seed in 0..4 {
        let net = Net::planted(Cause::Deadlock, seed);
        score.add(&net, seed, &run(&net).0.verdict);
    }
    score.check();
}

#[test]
#[ignore = "real time: it wants two processors for itself; monitor/tests/planted.rs does the same in a time of its own"]
fn verdicts_name_what_was_planted() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: verdicts_name_what_was_planted: two workers need two processors");
        return;
    }
    let variants: u64 = from_environment("PLANTED").unwrap_or(6);
    let only_cause: Option<String> = from_environment("PLANTED_CAUSE");
    let only_seed: Option<u64> = from_environment("PLANTED_SEED");
    let (mut score, mut disturbed, mut left_out) = (Score::default(), 0, Vec::new());
    let chosen = |cause: &&Cause| only_cause.as_ref().is_none_or(|only| *only == format!("{cause:?}"));
    for &cause in CAUSES.iter().filter(chosen) {
        for seed in only_seed.map_or(0..variants, |seed| seed..seed + 1) {
            let net = Net::planted(cause, seed);
            let mut runs = (0..RUNS_MAX).map(|_| run(&net));
            let alone = runs.find(|(_, foreign)| {
                disturbed += u64::from(*foreign > FOREIGN_MAX);
                *foreign <= FOREIGN_MAX
            });
            let Some((report, _)) = alone else {
                left_out.push(format!("{cause:?} {seed}"));
                continue;
            };
            if only_seed.is_some() {
                println!("{}", serde_json::to_string_pretty(&report).expect("a report is JSON"));
            }
            score.add(&net, seed, &report.verdict);
        }
    }
    println!("{score}{disturbed} runs were disturbed by others and made again");
    assert!(left_out.is_empty(), "the machine is too busy, others disturbed every run of: {left_out:?}");
    score.check();
}
