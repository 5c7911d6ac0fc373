//! `thalweg report`: what a run did and what limits its flow.

mod text;

use thalweg_monitor::report_space;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::spaces;

const EXAMPLES: &str = "\
Examples:
  thalweg report                     the newest run, living or dead
  thalweg report 4242                the run of process 4242
  thalweg report ./kept-run --json   a kept run, as JSON (docs/report.md)";

/// What `thalweg report` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A space: its path, or a name or process id that `thalweg ls` shows. The newest if omitted.
    #[arg(value_name = "SPACE")]
    space: Option<String>,
    /// Print the whole report as one JSON object.
    #[arg(long)]
    json: bool,
    /// Show so many components, tasks and streams at most.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let path = spaces::find(arguments.space.as_deref())?;
    let report = report_space(&path, arguments.top).map_err(|error| Failure::Usage(error.to_string()))?;
    let mut output = Output::new(terminal);
    if arguments.json {
        let json = serde_json::to_string_pretty(&report)
            .map_err(|error| Failure::Run(format!("cannot write the report as JSON: {error}")))?;
        output.line(&json)?;
    } else {
        text::print(&report, arguments.top, &mut output)?;
    }
    output.flush()
}
