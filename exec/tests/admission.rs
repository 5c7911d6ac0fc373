//! Tests that sources are held while too many messages are under way, but never for ever.

#[path = "support/relay.rs"]
mod relay;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use thalweg_exec::{
    Blocking, Context, In, Mapper, Options, Order, Out, Ports, Runtime, Stop, StreamSpec, Summary, Task,
    TaskSpec,
};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Space, SpaceOptions};

use relay::Relay;

/// A time longer than any run in these tests takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// A time longer than a source needs to continue if it is not held.
const LONG: Duration = Duration::from_millis(200);

fn limited(workers: usize, unfinished: u64) -> Options {
    Options { workers, unfinished, mapper: Mapper::RoundRobin, ..Options::default() }
}

fn start(options: Options) -> Runtime {
    Runtime::new(options).unwrap()
}

fn ended(runtime: Runtime) -> Summary {
    let (done, joined) = mpsc::channel();
    std::thread::spawn(move || done.send(runtime.join()));
    joined.recv_timeout(PATIENCE).expect("the runtime ends").unwrap()
}

fn run(runtime: Runtime) {
    assert_eq!(ended(runtime).failures, []);
}

/// A source of `messages` messages that, before each message, calls `admit` and then `before` with the number
/// of messages written.
fn source(
    runtime: &Runtime,
    mut output: Out<u64>,
    messages: u64,
    mut before: impl FnMut(&mut Blocking, u64) + Send + 'static,
) {
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        for number in 0..messages {
            task.admit();
            before(task, number);
            if task.feed(&mut output, number).is_err() {
                return;
            }
        }
    });
}

/// A sink that counts the messages that it reads. The sink's stream is attached when the sink is made,
/// because otherwise the sink would not count as awake before its thread runs.
fn sink(runtime: &Runtime, mut input: In<u64>) -> Arc<AtomicU64> {
    let read = Arc::new(AtomicU64::new(0));
    let count = read.clone();
    runtime.spawn_blocking_attached(TaskSpec::default(), |ports| {
        ports.input(&mut input);
        move |task| {
            while task.pop(&mut input).is_some() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    read
}

/// Sends `messages` through a chain of four tasks; checks that at no time more messages than the limit are
/// between source and sink.
fn chain(options: Options, messages: u64) {
    let unfinished = options.unfinished;
    let runtime = start(options);
    let (first, mut input) = runtime.stream(StreamSpec::default());
    for _ in 0..4 {
        let (output, next) = runtime.stream(StreamSpec::default());
        runtime.spawn(TaskSpec::default(), Relay::new(std::mem::replace(&mut input, next), output));
    }
    let read = sink(&runtime, input);
    let out = read.clone();
    source(&runtime, first, messages, move |_, written| {
        // The sink may have read one message that it has not counted yet.
        let under_way = written - out.load(Ordering::Relaxed);
        assert!(under_way <= unfinished, "{under_way} are under way");
    });
    run(runtime);
    assert_eq!(read.load(Ordering::Relaxed), messages);
}

#[test]
fn no_more_inputs_are_under_way_than_the_limit() {
    for workers in 1..=2 {
        for unfinished in [1, 2, 5, 30] {
            chain(limited(workers, unfinished), 3000);
        }
    }
    chain(Options { order: Order::Demand, ..limited(2, 5) }, 3000);
    chain(Options { thread_per_task: true, ..limited(1, 5) }, 500);
}

#[test]
fn a_task_that_emits_many_holds_the_source() {
    const EACH: u64 = 1000;
    for workers in 1..=2 {
        let runtime = start(limited(workers, 5));
        let (first, input) = runtime.stream(StreamSpec::default());
        let (output, last) = runtime.stream(StreamSpec { capacity: Some(500), ..StreamSpec::default() });
        runtime.spawn(TaskSpec::default(), Relay::new(input, output).times(EACH));
        let read = sink(&runtime, last);
        let out = read.clone();
        source(&runtime, first, 100, move |_, written| {
            let begun = out.load(Ordering::Relaxed).div_ceil(EACH);
            // At most 5 messages wait (the limit), and the task may have read one more message of which no
            // output was read yet.
            assert!(written <= begun + 5 + 1, "{written} went in, of which {begun} came out");
        });
        run(runtime);
        assert_eq!(read.load(Ordering::Relaxed), 100 * EACH);
    }
}

/// Reads a message of the second input, then a message of the first input, and so on.
struct Pairs {
    inputs: [In<u64>; 2],
    next: usize,
    output: Out<u64>,
}

impl Task for Pairs {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.inputs.iter_mut().for_each(|input| ports.input(input));
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.output.room(cx) == 0 {
                return Stop::OutputFull;
            }
            let input = &mut self.inputs[1 - self.next];
            match input.pop(cx) {
                Some(message) => self.output.push(cx, message).expect("there was room"),
                None if input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
            self.next = 1 - self.next;
        }
        Stop::QuantumSpent
    }
}

/// Some messages wait in a stream until many others have come, and the limit is lower than the number of
/// messages that wait.
#[test]
fn a_held_source_goes_on_when_nothing_else_could() {
    const WAIT: u64 = 50;
    for (workers, thread_per_task) in [(1, false), (2, false), (1, true)] {
        let runtime = start(Options { thread_per_task, ..limited(workers, 1) });
        let (mut first, one) = runtime.stream(StreamSpec::default());
        let (mut second, two) = runtime.stream(StreamSpec::default());
        let (output, last) = runtime.stream(StreamSpec::default());
        runtime.spawn(TaskSpec::default(), Pairs { inputs: [one, two], next: 0, output });
        let read = sink(&runtime, last);
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            for number in 0..4 * WAIT {
                task.admit();
                let out = if (number / WAIT).is_multiple_of(2) { &mut first } else { &mut second };
                task.feed(out, number).unwrap();
            }
        });
        run(runtime);
        assert_eq!(read.load(Ordering::Relaxed), 4 * WAIT);
    }
}

/// One of two sources waits for external input, so only the other source could go on.
#[test]
fn a_source_that_waits_for_the_world_is_not_waited_for() {
    let runtime = start(limited(1, 1));
    let (mut first, one) = runtime.stream(StreamSpec::default());
    let (second, two) = runtime.stream(StreamSpec::default());
    let (output, last) = runtime.stream(StreamSpec::default());
    runtime.spawn(TaskSpec::default(), Pairs { inputs: [two, one], next: 0, output });
    let read = sink(&runtime, last);
    let (all_in, world) = mpsc::channel();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        task.admit();
        task.aside(|| world.recv_timeout(PATIENCE).expect("the other source is done"));
        for number in 0..30 {
            task.admit();
            task.feed(&mut first, number).unwrap();
        }
    });
    source(&runtime, second, 30, move |_, number| {
        if number == 29 {
            all_in.send(()).unwrap();
        }
    });
    run(runtime);
    assert_eq!(read.load(Ordering::Relaxed), 60);
}

/// Messages that a reader has not read when it leaves are no longer under way, including those that are
/// written while it leaves.
#[test]
fn messages_that_nobody_will_read_are_not_under_way() {
    struct One(In<u64>);
    impl Task for One {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            if self.0.pop(cx).is_some() { Stop::Ended } else { Stop::InputEmpty }
        }
    }
    for workers in 1..=2 {
        let runtime = start(limited(workers, 20));
        let mut lost = Vec::new();
        for _ in 0..10 {
            let (output, input) = runtime.stream(StreamSpec::default());
            runtime.spawn(TaskSpec::default(), One(input));
            lost.push(output);
        }
        let (first, input) = runtime.stream(StreamSpec::default());
        let read = sink(&runtime, input);
        let (done, wait) = mpsc::channel::<()>();
        let (mut open, closed) = runtime.stream(StreamSpec::default());
        sink(&runtime, closed);
        // The second thread is always awake, so only a lower count of messages lets the source continue.
        runtime.spawn_blocking_attached(TaskSpec::default(), |ports| {
            ports.output(&mut open);
            move |_| {
                assert!(wait.recv_timeout(PATIENCE).is_err(), "the source is done");
                drop(open);
            }
        });
        source(&runtime, first, 1000, move |task, written| {
            let _done = &done;
            if written % 100 == 50 {
                let mut output = lost.pop().unwrap();
                for number in 0..60 {
                    if task.push(&mut output, number).is_err() {
                        break;
                    }
                }
            }
        });
        run(runtime);
        assert_eq!(read.load(Ordering::Relaxed), 1000);
    }
}

/// A source, and a sink that reads one message on request and is busy otherwise.
fn with_busy_sink(options: Options) -> (Runtime, Arc<AtomicU64>, mpsc::Sender<()>) {
    let runtime = start(options);
    let (first, mut last) = runtime.stream(StreamSpec::default());
    let (go_on, told) = mpsc::channel();
    runtime.spawn_blocking_attached(TaskSpec::default(), move |ports| {
        ports.input(&mut last);
        move |task| while told.recv().is_ok() && task.pop(&mut last).is_some() {}
    });
    let written = Arc::new(AtomicU64::new(0));
    let count = written.clone();
    source(&runtime, first, 20, move |_, number| count.store(number + 1, Ordering::Relaxed));
    (runtime, written, go_on)
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_limit_may_change_while_a_source_is_held() {
    let parent = Some(std::env::temp_dir());
    let options = SpaceOptions { name: "thalweg-admission".to_owned(), parent, ..SpaceOptions::default() };
    let space = Space::create(options).unwrap();
    let path = space.path().to_owned();
    let set = SpaceReader::open(&path).unwrap();
    let (runtime, written, go_on) = with_busy_sink(Options { space: Some(space), ..limited(1, 3) });
    let joined = std::thread::spawn(move || ended(runtime));
    let in_now = || written.load(Ordering::Relaxed);
    wait_until(|| in_now() == 3);
    std::thread::sleep(LONG);
    assert_eq!(in_now(), 3, "it is held, because the sink is busy");
    for (limit, expected) in [(7, 7), (10, 10), (0, 20)] {
        set.set("exec.unfinished", limit).unwrap();
        wait_until(|| in_now() == expected);
    }
    (0..=20).for_each(|_| go_on.send(()).unwrap());
    assert_eq!(joined.join().unwrap().failures, []);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_held_source_ends_when_the_run_is_aborted() {
    let (runtime, written, go_on) = with_busy_sink(limited(1, 3));
    wait_until(|| written.load(Ordering::Relaxed) == 3);
    std::thread::sleep(LONG);
    runtime.abort();
    drop(go_on);
    assert!(ended(runtime).aborted);
    assert!(written.load(Ordering::Relaxed) <= 4);
}

/// A held source stays held before the start, although no task reads then.
#[test]
fn a_held_source_waits_for_the_start() {
    let runtime = start(limited(1, 3));
    let (first, input) = runtime.stream(StreamSpec::default());
    let (output, last) = runtime.stream(StreamSpec::default());
    runtime.spawn(TaskSpec::default(), Relay::new(input, output));
    let (written, joining) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, joins) = (written.clone(), joining.clone());
    source(&runtime, first, 20, move |_, number| {
        assert!(number < 3 || joins.load(Ordering::Relaxed));
        count.store(number + 1, Ordering::Relaxed);
    });
    let read = sink(&runtime, last);
    wait_until(|| written.load(Ordering::Relaxed) == 3);
    std::thread::sleep(LONG);
    joining.store(true, Ordering::Relaxed);
    run(runtime);
    assert_eq!(read.load(Ordering::Relaxed), 20);
}
