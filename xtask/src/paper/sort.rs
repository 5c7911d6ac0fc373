//! `cargo xtask paper mate --sort CLASS`: the integer sort of the NAS Parallel Benchmarks with four tasks, tuned
//! while it runs, beside every static setting; as Markdown.
//!
//! Every static setting is measured once. The best setting and a tuned run then take turns, so that the best of
//! many noisy times is not compared with a single one. The intrusion of a tuner is the time of an iteration with
//! the best setting and a tuner beside it, which respects what the program chose and changes nothing, divided by
//! the time without the tuner. Tuners come and go in one run, because two runs of the sort differ by more than a
//! tuner costs.

use super::pvm::{FRAGMENTS, Machine, Way, compile, median};
use crate::paper::Interval;
use crate::{app, process};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The number of tasks, or ranks, that sort unless that is given.
pub(super) const TASKS: usize = 4;
/// The time that a tuner has before its run is measured, in seconds.
const TUNING_S: f64 = 10.0;
/// How often the best setting and a tuned run take turns.
const ROUNDS: usize = 3;
/// How often a tuner comes and goes unless that is given, and the time in seconds after its coming and going that
/// does not count.
pub(super) const PAIRS: usize = 15;
const SETTLE_S: f64 = 1.0;
/// The number of pairs of whole runs, and how many times longer than the time that is measured in other runs a
/// whole run without a tuner takes at least.
const WHOLE_PAIRS: usize = 7;
const WHOLE: f64 = 5.0;
/// The values of MPICH's `MPIR_CVAR_POLLS_BEFORE_YIELD`; 1000 is its default.
const POLLS: [u32; 6] = [1000, 0, 10, 100, 10_000, 100_000];

/// What the intrusion of a tuner is, in a table, by the program's times and by the tuner's processor time.
const INTRUSION: &str =
    "an iteration with a tuner that has nothing to do, by one without it (goal 1.01 or less)";
const TAKEN: &str = "what the tuner takes of the processors (goal 1 % or less)";

/// A class of the benchmark, which determines the number of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(char);

impl Class {
    /// The class with this name, such as `A`.
    pub(super) fn named(name: &str) -> Result<Class> {
        match name {
            "S" | "W" | "A" | "B" => Ok(Class(name.chars().next().unwrap_or('S'))),
            _ => bail!("there is no class `{name}` of the integer sort; there are S, W, A and B"),
        }
    }
}

/// A static setting of the library that carries the messages.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Setting {
    Pvm(Way),
    Polls(u32),
}

impl std::fmt::Display for Setting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Setting::Pvm(way) => write!(out, "{way}"),
            Setting::Polls(polls) => write!(out, "{polls} polls"),
        }
    }
}

/// What runs beside a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nobody,
    Tuner,
}

/// A sort of one class over one library.
struct Sort<'a> {
    class: Class,
    tasks: usize,
    program: PathBuf,
    machine: Option<&'a Machine>,
    /// The time that is measured in each run.
    seconds: f64,
    folder: tempfile::TempDir,
}

/// The outcome of a run: the median time of an iteration in microseconds, and what the tuner kept.
struct Outcome {
    iteration_us: f64,
    kept: Vec<Kept>,
}

/// A change that a tuner kept, and the second of the tuner in which it did.
struct Kept {
    at: f64,
    change: String,
}

/// What of the sort is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Every static setting, tuned runs, and the intrusion.
    All,
    /// Runs from their start to their end.
    Whole,
    /// The intrusion of a tuner that has nothing to do, which comes and goes so often.
    Intrusion(usize),
}

/// What a tuner that has nothing to do costs.
struct Intrusion {
    /// The time of an iteration with the tuner by the time without it.
    times: Interval,
    /// The processor time of the tuner's processes, by the time of all processors.
    taken: Interval,
}

/// The setting of PVM that is the best in most classes.
const BEST: Way = Way { route: 3, encoding: 1, fragment: FRAGMENTS[FRAGMENTS.len() - 1] };

/// Measures the sort over PVM, and prints its tables.
pub(super) fn print_pvm(
    machine: &Machine,
    (class, tasks): (Class, usize),
    seconds: f64,
    part: Part,
) -> Result<()> {
    app::build(&[])?;
    let program = machine.compile("sort_pvm.c")?;
    let sort = Sort { class, tasks, program, machine: Some(machine), seconds, folder: tempfile::tempdir()? };
    let which = if part == Part::Whole { "Whole runs of the integer sort" } else { "Integer sort" };
    println!("\n### {which} over PVM, class {}, {tasks} tasks\n", class.0);
    match part {
        Part::All => {}
        Part::Whole => return sort.print_whole(&[Setting::Pvm(Way::START), Setting::Pvm(BEST)]),
        Part::Intrusion(pairs) => return sort.print_intrusion(Setting::Pvm(BEST), pairs),
    }
    println!("The time of an iteration in ms, by route and encoding, and by the size of fragments.\n");
    println!("| | {} |", FRAGMENTS.map(|fragment| format!("{fragment} B")).join(" | "));
    println!("|---|{}", "---|".repeat(FRAGMENTS.len()));
    let mut best: Option<(f64, Setting)> = None;
    for (route, encoding) in [(2, 0), (2, 1), (3, 0), (3, 1)] {
        let mut cells = Vec::new();
        for fragment in FRAGMENTS {
            let setting = Setting::Pvm(Way { route, encoding, fragment });
            let took = sort.run(setting, Beside::Nobody, 0.0)?.iteration_us;
            cells.push(milliseconds(took));
            best = Some(better(best, (took, setting)));
        }
        let (route, encoding) =
            (["by the daemon", "direct"][route as usize - 2], ["XDR", "raw"][encoding as usize]);
        println!("| {route}, {encoding} | {} |", cells.join(" | "));
    }
    let (_, best) = best.context("settings")?;
    sort.print_tuned(Setting::Pvm(Way::START), best)
}

/// Measures the sort over MPICH, and prints its tables. If MPICH is missing, that is printed.
pub(super) fn print_mpi((class, tasks): (Class, usize), seconds: f64, part: Part) -> Result<()> {
    if !process::is_installed("mpicc.mpich", "--version") {
        println!(
            "MPICH cannot be measured: `mpicc.mpich` is missing (Debian's packages mpich and libmpich-dev)"
        );
        return Ok(());
    }
    app::build(&[])?;
    let folder = tempfile::tempdir()?;
    let program = compile("mpicc.mpich", "sort_mpi.c", folder.path(), &[])?;
    let sort = Sort { class, tasks, program, machine: None, seconds, folder };
    let which = if part == Part::Whole { "Whole runs of the integer sort" } else { "Integer sort" };
    println!("\n### {which} over MPICH, class {}, {tasks} ranks\n", class.0);
    match part {
        Part::All => {}
        Part::Whole => return sort.print_whole(&[Setting::Polls(POLLS[0])]),
        Part::Intrusion(pairs) => return sort.print_intrusion(Setting::Polls(POLLS[0]), pairs),
    }
    println!("The time of an iteration in ms, by the number of polls before a rank yields.\n");
    println!("| {} |", POLLS.map(|polls| polls.to_string()).join(" | "));
    println!("|{}", "---|".repeat(POLLS.len()));
    let mut best: Option<(f64, Setting)> = None;
    let mut cells = Vec::new();
    for polls in POLLS {
        let took = sort.run(Setting::Polls(polls), Beside::Nobody, 0.0)?.iteration_us;
        cells.push(milliseconds(took));
        best = Some(better(best, (took, Setting::Polls(polls))));
    }
    println!("| {} |", cells.join(" | "));
    let (_, best) = best.context("settings")?;
    sort.print_tuned(Setting::Polls(POLLS[0]), best)
}

fn better(best: Option<(f64, Setting)>, other: (f64, Setting)) -> (f64, Setting) {
    best.filter(|best| best.0 <= other.0).unwrap_or(other)
}

fn milliseconds(us: f64) -> String {
    format!("{:.1}", us / 1000.0)
}

impl Sort<'_> {
    /// Measures tuned runs beside the best static setting, and the intrusion of a tuner; prints a table.
    fn print_tuned(&self, start: Setting, best: Setting) -> Result<()> {
        let (mut first, mut by_hand, mut tuned) = (Vec::new(), Vec::new(), Vec::new());
        let (mut after, mut kept) = (Vec::new(), String::new());
        for _ in 0..ROUNDS {
            first.push(self.run(start, Beside::Nobody, 0.0)?.iteration_us);
            by_hand.push(self.run(best, Beside::Nobody, 0.0)?.iteration_us);
            let outcome = self.run(start, Beside::Tuner, TUNING_S)?;
            tuned.push(outcome.iteration_us);
            after.push(outcome.kept.last().map_or(0.0, |kept| kept.at));
            kept = outcome.kept.iter().map(|kept| kept.change.as_str()).collect::<Vec<_>>().join(", ");
        }
        let middle = |values: Vec<f64>| median(values).context("a time");
        let (first, by_hand, tuned) = (middle(first)?, middle(by_hand)?, middle(tuned)?);
        println!("\n| what | |\n|---|---|");
        println!("| an iteration as the library has it ({start}) | {} ms |", milliseconds(first));
        println!("| best static setting ({best}) | {} ms |", milliseconds(by_hand));
        println!("| tuned | {} ms |", milliseconds(tuned));
        println!(
            "| the best static setting's time over that of the tuned run (goal 0.95 or more) | {:.3} |",
            by_hand / tuned
        );
        println!("| the last run of the tuner kept | {} |", if kept.is_empty() { "nothing" } else { &kept });
        println!("| the last change was kept after | {:.1} s |", middle(after)?);
        let Intrusion { times, taken } = self.intrusion(best, PAIRS)?;
        println!("| {INTRUSION} | {} |\n| {TAKEN} | {} |", times.shown(3, ""), taken.shown(2, " %"));
        Ok(())
    }

    /// Prints the intrusion of a tuner that has nothing to do.
    fn print_intrusion(&self, setting: Setting, pairs: usize) -> Result<()> {
        let Intrusion { times, taken } = self.intrusion(setting, pairs)?;
        println!("| setting of the program | {INTRUSION} | {TAKEN} |\n|---|---|---|");
        println!("| {setting} | {} | {} |", times.shown(3, ""), taken.shown(2, " %"));
        Ok(())
    }

    /// The time of an iteration with a tuner, which changes nothing, by the time without one, in pairs of turns
    /// within one run of the sort.
    fn intrusion(&self, setting: Setting, pairs: usize) -> Result<Intrusion> {
        let turn_s = SETTLE_S + self.seconds;
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get()) as f64;
        let mut taken = Vec::new();
        let turns: Vec<Beside> = (0..pairs)
            .flat_map(|pair| {
                let mut both = [Beside::Nobody, Beside::Tuner];
                both.rotate_left(pair % 2);
                both
            })
            .collect();
        let stop = self.folder.path().join("stop");
        let _ = std::fs::remove_file(&stop);
        // A tuner comes and goes within a second.
        let mut command = self.command(setting, turns.len() as f64 * (turn_s + 1.0), 1_000_000);
        let shown = process::shown(&command);
        let mut child = command.env("STOP", &stop).stdout(Stdio::piped()).spawn().context(shown.clone())?;
        let mut lines = BufReader::new(child.stdout.take().context("an output")?).lines();
        let mut next = || loop {
            let line = lines.next().transpose()?.with_context(|| format!("`{shown}` ended early"))?;
            if let Some(known) = iteration(&line) {
                return Ok::<_, anyhow::Error>(known);
            }
        };
        let mut sort = || -> Result<Vec<f64>> {
            let mut medians = Vec::new();
            next()?;
            for of in &turns {
                let tuner = (*of == Beside::Tuner).then(|| self.tune()).transpose()?;
                // The turn begins a little earlier than the tuner if lines came while the last tuner went.
                let begun = next()?.0;
                let (mut times, mut at) = (Vec::new(), begun);
                let mut since = None;
                while at < begun + turn_s || times.is_empty() {
                    let (now, took) = next()?;
                    if now >= begun + SETTLE_S {
                        times.push(took);
                        let spent = || tuner.as_ref().map_or(0, |tuner| tree_ns(tuner.id()));
                        since.get_or_insert_with(|| (Instant::now(), spent()));
                    }
                    at = now;
                }
                medians.extend(median(times));
                if let (Some(tuner), Some((begin, before))) = (&tuner, since) {
                    let spent = tree_ns(tuner.id()).saturating_sub(before) as f64;
                    taken.push(100.0 * spent / begin.elapsed().as_nanos() as f64 / processors);
                }
                tuner.map(|tuner| kept_at_end(tuner, true)).transpose()?;
            }
            Ok(medians)
        };
        let medians = sort();
        std::fs::write(&stop, "")?;
        // The rest of the output is read, so that the program can end.
        let is_right = lines.map_while(Result::ok).any(|line| line == "done");
        let status = child.wait()?;
        let medians = medians?;
        if !status.success() || !is_right {
            bail!("`{shown}` failed with {setting}: {status}");
        }
        let ratios = medians
            .chunks_exact(2)
            .enumerate()
            .map(|(pair, both)| if pair % 2 == 0 { both[1] / both[0] } else { both[0] / both[1] });
        Ok(Intrusion { times: Interval::of(ratios.collect()), taken: Interval::of(taken) })
    }

    /// Measures whole runs with each setting, beside a tuner and alone in turns, and prints a table.
    fn print_whole(&self, settings: &[Setting]) -> Result<()> {
        let iteration_us = self.run(settings[0], Beside::Nobody, 0.0)?.iteration_us;
        let iterations = (WHOLE * self.seconds * 1e6 / iteration_us).ceil().max(10.0) as usize;
        println!("The time of {iterations} iterations in s, from the start of the program to its end.\n");
        println!(
            "| setting of the program | alone | beside a tuner | beside a tuner over alone (goal 1.01 or less) | processor time of the tuner | kept | the first after |"
        );
        println!("|---|---|---|---|---|---|---|");
        for setting in settings {
            let (mut alone, mut beside, mut kept) = (Vec::new(), Vec::new(), Vec::new());
            let (mut firsts, mut spent) = (Vec::new(), 0.0);
            for pair in 0..WHOLE_PAIRS {
                let mut both = [Beside::Nobody, Beside::Tuner];
                both.rotate_left(pair % 2);
                for of in both {
                    let (took, changes, of_tuner) = self.whole(*setting, of, iterations)?;
                    spent += of_tuner;
                    if of == Beside::Tuner {
                        beside.push(took);
                        kept.push(changes.len());
                        firsts.extend(changes.first().map(|first| first.at));
                    } else {
                        alone.push(took);
                    }
                }
            }
            let mut ratios: Vec<f64> =
                beside.iter().zip(&alone).map(|(with, without)| with / without).collect();
            ratios.sort_by(f64::total_cmp);
            let middle = |values: Vec<f64>| median(values).context("a time");
            println!(
                "| {setting} | {:.2} | {:.2} | {:.3} ({:.3} to {:.3}) | {:.0} ms | {} changes | {} |",
                middle(alone)?,
                middle(beside)?,
                ratios[WHOLE_PAIRS / 2],
                ratios[0],
                ratios[WHOLE_PAIRS - 1],
                1e3 * spent / WHOLE_PAIRS as f64,
                kept.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
                firsts.iter().map(|at| format!("{at:.1} s")).collect::<Vec<_>>().join(", "),
            );
        }
        Ok(())
    }

    /// The time of a whole run in seconds, the changes that a tuner kept in it, and the processor time in seconds of
    /// the tuner and its helpers. The tuner starts as soon as all processes of the run have started.
    fn whole(&self, setting: Setting, beside: Beside, iterations: usize) -> Result<(f64, Vec<Kept>, f64)> {
        let expected = self.seconds * WHOLE;
        let mut command = self.command(setting, expected, iterations);
        let shown = process::shown(&command);
        let begin = Instant::now();
        let mut child = command.env_remove("STOP").stdout(Stdio::piped()).spawn().context(shown.clone())?;
        let output = child.stdout.take().context("an output")?;
        let mut tuner = None;
        if beside == Beside::Tuner {
            while processes_of(&self.program)?.len() < self.tasks && child.try_wait()?.is_none() {
                std::thread::sleep(Duration::from_millis(2));
            }
            tuner = Some(self.tune()?);
        }
        let mut is_right = false;
        for line in BufReader::new(output).lines() {
            is_right |= line? == "done";
        }
        let status = child.wait()?;
        let took = begin.elapsed().as_secs_f64();
        if !status.success() || !is_right {
            bail!("`{shown}` failed with {setting}: {status}");
        }
        let before = process::children_s()?;
        // The tuner ends when all processes have ended.
        let kept = tuner.map(|tuner| kept_at_end(tuner, false)).transpose()?.unwrap_or_default();
        Ok((took, kept, process::children_s()? - before))
    }

    /// Sorts with a setting, first for `before` seconds that do not count.
    fn run(&self, setting: Setting, beside: Beside, before: f64) -> Result<Outcome> {
        let stop = self.folder.path().join("stop");
        if stop.exists() {
            std::fs::remove_file(&stop)?;
        }
        let lasts = before + self.seconds;
        let mut command = self.command(setting, lasts, 1_000_000);
        let shown = process::shown(&command);
        let mut child = command.env("STOP", &stop).stdout(Stdio::piped()).spawn().context(shown.clone())?;
        let mut lines = BufReader::new(child.stdout.take().context("an output")?).lines();
        let (mut tuner, mut kept, mut times) = (None, Vec::new(), Vec::new());
        let (mut is_first, mut is_right) = (true, false);
        while let Some(line) = lines.next().transpose()? {
            is_right |= line == "done";
            let Some((at, took)) = iteration(&line) else { continue };
            if is_first && beside == Beside::Tuner {
                tuner = Some(self.tune()?);
            }
            // The first iteration does not count: it uses the memory for the first time.
            if at >= before && !is_first {
                times.push(took);
            }
            is_first = false;
            if at >= lasts && !stop.exists() {
                // A tuner puts back what it set, so it ends before the program does.
                kept = tuner.take().map(|tuner| kept_at_end(tuner, true)).transpose()?.unwrap_or_default();
                std::fs::write(&stop, "")?;
            }
        }
        let status = child.wait()?;
        if !status.success() || !is_right {
            bail!("`{shown}` failed with {setting}: {status}");
        }
        let iteration_us = median(times).with_context(|| format!("`{shown}` made no iteration in time"))?;
        Ok(Outcome { iteration_us, kept })
    }

    /// The command that sorts so often, or until the file of the variable STOP exists. If the sort does not
    /// end, it is killed.
    fn command(&self, setting: Setting, lasts: f64, iterations: usize) -> Command {
        let patience = format!("{:.0}", 10.0 * lasts + 60.0);
        let mut command = match self.machine {
            Some(machine) => machine.command(Path::new("timeout")),
            None => Command::new("timeout"),
        };
        command.args(["-k", "1", &patience]);
        match setting {
            Setting::Pvm(way) => {
                command.arg(&self.program).args([
                    self.class.0.to_string(),
                    iterations.to_string(),
                    self.tasks.to_string(),
                ]);
                command.args(way.arguments());
            }
            Setting::Polls(polls) => {
                command.env("MPIR_CVAR_POLLS_BEFORE_YIELD", polls.to_string());
                command.args(["mpirun.mpich", "-n", &self.tasks.to_string()]).arg(&self.program);
                command.args([self.class.0.to_string(), iterations.to_string()]);
            }
        }
        command
    }

    /// Starts a tuner of the processes that sort.
    fn tune(&self) -> Result<Child> {
        let library = if self.machine.is_some() { "pvm" } else { "mpich" };
        let processes = processes_of(&self.program)?;
        if processes.len() != self.tasks {
            bail!("{} processes sort, and not {}", processes.len(), self.tasks);
        }
        let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
        let mut tune = Command::new(process::target_dir().join("release/thalweg"));
        tune.arg("tune").arg(processes.join(",")).args(["--library", library]);
        tune.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        tune.spawn().context("cannot start `thalweg tune`")
    }
}

/// Waits for the end of a tuner, which is interrupted before if that is asked for, and returns the changes that
/// it kept.
fn kept_at_end(mut tuner: Child, is_interrupted: bool) -> Result<Vec<Kept>> {
    if is_interrupted {
        process::run(Command::new("kill").args(["-INT", &tuner.id().to_string()]))?;
    }
    let mut text = String::new();
    let (output, errors) = (tuner.stdout.take(), tuner.stderr.take());
    output.context("an output")?.read_to_string(&mut text)?;
    errors.context("errors")?.read_to_string(&mut text)?;
    let status = tuner.wait()?;
    if !status.success() {
        bail!("`thalweg tune` failed with {status}: {}", text.trim());
    }
    Ok(text.lines().filter_map(kept).collect())
}

/// Parses a line such as `    0.6 s  #7   kept        pvm.route 2 → 3 in 2 processes: it gains …`.
fn kept(line: &str) -> Option<Kept> {
    let (at, rest) = line.trim_start().split_once(" s  #")?;
    let mut words = rest.split_whitespace().skip(1);
    if words.next()? != "kept" {
        return None;
    }
    let change: Vec<&str> = words.take(4).collect();
    Some(Kept { at: at.parse().ok()?, change: change.join(" ") })
}

/// Parses the line of an iteration, which has the time so far in seconds, the number of keys, and the
/// iteration's time in microseconds.
fn iteration(line: &str) -> Option<(f64, f64)> {
    let words: Vec<f64> = line.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [at, _, took] = words[..] else { return None };
    Some((at, took))
}

/// The processor time in ns of a process and of its children that still run.
fn tree_ns(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
    });
    process::processor_ns(pid).unwrap_or(0) + children.map(tree_ns).sum::<u64>()
}

/// The numbers of the processes that run this program.
fn processes_of(program: &Path) -> Result<Vec<u32>> {
    let program = program.canonicalize()?;
    let list = std::fs::read_dir("/proc").context("cannot list processes")?.flatten();
    let numbers = list.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    Ok(numbers.filter(runs).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_sorts_and_tuners_are_read() {
        assert_eq!(iteration("1.250 8388608 48500.25"), Some((1.25, 48500.25)));
        assert_eq!(iteration("50 of 50 ranks are right"), None);
        let line = "    0.6 s  #7   kept        pvm.route 2 → 3 in 2 processes: it gains +195.6 % (…)";
        let Kept { at, change } = kept(line).expect("a change that was kept");
        assert_eq!((at, change.as_str()), (0.6, "pvm.route 2 → 3"));
        assert!(kept("    0.5 s  #6   tried       pvm.route 2 → 3 in 2 processes: Messages pass").is_none());
        assert!(Class::named("A").is_ok());
        let why = Class::named("C").expect_err("no such class here").to_string();
        assert!(why.contains("S, W, A and B"), "{why}");
    }
}
