//! `cargo xtask paper lpel --instructions`: the cost of each mode in instructions. Other programs on the
//! machine make a run slower, but do not change its instructions, so the numbers of instructions can be
//! compared where times have too much noise. The numbers do not show how long an instruction takes: a reading
//! of the clock counts as one.

use super::{Case, KINDS, Programs, Runs, succeeded, thousands};
use crate::process;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Valgrind runs a program some fifty times slower, so the time of a task's turn is set fifty times longer,
/// for the turn to process as many messages.
const SLOWLY: [&str; 4] = ["--workers", "1", "--quantum-us", "5000"];
/// Under valgrind messages take so long that the runtime would time each of them; this setting switches the
/// timing of single messages off. A build without probes has no setting `exec.clock_budget`.
const UNTIMED: [&str; 2] = ["--set", "exec.clock_budget=0"];

/// Prints the table: each case runs on one worker, with its input for counting and with twice that input, and
/// the least of `repeats` counts is used.
pub(super) fn print(cases: &[&Case], repeats: usize) -> Result<()> {
    if !process::is_installed("valgrind", "--version") {
        bail!("instructions are counted by valgrind; on Debian `apt-get install valgrind` brings it");
    }
    let programs = Programs::build()?;
    println!(
        "\nWhat monitoring costs in instructions: on one worker, of what twice the input adds to a run; and what a run in mode full takes more for its \
         start and its end (the least of {repeats} counts by callgrind)\n"
    );
    println!(
        "| app | messages | dispatches | no probes | off | metrics | full | full, kept | start and end, full |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut strays = Vec::new();
    for case in cases {
        let small = Counts::of(case, case.counted, &programs, repeats, &mut strays)?;
        let large = Counts::of(case, 2 * case.counted, &programs, repeats, &mut strays)?;
        println!("{}", row(case.name, &small, &large));
    }
    println!();
    strays.iter().for_each(|stray| println!("{stray}"));
    Ok(())
}

/// A note about counts that are 1 % or more above the least count, if there are any. Repeated runs do not
/// always have equal counts.
fn strayed(of: &str, counts: &[u64]) -> Option<String> {
    let least = *counts.iter().min()?;
    let above: Vec<u64> =
        counts.iter().map(|count| count - least).filter(|above| 100 * above >= least).collect();
    let most = *above.iter().max()?;
    let (many, all) = (above.len(), counts.len());
    Some(format!(
        "Of {of}, {many} of {all} counts were up to {:.1} M above the least, {:.1} M, and do not count.",
        most as f64 / 1e6,
        least as f64 / 1e6
    ))
}

/// The instructions of the runs with one input.
struct Counts {
    /// The instructions of each of [`KINDS`].
    instructions: [u64; KINDS.len()],
    messages: u64,
    dispatches: u64,
}

impl Counts {
    /// Notes about unusual counts are added to `strays`.
    fn of(
        case: &Case,
        amount: usize,
        programs: &Programs,
        repeats: usize,
        strays: &mut Vec<String>,
    ) -> Result<Counts> {
        let arguments = [&SLOWLY, case.arguments].concat();
        let run = Runs::prepare("instructions", case.app, &arguments, (case.input)(amount), programs)?;
        let seen = run.seen()?;
        let mut counts: [Vec<u64>; KINDS.len()] = Default::default();
        for _ in 0..repeats {
            for (kind, counts) in counts.iter_mut().enumerate() {
                let mut command = run.of_kind(kind)?;
                if kind > 0 {
                    command.args(UNTIMED);
                }
                counts.push(count(&command)?);
            }
        }
        let instructions = counts.each_ref().map(|counts| counts.iter().copied().min().unwrap_or(0));
        for (kind, counts) in KINDS.iter().zip(&counts) {
            strays.extend(strayed(&format!("{} on {amount}, {}", case.name, kind.name()), counts));
        }
        Ok(Counts {
            instructions,
            messages: seen.sum("streams", "written"),
            dispatches: seen.sum("workers", "dispatches"),
        })
    }
}

/// The line of the table for one app; the runs `large` had twice the input of the runs `small`.
fn row(app: &str, small: &Counts, large: &Counts) -> String {
    let added = |kind: usize| large.instructions[kind].saturating_sub(small.instructions[kind]) as f64;
    let percent = |kind: usize| format!("{:+.2} %", 100.0 * (added(kind) / added(0) - 1.0));
    // The constant part is the count without the part that is proportional to the input.
    let once = |kind: usize| 2.0 * small.instructions[kind] as f64 - large.instructions[kind] as f64;
    format!(
        "| {app} | {} | {} | {:.1} M | {} | {} | {} | {} | {:+.1} M |",
        thousands(large.messages - small.messages),
        thousands(large.dispatches.saturating_sub(small.dispatches)),
        added(0) / 1e6,
        percent(1),
        percent(2),
        percent(3),
        percent(4),
        (once(3) - once(0)) / 1e6,
    )
}

/// The number of instructions of a run.
fn count(run: &Command) -> Result<u64> {
    let mut counted = Command::new("valgrind");
    counted.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    counted.current_dir(process::root()).arg(run.get_program()).args(run.get_args());
    let stderr = String::from_utf8_lossy(&succeeded(&mut counted)?.stderr).into_owned();
    collected(&stderr).with_context(|| format!("valgrind printed no count: {stderr}"))
}

/// Parses the last line of callgrind, `==123== Collected : 456`.
fn collected(output: &str) -> Option<u64> {
    output.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::{Counts, collected, row, strayed};

    #[test]
    fn counts_that_stray_are_reported() {
        assert_eq!(strayed("mc", &[]), None);
        assert_eq!(strayed("mc", &[100_000_000, 100_900_000, 100_000_000]), None);
        assert_eq!(
            strayed("mc", &[116_000_000, 100_000_000, 101_000_000]).as_deref(),
            Some("Of mc, 2 of 3 counts were up to 16.0 M above the least, 100.0 M, and do not count.")
        );
    }

    #[test]
    fn a_count_is_found_among_lines_of_the_program() {
        assert_eq!(collected("10 records in\n==7== \n==7== Collected : 1234567\n==7== \n"), Some(1_234_567));
        assert_eq!(collected("==7== Collected : \n"), None);
    }

    #[test]
    fn what_a_run_takes_once_is_separated() {
        let small = Counts {
            instructions: [110_000_000, 121_000_000, 110_500_000, 132_000_000, 150_000_000],
            messages: 100,
            dispatches: 7,
        };
        let large = Counts {
            instructions: [210_000_000, 222_000_000, 210_500_000, 252_000_000, 290_000_000],
            messages: 200,
            dispatches: 9,
        };
        assert_eq!(
            row("mc", &small, &large),
            "| mc | 100 | 2 | 100.0 M | +1.00 % | +0.00 % | +20.00 % | +40.00 % | +2.0 M |"
        );
    }
}
