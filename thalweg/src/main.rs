//! The command `thalweg`: arguments, terminal, exit codes. Everything else is in the libraries.

#![forbid(unsafe_code)]

#[macro_use]
mod stderr;

mod commands;
mod failure;
mod output;
mod removed;
mod table;
mod units;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use thalweg_host::RunCommand;

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  # is this network sound?
  thalweg check tidy.snet
  # run it on records, one JSON object a line
  thalweg run tidy.snet --boxes ./libtidy.so < in.jsonl
  # what is running, or was kept
  thalweg ls
  # what limits the flow of the newest run
  thalweg report
  # see every message, while it runs
  thalweg set monitor.mode full
  # another network for a run with --control
  thalweg load better.snet

A *space* is the directory in which a run records what it does; other commands read it, while the run lives or \
later. Most take a SPACE: its path, or a name or process id that `thalweg ls` shows; without one they take the \
newest.
A *session* is a directory with the spaces of several processes, which are then shown together.

Exit codes: 0 done, 1 the run failed or records failed, 2 bad arguments or files, 130 interrupted (128 and the \
signal that ended it).
`thalweg explain E0301` says what the code of an error means.";

/// Runs networks of stream-processing boxes and says what limits their flow.
#[derive(Parser)]
#[command(name = "thalweg", version, after_help = EXAMPLES, max_term_width = 110)]
struct Arguments {
    /// Colours in messages.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    color: Colour,
    #[command(subcommand)]
    command: Command,
}

/// When to colour.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colour {
    /// Colour if standard error is a terminal and NO_COLOR is not set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Subcommand)]
enum Command {
    /// Run a network on records.
    Run(Box<commands::run::Arguments>),
    /// Check a network without running it: syntax, names, boxes, types.
    Check(commands::check::Arguments),
    /// List the contents of a library of boxes.
    Inspect(commands::inspect::Arguments),
    /// Run programs written for S-Net unchanged: compile their boxes, run their inputs, report obstacles.
    Adopt(commands::adopt::Arguments),
    /// Make the table for boxes written for S-Net in C.
    Wrap(commands::wrap::Arguments),
    /// Format the text of networks.
    Fmt(commands::fmt::Arguments),
    /// Explain the code of an error or a warning.
    Explain(commands::explain::Arguments),
    /// Serve an editor: errors, types, definitions, completion and formatting while a network is written.
    Lsp(commands::lsp::Arguments),
    /// Say in a few sentences what limits the flow of a run.
    Report(commands::report::Arguments),
    /// Show a run as a page in the browser: network, timeline, messages, what limits the flow, and what to do
    /// about it
    View(commands::view::Arguments),
    /// Show a run on this terminal while it goes on: what limits the flow, components, workers
    Top(commands::top::Arguments),
    /// Say what limits a run's flow, with evidence and what to do about it
    Diagnose(commands::diagnose::Arguments),
    /// Show who waits for whom in a run
    Waits(commands::waits::Arguments),
    /// Show the messages of a run's streams, and how full the streams were
    Streams(commands::streams::Arguments),
    /// Show how a run's workers spent their time
    Workers(commands::workers::Arguments),
    /// Show the story of one message: its ancestors, its descendants, every step
    Message(commands::message::Arguments),
    /// Show which operations of a program with probes are called by which, how often and how long.
    Calls(commands::calls::Arguments),
    /// Make writers for kinds of event of your own, in C, C++ and Rust.
    Kinds(commands::kinds::Arguments),
    /// Print the events of a run.
    Events(commands::events::Arguments),
    /// Pull a view of running processes: chosen fields of chosen elements, at a limited cost
    Scope(Box<commands::scope::Arguments>),
    /// Report which tasks of running processes stand still, and why: deadlocks, boxes that hang, threads
    /// without a processor
    Heartbeat(commands::heartbeat::Arguments),
    /// Count, time and change calls of functions in a program that runs
    Attach(Box<commands::attach::Arguments>),
    /// Detach from a program: undo all changes of `thalweg attach`
    Detach(commands::attach::Detach),
    /// List the functions of a program that runs
    Functions(commands::attach::Functions),
    /// Undo the changes that a killed `thalweg attach` has left.
    #[command(hide = true)]
    AttachGuard(commands::attach::Guard),
    /// Start the hosts that join a tuned virtual machine of PVM.
    #[command(hide = true)]
    PvmHoster,
    /// Be the half of a tuner of a library on a node.
    #[command(hide = true)]
    TuneHalf,
    /// Run a node on this machine, which runs parts of networks for `thalweg run --nodes`
    Node(commands::node::Arguments),
    /// List the nodes of the cluster: processors, load, sessions, round-trip time
    Nodes(commands::node::Nodes),
    /// Serve scopes: read processes on behalf of clients, and send them the tuples of their views over a
    /// socket
    Serve(commands::serve::Arguments),
    /// Keep the events of a run, or of all runs of a session, in a compressed archive
    Record(commands::record::Arguments),
    /// Show settings of a run.
    Get(commands::get::Arguments),
    /// Change a setting of a run while it runs.
    Set(commands::set::Arguments),
    /// Tune a run while it goes on: try settings and mappings by turns, keep changes that are surely better,
    /// say why
    Tune(Box<commands::tune::Arguments>),
    /// Check a pack, or try it on recorded measures
    Pack(commands::pack::Arguments),
    /// Give a run another network: drain the run, replace the network, go on.
    Load(commands::control::Load),
    /// Replace a library of boxes of a run by another build, while the run goes on.
    Reload(commands::reload::Arguments),
    /// Let a run stop reading input; records inside the network go on.
    Pause(commands::control::Rest),
    /// Let a paused run continue reading.
    Resume(commands::control::Rest),
    /// Let all records leave a run, and pause it.
    Drain(commands::control::Rest),
    /// End a run: it stops reading and finishes the records inside the network.
    Stop(commands::control::Simple),
    /// List the runs of this machine: live ones and kept ones.
    Ls(commands::ls::Arguments),
    /// Remove the spaces of runs that died.
    Clean(commands::clean::Arguments),
    /// Print the manual page of a command, or write all of them.
    Man(commands::manual::Pages),
    /// Print a script that lets a shell complete commands and options.
    Completions(commands::manual::Completions),
}

/// Properties of the terminal, which every command gets.
#[derive(Clone, Copy)]
pub(crate) struct Terminal {
    /// Whether messages on standard error are coloured.
    pub(crate) colour: bool,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Failure::USAGE } else { 0 });
        }
    };
    let terminal = Terminal { colour: arguments.color.decide() };
    let result = match arguments.command {
        Command::Run(a) => commands::run::main(*a, terminal),
        Command::Check(a) => commands::check::main(a, terminal),
        Command::Inspect(a) => commands::inspect::main(a, terminal),
        Command::Adopt(a) => commands::adopt::main(a, terminal),
        Command::Wrap(a) => commands::wrap::main(a, terminal),
        Command::Fmt(a) => commands::fmt::main(a, terminal),
        Command::Explain(a) => commands::explain::main(a, terminal),
        Command::Lsp(a) => commands::lsp::main(a),
        Command::Report(a) => commands::report::main(&a, terminal),
        Command::View(a) => commands::view::main(&a),
        Command::Top(a) => commands::top::main(&a, terminal),
        Command::Diagnose(a) => commands::diagnose::main(&a, terminal),
        Command::Waits(a) => commands::waits::main(&a, terminal),
        Command::Streams(a) => commands::streams::main(&a, terminal),
        Command::Workers(a) => commands::workers::main(&a, terminal),
        Command::Message(a) => commands::message::main(&a, terminal),
        Command::Calls(a) => commands::calls::main(&a, terminal),
        Command::Kinds(a) => commands::kinds::main(&a, terminal),
        Command::Events(a) => commands::events::main(a, terminal),
        Command::Scope(a) => commands::scope::main(*a, terminal),
        Command::Heartbeat(a) => commands::heartbeat::main(&a, terminal),
        Command::Attach(a) => commands::attach::main(&a, terminal),
        Command::Detach(a) => commands::attach::detach(&a),
        Command::Functions(a) => commands::attach::functions(&a, terminal),
        Command::AttachGuard(a) => commands::attach::guard(&a),
        Command::PvmHoster => commands::tune::host(),
        Command::TuneHalf => commands::tune::half(),
        Command::Node(a) => commands::node::main(&a),
        Command::Nodes(a) => commands::node::nodes(&a, terminal),
        Command::Serve(a) => commands::serve::main(a),
        Command::Record(a) => commands::record::main(&a, terminal),
        Command::Get(a) => commands::get::main(a, terminal),
        Command::Set(a) => commands::set::main(a, terminal),
        Command::Tune(a) => commands::tune::main(&a, terminal),
        Command::Pack(a) => commands::pack::main(&a, terminal),
        Command::Load(a) => commands::control::load(&a, terminal),
        Command::Reload(a) => commands::reload::main(&a, terminal),
        Command::Pause(a) => commands::control::rest(&RunCommand::Pause, &a, terminal),
        Command::Resume(a) => commands::control::rest(&RunCommand::Resume, &a, terminal),
        Command::Drain(a) => commands::control::rest(&RunCommand::Drain, &a, terminal),
        Command::Stop(a) => commands::control::simple(&RunCommand::Stop, &a, terminal),
        Command::Ls(a) => commands::ls::main(a, terminal),
        Command::Clean(a) => commands::clean::main(a, terminal),
        Command::Man(a) => commands::manual::man(&a, Arguments::command(), terminal),
        Command::Completions(a) => commands::manual::completions(&a, Arguments::command(), terminal),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(terminal);
            ExitCode::from(failure.exit_code())
        }
    }
}

impl Colour {
    fn decide(self) -> bool {
        match self {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}
