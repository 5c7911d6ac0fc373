//! `thalweg clean`: remove the spaces of runs that died.

use thalweg_host::spaces;
use thalweg_space::discover;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;

/// The arguments of `thalweg clean`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print what would be removed, without removing it.
    #[arg(long)]
    dry_run: bool,
    /// Remove kept runs, too. Live runs are never removed.
    #[arg(long)]
    all: bool,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::new(terminal);
    if arguments.dry_run {
        return dry_run(arguments.all, &mut output);
    }
    let cleaned = discover::clean(&spaces::parent()?, arguments.all).map_err(Failure::usage)?;
    for path in &cleaned.removed {
        output.line(&format!("removed {}", path.display()))?;
    }
    output.flush()?;
    if !cleaned.kept.is_empty() {
        print_stderr!("{} kept runs are left: --all removes them too", cleaned.kept.len());
    }
    for (path, error) in &cleaned.problems {
        print_stderr!("left alone: {}: {error:#}", path.display());
    }
    if cleaned.problems.is_empty() { Ok(()) } else { Err(Failure::Reported(1)) }
}

fn dry_run(all: bool, output: &mut Output) -> Result<(), Failure> {
    for space in spaces::listed()? {
        let removable = space.info.as_ref().is_ok_and(|info| all || !info.keep);
        if !space.alive && removable {
            output.line(&format!("would remove {}", space.path.display()))?;
        }
    }
    output.flush()
}
