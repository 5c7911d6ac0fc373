//! The half of a tuner that runs on a node: it attaches to the processes there, and does what the other half, the
//! session, asks for.
//!
//! Each question is a line of words with tabs between, of which the first says what to do (the constants below).
//! Each answer has lines of the same kind: what was found (`target.rs` has the meaning of the values).

use std::fmt::Write;
use std::process::Command;
use std::time::Instant;

use thalweg_pack::Pack;

use super::gate::GateProcess;
use super::hoster;
use super::known::read;
use super::search::{Found, Search};
use super::session::LENGTHS;
use super::target::{Seen, State, Target};

/// Begin, for the node with this name and these processes, with the pack in the lines that follow.
pub(super) const BEGIN: &str = "begin";
/// Attach to a process that has started, if there is one; the answer has at most one new process.
pub(super) const FIND: &str = "find";
/// End the windows of these lengths in all processes.
pub(super) const TICK: &str = "tick";
/// Begin windows of all lengths now.
pub(super) const RESTART: &str = "restart";
/// Make the readings of this process.
pub(super) const READINGS: &str = "readings";
/// Read the system's figures of all processes.
pub(super) const LOOK: &str = "look";
/// Set this process's point to this value.
pub(super) const SET: &str = "set";
/// Restore this process's point.
pub(super) const UNDO: &str = "undo";
/// As the former one, at the end of tuning.
pub(super) const LAST: &str = "last";
/// Take everything back in this process, or keep what was set by calls, and leave the process.
pub(super) const LEAVE: &str = "leave";
/// Start a gatekeeper for this process, unless it has one.
pub(super) const GATE: &str = "gate";
/// Give the gatekeeper of this process this order.
pub(super) const ORDER: &str = "order";
/// Renew the lease, as every question does.
pub(super) const RENEW: &str = "renew";

/// The state of a process.
const TARGET: &str = "target";
/// The values of all fields in the process that was named last, in a window of a length.
const ROW: &str = "row";
/// A process that cannot be tuned.
const REFUSED: &str = "refused";
/// A gatekeeper has written this line.
const OF_GATE: &str = "of-gate";
/// What was asked for could not be done.
const FAILED: &str = "failed";

/// A line of an answer.
#[derive(Debug)]
pub(super) enum Said {
    Target {
        pid: i32,
        is_alive: bool,
        has_calls: bool,
        points: Vec<State>,
    },
    Row(usize, Vec<f64>),
    Refused(String, String),
    Failed(String),
    /// The process that a gatekeeper is of, and a line of a gatekeeper.
    Gate(i32),
    OfGate(i32, String),
}

impl Said {
    /// The line that this is; `None` for a line that says nothing.
    pub(super) fn read(line: &str) -> Option<Said> {
        let mut words = line.split('\t');
        match words.next()? {
            TARGET => {
                let (pid, is_alive, has_calls) =
                    (words.next()?.parse().ok()?, words.next()? == "true", words.next()? == "true");
                let mut points = Vec::new();
                while let (Some(value), Some(former), Some(chosen)) =
                    (words.next(), words.next(), words.next())
                {
                    let chosen = Some(chosen.to_owned()).filter(|chosen| !chosen.is_empty());
                    points.push(State::seen(value.parse().ok(), former.parse().ok(), chosen));
                }
                Some(Said::Target { pid, is_alive, has_calls, points })
            }
            ROW => {
                let length = words.next()?.parse().ok()?;
                Some(Said::Row(length, words.map(|word| word.parse().unwrap_or(f64::NAN)).collect()))
            }
            REFUSED => Some(Said::Refused(words.next()?.to_owned(), words.next()?.to_owned())),
            FAILED => Some(Said::Failed(words.next()?.to_owned())),
            GATE => Some(Said::Gate(words.next()?.parse().ok()?)),
            OF_GATE => Some(Said::OfGate(words.next()?.parse().ok()?, words.next()?.to_owned())),
            _ => None,
        }
    }
}

/// The half of a tuner on a node.
pub struct NodeHalf<'g> {
    guard: &'g dyn Fn(u64) -> Option<Command>,
    helper: &'g dyn Fn() -> Option<Command>,
    lease_ms: u64,
    pack: Option<Pack>,
    search: Search,
    targets: Vec<Target>,
    begun: [Instant; LENGTHS],
    gates: Vec<GateProcess>,
}

impl<'g> NodeHalf<'g> {
    /// A half that attaches to nothing yet. `guard` makes the command of the guard of all its processes with a lease of
    /// so many milliseconds, and `helper` that of a gatekeeper, as for [`Library`](super::Library).
    pub fn new(
        guard: &'g dyn Fn(u64) -> Option<Command>,
        helper: &'g dyn Fn() -> Option<Command>,
    ) -> NodeHalf<'g> {
        let (search, begun) = (Search::new(None, Vec::new()), [Instant::now(); LENGTHS]);
        let (targets, gates) = (Vec::new(), Vec::new());
        NodeHalf { guard, helper, lease_ms: 0, pack: None, search, targets, begun, gates }
    }

    /// Answers a question of the session.
    ///
    /// # Errors
    /// The question is none, or cannot be answered; the text says why.
    pub fn answer(&mut self, question: &str) -> Result<String, String> {
        self.search.renew();
        let (line, rest) = question.split_once('\n').unwrap_or((question, ""));
        let words: Vec<&str> = line.split('\t').collect();
        if let [BEGIN, node, lease, processes @ ..] = &words[..] {
            self.lease_ms = lease.parse().map_err(|_| format!("{lease} is no lease"))?;
            let processes = processes.iter().filter_map(|pid| pid.parse().ok()).collect();
            self.search = Search::new(Some((*node).to_owned()), processes);
            self.pack = Some(read("the pack", rest).map_err(|bad| bad.to_string())?);
            return Ok(String::new());
        }
        let Some(pack) = self.pack.take() else { return Err("this half has no pack yet".to_owned()) };
        let said = self.said(&pack, &words);
        self.pack = Some(pack);
        self.search.renew();
        said.ok_or_else(|| format!("a half of a tuner cannot be asked for `{line}`"))
    }

    fn said(&mut self, pack: &Pack, words: &[&str]) -> Option<String> {
        let mut said = String::new();
        let (what, of) = words.split_first()?;
        let pid = || of.first()?.parse::<i32>().ok();
        let at = pid().and_then(|pid| self.targets.iter().position(|target| target.pid == pid));
        match *what {
            RENEW => {}
            FIND => self.find(pack, &mut said),
            TICK => self.tick(pack, of, &mut said),
            RESTART => {
                self.begun = [Instant::now(); LENGTHS];
                self.targets.iter_mut().for_each(|target| target.restart(pack));
            }
            LOOK => self.targets.iter_mut().for_each(Target::look_at_process),
            GATE => match at.ok_or("the process has ended".to_owned()).and_then(|at| self.gate_of(at)) {
                Ok(of) => _ = writeln!(said, "{GATE}\t{of}"),
                Err(why) => failed(&mut said, Err(why)),
            },
            ORDER => {
                let gate = self.gates.iter_mut().find(|gate| Some(gate.of) == pid());
                gate?.order(of.get(1)?);
            }
            READINGS | SET | UNDO | LAST | LEAVE => match at {
                Some(at) => self.one(pack, what, at, &of[1..], &mut said)?,
                None => failed(&mut said, Err("the process has ended".to_owned())),
            },
            _ => return None,
        }
        for gate in &mut self.gates {
            while let Some(line) = gate.next() {
                let _ = writeln!(said, "{OF_GATE}\t{}\t{}", gate.of, one_line(&line));
            }
        }
        Some(said)
    }

    /// The process that the gatekeeper of the target with this index is of.
    fn gate_of(&mut self, at: usize) -> Result<i32, String> {
        let target = &self.targets[at];
        let of = hoster::daemon_of(target.pid)?;
        if !self.gates.iter().any(|gate| gate.of == of) {
            self.gates.push(GateProcess::start(target, of, (self.helper)())?);
        }
        Ok(of)
    }

    fn find(&mut self, pack: &Pack, said: &mut String) {
        let targets = &self.targets;
        for pid in self.search.candidates(pack, |pid| targets.iter().any(|target| target.pid == pid)) {
            let lease = self.lease_ms;
            match self.search.open(pid, pack, &|| (self.guard)(lease)) {
                Some(Found::Target(mut target)) => {
                    let processors = std::thread::available_parallelism();
                    target.seen.row.0[5] = processors.map_or(1.0, |count| count.get() as f64);
                    target.restart(pack);
                    state(said, &target);
                    row(said, 0, &target.seen);
                    self.targets.push(*target);
                    return;
                }
                Some(Found::Refused(name, why)) => {
                    let _ = writeln!(said, "{REFUSED}\t{name}\t{}", one_line(&why));
                }
                None => {}
            }
        }
    }

    fn tick(&mut self, pack: &Pack, lengths: &[&str], said: &mut String) {
        let lengths: Vec<usize> = lengths.iter().filter_map(|length| length.parse().ok()).collect();
        for target in &mut self.targets {
            // What cannot be read has not changed, so such a process makes no progress.
            let _ = target.read(pack);
            state(said, target);
            for length in lengths.iter().copied().filter(|length| *length < LENGTHS) {
                let seconds = self.begun[length].elapsed().as_secs_f64();
                target.seen.row.0[6] = seconds;
                target.end_window(pack, length, seconds);
                row(said, length, &target.seen);
            }
        }
        let now = Instant::now();
        lengths.iter().filter(|length| **length < LENGTHS).for_each(|length| self.begun[*length] = now);
        self.targets.retain(Target::is_alive);
    }

    /// Does what is asked for in one process.
    fn one(&mut self, pack: &Pack, what: &str, at: usize, of: &[&str], said: &mut String) -> Option<()> {
        if what == LEAVE {
            let keeps = *of.first()? == "true";
            failed(said, self.targets.swap_remove(at).end(pack, keeps, &mut || self.search.renew()));
            return Some(());
        }
        let target = &mut self.targets[at];
        let point = || of.first()?.parse::<usize>().ok().filter(|point| *point < pack.points.len());
        let done = match what {
            SET => target.set(pack, point()?, of.get(1)?.parse().ok()?),
            READINGS => {
                target.make_readings(pack);
                Ok(())
            }
            _ => {
                if what == LAST {
                    target.wait_longer();
                }
                target.undo(pack, point()?)
            }
        };
        failed(said, done);
        state(said, target);
        row(said, 0, &target.seen);
        Some(())
    }

    /// Takes everything back in all processes, because the session has gone.
    pub fn end(&mut self) {
        let Some(pack) = self.pack.take() else { return };
        while let Some(target) = self.targets.pop() {
            // The session that would report a failure has gone.
            let _ = target.end(&pack, false, &mut || self.search.renew());
        }
    }
}

/// A text without the characters that end words and lines.
fn one_line(text: &str) -> String {
    text.replace(['\t', '\n'], " ")
}

fn failed(said: &mut String, done: Result<(), String>) {
    if let Err(why) = done {
        let _ = writeln!(said, "{FAILED}\t{}", one_line(&why));
    }
}

/// Writes the line about the state of a process.
fn state(said: &mut String, target: &Target) {
    let _ = write!(said, "{TARGET}\t{}\t{}\t{}", target.pid, target.is_alive(), target.seen.has_calls);
    for state in &target.seen.points {
        let word = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let chosen = state.chosen.as_deref().map(one_line).unwrap_or_default();
        let _ = write!(said, "\t{}\t{}\t{chosen}", word(state.value), word(state.former));
    }
    said.push('\n');
}

fn row(said: &mut String, length: usize, seen: &Seen) {
    let _ = write!(said, "{ROW}\t{length}");
    seen.row.0.iter().for_each(|value| _ = write!(said, "\t{value}"));
    said.push('\n');
}
