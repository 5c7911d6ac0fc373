//! `thalweg clean`: remove the spaces of runs that died.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

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
    let tokens = stale_tokens()?.into_iter().filter(|token| std::fs::remove_file(token).is_ok());
    for path in cleaned.removed.iter().cloned().chain(tokens) {
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
    for token in stale_tokens()? {
        output.line(&format!("would remove {}", token.display()))?;
    }
    output.flush()
}

/// The tokens that `thalweg view --port` has left, for ports at which no process listens.
fn stale_tokens() -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(spaces::parent()?).into_iter().flatten().flatten();
    let is_stale = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let port = name.strip_prefix("view-").and_then(|rest| rest.strip_suffix(".token"));
        let port = port.and_then(|port| port.parse::<u16>().ok());
        port.is_some_and(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
    };
    let mut stale: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_stale).collect();
    stale.sort();
    Ok(stale)
}
