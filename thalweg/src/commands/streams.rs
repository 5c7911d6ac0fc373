//! `thalweg streams`: what went through the streams, and how full they were over time.

use thalweg_monitor::{Occupancy, Report};

use crate::Terminal;
use crate::commands::look::{Look, look};
use crate::commands::report::text;
use crate::failure::Failure;
use crate::table::{Table, number, text as column};
use crate::units::{duration, ratio, share};

const EXAMPLES: &str = "\
Examples:
  # the streams of the newest run
  thalweg streams
  # a live run, for five seconds from now
  thalweg streams --window 5s";

/// What `thalweg streams` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let top = arguments.look.top;
    look(&arguments.look, terminal, |report, output| {
        output.text(&text::streams(&report.streams, top).render(output.width, output.colour))?;
        let courses = courses(report, top);
        if !courses.is_empty() {
            output.line("")?;
            output.text(&courses.render(output.width, output.colour))?;
        }
        text::notes(report, output)
    })
}

/// How many messages were in the streams over time.
fn courses(report: &Report, top: usize) -> Table {
    let mut table = Table::new(&[
        column("OCCUPANCY"),
        number("OVER TIME", 0),
        number("MOST", 0),
        number("A STEP", 1),
        number("FULL", 0),
        number("EMPTY", 0),
    ]);
    for stream in report.streams.iter().take(top) {
        let Some(occupancy) = &stream.occupancy else { continue };
        let most = occupancy.messages.iter().copied().fold(0.0, f64::max);
        let cells = vec![
            stream.name.clone(),
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

/// A step a character, its height by the highest.
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
