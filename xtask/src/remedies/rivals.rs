//! `cargo xtask bench tune --rivals`: networks that start with a wrong mapping, by themselves, with stealing,
//! with a tuner, with a mapping made by hand, and as a flow graph of oneTBB.
//!
//! All ways have two threads for boxes, and each box computes the same loop. The limit follows from the time
//! in which one thread makes all turns: half of it, or the largest box's part of it if that box works on one
//! message at a time. The ways take turns; figures are medians.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::network::{BoxPlan, Case, How, Net};
use super::trial::{Bench, Size};
use super::tuned::{Beside, wall};
use super::{bench, median};
use crate::process;
use crate::tuned::settings_text;

/// The approximate number of turns of the boxes' loop in a microsecond.
const TURNS_PER_US: f64 = 650.0;
/// The approximate duration of a run, and of the run with the tuner.
const SECONDS: f64 = 1.0;
const TUNED_S: f64 = 15.0;
const ROUNDS: usize = 5;
const WORKERS: usize = 2;

const GRAPH: &str = include_str!("graph.cpp");

/// Boxes in series with their costs in microseconds, the number of messages that each works on at once, and
/// the workers on which a person would place them.
struct Line {
    name: &'static str,
    us: &'static [f64],
    at_once: &'static [usize],
    by_hand: &'static [Option<usize>],
    start: fn(&mut Case),
}

const LINES: [Line; 4] = [
    Line {
        name: "six boxes of 4 to 30 µs, workers in turn",
        us: &[4.0, 10.0, 20.0, 6.0, 30.0, 10.0],
        at_once: &[1; 6],
        by_hand: &[Some(0), Some(0), Some(0), Some(0), Some(1), Some(1)],
        start: |case| case.round_robin = true,
    },
    Line {
        name: "the same, all on one of two workers",
        us: &[4.0, 10.0, 20.0, 6.0, 30.0, 10.0],
        at_once: &[1; 6],
        by_hand: &[Some(0), Some(0), Some(0), Some(0), Some(1), Some(1)],
        start: all_on_one,
    },
    Line {
        name: "a farm of four boxes of 40 µs between two of 2 µs, one worker",
        us: &[2.0, 40.0, 2.0],
        at_once: &[1, 4, 1],
        by_hand: &[Some(0), None, Some(1)],
        start: |case| case.workers = 1,
    },
    Line {
        name: "eight boxes of 0.5 µs, workers in turn",
        us: &[0.5; 8],
        at_once: &[1; 8],
        by_hand: &[Some(0), Some(0), Some(0), Some(0), Some(1), Some(1), Some(1), Some(1)],
        start: |case| case.round_robin = true,
    },
];

fn all_on_one(case: &mut Case) {
    case.net.change(&mut |net| {
        if let Net::Box(at) = *net {
            *net = Net::Placed(at, 0);
        }
    });
}

impl Line {
    /// The network with its boxes on these workers.
    fn case(&self, places: &[Option<usize>]) -> Case {
        let part = |(at, place): (usize, &Option<usize>)| match (self.at_once[at], place) {
            (2.., _) => Net::Lanes(at),
            (_, Some(worker)) => Net::Placed(at, *worker),
            (_, None) => Net::Box(at),
        };
        let plan = |us: &f64| BoxPlan {
            turns: us * TURNS_PER_US,
            cost: "constant",
            how: How::Compute,
            times: 1.0,
            seed: 1,
        };
        let net = Net::Serial(places.iter().enumerate().map(part).collect());
        Case::plain(net, self.us.iter().map(plan).collect(), 4)
    }

    /// The least time for a message, as a part of the time of all boxes for it.
    fn limit(&self) -> f64 {
        let all: f64 = self.us.iter().sum();
        let parts = self.us.iter().zip(self.at_once).map(|(us, at_once)| us / (*at_once).min(WORKERS) as f64);
        parts.fold(all / WORKERS as f64, f64::max) / all
    }

    fn measure(&self, bench: &Bench, graph: &Path) -> Result<String> {
        let free = vec![None; self.us.len()];
        let mut start = self.case(&free);
        (self.start)(&mut start);
        let stealing = Case { steal: true, ..start.clone() };
        let by_hand = self.case(self.by_hand);
        let size = |seconds: f64, rate: f64| Size { records: (seconds * rate) as u64, rate };
        let rate = bench.size(&start, 0.3)?.rate;
        let saved = bench.folder.join("tuned.settings");
        let long = size(TUNED_S, rate);
        let tuned = long.records as f64 / wall(bench, &start, long, Beside::Tuner(&saved))?;
        let short = size(SECONDS, rate);
        let ways = [
            (&start, Beside::Nobody),
            (&stealing, Beside::Nobody),
            (&start, Beside::Settings(&saved)),
            (&by_hand, Beside::Nobody),
        ];
        let mut rates = vec![Vec::new(); ways.len() + 2];
        for _ in 0..ROUNDS {
            for (rates, (case, beside)) in rates.iter_mut().zip(ways) {
                rates.push(short.records as f64 / wall(bench, case, short, beside)?);
            }
            let [took, alone] = self.as_graph(graph, short.records)?;
            rates[ways.len()].push(short.records as f64 / took);
            rates[ways.len() + 1].push(short.records as f64 / (alone * self.limit()));
        }
        let rates: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
        let limit = rates[rates.len() - 1];
        let cells: Vec<String> =
            rates.iter().map(|rate| format!("{:.1} k/s ({:.2})", rate / 1e3, rate / limit)).collect();
        let kept = settings_text(&std::fs::read_to_string(&saved)?);
        Ok(format!(
            "| {} | {} | {:.1} k/s ({:.2}) | {kept} |",
            self.name,
            cells.join(" | "),
            tuned / 1e3,
            tuned / limit
        ))
    }

    /// The seconds that the flow graph takes, and those in which one thread makes as many turns.
    fn as_graph(&self, program: &Path, messages: u64) -> Result<[f64; 2]> {
        let mut command = Command::new(program);
        command.arg(WORKERS.to_string()).arg(messages.to_string());
        for (us, at_once) in self.us.iter().zip(self.at_once) {
            command.arg(format!("{:.0}:{at_once}", us * TURNS_PER_US));
        }
        let output = command.stdin(Stdio::null()).output().context("could not start the flow graph")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [took, alone] if output.status.success() => Ok([took, alone]),
            _ => bail!("the flow graph lost messages or printed `{}`", text.trim()),
        }
    }
}

/// Compiles the flow graph.
fn compiled() -> Result<PathBuf> {
    let folder = process::target_dir().join("rivals");
    std::fs::create_dir_all(&folder)?;
    let (source, program) = (folder.join("tuned-graph.cpp"), folder.join("tuned-graph"));
    std::fs::write(&source, GRAPH)?;
    let mut compiler = Command::new("c++");
    compiler.args(["-O2", "-std=c++17"]).arg(&source).arg("-o").arg(&program).arg("-ltbb");
    let status = compiler.status();
    if !status.is_ok_and(|status| status.success()) {
        bail!(
            "oneTBB's flow graph could not be compiled: `apt-get install g++ libtbb-dev` installs what it needs"
        );
    }
    Ok(program)
}

/// Measures all networks, and prints the table.
pub(crate) fn rivals() -> Result<()> {
    let graph = compiled()?;
    let bench = bench(&process::target_dir().join("remedies/rivals.jsonl"))?;
    println!(
        "Messages a second, and in brackets the part of what two processors can do. A person's mapping is written with `@`."
    );
    println!();
    println!(
        "| network, and how it starts | as it starts | stealing | as the tuner saved it | mapping by hand | oneTBB's flow graph | limit | run with the tuner, trials included | kept |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for line in &LINES {
        println!("{}", line.measure(&bench, &graph)?);
    }
    std::fs::remove_dir_all(&bench.folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_and_their_limits_are_those_of_two_processors_or_of_the_largest_box() {
        for line in &LINES {
            assert_eq!(line.us.len(), line.at_once.len(), "{}", line.name);
            assert_eq!(line.us.len(), line.by_hand.len(), "{}", line.name);
            assert!(line.us.len() <= 12, "the library has twelve boxes");
            assert_ne!(line.case(line.by_hand), line.case(&vec![None; line.us.len()]));
        }
        assert!((LINES[0].limit() - 0.5).abs() < 1e-9);
        // A box of 50 of 60 µs works on one message at a time.
        let slow = Line { us: &[5.0, 50.0, 5.0], at_once: &[1; 3], ..LINES[0] };
        assert!((slow.limit() - 50.0 / 60.0).abs() < 1e-9);
        let several = Line { us: &[5.0, 50.0, 5.0], at_once: &[1, 4, 1], ..LINES[0] };
        assert!((several.limit() - 0.5).abs() < 1e-9);
    }
}
