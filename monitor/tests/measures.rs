//! Compares the measurements of hand-made runs with values computed by hand.

use proptest::prelude::*;
use thalweg_monitor::events::*;
use thalweg_monitor::*;

const SOURCE: u64 = 1;
const BOX: u64 = 2;
const SINK: u64 = 3;
const ENTRY: u64 = 11;
const EXIT: u64 = 12;

/// The events of a hand-made run, sorted by time when it is analysed.
#[derive(Default)]
struct Script {
    events: Vec<(u64, u64, Observation)>,
    rows: Vec<LiveRow>,
    stuck: std::collections::HashMap<u64, u64>,
    lost: Vec<(u64, u64)>,
    mode: Option<Mode>,
    begun_in: Option<Mode>,
    event_bytes: Option<u64>,
}

/// The messages of a dispatch.
#[derive(Default, Clone, Copy)]
struct Did<'a> {
    read: &'a [(u64, u64, u64)],
    wrote: &'a [(u64, u64, u64)],
    /// (stream, first, parent stream, parent first, count, step)
    derived: &'a [(u64, u64, u64, u64, u64, u64)],
}

#[derive(Clone, Copy)]
enum Then {
    Input(u64),
    Output(u64),
    Yield,
    End,
}

impl Script {
    fn at(&mut self, time: u64, writer: u64, observation: impl Into<Observation>) -> &mut Script {
        self.events.push((time, writer, observation.into()));
        self
    }

    fn task(&mut self, time: u64, task: u64, component: u64, one_to_one: bool) -> &mut Script {
        self.at(
            time,
            0,
            TaskCreated {
                task,
                component,
                parent: 0,
                replica: 0,
                one_to_one,
                blocking: false,
                ..TaskCreated::default()
            },
        )
    }

    fn stream(&mut self, time: u64, stream: u64, writer: u64, reader: u64) -> &mut Script {
        self.at(time, 0, StreamOpened { stream, name: stream, reader, writer, capacity: 8 })
    }

    fn close(&mut self, time: u64, stream: u64, written: u64, read: u64, dropped: u64) -> &mut Script {
        self.at(time, 0, StreamClosed { stream, written, read, dropped })
    }

    /// A dispatch of `task` on `worker` (which is also the writer) from `start` to `end`.
    fn run(&mut self, worker: u64, task: u64, (start, end): (u64, u64), did: Did, then: Then) -> &mut Script {
        self.at(
            end,
            worker,
            TaskDispatched { task, worker, duration_ticks: end - start, ..TaskDispatched::default() },
        );
        for &(stream, first, count) in did.read {
            self.at(end, worker, StreamRead::from(Run { stream, first, count }));
        }
        for &(stream, first, count) in did.wrote {
            self.at(end, worker, StreamWrote::from(Run { stream, first, count }));
        }
        for &(stream, first, parent_stream, parent_first, count, step) in did.derived {
            self.at(end, worker, Derived { stream, first, count, parent_stream, parent_first, step });
        }
        self.at(
            end,
            worker,
            match then {
                Then::Input(stream) => TaskBlockedInput { task, stream }.into(),
                Then::Output(stream) => TaskBlockedOutput { task, stream }.into(),
                Then::Yield => TaskYielded { task }.into(),
                Then::End => Observation::from(TaskEnded { task, ..TaskEnded::default() }),
            },
        )
    }

    fn worker(&mut self, worker: u64, started: u64, ended: u64) -> &mut Script {
        self.at(
            started,
            worker,
            WorkerStarted { worker, core: worker as i64, node: -1, clock_reading_ps: 0 },
        );
        self.at(ended, worker, worker_ended(worker, 0, 0))
    }

    /// One tick is one microsecond, so that a million ticks are a second.
    fn report(&self) -> Report {
        self.report_as(State::Ended)
    }

    fn report_as(&self, state: State) -> Report {
        let mut analysis = Analysis::new(Options { ns_per_tick: 1000.0, top: 10 });
        if let Some(mode) = self.begun_in {
            analysis.begin_in(mode);
        }
        let mut events = self.events.clone();
        events.sort_by_key(|&(time, ..)| time);
        for &(writer, lost) in &self.lost {
            analysis.gap(writer, lost);
        }
        for (time, writer, observation) in &events {
            analysis.observe(*time, *writer, observation);
        }
        let mut names = Names::default();
        for (site, path) in [(100, "net/source"), (101, "net/work"), (102, "net/sink"), (103, "net/split")] {
            names.sites.insert(site, SiteName { path: path.into(), kind: "box".into(), place: None });
        }
        for stream in 1..50 {
            names.names.insert(stream, format!("s{stream}"));
        }
        analysis.finish(
            &names,
            Ending {
                limits: None,
                map: Vec::new(),
                state,
                now: None,
                mode: self.mode,
                rows: self.rows.clone(),
                stuck: self.stuck.clone(),
                disk_ns: None,
                event_bytes: self.event_bytes,
                space: SpaceInfo::default(),
            },
        )
    }
}

fn worker_ended(worker: u64, busy_ticks: u64, waiting_ticks: u64) -> WorkerEnded {
    WorkerEnded { worker, busy_ticks, waiting_ticks, ..WorkerEnded::default() }
}

fn near(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{got} instead of {want}");
}

fn us(ns: f64) -> f64 {
    ns / 1000.0
}

fn component<'r>(report: &'r Report, path: &str) -> &'r Component {
    report.components.iter().find(|component| component.path == path).unwrap()
}

fn edge<'r>(report: &'r Report, name: &str) -> &'r Stream {
    report.streams.iter().find(|stream| stream.name == name).unwrap()
}

/// Source → one-to-one box → sink, two workers, four messages.
fn pipeline() -> Script {
    let mut script = Script::default();
    script.worker(0, 0, 1000).worker(1, 0, 800);
    script.task(10, SOURCE, 100, false).task(10, BOX, 101, true).task(10, SINK, 102, false);
    script.stream(20, ENTRY, SOURCE, BOX).stream(20, EXIT, BOX, SINK);
    script.at(20, 0, Entry { stream: ENTRY }).at(20, 0, Exit { stream: EXIT });
    // The messages enter at 110, 120, 130, 140.
    script.run(0, SOURCE, (100, 140), Did { wrote: &[(ENTRY, 0, 4)], ..Did::default() }, Then::End);
    script.at(140, 0, TaskReady { task: BOX, by_stream: 0, ..TaskReady::default() });
    // Messages 0 and 1 take 50 µs each and leave at 250 and 300; then the exit stream is full until 350.
    script.run(
        1,
        BOX,
        (200, 300),
        Did { read: &[(ENTRY, 0, 2)], wrote: &[(EXIT, 0, 2)], ..Did::default() },
        Then::Output(EXIT),
    );
    script.at(300, 1, TaskReady { task: SINK, by_stream: 0, ..TaskReady::default() });
    script.run(0, SINK, (340, 350), Did { read: &[(EXIT, 0, 2)], ..Did::default() }, Then::Input(EXIT));
    script.at(350, 0, TaskReady { task: BOX, by_stream: 0, ..TaskReady::default() });
    // Messages 2 and 3 take 100 µs each and leave at 480 and 580.
    script.run(
        1,
        BOX,
        (380, 580),
        Did { read: &[(ENTRY, 2, 2)], wrote: &[(EXIT, 2, 2)], ..Did::default() },
        Then::End,
    );
    script.at(580, 1, TaskReady { task: SINK, by_stream: 0, ..TaskReady::default() });
    script.run(0, SINK, (600, 620), Did { read: &[(EXIT, 2, 2)], ..Did::default() }, Then::End);
    script.close(580, ENTRY, 4, 4, 0).close(620, EXIT, 4, 4, 0);
    script
}

#[test]
fn pipeline_by_hand() {
    let report = pipeline().report();
    assert!(report.window.complete);
    assert_eq!(report.window.state, State::Ended);
    near(us(report.window.duration_ns), 1000.0);

    // The throughput (LPEL paper, equation 1) divides the 4 messages by the 1000 µs of the worker that
    // existed longest.
    near(report.throughput.entry_per_s.unwrap(), 4.0 / 1e-3);
    assert_eq!((report.throughput.messages_in, report.throughput.messages_out), (Some(4), Some(4)));
    near(us(report.throughput.worker_ns_longest.unwrap()), 1000.0);

    // The service latency (LPEL paper, equation 2) includes the box's time only, because source and sink are
    // outside the network.
    let service = report.latency.service.unwrap();
    near(us(service.mean_ns), (50.0 + 50.0 + 100.0 + 100.0) / 4.0);
    near(us(service.jitter_ns), 25.0);
    near(us(service.max_ns), 100.0);
    // The messages' times from entry to exit are 250−110, 300−120, 480−130, 580−140.
    let end_to_end = report.latency.end_to_end.unwrap();
    let latencies = [140.0, 180.0, 350.0, 440.0];
    let mean: f64 = latencies.iter().sum::<f64>() / 4.0;
    let variance = latencies.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>() / 4.0;
    near(us(end_to_end.mean_ns), mean);
    near(us(end_to_end.jitter_ns), variance.sqrt());
    near(us(end_to_end.max_ns), 440.0);
    assert_eq!((end_to_end.count, report.latency.in_flight, report.latency.unattributed), (4, 0, 0));

    // The box was created at 10 and ended at 580. The box was ready 10–200, busy 200–300, without room
    // 300–350, ready 350–380 and busy 380–580.
    let work = &component(&report, "net/work").work;
    let shares = work.shares.unwrap();
    near(shares.busy, 300.0 / 570.0);
    near(shares.ready, 220.0 / 570.0);
    near(shares.output_wait, 50.0 / 570.0);
    near(shares.input_wait, 0.0);
    near(us(work.service_ns.unwrap()), 75.0);
    assert_eq!((work.messages_in, work.messages_out, work.selectivity), (Some(4), Some(4), Some(1.0)));
    // The sink was ready from its creation at 10 until 340, busy until 350, without messages until 580, ready
    // until 600, and busy for 20.
    let shares = component(&report, "net/sink").work.shares.unwrap();
    near(shares.busy, 30.0 / 610.0);
    near(shares.input_wait, 230.0 / 610.0);
    near(shares.ready, 350.0 / 610.0);

    // The exit stream was full for 50 of its 600 µs, and empty for 230. The messages were in the exit stream
    // from 250, 300, 480 and 580 (mean 402.5) until 345, 345, 610 and 610: the messages that a dispatch reads
    // count as read in its middle on average.
    let exit = edge(&report, "s12");
    assert_eq!((exit.written, exit.read, exit.held, exit.dropped), (Some(4), Some(4), Some(0), Some(0)));
    near(exit.full_share.unwrap(), 50.0 / 600.0);
    near(exit.empty_share.unwrap(), 230.0 / 600.0);
    let times_in = 2.0 * (345.0 - 250.0) + 2.0 * (610.0 - 480.0);
    near(exit.occupancy_mean.unwrap(), times_in / 600.0);
    near(us(exit.wait_ns.unwrap()), times_in / 4.0);
    assert_eq!((exit.occupancy_max, exit.conserved), (Some(2), Some(true)));
    assert_eq!(exit.role, "exit");

    // Worker 0 ran the source and the sink for 40 + 10 + 20 of its 1000 µs.
    near(report.workers[0].shares.unwrap().busy, 70.0 / 1000.0);
    near(report.workers[1].shares.unwrap().busy, 300.0 / 800.0);
    assert_eq!((report.workers[1].dispatches, report.workers[1].messages), (Some(2), Some(4)));
    assert_eq!(report.workers[1].core, Some(1));
}

/// A reader's dispatch may end, and be recorded, before the dispatch that wrote its messages.
#[test]
fn reader_recorded_before_its_writer() {
    let mut script = Script::default();
    script.task(0, SOURCE, 100, false).task(0, BOX, 101, true);
    script.stream(0, ENTRY, SOURCE, BOX).stream(0, EXIT, BOX, 0);
    script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
    // The source writes at 250 and 500 in one dispatch; the box reads the first message at 300.
    script.run(
        1,
        BOX,
        (300, 310),
        Did { read: &[(ENTRY, 0, 1)], wrote: &[(EXIT, 0, 1)], ..Did::default() },
        Then::Input(ENTRY),
    );
    script.run(0, SOURCE, (0, 500), Did { wrote: &[(ENTRY, 0, 2)], ..Did::default() }, Then::End);
    script.run(
        1,
        BOX,
        (600, 630),
        Did { read: &[(ENTRY, 1, 1)], wrote: &[(EXIT, 1, 1)], ..Did::default() },
        Then::End,
    );
    let report = script.report();
    let end_to_end = report.latency.end_to_end.unwrap();
    near(us(end_to_end.mean_ns), f64::midpoint(310.0 - 250.0, 630.0 - 500.0));
    near(us(report.latency.service.unwrap().max_ns), 30.0);
    assert_eq!((report.latency.unattributed, report.latency.in_flight), (0, 0));
}

/// A chain has finished a message and closed one of its streams before the source records that it wrote the
/// message.
#[test]
fn stream_closed_before_its_messages_are_settled() {
    const NEXT: u64 = 4;
    const MIDDLE: u64 = 13;
    let mut script = Script::default();
    script.task(0, SOURCE, 100, false).task(0, BOX, 101, true).task(0, NEXT, 102, true);
    script.stream(0, ENTRY, SOURCE, BOX).stream(0, MIDDLE, BOX, NEXT).stream(0, EXIT, NEXT, 0);
    script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
    let one = |read, wrote| (vec![(read, 0, 1)], vec![(wrote, 0, 1)]);
    for (task, (start, end), (read, wrote)) in
        [(BOX, (300, 310), one(ENTRY, MIDDLE)), (NEXT, (320, 340), one(MIDDLE, EXIT))]
    {
        let did = Did { read: &read, wrote: &wrote, ..Did::default() };
        script.run(1, task, (start, end), did, Then::End);
    }
    script.close(345, MIDDLE, 1, 1, 0);
    // The messages are written at 250 and 500; the second one has no reader.
    script.run(0, SOURCE, (0, 500), Did { wrote: &[(ENTRY, 0, 2)], ..Did::default() }, Then::End);
    script.close(510, ENTRY, 2, 1, 1).close(510, EXIT, 1, 1, 0);
    let report = script.report();
    near(us(report.latency.service.unwrap().max_ns), 30.0);
    assert_eq!((report.latency.unattributed, report.latency.in_flight), (0, 0));
    let end_to_end = report.latency.end_to_end.unwrap();
    assert_eq!(end_to_end.count, 2, "the dropped one counts until it is dropped");
    near(us(end_to_end.max_ns), 340.0 - 250.0);
}

/// The streams of a circle are closed in the batch of events before the one in which its tasks record their
/// ends.
#[test]
fn a_deadlock_is_seen_though_its_streams_are_gone() {
    const PING: u64 = BOX;
    const PONG: u64 = SINK;
    const THERE: u64 = ENTRY;
    const BACK: u64 = EXIT;
    const END: u64 = 100_000;
    let mut script = Script::default();
    script.task(0, PING, 100, false).task(0, PONG, 101, false);
    script.stream(0, THERE, PING, PONG).stream(0, BACK, PONG, PING);
    for (worker, task, stream) in [(0, PING, THERE), (1, PONG, BACK)] {
        let wrote = [(stream, 0, 8)];
        script.run(worker, task, (100, 110), Did { wrote: &wrote, ..Did::default() }, Then::Output(stream));
    }
    script.close(END, THERE, 8, 0, 8).close(END, BACK, 8, 0, 8);
    for _ in 0..1000 {
        script.run(2, SOURCE, (END + 1, END + 1), Did::default(), Then::Yield);
    }
    for (worker, task) in [(0, PING), (1, PONG)] {
        script.run(worker, task, (END + 2, END + 2), Did::default(), Then::End);
    }
    let report = script.report();
    let deadlock = report.waiting.deadlock.expect("two tasks wait for each other");
    let reported: Vec<_> = deadlock.waits.iter().map(|wait| (wait.task, wait.stream, wait.peer)).collect();
    let wait = |task, stream, peer| (TaskId::of(task), Some(StreamId::of(stream)), Some(TaskId::of(peer)));
    assert_eq!(reported, [wait(PING, THERE, PONG), wait(PONG, BACK, PING)]);
    assert_eq!(report.streams.iter().map(|stream| stream.streams).sum::<u64>(), 2, "each is listed once");
}

/// If the run itself recorded a deadlock, the report uses this event, even if the waits were short: a task
/// waits for messages from any of two streams while one of them is full.
#[test]
fn a_deadlock_that_the_run_recorded_is_reported_as_recorded() {
    const FORK: u64 = SOURCE;
    const JOIN: u64 = SINK;
    const COLLECTOR: u64 = BOX;
    let (straight, round, joined) = (ENTRY, 21, EXIT);
    let mut script = Script::default();
    script.task(0, FORK, 100, false).task(0, COLLECTOR, 101, false).task(0, JOIN, 102, false);
    script
        .stream(0, straight, FORK, JOIN)
        .stream(0, round, FORK, COLLECTOR)
        .stream(0, joined, COLLECTOR, JOIN);
    let wrote = [(straight, 0, 4)];
    script.run(0, FORK, (100, 110), Did { wrote: &wrote, ..Did::default() }, Then::Output(straight));
    let waits =
        [(FORK, straight, JOIN, true), (JOIN, joined, COLLECTOR, false), (COLLECTOR, round, FORK, false)];
    for (task, stream, peer, for_room) in waits {
        script.at(0, 120, Deadlocked { task, stream, peer, for_room: u64::from(for_room) });
    }
    for task in [FORK, COLLECTOR, JOIN] {
        script.run(0, task, (130, 130), Did::default(), Then::End);
    }
    let report = script.report();
    assert_eq!(report.verdict.finding.kind, VerdictKind::Deadlock);
    let deadlock = report.waiting.deadlock.expect("the run says so");
    let reported: Vec<_> = deadlock
        .waits
        .iter()
        .map(|wait| {
            (
                wait.task.number,
                wait.stream.unwrap_or_default().number,
                wait.peer.unwrap_or_default().number,
                wait.what == "room",
            )
        })
        .collect();
    assert_eq!((deadlock.tasks, reported), (3, waits.to_vec()));
    near(deadlock.waits[0].ns, 20_000.0);
}

#[test]
fn a_deadlock_without_end_takes_no_memory_without_end() {
    let mut script = Script::default();
    for task in 1..100_000 {
        script.at(0, 10, Deadlocked { task, stream: task, peer: task + 1, for_room: 1 });
    }
    assert_eq!(script.report().waiting.deadlock.map(|deadlock| deadlock.tasks), Some(1 << 16));
}

/// In the network, a splitter sends even messages into two branches and drops odd ones, a one-to-one box is
/// in one branch, and a merger joins the branches.
#[test]
fn derived_lineage_with_splits_and_drops() {
    const SPLIT: u64 = 4;
    const MERGE: u64 = 5;
    let (left, right, worked) = (21, 22, 23);
    let mut script = Script::default();
    script
        .task(0, SOURCE, 100, false)
        .task(0, SPLIT, 103, false)
        .task(0, BOX, 101, true)
        .task(0, MERGE, 102, false);
    script.stream(0, ENTRY, SOURCE, SPLIT).stream(0, left, SPLIT, MERGE).stream(0, right, SPLIT, BOX);
    script.stream(0, worked, BOX, MERGE).stream(0, EXIT, MERGE, 0);
    script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
    // The messages enter at 1, 2, 3, 4.
    script.run(0, SOURCE, (0, 4), Did { wrote: &[(ENTRY, 0, 4)], ..Did::default() }, Then::End);
    // Each message takes 10 µs. From message 0 the splitter makes messages 0 of the left stream and 0 and 1
    // of the right one, from message 2 it makes message 1 of the left stream, and from messages 1 and 3
    // nothing. The splitter has finished the messages at 20, 30, 40 and 50.
    script.run(
        0,
        SPLIT,
        (10, 50),
        Did {
            read: &[(ENTRY, 0, 4)],
            wrote: &[(left, 0, 2), (right, 0, 2)],
            derived: &[(left, 0, ENTRY, 0, 1, 0), (right, 0, ENTRY, 0, 2, 0), (left, 1, ENTRY, 2, 1, 1)],
        },
        Then::End,
    );
    // Each message takes 20 µs.
    script.run(
        1,
        BOX,
        (60, 100),
        Did { read: &[(right, 0, 2)], wrote: &[(worked, 0, 2)], ..Did::default() },
        Then::End,
    );
    // The merger reads 4 messages of 5 µs each; it drops the second message of the stream `worked` and writes
    // three, which leave at 106⅔, 113⅓ and 120.
    script.run(
        0,
        MERGE,
        (100, 120),
        Did {
            read: &[(left, 0, 2), (worked, 0, 2)],
            wrote: &[(EXIT, 0, 3)],
            derived: &[(EXIT, 0, left, 0, 2, 1), (EXIT, 2, worked, 0, 1, 0)],
        },
        Then::End,
    );
    let report = script.report();
    let service = report.latency.service.unwrap();
    // Message 0 takes 10 µs in the splitter, 2·20 in the box, and 5 + 2·5 in the merger; message 1 takes 10,
    // message 2 takes 10 + 5, and message 3 takes 10.
    near(us(service.mean_ns), (65.0 + 10.0 + 15.0 + 10.0) / 4.0);
    near(us(service.max_ns), 65.0);
    near(us(service.min_ns), 10.0);
    // The last descendants of messages 0 and 2 leave as messages 2 and 1 of the exit, at 120 and 113; message
    // 1 is used up at 30, and message 3 at 50.
    let end_to_end = report.latency.end_to_end.unwrap();
    near(us(end_to_end.max_ns), 119.0);
    near(us(end_to_end.mean_ns), (119.0 + 28.0 + 110.0 + 46.0) / 4.0);
    assert_eq!((report.latency.in_flight, report.latency.unattributed, report.latency.unmeasured), (0, 0, 0));
    near(report.latency.attributed_share.unwrap(), 1.0);
    let split = &component(&report, "net/split").work;
    assert_eq!((split.messages_in, split.messages_out, split.selectivity), (Some(4), Some(4), Some(1.0)));
}

/// A box whose output is full writes the remaining messages in its next dispatch.
#[test]
fn descendants_written_in_a_later_dispatch() {
    for one_to_one in [false, true] {
        let mut script = Script::default();
        script.task(0, SOURCE, 100, false).task(0, BOX, 101, one_to_one);
        script.stream(0, ENTRY, SOURCE, BOX).stream(0, EXIT, BOX, 0);
        script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
        script.run(0, SOURCE, (0, 0), Did { wrote: &[(ENTRY, 0, 3)], ..Did::default() }, Then::End);
        let derived: &[_] = if one_to_one { &[] } else { &[(EXIT, 0, ENTRY, 0, 1, 1)] };
        script.run(
            0,
            BOX,
            (10, 20),
            Did { read: &[(ENTRY, 0, 2)], wrote: &[(EXIT, 0, 1)], derived },
            Then::Output(EXIT),
        );
        let derived: &[_] = if one_to_one { &[] } else { &[(EXIT, 1, ENTRY, 1, 2, 1)] };
        script.run(
            0,
            BOX,
            (30, 40),
            Did { read: &[(ENTRY, 2, 1)], wrote: &[(EXIT, 1, 2)], derived },
            Then::Input(ENTRY),
        );
        let report = script.report();
        let end_to_end = report.latency.end_to_end.unwrap();
        assert_eq!((end_to_end.count, report.latency.unattributed, report.latency.in_flight), (3, 0, 0));
        near(us(end_to_end.mean_ns), (20.0 + 35.0 + 40.0) / 3.0);
        near(us(report.latency.service.unwrap().mean_ns), 20.0 / 3.0);
    }
}

/// The messages that a box still has to write are written before it reads on, and their descent is not
/// recorded.
#[test]
fn what_is_written_before_reading_descends_from_the_message_read_last() {
    let mut script = Script::default();
    script.task(0, SOURCE, 100, false).task(0, BOX, 101, false);
    script.stream(0, ENTRY, SOURCE, BOX).stream(0, EXIT, BOX, 0);
    script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
    script.run(0, SOURCE, (0, 0), Did { wrote: &[(ENTRY, 0, 2)], ..Did::default() }, Then::End);
    script.run(
        0,
        BOX,
        (10, 20),
        Did { read: &[(ENTRY, 0, 1)], wrote: &[(EXIT, 0, 1)], derived: &[(EXIT, 0, ENTRY, 0, 1, 0)] },
        Then::Output(EXIT),
    );
    // Messages 1 and 2 of the exit descend from input message 0, which an earlier dispatch read. Message 3 of
    // the exit descends from input message 1, which this dispatch reads, and so does message 4.
    script.run(
        0,
        BOX,
        (30, 60),
        Did { read: &[(ENTRY, 1, 1)], wrote: &[(EXIT, 1, 3)], derived: &[(EXIT, 3, ENTRY, 1, 1, 0)] },
        Then::Output(EXIT),
    );
    script.run(0, BOX, (70, 75), Did { wrote: &[(EXIT, 4, 1)], ..Did::default() }, Then::Input(ENTRY));
    let report = script.report();
    assert_eq!((report.latency.unattributed, report.latency.in_flight), (0, 0));
    let end_to_end = report.latency.end_to_end.unwrap();
    near(us(end_to_end.min_ns), 50.0);
    near(us(end_to_end.max_ns), 75.0);
    let service = report.latency.service.unwrap();
    near(us(service.min_ns), 10.0);
    near(us(service.max_ns), 35.0);
}

/// The time of a dispatch that reads nothing is charged to the messages that it wrote.
#[test]
fn flushing_dispatch_is_charged_to_what_it_writes() {
    let mut script = Script::default();
    script.task(0, SOURCE, 100, false).task(0, BOX, 101, true);
    script.stream(0, ENTRY, SOURCE, BOX).stream(0, EXIT, BOX, 0);
    script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
    script.run(0, SOURCE, (0, 0), Did { wrote: &[(ENTRY, 0, 1)], ..Did::default() }, Then::End);
    script.run(0, BOX, (10, 20), Did { read: &[(ENTRY, 0, 1)], ..Did::default() }, Then::Output(EXIT));
    script.run(0, BOX, (30, 37), Did { wrote: &[(EXIT, 0, 1)], ..Did::default() }, Then::Input(ENTRY));
    let report = script.report();
    near(us(report.latency.service.unwrap().mean_ns), 17.0);
    near(us(report.latency.end_to_end.unwrap().mean_ns), 37.0);
}

#[test]
fn failed_records_shift_no_pairs() {
    let mut script = Script::default();
    script.task(0, SOURCE, 100, false).task(0, BOX, 101, true);
    script.stream(0, ENTRY, SOURCE, BOX).stream(0, EXIT, BOX, 0);
    script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
    // The messages enter at 10, 20, 30.
    script.run(0, SOURCE, (0, 30), Did { wrote: &[(ENTRY, 0, 3)], ..Did::default() }, Then::End);
    script.at(120, 1, RecordFailed { task: BOX, stream: ENTRY, index: 1, ..RecordFailed::default() });
    // The descendants of messages 0 and 2 leave at 150 and 200; message 1 is used up at 200.
    script.run(
        1,
        BOX,
        (100, 200),
        Did { read: &[(ENTRY, 0, 3)], wrote: &[(EXIT, 0, 2)], ..Did::default() },
        Then::End,
    );
    script.close(200, ENTRY, 3, 3, 0);
    let report = script.report();
    let end_to_end = report.latency.end_to_end.unwrap();
    near(us(end_to_end.mean_ns), ((150.0 - 10.0) + (200.0 - 20.0) + (200.0 - 30.0)) / 3.0);
    let entry = edge(&report, "s11");
    assert_eq!((entry.written, entry.read, entry.failed, entry.conserved), (Some(3), Some(2), 1, Some(true)));
    assert_eq!(component(&report, "net/work").work.failed, 1);
}

#[test]
fn entry_and_exit_without_a_network() {
    let mut script = pipeline();
    script.events.retain(|(_, _, event)| !matches!(event, Observation::Entry(_) | Observation::Exit(_)));
    let (with, without) = (pipeline().report(), script.report());
    assert_eq!(with.latency, without.latency);
    assert_eq!(with.throughput, without.throughput);
}

/// Values that cannot be computed because events were lost are reported as missing; all other values are
/// correct.
#[test]
fn losses_are_reported_not_guessed() {
    let mut script = pipeline();
    // The event of the box's first dispatch is lost.
    script.events.retain(|&(time, writer, _)| !(writer == 1 && time == 300));
    script.lost.push((1, 5));
    let ended =
        TaskTotals { busy_ticks: 300, output_wait_ticks: 50, ready_ticks: 150, ..TaskTotals::default() };
    for (_, _, event) in &mut script.events {
        if let Observation::TaskEnded(end @ TaskEnded { task: BOX, .. }) = event {
            *end = end.with_totals(ended);
        }
    }
    let report = script.report();
    assert!(!report.window.complete);
    assert_eq!((report.window.lost, report.window.gaps), (5, 1));
    // The reads of messages 0 and 1 are lost. The box's next write has the index 2, so the roots of messages
    // 0 and 1 of the exit are unknown; those of messages 2 and 3 are unknown as well, because no event shows
    // that the box held nothing back.
    assert_eq!(report.latency.end_to_end, None);
    assert_eq!((report.latency.unmeasured, report.latency.entered), (4, 4));
    assert!(report.latency.unattributed > 0);
    // The shares come from the totals that the task itself recorded.
    let shares = component(&report, "net/work").work.shares.unwrap();
    near(shares.busy, 0.6);
    near(shares.ready, 0.3);
    // The counts come from the streams' positions.
    assert_eq!(component(&report, "net/work").work.messages_in, Some(4));
    assert_eq!(edge(&report, "s12").conserved, Some(true));
    assert!(report.notes.iter().any(|note| note.code == "lost"));
}

/// After a loss, the pairing of a one-to-one task's reads and writes is trusted again once the task has
/// waited for input.
#[test]
fn pairing_resumes_after_waiting_for_input() {
    let mut script = Script::default();
    script.task(0, SOURCE, 100, false);
    script.stream(0, ENTRY, SOURCE, BOX).stream(0, EXIT, BOX, 0);
    script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
    script.run(0, SOURCE, (0, 10), Did { wrote: &[(ENTRY, 0, 10)], ..Did::default() }, Then::End);
    script.task(0, BOX, 101, true);
    let did = |first: u64| (ENTRY, first, 2u64);
    script.run(
        0,
        BOX,
        (20, 30),
        Did { read: &[did(0)], wrote: &[(EXIT, 0, 2)], ..Did::default() },
        Then::Yield,
    );
    // The events of messages 2 and 3 are lost, so reads and writes are not paired for messages 4 and 5; after
    // the wait they are paired again, for 6 and 7.
    script.run(
        0,
        BOX,
        (60, 70),
        Did { read: &[did(4)], wrote: &[(EXIT, 4, 2)], ..Did::default() },
        Then::Input(ENTRY),
    );
    script.run(
        0,
        BOX,
        (80, 90),
        Did { read: &[did(6)], wrote: &[(EXIT, 6, 2)], ..Did::default() },
        Then::Input(ENTRY),
    );
    script.lost.push((0, 3));
    let report = script.report();
    assert_eq!(report.latency.end_to_end.unwrap().count, 4);
    assert_eq!((report.latency.unmeasured, report.latency.in_flight), (4, 2));
}

#[test]
fn metrics_mode_reports_from_totals() {
    let mut script = Script { mode: Some(Mode::Metrics), ..Script::default() };
    script.at(0, 0, WorkerStarted { worker: 0, core: -1, node: -1, clock_reading_ps: 0 });
    script.task(0, SOURCE, 100, false).task(0, BOX, 101, true);
    script.stream(0, ENTRY, SOURCE, BOX).stream(0, EXIT, BOX, 0);
    script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
    script.close(400, ENTRY, 1000, 1000, 0);
    let totals =
        TaskTotals { busy_ticks: 200, input_wait_ticks: 100, ready_ticks: 100, ..TaskTotals::default() };
    script.at(400, 0, TaskEnded { task: SOURCE, ..TaskEnded::default() });
    script.at(400, 0, TaskEnded { task: BOX, ..TaskEnded::default() }.with_totals(totals));
    script.at(500, 0, worker_ended(0, 300, 150));
    script.rows.push(LiveRow::Stream {
        stream: EXIT,
        name: EXIT,
        reader: 0,
        writer: BOX,
        capacity: 8,
        totals: StreamTotals { written: 900, read: 899, dropped: 0 },
    });
    let report = script.report();
    assert_eq!(report.window.modes[0].mode, "metrics");
    assert_eq!((report.throughput.messages_in, report.throughput.messages_out), (Some(1000), Some(900)));
    near(report.throughput.entry_per_s.unwrap(), 1000.0 / 500e-6);
    assert_eq!((report.latency.service, report.latency.end_to_end), (None, None));
    let work = &component(&report, "net/work").work;
    near(work.shares.unwrap().busy, 0.5);
    assert_eq!((work.messages_in, work.messages_out, work.selectivity), (Some(1000), Some(900), Some(0.9)));
    near(us(work.service_ns.unwrap()), 0.2);
    assert_eq!(component(&report, "net/source").work.shares, None);
    let exit = edge(&report, "s12");
    assert_eq!((exit.held, exit.occupancy_mean, exit.full_share), (Some(1), None, None));
    let shares = report.workers[0].shares.unwrap();
    near(shares.unaccounted, 50.0 / 500.0);
    assert_eq!(report.workers[0].messages, None);
    assert!(report.notes.iter().any(|note| note.code == "mode"));
}

/// The events of a box that reads two messages, has an empty dispatch, waits, and reads two more messages.
/// Its worker wakes other threads between these dispatches, and has no processor for 40 µs of the first
/// dispatch and for 25 µs of the wait.
fn disturbed() -> Script {
    let mut script = Script::default();
    script.worker(0, 0, 1000).worker(1, 0, 800);
    script.task(10, SOURCE, 100, false).task(10, BOX, 101, true).task(10, SINK, 102, false);
    script.stream(20, ENTRY, SOURCE, BOX).stream(20, EXIT, BOX, SINK);
    script.at(20, 0, Entry { stream: ENTRY }).at(20, 0, Exit { stream: EXIT });
    script.run(0, SOURCE, (100, 140), Did { wrote: &[(ENTRY, 0, 4)], ..Did::default() }, Then::End);
    script.at(140, 0, TaskReady { task: BOX, by_stream: 0, ..TaskReady::default() });
    script.at(300, 1, Kept { worker: 1, task: BOX, duration_ticks: 40 });
    let two = |first: &'static [(u64, u64, u64)], wrote: &'static [(u64, u64, u64)]| Did {
        read: first,
        wrote,
        ..Did::default()
    };
    script.run(1, BOX, (200, 300), two(&[(ENTRY, 0, 2)], &[(EXIT, 0, 2)]), Then::Yield);
    script.run(1, BOX, (310, 330), Did::default(), Then::Input(ENTRY));
    script.at(335, 1, WorkerWaiting { worker: 1 });
    script.at(390, 0, TaskReady { task: BOX, by_stream: ENTRY, ..TaskReady::default() });
    script.at(400, 1, Kept { worker: 1, task: 0, duration_ticks: 25 });
    script.at(400, 1, WorkerResumed { worker: 1 });
    script.run(1, BOX, (400, 500), two(&[(ENTRY, 2, 2)], &[(EXIT, 2, 2)]), Then::End);
    script.at(500, 1, TaskReady { task: SINK, by_stream: 0, ..TaskReady::default() });
    script.run(0, SINK, (600, 620), Did { read: &[(EXIT, 0, 4)], ..Did::default() }, Then::End);
    script.close(500, ENTRY, 4, 4, 0).close(620, EXIT, 4, 4, 0);
    script
}

#[test]
fn a_message_is_not_charged_for_what_its_worker_did_besides() {
    let report = disturbed().report();
    let work = &component(&report, "net/work").work;
    near(us(work.busy_ns.unwrap()), 60.0 + 20.0 + 100.0);
    near(us(work.empty_ns.unwrap()), 20.0);
    assert_eq!((work.dispatches, work.empty), (Some(3), Some(1)));
    near(us(work.service_ns.unwrap()), 160.0 / 4.0);
    near(us(work.lifetime_ns.unwrap()), 490.0);
    // The box was created at 10, kept from the processor in the first dispatch, delayed by another task's
    // wake-up, and woken at 390.
    near(work.shares.unwrap().ready, (190.0 + 40.0 + 10.0 + 10.0) / 490.0);
    let latency = &report.latency;
    let service = latency.service.unwrap();
    near(us(service.min_ns), 30.0);
    near(us(service.max_ns), 50.0);
    near(us(latency.attributed_ns.unwrap()), 160.0);
    near(us(latency.empty_ns.unwrap()), 20.0);
    near(us(latency.outside_ns.unwrap()), 40.0 + 20.0);
    near(latency.attributed_share.unwrap(), 160.0 / 180.0);
    let shares = report.workers[1].shares.unwrap();
    near(shares.busy, 180.0 / 800.0);
    near(shares.kept, 65.0 / 800.0);
    near(shares.waiting, 40.0 / 800.0);
    near(shares.own, (200.0 + 10.0 + 5.0 + 300.0) / 800.0);
    near(shares.unaccounted, 0.0);
}

/// A figure of a report, and a function that falsifies it.
type Falsified = (&'static str, fn(&mut Report));

/// Checks that each wrong figure that is part of a sum is detected.
#[test]
fn no_figure_can_be_wrong_unnoticed() {
    fn work(report: &mut Report) -> &mut Work {
        &mut report.components.iter_mut().find(|component| component.path == "net/work").unwrap().work
    }
    fn one(count: &mut Option<u64>) {
        *count = count.map(|count| count + 1);
    }
    fn more(ns: &mut Option<f64>) {
        *ns = ns.map(|ns| ns + 1000.0);
    }
    let falsified: &[Falsified] = &[
        ("a task's share", |report| report.tasks[0].work.shares.as_mut().unwrap().busy += 0.01),
        ("a component's share", |report| work(report).shares.as_mut().unwrap().ready += 0.01),
        ("a worker's share", |report| report.workers[1].shares.as_mut().unwrap().own += 0.01),
        ("a worker's shares", |report| {
            let shares = report.workers[1].shares.as_mut().unwrap();
            (shares.busy, shares.kept) = (shares.busy + 0.01, shares.kept - 0.01);
        }),
        ("a worker's lifetime", |report| report.workers[1].lifetime_ns += 1e5),
        ("a worker's dispatches", |report| one(&mut report.workers[1].dispatches)),
        ("a worker's messages", |report| one(&mut report.workers[1].messages)),
        ("busy", |report| more(&mut work(report).busy_ns)),
        ("empty", |report| more(&mut work(report).empty_ns)),
        ("empty dispatches", |report| one(&mut work(report).empty)),
        ("service", |report| more(&mut work(report).service_ns)),
        ("lifetime", |report| more(&mut work(report).lifetime_ns)),
        ("messages in", |report| one(&mut work(report).messages_in)),
        ("messages out", |report| one(&mut work(report).messages_out)),
        ("dispatches", |report| one(&mut work(report).dispatches)),
        ("failed", |report| work(report).failed += 1),
        ("a task's messages", |report| one(&mut report.tasks[0].work.messages_in)),
        ("tasks", |report| report.tasks_count += 1),
        ("tasks of a component", |report| report.components[0].tasks += 1),
        ("written", |report| one(&mut report.streams[0].written)),
        ("read", |report| one(&mut report.streams[0].read)),
        ("held", |report| one(&mut report.streams[0].held)),
        ("dropped", |report| one(&mut report.streams[0].dropped)),
        ("failed in the reader", |report| report.streams[0].failed += 1),
        ("input messages", |report| one(&mut report.throughput.messages_in)),
        ("output messages", |report| one(&mut report.throughput.messages_out)),
        ("entered", |report| report.latency.entered += 1),
        ("in flight", |report| report.latency.in_flight += 1),
        ("unmeasured", |report| report.latency.unmeasured += 1),
        ("services", |report| report.latency.service.as_mut().unwrap().count += 1),
        ("attributed", |report| more(&mut report.latency.attributed_ns)),
        ("unattributed", |report| more(&mut report.latency.unattributed_ns)),
        ("empty inside", |report| more(&mut report.latency.empty_ns)),
        ("outside", |report| more(&mut report.latency.outside_ns)),
        ("attributed share", |report| report.latency.attributed_share = Some(1.0)),
        ("waiting", |report| report.waiting.total_ns += 1e4),
        ("a wait", |report| report.waiting.matrix[0].ns += 1e4),
        ("a root", |report| report.waiting.roots[0].ns += 1e4),
        ("overhead", |report| report.overhead.ns = report.overhead.ns.map(|ns| ns * 1.5)),
    ];
    let mut script = disturbed();
    script.at(0, 2, WorkerStarted { worker: 2, core: -1, node: -1, clock_reading_ps: 9000 });
    script.at(1000, 2, worker_ended(2, 0, 0));
    let sound = script.report();
    assert_eq!(sound.contradictions(), Vec::<String>::new());
    for (what, falsify) in falsified {
        let mut report = sound.clone();
        falsify(&mut report);
        assert_ne!(report, sound, "{what} is not there");
        assert_ne!(report.contradictions(), Vec::<String>::new(), "{what} was falsified");
    }
}

/// A report does not count as complete if its events begin in the middle of a run.
#[test]
fn full_from_the_middle_on() {
    let mut script = pipeline();
    script.begun_in = Some(Mode::Metrics);
    script.at(90, 0, ModeChanged { mode: 2 });
    for (_, _, event) in &mut script.events {
        if let Observation::TaskEnded(end @ TaskEnded { task: BOX, .. }) = event {
            (end.busy_ticks, end.input_wait_ticks) = (400, 100);
        }
    }
    let report = script.report();
    let modes: Vec<&str> = report.window.modes.iter().map(|span| span.mode.as_str()).collect();
    assert_eq!((modes, report.window.complete), (vec!["metrics", "full"], false));
    near(component(&report, "net/work").work.shares.unwrap().busy, 0.8);
    assert!(report.notes.iter().any(|note| note.code == "mode_changed"));
}

fn worker_on(task: u64, message: u64) -> LiveRow {
    LiveRow::Worker {
        worker: 1,
        core: 1,
        task,
        message,
        busy_ticks: 100,
        waiting_ticks: 0,
        started: 0,
        updated: 400,
        dispatches: 1,
        clock_reading_ps: 20_000,
        parked: false,
        parked_ticks: 0,
        ended: false,
    }
}

/// Checks the overhead of the run of [`pipeline`], which has 4 input messages.
#[test]
fn what_recording_took() {
    let mut script = pipeline();
    let report = script.report();
    let overhead = &report.overhead;
    // The events of writer 0 have the times 0 (start), 10 (creation), 20 (opening), 140, 350, 580 (close),
    // 620 and 1000; those of writer 1 have 0, 300, 580 and 800.
    assert_eq!((overhead.clock_readings, overhead.clock_reading_ns), (12, None));
    assert_eq!((overhead.ns, overhead.share, overhead.bytes, overhead.bytes_per_s), (None, None, None, None));

    script.rows.push(worker_on(0, 0));
    script.event_bytes = Some(2_000);
    let report = script.report();
    let overhead = &report.overhead;
    // The overhead is 20 ns a reading and 2 ns an event, divided by the 1000 and 800 µs of the two workers.
    let ns = 12.0 * 20.0 + report.window.events as f64 * overhead.event_ns;
    near(overhead.clock_reading_ns.unwrap(), 20.0);
    near(overhead.event_ns, 2.0);
    near(overhead.ns.unwrap(), ns);
    near(overhead.share.unwrap(), ns / 1_800_000.0);
    near(overhead.bytes_per_s.unwrap(), 2e6);

    // Lost events are assumed to have had readings of the clock in the same proportion as the events read.
    script.lost.push((1, report.window.events));
    let lossy = script.report();
    assert_eq!(lossy.overhead.clock_readings, 24);
    near(lossy.overhead.ns.unwrap(), 2.0 * ns);

    // Without the live table, which is gone after the end of a run, the overhead comes from the workers'
    // events.
    script.rows.clear();
    for (_, _, event) in &mut script.events {
        if let Observation::WorkerStarted(started) = event {
            started.clock_reading_ps = 9_000 + 1_000 * started.worker;
        }
    }
    let overhead = script.report().overhead;
    near(overhead.clock_reading_ns.unwrap(), 9.5);
    assert!(overhead.share > Some(0.0));
}

#[test]
fn messages_that_were_timed_one_by_one() {
    let mut script = pipeline();
    assert_eq!(component(&script.report(), "net/work").service, None);
    for (end, duration) in [(230, 30), (300, 70), (480, 100), (580, 100)] {
        script.at(end, 1, MessageWorked { task: BOX, index: 0, duration_ticks: duration });
    }
    let report = script.report();
    let service = component(&report, "net/work").service.expect("it was recorded");
    assert_eq!(service.count, 4);
    near(us(service.min_ns), 30.0);
    near(us(service.mean_ns), 75.0);
    near(us(service.max_ns), 100.0);
    assert_eq!(component(&report, "net/source").service, None);
}

#[test]
fn killed_run_reports_what_it_was_on() {
    let mut script = pipeline();
    // The events end before the box's second dispatch ended, because the process was killed in it.
    script.events.retain(|&(time, ..)| time < 350);
    script.rows.push(worker_on(BOX, 2));
    let report = script.report_as(State::Killed);
    assert_eq!(report.window.state, State::Killed);
    assert_eq!(report.workers[1].on_task.as_deref(), Some("net/work"));
    assert_eq!(report.workers[1].on_message, Some(2));
    assert_eq!(report.notes[0].text, "The process died while worker 1 was in net/work, on its message 2.");
    near(us(report.window.duration_ns), 400.0);
    assert_eq!((report.latency.entered, report.latency.in_flight), (4, 2));
    assert_eq!(edge(&report, "s11").held, Some(2));
}

#[test]
fn a_worker_that_hangs_is_named_while_the_run_goes_on() {
    let mut script = pipeline();
    script.events.retain(|&(time, ..)| time < 350);
    script.rows.push(worker_on(BOX, 2));
    assert_eq!(script.report_as(State::Running).workers[1].on_task, None);
    script.stuck.insert(1, 150);
    let report = script.report_as(State::Running);
    let worker = &report.workers[1];
    assert_eq!((worker.on_task.as_deref(), worker.on_message), (Some("net/work"), Some(2)));
    near(us(worker.stuck_ns.unwrap()), 250.0);
    assert!(
        report.notes[0].text.starts_with("Worker 1 hangs: it has been in net/work, on its message 2, for")
    );
}

/// The process is killed when a box with a thread of its own is processing its third message.
#[test]
fn a_killed_box_with_its_own_thread_is_named() {
    let mut script = pipeline();
    script.events.retain(|&(time, ..)| time < 350);
    script.at(
        1,
        0,
        TaskCreated {
            task: 77,
            component: 101,
            parent: 0,
            replica: 0,
            one_to_one: true,
            blocking: true,
            ..TaskCreated::default()
        },
    );
    let counts = Some(TaskCounts { dispatches: 1, reads: 3, writes: 2 });
    let totals = TaskTotals { counts, ..TaskTotals::default() };
    let row =
        LiveRow::Task { task: 77, state: LiveState::Running, component: 101, replica: 0, worker: 0, totals };
    script.rows.push(row);
    let report = script.report_as(State::Killed);
    assert_eq!(
        report.notes[0].text,
        "The process died while net/work[0] was on its message 2, on its own thread."
    );
}

#[test]
fn verdicts() {
    let busy = |busy: (u64, u64), worker_end: u64| {
        let mut script = Script::default();
        script.worker(0, 0, worker_end);
        script.task(0, SOURCE, 100, false).task(0, BOX, 101, true).task(0, SINK, 102, false);
        script.stream(0, ENTRY, SOURCE, BOX).stream(0, EXIT, BOX, SINK);
        script.at(0, 0, Entry { stream: ENTRY }).at(0, 0, Exit { stream: EXIT });
        let wrote = Did { wrote: &[(ENTRY, 0, 1)], ..Did::default() };
        script.run(9, SOURCE, (0, busy.0), wrote, Then::Output(ENTRY));
        let did = Did { read: &[(ENTRY, 0, 1)], wrote: &[(EXIT, 0, 1)], ..Did::default() };
        script.run(0, BOX, (1, 2), Did::default(), Then::Input(ENTRY));
        script.at(busy.0, 0, TaskReady { task: BOX, by_stream: 0, ..TaskReady::default() });
        script.run(0, BOX, busy, did, Then::End);
        script.at(busy.0, 0, TaskReady { task: SINK, by_stream: 0, ..TaskReady::default() });
        script.run(0, SINK, (busy.1, busy.1 + 1), Did { read: &[(EXIT, 0, 1)], ..Did::default() }, Then::End);
        script.report().verdict.finding
    };
    let verdict = busy((2, 98), 100);
    assert_eq!((verdict.kind, verdict.component.as_deref()), (VerdictKind::Task, Some("net/work")));
    assert_ne!(busy((2, 98), 1000).kind, VerdictKind::Task, "it lived for a tenth of the run");
    assert_eq!(busy((95, 98), 100).kind, VerdictKind::Source);
    assert_eq!(Script::default().report().verdict.finding.kind, VerdictKind::Unknown);
}

#[test]
fn absurd_events_neither_hang_nor_panic() {
    let mut script = pipeline();
    let huge = Run { stream: ENTRY, first: u64::MAX - 1, count: u64::MAX };
    script.at(50, 0, StreamRead::from(huge)).at(50, 0, StreamWrote::from(huge));
    script.at(
        60,
        9,
        TaskDispatched {
            task: u64::MAX,
            worker: u64::MAX,
            duration_ticks: u64::MAX,
            ..TaskDispatched::default()
        },
    );
    script.at(60, 9, StreamWrote::from(huge));
    script.at(
        60,
        9,
        Derived {
            stream: ENTRY,
            first: u64::MAX - 1,
            count: u64::MAX,
            parent_stream: 0,
            parent_first: u64::MAX,
            step: u64::MAX,
        },
    );
    script.at(60, 9, TaskBlockedInput { task: u64::MAX, stream: u64::MAX });
    script.close(70, u64::MAX, u64::MAX, u64::MAX, u64::MAX);
    let report = script.report();
    assert!(report.window.malformed >= 3);
    assert_eq!(report.latency.entered, 4);
    assert_eq!(report.broken_count, 1);
}

#[test]
fn report_survives_json() {
    let report = pipeline().report();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    assert!(text.starts_with(r#"{"schema":"thalweg.report","version":2,"#));
}

proptest! {
    /// Checks that exactly the streams with falsified totals are flagged.
    #[test]
    fn conservation_flags_exactly_the_broken_edges(
        streams in prop::collection::vec((0u64..1000, 0u64..1000, prop::option::of((0u8..3, 1u64..50))), 1..10),
    ) {
        let mut script = Script { mode: Some(Mode::Metrics), ..Script::default() };
        let mut broken = Vec::new();
        for (n, &(read, dropped, wrong)) in streams.iter().enumerate() {
            let id = n as u64 + 1;
            script.stream(0, id, 0, 0);
            let (mut written, mut read, mut dropped) = (read + dropped, read, dropped);
            if let Some((what, by)) = wrong {
                match what {
                    0 => written += by,
                    1 => read += by,
                    _ => dropped += by,
                }
                broken.push(id);
            }
            script.close(10, id, written, read, dropped);
        }
        let report = script.report();
        prop_assert_eq!(report.broken.iter().map(|stream| stream.id.number).collect::<Vec<_>>(), broken.clone());
        for stream in &report.streams {
            let id: u64 = stream.name[1..].parse().unwrap();
            prop_assert_eq!(stream.conserved, Some(!broken.contains(&id)));
        }
    }

    /// Checks that in mode full a stream is flagged as well if a dispatch that read or wrote it is missing
    /// from the events.
    #[test]
    fn events_that_contradict_positions_are_flagged(missing in 0usize..5) {
        let mut script = pipeline();
        let mut n = 0;
        let mut hit = 0;
        script.events.retain(|(_, _, event)| {
            let (Observation::StreamRead(StreamRead { stream, .. })
            | Observation::StreamWrote(StreamWrote { stream, .. })) = event
            else {
                return true;
            };
            n += 1;
            if n - 1 == missing {
                hit = *stream;
            }
            n - 1 != missing
        });
        let report = script.report();
        prop_assert_eq!(report.broken.iter().map(|stream| stream.id.number).collect::<Vec<_>>(), vec![hit]);
    }

    /// Checks that the shares of tasks and workers sum to 1 for any events in any order.
    #[test]
    fn shares_sum_to_one(
        dispatches in prop::collection::vec((1u64..4, 0u64..2, 0u64..1000, 0u64..100, 0u8..3), 1..80),
        readies in prop::collection::vec((1u64..4, 0u64..1100), 0..40),
        lost: bool,
    ) {
        let mut script = Script::default();
        script.worker(0, 0, 1200).worker(1, 0, 1200);
        for task in 1..4 {
            script.task(0, task, 99 + task, false);
        }
        for (task, worker, start, duration, then) in dispatches {
            let then = [Then::Input(ENTRY), Then::Output(EXIT), Then::Yield][usize::from(then)];
            script.run(worker, task, (start, start + duration), Did::default(), then);
        }
        for (task, time) in readies {
            script.at(time, 0, TaskReady { task, by_stream: 0, ..TaskReady::default() });
        }
        if lost {
            script.lost.push((0, 1));
        }
        let report = script.report();
        for work in report.components.iter().map(|component| &component.work).chain(report.tasks.iter().map(|task| &task.work)) {
            if let Some(shares) = work.shares {
                near(shares.busy + shares.input_wait + shares.output_wait + shares.ready, 1.0);
            }
        }
        for worker in &report.workers {
            if let Some(shares) = worker.shares {
                near(shares.busy + shares.waiting + shares.own + shares.kept + shares.unaccounted, 1.0);
            }
        }
    }
}
