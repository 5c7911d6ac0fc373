//! Planted networks as real runs: their tasks, the space that they record themselves in, and a look at them
//! while they run.
#![allow(dead_code, reason = "each test binary uses its part")]

#[path = "../../../monitor/tests/planted_nets/mod.rs"]
pub(crate) mod planted_nets;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use planted_nets::Net;
use thalweg_exec::{
    Blocking, Context, HandedOn, In, Mode, Options, Out, PassesTo, Placement, Ports, Progress, Runtime, Stop,
    StreamSpec, Task, TaskSpec,
};
use thalweg_space::{ElementOptions, Policy, Site, SiteRef, Space, SpaceOptions};

/// Uses the processor for this many nanoseconds. The amount of work does not depend on preemptions.
pub(crate) fn work(ns: u64) {
    let turns = ns * turns_per_us() / 1000;
    let mut done = 0u64;
    while done < turns {
        done = std::hint::black_box(done + 1);
    }
}

/// The number of turns of the loop of [`work`] in a microsecond.
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

/// The number of messages that were handed on to tasks of planted networks.
pub(crate) static HANDED_ON: AtomicU64 = AtomicU64::new(0);

/// A task of a planted network, on a worker.
struct Stage {
    of: planted_nets::Task,
    inputs: Vec<In<u64>>,
    outputs: Vec<Out<u64>>,
    next_input: usize,
    next_output: usize,
    /// The number of messages still to be written for the present message, and the present message; `None` if
    /// no message was read.
    owes: u64,
    message: Option<u64>,
    /// Whether the task hands messages on to a task that waits, and works on messages that are handed on to it.
    hands_on: bool,
}

impl Stage {
    /// Whether the task writes exactly one message, to its only output, for each message that it reads.
    fn passes(&self) -> bool {
        self.hands_on && self.owes == 0 && self.of.copies == 1 && self.inputs.len() + self.outputs.len() == 2
    }

    /// Works on the messages that the task can hand on. Returns why the dispatch ends if it handed them on.
    fn hand_on(&mut self, cx: &mut Context<'_>) -> Option<Stop> {
        if !self.passes() || self.inputs.len() != 1 {
            return None;
        }
        let (input, output) = (&mut self.inputs[0], &mut self.outputs[0]);
        let most = cx.hands_on(input, output).min(cx.quantum());
        if most == 0 {
            return None;
        }
        let count = input.upcoming(cx, most).len();
        (0..count).for_each(|_| work(self.of.service));
        let stop = input.hand_on(cx, count, output);
        if stop.is_none() {
            assert_eq!(input.transfer(cx, count, output), count);
        }
        stop
    }

    /// Writes the messages still to be written. Returns whether there was room for all of these messages.
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

    /// Advances to the next input after the present one was read or has ended. Returns whether there is a
    /// next input.
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

    fn passes_to(&mut self, _: HandedOn<'_>) -> Option<PassesTo<'_>> {
        if self.passes() { self.outputs.first_mut().map(Out::passes_to) } else { None }
    }

    fn work_on(&mut self, messages: HandedOn<'_>, _: Progress<'_>) -> usize {
        let count = messages.of::<u64>().map_or(0, |messages| messages.len());
        (0..count).for_each(|_| work(self.of.service));
        HANDED_ON.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if let Some(stop) = self.hand_on(cx) {
            return stop;
        }
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

/// A directory for the space of one test, which is removed at the end.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new() -> Place {
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

pub(crate) fn space_in(place: &Place) -> Space {
    space_of_blocks(place, 1 << 20)
}

/// A space whose elements are rings of 64 MiB, with blocks of `block_bytes` bytes.
pub(crate) fn space_of_blocks(place: &Place, block_bytes: usize) -> Space {
    let block_count = (64 << 20) / block_bytes;
    Space::create(SpaceOptions {
        name: "planted".into(),
        path: Some(place.0.clone()),
        element: ElementOptions { block_bytes, block_count, policy: Policy::Overwrite },
        ..SpaceOptions::default()
    })
    .unwrap()
}

pub(crate) fn runtime_of(net: &Net, space: &Space) -> Runtime {
    Runtime::new(Options {
        workers: net.workers,
        quantum: net.quantum as usize,
        capacity: net.capacity as usize,
        pin: true,
        mode: Mode::Full,
        space: Some(space.clone()),
        ..Options::default()
    })
    .unwrap()
}

/// Makes the network's tasks; its sources go on as long as `lasts`.
pub(crate) fn build(
    net: &Net,
    runtime: &Runtime,
    space: &Space,
    lasts: impl Fn() -> bool + Clone + Send + 'static,
) {
    build_as(net, runtime, space, false, lasts);
}

/// Makes the network's tasks as [`build`] does; the tasks on workers hand messages on if `hands_on` is set.
pub(crate) fn build_as(
    net: &Net,
    runtime: &Runtime,
    space: &Space,
    hands_on: bool,
    lasts: impl Fn() -> bool + Clone + Send + 'static,
) {
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
        let spec = TaskSpec {
            component,
            replica: task.replica,
            place: Placement { node: None, worker: task.worker },
            ..TaskSpec::default()
        };
        if task.worker.is_some() {
            let of = task.clone();
            let owes = of.seed;
            let (next_input, next_output, message) = (0, 0, None);
            let stage = Stage { of, inputs, outputs, next_input, next_output, owes, message, hands_on };
            runtime.spawn(spec, stage);
        } else if let Some(input) = inputs.pop() {
            sink(runtime, spec, input, task.service);
        } else if let Some(output) = outputs.pop() {
            source(runtime, spec, output, task, lasts.clone());
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

fn source(
    runtime: &Runtime,
    spec: TaskSpec,
    mut output: Out<u64>,
    of: &planted_nets::Task,
    lasts: impl Fn() -> bool + Send + 'static,
) {
    let (service, sleeps) = (of.service, of.sleeps);
    runtime.spawn_blocking(spec, move |task| {
        let mut number = 0;
        while lasts() {
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

/// Runs the network until `look` returns, which gets the directory of the space and a function that starts
/// the network.
pub(crate) fn while_it_runs(net: &Net, look: impl FnOnce(&Path, &dyn Fn())) {
    let place = Place::new();
    let space = space_in(&place);
    let runtime = runtime_of(net, &space);
    build(net, &runtime, &space, || true);
    look(&place.0, &|| runtime.start());
    runtime.abort();
    // A network that stands still for ever was aborted, which gives an error.
    let _ = runtime.join();
}
