//! Compares known tuples of many processes, some of which are killed, with the tuples that readers got: by a
//! scope that is rebuilt again and again, and through a server that is killed again and again. Each tuple
//! comes once and in order, or is counted in a gap.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use thalweg_chance::Chance;
use thalweg_scope::{
    Ask, Backlog, Pulled, Remote, Scope, Server, ServerOptions, Shape, Target, Tuple, Value, View,
};
use thalweg_space::{Kind, Space, SpaceOptions};

/// A tuple that identifies itself.
#[derive(Kind)]
#[kind(name = "test.known")]
struct Known {
    /// The index of the thread in its process.
    thread: u32,
    /// The index of the tuple in its thread, from 0.
    number: u64,
    /// A checksum, which shows whether the tuple is whole.
    check: u64,
}

const SESSION: &str = "SCOPE_TEST_SESSION";
const TUPLES: &str = "SCOPE_TEST_TUPLES";
/// The variable with the number of the process in this test; pids are not used, because the system reuses
/// them.
const WHICH: &str = "SCOPE_TEST_WHICH";
const SOCKET: &str = "SCOPE_TEST_SOCKET";
/// The variable with the file in which readers publish their progress.
const READ: &str = "SCOPE_TEST_READ";
const THREADS: usize = 2;
/// The number of tuples that are written at once.
const BURST: u64 = 2000;
/// The most tuples that a thread writes ahead of the slower reader: fewer than an element holds (32,768).
const AHEAD: u64 = 20_000;
/// One burst in so many ignores `AHEAD`, and writes far more tuples than an element holds.
const FLOOD: u64 = 400;
/// One process in so many is killed.
const KILLED: usize = 3;

const VIEW: &str = "format = 1\nname = \"known\"\nabout = \"Which known tuples came?\"\n[[leaf]]\nkinds = [\"test.known\"]\n\
    [[step]]\ndo = \"filter\"\nwhen = \"number >= 0\"\n";

fn check_of(thread: u64, number: u64) -> u64 {
    (thread << 56 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn given(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The writing process: it prints how many tuples each of its threads has written so far.
#[test]
#[ignore = "run by other tests, in a process of its own"]
fn writing_child() {
    let (Some(session), Some(tuples), Some(name), Some(read)) =
        (given(SESSION), given(TUPLES), given(WHICH), given(READ))
    else {
        return;
    };
    let (tuples, which): (u64, u64) = (tuples.parse().unwrap(), name.parse().unwrap());
    let read = File::open(read).unwrap();
    let options = SpaceOptions { name, session: Some(session.into()), ..Default::default() };
    let space = Space::create(options).unwrap();
    let writing = |thread: u64| {
        let mut writer = space.writer(&format!("thread {thread}")).unwrap();
        let read = read.try_clone().unwrap();
        move || {
            let known = writer.declare::<Known>().unwrap();
            let (mut number, mut chance) = (0, Chance::new(thread + u64::from(std::process::id())));
            while number < tuples {
                let burst = if chance.one_in(FLOOD) { 40 * BURST } else { chance.between(1, BURST) };
                // The thread waits for slow readers, except in bursts that ignore `AHEAD`.
                while burst <= BURST && number + burst > known_read(&read, which, thread) + AHEAD {
                    std::thread::sleep(Duration::from_micros(500));
                }
                for _ in 0..burst.min(tuples - number) {
                    writer.emit(
                        known,
                        &Known { thread: thread as u32, number, check: check_of(thread, number) },
                    );
                    number += 1;
                }
                // The number is printed after the tuples were written, so the test may rely on it.
                writeln!(std::io::stderr(), "{thread} {number}").unwrap();
            }
        }
    };
    let threads: Vec<_> = (0..THREADS as u64).map(|n| std::thread::spawn(writing(n))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    space.finish();
}

/// The progress of the slower reader with a thread of a process; 0 if none was published.
fn known_read(file: &File, which: u64, thread: u64) -> u64 {
    let mut bytes = [0; 8];
    let read = file.read_at(&mut bytes, 8 * (which * THREADS as u64 + thread));
    if read.is_ok_and(|read| read == 8) { u64::from_le_bytes(bytes) } else { 0 }
}

/// A scope server, until it is killed.
#[test]
#[ignore = "run by other tests, in a process of its own"]
fn serving_child() {
    let Some(socket) = given(SOCKET).map(PathBuf::from) else { return };
    let spaces = socket.parent().map(|folder| folder.join("served"));
    let options = ServerOptions { share: 1.0, spaces, ..ServerOptions::at(socket) };
    Server::listen(options).unwrap().serve(&AtomicBool::new(false));
}

fn started(test: &str, variables: &[(&str, &str)]) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--ignored", "--exact", "--nocapture"]).envs(variables.iter().copied());
    child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

struct Writing {
    name: String,
    child: Child,
    counts: std::thread::JoinHandle<[u64; THREADS]>,
}

impl Writing {
    fn begin(session: &Path, read: &Path, tuples: u64, which: usize) -> Writing {
        let (session, read, tuples, name) =
            (session.to_str().unwrap(), read.to_str().unwrap(), tuples.to_string(), which.to_string());
        let given = [(SESSION, session), (READ, read), (TUPLES, &tuples), (WHICH, &name)];
        let mut child = started("writing_child", &given);
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let counts = std::thread::spawn(move || {
            let mut written = [0; THREADS];
            for line in lines.map_while(Result::ok) {
                let mut words = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
                if let (Some(thread), Some(number)) = (words.next(), words.next())
                    && let Some(written) = written.get_mut(thread as usize)
                {
                    *written = number;
                }
            }
            written
        });
        Writing { name, child, counts }
    }

    /// Ends the process; returns the least number of tuples that each thread had written, which is exact
    /// unless the process was killed.
    fn end(mut self, kill: bool) -> Truth {
        if kill {
            self.child.kill().unwrap();
        }
        let is_whole = self.child.wait().unwrap().success();
        Truth { name: self.name, written: self.counts.join().unwrap(), is_whole }
    }
}

struct Truth {
    name: String,
    written: [u64; THREADS],
    is_whole: bool,
}

/// The tuples that were read of a thread.
#[derive(Default)]
struct Came {
    process: String,
    thread: Option<u64>,
    next: u64,
    came: u64,
    lost: u64,
}

/// The tuples that were read of all threads.
#[derive(Default)]
struct Account {
    threads: Vec<Came>,
    places: HashMap<(String, u32), usize>,
    pulls: u64,
}

impl Account {
    fn place(&mut self, tuple: &Tuple<'_>) -> usize {
        let key = (tuple.process().unwrap().name.clone(), tuple.element().unwrap().writer);
        let Account { threads, places, .. } = self;
        *places.entry(key).or_insert_with_key(|(process, _)| {
            threads.push(Came { process: process.clone(), ..Came::default() });
            threads.len() - 1
        })
    }

    fn take(&mut self, pulled: &Pulled) {
        self.pulls += 1;
        assert!(pulled.problems.is_empty(), "{:?}", pulled.problems);
        assert_eq!(pulled.left_out, 0);
        let (mut lost, mut places) = (0, Vec::new());
        for tuple in pulled.batch.tuples() {
            let (head, element) = (tuple.head(), tuple.head().element as usize);
            if places.len() <= element {
                places.resize(element + 1, None);
            }
            let place = *places[element].get_or_insert_with(|| self.place(&tuple));
            let Came { process, thread, next, came, lost: gone } = &mut self.threads[place];
            if let Some(more) = tuple.lost() {
                let from = tuple.field("from");
                assert_eq!(
                    from,
                    Some(Value::Unsigned(*next)),
                    "a gap where nothing is missing, of {process}"
                );
                (*next, *gone, lost) = (*next + more, *gone + more, lost + more);
                continue;
            }
            let number = |n: usize| match tuple.value(n) {
                Some(Value::Unsigned(number)) => number,
                other => panic!("field {n}: {other:?}"),
            };
            assert_eq!((head.sequence, number(1)), (*next, *next), "once, and in order, of {process}");
            assert_eq!(number(2), check_of(number(0), *next), "whole");
            *thread = Some(number(0));
            (*next, *came) = (*next + 1, *came + 1);
        }
        assert_eq!(lost, pulled.lost);
    }

    /// The progress of each thread of each process, with the numbers of the process and the thread.
    fn next(&self) -> impl Iterator<Item = ((u64, u64), u64)> {
        let next = |of: &Came| Some(((of.process.parse().ok()?, of.thread?), of.next));
        self.threads.iter().filter_map(next)
    }

    fn came(&self) -> u64 {
        self.threads.iter().map(|of| of.came).sum()
    }

    /// The number of tuples that came or are counted as lost.
    fn known(&self) -> u64 {
        self.threads.iter().map(|of| of.came + of.lost).sum()
    }

    /// Checks that each written tuple came or is counted as lost; returns their number.
    fn check(&self, truth: &[Truth]) -> u64 {
        for Truth { name, written, is_whole } in truth {
            let mut known: Vec<u64> = written.to_vec();
            let mut found: Vec<u64> =
                self.threads.iter().filter(|of| of.process == *name).map(|of| of.next).collect();
            found.resize(found.len().max(THREADS), 0);
            known.sort_unstable();
            found.sort_unstable();
            for (known, found) in known.iter().zip(&found) {
                let is_right = if *is_whole { found == known } else { found >= known };
                assert!(is_right, "process {name}: {found} of {known} came or are counted");
            }
        }
        self.known()
    }
}

fn shape(chance: &mut Chance) -> Shape {
    Shape {
        fan_out: chance.between(1, 40) as usize,
        depth: chance.between(1, 5) as usize,
        threads: chance.between(1, 4) as usize,
        batch: chance.of(&[64, 1000, 10_000, 100_000]),
        buffer: chance.of(&[500, 20_000, 1 << 20]),
    }
}

/// A server that is killed now and then.
struct Serving {
    socket: PathBuf,
    child: Child,
    kills: u32,
}

impl Serving {
    fn begin(folder: &Path) -> Serving {
        let socket = folder.join("scopes.socket");
        let child = Serving::start(&socket);
        Serving { socket, child, kills: 0 }
    }

    fn start(socket: &Path) -> Child {
        let mut child = started("serving_child", &[(SOCKET, socket.to_str().unwrap())]);
        let mut stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let begin = Instant::now();
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(60), "it does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.kills += 1;
        self.child = Serving::start(&self.socket);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The parameters of a run.
struct Plan {
    processes: usize,
    at_once: usize,
    tuples: u64,
    rebuilds: u64,
    kills: u32,
    /// The least number of tuples that come or are counted as lost; the next field is the least share of
    /// these that comes.
    least: u64,
    share: f64,
}

/// Publishes the progress of both readers to the writers.
fn publish(file: &File, here: &Account, there: &Account, processes: usize) {
    let there: HashMap<(u64, u64), u64> = there.next().collect();
    let mut bytes = vec![0; 8 * processes * THREADS];
    for ((process, thread), next) in here.next() {
        let read = next.min(there.get(&(process, thread)).copied().unwrap_or(0));
        let at = 8 * (process as usize * THREADS + thread as usize);
        bytes[at..at + 8].copy_from_slice(&read.to_le_bytes());
    }
    file.write_all_at(&bytes, 0).unwrap();
}

/// Fails when no tuple comes for a long time, and prints the progress from time to time.
struct Progress {
    begun: Instant,
    printed: Instant,
    changed: Instant,
    known: (u64, u64),
}

impl Progress {
    fn begin() -> Progress {
        let now = Instant::now();
        Progress { begun: now, printed: now, changed: now, known: (0, 0) }
    }

    fn look(&mut self, here: &Account, there: &Account, ended: usize) {
        let known = (here.known(), there.known());
        if known != self.known {
            (self.known, self.changed) = (known, Instant::now());
        }
        assert!(self.changed.elapsed() < Duration::from_secs(120), "nothing comes any more, of {known:?}");
        if self.printed.elapsed() > Duration::from_secs(20) {
            self.printed = Instant::now();
            let seconds = self.begun.elapsed().as_secs();
            eprintln!(
                "{seconds} s: {ended} processes ended, {known:?} tuples, {} and {} came",
                here.came(),
                there.came()
            );
        }
    }
}

fn run(plan: &Plan, folder: &Path) {
    let session = folder.join("session");
    let mut chance = Chance::new(plan.tuples);
    // The session must exist before it is opened.
    drop(Space::create(SpaceOptions { session: Some(session.clone()), ..Default::default() }).unwrap());
    let view = View::read(VIEW).unwrap();
    let mut scope = Scope::open(&view, Target::of(&session), Backlog::All).unwrap();
    let mut serving = Serving::begin(folder);
    let ask = Ask { view: VIEW.to_owned(), target: Target::of(&session), backlog: Backlog::All };
    let mut remote = Remote::open(&serving.socket, &ask).unwrap();
    let (mut here, mut there, mut truth) = (Account::default(), Account::default(), Vec::new());
    let (mut writing, mut begun, mut rebuilt) = (Vec::new(), 0, 0);
    let path = folder.join("read");
    let (read, mut progress) = (File::create(&path).unwrap(), Progress::begin());
    while begun < plan.processes || !writing.is_empty() {
        while begun < plan.processes && writing.len() < plan.at_once {
            writing.push(Writing::begin(&session, &path, plan.tuples, begun));
            begun += 1;
        }
        for _ in 0..chance.between(1, 6) {
            here.take(&scope.pull_since());
            there.take(&remote.pull(None).unwrap());
            publish(&read, &here, &there, plan.processes);
            std::thread::sleep(Duration::from_millis(chance.below(4)));
        }
        progress.look(&here, &there, truth.len());
        scope.reshape(shape(&mut chance));
        rebuilt += 1;
        let due = truth.len() as u64 * u64::from(plan.kills + 1) / plan.processes as u64;
        if u64::from(serving.kills) < due.min(u64::from(plan.kills)) {
            serving.kill();
        }
        let ended = writing.iter_mut().position(|one: &mut Writing| one.child.try_wait().unwrap().is_some());
        if let Some(n) = ended {
            truth.push(writing.remove(n).end(false));
        }
        let killed = truth.iter().filter(|truth: &&Truth| !truth.is_whole).count();
        if killed < truth.len().div_ceil(KILLED) && !writing.is_empty() {
            let n = chance.below(writing.len() as u64) as usize;
            truth.push(writing.remove(n).end(true));
        }
    }
    // Processes that ended leave the view when all their tuples were pulled.
    let deadline = Instant::now() + Duration::from_secs(300);
    let mut before = (0, 0);
    while scope.processes() > 1 || before != (here.known(), there.known()) || rebuilt < plan.rebuilds {
        before = (here.known(), there.known());
        // On a busy machine there may have been too few pulls for all rebuilds.
        if rebuilt < plan.rebuilds {
            scope.reshape(shape(&mut chance));
            rebuilt += 1;
        }
        here.take(&scope.pull_since());
        there.take(&remote.pull(None).unwrap());
        assert!(Instant::now() < deadline, "{} processes have not left", scope.processes());
    }
    let killed = truth.iter().filter(|truth| !truth.is_whole).count();
    let (seen, served) = (here.check(&truth), there.check(&truth));
    eprintln!(
        "{begun} processes, {killed} killed; {seen} tuples, {} came in {} pulls over {rebuilt} rebuilds; {served}, {} of which came in {} \
         pulls over {} killed servers",
        here.came(),
        here.pulls,
        there.came(),
        there.pulls,
        serving.kills,
    );
    assert!(rebuilt >= plan.rebuilds && serving.kills >= plan.kills, "{rebuilt}, {}", serving.kills);
    // On a busy machine, some processes may have written all tuples before they were killed.
    assert!(killed >= plan.processes / 10, "{killed}");
    assert!(seen >= plan.least && served >= plan.least, "{seen}, {served}");
    for account in [&here, &there] {
        let share = account.came() as f64 / account.known() as f64;
        assert!(share >= plan.share, "{share} of what was written came");
    }
}

#[test]
fn each_tuple_comes_once_or_is_counted_over_rebuilds_and_killed_servers() {
    let folder = tempfile::tempdir().unwrap();
    run(
        &Plan {
            processes: 14,
            at_once: 5,
            tuples: 100_000,
            rebuilds: 10,
            kills: 3,
            least: 500_000,
            share: 0.25,
        },
        folder.path(),
    );
}

#[test]
#[ignore = "a thousand million tuples: cargo xtask test --only scopes"]
fn a_thousand_million_tuples_of_hundreds_of_processes() {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let plan = Plan {
        processes: 400,
        at_once: 24,
        tuples: 1_800_000,
        rebuilds: 10,
        kills: 10,
        least: 1_000_000_000,
        share: 0.5,
    };
    run(&plan, folder.path());
}
