//! `thalweg scope`: pull a view of running processes.

mod curve;
mod show;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thalweg_host::spaces;
use thalweg_scope::{
    Ask, Backlog, Price, Pull, Pulled, Remote, Scope, Shape, Target, View, built_in, default_socket,
};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{ShapeArguments, Table, prose, text};

/// The time between two readings of counters, if only one table is printed.
const COUNTERS_PAUSE: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  # the views that are built in
  thalweg scope ls
  # how often each component was dispatched
  thalweg scope dispatches
  # what each component does, once a second
  thalweg scope tasks --every 1s
  # a view of one's own: check it, then pull it
  thalweg scope check mine.toml
  thalweg scope mine.toml 4242 --json
  # the events themselves, at most 100 a second
  thalweg scope events --every 1s --rate 100
  # what built-in views are made of
  thalweg scope slow --text
  # what pulling a view costs, at which rate
  thalweg scope curve tasks";

/// The arguments of `thalweg scope`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "thalweg scope [OPTIONS] VIEW [SPACE|SESSION]
       thalweg scope ls
       thalweg scope check FILE
       thalweg scope curve VIEW [SPACE|SESSION]")]
pub(crate) struct Arguments {
    /// A view: the name of one that is built in, or a file. `ls` lists the built-in ones, `check` reports the
    /// mistakes in a file, `curve` measures the cost of a view.
    #[arg(value_name = "VIEW")]
    view: String,
    /// The space or session to read, by its path or a name or process id that `thalweg ls` shows; the newest
    /// space if omitted.
    #[arg(value_name = "SPACE|SESSION", num_args = 0..=2)]
    rest: Vec<String>,
    /// Read all processes of this machine whose spaces are in the default place.
    #[arg(long)]
    all: bool,
    /// Pull once in this time, such as 100ms or 2s, until the processes have ended; never more often than the
    /// budget allows.
    #[arg(long, value_name = "TIME", value_parser = span)]
    every: Option<Duration>,
    /// Stop after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    lasts: Option<Duration>,
    /// Pull the latest tuple of each element, or all tuples since the last pull, in place of the view's own
    /// choice.
    #[arg(long, value_name = "HOW", value_parser = ["latest", "since"])]
    pull: Option<String>,
    /// Leave out tuples from before the first pull.
    #[arg(long)]
    no_backlog: bool,
    /// Print at most this many tuples a second; tuples that are left out are counted.
    #[arg(long, value_name = "PER_S", conflicts_with = "server")]
    rate: Option<f64>,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Print the text of the view.
    #[arg(long)]
    text: bool,
    /// Share of this machine's processor time that pulls may take, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0 * Price::SHARE)]
    budget: f64,
    #[command(flatten)]
    tree: TreeArguments,
    /// Pull through the scope server of this socket, see `thalweg serve`.
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = "")]
    server: Option<PathBuf>,
    #[command(flatten)]
    shape: ShapeArguments,
}

/// The shape of the tree.
#[derive(clap::Args, Clone, Copy)]
struct TreeArguments {
    /// Threads that read in a pull.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Processes, or nodes, that a node of the tree gathers.
    #[arg(long, value_name = "N")]
    fan_out: Option<usize>,
    /// The largest number of levels of nodes.
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// The number of events that are read of a process at a time.
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
}

impl TreeArguments {
    /// Whether the user gave no option for the shape of the tree, so that the scope chooses the shape.
    fn is_free(self) -> bool {
        [self.threads, self.fan_out, self.depth, self.batch].iter().all(Option::is_none)
    }

    fn shape(self) -> Shape {
        let usual = Shape::default();
        Shape {
            threads: self.threads.unwrap_or(usual.threads),
            fan_out: self.fan_out.unwrap_or(usual.fan_out),
            depth: self.depth.unwrap_or(usual.depth),
            batch: self.batch.unwrap_or(usual.batch),
            ..usual
        }
        .clamped()
    }
}

/// A time such as `100ms`, `2s`, `1.5min`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit_s = match unit.trim() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time is written as in 100ms, 2s or 1min".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "a time is written as in 100ms, 2s or 1min".to_owned())?;
    Duration::try_from_secs_f64(number * unit_s).map_err(|_| "that is too long a time".to_owned())
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    match (arguments.view.as_str(), &arguments.rest[..]) {
        ("ls", []) => list(&arguments, terminal),
        ("check", [file]) => check(file),
        ("check", _) => Err(Failure::Usage("`thalweg scope check` takes one file".to_owned())),
        ("curve", [view, rest @ ..]) => {
            let target = target(&arguments, rest)?;
            curve::main(&read(view)?.1, target, &arguments, terminal)
        }
        ("curve", []) => Err(Failure::Usage("`thalweg scope curve` takes a view".to_owned())),
        // Users tend to type `pull` first, though the command works without the word.
        ("pull", [view, rest @ ..]) => show(view, rest, &arguments, terminal),
        ("pull", []) => Err(Failure::Usage(
            "`thalweg scope pull` takes a view: `thalweg scope ls` lists those that are built in".to_owned(),
        )),
        (view, rest) => show(view, rest, &arguments, terminal),
    }
}

/// Prints the text of a view, or pulls it.
fn show(view: &str, rest: &[String], arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (text, view) = read(view)?;
    if arguments.text {
        let mut output = Output::new(terminal);
        output.text(&text)?;
        return output.flush();
    }
    let target = target(arguments, rest)?;
    pull(&view, &text, target, arguments, terminal)
}

/// The text of a view and the view.
pub(super) fn read(name: &str) -> Result<(String, View), Failure> {
    let path = Path::new(name);
    let is_path = name.contains('/') || path.extension().is_some();
    if let Some(known) = built_in().iter().find(|known| known.name == name).filter(|_| !is_path) {
        return Ok((known.text.to_owned(), known.view()));
    }
    if !path.exists() {
        let names = built_in().iter().map(|view| view.name);
        return Err(Failure::Usage(match thalweg_pack::nearest(name, names) {
            _ if is_path => format!("there is no file {name}"),
            Some(near) => format!("there is no view `{name}`: did you mean `{near}`?"),
            None => format!("there is no view `{name}`: `thalweg scope ls` lists those that are built in"),
        }));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("{name} cannot be read: {error}")))?;
    match View::read(&text) {
        Ok(view) => {
            doubt(name, &text, &view);
            Ok((text, view))
        }
        Err(problems) => {
            problems.iter().for_each(|problem| print_stderr!("{}", problem.render(name, &text)));
            Err(Failure::Reported(Failure::USAGE))
        }
    }
}

fn check(file: &str) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("{file} cannot be read: {error}")))?;
    match View::read(&text) {
        Ok(view) => {
            doubt(file, &text, &view);
            Ok(())
        }
        Err(problems) => {
            problems.iter().for_each(|problem| print_stderr!("{}", problem.render(file, &text)));
            Err(Failure::Reported(Failure::USAGE))
        }
    }
}

/// Warns of likely mistakes in a valid view.
fn doubt(file: &str, text: &str, view: &View) {
    for problem in view.doubts(text) {
        print_stderr!("{}", problem.render(file, text).replacen("error:", "warning:", 1));
    }
}

fn list(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::shaped(terminal, &arguments.shape);
    let mut table = Table::new(&[text("VIEW"), prose("WHAT IT ANSWERS")]);
    for known in built_in() {
        let view = known.view();
        if arguments.json {
            output.line(&serde_json::json!({ "name": view.name, "about": view.about }).to_string())?;
        }
        table.row(vec![view.name, view.about], false);
    }
    if !arguments.json {
        output.table(&table)?;
    }
    output.flush()
}

fn target(arguments: &Arguments, rest: &[String]) -> Result<Target, Failure> {
    match rest {
        [_, more, ..] => {
            Err(Failure::Usage(format!("one space or session is read; `{more}` is one too many")))
        }
        [name] if arguments.all => {
            Err(Failure::Usage(format!("`--all` reads all processes, and not `{name}` alone")))
        }
        rest => target_of(rest.first().map(String::as_str), arguments.all),
    }
}

/// What to read: the space or session of the given name, the newest run, or all processes.
pub(super) fn target_of(name: Option<&str>, all: bool) -> Result<Target, Failure> {
    match all {
        true => Ok(Target::All(spaces::parent()?)),
        false => Ok(Target::of(spaces::find_feed(name)?)),
    }
}

fn pull(
    view: &View,
    text: &str,
    target: Target,
    arguments: &Arguments,
    terminal: Terminal,
) -> Result<(), Failure> {
    let mut view = view.clone();
    match arguments.pull.as_deref() {
        Some("latest") => view.pull = Pull::Latest,
        Some(_) => view.pull = Pull::Since,
        None => {}
    }
    if let Some(rate) = arguments.rate {
        if rate.is_nan() || rate <= 0.0 {
            return Err(Failure::Usage(format!("--rate {rate} lets nothing through: it is more than 0")));
        }
        view.tree = view.tree.limit(rate);
    }
    let backlog = if arguments.no_backlog { Backlog::Nothing } else { Backlog::All };
    let mut puller = Puller::open(&view, text, target, backlog, arguments)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    if arguments.every.is_some() {
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))
            .map_err(|error| Failure::run("cannot listen to Ctrl-C", error))?;
    }
    let mut shown = show::Shown::new(arguments.json, &view, &arguments.shape, terminal);
    let begin = Instant::now();
    // Counters have to be read twice, so that the output can show how they grow.
    if arguments.every.is_none() && view.needs_two() {
        drop(puller.pull(view.pull)?);
        std::thread::sleep(COUNTERS_PAUSE);
    }
    let mut is_damaged = false;
    loop {
        let pulled = puller.pull(view.pull)?;
        is_damaged |= !pulled.problems.is_empty();
        shown.show(&pulled, terminal)?;
        let Some(every) = arguments.every else { break };
        let is_late = arguments.lasts.is_some_and(|lasts| begin.elapsed() + every > lasts);
        if pulled.is_over || is_late || interrupted.load(Ordering::Relaxed) {
            break;
        }
        let wait = puller.wait().max(every);
        shown.report_rate(every, wait, puller.price());
        sleep(wait, &interrupted);
    }
    shown.finish()?;
    if is_damaged { Err(Failure::Reported(Failure::USAGE)) } else { Ok(()) }
}

/// A scope in this process, or a scope in a server, which limits the cost itself.
enum Puller {
    Here(Box<Scope>),
    There(Remote),
}

impl Puller {
    fn open(
        view: &View,
        text: &str,
        target: Target,
        backlog: Backlog,
        arguments: &Arguments,
    ) -> Result<Puller, Failure> {
        let Some(socket) = &arguments.server else {
            let mut scope = Scope::open(view, target, backlog).map_err(Failure::usage)?;
            if !arguments.tree.is_free() {
                scope.reshape(arguments.tree.shape());
            }
            *scope.price() = Price::new(arguments.budget / 100.0);
            return Ok(Puller::Here(Box::new(scope)));
        };
        let socket = match socket.as_os_str().is_empty() {
            true => default_socket().map_err(Failure::usage)?,
            false => socket.clone(),
        };
        let ask = Ask { view: text.to_owned(), target: absolute(target), backlog };
        Ok(Puller::There(Remote::open(&socket, &ask).map_err(Failure::usage)?))
    }

    fn pull(&mut self, how: Pull) -> Result<Pulled, Failure> {
        match self {
            Puller::Here(scope) if how == Pull::Latest => Ok(scope.pull_latest()),
            Puller::Here(scope) => Ok(scope.pull_since()),
            Puller::There(remote) => {
                remote.pull(Some(how)).map_err(|error| Failure::run("cannot pull", error))
            }
        }
    }

    /// The time to wait before the next pull so that the pulls stay within the budget.
    fn wait(&mut self) -> Duration {
        match self {
            Puller::Here(scope) => scope.price().wait(),
            Puller::There(_) => Duration::ZERO,
        }
    }

    fn price(&mut self) -> Option<&Price> {
        match self {
            Puller::Here(scope) => Some(scope.price()),
            Puller::There(_) => None,
        }
    }
}

/// Makes the target's path absolute, because the server may run in another directory.
fn absolute(target: Target) -> Target {
    let whole = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
    match target {
        Target::Space(path) => Target::Space(whole(path)),
        Target::Session(path) => Target::Session(whole(path)),
        Target::All(path) => Target::All(whole(path)),
    }
}

/// Sleeps for the time `wait`, or until an interrupt.
pub(super) fn sleep(wait: Duration, interrupted: &AtomicBool) {
    let until = Instant::now() + wait;
    while let Some(left) = until.checked_duration_since(Instant::now())
        && !interrupted.load(Ordering::Relaxed)
    {
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Prints the problems of a pull on standard error.
pub(super) fn print_problems(pulled: &Pulled, terminal: Terminal) {
    for problem in &pulled.problems {
        Failure::Usage(problem.clone()).print(terminal);
    }
}
