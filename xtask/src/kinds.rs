//! `cargo xtask kinds`: the descriptions of our kinds (`kinds/*.kinds`), and what is generated from them.
//!
//! The structs with `#[derive(Kind)]` in a crate are read as text, as the layout is. From what they describe come the monitor's typed
//! events. Tests compare what is committed with what would be written, and (in the crates) with what the derive says.

mod rust;
mod source;

use crate::process;
use anyhow::{Context, Result};
use std::process::ExitCode;
use thalweg_space::kinds::{Description, print};

/// The crates that declare kinds.
const CRATES: [&str; 4] = ["space", "exec", "net", "host"];
/// Those whose kinds the monitor knows.
const OBSERVED: [&str; 3] = ["exec", "net", "host"];

/// The files that are written, with what they contain.
fn files() -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    let mut observed = Vec::new();
    for folder in CRATES {
        let described = source::kinds(&process::root().join(folder).join("src"))
            .with_context(|| format!("the kinds of {folder}"))?;
        files.push((format!("kinds/{folder}.kinds"), kinds_file(folder, &described)));
        if OBSERVED.contains(&folder) {
            observed.extend(described);
        }
    }
    files.push(("monitor/src/events.rs".to_owned(), rust::events(&observed)?));
    Ok(files)
}

fn kinds_file(folder: &str, described: &[Description]) -> String {
    format!("// Written by `cargo xtask kinds` from {folder}/src.\n\n{}", print(described))
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    if let Some(argument) = arguments.next()? {
        return Err(argument.unexpected().into());
    }
    for (path, text) in files()? {
        let path = process::root().join(path);
        std::fs::create_dir_all(path.parent().expect("all lie in folders"))?;
        std::fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_is_what_the_kinds_say() {
        for (path, expected) in files().unwrap() {
            let committed = std::fs::read_to_string(process::root().join(&path)).unwrap_or_default();
            assert!(committed == expected, "{path} is not up to date: run `cargo xtask kinds`");
        }
    }

    #[test]
    fn the_format_reads_what_is_committed() {
        for folder in CRATES {
            let path = process::root().join(format!("kinds/{folder}.kinds"));
            let text = std::fs::read_to_string(path).unwrap();
            let kinds = thalweg_space::kinds::parse(&text)
                .unwrap_or_else(|problems| panic!("{folder}: {problems:?}"));
            assert_eq!(kinds_file(folder, &kinds), text);
            assert!(!kinds.is_empty());
        }
    }
}
