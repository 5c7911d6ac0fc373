//! `thalweg streams`: shows the messages of the streams, and how full the streams were over time.

use thalweg_monitor::{Occupancy, Report};

use crate::Terminal;
use crate::commands::look::{Look, Sort, look};
use crate::commands::report::text::{self, View};
use crate::failure::Failure;
use crate::table::{Table, number, text as column};
use crate::units::{duration, ratio, share};

const EXAMPLES: &str = "\
Examples:
  # the newest run's streams, in flow order
  thalweg streams
  # those with the most messages first
  thalweg streams --sort load
  # a live run, for five seconds from now
  thalweg streams --window 5s";

/// The arguments of `thalweg streams`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
    /// The order of rows [default: flow].
    #[arg(long, value_enum, value_name = "ORDER", conflicts_with = "json")]
    sort: Option<Sort>,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let view = View { top: arguments.look.top, sort: arguments.sort.unwrap_or(Sort::Flow) };
    look(&arguments.look, terminal, |report, output| {
        output.table(&text::streams(report, view))?;
        let courses = courses(report, view);
        if !courses.is_empty() {
            output.line("")?;
            output.table(&courses)?;
        }
        text::notes(report, output)
    })
}

/// The table of the number of messages in the streams over time.
fn courses(report: &Report, view: View) -> Table {
    let mut table = Table::new(&[
        column("OCCUPANCY"),
        number("OVER TIME", 0),
        number("MOST", 0),
        number("A STEP", 1),
        number("FULL", 0),
        number("EMPTY", 0),
    ]);
    for (name, stream) in text::streams_shown(report, view) {
        let Some(occupancy) = &stream.occupancy else { continue };
        let most = occupancy.messages.iter().copied().fold(0.0, f64::max);
        let cells = vec![
            name,
            spark(occupancy, most),
            ratio(most),
            duration(occupancy.step_ns),
            stream.full_share.map_or(String::new(), share),
            stream.empty_share.map_or(String::new(), share),
        ];
        table.row(cells, false);
    }
    table
}

/// A bar chart in a line of text: one character for each step, whose height is relative to `most`.
fn spark(occupancy: &Occupancy, most: f64) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let height = |messages: &f64| HEIGHTS[((messages / most.max(1e-9) * 7.0).round() as usize).min(7)];
    occupancy.messages.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights() {
        let occupancy = Occupancy { from_ns: 0.0, step_ns: 1.0, messages: vec![0.0, 3.5, 7.0] };
        assert_eq!(spark(&occupancy, 7.0), "▁▅█");
        assert_eq!(spark(&Occupancy { messages: vec![0.0], ..occupancy }, 0.0), "▁");
    }
}
