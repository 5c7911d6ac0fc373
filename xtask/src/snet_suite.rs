//! `cargo xtask snet-suite`: runs programs written for S-Net and compares what comes out with what is expected.
//!
//! A program is a folder with `NAME.snet` (the network of the folder's name, or the only one), its boxes in C anywhere
//! below, inputs `X.xml`, and for each the expected records as `X.expected`, `X.expected.xml`, `X.out`, `expected/X.xml`
//! or `X`. Records are compared as multisets: fields with their types, tags, binding tags.

use crate::process;
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A run that takes longer is counted as failed.
const PATIENCE: Duration = Duration::from_secs(60);
const WORKERS: [&str; 2] = ["1", "2"];

/// What became of one input of a program, or of the program if it has no library.
struct Verdict {
    program: String,
    input: String,
    /// `None`: passed.
    reason: Option<String>,
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut folders: Vec<PathBuf> = Vec::new();
    while let Some(argument) = arguments.next()? {
        match argument {
            Value(folder) => folders.push(std::path::absolute(PathBuf::from(folder))?),
            other => return Err(other.unexpected().into()),
        }
    }
    if folders.is_empty() {
        bail!(
            "which programs? `cargo xtask snet-suite FOLDER…` takes folders with NAME.snet, boxes in C and X.xml"
        );
    }
    process::require_c_compiler()?;
    process::run(process::cargo().args(["build", "--release", "--locked", "-p", "thalweg"]))?;
    let mut networks = Vec::new();
    for folder in &folders {
        let metadata = fs::metadata(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        anyhow::ensure!(metadata.is_dir(), "{} is no folder", folder.display());
        find_networks(folder, &mut networks)?;
    }
    if networks.is_empty() {
        bail!("no program in {}: none has a NAME.snet beside an X.xml", folders[0].display());
    }
    let scratch = process::target_dir().join("snet-suite");
    let mut verdicts = Vec::new();
    for network in &networks {
        let build = scratch.join(format!("{}-{}", verdicts.len(), stem(network)));
        verdicts.extend(try_program(network, &build)?);
    }
    Ok(report(&verdicts))
}

fn report(verdicts: &[Verdict]) -> ExitCode {
    let width = verdicts.iter().map(|verdict| verdict.program.len()).max().unwrap_or(0);
    for Verdict { program, input, reason } in verdicts {
        match reason {
            None => println!("passed  {program:width$}  {input}"),
            Some(reason) => println!("FAILED  {program:width$}  {input}: {reason}"),
        }
    }
    let failed = verdicts.iter().filter(|verdict| verdict.reason.is_some()).count();
    println!("{} passed, {failed} failed", verdicts.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The entries of a folder, in the order of their names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = read.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut paths = entries(folder)?;
    paths.retain(|path| path.is_file() && path.extension().is_some_and(|found| found == extension));
    Ok(paths)
}

/// The programs at and below a folder: the network named like its folder, else every network of the folder.
fn find_networks(folder: &Path, networks: &mut Vec<PathBuf>) -> Result<()> {
    let found = with_extension(folder, "snet")?;
    let folder_name = folder.file_name().unwrap_or_default();
    let main = found.iter().find(|path| path.file_stem() == Some(folder_name)).cloned();
    networks.extend(main.map_or(found, |main| vec![main]));
    for path in entries(folder)? {
        if path.is_dir() && !path.is_symlink() {
            find_networks(&path, networks)?;
        }
    }
    Ok(())
}

/// All sources of boxes of a program: the files in C at and below its folder, but not those of programs below it.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    found.extend(with_extension(folder, "c")?);
    for path in entries(folder)? {
        if path.is_dir() && !path.is_symlink() && with_extension(&path, "snet")?.is_empty() {
            sources(&path, found)?;
        }
    }
    Ok(())
}

fn try_program(network: &Path, build: &Path) -> Result<Vec<Verdict>> {
    let folder = network.parent().context("a network in no folder")?;
    let program = stem(network);
    let verdict = |input: &str, reason| Verdict { program: program.clone(), input: input.to_owned(), reason };
    let library = match build_library(network, folder, build)? {
        Ok(library) => library,
        Err(reason) => return Ok(vec![verdict("build", Some(reason))]),
    };
    let mut inputs = with_extension(folder, "xml")?;
    for below in ["data", "input", "inputs", "tests"] {
        if folder.join(below).is_dir() {
            inputs.extend(with_extension(&folder.join(below), "xml")?);
        }
    }
    inputs.retain(|input| !stem(input).ends_with("expected") && !stem(input).ends_with(".out"));
    if inputs.is_empty() {
        return Ok(vec![verdict("-", Some("it has no X.xml to run on".to_owned()))]);
    }
    let mut verdicts = Vec::new();
    for input in &inputs {
        let reason = match expected(input) {
            None => Some("there is no expected result beside it".to_owned()),
            Some(expected) => try_input(network, library.as_deref(), input, &expected, build)?,
        };
        verdicts.push(verdict(&stem(input), reason));
    }
    Ok(verdicts)
}

/// The file of expected records of an input.
fn expected(input: &Path) -> Option<PathBuf> {
    let (folder, name) = (input.parent()?, stem(input));
    let names = [
        format!("{name}.expected"),
        format!("{name}.expected.xml"),
        format!("{name}.out"),
        format!("{name}.out.xml"),
        format!("expected/{name}.xml"),
        format!("expected/{name}"),
        name,
    ];
    names.iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// The library of a program's boxes, none if it has no boxes; or why there is none.
fn build_library(network: &Path, folder: &Path, build: &Path) -> Result<Result<Option<PathBuf>, String>> {
    if build.exists() {
        fs::remove_dir_all(build)?;
    }
    fs::create_dir_all(build)?;
    if let Err(reason) = told(thalweg().arg("wrap").arg(network).arg("--into").arg(build))? {
        return Ok(Err(reason));
    }
    let mut boxes = Vec::new();
    sources(folder, &mut boxes)?;
    if boxes.is_empty() {
        return Ok(Ok(None));
    }
    let library = build.join("boxes.so");
    let mut compile = Command::new("cc");
    compile
        .args(["-std=gnu11", "-O2", "-g", "-w", "-shared", "-fPIC", "-I"])
        .arg(build)
        .arg("-I")
        .arg(folder);
    compile.arg(build.join(format!("{}_boxes.c", stem(network)))).arg(build.join("c4snet.c")).args(&boxes);
    Ok(told(compile.args(["-lm", "-lpthread", "-Wl,--no-undefined", "-o"]).arg(&library))?
        .map(|()| Some(library)))
}

fn thalweg() -> Command {
    Command::new(process::target_dir().join("release/thalweg"))
}

/// Runs on one and two workers; why the result is not what is expected.
fn try_input(
    network: &Path,
    library: Option<&Path>,
    input: &Path,
    expected: &Path,
    build: &Path,
) -> Result<Option<String>> {
    let identity = build.join("identity.snet");
    fs::write(&identity, "net identity connect [];\n")?;
    let (wanted, got) = (build.join("wanted.xml"), build.join("got.xml"));
    if let Err(reason) = records(&identity, None, expected, &wanted, "1")? {
        return Ok(Some(format!("its expected result cannot be read: {reason}")));
    }
    for workers in WORKERS {
        if let Err(reason) = records(network, library, input, &got, workers)? {
            return Ok(Some(reason));
        }
        if let Some(difference) = difference(&canonical(&wanted)?, &canonical(&got)?) {
            return Ok(Some(format!("on {workers} workers {difference}")));
        }
    }
    Ok(None)
}

fn records(
    network: &Path,
    library: Option<&Path>,
    input: &Path,
    output: &Path,
    workers: &str,
) -> Result<Result<(), String>> {
    let mut run = thalweg();
    run.arg("run").arg(network).args(["--workers", workers, "--monitor", "off", "--input-format", "xml"]);
    if let Some(library) = library {
        run.arg("--boxes").arg(library);
    }
    told(run.arg("--input").arg(input).arg("--output").arg(output))
}

/// Runs a command; if it fails, its first error line is why.
fn told(command: &mut Command) -> Result<Result<(), String>> {
    let shown = process::shown(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start `{shown}`"))?;
    let mut stderr = child.stderr.take().context("its standard error is piped")?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = reader.join().map_err(|_| anyhow::anyhow!("the reader of standard error panicked"))??;
    Ok(match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(first_error(&text).unwrap_or_else(|| format!("`{shown}` ended with {status}"))),
        None => Err(format!("`{shown}` did not end within {} s", PATIENCE.as_secs())),
    })
}

fn first_error(text: &str) -> Option<String> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let error = lines.clone().find(|line| line.contains("error") || line.contains("undefined reference"));
    error.or_else(|| lines.next()).map(|line| line.trim().to_owned())
}

/// The records of a file that `thalweg` wrote, each as its members in order, all in order.
fn canonical(path: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut records: Vec<String> = text
        .split("</record>\n")
        .filter(|record| !record.contains("type=\"terminate\""))
        .map(|record| {
            let mut members: Vec<&str> = record.lines().skip(1).map(str::trim).collect();
            members.sort_unstable();
            members.join(" ")
        })
        .collect();
    records.sort_unstable();
    Ok(records)
}

fn difference(wanted: &[String], got: &[String]) -> Option<String> {
    if wanted == got {
        return None;
    }
    let missing = wanted.iter().find(|record| count(wanted, record) > count(got, record));
    let extra = got.iter().find(|record| count(got, record) > count(wanted, record));
    let told = |what: &str, record: Option<&String>| record.map(|record| format!("; {what}: {record}"));
    let counts = format!("{} records were expected, {} came", wanted.len(), got.len());
    let missing = told("missing", missing).unwrap_or_default();
    Some(counts + &missing + &told("unexpected", extra).unwrap_or_default())
}

fn count(records: &[String], one: &str) -> usize {
    records.iter().filter(|record| *record == one).count()
}
