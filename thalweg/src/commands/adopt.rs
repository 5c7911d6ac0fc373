//! `thalweg adopt`: runs programs written for S-Net unchanged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use thalweg_host::adopt::{Adoption, Outcome, Program, State, Trial};
use thalweg_host::amount::counted;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
A program is a network (NAME.snet) that no other network of its folder uses. Its boxes are the functions in C that bear \
the boxes' names, wherever they are in the folder; main programs, generators and what S-Net's compiler wrote are left \
out. Its inputs are the files of records in S-Net's XML, at and below the network's folder; what X.xml should give is \
in X.expected, X.expected.xml, X.out, X.ref or expected/X.xml. Each input is run with one worker and with two, and \
what comes out is compared, in whatever order it came.

Boxes are compiled as old C needs it (-std=gnu11 -fcommon -fgnu89-inline, no warnings) and linked with \
-Wl,-Bsymbolic, -lm and -lpthread. A second call compiles and runs only what has changed.

Examples:
  # every program below examples/, into ./adopted
  thalweg adopt examples/
  # one, into another folder
  thalweg adopt factorial --into /tmp/f
  # its boxes call libjpeg and libz
  thalweg adopt ray --link jpeg -lz
  thalweg adopt old --cflag=-Iinclude --cflag=-DN=8
  # what stands in the way of those that cannot run
  thalweg adopt examples --json |
      jq -r 'select(.state == \"blocked\").obstacles[0]'

Exit codes: 0 every program runs (or builds, if it has no input), 1 something stands in the way of one, 2 bad \
arguments, no program, no C compiler. docs/s-net.md says what differs from S-Net.";

/// The arguments of `thalweg adopt`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Folders with programs written for S-Net. The folders are not changed.
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
    /// The folder for libraries, objects and results.
    #[arg(long, value_name = "DIR", default_value = "adopted")]
    into: PathBuf,
    /// A library that boxes call: `jpeg` for libjpeg; may be given several times.
    #[arg(long, short, value_name = "NAME")]
    link: Vec<String>,
    /// A further flag for the C compiler; may be given several times.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    cflag: Vec<String>,
    /// The C compiler [default: the variable CC, else cc].
    #[arg(long, value_name = "PROGRAM")]
    cc: Option<PathBuf>,
    /// Seconds that a run may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// A record that a synchrocell still holds at the end is an error.
    #[arg(long)]
    strict_end: bool,
    /// Run every input, also if nothing has changed since its last successful run.
    #[arg(long)]
    afresh: bool,
    /// Print one JSON object for each program.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let thalweg = std::env::current_exe().map_err(|error| Failure::run("cannot find this program", error))?;
    let adoption = Adoption {
        folders: arguments.folders,
        into: arguments.into,
        compiler: arguments.cc.unwrap_or_else(compiler),
        link: arguments.link,
        flags: arguments.cflag,
        thalweg,
        strict_end: arguments.strict_end,
        limit: Duration::from_secs(arguments.limit),
        afresh: arguments.afresh,
    };
    let mut output = Output::new(terminal);
    let mut states = Vec::new();
    let mut broken = None;
    let count = adoption.run(|program| {
        states.push(program.state());
        let written = match arguments.json {
            true => output.line(&object(&program).to_string()),
            false => lines(&program, &output).iter().try_for_each(|line| output.line(line)),
        };
        // If the reader of the output has gone (`| head`), the remaining programs are still tried.
        if let Err(failure) = written.and_then(|()| output.flush()) {
            broken.get_or_insert(failure);
        }
        Ok(())
    })?;
    if let Some(failure) = broken {
        return Err(failure);
    }
    let run = states.iter().filter(|state| matches!(state, State::Runs | State::Builds)).count();
    if !arguments.json {
        let of = counted(count as u64, "program");
        output.line(&match count - run {
            0 => format!("{of}: nothing stands in the way"),
            1 => format!("{of}: something stands in the way of 1"),
            many => format!("{of}: something stands in the way of {many}"),
        })?;
        output.flush()?;
    }
    if run == count { Ok(()) } else { Err(Failure::Reported(1)) }
}

/// The default C compiler.
fn compiler() -> PathBuf {
    std::env::var_os("CC").filter(|name| !name.is_empty()).map_or_else(|| "cc".into(), PathBuf::from)
}

/// A path relative to the program's folder.
fn shown(path: &Path, program: &Program) -> String {
    path.strip_prefix(&program.root).unwrap_or(path).display().to_string()
}

fn word(state: State) -> &'static str {
    match state {
        State::Runs => "runs",
        State::Builds => "builds",
        State::Fails => "fails",
        State::Blocked => "blocked",
    }
}

/// Prints the result for a program, for people.
fn lines(program: &Program, output: &Output) -> Vec<String> {
    let state = word(program.state());
    let name = output.styled("1", &program.name);
    let mut lines = vec![format!("{state:7}  {name}  {}", shown(&program.network, program))];
    lines.extend(program.obstacles.iter().map(|obstacle| format!("  in the way: {obstacle}")));
    for trial in &program.trials {
        let input = shown(&trial.input, program);
        let out = counted(trial.records_out, "record");
        let unchanged = if trial.is_fresh { "" } else { ", unchanged" };
        lines.push(match &trial.outcome {
            Outcome::Agrees => format!("  {input}: {out} out, as expected{unchanged}"),
            Outcome::Ran => format!("  {input}: {out} out, nothing to compare with{unchanged}"),
            Outcome::Differs(how) => format!("  in the way: {input}: {how}"),
            Outcome::Fails(why) => format!("  in the way: {input}: {why}"),
        });
        lines.extend(trial.warnings.iter().map(|warning| format!("  note: {input}: {warning}")));
    }
    lines.extend(program.notes.iter().map(|note| format!("  note: {note}")));
    for (path, why) in &program.left_out {
        lines.push(format!("  left out: {}: {why}", shown(path, program)));
    }
    if let State::Runs | State::Builds = program.state() {
        lines.push(format!("  {}", command(program).join(" ")));
    }
    lines
}

/// The command that runs the program by hand.
fn command(program: &Program) -> Vec<String> {
    let mut words = vec!["thalweg".to_owned(), "run".to_owned(), here(&program.network)];
    if let Some(library) = &program.library {
        words.extend(["--boxes".to_owned(), here(library)]);
    }
    words.extend(program.arguments.iter().cloned());
    let input = program.trials.first().map(|trial| here(&trial.input));
    words.extend(
        input
            .into_iter()
            .flat_map(|input| ["--input-format".to_owned(), "xml".to_owned(), "--input".to_owned(), input]),
    );
    words
}

/// A path relative to the current folder, if it is below that folder.
fn here(path: &Path) -> String {
    let below =
        std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    below.map_or_else(|| path.display().to_string(), |below| format!("./{}", below.display()))
}

/// The result for a program, as JSON.
fn object(program: &Program) -> serde_json::Value {
    let trial = |trial: &Trial| {
        let (outcome, why) = match &trial.outcome {
            Outcome::Agrees => ("agrees", None),
            Outcome::Ran => ("ran", None),
            Outcome::Differs(how) => ("differs", Some(how)),
            Outcome::Fails(why) => ("fails", Some(why)),
        };
        json!({
            "input": shown(&trial.input, program),
            "expected": trial.expected.as_ref().map(|path| shown(path, program)),
            "outcome": outcome, "why": why, "records_out": trial.records_out,
            "warnings": trial.warnings, "fresh": trial.is_fresh,
        })
    };
    let left_out =
        program.left_out.iter().map(|(path, why)| json!({"file": shown(path, program), "why": why}));
    json!({
        "name": program.name, "state": word(program.state()), "network": shown(&program.network, program),
        "library": program.library, "obstacles": program.obstacles, "notes": program.notes,
        "left_out": left_out.collect::<Vec<_>>(), "inputs": program.trials.iter().map(trial).collect::<Vec<_>>(),
        "compiled": program.compiled, "unchanged": program.unchanged, "command": command(program),
    })
}
