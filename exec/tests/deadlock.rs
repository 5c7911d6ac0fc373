//! Tests that a deadlock ends the run with an error that names which task waits for which, and that tasks
//! which only wait for external input cause no error.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use thalweg_exec::{
    Blocking, Context, Error, In, Inputs, Options, Out, Ports, Runtime, Stop, StreamSpec, Summary, Task,
    TaskSpec,
};

/// A time longer than any run in these tests takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// A time longer than two searches for deadlocks take.
const LONG: Duration = Duration::from_millis(250);

fn runtime(workers: usize, thread_per_task: bool) -> Runtime {
    Runtime::new(Options { workers, thread_per_task, ..Options::default() }).unwrap()
}

fn room(capacity: usize) -> StreamSpec {
    StreamSpec { capacity: Some(capacity), ..StreamSpec::default() }
}

fn ended(runtime: Runtime) -> Result<Summary, Error> {
    let (done, joined) = mpsc::channel();
    std::thread::spawn(move || done.send(runtime.join()));
    joined.recv_timeout(PATIENCE).expect("the runtime ends")
}

/// The error of a run that has to end in a deadlock.
fn deadlock(runtime: Runtime) -> String {
    ended(runtime).expect_err("a deadlock").to_string()
}

fn assert_told(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "no {part:?} in: {told}");
    }
}

/// How a task reads.
enum Reads {
    /// The task reads from the stream that the step names.
    One(Vec<In<u64>>),
    /// The task reads from any of its streams, and checks each of them.
    Any(Vec<In<u64>>),
    /// The task reads from any of its streams; a wake-up names the ready one.
    Group(Inputs<u64>),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Read(usize),
    Write(usize),
}

/// A task that runs its list of steps a given number of times. The task skips reads of streams that have
/// ended.
struct Scripted {
    reads: Reads,
    outputs: Vec<Out<u64>>,
    steps: Vec<Step>,
    at: usize,
    end: usize,
}

impl Scripted {
    fn new(reads: Reads, outputs: Vec<Out<u64>>, steps: &[Step], rounds: usize) -> Scripted {
        Scripted { reads, outputs, steps: steps.to_vec(), at: 0, end: rounds * steps.len() }
    }

    /// Runs a step. `Err` says why the step cannot be done now.
    fn step(&mut self, cx: &mut Context<'_>, step: Step) -> Result<(), Stop> {
        let read = match (step, &mut self.reads) {
            (Step::Write(output), _) => {
                return self.outputs[output].push(cx, 0).map_err(|_| Stop::OutputFull);
            }
            (Step::Read(input), Reads::One(inputs)) => {
                inputs[input].pop(cx).is_some() || inputs[input].ended()
            }
            (Step::Read(_), Reads::Any(inputs)) => {
                inputs.iter_mut().any(|input| input.pop(cx).is_some()) || inputs.iter().all(In::ended)
            }
            (Step::Read(_), Reads::Group(inputs)) => read_any(cx, inputs),
        };
        if read { Ok(()) } else { Err(Stop::InputEmpty) }
    }
}

fn read_any(cx: &mut Context<'_>, inputs: &mut Inputs<u64>) -> bool {
    while let Some(index) = inputs.next_index(cx) {
        let input = inputs.get_mut(index).unwrap();
        if input.pop(cx).is_some() {
            return true;
        }
        if input.ended() {
            drop(inputs.remove(cx, index));
        }
    }
    inputs.is_empty()
}

impl Task for Scripted {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        match &mut self.reads {
            Reads::One(inputs) | Reads::Any(inputs) => inputs.iter_mut().for_each(|input| ports.input(input)),
            Reads::Group(inputs) => ports.inputs(inputs),
        }
        self.outputs.iter_mut().for_each(|output| ports.output(output));
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.at == self.end {
                return Stop::Ended;
            }
            if let Err(stop) = self.step(cx, self.steps[self.at % self.steps.len()]) {
                return stop;
            }
            self.at += 1;
        }
        Stop::QuantumSpent
    }
}

fn group<I: IntoIterator<Item = In<u64>>>(inputs: I) -> Reads {
    let mut group = Inputs::new();
    inputs.into_iter().for_each(|input| _ = group.add(input));
    Reads::Group(group)
}

#[test]
fn full_streams_round_in_a_circle_are_told() {
    use Step::{Read, Write};
    for (workers, threads) in [(1, false), (2, false), (1, true)] {
        let runtime = runtime(workers, threads);
        let (there, input) = runtime.stream(room(4));
        let (back, again) = runtime.stream(room(4));
        let doubling = |input, output, seed: usize| {
            let mut task = Scripted::new(
                Reads::One(vec![input]),
                vec![output],
                &[Write(0), Read(0), Write(0)],
                usize::MAX / 8,
            );
            task.at = 1 - seed;
            task
        };
        runtime.spawn(TaskSpec::default(), doubling(input, back, 0));
        runtime.spawn(TaskSpec::default(), doubling(again, there, 1));
        let told = deadlock(runtime);
        assert_told(
            &told,
            &[
                "task 1 waits for room in stream 2, which task 2 reads",
                "task 2 waits for room in stream 1, which task 1 reads",
            ],
        );
    }
}

/// A fork fills its direct stream to a join, while the join waits for a message that comes by a detour; on
/// the detour a collector waits for messages of the fork or of an echo of its own. With `blocking` the fork
/// has a thread of its own.
fn fork_and_join(runtime: Runtime, collects: impl Fn(Vec<In<u64>>) -> Reads, blocking: bool) -> String {
    use Step::{Read, Write};
    let [straight, round, echoed, back, joined] = [(); 5].map(|()| runtime.stream(room(4)));
    let (mut straight_out, mut round_out) = (straight.0, round.0);
    let spec = TaskSpec::default();
    // The fork still has to write a message to the detour, but first writes more messages to the direct
    // stream than this stream holds.
    if blocking {
        runtime.spawn_blocking_attached(spec, move |ports| {
            ports.output(&mut round_out);
            move |fork| {
                let all = (0..20).all(|_| fork.push(&mut straight_out, 0).is_ok());
                _ = all && fork.push(&mut round_out, 0).is_ok();
            }
        });
    } else {
        let mut steps = vec![Write(0); 20];
        steps.push(Write(1));
        runtime.spawn(spec, Scripted::new(Reads::One(vec![]), vec![straight_out, round_out], &steps, 1));
    }
    let collector = collects(vec![round.1, back.1]);
    let outputs = vec![joined.0, echoed.0];
    runtime.spawn(spec, Scripted::new(collector, outputs, &[Read(0), Write(0), Write(1)], 1000));
    runtime.spawn(spec, Scripted::new(Reads::One(vec![echoed.1]), vec![back.0], &[Read(0), Write(0)], 1000));
    let join = Reads::One(vec![joined.1, straight.1]);
    runtime.spawn(spec, Scripted::new(join, vec![], &[Read(0), Read(1)], 20));
    deadlock(runtime)
}

#[test]
fn a_task_that_waits_for_any_of_several_streams_may_be_in_a_knot() {
    for (workers, threads, blocking) in
        [(1, false, false), (2, false, false), (2, false, true), (1, true, false)]
    {
        for collects in [group::<Vec<_>>, Reads::Any] {
            let told = fork_and_join(runtime(workers, threads), collects, blocking);
            assert_told(
                &told,
                &[
                    "task 1 waits for room in stream 1, which task 4 reads",
                    "task 4 waits for a message of stream 5, which task 2 writes",
                    "task 2 waits for a message of stream ",
                    "stream 2, which task 1 writes",
                    "stream 4, which task 3 writes",
                    "task 3 waits for a message of stream 3, which task 2 writes",
                ],
            );
        }
    }
}

/// A task waits for room, and its reader waits for a message from a task that waits for the reader, or from a
/// source that writes nothing for a long time.
fn slow(source: impl FnOnce(&mut Blocking, Out<u64>) + Send + 'static) {
    use Step::{Read, Write};
    let runtime = runtime(2, false);
    let [full, slow] = [(); 2].map(|()| runtime.stream(room(2)));
    let spec = TaskSpec::default();
    runtime.spawn(spec, Scripted::new(Reads::One(vec![]), vec![full.0], &[Write(0)], 100));
    runtime.spawn(spec, Scripted::new(Reads::One(vec![slow.1, full.1]), vec![], &[Read(0), Read(1)], 100));
    let output = slow.0;
    runtime.spawn_blocking(spec, move |task| source(task, output));
    let summary = ended(runtime).expect("no deadlock");
    assert_eq!((summary.tasks, summary.failed), (3, 0));
}

#[test]
fn a_slow_source_is_no_deadlock() {
    slow(|task, mut output| {
        for _ in 0..2 {
            std::thread::sleep(LONG);
            _ = task.push(&mut output, 0);
        }
    });
    slow(|task, mut output| {
        task.aside(|| std::thread::sleep(LONG));
        _ = task.push(&mut output, 0);
    });
}

#[test]
fn a_source_that_sleeps_in_a_read_is_no_deadlock() {
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let peer = std::thread::spawn(move || {
        std::thread::sleep(LONG);
        far.write_all(&[1]).unwrap();
    });
    slow(move |task, mut output| {
        near.read_exact(&mut [0]).unwrap();
        _ = task.push(&mut output, 0);
    });
    peer.join().unwrap();
}

/// A network of scripted tasks, which the model explores and the runtime runs.
#[derive(Clone, Debug)]
struct Plan {
    capacities: Vec<usize>,
    tasks: Vec<Planned>,
}

#[derive(Clone, Debug)]
struct Planned {
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    steps: Vec<Step>,
    rounds: usize,
    reads: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    One,
    Any,
    Group,
    /// The task reads from the stream that the step names, and has a thread of its own.
    Blocking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Finished,
    Deadlock,
    /// All tasks wait for messages.
    Dry,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

impl Plan {
    fn random(random: &mut Random) -> Plan {
        let tasks = 2 + random.below(3);
        let empty = || Planned { inputs: vec![], outputs: vec![], steps: vec![], rounds: 0, reads: How::One };
        let mut plan = Plan { capacities: vec![], tasks: (0..tasks).map(|_| empty()).collect() };
        for stream in 0..tasks + random.below(tasks + 1) {
            plan.capacities.push(1 + random.below(2));
            plan.tasks[random.below(tasks)].outputs.push(stream);
            plan.tasks[random.below(tasks)].inputs.push(stream);
        }
        for task in &mut plan.tasks {
            task.rounds = 1 + random.below(3);
            task.reads = [How::One, How::Any, How::Group, How::Blocking][random.below(4)];
            let choices = task.inputs.len() + task.outputs.len();
            for _ in 0..(choices + random.below(2)).min(choices * 2) {
                let choice = random.below(choices);
                let written = choice.checked_sub(task.inputs.len());
                task.steps.push(written.map_or(Step::Read(choice), Step::Write));
            }
        }
        plan
    }

    /// All states that may follow one state.
    fn next(&self, state: &State) -> Vec<State> {
        let mut next = Vec::new();
        for (at, task) in self.tasks.iter().enumerate() {
            let done = |change: Option<(usize, i8)>| {
                let mut state = state.clone();
                state.steps[at] += 1;
                if let Some((stream, by)) = change {
                    state.filled[stream] = state.filled[stream].wrapping_add_signed(by);
                }
                state
            };
            let readable = |inputs: &[usize]| {
                let full = inputs.iter().filter(|&&stream| state.filled[stream] > 0);
                let mut ways: Vec<State> = full.map(|&stream| done(Some((stream, -1)))).collect();
                if ways.is_empty() && inputs.iter().all(|&stream| self.is_over(state, stream, false)) {
                    ways.push(done(None));
                }
                ways
            };
            match task.step(state.steps[at]) {
                None => {}
                Some(Step::Write(output)) => {
                    let stream = task.outputs[output];
                    if self.is_over(state, stream, true) {
                        next.push(done(None));
                    } else if usize::from(state.filled[stream]) < self.capacities[stream] {
                        next.push(done(Some((stream, 1))));
                    }
                }
                Some(Step::Read(input)) if matches!(task.reads, How::One | How::Blocking) => {
                    next.extend(readable(&task.inputs[input..=input]));
                }
                Some(Step::Read(_)) => next.extend(readable(&task.inputs)),
            }
        }
        next
    }

    /// Whether the task at one end of the stream has ended: at the reading end if `reader`, else at the
    /// writing end.
    fn is_over(&self, state: &State, stream: usize, reader: bool) -> bool {
        let has = |task: &&Planned| if reader { &task.inputs } else { &task.outputs }.contains(&stream);
        let at = self.tasks.iter().position(|task| has(&task)).unwrap();
        self.tasks[at].step(state.steps[at]).is_none()
    }

    /// All outcomes that the network can reach, under every order of steps; `None` if there are too many
    /// orders.
    fn outcomes(&self) -> Option<HashSet<Outcome>> {
        let begin = State { steps: vec![0; self.tasks.len()], filled: vec![0; self.capacities.len()] };
        let (mut seen, mut open) = (HashSet::from([begin.clone()]), vec![begin]);
        let mut outcomes = HashSet::new();
        while let Some(state) = open.pop() {
            let next = self.next(&state);
            if next.is_empty() {
                let left = self.tasks.iter().zip(&state.steps).filter_map(|(task, &at)| task.step(at));
                let left: Vec<Step> = left.collect();
                let writes = left.iter().any(|step| matches!(step, Step::Write(_)));
                outcomes.insert(match writes {
                    _ if left.is_empty() => Outcome::Finished,
                    true => Outcome::Deadlock,
                    false => Outcome::Dry,
                });
            }
            open.extend(next.into_iter().filter(|state| seen.insert(state.clone())));
            if seen.len() > 20_000 {
                return None;
            }
        }
        Some(outcomes)
    }

    fn run(&self, runtime: Runtime) -> Outcome {
        let streams = self.capacities.iter().map(|&capacity| runtime.stream(room(capacity)));
        let (mut outs, mut ins): (Vec<_>, Vec<_>) = streams.map(|(o, i)| (Some(o), Some(i))).unzip();
        for task in &self.tasks {
            let inputs: Vec<In<u64>> = task.inputs.iter().map(|&at| ins[at].take().unwrap()).collect();
            let outputs: Vec<Out<u64>> = task.outputs.iter().map(|&at| outs[at].take().unwrap()).collect();
            let reads = match task.reads {
                How::Blocking => {
                    spawn_blocking(&runtime, inputs, outputs, task.clone());
                    continue;
                }
                How::One => Reads::One(inputs),
                How::Any => Reads::Any(inputs),
                How::Group => group(inputs),
            };
            runtime.spawn(TaskSpec::default(), Scripted::new(reads, outputs, &task.steps, task.rounds));
        }
        match ended(runtime) {
            Ok(_) => Outcome::Finished,
            Err(error) if error.to_string().starts_with("deadlock: ") => Outcome::Deadlock,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Planned {
    fn step(&self, at: u8) -> Option<Step> {
        let all = self.rounds * self.steps.len();
        (usize::from(at) < all).then(|| self.steps[usize::from(at) % self.steps.len()])
    }
}

fn spawn_blocking(runtime: &Runtime, mut inputs: Vec<In<u64>>, mut outputs: Vec<Out<u64>>, task: Planned) {
    runtime.spawn_blocking_attached(TaskSpec::default(), move |ports| {
        inputs.iter_mut().for_each(|input| ports.input(input));
        outputs.iter_mut().for_each(|output| ports.output(output));
        move |blocking: &mut Blocking| {
            for at in 0.. {
                match task.step(at) {
                    None => return,
                    Some(Step::Read(input)) => _ = blocking.pop(&mut inputs[input]),
                    Some(Step::Write(output)) => _ = blocking.push(&mut outputs[output], 0),
                }
            }
        }
    });
}

/// The number of steps of each task, and of messages in each stream.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    steps: Vec<u8>,
    filled: Vec<u8>,
}

/// Graphs of tasks that read one stream or any of several, with threads of their own or without, end in one
/// of the outcomes of the model.
#[test]
fn random_networks_end_as_the_model_does() {
    let mut random = Random(7);
    let (mut finished, mut stuck, mut any_stuck) = (0, 0, 0);
    while finished < 12 || stuck < 12 || any_stuck < 6 {
        let plan = Plan::random(&mut random);
        let Some(outcomes) = plan.outcomes().filter(|outcomes| !outcomes.contains(&Outcome::Dry)) else {
            continue;
        };
        let waits_for_any = plan
            .tasks
            .iter()
            .any(|task| matches!(task.reads, How::Any | How::Group) && task.inputs.len() > 1);
        let (enough, count) = match (outcomes.contains(&Outcome::Deadlock), waits_for_any) {
            (false, _) => (12, &mut finished),
            (true, false) => (12, &mut stuck),
            (true, true) => (6, &mut any_stuck),
        };
        if *count == enough {
            continue;
        }
        *count += 1;
        let threads = random.below(4) == 0;
        let outcome = plan.run(runtime(1 + random.below(2), threads));
        assert!(outcomes.contains(&outcome), "{outcome:?}, but {outcomes:?} may come of {plan:?}");
    }
}
