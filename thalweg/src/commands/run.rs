//! `thalweg run`: run a network on records.

mod over;

pub(crate) use over::all as all_nodes;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use thalweg_exec::{Mapper, Mode, Options};
use thalweg_host::amount::{microseconds, size};
use thalweg_host::io::{
    Endpoint, Format, Place, Side, SinkDefaults, SourceDefaults, keep_standard_output, label_name, rate,
};
use thalweg_host::{
    Ended, InitialSetting, Interrupt, Notice, Notices, OnFull, Plan, Run, SettingsFile, Tally,
};
use thalweg_net::json::Names;

use crate::Terminal;
use crate::commands::tune::{How, Tuner};
use crate::failure::{Failure, print_diagnostics};
use crate::units::counted;

const EXAMPLES: &str = "\
Records are JSON Lines: one object a line, fields by name, tags in angle brackets, bytes in base64:
  {\"x\": 1, \"t\": \"text\", \"<n>\": 3, \"b\": {\"$base64\": \"AAE=\"}}
Other formats: csv (the first line has the labels), lines (the field `line`), xml (S-Net's), bytes (the field \
`data`), files (of a directory: `name` and `data`).

Places with a scheme may say more: file:PATH, tcp://HOST:PORT, tcp-listen://[HOST]:PORT (loopback without a host), \
unix:PATH, unix-listen:PATH, then ?OPTION[=VALUE]&…: format, label; of inputs chunk, rate, with; of outputs \
type={a,<n>} (a record goes to the output whose type matches most of its labels); keep: listen on when a peer has \
gone.

Examples:
  # from file to file
  thalweg run tidy.snet --boxes ./libtidy.so \\
      < in.jsonl > out.jsonl
  # one record
  echo '{\"x\": 1, \"<n>\": 3}' |
      thalweg run tidy.snet --boxes ./libtidy.so
  # a file of bytes, cut into records and put together again
  thalweg run des.snet --boxes ./libapp_des.so \\
      --input photo.raw --input-bytes data \\
      --with '{\"key\": {\"$base64\": \"EzRXeZu83/E=\"}}' \\
      --output photo.des --output-bytes data --order-by seq
  # several inputs and outputs
  thalweg run tidy.snet --boxes ./libtidy.so \\
      --input sensors=tcp-listen://:7000?keep \\
      --input base=base.csv --output good.jsonl \\
      --output 'bad=file:bad.csv?type={error}'
  # see every message, and report on it afterwards
  thalweg run tidy.snet --boxes ./libtidy.so \\
      --monitor full --keep < in.jsonl > out.jsonl
  thalweg report

With --control, other processes command the run: `thalweg load OTHER.snet`, `thalweg reload LIB`, pause, resume, \
drain, stop.
Ctrl-C stops the source and lets the network finish, as SIGTERM and SIGHUP do; a second one ends at once.
Sizes have units (64KiB, 300MB, 2GB; a bare number is bytes), times too (500us, 10ms, 10s, 2min, 1h).
Exit codes: 0 done, 1 records failed or a box ended the run, 2 bad arguments or files, 130 interrupted (by a \
signal: 128 and its number, 129 for SIGHUP, 143 for SIGTERM).";

const INPUT_BYTES: &str =
    "Cut the input into records {LABEL: bytes, <seq>: 0, 1, …, <last>: 0|1} instead of reading JSON Lines";

/// The number of workers for each processor above which a warning is printed.
const CROWD: usize = 8;
/// The time after which progress is shown.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// The arguments of `thalweg run`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The network: the net that has the file's name.
    #[arg(value_name = "NET.snet")]
    net: PathBuf,
    /// A library with boxes: a path, or a name that is looked up in the directories of THALWEG_BOXES; may be
    /// given several times.
    #[arg(long, value_name = "LIB")]
    boxes: Vec<PathBuf>,
    /// Permit boxes to run the commands in the network's text: `<<< exec | COMMAND >>>`.
    #[arg(long)]
    allow_exec: bool,

    /// The place from which records come: a file, a directory, `-` for standard input, tcp://, tcp-listen://,
    /// unix:, unix-listen:, each optionally with NAME= before it, a name for reports; may be given several
    /// times. See below.
    #[arg(long, value_name = "PLACE", default_value = "-", help_heading = "Input and output")]
    input: Vec<OsString>,
    /// The format of the inputs' records [default: by a file's name, else json].
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Input and output")]
    input_format: Option<FormatName>,
    #[arg(
        long,
        value_name = "LABEL",
        value_parser = label_name,
        conflicts_with = "input_format",
        help_heading = "Input and output",
        help = INPUT_BYTES
    )]
    input_bytes: Option<String>,
    /// The number of bytes in each record of --input-bytes.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "16KiB", help_heading = "Input and output")]
    chunk: usize,
    /// The largest size of an input record; a longer record fails.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "64MiB", help_heading = "Input and output")]
    record_bytes: usize,
    /// A record in JSON whose labels are added to every record that lacks them.
    #[arg(long, value_name = "JSON", help_heading = "Input and output")]
    with: Option<String>,
    /// A label for a key of JSON or a column of CSV (user_id=user-id), or for a value inside an object
    /// (city=address.city), which is put back there on output; may be given several times.
    #[arg(long, value_name = "NAME=PATH", help_heading = "Input and output")]
    label: Vec<String>,
    /// The largest number of records that each input delivers in a second, such as 1000, or in another time,
    /// such as 60/min.
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Input and output")]
    rate: Option<f64>,
    /// Also write each record that enters to this file (JSON Lines), with the time in its tag <at_ns>.
    #[arg(long, value_name = "FILE", help_heading = "Input and output")]
    record: Option<PathBuf>,
    /// Let the records of a --record file enter at the recorded times, or this many times as fast.
    #[arg(
        long,
        value_name = "SPEED",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = rate,
        conflicts_with = "rate",
        help_heading = "Input and output"
    )]
    replay: Option<f64>,
    /// The place to which records go, as for --input; may be given several times, each with the type of
    /// records that it accepts.
    #[arg(long, value_name = "PLACE", default_value = "-", help_heading = "Input and output")]
    output: Vec<OsString>,
    /// The format of the output [default: by a file's name, else json].
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Input and output")]
    output_format: Option<FormatName>,
    /// Write the bytes of this field, without separators, instead of JSON Lines.
    #[arg(
        long,
        value_name = "LABEL",
        value_parser = label_name,
        conflicts_with = "output_format",
        help_heading = "Input and output"
    )]
    output_bytes: Option<String>,
    /// Write records in the order of this tag, which counts from 0.
    #[arg(long, value_name = "TAG", help_heading = "Input and output")]
    order_by: Option<String>,
    /// The largest number of records that --order-by holds back before it skips a missing record.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 65536,
        requires = "order_by",
        help_heading = "Input and output"
    )]
    order_window: usize,
    /// The reaction to a record that failed.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnError::Skip, help_heading = "Input and output")]
    on_error: OnError,
    /// A record that a synchrocell still holds when the input has ended is an error (exit code 1), not a
    /// warning.
    #[arg(long, help_heading = "Input and output")]
    strict_end: bool,
    /// The file for failed records and unreadable input, as they came, with component and reason: JSON Lines.
    #[arg(
        long,
        value_name = "FILE",
        required_if_eq("on_error", "dead-letter"),
        help_heading = "Input and output"
    )]
    dead_letters: Option<PathBuf>,

    /// Accept commands while running: thalweg load, reload, pause, resume, drain, stop.
    #[arg(long, help_heading = "Input and output")]
    control: bool,

    /// Threads that run the boxes [default: the processors this program may use].
    #[arg(long, value_name = "N", help_heading = "Workers")]
    workers: Option<usize>,
    /// The largest number of workers that `thalweg set exec.workers` may set during the run [default: the
    /// number of processors, or --workers if that is more].
    #[arg(long, value_name = "N", help_heading = "Workers")]
    workers_max: Option<usize>,
    /// The mapping of new tasks to workers.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Mapping::Contiguous, help_heading = "Workers")]
    mapper: Mapping,
    /// Bind each worker to a processor.
    #[arg(long, help_heading = "Workers")]
    pin: bool,
    /// Move tasks from busy workers to workers that wait much; this helps if the mapping is far from
    /// balanced.
    #[arg(long, help_heading = "Workers")]
    steal: bool,
    /// Give each box, source and sink a thread of its own instead of running boxes on workers; for
    /// comparison.
    #[arg(long, conflicts_with_all = ["workers", "workers_max", "mapper", "pin", "steal"], help_heading = "Workers")]
    threads: bool,
    /// The largest number of messages that a task reads in one turn.
    #[arg(long, value_name = "N", help_heading = "Workers")]
    quantum: Option<usize>,
    /// The time that a task's turn should last: if messages take long, fewer than --quantum are read; a
    /// number without a unit is in microseconds [default: 100us].
    #[arg(long, value_name = "TIME", value_parser = microseconds, help_heading = "Workers")]
    quantum_us: Option<u64>,
    /// The largest number of messages that a stream holds.
    #[arg(long, value_name = "N", help_heading = "Workers")]
    capacity: Option<usize>,
    /// Read no further input while N messages or more are under way in streams: bounds memory and latency
    /// [default: no limit].
    #[arg(long, value_name = "N", help_heading = "Workers")]
    unfinished: Option<u64>,
    /// The initial value of a setting of the runtime or of a box's parameter, which `thalweg set` can change
    /// later (`thalweg get` lists them); may be given several times.
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Workers")]
    set: Vec<String>,
    /// Settings and workers of tasks from a file, one NAME = VALUE a line, as `thalweg tune --save` writes
    /// it; --set overrides the file.
    #[arg(long, value_name = "FILE", help_heading = "Workers")]
    settings: Option<PathBuf>,

    /// Tune the run while it goes on, as `thalweg tune` does from outside; decisions are printed on standard
    /// error.
    #[arg(long, help_heading = "Tuning")]
    tune: bool,
    #[command(flatten)]
    tuning: How,

    /// The extent of recording: nothing, counters, or every dispatch.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Monitor::Metrics, help_heading = "Monitoring")]
    monitor: Monitor,
    /// Directory of the event space, with --nodes of the session of all spaces; it stays after the run
    /// [default: a new one in memory, removed at the end].
    #[arg(long, value_name = "DIR", help_heading = "Monitoring")]
    space: Option<PathBuf>,
    /// Keep every event, and the space after the run.
    #[arg(long, help_heading = "Monitoring")]
    keep: bool,
    /// The reaction of the run when the disk has no room for the events that --keep keeps.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = WhenFull::Wait, help_heading = "Monitoring")]
    on_full: WhenFull,

    #[command(flatten)]
    over: over::Over,
}

/// The option value for a format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// JSON Lines: one object a line.
    Json,
    /// S-Net's XML, ended by a record of type "terminate".
    Xml,
    /// Comma-separated values; the first line has the labels. Files named *.tsv have tabs instead of commas.
    Csv,
    /// Text: each line is the field `line`, without its end.
    Lines,
    /// Bytes: the field `data`, cut into chunks when read.
    Bytes,
    /// A directory: each file is a record of its `name` and `data`.
    Files,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Format {
        match name {
            FormatName::Json => Format::Json,
            FormatName::Xml => Format::Xml,
            FormatName::Csv => Format::Csv,
            FormatName::Lines => Format::Lines,
            FormatName::Bytes => Format::Bytes,
            FormatName::Files => Format::Files,
        }
    }
}

/// The option value for the reaction to a full disk.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhenFull {
    /// Wait until there is room: nothing is lost.
    Wait,
    /// Go on; events that find no room are lost and counted.
    Drop,
    /// End the run in order, with exit code 1.
    Stop,
}

impl From<WhenFull> for OnFull {
    fn from(word: WhenFull) -> OnFull {
        match word {
            WhenFull::Wait => OnFull::Wait,
            WhenFull::Drop => OnFull::Drop,
            WhenFull::Stop => OnFull::Stop,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// End the run: the source stops, records inside the network are finished.
    Stop,
    /// Go on without the record.
    Skip,
    /// Go on, and write the record to the file of --dead-letters.
    DeadLetter,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mapping {
    /// Tasks that are neighbours in the network share a worker.
    Contiguous,
    /// Each new task goes to the next worker in turn.
    RoundRobin,
    /// Each new task goes to the worker whose tasks are expected to have the least work.
    LeastLoaded,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Monitor {
    /// Record only the tasks and streams that exist, and totals at the end.
    Off,
    /// Record counters and times, which can be read while the network runs.
    Metrics,
    /// Record also every dispatch of every task.
    Full,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut plan = plan(&arguments)?;
    if plan.outputs.iter().any(|output| output.place == Place::Standard) {
        keep_standard_output()?;
    }
    let interrupt = Interrupt::listen().map_err(|error| Failure::run("cannot listen to signals", error))?;
    let nodes = arguments.over.connect(&mut plan, &interrupt)?;
    let run = Run::start(&plan, &interrupt, &Notices::to(move |notice| print(&notice, terminal)))?;
    let tally = Arc::clone(run.tally());
    let tuner = arguments.tune.then(|| Tuner::start(&arguments.tuning, run.space())).transpose()?;
    let typed = typed(&plan);
    if let Some(what) = typed {
        print_stderr!(
            "waiting for records from this terminal ({what}); Ctrl-D at the beginning of a line ends the input"
        );
    }
    // While the user types records, no line of progress is shown, because it would overwrite what is typed.
    let progress = typed.is_none().then(|| Progress::start(&tally));
    let ended = run.finish(|| drop((progress, tuner)))?;
    let concluded = conclude(&tally, &interrupt, &ended);
    match nodes {
        Some(nodes) => nodes.conclude(concluded),
        None => concluded,
    }
}

/// What the user has to type, if the run reads from a terminal.
fn typed(plan: &Plan) -> Option<&'static str> {
    let input = plan.inputs.iter().find(|input| input.place == Place::Standard)?;
    std::io::stdin().is_terminal().then(|| match input.options.format.or(plan.input.format) {
        None | Some(Format::Json) => "a JSON object a line",
        Some(Format::Csv) => "CSV, a line with the labels first",
        Some(Format::Xml) => "S-Net's XML",
        Some(Format::Lines) => "a text a line",
        Some(Format::Bytes | Format::Files) => "bytes",
    })
}

/// Prints a notice of the run on standard error.
fn print(notice: &Notice, terminal: Terminal) {
    match notice {
        Notice::Diagnostic(diagnostic) => print_diagnostics(std::slice::from_ref(diagnostic), terminal),
        other => print_stderr!("{other}"),
    }
}

/// The plan of the run as the arguments describe it.
fn plan(arguments: &Arguments) -> Result<Plan, Failure> {
    let endpoints = |texts: &[OsString], side| {
        texts.iter().map(|text| Endpoint::parse(text, side)).collect::<Result<Vec<_>, _>>()
    };
    let file = arguments.settings.as_deref().map(SettingsFile::read).transpose()?.unwrap_or_default();
    let mut settings = file.settings;
    for change in &arguments.set {
        settings.push(setting(change)?);
    }
    let input = input(arguments)?;
    let order = arguments.order_by.clone().map(|tag| (tag, arguments.order_window));
    Ok(Plan {
        libraries: arguments.boxes.clone(),
        allow_exec: arguments.allow_exec,
        inputs: endpoints(&arguments.input, Side::Input)?,
        outputs: endpoints(&arguments.output, Side::Output)?,
        output: SinkDefaults {
            format: format(arguments.output_format, arguments.output_bytes.as_ref()),
            label: arguments.output_bytes.clone(),
            order,
            names: Arc::clone(&input.names),
        },
        input,
        record: arguments.record.clone(),
        dead_letters: arguments.dead_letters.clone(),
        stop_on_error: arguments.on_error == OnError::Stop,
        strict_end: arguments.strict_end,
        control: arguments.control,
        space: arguments.space.clone(),
        keep: arguments.keep.then_some(arguments.on_full.into()),
        options: options(arguments, workers(arguments)?),
        settings,
        places: file.places,
        ..Plan::of(&arguments.net)
    })
}

fn input(arguments: &Arguments) -> Result<SourceDefaults, Failure> {
    for (option, bytes) in [("--chunk", arguments.chunk), ("--record-bytes", arguments.record_bytes)] {
        if bytes == 0 {
            return Err(Failure::coded(
                "E0902",
                format!("{option} 0: expected a number of bytes, at least 1"),
            ));
        }
    }
    let names = Names::parse(arguments.label.iter().map(String::as_str))
        .map_err(|what| Failure::coded("E0902", format!("--label {what}")))?;
    Ok(SourceDefaults {
        format: format(arguments.input_format, arguments.input_bytes.as_ref()),
        label: arguments.input_bytes.clone(),
        chunk_bytes: arguments.chunk,
        rate: arguments.rate,
        with: arguments.with.clone(),
        replay: arguments.replay,
        bytes_max: arguments.record_bytes,
        names: Arc::new(names),
    })
}

/// The requested format; if the label of a field with bytes is given, the format `bytes`.
fn format(asked: Option<FormatName>, bytes: Option<&String>) -> Option<Format> {
    bytes.map(|_| Format::Bytes).or(asked.map(Format::from))
}

/// Parses a number of bytes, which has to fit into a `usize`.
fn bytes(text: &str) -> Result<usize, String> {
    usize::try_from(size(text)?).map_err(|error| format!("{text}: {error}"))
}

/// Parses `NAME=VALUE`.
fn setting(change: &str) -> Result<InitialSetting, Failure> {
    let (name, value) = change.split_once('=').ok_or_else(|| {
        Failure::Usage(format!("--set {change}: a setting's name, `=` and its value are needed"))
    })?;
    Ok(InitialSetting::new(name, value))
}

fn workers(arguments: &Arguments) -> Result<usize, Failure> {
    match arguments.workers {
        Some(0) => Err(Failure::coded(
            "E0902",
            "--workers 0: a network needs at least one worker; leave the option out to use every processor"
                .to_owned(),
        )),
        Some(workers) => {
            let processors = processors();
            if workers > CROWD * processors {
                eprintln!(
                    "warning: {workers} workers share {}: more workers than processors only take turns; for boxes \
                     that wait, declare them blocking instead: `\"box NAME (…)\" => blocking FUNCTION,` in a library in Rust, \
                     THALWEG_BLOCKING_BOX in C (docs/boxes.md)",
                    counted(processors as u64, "processor")
                );
            }
            Ok(workers)
        }
        // Every task has a thread of its own, so one worker is enough.
        None if arguments.threads => Ok(1),
        None => Ok(processors()),
    }
}

/// The processors that this process may use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn options(arguments: &Arguments, workers: usize) -> Options {
    let mut options = Options {
        workers,
        pin: arguments.pin,
        steal: arguments.steal,
        thread_per_task: arguments.threads,
        ..Options::default()
    };
    options.mode = match arguments.monitor {
        Monitor::Off => Mode::Off,
        Monitor::Metrics => Mode::Metrics,
        Monitor::Full => Mode::Full,
    };
    options.mapper = match arguments.mapper {
        Mapping::Contiguous => Mapper::default(),
        Mapping::RoundRobin => Mapper::RoundRobin,
        Mapping::LeastLoaded => Mapper::LeastLoaded,
    };
    options.workers_max = arguments.workers_max.unwrap_or(options.workers_max);
    options.quantum = arguments.quantum.unwrap_or(options.quantum);
    options.quantum_us = arguments.quantum_us.unwrap_or(options.quantum_us);
    options.capacity = arguments.capacity.unwrap_or(options.capacity);
    options.unfinished = arguments.unfinished.unwrap_or(options.unfinished);
    options
}

/// Prints the result of the run, the last line on standard error.
fn conclude(tally: &Tally, interrupt: &Interrupt, ended: &Ended) -> Result<(), Failure> {
    let seconds = ended.wall.as_secs_f64();
    let rate = tally.records_in() as f64 / seconds;
    print_stderr!("{tally} in {seconds:.6} s, {}/s in", counted(rate as u64, "record"));
    if let Some(space) = &ended.kept {
        print_stderr!("its space stays in {}: thalweg report {}", space.display(), space.display());
    }
    if interrupt.is_signalled() {
        return Err(interrupt.error().into());
    }
    if ended.failed_tasks > 0 {
        return Err(Failure::Run(ended_badly(ended)));
    }
    if tally.failed() > 0 || tally.is_broken() {
        return Err(Failure::Reported(1));
    }
    Ok(())
}

/// The tasks that failed, and why; of many tasks only the first are listed.
fn ended_badly(ended: &Ended) -> String {
    const SHOWN: usize = 5;
    let shown = ended.failures.iter().take(SHOWN);
    let mut lines: Vec<String> =
        shown.map(|task| format!("{} ended badly: {}", task.component, task.message)).collect();
    let more = ended.failed_tasks.saturating_sub(lines.len() as u64);
    if more > 0 {
        lines.push(format!(
            "{} more ended badly; the messages stand in the space's events",
            counted(more, "task")
        ));
    }
    lines.join("\n")
}

/// The line on a terminal that shows the progress of the run.
struct Progress {
    thread: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Progress {
    /// Starts showing progress if standard error is a terminal.
    fn start(tally: &Arc<Tally>) -> Progress {
        let bar = ProgressBar::new_spinner();
        let ended = Arc::new(AtomicBool::new(false));
        if bar.is_hidden() {
            return Progress { thread: None, ended };
        }
        let (tally, asked) = (Arc::clone(tally), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            let style = ProgressStyle::with_template("{spinner} {msg}").expect("a template without mistakes");
            bar.set_style(style);
            let (mut before, mut before_at) = (0, started);
            while !asked.load(Ordering::Relaxed) {
                std::thread::park_timeout(PROGRESS_EVERY);
                if started.elapsed() < PROGRESS_AFTER {
                    continue;
                }
                let records_in = tally.records_in();
                let rate = (records_in - before) as f64 / before_at.elapsed().as_secs_f64();
                (before, before_at) = (records_in, Instant::now());
                bar.set_message(format!("{}, {}/s", tally, counted(rate as u64, "record")));
                bar.tick();
            }
            bar.finish_and_clear();
        });
        Progress { thread: Some(thread), ended }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
