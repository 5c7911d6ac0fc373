//! `thalweg tune` is killed at random moments: the run goes on with correct results, its rate stays above the
//! guard's limit, and each setting has the value that was verified last.
#![allow(clippy::print_stdout, reason = "the long form prints how many tuners were killed during a trial")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_chance::Chance;
use thalweg_space::reader::{SettingView, SpaceReader};

/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of filters in series, each of which adds 1 to each record.
const FILTERS: usize = 6;
/// The limit that the guard sets, in records a second; the run has ten times as many.
const LEAST_RATE: u64 = 2000;
/// Records that are written at once, and the pause after them.
const BATCH: u64 = 200;
const PAUSE: Duration = Duration::from_millis(10);
/// The longest time that a tuner lives: it covers several trials.
const LIFE_US: u64 = 1_500_000;

/// The settings that tuners try, with the values from which one is drawn.
const TRIED: [(&str, [u64; 3]); 4] = [
    ("exec.quantum", [1, 63, 1000]),
    ("exec.capacity", [2, 65, 1000]),
    ("exec.workers", [1, 2, 2]),
    ("exec.steal", [0, 1, 1]),
];

fn thalweg(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments);
    command
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A run that adds numbers, the thread that writes its input, and the thread that compares its output.
struct Adding {
    run: Child,
    /// Set when the input has to end.
    over: Arc<AtomicBool>,
    /// The number of correct records that came out.
    out: Arc<AtomicU64>,
    writes: JoinHandle<u64>,
    reads: JoinHandle<()>,
}

impl Adding {
    fn start(folder: &Path, space: &Path) -> Adding {
        let net = folder.join("add.snet");
        let steps = ["[{<n>} -> {<n = n + 1>}]"; FILTERS].join(" .. ");
        fs::write(&net, format!("net add connect {steps};")).expect("the network is written");
        let mut command = thalweg(&["run"]);
        command.arg(&net).args(["--workers", "2", "--space"]).arg(space);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut run = command.spawn().expect("thalweg starts");
        let (over, out) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let stdin = run.stdin.take().expect("standard input is piped");
        let stdout = run.stdout.take().expect("standard output is piped");
        let (ends, counts) = (Arc::clone(&over), Arc::clone(&out));
        let writes = std::thread::spawn(move || write(stdin, &ends));
        let reads = std::thread::spawn(move || compare(stdout, &counts));
        until("the run has settings", || {
            SpaceReader::open(space).is_ok_and(|space| {
                space.settings().is_ok_and(|all| all.iter().any(|it| it.name == "exec.steal"))
            })
        });
        Adding { run, over, out, writes, reads }
    }

    /// Ends the input, and checks that each record came out.
    fn end(mut self) {
        self.over.store(true, Ordering::Relaxed);
        let written = self.writes.join().expect("the input is written");
        assert!(self.run.wait().expect("the run ends").success());
        self.reads.join().expect("the output is right");
        assert_eq!(self.out.load(Ordering::Relaxed), written);
    }
}

fn write(mut to: ChildStdin, over: &AtomicBool) -> u64 {
    let mut n = 0;
    while !over.load(Ordering::Relaxed) {
        let batch: String = (n..n + BATCH).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
        to.write_all(batch.as_bytes()).expect("the run reads its input");
        n += BATCH;
        // The pause makes the rate of the input, which is the same with every setting.
        std::thread::sleep(PAUSE);
    }
    n
}

fn compare(from: ChildStdout, count: &AtomicU64) {
    for (n, line) in BufReader::new(from).lines().enumerate() {
        assert_eq!(line.expect("a line"), format!("{{\"<n>\": {}}}", n + FILTERS));
        count.store(n as u64 + 1, Ordering::Relaxed);
    }
}

/// A pack that proposes this value of a setting, whatever the run does.
fn pack(setting: &str, value: u64) -> String {
    format!(
        "format = 1\nname = \"eager\"\nabout = \"For a test: a value that is always proposed.\"\narea = \"network\"\n\n\
         [[condition]]\nname = \"runs\"\nwhen = \"run.tasks > 0\"\nsays = \"It runs.\"\n\n\
         [[model]]\nname = \"hope\"\nis = \"90 %\"\n\n\
         [[point]]\nsetting = \"{setting}\"\nmin = 1\nmax = 4096\n\n\
         [[action]]\non = \"runs\"\nset = \"{setting}\"\nto = \"{value}\"\ngain = \"hope\"\n"
    )
}

fn settings(space: &Path) -> Vec<SettingView> {
    let all = SpaceReader::open(space).expect("the space").settings().expect("its settings");
    all.into_iter().filter(|it| TRIED.iter().any(|(name, _)| *name == it.name)).collect()
}

/// The values of settings after all changes that tuners have verified, by the run's own log.
fn verified(space: &Path, first: &[SettingView]) -> Vec<(String, u64)> {
    let log = thalweg(&["tune", "log", "--json"]).arg(space).output().expect("the log");
    let mut values: Vec<(String, u64)> = first.iter().map(|it| (it.name.clone(), it.value)).collect();
    for line in String::from_utf8(log.stdout).expect("a text").lines() {
        let decision: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let list = match decision["what"].as_str() {
            Some("kept") => &decision["values"],
            Some("undone") => &decision["back"],
            _ => continue,
        };
        for pair in list.as_str().unwrap_or_default().split_whitespace() {
            let (name, value) = pair.split_once('=').expect("NAME=VALUE");
            let known = values.iter_mut().find(|(known, _)| known == name);
            // The rules of the program may change further settings, which this test does not compare.
            if let Some(known) = known {
                known.1 = value.parse().expect("a number");
            }
        }
    }
    values
}

fn killed(rounds: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let (space, eager) = (folder.path().join("space"), folder.path().join("eager.toml"));
    let adding = Adding::start(folder.path(), &space);
    let first = settings(&space);
    assert_eq!(first.len(), TRIED.len());
    let mut chance = Chance::new(20_260);
    let mut in_trial = 0;
    for round in 0..rounds {
        let (setting, values) = chance.of(&TRIED);
        // A value that is in force would not be tried.
        let present = settings(&space).into_iter().find(|it| it.name == setting).expect("the setting").value;
        let others: Vec<u64> = values.into_iter().filter(|value| *value != present).collect();
        fs::write(&eager, pack(setting, chance.of(&others))).expect("the pack is written");
        let mut command = thalweg(&["tune", "--goal", "processor", "--guard"]);
        command.arg(format!("rate>{LEAST_RATE}/s")).arg("--pack").arg(&eager).arg(&space);
        let mut tuner = command.stdout(Stdio::null()).spawn().expect("thalweg starts");
        // The moment of the kill is drawn; half of the kills come soon after a trial has begun.
        if chance.one_in(2) {
            until("a trial is under way, or the tuner waits", || {
                settings(&space).iter().any(|it| it.lease.is_some()) || chance.one_in(1000)
            });
            std::thread::sleep(Duration::from_micros(chance.below(20_000)));
        } else {
            std::thread::sleep(Duration::from_micros(chance.below(LIFE_US)));
        }
        assert_eq!(tuner.try_wait().expect("a status"), None, "round {round}: the tuner ended by itself");
        in_trial += u64::from(settings(&space).iter().any(|it| it.lease.is_some()));
        let (before, at) = (adding.out.load(Ordering::Relaxed), Instant::now());
        tuner.kill().expect("it is killed");
        tuner.wait().expect("it ends");
        until("no trial is left", || settings(&space).iter().all(|it| it.lease.is_none()));
        until("further records come out", || adding.out.load(Ordering::Relaxed) > before + 20 * BATCH);
        let rate = (adding.out.load(Ordering::Relaxed) - before) as f64 / at.elapsed().as_secs_f64();
        assert!(rate > LEAST_RATE as f64, "round {round}: {rate:.0} records/s");
        let now: Vec<(String, u64)> = settings(&space).into_iter().map(|it| (it.name, it.value)).collect();
        assert_eq!(now, verified(&space, &first), "round {round}");
    }
    adding.end();
    println!("{in_trial} of {rounds} tuners were killed during a trial");
    assert!(
        rounds < 20 || in_trial >= rounds / 5,
        "{in_trial} of {rounds} tuners were killed during a trial"
    );
}

#[test]
fn a_run_with_a_killed_tuner_has_what_was_verified_last() {
    killed(6);
}

#[test]
#[ignore = "takes minutes"]
fn a_run_with_a_hundred_killed_tuners_has_what_was_verified_last() {
    killed(100);
}
