//! `cargo xtask bench tune`: networks that start with a bad mapping, with and without `thalweg tune`,
//! compared with static mappings.
//!
//! Each network runs on two workers on the same input until the input ends: with the bad start, with a tuner
//! beside it, with the settings that the tuner saved, and with each static mapping. The last column but one
//! compares the saved settings with the fastest run; the last column compares the run with the tuner, trials
//! included, with the run without a tuner.

use crate::{app, demo, process, remedies};
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const HELP: &str = "\
Networks that start on a bad mapping, with and without `thalweg tune`, and in the static ways there are.

usage: cargo xtask bench tune [NAME…] [--scale X] [--rounds N]
       cargo xtask bench tune --drawn N [--from N] [--goal latency|processor|memory]
       cargo xtask bench tune --change
       cargo xtask bench tune --rivals

  NAME        mc, farm, grain, des, rt, ant; all if none is given
  --scale X   so many times the input (default 1: some 10 s each on two cores)
  --rounds N  each way so often, by turns; the table has the medians (default 1)
  --change    instead: runs with costs, other processes or a reader that change every ten seconds (four minutes)
  --rivals    instead: networks on a wrong mapping beside stealing, a mapping by hand and oneTBB's flow graph (three
              minutes)
  --drawn N   instead: so many random networks that start with wrong settings, beside every single remedy
              among settings and mappings; a minute and a half each, with another goal three;
              a measurement that was ended goes on
  --from N    the number of the first of these networks (default 0)
  --goal G    the tuner's goal for these networks, at half of the rate that they could have (default: throughput)
";

/// A network, its input, and the bad mapping with which it starts.
struct Case {
    name: &'static str,
    package: &'static str,
    network: &'static str,
    /// The program's arguments that select the input.
    input: fn(&Path, f64) -> Result<Vec<String>>,
    /// Further arguments of the bad start.
    start: &'static [&'static str],
    /// Further static ways: the arguments besides those of the bad mapping.
    ways: &'static [(&'static str, &'static [&'static str])],
}

const CASES: [Case; 6] = [
    Case {
        name: "mc",
        package: "app-mc",
        network: "apps/mc/mc.snet",
        input: |folder, scale| option(folder, &format!("\"<paths>\": {}", whole(200_000.0 * scale)), 1),
        start: &[],
        ways: &[],
    },
    Case {
        name: "farm",
        package: "app-mc",
        network: "apps/mc/farm.snet",
        input: |folder, scale| {
            let (paths, batches) = (whole(4_000_000.0 * scale), whole(40_000.0 * scale));
            option(folder, &format!("\"<paths>\": {paths}, \"<batches>\": {batches}, \"<lanes>\": 4"), 1)
        },
        start: &[],
        ways: &[],
    },
    // Many options of few paths each; the run starts with ten paths in a batch. A batch passes the stages of those before
    // it, so an option of more or smaller batches takes far longer: one of a hundred batches more than 0.1 s.
    Case {
        name: "grain",
        package: "app-mc",
        network: "apps/mc/farm.snet",
        input: |folder, scale| {
            option(folder, "\"<paths>\": 200, \"<batches>\": 0, \"<lanes>\": 4", whole(3000.0 * scale))
        },
        start: &["--set", "box.mc.paths_per_batch=10"],
        ways: &[
            ("50 paths", &["--set", "box.mc.paths_per_batch=50"]),
            ("200 paths", &["--set", "box.mc.paths_per_batch=200"]),
        ],
    },
    Case { name: "des", package: "app-des", network: "apps/des/des.snet", input: des, start: &[], ways: &[] },
    Case {
        name: "rt",
        package: "app-rt",
        network: "apps/rt/rt.snet",
        input: |folder, scale| {
            let scenes = whole(1500.0 * scale);
            json(
                folder,
                &format!("{{\"<scenes>\": {scenes}, \"<solvers>\": 4, \"<width>\": 160, \"<height>\": 120}}"),
            )
        },
        start: &[],
        ways: &[],
    },
    Case {
        name: "ant",
        package: "app-ant",
        network: "apps/ant/ant.snet",
        input: |folder, scale| {
            let steps = whole(150.0 * scale);
            json(
                folder,
                &format!("{{\"<jobs>\": 1000, \"<ants>\": 45, \"<steps>\": {steps}, \"<seed>\": 1}}"),
            )
        },
        start: &[],
        ways: &[],
    },
];

/// The arguments that select the bad start, and those that select each static mapping.
const START: &[&str] = &["--mapper", "round-robin", "--workers", "2"];
const STATIC: [(&str, &[&str]); 4] = [
    ("one worker", &["--workers", "1"]),
    ("neighbours", &["--mapper", "contiguous", "--workers", "2"]),
    ("least loaded", &["--mapper", "least-loaded", "--workers", "2"]),
    ("stealing", &["--mapper", "round-robin", "--workers", "2", "--steal"]),
];

fn whole(number: f64) -> u64 {
    (number.round() as u64).max(1)
}

fn json(folder: &Path, records: &str) -> Result<Vec<String>> {
    let path = folder.join("in.jsonl");
    std::fs::write(&path, format!("{records}\n"))?;
    Ok(vec!["--input".into(), path.display().to_string()])
}

/// The input of the option pricing: so many equal options.
fn option(folder: &Path, sizes: &str, count: u64) -> Result<Vec<String>> {
    let option = "\"spot\": 100.0, \"strike\": 105.0, \"rate\": 0.03, \"volatility\": 0.25, \"years\": 1.0";
    let records = vec![format!("{{{option}, {sizes}}}"); count as usize];
    json(folder, &records.join("\n"))
}

fn des(folder: &Path, scale: f64) -> Result<Vec<String>> {
    let path = folder.join("plain");
    std::fs::write(&path, vec![b'.'; whole(12e6 * scale) as usize])?;
    let input = path.display().to_string();
    let arguments = [
        "--input",
        &input,
        "--input-bytes",
        "data",
        "--chunk",
        "40",
        "--with",
        demo::WITH_KEY,
        "--output-bytes",
        "data",
    ];
    Ok(arguments.map(str::to_owned).to_vec())
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let (mut names, mut scale, mut rounds) = (Vec::new(), 1.0, 1);
    let (mut drawn, mut from, mut aim) = (None, 0, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            Long("drawn") => drawn = Some(arguments.value()?.parse()?),
            Long("from") => from = arguments.value()?.parse()?,
            Long("goal") => {
                let word = arguments.value()?.string()?;
                aim = remedies::Aim::of(&word);
                if aim.is_none() && word != "throughput" {
                    bail!("`{word}` is no goal here: there are throughput, latency, processor, memory");
                }
            }
            Long("change") => {
                remedies::changing()?;
                return Ok(ExitCode::SUCCESS);
            }
            Long("rivals") => {
                remedies::rivals()?;
                return Ok(ExitCode::SUCCESS);
            }
            Long("scale") => scale = arguments.value()?.parse()?,
            Long("rounds") => rounds = arguments.value()?.parse::<usize>()?.max(1),
            Value(name) => names.push(name.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    if let Some(count) = drawn {
        remedies::drawn(from, count, aim)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(unknown) = names.iter().find(|name| !CASES.iter().any(|case| case.name == **name)) {
        bail!("there is no network `{unknown}`; there are {}", CASES.map(|case| case.name).join(", "));
    }
    app::build(&["app-mc", "app-des", "app-rt", "app-ant"])?;
    println!(
        "| network | as it starts | with a tuner | kept | as saved | best static way | saved, of the best | tuned, of untouched |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for case in CASES.iter().filter(|case| names.is_empty() || names.iter().any(|name| name == case.name)) {
        println!("{}", case.measure(scale, rounds)?);
    }
    Ok(ExitCode::SUCCESS)
}

impl Case {
    /// A row of the table.
    fn measure(&self, scale: f64, rounds: usize) -> Result<String> {
        let folder = process::target_dir().join("tuned").join(self.name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let input = (self.input)(&folder, scale)?;
        let (mut untouched, mut tuned, mut saved) = (Vec::new(), Vec::new(), Vec::new());
        // Static mappings keep the further arguments of the start.
        let from_start = |&(name, arguments): &(&'static str, &'static [&'static str])| {
            (name, [arguments, self.start].concat())
        };
        let ways: Vec<(&str, Vec<&str>)> = STATIC
            .iter()
            .map(from_start)
            .chain(self.ways.iter().map(|&(name, arguments)| (name, [START, arguments].concat())))
            .collect();
        let start = [START, self.start].concat();
        let mut fixed = vec![Vec::new(); ways.len()];
        let mut kept = String::new();
        for _ in 0..rounds {
            untouched.push(self.time(&input, &start, &folder, None)?);
            let file = folder.join("tuned.settings");
            tuned.push(self.time(&input, &start, &folder, Some(&file))?);
            let text = std::fs::read_to_string(&file);
            let text = text.with_context(|| format!("cannot read {}", file.display()))?;
            kept = settings_text(&text);
            let file = file.display().to_string();
            let from_file = [START, &started_with(self.start, &text)[..], &["--settings", &file]].concat();
            saved.push(self.time(&input, &from_file, &folder, None)?);
            for (times, (_, arguments)) in fixed.iter_mut().zip(&ways) {
                times.push(self.time(&input, arguments, &folder, None)?);
            }
        }
        let [untouched, tuned, saved] = [untouched, tuned, saved].map(median);
        let fixed = fixed.into_iter().map(median).zip(ways.iter().map(|(name, _)| *name));
        let (best, name) =
            fixed.chain([(untouched, "as it starts")]).min_by(|a, b| a.0.total_cmp(&b.0)).context("ways")?;
        Ok(format!(
            "| {} | {untouched:.2} s | {tuned:.2} s | {kept} | {saved:.2} s | {name}, {best:.2} s | {:.2} | {:.2} |",
            self.name,
            best / saved,
            untouched / tuned
        ))
    }

    /// The seconds of a run, optionally with a tuner beside it that saves the kept changes to this file.
    fn time(&self, input: &[String], how: &[&str], folder: &Path, tuner: Option<&PathBuf>) -> Result<f64> {
        let space = folder.join("space");
        if space.exists() {
            std::fs::remove_dir_all(&space)?;
        }
        let release = process::target_dir().join("release");
        let library = format!("lib{}.so", self.package.replace('-', "_"));
        let mut run = Command::new(release.join("thalweg"));
        run.current_dir(process::root())
            .arg("run")
            .arg(self.network)
            .arg("--boxes")
            .arg(release.join(library));
        run.args(input).args(how).args(["--output", "/dev/null", "--space"]).arg(&space);
        let shown = process::shown(&run);
        let begun = Instant::now();
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context(shown.clone())?;
        let tuner = tuner.map(|file| start_tuner(&release.join("thalweg"), &space, file, "throughput"));
        let status = child.wait()?;
        let took = begun.elapsed().as_secs_f64();
        if let Some(tuner) = tuner {
            tuner?.wait()?;
        }
        if !status.success() {
            bail!("`{shown}` failed: {status}");
        }
        Ok(took)
    }
}

/// Starts `thalweg tune` with this goal beside a run that was just started; it saves the kept changes to this file,
/// and its output is written to the same path with the extension `log`.
pub(crate) fn start_tuner(program: &Path, space: &Path, file: &Path, goal: &str) -> std::io::Result<Child> {
    let begun = Instant::now();
    while !space.join("mailbox").exists() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut tune = Command::new(program);
    tune.arg("tune").arg(space).args(["--goal", goal, "--save"]).arg(file);
    let log = std::fs::File::create(file.with_extension("log"))?;
    tune.stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).spawn()
}

/// The arguments of the start without the settings that the tuner saved: an argument would override the file.
fn started_with<'a>(start: &[&'a str], saved: &str) -> Vec<&'a str> {
    let is_saved = |value: &str| {
        let name = value.split('=').next().unwrap_or_default();
        saved.lines().any(|line| line.split('=').next().is_some_and(|it| it.trim() == name))
    };
    let pairs = start.chunks(2).filter(|pair| pair.len() < 2 || !is_saved(pair[1]));
    pairs.flatten().copied().collect()
}

/// The description of no settings.
pub(crate) const NOTHING: &str = "nothing";

/// A short description of the settings that a tuner saved.
pub(crate) fn settings_text(settings: &str) -> String {
    let lines = settings.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let (tasks, settings): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("task/"));
    let mut parts: Vec<String> = settings.iter().map(|setting| format!("`{setting}`")).collect();
    let moved = tasks.iter().filter(|task| !task.contains(".first_worker")).count();
    if moved > 0 {
        parts.push(format!("{moved} {} moved", if moved == 1 { "task" } else { "tasks" }));
    }
    if parts.is_empty() && !tasks.is_empty() {
        parts.push("the mapping as it was".to_owned());
    }
    if parts.is_empty() { NOTHING.to_owned() } else { parts.join(", ") }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::started_with;

    #[test]
    fn what_is_saved_is_not_overridden_by_the_start() {
        let start = ["--set", "box.a=2", "--set", "box.b=3"];
        assert_eq!(started_with(&start, "# kept\nbox.a = 7\n"), ["--set", "box.b=3"]);
        assert_eq!(started_with(&start, "exec.quantum=1\n"), start);
    }
}
