//! `thalweg lsp`: a language server over standard input and output.
//!
//! One thread reads messages; the serving thread receives all messages that wait, drops requests that were
//! cancelled meanwhile, answers in order, and checks for errors only when no message waits. Therefore a
//! series of quick keystrokes costs one check, not one for each key.

mod completion;
mod document;
mod inbox;
mod outline;
mod server;
mod workspace;

use std::path::PathBuf;

use crate::commands::check::known_boxes;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Editors start this; docs/editors.md tells how. It gives errors and warnings while you write, types and definitions \
under the pointer, references, completion, symbols and formatting.

Exit codes: 0 after `shutdown` and `exit`, 1 if the editor went away without them, 2 bad arguments or files.";

/// The arguments of `thalweg lsp`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A library with boxes; may be given several times. Without a library, boxes are assumed to be as
    /// declared.
    #[arg(long, value_name = "LIB")]
    boxes: Vec<PathBuf>,
    /// Communicate over standard input and output. The option has no effect, but some editors pass it.
    #[arg(long)]
    stdio: bool,
}

pub(crate) fn main(arguments: Arguments) -> Result<(), Failure> {
    let boxes = known_boxes(&arguments.boxes)?;
    let server = server::Server::new(boxes);
    match server.serve(inbox::Inbox::of_standard_input()) {
        0 => Ok(()),
        code => Err(Failure::Reported(code)),
    }
}
