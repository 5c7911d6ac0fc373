//! `thalweg load`, `pause`, `resume`, `drain`, `stop`: commands to a run that was started with `--control`.

use std::path::PathBuf;
use std::time::Duration;

use thalweg_host::amount::time;
use thalweg_host::{LiveRun, RunCommand, libraries};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;

const LOAD_EXAMPLES: &str = "\
The run stops reading, lets all records leave, starts the other network and goes on reading. A network with errors \
is refused, and the one that runs goes on. Records that synchrocells hold when the network ends are failures, as \
at the end of a run.

Examples:
  # in the newest run
  thalweg load better.snet
  # in process 4242, with more boxes
  thalweg load 4242 better.snet --boxes ./libnew.so

Exit codes: 0 done, 1 the run refused it, 2 bad arguments or no such run.";

/// What `thalweg load` is told.
#[derive(clap::Args)]
#[command(after_help = LOAD_EXAMPLES, override_usage = "thalweg load [OPTIONS] [SPACE] NET.snet")]
pub(crate) struct Load {
    /// A space (as in `thalweg report`; the newest if omitted), and the network.
    #[arg(value_name = "[SPACE] NET.snet", num_args = 1..=2, required = true)]
    space_net: Vec<String>,
    /// A library with more boxes; may be given several times.
    #[arg(long, value_name = "LIB")]
    boxes: Vec<PathBuf>,
    #[command(flatten)]
    patience: Patience,
}

/// What the other commands are told.
#[derive(clap::Args)]
pub(crate) struct Simple {
    /// A space (as in `thalweg report`; the newest if omitted).
    #[arg(value_name = "SPACE")]
    space: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

#[derive(clap::Args)]
pub(super) struct Patience {
    /// How long to wait for the answer, such as 500ms, 10s, 2min.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    timeout: Duration,
}

pub(crate) fn load(arguments: &Load, terminal: Terminal) -> Result<(), Failure> {
    let (space, net) = match arguments.space_net.as_slice() {
        [net] => (None, net),
        [space, net] => (Some(space.as_str()), net),
        _ => return Err(Failure::Usage("load takes a network".to_owned())),
    };
    let libraries = arguments.boxes.iter().map(|library| libraries::find(library));
    let command = RunCommand::Load { network: net.into(), libraries: libraries.collect::<Result<_, _>>()? };
    send(space, &command, &arguments.patience, terminal)
}

pub(crate) fn simple(command: &RunCommand, arguments: &Simple, terminal: Terminal) -> Result<(), Failure> {
    send(arguments.space.as_deref(), command, &arguments.patience, terminal)
}

pub(super) fn send(
    space: Option<&str>,
    command: &RunCommand,
    patience: &Patience,
    terminal: Terminal,
) -> Result<(), Failure> {
    say_done(&LiveRun::find(space)?.command(command, patience.timeout)?.result, terminal)
}

/// Says what a run did.
pub(super) fn say_done(result: &str, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::new(terminal);
    output.line(result)?;
    output.flush()
}
