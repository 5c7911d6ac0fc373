//! Starts child processes, shows their command lines, and checks their exit statuses.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace, from the environment that `cargo run` sets. The path at build time may be that
/// of another checkout which shares the target directory.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Tests find their data by the path at which they were built, and cargo considers tests that another
/// checkout built in the same target directory up to date. Therefore the workspace's packages are built again
/// if another checkout built them.
pub(crate) fn claim_target_dir() -> Result<()> {
    let (target, root) = (target_dir(), root());
    let note = target.join("checkout");
    let here = root.to_string_lossy().into_owned();
    let is_new = !target.join("debug").exists();
    if !is_new && std::fs::read_to_string(&note).is_ok_and(|of| of == here) {
        return Ok(());
    }
    if !is_new {
        let mut clean = cargo();
        clean.args(["clean", "--locked", "--quiet"]);
        for package in members()? {
            clean.arg("-p").arg(package);
        }
        run(&mut clean)?;
    }
    std::fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    std::fs::write(&note, here).with_context(|| format!("cannot write {}", note.display()))
}

/// The output of `cargo metadata` with these arguments.
pub(crate) fn metadata(arguments: &[&str]) -> Result<serde_json::Value> {
    let output = cargo().args(["metadata", "--format-version", "1", "--locked"]).args(arguments).output()?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata prints JSON")
}

/// The names of the workspace's packages.
fn members() -> Result<Vec<String>> {
    let metadata = metadata(&["--no-deps"])?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    Ok(packages.iter().filter_map(|package| package["name"].as_str()).map(String::from).collect())
}

/// The target directory of cargo: `CARGO_TARGET_DIR`, else `target/` in the workspace.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The `cargo` by which this command was started, started in the workspace's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The command line as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    if let Some(name) = Path::new(&line).file_name() {
        line = name.to_string_lossy().into_owned();
    }
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        line.push(' ');
        if argument.is_empty() || argument.contains([' ', '"', '{', '$', '*', '(']) {
            line.push('\'');
            line.push_str(&argument);
            line.push('\'');
        } else {
            line.push_str(&argument);
        }
    }
    line
}

/// Runs `command` to its end; a failure names the command line.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// The processor time of a process's threads so far, in ns; `None` if the process has ended. The kernel
/// counts the time of each thread in ns; that of the process it counts in hundredths of a second, which is
/// too coarse.
pub(crate) fn processor_ns(pid: u32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    // A thread that has just ended is left out.
    let spent = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
    Some(spent.filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok()).sum())
}

/// The processor time of the processes that this one started and waited for so far, in seconds; the kernel
/// counts it in hundredths of a second.
pub(crate) fn children_s() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The program's name, in brackets, may contain spaces. The fields 16 and 17 are times in user and kernel
    // mode.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks = rest.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / 100.0)
}

/// The processor time of a process and of those that it started and waited for, in seconds; the kernel counts
/// it in hundredths of a second.
pub(crate) fn used_s(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The fields 14 to 17, behind the program's name in brackets, are in user and kernel mode, its own and
    // its children's.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks = rest.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / 100.0)
}

/// Whether `program` can be started at all.
pub(crate) fn is_installed(program: &str, probe: &str) -> bool {
    Command::new(program).arg(probe).output().is_ok_and(|output| output.status.success())
}

/// Fails if there is no C compiler, which Rust needs as its linker; this message is shorter than cargo's.
pub(crate) fn require_c_compiler() -> Result<()> {
    if !is_installed("cc", "--version") {
        bail!("no C compiler: Rust links with `cc`; on Debian `apt-get install gcc` brings it");
    }
    Ok(())
}
