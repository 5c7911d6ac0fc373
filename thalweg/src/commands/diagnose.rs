//! `thalweg diagnose`: what limits the flow, the evidence, and what to do about it.

use thalweg_monitor::{Report, Utilisation};

use crate::Terminal;
use crate::commands::look::{Look, look};
use crate::commands::report::text;
use crate::commands::waits;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, number, text as column, wrapped};
use crate::units::{duration, ratio, share};

const EXAMPLES: &str = "\
Examples:
  thalweg diagnose               what limits the newest run
  thalweg diagnose --window 5s   what limits a live run in the next five seconds";

/// What `thalweg diagnose` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    look(&arguments.look, terminal, |report, output| {
        print(report, output)?;
        text::notes(report, output)
    })
}

fn print(report: &Report, output: &mut Output) -> Result<(), Failure> {
    let verdict = &report.verdict;
    let sentence = wrapped(&verdict.text, output.width, "");
    output.line(&output.styled("1", sentence.trim_end()))?;
    for evidence in &verdict.evidence {
        output.text(&wrapped(&format!("  because {evidence}"), output.width, "    "))?;
    }
    if let Some(suggestion) = &verdict.suggestion {
        output.text(&wrapped(&format!("  so {suggestion}"), output.width, "    "))?;
    }
    for table in [pressed(&report.utilisation), waits::roots(&report.waiting)] {
        if !table.is_empty() {
            output.line("")?;
            output.text(&table.render(output.width, output.colour))?;
        }
    }
    Ok(())
}

/// Tasks and workers by what the source asks of them.
fn pressed(utilisation: &[Utilisation]) -> Table {
    let mut table = Table::new(&[
        column("ASKED OF"),
        number("WORKER", 1),
        number("A MESSAGE IN", 0),
        number("TIMES THE SOURCE'S", 0),
        number("BUSY", 0),
    ]);
    for row in utilisation {
        let worker =
            row.worker.filter(|_| row.task.is_some()).map_or(String::new(), |worker| worker.to_string());
        let cells =
            vec![row.name.clone(), worker, duration(row.demand_ns), ratio(row.utilisation), share(row.busy)];
        table.row(cells, false);
    }
    table
}
