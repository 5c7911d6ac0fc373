//! `thalweg waits`: shows which tasks wait for which, now and over the measured time, and the roots of
//! waiting.

use thalweg_monitor::{Report, RootState, Waiting};

use crate::Terminal;
use crate::commands::look::{Look, look};
use crate::commands::report::text;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, number, text as column};
use crate::units::{count, duration, share};

const EXAMPLES: &str = "\
Examples:
  # who waits for whom in the newest run
  thalweg waits
  # a live run, again and again
  thalweg waits --watch";

/// The arguments of `thalweg waits`.
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
    let tables = [matrix(&report.waiting), roots(&report.waiting), now(&report.waiting)];
    let mut first = true;
    for table in tables.iter().filter(|table| !table.is_empty()) {
        if !std::mem::take(&mut first) {
            output.line("")?;
        }
        output.table(table)?;
    }
    if first {
        output.line("No task waited for another one, as far as was recorded.")?;
    }
    Ok(())
}

/// The waiting matrix, with one pair of components in each row.
fn matrix(waiting: &Waiting) -> Table {
    let mut table = Table::new(&[
        column("WAITED"),
        column("FOR"),
        column("OF"),
        number("WAITS", 1),
        number("TIME", 0),
        number("SHARE", 0),
    ]);
    for edge in &waiting.matrix {
        let path = |path: &Option<String>| path.clone().unwrap_or_else(|| "any of several".to_owned());
        let what = if edge.what == "room" { "room" } else { "messages" };
        let cells = vec![
            path(&edge.waiter),
            what.to_owned(),
            path(&edge.peer),
            count(edge.waits),
            duration(edge.ns),
            share(edge.share),
        ];
        table.row(cells, false);
    }
    table
}

/// The table of the roots of all waiting.
pub(crate) fn roots(waiting: &Waiting) -> Table {
    let mut table =
        Table::new(&[column("WAITING LEADS TO"), column("WHILE IT"), number("TIME", 0), number("SHARE", 0)]);
    for root in &waiting.roots {
        let state = match root.state {
            RootState::Running => "runs",
            RootState::Ready => "is ready, and does not run",
            RootState::Circle => "waits for itself, by way of others",
            RootState::Unknown => "(not known)",
        };
        let name = root.name.clone().unwrap_or_else(|| "(not known)".to_owned());
        table.row(vec![name, state.to_owned(), duration(root.ns), share(root.share)], false);
    }
    table
}

/// The tasks that wait at the end of the window.
fn now(waiting: &Waiting) -> Table {
    let mut table =
        Table::new(&[column("WAITS NOW"), column("FOR"), column("STREAM"), column("OF"), number("SINCE", 0)]);
    for wait in &waiting.now {
        let what = if wait.what == "room" { "room" } else { "messages" };
        let stream = wait.stream.map_or_else(|| "any of several".to_owned(), |stream| stream.to_string());
        let peer = wait.peer_name.clone().unwrap_or_default();
        table.row(vec![wait.name.clone(), what.to_owned(), stream, peer, duration(wait.ns)], false);
    }
    let hidden = waiting.now_count.saturating_sub(waiting.now.len() as u64);
    table.more((hidden > 0).then(|| format!("… {} more (--top)", count(hidden))));
    table
}
