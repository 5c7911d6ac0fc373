//! `thalweg inspect`: what is in a library of boxes.

use std::path::PathBuf;

use thalweg_box::abi::ABI_VERSION;
use thalweg_net::Boxes;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  thalweg inspect ./libtidy.so                 its boxes, with their signatures
  thalweg inspect --json ./liba.so ./libb.so   the same for programs";

/// What `thalweg inspect` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The libraries. They are loaded, so what they do when they are loaded is done.
    #[arg(value_name = "LIB", required = true)]
    libraries: Vec<PathBuf>,
    /// One JSON object a box.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::new(terminal);
    for path in &arguments.libraries {
        let mut boxes = Boxes::new();
        boxes.load_library(path).map_err(|error| Failure::coded("E0904", error.to_string()))?;
        if !arguments.json {
            let name = output.styled("1", &path.display().to_string());
            output
                .line(&format!("{name}  box interface {ABI_VERSION}, {}", counted(boxes.names().count())))?;
        }
        let signatures = boxes.known().boxes;
        for (name, signature) in &signatures {
            let blocking = boxes.is_blocking(name);
            if arguments.json {
                let line = serde_json::json!({
                    "library": path.display().to_string(), "abi": ABI_VERSION, "box": name,
                    "signature": signature.to_string(), "blocking": blocking,
                });
                output.line(&line.to_string())?;
            } else {
                let note = if blocking { "  has a thread of its own" } else { "" };
                output.line(&format!("  box {name} ({signature}){note}"))?;
            }
        }
    }
    output.flush()
}

fn counted(boxes: usize) -> String {
    if boxes == 1 { "1 box".to_owned() } else { format!("{boxes} boxes") }
}
