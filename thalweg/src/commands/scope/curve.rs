//! `thalweg scope curve`: measures the cost of pulling a view, and the slowdown of the run, by rate and
//! shape.

use std::time::{Duration, Instant};

use thalweg_scope::{Backlog, Leaf, Price, Scope, Shape, Target, Tree, View};

use super::Arguments;
use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, number, text};
use crate::units::{count, duration, rate, share};

/// The rates at which the view is pulled, in pulls a second.
const RATES: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];

/// The cost of pulling at one rate with one shape.
struct Point {
    shape: Shape,
    asked: f64,
    reached: f64,
    pull_ns: f64,
    tuples: f64,
    /// The pulls' share of the time of all processors.
    share: f64,
    /// The run's messages a second as a fraction of its rate without pulls; `None` if the rate is unknown.
    speed: Option<f64>,
}

pub(crate) fn main(
    view: &View,
    target: Target,
    arguments: &Arguments,
    terminal: Terminal,
) -> Result<(), Failure> {
    let each = arguments.lasts.unwrap_or(Duration::from_secs(1));
    let open = |view: &View| Scope::open(view, target.clone(), Backlog::Nothing).map_err(Failure::usage);
    let mut progress = open(&progress_view()?)?;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let usual = arguments.tree.shape();
    let mut shapes = vec![Shape { threads: 1, ..usual }];
    if processors > 1 {
        shapes.push(Shape { threads: processors.min(8), ..usual });
    }
    let mut points = Vec::new();
    for shape in shapes {
        for asked in RATES {
            // Before each rate the run is measured without pulls, because its own rate changes with time.
            let alone = speed(&mut progress, each / 2, std::thread::sleep);
            let mut scope = open(view)?;
            scope.reshape(shape);
            let (mut tuples, begin) = (0, Instant::now());
            let with = speed(&mut progress, each, |left| {
                let due = begin + Duration::from_secs_f64(scope.price().pulls() as f64 / asked);
                let wait = due.saturating_duration_since(Instant::now());
                std::thread::sleep(wait.min(left));
                if wait <= left {
                    tuples += scope.pull().batch.len();
                }
            });
            let (passed, price) = (begin.elapsed().as_secs_f64(), scope.price());
            let (pulls, used_ns) = (price.pulls().max(1) as f64, price.used_ns() as f64);
            points.push(Point {
                shape,
                asked,
                reached: price.pulls() as f64 / passed,
                pull_ns: used_ns / pulls,
                tuples: tuples as f64 / pulls,
                share: used_ns / 1e9 / passed / processors as f64,
                speed: with.zip(alone).filter(|(_, alone)| *alone > 0.0).map(|(with, alone)| with / alone),
            });
        }
    }
    show(&points, arguments, terminal)
}

/// The view of the number of messages that all tasks have read.
fn progress_view() -> Result<View, Failure> {
    let tree = Tree::leaf(Leaf::of_rows(["exec.task"])).reduce([], [("reads", "sum reads")]);
    View::new("progress", "How many messages were read?", tree).map_err(Failure::usage).map(View::latest)
}

/// The messages a second that the run reads while `during` is called repeatedly for `time`.
fn speed(progress: &mut Scope, time: Duration, mut during: impl FnMut(Duration)) -> Option<f64> {
    let mut reads = || {
        let pulled = progress.pull();
        let read = pulled.batch.tuples().find_map(|tuple| tuple.field("reads")?.number());
        (Instant::now(), read)
    };
    let (begin, first) = reads();
    while let Some(left) = time.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
        during(left);
    }
    let (end, last) = reads();
    let per_s = (last? - first?) / end.duration_since(begin).as_secs_f64();
    (per_s >= 0.0).then_some(per_s)
}

fn show(points: &[Point], arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::shaped(terminal, &arguments.shape);
    let columns = [
        text("SHAPE"),
        number("ASKED", 0),
        number("PULLS", 0),
        number("A PULL", 1),
        number("TUPLES", 2),
        number("PROCESSORS", 0),
        number("RUN'S SPEED", 0),
    ];
    let mut table = Table::new(&columns);
    for point in points {
        let threads = point.shape.threads;
        if arguments.json {
            let object = serde_json::json!({
                "threads": threads, "asked_per_s": point.asked, "pulls_per_s": point.reached, "pull_ns": point.pull_ns,
                "tuples": point.tuples, "processor_share": point.share, "speed": point.speed,
            });
            output.line(&object.to_string())?;
        }
        let speed = point.speed.map_or("–".to_owned(), share);
        let cells = vec![
            format!("{threads} thread{}", if threads == 1 { "" } else { "s" }),
            rate(point.asked),
            rate(point.reached),
            duration(point.pull_ns),
            count(point.tuples.round() as u64),
            share(point.share),
            speed,
        ];
        table.row(cells, point.share > arguments.budget / 100.0);
    }
    if !arguments.json {
        output.table(&table)?;
        let dearest = points.iter().map(|point| point.pull_ns).fold(0.0, f64::max);
        let mut price = Price::new(arguments.budget / 100.0);
        price.pay(dearest as u64);
        output.line(&format!(
            "a budget of {} of the processors allows {} at least",
            share(price.share()),
            rate(price.rate_allowed())
        ))?;
    }
    output.flush()
}
