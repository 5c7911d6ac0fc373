//! `thalweg report`: what a run did and what limits its flow.

pub(crate) mod accounts;
mod graph;
pub(crate) mod text;

use crate::Terminal;
use crate::commands::look::{Look, Sort, look};
use crate::failure::Failure;
use text::View;

const EXAMPLES: &str = "\
Examples:
  # the newest run, living or dead
  thalweg report
  # the run of process 4242
  thalweg report 4242
  # a live run, the last two seconds again and again
  thalweg report --watch
  # a kept run, as JSON (docs/report.md)
  thalweg report ./kept-run --json
  # the network drawn, with what was measured
  thalweg report --graph svg > run.svg
  # components in flow order, with two columns
  thalweg report --sort flow --columns in,busy";

/// What `thalweg report` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
    /// The order of rows [default: load].
    #[arg(long, value_enum, value_name = "ORDER", conflicts_with = "json")]
    sort: Option<Sort>,
    /// Draw the network as it ran: busy shares, messages a second, how full streams are, and what limits the flow.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "watch", "columns", "sort"])]
    graph: Option<graph::Format>,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let view = View { top: arguments.look.top, sort: arguments.sort.unwrap_or(Sort::Load) };
    look(&arguments.look, terminal, |report, output| match arguments.graph {
        Some(format) => output.text(&graph::draw(report, format)?),
        None => text::print(report, view, output),
    })
}
