//! The actions of verdicts are valid: `thalweg set` accepts their settings, and `thalweg` accepts their
//! commands.

mod planted_run;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use planted_run::planted_nets::simulation::Simulation;
use planted_run::planted_nets::{CAUSES, Net};
use planted_run::{Place, build, runtime_of, space_in};
use thalweg_exec::{TaskId, TaskMover};
use thalweg_host::RunCommand;
use thalweg_monitor::{Action, CommandLine, NewValue};
use thalweg_space::mailbox::{Mailbox, Received};

/// The number of networks that are made for each cause of a verdict.
const VARIANTS: u64 = 4;

fn thalweg(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).stdin(Stdio::null()).output().expect("thalweg starts")
}

/// Applies the setting to the run with this space.
fn set(space: &Path, NewValue { setting, value, .. }: &NewValue) {
    let output = thalweg(&["set", space.to_str().expect("UTF-8"), setting, value]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "thalweg set {setting} {value}: {stderr}");
}

/// Parses the command line with `--help` added at its end: errors in the arguments before `--help` are
/// reported, and the command does not run.
fn parse(CommandLine { command, arguments, .. }: &CommandLine) {
    let mut line = vec![command.as_str()];
    line.extend(arguments.iter().map(String::as_str));
    line.push("--help");
    let output = thalweg(&line);
    assert!(output.status.success(), "thalweg {line:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs the network until `look` returns. The run accepts moves of tasks, as each run of `thalweg run` does.
fn while_it_takes_moves(net: &Net, look: impl FnOnce(&Path)) {
    let place = Place::new();
    let space = space_in(&place);
    let runtime = runtime_of(net, &space);
    build(net, &runtime, &space, || true);
    runtime.start();
    let mut mailbox = space.mailbox().expect("a mailbox");
    let over = &AtomicBool::new(false);
    let mover = runtime.mover();
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || answer(&mut mailbox, &mover, over));
        let over = Over(over, answering.thread().clone());
        look(&place.0);
        drop(over);
    });
    runtime.abort();
    // A network that stands still for ever was aborted, which gives an error.
    let _ = runtime.join();
}

/// Ends the run when `look` has returned or panicked.
struct Over<'a>(&'a AtomicBool, std::thread::Thread);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.unpark();
    }
}

fn answer(mailbox: &mut Mailbox, mover: &TaskMover, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        match mailbox.poll().expect("the mailbox is there") {
            Some(received) => move_task(received, mover),
            None => std::thread::park_timeout(Duration::from_millis(1)),
        }
    }
}

fn move_task(received: Received, mover: &TaskMover) {
    let moved = match RunCommand::read(received.command()) {
        Ok(RunCommand::Move { task, to, .. }) => mover
            .move_task(TaskId(task), to)
            .and_then(|moving| moving.wait(Duration::from_secs(10)))
            .map_err(|error| error.to_string()),
        other => Err(format!("{other:?} is no move")),
    };
    match moved {
        Ok(from) => received.done(&format!("it was on worker {from}")),
        Err(error) => received.failed(&error),
    }
    .expect("the sender gets an answer");
}

#[test]
fn actions_that_verdicts_suggest_are_accepted() {
    let mut applied = 0;
    let planted = CAUSES.iter().flat_map(|&cause| (0..VARIANTS).map(move |seed| Net::planted(cause, seed)));
    for net in planted {
        let actions = Simulation::new(&net).run().verdict.finding.actions;
        let settings: Vec<&NewValue> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Set(value) => Some(value),
                Action::Run(line) => {
                    parse(line);
                    None
                }
            })
            .collect();
        applied += settings.len();
        if !settings.is_empty() {
            while_it_takes_moves(&net, |space| settings.iter().for_each(|value| set(space, value)));
        }
    }
    assert!(applied >= 2 * VARIANTS as usize, "mappings and quanta at least: {applied}");
}
