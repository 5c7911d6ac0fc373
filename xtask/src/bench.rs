//! `cargo xtask bench`: builds the workspace of the benchmarks, rivals included, and runs it with the same
//! arguments; the groups `nodes`, `tune` and `view` are measured here, and `attach` and `map` by
//! benchmarks of the crates `attach` and `net`.

use crate::{noded, process, tuned, viewed};
use anyhow::{Context, Result, bail};
use std::process::ExitCode;

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    // These groups measure whole programs as a user runs them, and do not need the rivals.
    let group = arguments.try_raw_args().and_then(|raw| raw.peek().map(|first| first.to_os_string()));
    if let Some(whole @ ("nodes" | "tune" | "view")) = group.as_deref().and_then(|group| group.to_str()) {
        arguments.next()?;
        return match whole {
            "nodes" => noded::run(arguments),
            "tune" => tuned::run(arguments),
            _ => viewed::run(arguments),
        };
    }
    process::require_c_compiler()?;
    if group.as_deref().is_some_and(|group| group == "map") {
        let mut bench = process::cargo();
        process::run(bench.args(["bench", "--locked", "-p", "thalweg-net", "--bench", "map"]))?;
        return Ok(ExitCode::SUCCESS);
    }
    if group.as_deref().is_some_and(|group| group == "attach") {
        let mut bench = process::cargo();
        process::run(bench.args(["bench", "--locked", "-p", "thalweg-attach", "--bench", "attach"]))?;
        return Ok(ExitCode::SUCCESS);
    }
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
