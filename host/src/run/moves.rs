//! Moves of tasks (`thalweg set task/17.worker 1`) and writes of the shared map, which every run accepts
//! through its mailbox; the other commands of a run under control are in [`super::control`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thalweg_exec::{Former, Placement, TaskId, TaskMover};
use thalweg_space::mailbox::{Mailbox, Received};
use thalweg_space::{Command, Space};

use super::map_writes::{self, is_about_map};
use super::notes::{Notes, is_note};
use crate::command::RunCommand;
use crate::error::{Error, chain};

/// The interval at which the mailbox is read.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The longest wait until the workers have adopted a move.
const MOVE_MAX: Duration = Duration::from_secs(3);

/// The commands that a run without control undoes when their lease ends.
const REVERSIBLE: &[&[&str]] = &[&["move"]];

/// The thread of a run without control that answers commands, records that the process is alive, and ends
/// leases that have expired.
pub(super) struct Answering {
    thread: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Answering {
    /// Opens the mailbox of `space` for a run whose tasks `mover` moves.
    pub(super) fn start(space: &Space, mover: TaskMover) -> Result<Answering, Error> {
        let mailbox = space.mailbox().map_err(|error| Error::coded_of("E0903", error))?;
        let mut mailbox = mailbox.reversible(REVERSIBLE);
        let mut notes = Notes::new(space);
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let space = space.clone();
        let answer = move || {
            while !seen.load(Ordering::Relaxed) {
                space.note_alive();
                // Ending a lease fails only if the space was removed, and then no setting exists that would
                // have to be restored.
                let _ = space.see_to_leases();
                answer_all(&mut mailbox, &mover, &mut notes, &space);
                thread::park_timeout(LOOK_EVERY);
            }
        };
        let thread = thread::Builder::new().name("mailbox".into()).spawn(answer);
        let thread =
            thread.map_err(|error| Error::run("cannot start the mailbox's thread").because(error))?;
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

/// Answers all commands. If the event of a command cannot be written, the run continues, because the
/// command's sender got its answer nevertheless.
fn answer_all(mailbox: &mut Mailbox, mover: &TaskMover, notes: &mut Notes, space: &Space) {
    while let Ok(Some(received)) = mailbox.poll() {
        if is_about_map(received.command()) {
            let _ = map_writes::answer(space, received);
            continue;
        }
        let _ = answer(received, mover, notes);
    }
}

/// Answers a command: moves a task, or records a tuner's note. Other commands are refused.
fn answer(received: Received, mover: &TaskMover, notes: &mut Notes) -> Result<(), thalweg_space::Error> {
    if is_note(received.command()) {
        return notes.answer(received);
    }
    if received.command().name == "move" {
        return match RunCommand::read(received.command()) {
            Ok(RunCommand::Move { task, to, stays }) => answer_move(received, mover, task, to, stays),
            Ok(_) => unreachable!("it is a move"),
            Err(error) => received.failed(&chain(&error)),
        };
    }
    let Command { target, name, .. } = received.command();
    let why = format!(
        "this run takes only moves of tasks and values of the shared map, not `{name}` for `{target}`: it was not started by `thalweg run --control`"
    );
    received.failed(&why)
}

/// Moves a task as `received` requests.
pub(super) fn answer_move(
    received: Received,
    mover: &TaskMover,
    task: u64,
    to: Placement,
    stays: bool,
) -> Result<(), thalweg_space::Error> {
    let task_id = TaskId(task);
    let moving = if stays { mover.move_task(task_id, to) } else { mover.move_freely(task_id, to) };
    match moving.and_then(|moving| moving.wait_for_former(MOVE_MAX)) {
        Ok(Former { worker, .. }) if to.worker == Some(worker) => {
            received.done(&format!("task {task} is on {to} already"))
        }
        Ok(Former { worker, stayed }) => received.done_with_inverse(
            &format!("task {task} moves from worker {worker} to {to}"),
            &RunCommand::Move { task, to: Placement::on_worker(worker), stays: stayed }.to_command(),
        ),
        Err(error) => received.failed(&chain(&error)),
    }
}
