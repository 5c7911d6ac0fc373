//! `cargo xtask paper mate`: measures the settings that MATE (Morajko, Morajko, Margalef and
//! Luque) tuned in programs of PVM: the route of messages, their encoding, and the size of fragments (Tables
//! 1 to 3); as Markdown.
//!
//! Only the paper's fit to Table 3 is available here; the other tables say that the paper's figures are
//! missing.

use crate::process;
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const HELP: &str = "\
Prints the tables of the MATE paper with our figures beside what is known of theirs.

usage: cargo xtask paper mate [--seconds X]

  --seconds X  so long for each size and way (default 1)

It needs Debian's pvm and pvm-dev. What is missing is said.
";

/// The directory in which Debian installs PVM.
const ROOT: &str = "/usr/lib/pvm3";
const SIZES: [u32; 5] = [1_000, 10_000, 100_000, 400_000, 1_000_000];
/// Sizes of fragments in bytes; the first is PVM's default.
const FRAGMENTS: [u32; 6] = [4080, 16_384, 65_536, 131_072, 262_144, 524_288];
/// The paper's fit to Table 3: the cost of a fragment and of a kilobyte, in microseconds.
const PAPER_FRAGMENT_US: f64 = 1930.0;
const PAPER_KILOBYTE_US: f64 = 405.0;

pub(super) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut seconds = 1.0_f64;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            Long("seconds") => seconds = arguments.value()?.parse()?,
            other => return Err(other.unexpected().into()),
        }
    }
    if !(0.5..=60.0).contains(&seconds) {
        bail!(
            "--seconds has to be 0.5 to 60: a line of the ping-pong has 0.2 s, and the first does not count"
        );
    }
    process::require_c_compiler()?;
    let machine = match Machine::start()? {
        Ok(machine) => machine,
        Err(missing) => {
            println!("Tables 1 to 3 cannot be measured: {missing}");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let program = machine.compile("pingpong.c")?;
    let ping = |way: Way| rounds(&machine, &program, way, &SIZES, seconds);
    let (daemon, direct) = (ping(Way::START)?, ping(Way { route: 3, ..Way::START })?);
    two_ways("Table 1: communication mode", ["by the daemon", "direct"], &daemon, &direct);
    let raw = ping(Way { encoding: 1, ..Way::START })?;
    two_ways("Table 2: data encoding", ["XDR", "raw"], &daemon, &raw);
    let mut fragments = vec![daemon];
    for fragment in FRAGMENTS.into_iter().skip(1) {
        fragments.push(ping(Way { fragment, ..Way::START })?);
    }
    third_table(&fragments);
    Ok(ExitCode::SUCCESS)
}

/// How messages are sent: PVM's route, encoding and fragment size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    route: u32,
    encoding: u32,
    fragment: u32,
}

impl Way {
    /// The defaults of PVM.
    const START: Way = Way { route: 2, encoding: 0, fragment: 4080 };

    /// The settings, as command-line arguments of the test programs.
    fn arguments(self) -> [String; 3] {
        [self.route, self.encoding, self.fragment].map(|value| value.to_string())
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let route = if self.route == 3 { "direct" } else { "daemon" };
        let encoding = if self.encoding == 1 { "raw" } else { "XDR" };
        write!(out, "{route}, {encoding}, fragments of {} B", self.fragment)
    }
}

/// The median round trip of each size, in microseconds.
fn rounds(machine: &Machine, program: &Path, way: Way, sizes: &[u32], seconds: f64) -> Result<Vec<f64>> {
    let mut command = machine.command(program);
    command.arg(seconds.to_string()).args(way.arguments()).arg("0");
    command.args(sizes.iter().map(u32::to_string));
    let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("the ping-pong of PVM failed with {way}: {}", String::from_utf8_lossy(&output.stdout));
    }
    let lines = times(&String::from_utf8_lossy(&output.stdout));
    sizes
        .iter()
        .map(|size| {
            // The first line after a change of the size is left out, because its time includes the change.
            let of: Vec<f64> = lines.iter().filter(|(of, _)| of == size).map(|(_, time)| *time).collect();
            let of = if of.len() > 2 { of[1..].to_vec() } else { of };
            median(of).with_context(|| format!("no round trip of {size} B was measured with {way}"))
        })
        .collect()
}

/// Parses the lines that the test programs print; each has a size and a time in microseconds.
fn times(output: &str) -> Vec<(u32, f64)> {
    let line = |line: &str| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    output.lines().filter(|text| text.split(' ').count() == 3).filter_map(line).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn two_ways(title: &str, names: [&str; 2], first: &[f64], second: &[f64]) {
    println!("\n### {title}\n");
    println!("Round trips of two tasks on one machine, in µs, everything else as PVM has it.\n");
    println!("| bytes | {} | {} | gained | the paper |", names[0], names[1]);
    println!("|---|---|---|---|---|");
    for ((size, first), second) in SIZES.iter().zip(first).zip(second) {
        let gained = (first / second - 1.0) * 100.0;
        println!("| {size} | {first:.0} | {second:.0} | {gained:+.0} % | not known here |");
    }
}

fn third_table(fragments: &[Vec<f64>]) {
    println!("\n### Table 3: fragment size\n");
    println!(
        "Round trips in µs; of the paper, what its fit says: 1.93 ms a fragment, 0.405 ms a kilobyte.\n"
    );
    println!("| bytes | {} |", FRAGMENTS.map(|fragment| format!("{fragment} B | the paper")).join(" | "));
    println!("|{}", "---|".repeat(1 + 2 * FRAGMENTS.len()));
    let mut points = Vec::new();
    for (at, size) in SIZES.iter().enumerate() {
        let mut cells = Vec::new();
        for (fragment, times) in FRAGMENTS.iter().zip(fragments) {
            let (count, kilobytes) = (f64::from(size.div_ceil(*fragment)), f64::from(*size) / 1000.0);
            points.push((count, kilobytes, times[at]));
            let paper = PAPER_FRAGMENT_US * count + PAPER_KILOBYTE_US * kilobytes;
            cells.push(format!("{:.0} | {paper:.0}", times[at]));
        }
        println!("| {size} | {} |", cells.join(" | "));
    }
    match fitted(&points) {
        Some([fragment, kilobyte]) => println!(
            "\nFitted to ours: {fragment:.1} µs a fragment, {kilobyte:.2} µs a kilobyte; the paper's: {PAPER_FRAGMENT_US} and {PAPER_KILOBYTE_US}."
        ),
        None => println!("\nNothing can be fitted to ours."),
    }
}

/// The `a` and `b` for which `a·fragments + b·kilobytes` fits the times with the least relative squares.
fn fitted(points: &[(f64, f64, f64)]) -> Option<[f64; 2]> {
    let sum = |of: fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(count, kilobytes, time)| of(count / time, kilobytes / time)).sum()
    };
    let (aa, ab, bb) = (sum(|a, _| a * a), sum(|a, b| a * b), sum(|_, b| b * b));
    let (a, b) = (sum(|a, _| a), sum(|_, b| b));
    let determinant = aa * bb - ab * ab;
    (determinant.abs() > f64::EPSILON * aa * bb)
        .then(|| [(a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant])
}

/// A daemon of PVM with a folder of its own, which ends when the value is dropped.
struct Machine {
    folder: tempfile::TempDir,
    daemon: Child,
}

impl Machine {
    /// Starts the daemon. If the daemon cannot be started, the inner error names the software that is missing
    /// on this computer.
    fn start() -> Result<Result<Machine, String>> {
        let program = Path::new(ROOT).join("lib/pvmd");
        for (file, package) in [(program.as_path(), "pvm"), (Path::new("/usr/include/pvm3.h"), "pvm-dev")] {
            if !file.exists() {
                return Ok(Err(format!("{} is missing (Debian's package {package})", file.display())));
            }
        }
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(program);
        environment(command.arg("-n127.0.0.1"), folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let machine = Machine { folder, daemon: command.spawn().context("cannot start PVM's daemon")? };
        let begin = Instant::now();
        while !machine.is_ready()? {
            if begin.elapsed() > Duration::from_secs(20) {
                bail!("PVM's daemon did not come up within 20 s");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Ok(machine))
    }

    fn is_ready(&self) -> Result<bool> {
        let mut files = std::fs::read_dir(self.folder.path())?.flatten();
        Ok(files.any(|entry| entry.file_name().to_string_lossy().starts_with("pvmd.")))
    }

    /// Compiles one of the tuner's test programs.
    fn compile(&self, source: &str) -> Result<PathBuf> {
        compile("cc", source, self.folder.path(), &["-lpvm3"])
    }

    /// The command that starts a program which uses the daemon.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        environment(&mut command, self.folder.path());
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn environment(command: &mut Command, folder: &Path) {
    command.env("PVM_ROOT", ROOT).env("PVM_TMP", folder).env("PVM_ALLOW_ROOT", "1");
    command.env("PVM_ARCH", "LINUX64").env_remove("PVMSOCK").env("HOME", folder);
}

/// Compiles one of the tuner's test programs into a folder.
fn compile(compiler: &str, source: &str, folder: &Path, with: &[&str]) -> Result<PathBuf> {
    let program = folder.join(Path::new(source).with_extension("").as_os_str());
    let path = process::root().join("tune/tests/programs").join(source);
    process::run(Command::new(compiler).arg("-O2").arg(path).arg("-o").arg(&program).args(with))?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_programs_are_read() {
        assert_eq!(times("0.2 1000 12.5\nnonsense\n0.4 1000 13.5\ndone\n"), [(1000, 12.5), (1000, 13.5)]);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn what_a_fragment_costs_is_fitted() {
        let time = |count: f64, kilobytes: f64| (count, kilobytes, 3.0 * count + 0.5 * kilobytes);
        let [a, b] = fitted(&[time(1.0, 1.0), time(25.0, 100.0), time(2.0, 100.0)]).expect("a fit");
        assert!((a - 3.0).abs() < 1e-6 && (b - 0.5).abs() < 1e-6, "{a} {b}");
        assert!(fitted(&[time(1.0, 1.0)]).is_none());
    }
}
