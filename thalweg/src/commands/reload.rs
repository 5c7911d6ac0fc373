//! `thalweg reload`: replaces a library of boxes by another build, in a run that was started with
//! `--control`.

use thalweg_host::{RunCommand, libraries};

use super::control::{Patience, send};
use crate::Terminal;
use crate::failure::Failure;

const EXAMPLES: &str = "\
The run loads the library's file once more and goes on with the boxes in it: each task after the call that it is \
in, without losing a record or what synchrocells hold. A library whose boxes have other signatures is refused, and \
the old one goes on. The old library is unloaded when its last call has ended and the last value that it frees is \
gone.

Examples:
  # in the newest run
  cc -shared -fPIC -O2 tidy.c -o libtidy.so
  thalweg reload ./libtidy.so
  # in process 4242
  thalweg reload 4242 ./libtidy.so

Exit codes: 0 done, 1 the run refused it, 2 bad arguments or no such run.";

/// The arguments of `thalweg reload`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "thalweg reload [OPTIONS] [SPACE] LIB")]
pub(crate) struct Arguments {
    /// A space or the session of a run over nodes (as in `thalweg report`; the newest if omitted), and the
    /// library, which the run has loaded.
    #[arg(value_name = "[SPACE] LIB", num_args = 1..=2, required = true)]
    space_library: Vec<String>,
    #[command(flatten)]
    patience: Patience,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (space, library) = match arguments.space_library.as_slice() {
        [library] => (None, library),
        [space, library] => (Some(space.as_str()), library),
        _ => return Err(Failure::Usage("reload takes a library".to_owned())),
    };
    let command = RunCommand::Reload { library: libraries::find(library.as_ref())? };
    send(space, &command, &arguments.patience, terminal)
}
