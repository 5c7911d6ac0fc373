//! Gatekeepers: helper processes by which something has to pass that does not go together with a change of the
//! tuner. Before a gatekeeper lets it pass, the tuner takes the change back in all processes.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use thalweg_pack::{Action, Change};

use super::{LibraryProgress, Session};
use crate::control::What;
use crate::library::hoster;
use crate::library::lines::{Lines, Next};

/// How long to wait until no message is left that was begun with the value that was taken back.
const BEGUN: Duration = Duration::from_millis(500);
/// How long the tuner tries to take a change back while something waits at a gate.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait for a gatekeeper's end.
const END: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A gatekeeper of some of the processes.
pub(super) struct Gate {
    /// The process that has this gatekeeper and no other, such as PVM's daemon.
    of: i32,
    child: Child,
    orders: Option<ChildStdin>,
    lines: Lines,
    state: State,
}

/// What a gatekeeper lets the tuner do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nothing, because the gatekeeper is not ready, or something passes the gate.
    Closed,
    /// Changes: the gatekeeper asks before something passes.
    Kept,
    /// Nothing any more, for this reason.
    Gone(String),
}

impl Drop for Gate {
    fn drop(&mut self) {
        // The gatekeeper ends now. A killed tuner leaves out this line, and the gatekeeper waits for the guards.
        if let Some(mut orders) = self.orders.take() {
            let _ = writeln!(orders, "{}", hoster::LEAVE);
        }
        let begin = Instant::now();
        while begin.elapsed() < END && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The way of a process to its gatekeeper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::library) enum Way {
    /// The process needs none.
    #[default]
    Free,
    /// The gatekeeper of this process.
    By(i32),
    /// There is none, for this reason.
    None(String),
}

impl Session<'_, '_> {
    /// Starts the gatekeeper of the target with this index, unless it is there.
    pub(super) fn guard_gate(&mut self, target: usize) {
        let is_needed = |action: &Action| match &action.change {
            Change::Setting { point, .. } => action.gatekeeper.is_some() && !self.is_pinned(*point),
            Change::Command { .. } => false,
        };
        let is_needed = self.library.pack.actions.iter().any(is_needed);
        if !is_needed || self.library.advise {
            return;
        }
        self.targets[target].way = match self.gate_of(target) {
            Ok(of) => Way::By(of),
            Err(why) => Way::None(why),
        };
    }

    fn gate_of(&mut self, target: usize) -> Result<i32, String> {
        let target = &self.targets[target];
        let of = hoster::daemon_of(target.pid)?;
        if self.gates.iter().any(|gate| gate.of == of) {
            return Ok(of);
        }
        let command = (self.library.helper)().ok_or("this tuner has no helper that starts hosts")?;
        let mut command = hoster::command(command, target.pid, of, target.library());
        // Ctrl-C must not reach the gatekeeper, which ends after the tuner.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("the helper cannot be started: {error}"))?;
        let (orders, output) = (child.stdin.take(), child.stdout.take());
        let lines = Lines::of(Box::new(output.ok_or("the helper has no output")?));
        self.gates.push(Gate { of, child, orders, lines, state: State::Closed });
        Ok(of)
    }

    /// Whether an action of this kind can be done in the target with this index now: `Err` with the reason if
    /// it can never be.
    pub(super) fn is_kept(&self, action: &Action, target: usize) -> Result<bool, String> {
        match &self.targets[target].way {
            _ if action.gatekeeper.is_none() || self.library.advise => Ok(true),
            Way::Free => Ok(true),
            Way::None(why) => Err(why.clone()),
            Way::By(of) => match self.gates.iter().find(|gate| gate.of == *of).map(|gate| &gate.state) {
                Some(State::Kept) => Ok(true),
                Some(State::Closed) | None => Ok(false),
                Some(State::Gone(why)) => Err(why.clone()),
            },
        }
    }

    /// Does what the gatekeepers ask for.
    pub(super) fn see_gates(&mut self) {
        for gate in 0..self.gates.len() {
            loop {
                let line = match self.gates[gate].lines.next(Duration::ZERO) {
                    Next::Line(line) => line,
                    Next::Nothing => break,
                    Next::End => {
                        self.gate_has_gone(gate, "the helper that starts hosts has ended");
                        break;
                    }
                };
                let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
                match word {
                    hoster::READY => self.gates[gate].state = State::Kept,
                    hoster::WAITS => self.let_pass(gate, rest),
                    hoster::DONE => {
                        self.targets.iter_mut().for_each(|target| target.has_calls = true);
                        self.make_readings();
                        self.gates[gate].state = State::Kept;
                    }
                    hoster::NOTE => (self.report)(&LibraryProgress::Noted(rest)),
                    hoster::REFUSED => self.gate_has_gone(gate, rest),
                    _ => {}
                }
            }
        }
    }

    fn gate_has_gone(&mut self, gate: usize, why: &str) {
        if !matches!(self.gates[gate].state, State::Gone(_)) {
            self.gates[gate].state = State::Gone(why.to_owned());
            self.take_back_guarded(why);
            self.end_trial(why);
        }
    }

    /// Takes the changes back that do not go together with what waits at a gate, and lets it pass.
    fn let_pass(&mut self, gate: usize, what: &str) {
        self.gates[gate].state = State::Closed;
        let why = format!("hosts of another architecture join: {what}");
        // If a change cannot be taken back, nothing passes: the gatekeeper refuses it after a while.
        if self.take_back_guarded(&why)
            && let Some(orders) = &mut self.gates[gate].orders
        {
            // A gatekeeper that has gone is noticed by the end of its lines.
            let _ = writeln!(orders, "{}", hoster::ADMIT);
        }
        // What the program does now is not comparable with what it did before.
        self.end_trial(&why);
    }

    /// Takes back all changes that need a gatekeeper; returns whether none is left.
    fn take_back_guarded(&mut self, why: &str) -> bool {
        let pack = self.library.pack;
        let mut is_clear = true;
        for (number, action) in pack.actions.iter().enumerate().filter(|(_, of)| of.gatekeeper.is_some()) {
            let Change::Setting { point, .. } = &action.change else { continue };
            is_clear &= self.is_surely_undone(*point);
            if let Some(running) = self.trial.take_if(|running| running.candidate.action == number) {
                self.decide(What::TakenBack, Some(&running.candidate), None, why.to_owned());
            }
            if self.kept.contains(&number) {
                self.kept.retain(|kept| *kept != number);
                let candidate = self.candidate(number, *point, Vec::new());
                self.decide(What::Undone, Some(&candidate), None, why.to_owned());
            }
        }
        is_clear
    }

    fn end_trial(&mut self, why: &str) {
        if let Some(running) = self.trial.take() {
            self.undo_everywhere(running.candidate.point);
            self.decide(What::TakenBack, Some(&running.candidate), None, why.to_owned());
        }
        self.clear();
    }

    /// Takes a point back in all processes, as often as necessary, and waits until they have begun anew.
    fn is_surely_undone(&mut self, point: usize) -> bool {
        let begin = Instant::now();
        loop {
            for number in 0..self.targets.len() {
                self.renew();
                // A failure is noticed by `is_changed`.
                let _ = self.targets[number].undo(self.library.pack, point);
            }
            let mut left = self.targets.iter().filter(|target| target.is_alive() && target.is_changed(point));
            let Some(pid) = left.next().map(|target| target.pid) else { break };
            if begin.elapsed() > PATIENCE {
                let why = format!("{} cannot be put back", self.library.pack.points[point].setting);
                (self.report)(&LibraryProgress::Refused(pid, &why));
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let pack = self.library.pack;
        let begin = Instant::now();
        while begin.elapsed() < BEGUN
            && self.targets.iter_mut().any(|target| target.is_alive() && !target.has_begun_anew(pack, point))
        {
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }
}
