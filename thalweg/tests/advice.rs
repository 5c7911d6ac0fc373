//! The advice to replicate a box is followed: networks with a slow box are run, diagnosed, and run again with
//! replicas of the box that the verdict names.
//!
//! If the verdict advises replicas, they must make the network faster; if it says that no worker has time for
//! replicas, they must not make it much faster. Both variants are compared in pairs of consecutive runs, so
//! that other programs on the machine affect both. Other advice, such as to move a task, is printed and not
//! judged.

#![allow(clippy::print_stdout, reason = "what was gained, for people who look")]

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use thalweg_box::Value;
use thalweg_exec::{Context, In, Mode, Options, Out, Placement, Ports, Runtime, Stop, Task, TaskSpec};
use thalweg_monitor::{Verdict, report_space};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::{Boxes, Network};
use thalweg_space::{Space, SpaceOptions};

/// The approximate duration of a run.
const LASTS: Duration = Duration::from_millis(80);
const PAIRS: usize = 7;
/// The largest number of runs that are diagnosed to get a run that other programs did not disturb.
const RUNS_MAX: usize = 8;
/// If replicas are advised, the speed-up that they must exceed; otherwise the speed-up that they must not
/// exceed.
const GAIN: f64 = 1.1;
const GAIN_UNADVISED_MAX: f64 = 1.25;
/// The least number of networks for which the advice is to replicate the slow box.
const ADVISED_MIN: usize = 6;

/// A network in which `SLOW` is a box that is too slow, or its replicas.
struct Planted {
    name: &'static str,
    text: &'static str,
    replicas: i64,
    /// Whether every second record goes to the first replica.
    skewed: bool,
    workers: usize,
    slow_ns: u64,
}

const PLANTED: [Planted; 10] = [
    Planted {
        name: "a pipeline, 2 replicas",
        text: "quick .. SLOW .. quick",
        replicas: 2,
        skewed: false,
        workers: 2,
        slow_ns: 20_000,
    },
    Planted {
        name: "a pipeline, 8 replicas",
        text: "quick .. SLOW .. quick",
        replicas: 8,
        skewed: false,
        workers: 2,
        slow_ns: 20_000,
    },
    Planted {
        name: "a pipeline, 2 µs",
        text: "quick .. SLOW .. quick",
        replicas: 4,
        skewed: false,
        workers: 2,
        slow_ns: 2_000,
    },
    Planted {
        name: "a skewed split",
        text: "quick .. SLOW .. quick",
        replicas: 4,
        skewed: true,
        workers: 2,
        slow_ns: 20_000,
    },
    Planted {
        name: "a branch",
        text: "([{x, <even>} -> {x}] .. SLOW | quick) .. quick",
        replicas: 4,
        skewed: false,
        workers: 2,
        slow_ns: 20_000,
    },
    Planted {
        name: "a star",
        text: "[{x} -> {x, <left = 3>}] .. (SLOW .. [{<left>} -> {<left = left - 1>}]) * {<left>} if <left == 0>",
        replicas: 4,
        skewed: false,
        workers: 2,
        slow_ns: 20_000,
    },
    Planted {
        name: "at the end",
        text: "quick .. quick .. quick .. SLOW",
        replicas: 3,
        skewed: false,
        workers: 2,
        slow_ns: 10_000,
    },
    Planted {
        name: "before a long tail",
        text: "SLOW .. quick .. quick .. quick",
        replicas: 4,
        skewed: false,
        workers: 2,
        slow_ns: 10_000,
    },
    Planted {
        name: "two slow ones on two workers",
        text: "SLOW .. other",
        replicas: 4,
        skewed: false,
        workers: 2,
        slow_ns: 20_000,
    },
    Planted {
        name: "one worker",
        text: "quick .. SLOW .. quick",
        replicas: 4,
        skewed: false,
        workers: 1,
        slow_ns: 20_000,
    },
];

/// Uses the processor for `ns` nanoseconds.
fn work(ns: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_nanos(ns) {
        std::hint::spin_loop();
    }
}

impl Planted {
    fn network(&self, replicated: bool) -> Network {
        let slow_ns = self.slow_ns;
        let taking = |ns: u64| {
            move |x: i64, out: &mut thalweg_box::Out| {
                work(ns);
                out.emit((x,));
            }
        };
        let boxes = Boxes::new()
            .with("box slow ((x) -> (x))", taking(slow_ns))
            .with("box other ((x) -> (x))", taking(slow_ns))
            .with("box quick ((x) -> (x))", taking(slow_ns / 20));
        let slow = if replicated { "(slow ! <t>)" } else { "slow" };
        let text = format!(
            "net planted {{ box slow ((x) -> (x)); box other ((x) -> (x)); box quick ((x) -> (x)); }} connect {};",
            self.text.replace("SLOW", slow)
        );
        Network::parse("planted", &text, &boxes).unwrap_or_else(|wrong| {
            panic!("{}: {}", self.name, wrong.iter().map(|d| d.render(false)).collect::<String>())
        })
    }

    fn records(&self) -> u64 {
        LASTS.as_nanos() as u64 / self.slow_ns / if self.name == "a star" { 3 } else { 1 }
    }

    /// The duration of the run, and the verdict if the run is observed.
    fn run(&self, replicated: bool, observed: bool) -> (Duration, Option<Verdict>) {
        let place = tempfile::tempdir().expect("a directory");
        let space = Space::create(SpaceOptions {
            name: "advice".into(),
            path: Some(place.path().join("space")),
            ..SpaceOptions::default()
        })
        .expect("a space");
        let mode = if observed { Mode::Full } else { Mode::Off };
        let runtime = Runtime::new(Options {
            workers: self.workers,
            pin: true,
            mode,
            space: Some(space.clone()),
            ..Options::default()
        })
        .expect("a runtime");
        let ends = self.network(replicated).start(&runtime).expect("it starts");
        let (counted, end) = channel();
        let values = (0..self.records() as i64).map(|n| match n % 2 {
            0 if self.skewed => 0,
            _ => n % self.replicas,
        });
        let source = Source { values: values.rev().collect(), output: ends.input };
        let on = |worker| TaskSpec { place: Placement::on_worker(worker), ..TaskSpec::default() };
        runtime.spawn(on(0), source);
        runtime.spawn(on(self.workers - 1), Sink { input: ends.output, count: 0, counted });
        let begun = Instant::now();
        runtime.start();
        let (count, ended) = end.recv().expect("the sink has it");
        let summary = runtime.join().expect("it ends well");
        assert!(summary.failures.is_empty(), "{:?}", summary.failures);
        assert_eq!(count, self.records(), "{}: records were lost", self.name);
        space.finish();
        drop(space);
        let verdict =
            observed.then(|| report_space(place.path().join("space"), 16).expect("a report").verdict);
        (ended - begun, verdict)
    }

    /// The verdict on a run that other programs did not disturb, or on the last run if all were disturbed.
    fn diagnosed(&self) -> Option<Verdict> {
        let mut runs = (0..RUNS_MAX).filter_map(|_| self.run(false, true).1);
        runs.find(|verdict| !verdict.finding.rule.starts_with("contention"))
    }

    /// The speed-up by replicas: the median of the speed-ups of several pairs of runs.
    fn gain(&self) -> f64 {
        let pair = |_| {
            let (plain, replicated) = (self.run(false, false).0, self.run(true, false).0);
            plain.as_secs_f64() / replicated.as_secs_f64()
        };
        let mut gains: Vec<f64> = (0..PAIRS).map(pair).collect();
        gains.sort_by(f64::total_cmp);
        gains[PAIRS / 2]
    }
}

struct Source {
    /// The values that the tag still gets, the next one at the end.
    values: Vec<i64>,
    output: Out<Record>,
}

impl Task for Source {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            let Some(&value) = self.values.last() else { return Stop::Ended };
            if self.output.room(cx) == 0 {
                return Stop::OutputFull;
            }
            let mut labels =
                vec![(Label::field("x"), Value::Int(value)), (Label::tag("t"), Value::Int(value))];
            if value % 2 == 0 {
                labels.push((Label::tag("even"), Value::Int(0)));
            }
            self.output.push(cx, Record::from_pairs(labels)).expect("there was room");
            self.values.pop();
        }
        Stop::QuantumSpent
    }
}

struct Sink {
    input: In<Record>,
    count: u64,
    counted: Sender<(u64, Instant)>,
}

impl Task for Sink {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            match self.input.pop(cx) {
                Some(_) => self.count += 1,
                None if self.input.ended() => {
                    self.counted.send((self.count, Instant::now())).ok();
                    return Stop::Ended;
                }
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}

#[test]
#[ignore = "real time: it wants two processors for itself"]
fn replicating_the_component_that_the_verdict_names_gains() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!(
            "skipped: replicating_the_component_that_the_verdict_names_gains: two workers need two processors"
        );
        return;
    }
    let (mut wrong, mut all_advised, mut left_out) = (Vec::new(), 0, Vec::new());
    for planted in &PLANTED {
        let Some(verdict) = planted.diagnosed() else {
            left_out.push(planted.name);
            continue;
        };
        let suggestion = verdict.words.suggestion.unwrap_or_default();
        let advised = suggestion.contains("or replicate it") || suggestion.starts_with("replicate");
        let withheld =
            suggestion.contains("no time for replicas") || suggestion.contains("would gain nothing");
        all_advised += usize::from(advised);
        let gain = planted.gain();
        println!(
            "{gain:.2} {} ({}): {} {suggestion}",
            planted.name, verdict.finding.rule, verdict.words.text
        );
        let holds = (!advised || gain >= GAIN) && (!withheld || gain <= GAIN_UNADVISED_MAX);
        if !holds {
            wrong.push(format!("{}: advised {advised}, {gain:.2} times as fast", planted.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(left_out.is_empty(), "the machine is too busy, others disturbed every run of: {left_out:?}");
    assert!(all_advised >= ADVISED_MIN, "{all_advised} of the networks were told to replicate");
}
