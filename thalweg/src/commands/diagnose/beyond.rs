//! Tables that need a recording: changes that would help, expensive records, messages that wait behind
//! others.

use thalweg_monitor::{Comparison, Report, Suggestion};

use crate::commands::report::records;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, number, text, wrapped};
use crate::units::{rate, share};

/// The largest number of rows of suggestions and of expensive records.
const ROWS_MAX: usize = 6;

/// Prints suggestions and expensive records.
pub(super) fn print(report: &Report, output: &mut Output) -> Result<(), Failure> {
    if let Some(why) = report.replay.as_ref().and_then(|replay| replay.refused.as_ref()) {
        output.line("")?;
        output.text(&wrapped(
            &format!("What changes would bring is not predicted: {why}."),
            output.width,
            "",
        ))?;
    }
    let suggestions = report.replay.iter().flat_map(|replay| &replay.suggestions);
    let helps = suggested(suggestions, "WHAT WOULD HELP");
    for table in [helps, records::expensive(report, ROWS_MAX), records::behind(report, ROWS_MAX)] {
        if !table.is_empty() {
            output.line("")?;
            output.table(&table)?;
        }
    }
    Ok(())
}

/// The table of changes with their gains.
fn suggested<'r>(suggestions: impl Iterator<Item = &'r Suggestion>, title: &'static str) -> Table {
    let columns = [text(title), number("GAIN", 3), number("LEAST", 2), number("MOST", 2), text("HOW")];
    let mut table = Table::new(&columns);
    for row in suggestions.take(ROWS_MAX) {
        let cells = [row.words.clone(), share(row.gain), share(row.least), share(row.most), row.how.clone()];
        table.row(cells.to_vec(), false);
    }
    table
}

/// Prints the effect of a change, and the present limit of the flow.
pub(super) fn compared(comparison: &Comparison, output: &mut Output) -> Result<(), Failure> {
    let interval = match comparison.least.zip(comparison.most) {
        Some((least, most)) => format!(" ({} to {}, nine of ten samples)", signed(least), signed(most)),
        None => {
            " (how sure is not known: record both runs by `thalweg run --monitor full --keep`)".to_owned()
        }
    };
    let sentence = format!(
        "The flow is {}: {}/s instead of {}/s{interval}.",
        grown(comparison.gain),
        rate(comparison.new_per_s).trim_end_matches("/s"),
        rate(comparison.old_per_s).trim_end_matches("/s")
    );
    output.line(&output.styled("1", wrapped(&sentence, output.width, "").trim_end()))?;
    for row in &comparison.predicted {
        let line = format!(
            "  predicted was {} ({} to {}) of {}",
            signed(row.gain),
            signed(row.least),
            signed(row.most),
            row.words
        );
        output.text(&wrapped(&line, output.width, "    "))?;
    }
    output.text(&wrapped(&format!("  before: {}", comparison.limited), output.width, "    "))?;
    output.text(&wrapped(&format!("  now, and so not more: {}", comparison.limits), output.width, "    "))?;
    for because in &comparison.because {
        output.text(&wrapped(&format!("  because {because}"), output.width, "    "))?;
    }
    let mut table = Table::new(&[text("WHAT DIFFERS"), text("BEFORE"), text("NOW")]);
    for row in &comparison.differences {
        table.row(vec![row.what.clone(), row.old.clone(), row.new.clone()], false);
    }
    if table.is_empty() {
        return output.line("  Nothing that is recorded differs between the two runs.");
    }
    output.line("")?;
    output.table(&table)
}

fn grown(gain: f64) -> String {
    if gain < 0.0 { format!("{:.0} % lower", -100.0 * gain) } else { format!("{:.0} % higher", 100.0 * gain) }
}

fn signed(part: f64) -> String {
    format!("{:+.0} %", 100.0 * part)
}
