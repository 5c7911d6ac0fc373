//! `cargo xtask snet-suite`: `thalweg adopt` as a release build, on folders of programs written for S-Net.

use crate::process;
use anyhow::{Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let folders = arguments.raw_args()?.map(absolute).collect::<Result<Vec<_>>>()?;
    if folders.is_empty() {
        bail!(
            "which programs? `cargo xtask snet-suite FOLDER…` takes folders and options of `thalweg adopt`"
        );
    }
    process::require_c_compiler()?;
    process::run(process::cargo().args(["build", "--release", "--locked", "-p", "thalweg"]))?;
    let mut adopt = Command::new(process::target_dir().join("release/thalweg"));
    adopt.arg("adopt").arg("--into").arg(process::target_dir().join("snet-suite")).args(folders);
    Ok(if adopt.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A folder by its full path; other arguments stay unchanged.
fn absolute(argument: OsString) -> Result<OsString> {
    let is_folder = Path::new(&argument).is_dir();
    Ok(if is_folder { std::path::absolute(PathBuf::from(argument))?.into_os_string() } else { argument })
}
