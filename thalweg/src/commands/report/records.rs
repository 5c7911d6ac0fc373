//! Tables of expensive records, and of records behind which others wait.

use thalweg_monitor::{BehindRecord, Report};

use crate::table::{Table, number, text};
use crate::units::{duration, share};

/// The table of records that take longer than others of their component, with what distinguishes them; it has
/// at most `rows_max` rows.
pub(crate) fn expensive(report: &Report, rows_max: usize) -> Table {
    let mut table = Table::new(&[
        text("EXPENSIVE IN"),
        text("WHICH"),
        number("OF MESSAGES", 1),
        number("OF TIME", 2),
        number("ONE TAKES", 1),
        number("OTHERS", 0),
    ]);
    for row in report.expensive.iter().take(rows_max) {
        table.row(
            vec![
                row.component.clone(),
                row.which.clone(),
                share(row.messages_share),
                share(row.time_share),
                duration(row.service_ns),
                duration(row.others_ns),
            ],
            false,
        );
    }
    table
}

/// The table of tasks that waited for other tasks because the order of records is kept; it has at most
/// `rows_max` rows.
pub(crate) fn behind(report: &Report, rows_max: usize) -> Table {
    let mut table = Table::new(&[
        text("ORDER KEPT BY"),
        text("WAITS FOR"),
        text("RECORD"),
        text("BEHIND IT"),
        number("TASKS", 0),
        number("FOR", 1),
        number("OF THE TIME", 2),
    ]);
    for row in report.waiting.behind.iter().take(rows_max) {
        table.row(
            vec![
                row.keeper.clone(),
                row.awaited.clone(),
                row.record.as_ref().map_or(String::new(), record),
                row.behind.clone(),
                row.tasks.to_string(),
                duration(row.ns),
                share(row.share),
            ],
            false,
        );
    }
    table
}

/// The record behind which tasks waited longest, and the number of other such records.
fn record(record: &BehindRecord) -> String {
    let what = record.what.as_ref().map_or(String::new(), |what| format!(" {what}"));
    let others = match record.records.saturating_sub(1) {
        0 => String::new(),
        others => format!(", and {others} others"),
    };
    format!("number {}{what}{others}", record.index)
}
