//! `thalweg check`: check a network without running it.

use std::path::PathBuf;

use crate::Terminal;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  thalweg check tidy.snet                          syntax, names and types
  thalweg check tidy.snet --boxes ./libtidy.so     also: is there an implementation of every box?
  thalweg check tidy.snet --json                   one JSON object a line, for editors

Exit codes: 0 sound, 2 errors (or warnings, with --deny-warnings).";

/// What `thalweg check` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The network: the net named like the file. Files of external nets are found beside it.
    #[arg(value_name = "NET.snet")]
    net: PathBuf,
    /// A library with boxes; may be given several times.
    #[arg(long, value_name = "LIB")]
    boxes: Vec<PathBuf>,
    /// Print diagnostics as JSON on standard output, one object a line.
    #[arg(long)]
    json: bool,
    /// Warnings are failures too.
    #[arg(long)]
    deny_warnings: bool,
}

pub(crate) fn main(arguments: Arguments, _: Terminal) -> Result<(), Failure> {
    let _ = (arguments.net, arguments.boxes, arguments.json, arguments.deny_warnings);
    Err(Failure::not_yet("check"))
}
