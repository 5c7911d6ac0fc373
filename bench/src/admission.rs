//! Cases of group `latency`: inputs that arrive faster than they are processed, with and without a limit on
//! the inputs in flight, and with ready tasks in two orders.

use crate::cores::on_cores;
use crate::measure::{Case, Contestant, Goal};
use crate::observed::Observed;
use crate::relay::Relay;
use std::hint::black_box;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use thalweg_exec::{Context, In, Mode, Options, Order, Out, Ports, Stop, StreamSpec, Task, TaskSpec};

const WORKERS: usize = 2;
const STAGES: usize = 16;
/// The number of inputs of a run.
const INPUTS: u64 = 20_000;

/// The plan of a run.
#[derive(Clone, Copy)]
struct Plan {
    /// The maximal number of inputs in flight; 0 for no limit.
    unfinished: u64,
    order: Order,
    /// The number of messages that the first stage makes of each input.
    each: u64,
}

/// The times of a run.
struct Ran {
    /// The mean time from the reading of an input until the last stage has processed all its messages.
    latency: Duration,
    /// The time of the run divided by the number of inputs.
    wall: Duration,
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    let free = |each| Plan { unfinished: 0, order: Order::Fifo, each };
    let mut cases = Vec::new();
    for each in [1, 10] {
        for unfinished in [16, 64, 256] {
            cases.extend(compared(Plan { unfinished, ..free(each) }, free(each)));
        }
        cases.extend(compared(Plan { order: Order::Demand, ..free(each) }, free(each)));
    }
    cases
}

/// Cases that compare the latency and time of one plan with those of the other.
fn compared(plan: Plan, other: Plan) -> [Case<'static>; 2] {
    let case = |name: &str, unit, figure: fn(&Ran) -> f64| Case {
        group: "latency",
        name: name.into(),
        params: vec![
            ("unfinished", plan.unfinished.to_string()),
            ("order", Order::NAMES[plan.order as usize].to_owned()),
            ("messages of each", plan.each.to_string()),
            ("stages", STAGES.to_string()),
            ("workers", WORKERS.to_string()),
        ],
        unit,
        ours: measured(plan, figure),
        rivals: Vec::new(),
        limit: Some(measured(other, figure)),
        goal: Goal::None,
    };
    [
        case("an input from a source that is always ahead, until it is done", "us", |ran| {
            ran.latency.as_secs_f64() * 1e6
        }),
        case("time for each of these inputs", "ns", |ran| ran.wall.as_secs_f64() * 1e9),
    ]
}

fn measured(plan: Plan, figure: fn(&Ran) -> f64) -> Contestant<'static> {
    let limit = match plan.unfinished {
        0 => "no limit".to_owned(),
        limit => format!("--unfinished {limit}"),
    };
    let order = Order::NAMES[plan.order as usize];
    let name = format!("thalweg, {limit}, {order}");
    Contestant::new(name, "", move || on_cores(WORKERS, || run(plan)).map(|ran| figure(&ran)))
}

fn run(plan: Plan) -> Result<Ran, String> {
    let Plan { unfinished, order, each } = plan;
    let observed = Observed::with(Options {
        workers: WORKERS,
        mode: Mode::Off,
        unfinished,
        order,
        ..Options::default()
    })?;
    let runtime = &observed.runtime;
    let (mut first, mut input) = runtime.stream(StreamSpec::default());
    for stage in 0..STAGES {
        let (output, next) = runtime.stream(StreamSpec::default());
        let input = std::mem::replace(&mut input, next);
        let spec = TaskSpec::default();
        if stage == 0 {
            runtime.spawn(spec, Multiplier { input, output, times: each, begun: None });
        } else {
            runtime.spawn(spec, Relay::new(input, output, worked));
        }
    }
    let (told, hear) = std::sync::mpsc::channel();
    runtime.spawn(TaskSpec::default(), Sink { input, sum: Duration::ZERO, told });
    let begin = Instant::now();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        for _ in 0..INPUTS {
            task.admit();
            if task.feed(&mut first, Instant::now()).is_err() {
                return;
            }
        }
    });
    runtime.start();
    let told = hear.recv();
    observed.join()?;
    let (sum, end) = told.map_err(|_| "the sink ended without a sum")?;
    Ok(Ran { latency: sum / (INPUTS * each) as u32, wall: (end - begin) / INPUTS as u32 })
}

/// Some hundred nanoseconds of arithmetic.
fn work() {
    black_box(
        (0..black_box(100_u64)).fold(1, |product: u64, factor| product.wrapping_mul(factor | 1) ^ factor),
    );
}

fn worked(message: Instant) -> Instant {
    work();
    message
}

/// Passes on each message several times.
struct Multiplier {
    input: In<Instant>,
    output: Out<Instant>,
    times: u64,
    /// The present message, and how often it has still to be passed on.
    begun: Option<(Instant, u64)>,
}

impl Task for Multiplier {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.output.room(cx) == 0 {
                return Stop::OutputFull;
            }
            let begun = self.begun.take().or_else(|| Some((self.input.pop(cx)?, self.times)));
            let Some((message, left)) = begun else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            work();
            self.output.push(cx, message).expect("there was room");
            self.begun = (left > 1).then_some((message, left - 1));
        }
        Stop::QuantumSpent
    }
}

/// Adds up the ages of messages.
struct Sink {
    input: In<Instant>,
    sum: Duration,
    told: Sender<(Duration, Instant)>,
}

impl Task for Sink {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            match self.input.pop(cx) {
                Some(sent) => self.sum += sent.elapsed(),
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
