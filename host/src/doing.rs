//! Changing a run so that the change can be taken back: a setting, or by the name `task/N.worker` a task's worker.

use std::str::FromStr;
use std::time::Duration;

use thalweg_exec::Placement;
use thalweg_space::lease::Terms;

use crate::command::RunCommand;
use crate::error::Error;
use crate::live::{Change, LiveRun, Obeyed};
use crate::settings::written;

/// How long to wait for the run's answer to a command.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What was changed.
#[derive(Clone, Debug)]
pub enum Changed {
    /// A setting.
    Setting(Change),
    /// A task's worker.
    Moved(Obeyed),
}

/// What takes a change back: the arguments of [`LiveRun::change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    /// The setting's name.
    pub setting: String,
    /// The value it had.
    pub value: String,
}

impl LiveRun {
    /// Sets a setting, or moves a task if the name is `task/N.worker`. Moving is a command, because a setting for each
    /// task would be too many. for good or under a lease of these terms. The arguments are those of `thalweg set` and
    /// of a verdict's action.
    ///
    /// # Errors
    /// As [`LiveRun::set_for`] and [`LiveRun::command_for`].
    pub fn change(&self, setting: &str, value: &str, terms: Option<Terms>) -> Result<Changed, Error> {
        let Some(task) = moved(setting) else {
            return Ok(Changed::Setting(self.set_for(setting, value, terms)?));
        };
        let to = Placement::on_worker(number(value, "worker")?);
        let command = RunCommand::Move { task: number(task, "task")?, to };
        Ok(Changed::Moved(self.command_for(&command, ANSWER_MAX, terms)?))
    }
}

impl Changed {
    /// What takes the change of this setting back, if anything does.
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

/// The task of `task/N.worker`.
fn moved(setting: &str) -> Option<&str> {
    setting.strip_prefix("task/")?.strip_suffix(".worker")
}

fn number<N: FromStr>(text: &str, what: &str) -> Result<N, Error> {
    text.parse().map_err(|_| Error::usage(format!("`{text}` is no number of a {what}")))
}
