//! Group `latency`: one message in flight, repeatedly through a ring of 16 tasks. Every stage makes one
//! dynamic call. The cases of `admission` belong to this group as well.

use crate::cores::on_cores;
use crate::foreign;
use crate::hop::{Stage, stage};
use crate::measure::{Case, Contestant, Goal};
use crate::observed::Observed;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use thalweg_exec::{Context, In, Mode, Options, Out, Ports, Stop, StreamSpec, Task, TaskSpec};

/// The number of hops of a round.
const HOPS: usize = 16;
const CAPACITY: usize = 64;

/// The placement of tasks on one or two workers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placement {
    One,
    Contiguous,
    Alternating,
}

impl Placement {
    fn workers(self) -> usize {
        if self == Placement::One { 1 } else { 2 }
    }

    fn worker(self, stage: usize) -> usize {
        match self {
            Placement::One => 0,
            Placement::Contiguous => 2 * stage / HOPS,
            Placement::Alternating => stage % 2,
        }
    }
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = rounds();
    cases.push(kept());
    cases.extend(crate::admission::cases());
    cases
}

fn rounds() -> Vec<Case<'static>> {
    [
        (Placement::One, "one worker", 12.5),
        (Placement::Contiguous, "two workers, contiguous", 45.0),
        (Placement::Alternating, "two workers, alternating", 140.0),
    ]
    .map(|(placement, name, most)| Case {
        group: "latency",
        name: "a hop of the only message in flight".into(),
        params: vec![("hops", HOPS.to_string()), ("placement", name.into())],
        unit: "ns",
        ours: round("thalweg, mode off", "", placement, tasks),
        rivals: rivals(placement),
        limit: Some(round("rtrb, fixed schedule", env!("VERSION_rtrb"), placement, rings)),
        goal: Goal::AtMost(most),
    })
    .into()
}

/// A ring with every event archived, on the worker's core.
fn kept() -> Case<'static> {
    Case {
        group: "latency",
        name: "a hop of the only message in flight, every event kept, against mode off".into(),
        params: vec![("hops", HOPS.to_string()), ("placement", "one worker".into())],
        unit: "ns",
        ours: round("thalweg, mode full, kept", "", Placement::One, |placement, rounds| {
            let options = options(placement);
            tasks_of(Observed::kept(options)?, placement, rounds)
        }),
        rivals: Vec::new(),
        limit: Some(round("thalweg, mode off", "", Placement::One, tasks)),
        goal: Goal::RatioAtMost(2.5),
    }
}

fn rivals(placement: Placement) -> Vec<Contestant<'static>> {
    // Rivals place their tasks themselves, so they cannot be compared in this case.
    if placement == Placement::Alternating {
        return Vec::new();
    }
    let mut rivals = vec![
        round("tokio mpsc, recv", env!("VERSION_tokio"), placement, tokio),
        round("kanal, a thread a stage", env!("VERSION_kanal"), placement, kanal),
        round("crossbeam-channel, a thread a stage", env!("VERSION_crossbeam-channel"), placement, crossbeam),
    ];
    rivals.extend(foreign::rings(placement.workers(), HOPS));
    rivals
}

/// A ring of stages through which `run(placement, rounds)` sends a message repeatedly.
fn round(
    name: &'static str,
    version: &'static str,
    placement: Placement,
    run: fn(Placement, u64) -> Result<Duration, String>,
) -> Contestant<'static> {
    Contestant::nanoseconds(name, version, HOPS as u64, move |rounds| {
        on_cores(placement.workers(), || run(placement, rounds))
    })
}

/// Checks the value that a message has after `rounds` rounds if it began with 0.
fn check(message: u64, rounds: u64) {
    assert_eq!(message, rounds * HOPS as u64, "the message lost its way");
}

fn options(placement: Placement) -> Options {
    Options { workers: placement.workers(), mode: Mode::Off, steal: false, ..Options::default() }
}

fn tasks(placement: Placement, rounds: u64) -> Result<Duration, String> {
    tasks_of(Observed::with(options(placement))?, placement, rounds)
}

fn tasks_of(observed: Observed, placement: Placement, rounds: u64) -> Result<Duration, String> {
    let runtime = &observed.runtime;
    let (first, mut input) = runtime.stream(StreamSpec::default());
    let spec = |at| TaskSpec {
        one_to_one: true,
        place: thalweg_exec::Placement::on_worker(placement.worker(at)),
        ..TaskSpec::default()
    };
    for at in 1..HOPS {
        let (output, next) = runtime.stream(StreamSpec::default());
        let input = std::mem::replace(&mut input, next);
        runtime.spawn(spec(at), Turn { input, stage: stage(), output });
    }
    let (told, hear) = std::sync::mpsc::channel();
    let turn = Turn { input, stage: stage(), output: first };
    runtime.spawn(spec(0), Driver { turn, sent: false, left: rounds, told });
    let begin = Instant::now();
    runtime.start();
    let told = hear.recv();
    observed.join()?;
    let (message, end) = told.map_err(|_| "the round ended without a message")?;
    check(message, rounds);
    Ok(end - begin)
}

/// A stage of the ring.
struct Turn {
    input: In<u64>,
    stage: Arc<Stage>,
    output: Out<u64>,
}

impl Task for Turn {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            match self.input.pop(cx) {
                Some(message) => {
                    self.output.push(cx, (self.stage)(message)).expect("one message is in flight");
                }
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// The stage that sends the message and ends the ring after `left` rounds.
struct Driver {
    turn: Turn,
    sent: bool,
    left: u64,
    told: Sender<(u64, Instant)>,
}

impl Task for Driver {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.turn.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !std::mem::replace(&mut self.sent, true) {
            self.turn.output.push(cx, 0).expect("an empty stream has room");
        }
        let Some(message) = self.turn.input.pop(cx) else { return Stop::InputEmpty };
        let message = (self.turn.stage)(message);
        self.left -= 1;
        if self.left == 0 {
            self.told.send((message, Instant::now())).expect("someone hears");
            return Stop::Ended;
        }
        self.turn.output.push(cx, message).expect("one message is in flight");
        Stop::QuantumSpent
    }
}

/// The limit: bare rings in a fixed order, halves or every other one on a second thread that spins.
fn rings(placement: Placement, rounds: u64) -> Result<Duration, String> {
    let (first, mut from) = rtrb::RingBuffer::new(CAPACITY);
    let mut parts = vec![Vec::new(), Vec::new()];
    for at in 1..HOPS {
        let (out, next) = rtrb::RingBuffer::new(CAPACITY);
        parts[placement.worker(at)].push((std::mem::replace(&mut from, next), stage(), out));
    }
    let (mut out, stage) = (first, stage());
    let (mut own, mut others) = (parts.remove(0), parts.remove(0));
    out.push(0).expect("an empty ring has room");
    let ended = std::sync::atomic::AtomicBool::new(false);
    let begin = Instant::now();
    let message = std::thread::scope(|scope| {
        if placement != Placement::One {
            scope.spawn(|| {
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    others.iter_mut().for_each(step);
                }
            });
        }
        let mut left = rounds;
        loop {
            own.iter_mut().for_each(step);
            if let Ok(message) = from.pop() {
                left -= 1;
                let message = stage(message);
                if left == 0 {
                    ended.store(true, std::sync::atomic::Ordering::Relaxed);
                    return message;
                }
                out.push(message).expect("one message is in flight");
            }
        }
    });
    check(message, rounds);
    Ok(begin.elapsed())
}

fn step((from, stage, out): &mut (rtrb::Consumer<u64>, Arc<Stage>, rtrb::Producer<u64>)) {
    if let Ok(message) = from.pop() {
        out.push(stage(message)).expect("one message is in flight");
    }
}

fn tokio(placement: Placement, rounds: u64) -> Result<Duration, String> {
    let runtime = match placement.workers() {
        1 => tokio::runtime::Builder::new_current_thread().build(),
        workers => tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build(),
    };
    runtime.map_err(|error| error.to_string())?.block_on(async move {
        let (first, mut from) = tokio::sync::mpsc::channel(CAPACITY);
        for _ in 1..HOPS {
            let (out, next) = tokio::sync::mpsc::channel(CAPACITY);
            let (mut from, stage) = (std::mem::replace(&mut from, next), stage());
            tokio::spawn(async move {
                while let Some(message) = from.recv().await {
                    if out.send(stage(message)).await.is_err() {
                        return;
                    }
                }
            });
        }
        let stage = stage();
        let begin = Instant::now();
        let driver = tokio::spawn(async move {
            let mut message = 0;
            for _ in 0..rounds {
                first.send(message).await.expect("the ring is whole");
                message = stage(from.recv().await.expect("the ring is whole"));
            }
            message
        });
        check(driver.await.expect("no panic"), rounds);
        Ok(begin.elapsed())
    })
}

fn kanal(_: Placement, rounds: u64) -> Result<Duration, String> {
    let (first, mut from) = kanal::bounded(CAPACITY);
    std::thread::scope(|scope| {
        for _ in 1..HOPS {
            let (out, next) = kanal::bounded(CAPACITY);
            let (from, stage) = (std::mem::replace(&mut from, next), stage());
            scope.spawn(move || {
                while let Ok(message) = from.recv() {
                    if out.send(stage(message)).is_err() {
                        return;
                    }
                }
            });
        }
        let stage = stage();
        let begin = Instant::now();
        let mut message = 0;
        for _ in 0..rounds {
            first.send(message).expect("the ring is whole");
            message = stage(from.recv().expect("the ring is whole"));
        }
        drop(first);
        check(message, rounds);
        Ok(begin.elapsed())
    })
}

fn crossbeam(_: Placement, rounds: u64) -> Result<Duration, String> {
    let (first, mut from) = crossbeam_channel::bounded(CAPACITY);
    std::thread::scope(|scope| {
        for _ in 1..HOPS {
            let (out, next) = crossbeam_channel::bounded(CAPACITY);
            let (from, stage) = (std::mem::replace(&mut from, next), stage());
            scope.spawn(move || from.iter().try_for_each(|message| out.send(stage(message))));
        }
        let stage = stage();
        let begin = Instant::now();
        let mut message = 0;
        for _ in 0..rounds {
            first.send(message).expect("the ring is whole");
            message = stage(from.recv().expect("the ring is whole"));
        }
        drop(first);
        check(message, rounds);
        Ok(begin.elapsed())
    })
}
