//! `thalweg fmt`: formats the text of networks.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use thalweg_net::syntax::{Source, format};

use crate::Terminal;
use crate::failure::{Failure, print_diagnostics};

const EXAMPLES: &str = "\
Examples:
  # lay it out, in place
  thalweg fmt tidy.snet
  # name those that are not laid out
  thalweg fmt --check *.snet
  # print it, laid out
  thalweg fmt - < tidy.snet

Tokens and comments stay as they are; a text with syntax errors is not touched.
Exit codes: 0 done, 1 (with --check) some are not laid out, 2 errors.";

/// The arguments of `thalweg fmt`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The networks; `-` stands for standard input, whose formatted text goes to standard output.
    #[arg(value_name = "NET.snet", required = true)]
    nets: Vec<PathBuf>,
    /// Name the files that are not formatted, without changing them.
    #[arg(long)]
    check: bool,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (mut failed, mut changed) = (false, false);
    for path in &arguments.nets {
        match lay_out(path, arguments.check, terminal) {
            Ok(differs) => changed |= differs,
            Err(failure) => {
                failure.print(terminal);
                failed = true;
            }
        }
    }
    match (failed, changed && arguments.check) {
        (true, _) => Err(Failure::Reported(Failure::USAGE)),
        (false, true) => Err(Failure::Reported(1)),
        (false, false) => Ok(()),
    }
}

/// Formats a file. Returns whether formatting changes the file's text.
fn lay_out(path: &Path, check: bool, terminal: Terminal) -> Result<bool, Failure> {
    let from_input = path == Path::new("-");
    let text = read(path, from_input)?;
    let name = if from_input { Path::new("standard input") } else { path };
    let laid_out = format(&Source::new(name, text.as_str())).map_err(|errors| {
        print_diagnostics(&errors, terminal);
        Failure::Reported(Failure::USAGE)
    })?;
    let differs = laid_out != text;
    if check {
        if differs {
            print_stderr!("{}: not laid out; `thalweg fmt` does it", name.display());
        }
    } else if from_input {
        let written = std::io::stdout().write_all(laid_out.as_bytes());
        written.map_err(|e| Failure::coded_because("E0901", "can't write to standard output", e))?;
    } else if differs {
        let written = std::fs::write(path, laid_out);
        let what = || format!("can't write `{}`", path.display());
        written.map_err(|e| Failure::coded_because("E0901", what(), e))?;
    }
    Ok(differs)
}

fn read(path: &Path, from_input: bool) -> Result<String, Failure> {
    let limit = Source::BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    let read = if from_input {
        std::io::stdin().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    let what = || format!("can't read `{}`", path.display());
    let wrong = |why: String| Failure::coded("E0304", format!("{}: {why}", what()));
    read.map_err(|e| Failure::coded_because("E0304", what(), e))?;
    if bytes.len() > Source::BYTES_MAX {
        return Err(wrong(format!("it is longer than {} MiB", Source::BYTES_MAX >> 20)));
    }
    String::from_utf8(bytes)
        .map_err(|e| wrong(format!("it is not UTF-8 text (byte {})", e.utf8_error().valid_up_to())))
}
