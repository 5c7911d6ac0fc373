//! A live network observed from another process: deadlocks are found at once, and tasks can be slowed to find
//! the dependence of the flow on them.

mod planted_run;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use planted_run::planted_nets::{Cause, Net};
use planted_run::while_it_runs;
use thalweg_monitor::{Follower, Measured, Report, State, VerdictKind};
use thalweg_space::reader::SpaceReader;

/// Makes reports until `is_wanted` accepts one.
fn await_report(follower: &mut Follower<'_>, is_wanted: impl Fn(&Report) -> bool) -> Report {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        follower.poll();
        let report = follower.report().unwrap();
        if is_wanted(&report) {
            return report;
        }
        assert!(Instant::now() < until, "not within a minute; the last verdict: {:?}", report.verdict);
        std::thread::yield_now();
    }
}

/// On a busy machine a reader may lose the two events that report the deadlock; then the test tries another
/// run.
#[test]
fn a_deadlock_is_found_while_the_network_runs_and_names_its_streams() {
    assert!((0..5).any(|_| deadlock_is_found()), "events were lost in each of five runs");
}

/// Returns whether a deadlock was found; false if events were lost before.
fn deadlock_is_found() -> bool {
    let mut found = false;
    while_it_runs(&Net::planted(Cause::Deadlock, 1), |path, start| {
        let follower = &mut Follower::open(path, 32).unwrap();
        start();
        let report =
            await_report(follower, |report| report.waiting.deadlock.is_some() || report.window.gaps > 0);
        found = report.waiting.deadlock.is_some();
        if !found {
            return;
        }
        let messages = |report: &Report| report.throughput.messages_out;
        let before = messages(&report);
        assert_eq!(report.window.state, State::Running);
        assert_eq!(report.verdict.finding.kind, VerdictKind::Deadlock);
        let waits = report.waiting.deadlock.expect("there is one").waits;
        let circle: Vec<(&str, &str)> =
            waits.iter().map(|wait| (wait.name.as_str(), wait.peer_name.as_deref().unwrap_or(""))).collect();
        assert_eq!(circle, [("net/ping", "net/pong"), ("net/pong", "net/ping")]);
        for wait in &waits {
            let stream = format!("stream {}", wait.stream.expect("a certain one"));
            assert!(report.verdict.words.text.contains(&stream), "{}", report.verdict.words.text);
        }
        // The tasks outside of the deadlock go on.
        await_report(follower, |report| messages(report) > before);
    });
    found
}

#[test]
fn an_idle_network_is_not_called_a_deadlock() {
    let mut net = Net::planted(Cause::Deadlock, 1);
    // Without a source, the two tasks wait for each other's messages for ever.
    net.tasks.retain(|task| !task.inputs.is_empty());
    net.tasks.iter_mut().for_each(|task| task.seed = 0);
    while_it_runs(&net, |path, start| {
        let follower = &mut Follower::open(path, 32).unwrap();
        start();
        let waits_long = |report: &Report| {
            let ring =
                |name: &str| report.waiting.now.iter().any(|wait| wait.name == name && wait.ns > 100e6);
            ring("net/ping") && ring("net/pong")
        };
        let report = await_report(follower, waits_long);
        assert_eq!(report.waiting.deadlock, None);
        assert_ne!(report.verdict.finding.kind, VerdictKind::Deadlock);
    });
}

fn perturb(path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("diagnose").arg(path).args(["--perturb", "--json", "--window", "1s"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The task that is slowed now, 0 if no task is slowed.
fn slowed(path: &Path) -> u64 {
    let settings = SpaceReader::open(path).unwrap().settings().unwrap();
    settings.iter().find(|setting| setting.name == "exec.delay_task").expect("there is such a setting").value
}

/// The sensitivity of the flow to each task, with the task's name.
fn sensitivities(path: &Path) -> Vec<(String, f64)> {
    measured(path, "perturb.sensitivity")
}

/// The rows of a table that a perturbation measured.
fn measured(path: &Path, table: &str) -> Vec<(String, f64)> {
    let output = perturb(path).output().expect("thalweg starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Report = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(report.overhead.share > Some(0.0) && report.overhead.bytes > Some(0), "{:?}", report.overhead);
    let found = report.measurements.into_iter().find(|found| found.name == table);
    match found.expect("it was measured").value {
        Measured::Table(rows) => rows,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tasks_are_slowed_and_left_as_they_were() {
    while_it_runs(&Net::planted(Cause::SlowBox, 1), |path, start| {
        start();
        let found = sensitivities(path);
        assert!(!found.is_empty() && found.iter().all(|(_, value)| value.is_finite()), "{found:?}");
        // The source and the sink are tried, too, though other tasks are busier.
        for end in ["source", "sink"] {
            assert!(found.iter().any(|(name, _)| name.ends_with(end)), "{end} in {found:?}");
        }
        assert_eq!(slowed(path), 0);
    });
}

/// The number of messages that a task of box 1 read in the report's window.
fn reads(report: &Report) -> u64 {
    let of_box = report.components.iter().find(|component| component.path == "net/box1");
    of_box.and_then(|component| component.work.messages_in).unwrap_or(0)
}

#[test]
fn a_delay_lasts_until_its_moment_and_no_longer() {
    const DELAY_NS: u64 = 5_000_000;
    while_it_runs(&Net::planted(Cause::SlowBox, 1), |path, start| {
        start();
        let reader = SpaceReader::open(path).unwrap();
        let mut follower = Follower::open(path, 32).unwrap();
        let report = await_report(&mut follower, |report| reads(report) > 100);
        let task = report.tasks.iter().find(|task| task.name == "net/box1").expect("it is busy").id.number;
        let clock = reader.info().unwrap().clock;
        let set = |name: &str, value: u64| reader.set(name, value).unwrap();
        // The largest number of messages that a task reads in the report's window if each is delayed by
        // `DELAY_NS`, plus one dispatch that had begun before.
        let at_most = |report: &Report| (report.window.duration_ns / DELAY_NS as f64) as u64 + 65;
        set("exec.delay_ns", DELAY_NS);
        set("exec.delay_until", u64::MAX);
        set("exec.delay_task", task);
        follower.poll();
        follower.restart();
        let slowed = await_report(&mut follower, |report| report.window.duration_ns > 300e6);
        assert!(reads(&slowed) <= at_most(&slowed), "{} in {}", reads(&slowed), slowed.window.duration_ns);
        // The delay ends at the set time, although no process sets it back.
        set("exec.delay_until", clock.now());
        follower.restart();
        await_report(&mut follower, |report| reads(report) > 2 * at_most(report));
    });
}

#[test]
fn an_interrupted_perturbation_leaves_no_trace() {
    while_it_runs(&Net::planted(Cause::SlowBox, 1), |path, start| {
        start();
        let mut child = perturb(path).spawn().expect("thalweg starts");
        let until = Instant::now() + Duration::from_secs(60);
        while slowed(path) == 0 {
            assert_eq!(child.try_wait().expect("it is ours"), None, "it ended by itself");
            assert!(Instant::now() < until, "nothing was slowed within a minute");
            std::thread::yield_now();
        }
        let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(interrupt.expect("there is a kill").success());
        assert_eq!(child.wait().expect("it ends").code(), Some(130));
        assert_eq!(slowed(path), 0);
    });
}

#[test]
fn a_run_that_ended_cannot_be_slowed() {
    let place = planted_run::Place::new();
    planted_run::space_in(&place).finish();
    let output = perturb(&place.0).output().expect("thalweg starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("only a live run can be slowed"), "{stderr}");
}

#[test]
#[ignore = "real time: it wants two processors for itself"]
fn the_flow_depends_on_the_slow_box_alone() {
    for seed in 0..3 {
        let net = Net::planted(Cause::SlowBox, seed);
        while_it_runs(&net, |path, start| {
            start();
            for (name, sensitivity) in sensitivities(path) {
                let is_slow = net.is_at_fault(&name);
                assert_eq!(sensitivity > 0.6, is_slow, "{seed}: {name} {sensitivity}");
            }
        });
    }
}

/// Two equal boxes limit the flow. If they share a worker, the effects of their delays add up; on two workers the
/// second delay adds nothing.
#[test]
#[ignore = "real time: it wants two processors for itself"]
fn the_delays_of_two_boxes_add_up_on_one_worker_and_not_on_two() {
    for places in [[0, 0], [0, 1]] {
        let mut net = Net::planted(Cause::SlowBox, 0);
        for task in net.tasks.iter_mut().filter(|task| task.name.starts_with("box")) {
            task.service = 200;
        }
        for (task, worker) in net.tasks[1..].iter_mut().zip(places) {
            (task.service, task.worker) = (20_000, Some(worker));
        }
        while_it_runs(&net, |path, start| {
            start();
            let growth = measured(path, "perturb.growth");
            let [(_, first), (_, second), (_, both)] = &growth[..] else { panic!("{growth:?}") };
            let added = (both - first.max(*second)) / first.min(*second);
            match places[0] == places[1] {
                true => assert!(added > 0.7, "{growth:?}"),
                false => assert!(added < 0.3, "{growth:?}"),
            }
        });
    }
}
