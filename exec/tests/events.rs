//! Checks that all events that the runtime records in a run agree with each other.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use thalweg_exec::{
    Context, HandedOn, In, Mode, Options, Out, PassesTo, Ports, Progress, Runtime, Stop, StreamSpec, Task,
    TaskSpec,
};
use thalweg_space::reader::{Item, LiveView, SpaceReader};
use thalweg_space::{Clock, ElementOptions, Policy, Space, SpaceOptions};

/// A space in a directory of its own, which is removed after the test.
struct Place {
    space: Space,
    parent: std::path::PathBuf,
}

impl Place {
    fn new() -> Place {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let parent = std::env::temp_dir().join(format!("thalweg-exec-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        let element = ElementOptions { block_bytes: 64 << 10, block_count: 128, policy: Policy::Overwrite };
        let options = SpaceOptions {
            name: "test".into(),
            parent: Some(parent.clone()),
            element,
            ..SpaceOptions::default()
        };
        Place { space: Space::create(options).unwrap(), parent }
    }

    fn runtime(&self, workers: usize, mode: Mode) -> Runtime {
        Runtime::new(Options { workers, mode, space: Some(self.space.clone()), ..Options::default() })
            .unwrap()
    }

    fn events(&self) -> Vec<Recorded> {
        unpacked(self.written())
    }

    /// The events in the order in which they were written.
    fn written(&self) -> Vec<Recorded> {
        let mut events = Vec::new();
        let reader = SpaceReader::open(self.space.path()).unwrap();
        let taken = reader.events().poll(usize::MAX, &mut |item| match item {
            Item::Event(event) => {
                let numbers = event.kind.fields.iter().filter(|field| !field.name.contains("message"));
                let fields = numbers
                    .map(|field| (field.name.to_string(), event.u64(event.kind.field(&field.name).unwrap())));
                let fields = fields.collect();
                let name = event.kind.name.to_string();
                events.push(Recorded { time: event.time, writer: event.writer, name, fields });
            }
            Item::Gap { lost, .. } => panic!("{lost} events lost"),
        });
        taken.unwrap();
        events
    }
}

/// Events that a writer has recorded about its next dispatch.
#[derive(Default)]
struct Saying {
    bases: Vec<HashMap<String, u64>>,
    parts: Vec<Recorded>,
    named: HashMap<String, u64>,
}

/// The events with each dispatch split into `exec.task_dispatched`, the messages read and written, and their
/// lineage.
fn unpacked(events: Vec<Recorded>) -> Vec<Recorded> {
    let mut writers: HashMap<u32, Saying> = HashMap::new();
    let mut unpacked = Vec::new();
    for event in events {
        let saying = writers.entry(event.writer).or_default();
        match event.name.as_str() {
            "exec.dispatch_base" => {
                if event.get("number") == 0 {
                    saying.bases.clear();
                }
                assert_eq!(event.get("number"), saying.bases.len() as u64, "{event:?}");
                saying.bases.push(event.fields);
            }
            "exec.task_created" => {
                if event.get("base_number") != u64::from(u32::MAX) {
                    if event.get("base_number") == 0 {
                        saying.bases.clear();
                    }
                    assert_eq!(event.get("base_number"), saying.bases.len() as u64, "{event:?}");
                    let mut base = event.fields.clone();
                    base.extend(["first_read", "first_written"].map(|name| (name.to_owned(), 0)));
                    saying.bases.push(base);
                }
                let besides = created_with(&event);
                unpacked.push(event);
                unpacked.extend(besides);
            }
            "exec.brief_task_ended" => unpacked.extend(ended_with(&event)),
            "exec.dispatch_streams" => saying.named = event.fields,
            "exec.stream_read" | "exec.stream_wrote" | "exec.derived" => saying.parts.push(event),
            "exec.dispatch" | "exec.dispatch_long" => saying.unpack(&event, &mut unpacked),
            _ => unpacked.push(event),
        }
    }
    assert!(writers.values().all(|saying| saying.parts.is_empty()), "parts of no dispatch");
    unpacked
}

/// A part of an event, in the form of a separate event.
fn part(event: &Recorded, name: &str, fields: &[(&str, u64)]) -> Recorded {
    Recorded {
        time: event.time,
        writer: event.writer,
        name: format!("exec.{name}"),
        fields: fields.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// The placement of a created task, and the streams that it was made with, as separate events.
fn created_with(event: &Recorded) -> Vec<Recorded> {
    let (task, worker, before) = (event.get("task"), event.get("worker"), event.get("writer_before"));
    let mut parts = Vec::new();
    if worker != u64::from(u32::MAX - 1) {
        parts.push(part(event, "task_mapped", &[("task", task), ("worker", worker)]));
    }
    let writer = if before == 0 { 0 } else { task - before };
    for (end, reader, writer) in [("input", task, writer), ("output", 0, task)] {
        if event.get(end) != 0 {
            let (stream, capacity) = (event.get(end), event.get("capacity"));
            let fields = [
                ("stream", stream),
                ("name", 0),
                ("reader", reader),
                ("writer", writer),
                ("capacity", capacity),
            ];
            parts.push(part(event, "stream_opened", &fields));
        }
    }
    parts
}

/// The end of a task, preceded by the ends of the streams that closed with it.
fn ended_with(event: &Recorded) -> Vec<Recorded> {
    let closed = |stream: u64, count: u64| {
        part(
            event,
            "stream_closed",
            &[("stream", stream), ("written", count), ("read", count), ("dropped", 0)],
        )
    };
    let mut parts = Vec::new();
    if event.get("stream") != 0 {
        parts.push(closed(event.get("stream"), event.get("passed")));
    }
    if event.get("other") != 0 {
        let other = event.get("stream").wrapping_add(event.get("other"));
        parts.push(closed(other, event.get("other_passed")));
    }
    let mut fields = event.fields.clone();
    fields.extend([("failed".to_owned(), 0), ("panicked".to_owned(), 0)]);
    parts.push(Recorded { name: "exec.task_ended".to_owned(), fields, ..part(event, "", &[]) });
    parts
}

impl Saying {
    fn unpack(&mut self, event: &Recorded, unpacked: &mut Vec<Recorded>) {
        let Recorded { time, writer, .. } = *event;
        let told = |name: &str, fields: &[(&str, u64)]| Recorded {
            time,
            writer,
            name: format!("exec.{name}"),
            fields: fields.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
        };
        for field in ["waits_for", "ready_by"] {
            let is_named = self.named.get(field).is_some_and(|&stream| stream != 0);
            assert_eq!(event.get(field) == 3, is_named, "{field} of {event:?}: {:?}", self.named);
        }
        let base = &mut self.bases[event.get("base_number") as usize];
        let (reads, writes) = (event.get("reads"), event.get("writes"));
        let (input, first_read) = (base["input"], base["first_read"]);
        let (output, first_written) = (base["output"], base["first_written"]);
        let of = |name: &str, parts: &[Recorded]| {
            let named = parts.iter().filter(|part| part.name == name);
            named.map(|part| part.get("count")).sum::<u64>()
        };
        unpacked.push(told(
            "task_dispatched",
            &[
                ("task", base["task"]),
                ("worker", base["worker"]),
                ("duration_ticks", event.get("duration_ticks")),
                ("reads", reads + of("exec.stream_read", &self.parts)),
                ("writes", writes + of("exec.stream_wrote", &self.parts)),
                ("outcome", event.get("outcome")),
                (
                    "waits_for",
                    [0, input, output, self.named.get("waits_for").copied().unwrap_or(0)]
                        [event.get("waits_for") as usize],
                ),
                ("ready_ticks", event.get("ready_ticks")),
                ("cause", event.get("cause")),
                (
                    "ready_by",
                    [0, input, output, self.named.get("ready_by").copied().unwrap_or(0)]
                        [event.get("ready_by") as usize],
                ),
            ],
        ));
        if reads > 0 {
            unpacked.push(told("stream_read", &[("stream", input), ("first", first_read), ("count", reads)]));
            base.insert("first_read".into(), first_read + reads);
        }
        if writes > 0 {
            unpacked.push(told(
                "stream_wrote",
                &[("stream", output), ("first", first_written), ("count", writes)],
            ));
            base.insert("first_written".into(), first_written + writes);
        }
        let derived = |descent: u64, stream: u64, first: u64, count: u64, parent_offset: u64| {
            let parent_first = first_read.wrapping_add(parent_offset);
            let lineage = [
                ("stream", stream),
                ("first", first),
                ("parent_stream", input),
                ("parent_first", parent_first),
                ("count", count),
                ("step", u64::from(descent == 1)),
            ];
            (descent != 0).then(|| told("derived", &lineage))
        };
        let parts: Vec<Recorded> = self.parts.extract_if(.., |part| part.name != "exec.derived").collect();
        let descents = parts.iter().filter(|part| part.name == "exec.stream_wrote").filter_map(|part| {
            let [descent, stream, first, count, offset] =
                ["descent", "stream", "first", "count", "parent_offset"].map(|field| part.get(field));
            derived(descent, stream, first, count, offset)
        });
        let descents: Vec<Recorded> = descents.collect();
        unpacked.extend(parts);
        let of_output =
            derived(event.get("descent"), output, first_written, writes, event.get("parent_offset"));
        unpacked.extend(of_output.into_iter().chain(descents));
        unpacked.append(&mut self.parts);
        self.named.clear();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.parent);
    }
}

#[derive(Debug)]
struct Recorded {
    time: u64,
    writer: u32,
    name: String,
    fields: HashMap<String, u64>,
}

impl Recorded {
    fn get(&self, field: &str) -> u64 {
        *self.fields.get(field).unwrap_or_else(|| panic!("{} has no {field}", self.name))
    }
}

fn named<'a>(events: &'a [Recorded], name: &str) -> Vec<&'a Recorded> {
    let name = format!("exec.{name}");
    events.iter().filter(|event| event.name == name).collect()
}

/// Adds one to each message, and takes some time for it.
struct Step {
    input: In<u64>,
    output: Out<u64>,
    turns: u64,
    /// Whether the step works on several messages in place, and moves them together.
    in_runs: bool,
    /// Whether it hands messages on to a task that waits.
    hands_on: bool,
}

fn add_one(messages: &mut [u64], turns: u64) {
    for message in messages {
        (0..turns).for_each(|_| std::hint::spin_loop());
        *message += 1;
    }
}

/// How many messages were handed on to steps.
static HANDED_ON: AtomicU64 = AtomicU64::new(0);

impl Step {
    /// Works on the next messages and hands them on, if the next task waits for them.
    fn hand_on(&mut self, cx: &mut Context<'_>) -> Option<Stop> {
        let most = if self.hands_on { cx.hands_on(&self.input, &self.output).min(cx.quantum()) } else { 0 };
        if most == 0 {
            return None;
        }
        let messages = self.input.upcoming(cx, most);
        add_one(messages, self.turns);
        let count = messages.len();
        let stop = self.input.hand_on(cx, count, &mut self.output);
        if stop.is_none() {
            assert_eq!(self.input.transfer(cx, count, &mut self.output), count);
        }
        stop
    }

    fn pass_run(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        let room = self.output.room(cx);
        let messages = self.input.upcoming(cx, left.min(room));
        add_one(messages, self.turns);
        match messages.len() {
            0 if room == 0 => Err(Stop::OutputFull),
            0 if self.input.ended() => Err(Stop::Ended),
            0 => Err(Stop::InputEmpty),
            count => Ok(self.input.transfer(cx, count, &mut self.output)),
        }
    }
}

impl Task for Step {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn passes_to(&mut self, _: HandedOn<'_>) -> Option<PassesTo<'_>> {
        self.hands_on.then(|| self.output.passes_to())
    }

    fn work_on(&mut self, messages: HandedOn<'_>, _: Progress<'_>) -> usize {
        let messages = messages.of::<u64>().unwrap();
        add_one(messages, self.turns);
        HANDED_ON.fetch_add(messages.len() as u64, Ordering::Relaxed);
        messages.len()
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if let Some(stop) = self.hand_on(cx) {
            return stop;
        }
        let mut left = if self.in_runs { cx.quantum() } else { 0 };
        while left > 0 {
            match self.pass_run(cx, left) {
                Ok(passed) => left -= passed,
                Err(stop) => return stop,
            }
        }
        if self.in_runs {
            return Stop::QuantumSpent;
        }
        for _ in 0..cx.quantum() {
            if self.output.room(cx) == 0 {
                return Stop::OutputFull;
            }
            match self.input.pop(cx) {
                Some(message) => {
                    (0..self.turns).for_each(|_| std::hint::spin_loop());
                    self.output.push(cx, message + 1).unwrap();
                    cx.derived(&self.output);
                }
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

/// A chain of four steps between a blocking source and a blocking sink.
fn run_chain(runtime: Runtime, messages: u64, turns: u64, at: impl Fn(u64) + Send + 'static) {
    run_chain_as(runtime, messages, turns, false, at);
}

/// A chain of four steps, which may hand messages on.
fn run_chain_as(
    runtime: Runtime,
    messages: u64,
    turns: u64,
    hands_on: bool,
    at: impl Fn(u64) + Send + 'static,
) {
    let (mut first, mut input) = runtime.stream(StreamSpec { capacity: Some(16), ..StreamSpec::default() });
    for step in 0..4 {
        let (output, next) = runtime.stream(StreamSpec { capacity: Some(16), ..StreamSpec::default() });
        runtime.spawn(TaskSpec::default(), Step { input, output, turns, in_runs: step % 2 == 1, hands_on });
        input = next;
    }
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        for message in 0..messages {
            at(message);
            task.feed(&mut first, message).unwrap();
        }
    });
    let (told, result) = mpsc::channel();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        let mut count = 0;
        while task.pop(&mut input).is_some() {
            count += 1;
        }
        told.send(count).unwrap();
    });
    assert_eq!(runtime.join().unwrap().failures, []);
    assert_eq!(result.recv().unwrap(), messages);
}

/// Checks that the four shares of each task's time add up to the task's life.
fn check_shares(events: &[Recorded]) {
    let created: HashMap<u64, u64> =
        named(events, "task_created").iter().map(|event| (event.get("task"), event.time)).collect();
    let ended = named(events, "task_ended");
    assert_eq!(created.len(), ended.len());
    for event in ended {
        let life = event.time - created[&event.get("task")];
        let shares = ["busy_ticks", "input_wait_ticks", "output_wait_ticks", "ready_ticks"]
            .map(|name| event.get(name));
        assert_eq!(shares.iter().sum::<u64>(), life, "{event:?}");
        assert!(shares[0] > 0);
    }
    check_counts(events);
}

/// Checks that the ended tasks of a chain read and wrote as many messages as the chain's streams record.
fn check_counts(events: &[Recorded]) {
    let sum = |kind, field: &str| named(events, kind).iter().map(|event| event.get(field)).sum::<u64>();
    assert_eq!(sum("task_ended", "reads"), sum("stream_closed", "read"));
    assert_eq!(sum("task_ended", "writes"), sum("stream_closed", "written"));
    for event in named(events, "task_ended") {
        assert!(event.get("dispatches") > 0, "{event:?}");
    }
}

/// Checks that each stream's reads and writes are recorded without gaps, and agree with the stream's totals.
fn check_positions(events: &[Recorded], messages: u64) {
    for (kind, total) in [("stream_read", "read"), ("stream_wrote", "written")] {
        let mut next: HashMap<u64, u64> = HashMap::new();
        for event in named(events, kind) {
            let position = next.entry(event.get("stream")).or_default();
            assert_eq!(event.get("first"), *position, "{event:?}");
            *position += event.get("count");
        }
        assert!(next.values().all(|&count| count == messages), "{kind}: {next:?}");
        assert_eq!(next.len(), 5);
        for event in named(events, "stream_closed") {
            assert_eq!(event.get(total), messages);
            assert_eq!(event.get("dropped"), 0);
        }
    }
}

#[test]
fn full_tells_everything_and_it_adds_up() {
    for (workers, hands_on) in [(1, false), (2, false), (1, true), (2, true)] {
        let place = Place::new();
        run_chain_as(place.runtime(workers, Mode::Full), 3000, 20, hands_on, |_| {});
        let events = place.events();
        check_shares(&events);
        check_positions(&events, 3000);
        let opened = named(&events, "stream_opened");
        assert!(opened.iter().any(|event| event.get("reader") != 0 && event.get("writer") != 0));
        assert_eq!(named(&events, "stream_closed").len(), 5);
        assert_eq!(named(&events, "task_mapped").len(), 6);
        assert_eq!(named(&events, "worker_started").len(), workers);
        for event in named(&events, "worker_started") {
            assert!(event.get("clock_reading_ps") > 0, "the clock's cost is known of ended runs, too");
        }
        assert_eq!(named(&events, "worker_ended").len(), workers);
        check_dispatches(&events);
        check_lineage(&events);
    }
    let handed_on = HANDED_ON.load(Ordering::Relaxed);
    assert!(handed_on > 100, "{handed_on}");
}

/// A worker's time, summed from the worker's events.
#[derive(Debug, Default, PartialEq)]
struct WorkerTime {
    busy: u64,
    waiting: u64,
    own: u64,
    kept: u64,
    /// The part of the own work that came before a dispatch.
    before_dispatches: u64,
}

impl WorkerTime {
    fn of(events: &[&Recorded]) -> WorkerTime {
        let mut all = WorkerTime::default();
        // The moment up to which the worker's time is accounted for, and for how long after this moment the
        // worker was kept from its processor.
        let (mut until, mut kept, mut kept_in_dispatches) = (0, 0, 0);
        for event in events {
            let mut since = |until: &mut u64, time: u64| {
                let ticks = time - *until - std::mem::take(&mut kept);
                *until = time;
                ticks
            };
            match event.name.as_str() {
                "exec.worker_started" => until = event.time,
                "exec.task_dispatched" => {
                    let gap = since(&mut until, event.time - event.get("duration_ticks"));
                    all.own += gap;
                    all.before_dispatches += gap;
                    all.busy += since(&mut until, event.time);
                }
                "exec.worker_waiting" | "exec.worker_ended" => all.own += since(&mut until, event.time),
                "exec.worker_resumed" => all.waiting += since(&mut until, event.time),
                "exec.kept" => {
                    all.kept += event.get("duration_ticks");
                    match event.get("task") {
                        0 => kept += event.get("duration_ticks"),
                        _ => kept_in_dispatches += event.get("duration_ticks"),
                    }
                }
                _ => {}
            }
        }
        all.busy -= kept_in_dispatches;
        all
    }
}

/// Each tick of a worker's time is accounted for once, and waking a sleeping thread is not part of the next
/// dispatch.
#[test]
fn a_workers_time_is_told_to_the_tick() {
    for (workers, hands_on) in [(1, false), (2, false), (1, true), (2, true)] {
        let place = Place::new();
        run_chain_as(place.runtime(workers, Mode::Full), 3000, 20, hands_on, |_| {});
        let events = place.events();
        let mut woke = 0;
        for ended in named(&events, "worker_ended") {
            let of_worker: Vec<&Recorded> =
                events.iter().filter(|event| event.writer == ended.writer).collect();
            let time = WorkerTime::of(&of_worker);
            woke += time.before_dispatches;
            let before_dispatches = time.before_dispatches;
            let [busy, waiting, own, kept] =
                ["busy_ticks", "waiting_ticks", "own_ticks", "kept_ticks"].map(|name| ended.get(name));
            assert_eq!(time, WorkerTime { busy, waiting, own, kept, before_dispatches });
            assert_eq!(busy + waiting + own + kept, ended.time - of_worker[0].time);
        }
        assert!(woke > 0, "the sink never slept");
    }
}

/// Checks that the events about a dispatch's messages follow the dispatch immediately, with the same time,
/// and that their counts add up to the dispatch's counts.
fn check_dispatches(events: &[Recorded]) {
    let mut by_writer: HashMap<u32, Vec<&Recorded>> = HashMap::new();
    for event in events {
        by_writer.entry(event.writer).or_default().push(event);
    }
    for events in by_writer.values() {
        assert!(events.is_sorted_by_key(|event| event.time), "time runs backwards in an element");
        let starts: Vec<usize> =
            (0..events.len()).filter(|&at| events[at].name == "exec.task_dispatched").collect();
        for &start in &starts {
            let dispatched = events[start];
            let parts: Vec<_> = events[start + 1..]
                .iter()
                .take_while(|event| matches!(event.name.as_str(), "exec.stream_read" | "exec.stream_wrote"))
                .collect();
            assert!(parts.iter().all(|event| event.time == dispatched.time));
            let sum =
                |name| parts.iter().filter(|event| event.name == name).map(|event| event.get("count")).sum();
            assert_eq!(dispatched.get("reads"), sum("exec.stream_read"));
            assert_eq!(dispatched.get("writes"), sum("exec.stream_wrote"));
        }
        // Dispatches of one element do not overlap.
        let mut end = 0;
        for &start in &starts {
            let dispatched = events[start];
            assert!(dispatched.time - dispatched.get("duration_ticks") >= end);
            end = dispatched.time;
        }
    }
}

/// Checks that message k of each stream descends from message k of the stream before it.
fn check_lineage(events: &[Recorded]) {
    let mut next: HashMap<u64, u64> = HashMap::new();
    for event in named(events, "derived") {
        assert_eq!(event.get("stream"), event.get("parent_stream") + 1);
        let index = next.entry(event.get("stream")).or_default();
        assert_eq!((event.get("first"), event.get("parent_first")), (*index, *index));
        assert!(event.get("count") == 1 || event.get("step") == 1);
        *index += event.get("count");
    }
    assert_eq!(next.len(), 4);
    assert!(next.values().all(|&count| count == 3000), "{next:?}");
}

/// Reads a message, then writes three messages that descend from it, each in a dispatch of its own.
struct Triple {
    input: In<u64>,
    output: Out<u64>,
    left: u64,
}

impl Task for Triple {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if self.left == 0 {
            match self.input.pop(cx) {
                Some(_) => self.left = 3,
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        } else {
            if self.output.push(cx, self.left).is_err() {
                return Stop::OutputFull;
            }
            cx.derived(&self.output);
            self.left -= 1;
        }
        Stop::QuantumSpent
    }
}

#[test]
fn lineage_reaches_back_over_dispatches() {
    const MESSAGES: u64 = 100;
    for workers in [1, 2] {
        let place = Place::new();
        let runtime = place.runtime(workers, Mode::Full);
        let (mut first, input) = runtime.stream(StreamSpec::default());
        let (output, mut last) = runtime.stream::<u64>(StreamSpec::default());
        let (parent_stream, stream) = (input.id(), output.id());
        runtime.spawn(TaskSpec::default(), Triple { input, output, left: 0 });
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            (0..MESSAGES).for_each(|message| task.push(&mut first, message).unwrap());
        });
        runtime.spawn_blocking(TaskSpec::default(), move |task| while task.pop(&mut last).is_some() {});
        assert_eq!(runtime.join().unwrap().failures, []);
        let events = place.events();
        let mut parents = Vec::new();
        for event in named(&events, "derived") {
            assert_eq!((event.get("stream"), event.get("parent_stream")), (stream, parent_stream));
            assert_eq!((event.get("first"), event.get("count")), (parents.len() as u64, 1));
            parents.push(event.get("parent_first"));
        }
        let expected: Vec<u64> = (0..3 * MESSAGES).map(|index| index / 3).collect();
        assert_eq!(parents, expected);
    }
}

/// Reads from two streams and writes to two streams at random, and reports the lineage that it noted: the
/// stream and index of each message and of its parent.
struct Irregular {
    inputs: [In<u64>; 2],
    outputs: [Out<u64>; 2],
    read: [u64; 2],
    written: [u64; 2],
    last: Option<(usize, u64)>,
    /// For how many more messages the task does the same as for the message before, which makes runs.
    alike: u64,
    way: u64,
    random: u64,
    noted: Sender<((u64, u64), (u64, u64))>,
}

impl Irregular {
    fn pop(&mut self, cx: &mut Context<'_>, at: usize) -> Result<(), Stop> {
        if self.inputs[at].pop(cx).is_some() {
            self.last = Some((at, self.read[at]));
            self.read[at] += 1;
        } else if !self.inputs[at].ended() {
            return Err(Stop::InputEmpty);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, at: usize, is_noted: bool) -> Result<(), Stop> {
        if self.outputs[at].room(cx) == 0 {
            return Err(Stop::OutputFull);
        }
        let output = &mut self.outputs[at];
        output.push(cx, 0).expect("there is room");
        if let (true, Some((from, parent))) = (is_noted, self.last) {
            cx.derived(output);
            let pair = ((output.id(), self.written[at]), (self.inputs[from].id(), parent));
            self.noted.send(pair).expect("the test waits for it");
        }
        self.written[at] += 1;
        Ok(())
    }

    fn pass(&mut self, cx: &mut Context<'_>) -> Result<(), Stop> {
        if self.alike == 0 {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.alike, self.way) = (self.random >> 33 & 7, self.random >> 40);
        }
        self.alike = self.alike.saturating_sub(1);
        let (way, from, to) = (self.way, (self.way & 1) as usize, (self.way >> 1 & 1) as usize);
        (0..way >> 2 & 3).try_for_each(|_| self.pop(cx, from))?;
        (0..way >> 4 & 3).try_for_each(|_| self.push(cx, to, way >> 6 & 7 != 0))?;
        if self.inputs.iter().all(In::ended) { Err(Stop::Ended) } else { Ok(()) }
    }
}

impl Task for Irregular {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if let Err(stop) = self.pass(cx) {
                return stop;
            }
        }
        Stop::QuantumSpent
    }
}

#[test]
fn lineage_of_irregular_work_is_exact() {
    let mut count = 0;
    for seed in 0..60 {
        let place = Place::new();
        let runtime = place.runtime(1, Mode::Full);
        let (ins, inputs): (Vec<_>, Vec<_>) =
            (0..2).map(|_| runtime.stream::<u64>(StreamSpec::default())).unzip();
        let (outputs, outs): (Vec<_>, Vec<_>) =
            (0..2).map(|_| runtime.stream::<u64>(StreamSpec::default())).unzip();
        let (noted, told) = channel();
        let (Ok(inputs), Ok(outputs)) = (inputs.try_into(), outputs.try_into()) else {
            unreachable!("two each")
        };
        let task = Irregular {
            inputs,
            outputs,
            read: [0; 2],
            written: [0; 2],
            last: None,
            alike: 0,
            way: 0,
            random: seed,
            noted,
        };
        runtime.spawn(TaskSpec::default(), task);
        for mut first in ins {
            runtime.spawn_blocking(TaskSpec::default(), move |task| {
                (0..100).for_each(|message| task.push(&mut first, message).unwrap());
            });
        }
        for mut last in outs {
            runtime.spawn_blocking(TaskSpec::default(), move |task| while task.pop(&mut last).is_some() {});
        }
        assert_eq!(runtime.join().unwrap().failures, []);
        let expected: BTreeMap<_, _> = told.iter().collect();
        let mut found = BTreeMap::new();
        for event in named(&place.events(), "derived") {
            for k in 0..event.get("count") {
                let child = (event.get("stream"), event.get("first") + k);
                let parent = event.get("parent_first") + k * event.get("step");
                let before = found.insert(child, (event.get("parent_stream"), parent));
                assert_eq!(before, None, "recorded twice: {child:?}");
            }
        }
        assert_eq!(found, expected, "seed {seed}");
        count += expected.len();
    }
    assert!(count > 5000, "only {count} are noted");
}

#[test]
fn metrics_keeps_times_and_rows_without_events() {
    let place = Place::new();
    let path = place.space.path().to_owned();
    let (told, rows) = mpsc::channel();
    run_chain(place.runtime(2, Mode::Metrics), 5000, 20, move |message| {
        if message == 4900 {
            told.send(SpaceReader::open(&path).unwrap().live_rows().unwrap()).unwrap();
        }
    });
    let events = place.events();
    check_shares(&events);
    for absent in ["task_dispatched", "stream_read", "stream_wrote", "derived", "worker_waiting"] {
        assert!(named(&events, absent).is_empty(), "{absent}");
    }
    let rows = rows.recv().unwrap();
    // On every stream of a chain, as many messages were written as were read and are held, and at most as
    // many are held as the capacity says.
    let streams: Vec<_> = rows.iter().filter(|row| row.kind_name() == "exec.stream").collect();
    assert_eq!(streams.len(), 5);
    for row in streams {
        let (written, read) = (row.cell("written").unwrap(), row.cell("read").unwrap());
        assert!(written > 4000 && written <= 5000, "{row:?}");
        assert!(written + 16 >= read && written <= read + 32, "{row:?}");
    }
}

#[test]
fn off_tells_the_structure_only() {
    let place = Place::new();
    run_chain(place.runtime(2, Mode::Off), 1000, 0, |_| {});
    let events = place.events();
    for present in
        ["worker_started", "task_created", "task_mapped", "stream_opened", "stream_closed", "task_ended"]
    {
        assert!(!named(&events, present).is_empty(), "{present}");
    }
    for absent in ["task_dispatched", "stream_read"] {
        assert!(named(&events, absent).is_empty(), "{absent}");
    }
    for event in named(&events, "stream_closed") {
        assert_eq!((event.get("written"), event.get("read"), event.get("dropped")), (1000, 1000, 0));
    }
}

#[test]
fn rows_are_made_for_tasks_that_live_long_and_streams_that_are_measured() {
    let place = Place::new();
    let reader = SpaceReader::open(place.space.path()).unwrap();
    let (told, rows) = mpsc::channel();
    run_chain(place.runtime(2, Mode::Off), 20_000, 0, move |message| match message {
        0 | 10_000 => told.send(reader.live_rows().unwrap()).unwrap(),
        10_001 => reader.set("monitor.mode", 1).unwrap(),
        19_000 => told.send(reader.live_rows().unwrap()).unwrap(),
        _ => {}
    });
    let of = |rows: &[LiveView], kind| {
        rows.iter().filter(|row| row.kind_name() == kind).cloned().collect::<Vec<_>>()
    };
    let [young, old, measured] = [(); 3].map(|()| rows.recv().unwrap());
    assert_eq!(of(&young, "exec.task").len(), 2, "source and sink alone: {young:?}");
    let tasks = of(&old, "exec.task");
    assert_eq!(tasks.len(), 6, "{tasks:?}");
    // Source and sink have threads of their own, and the other tasks are on one of two workers.
    let ends: Vec<u64> = of(&young, "exec.task").iter().map(|row| row.id).collect();
    let (own, on_workers): (Vec<_>, Vec<_>) = tasks.iter().partition(|row| ends.contains(&row.id));
    assert!(own.iter().all(|row| row.cell("worker") == Some(u64::from(u32::MAX))), "{tasks:?}");
    assert_eq!((own.len(), on_workers.len()), (2, 4), "{tasks:?}");
    assert!(on_workers.iter().all(|row| row.cell("worker") < Some(2)), "{tasks:?}");
    assert!(of(&old, "exec.stream").is_empty(), "{old:?}");
    // In a chain each stream's reader is the next stream's writer.
    let mut streams = of(&measured, "exec.stream");
    streams.sort_by_key(|row| row.id);
    assert_eq!(streams.len(), 5, "{streams:?}");
    for pair in streams.windows(2) {
        assert_eq!(pair[0].cell("reader"), pair[1].cell("writer"), "{streams:?}");
    }
    for row in &streams {
        let [reader, writer] = ["reader", "writer"].map(|cell| row.cell(cell));
        assert!(reader > Some(0) && writer > Some(0) && row.cell("capacity") == Some(16), "{row:?}");
        assert!(row.cell("written") > Some(10_000), "{row:?}");
    }
}

/// Makes stages one after the other; none of them ends before the last one exists.
struct Unfold {
    _first: Out<u64>,
    last: Option<In<u64>>,
    left: u64,
}

impl Task for Unfold {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let Some(input) = self.last.take().filter(|_| self.left > 0) else { return Stop::Ended };
        let (output, next) = cx.stream(StreamSpec::default());
        cx.spawn(TaskSpec::default(), Step { input, output, turns: 0, in_runs: false, hands_on: false });
        (self.last, self.left) = (Some(next), self.left - 1);
        Stop::QuantumSpent
    }
}

#[test]
fn a_stream_is_told_as_opened_once_its_ends_are_known() {
    for mode in [Mode::Off, Mode::Full] {
        let place = Place::new();
        let runtime = place.runtime(1, mode);
        let (first, last) = runtime.stream(StreamSpec::default());
        runtime.spawn(TaskSpec::default(), Unfold { _first: first, last: Some(last), left: 5 });
        runtime.join().unwrap();
        let events = place.events();
        let opened = named(&events, "stream_opened");
        let with_both = |event: &&&Recorded| event.get("reader") != 0 && event.get("writer") != 0;
        // One end of the chain's first stream and one end of its last stream belong to no task.
        assert_eq!(opened.iter().filter(with_both).count(), 4, "{opened:?}");
        let inner: Vec<u64> = (2..6).collect();
        for stream in inner {
            let told = opened.iter().filter(|event| event.get("stream") == stream).count();
            assert_eq!(told, 2, "stream {stream} in mode {mode:?}: {opened:?}");
        }
        // The event of each unfolded task's creation contains its parent and streams, and a task that lived
        // briefly ends with one event that includes a stream's end.
        let written = place.written();
        assert_eq!(named(&written, "stream_opened").len(), 0);
        assert_eq!(named(&written, "task_mapped").len(), 1, "of the task that was there before the start");
        assert_eq!(named(&written, "brief_task_ended").len(), 6);
        assert_eq!(named(&written, "stream_closed").len(), 0);
        assert_eq!(named(&events, "stream_closed").len(), 6);
    }
}

#[test]
fn the_mode_and_the_quantum_change_while_running() {
    let place = Place::new();
    let reader = SpaceReader::open(place.space.path()).unwrap();
    run_chain(place.runtime(1, Mode::Off), 30_000, 5, move |message| match message {
        10_000 => {
            reader.set("monitor.mode", 2).unwrap();
            reader.set("exec.quantum", 3).unwrap();
        }
        20_000 => reader.set("monitor.mode", 0).unwrap(),
        _ => {}
    });
    let events = place.events();
    let modes: Vec<u64> = named(&events, "mode_changed").iter().map(|event| event.get("mode")).collect();
    assert_eq!(modes, [0, 2, 0]);
    let adopted = named(&events, "setting_adopted");
    assert_eq!((adopted.len(), adopted[0].get("old"), adopted[0].get("new")), (1, 64, 3));
    let read: u64 = named(&events, "stream_read").iter().map(|event| event.get("count")).sum();
    assert!((5 * 9_000..5 * 11_000).contains(&read), "{read}");
    let start = named(&events, "mode_changed")[1].time;
    for event in named(&events, "task_dispatched") {
        assert!(event.time >= start && event.get("duration_ticks") <= event.time - start);
    }
}

/// Takes some time for each message, and reports which message it works on.
struct Slow(In<u64>, Duration);

impl Task for Slow {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            match self.0.pop(cx) {
                Some(number) => cx.progress(number).on(0),
                None if self.0.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
            let begin = Instant::now();
            while begin.elapsed() < self.1 {}
        }
        Stop::QuantumSpent
    }
}

/// Runs a task with messages of 20 µs each and a recording budget of `budget` percent; returns the messages
/// whose times were recorded, and these times.
fn timed(budget: u64) -> Vec<(u64, u64)> {
    const MESSAGES: u64 = 200;
    let place = Place::new();
    let runtime = place.runtime(1, Mode::Full);
    SpaceReader::open(place.space.path()).unwrap().set("exec.clock_budget", budget).unwrap();
    let (mut output, input) = runtime.stream(StreamSpec::default());
    runtime.spawn(TaskSpec::default(), Slow(input, Duration::from_micros(20)));
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        (0..MESSAGES).for_each(|message| task.feed(&mut output, message).unwrap());
    });
    assert_eq!(runtime.join().unwrap().failures, []);
    let events = place.events();
    let told = named(&events, "message_worked");
    let sum = |events: &[&Recorded]| events.iter().map(|event| event.get("duration_ticks")).sum::<u64>();
    let dispatches = named(&events, "task_dispatched");
    let slow: Vec<&Recorded> = dispatches.into_iter().filter(|event| event.get("task") == 1).collect();
    assert!(sum(&told) <= sum(&slow), "its messages took longer than its dispatches");
    assert!(told.iter().all(|event| event.get("task") == 1));
    told.iter().map(|event| (event.get("index"), event.get("duration_ticks"))).collect()
}

#[test]
fn messages_that_take_long_are_timed_one_by_one() {
    let told = timed(1);
    // The task's first dispatch shows how long its messages take.
    assert!(told.len() >= 100, "{told:?}");
    assert!(told.windows(2).all(|two| two[0].0 < two[1].0), "each once, in order: {told:?}");
    let least = Clock::new().ns_to_ticks(20_000);
    assert!(told.iter().all(|&(_, ticks)| ticks >= least), "{told:?}");
    assert_eq!(timed(0), []);
}

#[test]
fn a_panic_is_told_with_its_message() {
    struct Bad;
    impl Task for Bad {
        fn run(&mut self, _: &mut Context<'_>) -> Stop {
            panic!("so bad")
        }
    }
    let place = Place::new();
    let runtime = place.runtime(1, Mode::Off);
    runtime.spawn(TaskSpec::default(), Bad);
    runtime.join().unwrap();
    let events = place.events();
    let ended = named(&events, "task_ended");
    assert_eq!((ended[0].get("failed"), ended[0].get("panicked")), (1, 1));
    assert_eq!(named(&events, "task_failed").len(), 1);
}

#[test]
fn the_live_table_does_not_grow_with_the_tasks_that_lived() {
    /// Creates a task that ends at once, again and again.
    struct Again {
        left: u64,
        alive: Arc<AtomicU64>,
    }
    struct Nothing(In<u64>, Arc<AtomicU64>);
    impl Task for Nothing {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            self.0.pop(cx);
            self.1.fetch_sub(1, Ordering::Relaxed);
            Stop::Ended
        }
    }
    impl Task for Again {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            while self.left > 0 && self.alive.load(Ordering::Relaxed) < 10 {
                self.left -= 1;
                self.alive.fetch_add(1, Ordering::Relaxed);
                let (_, input) = cx.stream(StreamSpec::default());
                cx.spawn(TaskSpec::default(), Nothing(input, self.alive.clone()));
            }
            if self.left == 0 { Stop::Ended } else { Stop::QuantumSpent }
        }
    }
    let place = Place::new();
    let runtime = place.runtime(2, Mode::Metrics);
    runtime.spawn(TaskSpec::default(), Again { left: 20_000, alive: Arc::default() });
    let summary = runtime.join().unwrap();
    assert_eq!((summary.tasks, summary.failed), (20_001, 0));
    let rows: u64 = std::fs::read_dir(place.space.path())
        .unwrap()
        .filter_map(Result::ok)
        .filter(|file| file.file_name().to_string_lossy().starts_with("live."))
        .map(|file| file.metadata().unwrap().len() / 128)
        .sum();
    assert!(rows < 2000, "{rows} rows for at most some dozens at a time");
}

/// Sends two messages for each message that it reads.
struct Twice {
    input: In<u64>,
    output: Out<u64>,
    owes: u64,
}

impl Task for Twice {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        loop {
            while self.owes > 0 {
                if self.output.push(cx, 0).is_err() {
                    return Stop::OutputFull;
                }
                self.owes -= 1;
            }
            match self.input.pop(cx) {
                Some(_) => self.owes = 2,
                None => return Stop::InputEmpty,
            }
        }
    }
}

#[test]
fn a_deadlock_is_told_wait_by_wait_before_the_run_ends() {
    let place = Place::new();
    let runtime = place.runtime(2, Mode::Off);
    let [there, back] = [(); 2].map(|()| runtime.stream(StreamSpec::default()));
    let (there_id, back_id) = (there.0.id(), back.0.id());
    let ping = runtime.spawn(TaskSpec::default(), Twice { input: back.1, output: there.0, owes: 1 }).0;
    let pong = runtime.spawn(TaskSpec::default(), Twice { input: there.1, output: back.0, owes: 0 }).0;
    runtime.join().expect_err("a deadlock");
    let events = place.events();
    let mut told: Vec<[u64; 4]> = named(&events, "deadlocked")
        .iter()
        .map(|event| ["task", "stream", "peer", "for_room"].map(|field| event.get(field)))
        .collect();
    told.sort_unstable();
    assert_eq!(told, [[ping, there_id, pong, 1], [pong, back_id, ping, 1]]);
    let place_of = |name| events.iter().position(|event| event.name == name).expect("it is recorded");
    assert!(place_of("exec.deadlocked") < place_of("exec.task_ended"));
}
