//! Runs of the runtime, observed through the space: the report must agree with the facts that the test knows.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thalweg_exec::{Context, In, Mode, Options, Out, Ports, Runtime, Stop, StreamSpec, Task, TaskSpec};
use thalweg_host::LiveEvents;
use thalweg_monitor::{Component, Refers, Report, State, VerdictKind, report_space};
use thalweg_space::reader::Item;
use thalweg_space::{ElementOptions, Policy, Site, Space, SpaceOptions};

/// A box that passes on every `keep`-th message, and computes for the time `spin` on each message.
struct Work {
    input: In<u64>,
    output: Option<Out<u64>>,
    keep: u64,
    spin: Duration,
    held: Option<u64>,
}

impl Task for Work {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        if let Some(output) = &mut self.output {
            ports.output(output);
        }
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let output = self.output.as_mut().expect("the output lives as long as the task");
        for _ in 0..cx.quantum() {
            if let Some(message) = self.held.take() {
                if output.room(cx) == 0 {
                    self.held = Some(message);
                    return Stop::OutputFull;
                }
                output.push(cx, message).expect("there was room");
                if self.keep > 1 {
                    cx.derived(output);
                }
            }
            match self.input.pop(cx) {
                Some(message) => {
                    let begun = Instant::now();
                    while begun.elapsed() < self.spin {}
                    if message.is_multiple_of(self.keep) {
                        self.held = Some(message);
                    }
                }
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// A directory for the space of one test, which is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("thalweg-observe-{}-{number}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Ran {
    report: Report,
    wall: Duration,
}

/// Source → `double` (one-to-one) → `thin` (keeps every third) → sink.
fn run(mode: Mode, messages: u64, spin: Duration, block_count: usize) -> Ran {
    let place = Place::new();
    let begun = Instant::now();
    let space = Space::create(SpaceOptions {
        name: "observe".into(),
        path: Some(place.0.clone()),
        element: ElementOptions { block_bytes: 64 << 10, block_count, policy: Policy::Overwrite },
        ..SpaceOptions::default()
    })
    .unwrap();
    let site = |name: &str, kind: &str, parent| {
        space.site(&Site { name, kind, parent, file: "test.snet", line: 1, column: 1 }).unwrap()
    };
    let net = site("net", "net", None);
    let of = |name: &str| site(name, "box", Some(net));
    let runtime =
        Runtime::new(Options { workers: 2, mode, space: Some(space.clone()), ..Options::default() }).unwrap();
    let (mut numbers, first) = runtime.stream(StreamSpec::default());
    let (second, third) = runtime.stream(StreamSpec::default());
    let (fourth, mut kept) = runtime.stream(StreamSpec::default());
    let spec = |name: &str, one_to_one| TaskSpec { component: of(name), one_to_one, ..TaskSpec::default() };
    let work = |input, output, keep, spin| Work { input, output: Some(output), keep, spin, held: None };
    runtime.spawn(spec("double", true), work(first, second, 1, spin));
    runtime.spawn(spec("thin", false), work(third, fourth, 3, Duration::ZERO));
    runtime.spawn_blocking_attached(spec("sink", false), move |ports| {
        ports.input(&mut kept);
        move |task| while task.pop(&mut kept).is_some() {}
    });
    runtime.spawn_blocking(spec("source", false), move |task| {
        for number in 0..messages {
            task.push(&mut numbers, number).unwrap();
        }
    });
    runtime.join().unwrap();
    space.finish();
    let wall = begun.elapsed();
    drop(space);
    Ran { report: report_space(&place.0, 10).unwrap(), wall }
}

fn component<'r>(report: &'r Report, path: &str) -> &'r Component {
    report
        .components
        .iter()
        .find(|component| component.path == path)
        .unwrap_or_else(|| panic!("{path}: {report:#?}"))
}

const MESSAGES: u64 = 30_000;

#[test]
fn full_records_everything() {
    let spin = Duration::from_micros(5);
    let Ran { report, wall } = run(Mode::Full, MESSAGES, spin, 64);
    assert_eq!(report.window.state, State::Ended);
    assert!(report.window.complete, "{:#?}", report.window);
    assert_eq!((report.window.lost, report.window.malformed), (0, 0));
    assert_eq!(report.throughput.messages_in, Some(MESSAGES));
    assert_eq!(report.throughput.messages_out, Some(MESSAGES / 3));
    let per_s = report.throughput.entry_per_s.unwrap();
    // The window is shorter than the time by the wall clock, and longer than the time for which the messages
    // spin.
    let by_the_wall = MESSAGES as f64 / wall.as_secs_f64();
    assert!(per_s >= by_the_wall * 0.999, "{per_s} for {by_the_wall} by the wall clock");
    assert!(per_s <= 1.0 / spin.as_secs_f64(), "{per_s}: faster than its box");

    let double = component(&report, "net/double");
    assert_eq!((double.work.messages_in, double.work.messages_out), (Some(MESSAGES), Some(MESSAGES)));
    assert!(double.work.service_ns.unwrap() >= 5000.0, "{double:?}");
    assert!(double.work.shares.unwrap().busy > 0.1, "{double:?}");
    assert_eq!(component(&report, "net/thin").work.messages_out, Some(MESSAGES / 3));
    for component in &report.components {
        let shares = component.work.shares.unwrap();
        let sum = shares.busy + shares.input_wait + shares.output_wait + shares.ready;
        assert!((sum - 1.0).abs() < 1e-9, "{component:?}");
    }
    for stream in &report.streams {
        assert_eq!((stream.conserved, stream.held), (Some(true), Some(0)), "{stream:?}");
    }
    assert_eq!((report.streams.len(), report.broken_count), (3, 0));

    let latency = &report.latency;
    assert_eq!(
        (latency.entered, latency.in_flight, latency.unmeasured, latency.unattributed),
        (MESSAGES, 0, 0, 0)
    );
    let service = latency.service.unwrap();
    assert_eq!(service.count, MESSAGES);
    assert!(service.p50_ns >= 5000.0 && service.p50_ns < 50_000.0, "{service:?}");
    let end_to_end = latency.end_to_end.unwrap();
    assert!(end_to_end.mean_ns >= service.mean_ns * 0.99, "{latency:?}");
    // By Little's law the messages between entry and exit explain the mean latency.
    let in_flight: f64 =
        report.streams.iter().filter(|s| s.role != "exit").filter_map(|s| s.occupancy_mean).sum();
    let expected_ns = in_flight / per_s * 1e9;
    assert!(end_to_end.mean_ns < 3.0 * expected_ns + 1e6, "{} for {expected_ns}", end_to_end.mean_ns);
    for worker in &report.workers {
        let shares = worker.shares.unwrap();
        let parts = shares.busy + shares.waiting + shares.own + shares.kept + shares.unaccounted;
        assert!((parts - 1.0).abs() < 1e-9);
    }
    assert_ne!(report.verdict.finding.kind, VerdictKind::Unknown);
}

/// Other programs may limit a run by using its processors, so the test makes up to five runs.
#[test]
fn the_verdict_names_the_only_box_with_work() {
    let verdicts =
        (0..5).map(|_| run(Mode::Full, MESSAGES, Duration::from_micros(5), 64).report.verdict.finding);
    let mut others = Vec::new();
    for finding in verdicts {
        if finding.component.as_deref() == Some("net/double") {
            return;
        }
        others.push(finding);
    }
    panic!("{others:#?}");
}

#[test]
fn metrics_records_counts_and_shares() {
    let Ran { report, .. } = run(Mode::Metrics, MESSAGES, Duration::from_micros(2), 64);
    assert_eq!(report.throughput.messages_in, Some(MESSAGES));
    assert_eq!(report.throughput.messages_out, Some(MESSAGES / 3));
    let double = component(&report, "net/double");
    assert_eq!((double.work.messages_in, double.work.messages_out), (Some(MESSAGES), Some(MESSAGES)));
    assert!(double.work.shares.unwrap().busy > 0.05, "{double:?}");
    for component in &report.components {
        assert!(component.work.dispatches.is_some_and(|dispatches| dispatches > 0), "{component:?}");
    }
    assert!(report.latency.end_to_end.is_none());
    assert!(
        report.streams.iter().all(|stream| stream.conserved == Some(true) && stream.occupancy_mean.is_none())
    );
    assert!(report.notes.iter().any(|note| note.code == "mode"), "{:?}", report.notes);
}

#[test]
fn off_records_counts() {
    let Ran { report, .. } = run(Mode::Off, MESSAGES, Duration::ZERO, 64);
    assert_eq!(report.throughput.messages_in, Some(MESSAGES));
    let double = component(&report, "net/double");
    assert_eq!((double.work.messages_in, double.work.shares), (Some(MESSAGES), None));
    assert!(report.streams.iter().all(|stream| stream.conserved == Some(true)));
    assert_eq!(report.verdict.finding.kind, VerdictKind::Unknown);
}

/// With a ring that is too small for the run, the oldest events are overwritten, but the report is still
/// right.
#[test]
fn overwritten_events_are_losses() {
    let Ran { report, .. } = run(Mode::Full, 10 * MESSAGES, Duration::ZERO, 3);
    assert!(report.window.lost > 0 && !report.window.complete, "{:?}", report.window);
    assert!(report.notes.iter().any(|note| note.code == "lost"));
    assert_eq!(report.broken_count, 0, "{:?}", report.broken);
    let latency = &report.latency;
    if let Some(service) = latency.service {
        assert!(service.count <= latency.entered);
    }
    for component in &report.components {
        if let Some(shares) = component.work.shares {
            assert!((shares.busy + shares.input_wait + shares.output_wait + shares.ready - 1.0).abs() < 1e-9);
        }
    }
}

/// A task without streams that ends at once.
struct Brief;

impl Task for Brief {
    fn attach(&mut self, _: &mut Ports<'_>) {}

    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        Stop::Ended
    }
}

/// Tasks and streams are described by events when they are made. If the events that describe tasks and
/// streams are overwritten, the live table still has the descriptions.
#[test]
fn events_have_names_though_those_that_gave_the_names_are_overwritten() {
    let place = Place::new();
    let space = Space::create(SpaceOptions {
        name: "observe".into(),
        path: Some(place.0.clone()),
        element: ElementOptions { block_bytes: 16 << 10, block_count: 3, policy: Policy::Overwrite },
        ..SpaceOptions::default()
    })
    .unwrap();
    let of = |name: &str| space.site(&Site { name, kind: "box", ..Site::default() }).unwrap();
    let options = Options { workers: 1, mode: Mode::Full, space: Some(space.clone()), ..Options::default() };
    let runtime = Runtime::new(options).unwrap();
    let (mut numbers, first) = runtime.stream(StreamSpec::default());
    let (second, mut kept) = runtime.stream(StreamSpec::default());
    let spec = |name: &str| TaskSpec { component: of(name), one_to_one: true, ..TaskSpec::default() };
    runtime.spawn(
        spec("double"),
        Work { input: first, output: Some(second), keep: 1, spin: Duration::ZERO, held: None },
    );
    runtime.spawn_blocking_attached(spec("sink"), move |ports| {
        ports.input(&mut kept);
        move |task| while task.pop(&mut kept).is_some() {}
    });
    let (send, sent) = std::sync::mpsc::channel();
    runtime.spawn_blocking_attached(spec("source"), move |ports| {
        ports.output(&mut numbers);
        move |task| {
            while let Ok(number) = task.aside(|| sent.recv()) {
                task.push(&mut numbers, number).unwrap();
                task.flush();
            }
        }
    });
    runtime.start();
    let brief = of("brief");
    for _ in 0..5000 {
        runtime.spawn(TaskSpec { component: brief, ..TaskSpec::default() }, Brief);
        runtime.start();
    }
    let mut events = LiveEvents::open(&place.0).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut dispatched, mut read) = (None, None);
    while dispatched.is_none() || read.is_none() {
        assert!(Instant::now() < deadline, "{dispatched:?} {read:?}");
        send.send(7).unwrap();
        events
            .poll(usize::MAX, &mut |_, origin, item| {
                let Item::Event(event) = item else { return };
                let task = origin.called(event, "task");
                assert!(
                    event.kind.name != "exec.task_created" || task.as_deref() != Some("double"),
                    "it shows nothing: the events are all there"
                );
                let Some(dispatch) = origin.dispatch() else { return };
                let name = origin.name(Refers::Task, dispatch.task);
                dispatched = dispatched.take().or(name.filter(|name| name == "double"));
                let stream = dispatch.read.and_then(|run| origin.name(Refers::Stream, run.stream));
                read = read.take().or(stream.filter(|stream| stream == "source → double"));
            })
            .unwrap();
        events.look().unwrap();
    }
    drop(send);
    runtime.join().unwrap();
}
