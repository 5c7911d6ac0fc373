//! `thalweg tune` on live runs: trials are undone when the tuner is killed, a run has one tuner at a time,
//! settings of users are respected, and the log gives reasons.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use thalweg_space::reader::{SettingView, SpaceReader};

/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// Rules that always propose another quantum, so that trials begin soon and last long.
const EAGER: &str = r#"
format = 1
name = "eager"
about = "For a test: whatever the run does, another quantum is proposed."
area = "network"

[[condition]]
name = "runs"
when = "run.tasks > 0"
says = "It runs."

[[model]]
name = "hope"
is = "90 %"

[[point]]
setting = "exec.quantum"
min = 1
max = 4096

[[action]]
on = "runs"
set = "exec.quantum"
to = "63"
gain = "hope"
"#;

/// A run of a network of filters that reads zeros until it is killed.
struct Zeros {
    child: Child,
    folder: TempDir,
}

impl Zeros {
    fn start() -> Zeros {
        Zeros::start_with(&[])
    }

    fn start_with(more: &[&str]) -> Zeros {
        let folder = tempfile::tempdir().unwrap();
        let net = folder.path().join("count.snet");
        let step = "[{<seq>} -> {<seq = seq + 1>}]";
        fs::write(&net, format!("net count connect {};", [step; 6].join(" .. "))).unwrap();
        fs::write(folder.path().join("eager.toml"), EAGER).unwrap();
        let mut command = thalweg(&["run"]);
        command.arg(&net).args(["--input", "/dev/zero", "--input-bytes", "data", "--chunk", "64"]);
        command.args(["--output", "/dev/null", "--output-bytes", "data", "--workers", "2", "--space"]);
        command.arg(folder.path().join("space")).args(more);
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let run = Zeros { child, folder };
        until("the run has a setting", || {
            SpaceReader::open(run.space()).is_ok_and(|space| {
                space.settings().is_ok_and(|all| all.iter().any(|setting| setting.name == "exec.quantum"))
            })
        });
        run
    }

    fn space(&self) -> PathBuf {
        self.folder.path().join("space")
    }

    fn quantum(&self) -> SettingView {
        let settings = SpaceReader::open(self.space()).unwrap().settings().unwrap();
        settings.into_iter().find(|setting| setting.name == "exec.quantum").unwrap()
    }

    /// The command `thalweg tune` with rules that propose a change at once.
    fn tuner(&self, more: &[&str]) -> Command {
        let mut command = thalweg(&["tune"]);
        command.arg(self.space()).arg("--pack").arg(self.folder.path().join("eager.toml")).args(more);
        command
    }

    /// Starts a tuner, and waits until it has begun a trial.
    fn trial(&self) -> Child {
        let mut tuner = self.tuner(&[]).stdout(Stdio::null()).spawn().unwrap();
        until("a trial is under way", || {
            assert_eq!(tuner.try_wait().unwrap(), None, "the tuner ended by itself");
            let quantum = self.quantum();
            quantum.value == 63 && quantum.lease.is_some()
        });
        tuner
    }

    /// The number of dispatches of all workers so far.
    fn dispatches(&self) -> u64 {
        let rows = SpaceReader::open(self.space()).unwrap().live_rows().unwrap();
        rows.iter()
            .filter(|row| row.kind_name() == "exec.worker")
            .filter_map(|row| row.cell("dispatches"))
            .sum()
    }

    /// The distinct capacities of the run's streams.
    fn capacities(&self) -> Vec<u64> {
        let rows = SpaceReader::open(self.space()).unwrap().live_rows().unwrap();
        let streams = rows.iter().filter(|row| row.kind_name() == "exec.stream");
        let mut all: Vec<u64> = streams.filter_map(|row| row.cell("capacity")).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = thalweg(arguments);
        command.arg(self.space()).output().unwrap()
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn thalweg(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn streams_that_are_there_hold_what_is_set_when_they_are_full_next() {
    let run = Zeros::start_with(&["--capacity", "2"]);
    until("streams hold two messages", || run.capacities() == [2]);
    for wanted in [300, 1, 64] {
        let before = run.capacities();
        let space = SpaceReader::open(run.space()).unwrap();
        space.set("exec.capacity", wanted).unwrap();
        until("a stream holds what is set", || run.capacities().contains(&wanted));
        assert!(run.capacities().iter().all(|held| *held == wanted || before.contains(held)), "{before:?}");
        let moved = run.dispatches();
        until("the run goes on", || run.dispatches() > moved);
    }
}

#[test]
fn events_of_a_run_that_writes_more_and_more_come_to_an_end() {
    let run = Zeros::start_with(&["--monitor", "full"]);
    // As many events as possible: one for each message.
    SpaceReader::open(run.space()).unwrap().set("exec.quantum", 1).unwrap();
    let mut events = thalweg(&["events"]).arg(run.space()).stdout(Stdio::null()).spawn().unwrap();
    let mut ended = None;
    until("all events that were there are printed", || {
        ended = events.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    assert!(run.ask(&["tune", "log"]).status.success());
}

#[test]
fn what_a_killed_tuner_was_trying_goes_back_and_the_run_goes_on() {
    let run = Zeros::start();
    for moment in [0, 40, 170] {
        let mut tuner = run.trial();
        std::thread::sleep(Duration::from_millis(moment));
        tuner.kill().unwrap();
        tuner.wait().unwrap();
        until("the former value is back", || {
            let quantum = run.quantum();
            quantum.value == 64 && quantum.lease.is_none()
        });
        let before = run.dispatches();
        until("the run goes on", || run.dispatches() > before);
    }
}

#[test]
fn the_second_tuner_is_refused_and_a_person_wins() {
    let run = Zeros::start();
    let mut tuner = run.trial();
    let second = run.tuner(&[]).output().unwrap();
    let stderr = text(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.lines().count() == 1 && stderr.contains(&format!("process {} tunes", tuner.id())),
        "{stderr}"
    );

    let set = thalweg(&["set"]).arg(run.space()).args(["exec.quantum", "17"]).output().unwrap();
    assert!(set.status.success(), "{}", text(&set.stderr));
    let log = || text(&run.ask(&["tune", "log", "--json"]).stdout);
    until("the tuner leaves it to the person", || log().contains("\"what\":\"pinned\""));
    // The pause is longer than a turn of any trial.
    std::thread::sleep(Duration::from_secs(1));
    let quantum = run.quantum();
    assert_eq!((quantum.value, quantum.lease), (17, None));
    let interrupt = Command::new("kill").args(["-INT", &tuner.id().to_string()]).status().unwrap();
    assert!(interrupt.success() && tuner.wait().unwrap().success());
    let log = log();
    let decisions: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // On a busy machine the tuner may have tried a mapping before, so the decisions by the pack's model are
    // searched.
    let is_ours =
        |decision: &&serde_json::Value| decision["what"] == "tried" && decision["model"] == "eager/hope";
    let tried = decisions.iter().find(is_ours).expect("it tried what the pack says");
    assert_eq!(tried["values"], "exec.quantum=63");
    assert!(decisions.last().is_some_and(|last| last["what"] == "ended"), "{log}");
    let numbers: Vec<u64> = decisions.iter().map(|decision| decision["number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");

    let number = tried["number"].to_string();
    let why = text(&run.ask(&["tune", "why", &number]).stdout);
    assert!(why.contains("seen      It runs.") && why.contains("expected  +90.0 %"), "{why}");
    let undo = run.ask(&["tune", "undo", &number]);
    assert_eq!(undo.status.code(), Some(2), "what was only tried cannot be undone");
    assert!(text(&run.ask(&["tune", "why", "999"]).stderr).contains("the log has 1 to"));
}

#[test]
fn advice_touches_nothing_and_what_is_pinned_is_not_tried() {
    let run = Zeros::start();
    let advised = run.tuner(&["--advise", "--for", "4s"]).output().unwrap();
    let stdout = text(&advised.stdout);
    assert!(
        advised.status.success() && stdout.contains("advised") && stdout.contains("exec.quantum 64 → 63"),
        "{stdout}"
    );
    let quantum = run.quantum();
    assert!(quantum.value == 64 && quantum.setter.is_none(), "{quantum:?}");

    let pin = run.ask(&["tune", "pin", "exec.quantum"]);
    assert!(pin.status.success(), "{}", text(&pin.stderr));
    let tuned = run.tuner(&["--for", "3s"]).output().unwrap();
    let stdout = text(&tuned.stdout);
    assert!(stdout.contains("pinned") && !stdout.contains("exec.quantum 64"), "{stdout}");
    let wrong = run.ask(&["tune", "pin", "exec.quantun"]);
    assert!(text(&wrong.stderr).contains("did you mean `exec.quantum`"), "{}", text(&wrong.stderr));
}

#[test]
fn a_run_that_cannot_be_tuned_reports_the_reason_at_once() {
    let run = Zeros::start();
    let off = thalweg(&["set"]).arg(run.space()).args(["monitor.mode", "off"]).output().unwrap();
    assert!(off.status.success());
    let refused = run.tuner(&[]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("thalweg set monitor.mode metrics"), "{}", text(&refused.stderr));
    let bad = run.folder.path().join("bad.toml");
    fs::write(&bad, EAGER.replace("run.tasks > 0", "run.tas > 0")).unwrap();
    let on = thalweg(&["set"]).arg(run.space()).args(["monitor.mode", "metrics"]).output().unwrap();
    assert!(on.status.success());
    let refused = thalweg(&["tune"]).arg(run.space()).arg("--pack").arg(&bad).output().unwrap();
    let stderr = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(2) && stderr.contains("bad.toml:9") && stderr.contains("run.tas"),
        "{stderr}"
    );
    for (guard, why) in [("p99<5", "say its unit"), ("speed<1", "is not measured")] {
        let refused = run.tuner(&["--guard", guard]).output().unwrap();
        assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
}

#[test]
fn a_tuner_that_found_nothing_says_that_its_file_is_empty() {
    let run = Zeros::start();
    let saved = run.folder.path().join("saved.settings");
    let path = saved.to_str().unwrap();
    let tuned = run.tuner(&["--for", "1ms", "--save", path]).output().unwrap();
    let (stderr, file) = (text(&tuned.stderr), fs::read_to_string(&saved).unwrap());
    assert!(tuned.status.success(), "{stderr}");
    assert!(file.starts_with('#') && file.lines().count() == 1, "{file}");
    assert!(stderr.contains(&format!("warning: {path} has no settings")), "{stderr}");
}

#[test]
fn a_run_starts_from_a_file_of_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let net = file("one.snet", "net one connect [{<n>} -> {<n = n + 1>}];");
    let input = file("in.jsonl", "{\"<n>\": 1}\n");
    let settings = file("tuned.settings", "# kept\nexec.quantum = 256\n");
    let space = folder.path().join("space");
    let start = |settings: &Path, space: &Path| {
        let mut command = thalweg(&["run"]);
        command
            .arg(&net)
            .arg("--input")
            .arg(&input)
            .arg("--settings")
            .arg(settings)
            .arg("--space")
            .arg(space);
        command.output().unwrap()
    };
    let ran = start(&settings, &space);
    assert_eq!(text(&ran.stdout), "{\"<n>\": 2}\n", "{}", text(&ran.stderr));
    let all = SpaceReader::open(&space).unwrap().settings().unwrap();
    assert!(all.iter().any(|setting| setting.name == "exec.quantum" && setting.value == 256));
    for (n, wrong) in ["\nexec.quantum\n", "\nexec.quantom = 3\n", "\nexec.quantum = 0\n"].iter().enumerate()
    {
        let wrong = start(&file("wrong.settings", wrong), &folder.path().join(format!("wrong {n}")));
        let stderr = text(&wrong.stderr);
        assert!(wrong.status.code() == Some(2) && stderr.contains("wrong.settings:2: "), "{stderr}");
    }
}

/// The workers of a run's tasks. The second task of a component that was made has `~2` behind its name.
fn workers_of(space: &Path) -> Option<BTreeMap<String, u64>> {
    let report = thalweg(&["diagnose", "--json", "--top", "100"]).arg(space).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).ok()?;
    let tasks = report["tasks"].as_array()?.iter();
    let placed = tasks.filter_map(|task| {
        let name = task["name"].as_str()?.trim_end_matches("[0]").to_owned();
        Some((task["id"].as_u64()?, name, task["worker"].as_u64()?))
    });
    let mut placed: Vec<(u64, String, u64)> = placed.collect();
    placed.sort();
    let mut workers = BTreeMap::new();
    for (_, name, worker) in placed {
        let known = workers.contains_key(&name);
        workers.insert(if known { format!("{name}~2") } else { name }, worker);
    }
    Some(workers)
}

#[test]
fn saved_places_hold_where_the_number_of_workers_is_saved_too() {
    let filters: Vec<String> = (1..=4).map(|n| format!("[{{<n>}} -> {{<n = n + {n}>}}]")).collect();
    // Round-robin would place them on 0, 1, 0 and 1.
    let wanted = [("filter", 1), ("filter#2", 0), ("filter#3", 1), ("filter#4", 0)];
    saved_places_hold(&filters.join(" .. "), &wanted);
}

#[test]
fn saved_places_of_tasks_with_one_name_hold() {
    // A star's first exit and its collector have one name.
    let wanted = [("star", 1), ("star~2", 0), ("star/filter", 0)];
    saved_places_hold("[{<n>} -> {<n = n + 1>}] * {<n>} if <n > 1>", &wanted);
    let wanted = [("star", 0), ("star~2", 1), ("star/filter", 1)];
    saved_places_hold("[{<n>} -> {<n = n + 1>}] * {<n>} if <n > 1>", &wanted);
}

#[test]
fn a_saved_mapper_places_from_the_start() {
    let filters: Vec<String> = (1..=4).map(|n| format!("[{{<n>}} -> {{<n = n + {n}>}}]")).collect();
    let placed = |mapper: &str, places: [u64; 4]| {
        let names = ["filter", "filter#2", "filter#3", "filter#4"];
        let wanted: Vec<(&str, u64)> = names.into_iter().zip(places).collect();
        places_hold(&filters.join(" .. "), &format!("exec.mapper = {mapper}\nexec.workers = 2\n"), &wanted);
    };
    placed("1", [0, 1, 0, 1]);
    placed("contiguous", [0, 0, 1, 1]);
}

/// A run of the network starts on the saved workers, and stays there, because nothing moves its tasks.
fn saved_places_hold(network: &str, wanted: &[(&str, u64)]) {
    for setting in ["worker", "first_worker"] {
        let places = wanted.iter().map(|(name, worker)| format!("task/three/{name}.{setting} = {worker}\n"));
        places_hold(network, &format!("exec.workers = 2\n{}", places.collect::<String>()), wanted);
    }
}

/// A run of the network with these saved settings starts on the wanted workers, and stays there.
fn places_hold(network: &str, saved: &str, wanted: &[(&str, u64)]) {
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("three.snet");
    fs::write(&net, format!("net three connect {network};")).unwrap();
    let (settings, space) = (folder.path().join("saved.settings"), folder.path().join("space"));
    let wanted: BTreeMap<String, u64> =
        wanted.iter().map(|(name, worker)| (format!("three/{name}"), *worker)).collect();
    // Until its move is made, a task may be taken from behind a long call, which a busy machine causes.
    fs::write(&settings, format!("exec.steal_after_us = 0\n{saved}")).unwrap();
    let mut run = thalweg(&["run", "--workers", "1", "--workers-max", "2", "--mapper", "round-robin"])
        .arg(&net)
        .arg("--settings")
        .arg(&settings)
        .arg("--space")
        .arg(&space)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = run.stdin.take().unwrap();
    let begun = Instant::now();
    // Tasks move when they are dispatched, so records have to come.
    let holds =
        |now: &BTreeMap<String, u64>| wanted.iter().all(|(name, worker)| now.get(name) == Some(worker));
    while !workers_of(&space).as_ref().is_some_and(holds) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", workers_of(&space));
        input.write_all(b"{\"<n>\": 1}\n").unwrap();
    }
    drop(input);
    assert!(run.wait().unwrap().success());
    assert!(workers_of(&space).as_ref().is_some_and(holds), "{:?}", workers_of(&space));
}
