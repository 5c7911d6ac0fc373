//! `thalweg heartbeat`: reports which tasks of running processes stand still, and why.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thalweg_monitor::{Heartbeat, Standing, Still};

use crate::Terminal;
use crate::commands::scope::{sleep, span, target_of};
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  # what stands still in the newest run, and why
  thalweg heartbeat
  # every process here; 10 s without progress is too long
  thalweg heartbeat --all --stable 10s
  # look once: exit code 1 if something is wrong
  thalweg heartbeat 4242 --once
  # tell those that wait for others, too
  thalweg heartbeat --waiting

A task that is at work in its box stands still only when that takes twice as long as 99.9 % of the messages of \
its component took.";

/// The arguments of `thalweg heartbeat`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A space or a session, by its path or a name or process id that `thalweg ls` shows; the newest space if
    /// omitted.
    #[arg(value_name = "SPACE|SESSION")]
    space: Option<String>,
    /// Watch all processes of this machine whose spaces are in the default place.
    #[arg(long, conflicts_with = "space")]
    all: bool,
    /// A task that has not changed for this time stands still.
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "2s")]
    stable: Duration,
    /// Stop after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    lasts: Option<Duration>,
    /// Watch just long enough to find the tasks that stand still now, and print them; exit code 1 if
    /// something is wrong.
    #[arg(long, conflicts_with = "lasts")]
    once: bool,
    /// Also print tasks that wait for others, that have ended, and that are ready.
    #[arg(long)]
    waiting: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Two reports with the same key are about the same standstill.
type Key = (u32, Option<u64>, String, Still);

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let target = target_of(arguments.space.as_deref(), arguments.all)?;
    let mut heartbeat = Heartbeat::open(target, arguments.stable).map_err(Failure::usage)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))
        .map_err(|error| Failure::run("cannot listen to Ctrl-C", error))?;
    let begin = Instant::now();
    let lasts = if arguments.once { Some(arguments.stable.mul_f64(1.25)) } else { arguments.lasts };
    let mut reporter =
        Reporter { output: Output::new(terminal), begin, json: arguments.json, reported: BTreeMap::new() };
    let mut last: Vec<Standing>;
    loop {
        last = heartbeat.beat();
        last.retain(|standing| arguments.waiting || is_reported(standing));
        for problem in heartbeat.problems() {
            Failure::Usage(problem).print(terminal);
        }
        if !arguments.once {
            reporter.report(&last)?;
        }
        let is_late = lasts.is_some_and(|lasts| begin.elapsed() >= lasts);
        if is_late || heartbeat.is_over() || interrupted.load(Ordering::Relaxed) {
            break;
        }
        sleep(heartbeat.pause(), &interrupted);
    }
    if !arguments.once {
        return reporter.output.flush();
    }
    reporter.report(&last)?;
    if last.is_empty() && !arguments.json {
        reporter.output.line("nothing stands still")?;
    }
    reporter.output.flush()?;
    if last.iter().any(|standing| standing.is_alarm) { Err(Failure::Reported(1)) } else { Ok(()) }
}

/// Whether a standstill is printed without `--waiting`: that is so for faults, and for waits for something
/// outside of the run.
fn is_reported(standing: &Standing) -> bool {
    let is_whole = standing.task.is_none();
    let is_end = matches!(standing.still, Still::Ended | Still::Ready);
    standing.is_alarm || (standing.waits_for.is_none() && (is_whole || !is_end))
}

/// Reports which tasks begin to stand still, and which run again.
struct Reporter {
    output: Output,
    begin: Instant,
    json: bool,
    reported: BTreeMap<Key, String>,
}

impl Reporter {
    fn report(&mut self, all: &[Standing]) -> Result<(), Failure> {
        let key = |of: &Standing| (of.pid, of.task, of.name.clone(), of.still);
        let mut now = BTreeMap::new();
        for standing in all {
            let subject = match &standing.process {
                process if *process == standing.name => format!("{process} ({})", standing.pid),
                process => format!("{process} ({}) {}", standing.pid, standing.name),
            };
            if !self.reported.contains_key(&key(standing)) {
                self.one(standing, &subject)?;
            }
            now.insert(key(standing), subject);
        }
        let before = std::mem::replace(&mut self.reported, now);
        let gone = before.iter().filter(|(key, _)| {
            let still_so = |now: &Key| (now.0, now.1, &now.2) == (key.0, key.1, &key.2);
            let whole = |now: &Key| now.0 == key.0 && now.1.is_none();
            !self.reported.keys().any(|now| still_so(now) || whole(now))
        });
        let gone: Vec<(u32, Option<u64>, &String)> =
            gone.map(|(key, subject)| (key.0, key.1, subject)).collect();
        for (pid, task, subject) in gone {
            let at_s = self.begin.elapsed().as_secs_f64();
            let line = match self.json {
                true => serde_json::json!({ "at_s": at_s, "goes_on": subject, "pid": pid, "task": task })
                    .to_string(),
                false => format!("{at_s:8.1} s  {subject} goes on"),
            };
            self.output.line(&line)?;
        }
        self.output.flush()
    }

    fn one(&mut self, standing: &Standing, subject: &str) -> Result<(), Failure> {
        let at_s = self.begin.elapsed().as_secs_f64();
        if self.json {
            let failed = |error| Failure::run("cannot write as JSON", error);
            let mut object = serde_json::to_value(standing).map_err(failed)?;
            object["at_s"] = at_s.into();
            object["text"] = standing.text().into();
            return self.output.line(&object.to_string());
        }
        let subject =
            if standing.is_alarm { self.output.styled("1;31", subject) } else { subject.to_owned() };
        self.output.line(&format!("{at_s:8.1} s  {subject} {}", standing.text()))
    }
}
