//! `thalweg wrap`: writes the table that assigns C functions written for S-Net to the network's boxes.

use std::path::PathBuf;

use thalweg_host::adopt;
use thalweg_net::check::check_file;

use crate::Terminal;
use crate::failure::{Failure, print_diagnostics};
use crate::output::Output;

const EXAMPLES: &str = "\
Box sources written for S-Net (`void *foo(void *hnd, c4snet_data_t *x, int t)`, C4SNetOut) become a library:
  thalweg wrap foo.snet --into build
  cc -shared -fPIC -O2 -Ibuild build/foo_boxes.c \\
      build/c4snet.c foo.c -lm -o libfoo.so
  thalweg run foo.snet --boxes ./libfoo.so \\
      --input foo.xml --output result.xml
`thalweg adopt FOLDER` does all of this for the programs of a folder.";

/// The arguments of `thalweg wrap`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The network: the net that has the file's name.
    #[arg(value_name = "NET.snet")]
    net: PathBuf,
    /// The directory for the table, C4SNet.h and the files that they need; it is made if it does not exist.
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let checked = check_file(&arguments.net, None);
    let Some(resolved) = checked.resolved else { return Err(Failure::Text(checked.diagnostics)) };
    print_diagnostics(&checked.diagnostics, terminal);
    let name = arguments.net.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = &arguments.into;
    let file = adopt::write_table(&name, &resolved, folder)?;
    let mut output = Output::new(terminal);
    let shown = folder.display();
    output.line(&format!("wrote {}; now compile it with the boxes:", file.display()))?;
    output.line(&format!(
        "  cc -shared -fPIC -O2 -I{shown} {} {} BOXES.c -o lib{name}.so",
        file.display(),
        folder.join("c4snet.c").display()
    ))?;
    output.flush()
}
