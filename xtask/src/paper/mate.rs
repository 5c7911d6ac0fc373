//! `cargo xtask paper mate`: measures the settings that MATE (Morajko, Morajko, Margalef and
//! Luque) tuned in programs of PVM: the route of messages, their encoding, and the size of fragments (Tables
//! 1 to 3); as Markdown.
//!
//! Only the paper's fit to Table 3 is available here; the other tables say that the paper's figures are
//! missing.

use super::pvm::{FRAGMENTS, Machine, Way, median};
use super::sort;
use crate::process;
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
Prints the tables of the MATE paper with our figures beside what is known of theirs.

usage: cargo xtask paper mate [--seconds X] [--sort CLASS [--whole|--intrusion [--pairs N]]
                              [--tasks N] [--mpi]]

  --seconds X   so long for each size and way (default 1)
  --sort CLASS  instead of the tables: the integer sort of the NAS benchmarks in class S, W, A or B, with four
                tasks: every static setting, a run that starts on PVM's defaults and is tuned, and the cost of
                a tuner that finds nothing to do (3 minutes with --seconds 2)
  --whole       with --sort: only whole runs, from the start of the program to its end, beside a tuner and alone
                in seven pairs, with the library's own settings and with the best (2 minutes with --seconds 0.5)
  --intrusion   with --sort: only the cost of a tuner that finds nothing to do, which comes and goes in one run (1
                minute with --seconds 1)
  --pairs N     with --intrusion: so often (default 15)
  --tasks N     with --sort: so many tasks or ranks (default 4), a power of two
  --mpi         with --sort: over MPICH instead of PVM

The tables and --sort need Debian's pvm and pvm-dev; --mpi needs mpich and libmpich-dev. The command says what
is missing.
";

const SIZES: [u32; 5] = [1_000, 10_000, 100_000, 400_000, 1_000_000];
/// The paper's fit to Table 3: the cost of a fragment and of a kilobyte, in microseconds.
const PAPER_FRAGMENT_US: f64 = 1930.0;
const PAPER_KILOBYTE_US: f64 = 405.0;

pub(super) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let (mut seconds, mut class, mut over_mpi, mut part) = (1.0_f64, None, false, sort::Part::All);
    let (mut pairs, mut tasks) = (None, sort::TASKS);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            Long("seconds") => seconds = arguments.value()?.parse()?,
            Long("sort") => class = Some(sort::Class::named(&arguments.value()?.string()?)?),
            Long("whole") => part = sort::Part::Whole,
            Long("intrusion") => part = sort::Part::Intrusion(sort::PAIRS),
            Long("pairs") => pairs = Some(arguments.value()?.parse()?),
            Long("tasks") => tasks = arguments.value()?.parse()?,
            Long("mpi") => over_mpi = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if !(0.5..=60.0).contains(&seconds) {
        bail!(
            "--seconds has to be 0.5 to 60: a line of the ping-pong has 0.2 s, and the first does not count"
        );
    }
    if !(1..=64).contains(&tasks) || !tasks.is_power_of_two() {
        bail!("--tasks is a power of two up to 64: the benchmark specifies no other numbers of processes");
    }
    match (&mut part, pairs) {
        (_, None) => {}
        (sort::Part::Intrusion(count), Some(pairs)) if pairs >= 1 => *count = pairs,
        _ => bail!("--pairs is a number from 1 on, and needs `--intrusion`"),
    }
    process::require_c_compiler()?;
    match class {
        Some(class) if over_mpi => {
            return sort::print_mpi((class, tasks), seconds, part).map(|()| ExitCode::SUCCESS);
        }
        None if part != sort::Part::All => bail!("--whole and --intrusion need `--sort CLASS`"),
        None if over_mpi => bail!("--mpi measures the integer sort: it needs `--sort CLASS`"),
        _ => {}
    }
    let machine = match Machine::start()? {
        Ok(machine) => machine,
        Err(missing) => {
            println!("PVM cannot be measured: {missing}");
            return Ok(ExitCode::SUCCESS);
        }
    };
    if let Some(class) = class {
        return sort::print_pvm(&machine, (class, tasks), seconds, part).map(|()| ExitCode::SUCCESS);
    }
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
