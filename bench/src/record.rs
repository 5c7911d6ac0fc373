//! Group `record`: the cost of a record through a box, a filter or a parallel composition, compared with the
//! bare hop of a pointer; and of reading and writing a record as JSON, compared with the copy of its bytes.

use crate::cores::on_cores;
use crate::hop;
use crate::measure::{Case, Contestant, Goal, repeated};
use crate::observed::Observed;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use thalweg_box::{Bytes, Value};
use thalweg_exec::{Context, In, Mode, Out, Placement, Ports, Stop, Task, TaskSpec};
use thalweg_net::json;
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::run::StartOptions;
use thalweg_net::shape::{self, ShapeId};
use thalweg_net::{Boxes, Network};

/// The number of components in a row.
const ROW: usize = 16;
/// The number of parallel compositions in a row.
const PARALLELS: usize = 4;

/// A network for records, and the number of measured components that each record passes.
pub(crate) struct Course {
    name: &'static str,
    topology: String,
    parts: usize,
    /// The labels of the records sent; `value` gives the value of a label in the n-th record.
    labels: Vec<Label>,
    value: fn(Label, u64) -> Value,
    goal: Goal,
}

impl Course {
    /// A course of records with these labels, for a network that the caller makes.
    pub(crate) fn of(labels: Vec<Label>, value: fn(Label, u64) -> Value) -> Course {
        Course { name: "", topology: String::new(), parts: 1, labels, value, goal: Goal::None }
    }
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for workers in [1, 2] {
        cases.extend(courses().into_iter().map(|course| case(workers, course)));
    }
    cases.extend(courses().into_iter().filter(|course| course.parts == ROW).map(alone));
    cases.push(in_json("a plain record of JSON Lines, read and written", plain(), Goal::AtMost(500.0)));
    cases.push(in_json(
        "a record of JSON Lines whose value of 3 kB passes through, read and written",
        nested(),
        Goal::RatioAtMost(1.5),
    ));
    cases
}

fn plain() -> String {
    r#"{"id": 48213, "name": "Ada Lovelace", "score": 0.75, "<n>": 3}"#.to_owned()
}

/// A typical answer of a web interface: objects in a list, in an object.
fn nested() -> String {
    let item = |n: u64| {
        format!(
            r#"{{"id": {n}, "login": "user-{n}", "name": "Ada Lovelace", "admin": false, "score": {n}.5, "tags": ["a", "b"], "home": null}}"#
        )
    };
    let items: Vec<String> = (1000..1024).map(item).collect();
    format!(r#"{{"id": 7, "answer": {{"items": [{}], "next": "/page/2"}}}}"#, items.join(", "))
}

fn in_json(name: &str, line: String, goal: Goal) -> Case<'static> {
    let (mut reader, mut written, copied) = (json::Reader::default(), Vec::new(), line.clone());
    let params = vec![("bytes", line.len().to_string())];
    let ours = Contestant::nanoseconds("thalweg", "", 1, move |count| {
        let mut failed = None;
        let took = repeated(count, |_| match reader.read(black_box(line.as_bytes())) {
            Ok(record) => {
                written.clear();
                json::write_record(&record, &mut written);
            }
            Err(error) => failed = Some(error.to_string()),
        });
        failed.map_or(Ok(took), Err)
    });
    let mut copy: Vec<u8> = Vec::new();
    let limit = Contestant::nanoseconds("copy of its bytes", "", 1, move |count| {
        Ok(repeated(count, |_| {
            copy.clear();
            copy.extend_from_slice(black_box(copied.as_bytes()));
            black_box(&copy);
        }))
    });
    Case {
        group: "record",
        name: name.to_owned(),
        params,
        unit: "ns",
        ours,
        rivals: Vec::new(),
        limit: Some(limit),
        goal,
    }
}

fn courses() -> Vec<Course> {
    let row = |component: &str| vec![component; ROW].join(" .. ");
    let (x, y, a, b) = (Label::field("x"), Label::field("y"), Label::tag("a"), Label::tag("b"));
    vec![
        Course {
            name: "a record with an inline integer through a box",
            topology: row("inc"),
            parts: ROW,
            labels: vec![x],
            value: integer,
            goal: Goal::AtMost(8.0),
        },
        Course {
            name: "a record with an integer and two inherited tags through a box",
            topology: row("inc"),
            parts: ROW,
            labels: vec![x, a, b],
            value: integer,
            goal: Goal::AtMost(8.0),
        },
        Course {
            name: "a record with a value of 64 bytes on the heap through a box",
            topology: row("pass"),
            parts: ROW,
            labels: vec![y],
            value: |_, n| Value::Bytes(Bytes::from_vec(vec![n as u8; 64])),
            goal: Goal::AtMost(12.0),
        },
        Course {
            name: "a record with a tag through a filter",
            topology: row("[{<a>} -> {<a = a + 1>}]"),
            parts: ROW,
            labels: vec![a],
            value: integer,
            goal: Goal::AtMost(8.0),
        },
        Course {
            name: "a record through a parallel composition of four",
            topology: ["(inc | pass | [{<a>} -> {<a>}] | [{<b>} -> {<b>}])"; PARALLELS].join(" .. "),
            parts: PARALLELS,
            labels: vec![x],
            value: integer,
            goal: Goal::AtMost(15.0),
        },
    ]
}

fn integer(_: Label, n: u64) -> Value {
    Value::Int(n as i64)
}

fn case(workers: usize, course: Course) -> Case<'static> {
    let goal = course.goal;
    let name = course.name.to_owned();
    Case {
        group: "record",
        name,
        params: vec![("workers", workers.to_string()), ("mode", "off".into())],
        unit: "ns",
        ours: ours(workers, course),
        rivals: Vec::new(),
        limit: Some(hop::ours(workers, ROW, Mode::Off)),
        goal,
    }
}

/// A course with one record in flight: the next record is sent when the present one has left the network.
/// Passing the record directly from component to component is compared with writing it to each stream.
fn alone(course: Course) -> Case<'static> {
    let name = format!("the only record in flight, handed on: {}", course.name);
    let goal = Goal::RatioAtMost(0.45);
    let course = Arc::new(course);
    let contestant = |name, fuse| match through(&course.topology) {
        Err(told) => Contestant::missing(name, "", told),
        Ok(network) => {
            let course = course.clone();
            Contestant::nanoseconds(name, "", course.parts as u64, move |records| {
                on_cores(1, || run_alone(&network, fuse, &course, records))
            })
        }
    };
    let (ours, limit) = (contestant("thalweg", true), Some(contestant("thalweg, net.fuse off", false)));
    let params = vec![("workers", "1".to_owned()), ("mode", "off".into())];
    Case { group: "record", name, params, unit: "ns", ours, rivals: Vec::new(), limit, goal }
}

fn run_alone(network: &Network, fuse: bool, course: &Course, records: u64) -> Result<Duration, String> {
    let observed = Observed::new(1, Mode::Off)?;
    let limits = StartOptions { fuse, ..StartOptions::default() };
    let ends = network.start_with(&observed.runtime, limits).map_err(|error| error.to_string())?;
    let (told, end) = channel();
    let shapes = vec![shape::of(&course.labels)];
    let source = Source { next: 0, end: records, shapes, value: course.value, output: ends.input };
    observed.runtime.spawn(TaskSpec::default(), Turn { source, input: ends.output, told });
    let begin = Instant::now();
    observed.runtime.start();
    let end = end.recv();
    observed.join()?;
    Ok(end.map_err(|_| "the network ended without its last record")? - begin)
}

/// Sends a record, and the next one when the first has left the network.
struct Turn {
    source: Source,
    input: In<Record>,
    told: Sender<Instant>,
}

impl Task for Turn {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.source.attach(ports);
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if self.source.next > 0 {
            let Some(record) = self.input.pop(cx) else { return Stop::InputEmpty };
            drop(record);
        }
        if self.source.next == self.source.end {
            self.told.send(Instant::now()).ok();
            return Stop::Ended;
        }
        let record = self.source.record();
        self.source.output.push(cx, record).expect("one record is in flight");
        self.source.next += 1;
        if self.input.upcoming(cx, 1).is_empty() { Stop::InputEmpty } else { Stop::QuantumSpent }
    }
}

fn through(topology: &str) -> Result<Network, String> {
    let boxes = Boxes::new()
        .with("box inc ((x) -> (x))", |x: i64, out: &mut thalweg_box::Out| out.emit((x + 1,)))
        .with("box pass ((y) -> (y))", |y: Bytes, out: &mut thalweg_box::Out| out.emit((y,)));
    let text = format!("net course {{ box inc ((x) -> (x)); box pass ((y) -> (y)); }} connect {topology};");
    Network::parse("course", &text, &boxes)
        .map_err(|wrong| wrong.iter().map(|diagnostic| diagnostic.render(false)).collect())
}

fn ours(workers: usize, course: Course) -> Contestant<'static> {
    match through(&course.topology) {
        Ok(network) => Contestant::nanoseconds("thalweg", "", course.parts as u64, move |records| {
            on_cores(workers, || run(workers, &network, &course, records))
        }),
        Err(told) => Contestant::missing("thalweg", "", told),
    }
}

/// Sends records through a network; returns the time from the first to the last.
pub(crate) fn run(
    workers: usize,
    network: &Network,
    course: &Course,
    records: u64,
) -> Result<Duration, String> {
    let observed = Observed::new(workers, Mode::Off)?;
    let ends = network.start(&observed.runtime).map_err(|error| error.to_string())?;
    let (sink, end) = Sink::new(ends.output);
    let shapes = vec![shape::of(&course.labels)];
    let source = Source { next: 0, end: records, shapes, value: course.value, output: ends.input };
    observed.runtime.spawn(TaskSpec { place: Placement::on_worker(0), ..TaskSpec::default() }, source);
    observed
        .runtime
        .spawn(TaskSpec { place: Placement::on_worker(workers - 1), ..TaskSpec::default() }, sink);
    let begin = Instant::now();
    observed.runtime.start();
    let told = end.recv();
    observed.join()?;
    let (count, end) = told.map_err(|_| "the network ended without its last record")?;
    if count != records {
        return Err(format!("{count} of {records} records came out"));
    }
    Ok(end - begin)
}

/// Sends records with alternating shapes.
pub(crate) struct Source {
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) shapes: Vec<ShapeId>,
    pub(crate) value: fn(Label, u64) -> Value,
    pub(crate) output: Out<Record>,
}

impl Source {
    fn record(&self) -> Record {
        let shape = match self.shapes.as_slice() {
            [shape] => *shape,
            shapes => shapes[(self.next % shapes.len() as u64) as usize],
        };
        let mut record = Record::with_shape(shape);
        for (slot, label) in record.slots_mut().iter_mut().zip(shape.labels()) {
            *slot = (self.value)(*label, self.next);
        }
        record
    }
}

impl Task for Source {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.next == self.end {
                return Stop::Ended;
            }
            if self.output.room(cx) == 0 {
                return Stop::OutputFull;
            }
            let record = self.record();
            self.output.push(cx, record).expect("there was room");
            self.next += 1;
        }
        Stop::QuantumSpent
    }
}

/// Counts records and sends the time of the last one.
pub(crate) struct Sink {
    input: In<Record>,
    count: u64,
    told: Sender<(u64, Instant)>,
}

impl Sink {
    pub(crate) fn new(input: In<Record>) -> (Sink, Receiver<(u64, Instant)>) {
        let (told, end) = channel();
        (Sink { input, count: 0, told }, end)
    }
}

impl Task for Sink {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            match self.input.pop(cx) {
                Some(record) => {
                    drop(record);
                    self.count += 1;
                }
                None if self.input.ended() => {
                    // Sending fails only if the run was given up.
                    self.told.send((self.count, Instant::now())).ok();
                    return Stop::Ended;
                }
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}
