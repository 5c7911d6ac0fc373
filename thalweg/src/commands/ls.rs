//! `thalweg ls`: list runs.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use thalweg_space::discover::Listed;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::spaces::{self, started};
use crate::table::{Table, number, text};
use crate::units::{age, bytes};

/// What `thalweg ls` is told.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut listed = spaces::listed()?;
    listed.sort_by_key(started);
    let mut output = Output::new(terminal);
    if arguments.json {
        for space in &listed {
            output.line(&object(space).to_string())?;
        }
    } else if listed.is_empty() {
        eprintln!("no runs in {}", spaces::parent()?.display());
    } else {
        output.text(&table(&listed).render(output.width, output.colour))?;
    }
    output.flush()
}

fn object(space: &Listed) -> serde_json::Value {
    let path = space.path.display().to_string();
    match &space.info {
        Ok(info) => json!({
            "name": info.name,
            "pid": info.pid,
            "state": state(space),
            "alive": space.alive,
            "kept": info.keep,
            "started_ns": info.clock.anchor().real_ns,
            "age_s": age_s(space),
            "bytes": size(&space.path),
            "host": info.host,
            "command": info.command,
            "path": path,
        }),
        Err(error) => {
            json!({ "path": path, "state": "unreadable", "alive": false, "error": error.to_string() })
        }
    }
}

fn table(listed: &[Listed]) -> Table {
    let mut table = Table::new(&[
        text("NAME"),
        number("PID", 0),
        text("STATE"),
        number("AGE", 2),
        number("SIZE", 3),
        text("COMMAND"),
    ]);
    for space in listed {
        let cells = match &space.info {
            Ok(info) => vec![
                directory(&space.path),
                info.pid.to_string(),
                state(space).to_owned(),
                age(age_s(space)),
                bytes(size(&space.path)),
                info.command.clone(),
            ],
            Err(error) => vec![
                directory(&space.path),
                String::new(),
                "unreadable".to_owned(),
                String::new(),
                bytes(size(&space.path)),
                error.to_string(),
            ],
        };
        table.row(cells, space.alive);
    }
    table
}

fn directory(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn state(space: &Listed) -> &'static str {
    let Ok(info) = &space.info else { return "unreadable" };
    match (space.alive, info.finished, info.keep) {
        (true, false, _) => "running",
        (_, true, true) => "ended, kept",
        (_, true, false) => "ended",
        (false, false, true) => "killed, kept",
        (false, false, false) => "killed",
    }
}

fn age_s(space: &Listed) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    (now - started(space) as f64 / 1e9).max(0.0)
}

/// Bytes that the files take.
fn size(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
}
