//! `thalweg man` and `thalweg completions`: manual pages and a shell's completions, made from the same
//! description of the arguments as `--help`.

use std::path::{Path, PathBuf};

use clap::Command;
use clap::builder::Resettable;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;

const MAN_EXAMPLES: &str = "\
Examples:
  # read the page of `thalweg run`
  thalweg man run | man -l -
  # all pages, for a program in ~/.cargo/bin
  thalweg man --into ~/.cargo/share/man/man1";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  # in ~/.bashrc
  eval \"$(thalweg completions bash)\"
  # for fish
  thalweg completions fish \\
      > ~/.config/fish/completions/thalweg.fish
  # for zsh: a directory of $fpath
  thalweg completions zsh > ~/.zfunc/_thalweg";

/// The arguments of `thalweg man`.
#[derive(clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct Pages {
    /// Print the page of this command; without one, that of thalweg.
    #[arg(value_name = "COMMAND", conflicts_with = "into")]
    command: Option<String>,
    /// Write all pages into this directory, which is made if it does not exist.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// The arguments of `thalweg completions`.
#[derive(clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Prints or writes manual pages of `program`.
pub(crate) fn man(arguments: &Pages, program: Command, terminal: Terminal) -> Result<(), Failure> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    if let Some(folder) = &arguments.into {
        return write(folder, &program);
    }
    let command = match &arguments.command {
        None => &program,
        Some(name) => program.find_subcommand(name).ok_or_else(|| {
            Failure::Usage(format!("there is no command `{name}`; `thalweg --help` lists them"))
        })?,
    };
    let mut output = Output::new(terminal);
    output.text(&page(command))?;
    output.flush()
}

fn write(folder: &Path, program: &Command) -> Result<(), Failure> {
    let unwritable = |path: &Path, error| {
        Failure::coded_because("E0901", format!("can't write `{}`", path.display()), error)
    };
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    for command in std::iter::once(program).chain(program.get_subcommands()) {
        let file = folder.join(Man::new(command.clone()).get_filename());
        std::fs::write(&file, page(command)).map_err(|error| unwritable(&file, error))?;
    }
    Ok(())
}

/// The page of a command, as the macros of `man`.
fn page(command: &Command) -> String {
    let notes = command.get_after_help().map_or(String::new(), |help| notes(&help.to_string()));
    let without = command.clone().version(env!("CARGO_PKG_VERSION")).after_help(Resettable::Reset);
    let mut page = Vec::new();
    Man::new(without).source("Thalweg").render(&mut page).expect("memory takes all");
    String::from_utf8(page).expect("the arguments are text") + &notes
}

/// The text below the options: indented lines stay unchanged, other lines form paragraphs.
fn notes(text: &str) -> String {
    let mut roff = Roff::new();
    if !text.starts_with("Examples:") && !text.is_empty() {
        roff.control("SH", ["NOTES"]);
    }
    let mut verbatim = false;
    for line in text.lines() {
        let indented = line.starts_with("  ");
        if indented != verbatim {
            roff.control(if indented { "RS" } else { "fi" }, []);
            roff.control(if indented { "nf" } else { "RE" }, []);
            verbatim = indented;
        }
        match line {
            "Examples:" => drop(roff.control("SH", ["EXAMPLES"])),
            "" => {}
            _ if indented => drop(roff.text([roman(&line[2..])])),
            _ => drop(roff.control("PP", []).text([roman(line)])),
        }
    }
    if verbatim {
        roff.control("fi", []);
        roff.control("RE", []);
    }
    roff.render()
}

/// Prints the script that lets a shell complete `program`.
pub(crate) fn completions(
    arguments: &Completions,
    mut program: Command,
    terminal: Terminal,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "thalweg", &mut script);
    let mut output = Output::new(terminal);
    output.text(&String::from_utf8(script).expect("the arguments are text"))?;
    output.flush()
}
