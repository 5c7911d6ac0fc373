//! `thalweg workers`: how the workers' time divides, and which tasks they have.

use thalweg_monitor::{Report, Task};

use crate::Terminal;
use crate::commands::look::{Look, look};
use crate::commands::report::text;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  # the workers of the newest run and their busiest tasks
  thalweg workers
  # a live run, again and again
  thalweg workers --watch";

/// What `thalweg workers` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    look(&arguments.look, terminal, |report, output| {
        output.text(&text::workers(&report.workers).render(output.width, output.colour))?;
        let tasks = mapped(report);
        if !tasks.is_empty() {
            output.line("")?;
            output.text(&text::tasks(&tasks, report.tasks_count).render(output.width, output.colour))?;
        }
        text::notes(report, output)
    })
}

/// The tasks in order of their workers, those with a thread of their own last.
fn mapped(report: &Report) -> Vec<Task> {
    let mut tasks = report.tasks.clone();
    tasks.sort_by_key(|task| (task.worker.is_none(), task.worker, task.id));
    tasks
}
