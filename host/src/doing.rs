//! Makes changes of a run that can be undone: a change of a setting, or, by the name `task/N.worker`, a move
//! of a task to another worker.

use std::str::FromStr;
use std::time::Duration;

use thalweg_exec::Placement;
use thalweg_space::lease::Terms;

use crate::command::RunCommand;
use crate::error::Error;
use crate::live::{Change, LiveRun, Obeyed};
use crate::settings::written;

/// The longest wait for the run's answer to a command.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The result of a change.
#[derive(Clone, Debug)]
pub enum Changed {
    /// A setting was changed.
    Setting(Change),
    /// A task was moved to another worker.
    Moved(Obeyed),
}

/// The arguments of [`LiveRun::change`] that undo a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    /// The setting's name.
    pub setting: String,
    /// The former value.
    pub value: String,
}

impl LiveRun {
    /// Changes a setting, or moves a task if the name is `task/N.worker`, permanently or under a lease with
    /// the given terms. Moving a task is a command of the run and not a setting, because a run may have
    /// millions of tasks. The arguments are those of `thalweg set` and of a verdict's action.
    ///
    /// # Errors
    /// If [`LiveRun::set_for`] or [`LiveRun::command_for`] fails.
    pub fn change(&self, setting: &str, value: &str, terms: Option<Terms>) -> Result<Changed, Error> {
        let Some(task) = moved(setting) else {
            return Ok(Changed::Setting(self.set_for(setting, value, terms)?));
        };
        let to = Placement::on_worker(number(value, "worker")?);
        let command = RunCommand::Move { task: number(task, "task")?, to, stays: true };
        Ok(Changed::Moved(self.command_for(&command, ANSWER_MAX, terms)?))
    }
}

impl Changed {
    /// The change that undoes a change of the given setting, if one exists.
    pub fn undo(&self, setting: &str) -> Option<Undo> {
        let value = match self {
            Changed::Setting(change) => {
                let before = change.before.as_ref()?;
                written(before, before.value)
            }
            Changed::Moved(obeyed) => match RunCommand::read(obeyed.undo.as_ref()?).ok()? {
                RunCommand::Move { to, .. } => to.worker?.to_string(),
                _ => return None,
            },
        };
        Some(Undo { setting: setting.to_owned(), value })
    }
}

/// The task in a name of the form `task/N.worker`.
fn moved(setting: &str) -> Option<&str> {
    setting.strip_prefix("task/")?.strip_suffix(".worker")
}

fn number<N: FromStr>(text: &str, what: &str) -> Result<N, Error> {
    text.parse().map_err(|_| Error::usage(format!("`{text}` is no number of a {what}")))
}
