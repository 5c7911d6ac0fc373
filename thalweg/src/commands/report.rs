//! `thalweg report`: what a run did and what limits its flow.

pub(crate) mod text;

use crate::Terminal;
use crate::commands::look::{Look, look};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  # the newest run, living or dead
  thalweg report
  # the run of process 4242
  thalweg report 4242
  # a live run, the last two seconds again and again
  thalweg report --watch
  # a kept run, as JSON (docs/report.md)
  thalweg report ./kept-run --json";

/// What `thalweg report` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let top = arguments.look.top;
    look(&arguments.look, terminal, |report, output| text::print(report, top, output))
}
