//! Group `analysis`: the cost of making measurements from events, for a recorded run and for a live run.

use crate::cores::{off_first_core, on_cores};
use crate::farm::turned;
use crate::measure::{Case, Contestant, Goal};
use crate::observed::Observed;
use crate::relay::Relay;
use std::cell::OnceCell;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use thalweg_exec::{Context, In, Mode, Options, Out, Ports, Runtime, Stop, StreamSpec, Task, TaskSpec};
use thalweg_monitor::Follower;
use thalweg_space::archive::Archiver;
use thalweg_space::{ElementOptions, Policy, Space, SpaceOptions};

/// The first argument with which this program analyses a recorded space; [`WATCH`] is the one for a live
/// space.
pub(crate) const ANALYSE: &str = "analyse";
pub(crate) const WATCH: &str = "watch";
/// The number of stages of the network.
const STAGES: usize = 8;
/// The interval in which `thalweg report --watch` polls a live run; [`REPORT_EVERY`] is the interval of its
/// reports.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const REPORT_EVERY: Duration = Duration::from_secs(2);

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases: Vec<Case<'static>> = [1, 8, 64].map(speed).into();
    cases.push(on_two_cores());
    cases.push(memory());
    cases.push(live("boxes of 1 µs", 1000, 40_000));
    cases.push(live("boxes that do nothing", 0, 4_000_000));
    cases
}

/// All built-in monitors on a recorded run, on one core.
fn speed(quantum: usize) -> Case<'static> {
    let kept = Kept::later(quantum, 128 << 20);
    Case {
        group: "analysis",
        name: "an event of a kept run, by all monitors of the report".into(),
        params: vec![("messages a dispatch", quantum.to_string())],
        unit: "ns",
        ours: Contestant::new("report_space", "", move || {
            let told = analysed(kept.path()?)?;
            Ok(told.seconds * 1e9 / told.events)
        }),
        rivals: Vec::new(),
        limit: None,
        // The goal is 10 million events a second.
        goal: Goal::AtMost(100.0),
    }
}

/// The elapsed time of an analysis of a run of two workers: on two cores, and on one.
fn on_two_cores() -> Case<'static> {
    let kept = Rc::new(Kept::with(2, 8, 128 << 20));
    let contestant = |cores: usize| {
        let kept = kept.clone();
        Contestant::new("report_space", "", move || {
            let path = kept.path()?;
            let told = on_cores(cores, || analysed(path))?;
            Ok(told.lasted * 1e9 / told.events)
        })
    };
    Case {
        group: "analysis",
        name: "an event of a kept run of two workers, on two cores, against one".into(),
        params: vec![("messages a dispatch", "8".into())],
        unit: "ns",
        ours: contestant(2),
        rivals: Vec::new(),
        limit: Some(contestant(1)),
        // The goal is that two cores are 1.7 times as fast as one core.
        goal: Goal::RatioAtMost(1.0 / 1.7),
    }
}

fn memory() -> Case<'static> {
    let kept = Kept::later(8, 1 << 30);
    Case {
        group: "analysis",
        name: "memory to analyse 1 GB of events".into(),
        params: vec![("messages a dispatch", "8".into())],
        unit: "MB",
        ours: Contestant::new("report_space", "", move || Ok(analysed(kept.path()?)?.peak_mb)),
        rivals: Vec::new(),
        limit: None,
        goal: Goal::AtMost(300.0),
    }
}

/// The processor time of a run on one core with a live report on the other core, and without a live report.
fn live(what: &str, work_ns: u64, messages: u64) -> Case<'static> {
    let contestant = |name: &str, watched: bool| {
        Contestant::new(name, "", move || {
            let took = observed_run(work_ns, messages, watched)?;
            Ok(took.as_secs_f64() * 1e9 / messages as f64)
        })
    };
    Case {
        group: "analysis",
        name: format!("a message through eight {what}, processor time beside a live report"),
        params: vec![("workers", "1".into()), ("mode", "full".into())],
        unit: "ns",
        ours: contestant("with a live report", true),
        rivals: Vec::new(),
        limit: Some(contestant("without", false)),
        goal: Goal::RatioAtMost(1.01),
    }
}

fn observed_run(work_ns: u64, messages: u64, watched: bool) -> Result<Duration, String> {
    // Only the worker is pinned to this core, so a reader that watches the run uses another one.
    let options = Options { workers: 1, mode: Mode::Full, ..Options::default() };
    let observed = on_cores(1, || Observed::with(options))?;
    let told = chain(&observed.runtime, turns(work_ns), messages, Arc::default());
    let watcher = watched.then(|| Watcher::of(observed.path())).transpose()?;
    let begin = processor_time();
    observed.runtime.start();
    told.recv().map_err(|_| "the sink ended without a word")?;
    let took = processor_time() - begin;
    drop(watcher);
    observed.join()?;
    Ok(took)
}

/// Another process that reports on a live run, killed when this value is dropped.
struct Watcher(Child);

impl Watcher {
    fn of(path: &Path) -> Result<Watcher, String> {
        let mut watcher = Watcher(ourselves(WATCH, path)?);
        let mut ready = String::new();
        let output = watcher.0.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut ready).map_err(|error| error.to_string())?;
        Ok(watcher)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts another process of this program for one of its jobs.
fn ourselves(job: &str, path: &Path) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg(job).arg(path).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().map_err(|error| format!("cannot start another process: {error}"))
}

/// Does what `thalweg report --watch` does, on other cores than the worker's, until it is killed.
pub(crate) fn watch(path: &Path) -> Result<(), String> {
    let told = |error: thalweg_space::Error| error.to_string();
    off_first_core();
    let mut follower = Follower::open(path, 10).map_err(told)?;
    println!("ready");
    loop {
        follower.restart();
        let begin = Instant::now();
        while begin.elapsed() < REPORT_EVERY {
            std::thread::sleep(LOOK_EVERY);
            follower.poll();
        }
        black_box(follower.report().map_err(told)?);
    }
}

/// The figures that an analysis of a recorded run printed.
struct Analysis {
    events: f64,
    /// Processor time.
    seconds: f64,
    /// Elapsed time.
    lasted: f64,
    peak_mb: f64,
}

/// Analyses the space in another process, so that the peak of memory is that of the analysis.
fn analysed(path: &Path) -> Result<Analysis, String> {
    let output = ourselves(ANALYSE, path)?.wait_with_output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [events, seconds, lasted, peak_mb] if output.status.success() => {
            Ok(Analysis { events, seconds, lasted, peak_mb })
        }
        _ => Err(format!("the analysis failed: {text}")),
    }
}

/// The processor time of this process, which does not include other processes on a shared machine.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure it is given.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "clock_gettime: {}", std::io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Analyses the space in `path` and prints the number of events, the processor time and elapsed time, and the
/// peak of memory.
pub(crate) fn analyse(path: &Path) -> Result<(), String> {
    let (begin, began) = (processor_time(), Instant::now());
    let report = thalweg_monitor::report_space(path, 10).map_err(|error| error.to_string())?;
    let (seconds, lasted) = ((processor_time() - begin).as_secs_f64(), began.elapsed().as_secs_f64());
    if !report.window.complete {
        return Err(format!("events were lost: {:?}", report.window));
    }
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kb = peak.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let peak_kb = peak_kb.ok_or("/proc/self/status has no VmHWM, the process's peak of memory")?;
    println!("{} {seconds} {lasted} {}", report.window.events, peak_kb / 1000.0);
    Ok(())
}

/// A complete recording of a run, made when first needed; its files are removed when this value is dropped.
struct Kept {
    directory: PathBuf,
    workers: usize,
    quantum: usize,
    bytes: u64,
    made: OnceCell<Result<(), String>>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

impl Kept {
    /// A recording on a disk, because files in memory would count as memory.
    fn later(quantum: usize, bytes: u64) -> Rc<Kept> {
        Rc::new(Kept::with(1, quantum, bytes))
    }

    fn with(workers: usize, quantum: usize, bytes: u64) -> Kept {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("thalweg-bench-kept-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        Kept { directory, workers, quantum, bytes, made: OnceCell::new() }
    }

    fn path(&self) -> Result<&Path, String> {
        self.made.get_or_init(|| self.make()).clone()?;
        Ok(&self.directory)
    }

    /// Makes a run that continues until this number of bytes of events is recorded.
    fn make(&self) -> Result<(), String> {
        let told = |error: thalweg_space::Error| error.to_string();
        let policy = Policy::Wait { timeout: Duration::from_secs(60) };
        let space = Space::create(SpaceOptions {
            name: "thalweg-bench-kept".into(),
            path: Some(self.directory.clone()),
            element: ElementOptions { policy, ..ElementOptions::default() },
            ..SpaceOptions::default()
        })
        .map_err(told)?;
        let mut archiver = Archiver::open(space.path()).map_err(told)?;
        let runtime = Runtime::new(Options {
            workers: self.workers,
            quantum: self.quantum,
            mode: Mode::Full,
            space: Some(space.clone()),
            ..Options::default()
        })
        .map_err(|error| error.to_string())?;
        let enough = Arc::new(AtomicBool::new(false));
        let end = chain(&runtime, 0, u64::MAX, enough.clone());
        runtime.start();
        let mut kept = 0;
        while kept < self.bytes {
            kept += archiver.step().map_err(told)?;
        }
        enough.store(true, Ordering::Relaxed);
        while end.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            archiver.step().map_err(told)?;
        }
        let joined = std::thread::spawn(move || runtime.join().map(drop).map_err(|error| error.to_string()));
        while !joined.is_finished() {
            archiver.step().map_err(told)?;
        }
        joined.join().map_err(|_| "the run panicked")??;
        space.finish();
        archiver.finish().map_err(told)
    }
}

/// The number of turns of arithmetic that take this time.
fn turns(ns: u64) -> u64 {
    const SAMPLE: u64 = 1 << 22;
    let begin = Instant::now();
    black_box(turned(1, SAMPLE));
    (SAMPLE as f64 * ns as f64 / begin.elapsed().as_nanos() as f64) as u64
}

/// A source of a given number of messages, or of messages until `enough` is set; stages; a sink that sends
/// the time of its last message.
fn chain(
    runtime: &Runtime,
    turns: u64,
    messages: u64,
    enough: Arc<AtomicBool>,
) -> std::sync::mpsc::Receiver<Instant> {
    let (output, mut input) = runtime.stream(StreamSpec::default());
    runtime.spawn(TaskSpec::default(), Source { output, left: messages, enough });
    for _ in 0..STAGES {
        let (output, next) = runtime.stream(StreamSpec::default());
        let input = std::mem::replace(&mut input, next);
        let stage = Relay::new(input, output, move |message| turned(message, turns));
        runtime.spawn(TaskSpec { one_to_one: true, ..TaskSpec::default() }, stage);
    }
    let (told, hear) = std::sync::mpsc::channel();
    runtime.spawn(TaskSpec::default(), Sink { input, told });
    hear
}

struct Source {
    output: Out<u64>,
    left: u64,
    enough: Arc<AtomicBool>,
}

impl Task for Source {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if self.enough.load(Ordering::Relaxed) {
            return Stop::Ended;
        }
        for _ in 0..cx.quantum() {
            if self.left == 0 {
                return Stop::Ended;
            }
            if self.output.push(cx, self.left).is_err() {
                return Stop::OutputFull;
            }
            self.left -= 1;
        }
        Stop::QuantumSpent
    }
}

struct Sink {
    input: In<u64>,
    told: Sender<Instant>,
}

impl Task for Sink {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.input.pop(cx).is_some() {
                continue;
            }
            if !self.input.ended() {
                return Stop::InputEmpty;
            }
            // Sending fails only if the benchmark has given up waiting.
            self.told.send(Instant::now()).ok();
            return Stop::Ended;
        }
        Stop::QuantumSpent
    }
}
