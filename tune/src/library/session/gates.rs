//! Gatekeepers: helper processes by which something has to pass that does not go together with a change of the
//! tuner. Before a gatekeeper lets it pass, the tuner takes the change back in all processes.

use std::time::{Duration, Instant};

use thalweg_pack::{Action, Change};

use super::{LibraryProgress, Session};
use crate::control::What;
use crate::library::far::FarHalf;
use crate::library::gate::GateProcess;
use crate::library::hoster;
use crate::library::member::Kind;

/// How long to wait until no message is left that was begun with the value that was taken back.
const BEGUN: Duration = Duration::from_millis(500);
/// How long the tuner tries to take a change back while something waits at a gate.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A gatekeeper of some of the processes.
pub(super) struct Gate<'l> {
    keeper: Keeper<'l>,
    state: State,
}

/// A gatekeeper on this machine, or the one of the process with this number on a node.
enum Keeper<'l> {
    Here(GateProcess),
    Far(&'l FarHalf, i32),
}

impl Keeper<'_> {
    fn next(&mut self) -> Option<String> {
        match self {
            Keeper::Here(process) => process.next(),
            Keeper::Far(half, of) => half.line_of_gate(*of),
        }
    }

    fn order(&mut self, order: &str) {
        match self {
            Keeper::Here(process) => process.order(order),
            Keeper::Far(half, of) => half.order_gate(*of, order),
        }
    }
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

/// The way of a process to its gatekeeper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::library) enum Way {
    /// The process needs none.
    #[default]
    Free,
    /// The gatekeeper with this index.
    By(usize),
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

    /// The index of the gatekeeper of the target with this index.
    fn gate_of(&mut self, target: usize) -> Result<usize, String> {
        let is_far = |gate: &Gate<'_>, of: i32, half: &FarHalf| matches!(&gate.keeper, Keeper::Far(known, it) if std::ptr::eq(*known, half) && *it == of);
        let (known, keeper) = match &self.targets[target].kind {
            Kind::Here(target) => {
                let of = hoster::daemon_of(target.pid)?;
                let is_it =
                    |gate: &Gate<'_>| matches!(&gate.keeper, Keeper::Here(process) if process.of == of);
                match self.gates.iter().position(is_it) {
                    Some(known) => return Ok(known),
                    None => (None, Keeper::Here(GateProcess::start(target, of, (self.library.helper)())?)),
                }
            }
            Kind::Far(far) => {
                let of = far.gate()?;
                let known = self.gates.iter().position(|gate| is_far(gate, of, far.half));
                (known, Keeper::Far(far.half, of))
            }
        };
        Ok(known.unwrap_or_else(|| {
            self.gates.push(Gate { keeper, state: State::Closed });
            self.gates.len() - 1
        }))
    }

    /// Whether an action of this kind can be done in the target with this index now: `Err` with the reason if
    /// it can never be.
    pub(super) fn is_kept(&self, action: &Action, target: usize) -> Result<bool, String> {
        match &self.targets[target].way {
            _ if action.gatekeeper.is_none() || self.library.advise => Ok(true),
            Way::Free => Ok(true),
            Way::None(why) => Err(why.clone()),
            Way::By(gate) => match self.gates.get(*gate).map(|gate| &gate.state) {
                Some(State::Kept) => Ok(true),
                Some(State::Closed) | None => Ok(false),
                Some(State::Gone(why)) => Err(why.clone()),
            },
        }
    }

    /// Does what the gatekeepers ask for.
    pub(super) fn see_gates(&mut self) {
        for gate in 0..self.gates.len() {
            while let Some(line) = self.gates[gate].keeper.next() {
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
                    hoster::ENDED => self.gate_has_gone(gate, "the helper that starts hosts has ended"),
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
        if self.take_back_guarded(&why) {
            self.gates[gate].keeper.order(hoster::ADMIT);
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
            let Some(name) = left.next().map(|target| target.name.clone()) else { break };
            if begin.elapsed() > PATIENCE {
                let why = format!("{} cannot be put back", self.library.pack.points[point].setting);
                (self.report)(&LibraryProgress::Refused(&name, &why));
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
