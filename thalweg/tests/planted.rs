//! Planted causes: networks made to be slow for one known reason, run, and diagnosed. The verdict has to name the
//! reason.
//!
//! Boxes work by their thread's processor time, so a busy machine stretches a run without changing what it is. Where the
//! machine took a worker's processor away, the verdict says that, and rightly: such a run says nothing about the planted cause and is
//! made again. What is counted is the first verdict of an undisturbed run.

#![allow(clippy::print_stdout, reason = "what was named, for who looks")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thalweg_exec::{
    Blocking, Context, In, Mode, Options, Out, Ports, Runtime, Stop, StreamSpec, Task, TaskSpec,
};
use thalweg_monitor::{Report, VerdictKind, report_space};
use thalweg_space::{ElementOptions, Policy, Site, SiteRef, Space, SpaceOptions};

/// How long a run lasts, about.
const LASTS: Duration = Duration::from_millis(120);
/// Runs of one network at most, until the machine leaves one alone.
const RUNS_MAX: usize = 6;

/// Uses the processor for so long.
fn work(time: Duration) {
    if time.is_zero() {
        return;
    }
    let mut done = 0u64;
    // Turns are calibrated once, so that a box's work is the same however often it is put off its processor.
    let turns = time.as_nanos() as u64 * turns_per_us() / 1000;
    while done < turns {
        done = std::hint::black_box(done + 1);
    }
}

/// Turns of the loop above in a microsecond of processor time.
fn turns_per_us() -> u64 {
    static TURNS: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *TURNS.get_or_init(|| {
        let best = (0..20).map(|_| {
            let begun = Instant::now();
            let mut done = 0u64;
            while done < 200_000 {
                done = std::hint::black_box(done + 1);
            }
            begun.elapsed().as_nanos().max(1)
        });
        (200_000 * 1000 / best.min().unwrap_or(1)) as u64
    })
}

/// A box: for each message works, then writes it `copies` times.
struct Stage {
    input: In<u64>,
    output: Out<u64>,
    time: Duration,
    copies: u64,
    held: u64,
    message: u64,
}

impl Task for Stage {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            while self.held > 0 {
                if self.output.room(cx) == 0 {
                    return Stop::OutputFull;
                }
                self.output.push(cx, self.message).expect("there was room");
                cx.derived(&self.output);
                self.held -= 1;
            }
            match self.input.pop(cx) {
                Some(message) => {
                    work(self.time);
                    self.message = message;
                    self.held = self.copies;
                }
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// Deals messages out in turns.
struct Deal {
    input: In<u64>,
    outputs: Vec<Out<u64>>,
    next: usize,
    held: Option<u64>,
}

impl Task for Deal {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        self.outputs.iter_mut().for_each(|output| ports.output(output));
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            let output = &mut self.outputs[self.next];
            if let Some(message) = self.held {
                if output.room(cx) == 0 {
                    return Stop::OutputFull;
                }
                output.push(cx, message).expect("there was room");
                cx.derived(output);
                self.held = None;
                self.next = (self.next + 1) % self.outputs.len();
            }
            match self.input.pop(cx) {
                Some(message) => self.held = Some(message),
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// Reads several streams in turns.
struct Collect {
    inputs: Vec<In<u64>>,
    output: Out<u64>,
    next: usize,
    held: Option<u64>,
}

impl Task for Collect {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.inputs.iter_mut().for_each(|input| ports.input(input));
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if let Some(message) = self.held {
                if self.output.room(cx) == 0 {
                    return Stop::OutputFull;
                }
                self.output.push(cx, message).expect("there was room");
                cx.derived(&self.output);
                self.held = None;
            }
            let input = &mut self.inputs[self.next];
            match input.pop(cx) {
                Some(message) => {
                    self.held = Some(message);
                    self.next = (self.next + 1) % self.inputs.len();
                }
                None if input.ended() => {
                    self.inputs.swap_remove(self.next);
                    if self.inputs.is_empty() {
                        return Stop::Ended;
                    }
                    self.next %= self.inputs.len();
                }
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// Two of these in a ring: each writes two messages for each it reads, so that the ring fills.
struct Echo {
    input: In<u64>,
    output: Out<u64>,
    held: u64,
    begun: bool,
}

impl Task for Echo {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !std::mem::replace(&mut self.begun, true) {
            self.held = 1;
        }
        for _ in 0..cx.quantum() {
            while self.held > 0 {
                if self.output.room(cx) == 0 {
                    return Stop::OutputFull;
                }
                self.output.push(cx, 0).expect("there was room");
                self.held -= 1;
            }
            match self.input.pop(cx) {
                Some(_) => self.held = 2,
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// What is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    SlowBox,
    SlowReplica,
    SlowSource,
    SlowSink,
    BadMapping,
    SmallStream,
    SmallQuantum,
    Contention,
    Deadlock,
    Burst,
    Healthy,
}

/// A network and what is wrong with it.
#[derive(Clone, Debug)]
struct Planted {
    cause: Cause,
    /// Work of the boxes of a chain, and the place of each.
    boxes: Vec<(Duration, usize)>,
    /// The box that the cause is in.
    culprit: usize,
    capacity: usize,
    quantum: usize,
    source: Duration,
    /// The source sleeps instead of working.
    sleeps: bool,
    sink: Duration,
    copies: u64,
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Variant `n` of a cause.
fn planted(cause: Cause, n: usize) -> Planted {
    let length = 3 + n % 3;
    let culprit = n % length;
    let each = 2 + (n as u64 * 7) % 5;
    let mut net = Planted {
        cause,
        boxes: (0..length).map(|at| (us(each), at * 2 / length)).collect(),
        culprit,
        capacity: [32, 64, 128][n % 3],
        quantum: 64,
        source: Duration::ZERO,
        sleeps: false,
        sink: Duration::ZERO,
        copies: 1,
    };
    match cause {
        Cause::SlowBox | Cause::SlowReplica => net.boxes[culprit].0 = us(each * 15),
        Cause::SlowSource => net.source = us(each * 12),
        Cause::SlowSink => net.sink = us(each * 12),
        // All on one worker, the other has nothing.
        Cause::BadMapping => net.boxes.iter_mut().for_each(|(_, place)| *place = n % 2),
        Cause::SmallStream => {
            net.capacity = 1;
            // Neighbours on different workers.
            net.boxes = (0..2 + n % 2).map(|at| (us(each), at % 2)).collect();
        }
        Cause::SmallQuantum => {
            net.quantum = 1;
            net.boxes.iter_mut().for_each(|(time, place)| (*time, *place) = (Duration::ZERO, 0));
        }
        // One worker, whose processor another process wants.
        Cause::Contention => net.boxes.iter_mut().for_each(|(_, place)| *place = 0),
        Cause::Deadlock => net.capacity = [4, 8, 16][n % 3],
        Cause::Burst => {
            net.copies = [16, 50, 200][n % 3];
            net.culprit = culprit.min(length - 2);
        }
        Cause::Healthy => {
            net.source = us(each * length as u64 * 6 + 300);
            net.sleeps = true;
        }
    }
    net
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
        let script = "while :; do :; done";
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string(), "sh", "-c", script]).stdin(Stdio::null());
        command.spawn().ok().map(Burner)
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the network and reports.
fn run(net: &Planted) -> Report {
    let place = Place::new();
    let space = Space::create(SpaceOptions {
        name: "planted".into(),
        path: Some(place.0.clone()),
        element: ElementOptions { block_bytes: 1 << 20, block_count: 64, policy: Policy::Overwrite },
        ..SpaceOptions::default()
    })
    .unwrap();
    let burners: Vec<Burner> = if net.cause == Cause::Contention {
        (0..2).filter_map(|_| Burner::on(0)).collect()
    } else {
        Vec::new()
    };
    let runtime = Runtime::new(Options {
        workers: if net.cause == Cause::Contention || net.cause == Cause::SmallQuantum { 1 } else { 2 },
        quantum: net.quantum,
        capacity: net.capacity,
        pin: true,
        mode: Mode::Full,
        space: Some(space.clone()),
        ..Options::default()
    })
    .unwrap();
    build(net, &runtime, &space);
    let outcome = runtime.join();
    assert_eq!(outcome.is_err(), net.cause == Cause::Deadlock, "{outcome:?}");
    drop(burners);
    space.finish();
    drop(space);
    report_space(&place.0, 32).unwrap()
}

fn spec(space: &Space, net: SiteRef, name: &str, replica: u64, place: Option<usize>) -> TaskSpec {
    let site = Site { name, kind: "box", parent: Some(net), file: "planted", line: 1, column: 1 };
    TaskSpec { component: space.site(&site).unwrap(), replica, place, ..TaskSpec::default() }
}

fn build(net: &Planted, runtime: &Runtime, space: &Space) {
    let root = Site { name: "net", kind: "net", parent: None, file: "planted", line: 1, column: 1 };
    let root = space.site(&root).unwrap();
    let spec = |name: &str, replica, place| spec(space, root, name, replica, place);
    let (mut entry, mut end) = runtime.stream(StreamSpec::default());
    for (at, &(time, place)) in net.boxes.iter().enumerate() {
        let planted_here = at == net.culprit;
        if net.cause == Cause::SlowReplica && planted_here {
            end = replicas(net, runtime, &spec, end, time);
            continue;
        }
        if net.cause == Cause::Deadlock && planted_here {
            ring(runtime, &spec);
        }
        let (output, next) = runtime.stream(StreamSpec::default());
        let copies = if net.cause == Cause::Burst && planted_here { net.copies } else { 1 };
        let stage = Stage { input: end, output, time, copies, held: 0, message: 0 };
        runtime.spawn(spec(&format!("box{at}"), 0, Some(place)), stage);
        end = next;
    }
    let sink = net.sink;
    runtime.spawn_blocking_attached(spec("sink", 0, None), move |ports| {
        ports.input(&mut end);
        move |task: &mut Blocking| {
            while task.pop(&mut end).is_some() {
                work(sink);
            }
        }
    });
    let (source, sleeps) = (net.source, net.sleeps);
    runtime.spawn_blocking(spec("source", 0, None), move |task| {
        let begun = Instant::now();
        let mut number = 0;
        while begun.elapsed() < LASTS {
            if sleeps {
                std::thread::sleep(source);
            } else {
                work(source);
            }
            let sent =
                if source.is_zero() { task.feed(&mut entry, number) } else { task.push(&mut entry, number) };
            if sent.is_err() {
                return;
            }
            number += 1;
        }
    });
}

/// Three replicas, of which one is slow.
fn replicas(
    net: &Planted,
    runtime: &Runtime,
    spec: &impl Fn(&str, u64, Option<usize>) -> TaskSpec,
    input: In<u64>,
    slow: Duration,
) -> In<u64> {
    let (mut to, mut from) = (Vec::new(), Vec::new());
    for replica in 0..3u64 {
        let (sent, got) = runtime.stream(StreamSpec::default());
        let (output, result) = runtime.stream(StreamSpec::default());
        let is_slow = replica == net.culprit as u64 % 3;
        let time = if is_slow { slow } else { slow / 15 };
        let stage = Stage { input: got, output, time, copies: 1, held: 0, message: 0 };
        runtime.spawn(spec("split", replica, Some(usize::from(is_slow))), stage);
        to.push(sent);
        from.push(result);
    }
    runtime.spawn(spec("deal", 0, Some(0)), Deal { input, outputs: to, next: 0, held: None });
    let (output, next) = runtime.stream(StreamSpec::default());
    runtime.spawn(spec("collect", 0, Some(0)), Collect { inputs: from, output, next: 0, held: None });
    next
}

/// Two tasks that wait for each other's room before long.
fn ring(runtime: &Runtime, spec: &impl Fn(&str, u64, Option<usize>) -> TaskSpec) {
    let (there, got) = runtime.stream(StreamSpec::default());
    let (back, answer) = runtime.stream(StreamSpec::default());
    let echo = |input, output| Echo { input, output, held: 0, begun: false };
    runtime.spawn(spec("ping", 0, Some(0)), echo(answer, there));
    runtime.spawn(spec("pong", 0, Some(1)), echo(got, back));
}

/// Whether the verdict names what was planted, and where.
fn named(net: &Planted, report: &Report) -> bool {
    let verdict = &report.verdict;
    let component = verdict.component.as_deref().unwrap_or("");
    let culprit = format!("net/box{}", net.culprit);
    match net.cause {
        Cause::SlowBox => verdict.kind == VerdictKind::Task && component == culprit,
        Cause::SlowReplica => verdict.kind == VerdictKind::Replica && component == "net/split",
        Cause::SlowSource => verdict.kind == VerdictKind::Source && component == "net/source",
        Cause::SlowSink => verdict.kind == VerdictKind::Sink && component == "net/sink",
        Cause::BadMapping => verdict.kind == VerdictKind::Mapping,
        Cause::SmallStream => verdict.kind == VerdictKind::Capacity,
        Cause::SmallQuantum => verdict.kind == VerdictKind::Quantum,
        Cause::Contention => verdict.kind == VerdictKind::Contention,
        Cause::Deadlock => {
            verdict.kind == VerdictKind::Deadlock && (component == "net/ping" || component == "net/pong")
        }
        Cause::Burst => verdict.kind == VerdictKind::Burst && component == culprit,
        Cause::Healthy => verdict.kind == VerdictKind::Nothing,
    }
}

/// Whether the machine let the run have its processors: what the threads of the run used of them and others did not take.
fn undisturbed(net: &Planted, report: &Report) -> bool {
    let preempted: u64 = report.workers.iter().filter_map(|worker| worker.preempted).sum();
    let ms = report.window.duration_ns / 1e6;
    net.cause == Cause::Contention || (preempted as f64) < ms / 8.0
}

#[test]
#[ignore = "real time: give it a quiet machine; monitor/tests/planted.rs does the same in a time of its own"]
fn verdicts_name_what_was_planted() {
    use Cause::*;
    let causes = [
        SlowBox,
        SlowReplica,
        SlowSource,
        SlowSink,
        BadMapping,
        SmallStream,
        SmallQuantum,
        Contention,
        Deadlock,
        Burst,
        Healthy,
    ];
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: two workers need two processors");
        return;
    }
    let variants: usize = std::env::var("PLANTED").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let (mut right, mut all, mut disturbed, mut wrong) = (0, 0, 0, Vec::new());
    for cause in causes {
        for n in 0..variants {
            let net = planted(cause, n);
            let mut found = run(&net);
            for _ in 1..RUNS_MAX {
                if named(&net, &found) || undisturbed(&net, &found) {
                    break;
                }
                disturbed += 1;
                found = run(&net);
            }
            all += 1;
            if named(&net, &found) {
                right += 1;
                continue;
            }
            assert!(
                cause != Healthy || !undisturbed(&net, &found),
                "false alarm on {net:?}: {:?}",
                found.verdict
            );
            wrong.push(format!("{cause:?} {n}: {:?} {}", found.verdict.kind, found.verdict.text));
        }
    }
    println!("{right} of {all} named, {disturbed} runs made again\n{}", wrong.join("\n"));
    assert!(right * 100 >= all * 95, "{right} of {all} named:\n{}", wrong.join("\n"));
}
