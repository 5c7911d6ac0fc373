//! Tasks that are ready behind a long dispatch go to a worker that waits, unless a user has placed them.
//!
//! In each test a task on worker 0 waits, inside its dispatch, for a task that is ready behind it on the same
//! worker. So it goes on only if worker 1 takes that task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thalweg_exec::{
    Context, Former, In, Mapper, Mode, Options, Out, Placement, Runtime, Stop, StreamSpec, Task, TaskSpec,
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

/// A task that keeps worker 1 awake until worker 0 is in the long dispatch: a worker that went to sleep while all others
/// slept does not look at them before a long dispatch has ended.
struct Awake(Arc<Seen>);

impl Task for Awake {
    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        while !self.0.long_began.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        Stop::Ended
    }
}

fn keep_second_awake(runtime: &Runtime, seen: &Arc<Seen>) {
    let on_second = TaskSpec { place: Placement::on_worker(1), ..TaskSpec::default() };
    runtime.spawn(on_second, Awake(seen.clone()));
}

/// Runs `behind` on worker 0 behind a task that waits for `until` runs of it.
fn run_behind<T: Task>(
    runtime: Runtime,
    seen: &Arc<Seen>,
    (until, patience): (u64, Duration),
    behind: (TaskSpec, T),
) {
    let long = Some(Long { seen: seen.clone(), until, patience });
    keep_second_awake(&runtime, seen);
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
    keep_second_awake(&runtime, &seen);
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
        self.seen.long_began.store(self.next > 0, Ordering::Release);
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
        keep_second_awake(&runtime, &seen);
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

/// Runs a reader behind a long task on worker 0. A user has moved the reader to worker 1, and then to worker 0, from where the
/// runtime may move it if the last move was made freely.
fn run_moved(freely: bool, patience: Duration) -> Arc<Seen> {
    let seen = Arc::new(Seen::default());
    let runtime = runtime(Options::default());
    let (mut numbers, input) = runtime.stream(StreamSpec::default());
    let reader = runtime.spawn(TaskSpec::default(), Reader(seen.clone(), input, 0));
    let mover = runtime.mover();
    let began = seen.clone();
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        // Both moves are answered before the long task begins, which this task makes.
        let away = mover.move_task(reader, Placement::on_worker(1)).unwrap();
        assert!(!away.wait_for_former(PATIENCE).unwrap().stayed);
        let to = Placement::on_worker(0);
        let back = if freely { mover.move_freely(reader, to) } else { mover.move_task(reader, to) };
        assert_eq!(back.unwrap().wait_for_former(PATIENCE), Ok(Former { worker: 1, stayed: true }));
        let awake = TaskSpec { place: Placement::on_worker(1), ..TaskSpec::default() };
        blocking.context().spawn(awake, Awake(began.clone()));
        blocking.context().spawn(on_first(), Long { seen: began.clone(), until: 1, patience });
        while !began.long_began.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        blocking.push(&mut numbers, 0).unwrap();
    });
    assert_eq!(runtime.join().unwrap().failures, []);
    seen
}

#[test]
fn a_task_that_a_user_moved_stays() {
    let seen = run_moved(false, SOME_LOOKS);
    assert_eq!(seen.ran_meanwhile.load(Ordering::Relaxed), 0);
    assert_eq!(seen.ran_later.load(Ordering::Relaxed), 1);
}

#[test]
fn a_task_that_a_user_moved_freely_is_taken() {
    let seen = run_moved(true, PATIENCE);
    assert_eq!(seen.ran_meanwhile.load(Ordering::Relaxed), 1, "the long task gave up");
}

/// Says which thread of the process runs it.
struct SaysThread(std::sync::mpsc::Sender<std::path::PathBuf>);

impl Task for SaysThread {
    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        self.0.send(std::path::Path::new("/proc").join(thread).join("status")).unwrap();
        Stop::Ended
    }
}

/// Has short dispatches until a moment. On a busy machine some are held up, and look long from outside.
struct Brief {
    until: Instant,
    last: Instant,
    held_up: Arc<AtomicU64>,
}

impl Brief {
    fn until(until: Instant) -> Brief {
        Brief { until, last: Instant::now(), held_up: Arc::default() }
    }
}

impl Task for Brief {
    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        let now = Instant::now();
        let is_held_up = now - self.last > Duration::from_micros(400);
        self.held_up.fetch_add(u64::from(is_held_up), Ordering::Relaxed);
        self.last = now;
        if now < self.until { Stop::QuantumSpent } else { Stop::Ended }
    }
}

/// How often a thread has gone to sleep.
fn sleeps(status: &std::path::Path) -> u64 {
    let status = std::fs::read_to_string(status).unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    count.trim().parse().unwrap()
}

#[test]
fn a_worker_that_waits_beside_short_dispatches_looks_seldom() {
    let runtime = runtime(Options::default());
    let (says, thread) = std::sync::mpsc::channel();
    let on_second = TaskSpec { place: Placement::on_worker(1), ..TaskSpec::default() };
    runtime.spawn(on_second, SaysThread(says));
    let began = Instant::now();
    let brief = Brief::until(began + Duration::from_millis(1500));
    let held_up = brief.held_up.clone();
    runtime.spawn(on_first(), brief);
    runtime.start();
    let thread = thread.recv().unwrap();
    // The first looks follow each other closely.
    std::thread::sleep(Duration::from_millis(400).saturating_sub(began.elapsed()));
    let before = sleeps(&thread);
    std::thread::sleep(Duration::from_millis(1400).saturating_sub(began.elapsed()));
    let meanwhile = sleeps(&thread) - before;
    assert_eq!(runtime.join().unwrap().failures, []);
    // Two looks each 33 ms; with pauses of at most 4 ms there would be 400. After a dispatch that was held up, pauses are
    // short at first.
    let held_up = held_up.load(Ordering::Relaxed);
    assert!(
        (5..=120 + 20 * held_up).contains(&meanwhile),
        "{meanwhile} sleeps in a second, {held_up} held up"
    );
}

/// A task of three dispatches, the second of which is long and makes a long task and one behind it. Dispatches without
/// messages are not measured, and neither are the first and the last one.
struct LongOnce<T> {
    output: Out<u64>,
    dispatches: u64,
    then: Option<First<T>>,
}

impl<T: Task> Task for LongOnce<T> {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        assert_eq!(self.output.push(cx, self.dispatches), Ok(()));
        self.dispatches += 1;
        if self.dispatches != 2 {
            return if self.dispatches == 1 { Stop::QuantumSpent } else { Stop::Ended };
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(30) {
            std::thread::yield_now();
        }
        cx.spawn(on_first(), self.then.take().unwrap());
        Stop::QuantumSpent
    }
}

#[test]
fn a_long_dispatch_has_a_worker_that_looks_seldom_look_often_again() {
    struct Quiet(Brief, Option<LongOnce<Behind>>);
    impl Task for Quiet {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            let stop = self.0.run(cx);
            if stop == Stop::Ended {
                cx.spawn(on_first(), self.1.take().unwrap());
            }
            stop
        }
    }
    // With calls of 20 ms a pause of 640 ms begins after 1.4 s. A worker that looks often finds a call in 60 ms.
    let runtime = runtime(Options { steal_after_us: 20_000, ..Options::default() });
    let (output, input) = runtime.stream(StreamSpec::default());
    let reads = Arc::new(Seen::default());
    runtime.spawn(on_first(), Reader(reads, input, 0));
    let seen = Arc::new(Seen::default());
    let long = Some(Long { seen: seen.clone(), until: 1, patience: PATIENCE });
    let then = Some(First { long, behind: Some((TaskSpec::default(), Behind(seen.clone()))) });
    let quiet_until = Instant::now() + Duration::from_millis(1500);
    runtime
        .spawn(on_first(), Quiet(Brief::until(quiet_until), Some(LongOnce { output, dispatches: 0, then })));
    assert_eq!(runtime.join().unwrap().failures, []);
    let took = quiet_until.elapsed();
    assert_eq!(seen.ran_meanwhile.load(Ordering::Relaxed), 1, "the long task gave up");
    assert!(took < Duration::from_millis(400), "{took:?}");
}
