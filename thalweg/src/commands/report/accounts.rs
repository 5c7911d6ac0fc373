//! The table of the accounts of busy time.

use thalweg_monitor::{BusyAccount, Report, account_is_sure};

use crate::table::{Table, number, text};
use crate::units::{count, duration, share};

/// The largest number of components in the table.
const ROWS_MAX: usize = 12;

/// Parts of busy time by component, busiest first, of those whose threads were sampled often enough.
pub(crate) fn table(report: &Report) -> Table {
    let components = report.components.iter().filter_map(|component| {
        Some((
            &component.path,
            component
                .work
                .account
                .as_ref()
                .filter(|account| account.total_ns() > 0.0 && account_is_sure(account))?,
        ))
    });
    let rows: Vec<(&String, &BusyAccount)> = components.take(ROWS_MAX).collect();
    let names = ["LOCK", "READ", "WRITE", "SLEEP", "PAGES", "ASLEEP"];
    // A reason for sleep gets no column if it takes less than 0.05 % of the busy time of every shown
    // component.
    let slept = |part: usize| {
        rows.iter().any(|(_, account)| account.asleep.parts()[part] >= 0.0005 * account.total_ns())
    };
    let parts: Vec<usize> = (0..names.len()).filter(|&part| slept(part)).collect();
    let spins =
        rows.iter().any(|(_, account)| account.spinning_ns.unwrap_or(0.0) >= 0.0005 * account.total_ns());
    let mut columns = vec![text("BUSY TIME OF"), number("BUSY", 2), number("COMPUTING", 0)];
    columns.extend(spins.then(|| number("SPINNING", 0)));
    columns.extend(parts.iter().map(|&part| number(names[part], 0)));
    columns.extend([number("NO PROCESSOR", 0), number("RUNTIME", 1), number("LOOKS", 3)]);
    let mut table = Table::new(&columns);
    for (path, account) in rows {
        let whole = account.total_ns();
        let of_whole = |ns: f64| share(ns / whole);
        let mut cells = vec![path.clone(), duration(whole), of_whole(account.computing_ns)];
        cells.extend(spins.then(|| account.spinning_ns.map_or("–".to_owned(), of_whole)));
        cells.extend(parts.iter().map(|&part| of_whole(account.asleep.parts()[part])));
        cells.extend([of_whole(account.kept_ns), of_whole(account.runtime_ns), count(account.looks)]);
        table.row(cells, false);
    }
    table
}
