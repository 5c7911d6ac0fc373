//! A run from its plan to its end, observed and changed from outside: all in one process.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use thalweg_exec::Placement;
use thalweg_host::io::{Endpoint, Side};
use thalweg_host::{ErrorKind, InitialSetting, Interrupt, LiveRun, Notices, Plan, Run, RunCommand, chain};

const PATIENCE: Duration = Duration::from_secs(60);

fn endpoint(text: &str, side: Side) -> Endpoint {
    Endpoint::parse(OsStr::new(text), side).expect("an endpoint")
}

/// The plan of a run that reads numbers from a socket, adds one to each, and writes them to a file.
fn plan(folder: &Path) -> Plan {
    let net = folder.join("first.snet");
    std::fs::write(&net, "net first connect [{<n>} -> {<n = n + 1>}];").unwrap();
    let place = |name: &str| folder.join(name).display().to_string();
    Plan {
        inputs: vec![endpoint(&format!("unix-listen:{}", place("in")), Side::Input)],
        outputs: vec![endpoint(&place("out.jsonl"), Side::Output)],
        control: true,
        space: Some(folder.join("space")),
        ..Plan::of(net)
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not in time");
        std::thread::yield_now();
    }
}

#[test]
fn a_run_is_found_measured_set_and_commanded() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, printed) = channel();
    let notices = Notices::to(move |notice| drop(sender.send(notice.to_string())));
    let run = Run::start(&plan(folder.path()), &Interrupt::default(), &notices).unwrap();
    assert!(printed.recv().unwrap().starts_with("listening at unix-listen:"));
    let (space, tally) = (run.space().to_owned(), run.tally().clone());
    let finished = std::thread::spawn(move || run.finish(|| ()));

    let live = LiveRun::find(space.to_str()).unwrap();
    let mut measuring = live.measure(10).unwrap();
    let mut input = UnixStream::connect(folder.path().join("in")).unwrap();
    let records = |count| "{\"<n>\": 1}\n".repeat(count);
    input.write_all(records(100).as_bytes()).unwrap();
    until("a hundred records", || tally.records_out() == 100);
    let seen = measuring.window(Duration::from_millis(1), || true).unwrap();
    assert!(!seen.ended && measuring.is_running());
    assert_eq!((seen.report.space.name.as_str(), live.is_alive()), ("first", true));
    let report = live.measure(10).unwrap().whole().unwrap();
    assert!(report.components.iter().any(|component| component.work.messages_in == Some(100)));

    let change = live.set("exec.quantum", "32").unwrap();
    assert_eq!((change.value, change.before.unwrap().value), (32, 64));
    assert!(live.settings().unwrap().iter().any(|s| s.name == "exec.quantum" && s.value == 32));
    let error = live.set("exec.quantun", "32").unwrap_err();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("did you mean"), "{error}");
    let error = live.set("exec.quantum", "none").unwrap_err();
    assert!(error.to_string().contains("is not a number"), "{error}");

    let command = |command: RunCommand| live.command(&command, PATIENCE);
    let paused = command(RunCommand::Pause).unwrap();
    assert_eq!(paused.result, "paused: 100 records in, 100 out");
    assert_eq!(paused.undo, Some(RunCommand::Resume.to_command()));
    assert!(live.is_paused());
    command(RunCommand::Resume).unwrap();
    assert!(!live.is_paused());
    let error = command(RunCommand::Move { task: 1, to: Placement::on_node(3), stays: true }).unwrap_err();
    assert!(error.kind() == ErrorKind::Run && chain(&error).contains("there is no node 3"), "{error}");
    let second = folder.path().join("second.snet");
    std::fs::write(&second, "net second connect [{<n>} -> {<n = n + 2>}];").unwrap();
    let loaded = command(RunCommand::Load { network: second, libraries: Vec::new() }).unwrap();
    let first = RunCommand::Load { network: folder.path().join("first.snet"), libraries: Vec::new() };
    assert_eq!(loaded.undo, Some(first.to_command()));
    // The run now has the name of the new network, and its directory is unchanged.
    let name_now = |live: &LiveRun| live.measure(10).unwrap().whole().unwrap().space.name;
    assert_eq!((name_now(&live).as_str(), live.path()), ("second", &*space));
    assert_eq!(name_now(&LiveRun::open(&space).unwrap()), "second");
    let bad = RunCommand::Load { network: "/no/such.snet".into(), libraries: Vec::new() };
    assert!(command(bad).unwrap_err().to_string().contains("the network that runs goes on"));
    input.write_all(records(1).as_bytes()).unwrap();
    drop(input);

    let ended = finished.join().unwrap().unwrap();
    assert_eq!((ended.failed_tasks, ended.kept), (0, Some(space)));
    assert_eq!(tally.to_string(), "101 records in, 101 out");
    let written = std::fs::read_to_string(folder.path().join("out.jsonl")).unwrap();
    assert_eq!(written, "{\"<n>\": 2}\n".repeat(100) + "{\"<n>\": 3}\n");
    let last = measuring.window(PATIENCE, || true).unwrap();
    assert!(last.ended && !measuring.is_running());
}

#[test]
fn a_plan_that_cannot_be_followed_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let good = plan(folder.path());
    let refused = |plan: Plan| Run::start(&plan, &Interrupt::default(), &Notices::none()).unwrap_err();
    let error = refused(Plan { network: folder.path().join("none.snet"), ..good.clone() });
    assert_eq!((error.kind(), error.diagnostics().len()), (ErrorKind::Usage, 1));
    let missing = endpoint("/no/such/file", Side::Input);
    let error = refused(Plan { inputs: vec![missing], ..good.clone() });
    assert_eq!(error.code(), Some("E0901"));
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound));
    assert_eq!(chain(&error), format!("cannot read /no/such/file: {}", source.unwrap()));
    let error = refused(Plan { libraries: vec!["/no/such/lib.so".into()], ..good.clone() });
    assert_eq!(error.code(), Some("E0904"));
    let settings = vec![InitialSetting::new("exec.quantum", "0")];
    let error = refused(Plan { settings, ..good.clone() });
    assert!(error.to_string().contains("is out of range"), "{error}");
    // The next run can have the directory of the refused one.
    let interrupt = Interrupt::default();
    let run = Run::start(&good, &interrupt, &Notices::none()).unwrap();
    interrupt.stop();
    assert_eq!(run.finish(|| ()).unwrap().kept, good.space);
}

#[test]
fn an_interrupted_window_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::default();
    let run = Run::start(&plan(folder.path()), &interrupt, &Notices::none()).unwrap();
    let live = LiveRun::open(run.space()).unwrap();
    let mut looks = 0;
    let mut goes_on = || {
        looks += 1;
        looks < 3
    };
    let seen = live.measure(1).unwrap().window(PATIENCE, &mut goes_on).unwrap();
    assert!(!seen.ended && seen.report.window.duration_ns < PATIENCE.as_nanos() as f64);
    interrupt.stop();
    run.finish(|| ()).unwrap();
}
