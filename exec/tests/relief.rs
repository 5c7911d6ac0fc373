//! Tasks that are ready behind a long dispatch go to a worker that waits, unless a user has placed them.
//!
//! In each test a task on worker 0 waits, inside its dispatch, for a task that is ready behind it on the same
//! worker. So it goes on only if worker 1 takes that task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thalweg_exec::{
    Context, In, Mapper, Mode, Options, Out, Placement, Runtime, Stop, StreamSpec, Task, TaskSpec,
};
use thalweg_space::{Space, SpaceOptions};

/// Longer than any wait in a test that goes well.
const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough for worker 1 to look at worker 0 several times.
const SOME_LOOKS: Duration = Duration::from_millis(60);

/// A runtime of two workers on which a task's children begin on the task's worker.
fn runtime(options: Options) -> Runtime {
    Runtime::new(Options { workers: 2, mapper: Mapper::Contiguous { block: 1000 }, ..options }).unwrap()
}

fn on_first() -> TaskSpec {
    TaskSpec { place: Placement::on_worker(0), ..TaskSpec::default() }
}

/// What the tasks of a test know of each other.
#[derive(Default)]
struct Seen {
    long_began: AtomicBool,
    long_ended: AtomicBool,
    /// How often the task behind ran while the long dispatch went on, and afterwards.
    ran_meanwhile: AtomicU64,
    ran_later: AtomicU64,
    on_second: AtomicBool,
}

impl Seen {
    fn runs_behind(&self) {
        let on_second = std::thread::current().name() == Some("thalweg-1");
        self.on_second.fetch_or(on_second, Ordering::Relaxed);
        let ended = self.long_ended.load(Ordering::Acquire);
        let count = if ended { &self.ran_later } else { &self.ran_meanwhile };
        count.fetch_add(1, Ordering::Release);
    }
}

/// A task with one dispatch, which ends when others ran `until` times meanwhile, or after some time.
struct Long {
    seen: Arc<Seen>,
    until: u64,
    patience: Duration,
}

impl Task for Long {
    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        self.seen.long_began.store(true, Ordering::Release);
        let began = Instant::now();
        while self.seen.ran_meanwhile.load(Ordering::Acquire) < self.until && began.elapsed() < self.patience
        {
            std::thread::yield_now();
        }
        self.seen.long_ended.store(true, Ordering::Release);
        Stop::Ended
    }
}

/// A task with one dispatch.
struct Behind(Arc<Seen>);

impl Task for Behind {
    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        self.0.runs_behind();
        Stop::Ended
    }
}

/// A task on worker 0 that makes the long task, and then `behind`.
struct First<T> {
    long: Option<Long>,
    behind: Option<(TaskSpec, T)>,
}

impl<T: Task> Task for First<T> {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let (spec, behind) = self.behind.take().unwrap();
        cx.spawn(on_first(), self.long.take().unwrap());
        cx.spawn(spec, behind);
        Stop::Ended
    }
}

/// Runs `behind` on worker 0 behind a task that waits for `until` runs of it.
fn run_behind<T: Task>(
    runtime: Runtime,
    seen: &Arc<Seen>,
    (until, patience): (u64, Duration),
    behind: (TaskSpec, T),
) {
    let long = Some(Long { seen: seen.clone(), until, patience });
    runtime.spawn(on_first(), First { long, behind: Some(behind) });
    assert_eq!(runtime.join().unwrap().failures, []);
}

#[test]
fn a_task_in_the_queue_behind_a_long_dispatch_goes_to_a_worker_that_waits() {
    for mode in [Mode::Off, Mode::Metrics, Mode::Full] {
        let parent = std::env::temp_dir();
        let name = format!("thalweg-relief-{mode:?}-{}", std::process::id());
        let space =
            Space::create(SpaceOptions { name, parent: Some(parent), ..SpaceOptions::default() }).unwrap();
        let path = space.path().to_owned();
        let seen = Arc::new(Seen::default());
        let runtime = runtime(Options { mode, space: Some(space), ..Options::default() });
        run_behind(runtime, &seen, (1, PATIENCE), (TaskSpec::default(), Behind(seen.clone())));
        std::fs::remove_dir_all(path).unwrap();
        assert_eq!(seen.ran_meanwhile.load(Ordering::Relaxed), 1, "{mode:?}: the long task gave up");
        assert!(seen.on_second.load(Ordering::Relaxed));
    }
}

/// Reads numbers, and notes each.
struct Reader(Arc<Seen>, In<u64>, u64);

impl Task for Reader {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        while let Some(number) = self.1.pop(cx) {
            assert_eq!(number, self.2);
            self.2 += 1;
            self.0.runs_behind();
        }
        if self.1.ended() { Stop::Ended } else { Stop::InputEmpty }
    }
}

#[test]
fn a_task_that_is_woken_behind_a_long_dispatch_goes_to_a_worker_that_waits() {
    const NUMBERS: u64 = 1000;
    let seen = Arc::new(Seen::default());
    let runtime = runtime(Options::default());
    let (mut numbers, input) = runtime.stream(StreamSpec { capacity: Some(4), ..StreamSpec::default() });
    let began = seen.clone();
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        // The reader has run once, and sleeps, before the long task begins.
        while !began.long_began.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for number in 0..NUMBERS {
            blocking.push(&mut numbers, number).unwrap();
        }
    });
    struct First(Option<Long>, Option<Reader>);
    impl Task for First {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            if let Some(reader) = self.1.take() {
                cx.spawn(TaskSpec::default(), reader);
                return Stop::QuantumSpent;
            }
            cx.spawn(on_first(), self.0.take().unwrap());
            Stop::Ended
        }
    }
    let long = Long { seen: seen.clone(), until: NUMBERS, patience: PATIENCE };
    runtime.spawn(on_first(), First(Some(long), Some(Reader(seen.clone(), input, 0))));
    assert_eq!(runtime.join().unwrap().failures, []);
    assert_eq!(seen.ran_meanwhile.load(Ordering::Relaxed), NUMBERS);
    assert!(seen.on_second.load(Ordering::Relaxed));
}

#[test]
fn a_new_task_of_a_worker_in_a_long_dispatch_goes_to_a_worker_that_waits() {
    const NEW: u64 = 8;
    struct Maker(Arc<Seen>);
    impl Task for Maker {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            if !self.0.long_began.load(Ordering::Acquire) {
                return Stop::QuantumSpent;
            }
            for _ in 0..NEW {
                cx.spawn(TaskSpec::default(), Behind(self.0.clone()));
            }
            Stop::Ended
        }
    }
    let seen = Arc::new(Seen::default());
    let options = Options { workers: 2, mapper: Mapper::RoundRobin, ..Options::default() };
    let runtime = Runtime::new(options).unwrap();
    runtime.spawn(on_first(), Long { seen: seen.clone(), until: NEW, patience: PATIENCE });
    let on_second = TaskSpec { place: Placement::on_worker(1), ..TaskSpec::default() };
    runtime.spawn(on_second, Maker(seen.clone()));
    assert_eq!(runtime.join().unwrap().failures, []);
    assert_eq!(seen.ran_meanwhile.load(Ordering::Relaxed), NEW);
}

/// Writes numbers to a reader on its worker, and now and then waits inside a dispatch until the reader has read
/// all that it published before.
struct Writer {
    seen: Arc<Seen>,
    output: Out<u64>,
    next: u64,
    last: u64,
}

impl Task for Writer {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let began = Instant::now();
        while self.seen.ran_meanwhile.load(Ordering::Acquire) < self.next && began.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        assert_eq!(self.seen.ran_meanwhile.load(Ordering::Acquire), self.next);
        while self.next < self.last {
            if self.output.push(cx, self.next).is_err() {
                return Stop::OutputFull;
            }
            self.next += 1;
            if self.next.is_multiple_of(3) {
                return Stop::QuantumSpent;
            }
        }
        Stop::Ended
    }
}

#[test]
fn messages_between_the_long_task_and_the_one_that_was_taken_stay_in_order() {
    struct First(Option<Writer>, Option<Reader>);
    impl Task for First {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            cx.spawn(on_first(), self.0.take().unwrap());
            cx.spawn(TaskSpec::default(), self.1.take().unwrap());
            Stop::Ended
        }
    }
    for _ in 0..20 {
        let seen = Arc::new(Seen::default());
        let runtime = runtime(Options::default());
        let (output, input) = runtime.stream(StreamSpec { capacity: Some(5), ..StreamSpec::default() });
        let writer = Writer { seen: seen.clone(), output, next: 0, last: 50 };
        runtime.spawn(on_first(), First(Some(writer), Some(Reader(seen.clone(), input, 0))));
        assert_eq!(runtime.join().unwrap().failures, []);
        assert_eq!(seen.ran_meanwhile.load(Ordering::Relaxed), 50);
    }
}

/// The task behind is taken by no other worker: it runs on worker 0 when the long dispatch has ended.
fn stays(options: Options, spec: TaskSpec) {
    let seen = Arc::new(Seen::default());
    run_behind(runtime(options), &seen, (1, SOME_LOOKS), (spec, Behind(seen.clone())));
    assert_eq!(seen.ran_meanwhile.load(Ordering::Relaxed), 0);
    assert_eq!(seen.ran_later.load(Ordering::Relaxed), 1);
    assert!(!seen.on_second.load(Ordering::Relaxed));
}

#[test]
fn a_task_that_a_user_placed_stays() {
    stays(Options::default(), on_first());
}

#[test]
fn nothing_is_taken_if_the_setting_is_0() {
    stays(Options { steal_after_us: 0, ..Options::default() }, TaskSpec::default());
}

#[test]
fn nothing_is_taken_before_its_time() {
    stays(Options { steal_after_us: 30_000_000, ..Options::default() }, TaskSpec::default());
}

#[test]
fn a_task_that_a_user_moved_stays() {
    let seen = Arc::new(Seen::default());
    let runtime = runtime(Options::default());
    let (mut numbers, input) = runtime.stream(StreamSpec::default());
    // The reader begins on worker 1, where a user does not want it.
    let on_second = on_first();
    let reader = runtime.spawn(TaskSpec::default(), Reader(seen.clone(), input, 0));
    let mover = runtime.mover();
    let began = seen.clone();
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        // Both moves are answered before the long task begins, which this task makes.
        for worker in [1, 0] {
            mover.move_task(reader, Placement::on_worker(worker)).unwrap().wait(PATIENCE).unwrap();
        }
        blocking.context().spawn(on_second, Long { seen: began.clone(), until: 1, patience: SOME_LOOKS });
        while !began.long_began.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        blocking.push(&mut numbers, 0).unwrap();
    });
    assert_eq!(runtime.join().unwrap().failures, []);
    assert_eq!(seen.ran_meanwhile.load(Ordering::Relaxed), 0);
    assert_eq!(seen.ran_later.load(Ordering::Relaxed), 1);
}
