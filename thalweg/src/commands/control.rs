//! `thalweg load`, `pause`, `resume`, `drain`, `stop`: commands to a run that was started with `--control`.

use std::path::PathBuf;
use std::time::Duration;

use thalweg_host::amount::time;
use thalweg_host::{LiveRun, RunCommand, libraries, spaces};

use thalweg_space::lease::Terms;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::units::duration;

const LOAD_EXAMPLES: &str = "\
The run stops reading, lets all records leave, starts the other network and goes on reading. A network with errors \
is refused, and the one that runs goes on. Records that synchrocells hold when the network ends are failures, as \
at the end of a run.

Examples:
  # in the newest run
  thalweg load better.snet
  # in process 4242, with more boxes
  thalweg load 4242 better.snet --boxes ./libnew.so
  # for 10 minutes, then the former network again
  thalweg load trial.snet --for 10min

Exit codes: 0 done, 1 the run refused it, 2 bad arguments or no such run.";

/// The arguments of `thalweg load`.
#[derive(clap::Args)]
#[command(after_help = LOAD_EXAMPLES, override_usage = "thalweg load [OPTIONS] [SPACE] NET.snet")]
pub(crate) struct Load {
    /// A space or the session of a run over nodes (as in `thalweg report`; the newest if omitted), and the
    /// network.
    #[arg(value_name = "[SPACE] NET.snet", num_args = 1..=2, required = true)]
    space_net: Vec<String>,
    /// A library with more boxes; may be given several times.
    #[arg(long, value_name = "LIB")]
    boxes: Vec<PathBuf>,
    #[command(flatten)]
    lease: Lease,
    #[command(flatten)]
    patience: Patience,
}

const REST_EXAMPLES: &str = "\
Examples:
  # the newest run reads nothing more
  thalweg pause
  # process 4242 reads on by itself after 10 s
  thalweg pause 4242 --for 10s
  # all parts of a run over nodes, by its session
  thalweg pause first-nodes-4242

Exit codes: 0 done, 1 the run refused it, 2 bad arguments or no such run.";

/// The arguments of `thalweg pause`, `resume` and `drain`.
#[derive(clap::Args)]
#[command(after_help = REST_EXAMPLES)]
pub(crate) struct Rest {
    #[command(flatten)]
    lease: Lease,
    #[command(flatten)]
    simple: Simple,
}

/// The arguments of `thalweg stop`.
#[derive(clap::Args)]
pub(crate) struct Simple {
    /// A space, or the session of a run over nodes (as in `thalweg report`; the newest if omitted).
    #[arg(value_name = "SPACE")]
    space: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

/// The time for which a command holds.
#[derive(clap::Args)]
pub(crate) struct Lease {
    /// Undo the command after this time, such as 500ms, 10s, 2min. The run itself undoes the command, unless
    /// another command came meanwhile.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) lasts: Option<Duration>,
}

impl Lease {
    /// The terms of the lease under which the command holds, if it is limited in time.
    pub(crate) fn terms(&self) -> Option<Terms> {
        self.lasts.map(Terms::lasting)
    }

    /// Adds to the message the time for which the command holds.
    pub(crate) fn with_time(&self, message: String) -> String {
        match self.lasts {
            Some(time) => format!("{message}; for {}", duration(time.as_nanos() as f64)),
            None => message,
        }
    }
}

#[derive(clap::Args)]
pub(super) struct Patience {
    /// The longest time to wait for the answer, such as 500ms, 10s, 2min.
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
    send_for(space, &command, &arguments.lease, &arguments.patience, terminal)
}

pub(crate) fn rest(command: &RunCommand, arguments: &Rest, terminal: Terminal) -> Result<(), Failure> {
    let Rest { lease, simple } = arguments;
    send_for(simple.space.as_deref(), command, lease, &simple.patience, terminal)
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
    send_for(space, command, &Lease { lasts: None }, patience, terminal)
}

fn send_for(
    space: Option<&str>,
    command: &RunCommand,
    lease: &Lease,
    patience: &Patience,
    terminal: Terminal,
) -> Result<(), Failure> {
    let session = match spaces::session(space)? {
        Some(session) => session,
        None => {
            let run = LiveRun::find(space)?.called("thalweg");
            // The newest space may be that of a part of a run over nodes: then the command is for the whole
            // run.
            match run.whole().filter(|_| space.is_none()) {
                Some(session) => session,
                None => {
                    let result = run.command_for(command, patience.timeout, lease.terms())?.result;
                    return print_result(&lease.with_time(result), terminal);
                }
            }
        }
    };
    // The process that began a run has its sources, and commands the parts on nodes.
    let mut runs = LiveRun::of_session(&session)?;
    runs.retain(|(called, _)| !spaces::is_part(called));
    if runs.is_empty() {
        return Err(Failure::Usage(format!("no process of the session {} runs", session.display())));
    }
    for (called, run) in runs {
        let run = run.called("thalweg");
        let result = run.command_for(command, patience.timeout, lease.terms())?.result;
        print_result(&lease.with_time(format!("{called}: {result}")), terminal)?;
    }
    Ok(())
}

/// Prints the result of a command.
pub(super) fn print_result(result: &str, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::new(terminal);
    output.line(result)?;
    output.flush()
}
