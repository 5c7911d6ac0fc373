//! `cargo xtask app NAME`: runs one of the apps on its default input, records every event, and prints the
//! report.

use crate::{demo, process};
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

/// A network, its boxes, and its default input.
pub(crate) struct App {
    pub(crate) name: &'static str,
    shows: &'static str,
    /// The package with the network's boxes.
    package: &'static str,
    network: &'static str,
    /// Returns the program's arguments for input and output; it makes files in the given folder.
    ends: fn(&Path) -> Result<Vec<OsString>>,
    /// Checks the output.
    check: fn(&Path) -> Result<()>,
}

const APPS: [App; 6] = [
    App {
        name: "ant",
        shows: "a schedule of 1,000 jobs by an ant colony, 45 ants in 100 steps",
        package: "app-ant",
        network: "apps/ant/ant.snet",
        ends: |folder| Ok(with_output(input("apps/ant/ant.jsonl"), &folder.join("schedule.jsonl"))),
        check: |folder| print_place("the schedule is in", &folder.join("schedule.jsonl")),
    },
    App {
        name: "audio",
        shows: "a chirp of 0.6 s, decoded, with an echo, as WAV",
        package: "app-audio",
        network: "apps/audio/audio.snet",
        ends: audio_ends,
        check: |folder| print_place("the sound is in", &folder.join("chirp.wav")),
    },
    App {
        name: "des",
        shows: "500 KB through the DES cipher, five blocks a record",
        package: "app-des",
        network: "apps/des/des.snet",
        ends: des_ends,
        check: des_check,
    },
    App {
        name: "farm",
        shows: "the price of an option by Monte Carlo, batches of paths",
        package: "app-mc",
        network: "apps/mc/farm.snet",
        ends: |_| Ok(input("apps/mc/farm.jsonl")),
        check: |_| Ok(()),
    },
    App {
        name: "mc",
        shows: "the same, a path at a time",
        package: "app-mc",
        network: "apps/mc/mc.snet",
        ends: |_| Ok(input("apps/mc/mc.jsonl")),
        check: |_| Ok(()),
    },
    App {
        name: "rt",
        shows: "100 pictures by ray tracing, four solvers that take what they can",
        package: "app-rt",
        network: "apps/rt/rt.snet",
        ends: rt_ends,
        check: |folder| print_place("the pictures are in", &folder.join("pictures")),
    },
];

/// The size of the input in the LPEL paper: 500 KB, which make some 470,000 messages.
const DES_BYTES: usize = 500_000;
const DES_CHUNK: &str = "40";

fn help() -> String {
    let apps: String = APPS.iter().map(|app| format!("  {:5} {}\n", app.name, app.shows)).collect();
    format!(
        "\
Runs one of the apps on its default input, every event recorded, and prints the report.

usage: cargo xtask app NAME [--workers N] [--mapper contiguous|round-robin]

{apps}
The command lines are shown, so you can change them. `cargo xtask demo` runs DES on a large file in large chunks.
"
    )
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut name = None;
    let mut options = vec!["--workers".to_owned(), "2".to_owned()];
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => {
                print!("{}", help());
                return Ok(ExitCode::SUCCESS);
            }
            Long(option @ ("workers" | "mapper")) => {
                let option = format!("--{option}");
                options.retain(|known| *known != option);
                options.extend([option, arguments.value()?.string()?]);
            }
            Value(value) if name.is_none() => name = Some(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let names = APPS.map(|app| app.name).join(", ");
    let name = name.with_context(|| format!("which app? There are {names}"))?;
    match App::named(&name) {
        Some(app) => app.run(&options),
        None => bail!("there is no app `{name}`; there are {names}"),
    }
}

impl App {
    pub(crate) fn named(name: &str) -> Option<App> {
        APPS.into_iter().find(|app| app.name == name)
    }

    fn run(&self, options: &[String]) -> Result<ExitCode> {
        build(&[self.package])?;
        let folder = self.folder()?;
        let space = folder.join("space");
        if space.exists() {
            std::fs::remove_dir_all(&space)?;
        }
        let mut network = self.command(&folder)?;
        network.args(options).args(["--monitor", "full", "--keep", "--space"]).arg(&space);
        println!("$ {}", process::shown(&network));
        let peak = peak_memory(&mut network)?;
        println!("at most {:.0} MB of memory", peak as f64 / 1e6);
        (self.check)(&folder)?;
        println!();
        demo::started(thalweg().arg("report").arg(&space))?;
        Ok(ExitCode::SUCCESS)
    }

    /// `thalweg run` of the network on its default input.
    pub(crate) fn command(&self, folder: &Path) -> Result<Command> {
        let mut command = thalweg();
        let library = format!("lib{}.so", self.package.replace('-', "_"));
        command.arg("run").arg(self.network).arg("--boxes").arg(release().join(library));
        command.args((self.ends)(folder)?);
        Ok(command)
    }

    /// The folder with the files of the app.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        let folder = process::target_dir().join("app").join(self.name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }
}

/// Builds the program and the libraries of these packages.
pub(crate) fn build(packages: &[&str]) -> Result<()> {
    process::require_c_compiler()?;
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet", "--locked", "-p", "thalweg"]);
    packages.iter().for_each(|package| {
        build.args(["-p", package]);
    });
    process::run(&mut build)
}

fn release() -> PathBuf {
    process::target_dir().join("release")
}

fn thalweg() -> Command {
    let mut command = Command::new(release().join("thalweg"));
    command.current_dir(process::root());
    command
}

fn input(file: &str) -> Vec<OsString> {
    vec!["--input".into(), file.into()]
}

fn with_output(mut ends: Vec<OsString>, file: &Path) -> Vec<OsString> {
    ends.extend(["--output".into(), file.into()]);
    ends
}

fn audio_ends(folder: &Path) -> Result<Vec<OsString>> {
    let mut ends = with_output(input("apps/audio/audio.jsonl"), &folder.join("chirp.wav"));
    ends.extend(["--output-bytes", "data"].map(Into::into));
    Ok(ends)
}

fn des_ends(folder: &Path) -> Result<Vec<OsString>> {
    let plain = folder.join("plain");
    let lines = (0..).flat_map(|line| format!("line {line:>10} of a file to be encrypted\n").into_bytes());
    std::fs::write(&plain, lines.take(DES_BYTES).collect::<Vec<_>>())?;
    let mut ends: Vec<OsString> = vec!["--input".into(), plain.into(), "--input-bytes".into(), "data".into()];
    ends.extend(["--chunk", DES_CHUNK, "--with", demo::WITH_KEY, "--output"].map(Into::into));
    ends.push(folder.join("encrypted").into());
    ends.extend(["--output-bytes", "data", "--order-by", "seq"].map(Into::into));
    Ok(ends)
}

fn des_check(folder: &Path) -> Result<()> {
    demo::compare_with_openssl(&folder.join("plain"), &folder.join("encrypted"))
}

fn rt_ends(folder: &Path) -> Result<Vec<OsString>> {
    let pictures = folder.join("pictures");
    std::fs::create_dir_all(&pictures)?;
    let mut ends = with_output(input("apps/rt/rt.jsonl"), &pictures);
    ends.extend(["--output-format", "files"].map(Into::into));
    Ok(ends)
}

fn print_place(what: &str, path: &Path) -> Result<()> {
    println!("{what} {}", path.display());
    Ok(())
}

/// Runs `command`, which must succeed. Returns the command's peak memory in bytes.
pub(crate) fn peak_memory(command: &mut Command) -> Result<u64> {
    let shown = process::shown(command);
    let mut child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
    let mut peak = 0;
    let status = loop {
        // The kernel keeps the peak, so a rare reading misses only memory that the process allocates just
        // before its end.
        peak = memory(&child).unwrap_or(peak);
        match child.try_wait()? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(peak)
}

/// The peak memory of a live process in bytes.
fn memory(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_app_can_be_run() {
        let folders = std::fs::read_dir(process::root().join("apps")).unwrap();
        for folder in folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()) {
            assert!(APPS.iter().any(|app| app.network.starts_with(&format!("apps/{folder}/"))), "{folder}");
        }
    }
}
