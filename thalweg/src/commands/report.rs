//! `thalweg report`: reports on a run and the limit of its flow.

pub(crate) mod accounts;
mod graph;
mod kept;
pub(crate) mod lanes;
pub(crate) mod page;
pub(crate) mod records;
pub(crate) mod text;

use std::path::PathBuf;

use crate::Terminal;
use crate::commands::look::{Look, Sort, look};
use crate::failure::Failure;
use text::View;
use thalweg_view::names::cut;

const EXAMPLES: &str = "\
Examples:
  # the newest run, living or dead
  thalweg report
  # the run of process 4242
  thalweg report 4242
  # a live run, the last two seconds again and again
  thalweg report --watch
  # a kept run, as JSON (docs/report.md)
  thalweg report ./kept-run --json
  # the network drawn, with what was measured
  thalweg report --graph svg > run.svg
  # a page to look at and to share, in one file
  thalweg report ./kept-run --html run.html
  # the same, with an older run beside it
  thalweg report ./new --html both.html --compare ./old
  # what every task did, when, as a picture
  thalweg report --svg timeline > timeline.svg
  # components in flow order, with two columns
  thalweg report --sort flow --columns in,busy";

/// The arguments of `thalweg report`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
    /// The order of rows [default: load].
    #[arg(long, value_enum, value_name = "ORDER", conflicts_with = "json")]
    sort: Option<Sort>,
    /// Draw the network as it ran: busy shares, messages a second, how full streams are, and what limits the
    /// flow.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "watch", "columns", "sort"])]
    graph: Option<graph::Format>,
    /// Write a page with pictures of the run (network, timeline, messages, all figures) into a single file
    /// (docs/view.md).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "watch", "columns", "sort", "graph"])]
    html: Option<PathBuf>,
    /// Show an older run beside this one on the page.
    #[arg(long, value_name = "OLDER", requires = "html", conflicts_with = "window")]
    compare: Option<String>,
    /// Print one picture, suitable for a paper.
    #[arg(long, value_enum, value_name = "PICTURE", conflicts_with_all = ["json", "watch", "columns", "sort", "graph", "html"])]
    svg: Option<Picture>,
}

/// A single picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Picture {
    /// The network, as `--graph svg` draws it.
    Graph,
    /// The activity of every worker and task over time.
    Timeline,
    /// Quantiles of latencies, and the time of a message in each component.
    Latency,
    /// How full streams were over time.
    Occupancy,
    /// Which components waited for which.
    Waiting,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let view = View { top: arguments.look.top, sort: arguments.sort.unwrap_or(Sort::Load) };
    if let Some(file) = &arguments.html {
        return page::write(&arguments.look, file, arguments.compare.as_deref());
    }
    if let Some(picture) = arguments.svg {
        return page::draw(&arguments.look, picture, terminal);
    }
    look(&arguments.look, terminal, |report, output| match arguments.graph {
        Some(format) => output.text(&cut(&graph::draw(report, format)?)),
        None => text::print(report, view, output),
    })
}
