//! Tests of a message that is alone in its network: whichever way the runtime takes it from task to task, the
//! worker goes on to look at everything else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use thalweg_chance::Chance;
use thalweg_exec::{
    Context, In, Mode, Options, Out, Placement, Ports, Runtime, Stop, StreamSpec, Task, TaskId, TaskSpec,
};
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::{Space, SpaceOptions};

/// A time longer than any run takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Passes a number on, less one, until it is 0 or `stop` is set; then the ring ends.
struct Hop {
    input: In<u64>,
    output: Out<u64>,
    begins_with: Option<u64>,
    hops: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    /// Whether the task looks for room before it looks for a message.
    asks_first: bool,
}

impl Task for Hop {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if let Some(hops) = self.begins_with.take() {
            self.output.push(cx, hops).expect("an empty stream has room");
        }
        for _ in 0..cx.quantum() {
            if self.asks_first && self.output.room(cx) == 0 {
                return Stop::OutputFull;
            }
            match self.input.pop(cx) {
                Some(left) if left == 0 || self.stop.load(Ordering::Relaxed) => return Stop::Ended,
                Some(left) => {
                    self.hops.fetch_add(1, Ordering::Relaxed);
                    self.output.push(cx, left - 1).expect("an empty stream has room");
                }
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// A ring of tasks with a message, which makes so many hops; returns how many each task counts.
fn ring(
    runtime: &Runtime,
    tasks: usize,
    hops: u64,
    stop: &Arc<AtomicBool>,
) -> (Vec<TaskId>, Vec<Arc<AtomicU64>>) {
    let counts: Vec<_> = (0..tasks).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let (first, mut input) = runtime.stream(StreamSpec::default());
    let mut first = Some(first);
    let spawned = counts.iter().enumerate().map(|(number, count)| {
        let is_last = number + 1 == tasks;
        let (output, next) = runtime.stream(StreamSpec::default());
        let output = if is_last { first.take().expect("there is one last task") } else { output };
        let hop = Hop {
            input: std::mem::replace(&mut input, next),
            output,
            begins_with: is_last.then_some(hops),
            hops: count.clone(),
            stop: stop.clone(),
            asks_first: number % 3 == 0,
        };
        runtime.spawn(TaskSpec { one_to_one: true, ..TaskSpec::default() }, hop)
    });
    (spawned.collect(), counts)
}

fn runtime(workers: usize) -> Runtime {
    Runtime::new(Options { workers, mode: Mode::Off, ..Options::default() }).unwrap()
}

/// Joins the runtime, which must end in time.
fn ends(runtime: Runtime) {
    let (done, wait) = mpsc::channel();
    let joins = std::thread::spawn(move || done.send(runtime.join().unwrap().failures).unwrap());
    assert_eq!(wait.recv_timeout(PATIENCE).expect("the run ends"), []);
    joins.join().unwrap();
}

#[test]
fn the_only_message_makes_each_hop_once_wherever_its_tasks_are() {
    for (tasks, workers) in [(1, 1), (2, 1), (8, 1), (8, 2)] {
        let (runtime, stop) = (runtime(workers), Arc::new(AtomicBool::new(false)));
        let (ids, counts) = ring(&runtime, tasks, 80_000, &stop);
        runtime.start();
        let mover = runtime.mover();
        let mut chance = Chance::new(28);
        for _ in 0..200 {
            let task = ids[chance.below(tasks as u64) as usize];
            // The run may be over by then.
            let worker = Placement::on_worker(chance.below(workers as u64) as usize);
            _ = mover.move_task(task, worker).map(|moved| moved.wait(PATIENCE));
        }
        ends(runtime);
        let counts: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, vec![80_000 / tasks as u64; tasks], "{tasks} tasks, {workers} workers");
    }
}

/// While a message goes round, its worker takes a task from its inbox, which stops the message.
#[test]
fn a_message_that_goes_round_keeps_no_other_task_waiting() {
    struct Stops(In<u64>, Arc<AtomicBool>);
    impl Task for Stops {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            match self.0.pop(cx) {
                Some(_) => self.1.store(true, Ordering::Relaxed),
                None if self.0.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
            Stop::QuantumSpent
        }
    }
    let (runtime, stop) = (runtime(1), Arc::new(AtomicBool::new(false)));
    let (_, counts) = ring(&runtime, 8, u64::MAX, &stop);
    let (mut output, input) = runtime.stream(StreamSpec::default());
    runtime.spawn(TaskSpec::default(), Stops(input, stop));
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        while counts[0].load(Ordering::Relaxed) < 1_000 {
            std::thread::yield_now();
        }
        task.push(&mut output, 1).expect("the reader lives");
    });
    ends(runtime);
}

/// A message that goes round does not keep a run from being aborted.
#[test]
fn a_message_that_goes_round_can_be_aborted() {
    let (runtime, stop) = (runtime(1), Arc::new(AtomicBool::new(false)));
    let (_, counts) = ring(&runtime, 8, u64::MAX, &stop);
    runtime.start();
    while counts[0].load(Ordering::Relaxed) < 1_000 {
        std::thread::yield_now();
    }
    let (done, wait) = mpsc::channel();
    let drops = std::thread::spawn(move || {
        drop(runtime);
        done.send(()).unwrap();
    });
    wait.recv_timeout(PATIENCE).expect("the run ends");
    drops.join().unwrap();
}

/// Each hop is a dispatch, a message read and a message written in the tasks' counts.
#[test]
fn the_only_message_is_counted_at_each_hop() {
    let parent = std::env::temp_dir().join(format!("thalweg-exec-only-{}", std::process::id()));
    std::fs::create_dir_all(&parent).unwrap();
    let space =
        Space::create(SpaceOptions { parent: Some(parent.clone()), ..SpaceOptions::default() }).unwrap();
    let options = Options { workers: 1, mode: Mode::Off, space: Some(space.clone()), ..Options::default() };
    let (runtime, stop) = (Runtime::new(options).unwrap(), Arc::new(AtomicBool::new(false)));
    let hops = 20_000;
    let _ = ring(&runtime, 7, hops, &stop);
    ends(runtime);
    let (mut ended, mut sums) = (0, [0; 3]);
    let reader = SpaceReader::open(space.path()).unwrap();
    let polled = reader.events().poll(usize::MAX, &mut |item| {
        if let Item::Event(event) = item
            && event.kind.name.ends_with("task_ended")
        {
            ended += 1;
            for (sum, field) in sums.iter_mut().zip(["reads", "writes", "dispatches"]) {
                *sum += event.u64(event.kind.field(field).unwrap());
            }
        }
    });
    polled.unwrap();
    assert_eq!((ended, sums[0], sums[1]), (7, hops + 1, hops + 1));
    assert!((hops + 1..hops + 50).contains(&sums[2]), "{} dispatches", sums[2]);
    std::fs::remove_dir_all(parent).unwrap();
}
