//! `thalweg tune`: tunes a run while it goes on, and shows and undoes decisions.

mod library;

pub(crate) use library::nodes::half;
pub(crate) use library::{host, pack as library_pack};

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_exec::Placement;
use thalweg_host::amount::time;
use thalweg_host::{InitialSetting, LiveRun, RunCommand, SettingsFile, TaskPlace, spaces};
use thalweg_tune::library::{Order, is_session};
use thalweg_tune::{
    Action, Change, Decision, Goal, Guard, Knob, Options, Place, Progress, TuneProgress, What, percent,
};

use crate::Terminal;
use crate::commands::control::print_result;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{ShapeArguments, Table, id, number, prose, text};
use crate::units::rate;

const EXAMPLES: &str = "\
Each window it measures the run. Where a model or a rule promises a gain, the new way is tried by turns with the \
former one, and stays only if it is surely better by 2 %. Trials are leases: when the tuner ends, however it does, \
the run is as it was verified last. What you set yourself by `thalweg set` is left alone.

Examples:
  # the newest run, until it ends or Ctrl-C
  thalweg tune
  # what would it try? It touches nothing.
  thalweg tune --advise
  # process 4242, for latency, below a limit
  thalweg tune 4242 --goal latency --guard 'p99<5ms'
  # keep what it finds in a file for the next run
  thalweg tune --save tuned.settings
  thalweg run tidy.snet --settings tuned.settings
  # what it did, and why
  thalweg tune log
  thalweg tune why 3
  # take decision 3 back, for good
  thalweg tune undo 3
  # this setting stays as it is
  thalweg tune pin exec.quantum
  # a library of processes that run, nothing recompiled
  thalweg tune 4242 --library pvm
  # and on all nodes of the cluster
  thalweg tune --library pvm --all-nodes";

/// The longest time to wait for the run's answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The name under which the command undoes a decision. The name must differ from the tuner's, because the
/// tuner does not change settings that others have set.
const UNDO: &str = "thalweg tune undo";

/// The arguments of `thalweg tune`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    about: Option<About>,
    /// A space: its path, or a name or process id that `thalweg ls` shows. The newest if omitted.
    #[arg(value_name = "SPACE")]
    space: Option<String>,
    #[command(flatten)]
    how: How,
    /// Print the changes that would be tried, without changing anything.
    #[arg(long)]
    advise: bool,
    /// Tune for this time, such as 30s or 10min [default: until the run ends].
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    lasts: Option<Duration>,
    /// Write the kept changes, and the workers of tasks, to this file, which `thalweg run --settings` reads.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    library: library::OfLibrary,
}

/// The goal and the limits of tuning, also for `thalweg run --tune`.
#[derive(clap::Args)]
pub(crate) struct How {
    /// The quantity to improve: throughput, latency, processor (time a message) or memory (messages held);
    /// all but throughput at the run's present rate.
    #[arg(long, value_name = "GOAL", default_value = "throughput", help_heading = "Tuning")]
    goal: Goal,
    /// A limit that must hold during tuning, such as 'p99<5ms', 'latency<1ms', 'rate>1000/s', 'memory<2GB',
    /// 'processors<1.5', 'held<10000'; may be given several times. A change that breaks the limit is undone
    /// at once.
    #[arg(long, value_name = "MEASURE<LIMIT", help_heading = "Tuning")]
    guard: Vec<Guard>,
    /// The share of a processor that the tuner itself may use while it tries no change.
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "1%", help_heading = "Tuning")]
    budget: f64,
    /// A pack with further rules (docs/tuning.md); may be given several times.
    #[arg(long, value_name = "FILE", help_heading = "Tuning")]
    pack: Vec<PathBuf>,
}

/// Commands about decisions.
#[derive(clap::Subcommand)]
enum About {
    /// List the decisions of tuners about a run.
    Log {
        /// A space, also one that was kept; the newest if omitted.
        #[arg(value_name = "SPACE")]
        space: Option<String>,
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        shape: ShapeArguments,
    },
    /// Explain a decision: what was observed, expected and tried, and the outcome.
    Why {
        /// The decision's number in the log.
        #[arg(value_name = "N")]
        number: u64,
        /// A space, also one that was kept; the newest if omitted.
        #[arg(value_name = "SPACE")]
        space: Option<String>,
    },
    /// Undo a change that a tuner kept, and forbid tuners to change the setting again.
    Undo {
        /// The decision's number in the log.
        #[arg(value_name = "N")]
        number: u64,
        /// A space; the newest if omitted.
        #[arg(value_name = "SPACE")]
        space: Option<String>,
    },
    /// Forbid tuners to change a setting, or a task's worker (task/17.worker).
    Pin {
        /// The setting's name.
        #[arg(value_name = "SETTING")]
        setting: String,
        /// A space; the newest if omitted.
        #[arg(value_name = "SPACE")]
        space: Option<String>,
    },
}

/// Parses `1%`, or a fraction of 1.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let share =
        number.trim().parse::<f64>().map(|number| number * unit).map_err(|error| error.to_string())?;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err("more than 0 and at most 100%".to_owned()) }
}

impl How {
    /// The options of a tuner whose decisions are counted from `first` on.
    pub(crate) fn options(&self, first: u64) -> Result<Options, Failure> {
        let mut packs = Vec::new();
        for path in &self.pack {
            let read = std::fs::read_to_string(path);
            let text =
                read.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
            packs.push((path.display().to_string(), text));
        }
        let (goal, guards, budget) = (self.goal, self.guard.clone(), self.budget);
        Ok(Options { goal, guards, budget, packs, first, ..Options::default() })
    }
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    match &arguments.about {
        None if arguments.library.is_asked() => library::main(arguments, terminal),
        None => tune(arguments, terminal),
        Some(About::Log { space, json, shape }) => log(space.as_deref(), *json, shape, terminal),
        Some(About::Why { number, space }) => why(space.as_deref(), *number, terminal),
        Some(About::Undo { number, space }) => undo(space.as_deref(), *number, terminal),
        Some(About::Pin { setting, space }) => pin(space.as_deref(), setting, terminal),
    }
}

fn tune(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let run = LiveRun::find(arguments.space.as_deref())?;
    let first = 1 + thalweg_tune::log(run.path()).ok().and_then(|log| Some(log.last()?.number)).unwrap_or(0);
    let (advise, lasts) = (arguments.advise, arguments.lasts);
    let options = Options { advise, lasts, ..arguments.how.options(first)? };
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let register = signal_hook::flag::register(signal, Arc::clone(&stopped));
        register.map_err(|error| Failure::run("cannot listen to signals", error))?;
    }
    let mut output = Output::new(terminal);
    let mut line = StatusLine::new();
    let mut kept: Vec<Action> = Vec::new();
    let mut problem = None;
    let mut report = |progress: &TuneProgress<'_>| match progress {
        TuneProgress::Decision(decision) => {
            line.clear();
            match (decision.what, &decision.action) {
                (What::Kept, Some(action)) => kept.push(action.clone()),
                (What::Undone, Some(action)) => kept.retain(|other| other != action),
                _ => {}
            }
            let printed = output.line(&decision_line(decision)).and_then(|()| output.flush());
            problem = printed.err().or(problem.take());
        }
        TuneProgress::Window { rate: per_s, progress, trial, .. } => {
            let tried = trial.map_or("watching".to_owned(), |trial| format!("trying {}", trial.action));
            line.show(&format!("{} {}: {tried}", rate(*per_s), of(*progress)));
        }
    };
    let tuned = thalweg_tune::tune(run.path(), &options, &|| stopped.load(Ordering::Relaxed), &mut report);
    line.clear();
    let tuned = tuned.map_err(Failure::usage)?;
    if let Some(problem) = problem {
        return Err(problem);
    }
    if let Some(path) = &arguments.save {
        let file = settings_file(&kept, tuned.places);
        let written = std::fs::write(path, format!("{SAVED_BY}{file}"));
        written.map_err(|error| Failure::run(format!("cannot write {}", path.display()), error))?;
        if file == SettingsFile::default() {
            let path = path.display();
            print_stderr!(
                "warning: {path} has no settings: no change was kept, and the mapping was not judged"
            );
        }
    }
    let changes = match tuned.kept {
        1 => "1 change stays".to_owned(),
        count => format!("{count} changes stay"),
    };
    print_result(
        &format!(
            "{changes}; trials cost {:.2} s of the flow, the tuner {:.1} % of a processor",
            tuned.cost_s,
            100.0 * tuned.processor
        ),
        terminal,
    )
}

/// A tuner in this process that tunes a run.
pub(crate) struct Tuner {
    thread: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Tuner {
    /// Begins to tune the run with this space. Decisions are printed on standard error.
    pub(crate) fn start(how: &How, space: &Path) -> Result<Tuner, Failure> {
        let options = Options { stops_with_run: true, ..how.options(1)? };
        let ended = Arc::new(AtomicBool::new(false));
        let (asked, space) = (Arc::clone(&ended), space.to_owned());
        let tune = move || {
            let mut report = |progress: &TuneProgress<'_>| {
                if let TuneProgress::Decision(decision) = progress {
                    print_stderr!("{}", decision_line(decision));
                }
            };
            let stop = || asked.load(Ordering::Relaxed);
            if let Err(error) = thalweg_tune::tune(&space, &options, &stop, &mut report) {
                print_stderr!("warning: the run is not tuned: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("tuner".into()).spawn(tune);
        let thread = thread.map_err(|error| Failure::run("cannot start the tuner", error))?;
        Ok(Tuner { thread: Some(thread), ended })
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The measure of progress, for people.
fn of(progress: Progress) -> &'static str {
    match progress {
        Progress::Sinks => "out",
        Progress::Sources => "in",
        Progress::Tasks => "tasks made",
        Progress::Dispatches => "dispatches",
    }
}

/// A decision as a line of text.
fn decision_line(decision: &Decision) -> String {
    let Decision { number, at, what, change, .. } = decision;
    let at = if at.is_finite() { format!("{at:>7.1} s") } else { "      – s".to_owned() };
    let what = what.word();
    let about = match (change.is_empty(), decision.why.is_empty()) {
        (true, _) => decision.why.clone(),
        (false, true) => change.clone(),
        (false, false) => format!("{change}: {}", decision.why),
    };
    let expected = decision.predicted.filter(|_| matches!(decision.what, What::Tried | What::Advised));
    let expected =
        expected.map_or(String::new(), |gain| format!(" ({} expected by {})", percent(gain), decision.model));
    format!("{at}  #{number:<3} {what:<10}  {about}{expected}")
}

/// The kept changes and the workers of all tasks, as a file that `thalweg run --settings` reads: another run may place
/// tasks that were not moved elsewhere, and begins without the moves that the run itself made. A task that the tuner did
/// not move only starts on its worker, so that the run may move it.
fn settings_file(kept: &[Action], places: Vec<Place>) -> SettingsFile {
    let mut last: Vec<&Change> = Vec::new();
    for change in kept.iter().flat_map(|action| &action.changes) {
        last.retain(|other| other.knob != change.knob);
        last.push(change);
    }
    let settings = last.into_iter().filter(|change| matches!(change.knob, Knob::Setting(_)));
    let places = places.into_iter().map(|Place { task, worker, stays }| TaskPlace {
        task,
        worker: worker as usize,
        stays,
    });
    let settings = settings.map(|change| InitialSetting::new(change.knob.name(), change.to.to_string()));
    SettingsFile { settings: settings.collect(), places: places.collect() }
}

/// The first line of a file of kept changes.
const SAVED_BY: &str = "# What `thalweg tune` kept; `thalweg run --settings FILE` starts from it.\n";

/// The status line, which is rewritten at the bottom of a terminal.
struct StatusLine {
    is_shown: bool,
    is_terminal: bool,
}

impl StatusLine {
    fn new() -> StatusLine {
        StatusLine { is_shown: false, is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, text: &str) {
        if self.is_terminal {
            let text: String = text.chars().take(100).collect();
            // A status line that cannot be written does not stop tuning.
            let _ = write!(std::io::stderr(), "\r\x1b[2K{text}");
            self.is_shown = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

fn decisions(space: Option<&str>) -> Result<(PathBuf, Vec<Decision>), Failure> {
    let path = spaces::find(space)?;
    let log = thalweg_tune::log(&path).map_err(Failure::usage)?;
    Ok((path, log))
}

fn log(space: Option<&str>, json: bool, shape: &ShapeArguments, terminal: Terminal) -> Result<(), Failure> {
    let (path, log) = decisions(space)?;
    let mut output = Output::shaped(terminal, shape);
    if json {
        for decision in &log {
            output.line(&object(decision).to_string())?;
        }
        return output.flush();
    }
    if log.is_empty() {
        print_stderr!("nobody has tuned {}: `thalweg tune` does", path.display());
        return Ok(());
    }
    let mut table = Table::new(&[
        id("N", 0),
        number("TIME", 2),
        text("DECISION").loose(),
        prose("CHANGE"),
        number("EXPECTED", 3),
        number("GAIN", 0),
        prose("WHY").droppable(1),
    ]);
    for decision in &log {
        let part = |part: Option<f64>| part.map_or(String::new(), percent);
        table.row(
            vec![
                decision.number.to_string(),
                format!("{:.1} s", decision.at),
                decision.what.word().to_owned(),
                decision.change.clone(),
                part(decision.predicted),
                part(decision.gain.map(|gain| gain.mean)),
                decision.why.clone(),
            ],
            decision.what == What::Kept,
        );
    }
    output.table(&table)?;
    output.flush()
}

fn object(decision: &Decision) -> serde_json::Value {
    serde_json::json!({
        "number": decision.number,
        "at_s": decision.at,
        "what": decision.what.word(),
        "change": decision.change,
        "values": decision.action.as_ref().map(Action::values),
        "back": decision.action.as_ref().map(|action| action.inverse().values()),
        "model": decision.model,
        "predicted": decision.predicted,
        "gain": decision.gain.map(|gain| gain.mean),
        "least": decision.gain.map(|gain| gain.least),
        "most": decision.gain.map(|gain| gain.most).filter(|most| most.is_finite()),
        "pairs": decision.gain.map(|gain| gain.pairs),
        "why": decision.why,
    })
}

fn numbered(log: &[Decision], number: u64) -> Result<&Decision, Failure> {
    log.iter().find(|decision| decision.number == number).ok_or_else(|| {
        let known = match (log.first(), log.last()) {
            (Some(first), Some(last)) => format!("the log has {} to {}", first.number, last.number),
            _ => "nobody has tuned this run".to_owned(),
        };
        Failure::Usage(format!("there is no decision {number}: {known} (`thalweg tune log`)"))
    })
}

fn why(space: Option<&str>, number: u64, terminal: Terminal) -> Result<(), Failure> {
    let (_, log) = decisions(space)?;
    let decision = numbered(&log, number)?;
    let mut output = Output::new(terminal);
    output.line(&format!("Decision {number}, {:.1} s after the start: {}.", decision.at, decision.what))?;
    // A decision has two entries in the log: the entry of the trial has the observations, and the entry of
    // its end has the result.
    let about = |other: &&Decision| !decision.change.is_empty() && other.change == decision.change;
    let tried =
        log.iter().rev().filter(about).find(|other| other.what == What::Tried && other.number <= number);
    let ended = |what: What| matches!(what, What::Kept | What::TakenBack);
    let came = log.iter().filter(about).find(|other| ended(other.what) && other.number >= number);
    let rows = [
        ("change", decision.change.clone()),
        ("seen", tried.map_or(String::new(), |tried| tried.why.clone())),
        ("model", decision.model.clone()),
        ("expected", decision.predicted.map_or(String::new(), percent)),
        ("tried", came.and_then(|came| came.gain).map_or(String::new(), |gain| gain.to_string())),
        ("outcome", came.map_or(String::new(), |came| format!("{}: {}", came.what, came.why))),
        (
            "why",
            if tried.is_some_and(|tried| tried.number == number) {
                String::new()
            } else {
                decision.why.clone()
            },
        ),
    ];
    for (name, text) in rows.iter().filter(|(_, text)| !text.is_empty()) {
        output.line(&format!("{name:<9} {text}"))?;
    }
    output.flush()
}

fn undo(space: Option<&str>, number: u64, terminal: Terminal) -> Result<(), Failure> {
    let (path, log) = decisions(space)?;
    let decision = numbered(&log, number)?;
    let action = match (&decision.action, decision.what) {
        (Some(action), What::Kept) => action,
        _ => {
            return Err(Failure::Usage(format!(
                "decision {number} ({}) changed nothing that stayed: what was kept can be undone",
                decision.what
            )));
        }
    };
    if is_session(&path) {
        return order(&path, &Order::Undo(number), terminal);
    }
    let run = LiveRun::open(&path)?.called(UNDO);
    for Change { knob, to, .. } in &action.inverse().changes {
        match knob {
            Knob::Setting(name) => drop(run.set(name, &to.to_string())?),
            Knob::Worker { task, .. } => {
                let to = Placement::on_worker(usize::try_from(*to).unwrap_or(0));
                drop(run.command(&RunCommand::Move { task: *task, to, stays: true }, ANSWER_MAX)?);
            }
        }
    }
    for change in &action.changes {
        thalweg_tune::pin(&path, &change.knob.name()).map_err(Failure::usage)?;
    }
    print_result(&format!("{}; tuners leave it alone from now on", action.inverse()), terminal)
}

/// Sends an order to the tuner of a library, and prints its answer.
fn order(session: &Path, order: &Order, terminal: Terminal) -> Result<(), Failure> {
    let tool = match order {
        Order::Undo(_) => UNDO,
        Order::Pin(_) => "thalweg tune pin",
    };
    let done = order.give(session, tool, ANSWER_MAX).map_err(Failure::Usage)?;
    print_result(&done, terminal)
}

fn pin(space: Option<&str>, name: &str, terminal: Terminal) -> Result<(), Failure> {
    let run = LiveRun::find(space)?;
    if is_session(run.path()) {
        return order(run.path(), &Order::Pin(name.to_owned()), terminal);
    }
    let is_worker = name.strip_prefix("task/").and_then(|rest| rest.strip_suffix(".worker"));
    if is_worker.is_none_or(|task| task.parse::<u64>().is_err()) {
        thalweg_host::settings::known(&run.settings()?, name)?;
    }
    thalweg_tune::pin(run.path(), name).map_err(Failure::usage)?;
    print_result(&format!("tuners of {} leave {name} alone", run.path().display()), terminal)
}
