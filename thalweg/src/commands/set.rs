//! `thalweg set`: change a setting of a run while it runs.

use std::str::FromStr;
use std::time::Duration;

use thalweg_exec::Placement;
use thalweg_host::settings::written;
use thalweg_host::{Change, LiveRun, RunCommand};

use crate::Terminal;
use crate::commands::control::{Lease, say_done};
use crate::failure::Failure;
use crate::units::duration;

const EXAMPLES: &str = "\
Examples:
  # of the newest run
  thalweg set monitor.mode full
  # of process 4242
  thalweg set 4242 exec.quantum 128
  # lets one worker take part and parks the others
  thalweg set exec.workers 1
  # a time or a size may have a unit
  thalweg set exec.quantum_us 1ms
  # switches probes off, by a pattern of their names
  thalweg set 'probe/net.*.on' 0
  # moves task 17 to worker 1
  thalweg set task/17.worker 1
  # puts the former value back after 10 s
  thalweg set exec.quantum 8 --for 10s";

/// How long to wait for the run's answer to a command.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What `thalweg set` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "thalweg set [OPTIONS] [SPACE] NAME VALUE")]
pub(crate) struct Arguments {
    /// A space (as in `thalweg report`; the newest if omitted), a setting's name (`thalweg get` lists them), a value.
    #[arg(value_name = "[SPACE] NAME VALUE", num_args = 2..=3, required = true)]
    space_name_value: Vec<String>,
    #[command(flatten)]
    lease: Lease,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (space, name, value) = split(&arguments.space_name_value)?;
    let run = LiveRun::find(space)?.called("thalweg set");
    let terms = arguments.lease.terms();
    if let Some(task) = name.strip_prefix("task/").and_then(|name| name.strip_suffix(".worker")) {
        // A task's worker is no setting, of which there would be too many: it is moved by a command.
        let command = RunCommand::Move {
            task: number(task, "task")?,
            to: Placement::on_worker(number(value, "worker")?),
        };
        let result = run.command_for(&command, ANSWER_MAX, terms)?.result;
        return say_done(&arguments.lease.said(result), terminal);
    }
    let Change { before, value, adopted } = run.set_for(name, value, terms)?;
    let changed = match &before {
        Some(setting) => {
            format!("{name} = {} (was {})", written(setting, value), written(setting, setting.value))
        }
        None => format!("{name} = {value}"),
    };
    let said = match adopted {
        Some(after) => format!("{changed}, adopted after {}", duration(after.as_nanos() as f64)),
        None if before.is_some_and(|setting| setting.value == value) => {
            format!("{changed}: nothing to adopt")
        }
        // Probes share their switches, and the sampling is looked at where a trace begins.
        None if name.starts_with("probe") => format!("{changed}, from now on"),
        None => format!("{changed}, not adopted yet: the run does so at its next safe point"),
    };
    say_done(&arguments.lease.said(said), terminal)
}

fn number<N: FromStr>(text: &str, what: &str) -> Result<N, Failure> {
    text.parse().map_err(|_| Failure::Usage(format!("`{text}` is no number of a {what}")))
}

fn split(arguments: &[String]) -> Result<(Option<&str>, &str, &str), Failure> {
    match arguments {
        [name, value] => Ok((None, name, value)),
        [space, name, value] => Ok((Some(space), name, value)),
        _ => Err(Failure::Usage("set takes a setting's name and a value".to_owned())),
    }
}
