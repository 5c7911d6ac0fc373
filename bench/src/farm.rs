//! Group `farm`: boxes that compute for about a microsecond, as replicas beside one another or as stages
//! behind one another, on two workers; compared with the same arithmetic on two bare threads.

use crate::cores::on_cores;
use crate::measure::{Case, Contestant, Goal};
use crate::observed::Observed;
use crate::relay::Relay;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use thalweg_exec::{Context, Inputs, Mode, Out, Ports, Stop, StreamSpec, Task, TaskSpec};

const WORKERS: usize = 2;

pub(crate) fn cases() -> Vec<Case<'static>> {
    // At most 2 % of the time may be spent on anything but arithmetic.
    let goal = Goal::RatioAtMost(1.02);
    let case = |name: &str, param: &'static str, count: usize, ours: Contestant<'static>, calls: u64| Case {
        group: "farm",
        name: name.into(),
        params: vec![(param, count.to_string()), ("workers", WORKERS.to_string())],
        unit: "ns",
        ours,
        rivals: Vec::new(),
        limit: Some(Contestant::nanoseconds("two bare threads", "", calls, move |messages| {
            Ok(on_cores(WORKERS, || bare(messages * calls)))
        })),
        goal,
    };
    let mut cases = Vec::new();
    for replicas in [2, 4, 8] {
        let ours = Contestant::nanoseconds("thalweg, mode off", "", 1, move |messages| {
            on_cores(WORKERS, || farm(replicas, Work::of(messages))).map(|ran| ran.took)
        });
        cases.push(case("1 µs of arithmetic in one of many replicas", "replicas", replicas, ours, 1));
    }
    for stages in [2, 8] {
        let ours = Contestant::nanoseconds("thalweg, mode off", "", stages as u64, move |messages| {
            on_cores(WORKERS, || serial(stages, Work::of(messages))).map(|ran| ran.took)
        });
        cases.push(case("1 µs of arithmetic in each of many stages", "stages", stages, ours, stages as u64));
    }
    cases.extend([1, 2, 4, 8].into_iter().flat_map(scaling));
    cases
}

/// The number of messages of a run whose throughput and latency are measured.
const SCALED: u64 = 30_000;

/// Throughput and latency by the number of boxes, in parallel and in series, as in the figures of the P-land
/// paper.
fn scaling(count: usize) -> [Case<'static>; 4] {
    let case = |name: &str,
                param,
                unit,
                figure: fn(&Ran, usize) -> f64,
                run: fn(usize, Work) -> Result<Ran, String>| {
        let work = Work { messages: SCALED, stamped: true };
        Case {
            group: "farm",
            name: name.into(),
            params: vec![(param, count.to_string()), ("workers", WORKERS.to_string())],
            unit,
            ours: Contestant::new("thalweg, mode off", "", move || {
                on_cores(WORKERS, || run(count, work)).map(|ran| figure(&ran, count))
            }),
            rivals: Vec::new(),
            limit: None,
            goal: Goal::None,
        }
    };
    [
        case("throughput of each of many replicas of 1 µs", "replicas", "k/s", Ran::throughput_of_each, farm),
        case("latency through many replicas of 1 µs", "replicas", "µs", Ran::latency_us, farm),
        case("throughput of many stages of 1 µs", "stages", "k/s", Ran::throughput, serial),
        case("latency through many stages of 1 µs", "stages", "µs", Ran::latency_us, serial),
    ]
}

/// The work of a run.
#[derive(Clone, Copy)]
struct Work {
    messages: u64,
    /// Whether the content of each message is the time at which the message was made.
    stamped: bool,
}

impl Work {
    fn of(messages: u64) -> Work {
        Work { messages, stamped: false }
    }
}

/// The result of a run.
struct Ran {
    messages: u64,
    took: Duration,
    /// The sum of the messages' times from source to sink, if they were stamped.
    under_way: Duration,
}

impl Ran {
    /// Thousands of messages a second.
    fn throughput(&self, _: usize) -> f64 {
        self.messages as f64 / self.took.as_secs_f64() / 1e3
    }

    fn throughput_of_each(&self, replicas: usize) -> f64 {
        self.throughput(replicas) / replicas as f64
    }

    /// Mean time of a message from source to sink.
    fn latency_us(&self, _: usize) -> f64 {
        self.under_way.as_secs_f64() * 1e6 / self.messages as f64
    }
}

/// About a microsecond of arithmetic.
fn compute(message: u64) -> u64 {
    turned(message, turns(1000))
}

/// The number of turns of arithmetic that take this time.
pub(crate) fn turns(ns: u64) -> u64 {
    static IN_A_MICROSECOND: OnceLock<f64> = OnceLock::new();
    let of_one = IN_A_MICROSECOND.get_or_init(|| {
        const SAMPLE: u64 = 1 << 20;
        let sample = || {
            let begin = Instant::now();
            black_box(turned(1, SAMPLE));
            begin.elapsed().as_nanos()
        };
        // The least sample is used, because other load on the machine only increases the time.
        let least = (0..9).map(|_| sample()).min().expect("there are some");
        SAMPLE as f64 * 1000.0 / least as f64
    });
    (of_one * ns as f64 / 1000.0) as u64
}

/// Turns of xorshift, each of which depends on the one before.
pub(crate) fn turned(mut value: u64, turns: u64) -> u64 {
    value |= 1;
    for _ in 0..turns {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    black_box(value)
}

fn bare(calls: u64) -> Duration {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let some = |calls| {
            (0..calls).for_each(|message| {
                black_box(compute(message));
            })
        };
        scope.spawn(move || some(calls / 2));
        some(calls - calls / 2);
    });
    begin.elapsed()
}

/// Runs a source that distributes messages in turn, replicas, and a sink that counts.
fn farm(replicas: usize, work: Work) -> Result<Ran, String> {
    let observed = Observed::new(WORKERS, Mode::Off)?;
    let runtime = &observed.runtime;
    let mut outputs = Vec::new();
    let mut inputs = Inputs::new();
    let mut stages = Vec::new();
    for _ in 0..replicas {
        let (to, input) = runtime.stream(StreamSpec::default());
        let (output, from) = runtime.stream(StreamSpec::default());
        outputs.push(to);
        inputs.add(from);
        stages.push(Relay::new(input, output, computed));
    }
    // The weights inform the mapper that distributing and counting are little work compared with computing.
    let light = TaskSpec::default();
    let heavy = TaskSpec { one_to_one: true, weight: 100, ..light };
    let epoch = Instant::now();
    runtime.spawn(light, Deal { outputs, next: 0, work, epoch });
    for stage in stages {
        runtime.spawn(heavy, stage);
    }
    finish(observed, inputs, work, epoch)
}

fn serial(stages: usize, work: Work) -> Result<Ran, String> {
    let observed = Observed::new(WORKERS, Mode::Off)?;
    let runtime = &observed.runtime;
    let (first, mut input) = runtime.stream(StreamSpec::default());
    let light = TaskSpec::default();
    let epoch = Instant::now();
    runtime.spawn(light, Deal { outputs: vec![first], next: 0, work, epoch });
    for _ in 0..stages {
        let (output, next) = runtime.stream(StreamSpec::default());
        let input = std::mem::replace(&mut input, next);
        runtime
            .spawn(TaskSpec { one_to_one: true, weight: 100, ..light }, Relay::new(input, output, computed));
    }
    let mut inputs = Inputs::new();
    inputs.add(input);
    finish(observed, inputs, work, epoch)
}

fn finish(observed: Observed, inputs: Inputs<u64>, work: Work, epoch: Instant) -> Result<Ran, String> {
    let (told, hear) = std::sync::mpsc::channel();
    observed.runtime.spawn(TaskSpec::default(), Count { inputs, count: 0, ns: 0, work, epoch, told });
    let begin = Instant::now();
    observed.runtime.start();
    let told = hear.recv();
    observed.join()?;
    let (count, ns, end) = told.map_err(|_| "the sink ended without a count")?;
    assert_eq!(count, work.messages, "messages were lost");
    Ok(Ran { messages: count, took: end - begin, under_way: Duration::from_nanos(ns) })
}

fn nanoseconds_since(epoch: Instant) -> u64 {
    epoch.elapsed().as_nanos() as u64
}

/// Distributes messages in turn.
struct Deal {
    outputs: Vec<Out<u64>>,
    next: u64,
    work: Work,
    epoch: Instant,
}

impl Task for Deal {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.outputs.iter_mut().for_each(|output| ports.output(output));
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.next == self.work.messages {
                return Stop::Ended;
            }
            let to = self.next as usize % self.outputs.len();
            let message = if self.work.stamped { nanoseconds_since(self.epoch) } else { self.next };
            if self.outputs[to].push(cx, message).is_err() {
                return Stop::OutputFull;
            }
            self.next += 1;
        }
        Stop::QuantumSpent
    }
}

fn computed(message: u64) -> u64 {
    compute(message);
    message
}

struct Count {
    inputs: Inputs<u64>,
    count: u64,
    ns: u64,
    work: Work,
    epoch: Instant,
    told: Sender<(u64, u64, Instant)>,
}

impl Task for Count {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.inputs(&mut self.inputs);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        while let Some(index) = self.inputs.next_index(cx) {
            let input = self.inputs.get_mut(index).expect("it is offered");
            while let Some(message) = input.pop(cx) {
                self.count += 1;
                if self.work.stamped {
                    self.ns += nanoseconds_since(self.epoch) - message;
                }
            }
            if input.ended() {
                self.inputs.remove(cx, index);
            }
        }
        if !self.inputs.is_empty() {
            return Stop::InputEmpty;
        }
        self.told.send((self.count, self.ns, Instant::now())).expect("someone hears");
        Stop::Ended
    }
}
