//! `thalweg run`: run a network on records.

use std::path::PathBuf;

use crate::Terminal;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  thalweg run tidy.snet --boxes ./libtidy.so < in.jsonl > out.jsonl
  echo '{\"x\": 1, \"<n>\": 3}' | thalweg run tidy.snet --boxes ./libtidy.so";

/// What `thalweg run` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The network: the net named like the file.
    #[arg(value_name = "NET.snet")]
    net: PathBuf,
    /// A library with boxes; may be given several times.
    #[arg(long, value_name = "LIB")]
    boxes: Vec<PathBuf>,
}

pub(crate) fn main(arguments: Arguments, _: Terminal) -> Result<(), Failure> {
    let _ = (arguments.net, arguments.boxes);
    Err(Failure::not_yet("run"))
}
