//! Group `hop`: one transfer of a pointer-sized message through one stream, in a chain of 1, 4, 16, 64
//! streams. Every inner stage makes one dynamic call per message.

use crate::cores::on_cores;
use crate::foreign;
use crate::measure::{Case, Contestant, Goal};
use crate::observed::{self, Observed};
use crate::relay::Relay;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use thalweg_exec::{
    Context, In, Mode, Options, Out, Placement, Ports, Runtime, Stop, StreamSpec, Task, TaskId, TaskSpec,
};

/// The numbers of streams in a chain.
const CHAINS: [usize; 4] = [1, 4, 16, 64];
/// The capacity of a stream or channel, and the number of messages that a stage reads at a time.
const CAPACITY: usize = 64;

/// The function of a stage.
pub(crate) type Stage = dyn Fn(u64) -> u64 + Send + Sync;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for workers in [1, 2] {
        cases.extend(CHAINS.map(|hops| without_monitoring(workers, hops)));
    }
    for workers in [1, 2] {
        for mode in [Mode::Metrics, Mode::Full] {
            cases.push(with_monitoring(workers, 16, mode));
        }
        cases.push(kept(workers, 16));
    }
    cases.push(moving());
    cases
}

/// Tasks that change workers while messages go through them.
fn moving() -> Case<'static> {
    let mut params = params(2, 16, Mode::Off);
    params.push(("moves", "16 every millisecond".into()));
    let run = |messages| on_cores(2, || tasks_moving(16, messages));
    Case {
        group: "hop",
        name: "a pointer through a chain whose tasks move, against one that stays".into(),
        params,
        unit: "ns",
        ours: Contestant::nanoseconds("thalweg, moving", "", 16, run),
        rivals: Vec::new(),
        limit: Some(ours(2, 16, Mode::Off)),
        goal: Goal::RatioAtMost(1.15),
    }
}

fn without_monitoring(workers: usize, hops: usize) -> Case<'static> {
    Case {
        group: "hop",
        name: "a pointer through a chain".into(),
        params: params(workers, hops, Mode::Off),
        unit: "ns",
        ours: ours(workers, hops, Mode::Off),
        rivals: rivals(workers, hops),
        limit: Some(chain("rtrb, fixed schedule", env!("VERSION_rtrb"), workers, hops, rings)),
        // The speed of a single stream between two cores is limited by the cache line that moves between
        // them.
        goal: if workers == 1 || hops >= 16 { Goal::AtMost(2.0) } else { Goal::None },
    }
}

fn with_monitoring(workers: usize, hops: usize, mode: Mode) -> Case<'static> {
    Case {
        group: "hop",
        name: "a pointer through a chain, against mode off".into(),
        params: params(workers, hops, mode),
        unit: "ns",
        ours: ours(workers, hops, mode),
        rivals: Vec::new(),
        limit: Some(ours(workers, hops, Mode::Off)),
        goal: Goal::None,
    }
}

/// A chain with every event archived, on the cores of the workers.
fn kept(workers: usize, hops: usize) -> Case<'static> {
    let run = move |messages| on_cores(workers, || tasks_kept(workers, hops, messages));
    let mut params = params(workers, hops, Mode::Full);
    params.push(("events", "kept".into()));
    Case {
        group: "hop",
        name: "a pointer through a chain, against mode off".into(),
        params,
        unit: "ns",
        ours: Contestant::nanoseconds("thalweg, mode full, kept", "", hops as u64, run),
        rivals: Vec::new(),
        limit: Some(ours(workers, hops, Mode::Off)),
        goal: Goal::RatioAtMost(1.2),
    }
}

fn tasks_kept(workers: usize, hops: usize, messages: u64) -> Result<Duration, String> {
    let observed = Observed::kept(Options { workers, ..Options::default() })?;
    let hear = spawn_chain(&observed.runtime, hops, messages);
    finish(observed, &hear, hops, messages)
}

fn params(workers: usize, hops: usize, mode: Mode) -> Vec<(&'static str, String)> {
    vec![("hops", hops.to_string()), ("workers", workers.to_string()), ("mode", observed::name(mode).into())]
}

/// A chain of Thalweg's streams and tasks, with which other programs are compared.
pub(crate) fn ours(workers: usize, hops: usize, mode: Mode) -> Contestant<'static> {
    Contestant::nanoseconds(
        format!("thalweg, mode {}", observed::name(mode)),
        "",
        hops as u64,
        move |messages| on_cores(workers, || tasks(workers, hops, mode, messages)),
    )
}

fn rivals(workers: usize, hops: usize) -> Vec<Contestant<'static>> {
    let mut rivals = vec![
        chain("timely, 1024 a round", env!("VERSION_timely"), workers, hops, timely),
        chain("tokio mpsc, recv_many", env!("VERSION_tokio"), workers, hops, tokio_many),
        chain("tokio mpsc, recv", env!("VERSION_tokio"), workers, hops, tokio_one),
        chain("kanal, a thread a stage", env!("VERSION_kanal"), workers, hops, kanal),
        chain(
            "crossbeam-channel, a thread a stage",
            env!("VERSION_crossbeam-channel"),
            workers,
            hops,
            crossbeam,
        ),
    ];
    if workers == 1 {
        rivals.insert(0, chain("dynamic calls, fused", "", workers, hops, calls));
    }
    rivals.extend(foreign::chains(workers, hops));
    rivals
}

/// A chain of `hops` on `workers` cores, through which `run(workers, hops, messages)` sends messages.
fn chain(
    name: &'static str,
    version: &'static str,
    workers: usize,
    hops: usize,
    run: fn(usize, usize, u64) -> Duration,
) -> Contestant<'static> {
    Contestant::nanoseconds(name, version, hops as u64, move |messages| {
        Ok(on_cores(workers, || run(workers, hops, messages)))
    })
}

pub(crate) fn stage() -> Arc<Stage> {
    black_box(Arc::new(|message| message + 1))
}

/// Checks the sum of `messages` messages after `hops` stages, so that no message or stage can be left out.
fn check(sum: u64, hops: usize, messages: u64) {
    let stages = hops as u64 - 1;
    assert_eq!(sum, messages * (messages - 1) / 2 + messages * stages, "a chain of {hops} lost messages");
}

/// The tasks of a network, created directly on Thalweg's runtime.
fn tasks(workers: usize, hops: usize, mode: Mode, messages: u64) -> Result<Duration, String> {
    let observed = Observed::new(workers, mode)?;
    let hear = spawn_chain(&observed.runtime, hops, messages);
    finish(observed, &hear, hops, messages)
}

/// The time of a chain of tasks on two workers; every millisecond both halves of the chain change workers.
fn tasks_moving(hops: usize, messages: u64) -> Result<Duration, String> {
    let observed = Observed::new(2, Mode::Off)?;
    let mover = observed.runtime.mover();
    let hear = spawn_chain(&observed.runtime, hops, messages);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            for turn in 1.. {
                std::thread::sleep(Duration::from_millis(1));
                if ended.load(Ordering::Relaxed) {
                    return Ok(());
                }
                for at in 0..hops {
                    let worker = (2 * at / hops + turn) % 2;
                    drop(
                        mover
                            .move_task(TaskId(at as u64 + 1), Placement::on_worker(worker))
                            .map_err(|error| error.to_string())?,
                    );
                }
            }
            Ok::<(), String>(())
        });
        let took = finish(observed, &hear, hops, messages);
        ended.store(true, Ordering::Relaxed);
        moving.join().expect("no panic")?;
        took
    })
}

/// Creates the tasks 1 to `hops` + 1 of a chain; the last one sends its sum and the time of its end.
fn spawn_chain(runtime: &Runtime, hops: usize, messages: u64) -> Receiver<(u64, Instant)> {
    let (output, mut input) = runtime.stream(StreamSpec::default());
    let spec = TaskSpec { one_to_one: true, ..TaskSpec::default() };
    runtime.spawn(spec, Source { next: 0, end: messages, output });
    for _ in 1..hops {
        let (output, next) = runtime.stream(StreamSpec::default());
        let input = std::mem::replace(&mut input, next);
        runtime.spawn(spec, Relay::new(input, output, forward(stage())));
    }
    let (told, hear) = std::sync::mpsc::channel();
    runtime.spawn(spec, Sink { input, sum: 0, told });
    hear
}

/// Runs a chain to its end.
fn finish(
    observed: Observed,
    hear: &Receiver<(u64, Instant)>,
    hops: usize,
    messages: u64,
) -> Result<Duration, String> {
    let begin = Instant::now();
    observed.runtime.start();
    let told = hear.recv();
    observed.join()?;
    let (sum, end) = told.map_err(|_| "the sink ended without a sum")?;
    check(sum, hops, messages);
    Ok(end - begin)
}

struct Source {
    next: u64,
    end: u64,
    output: Out<u64>,
}

impl Task for Source {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.next == self.end {
                return Stop::Ended;
            }
            if self.output.push(cx, self.next).is_err() {
                return Stop::OutputFull;
            }
            self.next += 1;
        }
        Stop::QuantumSpent
    }
}

fn forward(stage: Arc<Stage>) -> impl FnMut(u64) -> u64 {
    move |message| stage(message)
}

struct Sink {
    input: In<u64>,
    sum: u64,
    told: std::sync::mpsc::Sender<(u64, Instant)>,
}

impl Task for Sink {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            match self.input.pop(cx) {
                Some(message) => self.sum += message,
                None if self.input.ended() => {
                    self.told.send((self.sum, Instant::now())).expect("someone hears");
                    return Stop::Ended;
                }
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// The limit without any streams: each message passes all stages in one loop.
fn calls(_: usize, hops: usize, messages: u64) -> Duration {
    let stages: Vec<Arc<Stage>> = (1..hops).map(|_| stage()).collect();
    let last = stage();
    let begin = Instant::now();
    let mut sum = 0;
    for message in 0..messages {
        let through = stages.iter().fold(message, |message, stage| stage(message));
        sum += last(through) - 1;
    }
    let took = begin.elapsed();
    check(sum, hops, messages);
    took
}

/// One stage of the chain of rings.
enum Part {
    Source { next: u64, end: u64, out: rtrb::Producer<u64> },
    Stage { from: rtrb::Consumer<u64>, stage: Arc<Stage>, out: rtrb::Producer<u64> },
    Sink { from: rtrb::Consumer<u64>, count: u64, sum: u64 },
}

impl Part {
    /// Moves as many messages as possible in one step.
    fn step(&mut self) {
        match self {
            Part::Source { next, end, out } => {
                while *next < *end && out.push(*next).is_ok() {
                    *next += 1;
                }
            }
            Part::Stage { from, stage, out } => {
                for _ in 0..out.slots() {
                    let Ok(message) = from.pop() else { break };
                    out.push(stage(message)).expect("there are slots");
                }
            }
            Part::Sink { from, count, sum } => {
                while let Ok(message) = from.pop() {
                    *count += 1;
                    *sum += message;
                }
            }
        }
    }

    fn ended(&self) -> bool {
        match self {
            Part::Source { next, end, .. } => next == end,
            Part::Stage { from, .. } => from.is_abandoned() && from.is_empty(),
            Part::Sink { from, .. } => from.is_abandoned() && from.is_empty(),
        }
    }
}

/// The limit of streams: bare rings, stages visited in turn, contiguous halves on two threads that spin.
fn rings(workers: usize, hops: usize, messages: u64) -> Duration {
    let (out, mut from) = rtrb::RingBuffer::new(CAPACITY);
    let mut parts = vec![Part::Source { next: 0, end: messages, out }];
    for _ in 1..hops {
        let (out, next) = rtrb::RingBuffer::new(CAPACITY);
        parts.push(Part::Stage { from: std::mem::replace(&mut from, next), stage: stage(), out });
    }
    parts.push(Part::Sink { from, count: 0, sum: 0 });
    let begin = Instant::now();
    let sum = match workers {
        1 => turns(parts),
        _ => std::thread::scope(|scope| {
            let second = parts.split_off(parts.len() / 2);
            let second = scope.spawn(move || turns(second));
            turns(parts);
            second.join().expect("no panic")
        }),
    };
    let took = begin.elapsed();
    check(sum, hops, messages);
    took
}

/// Steps all parts until they end; returns the sum of the sink, if it is one of the parts.
fn turns(mut parts: Vec<Part>) -> u64 {
    let mut sum = 0;
    while !parts.is_empty() {
        for part in &mut parts {
            part.step();
        }
        // Parts end in order from the first on; dropping a part abandons the ring to the next part.
        while parts.first().is_some_and(Part::ended) {
            if let Part::Sink { sum: all, .. } = parts.remove(0) {
                sum = all;
            }
        }
    }
    sum
}

fn crossbeam(_: usize, hops: usize, messages: u64) -> Duration {
    let (first, mut from) = crossbeam_channel::bounded(CAPACITY);
    std::thread::scope(|scope| {
        for _ in 1..hops {
            let (out, next) = crossbeam_channel::bounded(CAPACITY);
            let (from, stage) = (std::mem::replace(&mut from, next), stage());
            scope.spawn(move || {
                from.iter().for_each(|message| out.send(stage(message)).expect("read to the end"))
            });
        }
        let sink = scope.spawn(move || from.iter().sum());
        let begin = Instant::now();
        (0..messages).for_each(|message| first.send(message).expect("read to the end"));
        drop(first);
        check(sink.join().expect("no panic"), hops, messages);
        begin.elapsed()
    })
}

fn kanal(_: usize, hops: usize, messages: u64) -> Duration {
    let (first, mut from) = kanal::bounded(CAPACITY);
    std::thread::scope(|scope| {
        for _ in 1..hops {
            let (out, next) = kanal::bounded(CAPACITY);
            let (from, stage) = (std::mem::replace(&mut from, next), stage());
            scope.spawn(move || {
                while let Ok(message) = from.recv() {
                    out.send(stage(message)).expect("read to the end");
                }
            });
        }
        let sink = scope.spawn(move || {
            let mut sum = 0;
            while let Ok(message) = from.recv() {
                sum += message;
            }
            sum
        });
        let begin = Instant::now();
        (0..messages).for_each(|message| first.send(message).expect("read to the end"));
        drop(first);
        check(sink.join().expect("no panic"), hops, messages);
        begin.elapsed()
    })
}

fn tokio_one(workers: usize, hops: usize, messages: u64) -> Duration {
    tokio_chain(workers, hops, messages, false)
}

fn tokio_many(workers: usize, hops: usize, messages: u64) -> Duration {
    tokio_chain(workers, hops, messages, true)
}

fn tokio_chain(workers: usize, hops: usize, messages: u64, many: bool) -> Duration {
    let runtime = match workers {
        1 => tokio::runtime::Builder::new_current_thread().build(),
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build(),
    };
    // On several workers the source must be a task too: `block_on` runs on the caller's thread.
    runtime.expect("a runtime").block_on(async move {
        let (first, mut from) = tokio::sync::mpsc::channel(CAPACITY);
        for _ in 1..hops {
            let (out, next) = tokio::sync::mpsc::channel(CAPACITY);
            let mut from = std::mem::replace(&mut from, next);
            let stage = stage();
            tokio::spawn(async move {
                let mut taken = Vec::with_capacity(CAPACITY);
                while receive(&mut from, &mut taken, many).await {
                    for message in taken.drain(..) {
                        out.send(stage(message)).await.expect("read to the end");
                    }
                }
            });
        }
        let begin = Instant::now();
        let sink = tokio::spawn(async move {
            let mut sum = 0;
            let mut taken = Vec::with_capacity(CAPACITY);
            while receive(&mut from, &mut taken, many).await {
                sum += taken.drain(..).sum::<u64>();
            }
            sum
        });
        tokio::spawn(async move {
            for message in 0..messages {
                first.send(message).await.expect("read to the end");
            }
        });
        check(sink.await.expect("no panic"), hops, messages);
        begin.elapsed()
    })
}

async fn receive(from: &mut tokio::sync::mpsc::Receiver<u64>, taken: &mut Vec<u64>, many: bool) -> bool {
    if many {
        return from.recv_many(taken, CAPACITY).await > 0;
    }
    match from.recv().await {
        Some(message) => {
            taken.push(message);
            true
        }
        None => false,
    }
}

/// A dataflow of `hops` operators; each of two workers processes half of the messages, because timely is
/// data-parallel.
fn timely(workers: usize, hops: usize, messages: u64) -> Duration {
    use timely::dataflow::operators::vec::{Input, Map};
    use timely::dataflow::operators::{Inspect, Probe};
    const ROUND: u64 = 1024;
    let config = if workers == 1 { timely::Config::thread() } else { timely::Config::process(workers) };
    let sum = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let total = sum.clone();
    let begin = Instant::now();
    let guards = timely::execute(config, move |worker| {
        let (index, peers) = (worker.index() as u64, worker.peers() as u64);
        let total = total.clone();
        let (mut input, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (input, mut stream) = scope.new_input::<u64>();
            for _ in 1..hops {
                let stage = stage();
                stream = stream.map(move |message| stage(message));
            }
            let mut local = Totals { sum: 0, total };
            let (probe, _) = stream.inspect(move |message| local.add(*message)).probe();
            (input, probe)
        });
        let (from, to) = (messages * index / peers, messages * (index + 1) / peers);
        for message in from..to {
            input.send(message);
            if (message - from + 1).is_multiple_of(ROUND) {
                input.advance_to(message - from + 1);
                while probe.less_than(input.time()) {
                    worker.step();
                }
            }
        }
    });
    drop(guards.expect("timely starts").join());
    let took = begin.elapsed();
    check(sum.load(std::sync::atomic::Ordering::Relaxed), hops, messages);
    took
}

/// Adds up values in its worker, and adds the sum to the total when the dataflow is dropped.
struct Totals {
    sum: u64,
    total: Arc<std::sync::atomic::AtomicU64>,
}

impl Totals {
    fn add(&mut self, message: u64) {
        self.sum += message;
    }
}

impl Drop for Totals {
    fn drop(&mut self) {
        self.total.fetch_add(self.sum, std::sync::atomic::Ordering::Relaxed);
    }
}
