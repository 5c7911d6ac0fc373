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

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use planted_run::planted_nets::{CAUSES, Cause, Net, Score};
use planted_run::{Place, build, runtime_of, space_in};
use thalweg_monitor::{Report, report_space};

/// The time during which a source of a planted network writes messages.
const LASTS: Duration = Duration::from_millis(200);
/// The largest number of runs of one network until one is undisturbed.
const RUNS_MAX: usize = 6;
/// The largest share of the processors that other programs may have had in an undisturbed run.
const FOREIGN_MAX: f64 = 0.1;

/// A process that uses one processor all the time, and is killed when the value is dropped.
struct Burner(Child);

impl Burner {
    fn on(core: usize) -> Option<Burner> {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string(), "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
        command.spawn().ok().map(Burner)
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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

/// Runs the network; returns the report, and the share of the processors that other programs had.
fn run(net: &Net) -> (Report, f64) {
    let place = Place::new();
    let space = space_in(&place);
    let burners: Vec<Burner> =
        (0..2).filter(|_| net.preempted_every.is_some()).filter_map(|_| Burner::on(0)).collect();
    let before = Processors::look();
    let runtime = runtime_of(net, &space);
    let begun = Instant::now();
    build(net, &runtime, &space, move || begun.elapsed() < LASTS);
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
        score.add(&net, seed, &run(&net).0.verdict);
    }
    score.check();
}

#[test]
#[ignore = "real time: it wants two processors for itself; monitor/tests/planted.rs does the same in a time of its own"]
fn verdicts_name_what_was_planted() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: verdicts_name_what_was_planted: two workers need two processors");
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
            let mut runs = (0..RUNS_MAX).map(|_| run(&net));
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
