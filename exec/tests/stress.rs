//! Random graphs with random capacities, quanta and workers, which grow while they run, while tasks are moved
//! between workers and settings are changed at random: the tests check that every message arrives once and in
//! order, and that all memory is given back at the end.
//!
//! This program does not use Rust's test harness, because it runs under ThreadSanitizer, which does not
//! understand the fences in the harness's channels. `cargo test -p thalweg-exec --test stress -- [SEEDS]
//! [FIRST_SEED]`; `-- race` is a race on purpose.
#![allow(clippy::print_stdout)]

#[path = "support/relay.rs"]
mod relay;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thalweg_chance::Chance;
use thalweg_exec::{
    Context, In, Inputs, Mapper, Options, Order, Out, Placement, Runtime, Stop, StreamSpec, Task, TaskId,
    TaskMover, TaskSpec, Workers,
};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Space, SpaceOptions};

use relay::Relay;

/// An allocator that counts the bytes which are allocated and not freed.
struct Counting;

static HELD: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn room(capacity: usize) -> StreamSpec {
    StreamSpec { capacity: Some(capacity), ..StreamSpec::default() }
}

/// Reads many inputs, writes many outputs, at random. A message is (source, number): along each path the
/// numbers of a source grow.
struct Node {
    inputs: Inputs<(u32, u64)>,
    outputs: Vec<Out<(u32, u64)>>,
    held: Option<((u32, u64), usize)>,
    random: Chance,
    /// How many relays the node may still put behind its outputs.
    relays: u32,
    /// Whether the node is now and then inside one dispatch for long.
    is_slow: bool,
}

impl Node {
    /// Puts a new task after a random output.
    fn grow(&mut self, cx: &mut Context<'_>) {
        if self.relays == 0 || self.random.below(100) != 0 {
            return;
        }
        self.relays -= 1;
        let at = self.random.below(self.outputs.len() as u64) as usize;
        let (output, input) = cx.stream(room(1 + self.random.below(20) as usize));
        let behind = std::mem::replace(&mut self.outputs[at], output);
        cx.spawn(TaskSpec::default(), Relay::new(input, behind));
    }
}

impl Task for Node {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            let (message, to) = match self.held.take() {
                Some(held) => held,
                None => {
                    let Some(index) = self.inputs.next_index(cx) else {
                        return if self.inputs.is_empty() { Stop::Ended } else { Stop::InputEmpty };
                    };
                    let input = self.inputs.get_mut(index).unwrap();
                    let Some(message) = input.pop(cx) else {
                        assert!(input.ended());
                        self.inputs.remove(cx, index);
                        continue;
                    };
                    // All messages of a source leave each node by the same output, so their order can be
                    // checked.
                    (message, message.0 as usize % self.outputs.len())
                }
            };
            if let Err(message) = self.outputs[to].push(cx, message) {
                self.held = Some((message, to));
                return Stop::OutputFull;
            }
            self.grow(cx);
            if self.is_slow && self.random.below(200) == 0 {
                let began = Instant::now();
                while began.elapsed() < Duration::from_micros(300) {
                    std::hint::spin_loop();
                }
            }
            if self.random.below(50) == 0 {
                return Stop::QuantumSpent;
            }
        }
        Stop::QuantumSpent
    }
}

fn space(seed: u64) -> Space {
    let parent = std::env::temp_dir();
    let name = format!("thalweg-stress-{seed}");
    Space::create(SpaceOptions { name, parent: Some(parent), ..SpaceOptions::default() }).unwrap()
}

/// The most workers of a graph, which are more than the machine may have processors.
const WORKERS_MAX: usize = 5;

/// Moves tasks, changes settings, adds and parks workers while a graph runs.
struct Disturber {
    mover: TaskMover,
    workers: Workers,
    space: Option<Space>,
    random: Chance,
}

impl Disturber {
    fn disturb(mut self, done: &AtomicBool, pause: Duration) {
        let reader = self.space.as_ref().map(|space| SpaceReader::open(space.path()).unwrap());
        while !done.load(Ordering::Relaxed) {
            let task = TaskId(1 + self.random.below(60));
            // An error is ignored, because the worker may be parked now, or the run may have ended.
            let _ = self.mover.move_task(
                task,
                Placement::on_worker(self.random.below(self.workers.count() as u64) as usize),
            );
            if self.random.below(4) == 0 {
                let _ = self.workers.set(1 + self.random.below(WORKERS_MAX as u64) as usize);
            }
            if let Some(reader) = &reader {
                let (name, limit) = [
                    ("monitor.mode", 3),
                    ("exec.quantum", 100),
                    ("exec.quantum_us", 300),
                    ("exec.spin_us", 50),
                    ("exec.steal", 2),
                    ("exec.steal_after_us", 50),
                    ("exec.capacity", 100),
                    ("exec.workers", WORKERS_MAX as u64 + 1),
                    ("exec.order", 2),
                    ("exec.unfinished", 40),
                ][self.random.below(10) as usize];
                let least =
                    u64::from(limit > 3 && name != "exec.unfinished" && name != "exec.steal_after_us");
                reader.set(name, self.random.below(limit - least) + least).unwrap();
            }
            std::thread::sleep(pause);
        }
    }
}

fn random_graph(seed: u64, messages: u64) {
    let mut random = Chance::new(seed);
    let workers = 1 + random.below(4) as usize;
    let space = (random.below(3) == 0).then(|| space(seed));
    let runtime = Runtime::new(Options {
        workers,
        workers_max: WORKERS_MAX,
        space: space.clone(),
        quantum: [1, 3, 64, 500][random.below(4) as usize],
        spin_us: [0, 30][random.below(2) as usize],
        mapper: [Mapper::default(), Mapper::RoundRobin, Mapper::LeastLoaded][random.below(3) as usize]
            .clone(),
        steal: random.below(2) == 0,
        steal_after_us: [0, 1, 1, 20, 1000][random.below(5) as usize],
        unfinished: [0, 0, 1, 7, 100][random.below(5) as usize],
        order: [Order::Fifo, Order::Demand][random.below(2) as usize],
        // With a space each thread would have an element of a megabyte.
        thread_per_task: space.is_none() && random.below(4) == 0,
        ..Options::default()
    })
    .unwrap();
    let is_slow = random.below(2) == 0;
    let layers = 1 + random.below(5) as usize;
    let sources = 1 + random.below(4) as u32;
    let mut edges: Vec<In<(u32, u64)>> = Vec::new();
    for source in 0..sources {
        let (mut output, input) = runtime.stream(room(1 + random.below(70) as usize));
        edges.push(input);
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            for number in 0..messages {
                task.admit();
                task.feed(&mut output, (source, number)).unwrap();
                if number % 97 == 0 {
                    task.flush();
                }
            }
        });
    }
    for _ in 0..layers {
        let nodes = 1 + random.below(5) as usize;
        let mut inputs: Vec<Inputs<_>> = (0..nodes).map(|_| Inputs::new()).collect();
        for edge in edges.drain(..) {
            inputs[random.below(nodes as u64) as usize].add(edge);
        }
        for inputs in inputs {
            let mut outputs = Vec::new();
            for _ in 0..1 + random.below(3) {
                let (output, input) = runtime.stream(room(1 + random.below(70) as usize));
                outputs.push(output);
                edges.push(input);
            }
            let random = Chance::new(random.next());
            let node = Node { inputs, outputs, held: None, random, relays: 8, is_slow };
            runtime.spawn(TaskSpec::default(), node);
        }
    }
    struct End {
        inputs: Inputs<(u32, u64)>,
        next: Vec<u64>,
        total: Arc<AtomicU64>,
    }
    impl Task for End {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            while let Some(index) = self.inputs.next_index(cx) {
                let input = self.inputs.get_mut(index).unwrap();
                while let Some((source, number)) = input.pop(cx) {
                    assert_eq!(number, self.next[source as usize], "order of source {source}");
                    self.next[source as usize] += 1;
                    self.total.fetch_add(1, Ordering::Relaxed);
                }
                if input.ended() {
                    self.inputs.remove(cx, index);
                }
            }
            if self.inputs.is_empty() { Stop::Ended } else { Stop::InputEmpty }
        }
    }
    let mut inputs = Inputs::new();
    for edge in edges {
        inputs.add(edge);
    }
    let total = Arc::new(AtomicU64::new(0));
    runtime.spawn(TaskSpec::default(), End { inputs, next: vec![0; sources as usize], total: total.clone() });
    let pause = [None, Some(30), Some(300)][random.below(3) as usize];
    let done = AtomicBool::new(false);
    let summary = std::thread::scope(|scope| {
        runtime.start();
        let disturbing = pause.map(|pause| {
            let (mover, workers) = (runtime.mover(), runtime.workers());
            let disturber = Disturber { mover, workers, space: space.clone(), random };
            let (done, pause) = (&done, Duration::from_micros(pause));
            scope.spawn(move || disturber.disturb(done, pause))
        });
        let summary = runtime.join();
        done.store(true, Ordering::Relaxed);
        // The thread is joined, because the scope would wait only for its work and not for its memory.
        if let Some(thread) = disturbing {
            thread.join().unwrap();
        }
        summary.unwrap()
    });
    if let Some(space) = space {
        std::fs::remove_dir_all(space.path()).unwrap();
    }
    assert_eq!(summary.failures, [], "seed {seed}");
    assert_eq!(total.load(Ordering::Relaxed), u64::from(sources) * messages, "seed {seed}");
}

/// Tasks that create tasks: each message is passed on by a new task, which passes the end of a stream to the
/// next one.
fn unfolding(workers: usize, messages: u64) {
    struct Unfold {
        left: u64,
        inputs: Inputs<u64>,
        sum: Arc<AtomicU64>,
    }
    struct Once(In<u64>, Out<u64>);
    impl Task for Once {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            match self.0.pop(cx) {
                Some(message) => {
                    self.1.push(cx, message).unwrap();
                    Stop::Ended
                }
                None => Stop::InputEmpty,
            }
        }
    }
    impl Task for Unfold {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            for _ in 0..cx.quantum() {
                if self.left > 0 && self.inputs.len() < 50 {
                    let (mut to, input) = cx.stream(room(2));
                    let (output, from) = cx.stream(room(2));
                    to.push(cx, self.left).unwrap();
                    self.left -= 1;
                    cx.spawn(TaskSpec::default(), Once(input, output));
                    self.inputs.add_running(cx, from);
                }
                let Some(index) = self.inputs.next_index(cx) else {
                    let wait = self.left == 0 || self.inputs.len() == 50;
                    return match (wait, self.inputs.is_empty()) {
                        (true, true) => Stop::Ended,
                        (true, false) => Stop::InputEmpty,
                        (false, _) => Stop::QuantumSpent,
                    };
                };
                let input = self.inputs.get_mut(index).unwrap();
                match input.pop(cx) {
                    Some(message) => {
                        self.sum.fetch_add(message, Ordering::Relaxed);
                    }
                    None if input.ended() => drop(self.inputs.remove(cx, index)),
                    None => {}
                }
            }
            Stop::QuantumSpent
        }
    }
    let runtime = Runtime::new(Options { workers, ..Options::default() }).unwrap();
    let sum = Arc::new(AtomicU64::new(0));
    runtime.spawn(TaskSpec::default(), Unfold { left: messages, inputs: Inputs::new(), sum: sum.clone() });
    assert_eq!(runtime.join().unwrap().failures, []);
    assert_eq!(sum.load(Ordering::Relaxed), messages * (messages + 1) / 2);
}

/// Streams with ends that travel through another stream to a task of another worker.
fn travelling_ends(workers: usize, ends: u64) {
    struct Post(Out<(Out<u64>, In<u64>)>, u64);
    impl Task for Post {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            if self.1 == 0 {
                return Stop::Ended;
            }
            if self.0.room(cx) == 0 {
                return Stop::OutputFull;
            }
            let (mut output, input) = cx.stream(room(4));
            output.push(cx, self.1).unwrap();
            let _ = self.0.push(cx, (output, input));
            self.1 -= 1;
            Stop::QuantumSpent
        }
    }
    struct Receive(In<(Out<u64>, In<u64>)>, Option<(Out<u64>, In<u64>)>, Arc<AtomicU64>);
    impl Task for Receive {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            let Some((output, input)) = &mut self.1 else {
                self.1 = self.0.pop(cx);
                return match (&self.1, self.0.ended()) {
                    (None, true) => Stop::Ended,
                    (None, false) => Stop::InputEmpty,
                    (Some(_), _) => Stop::QuantumSpent,
                };
            };
            let Some(message) = input.pop(cx) else { return Stop::InputEmpty };
            self.2.fetch_add(message, Ordering::Relaxed);
            assert!(output.push(cx, 0).is_ok());
            self.1 = None;
            Stop::QuantumSpent
        }
    }
    let runtime =
        Runtime::new(Options { workers, mapper: Mapper::RoundRobin, ..Options::default() }).unwrap();
    let sum = Arc::new(AtomicU64::new(0));
    let (output, input) = runtime.stream(room(3));
    runtime.spawn(TaskSpec::default(), Post(output, ends));
    runtime.spawn(TaskSpec::default(), Receive(input, None, sum.clone()));
    assert_eq!(runtime.join().unwrap().failures, []);
    assert_eq!(sum.load(Ordering::Relaxed), ends * (ends + 1) / 2);
}

/// A task that ends in its first dispatch after a request has moved it, so that the worker which gave it away
/// must not use it any more. Nothing else happens in the run that would order what the two workers do.
fn ends_once_moved() {
    struct UntilMoved(Arc<AtomicBool>);
    impl Task for UntilMoved {
        fn run(&mut self, _: &mut Context<'_>) -> Stop {
            if std::thread::current().name() != Some("thalweg-1") {
                return Stop::QuantumSpent;
            }
            self.0.store(true, Ordering::Relaxed);
            Stop::Ended
        }
    }
    /// Keeps its worker awake.
    struct Until(Arc<AtomicBool>);
    impl Task for Until {
        fn run(&mut self, _: &mut Context<'_>) -> Stop {
            if self.0.load(Ordering::Relaxed) { Stop::Ended } else { Stop::QuantumSpent }
        }
    }
    let runtime = Runtime::new(Options { workers: 2, steal: false, ..Options::default() }).unwrap();
    let on = |worker| TaskSpec { place: Placement::on_worker(worker), ..TaskSpec::default() };
    let moved = Arc::new(AtomicBool::new(false));
    let task = runtime.spawn(on(0), UntilMoved(moved.clone()));
    runtime.spawn(on(1), Until(moved));
    runtime.start();
    drop(runtime.mover().move_task(task, Placement::on_worker(1)).unwrap());
    assert_eq!(runtime.join().unwrap().failures, []);
}

/// A writer that fills its stream's block, looks for more room, and ends without using it.
fn unused_room() {
    struct Write(Out<u64>, u64);
    impl Task for Write {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            (0..self.1).for_each(|number| self.0.push(cx, number).unwrap());
            assert!(self.0.room(cx) > 0);
            Stop::Ended
        }
    }
    for messages in 0..70 {
        let runtime = Runtime::new(Options::default()).unwrap();
        let (output, mut input) = runtime.stream(room(100));
        runtime.spawn(TaskSpec::default(), Write(output, messages));
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            assert_eq!(std::iter::from_fn(|| task.pop(&mut input)).count() as u64, messages);
        });
        assert_eq!(runtime.join().unwrap().failures, []);
    }
}

/// Opens more memory maps at once than any run of these tests does. `space` keeps an entry for each map as
/// long as the process lives, and reuses entries. After this call no run makes new entries, so the memory of
/// a run does not depend on how many maps happen to be open at once.
fn open_many_maps() {
    let space = space(0);
    let writers: Vec<_> = (0..24).map(|number| space.writer(&format!("writer {number}")).unwrap()).collect();
    drop(writers);
    std::fs::remove_dir_all(space.path()).unwrap();
}

/// Runs `work` and checks that `work` freed all memory that it allocated.
fn gives_all_back(what: &str, work: impl FnOnce()) {
    let before = HELD.load(Ordering::Relaxed);
    work();
    let left = HELD.load(Ordering::Relaxed) - before;
    assert_eq!(left, 0, "bytes that were not given back: {what}");
    assert_eq!(thalweg_exec::region_bytes(), 0, "slabs that were not given back: {what}");
}

/// Makes a data race that ThreadSanitizer has to find, which shows that it would find real races.
fn race_on_purpose() {
    struct Shared(std::cell::UnsafeCell<u64>);
    // SAFETY: this is unsound on purpose: two threads write to it, and nothing depends on the result.
    unsafe impl Sync for Shared {}
    let shared = Arc::new(Shared(std::cell::UnsafeCell::new(0)));
    let write = |shared: Arc<Shared>| {
        // SAFETY: this is unsound on purpose, so that ThreadSanitizer has a race to find.
        std::thread::spawn(move || (0..1000).for_each(|_| unsafe { *shared.0.get() += 1 }))
    };
    let threads = [write(shared.clone()), write(shared)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("race") {
        return race_on_purpose();
    }
    // `cargo test NAME` passes a filter, and other options of its harness, so only numbers are read.
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let seeds = numbers.next().unwrap_or(60);
    let first = numbers.next().unwrap_or(1);
    // State that is made once in a process is made now, so that it does not count as memory of the first run.
    open_many_maps();
    (1..=20).for_each(|seed| random_graph(seed, 200));
    for seed in first..first + seeds {
        gives_all_back(&format!("seed {seed}"), || random_graph(seed, 2000));
    }
    gives_all_back("unused room", unused_room);
    for _ in 0..200 {
        gives_all_back("a task that ends once moved", ends_once_moved);
    }
    for workers in 1..=3 {
        gives_all_back("unfolding", || unfolding(workers, 3000));
        gives_all_back("travelling ends", || travelling_ends(workers, 2000));
    }
    println!("test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
