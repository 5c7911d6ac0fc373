//! Group `language`: the cost of combinators beyond boxes: deterministic variants, synchrocells, and the
//! unfolding of stars and splits.

use crate::cores::on_cores;
use crate::measure::{Case, Contestant, Goal};
use crate::record::{Sink, Source};
use std::time::{Duration, Instant};
use thalweg_box::Value;
use thalweg_exec::{Options, Runtime, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::run::StartOptions;
use thalweg_net::shape;
use thalweg_net::{Boxes, Network};

/// The number of compositions in a row.
const ROW: usize = 4;
/// The number of values of the split's tag.
const VALUES: u64 = 100_000;
/// The number of stages of a star that one record unfolds.
const STAGES: u64 = 1_000_000;

/// A network, and the records sent through it. The network has no space, because a million tasks would fill
/// the memory of the space.
struct Course {
    topology: String,
    /// The number of measured components that a record passes.
    parts: u64,
    shapes: Vec<Vec<Label>>,
    value: fn(Label, u64) -> Value,
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = vec![cells(), star(STAGES / 100), star(STAGES), split()];
    cases.extend([
        twins("parallel", "{<n>}", "|", "[{<m>} -> {<m>}]"),
        twins("star", "{<n = n + 1>}", "*", "{<n>} if <n % 2 == 1>"),
        twins("split", "{<n>}", "!", "<n>"),
    ]);
    cases
}

fn case(
    name: &str,
    ours: Contestant<'static>,
    limit: Option<Contestant<'static>>,
    goal: Goal,
) -> Case<'static> {
    let params = vec![("workers", "1".to_owned()), ("mode", "no space".to_owned())];
    Case {
        group: "language",
        name: name.to_owned(),
        params,
        unit: "ns",
        ours,
        rivals: Vec::new(),
        limit,
        goal,
    }
}

/// A synchrocell repeatedly merges a record `{x}` and a record `{y}`.
fn cells() -> Case<'static> {
    let (x, y) = (Label::field("x"), Label::field("y"));
    let topology = "[|{x}, {y}|] * {x, y}".to_owned();
    // Each pair has two records, and the harness counts pairs.
    let course = Course { topology, parts: 1, shapes: vec![vec![x], vec![y]], value: integer };
    let ours = contestant("thalweg", course, |course, network, pairs| course.run(network, 2 * pairs, pairs));
    case("a pair of records through a synchrocell in a star", ours, None, Goal::AtMost(60.0))
}

/// One record unfolds all stages.
fn star(stages: u64) -> Case<'static> {
    let topology = "[{<n>} -> {<n = n - 1>}] * {<n>} if <n == 0>".to_owned();
    let value: fn(Label, u64) -> Value = if stages == STAGES {
        |_, _| Value::Int(STAGES as i64)
    } else {
        |_, _| Value::Int(STAGES as i64 / 100)
    };
    let course = Course { topology, parts: stages, shapes: vec![vec![Label::tag("n")]], value };
    let ours = Contestant::new("thalweg", "", {
        let network = course.network();
        move || {
            Ok(on_cores(1, || course.run(network.as_ref()?, 1, 1))?.as_secs_f64() * 1e9 / course.parts as f64)
        }
    });
    case(&format!("a stage of a star of {stages} as it unfolds"), ours, None, Goal::AtMost(500.0))
}

/// The tag's values repeat in a cycle.
fn split() -> Case<'static> {
    let topology = "[{<n>} -> {<n>}] ! <n>".to_owned();
    let value = |_, n| Value::Int((n % VALUES) as i64);
    let course = Course { topology, parts: 1, shapes: vec![vec![Label::tag("n")]], value };
    let ours = contestant("thalweg", course, |course, network, records| {
        let records = records.max(5 * VALUES);
        course.run(network, records, records)
    });
    case(&format!("a record through a split over {VALUES} values"), ours, None, Goal::None)
}

/// A deterministic combinator compared with the nondeterministic one; `before` and `behind` enclose the
/// operator.
fn twins(name: &str, before: &str, operator: &str, behind: &str) -> Case<'static> {
    let course = |operator: &str| {
        let topology = vec![format!("([{{<n>}} -> {before}] {operator} {behind})"); ROW].join(" .. ");
        let value = |_, n| Value::Int((n % 4) as i64);
        Course { topology, parts: ROW as u64, shapes: vec![vec![Label::tag("n")]], value }
    };
    let run = |course: &Course, network: &Network, records| course.run(network, records, records);
    let ours = contestant("thalweg", course(&operator.repeat(2)), run);
    let free = contestant("the free one", course(operator), run);
    case(&format!("a record through a deterministic {name}"), ours, Some(free), Goal::RatioAtMost(2.0))
}

fn integer(_: Label, n: u64) -> Value {
    Value::Int(n as i64)
}

fn contestant(
    name: &'static str,
    course: Course,
    run: impl Fn(&Course, &Network, u64) -> Result<Duration, String> + 'static,
) -> Contestant<'static> {
    let network = course.network();
    Contestant::nanoseconds(name, "", course.parts, move |records| {
        on_cores(1, || run(&course, network.as_ref().map_err(Clone::clone)?, records))
    })
}

impl Course {
    fn network(&self) -> Result<Network, String> {
        let text = format!("net course connect {};", self.topology);
        Network::parse("course", &text, &Boxes::new())
            .map_err(|diagnostics| diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect())
    }

    /// Sends records, of which `given` leave the network; returns the time from the start to the last of
    /// these.
    fn run(&self, network: &Network, records: u64, given: u64) -> Result<Duration, String> {
        let runtime = Runtime::new(Options { workers: 1, pin: true, ..Options::default() })
            .map_err(|error| error.to_string())?;
        let limits = StartOptions { replicas: 2 * VALUES, ..StartOptions::default() };
        let ends = network.start_with(&runtime, limits).map_err(|error| error.to_string())?;
        let (sink, end) = Sink::new(ends.output);
        let shapes = self.shapes.iter().map(|labels| shape::of(labels)).collect();
        let source = Source { next: 0, end: records, shapes, value: self.value, output: ends.input };
        runtime.spawn(TaskSpec::default(), source);
        runtime.spawn(TaskSpec::default(), sink);
        let begin = Instant::now();
        let summary = runtime.join().map_err(|error| error.to_string())?;
        let (count, end) = end.recv().map_err(|_| "the network ended without its last record")?;
        if count != given || summary.failed > 0 {
            return Err(format!("{count} of {given} records came out, {} tasks failed", summary.failed));
        }
        Ok(end - begin)
    }
}
