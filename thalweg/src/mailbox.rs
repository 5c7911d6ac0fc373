//! Moves of tasks (`thalweg set task/17.worker 1`), which every run takes through its mailbox; what else a run under
//! control takes is in [`crate::control`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thalweg_exec::{TaskId, TaskMover};
use thalweg_space::mailbox::{Mailbox, Received};
use thalweg_space::{Command, Space};

use crate::failure::Failure;

/// How often the mailbox is looked into.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the workers have to take note of a move.
const MOVE_MAX: Duration = Duration::from_secs(3);

/// The command that moves a task to a worker.
pub(crate) fn move_command(task: u64, worker: u64) -> Command {
    Command::new(format!("task {task}"), "move").with(format!("worker {worker}"))
}

/// Answers the commands to a run without control, while it lives, and notes that it does.
pub(crate) struct Answering {
    thread: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Answering {
    /// Opens the mailbox of `space` for a run whose tasks `mover` moves.
    pub(crate) fn start(space: &Space, mover: TaskMover) -> Result<Answering, Failure> {
        let mut mailbox = space.mailbox().map_err(|error| Failure::coded("E0903", error.to_string()))?;
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let space = space.clone();
        let answer = move || {
            while !seen.load(Ordering::Relaxed) {
                space.note_alive();
                answer_all(&mut mailbox, &mover);
                thread::park_timeout(LOOK_EVERY);
            }
        };
        let thread = thread::Builder::new().name("mailbox".into()).spawn(answer);
        let thread =
            thread.map_err(|error| Failure::Run(format!("cannot start the mailbox's thread: {error}")))?;
        Ok(Answering { thread: Some(thread), ended })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// An event of the mailbox that cannot be written is no reason to stop the run, and the sender has its answer.
fn answer_all(mailbox: &mut Mailbox, mover: &TaskMover) {
    while let Ok(Some(received)) = mailbox.poll() {
        let _ = answer(received, mover);
    }
}

/// Moves a task as `received` asks for.
pub(crate) fn answer(received: Received, mover: &TaskMover) -> Result<(), thalweg_space::Error> {
    let Some((task, worker)) = move_of(received.command()) else {
        let Command { target, name, .. } = received.command();
        let why = format!(
            "this run takes only moves of tasks, not `{name}` for `{target}`: it was not started by `thalweg run --control`"
        );
        return received.failed(&why);
    };
    let moved = mover.move_task(TaskId(task), worker as usize).and_then(|moving| moving.wait(MOVE_MAX));
    match moved {
        Ok(from) if from as u64 == worker => {
            received.done(&format!("task {task} is on worker {worker} already"))
        }
        Ok(from) => received.done_with_inverse(
            &format!("task {task} moves from worker {from} to worker {worker}"),
            &move_command(task, from as u64),
        ),
        Err(error) => received.failed(&error.to_string()),
    }
}

fn move_of(command: &Command) -> Option<(u64, u64)> {
    let task = command.target.strip_prefix("task ")?.parse().ok()?;
    let [worker] = &command.arguments[..] else { return None };
    let worker = worker.strip_prefix("worker ")?.parse().ok()?;
    (command.name == "move").then_some((task, worker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_read_as_it_is_written() {
        assert_eq!(move_of(&move_command(17, 1)), Some((17, 1)));
        assert_eq!(move_of(&Command::new("task 17", "move")), None);
        assert_eq!(move_of(&Command::new("task 17", "stop").with("worker 1")), None);
        assert_eq!(move_of(&Command::new("box a", "move").with("worker 1")), None);
    }
}
