//! Tests of the runtime's interface: chains, tasks with many inputs or outputs, ends of streams, failures,
//! tasks made during the run, blocking tasks, random graphs.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use thalweg_exec::{
    Blocking, Context, In, Inputs, Mapper, Options, Out, Placement, Ports, Runtime, Stop, StreamSpec, Task,
    TaskId, TaskSpec,
};

mod map;

use map::Map;

/// A time longer than any move takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn runtime(workers: usize) -> Runtime {
    Runtime::new(Options { workers, ..Options::default() }).unwrap()
}

fn room(capacity: usize) -> StreamSpec {
    StreamSpec { capacity: Some(capacity), ..StreamSpec::default() }
}

/// Writes 0, 1, … `count` − 1.
struct Source {
    output: Out<u64>,
    next: u64,
    count: u64,
}

impl Task for Source {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.output);
    }
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
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

/// Calls a function for each message.
struct Sink<F> {
    input: In<u64>,
    take: F,
}

impl<F: FnMut(u64) + Send + 'static> Task for Sink<F> {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            match self.input.pop(cx) {
                Some(message) => (self.take)(message),
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// Moves messages from its input to its output, up to a given number at once.
struct Mover {
    input: In<u64>,
    output: Out<u64>,
    at_once: usize,
}

impl Task for Mover {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if self.output.room(cx) == 0 {
            return Stop::OutputFull;
        }
        match self.input.transfer(cx, self.at_once, &mut self.output) {
            0 if self.input.ended() => Stop::Ended,
            0 => Stop::InputEmpty,
            _ => Stop::QuantumSpent,
        }
    }
}

#[test]
fn messages_move_on_together() {
    const MESSAGES: u64 = 2_000;
    for workers in [1, 2] {
        for (before, at_once, behind) in [(1, 1, 1), (1, 9, 64), (7, 3, 5), (64, 64, 3), (5, 100, 8)] {
            let runtime = runtime(workers);
            let (output, input) = runtime.stream(room(before));
            runtime.spawn(TaskSpec::default(), Source { output, next: 0, count: MESSAGES });
            let (output, last) = runtime.stream(room(behind));
            runtime.spawn(TaskSpec::default(), Mover { input, output, at_once });
            let (told, moved) = mpsc::channel();
            let take = move |message| told.send(message).unwrap();
            runtime.spawn(TaskSpec::default(), Sink { input: last, take });
            assert_eq!(runtime.join().unwrap().failures, []);
            assert!(moved.iter().eq(0..MESSAGES), "{workers} workers, {before}, {at_once}, {behind}");
        }
    }
}

#[test]
fn messages_that_move_on_without_a_reader_are_dropped() {
    let runtime = runtime(1);
    let (output, input) = runtime.stream(room(4));
    runtime.spawn(TaskSpec::default(), Source { output, next: 0, count: 100 });
    let (output, last) = runtime.stream(room(4));
    drop(last);
    runtime.spawn(TaskSpec::default(), Mover { input, output, at_once: 3 });
    assert_eq!(runtime.join().unwrap().failures, []);
}

/// Reads many inputs.
struct Collect<F> {
    inputs: Inputs<u64>,
    take: F,
}

impl<F: FnMut(u64) + Send + 'static> Task for Collect<F> {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.inputs(&mut self.inputs);
    }
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            let Some(index) = self.inputs.next_index(cx) else {
                return if self.inputs.is_empty() { Stop::Ended } else { Stop::InputEmpty };
            };
            let input = self.inputs.get_mut(index).unwrap();
            match input.pop(cx) {
                Some(message) => (self.take)(message),
                None if input.ended() => drop(self.inputs.remove(cx, index)),
                None => {}
            }
        }
        Stop::QuantumSpent
    }
}

/// Distributes messages to many outputs.
struct Deal {
    input: In<u64>,
    outputs: Vec<Out<u64>>,
    held: Option<u64>,
}

impl Task for Deal {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            let Some(message) = self.held.take().or_else(|| self.input.pop(cx)) else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            let count = self.outputs.len();
            if let Err(back) = self.outputs[message as usize % count].push(cx, message) {
                self.held = Some(back);
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

fn chain(workers: usize, length: usize, messages: u64, capacity: usize) {
    let runtime = runtime(workers);
    let (output, mut input) = runtime.stream(room(capacity));
    runtime.spawn(TaskSpec::default(), Source { output, next: 0, count: messages });
    for _ in 0..length {
        let (output, next) = runtime.stream(room(capacity));
        runtime.spawn(TaskSpec::default(), Map { input, output, apply: |message| message + 1 });
        input = next;
    }
    let seen = Arc::new(AtomicU64::new(0));
    let counted = seen.clone();
    let take = move |message| {
        assert_eq!(message, counted.fetch_add(1, Ordering::Relaxed) + length as u64);
    };
    runtime.spawn(TaskSpec::default(), Sink { input, take });
    let summary = runtime.join().unwrap();
    assert_eq!(summary.failures, []);
    assert_eq!(summary.tasks, length as u64 + 2);
    assert_eq!(seen.load(Ordering::Relaxed), messages);
}

#[test]
fn chains_keep_order_and_lose_nothing() {
    for workers in 1..=3 {
        for (length, capacity) in [(0, 1), (1, 1), (5, 3), (40, 64)] {
            chain(workers, length, 3000, capacity);
        }
    }
}

/// A task with messages that take long leaves half of a full stream, because the stream's writer would have
/// to wait if the task read all messages at once.
#[test]
fn a_long_dispatch_leaves_half_of_its_stream() {
    let runtime = runtime(1);
    let (output, input) = runtime.stream(room(20));
    runtime.spawn(TaskSpec::default(), Source { output, next: 0, count: 1000 });
    struct Slow(In<u64>, Arc<AtomicU64>);
    impl Task for Slow {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            self.1.store(cx.quantum() as u64, Ordering::Relaxed);
            for _ in 0..cx.quantum() {
                let begin = std::time::Instant::now();
                if self.0.pop(cx).is_none() {
                    return if self.0.ended() { Stop::Ended } else { Stop::InputEmpty };
                }
                while begin.elapsed() < Duration::from_micros(2) {}
            }
            Stop::QuantumSpent
        }
    }
    let last = Arc::new(AtomicU64::new(0));
    runtime.spawn(TaskSpec::default(), Slow(input, last.clone()));
    assert_eq!(runtime.join().unwrap().failures, []);
    assert!((1..=10).contains(&last.load(Ordering::Relaxed)), "{last:?} of 20");
}

#[test]
fn fan_out_and_fan_in_conserve_messages() {
    for workers in 1..=3 {
        let runtime = runtime(workers);
        let (output, input) = runtime.stream(room(16));
        runtime.spawn(TaskSpec::default(), Source { output, next: 0, count: 20_000 });
        let mut outputs = Vec::new();
        let mut inputs = Inputs::new();
        for _ in 0..50 {
            let (to, input) = runtime.stream(room(4));
            let (output, from) = runtime.stream(room(4));
            outputs.push(to);
            inputs.add(from);
            runtime.spawn(TaskSpec::default(), Map { input, output, apply: |message| message });
        }
        runtime.spawn(TaskSpec::default(), Deal { input, outputs, held: None });
        let seen = Arc::new(Mutex::new(vec![0_u8; 20_000]));
        let marks = seen.clone();
        let take = move |message: u64| marks.lock().unwrap()[message as usize] += 1;
        runtime.spawn(TaskSpec::default(), Collect { inputs, take });
        assert_eq!(runtime.join().unwrap().failures, []);
        assert!(seen.lock().unwrap().iter().all(|&count| count == 1));
    }
}

#[test]
fn room_is_never_exceeded() {
    struct Watch {
        input: In<u64>,
        most: Arc<AtomicUsize>,
    }
    impl Task for Watch {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            self.most.fetch_max(self.input.len(), Ordering::Relaxed);
            match self.input.pop(cx) {
                Some(_) => Stop::QuantumSpent,
                None if self.input.ended() => Stop::Ended,
                None => Stop::InputEmpty,
            }
        }
    }
    for workers in [1, 2] {
        for capacity in [1, 3, 5, 64] {
            let runtime = runtime(workers);
            let (output, input) = runtime.stream(room(capacity));
            let most = Arc::new(AtomicUsize::new(0));
            runtime.spawn(TaskSpec::default(), Source { output, next: 0, count: 2000 });
            runtime.spawn(TaskSpec::default(), Watch { input, most: most.clone() });
            assert_eq!(runtime.join().unwrap().failures, []);
            assert!((1..=capacity).contains(&most.load(Ordering::Relaxed)));
        }
    }
}

#[test]
fn a_full_output_gives_the_message_back() {
    struct Fill {
        output: Out<String>,
        refused: mpsc::Sender<(usize, String)>,
    }
    impl Task for Fill {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            let mut pushed = 0;
            loop {
                match self.output.push(cx, format!("message {pushed}")) {
                    Ok(()) => pushed += 1,
                    Err(back) => {
                        self.refused.send((pushed, back)).unwrap();
                        return Stop::Ended;
                    }
                }
            }
        }
    }
    let runtime = runtime(1);
    let (output, _input) = runtime.stream(room(5));
    let (refused, told) = mpsc::channel();
    runtime.spawn(TaskSpec::default(), Fill { output, refused });
    runtime.join().unwrap();
    assert_eq!(told.recv().unwrap(), (5, "message 5".to_owned()));
}

#[test]
fn a_panic_ends_one_task_and_its_streams() {
    let runtime = runtime(2);
    let (output, input) = runtime.stream(room(8));
    let (mapped, end) = runtime.stream(room(8));
    runtime.spawn(TaskSpec::default(), Source { output, next: 0, count: 1000 });
    let apply = |message| if message == 500 { panic!("message {message} is bad") } else { message };
    let bad = runtime.spawn(TaskSpec::default(), Map { input, output: mapped, apply });
    let seen = Arc::new(AtomicU64::new(0));
    let counted = seen.clone();
    let take = move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    runtime.spawn(TaskSpec::default(), Sink { input: end, take });
    let summary = runtime.join().unwrap();
    assert_eq!((summary.tasks, summary.failed), (3, 1));
    assert_eq!((summary.failures[0].task, summary.failures[0].panicked), (bad, true));
    assert_eq!(summary.failures[0].message, "message 500 is bad");
    assert_eq!(seen.load(Ordering::Relaxed), 500, "what came before the panic is delivered");
}

#[test]
fn a_task_that_waits_for_nothing_fails_with_a_reason() {
    struct Lost;
    impl Task for Lost {
        fn run(&mut self, _: &mut Context<'_>) -> Stop {
            Stop::InputEmpty
        }
    }
    let runtime = runtime(1);
    runtime.spawn(TaskSpec::default(), Lost);
    let summary = runtime.join().unwrap();
    assert!(summary.failures[0].message.contains("empty input"), "{summary:?}");
    assert!(!summary.failures[0].panicked);
}

#[test]
fn a_task_that_fails_so_closes_its_streams() {
    /// A task that returns that its output is full although it is not, or waits for an input that has ended.
    struct Wrong(In<u64>, Out<u64>, Stop);
    impl Task for Wrong {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            let _ = (self.0.pop(cx), self.1.push(cx, 1));
            self.2
        }
    }
    for stop in [Stop::OutputFull, Stop::InputEmpty] {
        let runtime = runtime(1);
        let (_, input) = runtime.stream(room(4));
        let (output, end) = runtime.stream(room(4));
        runtime.spawn(TaskSpec::default(), Wrong(input, output, stop));
        runtime.spawn(TaskSpec::default(), Sink { input: end, take: |_| {} });
        let summary = runtime.join().unwrap();
        assert_eq!((summary.tasks, summary.failed), (2, 1), "{stop:?}");
    }
}

/// Joins a runtime; panics when the run takes too long.
fn join_in_time(runtime: Runtime) {
    let (done, joined) = mpsc::channel();
    std::thread::spawn(move || done.send(runtime.join().unwrap()));
    let summary = joined.recv_timeout(PATIENCE).expect("the runtime ends");
    assert_eq!(summary.failures, []);
}

#[test]
fn a_task_that_closes_what_it_reads_itself_sees_the_end() {
    struct Own(Option<Out<u64>>, In<u64>);
    impl Task for Own {
        fn attach(&mut self, ports: &mut Ports<'_>) {
            ports.output(self.0.as_mut().unwrap());
            ports.input(&mut self.1);
        }
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            assert_eq!(self.1.pop(cx), None);
            if self.1.ended() {
                return Stop::Ended;
            }
            self.0 = None;
            Stop::InputEmpty
        }
    }
    struct OwnPort(Option<Out<u64>>, Inputs<u64>);
    impl Task for OwnPort {
        fn attach(&mut self, ports: &mut Ports<'_>) {
            ports.output(self.0.as_mut().unwrap());
            ports.inputs(&mut self.1);
        }
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            if self.1.remove_ended(cx) == 1 {
                return Stop::Ended;
            }
            self.0 = None;
            Stop::InputEmpty
        }
    }
    let runtime = runtime(1);
    let (output, input) = runtime.stream(room(1));
    runtime.spawn(TaskSpec::default(), Own(Some(output), input));
    let (output, input) = runtime.stream(room(1));
    let mut inputs = Inputs::new();
    inputs.add(input);
    runtime.spawn(TaskSpec::default(), OwnPort(Some(output), inputs));
    join_in_time(runtime);
}

#[test]
fn pushes_without_reader_succeed() {
    let runtime = runtime(1);
    let (output, input) = runtime.stream(room(4));
    drop(input);
    runtime.spawn(TaskSpec::default(), Source { output, next: 0, count: 1000 });
    assert_eq!(runtime.join().unwrap().failures, []);
}

/// A value that adds 1 to a counter when it is dropped.
struct Token(Arc<AtomicU64>);

impl Token {
    fn new(live: &Arc<AtomicU64>) -> Token {
        live.fetch_add(1, Ordering::Relaxed);
        Token(live.clone())
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_hundred_thousand_tasks_come_and_go() {
    /// Creates a task for each message, with a stream to and a stream from it.
    struct Unfold {
        left: u64,
        inputs: Inputs<u64>,
        sum: Arc<AtomicU64>,
        live: Arc<AtomicU64>,
    }
    struct Once {
        input: In<u64>,
        output: Out<u64>,
        _token: Token,
    }
    impl Task for Once {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            match self.input.pop(cx) {
                Some(message) => {
                    self.output.push(cx, message).unwrap();
                    Stop::Ended
                }
                None => Stop::InputEmpty,
            }
        }
    }
    impl Task for Unfold {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            for _ in 0..cx.quantum() {
                if self.left > 0 && self.inputs.len() < 1000 {
                    let (mut to, input) = cx.stream(room(2));
                    let (output, from) = cx.stream(room(2));
                    to.push(cx, self.left).unwrap();
                    self.left -= 1;
                    cx.spawn(TaskSpec::default(), Once { input, output, _token: Token::new(&self.live) });
                    self.inputs.add_running(cx, from);
                }
                while let Some(index) = self.inputs.next_index(cx) {
                    let input = self.inputs.get_mut(index).unwrap();
                    if let Some(message) = input.pop(cx) {
                        self.sum.fetch_add(message, Ordering::Relaxed);
                    } else if input.ended() {
                        self.inputs.remove(cx, index);
                    }
                }
                if self.left == 0 {
                    return if self.inputs.is_empty() { Stop::Ended } else { Stop::InputEmpty };
                }
                if self.inputs.len() == 1000 {
                    return Stop::InputEmpty;
                }
            }
            Stop::QuantumSpent
        }
    }
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let (sum, live) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let unfold = Unfold { left: 100_000, inputs: Inputs::new(), sum: sum.clone(), live: live.clone() };
        runtime.spawn(TaskSpec::default(), unfold);
        let summary = runtime.join().unwrap();
        assert_eq!(summary.failures, []);
        assert_eq!(summary.tasks, 100_001);
        assert_eq!(sum.load(Ordering::Relaxed), 100_000 * 100_001 / 2);
        assert_eq!(live.load(Ordering::Relaxed), 0, "every task was dropped");
    }
}

#[test]
fn dynamic_tasks_stay_in_blocks_of_eight() {
    /// A replica of a star, which creates the next one.
    struct Replica {
        number: usize,
        places: Arc<Mutex<Vec<String>>>,
    }
    impl Task for Replica {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            self.places.lock().unwrap().push(std::thread::current().name().unwrap().to_owned());
            if self.number < 16 {
                let next = Replica { number: self.number + 1, places: self.places.clone() };
                cx.spawn(TaskSpec::default(), next);
            }
            Stop::Ended
        }
    }
    let runtime = runtime(2);
    let places = Arc::new(Mutex::new(Vec::new()));
    runtime.spawn(
        TaskSpec { place: Placement::on_worker(0), ..TaskSpec::default() },
        Replica { number: 0, places: places.clone() },
    );
    runtime.join().unwrap();
    let places = places.lock().unwrap();
    assert_eq!(places[1..9], ["thalweg-0"; 8]);
    assert_eq!(places[9..], ["thalweg-1"; 8]);
}

#[test]
fn the_users_mapper_decides() {
    let mapper = Mapper::User(Arc::new(|spec: &TaskSpec| spec.replica as usize));
    let runtime = Runtime::new(Options { workers: 3, mapper, ..Options::default() }).unwrap();
    let (told, names) = mpsc::channel();
    for replica in 0..6 {
        struct Say(mpsc::Sender<(u64, String)>, u64);
        impl Task for Say {
            fn run(&mut self, _: &mut Context<'_>) -> Stop {
                self.0.send((self.1, std::thread::current().name().unwrap().to_owned())).unwrap();
                Stop::Ended
            }
        }
        runtime.spawn(TaskSpec { replica, ..TaskSpec::default() }, Say(told.clone(), replica));
    }
    drop(told);
    runtime.join().unwrap();
    for (replica, name) in names {
        assert_eq!(name, format!("thalweg-{}", replica % 3));
    }
}

#[test]
fn blocking_tasks_feed_and_drain() {
    for workers in [1, 2] {
        for capacity in [1, 64] {
            let runtime = runtime(workers);
            let (mut output, input) = runtime.stream(room(capacity));
            let (mapped, mut end) = runtime.stream(room(capacity));
            runtime.spawn(TaskSpec::default(), Map { input, output: mapped, apply: |message| message });
            runtime.spawn_blocking(TaskSpec::default(), move |task| {
                for message in 0..10_000 {
                    if message % 2 == 0 {
                        task.push(&mut output, message).unwrap();
                    } else {
                        task.feed(&mut output, message).unwrap();
                    }
                }
            });
            let (told, result) = mpsc::channel();
            runtime.spawn_blocking(TaskSpec::default(), move |task| {
                let mut next = 0;
                while let Some(message) = task.pop(&mut end) {
                    assert_eq!(message, next);
                    next += 1;
                }
                told.send(next).unwrap();
            });
            assert_eq!(runtime.join().unwrap().failures, []);
            assert_eq!(result.recv().unwrap(), 10_000);
        }
    }
}

#[test]
fn two_tasks_in_a_loop_leave_the_others_their_turn() {
    /// Passes messages on until it is asked to stop.
    struct Round {
        input: In<u64>,
        output: Out<u64>,
        stop: Arc<AtomicBool>,
    }
    impl Task for Round {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            while let Some(message) = self.input.pop(cx) {
                self.output.push(cx, message).unwrap();
            }
            let over = self.input.ended() || self.stop.load(Ordering::Relaxed);
            if over { Stop::Ended } else { Stop::InputEmpty }
        }
    }
    let runtime = runtime(1);
    let stop = Arc::new(AtomicBool::new(false));
    let (first_out, first_in) = runtime.stream(room(4));
    let (mut second_out, second_in) = runtime.stream(room(4));
    let (mut start, last_in) = runtime.stream(room(4));
    runtime.start();
    let begin = stop.clone();
    runtime.spawn_blocking(TaskSpec::default(), move |task: &mut Blocking| {
        second_out.push(task.context(), 1).unwrap();
        let cx = task.context();
        cx.spawn(TaskSpec::default(), Round { input: first_in, output: second_out, stop: begin.clone() });
        cx.spawn(TaskSpec::default(), Round { input: second_in, output: first_out, stop: begin });
        task.push(&mut start, 1).unwrap();
    });
    let take = move |_| stop.store(true, Ordering::Relaxed);
    runtime.spawn(TaskSpec::default(), Sink { input: last_in, take });
    assert_eq!(runtime.join().unwrap().failures, []);
}

#[test]
fn a_push_is_seen_although_its_task_then_sleeps() {
    let runtime = runtime(1);
    let (mut output, input) = runtime.stream(room(64));
    let (told, seen) = mpsc::channel();
    let take = move |message| told.send(message).unwrap();
    runtime.spawn(TaskSpec::default(), Sink { input, take });
    runtime.start();
    runtime.spawn_blocking(TaskSpec::default(), move |task: &mut Blocking| {
        for message in 0..100 {
            task.push(&mut output, message).unwrap();
            assert_eq!(seen.recv_timeout(Duration::from_secs(20)), Ok(message));
        }
    });
    assert_eq!(runtime.join().unwrap().failures, []);
}

#[test]
fn a_blocking_task_merges_inputs_and_does_other_work_meanwhile() {
    let runtime = runtime(2);
    let count = 10_000_u64;
    let mut inputs = Inputs::new();
    for source in 0..3 {
        let (mut out, input) = runtime.stream(StreamSpec::default());
        inputs.add(input);
        runtime.spawn_blocking(TaskSpec::default(), move |task: &mut Blocking| {
            for n in 0..count {
                if n % 1000 == source * 300 {
                    task.aside(std::thread::yield_now);
                }
                task.push(&mut out, source * count + n).expect("the reader lives");
            }
        });
    }
    let (sender, taken) = mpsc::channel();
    runtime.spawn_blocking_attached(TaskSpec::default(), move |ports| {
        ports.inputs(&mut inputs);
        move |task: &mut Blocking| {
            while !inputs.is_empty() {
                let Some(index) = inputs.next_index(task.context()) else {
                    task.wait_for_input(Duration::from_millis(20));
                    continue;
                };
                let input = inputs.get_mut(index).expect("it was offered");
                match task.try_pop(input) {
                    Some(n) => sender.send(n).expect("the test listens"),
                    None if input.ended() => drop(inputs.remove(task.context(), index)),
                    None => {}
                }
            }
        }
    });
    runtime.join().expect("all end");
    let mut next = [0; 3];
    for n in taken {
        let source = (n / count) as usize;
        assert_eq!(n % count, next[source], "each input keeps its order");
        next[source] += 1;
    }
    assert_eq!(next, [count; 3]);
}

/// Gives each message to a new blocking task.
struct Hands {
    input: In<u64>,
    sender: mpsc::Sender<u64>,
}

impl Task for Hands {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        while let Some(n) = self.input.pop(cx) {
            let (mut out, mut input) = cx.stream(room(1));
            let sender = self.sender.clone();
            cx.spawn_blocking(TaskSpec::default(), move |task: &mut Blocking| {
                let n = task.pop(&mut input).expect("a message comes");
                sender.send(n).expect("the test listens");
            });
            assert!(out.push(cx, n).is_ok(), "there is room");
        }
        if self.input.ended() { Stop::Ended } else { Stop::InputEmpty }
    }
}

#[test]
fn a_task_that_runs_creates_blocking_tasks() {
    let runtime = runtime(1);
    let (output, input) = runtime.stream(StreamSpec::default());
    runtime.spawn(TaskSpec::default(), Source { output, next: 0, count: 50 });
    let (sender, taken) = mpsc::channel();
    runtime.spawn(TaskSpec::default(), Hands { input, sender });
    assert_eq!(runtime.join().expect("all end").failed, 0);
    let mut all: Vec<u64> = taken.iter().collect();
    all.sort_unstable();
    assert_eq!(all, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_wait_for_input_ends_in_time() {
    let runtime = runtime(1);
    let (out, mut input) = runtime.stream::<u64>(StreamSpec::default());
    let (sender, waited) = mpsc::channel();
    runtime.spawn_blocking(TaskSpec::default(), move |task: &mut Blocking| {
        assert_eq!(task.try_pop(&mut input), None);
        task.wait_for_input(Duration::from_millis(1));
        sender.send(()).expect("the test listens");
        assert_eq!(task.pop(&mut input), None);
    });
    waited.recv().expect("it does not wait for a message");
    drop(out);
    runtime.join().expect("all end");
}

#[test]
fn a_blocking_task_learns_that_its_reader_left() {
    let runtime = runtime(1);
    let (mut output, input) = runtime.stream(room(4));
    struct TakeOne(In<u64>);
    impl Task for TakeOne {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            if self.0.pop(cx).is_some() { Stop::Ended } else { Stop::InputEmpty }
        }
    }
    runtime.spawn(TaskSpec::default(), TakeOne(input));
    let refused = Arc::new(AtomicBool::new(false));
    let told = refused.clone();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        while task.push(&mut output, 1).is_ok() {}
        told.store(true, Ordering::Relaxed);
    });
    assert_eq!(runtime.join().unwrap().failures, []);
    assert!(refused.load(Ordering::Relaxed));
}

#[test]
fn an_abort_drops_everything() {
    struct Hold {
        _input: In<Token>,
        _token: Token,
        _output: Out<Token>,
        first: bool,
        live: Arc<AtomicU64>,
    }
    impl Task for Hold {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            if std::mem::take(&mut self.first) {
                let token = Token::new(&self.live);
                assert!(self._output.push(cx, token).is_ok());
            }
            self._input.pop(cx);
            Stop::InputEmpty
        }
    }
    for workers in [1, 2] {
        let live = Arc::new(AtomicU64::new(0));
        let runtime = runtime(workers);
        for _ in 0..100 {
            // Two tasks in a ring pass a message to each other for ever.
            let (a_out, a_in) = runtime.stream(room(4));
            let (b_out, b_in) = runtime.stream(room(4));
            for (input, output) in [(a_in, b_out), (b_in, a_out)] {
                let token = Token::new(&live);
                let hold =
                    Hold { _input: input, _output: output, _token: token, first: true, live: live.clone() };
                runtime.spawn(TaskSpec::default(), hold);
            }
        }
        let stopped = Arc::new(AtomicBool::new(false));
        let told = stopped.clone();
        runtime.start();
        let (_never, mut nothing) = runtime.stream::<u64>(room(1));
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            assert_eq!(task.pop(&mut nothing), None);
            told.store(task.stopping(), Ordering::Relaxed);
        });
        runtime.abort();
        assert!(runtime.join().unwrap().aborted);
        assert!(stopped.load(Ordering::Relaxed), "an abort wakes blocking tasks");
        assert_eq!(live.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn an_idle_runtime_uses_no_processor_time() {
    fn used() -> Duration {
        // SAFETY: the struct is plain data, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
            usage
        };
        Duration::from_secs(usage.ru_utime.tv_sec as u64)
            + Duration::from_micros(usage.ru_utime.tv_usec as u64)
    }
    // Reports how much processor time its thread has used; the test asks this task, which runs on the only
    // worker, twice with a pause in between.
    struct Meter(In<u64>, mpsc::Sender<Duration>);
    impl Task for Meter {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            while self.0.pop(cx).is_some() {
                self.1.send(used()).unwrap();
            }
            if self.0.ended() { Stop::Ended } else { Stop::InputEmpty }
        }
    }
    let runtime = runtime(1);
    let (mut ask, input) = runtime.stream(room(1));
    let (told, answers) = mpsc::channel();
    runtime.spawn(TaskSpec::default(), Meter(input, told));
    runtime.start();
    let (result, used) = mpsc::channel();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        task.push(&mut ask, 0).unwrap();
        let before = answers.recv().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        task.push(&mut ask, 0).unwrap();
        result.send(answers.recv().unwrap() - before).unwrap();
    });
    runtime.join().unwrap();
    let used = used.recv().unwrap();
    assert!(used < Duration::from_millis(20), "{used:?} of 300 ms");
}

/// Whether the calling thread is worker `number`.
fn on_worker(number: usize) -> bool {
    std::thread::current().name() == Some(&format!("thalweg-{number}"))
}

#[test]
fn a_task_that_is_moved_goes_on_elsewhere_in_order() {
    let runtime = Runtime::new(Options { workers: 2, steal: false, ..Options::default() }).unwrap();
    let (mut numbers, input) = runtime.stream(room(8));
    let (output, doubled) = runtime.stream(room(8));
    let moved = Arc::new(AtomicBool::new(false));
    let seen = moved.clone();
    let map = move |number| {
        seen.fetch_or(on_worker(1), Ordering::Relaxed);
        2 * number
    };
    let spec = TaskSpec { place: Placement::on_worker(0), ..TaskSpec::default() };
    let task = runtime.spawn(spec, Map { input, output, apply: map });
    let next = Arc::new(AtomicU64::new(0));
    let count = next.clone();
    let take = move |number| assert_eq!(number, 2 * count.fetch_add(1, Ordering::Relaxed));
    runtime.spawn(spec, Sink { input: doubled, take });
    runtime.start();
    let mover = runtime.mover();
    assert!(mover.move_task(task, Placement::on_worker(2)).unwrap_err().to_string().contains("no worker 2"));
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        let mut number = 0;
        while !moved.load(Ordering::Relaxed) || number < 1000 {
            if number == 500 {
                assert_eq!(mover.move_task(task, Placement::on_worker(1)).unwrap().wait(PATIENCE), Ok(0));
                // If the task was woken in the meantime, it moves only when its worker empties the inbox.
                while mover.move_task(task, Placement::on_worker(1)).unwrap().wait(PATIENCE) == Ok(0) {}
            }
            blocking.push(&mut numbers, number).unwrap();
            number += 1;
        }
    });
    assert_eq!(runtime.join().unwrap().failures, []);
    assert!(next.load(Ordering::Relaxed) >= 1000);
}

/// Spins until one of the tasks of this type has run on worker 1.
struct UntilOnSecond(Arc<AtomicBool>, usize);

impl Task for UntilOnSecond {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..std::mem::take(&mut self.1) {
            cx.spawn(TaskSpec::default(), UntilOnSecond(self.0.clone(), 0));
        }
        self.0.fetch_or(on_worker(1), Ordering::Relaxed);
        if self.0.load(Ordering::Relaxed) { Stop::Ended } else { Stop::QuantumSpent }
    }
}

#[test]
fn an_idle_worker_gets_tasks_of_a_busy_one() {
    let mapper = Mapper::Contiguous { block: 1000 };
    let runtime = Runtime::new(Options { workers: 2, mapper, steal: true, ..Options::default() }).unwrap();
    let spec = TaskSpec { place: Placement::on_worker(0), ..TaskSpec::default() };
    runtime.spawn(spec, UntilOnSecond(Arc::default(), 4));
    assert_eq!(runtime.join().unwrap().tasks, 5);
}

#[test]
fn a_task_that_is_not_there_cannot_be_moved() {
    let runtime = runtime(2);
    let mover = runtime.mover();
    let (gone, (done, wait)) = (runtime.mover(), mpsc::channel());
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        for task in [blocking.task_id(), TaskId(77)] {
            let error = mover
                .move_task(task, Placement::on_worker(1))
                .unwrap()
                .wait(PATIENCE)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&format!("task {} is on no worker", task.0)), "{error}");
        }
        done.send(()).unwrap();
    });
    wait.recv().unwrap();
    assert_eq!(runtime.join().unwrap().failures, []);
    let error =
        gone.move_task(TaskId(1), Placement::on_worker(1)).unwrap().wait(PATIENCE).unwrap_err().to_string();
    assert!(error.contains("ended"), "{error}");
}

#[test]
fn a_worker_inside_a_box_is_told_of() {
    let runtime = runtime(1);
    let release = Arc::new(AtomicBool::new(false));
    let (entered, inside) = mpsc::channel();
    struct Inside(Arc<AtomicBool>, mpsc::Sender<()>);
    impl Task for Inside {
        fn run(&mut self, _: &mut Context<'_>) -> Stop {
            self.1.send(()).unwrap();
            while !self.0.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Stop::Ended
        }
    }
    let task = runtime.spawn(TaskSpec::default(), Inside(release.clone(), entered));
    runtime.start();
    inside.recv().unwrap();
    let error = runtime
        .mover()
        .move_task(task, Placement::on_worker(0))
        .unwrap()
        .wait(Duration::from_millis(1))
        .unwrap_err();
    assert!(error.to_string().contains("1 workers have not looked"), "{error}");
    release.store(true, Ordering::Relaxed);
    join_in_time(runtime);
}

/// A task for another node is refused, and the tasks at the other ends of its streams end.
#[test]
fn what_is_placed_on_another_node_fails_and_says_why() {
    for thread_per_task in [false, true] {
        let runtime = Runtime::new(Options { workers: 2, thread_per_task, ..Options::default() }).unwrap();
        let (output, mut written) = runtime.stream::<u64>(StreamSpec::default());
        let elsewhere = TaskSpec { place: Placement::on_node(3), ..TaskSpec::default() };
        let refused = runtime.spawn(elsewhere, Source { output, next: 0, count: 5 });
        runtime.spawn_blocking(elsewhere, |_| panic!("it does not run"));
        let here = Placement { node: Some(0), worker: Some(1) };
        runtime.spawn_blocking(TaskSpec { place: here, ..TaskSpec::default() }, move |task| {
            assert_eq!(task.pop(&mut written), None);
        });
        let error = runtime.mover().move_task(refused, Placement::on_node(3)).unwrap_err();
        assert!(error.to_string().starts_with("there is no node 3"), "{error}");
        let summary = runtime.join().unwrap();
        assert_eq!((summary.tasks, summary.failed), (3, 2));
        for failure in summary.failures {
            assert!(failure.message.starts_with("there is no node 3") && !failure.panicked, "{failure:?}");
        }
    }
}
