//! Group `split`: the runtime's placement of a split's replicas, compared with the best of many placements
//! that know the load of each replica beforehand.

use crate::cores::on_cores;
use crate::farm;
use crate::measure::{Case, Contestant, Goal};
use crate::observed::Observed;
use crate::record::Sink;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use thalweg_box::Value;
use thalweg_exec::{Context, Mapper, Mode, Options, Out, Placement, Ports, Stop, Task, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::shape::{self, ShapeId};
use thalweg_net::{Boxes, Network};

const WORKERS: usize = 2;
/// The approximate time of a long run on one worker.
const LONG: Duration = Duration::from_millis(100);
/// The number of records of a short run.
const SHORT: u64 = 1000;
/// The number of runs of each static placement, from which the best placement is found.
const TRIALS: usize = 3;
/// The length of the sequence of values, which is repeated.
const VALUES: usize = 1 << 16;

/// The division of records among the replicas.
#[derive(Clone, Copy)]
enum Skew {
    Even,
    /// The k-th replica gets a k-th of the first replica's records.
    Zipf,
    /// The first replica gets half of the records.
    Hot,
}

/// A split and the records sent through it.
struct Course {
    network: Network,
    /// The tag's value of each replica; `values` holds those of the records in order.
    replicas: Vec<i64>,
    values: Arc<[i64]>,
    shares: Vec<f64>,
    records: u64,
}

/// The placement of the split's tasks.
#[derive(Clone)]
enum Layout {
    Default,
    OneWorker,
    /// The workers of the collector and of each replica; the dispatcher is on the first.
    Static {
        collector: usize,
        replicas: Vec<usize>,
    },
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for (work, ns) in [("100 ns", 100), ("2 µs", 2_000), ("100 µs", 100_000)] {
        for skew in [Skew::Even, Skew::Zipf, Skew::Hot] {
            for replicas in [2, 4, 8, 16, 32, 64] {
                let long = LONG.as_nanos() as u64 / (ns + 200);
                for (run, records) in [("long", long), ("short", SHORT)] {
                    cases.push(case(work, ns, skew, replicas, (run, records), "small"));
                }
                if replicas == 8 {
                    cases.push(case(work, ns, skew, replicas, ("long", long), "sparse"));
                }
            }
        }
    }
    cases
}

fn case(
    work: &str,
    ns: u64,
    skew: Skew,
    replicas: usize,
    (run, records): (&str, u64),
    tags: &'static str,
) -> Case<'static> {
    let divided = match skew {
        Skew::Even => "even",
        Skew::Zipf => "1/k",
        Skew::Hot => "hot",
    };
    let params = vec![
        ("replicas", replicas.to_string()),
        ("records", divided.to_owned()),
        ("run", run.to_owned()),
        ("tags", tags.to_owned()),
    ];
    let name = format!("a split over boxes of {work}");
    let course = Course::new(ns, skew, replicas, records, tags == "sparse");
    let (ours, limit) = match course.map(Rc::new) {
        Ok(course) => (ours(course.clone()), best(course)),
        Err(why) => (Contestant::missing("thalweg", "", why.clone()), Contestant::missing("static", "", why)),
    };
    let goal = Goal::RatioAtLeast(0.9);
    Case { group: "split", name, params, unit: "k/s", ours, rivals: Vec::new(), limit: Some(limit), goal }
}

fn ours(course: Rc<Course>) -> Contestant<'static> {
    Contestant::new("thalweg", "", move || course.throughput(&Layout::Default))
}

/// The contestant with the best static placement, which its first sample finds.
fn best(course: Rc<Course>) -> Contestant<'static> {
    let mut best = None;
    Contestant::new("the best static placement", "", move || {
        if best.is_none() {
            best = Some(course.best()?);
        }
        course.throughput(best.as_ref().unwrap_or(&Layout::OneWorker))
    })
}

impl Course {
    fn new(ns: u64, skew: Skew, count: usize, records: u64, sparse: bool) -> Result<Course, String> {
        let turns = farm::turns(ns);
        let boxes = Boxes::new().with("box work ((x) -> (x))", move |x: i64, out: &mut thalweg_box::Out| {
            farm::turned(x as u64, turns);
            out.emit((x,));
        });
        let text = "net course { box work ((x) -> (x)); } connect work ! <t>;";
        let network = Network::parse("course", text, &boxes)
            .map_err(|wrong| wrong.iter().map(|diagnostic| diagnostic.render(false)).collect::<String>())?;
        let shares = shares(skew, count);
        let replicas: Vec<i64> =
            (0..count as u64).map(|k| if sparse { (mixed(k) >> 1) as i64 } else { k as i64 }).collect();
        let values = (0..VALUES as u64).map(|n| replicas[chosen(&shares, mixed(n))]).collect();
        Ok(Course { network, replicas, values, shares, records })
    }

    fn best(&self) -> Result<Layout, String> {
        let mut best = (0.0, Layout::OneWorker);
        for placement in self.placements() {
            let mut trials =
                (0..TRIALS).map(|_| self.throughput(&placement)).collect::<Result<Vec<f64>, String>>()?;
            trials.sort_by(f64::total_cmp);
            if trials[TRIALS / 2] > best.0 {
                best = (trials[TRIALS / 2], placement);
            }
        }
        Ok(best.1)
    }

    fn placements(&self) -> Vec<Layout> {
        let all = |place: fn(usize) -> usize| (0..self.replicas.len()).map(place).collect::<Vec<_>>();
        let of_replicas = [
            all(|_| 0),
            all(|_| 1),
            all(|k| k % WORKERS),
            all(|k| k / 8 % WORKERS),
            all(|k| usize::from(k == 0)),
            self.largest_first(),
        ];
        let with = |collector| of_replicas.clone().map(|replicas| Layout::Static { collector, replicas });
        [Layout::OneWorker].into_iter().chain(with(0)).chain(with(1)).collect()
    }

    /// Places each replica, the largest first, on the worker with the least load.
    fn largest_first(&self) -> Vec<usize> {
        let mut loads = [0.0; WORKERS];
        let place = |share: &f64| {
            let least = (0..WORKERS).min_by(|&a, &b| f64::total_cmp(&loads[a], &loads[b])).unwrap_or(0);
            loads[least] += share;
            least
        };
        self.shares.iter().map(place).collect()
    }

    /// The throughput in thousands of records a second, including the start.
    fn throughput(&self, placement: &Layout) -> Result<f64, String> {
        on_cores(WORKERS, || self.run(placement)).map(|took| self.records as f64 / took.as_secs_f64() / 1e3)
    }

    fn run(&self, placement: &Layout) -> Result<Duration, String> {
        let mapper = self.mapper(placement);
        let observed =
            Observed::with(Options { workers: WORKERS, mode: Mode::Off, mapper, ..Options::default() })?;
        let ends = self.network.start(&observed.runtime).map_err(|error| error.to_string())?;
        let (sink, end) = Sink::new(ends.output);
        let (x, t) = (Label::field("x"), Label::tag("t"));
        let shape = shape::of(&[x, t]);
        let slots = [x, t].map(|label| shape.slot(label).expect("the shape has it"));
        let (values, left) = (self.values.clone(), self.records);
        let source = Source { values, next: 0, left, shape, slots, output: ends.input };
        let last = if matches!(placement, Layout::OneWorker) { 0 } else { WORKERS - 1 };
        observed.runtime.spawn(TaskSpec { place: Placement::on_worker(0), ..TaskSpec::default() }, source);
        observed.runtime.spawn(TaskSpec { place: Placement::on_worker(last), ..TaskSpec::default() }, sink);
        let begin = std::time::Instant::now();
        observed.runtime.start();
        let told = end.recv();
        observed.join()?;
        match told {
            Ok((count, end)) if count == self.records => Ok(end - begin),
            _ => Err("records were lost".to_owned()),
        }
    }

    fn mapper(&self, placement: &Layout) -> Mapper {
        match placement {
            Layout::Default => Mapper::default(),
            Layout::OneWorker => Mapper::User(Arc::new(|_| 0)),
            Layout::Static { collector, replicas } => {
                let values = self.replicas.iter().map(|&value| value as u64);
                let of_value: HashMap<u64, usize> = values.zip(replicas.iter().copied()).collect();
                let collector = *collector;
                // Only the dispatcher and the collector are created before the start, and the collector has
                // the greater weight.
                Mapper::User(Arc::new(move |spec: &TaskSpec| match spec.parent.0 {
                    0 => collector * usize::from(spec.weight > 1),
                    _ => of_value.get(&spec.replica).copied().unwrap_or_default(),
                }))
            }
        }
    }
}

/// Each replica's share of the records.
fn shares(skew: Skew, count: usize) -> Vec<f64> {
    let share = |k: usize| match skew {
        Skew::Even => 1.0,
        Skew::Zipf => 1.0 / (k + 1) as f64,
        Skew::Hot if k == 0 => 1.0,
        Skew::Hot => 1.0 / (count - 1) as f64,
    };
    let shares: Vec<f64> = (0..count).map(share).collect();
    let sum: f64 = shares.iter().sum();
    shares.into_iter().map(|share| share / sum).collect()
}

/// The replica that a random number selects.
fn chosen(shares: &[f64], random: u64) -> usize {
    let mut left = (random >> 11) as f64 / (1_u64 << 53) as f64;
    let falls_to = |share: &f64| {
        left -= share;
        left < 0.0
    };
    shares.iter().position(falls_to).unwrap_or(shares.len() - 1)
}

/// A pseudo-random number for each number (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

struct Source {
    values: Arc<[i64]>,
    next: usize,
    left: u64,
    shape: ShapeId,
    slots: [usize; 2],
    output: Out<Record>,
}

impl Task for Source {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.left == 0 {
                return Stop::Ended;
            }
            if self.output.room(cx) == 0 {
                return Stop::OutputFull;
            }
            let mut record = Record::with_shape(self.shape);
            let slots = record.slots_mut();
            slots[self.slots[0]] = Value::Int(self.left as i64);
            slots[self.slots[1]] = Value::Int(self.values[self.next]);
            self.output.push(cx, record).expect("there was room");
            self.next = (self.next + 1) % self.values.len();
            self.left -= 1;
        }
        Stop::QuantumSpent
    }
}
