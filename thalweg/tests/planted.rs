//! Planted causes in real time: networks made to be slow for one known reason, run, and diagnosed. The
//! verdict has to name the reason.
//!
//! Other programs on the machine are themselves a cause, which the verdict then rightly names. The test
//! therefore measures the share of the processors that other programs had; a disturbed run is repeated,
//! whatever its verdict.
//!
//! `PLANTED` is the number of networks of each cause, `PLANTED_CAUSE` chooses one cause, `PLANTED_SEED` one
//! network.

#![allow(clippy::print_stdout, reason = "what was named, for people who look")]

mod planted_run;

use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use planted_run::planted_nets::{CAUSES, Cause, Net, Score};
use planted_run::{HANDED_ON, Place, build_as, runtime_of, space_in, work};
use thalweg_box::Value;
use thalweg_chance::Chance;
use thalweg_exec::{Mode, Options, Runtime, TaskSpec};
use thalweg_monitor::{Component, Report, Verdict, report_space};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::run::StartOptions;
use thalweg_net::{Boxes, Network};

/// The time during which a source of a planted network writes messages.
const LASTS: Duration = Duration::from_millis(200);
/// The largest number of runs of one network until one is undisturbed.
const RUNS_MAX: usize = 6;
/// The largest share of the processors that other programs may have had in an undisturbed run.
const FOREIGN_MAX: f64 = 0.1;

/// A process that uses one processor all the time, and is killed when the value is dropped. It is no child of this
/// process, because the programs that a run starts do not count as others.
struct Burner(u32);

impl Burner {
    fn on(core: usize) -> Option<Burner> {
        let burns = format!("taskset -c {core} timeout 20 sh -c 'while :; do :; done'");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{burns} </dev/null >/dev/null 2>&1 & echo $!")]);
        let output = shell.output().ok()?;
        let number = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
        Some(Burner(number))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // `timeout` passes the signal on to the program that it runs.
        let _ = Command::new("kill").arg(self.0.to_string()).status();
    }
}

/// Processor time of all processors and of this process, in ticks of the kernel's accounts.
struct Processors {
    all: u64,
    ours: u64,
    since: Instant,
}

impl Processors {
    fn look() -> Option<Processors> {
        let numbers = |text: &str, skip: usize, take: usize| -> Option<Vec<u64>> {
            text.split_whitespace().skip(skip).take(take).map(|field| field.parse().ok()).collect()
        };
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        // user, nice, system, idle, iowait, irq, softirq, steal: the columns of the kernel's accounts.
        let all = numbers(stat.lines().next()?, 1, 8)?;
        let own = std::fs::read_to_string("/proc/self/stat").ok()?;
        let ours = numbers(own.rsplit(')').next()?, 11, 2)?;
        let idle = all[3] + all[4];
        let used = |ticks: &[u64]| ticks.iter().sum::<u64>();
        Some(Processors { all: used(&all) - idle, ours: used(&ours), since: Instant::now() })
    }

    /// The share of two processors that other programs have had since `self` was read.
    fn foreign_since(&self) -> Option<f64> {
        let now = Processors::look()?;
        let foreign = (now.all - self.all).saturating_sub(now.ours - self.ours);
        Some(foreign as f64 / 100.0 / (2.0 * self.since.elapsed().as_secs_f64()))
    }
}

/// Runs the network, whose tasks hand messages on if `hands_on` is set; returns the report, and the share of the
/// processors that other programs had.
fn run(net: &Net, hands_on: bool) -> (Report, f64) {
    let place = Place::new();
    let space = space_in(&place);
    let burners: Vec<Burner> =
        (0..2).filter(|_| net.preempted_every.is_some()).filter_map(|_| Burner::on(0)).collect();
    let before = Processors::look();
    let runtime = runtime_of(net, &space);
    let begun = Instant::now();
    build_as(net, &runtime, &space, hands_on, move || begun.elapsed() < LASTS);
    let outcome = runtime.join();
    let foreign = before.and_then(|before| before.foreign_since()).unwrap_or(0.0);
    assert_eq!(outcome.is_err(), net.cause == Cause::Deadlock, "{outcome:?}");
    let foreign = if burners.is_empty() { foreign } else { 0.0 };
    drop(burners);
    space.finish();
    drop(space);
    (report_space(&place.0, 32).unwrap(), foreign)
}

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// A deadlock must be found on a busy machine, too.
#[test]
fn deadlocks_are_named_on_any_machine() {
    let mut score = Score::default();
    for seed in 0..4 {
        let net = Net::planted(Cause::Deadlock, seed);
        score.add(&net, seed, &run(&net, false).0.verdict);
    }
    score.check();
}

#[test]
#[ignore = "real time: it wants two processors for itself; monitor/tests/planted.rs does the same in a time of its own"]
fn verdicts_name_what_was_planted() {
    score_of_planted(false);
}

#[test]
#[ignore = "real time: it wants two processors for itself"]
fn verdicts_name_what_was_planted_where_tasks_hand_on() {
    score_of_planted(true);
    let handed = HANDED_ON.load(Ordering::Relaxed);
    println!("{handed} messages were handed on");
    assert!(handed > 1000, "{handed}");
}

/// A network of boxes in series on one worker, one of which is slow; returns the name of the slow box, and the
/// network.
fn row_with_a_slow_box(chance: &mut Chance) -> (String, Network) {
    let length = chance.between(4, 9);
    let (slow, each) = (chance.below(length), chance.between(1_000, 3_000));
    let mut boxes = Boxes::new();
    let (mut declared, mut names) = (String::new(), Vec::new());
    for at in 0..length {
        let signature = format!("box b{at} ((x) -> (x))");
        let takes = if at == slow { each * length * 2 } else { each };
        let called = move |x: i64, out: &mut thalweg_box::Out| {
            work(takes);
            out.emit((x + 1,));
        };
        boxes.add(&signature, called).unwrap();
        declared.push_str(&format!("{signature}; "));
        names.push(format!("b{at}"));
    }
    let text = format!("net main {{ {declared} }} connect {};", names.join(" .. "));
    (format!("b{slow}"), Network::parse("main", &text, &boxes).unwrap())
}

/// In a series of boxes that hand records on, the slow box is busy for longest, and the verdict names it, in at
/// least 95 % of the runs that no other program disturbed.
#[test]
#[ignore = "real time: it wants two processors for itself"]
fn a_slow_box_among_boxes_that_hand_records_on_is_named() {
    let (mut chance, mut named, mut alone, mut wrong) = (Chance::new(28), 0, 0, Vec::new());
    work(0); // This measures the loop that boxes work by.
    for seed in 0..24 {
        let (slow, network) = row_with_a_slow_box(&mut chance);
        let place = Place::new();
        let space = space_in(&place);
        let options =
            Options { workers: 1, mode: Mode::Full, space: Some(space.clone()), ..Options::default() };
        let runtime = Runtime::new(options).unwrap();
        let limits = StartOptions { fuse: true, ..StartOptions::default() };
        let running = network.start_with(&runtime, limits).unwrap();
        let (mut input, mut output) = (running.input, running.output);
        let before = Processors::look();
        let begun = Instant::now();
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            let record = || Record::from_pairs([(Label::field("x"), Value::Int(0))]);
            while begun.elapsed() < LASTS && task.push(&mut input, record()).is_ok() {}
        });
        runtime.spawn_blocking(TaskSpec::default(), move |task| while task.pop(&mut output).is_some() {});
        runtime.join().unwrap();
        let foreign = before.and_then(|before| before.foreign_since()).unwrap_or(0.0);
        space.finish();
        let report = report_space(&place.0, 32).unwrap();
        let of_boxes = report.components.iter().filter(|component| component.kind == "box");
        let busy = |component: &&Component| component.work.busy_ns.unwrap_or(0.0);
        let busiest = of_boxes.max_by(|one, other| busy(one).total_cmp(&busy(other))).unwrap();
        if foreign <= FOREIGN_MAX {
            let Verdict { finding, words, .. } = &report.verdict;
            let is_slow = busiest.path.ends_with(&format!("/{slow}"));
            let names = is_slow && finding.component.as_deref() == Some(&*busiest.path);
            println!("{slow}: {:?} {}", finding.kind, words.text);
            alone += 1;
            named += u64::from(names);
            if !names {
                let Component { path, .. } = busiest;
                wrong.push(format!(
                    "seed {seed}: {slow}, most busy {path}: {:?} {}",
                    finding.kind, words.text
                ));
            }
        }
    }
    println!("{named} of {alone} named");
    assert!(alone > 0, "the machine is too busy");
    assert!(named * 100 >= alone * 95, "{named} of {alone} named: {wrong:#?}");
}

fn score_of_planted(hands_on: bool) {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: verdicts on planted causes: two workers need two processors");
        return;
    }
    let variants: u64 = from_environment("PLANTED").unwrap_or(6);
    let only_cause: Option<String> = from_environment("PLANTED_CAUSE");
    let only_seed: Option<u64> = from_environment("PLANTED_SEED");
    let (mut score, mut disturbed, mut left_out) = (Score::default(), 0, Vec::new());
    let chosen = |cause: &&Cause| only_cause.as_ref().is_none_or(|only| *only == format!("{cause:?}"));
    for &cause in CAUSES.iter().filter(chosen) {
        for seed in only_seed.map_or(0..variants, |seed| seed..seed + 1) {
            let net = Net::planted(cause, seed);
            let mut runs = (0..RUNS_MAX).map(|_| run(&net, hands_on));
            let alone = runs.find(|(_, foreign)| {
                disturbed += u64::from(*foreign > FOREIGN_MAX);
                *foreign <= FOREIGN_MAX
            });
            let Some((report, _)) = alone else {
                left_out.push(format!("{cause:?} {seed}"));
                continue;
            };
            if only_seed.is_some() {
                println!("{}", serde_json::to_string_pretty(&report).expect("a report is JSON"));
            }
            score.add(&net, seed, &report.verdict);
        }
    }
    println!("{score}{disturbed} runs were disturbed by others and made again");
    assert!(left_out.is_empty(), "the machine is too busy, others disturbed every run of: {left_out:?}");
    score.check();
}
