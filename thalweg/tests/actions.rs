//! What verdicts say can be done is taken as it stands: settings by `thalweg set`, commands by `thalweg`.

mod planted_run;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use planted_run::planted_nets::simulation::Simulation;
use planted_run::planted_nets::{CAUSES, Net};
use planted_run::while_it_runs;
use thalweg_monitor::{Action, CommandLine, NewValue};

/// Networks of each cause.
const VARIANTS: u64 = 4;

fn thalweg(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).stdin(Stdio::null()).output().expect("thalweg starts")
}

/// Applies it to the run in this space.
fn set(space: &Path, NewValue { setting, value, .. }: &NewValue) {
    let output = thalweg(&["set", space.to_str().expect("UTF-8"), setting, value]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "thalweg set {setting} {value}: {said}");
}

/// Parses it: whoever asks for help is told what is wrong with what stands before.
fn parse(CommandLine { command, arguments, .. }: &CommandLine) {
    let mut line = vec![command.as_str()];
    line.extend(arguments.iter().map(String::as_str));
    line.push("--help");
    let output = thalweg(&line);
    assert!(output.status.success(), "thalweg {line:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_verdicts_say_can_be_done_is_taken() {
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
            while_it_runs(&net, |space, start| {
                start();
                settings.iter().for_each(|value| set(space, value));
            });
        }
    }
    assert!(applied >= 2 * VARIANTS as usize, "mappings and quanta at least: {applied}");
}
