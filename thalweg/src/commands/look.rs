//! The common options of commands that measure: the space, the part of the run, and whether there is one
//! report or one after the other.

use std::time::Duration;

use thalweg_host::amount::{Span, span};
use thalweg_host::{Measuring, spaces};
use thalweg_monitor::{Report, over_links};
use thalweg_scope::ScopeFeed;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::ShapeArguments;

/// The inputs that are followed across links.
const SAMPLE: u64 = 200;
/// The length of the windows that `--watch` shows, without `--window`.
const WATCH_WINDOW: Duration = Duration::from_secs(2);

/// The arguments that the measuring commands share.
#[derive(clap::Args)]
pub(crate) struct Look {
    /// A space: its path, or a name or process id that `thalweg ls` shows; or a session, for all its spaces.
    /// The newest space if omitted.
    #[arg(value_name = "SPACE")]
    pub(crate) space: Option<String>,
    /// Print the whole report as one JSON object (docs/report.md).
    #[arg(long)]
    pub(crate) json: bool,
    /// Show at most this many components, tasks, streams and waits.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Measure for this time (from now on for a live run, the last part of an ended run), such as 500ms, 10s,
    /// 2min; or between two times from the start of the run, such as 1.5s..2min.
    #[arg(long, value_name = "TIME|T1..T2", value_parser = span)]
    pub(crate) window: Option<Span>,
    /// Show one window after the other until the run ends (each 2 s long unless --window is given); with
    /// --json one object a line.
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) shape: ShapeArguments,
}

/// The order in which rows are shown. `--top` limits their number to those with the most load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// The busiest tasks, and the streams with the most messages, first.
    Load,
    /// In the order in which messages pass, from the source to the sink.
    Flow,
    /// By name.
    Name,
}

/// Measures as the arguments say and prints each report by calling `print`, or as JSON.
pub(crate) fn look(
    look: &Look,
    terminal: Terminal,
    print: impl Fn(&Report, &mut Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let path = spaces::find_feed(look.space.as_deref())?;
    let mut output = Output::shaped(terminal, &look.shape);
    let mut measuring = Measuring::open(&path, look.top)?;
    let mut show = |report: &Report, again: bool| {
        if look.json {
            output.line(&json(report, look.watch)?)?;
        } else {
            if again {
                output.clear()?;
            }
            print(report, &mut output)?;
        }
        output.flush()
    };
    if let Some(Span::Between(from, to)) = look.window {
        return show(&measuring.between(from, to)?, false);
    }
    let last = look.window.and_then(Span::last);
    let window = last.or(look.watch.then_some(WATCH_WINDOW));
    let whole = |measuring: Measuring| -> Result<Report, Failure> {
        let mut report = measuring.whole()?;
        if !report.links.is_empty() {
            report.latency.over_links =
                over_links(&ScopeFeed::of(&path).map_err(usage)?, SAMPLE).map_err(usage)?;
        }
        Ok(report)
    };
    let Some(window) = window else { return show(&whole(measuring)?, false) };
    if !measuring.is_running() {
        let report = if let Some(window) = last { measuring.last(window)? } else { whole(measuring)? };
        return show(&report, false);
    }
    loop {
        let seen = measuring.window(window, || true)?;
        show(&seen.report, look.watch)?;
        if seen.ended || !look.watch {
            return Ok(());
        }
    }
}

pub(crate) fn json(report: &Report, one_line: bool) -> Result<String, Failure> {
    let json = if one_line { serde_json::to_string(report) } else { serde_json::to_string_pretty(report) };
    json.map_err(|error| Failure::run("cannot write the report as JSON", error))
}

pub(crate) fn usage(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::usage(error)
}
