//! Tests of messages that tasks hand on to waiting tasks on the same worker: whatever each task passes on,
//! the output is the same as without handing on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use thalweg_chance::Chance;
use thalweg_exec::{
    Context, HandedOn, In, Mode, Options, Out, PassesTo, Placement, Ports, Progress, Runtime, Stop,
    StreamSpec, Task, TaskId, TaskSpec,
};
use thalweg_space::{Space, SpaceOptions};

/// A time longer than any move takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Adds one to each message, except for those that it drops.
struct Stage {
    input: In<u64>,
    output: Out<u64>,
    drops: u64,
    /// The message at which the stage panics.
    bad: u64,
    /// How many messages were handed on to the stages of a test.
    handed: Arc<AtomicU64>,
}

/// Works on messages in place, up to the first message that is dropped.
fn pass((drops, bad): (u64, u64), messages: &mut [u64]) -> usize {
    let kept = messages.iter_mut().take_while(|message| !message.is_multiple_of(drops));
    kept.map(|message| {
        assert!(*message != bad, "message {message} is bad");
        *message += 1;
    })
    .count()
}

impl Task for Stage {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let mut left = cx.quantum();
        while left > 0 {
            let taken = cx.hands_on(&self.input, &self.output);
            let room = if taken > 0 { taken } else { self.output.room(cx) };
            if room == 0 {
                return Stop::OutputFull;
            }
            let messages = self.input.upcoming(cx, room.min(left));
            let count = messages.len();
            if count == 0 {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            }
            let passed = pass((self.drops, self.bad), messages);
            left -= count.min(left);
            if taken > 0
                && passed == count
                && let Some(stop) = self.input.hand_on(cx, passed, &mut self.output)
            {
                assert!(self.input.pop(cx).is_none(), "there is nothing to read before the dispatch is over");
                assert_eq!(self.output.room(cx), 0);
                return stop;
            }
            assert_eq!(self.input.transfer(cx, passed, &mut self.output), passed);
            if passed < count {
                assert!(self.input.pop(cx).unwrap().is_multiple_of(self.drops));
            }
        }
        Stop::QuantumSpent
    }

    fn passes_to(&mut self, _: HandedOn<'_>) -> Option<PassesTo<'_>> {
        Some(self.output.passes_to())
    }

    fn work_on(&mut self, messages: HandedOn<'_>, _: Progress<'_>) -> usize {
        let messages = messages.of::<u64>().unwrap();
        self.handed.fetch_add(messages.len() as u64, Ordering::Relaxed);
        pass((self.drops, self.bad), messages)
    }
}

/// Writes 0, 1, … `count` − 1, a few at a time.
struct Source {
    output: Out<u64>,
    next: u64,
    count: u64,
    at_once: u64,
}

impl Task for Source {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..self.at_once {
            if self.next == self.count {
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

struct Sink {
    input: In<u64>,
    told: mpsc::Sender<u64>,
}

impl Task for Sink {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        while let Some(message) = self.input.pop(cx) {
            self.told.send(message).unwrap();
        }
        if self.input.ended() { Stop::Ended } else { Stop::InputEmpty }
    }
}

/// A row of stages between a source and a sink; each stage drops the multiples of a number.
struct Row {
    handed: Arc<AtomicU64>,
    out: mpsc::Receiver<u64>,
    tasks: Vec<TaskId>,
}

fn row(runtime: &Runtime, capacity: usize, (count, at_once): (u64, u64), drops: &[u64], bad: u64) -> Row {
    let room = || StreamSpec { capacity: Some(capacity), ..StreamSpec::default() };
    let (output, mut input) = runtime.stream(room());
    runtime.spawn(TaskSpec::default(), Source { output, next: 0, count, at_once });
    let handed = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for (at, &drops) in drops.iter().enumerate() {
        let (output, next) = runtime.stream(room());
        let input = std::mem::replace(&mut input, next);
        let bad = if at == 2 { bad } else { u64::MAX };
        let stage = Stage { input, output, drops, bad, handed: handed.clone() };
        tasks.push(runtime.spawn(TaskSpec::default(), stage));
    }
    let (told, out) = mpsc::channel();
    runtime.spawn(TaskSpec::default(), Sink { input, told });
    Row { handed, out, tasks }
}

/// The expected output of a row whose stages drop the multiples of `drops`.
fn expected(count: u64, drops: &[u64]) -> Vec<u64> {
    let through = |message: u64| {
        drops
            .iter()
            .try_fold(message, |message, &drops| (!message.is_multiple_of(drops)).then_some(message + 1))
    };
    (0..count).filter_map(through).collect()
}

fn options(workers: usize, mode: Mode, name: &str) -> (Options, Space) {
    let space = Space::create(SpaceOptions {
        name: format!("thalweg-handing-{name}"),
        parent: Some(std::env::temp_dir()),
        ..SpaceOptions::default()
    });
    let space = space.unwrap();
    (Options { workers, mode, space: Some(space.clone()), ..Options::default() }, space)
}

#[test]
fn what_is_handed_on_comes_out_as_if_it_had_been_written() {
    let mut chance = Chance::new(28);
    let mut handed = 0;
    for round in 0..60_u64 {
        let stages = 2 + chance.below(12) as usize;
        let rare = [1_000_003, 13, 3][(round % 3) as usize];
        let drops: Vec<u64> = (0..stages).map(|_| rare + 2 * chance.below(5)).collect();
        let mode = [Mode::Off, Mode::Metrics, Mode::Full][(round / 3 % 3) as usize];
        let workers = 1 + (round % 2) as usize;
        let (options, space) = options(workers, mode, &format!("row-{round}"));
        let runtime = Runtime::new(options).unwrap();
        let (count, at_once) = (2_000, 1 + chance.below(40));
        let row = row(&runtime, 1 + chance.below(70) as usize, (count, at_once), &drops, u64::MAX);
        let mover = runtime.mover();
        let done = thread::spawn(move || runtime.join().unwrap());
        for at in 0..stages.min(4) {
            // An error is ignored, because the run may have ended.
            let moved =
                mover.move_task(row.tasks[at], Placement::on_worker(chance.below(workers as u64) as usize));
            _ = moved.map(|moved| moved.wait(PATIENCE));
        }
        assert_eq!(done.join().unwrap().failures, []);
        assert_eq!(
            row.out.iter().collect::<Vec<_>>(),
            expected(count, &drops),
            "round {round}, drops {drops:?}"
        );
        handed += row.handed.load(Ordering::Relaxed);
        std::fs::remove_dir_all(space.path()).ok();
    }
    assert!(handed > 100_000, "{handed}");
}

#[test]
fn a_panic_at_what_was_handed_on_ends_that_task_alone() {
    let (options, space) = options(1, Mode::Full, "panic");
    let runtime = Runtime::new(options).unwrap();
    let row = row(&runtime, 16, (1_000, 1), &[1_000_003, 1_000_003, 1_000_003, 1_000_003], 502);
    let summary = runtime.join().unwrap();
    assert_eq!((summary.tasks, summary.failed), (6, 1));
    assert_eq!((summary.failures[0].task, summary.failures[0].panicked), (row.tasks[2], true));
    assert_eq!(summary.failures[0].message, "message 502 is bad");
    assert!(row.handed.load(Ordering::Relaxed) > 500);
    // Messages that were handed on together with the bad one may be lost.
    let out: Vec<u64> = row.out.iter().collect();
    assert!(out.len() > 400 && out.iter().copied().eq((5..).take(out.len().min(499))), "{out:?}");
    std::fs::remove_dir_all(space.path()).ok();
}

/// Sends each message once round through a stream of its own, and then on.
struct Looper {
    inputs: [In<u64>; 2],
    back: Out<u64>,
    output: Out<u64>,
    handed: Arc<AtomicU64>,
}

impl Task for Looper {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.inputs.iter_mut().for_each(|input| ports.input(input));
        ports.output(&mut self.back);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let [from_outside, from_itself] = &mut self.inputs;
        while let Some(message) = from_outside.pop(cx) {
            self.back.push(cx, message).unwrap();
        }
        while let Some(message) = from_itself.pop(cx) {
            self.output.push(cx, message).unwrap();
        }
        if from_outside.ended() { Stop::Ended } else { Stop::InputEmpty }
    }

    fn passes_to(&mut self, _: HandedOn<'_>) -> Option<PassesTo<'_>> {
        Some(self.back.passes_to())
    }

    fn work_on(&mut self, messages: HandedOn<'_>, _: Progress<'_>) -> usize {
        let count = messages.of::<u64>().unwrap().len();
        self.handed.fetch_add(count as u64, Ordering::Relaxed);
        count
    }
}

/// Sends 1, 2, … 100 into `first`, each when the one before has come out of `last`, as that plus `added`.
fn one_by_one(runtime: Runtime, mut first: Out<u64>, mut last: In<u64>, added: u64) {
    let (told, out) = mpsc::channel();
    let (go_on, wait) = mpsc::channel();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        for message in 1..=100 {
            task.push(&mut first, message).unwrap();
            if wait.recv().is_err() {
                return;
            }
        }
    });
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        while let Some(message) = task.pop(&mut last) {
            told.send(message).unwrap();
        }
    });
    runtime.start();
    for message in 1..=100 {
        if out.recv_timeout(PATIENCE) != Ok(message + added) {
            runtime.abort();
            panic!("message {message} did not come out");
        }
        go_on.send(()).unwrap();
    }
    assert_eq!(runtime.join().unwrap().failures, []);
}

/// Tasks behind `input` that each add one and hand on: their output.
fn stages(runtime: &Runtime, mut input: In<u64>, count: usize, handed: &Arc<AtomicU64>) -> In<u64> {
    for _ in 0..count {
        let (output, next) = runtime.stream(StreamSpec::default());
        let handed = handed.clone();
        let stage = Stage { input, output, drops: u64::MAX, bad: u64::MAX, handed };
        runtime.spawn(TaskSpec::default(), stage);
        input = next;
    }
    input
}

/// A task to which a message was handed on writes it to a stream that it reads itself. The message wakes the
/// task: the next one is sent only when this one has come out.
#[test]
fn what_a_task_hands_on_to_itself_wakes_it() {
    let (options, space) = options(1, Mode::Metrics, "looper");
    let runtime = Runtime::new(options).unwrap();
    let handed = Arc::new(AtomicU64::new(0));
    let (first, input) = runtime.stream(StreamSpec::default());
    let from_outside = stages(&runtime, input, 2, &handed);
    let (back, from_itself) = runtime.stream(StreamSpec::default());
    let (output, last) = runtime.stream(StreamSpec::default());
    let inputs = [from_outside, from_itself];
    runtime.spawn(TaskSpec::default(), Looper { inputs, back, output, handed: handed.clone() });
    one_by_one(runtime, first, last, 2);
    assert!(handed.load(Ordering::Relaxed) > 50, "{handed:?}");
    std::fs::remove_dir_all(space.path()).ok();
}

/// Hands each message on, and then makes a task that gets a spare end.
struct Maker {
    input: In<u64>,
    output: Out<u64>,
    handed: Arc<AtomicU64>,
}

impl Task for Maker {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let count = self.input.upcoming(cx, 1).len();
        if count == 0 {
            return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
        }
        if cx.hands_on(&self.input, &self.output) > 0
            && let Some(stop) = self.input.hand_on(cx, 1, &mut self.output)
        {
            self.handed.fetch_add(1, Ordering::Relaxed);
            let ((first, input), (output, last)) =
                (cx.stream(StreamSpec::default()), cx.stream(StreamSpec::default()));
            let (drops, bad, handed) = (u64::MAX, u64::MAX, self.handed.clone());
            cx.spawn(TaskSpec::default(), Stage { input, output, drops, bad, handed });
            drop((first, last));
            return stop;
        }
        self.input.transfer(cx, 1, &mut self.output);
        Stop::QuantumSpent
    }
}

/// A message that was handed on is written, and wakes its reader, if the task that handed it on then gives an
/// end of a stream to another task.
#[test]
fn what_was_handed_on_before_an_end_moves_wakes_its_reader() {
    let (options, space) = options(1, Mode::Full, "maker");
    let runtime = Runtime::new(options).unwrap();
    let (handed, made) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (first, input) = runtime.stream(StreamSpec::default());
    let input = stages(&runtime, input, 1, &handed);
    let (output, next) = runtime.stream(StreamSpec::default());
    runtime.spawn(TaskSpec::default(), Maker { input, output, handed: made.clone() });
    let last = stages(&runtime, next, 2, &handed);
    one_by_one(runtime, first, last, 3);
    assert!(made.load(Ordering::Relaxed) > 50, "{made:?}");
    std::fs::remove_dir_all(space.path()).ok();
}

/// Sends even messages one way and odd ones the other.
struct Fork {
    input: In<u64>,
    ways: [Out<u64>; 2],
    /// How many messages were handed on to the fork.
    handed: Arc<AtomicU64>,
}

impl Task for Fork {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        self.ways.iter_mut().for_each(|way| ports.output(way));
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let mut left = cx.quantum();
        while left > 0 {
            let messages = self.input.upcoming(cx, left);
            let Some(&first) = messages.first() else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            let alike = messages.iter().take_while(|message| *message % 2 == first % 2).count();
            let way = &mut self.ways[(first % 2) as usize];
            if alike <= cx.hands_on(&self.input, way)
                && let Some(stop) = self.input.hand_on(cx, alike, way)
            {
                return stop;
            }
            match self.input.transfer(cx, alike, way) {
                0 => return Stop::OutputFull,
                moved => left -= moved,
            }
        }
        Stop::QuantumSpent
    }

    fn passes_to(&mut self, next: HandedOn<'_>) -> Option<PassesTo<'_>> {
        let messages = next.of::<u64>()?;
        let way = *messages.first()? % 2;
        let go_along = messages.iter().all(|message| message % 2 == way);
        go_along.then(|| self.ways[way as usize].passes_to())
    }

    fn work_on(&mut self, messages: HandedOn<'_>, _: Progress<'_>) -> usize {
        let count = messages.of::<u64>().unwrap().len();
        self.handed.fetch_add(count as u64, Ordering::Relaxed);
        count
    }
}

/// The network is a stage, a fork, and behind each output of the fork two stages and a sink.
#[test]
fn messages_are_handed_on_through_a_task_that_chooses_where_they_go() {
    let mut chance = Chance::new(29);
    let (through_forks, through_stages) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for round in 0..40_u64 {
        let mode = [Mode::Off, Mode::Metrics, Mode::Full][(round % 3) as usize];
        let workers = 1 + (round / 3 % 2) as usize;
        let (options, space) = options(workers, mode, &format!("fork-{round}"));
        let runtime = Runtime::new(options).unwrap();
        let capacity = 1 + chance.below(20) as usize;
        let room = || StreamSpec { capacity: Some(capacity), ..StreamSpec::default() };
        let mut tasks = Vec::new();
        let mut stage = |input| {
            let (output, next) = runtime.stream(room());
            let (drops, bad) = (1_000_003, u64::MAX);
            let stage = Stage { input, output, drops, bad, handed: through_stages.clone() };
            tasks.push(runtime.spawn(TaskSpec::default(), stage));
            next
        };
        let (output, input) = runtime.stream(room());
        let (count, at_once) = (1_000, 1 + chance.below(4));
        runtime.spawn(TaskSpec::default(), Source { output, next: 1, count, at_once });
        let input = stage(input);
        let (even, odd) = (runtime.stream(room()), runtime.stream(room()));
        let fork = Fork { input, ways: [even.0, odd.0], handed: through_forks.clone() };
        let fork = runtime.spawn(TaskSpec::default(), fork);
        let outs = [even.1, odd.1].map(|input| {
            let input = stage(input);
            let input = stage(input);
            let (told, out) = mpsc::channel();
            runtime.spawn(TaskSpec::default(), Sink { input, told });
            out
        });
        let mover = runtime.mover();
        let done = thread::spawn(move || runtime.join().unwrap());
        for task in [tasks[0], fork, tasks[2]] {
            // The run may be over by then.
            let worker = chance.below(workers as u64) as usize;
            _ = mover.move_task(task, Placement::on_worker(worker)).map(|moved| moved.wait(PATIENCE));
        }
        assert_eq!(done.join().unwrap().failures, []);
        for (way, out) in outs.into_iter().enumerate() {
            let expected = (2..=count).filter(|message| message % 2 == way as u64).map(|message| message + 2);
            assert!(out.iter().eq(expected), "round {round}, way {way}");
        }
        std::fs::remove_dir_all(space.path()).ok();
    }
    let handed = (through_forks.load(Ordering::Relaxed), through_stages.load(Ordering::Relaxed));
    assert!(handed.0 > 2_000 && handed.1 > 10_000, "{handed:?}");
}
