//! `thalweg attach`: counts, times and changes calls of functions in a running program; also `thalweg detach`
//! and `thalweg functions`.

mod asked;
mod children;
mod distribution;
mod events;
mod held;
mod kept;
mod shown;
mod types;
mod undone;
mod wishes;

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thalweg_attach::{Attachment, Function, Guarded, Guards, Options};
use thalweg_host::amount::time;

use self::children::Children;
use self::shown::Shown;
use self::types::Signatures;
use self::wishes::{CallText, FromText, InsertText, Pair, SetText, WhenText};
use crate::Terminal;
use crate::commands::scope::sleep;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{ShapeArguments, Table, id, number, text as column};
use crate::units::{bytes, count, duration};

const EXAMPLES: &str = "\
Examples:
  # how often is malloc called? (Ctrl-C ends it)
  thalweg attach 4242 --count malloc
  # how long do these take, and how large is argument 1?
  thalweg attach shop --time 'libshop.so:parse_*' --args 1
  # only large ones
  thalweg attach 4242 --count write --when 'arg2 > 4096'
  # only those that parse_line makes
  thalweg attach shop --count malloc --from parse_line
  # the last five calls, one by one
  thalweg attach 4242 --time write --last 5
  # every call as an event: `thalweg calls attach-shop`
  thalweg attach shop --time 'parse_*' --events
  # where do the calls of malloc come from?
  thalweg attach shop --callers malloc --for 10s
  # for ten seconds, as JSON
  thalweg attach 4242 --time read --for 10s --json
  # one arena from now on
  thalweg attach 4242 --call 'mallopt(M_ARENA_MAX, 1)'
  # log(1) now, and log(0) when this ends
  thalweg attach shop --call 'log(1)' --undo 'log(0)'
  # writes of 4096 bytes, until Ctrl-C
  thalweg attach 4242 --set-arg write:2=4096
  # call checkpoint(1) before each flush
  thalweg attach shop --insert 'flush=checkpoint(1)'
  # start a program and attach to it
  thalweg attach --count malloc -- ./shop --port 80
  # what is attached to
  thalweg attach --list

The program needs no preparation: its functions' beginnings are replaced by jumps while its threads are stopped, for about a \
millisecond. Everything is taken back when this ends, also when it is killed; what was called stays called, unless --undo says how to undo it.";

/// Functions in which threads wait or call the kernel; a call that the user asks for is made where a thread
/// enters one of them, unless `--at` names another function.
const SAFE_POINTS: [&str; 24] = [
    "epoll_wait",
    "epoll_pwait",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "accept",
    "accept4",
    "recv",
    "recvfrom",
    "recvmsg",
    "read",
    "write",
    "send",
    "sendto",
    "sendmsg",
    "writev",
    "nanosleep",
    "clock_nanosleep",
    "usleep",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "sem_wait",
    "waitpid",
];

/// The interval at which kept calls become events, before later calls overwrite their records.
const FOLLOW: Duration = Duration::from_millis(5);
/// The interval at which the program is checked for newly loaded libraries.
const LOOK: Duration = Duration::from_millis(500);

/// The arguments of `thalweg attach`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A process: its id, its name if only one process has it, or its session if it is alone there.
    #[arg(value_name = "PROCESS", required_unless_present_any = ["list", "command"])]
    process: Option<String>,
    /// Count the calls of these functions: NAME or MODULE:NAME, with `*` and `?`.
    #[arg(long, value_name = "FUNCTION")]
    count: Vec<String>,
    /// Count the calls and measure their times.
    #[arg(long, value_name = "FUNCTION")]
    time: Vec<String>,
    /// Count the calls by where they come from.
    #[arg(long, value_name = "FUNCTION")]
    callers: Vec<String>,
    /// Keep these arguments of the functions, by their numbers from 0 in the declaration, or, without debugging information, among the integer registers.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..32))]
    args: Vec<u8>,
    /// Keep the results of the functions.
    #[arg(long)]
    result: bool,
    /// Where there is no debugging information, take the types of arguments and results from this pack: a file, or one of the program's own.
    #[arg(long, value_name = "PACK")]
    pack: Vec<String>,
    /// Keep the first calls of each function one by one, with their arguments.
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u16).range(1..=4096), conflicts_with = "last")]
    first: Option<u16>,
    /// Keep the last calls of each function one by one, with their arguments.
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u16).range(1..=4096))]
    last: Option<u16>,
    /// Record every call of the functions of --time as an event in the space, for `thalweg calls`, `events` and `record`.
    #[arg(long, requires = "time", conflicts_with_all = ["first", "last"])]
    events: bool,
    /// Count, time and change only calls whose argument N, numbered as for --args, compares with the number as given.
    #[arg(long, value_name = "argN > NUMBER", value_parser = wishes::condition)]
    when: Option<WhenText>,
    /// Count, time and change only calls that this function makes, or the call that returns to this place, as --callers shows it.
    #[arg(long, value_name = "FUNCTION[+0x…]", value_parser = wishes::from)]
    from: Option<FromText>,
    /// Give an argument of a function another value on entry; arguments are numbered as for --args.
    #[arg(long, value_name = "FUNCTION:N=VALUE", value_parser = wishes::set)]
    set_arg: Vec<SetText>,
    /// Give a variable of the program another value.
    #[arg(long, value_name = "NAME=VALUE", value_parser = wishes::pair)]
    set_var: Vec<Pair>,
    /// Let calls of a library's function go to another function.
    #[arg(long, value_name = "FUNCTION=OTHER", value_parser = wishes::pair)]
    replace: Vec<Pair>,
    /// Call a function each time that another one is entered, with integers or with the arguments of that one.
    #[arg(long, value_name = "FUNCTION=OTHER[(…)]", value_parser = wishes::insert)]
    insert: Vec<InsertText>,
    /// Call a function once, with integers, in a thread that enters a function in which threads wait.
    #[arg(long, value_name = "FUNCTION(…)", value_parser = wishes::call)]
    call: Vec<CallText>,
    /// Call a function before detaching, to undo what --call has done; its conditions are the same.
    #[arg(long, value_name = "FUNCTION(…)", value_parser = wishes::call, requires = "call")]
    undo: Vec<CallText>,
    /// Make the function call of --call in a thread that enters this function.
    #[arg(long, value_name = "FUNCTION", requires = "call")]
    at: Vec<String>,
    /// The longest time to wait for a thread that makes the call.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s", requires = "call")]
    within: Duration,
    /// Show the figures once in this interval [default: only at the end].
    #[arg(long, value_name = "TIME", value_parser = time)]
    every: Option<Duration>,
    /// Detach after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    lasts: Option<Duration>,
    /// Keep the cost of measuring below this part of one processor: of the functions that cost most, fewer calls are measured; a function is removed if counting its calls alone costs too much.
    #[arg(long, value_name = "PERCENT")]
    budget: Option<f64>,
    /// Attach to the programs that child processes begin, too, each with figures of its own; one that ends within 50 ms may be missed.
    #[arg(long)]
    follow: bool,
    /// State that the filter of the program's system calls (seccomp) permits those that attaching needs.
    #[arg(long)]
    filtered: bool,
    /// Keep the space with the figures when this command ends.
    #[arg(long)]
    keep: bool,
    /// List the processes that are attached to.
    #[arg(long, conflicts_with_all = ["process", "command"])]
    list: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: ShapeArguments,
    /// A program to start and attach to.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "process")]
    command: Vec<String>,
}

/// The arguments of `thalweg detach`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  thalweg detach 4242\n\nIt ends what `thalweg attach` does there, and takes back what one has left that was killed."
)]
pub(crate) struct Detach {
    /// A process: its id, its name if only one process has it, or its session if it is alone there.
    #[arg(value_name = "PROCESS")]
    process: String,
}

/// The arguments of `thalweg functions`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  thalweg functions 4242 'parse_*'\n  thalweg functions 4242 libc.so.6:malloc"
)]
pub(crate) struct Functions {
    /// A process: its id, its name if only one process has it, or its session if it is alone there.
    #[arg(value_name = "PROCESS")]
    process: String,
    /// Only functions of this name: NAME or MODULE:NAME, with `*` and `?`.
    #[arg(value_name = "PATTERN", default_value = "*")]
    pattern: String,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: ShapeArguments,
}

/// The arguments of the guard, which only this program starts.
#[derive(clap::Args)]
pub(crate) struct Guard {
    /// The process that attaches, and has started the guard.
    #[arg(long)]
    of: i32,
    /// The lease in milliseconds.
    #[arg(long)]
    lease: Option<u64>,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::shaped(terminal, &arguments.shape);
    if arguments.list {
        return list(arguments.json, &mut output);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| Failure::run("cannot listen to Ctrl-C", error))?;
    }
    let mut child = match arguments.command.split_first() {
        Some((program, rest)) => Some(started(program, rest)?),
        None => None,
    };
    let pid = match (&child, &arguments.process) {
        (Some(child), _) => child.id().cast_signed(),
        (None, Some(process)) => found(process)?,
        (None, None) => return Err(Failure::Usage("attach takes a process or a command".to_owned())),
    };
    std::thread::scope(|scope| {
        let session = Session { arguments, interrupted, begin: Instant::now(), terminal, scope };
        let result = session.attach(pid, child.as_mut(), &mut output);
        if let Some(mut child) =
            child.filter(|_| result.is_ok() && !session.interrupted.load(Ordering::Relaxed))
        {
            let status = child.wait().map_err(|error| Failure::run("cannot wait for the program", error))?;
            if !status.success() {
                print_stderr!("the program ended with {status}");
            }
        }
        if result.is_err() {
            // The programs of children are detached from, too.
            session.interrupted.store(true, Ordering::Relaxed);
        }
        result
    })
}

/// The command of a guard, with the time after which it kills this process unless the process renews its lease.
pub(crate) fn guard_command(lease: Option<Duration>) -> Option<Command> {
    let mut guard = Command::new(std::env::current_exe().ok()?);
    guard.args(["attach-guard", &format!("--of={}", std::process::id())]).stderr(Stdio::null());
    guard.args(lease.map(|lease| format!("--lease={}", lease.as_millis())));
    Some(guard)
}

fn open(pid: i32, is_filtered: bool) -> Result<Attachment, Failure> {
    let guard = guard_command(None).ok_or_else(|| Failure::Usage("cannot find this program".to_owned()))?;
    Attachment::open(pid, Options { guard: Some(Guards::new(guard)), is_filtered }).map_err(Failure::usage)
}

/// Starts a program, and waits until it runs with its libraries.
fn started(program: &str, arguments: &[String]) -> Result<Child, Failure> {
    let mut command = Command::new(program);
    // Ctrl-C must reach this process only, and not the started program.
    command.args(arguments).process_group(0);
    let child = command.spawn().map_err(|error| Failure::run(format!("cannot start {program}"), error))?;
    wait_for_libraries(child.id().cast_signed());
    Ok(child)
}

/// Waits until a program that has just begun runs with its libraries.
fn wait_for_libraries(pid: i32) {
    const WAIT: Duration = Duration::from_secs(2);
    let begin = Instant::now();
    let maps = format!("/proc/{pid}/maps");
    let is_ready =
        || std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("libc.") && maps.contains("r-xp"));
    while !is_ready() && begin.elapsed() < WAIT {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The processes of this machine whose spaces are in the session of this name or path.
fn of_session(name: &str) -> Vec<i32> {
    let Ok(Some(session)) = thalweg_host::spaces::session(Some(name)) else { return Vec::new() };
    let spaces = thalweg_space::discover::list(&session).unwrap_or_default().into_iter();
    let alive = spaces.filter(|space| space.alive).filter_map(|space| space.info.ok());
    let mut pids: Vec<i32> = alive.map(|info| info.pid.cast_signed()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The process with this id or name, or the one of a session with this name.
pub(crate) fn found(process: &str) -> Result<i32, Failure> {
    if let Ok(pid) = process.parse() {
        return Ok(pid);
    }
    let list = std::fs::read_dir("/proc").map_err(|error| Failure::run("cannot list processes", error))?;
    let numbers = list.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id().cast_signed();
    let is_called = |pid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        *pid != own && name.trim_end() == process
    };
    let mut found: Vec<i32> = numbers.filter(is_called).collect();
    found.sort_unstable();
    let several = |found: &[i32], what: &str| {
        let name = |pid: &i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{pid} ({})", name.trim_end())
        };
        let names: Vec<String> = found.iter().map(name).collect();
        Err(Failure::Usage(format!("several processes {what} `{process}`: {}", names.join(", "))))
    };
    match found[..] {
        [pid] => Ok(pid),
        [] => match of_session(process)[..] {
            [pid] => Ok(pid),
            [] => Err(Failure::Usage(format!("no process is called `{process}`, and no session with one"))),
            ref pids => several(pids, "are in the session"),
        },
        _ => several(&found, "are called"),
    }
}

/// One run of the command `thalweg attach`.
#[derive(Clone)]
struct Session<'scope, 'env> {
    arguments: &'env Arguments,
    interrupted: Arc<AtomicBool>,
    begin: Instant,
    terminal: Terminal,
    /// Each child that begins another program is attached to by a thread of this scope.
    scope: &'scope std::thread::Scope<'scope, 'env>,
}

impl Session<'_, '_> {
    /// Attaches to a process, and to the programs that it goes on with (`exec`), until the attachment ends.
    fn attach(&self, pid: i32, mut child: Option<&mut Child>, output: &mut Output) -> Result<(), Failure> {
        let mut attachment = open(pid, self.arguments.filtered)?;
        loop {
            let mut shown = None;
            let result = self.run(&mut attachment, child.as_deref_mut(), output, &mut shown);
            let (is_replaced, is_alive) = (attachment.runs_another_program(), attachment.is_alive());
            if let Some(shown) = shown.as_mut().filter(|_| is_alive) {
                self.undo(&mut attachment, shown);
            }
            let restored = attachment.detach().map_err(Failure::usage)?;
            if let Some(shown) = shown.filter(|_| is_alive) {
                shown.undone(&restored, self.reason());
            }
            if restored.bytes_left > 0 {
                print_stderr!(
                    "{} stay in process {pid}: threads still stand there; nothing leads there any more",
                    bytes(restored.bytes_left)
                );
            }
            if result.is_err() || !is_replaced || self.is_over() {
                return result;
            }
            print_stderr!("process {pid} has begun another program (exec), which is attached to now");
            wait_for_libraries(pid);
            if std::fs::read_link(format!("/proc/{pid}/exe")).is_err() {
                // The other program has ended already.
                return result;
            }
            attachment = open(pid, self.arguments.filtered)?;
        }
    }

    /// Attaches to the program of a child, in a thread of its own. A child without functions of these names is
    /// left alone.
    fn follow(&self, pid: i32) {
        let session = self.clone();
        self.scope.spawn(move || {
            wait_for_libraries(pid);
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let mut output = Output::shaped(session.terminal, &session.arguments.shape);
            if let Err(failure) = session.attach(pid, None, &mut output) {
                print_stderr!("process {pid} ({}) is left alone: {}", name.trim_end(), failure.text());
            }
        });
    }

    /// Why the attachment ends.
    fn reason(&self) -> &'static str {
        match self.is_over() {
            _ if self.interrupted.load(Ordering::Relaxed) => "the attachment was ended",
            true => "the time of --for is over",
            false => "the attachment ended by itself",
        }
    }

    /// Whether the user has ended the attachment, or its time is over.
    fn is_over(&self) -> bool {
        let has_lasted = |lasts| self.begin.elapsed() >= lasts;
        self.interrupted.load(Ordering::Relaxed) || self.arguments.lasts.is_some_and(has_lasted)
    }

    fn run(
        &self,
        attachment: &mut Attachment,
        child: Option<&mut Child>,
        output: &mut Output,
        shown: &mut Option<Shown>,
    ) -> Result<(), Failure> {
        let arguments = self.arguments;
        let mut signatures = Signatures::new(&arguments.pack)?;
        let wishes = asked::all(arguments, attachment, &mut signatures)?;
        // A child that begins once the attachment's space is there to be seen is followed.
        let children = arguments.follow.then(|| Children::new(attachment.target()));
        let shown = shown.insert(Shown::new(attachment, arguments.keep)?);
        if !wishes.is_empty() {
            let added = attachment.add(&wishes).map_err(Failure::usage)?;
            print_stderr!(
                "attached to {} of process {}; its threads were stopped for {}",
                crate::units::counted(wishes.len() as u64, "function"),
                attachment.target().pid,
                duration(added.stopped.as_nanos() as f64)
            );
        }
        self.act(attachment, shown)?;
        let waits =
            !(arguments.count.is_empty() && arguments.time.is_empty() && arguments.callers.is_empty());
        let acts = !(arguments.set_var.is_empty()
            && arguments.replace.is_empty()
            && arguments.insert.is_empty()
            && arguments.undo.is_empty());
        if wishes.is_empty() && !waits && !acts {
            if arguments.call.is_empty() {
                return Err(Failure::Usage(
                    "say what to do: --count, --time, --callers, --set-arg, --set-var, --replace, --insert or --call"
                        .to_owned(),
                ));
            }
            return Ok(());
        }
        shown.extend(attachment, &signatures)?;
        self.watch(attachment, signatures, shown, (children, child), output)
    }

    /// Does what the options ask for besides measuring, and records it in the space.
    fn act(&self, attachment: &mut Attachment, shown: &mut Shown) -> Result<(), Failure> {
        let arguments = self.arguments;
        for set in &arguments.set_arg {
            let SetText { function, argument, value } = set;
            let address = one(attachment, function)?.address;
            let back = format!("{function} gets the callers' argument {argument} again");
            shown.done("set-arg", &format!("{function}:{argument}={value}"), "from now on");
            shown.ends(attachment, address, format!("set-arg {function}:{argument}={value}"), back);
        }
        for pair in &arguments.set_var {
            let value = wishes::value(&pair.right).map_err(Failure::Usage)?;
            let before = attachment.set_variable(&pair.left, value).map_err(Failure::usage)?;
            print_stderr!("{} = {value} (was {before})", pair.left);
            shown.done("set-var", &format!("{}={value}", pair.left), &format!("was {before}"));
            shown.variable(&pair.left, value);
            let address = attachment.modules().variable(&pair.left).map_err(Failure::usage)?.address;
            let back = format!("{} is {before} again", pair.left);
            shown.ends(attachment, address, format!("set-var {}={value}", pair.left), back);
        }
        for pair in &arguments.replace {
            let (function, with) = (one(attachment, &pair.left)?, one(attachment, &pair.right)?);
            attachment.replace(&function, &with).map_err(Failure::usage)?;
            print_stderr!("calls of {} go to {}", pair.left, pair.right);
            shown.done("replace", &format!("{}={}", pair.left, pair.right), "from now on");
            let back = format!("calls of {0} go to {0} again", pair.left);
            let done = format!("replace {}={}", pair.left, pair.right);
            shown.ends(attachment, function.address, done, back);
            shown.switch("replace", &pair.left, &function);
        }
        for insert in &arguments.insert {
            let (at, function) = (one(attachment, &insert.at)?, one(attachment, &insert.function)?);
            let values = insert.arguments.as_ref();
            let values =
                values.map(|values| values.iter().map(|value| wishes::register(*value)).collect::<Vec<_>>());
            attachment.insert(&function, values.as_deref(), &at).map_err(Failure::usage)?;
            print_stderr!("{} is called before each {}", insert.function, insert.at);
            shown.done("insert", &insert.to_string(), "from now on");
            let back = format!("{} is no longer called before {}", insert.function, insert.at);
            shown.ends(attachment, at.address, format!("insert {insert}"), back);
            shown.switch("insert", &insert.at, &at);
        }
        for call in &arguments.call {
            let result = self.call(attachment, call)?;
            print_stderr!("{} returned {result}", call.function);
            shown.done("call", &call.to_string(), &format!("returned {result}"));
        }
        let places = if arguments.at.is_empty() { SAFE_POINTS.join(",") } else { arguments.at.join(",") };
        for undo in &arguments.undo {
            let function = one(attachment, &undo.function)?;
            let call = CallText { function: function.name, ..undo.clone() };
            shown.ends_by_call(attachment, format!("{}\t0\t{places}\t{call}", function.module));
        }
        Ok(())
    }

    /// Makes the calls that undo what others have done, in the reverse order.
    fn undo(&self, attachment: &mut Attachment, shown: &mut Shown) {
        // The guard is not to make these calls again.
        shown.ends_by_no_call(attachment);
        for undo in self.arguments.undo.iter().rev() {
            match self.call(attachment, undo) {
                Ok(result) => {
                    print_stderr!("{} returned {result}", undo.function);
                    shown.done("undo", &undo.to_string(), &format!("returned {result}: {}", self.reason()));
                }
                Err(failure) => print_stderr!("{undo} was not called: {}", failure.text()),
            }
        }
    }

    /// Shows the figures again and again until the attachment ends.
    fn watch(
        &self,
        attachment: &mut Attachment,
        mut signatures: Signatures,
        shown: &mut Shown,
        (mut children, mut child): (Option<Children>, Option<&mut Child>),
        output: &mut Output,
    ) -> Result<(), Failure> {
        let arguments = self.arguments;
        let every = arguments.every.unwrap_or(Duration::from_secs(1));
        let mut next = Instant::now() + every;
        let mut next_look = Instant::now() + LOOK;
        loop {
            let left = arguments.lasts.map(|lasts| lasts.saturating_sub(self.begin.elapsed()));
            let longest = if arguments.events { FOLLOW } else { Duration::from_millis(50) };
            let wait = next.saturating_duration_since(Instant::now()).min(longest);
            sleep(left.map_or(wait, |left| wait.min(left)), &self.interrupted);
            shown.follow(attachment)?;
            // A program that this process started and that has ended is reaped, so that it is no zombie.
            let has_ended =
                child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            let is_over = has_ended
                || left.is_some_and(|left| left.is_zero())
                || self.interrupted.load(Ordering::Relaxed)
                || !attachment.is_alive();
            if !is_over && Instant::now() >= next_look {
                next_look = Instant::now() + LOOK;
                self.loaded_since(attachment, &mut signatures, shown)?;
            }
            if !is_over {
                shown.adopt(attachment);
                children.iter_mut().flat_map(Children::begun).for_each(|child| self.follow(child));
            }
            if is_over || Instant::now() >= next {
                next += every;
                shown.look(attachment)?;
                if is_over || arguments.every.is_some() {
                    shown.print(output, arguments.json, arguments.follow)?;
                }
                if let Some(budget) = arguments.budget.filter(|_| !is_over) {
                    shown.keep_budget(attachment, budget / 100.0)?;
                }
            }
            if is_over {
                return self.inserted(attachment);
            }
        }
    }

    /// Says how often inserted calls were made.
    fn inserted(&self, attachment: &Attachment) -> Result<(), Failure> {
        for insert in self.arguments.insert.iter().filter(|_| attachment.is_alive()) {
            let (calls, left_out) = attachment.inserted(&one(attachment, &insert.at)?);
            let calls = crate::units::counted(calls, "time");
            let more = match left_out {
                0 => String::new(),
                more => format!(", and {} left out while 64 others were under way", count(more)),
            };
            print_stderr!("{} was called {calls} before {}{more}", insert.function, insert.at);
        }
        Ok(())
    }

    /// Attaches to functions of libraries that the program has loaded since the last look, if the patterns
    /// match the functions.
    fn loaded_since(
        &self,
        attachment: &mut Attachment,
        signatures: &mut Signatures,
        shown: &mut Shown,
    ) -> Result<(), Failure> {
        // The program may end at this moment, so an error is ignored here: the loop that shows figures
        // notices the end.
        if !attachment.look().unwrap_or(false) {
            return Ok(());
        }
        // The function that `--from` names may be gone with its library: nothing is added then.
        let wishes = asked::further(self.arguments, attachment, signatures).unwrap_or_default();
        if wishes.is_empty() {
            return Ok(());
        }
        match attachment.add(&wishes) {
            Ok(_) => print_stderr!(
                "attached to {} of libraries that were loaded meanwhile",
                crate::units::counted(wishes.len() as u64, "function")
            ),
            Err(error) => {
                print_stderr!("functions of libraries that were loaded meanwhile are left out: {error}")
            }
        }
        shown.extend(attachment, signatures)
    }

    fn call(&self, attachment: &mut Attachment, call: &CallText) -> Result<i64, Failure> {
        let function = one(attachment, &call.function)?;
        let places: Vec<Function> = match &self.arguments.at[..] {
            [] => SAFE_POINTS
                .iter()
                .flat_map(|name| attachment.modules().functions(&format!("libc.*:{name}")))
                .collect(),
            names => names.iter().map(|name| one(attachment, name)).collect::<Result<_, _>>()?,
        };
        let values: Vec<u64> = call.arguments.iter().map(|value| wishes::register(*value)).collect();
        let result = attachment.call(&function, &values, &places, self.arguments.within);
        // Most functions that are called this way return an `int`, which leaves the upper half of the
        // register undefined.
        result.map(|value| i64::from(value as i32)).map_err(Failure::usage)
    }
}

fn none(name: &str) -> Failure {
    Failure::Usage(format!(
        "no function is called `{name}`: it may have been inlined everywhere, or its symbol was stripped; `thalweg functions` lists those there are"
    ))
}

/// The function called `name`.
fn one(attachment: &Attachment, name: &str) -> Result<Function, Failure> {
    let mut found = attachment.modules().functions(name);
    found.dedup_by_key(|function| function.address);
    match found.len() {
        0 => Err(none(name)),
        1 => Ok(found.remove(0)),
        _ => {
            let modules: Vec<&str> = found.iter().map(|function| function.module.as_str()).collect();
            Err(Failure::Usage(format!(
                "several functions are called `{name}`, in {}: say which, such as `{}:{name}`",
                modules.join(", "),
                modules[0]
            )))
        }
    }
}

fn list(is_json: bool, output: &mut Output) -> Result<(), Failure> {
    let attached = thalweg_attach::attached();
    let mut table = Table::new(&[
        id("PID", 0),
        column("PROGRAM"),
        number("CHANGES", 0),
        number("MEMORY", 0),
        column("BY"),
    ]);
    for attached in &attached {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", attached.pid)).unwrap_or_default();
        let maker = attached.maker.map(|maker| maker.pid);
        if is_json {
            let object = serde_json::json!({
                "pid": attached.pid, "program": name.trim_end(), "changes": attached.changes, "bytes": attached.bytes, "by": maker,
            });
            output.line(&object.to_string())?;
        } else {
            let by = maker.map_or_else(
                || "nobody any more: `thalweg detach`".to_owned(),
                |pid| format!("process {pid}"),
            );
            let cells = [
                attached.pid.to_string(),
                name.trim_end().to_owned(),
                count(attached.changes as u64),
                bytes(attached.bytes),
                by,
            ];
            table.row(cells.to_vec(), false);
        }
    }
    if !is_json {
        match attached.is_empty() {
            true => output.line("no process is attached to")?,
            false => output.table(&table)?,
        }
    }
    output.flush()
}

pub(crate) fn detach(arguments: &Detach) -> Result<(), Failure> {
    let pid = found(&arguments.process)?;
    let restored = thalweg_attach::detach(pid).map_err(Failure::usage)?;
    undone::by_detach(pid, &restored.put_back);
    print_stderr!(
        "process {pid} is as it was before: {} taken back",
        crate::units::counted(restored.changes as u64, "change")
    );
    Ok(())
}

pub(crate) fn functions(arguments: &Functions, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::shaped(terminal, &arguments.shape);
    let attachment =
        Attachment::open(found(&arguments.process)?, Options { is_filtered: true, ..Options::default() });
    let attachment = attachment.map_err(Failure::usage)?;
    let functions = attachment.modules().functions(&arguments.pattern);
    if functions.is_empty() {
        return Err(none(&arguments.pattern));
    }
    let mut table = Table::new(&[column("FUNCTION").loose(), number("BYTES", 1), column("MODULE")]);
    for (function, readable) in functions.iter().zip(thalweg_attach::readable_names(&functions)) {
        if arguments.json {
            let object = serde_json::json!({
                "name": function.name, "readable": readable, "module": function.module, "address": function.address, "bytes": function.size,
            });
            output.line(&object.to_string())?;
        } else {
            table.row(vec![readable, count(function.size), function.module.clone()], false);
        }
    }
    if !arguments.json {
        output.table(&table)?;
    }
    output.flush()
}

/// Waits until the attaching process has ended, and undoes the changes that it has left.
pub(crate) fn guard(arguments: &Guard) -> Result<(), Failure> {
    let lease = arguments.lease.map(Duration::from_millis);
    let failed = Mutex::new(None);
    let undone = |guarded: &Guarded| {
        let called = thalweg_tune::library::put_back(guarded.target.pid, &guarded.note);
        undone::by_guard(guarded.target.pid, guarded, called.is_ok());
        if let Err(why) = called {
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
    };
    thalweg_attach::guard(arguments.of, std::io::stdin(), lease, &undone).map_err(Failure::usage)?;
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), |why| Err(Failure::Usage(why)))
}
