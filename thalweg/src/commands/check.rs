//! `thalweg check`: check a network without running it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use thalweg_host::libraries;
use thalweg_net::Loading;
use thalweg_net::check::{Analysis, Checked, Files, KnownBoxes, Signatures, analyse, check_file};
use thalweg_net::syntax::{Diagnostic, Note};

use super::graph;
use crate::Terminal;
use crate::failure::{Failure, print_diagnostics};

const EXAMPLES: &str = "\
Examples:
  # syntax, names and types
  thalweg check tidy.snet
  # also: is there an implementation of every box?
  thalweg check tidy.snet --boxes ./libtidy.so
  # one JSON object a line, for editors
  thalweg check tidy.snet --json
  # also: what each net takes and gives
  thalweg check tidy.snet --types
  # draw it for the terminal; dot is for Graphviz
  thalweg check tidy.snet --graph text
  # draw it as an image
  thalweg check tidy.snet --graph svg > tidy.svg

Exit codes: 0 sound, 2 errors (or warnings, with --deny-warnings).
`thalweg explain E0301` says what a code means.";

/// The arguments of `thalweg check`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The network: the net that has the file's name. Files of external nets are found beside it.
    #[arg(value_name = "NET.snet")]
    net: PathBuf,
    /// A library with boxes; may be given several times. Without a library, boxes are assumed to be as
    /// declared.
    #[arg(long, value_name = "LIB")]
    boxes: Vec<PathBuf>,
    /// Print diagnostics as JSON on standard output, one object a line.
    #[arg(long)]
    json: bool,
    /// Treat warnings as failures.
    #[arg(long)]
    deny_warnings: bool,
    /// Print the inferred input and output of each net.
    #[arg(long, conflicts_with_all = ["json", "graph"])]
    types: bool,
    /// Draw the network on standard output.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    graph: Option<GraphFormat>,
}

/// The format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GraphFormat {
    /// Characters, for a terminal.
    Text,
    /// An image.
    Svg,
    /// Input of Graphviz.
    Dot,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let boxes = known_boxes(&arguments.boxes)?;
    let (Checked { resolved, diagnostics }, signatures) = if arguments.types {
        let Analysis { resolved, diagnostics, signatures, .. } =
            analyse(&arguments.net, &Files::default(), boxes.as_ref());
        (Checked { resolved, diagnostics }, Some(signatures))
    } else {
        (check_file(&arguments.net, boxes.as_ref()), None)
    };
    if arguments.json {
        print_json(&diagnostics)?;
    } else {
        print_diagnostics(&diagnostics, terminal);
    }
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    let warnings = diagnostics.len() - errors;
    let failed = errors > 0 || (arguments.deny_warnings && warnings > 0);
    if arguments.json {
        return if failed { Err(Failure::Reported(Failure::USAGE)) } else { Ok(()) };
    }
    let counts = [count(errors, "error"), count(warnings, "warning")];
    let counts = counts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if let Some(signatures) = &signatures {
        print_types(signatures)?;
    }
    match resolved {
        Some(resolved) if !failed && arguments.graph.is_some() => {
            let drawing = match arguments.graph {
                Some(GraphFormat::Svg) => graph::svg(&resolved),
                Some(GraphFormat::Dot) => graph::dot(&resolved),
                _ => graph::text(&resolved).ok_or_else(|| {
                    Failure::Usage(
                        "the network is too large to be drawn with characters: use `--graph svg`".into(),
                    )
                })?,
            };
            write!(std::io::stdout(), "{drawing}").map_err(cannot_write)
        }
        Some(resolved) if !failed => {
            let (nets, boxes) = (count(resolved.nets.len(), "net"), count(resolved.boxes.len(), "box"));
            let size = [nets, boxes].into_iter().flatten().collect::<Vec<_>>().join(", ");
            let but = if counts.is_empty() { String::new() } else { format!("; {counts}") };
            print_line(&format!("{}: sound ({size}{but})", arguments.net.display()))?;
            Ok(())
        }
        _ => {
            print_stderr!("{}: {counts}", arguments.net.display());
            Err(Failure::Reported(Failure::USAGE))
        }
    }
}

/// Prints a line for each net and each input variant.
fn print_types(signatures: &Signatures) -> Result<(), Failure> {
    for net in &signatures.nets {
        let declared = if net.declared.is_some() { "  (input as declared)" } else { "" };
        print_line(&format!("net {}{declared}", net.name))?;
        net.inferred.iter().try_for_each(|one| print_line(&format!("    {one}")))?;
        if !net.complete {
            print_line(&format!("    {}", super::NOT_ALL_VARIANTS))?;
        }
    }
    Ok(())
}

/// The boxes in the libraries; `None` if no library was given.
pub(crate) fn known_boxes(libraries: &[PathBuf]) -> Result<Option<KnownBoxes>, Failure> {
    if libraries.is_empty() {
        return Ok(None);
    }
    let mut boxes = libraries::load(libraries, Loading::Stays)?;
    // Checking runs no code of the boxes.
    boxes.allow_commands();
    Ok(Some(boxes.known()))
}

fn count(number: usize, what: &str) -> Option<String> {
    match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{number} {what}{}", if what.ends_with('x') { "es" } else { "s" })),
    }
}

fn print_line(line: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{line}").map_err(cannot_write)
}

fn cannot_write(error: std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::Reported(0),
        _ => thalweg_host::Error::usage("can't write to standard output").because(error).into(),
    }
}

fn print_json(diagnostics: &[Diagnostic]) -> Result<(), Failure> {
    diagnostics.iter().try_for_each(|d| print_line(&to_json(d).to_string()))
}

/// One diagnostic: `severity`, `code`, `message`, `help`, `notes`, the place, and `others`, places with their
/// `text`. Lines and columns count from 1, columns in characters; `start` and `end` are bytes of the file.
fn to_json(diagnostic: &Diagnostic) -> Value {
    let mut object = match &diagnostic.primary {
        Some(primary) => place(primary),
        None => json!({}),
    };
    object["severity"] = if diagnostic.is_error() { "error" } else { "warning" }.into();
    object["code"] = diagnostic.code.into();
    object["message"] = diagnostic.message.as_str().into();
    object["help"] = json!(diagnostic.helps);
    object["notes"] = json!(diagnostic.remarks);
    object["others"] = diagnostic.others.iter().map(place).collect();
    object
}

fn place(note: &Note) -> Value {
    let path: &Path = note.source.path();
    let (start, end) = (note.start(), note.end());
    json!({
        "file": path.to_string_lossy(),
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
        "start": note.span.start,
        "end": note.span.end,
        "text": note.text,
    })
}
