//! `thalweg workers`: shows how the workers' time divides, and the tasks of each worker.

use thalweg_monitor::{Report, Task};
use thalweg_view::flow::Flow;

use crate::Terminal;
use crate::commands::look::{Look, Sort, look};
use crate::commands::report::text;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  # the workers of the newest run and their busiest tasks
  thalweg workers
  # a live run, again and again
  thalweg workers --watch";

/// The arguments of `thalweg workers`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
    /// The order of each worker's tasks [default: by their ids].
    #[arg(long, value_enum, value_name = "ORDER", conflicts_with = "json")]
    sort: Option<Sort>,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    look(&arguments.look, terminal, |report, output| {
        output.table(&text::workers(&report.workers))?;
        let tasks = mapped(report, arguments.sort);
        if !tasks.is_empty() {
            output.line("")?;
            output.table(&text::tasks(&tasks, report.tasks_count))?;
        }
        text::notes(report, output)
    })
}

/// The tasks in order of their workers, tasks with a thread of their own last; the tasks of each worker are
/// in the requested order.
fn mapped(report: &Report, sort: Option<Sort>) -> Vec<Task> {
    let mut tasks = report.tasks.clone();
    match sort {
        None => tasks.sort_by_key(|task| task.id),
        Some(Sort::Load) => {}
        Some(Sort::Name) => tasks.sort_by(|a, b| a.name.cmp(&b.name)),
        Some(Sort::Flow) => {
            let flow = Flow::of(report);
            tasks.sort_by_key(|task| (flow.place_of_task(&task.name), task.id));
        }
    }
    tasks.sort_by_key(|task| (task.worker.is_none(), task.worker));
    tasks
}
