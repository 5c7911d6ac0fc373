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

/// Calls `hook` with its number and the lap at each message, which counts its hops up to `last`.
struct Lap {
    input: In<u64>,
    output: Out<u64>,
    begins: bool,
    number: usize,
    tasks: u64,
    last: u64,
    hook: Arc<dyn Fn(usize, u64) + Send + Sync>,
}

impl Task for Lap {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if std::mem::take(&mut self.begins) {
            self.output.push(cx, 0).expect("an empty stream has room");
        }
        for _ in 0..cx.quantum() {
            match self.input.pop(cx) {
                Some(hops) if hops == self.last => return Stop::Ended,
                Some(hops) => {
                    (self.hook)(self.number, hops / self.tasks);
                    self.output.push(cx, hops + 1).expect("an empty stream has room");
                }
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// A ring of tasks on worker 0, through which a message makes so many laps.
fn laps(
    runtime: &Runtime,
    tasks: usize,
    laps: u64,
    hook: impl Fn(usize, u64) + Send + Sync + 'static,
) -> Vec<TaskId> {
    let hook: Arc<dyn Fn(usize, u64) + Send + Sync> = Arc::new(hook);
    let (first, mut input) = runtime.stream(StreamSpec::default());
    let mut first = Some(first);
    let spawned = (0..tasks).map(|number| {
        let begins = number + 1 == tasks;
        let (output, next) = runtime.stream(StreamSpec::default());
        let output = if begins { first.take().expect("there is one last task") } else { output };
        let input = std::mem::replace(&mut input, next);
        let (tasks, last) = (tasks as u64, laps * tasks as u64);
        let spec = TaskSpec { one_to_one: true, place: Placement::on_worker(0), ..TaskSpec::default() };
        runtime.spawn(spec, Lap { input, output, begins, number, tasks, last, hook: hook.clone() })
    });
    spawned.collect()
}

/// A lap in which no task's time is measured: it is in the second dispatch of a task, and in each sixteenth from then
/// on. Where it is measured, the worker looks at everything anyhow.
const PLAIN_LAP: u64 = 5;

fn spin_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// A letter that came during a dispatch is read before the next one, even if that one follows directly: a task is
/// moved before the message comes to it.
#[test]
fn a_letter_is_read_before_the_next_hop() {
    for (mode, at) in [(Mode::Off, 1), (Mode::Off, 7), (Mode::Metrics, 3), (Mode::Full, 3)] {
        let parent =
            std::env::temp_dir().join(format!("thalweg-exec-letter-{mode:?}{at}-{}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        let space =
            Space::create(SpaceOptions { parent: Some(parent.clone()), ..SpaceOptions::default() }).unwrap();
        let options = Options { workers: 2, mode, space: Some(space), ..Options::default() };
        let runtime = Runtime::new(options).unwrap();
        let (asks, wait) = mpsc::channel();
        let (asked, on_second) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_asked, moved) = (asked.clone(), on_second.clone());
        let ids = laps(&runtime, 16, 30, move |number, lap| {
            if (number, lap) == (at, PLAIN_LAP) {
                asks.send(()).unwrap();
                spin_until(&is_asked);
            } else if (number, lap) == (at + 2, PLAIN_LAP) {
                let is_second = std::thread::current().name() == Some("thalweg-1");
                moved.store(1 + u64::from(is_second), Ordering::Relaxed);
            }
        });
        let mover = runtime.mover();
        let asking = std::thread::spawn(move || {
            wait.recv().unwrap();
            let letter = mover.move_task(ids[at + 2], Placement::on_worker(1)).unwrap();
            asked.store(true, Ordering::Release);
            assert_eq!(letter.wait(PATIENCE), Ok(0));
        });
        ends(runtime);
        asking.join().unwrap();
        assert_eq!(
            on_second.load(Ordering::Relaxed),
            2,
            "{mode:?}: the message came before the letter was read"
        );
        std::fs::remove_dir_all(parent).unwrap();
    }
}

/// A task that another thread woke during a dispatch is in the queue before the next dispatch: the message overtakes
/// it as often as a message may, and not in all the laps until time is measured again.
#[test]
fn the_inbox_is_emptied_before_the_next_hop() {
    struct Notes(In<u64>, Arc<AtomicU64>, Arc<AtomicU64>);
    impl Task for Notes {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            match self.0.pop(cx) {
                Some(_) => self.2.store(self.1.load(Ordering::Relaxed), Ordering::Relaxed),
                None if self.0.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
            Stop::QuantumSpent
        }
    }
    const TASKS: u64 = 64;
    /// How often in a row tasks with messages go before others.
    const OVERTAKES: u64 = 256;
    let runtime = runtime(1);
    let (asked, pushed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (hops, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (asks, is_pushed, count) = (asked.clone(), pushed.clone(), hops.clone());
    laps(&runtime, TASKS as usize, 30, move |number, lap| {
        count.fetch_add(1, Ordering::Relaxed);
        if (number, lap) == (1, PLAIN_LAP) {
            asks.store(true, Ordering::Release);
            spin_until(&is_pushed);
        }
    });
    let (mut output, input) = runtime.stream(StreamSpec::default());
    runtime.spawn(TaskSpec::default(), Notes(input, hops, seen.clone()));
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        spin_until(&asked);
        task.push(&mut output, 1).expect("the reader lives");
        pushed.store(true, Ordering::Release);
    });
    ends(runtime);
    let later = seen.load(Ordering::Relaxed) - PLAIN_LAP * TASKS;
    assert!(later < OVERTAKES + 20, "the reader ran {later} hops later");
}

/// Each hop is a dispatch, a message read and a message written in the tasks' counts, and in mode full an event.
#[test]
fn the_only_message_is_counted_at_each_hop() {
    for mode in [Mode::Off, Mode::Metrics, Mode::Full] {
        is_counted_at_each_hop(mode);
    }
}

fn is_counted_at_each_hop(mode: Mode) {
    let parent = std::env::temp_dir().join(format!("thalweg-exec-only-{mode:?}-{}", std::process::id()));
    std::fs::create_dir_all(&parent).unwrap();
    let space =
        Space::create(SpaceOptions { parent: Some(parent.clone()), ..SpaceOptions::default() }).unwrap();
    let options = Options { workers: 1, mode, space: Some(space.clone()), ..Options::default() };
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
