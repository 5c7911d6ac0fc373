//! `thalweg kinds`: generates writers for a user's kinds of event, from their description.

use std::path::{Path, PathBuf};

use thalweg_space::kinds;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  # functions for C and C++
  thalweg kinds shop.kinds --language c > shop_kinds.h
  # a class for Java
  thalweg kinds shop.kinds --language java > ShopKinds.java
  # structs for Rust
  thalweg kinds shop.kinds --language rust > kinds.rs
  # is the description sound? print it with its hashes
  thalweg kinds shop.kinds";

/// The arguments of `thalweg kinds`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A description: `kind shop.order_placed { customer: u64 price: f64 in euro }`, and so on.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The language of the writers; without it the description is printed, with the hash of each kind.
    #[arg(long, value_name = "LANGUAGE", value_enum)]
    language: Option<Language>,
}

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    /// A header for C and C++, on top of thalweg_probe.h.
    C,
    /// A class for Java, on top of thalweg-agent.jar.
    Java,
    /// Structs for Rust.
    Rust,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let Arguments { file, language } = arguments;
    let text =
        std::fs::read_to_string(file).map_err(|error| Failure::Usage(error_of(file, &error.to_string())))?;
    let described = kinds::parse(&text).map_err(|problems| {
        let lines: Vec<String> =
            problems.iter().map(|problem| format!("{}: {problem}", file.display())).collect();
        Failure::Usage(lines.join("\n"))
    })?;
    let stem = file.file_stem().map_or_else(|| "kinds".into(), |stem| stem.to_string_lossy());
    let written = match language {
        None => kinds::print(&described),
        Some(Language::C) => thalweg_writers::c(&described, &stem),
        Some(Language::Java) => thalweg_writers::java(&described, "", &stem),
        Some(Language::Rust) => thalweg_writers::rust(&described),
    };
    let mut output = Output::new(terminal);
    output.text(&written)?;
    output.flush()
}

fn error_of(file: &Path, why: &str) -> String {
    format!("cannot read {}: {why}", file.display())
}
