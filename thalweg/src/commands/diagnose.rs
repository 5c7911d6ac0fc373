//! `thalweg diagnose`: what limits the flow, the evidence, and what to do about it.

mod beyond;

use std::time::Duration;

use thalweg_host::amount::Span;
use thalweg_host::{Interrupt, spaces};
use thalweg_monitor::{
    Dependence, Judging, Perturbed, Predicted, Report, Tried, Unperturbed, Utilisation, WhatIf, compare,
    judged, perturb, what_if,
};

use crate::Terminal;
use crate::commands::look::{Look, json, look, usage};
use crate::commands::report::{accounts, text};
use crate::commands::waits;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, number, text as column, wrapped};
use crate::units::{duration, rate, ratio, share};

/// How long a run is measured before its tasks are slowed, unless `--window` states it.
const FIRST: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  # what limits the newest run
  thalweg diagnose
  # what limits a live run in the next five seconds
  thalweg diagnose --window 5s
  # and whether the flow depends on it: tasks are slowed
  thalweg diagnose --perturb
  # what faster boxes, moves, longer streams would bring
  thalweg diagnose --what-if
  # what a change brought, and why not more
  thalweg diagnose --compare ./before ./after";

/// The arguments of `thalweg diagnose`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
    /// Slow the suspected tasks of a live run, each by turns for three seconds, then the two with the largest
    /// effect together, and measure the effect on the flow. A task whose effect contradicts the verdict replaces
    /// the verdict. The run goes on as before when this ends, is interrupted, or is killed.
    #[arg(long, conflicts_with = "watch")]
    perturb: bool,
    /// Replay a run that was recorded by `thalweg run --monitor full --keep`, unchanged and with one change
    /// each time (a box faster, a task on another worker, replicas, longer streams, no limit, no order), and
    /// show by how much the flow would grow. Of a run in mode metrics, fewer changes are predicted, from what its
    /// tasks took altogether. Nothing is predicted if the unchanged replay does not reproduce the run. With --json, print replay and predictions as one JSON object (docs/report.md).
    #[arg(long, conflicts_with_all = ["watch", "window", "perturb"])]
    what_if: bool,
    /// Compare two runs: the growth of the flow, the differences, the predicted gain, and the limit of the
    /// newer run. With --json, print the comparison as one JSON object (docs/report.md).
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with_all = ["space", "watch", "window", "perturb", "what_if"])]
    compare: Option<Vec<String>>,
    /// Threads that could run at the same time, for predictions [default: with --what-if the processors this
    /// program may use, else those that the run was allowed to use].
    #[arg(long, value_name = "N", conflicts_with_all = ["watch", "window", "perturb"], value_parser = clap::value_parser!(u32).range(1..))]
    processors: Option<u32>,
}

/// Messages that are replayed for a verdict; `--what-if` replays more.
const REPLAYED_MAX: usize = 150_000;

/// Changes with a smaller gain are not shown.
const SHOWN: f64 = 0.03;

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    if arguments.perturb {
        return perturbed(&arguments.look, terminal);
    }
    if arguments.what_if {
        return replayed(arguments, terminal);
    }
    if let Some([old, new]) = arguments.compare.as_deref() {
        return compared(arguments, [old, new], terminal);
    }
    if arguments.look.watch || arguments.look.window.is_some() {
        return look(&arguments.look, terminal, |report, output| {
            print(report, output)?;
            text::notes(report, output)
        });
    }
    whole(arguments, terminal)
}

/// Prints the verdict on a run that has ended, with predictions by replays if the run was recorded
/// completely.
fn whole(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let look = &arguments.look;
    let feed = spaces::feed(look.space.as_deref())?;
    let report = judged(&feed, &judging(arguments)).map_err(usage)?;
    let mut output = Output::shaped(terminal, &look.shape);
    if look.json {
        output.line(&json(&report, false)?)?;
        return output.flush();
    }
    print(&report, &mut output)?;
    beyond::print(&report, &mut output)?;
    text::notes(&report, &mut output)?;
    output.flush()
}

fn judging(arguments: &Arguments) -> Judging {
    let processors = arguments.processors.map(f64::from);
    Judging { top: arguments.look.top, processors, messages_max: REPLAYED_MAX }
}

/// Prints the effect of a change, by comparing two runs.
fn compared(arguments: &Arguments, [old, new]: [&String; 2], terminal: Terminal) -> Result<(), Failure> {
    let (before, after) = (spaces::feed(Some(old))?, spaces::feed(Some(new))?);
    let comparison = compare(&before, &after, &judging(arguments)).map_err(usage)?;
    let mut output = Output::shaped(terminal, &arguments.look.shape);
    if arguments.look.json {
        let json = serde_json::to_string_pretty(&comparison);
        output.line(&json.map_err(|error| Failure::run("cannot write the comparison as JSON", error))?)?;
    } else {
        beyond::compared(&comparison, &mut output)?;
    }
    output.flush()
}

fn print(report: &Report, output: &mut Output) -> Result<(), Failure> {
    let words = &report.verdict.words;
    let sentence = wrapped(&words.text, output.width, "");
    output.line(&output.styled("1", sentence.trim_end()))?;
    for evidence in &words.evidence {
        output.text(&wrapped(&format!("  because {evidence}"), output.width, "    "))?;
    }
    if let Some(suggestion) = &words.suggestion {
        output.text(&wrapped(&format!("  so {suggestion}"), output.width, "    "))?;
    }
    for table in [pressed(&report.utilisation), accounts::table(report), waits::roots(&report.waiting)] {
        if !table.is_empty() {
            output.line("")?;
            output.table(&table)?;
        }
    }
    Ok(())
}

/// Prints the predicted gains of changes, by replays of the recording.
fn replayed(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let look = &arguments.look;
    let feed = spaces::feed(look.space.as_deref())?;
    let here = || std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let processors = arguments.processors.unwrap_or_else(here);
    let answer = what_if(&feed, f64::from(processors)).map_err(usage)?;
    let mut output = Output::shaped(terminal, &look.shape);
    if look.json {
        let json = serde_json::to_string_pretty(&answer);
        output.line(&json.map_err(|error| Failure::run("cannot write the predictions as JSON", error))?)?;
        return output.flush();
    }
    print_replayed(&answer, look.top, &mut output)?;
    output.flush()
}

fn print_replayed(answer: &WhatIf, top: usize, output: &mut Output) -> Result<(), Failure> {
    if let Some(again) = answer.replayed_per_s {
        let part = if answer.is_cut { "the beginning of the run" } else { "the run" };
        let kept = match answer.kept {
            kept if kept < SHOWN => String::new(),
            kept => format!(", {} of the time without a processor", share(kept)),
        };
        let sentence = format!(
            "Replayed {part} as it was, on {} processors: {}, where it made {}{kept}.",
            answer.processors,
            rate(again),
            rate(answer.recorded_per_s)
        );
        output.text(&wrapped(&sentence, output.width, ""))?;
    }
    if let Some(why) = &answer.refused {
        return output.text(&wrapped(&format!("Nothing is predicted: {why}."), output.width, ""));
    }
    if answer.by_sums {
        let sentence = "Not every dispatch is recorded, so what tasks took was added up by worker instead, which says \
                        nothing about streams, dispatches, limits and order (`thalweg run --monitor full --keep` \
                        records what does).";
        output.text(&wrapped(sentence, output.width, ""))?;
    }
    let shown: Vec<&Predicted> = answer.changes.iter().filter(|row| row.gain >= SHOWN).take(top).collect();
    if !shown.is_empty() {
        let mut table =
            Table::new(&[column("WHAT IF"), number("GAIN", 3), number("LEAST", 2), number("MOST", 2)]);
        for row in &shown {
            let cells = vec![row.words.clone(), share(row.gain), share(row.least), share(row.most)];
            table.row(cells, false);
        }
        output.line("")?;
        output.table(&table)?;
    }
    let (tried, less) = (answer.changes.len(), answer.changes.iter().filter(|row| row.gain < SHOWN).count());
    let percent = 100.0 * SHOWN;
    let how = if answer.by_sums { "tried" } else { "replayed" };
    output.line(&format!("{tried} changes were {how}; {less} of them gain less than {percent:.0} %."))
}

/// Prints the verdict, and the effect of slowing tasks.
fn perturbed(look: &Look, terminal: Terminal) -> Result<(), Failure> {
    let Perturbed { report, tried, .. } = slow_suspects(look)?;
    let mut output = Output::shaped(terminal, &look.shape);
    if look.json {
        output.line(&json(&report, false)?)?;
        return output.flush();
    }
    print(&report, &mut output)?;
    output.line("")?;
    output.table(&slowed(&tried))?;
    output.line(&confirmed(&tried, &report))?;
    text::notes(&report, &mut output)?;
    output.flush()
}

/// Measures the live run, then slows the tasks that may limit it.
fn slow_suspects(look: &Look) -> Result<Perturbed, Failure> {
    let interrupt = Interrupt::listen()
        .map_err(|error| Failure::run("cannot listen to signals, without which nothing is slowed", error))?;
    let path = spaces::find(look.space.as_deref())?;
    let first = look.window.and_then(Span::last).unwrap_or(FIRST);
    perturb(&path, look.top, first, &|| interrupt.is_signalled()).map_err(|why| match why {
        Unperturbed::NotLive => Failure::Usage(format!(
            "the run of {} has ended: only a live run can be slowed (`thalweg ls` shows what runs)",
            path.display()
        )),
        Unperturbed::NoInput => Failure::Run(
            "no message entered the network while it was measured, so nothing can depend on a task; \
             measure longer (--window), or switch the run to mode metrics (`thalweg set monitor.mode metrics`)"
                .to_owned(),
        ),
        Unperturbed::Stopped => interrupt.error().into(),
        Unperturbed::Ended => Failure::Run(why.to_string()),
        Unperturbed::Space(error) => usage(error),
    })
}

fn slowed(tried: &[Tried]) -> Table {
    let mut table = Table::new(&[
        column("SLOWED"),
        number("A MESSAGE TAKES", 2),
        number("LONGER BY", 1),
        number("INPUT", 3),
        number("SLOWED", 3),
        number("SENSITIVITY", 0),
        number("LEAST–MOST", 1),
    ]);
    for task in tried {
        let cells = vec![
            task.task.name.clone(),
            duration(task.service_ns),
            duration(task.delay_ns),
            rate(task.rate),
            rate(task.slowed_rate),
            format!("{:.2}", task.sensitivity),
            format!("{:.2}–{:.2}", task.least, task.most),
        ];
        table.row(cells, task.dependence() == Dependence::Full);
    }
    table
}

/// A sentence that says whether the sensitivities confirm the verdict.
fn confirmed(tried: &[Tried], report: &Report) -> String {
    let Some(most) = tried.iter().max_by(|a, b| a.sensitivity.total_cmp(&b.sensitivity)) else {
        return "There was no task to be slowed.".to_owned();
    };
    let name = &most.task.name;
    match most.dependence() {
        Dependence::Full if report.verdict.finding.rule == "perturbed" => {
            format!("The flow depends on {name}, which contradicts the verdict by shares of time alone.")
        }
        Dependence::Full if most.named => format!("Confirmed: the flow depends on {name}."),
        Dependence::Full => format!("The flow depends on {name}."),
        Dependence::None => "The flow depends on none of them.".to_owned(),
        Dependence::Partial => format!("The flow depends in part on {name}, and on others."),
    }
}

/// The table of tasks and workers by the share of their time that the source demands when it runs at its own
/// speed.
fn pressed(utilisation: &[Utilisation]) -> Table {
    let mut table = Table::new(&[
        column("ASKED OF"),
        number("WORKER", 1),
        number("A MESSAGE IN", 0),
        number("TIMES THE SOURCE'S", 0),
        number("BUSY", 0),
    ]);
    for row in utilisation {
        let worker =
            row.worker.filter(|_| row.task.is_some()).map_or(String::new(), |worker| worker.to_string());
        let cells =
            vec![row.name.clone(), worker, duration(row.demand_ns), ratio(row.utilisation), share(row.busy)];
        table.row(cells, false);
    }
    table
}
