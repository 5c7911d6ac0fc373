//! `thalweg tune --library`: tunes a library in running processes, by the rules of a pack.

pub(super) mod nodes;

use std::cell::RefCell;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_host::Notes;
use thalweg_pack::Pack;
use thalweg_space::{Space, SpaceOptions};
use thalweg_tune::library::{Library, LibraryProgress, hoster, ours, read, session_settings, tune_library};
use thalweg_tune::noted;

use super::decision_line;
use crate::Terminal;
use crate::commands::attach::guard_command;
use crate::failure::Failure;
use crate::output::Output;
use crate::removed::Removed;

/// The arguments about libraries.
#[derive(clap::Args)]
pub(super) struct OfLibrary {
    /// Tune a library in running processes, by a pack: `pvm`, `mpich`, `malloc` or a file. SPACE is then one
    /// process or several, by id or name with commas between, with their children; all that use the library
    /// if omitted.
    #[arg(long, value_name = "PACK", help_heading = "Libraries")]
    library: Option<String>,
    /// Values that were set by calls of the library stay set at the end, and the log is kept.
    #[arg(long, requires = "library", help_heading = "Libraries")]
    keep: bool,
    /// Do not change this point; may be given several times.
    #[arg(long, value_name = "POINT", requires = "library", help_heading = "Libraries")]
    forbid: Vec<String>,
    /// If the tuner hangs or is stopped for this time, it is killed, and what it changed is put back.
    #[arg(long, value_name = "TIME", value_parser = lease, default_value = "30s", requires = "library", help_heading = "Libraries")]
    lease: Duration,
    /// Write each window's measures to this file, for `thalweg pack try`.
    #[arg(long, value_name = "FILE", requires = "library", help_heading = "Libraries")]
    record: Option<PathBuf>,
    #[command(flatten)]
    nodes: nodes::OfNodes,
}

/// Starts hosts that join a virtual machine of PVM, until the tuner that made this process has ended.
pub(crate) fn host() -> Result<(), Failure> {
    hoster(Box::new(std::io::stdin()), Box::new(std::io::stdout())).map_err(Failure::Usage)
}

/// Parses a time that is longer than a tuner may wait for a thread that restores a value, between two renewals.
fn lease(text: &str) -> Result<Duration, String> {
    let lease = super::time(text)?;
    let is_enough = (Duration::from_secs(5)..=Duration::from_secs(86_400)).contains(&lease);
    if is_enough { Ok(lease) } else { Err("5s to 1d".to_owned()) }
}

fn hoster_command() -> Option<Command> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    // What goes wrong is reported to the tuner.
    command.arg("pvm-hoster").stderr(Stdio::null());
    Some(command)
}

impl OfLibrary {
    pub(super) fn is_asked(&self) -> bool {
        self.library.is_some()
    }
}

/// The pack with this name, or in this file.
pub(crate) fn pack(name: &str) -> Result<Pack, Failure> {
    pack_and_text(name).map(|(pack, _)| pack)
}

fn pack_and_text(name: &str) -> Result<(Pack, String), Failure> {
    let is_file = name.contains('/') || name.ends_with(".toml");
    let text = if is_file {
        std::fs::read_to_string(name)
            .map_err(|error| Failure::Usage(format!("cannot read {name}: {error}")))?
    } else {
        ours(name).map_err(Failure::Usage)?.to_owned()
    };
    let pack = read(name, &text).map_err(|bad| {
        let shown: Vec<String> =
            bad.problems.iter().map(|problem| problem.render(&bad.file, &bad.text)).collect();
        // Each mistake begins with the word that a failure is printed with, too.
        let shown = shown.join("\n");
        Failure::Usage(shown.strip_prefix("error: ").unwrap_or(&shown).to_owned())
    })?;
    Ok((pack, text))
}

pub(super) fn main(arguments: &super::Arguments, terminal: Terminal) -> Result<(), Failure> {
    let about = &arguments.library;
    let (pack, text) = pack_and_text(about.library.as_deref().unwrap_or_default())?;
    for name in &about.forbid {
        if !pack.points.iter().any(|point| point.setting == *name) {
            let names: Vec<&str> = pack.points.iter().map(|point| point.setting.as_str()).collect();
            return Err(Failure::Usage(format!(
                "the pack has no point `{name}`: there are {}",
                names.join(", ")
            )));
        }
    }
    let given = arguments.space.as_deref().unwrap_or("");
    let (processes, halves) = about.nodes.processes(given, &text, about.lease)?;
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let register = signal_hook::flag::register(signal, Arc::clone(&stopped));
        register.map_err(|error| Failure::run("cannot listen to signals", error))?;
    }
    let failed = |error| Failure::run("cannot make the space of the log", error);
    let options =
        SpaceOptions { name: format!("tune-{}", pack.name), keep: about.keep, ..SpaceOptions::default() };
    let space = Space::create(options).map_err(failed)?;
    // `_removed` is declared first, and so dropped last, after the space and the writers of the space.
    let (_removed, space) = ((!about.keep).then(|| Removed::new(&space)), space);
    let mut notes = Notes::new(&space);
    let decided = session_settings(&space).map_err(failed)?;
    let mailbox = space.mailbox().map_err(failed)?;
    let mut record = match &about.record {
        None => None,
        Some(path) => {
            let file = std::fs::File::create(path);
            let file =
                file.map_err(|error| Failure::run(format!("cannot write {}", path.display()), error))?;
            Some(BufWriter::new(file))
        }
    };
    let mut output = Output::new(terminal);
    let mut problem = None;
    let mut report = |what: &LibraryProgress<'_>| match what {
        LibraryProgress::Decision(decision) => {
            // A full log does not stop tuning.
            let _ = notes.note(&noted(decision));
            decided.cell().store(decision.number, Ordering::Relaxed);
            let printed = output.line(&decision_line(decision)).and_then(|()| output.flush());
            problem = printed.err().or(problem.take());
        }
        LibraryProgress::Attached(pid) => print_stderr!("attached to process {pid}"),
        LibraryProgress::Noted(text) => print_stderr!("{text}"),
        LibraryProgress::Refused(pid, why) => print_stderr!("process {pid}: {why}"),
        LibraryProgress::Window(name, at, fields) => {
            if let Some(file) = &mut record {
                let known = fields.iter().filter(|(_, value)| value.is_finite());
                let values: serde_json::Map<String, serde_json::Value> =
                    known.map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
                let process = name.parse::<i32>().map_or_else(|_| (*name).into(), serde_json::Value::from);
                let line = serde_json::json!({ "process": process, "at_s": at, "values": values });
                let _ = writeln!(file, "{line}");
            }
        }
    };
    let library = Library {
        pack: &pack,
        processes,
        halves,
        keep: about.keep,
        advise: arguments.advise,
        lasts: arguments.lasts,
        pinned: about.forbid.clone(),
        guard: &|| guard_command(Some(about.lease)),
        helper: &hoster_command,
        orders: Some(RefCell::new(mailbox)),
    };
    tune_library(&library, &|| stopped.load(Ordering::Relaxed), &mut report).map_err(Failure::Usage)?;
    match problem {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}
