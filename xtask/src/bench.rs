//! `cargo xtask bench`: builds the workspace of the benchmarks, rivals included, and runs it with the same arguments.

use crate::process;
use anyhow::{Context, Result, bail};
use std::process::ExitCode;

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    process::require_c_compiler()?;
    let manifest = process::root().join("bench/Cargo.toml");
    let target = process::target_dir().join("bench");
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet", "--manifest-path"]).arg(&manifest);
    process::run(build.arg("--target-dir").arg(&target))?;
    let mut bench = std::process::Command::new(target.join("release/thalweg-bench"));
    bench.current_dir(process::root()).args(arguments.raw_args()?);
    let status = bench.status().with_context(|| format!("could not start `{}`", process::shown(&bench)))?;
    match status.code() {
        Some(code @ 0..=2) => Ok(ExitCode::from(code as u8)),
        _ => bail!("`{}` failed: {status}", process::shown(&bench)),
    }
}
