//! Rounds of runs over nodes, each with a fault drawn by chance: whatever happens, the run ends, each record
//! comes out once, in order, or fails once, and a fault that nodes can survive is survived.

mod certified;
mod cluster;
mod des_run;
mod faulty;
mod program;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use certified::certify;
use cluster::{Cluster, numbers, stderr};
use faulty::{Changing, OwnClock, SmallDisk, children, drop_packets, family, pass_packets, reset, signal};
use thalweg_chance::Chance;

/// The seed of the faults in the short test.
const SEED: u64 = 88_172_645_463_325_252;
/// The records of a round.
const RECORDS: usize = 600;
/// A round that takes longer hangs.
const HANGS: Duration = Duration::from_secs(60);

/// What happens in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// A node is killed.
    Killed,
    /// A node's process is stopped.
    Stopped,
    /// The process of the run's part on a node is killed.
    PartKilled,
    /// Connections are reset, up to four times.
    Reset,
    /// No packet reaches a node any more.
    CutOff,
    /// One of twenty packets is lost.
    Lossy,
    /// The disk of a node is full, or becomes full.
    FullDisk,
    /// A node has a part of a library.
    HalfLibrary,
    /// The certificate of a node expires.
    Expired,
    /// A node is of another version, or speaks another version of the protocol.
    OtherVersion,
    /// The clock of a node is set forward and back.
    ClockStepped,
}

impl Fault {
    /// Whether the run has to end as if nothing had happened.
    fn is_survived(self) -> bool {
        matches!(self, Fault::Reset | Fault::Lossy | Fault::HalfLibrary | Fault::ClockStepped)
    }
}

/// Nodes `a` and `b`, and further ones for single faults.
struct Rounds {
    cluster: Cluster,
    chance: Chance,
    net: String,
    library: PathBuf,
    /// The transport of the links in this round.
    transport: &'static str,
    /// More arguments of nodes.
    more: &'static [&'static str],
    /// The disk of node `d`.
    disk: Option<SmallDisk>,
    /// The clock of node `t`.
    clock: OwnClock,
}

/// A run that has ended.
struct Ended {
    status: ExitStatus,
    out: String,
    stderr: String,
    letters: String,
}

/// A run that goes on.
struct Running {
    run: Child,
    /// Notified when something has come out.
    begun: Receiver<()>,
    out: Receiver<String>,
    stderr: Receiver<String>,
    letters: PathBuf,
}

impl Running {
    fn id(&self) -> u32 {
        self.run.id()
    }

    fn end(mut self, context: &str) -> Ended {
        let until = Instant::now() + HANGS;
        let status = loop {
            match self.run.try_wait().expect("it runs") {
                Some(status) => break status,
                None if Instant::now() > until => {
                    let _ = self.run.kill();
                    let stderr = self.stderr.recv().unwrap_or_default();
                    panic!("the run hangs: {context}\n{stderr}");
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let read = |from: &Receiver<String>| from.recv_timeout(HANGS).expect("the run has ended");
        Ended {
            status,
            out: read(&self.out),
            stderr: read(&self.stderr),
            letters: std::fs::read_to_string(&self.letters).unwrap_or_default(),
        }
    }
}

/// Reads to the end on a thread of its own; the first channel gets a message with the first bytes.
fn reading(mut from: impl Read + Send + 'static) -> (Receiver<()>, Receiver<String>) {
    let ((began, begun), (whole, read)) = (channel(), channel());
    std::thread::spawn(move || {
        let mut text = vec![0];
        let first = from.read(&mut text).expect("it ends or sends");
        text.truncate(first);
        // Errors are ignored: a failed test does not wait.
        let _ = began.send(());
        from.read_to_end(&mut text).expect("it ends or sends");
        let _ = whole.send(String::from_utf8_lossy(&text).into_owned());
    });
    (begun, read)
}

fn number(line: &str, context: &str) -> usize {
    let (_, rest) = line.split_once("\"<n>\": ").unwrap_or_else(|| panic!("no record: {line}: {context}"));
    rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).expect("a number")
}

impl Rounds {
    fn new(seed: u64, more: &'static [&'static str]) -> Rounds {
        let mut cluster = Cluster::of(&[]);
        if more.contains(&"--tls") {
            let made = cluster.command().args(["node", "init"]).output().expect("thalweg starts");
            assert!(made.status.success(), "{}", stderr(&made));
        }
        ["a", "b"].iter().for_each(|name| cluster.start(name, more));
        let net = cluster.net(
            "two.snet",
            "net two connect ([{<n>} -> {<n = n + 1000>}] @ 1) !! <k> .. [{<n>} -> {<n = n + 1000>}] @ 0;",
        );
        let library = des_run::library_of("app-des");
        let clock = OwnClock::new(cluster.folder.path());
        let mut rounds = Rounds {
            cluster,
            chance: Chance::new(seed),
            net,
            library,
            transport: "tcp",
            more,
            disk: None,
            clock,
        };
        rounds.start_with_its_own_clock();
        rounds.disk = SmallDisk::mount(24);
        if rounds.disk.is_some() {
            rounds.start_on_the_small_disk();
        } else {
            // The line is written past the test harness, which would hide it, so that `cargo xtask test` can
            // count skipped tests.
            let line = "\nskipped: rounds with a full disk: mounting a small file system needs root\n";
            std::io::stdout().write_all(line.as_bytes()).expect("standard output");
        }
        rounds
    }

    fn faults(&self) -> Vec<Fault> {
        use Fault::{
            ClockStepped, CutOff, Expired, FullDisk, HalfLibrary, Killed, Lossy, OtherVersion, PartKilled,
            Reset, Stopped,
        };
        let mut faults = vec![Killed, Stopped, PartKilled, Reset, CutOff, Lossy, HalfLibrary, ClockStepped];
        faults.extend(self.disk.as_ref().map(|_| FullDisk));
        faults.push(if self.more.is_empty() { OtherVersion } else { Expired });
        faults
    }

    /// The folder of the cluster as another machine of it would have it.
    fn folder_elsewhere(&self, at: &std::path::Path) {
        std::fs::create_dir_all(at).expect("a folder");
        std::fs::set_permissions(at, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("a folder");
        for name in ["token", "authority.pem", "node.pem", "node.key"] {
            let from = self.cluster.path("cluster").join(name);
            if from.exists() {
                std::fs::copy(from, at.join(name)).expect("a folder");
            }
        }
    }

    /// Starts a node that has its files in another folder; returns its address.
    fn start_elsewhere(&mut self, name: &str, at: &std::path::Path, spaces: &std::path::Path) -> String {
        let mut command = self.cluster.command();
        command.env("THALWEG_CLUSTER", at).env("THALWEG_SPACES", spaces);
        command.args(["node", "--name", name]).args(self.more);
        self.cluster.spawn(name, command);
        std::fs::read_to_string(at.join("nodes").join(name)).expect("a node that listens").trim().to_owned()
    }

    fn start_on_the_small_disk(&mut self) {
        let disk = self.disk.as_ref().expect("a disk").path().to_owned();
        self.folder_elsewhere(&disk.join("cluster"));
        self.start_elsewhere("d", &disk.join("cluster"), &disk.join("spaces"));
    }

    fn start_with_its_own_clock(&mut self) {
        let mut command = self.cluster.command();
        command.args(["node", "--name", "t"]).args(self.more);
        self.clock.given_to(&mut command);
        self.cluster.spawn("t", command);
    }

    fn id(&self, name: &str) -> u32 {
        self.cluster.nodes.iter().find(|(known, _)| known == name).expect("a node").1.id()
    }

    fn restart(&mut self, name: &str) {
        self.cluster.kill(name);
        self.cluster.nodes.retain(|(known, _)| known != name);
        self.cluster.start(name, self.more);
    }

    /// Begins a run, by a transport drawn by chance.
    fn begin(&mut self, nodes: &str, policy: &str, lease: &str) -> Running {
        let transport = ["tcp", "unix", "memory", "routed"][self.chance.below(4) as usize];
        self.transport = transport;
        let letters = self.cluster.path("letters");
        let _ = std::fs::remove_file(&letters);
        let mut command = self.cluster.command();
        command.args(["run", &self.net, "--nodes", nodes, "--lease", lease, "--on-lost", policy]);
        command.args(["--rate", "2000", "--set", &format!("link.transport={transport}")]);
        command.arg("--dead-letters").arg(&letters);
        command.arg("--boxes").arg(&self.library);
        let mut run = program::started(&mut command);
        let mut input = run.stdin.take().expect("piped");
        std::thread::spawn(move || _ = input.write_all(numbers(RECORDS).as_bytes()));
        let (begun, out) = reading(run.stdout.take().expect("piped"));
        let (_, stderr) = reading(run.stderr.take().expect("piped"));
        Running { run, begun, out, stderr, letters }
    }

    /// Waits for the moment of the fault. Most faults come while records are under way, which takes 300 ms;
    /// others also before that.
    fn moment(&mut self, running: &Running) {
        if !self.chance.one_in(4) {
            let came = running.begun.recv_timeout(HANGS);
            assert_ne!(came, Err(RecvTimeoutError::Timeout), "nothing comes out");
        }
        std::thread::sleep(Duration::from_millis(self.chance.below(300)));
    }

    /// Plays one round; returns whether all records came out.
    fn play(&mut self, round: u64, fault: Fault) -> bool {
        let policy = if self.chance.one_in(2) { "go-on" } else { "stop" };
        let context = format!("round {round}, {fault:?}, {policy}");
        let (node, ended) = match fault {
            Fault::FullDisk => ("d", self.full_disk(policy, &context)),
            Fault::HalfLibrary => ("b", self.half_library(policy, &context)),
            Fault::OtherVersion => ("b", self.other_version(policy, &context)),
            Fault::Expired => ("z", self.expired(policy, &context)),
            Fault::ClockStepped => ("t", self.clock_stepped(policy, &context)),
            _ => ("b", self.while_running(fault, policy, &context)),
        };
        let context = format!("{context}, {}: {}\n{}", self.transport, ended.status, ended.stderr);
        if std::env::var_os("SHOW").is_some() {
            eprintln!("{context}");
        }
        let is_whole = self.check(&ended, node, policy, &context);
        if fault.is_survived() {
            assert!(is_whole, "it could go on: {context}");
        }
        is_whole
    }

    fn while_running(&mut self, fault: Fault, policy: &str, context: &str) -> Ended {
        let lease = if fault == Fault::Lossy { "5s" } else { "400ms" };
        let running = self.begin("a,b", policy, lease);
        let b = self.id("b");
        if fault == Fault::Lossy {
            std::thread::sleep(Duration::from_millis(self.chance.below(100)));
            drop_packets(&[family(self.id("a")), family(b), vec![running.id()]].concat(), 20);
            let ended = running.end(context);
            pass_packets(&[family(self.id("a")), family(b)].concat());
            return ended;
        }
        self.moment(&running);
        match fault {
            Fault::Killed => self.cluster.kill("b"),
            Fault::Stopped => signal("-STOP", &[b]),
            Fault::PartKilled => signal("-KILL", &children(b)),
            Fault::CutOff => drop_packets(&family(b), 1),
            _ => {
                for _ in 0..self.chance.between(1, 5) {
                    let one_in = self.chance.between(1, 4);
                    let chance = &mut self.chance;
                    reset(&family(b), || chance.one_in(one_in));
                    std::thread::sleep(Duration::from_millis(self.chance.below(60)));
                }
            }
        }
        let ended = running.end(context);
        match fault {
            Fault::Stopped => signal("-CONT", &[b]),
            Fault::Killed => {
                self.cluster.nodes.retain(|(name, _)| name != "b");
                self.cluster.start("b", self.more);
            }
            Fault::CutOff => self.restart("b"),
            _ => {}
        }
        ended
    }

    /// The disk of a node is full before the run begins, up to some bytes, or becomes full while it goes on.
    fn full_disk(&mut self, policy: &str, context: &str) -> Ended {
        let disk = self.disk.take().expect("a disk");
        if self.chance.one_in(2) {
            // An error is ignored: there is no library yet.
            let _ = std::fs::remove_dir_all(disk.path().join("cluster/libraries"));
            std::fs::create_dir_all(disk.path().join("cluster/libraries")).expect("a disk");
        }
        let address = self.address_on(&disk);
        let is_before = self.chance.one_in(2);
        let except = if self.chance.one_in(2) { 0 } else { self.chance.below(20 << 20) as usize };
        if is_before {
            disk.fill(except);
        }
        let running = self.begin(&format!("a,{address}"), policy, "400ms");
        if !is_before {
            self.moment(&running);
            disk.fill(except);
        }
        let ended = running.end(context);
        disk.clear();
        self.disk = Some(disk);
        ended
    }

    fn address_on(&self, disk: &SmallDisk) -> String {
        let file = disk.path().join("cluster/nodes/d");
        std::fs::read_to_string(file).expect("a node that listens").trim().to_owned()
    }

    /// A library's file on the nodes ends anywhere, before a run or while one goes on.
    fn half_library(&mut self, policy: &str, context: &str) -> Ended {
        for folder in
            std::fs::read_dir(self.cluster.path("cluster").join("libraries")).expect("nodes").flatten()
        {
            for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let bytes = file.metadata().expect("a file").len();
                let part = std::fs::read(file.path()).expect("a file");
                // The nodes' processes of former runs may still have the file, so another one replaces it.
                std::fs::remove_file(file.path()).expect("a file");
                let end = self.chance.below(bytes.max(1)) as usize;
                std::fs::write(file.path(), &part[..end]).expect("a file");
            }
        }
        self.begin("a,b", policy, "400ms").end(context)
    }

    /// A node says that it has another version, or speaks another version of the protocol.
    fn other_version(&mut self, policy: &str, context: &str) -> Ended {
        let to = self.cluster.address("b");
        let relay = match self.chance.one_in(2) {
            true => Changing::new(to, "thalwgn1", "thalwgn9"),
            false => Changing::new(
                to,
                concat!("\"version\":\"", env!("CARGO_PKG_VERSION")),
                concat!("\"version\":\"", "9.9.9"),
            ),
        };
        let ended = self.begin(&format!("a,{}", relay.address), policy, "400ms").end(context);
        assert!(relay.changed.load(std::sync::atomic::Ordering::Relaxed) > 0, "{context}");
        let is_said = ended.stderr.contains("version");
        assert!(ended.status.code() != Some(0) && is_said, "{context}\n{}", ended.stderr);
        ended
    }

    /// The certificate of a node, which has a folder of its own, expires before a run or while it goes on.
    fn expired(&mut self, policy: &str, context: &str) -> Ended {
        let at = tempfile::tempdir().expect("a temporary folder");
        self.folder_elsewhere(at.path());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        // A certificate's time has whole seconds, and it is valid throughout the last one.
        let last = Duration::from_secs((now() + Duration::from_millis(500)).as_secs());
        certify(&self.cluster.path("cluster"), at.path(), last);
        let address = self.start_elsewhere("z", at.path(), &self.cluster.path("spaces"));
        // Most runs begin, or make connections, at about this time.
        let begins = last + Duration::from_millis(500 + self.chance.below(600));
        std::thread::sleep(begins.saturating_sub(now()));
        let running = self.begin(&format!("a,{address}"), policy, "400ms");
        if self.chance.one_in(2) {
            self.moment(&running);
            reset(&family(self.id("z")), || true);
        }
        let ended = running.end(context);
        self.cluster.kill("z");
        self.cluster.nodes.retain(|(name, _)| name != "z");
        ended
    }

    /// The clock of a node is wrong when a run begins, or is set while it goes on, by up to an hour in both directions.
    fn clock_stepped(&mut self, policy: &str, context: &str) -> Ended {
        let running = self.begin("a,t", policy, "400ms");
        self.moment(&running);
        for _ in 0..self.chance.between(1, 5) {
            let ahead = self.chance.below(7_200_000_000_000).cast_signed() - 3_600_000_000_000;
            self.clock.set(ahead);
            std::thread::sleep(Duration::from_millis(self.chance.below(60)));
        }
        running.end(context)
    }

    /// Checks that each record came out or failed once, as the policy promises. Returns whether all came out.
    fn check(&self, ended: &Ended, node: &str, policy: &str, context: &str) -> bool {
        let Ended { status, out, stderr, letters } = ended;
        let mut came: Vec<usize> = out.lines().map(|line| number(line, context) - 2000).collect();
        assert!(came.is_sorted_by(|a, b| a < b), "the order, none twice: {context}");
        let back = came.len();
        came.extend(letters.lines().map(|line| number(line, context) % 1000));
        came.sort_unstable();
        let count = came.len();
        came.dedup();
        assert_eq!(came.len(), count, "none came out and failed: {context}");
        match status.code() {
            Some(0) => {
                assert_eq!((count, back), (RECORDS, RECORDS), "{context}");
                return true;
            }
            // The node may be lost, or be of no use, before the run has begun.
            Some(1 | 2) if out.is_empty() && !stderr.contains("E0804") => {
                let is_named = stderr.contains(&format!("node {node}")) || stderr.contains("node 127.0.0.1:");
                assert!(is_named || stderr.contains("node tls/127.0.0.1:"), "it is named: {context}");
            }
            Some(1) if policy == "go-on" => assert_eq!(count, RECORDS, "{context}"),
            Some(1) => {
                assert!(stderr.contains(&format!("error[E0804]: node {node} is lost")), "{context}");
                // The records on the lost node are named by part and number; a deterministic combinator even
                // keeps the order.
                assert!(came.iter().copied().eq(0..count), "a prefix: {context}");
            }
            other => panic!("{other:?}: {context}"),
        }
        false
    }
}

/// Plays rounds with every kind of fault by turns, in an order drawn anew for each turn.
fn play(rounds: u64, seed: u64, more: &'static [&'static str]) -> String {
    let mut all = Rounds::new(seed, more);
    let mut faults = all.faults();
    if let Ok(only) = std::env::var("FAULT") {
        faults.retain(|fault| format!("{fault:?}") == only);
    }
    let mut counts = std::collections::BTreeMap::<Fault, (u64, u64)>::new();
    let mut left = Vec::new();
    for round in 0..rounds {
        if left.is_empty() {
            left = faults.clone();
        }
        let fault = left.swap_remove(all.chance.below(left.len() as u64) as usize);
        let is_whole = all.play(round, fault);
        let (whole, lost) = counts.entry(fault).or_default();
        *if is_whole { whole } else { lost } += 1;
    }
    counts.iter().map(|(fault, (whole, lost))| format!("{fault:?}: {whole} whole, {lost} not\n")).collect()
}

/// The clock of a node that is set while the node runs is seen by all that list the nodes.
#[test]
fn a_clock_that_is_set_is_seen() {
    let mut cluster = Cluster::of(&[]);
    let clock = OwnClock::new(cluster.folder.path());
    let mut command = cluster.command();
    command.args(["node", "--name", "t"]);
    clock.given_to(&mut command);
    cluster.spawn("t", command);
    for ahead in [0, 5_000_000_000, -3_600_000_000_000] {
        clock.set(ahead);
        let listed = cluster.command().args(["nodes", "--json"]).output().expect("thalweg starts");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let listed: serde_json::Value = serde_json::from_str(listed.trim()).expect("one node");
        let [shown, error] =
            ["clock_ahead_ns", "clock_error_ns"].map(|key| listed[key].as_i64().expect("ns"));
        assert!((shown - ahead).abs() <= error + 1 && error < 1_000_000_000, "{ahead}: {listed}");
    }
}

#[test]
fn rounds_of_faults_keep_the_books() {
    let (plain, secure) = std::thread::scope(|scope| {
        let plain = scope.spawn(|| play(10, SEED, &[]));
        let secure = scope.spawn(|| play(10, SEED + 1, &["--tls"]));
        (plain.join().expect("no panic"), secure.join().expect("no panic"))
    });
    for counts in [plain, secure] {
        assert!(counts.contains(": 0 whole, 1 not"), "no node was lost in time: {counts}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn many_rounds_of_faults_keep_the_books() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let (rounds, seed) = (number("ROUNDS").unwrap_or(500), number("SEED").unwrap_or(SEED));
    let more: &[&str] = if std::env::var_os("TLS").is_some() { &["--tls"] } else { &[] };
    eprintln!("{}", play(rounds, seed, more));
}
