//! `thalweg ls`: list runs, those of a session below it.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use thalweg_host::LiveRun;
use thalweg_host::spaces::{self, started};
use thalweg_space::discover::Listed;
use thalweg_space::reader::{Member, Session};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{ShapeArguments, Table, id, number, text};
use crate::units::{age, bytes};

/// The arguments of `thalweg ls`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: ShapeArguments,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut listed = spaces::listed()?;
    listed.sort_by_key(started);
    let sessions = spaces::sessions()?;
    let mut output = Output::shaped(terminal, &arguments.shape);
    if arguments.json {
        for space in &listed {
            output.line(&object(space).to_string())?;
        }
        for session in &sessions {
            output.line(&session_object(session).to_string())?;
        }
    } else if listed.is_empty() && sessions.is_empty() {
        print_stderr!("no runs in {}", spaces::parent()?.display());
    } else {
        output.table(&table(&listed, &sessions))?;
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
            "session": space.session,
        }),
        Err(error) => {
            json!({ "path": path, "state": "unreadable", "alive": false, "error": format!("{error:#}") })
        }
    }
}

fn session_object(path: &Path) -> serde_json::Value {
    match members(path) {
        Ok(members) => json!({
            "path": path,
            "state": "session",
            "alive": members.iter().any(Member::is_alive),
            "processes": members.iter().map(process_object).collect::<Vec<_>>(),
        }),
        Err(error) => {
            json!({ "path": path, "state": "unreadable", "alive": false, "error": format!("{error:#}") })
        }
    }
}

fn process_object(member: &Member) -> serde_json::Value {
    json!({
        "name": member.name,
        "space": member.directory,
        "pid": member.pid,
        "parent_pid": member.parent_pid,
        "alive": member.is_alive(),
        "host": member.host,
        "architecture": member.architecture,
        "joined_ns": member.joined_ns,
        "left_ns": member.left_ns,
    })
}

fn members(path: &Path) -> Result<Vec<Member>, thalweg_space::Error> {
    Ok(Session::open(path)?.members()?.to_vec())
}

fn table(listed: &[Listed], sessions: &[PathBuf]) -> Table {
    let mut table = Table::new(&[
        text("NAME"),
        id("PID", 0),
        text("STATE").loose(),
        number("AGE", 2),
        number("SIZE", 3),
        text("COMMAND").loose(),
    ]);
    for space in listed.iter().filter(|space| space.session.is_none()) {
        row(&mut table, space, "");
    }
    for session in sessions {
        session_row(&mut table, session);
        for space in listed.iter().filter(|space| space.session.as_ref() == Some(session)) {
            row(&mut table, space, "  ");
        }
    }
    table
}

/// Adds the row of a session: how many processes joined it, run, and have left. Processes on other machines of which
/// nothing was copied yet run as long as the one that would copy them.
fn session_row(table: &mut Table, path: &Path) {
    let (summary, alive) = match members(path) {
        Ok(members) => {
            let running = members.iter().filter(|member| member.is_alive()).count();
            let left = members.iter().filter(|member| member.left_ns.is_some()).count();
            let elsewhere = if running > 0 { uncopied(path, &members) } else { 0 };
            let (count, running) = (members.len() + elsewhere, running + elsewhere);
            (format!("{count} joined, {left} left, {running} running"), running > 0)
        }
        Err(error) => (format!("{error:#}"), false),
    };
    let none = String::new;
    table.row(vec![directory(path), none(), "session".to_owned(), none(), none(), summary], alive);
}

/// The number of nodes on other machines with processes that have not been copied into the session yet.
fn uncopied(session: &Path, members: &[Member]) -> usize {
    let is_there = |node: &str| members.iter().any(|member| member.name.ends_with(&format!("@{node}")));
    let states = thalweg_space::copies::states(session);
    states.iter().filter(|state| state.missing.is_empty() && !is_there(&state.node)).count()
}

fn row(table: &mut Table, space: &Listed, indent: &str) {
    let name = format!("{indent}{}", directory(&space.path));
    let cells = match &space.info {
        Ok(info) => vec![
            name,
            info.pid.to_string(),
            state(space).to_owned(),
            age(age_s(space)),
            bytes(size(&space.path)),
            info.command.clone(),
        ],
        Err(error) => vec![
            name,
            String::new(),
            "unreadable".to_owned(),
            String::new(),
            bytes(size(&space.path)),
            format!("{error:#}"),
        ],
    };
    table.row(cells, space.alive);
}

fn directory(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn state(space: &Listed) -> &'static str {
    let Ok(info) = &space.info else { return "unreadable" };
    match (space.alive, info.finished, info.keep) {
        (true, false, _) if is_paused(space) => "paused",
        (true, false, _) => "running",
        (_, true, true) => "ended, kept",
        (_, true, false) => "ended",
        (false, false, true) => "killed, kept",
        (false, false, false) => "killed",
    }
}

fn is_paused(space: &Listed) -> bool {
    LiveRun::open(&space.path).is_ok_and(|run| run.is_paused())
}

fn age_s(space: &Listed) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    (now - started(space) as f64 / 1e9).max(0.0)
}

/// The size of the files in bytes.
fn size(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
}
