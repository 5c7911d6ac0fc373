//! `thalweg report`: what a run did and what limits its flow.

pub(crate) mod text;

use crate::Terminal;
use crate::commands::look::{Look, Sort, look};
use crate::failure::Failure;
use text::View;

const EXAMPLES: &str = "\
Examples:
  thalweg report                     the newest run, living or dead
  thalweg report 4242                the run of process 4242
  thalweg report --watch             a live run, the last two seconds again and again
  thalweg report ./kept-run --json   a kept run, as JSON (docs/report.md)";

/// What `thalweg report` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let view = View { top: arguments.look.top, sort: arguments.look.sort.unwrap_or(Sort::Load) };
    look(&arguments.look, terminal, |report, output| text::print(report, view, output))
}
