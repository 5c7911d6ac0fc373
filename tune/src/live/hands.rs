//! Changes a run by leases, so that the run restores all tried values when the tuner dies.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use thalweg_space::lease::{Lease, Terms};
use thalweg_space::reader::{Sent, SpaceReader};
use thalweg_space::{Answer, Command, Error};

use super::placing::{PLACED_MAX, WORKERS};
use super::sample::Sample;
use crate::action::{Action, Knob};
use crate::control::Decision;

/// The time of a lease of tried values, after which the run restores the former values unless the tuner
/// renews the lease. Trials switch values more often, and each switch renews the lease.
const LASTS: Duration = Duration::from_secs(30);
/// How long the run may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The number of commands that may wait for their answers at the same time.
const AT_ONCE: usize = 32;
/// How often, and how many times at most, the tuner looks whether tasks are where they should be after a change
/// of the number of workers; it is satisfied after [`CALM`] looks in a row.
const INSISTS_EVERY: Duration = Duration::from_millis(4);
const INSISTS_MAX: usize = 12;
const CALM: usize = 2;
/// The largest number of characters of a text in a note.
const NOTE_MAX: usize = 300;

/// Changes a run.
pub(super) struct Hands<'r> {
    reader: &'r SpaceReader,
    leases: HashMap<String, Lease>,
    /// The actions that were kept.
    kept: Vec<Action>,
}

/// Why something could not be done.
pub(super) enum Refused {
    /// Another process has set the setting, so the tuner must not change it.
    TakenOver(String, String),
    /// The run refused the change, or has ended.
    Failed(String),
}

impl<'r> Hands<'r> {
    pub(super) fn new(reader: &'r SpaceReader) -> Hands<'r> {
        Hands { reader, leases: HashMap::new(), kept: Vec::new() }
    }

    /// Applies the new values of an action for now.
    pub(super) fn put(&mut self, action: &Action) -> Result<(), Refused> {
        for change in &action.changes {
            let Knob::Setting(name) = &change.knob else { continue };
            let set = match self.leases.get_mut(name) {
                Some(lease) => lease.set(change.to),
                None => self.lease(name, change.to),
            };
            set.map_err(|error| self.lost(name, &error))?;
        }
        self.move_tasks(action, Some(Terms::lasting(LASTS).while_alive()), &|_| true)
    }

    fn lease(&mut self, name: &str, value: u64) -> Result<(), Error> {
        let lease = self.reader.lease(name, value, Terms::lasting(LASTS).while_alive())?;
        self.leases.insert(name.to_owned(), lease);
        Ok(())
    }

    fn lost(&mut self, name: &str, error: &Error) -> Refused {
        self.leases.remove(name);
        Refused::TakenOver(name.to_owned(), format!("{error:#}"))
    }

    /// Applies the new values of an action for good.
    pub(super) fn keep(&mut self, action: &Action) -> Result<(), Refused> {
        self.put(action)?;
        for change in &action.changes {
            let Knob::Setting(name) = &change.knob else { continue };
            if let Some(lease) = self.leases.remove(name) {
                lease.confirm().map_err(|error| self.lost(name, &error))?;
            }
        }
        self.kept.push(action.clone());
        self.move_tasks(action, None, &|_| true)
    }

    /// Whether a task stays where it is because of an action that was kept; otherwise the run itself may move it.
    pub(super) fn holds(&self, task: u64) -> bool {
        let is_it = |knob: &Knob| matches!(knob, Knob::Worker { task: moved, .. } if *moved == task);
        self.kept.iter().flat_map(|action| &action.changes).any(|change| is_it(&change.knob))
    }

    /// Takes an action back for good. Values that another process has set since then stay.
    pub(super) fn undo(&mut self, action: &Action) -> Result<(), Refused> {
        let back = action.inverse();
        if let Some(at) = self.kept.iter().position(|kept| kept == action) {
            self.kept.remove(at);
        }
        let mut taken = None;
        for change in &back.changes {
            let Knob::Setting(name) = &change.knob else { continue };
            let done = match self.leases.remove(name) {
                Some(lease) => lease.give_back(),
                // The action was kept, which ended its lease, so the former value is set without one.
                None => self.reader.set(name, change.to),
            };
            taken = done.map_err(|error| self.lost(name, &error)).err().or(taken);
        }
        self.move_tasks(&back, None, &|task| self.holds(task))?;
        taken.map_or(Ok(()), Err)
    }

    /// Gives up the lease of a setting that another process has set.
    pub(super) fn let_go(&mut self, name: &str) {
        self.leases.remove(name);
    }

    /// Moves the tasks of an action, for good or under a lease. Tasks that have ended are no failure. `stays` says which
    /// tasks the run must not move later.
    fn move_tasks(
        &self,
        action: &Action,
        terms: Option<Terms>,
        stays: &dyn Fn(u64) -> bool,
    ) -> Result<(), Refused> {
        let moves = action.changes.iter().filter_map(|change| match change.knob {
            Knob::Worker { task, .. } => Some((task, change.to)),
            Knob::Setting(_) => None,
        });
        let moves: Vec<(u64, u64)> = moves.collect();
        self.move_all(&moves, terms, stays)?;
        if action.changes.iter().any(|change| change.knob == Knob::Setting(WORKERS.to_owned())) {
            self.insist(&moves, terms, stays);
        }
        Ok(())
    }

    /// Moves tasks again until they are where they should be: after a change of the number of workers the run
    /// asks all workers for their tasks and places these, which may come after the moves.
    fn insist(&self, moves: &[(u64, u64)], terms: Option<Terms>, stays: &dyn Fn(u64) -> bool) {
        let mut calm = 0;
        for _ in 0..INSISTS_MAX {
            thread::sleep(INSISTS_EVERY);
            let Ok(now) = Sample::take(self.reader) else { return };
            let is_elsewhere = |&&(task, worker): &&(u64, u64)| {
                let at = now.tasks.get(&task).and_then(|task| task.worker);
                at.is_some_and(|at| u64::from(at) != worker)
            };
            let elsewhere: Vec<(u64, u64)> = moves.iter().filter(is_elsewhere).copied().collect();
            calm = if elsewhere.is_empty() { calm + 1 } else { 0 };
            if calm == CALM {
                return;
            }
            // A task may have ended, or its worker may not take part, and then the run has placed it.
            let _ = self.move_all(&elsewhere, terms, stays);
        }
    }

    /// Moves tasks back to the workers that they had before the run placed them again, if there are not too
    /// many tasks to move at once.
    pub(super) fn move_back(&self, places: &[(u64, u64)]) {
        if !places.is_empty() && places.len() <= PLACED_MAX {
            // Errors are ignored: a task may have ended, or its former worker may be parked, in which case
            // the run itself has placed the task.
            let stays = |task| self.holds(task);
            let _ = self.move_all(places, None, &stays);
            self.insist(places, None, &stays);
        }
    }

    fn move_all(
        &self,
        moves: &[(u64, u64)],
        terms: Option<Terms>,
        stays: &dyn Fn(u64) -> bool,
    ) -> Result<(), Refused> {
        let failed = |error: Error| Refused::Failed(format!("{error:#}"));
        let (mut done, mut why) = (0, None);
        for part in moves.chunks(AT_ONCE) {
            let mut sent = Vec::with_capacity(part.len());
            for (task, worker) in part {
                let command = Command::new(format!("task {task}"), "move").with(format!("worker {worker}"));
                let command = if stays(*task) { command } else { command.with("freely") };
                sent.push(match terms {
                    None => Asked::Plain(self.reader.send(&command).map_err(failed)?),
                    Some(terms) => Asked::Leased(self.reader.send_leased(&command, terms).map_err(failed)?),
                });
            }
            for asked in &sent {
                match asked.sent().wait(ANSWER_MAX).map_err(failed)? {
                    Answer::Done { .. } => done += 1,
                    Answer::Failed { why: text } => why = Some(text),
                }
            }
        }
        match why {
            Some(why) if done == 0 => Err(Refused::Failed(why)),
            _ => Ok(()),
        }
    }

    /// Lets the run record a decision among its events; returns false if the run accepts no commands yet. A
    /// run without the command `note` records nothing.
    pub(super) fn note(&self, decision: &Decision) -> bool {
        let mut command = Command::new("tuner", "note");
        command.arguments = noted(decision);
        let Ok(sent) = self.reader.send(&command) else { return false };
        let _ = sent.wait(Duration::from_millis(200));
        true
    }
}

/// A decision as the arguments of the command `note`, by which a run records it among its events.
pub fn noted(decision: &Decision) -> Vec<String> {
    let number = |value: f64| format!("{value:e}");
    let gain = decision.gain;
    let figure = |of: fn(&crate::control::Gain) -> f64| number(gain.as_ref().map_or(f64::NAN, of));
    let action = decision.action.clone().unwrap_or_default();
    let (values, back) = (action.values(), action.inverse().values());
    // A list of values that was cut could not be used to undo the action, so a list that is too long is left
    // empty.
    let whole = values.len() <= 2 * NOTE_MAX && back.len() <= 2 * NOTE_MAX;
    let (values, back) = if whole { (values, back) } else { (String::new(), String::new()) };
    vec![
        decision.number.to_string(),
        decision.what.word().to_owned(),
        number(decision.predicted.unwrap_or(f64::NAN)),
        figure(|gain| gain.mean),
        figure(|gain| gain.least),
        figure(|gain| gain.most),
        gain.map_or(0, |gain| gain.pairs).to_string(),
        cut(&decision.change),
        values,
        back,
        cut(&decision.model),
        cut(&decision.why),
    ]
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(NOTE_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

enum Asked {
    Plain(Sent),
    Leased(thalweg_space::reader::LeasedCommand),
}

impl Asked {
    fn sent(&self) -> &Sent {
        match self {
            Asked::Plain(sent) => sent,
            Asked::Leased(leased) => leased.sent(),
        }
    }
}
