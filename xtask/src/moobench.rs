//! `cargo xtask moobench`: measures the cost of a probe by the method of MooBench (Waller, Ehmke and
//! Hasselbring, Including Performance Benchmarks into Continuous Integration to Enable DevOps, 2015): a
//! method that calls itself, in phases that each add one cause of cost, with Thalweg's probes and those of
//! rivals by turns.

mod cases;
mod drain;
mod figures;
mod goals;
pub(crate) mod java;
mod picture;
mod start;

use crate::process;
use anyhow::{Context, Result, bail};
use cases::{Case, Place, Set};
use drain::{Beside, Killed};
use figures::{Figures, Run};
use lexopt::prelude::*;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

const HELP: &str = "\
What a probe costs, by MooBench's method: a method calls itself, in a fresh process a run, by turns.

usage: cargo xtask moobench [OPTIONS]

  --seconds N        so long is a run; its second half counts (8)
  --repeats N        so many runs of each (3)
  --depth N          calls of a trace (10)
  --threads N        threads that call (1)
  --method-time NS   how long the innermost call is busy (0)
  --cpu              time by the thread's user time, as the paper's, not by the clock
  --language NAME    only java, c, c++ or rust
  --no-rivals        only ours
  --only TEXT        only rows whose probes have this in their names, and T
  --sweep WHAT       depth (1 to 64), method-time (0 to 100 µs), threads (1 to 8), writers (where what ours record goes) or full
                     (what ours do when a small ring is full); with Java unless --language says otherwise
  --start            how long a start-up of 5,000 classes takes under agents for Java
  --again            measure nothing: the table and the pictures of the raw data that are there
  --out DIR          where raw data and pictures go (moobench/ in the target directory)

Phases: T, the method alone; I, with a probe that is off; C, the probe records into memory; F, and somebody follows live; W, and all of it is kept
on disk.
";

/// The settings of a measurement.
#[derive(Clone)]
pub(crate) struct Settings {
    seconds: u32,
    repeats: u32,
    depth: u32,
    threads: u32,
    method_ns: u64,
    by_user_time: bool,
    language: Option<String>,
    only: Option<String>,
    rivals: bool,
    set: Set,
    again: bool,
    out: PathBuf,
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut settings = Settings {
        seconds: 8,
        repeats: 3,
        depth: 10,
        threads: 1,
        method_ns: 0,
        by_user_time: false,
        language: None,
        only: None,
        rivals: true,
        set: Set::Phases,
        again: false,
        out: process::target_dir().join("moobench"),
    };
    let (mut sweep, mut start) = (None, false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("seconds") => settings.seconds = arguments.value()?.parse()?,
            Long("repeats") => settings.repeats = arguments.value()?.parse()?,
            Long("depth") => settings.depth = arguments.value()?.parse()?,
            Long("threads") => settings.threads = arguments.value()?.parse()?,
            Long("method-time") => settings.method_ns = arguments.value()?.parse()?,
            Long("cpu") => settings.by_user_time = true,
            Long("language") => settings.language = Some(arguments.value()?.string()?),
            Long("no-rivals") => settings.rivals = false,
            Long("only") => settings.only = Some(arguments.value()?.string()?),
            Long("start") => start = true,
            Long("again") => settings.again = true,
            Long("sweep") => sweep = Some(arguments.value()?.string()?),
            Long("out") => settings.out = arguments.value()?.into(),
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if settings.seconds < 2 || settings.repeats == 0 || settings.depth == 0 || settings.threads == 0 {
        bail!("two seconds, one repeat, a depth of 1 and one thread are the least");
    }
    std::fs::create_dir_all(&settings.out)
        .with_context(|| format!("cannot make {}", settings.out.display()))?;
    match sweep.as_deref() {
        None if start => print!("{}", start::measured(&settings)?),
        None => measure(&settings)?,
        Some(what) => swept(&settings, what)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs all cases by turns, prints the table and draws the pictures.
fn measure(settings: &Settings) -> Result<()> {
    let cases = cases::all(settings)?;
    let runs = by_turns(settings, &cases)?;
    print!("{}", figures::table(settings, &cases, &runs));
    if settings.set == Set::Phases {
        print!("{}", goals::table(settings.depth, &cases, &runs));
    }
    for (language, picture) in picture::bars(&cases, &runs) {
        write(&settings.out.join(format!("bars-{language}.svg")), &picture)?;
    }
    for (language, picture) in picture::series(&cases, &runs) {
        write(&settings.out.join(format!("series-{language}.svg")), &picture)?;
    }
    println!("\nraw data and pictures: {}", settings.out.display());
    Ok(())
}

/// Measures Thalweg's probes at each value of one parameter, with each writer, or with each policy for a full
/// ring. Prints one table.
fn swept(settings: &Settings, what: &str) -> Result<()> {
    let mut settings = settings.clone();
    settings.language.get_or_insert_with(|| "java".to_owned());
    let values: &[u64] = match what {
        "depth" => &[1, 2, 4, 8, 16, 32, 64],
        "method-time" => &[0, 1_000, 10_000, 100_000],
        "threads" => &[1, 2, 4, 8],
        "writers" | "full" => {
            settings.set = if what == "full" { Set::Full } else { Set::Writers };
            settings.out = settings.out.join(what);
            std::fs::create_dir_all(&settings.out)?;
            return measure(&settings);
        }
        other => bail!("`{other}` cannot be swept: depth, method-time, threads, writers or full can"),
    };
    settings.set = Set::Swept;
    let mut rows = Vec::new();
    for value in values {
        let mut one = settings.clone();
        match what {
            "depth" => one.depth = *value as u32,
            "method-time" => one.method_ns = *value,
            _ => one.threads = *value as u32,
        }
        one.out = settings.out.join(format!("{what}-{value}"));
        std::fs::create_dir_all(&one.out)?;
        let cases = cases::all(&one)?;
        let runs = by_turns(&one, &cases)?;
        rows.push((*value, one, cases, runs));
    }
    print!("{}", figures::sweep(what, &rows));
    if what == "threads" {
        print!("{}", goals::of_threads(&rows));
    }
    println!("\nraw data: {}", settings.out.display());
    Ok(())
}

fn by_turns(settings: &Settings, cases: &[Case]) -> Result<Vec<Figures>> {
    let mut runs: Vec<Vec<Run>> = cases.iter().map(|_| Vec::new()).collect();
    let mut missing: Vec<Option<String>> = cases.iter().map(|case| case.missing.clone()).collect();
    for repeat in 0..settings.repeats {
        for (n, case) in cases.iter().enumerate() {
            if missing[n].is_some() {
                continue;
            }
            match one(settings, case, repeat) {
                Ok(run) => runs[n].push(run),
                Err(why) => missing[n] = Some(format!("{why:#}")),
            }
        }
    }
    Ok(runs.into_iter().zip(missing).map(|(runs, missing)| Figures::of(runs, missing)).collect())
}

/// Makes one run in a process of its own, in an empty folder.
fn one(settings: &Settings, case: &Case, repeat: u32) -> Result<Run> {
    let stem = format!("{}-{}-{repeat}", case.language, case.slug());
    let raw = settings.out.join(format!("{stem}.txt"));
    if settings.again {
        return Run::read(&raw);
    }
    let folder = Folder::new(&settings.out.join(format!("{stem}.run")))?;
    // The default directory of spaces, which is in memory.
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory } else { &folder.path };
    let spaces = Folder::new(&parent.join(format!("moobench-{}", std::process::id())))?;
    let beside = Beside::before(case.drain, &spaces.path, &folder.path)?;
    let place = Place { settings, folder: &folder.path, raw: &raw, port: beside.port() };
    let mut command = (case.command)(&place);
    let log = std::fs::File::create(folder.path.join("log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).current_dir(&folder.path);
    command.env("THALWEG_SPACES", &spaces.path).env_remove("THALWEG_SESSION");
    let begun = Instant::now();
    let mut child =
        Killed(command.spawn().with_context(|| format!("could not start `{}`", process::shown(&command)))?);
    let beside = beside.begun(&spaces.path, &folder.path)?;
    let limit = Duration::from_secs(u64::from(settings.seconds) + 60);
    let status = loop {
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if begun.elapsed() > limit {
            bail!("it did not end within {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        let said = std::fs::read_to_string(folder.path.join("log")).unwrap_or_default();
        bail!("{status}: {}", said.lines().next().unwrap_or("it says nothing"));
    }
    let more = beside.ended(&folder.path)?;
    std::fs::OpenOptions::new().append(true).open(&raw)?.write_all(more.as_bytes())?;
    Run::read(&raw)
}

/// An empty folder, which is removed when the value is dropped.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(path: &Path) -> Result<Folder> {
        let _ = std::fs::remove_dir_all(path);
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder { path: std::path::absolute(path)? })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The program `thalweg`, which keeps the events of a run.
fn thalweg() -> PathBuf {
    process::target_dir().join("release/thalweg")
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
