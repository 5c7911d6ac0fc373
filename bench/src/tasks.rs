//! Group `tasks`: the memory and time of a live task with a stream, the time of a bare stage that unfolds and
//! ends, and the processor time of a hundred thousand waiting tasks.

use crate::cores::on_cores;
use crate::measure::{Case, Contestant, Goal};
use crate::observed;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use thalweg_exec::{Context, In, Mode, Options, Out, Ports, Runtime, Stop, StreamSpec, Task, TaskSpec};
use thalweg_space::{Space, SpaceOptions};

/// The number of tasks that live at once.
const TASKS: u64 = 1_000_000;
const WAITING: u64 = 100_000;
const STREAMS: u64 = 1_000_000;

/// The state when all tasks wait.
#[derive(Clone, Copy)]
struct Look {
    /// The time since the first task was created.
    took: Duration,
    bytes: u64,
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for (mode, bytes, nanoseconds) in
        [(None, 300.0, 200.0), (Some(Mode::Off), 300.0, 200.0), (Some(Mode::Metrics), 400.0, f64::INFINITY)]
    {
        let per_task = |figure: fn(Look) -> f64| {
            Contestant::new("thalweg", "", move || {
                Ok(on_cores(1, || chain_of_waiting(mode, TASKS))?).map(|look| figure(look) / TASKS as f64)
            })
        };
        let goal = |most: f64| if most.is_finite() { Goal::AtMost(most) } else { Goal::None };
        let name = "a live task with a stream";
        cases.push(case(name, mode, "B", per_task(|look| look.bytes as f64), goal(bytes)));
        cases.push(case(name, mode, "ns", per_task(|look| look.took.as_nanos() as f64), goal(nanoseconds)));
    }
    let streams = Contestant::new("thalweg", "", || on_cores(1, many_streams));
    // The goal corresponds to five million streams in 2 GB.
    cases.push(case("a stream that holds a message", None, "B", streams, Goal::AtMost(400.0)));
    for stages in [10_000, 1_000_000] {
        let ours = Contestant::new("thalweg", "", move || on_cores(1, || unfold(stages)));
        let name = format!("a bare stage of {stages} that unfolds and ends");
        cases.push(case(&name, Some(Mode::Off), "ns", ours, Goal::None));
    }
    let idle = Contestant::new("thalweg", "", || on_cores(2, idle));
    cases.push(case("processor time of 100,000 tasks that wait", None, "%", idle, Goal::AtMost(0.1)));
    cases
}

fn case(
    name: &str,
    mode: Option<Mode>,
    unit: &'static str,
    ours: Contestant<'static>,
    goal: Goal,
) -> Case<'static> {
    Case {
        group: "tasks",
        name: name.into(),
        params: vec![("space", mode.map_or("none".into(), |mode| format!("mode {}", observed::name(mode))))],
        unit,
        ours,
        rivals: Vec::new(),
        limit: None,
        goal,
    }
}

/// A runtime, with a space if `mode` is given.
fn runtime(workers: usize, mode: Option<Mode>) -> Result<(Runtime, Option<PathBuf>), String> {
    let space = mode.map(|_| {
        let options = SpaceOptions { name: "thalweg-bench-tasks".into(), ..SpaceOptions::default() };
        Space::create(options).map_err(|error| error.to_string())
    });
    let space = space.transpose()?;
    let path = space.as_ref().map(|space| space.path().to_owned());
    let options = Options { workers, space, mode: mode.unwrap_or_default(), ..Options::default() };
    Ok((Runtime::new(options).map_err(|error| error.to_string())?, path))
}

/// The memory in use: allocated and not freed, slabs that do not come from the allocator, and the files of
/// the space.
fn bytes_in_use(space: Option<&Path>) -> u64 {
    // SAFETY: the call only reads the allocator's own counts.
    let allocated = unsafe { libc::mallinfo2() };
    let files = space.and_then(|path| std::fs::read_dir(path).ok()).into_iter().flatten().flatten();
    let blocks = files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum::<u64>();
    (allocated.uordblks + allocated.hblkhd + thalweg_exec::region_bytes()) as u64 + blocks
}

/// Creates the tasks of a chain, one after the other, and waits until each has run and waits for its input.
struct Grow {
    /// The start of the chain: while it is open, all tasks wait.
    _first: Out<u64>,
    last: Option<In<u64>>,
    left: u64,
    total: u64,
    ran: Arc<AtomicU64>,
    began: Option<(Instant, u64)>,
    space: Option<PathBuf>,
    looked: Option<Sender<Look>>,
    /// The stream that is read before the chain is ended.
    hold: Option<In<u64>>,
}

impl Task for Grow {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let (began, bytes) =
            *self.began.get_or_insert_with(|| (Instant::now(), bytes_in_use(self.space.as_deref())));
        for _ in 0..cx.quantum().min(self.left as usize) {
            self.left -= 1;
            let (output, next) = cx.stream(StreamSpec::default());
            let input = self.last.replace(next).expect("a chain begins with a stream");
            cx.spawn(TaskSpec::default(), Wait { input, output, ran: self.ran.clone(), is_new: true });
        }
        if self.ran.load(Ordering::Relaxed) < self.total {
            return Stop::QuantumSpent;
        }
        if let Some(looked) = self.looked.take() {
            let took = began.elapsed();
            let bytes = bytes_in_use(self.space.as_deref()).saturating_sub(bytes);
            looked.send(Look { took, bytes }).expect("someone hears");
        }
        match self.hold.as_mut().map(|hold| (hold.pop(cx), hold.ended())) {
            Some((_, false)) => Stop::InputEmpty,
            _ => Stop::Ended,
        }
    }
}

/// A task that waits for a message, and passes it on.
struct Wait {
    input: In<u64>,
    output: Out<u64>,
    ran: Arc<AtomicU64>,
    is_new: bool,
}

impl Task for Wait {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if std::mem::take(&mut self.is_new) {
            self.ran.fetch_add(1, Ordering::Relaxed);
        }
        match self.input.pop(cx) {
            Some(message) => self.output.push(cx, message).map_or(Stop::OutputFull, |()| Stop::QuantumSpent),
            None if self.input.ended() => Stop::Ended,
            None => Stop::InputEmpty,
        }
    }
}

fn chain_of_waiting(mode: Option<Mode>, tasks: u64) -> Result<Look, String> {
    let (runtime, path) = runtime(1, mode)?;
    let (looked, look) = channel();
    let grow = grow(&runtime, tasks, path.clone(), looked, None);
    runtime.spawn(TaskSpec::default(), grow);
    let summary = runtime.join().map_err(|error| error.to_string())?;
    if let Some(path) = path {
        std::fs::remove_dir_all(path).map_err(|error| error.to_string())?;
    }
    match summary.failures.first() {
        Some(failure) => Err(failure.message.clone()),
        None => look.recv().map_err(|error| error.to_string()),
    }
}

fn grow(
    runtime: &Runtime,
    tasks: u64,
    space: Option<PathBuf>,
    looked: Sender<Look>,
    hold: Option<In<u64>>,
) -> Grow {
    let looked = Some(looked);
    let (first, last) = runtime.stream(StreamSpec::default());
    let ran = Arc::new(AtomicU64::new(0));
    let last = Some(last);
    Grow { _first: first, last, left: tasks, total: tasks, ran, began: None, space, looked, hold }
}

/// A stage that makes the next one when its only message comes, passes the message on, and ends.
struct Stage {
    input: In<u64>,
    last: Sender<Instant>,
}

impl Task for Stage {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        match self.input.pop(cx) {
            Some(0) => self.last.send(Instant::now()).expect("someone hears"),
            Some(left) => {
                let (mut output, input) = cx.stream(StreamSpec::default());
                output.push(cx, left - 1).expect("an empty stream has room");
                cx.attach_output(&mut output);
                cx.spawn(TaskSpec::default(), Stage { input, last: self.last.clone() });
            }
            None if self.input.ended() => (),
            None => return Stop::InputEmpty,
        }
        Stop::Ended
    }
}

/// The nanoseconds of one of `stages` stages in a row, each of which makes the next one and ends.
fn unfold(stages: u64) -> Result<f64, String> {
    struct Begin(Sender<Instant>, Sender<Instant>, u64);
    impl Task for Begin {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            let (mut output, input) = cx.stream(StreamSpec::default());
            self.0.send(Instant::now()).expect("someone hears");
            output.push(cx, self.2).expect("an empty stream has room");
            cx.attach_output(&mut output);
            cx.spawn(TaskSpec::default(), Stage { input, last: self.1.clone() });
            Stop::Ended
        }
    }
    let (runtime, path) = runtime(1, Some(Mode::Off))?;
    let ((begins, begin), (ends, end)) = (channel(), channel());
    runtime.spawn(TaskSpec::default(), Begin(begins, ends, stages));
    let summary = runtime.join().map_err(|error| error.to_string())?;
    if let Some(path) = path {
        std::fs::remove_dir_all(path).map_err(|error| error.to_string())?;
    }
    if let Some(failure) = summary.failures.first() {
        return Err(failure.message.clone());
    }
    let (began, ended) = (begin.recv(), end.recv());
    let (began, ended) =
        (began.map_err(|error| error.to_string())?, ended.map_err(|error| error.to_string())?);
    Ok((ended - began).as_nanos() as f64 / stages as f64)
}

/// Measures the bytes of a stream with a message in it.
fn many_streams() -> Result<f64, String> {
    struct Fill(Vec<(Out<u64>, In<u64>)>, Sender<u64>);
    impl Task for Fill {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            let before = bytes_in_use(None);
            for _ in 0..STREAMS {
                let (mut output, input) = cx.stream(StreamSpec::default());
                output.push(cx, 1).expect("an empty stream has room");
                cx.attach_output(&mut output);
                self.0.push((output, input));
            }
            self.1.send(bytes_in_use(None) - before).expect("someone hears");
            Stop::Ended
        }
    }
    let (runtime, _) = runtime(1, None)?;
    let (told, hear) = channel();
    runtime.spawn(TaskSpec::default(), Fill(Vec::with_capacity(STREAMS as usize), told));
    runtime.join().map_err(|error| error.to_string())?;
    Ok(hear.recv().map_err(|error| error.to_string())? as f64 / STREAMS as f64)
}

/// The processor time of waiting tasks in per cent of one core: the time of the runtime's threads and of the
/// thread that joins it. Only these threads are counted, because a rival's profiler may have threads in this
/// process.
fn idle() -> Result<f64, String> {
    const WATCHED: Duration = Duration::from_secs(1);
    let joins = thread_of_caller();
    let others: Vec<u32> = threads().into_iter().filter(|&thread| thread != joins).collect();
    let (runtime, _) = runtime(2, None)?;
    let (looked, look) = channel();
    let (release, hold) = runtime.stream(StreamSpec::default());
    let grow = grow(&runtime, WAITING, None, looked, Some(hold));
    runtime.spawn(TaskSpec::default(), grow);
    let (told, hear) = channel();
    runtime.spawn_blocking(TaskSpec::default(), move |_| {
        let _release = release;
        if look.recv().is_ok() {
            let watches = thread_of_caller();
            let ours = threads().into_iter().filter(|thread| *thread != watches && !others.contains(thread));
            let ours: Vec<u32> = ours.collect();
            // The pause lasts until the workers have stopped spinning.
            std::thread::sleep(Duration::from_millis(10));
            let before = processor_time(&ours);
            std::thread::sleep(WATCHED);
            told.send(processor_time(&ours) - before).expect("someone hears");
        }
    });
    runtime.join().map_err(|error| error.to_string())?;
    let used = hear.recv().map_err(|error| error.to_string())?;
    Ok(100.0 * used.as_secs_f64() / WATCHED.as_secs_f64())
}

fn thread_of_caller() -> u32 {
    // SAFETY: the call has no conditions.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// All threads of this process.
fn threads() -> Vec<u32> {
    let all = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    all.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

/// The processor time of these threads of this process; threads that have ended do not count.
fn processor_time(threads: &[u32]) -> Duration {
    let used = |thread: &u32| {
        let told = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        told.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads.iter().filter_map(used).sum())
}
