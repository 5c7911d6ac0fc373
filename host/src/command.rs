//! The commands that a run accepts, and their form, which the sender writes and the run reads. Every running
//! run accepts moves of tasks; a run that was started with control accepts all commands.
//!
//! A command has an answer: its result, and the command that undoes it, if one exists.

use std::path::{Path, PathBuf};

use thalweg_exec::Placement;
use thalweg_space::Command;

use crate::error::Error;

/// The target of commands that write values of the shared map.
pub(crate) const MAP_TARGET: &str = "map";

/// A command to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunCommand {
    /// Let all records leave the network, then continue with the network in the given file, and with the
    /// boxes of the given libraries as well.
    Load {
        /// The file of the network.
        network: PathBuf,
        /// Libraries with further boxes.
        libraries: Vec<PathBuf>,
    },
    /// Load the library's file again, and continue with the boxes in it.
    Reload {
        /// The library's file.
        library: PathBuf,
    },
    /// Stop reading; records inside the network continue.
    Pause,
    /// Continue reading.
    Resume,
    /// Stop reading, let all records leave the network, and pause.
    Drain,
    /// Stop reading, and end the run when all records have left the network.
    Stop,
    /// Move a task.
    Move {
        /// The task's id.
        task: u64,
        /// The new place.
        to: Placement,
        /// Whether the run itself must not move the task later.
        stays: bool,
    },
}

impl RunCommand {
    /// The command in the form that is sent. Paths become absolute, so that another process finds the files.
    pub fn to_command(&self) -> Command {
        let of_run = |name| Command::new("run", name);
        match self {
            RunCommand::Load { network, libraries } => {
                let load = of_run("load").with(absolute(network));
                libraries.iter().fold(load, |command, library| command.with(absolute(library)))
            }
            RunCommand::Reload { library } => of_run("reload").with(absolute(library)),
            RunCommand::Pause => of_run("pause"),
            RunCommand::Resume => of_run("resume"),
            RunCommand::Drain => of_run("drain"),
            RunCommand::Stop => of_run("stop"),
            RunCommand::Move { task, to, stays } => {
                let command = Command::new(format!("task {task}"), "move").with(to.to_string());
                if *stays { command } else { command.with(FREELY) }
            }
        }
    }

    /// Parses a command that was sent.
    ///
    /// # Errors
    /// If the command is unknown, or its arguments are wrong.
    pub fn read(command: &Command) -> Result<RunCommand, Error> {
        let wrong = |what: &str| Err(Error::run(what));
        Ok(match (command.name.as_str(), command.arguments.as_slice()) {
            ("load", [network, libraries @ ..]) => RunCommand::Load {
                network: network.into(),
                libraries: libraries.iter().map(PathBuf::from).collect(),
            },
            ("load", []) => return wrong("load takes the path of a network"),
            ("reload", [library]) => RunCommand::Reload { library: library.into() },
            ("reload", _) => return wrong("reload takes the path of a library"),
            ("pause", _) => RunCommand::Pause,
            ("resume", _) => RunCommand::Resume,
            ("drain", _) => RunCommand::Drain,
            ("stop", _) => RunCommand::Stop,
            ("move", [to, how @ ..]) => match (command.target.strip_prefix("task ").map(str::parse), how) {
                (Some(Ok(task)), []) => {
                    RunCommand::Move { task, to: to.parse().map_err(Error::run_of)?, stays: true }
                }
                (Some(Ok(task)), [how]) if how == FREELY => {
                    RunCommand::Move { task, to: to.parse().map_err(Error::run_of)?, stays: false }
                }
                _ => return wrong(MOVE),
            },
            ("move", []) => return wrong(MOVE),
            (other, _) => {
                let known = "load, reload, move, pause, resume, drain and stop";
                return Err(Error::run(format!("a run takes {known}, not `{other}`")));
            }
        })
    }
}

const MOVE: &str = "move takes a place, as in `worker 1`, for a task, as in `task 17`, and `freely` if the run may move it later";

/// The argument of `move` that lets the run itself move the task later.
const FREELY: &str = "freely";

/// The path in the form in which another process finds it.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_they_are_written() {
        for command in [
            RunCommand::Load { network: "/a/b.snet".into(), libraries: vec!["/a/libc.so".into()] },
            RunCommand::Reload { library: "/a/libc.so".into() },
            RunCommand::Pause,
            RunCommand::Resume,
            RunCommand::Drain,
            RunCommand::Stop,
            RunCommand::Move { task: 17, to: Placement::on_worker(1), stays: true },
            RunCommand::Move { task: 17, to: Placement::on_worker(1), stays: false },
            RunCommand::Move { task: 17, to: Placement { node: Some(2), worker: Some(1) }, stays: true },
        ] {
            assert_eq!(RunCommand::read(&command.to_command()).unwrap(), command);
        }
        for wrong in [
            Command::new("task 17", "move"),
            Command::new("box a", "move").with("worker 1"),
            Command::new("task 17", "move").with("core 1"),
            Command::new("task 17", "move").with("worker 1").with("soon"),
            Command::new("task 17", "move").with("worker 1").with("freely").with("freely"),
            Command::new("run", "load"),
            Command::new("run", "reload").with("a").with("b"),
            Command::new("run", "jump"),
        ] {
            assert!(RunCommand::read(&wrong).is_err(), "{wrong:?}");
        }
    }
}
