//! Measures Thalweg side by side with its rivals and its limits.
//!
//! This program prints one line per case: Thalweg's figure, the limit, rivals with the same function, and the
//! goal. `cargo xtask bench` starts this program.
#![allow(clippy::print_stdout, reason = "a command")]

mod accounts;
mod admission;
mod analysis;
mod archive;
mod boxes;
mod cores;
mod des;
mod event;
mod farm;
mod follow;
mod foreign;
mod hop;
mod language;
mod latency;
mod link;
mod lttng;
mod measure;
mod observed;
mod output;
mod pack;
mod plot;
mod probe;
mod record;
mod relay;
mod scope;
mod split;
mod tasks;
mod tracers;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use lexopt::prelude::*;
use measure::Case;
use output::Form;

const HELP: &str = "\
Measures Thalweg side by side with its rivals and limits.

usage: cargo xtask bench [GROUP…] [--json | --markdown] [--check] [--seconds S] [--only TEXT] [--ours] [--svg FILE]

  GROUP          accounts, archive, event, hop, latency, farm, split, tasks, record, language, boxes, des,
                 analysis, pack, link, scope, probe; all if none is given
  --json         one JSON object a line
  --markdown     a table for BENCHMARKS.md
  --check        exit with 1 if a goal is missed
  --seconds S    time for one case (default 2), besides five samples at least
  --only TEXT    only cases whose name and parameters hold TEXT
  --ours         measure ours alone, neither rivals nor limits: to compare two builds of ours by turns
  --svg FILE     draw what changes with a number (hops, replicas, stages), a panel for each case, ours beside rivals
";

/// A group's name and the function that makes its cases.
type Group = (&'static str, fn() -> Vec<Case<'static>>);

const GROUPS: [Group; 17] = [
    ("accounts", accounts::cases),
    ("archive", archive::cases),
    ("event", event::cases),
    ("hop", hop::cases),
    ("latency", latency::cases),
    ("farm", farm::cases),
    ("split", split::cases),
    ("tasks", tasks::cases),
    ("record", record::cases),
    ("language", language::cases),
    ("boxes", boxes::cases),
    ("des", des::cases),
    ("analysis", analysis::cases),
    ("pack", pack::cases),
    ("link", link::cases),
    ("scope", scope::cases),
    ("probe", probe::cases),
];

/// A job that this program executes in another process, on the space in a directory.
type Job = (&'static str, fn(&Path) -> Result<(), String>);

const JOBS: [Job; 6] = [
    (follow::FOLLOW, follow::follow),
    (analysis::ANALYSE, analysis::analyse),
    (analysis::WATCH, analysis::watch),
    (scope::SERVE, scope::serve),
    (scope::PULL, scope::pull),
    (scope::HOLD, scope::hold),
];

struct Arguments {
    groups: Vec<String>,
    form: Form,
    check: bool,
    budget: Duration,
    only: String,
    ours: bool,
    svg: Option<std::path::PathBuf>,
}

fn main() -> ExitCode {
    // These arguments are internal: they start the other process of some cases.
    if let [_, what, path] = &std::env::args().collect::<Vec<_>>()[..]
        && let Some((_, job)) = JOBS.iter().find(|(name, _)| what == name)
    {
        return job(path.as_ref()).map_or_else(
            |error| {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    match parse() {
        Ok(Some(arguments)) => run(&arguments),
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse() -> Result<Option<Arguments>, lexopt::Error> {
    let mut arguments = Arguments {
        groups: Vec::new(),
        form: Form::Table,
        check: false,
        budget: Duration::from_secs(2),
        only: String::new(),
        ours: false,
        svg: None,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("json") => arguments.form = Form::Json,
            Long("markdown") => arguments.form = Form::Markdown,
            Long("check") => arguments.check = true,
            Long("seconds") => {
                arguments.budget = parser.value()?.parse_with(|text| {
                    text.parse().map_err(|_| "seconds are a number").and_then(|seconds| {
                        Duration::try_from_secs_f64(seconds).map_err(|_| "seconds are a positive number")
                    })
                })?;
            }
            Long("svg") => arguments.svg = Some(parser.value()?.into()),
            Long("only") => arguments.only = parser.value()?.string()?,
            Long("ours") => arguments.ours = true,
            Long("help") | Short('h') => return Ok(None),
            Value(group) if GROUPS.iter().any(|(name, _)| group == *name) => {
                arguments.groups.push(group.string()?);
            }
            Value(group) => {
                let names = GROUPS.map(|(name, _)| name).join(", ");
                return Err(format!("there is no group `{}`; there are {names}", group.display()).into());
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(arguments))
}

fn run(arguments: &Arguments) -> ExitCode {
    let missed = match show(arguments) {
        Ok(missed) => missed,
        // The reader of the output has closed the pipe, so it wants no more lines.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            eprintln!("error: cannot write the results: {error}");
            return ExitCode::from(2);
        }
    };
    event::clean();
    if missed > 0 && arguments.form == Form::Table {
        eprintln!("{missed} goals missed");
    }
    if missed > 0 && arguments.check { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs the selected cases and prints each outcome at once; returns the number of missed goals.
fn show(arguments: &Arguments) -> std::io::Result<usize> {
    let mut out = std::io::stdout();
    if let Some(head) = output::head(arguments.form) {
        writeln!(out, "{head}")?;
    }
    let (mut missed, mut outcomes) = (0, Vec::new());
    for (_, cases) in GROUPS.iter().filter(|(name, _)| asked(arguments, name)) {
        for mut case in cases().into_iter().filter(|case| case.title().contains(&arguments.only)) {
            if arguments.ours {
                case.rivals.clear();
                case.limit = None;
            }
            let outcome = case.run(arguments.budget);
            missed += usize::from(outcome.ok == Some(false));
            writeln!(out, "{}", output::line(arguments.form, &outcome))?;
            outcomes.push(outcome);
        }
    }
    if let Some(file) = &arguments.svg {
        plot::draw(&outcomes, file).map_err(|error| std::io::Error::other(error.to_string()))?;
    }
    Ok(missed)
}

fn asked(arguments: &Arguments, group: &str) -> bool {
    arguments.groups.is_empty() || arguments.groups.iter().any(|asked| asked == group)
}
