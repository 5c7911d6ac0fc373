//! Heartbeats of real runs: each kind of standstill is produced, and recognised; boxes that have always been
//! slow cause no alarm.

mod planted_run;
mod program;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use planted_run::planted_nets::{Cause, Net};
use planted_run::while_it_runs;
use program::{Killed, write};
use thalweg_monitor::{Heartbeat, Standing, Still};
use thalweg_scope::Target;
use thalweg_space::reader::SpaceReader;

const STABLE: Duration = Duration::from_millis(400);

/// The effect of `<n>` on the box: -1 sleeps for ever, -2 loops for ever, more than 1,000 sleeps for `<n>`
/// µs, more than 1,000,000 computes `<n>` turns of a loop.
const BOXES: &str = r#"
#define _GNU_SOURCE
#include "thalweg.h"
#include <unistd.h>

static thalweg_status boxed(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t n = 0;
    (void)data;
    (void)count;
    thalweg_get_int(&arguments[0], &n);
    if (n == -1) for (;;) sleep(1000);
    volatile int64_t turns = 0;
    if (n == -2) for (;;) turns++;
    if (n > 1000 && n <= 1000000) usleep((useconds_t)n);
    if (n > 1000000) while (turns < n) turns++;
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(n)});
    return THALWEG_DONE;
}

static const thalweg_box boxes[] = {{(const uint8_t *)"box boxed ((<n>) -> (<n>))", 26, 1, 0, boxed, NULL, NULL}};
THALWEG_LIBRARY(boxes)
"#;

const NET: &str = "net main { box boxed ((<n>) -> (<n>)); } connect boxed .. [{<n>} -> {<n>}];";

struct Place {
    folder: tempfile::TempDir,
    library: String,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = write(folder.path(), "boxed.c", BOXES);
        let library = folder.path().join("libboxed.so").display().to_string();
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
        let mut compile = Command::new("cc");
        compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]).arg(include);
        assert!(compile.arg(&source).arg("-o").arg(&library).status().expect("cc starts").success());
        Place { folder, library }
    }

    /// A run on the numbers `input`, whose input stays open; `before` is the command that starts it.
    fn start(&self, before: &[&str], more: &[&str], input: &[i64]) -> Run {
        // The folder is made anew, so that spaces of former runs are not found.
        let spaces = self.folder.path().join("spaces");
        let _ = std::fs::remove_dir_all(&spaces);
        std::fs::create_dir(&spaces).expect("a folder");
        let net = write(self.folder.path(), "main.snet", NET);
        let program = env!("CARGO_BIN_EXE_thalweg");
        let words: Vec<&str> = before.iter().copied().chain([program]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["run", &net, "--boxes", &self.library, "--workers", "1"]).args(more);
        command.stderr(Stdio::null());
        let mut child = Killed::start(&mut command, &spaces);
        let lines: String = input.iter().map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
        let mut stdin = child.child.stdin.take().expect("piped");
        // The pipe is smaller than the input, so writing blocks until the network reads, and needs a thread.
        let feeding = std::thread::spawn(move || {
            _ = stdin.write_all(lines.as_bytes());
            stdin
        });
        let space = found(&spaces);
        Run { child, space, feeding: Some(feeding) }
    }
}

struct Run {
    child: Killed,
    space: PathBuf,
    feeding: Option<std::thread::JoinHandle<std::process::ChildStdin>>,
}

impl Run {
    fn signal(&self, name: &str) {
        let pid = self.child.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().expect("there is a kill").success());
    }
}

/// The space of the run that has just been started.
fn found(spaces: &Path) -> PathBuf {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let listed = std::fs::read_dir(spaces).expect("a folder").flatten().map(|entry| entry.path());
        let open = |path: &PathBuf| SpaceReader::open(path).is_ok_and(|space| space.info().is_ok());
        if let Some(path) = listed.into_iter().find(open) {
            return path;
        }
        assert!(Instant::now() < until, "no space within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks repeatedly until the standstill is as wanted.
fn until(space: &Path, is_wanted: impl Fn(&[Standing]) -> bool) -> Vec<Standing> {
    let mut heartbeat = Heartbeat::open(Target::of(space), STABLE).expect("a space");
    until_of(&mut heartbeat, is_wanted)
}

fn until_of(heartbeat: &mut Heartbeat, is_wanted: impl Fn(&[Standing]) -> bool) -> Vec<Standing> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let standing = heartbeat.beat();
        if is_wanted(&standing) {
            return standing;
        }
        assert!(Instant::now() < until, "not within a minute: {standing:#?}");
        std::thread::sleep(heartbeat.pause());
    }
}

fn one(standing: &[Standing], name: &str, still: Still) -> Option<Standing> {
    standing.iter().find(|of| of.name.contains(name) && of.still == still).cloned()
}

/// Numbers that take the box little time, and a last number.
fn few_and(last: i64) -> Vec<i64> {
    (0..2000).map(|n| n % 7).chain([last]).collect()
}

#[test]
fn a_box_that_sleeps_and_one_that_loops_are_distinguished_and_name_their_message() {
    let place = Place::new();
    for mode in ["full", "metrics"] {
        for (number, still) in [(-1, Still::Asleep), (-2, Still::Running)] {
            let run = place.start(&[], &["--monitor", mode], &few_and(number));
            let standing = until(&run.space, |standing| one(standing, "boxed", still).is_some());
            let boxed = one(&standing, "boxed", still).expect("it was there");
            assert!(boxed.is_alarm && boxed.message == Some(2000), "{mode}: {boxed:?}");
            assert!(boxed.usual_ns.is_some_and(|usual_ns| usual_ns < 100e6), "{mode}: {boxed:?}");
            assert_eq!(boxed.sleeps_for.is_some(), still == Still::Asleep, "{mode}: {boxed:?}");
            // The box is the only task with an alarm.
            let alarms: Vec<&Standing> = standing.iter().filter(|of| of.is_alarm).collect();
            assert_eq!(alarms.len(), 1, "{mode}: {alarms:#?}");
        }
    }
}

#[test]
fn waiting_tasks_lead_to_what_they_wait_for() {
    let place = Place::new();
    let run = place.start(&[], &["--monitor", "full"], &few_and(1));
    // All records were read and written, so the source waits for more input.
    let standing = until(&run.space, |standing| {
        ["source", "boxed", "sink"].iter().all(|name| one(standing, name, Still::Empty).is_some())
    });
    assert!(standing.iter().all(|of| !of.is_alarm), "{standing:#?}");
    let boxed = one(&standing, "boxed", Still::Empty).expect("it was there");
    assert_eq!(boxed.waits_for.as_deref(), Some("source"), "{boxed:?}");
    let sink = one(&standing, "sink", Still::Empty).expect("it was there");
    assert_eq!(sink.leads_to.as_deref().or(sink.waits_for.as_deref()), Some("source"), "{sink:?}");
    let source = one(&standing, "source", Still::Empty).expect("it waits, too");
    assert_eq!(source.waits_for, None, "{source:?}");
}

#[test]
fn a_full_network_leads_to_its_sink() {
    let place = Place::new();
    // The output of the run is not read.
    let input: Vec<i64> = (0..200_000).map(|n| n % 7).collect();
    let run = place.start(&[], &["--monitor", "full"], &input);
    let standing = until(&run.space, |standing| {
        one(standing, "boxed", Still::Full).is_some() && one(standing, "sink", Still::Full).is_some()
    });
    assert!(standing.iter().all(|of| !of.is_alarm), "{standing:#?}");
    let boxed = one(&standing, "boxed", Still::Full).expect("it was there");
    assert_eq!(boxed.leads_to.as_deref().or(boxed.waits_for.as_deref()), Some("sink"), "{boxed:?}");
}

#[test]
fn stopped_killed_and_ended_processes_are_distinguished() {
    let place = Place::new();
    let mut run = place.start(&[], &[], &few_and(1));
    let mut heartbeat = Heartbeat::open(Target::of(&run.space), STABLE).expect("a space");
    run.signal("-STOP");
    let stopped = until_of(&mut heartbeat, |standing| standing.iter().any(|of| of.still == Still::Stopped));
    assert!(stopped.len() == 1 && stopped[0].is_alarm && stopped[0].task.is_none(), "{stopped:#?}");
    run.signal("-CONT");
    until_of(&mut heartbeat, |standing| standing.iter().all(|of| of.still != Still::Stopped));
    // The run ends, because its input is closed.
    drop(run.feeding.take().map(|feeding| feeding.join()));
    // Threads of the run, which have no task either, may have stood still before.
    let is_gone = |standing: &[Standing]| {
        standing.iter().any(|of| matches!(of.still, Still::Ended | Still::Killed) && of.task.is_none())
    };
    let ended = until_of(&mut heartbeat, is_gone);
    assert!(ended.len() == 1 && ended[0].still == Still::Ended && !ended[0].is_alarm, "{ended:#?}");
    assert!(heartbeat.is_over());
    drop(run);
    let run = place.start(&[], &[], &few_and(1));
    let mut heartbeat = Heartbeat::open(Target::of(&run.space), STABLE).expect("a space");
    heartbeat.beat();
    drop(run.child);
    let killed = until_of(&mut heartbeat, is_gone);
    assert!(killed.len() == 1 && killed[0].still == Still::Killed && killed[0].is_alarm, "{killed:#?}");
}

#[test]
fn a_deadlock_is_named_while_the_rest_goes_on() {
    while_it_runs(&Net::planted(Cause::Deadlock, 1), |path, start| {
        let mut heartbeat = Heartbeat::open(Target::of(path), STABLE).expect("a space");
        start();
        let standing =
            until_of(&mut heartbeat, |standing| standing.iter().any(|of| of.still == Still::Deadlock));
        let mut names: Vec<&str> =
            standing.iter().filter(|of| of.still == Still::Deadlock).map(|of| of.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["net/ping", "net/pong"]);
    });
}

#[test]
fn idle_circles_are_no_deadlock() {
    let mut net = Net::planted(Cause::Deadlock, 1);
    net.tasks.retain(|task| !task.inputs.is_empty());
    net.tasks.iter_mut().for_each(|task| task.seed = 0);
    while_it_runs(&net, |path, start| {
        let mut heartbeat = Heartbeat::open(Target::of(path), STABLE).expect("a space");
        start();
        let standing = until_of(&mut heartbeat, |standing| {
            ["net/ping", "net/pong"].iter().all(|name| one(standing, name, Still::Empty).is_some())
        });
        assert!(standing.iter().all(|of| !of.is_alarm), "{standing:#?}");
    });
}

/// A process of idle priority on a core that another process always uses.
#[test]
fn a_thread_without_a_processor_is_kept_from_it() {
    let place = Place::new();
    let mut hog = Command::new("taskset");
    hog.args(["-c", "0", "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
    // Each number computes for some 50 ms, and far longer without a processor.
    let input: Vec<i64> = (0..1000).map(|_| 40_000_000).collect();
    let run = place.start(&["taskset", "-c", "0"], &["--monitor", "full"], &input);
    let mut heartbeat = Heartbeat::open(Target::of(&run.space), STABLE).expect("a space");
    let pid = run.child.child.id().to_string();
    until_of(&mut heartbeat, |_| true);
    let hog = Killed { child: hog.spawn().expect("taskset starts") };
    let schedule = |how: &str| {
        assert!(
            Command::new("chrt").args(["-a", how, "-p", "0", &pid]).status().expect("chrt starts").success()
        );
    };
    schedule("-i");
    let standing = until_of(&mut heartbeat, |standing| one(standing, "boxed", Still::Kept).is_some());
    assert!(one(&standing, "boxed", Still::Kept).expect("it was there").is_alarm);
    drop(hog);
    schedule("-o");
    until_of(&mut heartbeat, |standing| one(standing, "boxed", Still::Kept).is_none());
}

/// A long message is no alarm if the box took as long for earlier messages, however much longer that is than
/// other standstills.
#[test]
fn boxes_that_are_slow_by_their_own_record_are_no_alarm() {
    let place = Place::new();
    for mode in ["full", "metrics"] {
        let input: Vec<i64> = (0..14).map(|n| 250_000 + 1000 * (n % 3)).collect();
        let run = place.start(&[], &["--monitor", mode], &input);
        let stable = Duration::from_millis(60);
        let mut heartbeat = Heartbeat::open(Target::of(&run.space), stable).expect("a space");
        let mut looks = 0;
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let standing = heartbeat.beat();
            let reads = SpaceReader::open(&run.space).and_then(|space| space.live_rows());
            let reads = reads.unwrap_or_default().into_iter().filter(|row| row.kind_name() == "exec.worker");
            let on = reads.filter_map(|row| row.cell("message")).max().unwrap_or(0);
            // Usual times are only known after the first messages, so alarms are checked from then on.
            if on >= 3 {
                looks += 1;
                // On a busy machine a thread may have no processor for longer than 60 ms, which is an alarm.
                let is_wrong = |of: &&Standing| of.is_alarm && of.still != Still::Kept;
                let alarms: Vec<&Standing> = standing.iter().filter(is_wrong).collect();
                assert!(alarms.is_empty(), "{mode}, message {on}: {alarms:#?}");
            }
            let is_done = one(&standing, "boxed", Still::Empty).is_some();
            if is_done && on >= 3 {
                break;
            }
            assert!(Instant::now() < until, "it does not come to its end: {standing:#?}");
            std::thread::sleep(heartbeat.pause());
        }
        assert!(looks > 10, "{looks}");
    }
}

#[test]
fn the_command_prints_what_hangs_and_exits_with_a_code_for_it() {
    let place = Place::new();
    let run = place.start(&[], &["--monitor", "full"], &few_and(-1));
    until(&run.space, |standing| one(standing, "boxed", Still::Asleep).is_some());
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("heartbeat").arg(&run.space).args(["--once", "--stable", "500ms"]);
    let output = command.output().expect("thalweg starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("boxed is asleep in its box on message 2000"), "{stdout}");
    let output = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .arg("heartbeat")
        .arg(&run.space)
        .args(["--once", "--stable", "500ms", "--json", "--waiting"])
        .output()
        .expect("thalweg starts");
    let lines = String::from_utf8(output.stdout).expect("text");
    let stills: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|object| format!("{} {}", object["name"].as_str().unwrap(), object["still"].as_str().unwrap()))
        .collect();
    assert!(stills.contains(&"main/boxed asleep".to_owned()), "{stills:?}");
    assert!(stills.contains(&"sink empty".to_owned()), "{stills:?}");
}

/// Changes a run, and checks until one of these standstills is reported, by the first check after it has
/// lasted long enough.
fn check_reported(space: &Path, still: &[Still], is_process: bool, change: impl FnOnce()) {
    let stable = Duration::from_secs(1);
    let mut heartbeat = Heartbeat::open(Target::of(space), stable).expect("a space");
    heartbeat.beat();
    change();
    let (begun, mut before) = (Instant::now(), Instant::now());
    loop {
        let pause = heartbeat.pause();
        assert!(pause <= Duration::from_millis(900), "looks {pause:?} apart");
        std::thread::sleep(pause);
        let now = Instant::now();
        let standing = heartbeat.beat();
        let is_it = |of: &&Standing| still.contains(&of.still) && of.task.is_none() == is_process;
        if let Some(found) = standing.iter().find(is_it) {
            // The report was not due yet at the previous check.
            let since_before = now - before;
            let due = Duration::from_nanos(found.for_ns).saturating_sub(since_before);
            assert!(due < stable + Duration::from_millis(2), "{still:?} was due {due:?} before: {found:?}");
            eprintln!("{still:?}: reported after {:?}", Duration::from_nanos(found.for_ns));
            return;
        }
        before = now;
        assert!(begun.elapsed() < Duration::from_secs(60), "{still:?} is not reported: {standing:#?}");
    }
}

/// Checks are less than a second apart, so a standstill is reported within a second after it is due.
#[test]
fn a_standstill_is_reported_by_the_first_look_after_it_is_due() {
    let place = Place::new();
    // On a machine that is busy with other programs, a task that loops may be kept from the processor.
    let sleeps_and_loops: [(i64, &[Still]); 2] =
        [(-1, &[Still::Asleep]), (-2, &[Still::Running, Still::Kept])];
    for (number, still) in sleeps_and_loops {
        let run = place.start(&[], &["--monitor", "full"], &few_and(number));
        check_reported(&run.space, still, false, || {});
    }
    let mut run = place.start(&[], &["--monitor", "full"], &few_and(1));
    check_reported(&run.space, &[Still::Empty], false, || {});
    check_reported(&run.space, &[Still::Stopped], true, || run.signal("-STOP"));
    run.signal("-CONT");
    let feeding = run.feeding.take();
    check_reported(&run.space, &[Still::Ended], true, || drop(feeding.map(|feeding| feeding.join())));
    drop(run);
    let input: Vec<i64> = (0..200_000).map(|n| n % 7).collect();
    let run = place.start(&[], &["--monitor", "full"], &input);
    check_reported(&run.space, &[Still::Full], false, || {});
    while_it_runs(&Net::planted(Cause::Deadlock, 1), |path, start| {
        check_reported(path, &[Still::Deadlock], false, start);
    });
}

/// A thread without a processor, on a core that another process uses, is reported within the same time.
#[test]
fn a_thread_without_a_processor_is_reported_by_the_first_look_after_it_is_due() {
    let place = Place::new();
    let input: Vec<i64> = (0..1000).map(|_| 40_000_000).collect();
    let run = place.start(&["taskset", "-c", "0"], &["--monitor", "full"], &input);
    // The usual time of messages is recorded before the thread is starved.
    let mut heartbeat = Heartbeat::open(Target::of(&run.space), STABLE).expect("a space");
    until_of(&mut heartbeat, |_| true);
    let mut hog = Command::new("taskset");
    hog.args(["-c", "0", "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
    let mut hogs = None;
    // The task is reported as running until it has lacked the processor for most of the time.
    check_reported(&run.space, &[Still::Kept, Still::Running], false, || {
        hogs = Some(Killed { child: hog.spawn().expect("taskset starts") });
        let pid = run.child.child.id().to_string();
        let done = Command::new("chrt").args(["-a", "-i", "-p", "0", &pid]).status().expect("chrt starts");
        assert!(done.success());
    });
    drop(hogs);
}
