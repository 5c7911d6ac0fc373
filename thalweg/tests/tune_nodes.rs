//! `thalweg tune --library PACK --nodes a,b`: processes of several nodes are tuned by one tuner, and restored when a
//! part of it is lost.

mod cluster;
#[path = "../../tune/tests/machine/mod.rs"]
mod machine;
mod program;

use cluster::{Cluster, out, stderr};
use machine::{Machine, OTHER, READABLE, Run, skipped};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The size of PVM's fragments in a task that nobody has changed.
const USUAL: &str = "returned 4080";

/// Two tasks of PVM that play ping-pong, one on each of the nodes `a` and `b`, and the tuner of both.
struct Tuned {
    tuner: Child,
    lines: Box<dyn Iterator<Item = String>>,
    run: Run,
    cluster: Cluster,
    _machine: Machine,
}

impl Tuned {
    /// Starts all, and waits until the tuner has kept larger fragments; `None` if PVM is not installed. Returns the
    /// number of that decision, too.
    fn start(more: &[&str]) -> Option<(Tuned, String)> {
        let Some(machine) = Machine::start() else {
            skipped("no PVM, or no C compiler");
            return None;
        };
        let run = machine.run(&["120", "0", "0", "0", "0", "100000"]);
        let cluster = Cluster::of(&["a", "b"]);
        let processes = run.processes();
        let mut tuner = cluster
            .command()
            .args(["tune", &format!("a:{},b:{}", processes[0], processes[1]), "--library", "pvm"])
            .args(["--nodes", "a,b", "--forbid", "pvm.route"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut all = BufReader::new(tuner.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let kept = all.find(|line| line.contains("kept") && line.contains("pvm.fragment"));
        let kept = kept.expect("the tuner keeps larger fragments");
        assert!(kept.contains("in 2 processes") || kept.contains("it follows"), "{kept}");
        let number = kept.split('#').nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
        let number = number.to_owned();
        Some((Tuned { tuner, lines: Box::new(all), run, cluster, _machine: machine }, number))
    }

    /// The half of the tuner on the node with this index.
    fn half(&self, node: usize) -> u32 {
        half(&self.cluster, node).expect("a half")
    }

    /// Ends the tuner as Ctrl-C does; returns what it has written to its standard error.
    fn interrupt(&mut self) -> String {
        interrupted(&mut self.tuner, &mut self.lines)
    }

    /// What PVM says of the size of fragments in a task.
    fn fragment(&self, task: usize) -> String {
        let process = self.run.processes()[task].to_string();
        let asked = ["attach", &process, "--call", "pvm_getopt(10)", "--at", "pvm_send", "--within", "20s"];
        printed(&self.cluster.command().args(asked).output().expect("it starts"))
    }

    fn expect_usual_fragments(&self) {
        for task in [0, 1] {
            let fragment = self.fragment(task);
            assert!(fragment.contains(USUAL), "task {task}: {fragment}");
        }
    }

    fn asked(&self, arguments: &[&str]) -> Output {
        self.cluster.command().arg("tune").args(arguments).output().expect("it starts")
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        let _ = self.tuner.kill();
        let _ = self.tuner.wait();
    }
}

/// The half of a tuner on the node with this index.
fn half(cluster: &Cluster, node: usize) -> Option<u32> {
    let of = cluster.nodes[node].1.id();
    let is_it = |pid: &u32| {
        let known = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        known.split(|byte| *byte == 0).any(|word| word == b"tune-half") && parent == Some(of)
    };
    processes().find(is_it)
}

fn processes() -> impl Iterator<Item = u32> {
    let list = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    list.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn printed(output: &Output) -> String {
    format!("{}{}", out(output), stderr(output))
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "{name}");
}

/// Ends a tuner as Ctrl-C does, and checks that it ends well; returns what it has written to its standard error.
fn interrupted(tuner: &mut Child, lines: &mut dyn Iterator<Item = String>) -> String {
    signal("-INT", tuner.id());
    lines.for_each(drop);
    let errors = std::io::read_to_string(tuner.stderr.take().expect("a pipe")).expect("text");
    assert!(tuner.wait().expect("it ends").success(), "{errors}");
    errors
}

fn after(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// Waits until the guard of a half that was killed has undone its changes, and has ended.
fn wait_for_guard(half: u32, until: Instant) {
    let is_there = || {
        processes().any(|pid| {
            let known = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = known.split(|byte| *byte == 0).collect();
            words.contains(&&b"attach-guard"[..]) && words.contains(&format!("--of={half}").as_bytes())
        })
    };
    while is_there() {
        assert!(Instant::now() < until, "the guard is still running");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_change_is_kept_on_both_nodes() {
    let Some((mut tuned, _)) = Tuned::start(&["--keep"]) else { return };
    let log = printed(&tuned.asked(&["log"]));
    assert!(log.contains("pvm.fragment"), "{log}");
    let errors = tuned.interrupt();
    let processes = tuned.run.processes();
    for name in [format!("a:{}", processes[0]), format!("b:{}", processes[1])] {
        assert!(errors.contains(&format!("attached to process {name}")), "{errors}");
    }
    for task in [0, 1] {
        let fragment = tuned.fragment(task);
        assert!(fragment.contains("returned ") && !fragment.contains(USUAL), "task {task}: {fragment}");
    }
    assert!(!tuned.run.is_attached() && tuned.run.ended_well());
}

#[test]
fn what_was_kept_is_undone_on_both_nodes() {
    // With `--keep`, only what is undone is restored.
    let Some((mut tuned, number)) = Tuned::start(&["--keep"]) else { return };
    let undone = tuned.asked(&["undo", &number]);
    assert!(undone.status.success() && printed(&undone).contains("pvm.fragment"), "{}", printed(&undone));
    assert!(tuned.lines.any(|line| line.contains("undone") && line.contains("pvm.fragment")));
    let why = printed(&tuned.asked(&["why", &number]));
    assert!(why.contains("pvm.fragment"), "{why}");
    tuned.interrupt();
    tuned.expect_usual_fragments();
    assert!(!tuned.run.is_attached() && tuned.run.ended_well());
}

#[test]
fn a_tuner_goes_on_without_a_half_that_was_killed() {
    let Some((mut tuned, _)) = Tuned::start(&[]) else { return };
    let half = tuned.half(1);
    signal("-KILL", half);
    wait_for_guard(half, after(60));
    let fragment = tuned.fragment(1);
    assert!(fragment.contains(USUAL), "{fragment}");
    assert!(tuned.tuner.try_wait().expect("its state").is_none(), "the tuner goes on");
    let fragment = tuned.fragment(0);
    assert!(!fragment.contains(USUAL), "the other task is still tuned: {fragment}");
    let errors = tuned.interrupt();
    assert!(errors.contains("node b is lost"), "{errors}");
    tuned.expect_usual_fragments();
    assert!(!tuned.run.is_attached() && tuned.run.ended_well());
}

/// Two processes with a value that has no effect, one on each of the nodes `a` and `b`, while the tuner tries another
/// value.
struct Tried {
    tuner: Child,
    lines: Box<dyn Iterator<Item = String>>,
    runs: [Run; 2],
    /// The half of the tuner on node `b`.
    half: u32,
    _cluster: Cluster,
}

impl Tried {
    /// `None` if there is no C compiler.
    fn start() -> Option<Tried> {
        let cluster = Cluster::of(&["a", "b"]);
        let source = std::path::Path::new(machine::PROGRAMS).join("knob.c");
        let program = cluster.path("thalweg-knob");
        let compiled = Command::new("cc").arg("-O2").arg(source).arg("-o").arg(&program).status();
        if !compiled.is_ok_and(|status| status.success()) {
            skipped("no C compiler");
            return None;
        }
        // A change without an effect has a long trial, by turns.
        let pack = cluster.net("knob.toml", include_str!("../../tune/tests/packs/knob.toml"));
        let runs = [(); 2].map(|()| Run::of(Command::new(&program).arg("120")));
        let [a, b] = [0, 1].map(|of| runs[of].processes()[0]);
        let mut command = cluster.command();
        command.args(["tune", &format!("a:{a},b:{b}"), "--library", &pack, "--nodes", "a,b"]);
        let mut tuner = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(tuner.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let mut tried = Tried { tuner, lines: Box::new(lines), runs, half: 0, _cluster: cluster };
        assert!(tried.lines.any(|line| line.contains("began")));
        tried.half = half(&tried._cluster, 1).expect("a half");
        assert!(tried.lines.any(|line| line.contains("tried") && line.contains("in 2 processes")));
        assert_eq!(tried.values(), ["2 0 0", "2 0 0"], "the change is in both");
        Some(tried)
    }

    /// What the two processes print.
    fn values(&mut self) -> [String; 2] {
        self.runs.each_mut().map(Run::line)
    }

    /// Ends the tuner as Ctrl-C does, and checks that it ends well, and that node `b` is lost.
    fn end(&mut self) {
        let errors = interrupted(&mut self.tuner, &mut self.lines);
        assert_eq!(errors.matches("node b is lost").count(), 1, "{errors}");
        assert!(self.runs.iter_mut().all(|run| !run.is_attached() && run.ended_well()));
    }
}

impl Drop for Tried {
    fn drop(&mut self) {
        let _ = self.tuner.kill();
        let _ = self.tuner.wait();
    }
}

#[test]
fn a_trial_ends_when_a_node_is_lost() {
    let Some(mut tried) = Tried::start() else { return };
    signal("-KILL", tried.half);
    let next = tried.lines.next().unwrap_or_default();
    // The half may have been killed while it was asked to set the value.
    let why = ["node b is lost", "half of the tuner ended"];
    assert!(next.contains("taken back") && why.iter().any(|why| next.contains(why)), "{next}");
    assert_eq!(tried.runs[0].line(), "1 0 0", "it is taken back on the other node");
    wait_for_guard(tried.half, after(60));
    assert_eq!(tried.runs[1].line(), "1 0 0", "the guard has restored it");
    assert!(
        !tried.runs[1].is_attached() && tried.runs[0].is_attached(),
        "the tuner goes on with the other node"
    );
    tried.end();
}

#[test]
fn a_tuner_ends_well_if_it_is_asked_to_when_a_node_was_just_lost() {
    let Some(mut tried) = Tried::start() else { return };
    signal("-KILL", tried.half);
    signal("-INT", tried.tuner.id());
    wait_for_guard(tried.half, after(60));
    assert_eq!(tried.values(), ["1 0 0", "1 0 0"], "all is as before");
    tried.end();
}

#[test]
fn both_nodes_restore_what_a_killed_tuner_has_left() {
    let Some((mut tuned, _)) = Tuned::start(&[]) else { return };
    let halves = [tuned.half(0), tuned.half(1)];
    tuned.tuner.kill().expect("it is killed");
    halves.into_iter().for_each(|half| wait_for_guard(half, after(90)));
    tuned.expect_usual_fragments();
    assert!(!tuned.run.is_attached() && tuned.run.ended_well());
}

#[test]
fn a_tuner_that_stands_still_loses_its_lease_on_both_nodes() {
    let Some((mut tuned, _)) = Tuned::start(&["--lease", "5s"]) else { return };
    let halves = [tuned.half(0), tuned.half(1)];
    // A tuner that works renews its leases, which would have run out meanwhile.
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!([tuned.half(0), tuned.half(1)], halves);
    // Both nodes are on one machine here, and its virtual machine of PVM has one hoster.
    // When the tuner comes to the encoding depends on how long its other trials take.
    let until = after(60);
    loop {
        let log = printed(&tuned.asked(&["log"]));
        if log.contains("pvm.encoding") && log.contains("another program already starts the hosts") {
            break;
        }
        assert!(Instant::now() < until, "{log}");
        std::thread::sleep(Duration::from_millis(100));
    }
    signal("-STOP", tuned.tuner.id());
    // The guards kill the halves, or the nodes do, for which the tuner is silent.
    let until = after(90);
    halves.into_iter().for_each(|half| wait_for_guard(half, until));
    tuned.expect_usual_fragments();
    assert!(!tuned.run.is_attached() && tuned.run.ended_well());
}

#[test]
fn a_foreign_host_waits_until_the_tasks_of_a_node_send_no_raw_messages() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let mut run = machine.joining(2, &[]);
    let cluster = Cluster::of(&["a"]);
    let tasks: Vec<String> = run.processes().iter().map(|pid| format!("a:{pid}")).collect();
    let mut command = cluster.command();
    command.args(["tune", &tasks.join(","), "--library", "pvm", "--all-nodes", "--forbid", "pvm.route"]);
    let tuner = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines: Vec<String> =
        std::iter::repeat_with(|| run.line()).take_while(|line| !line.is_empty()).collect();
    signal("-INT", tuner.id());
    let tuned = printed(&tuner.wait_with_output().expect("it ends"));
    let joined: Vec<&String> =
        lines.iter().filter(|line| line.contains(' ') && !line.ends_with(" 0")).collect();
    let expected = [format!("1 {READABLE}"), format!("2 {READABLE}")];
    assert!(joined.into_iter().eq(&expected), "{lines:?}\n{tuned}");
    let undone = |line: &&str| line.contains("pvm.encoding") && line.contains(OTHER);
    assert!(tuned.lines().filter(undone).count() >= 2, "{tuned}");
    assert!(!run.is_attached());
}

#[test]
fn a_machine_that_may_only_see_tunes_nothing() {
    let of = |cluster: &Cluster, arguments: &[&str]| {
        let done = cluster.command().arg("node").args(arguments).output().expect("it starts");
        assert!(done.status.success(), "{}", stderr(&done));
        out(&done).trim().to_owned()
    };
    let mut first = Cluster::of(&[]);
    of(&first, &["init"]);
    first.start("a", &["--tls"]);
    let address = first.address("a");
    let second = Cluster::of(&[]);
    let token = of(&first, &["invite", "--may", "see"]);
    of(&second, &["init", "--join", &address, "--token", &token]);
    std::fs::write(second.path("cluster").join("nodes/a"), format!("{address}\n")).expect("a folder");
    let refused = second.command().args(["tune", "--library", "pvm", "--nodes", "a"]).output();
    let refused = refused.expect("it starts");
    let why = stderr(&refused);
    assert!(!refused.status.success() && out(&refused).is_empty());
    assert_eq!(why.lines().count(), 1, "{why}");
    assert!(why.contains("node a: ") && why.contains("lets it see nodes, and not run programs"), "{why}");
}

#[test]
fn wrong_nodes_and_processes_are_refused() {
    let cluster = Cluster::of(&["a"]);
    let tune = |arguments: &[&str]| {
        let done = cluster.command().args(["tune", "--library", "pvm"]).args(arguments).output();
        let done = done.expect("it starts");
        assert!(!done.status.success(), "{arguments:?}");
        stderr(&done)
    };
    let unknown = tune(&["--nodes", "a,c"]);
    assert!(unknown.contains("there is no node c: known are a"), "{unknown}");
    let without = tune(&["a:1"]);
    assert!(without.contains("a:1 is on a node: --nodes or --all-nodes is needed"), "{without}");
    let other = tune(&["b:1", "--nodes", "a"]);
    assert!(other.contains("node b takes no part: there are a"), "{other}");
    let none = tune(&["a:shop", "--nodes", "a"]);
    assert!(none.contains("no process is called `a:shop`"), "{none}");
    // Children of this process, which other tests may have started, would be tuned with it.
    let node = cluster.nodes[0].1.id();
    let not = tune(&[&format!("a:{node}"), "--all-nodes"]);
    assert!(not.contains("no process of these uses the library of the pack `pvm`"), "{not}");
    let twice = tune(&["--nodes", "a,a"]);
    assert!(twice.contains("node a is given twice"), "{twice}");
}
