//! `thalweg tune --library` and `thalweg pack`: a library in running processes is tuned, and restored when
//! the tuner is killed.

#[path = "../../tune/tests/machine/mod.rs"]
mod machine;

use machine::{Machine, READABLE, skipped};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn thalweg(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg")).args(arguments).output().expect("it starts")
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Whether the guard that this tuner has started is running.
fn is_guarded_by(tuner: u32) -> bool {
    let list = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    list.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).any(|line| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.contains(&&b"attach-guard"[..]) && words.contains(&format!("--of={tuner}").as_bytes())
    })
}

/// Starts a tuner of PVM in these processes; returns the tuner and the lines that it prints.
fn tuner(
    processes: &[String],
    spaces: &tempfile::TempDir,
    more: &[&str],
) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut tuner = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["tune", &processes.join(","), "--library", "pvm"])
        .args(more)
        // A killed tuner leaves files behind, so its spaces are in the folder that the test removes.
        .env("THALWEG_SPACES", spaces.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let output = BufReader::new(tuner.stdout.take().expect("a pipe"));
    (tuner, output.lines().map_while(Result::ok))
}

/// Fails unless PVM's fragments have their usual size in this process again.
fn expect_usual_fragments(process: &str) {
    let fragment = ["attach", process, "--call", "pvm_getopt(10)", "--at", "pvm_send", "--within", "20s"];
    let last = printed(&thalweg(&fragment));
    assert!(last.contains("returned 4080"), "{last}");
}

/// Waits until the guard of a killed tuner has undone its changes, and has ended.
fn wait_for_guard(tuner: u32) {
    let begin = Instant::now();
    while is_guarded_by(tuner) {
        assert!(begin.elapsed() < Duration::from_secs(60), "the guard is still running");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_killed_tuner_leaves_nothing_changed() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let spaces = tempfile::tempdir().expect("a folder");
    let mut run = machine.run(&["90", "0", "0", "0", "0", "100000"]);
    let processes: Vec<String> = run.processes().iter().map(i32::to_string).collect();
    let (mut tuner, mut lines) = tuner(&processes, &spaces, &[]);
    let kept = lines.find(|line| line.contains("kept") && line.contains("pvm.fragment"));
    assert!(kept.is_some() && run.is_attached());
    tuner.kill().expect("it is killed");
    tuner.wait().expect("it is gone");
    wait_for_guard(tuner.id());
    expect_usual_fragments(&processes[0]);
    assert!(!run.is_attached() && run.ended_well());
}

#[test]
fn a_tuner_that_stands_still_loses_its_lease() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let spaces = tempfile::tempdir().expect("a folder");
    let mut run = machine.run(&["90", "0", "0", "0", "0", "100000"]);
    let processes: Vec<String> = run.processes().iter().map(i32::to_string).collect();
    let (mut tuner, mut lines) = tuner(&processes, &spaces, &["--lease", "5s"]);
    let mut kept = || lines.any(|line| line.contains("kept") && line.contains("pvm.fragment"));
    assert!(kept() && run.is_attached());
    // A tuner that works renews its lease, which would have run out meanwhile.
    std::thread::sleep(Duration::from_secs(8));
    assert!(tuner.try_wait().expect("its state").is_none() && is_guarded_by(tuner.id()));
    signal("-STOP", tuner.id());
    let ended = tuner.wait().expect("it is gone");
    assert!(ended.to_string().contains("SIGKILL"), "{ended}");
    wait_for_guard(tuner.id());
    expect_usual_fragments(&processes[0]);
    assert!(!run.is_attached() && run.ended_well());
}

/// Sends a process a signal.
fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "{name}");
}

#[test]
fn a_foreign_host_waits_for_the_guards_of_a_killed_tuner() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let spaces = tempfile::tempdir().expect("a folder");
    let mut run = machine.joining(1, &["wait"]);
    let processes: Vec<String> = run.processes().iter().map(i32::to_string).collect();
    let (mut tuner, mut lines) = tuner(&processes, &spaces, &["--forbid", "pvm.route"]);
    assert!(lines.any(|line| line.contains("kept") && line.contains("pvm.encoding")));
    // A tuner that is cut off answers nobody, so the host has to wait although its daemon runs.
    signal("-STOP", tuner.id());
    let (sender, read) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        run.stop();
        while let line = run.line()
            && !line.is_empty()
            && sender.send(line).is_ok()
        {}
        run
    });
    let begin = Instant::now();
    while !machine.has_other_host() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no host is started");
        std::thread::sleep(Duration::from_millis(20));
        if begin.elapsed().as_secs() % 5 == 4 {
            // The tuner may have been stopped while it held the tasks.
            signal("-CONT", tuner.id());
            signal("-STOP", tuner.id());
        }
    }
    assert_eq!(read.recv_timeout(Duration::from_secs(60)).as_deref(), Ok("1 0 0"));
    assert!(read.recv_timeout(Duration::from_secs(2)).is_err(), "the host was admitted");
    tuner.kill().expect("it is killed");
    tuner.wait().expect("it is gone");
    let line = read.recv_timeout(Duration::from_secs(60)).expect("the host is admitted");
    assert_eq!(line, format!("1 {READABLE}"));
    let run = reader.join().expect("a reader");
    // A guard answers for the host as soon as messages are readable; it removes the rest afterwards.
    wait_for_guard(tuner.id());
    assert!(!run.is_attached());
}

/// The number of the decision that a line of the tuner reports: `0.8 s  #2   kept …`.
fn number(line: &str) -> &str {
    line.split('#').nth(1).and_then(|rest| rest.split(' ').next()).expect("a number")
}

#[test]
fn what_was_kept_is_undone_and_pinned_when_the_user_asks() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = std::path::Path::new(machine::PROGRAMS).join("blocks.c");
    let program = folder.path().join("blocks");
    let compiled = Command::new("cc").arg("-O2").arg(source).arg("-o").arg(&program).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skipped("no C compiler");
    }
    // With a usual pack it depends on the machine's load whether a change is kept; a pack that trusts its
    // action keeps the change unless it does harm.
    let pack = include_str!("../../tune/packs/malloc.toml")
        .replace("gain = \"no_faults\"", "gain = \"no_faults\"\nkeep = \"unless worse\"");
    let file = folder.path().join("malloc.toml");
    std::fs::write(&file, pack).expect("a pack");
    let mut run = machine::Run::of(Command::new(program).args(["120", "1000000"]));
    let mut tuner = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["tune", &run.processes()[0].to_string(), "--library", file.to_str().expect("a path")])
        .env("THALWEG_SPACES", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(tuner.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let asked = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.env("THALWEG_SPACES", folder.path()).arg("tune").args(arguments).output().expect("it starts")
    };
    let kept = lines.find(|line| line.contains("kept") && line.contains("malloc.trim_threshold"));
    let kept = kept.expect("the tuner keeps the threshold");
    let undone = asked(&["undo", number(&kept)]);
    assert!(
        undone.status.success() && printed(&undone).contains("malloc.trim_threshold"),
        "{}",
        printed(&undone)
    );
    assert!(
        lines.next().is_some_and(|line| line.contains("undone") && line.contains("malloc.trim_threshold"))
    );
    let again = asked(&["undo", number(&kept)]);
    assert!(!again.status.success() && printed(&again).contains("nothing in force"), "{}", printed(&again));
    let pinned = asked(&["pin", "malloc.trim_threshold"]);
    assert!(pinned.status.success(), "{}", printed(&pinned));
    let unknown = asked(&["pin", "malloc.trim"]);
    assert!(
        !unknown.status.success() && printed(&unknown).contains("malloc.trim_threshold"),
        "{}",
        printed(&unknown)
    );
    let log = printed(&asked(&["log"]));
    assert!(log.contains("undone") && log.contains("pinned"), "{log}");
    let stopped = Command::new("kill").args(["-INT", &tuner.id().to_string()]).status();
    assert!(stopped.is_ok_and(|status| status.success()) && tuner.wait().expect("it ends").success());
    assert!(!run.is_attached() && run.ended_well());
    let mut list = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let left = printed(&list.arg("ls").env("THALWEG_SPACES", folder.path()).output().expect("it starts"));
    assert!(!left.contains("tune-malloc"), "the space of the log is removed: {left}");
}

#[test]
fn coefficients_are_fitted_to_a_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("seen.jsonl").to_str().expect("a path").to_owned();
    let tried = |windows: &[String]| {
        std::fs::write(&file, windows.concat()).expect("a file");
        printed(&thalweg(&["pack", "try", "pvm", &file]))
    };
    // 20 us for each fragment and 2 ns for each byte of the messages, each of one array of ints.
    let window = |number: usize| {
        let ints: f64 = [1_000.0, 25_000.0, 250_000.0][number % 3];
        let fragment = [4080.0, 65_536.0][number % 2];
        let took = 20e3 * (4.0 * ints / fragment).ceil() + 2.0 * 4.0 * ints;
        let calls = r#""initsend.calls":10,"sends.calls":10,"ints.calls":10"#;
        let sizes = format!(r#""ints.items.sum":{},"ints.items.p99":{ints}"#, 10.0 * ints);
        let ways = format!(r#""pvm.route":2,"pvm.encoding":0,"pvm.fragment":{fragment}"#);
        let values = format!(r#"{calls},{sizes},{ways},"sends.took.mean":{took}"#);
        format!("{{\"process\":7,\"at_s\":{number},\"values\":{{{values}}}}}\n")
    };
    let windows: Vec<String> = (0..30).map(window).collect();
    let all = tried(&windows);
    let found = "fitted    send.per_fragment 20.0000 us, send.per_byte 2.0000 ns/B";
    assert!(all.lines().last().is_some_and(|line| line.contains("end") && line.contains(found)), "{all}");
    // 20 us / (2 % of 2 ns) = 500 kB are efficient.
    assert!(
        all.contains("efficient 500000.0000") && all.contains("would set pvm.fragment to 500000"),
        "{all}"
    );
    let few = tried(&windows[..4]);
    assert!(few.contains("nothing is fitted") && !few.contains("fitted    send"), "{few}");
}

/// A program of MPI under its launcher, which ends with this value.
struct Ranks {
    launcher: Child,
    program: std::path::PathBuf,
    /// Its end stays open, because ranks that cannot write end, too.
    _lines: BufReader<std::process::ChildStdout>,
}

impl Ranks {
    /// Starts four ranks, and waits until two of them have played.
    fn start(program: &std::path::Path, more: &[&str]) -> Ranks {
        let mut command = Command::new("mpirun.mpich");
        command.args(more).args(["-n", "4"]).arg(program).args(["120", "1000"]);
        let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut lines = BufReader::new(launcher.stdout.take().expect("a pipe"));
        lines.read_line(&mut String::new()).expect("a line");
        Ranks { launcher, program: program.to_owned(), _lines: lines }
    }

    /// The processes of the ranks that live, in no order.
    fn processes(&self) -> Vec<u32> {
        let list = std::fs::read_dir("/proc").expect("a list of processes").flatten();
        let all = list.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_rank =
            |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == self.program);
        all.filter(is_rank).collect()
    }

    /// The process of this rank.
    fn rank(&self, number: u32) -> u32 {
        let own = format!("PMI_RANK={number}");
        let is_it = |pid: &u32| {
            let known = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            known.split(|byte| *byte == 0).any(|of| of == own.as_bytes())
        };
        self.processes().into_iter().find(is_it).expect("a rank")
    }

    /// How the launcher ends, within a minute.
    fn status(&mut self) -> std::process::ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.launcher.try_wait().expect("its state") {
                return status;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "the launcher goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for process in self.processes() {
            let _ = Command::new("kill").args(["-9", &process.to_string()]).status();
        }
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

/// Starts a tuner of MPICH below this launcher, and waits until it has tried something. The thread has the
/// tuner's further lines.
fn mpich_tuner(launcher: u32, spaces: &tempfile::TempDir) -> (Child, std::thread::JoinHandle<Vec<String>>) {
    let mut tuner = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["tune", &launcher.to_string(), "--library", "mpich"])
        .env("THALWEG_SPACES", spaces.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(tuner.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("mpich.polls_before_yield")), "nothing is tried");
    (tuner, std::thread::spawn(move || lines.collect()))
}

/// Waits until the tuner has ended by itself.
fn ends(tuner: &mut Child) {
    let begin = Instant::now();
    while tuner.try_wait().expect("its state").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the tuner goes on without its processes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_rank_of_mpi_ends_its_program_and_the_tuner() {
    let (folder, spaces) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (source, program) =
        (std::path::Path::new(machine::PROGRAMS).join("ranks.c"), folder.path().join("ranks"));
    let compiled = Command::new("mpicc.mpich").arg("-O2").arg(source).arg("-o").arg(&program).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skipped("no MPICH");
    }
    // The launcher ends the other ranks when one was killed, and fails; with the option as well, because the
    // partner of the killed rank fails. The status is 9 or 255, as the launcher or the partner was first to
    // notice.
    for more in [&[][..], &["-disable-auto-cleanup"]] {
        let mut untouched = Ranks::start(&program, more);
        signal("-KILL", untouched.rank(3));
        let is_usual = |status: std::process::ExitStatus| matches!(status.code(), Some(9 | 255));
        let status = untouched.status();
        assert!(is_usual(status) && untouched.processes().is_empty(), "{status}");
        let mut tuned = Ranks::start(&program, more);
        let (mut tuner, said) = mpich_tuner(tuned.launcher.id(), &spaces);
        signal("-KILL", tuned.rank(3));
        let status = tuned.status();
        assert!(is_usual(status), "{status}");
        ends(&mut tuner);
        wait_for_guard(tuner.id());
        assert!(tuned.processes().is_empty(), "{:?}", said.join());
    }
}

#[test]
fn packs_are_checked_and_tried_without_a_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    for name in ["pvm", "mpich", "malloc"] {
        let checked = thalweg(&["pack", "check", name]);
        assert!(
            checked.status.success() && printed(&checked).contains("it is right"),
            "{}",
            printed(&checked)
        );
    }
    let text = include_str!("../../tune/packs/pvm.toml");
    std::fs::write(file("bad.toml"), text.replace("pvm_setopt(1, $)", "pvm_setopt(1, what)"))
        .expect("a file");
    let checked = thalweg(&["pack", "check", &file("bad.toml")]);
    assert!(
        !checked.status.success() && printed(&checked).contains("`what` is no argument"),
        "{}",
        printed(&checked)
    );
    assert!(!printed(&checked).contains("error: error"), "{}", printed(&checked));
    assert!(printed(&thalweg(&["pack", "check", "pvn"])).contains("did you mean `pvm`?"));
    let window = r#"{"process":7,"at_s":0.5,"values":{"malloc.calls":1000,"malloc.rate":9000,"malloc.size.p99":1e6,"malloc.size.sum":1e9,"window.lasted":1,"malloc.trim_threshold":131072,"process.memory":1e7}}"#;
    std::fs::write(file("seen.jsonl"), window).expect("a file");
    let tried = printed(&thalweg(&["pack", "try", "malloc", &file("seen.jsonl")]));
    assert!(tried.contains("would set malloc.trim_threshold to 256000000"), "{tried}");
    std::fs::write(file("seen.jsonl"), "nonsense\n").expect("a file");
    assert!(printed(&thalweg(&["pack", "try", "malloc", &file("seen.jsonl")])).contains("seen.jsonl:1: "));
}
