//! Tests of workers that are added and parked while a runtime runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use thalweg_exec::{
    Context, In, Mapper, Options, Out, Placement, Ports, Runtime, Stop, StreamSpec, Task, TaskId, TaskSpec,
    Workers,
};
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::{Space, SpaceOptions};

mod map;

use map::Map;

/// A time longer than tasks need to move.
const PATIENCE: Duration = Duration::from_secs(20);

/// More workers than the machine on which the tests run may have processors.
const MOST: usize = 4;

/// Passes messages on and notes on which worker it ran.
fn pass(
    input: In<u64>,
    output: Out<u64>,
    ran_on: Arc<AtomicUsize>,
) -> Map<impl FnMut(u64) -> u64 + Send + 'static> {
    let apply = move |message| {
        ran_on.store(this_worker(), Ordering::Relaxed);
        message
    };
    Map { input, output, apply }
}

fn this_worker() -> usize {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    name.strip_prefix("thalweg-").and_then(|number| number.parse().ok()).expect("a worker's thread")
}

/// A chain of tasks with given places, which records the worker on which each task last ran.
struct Chain {
    ran_on: Vec<Arc<AtomicUsize>>,
    to: mpsc::Sender<u64>,
    from: mpsc::Receiver<u64>,
    sent: u64,
}

impl Chain {
    fn new(runtime: &Runtime, places: &[Option<usize>]) -> Chain {
        let (mut first, mut input) = runtime.stream(StreamSpec::default());
        let mut ran_on = Vec::new();
        for &place in places {
            let (output, next) = runtime.stream(StreamSpec::default());
            let input = std::mem::replace(&mut input, next);
            ran_on.push(Arc::new(AtomicUsize::new(usize::MAX)));
            let task = pass(input, output, ran_on[ran_on.len() - 1].clone());
            runtime.spawn(
                TaskSpec { place: Placement { node: None, worker: place }, ..TaskSpec::default() },
                task,
            );
        }
        let (to, messages) = mpsc::channel();
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            for message in messages {
                task.feed(&mut first, message).unwrap();
                task.flush();
            }
        });
        let (told, from) = mpsc::channel();
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            while let Some(message) = task.pop(&mut input) {
                told.send(message).unwrap();
            }
        });
        runtime.start();
        Chain { ran_on, to, from, sent: 0 }
    }

    /// Sends a message through the chain and returns where its tasks ran.
    fn ran_on(&mut self) -> Vec<usize> {
        self.to.send(self.sent).unwrap();
        assert_eq!(self.from.recv_timeout(PATIENCE), Ok(self.sent));
        self.sent += 1;
        self.ran_on.iter().map(|worker| worker.load(Ordering::Relaxed)).collect()
    }

    /// Sends messages through the chain until its tasks run on the `expected` workers.
    fn await_places(&mut self, expected: &[usize]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let places = self.ran_on();
            if places == expected {
                return;
            }
            assert!(Instant::now() < deadline, "on {places:?} instead of {expected:?}");
        }
    }
}

fn runtime(mapper: Mapper, space: Option<Space>) -> Runtime {
    Runtime::new(Options { workers: 1, workers_max: MOST, mapper, space, ..Options::default() }).unwrap()
}

#[test]
fn tasks_are_placed_anew_on_those_that_take_part() {
    let places = [None, None, None, None, None, None, Some(1), Some(6)];
    let contiguous = |count: usize| -> Vec<usize> {
        let place =
            |(at, place): (usize, &Option<usize>)| place.map_or((2 * at + 1) * count / 12, |p| p % count);
        places.iter().enumerate().map(place).collect()
    };
    let runtime = runtime(Mapper::default(), None);
    let mut chain = Chain::new(&runtime, &places);
    for count in [1, 4, 2, 3, 1, 2] {
        runtime.workers().set(count).unwrap();
        assert_eq!(runtime.workers().count(), count);
        chain.await_places(&contiguous(count));
        let error =
            runtime.mover().move_task(TaskId(1), Placement::on_worker(count)).unwrap_err().to_string();
        assert!(error.contains(&format!("no worker {count} takes part")), "{error}");
    }
    drop(chain);
    assert_eq!(runtime.join().unwrap().failures, []);
}

#[test]
fn every_mapper_keeps_to_those_that_take_part() {
    let user = Mapper::User(Arc::new(|spec: &TaskSpec| spec.weight as usize + 2));
    for mapper in [Mapper::RoundRobin, Mapper::LeastLoaded, user] {
        let runtime = runtime(mapper.clone(), None);
        let mut chain = Chain::new(&runtime, &[None; 6]);
        for (count, each) in [(3, 2), (2, 3), (1, 6), (3, 2)] {
            runtime.workers().set(count).unwrap();
            let deadline = Instant::now() + PATIENCE;
            let balanced = |places: &[usize]| match mapper {
                Mapper::User(_) => places.iter().all(|&worker| worker == 3 % count),
                _ => (0..count).all(|worker| places.iter().filter(|&&place| place == worker).count() == each),
            };
            while !balanced(&chain.ran_on()) {
                assert!(Instant::now() < deadline, "{mapper:?} on {count}: {:?}", chain.ran_on());
            }
        }
        drop(chain);
        assert_eq!(runtime.join().unwrap().failures, []);
    }
}

#[test]
fn no_task_stays_on_a_parked_worker() {
    let runtime = runtime(Mapper::default(), None);
    let (workers, mover) = (runtime.workers(), runtime.mover());
    let mut chain = Chain::new(&runtime, &[None; 8]);
    for round in 0..200 {
        workers.set(MOST).unwrap();
        // Moves tasks to workers that are parked while the tasks are on their way.
        for task in 1..=8 {
            let _ = mover.move_task(TaskId(task), Placement::on_worker(MOST - 1 - (round % 2))).unwrap();
        }
        workers.set(1).unwrap();
        chain.await_places(&[0; 8]);
    }
    drop(chain);
    assert_eq!(runtime.join().unwrap().failures, []);
}

/// Lets 1, 4, 2, 1, … workers take part until `done` is set.
fn come_and_go(workers: &Workers, done: &AtomicBool) {
    for count in [1, 4, 2].into_iter().cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
        // The run may have ended.
        let _ = workers.set(count);
        std::thread::yield_now();
    }
}

#[test]
fn results_are_the_same_and_in_order_while_workers_come_and_go() {
    const MESSAGES: u64 = 100_000;
    for steal in [false, true] {
        let options = Options { workers: 1, workers_max: MOST, steal, ..Options::default() };
        let runtime = Runtime::new(options).unwrap();
        let (mut output, mut input) = runtime.stream(StreamSpec::default());
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            (0..MESSAGES).for_each(|message| task.feed(&mut output, message).unwrap());
        });
        for _ in 0..12 {
            let (output, next) = runtime.stream(StreamSpec::default());
            let input = std::mem::replace(&mut input, next);
            runtime.spawn(TaskSpec::default(), pass(input, output, Arc::default()));
        }
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            let read = std::iter::from_fn(|| task.pop(&mut input));
            assert!(read.eq(0..MESSAGES), "not every message, or not in order");
        });
        let (workers, done) = (runtime.workers(), AtomicBool::new(false));
        let summary = std::thread::scope(|scope| {
            scope.spawn(|| come_and_go(&workers, &done));
            let summary = runtime.join();
            done.store(true, Ordering::Relaxed);
            summary.unwrap()
        });
        assert_eq!(summary.failures, []);
        assert!(workers.set(2).unwrap_err().to_string().contains("has ended"));
    }
}

#[test]
fn the_setting_does_it_too_and_events_tell() {
    let space = space("thalweg-parking");
    let reader = SpaceReader::open(space.path()).unwrap();
    let runtime = runtime(Mapper::default(), Some(space.clone()));
    let workers = runtime.workers();
    let mut chain = Chain::new(&runtime, &[None; 4]);
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| runtime.join());
        for (count, places) in [(2, [0, 0, 1, 1]), (1, [0; 4]), (2, [0, 0, 1, 1])] {
            reader.set("exec.workers", count).unwrap();
            chain.await_places(&places);
            assert_eq!(workers.count() as u64, count);
        }
        assert!(reader.set("exec.workers", MOST as u64 + 1).is_err());
        workers.set(1).unwrap();
        let row_of_second = || {
            let rows = reader.live_rows().unwrap();
            let row = rows.iter().find(|row| row.kind_name() == "exec.worker" && row.id == 1).unwrap();
            (row.cell("state"), row.cell("task"))
        };
        // The row must show the worker as parked and in no task, because otherwise the worker would seem to
        // hang in a task.
        let deadline = Instant::now() + PATIENCE;
        while row_of_second() != (Some(3), Some(0)) {
            assert!(Instant::now() < deadline, "{:?}", row_of_second());
            std::thread::yield_now();
        }
        let shown = reader.settings().unwrap().into_iter().find(|setting| setting.name == "exec.workers");
        assert_eq!(shown.unwrap().value, 1);
        chain.await_places(&[0; 4]);
        drop(chain);
        assert_eq!(joining.join().unwrap().unwrap().failures, []);
    });
    let told = |name: &str| events(&reader, name);
    assert_eq!(told("exec.worker_started"), 2, "two were never needed");
    assert_eq!((told("exec.worker_parked"), told("exec.worker_unparked")), (2, 1));
    assert_eq!(told("exec.setting_adopted"), 4);
    std::fs::remove_dir_all(space.path()).unwrap();
}

/// Every thread that notices a change of the setting adopts it. A thread that comes late must not adopt a value
/// which a newer change has replaced.
#[test]
fn a_late_look_at_the_setting_does_not_take_back_a_newer_change() {
    let space = space("thalweg-late");
    let reader = SpaceReader::open(space.path()).unwrap();
    let runtime = runtime(Mapper::default(), Some(space.clone()));
    let workers = runtime.workers();
    let mut chain = Chain::new(&runtime, &[None; 2]);
    let deadline = Instant::now() + PATIENCE;
    for _ in 0..1_000 {
        reader.set("exec.workers", 2).unwrap();
        while workers.count() != 2 {
            assert!(Instant::now() < deadline, "the setting has no effect");
            chain.ran_on();
        }
        workers.set(1).unwrap();
        chain.ran_on();
        assert_eq!(workers.count(), 1);
    }
    drop(chain);
    assert_eq!(runtime.join().unwrap().failures, []);
    assert_eq!(events(&reader, "exec.setting_adopted"), 2_000);
    std::fs::remove_dir_all(space.path()).unwrap();
}

/// Makes a task for each message; each of these tasks sends the number of its worker.
struct Maker {
    input: In<u64>,
    places: mpsc::Sender<usize>,
}

/// Sends the number of its worker, and ends.
struct Made(mpsc::Sender<usize>);

impl Task for Maker {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        while self.input.pop(cx).is_some() {
            cx.spawn(TaskSpec::default(), Made(self.places.clone()));
        }
        if self.input.ended() { Stop::Ended } else { Stop::InputEmpty }
    }
}

impl Task for Made {
    fn run(&mut self, _cx: &mut Context<'_>) -> Stop {
        self.0.send(this_worker()).unwrap();
        Stop::Ended
    }
}

#[test]
fn the_mapper_is_a_setting_for_what_is_made_next() {
    let space = space("thalweg-mapper");
    let reader = SpaceReader::open(space.path()).unwrap();
    let runtime = Runtime::new(Options {
        workers: 2,
        workers_max: 2,
        mapper: Mapper::RoundRobin,
        space: Some(space.clone()),
        // No task leaves the worker on which it was placed, however late a busy machine lets it run.
        steal_after_us: 0,
        ..Options::default()
    })
    .unwrap();
    let (mut first, input) = runtime.stream(StreamSpec::default());
    let (places, placed) = mpsc::channel();
    runtime
        .spawn(TaskSpec { place: Placement::on_worker(0), ..TaskSpec::default() }, Maker { input, places });
    let (to, messages) = mpsc::channel::<u64>();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        for message in messages {
            task.feed(&mut first, message).unwrap();
            task.flush();
        }
    });
    runtime.start();
    let made = |count: u64| -> Vec<usize> {
        (0..count).for_each(|message| to.send(message).unwrap());
        let mut places: Vec<usize> = (0..count).map(|_| placed.recv_timeout(PATIENCE).unwrap()).collect();
        places.sort_unstable();
        places
    };
    assert_eq!(made(8), [0, 0, 0, 0, 1, 1, 1, 1]);
    reader.set("exec.mapper", 0).unwrap();
    assert_eq!(made(8), [0; 8], "a block on its maker's worker");
    assert_eq!(made(8), [1; 8], "the next block on the next worker");
    reader.set("exec.mapper", 1).unwrap();
    assert_eq!(made(8), [0, 0, 0, 0, 1, 1, 1, 1]);
    let refused = reader.set("exec.mapper", 2).unwrap_err().to_string();
    assert!(refused.contains("exec.mapper"), "{refused}");
    drop(to);
    assert_eq!(runtime.join().unwrap().failures, []);
    assert_eq!(events(&reader, "exec.setting_adopted"), 2);
    std::fs::remove_dir_all(space.path()).unwrap();
}

fn space(name: &str) -> Space {
    let parent = Some(std::env::temp_dir());
    Space::create(SpaceOptions { name: name.to_owned(), parent, ..SpaceOptions::default() }).unwrap()
}

/// How many events of a kind the run has recorded.
fn events(reader: &SpaceReader, name: &str) -> usize {
    let mut count = 0;
    let counted = reader.events().poll(usize::MAX, &mut |item| match item {
        Item::Event(event) => count += usize::from(&*event.kind.name == name),
        Item::Gap { lost, .. } => panic!("{lost} events lost"),
    });
    counted.unwrap();
    count
}

#[test]
fn streams_that_are_never_full_adopt_a_smaller_capacity() {
    let parent = std::env::temp_dir();
    let name = "thalweg-capacity".to_owned();
    let space =
        Space::create(SpaceOptions { name, parent: Some(parent), ..SpaceOptions::default() }).unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let runtime = runtime(Mapper::default(), Some(space.clone()));
    let mut chain = Chain::new(&runtime, &[None; 3]);
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| runtime.join());
        let mut capacities = || {
            // One message is under way at a time.
            chain.ran_on();
            let rows = reader.live_rows().unwrap();
            let streams = rows.iter().filter(|row| row.kind_name() == "exec.stream");
            streams.map(|row| row.cell("capacity").unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(capacities(), [64; 4]);
        for capacity in [2, 16, 1] {
            reader.set("exec.capacity", capacity).unwrap();
            // A writer looks for room again after as many messages as it found room for.
            let mut last = Vec::new();
            for _ in 0..200 {
                last = capacities();
            }
            assert_eq!(last, [capacity; 4]);
        }
        drop(chain);
        assert_eq!(joining.join().unwrap().unwrap().failures, []);
    });
    std::fs::remove_dir_all(space.path()).unwrap();
}
