//! Files that a command generates from a single source and that are committed, so that a build does not need
//! the command.

use crate::process;
use anyhow::{Context, Result};
use std::process::ExitCode;

/// Paths from the workspace's root, each with the file's content.
pub(crate) type Files = Vec<(String, String)>;

/// Writes all files: this implements a command that has no other arguments.
pub(crate) fn write(mut arguments: lexopt::Parser, files: fn() -> Result<Files>) -> Result<ExitCode> {
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

/// Asserts that the committed files are equal to those that `cargo xtask COMMAND` would write.
#[cfg(test)]
pub(crate) fn assert_up_to_date(files: Files, command: &str) {
    for (path, expected) in files {
        let committed = std::fs::read_to_string(process::root().join(&path)).unwrap_or_default();
        assert!(committed == expected, "{path} is not up to date: run `cargo xtask {command}`");
    }
}
