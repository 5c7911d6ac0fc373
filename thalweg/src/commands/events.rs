//! `thalweg events`: print the events of a run, or of all processes of a session.

mod csv;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, json};
use thalweg_glob::Glob;
use thalweg_host::amount::{Span, span};
use thalweg_host::{Error, LiveEvents, Origin};
use thalweg_monitor::{Refers, Run, WholeDispatch};
use thalweg_space::reader::{Event, FieldInfo, Item, Value};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::units::{count, duration};
use csv::Csv;

const EXAMPLES: &str = "\
Examples:
  # the first tasks of the newest run
  thalweg events --kind 'exec.task_*' --limit 20
  # what this component's tasks do, as it happens
  thalweg events 4242 --task des/round --follow
  # what happened in this second of it
  thalweg events ./kept-run --window 4s..5s
  # everything, one JSON object a line
  thalweg events ./kept-run --json
  # events of one kind as a table for other programs
  thalweg events --kind probe.called --csv > calls.csv
  # all processes of a session, in the order of time
  thalweg events together --follow";

/// The number of items read from the space at a time.
const POLL_ITEMS: usize = 4096;
/// The pause when a space has no new events.
const FOLLOW_PAUSE: Duration = Duration::from_millis(50);

/// The arguments of `thalweg events`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A space: its path, or a name or process id that `thalweg ls` shows. The newest if omitted. Or a
    /// session, by its path or name: the events of all its processes in the order of time, each with its
    /// space.
    #[arg(value_name = "SPACE|SESSION")]
    space: Option<String>,
    /// Only events about this task, by its id, or the tasks of this component, by (the end of) its path or a
    /// pattern of it.
    #[arg(long, value_name = "ID|NAME")]
    task: Option<String>,
    /// Only kinds of this name, where `*` stands for any characters but `/`, `**` for any, `?` for one.
    #[arg(long, value_name = "PATTERN")]
    kind: Option<String>,
    /// Print events as they happen, until the run ends.
    #[arg(long)]
    follow: bool,
    /// Print one JSON object a line; the member `called` has the names of the tasks and streams whose numbers
    /// are in `fields`.
    #[arg(long)]
    json: bool,
    /// Print comma-separated values: a line with the names of the columns, and a line an event. The events
    /// have to be of one kind, which --kind names. Lost events are counted on standard error.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Only events between these times, counted from the start of the run (of the first one of a session),
    /// such as 1.5s..2min, 10s.. or ..1s. Events outside are not read, so this is fast in a large archive.
    #[arg(long, value_name = "T1..T2", value_parser = between, conflicts_with = "follow")]
    window: Option<(Duration, Duration)>,
    /// Stop after N events.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut events = LiveEvents::find(arguments.space.as_deref())?;
    if let Some((from, to)) = arguments.window {
        events = events.between(from, to)?;
    }
    let mut printer = Printer {
        output: Output::new(terminal),
        task: arguments.task,
        filters: Vec::new(),
        kind: arguments.kind.as_deref().map(Glob::new),
        json: arguments.json,
        csv: arguments.csv.then(Csv::default),
        left: arguments.limit.unwrap_or(u64::MAX),
        failure: None,
    };
    let mut problems = Problems { terminal, reported: HashSet::new() };
    problems.report(events.look().err());
    let interrupted = Arc::new(AtomicBool::new(false));
    if arguments.follow {
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))
            .map_err(|error| Failure::run("cannot listen to Ctrl-C", error))?;
    }
    let mut ending = false;
    loop {
        // The check precedes the poll, so that events which a process wrote just before it ended are still
        // read.
        let alive = arguments.follow && events.may_come();
        let mut taken = 0;
        let polled = events.poll(POLL_ITEMS, &mut |place, process, item| {
            taken += 1;
            printer.item(place, process, item);
        });
        // A poll that is not full ends what was there when it looked; a live run goes on meanwhile. After an error
        // there may be more to read.
        let is_all = polled.as_ref().map_or(taken == 0, |count| *count < POLL_ITEMS);
        problems.report(polled.err().filter(|_| !events.is_gone()));
        if let Some(failure) = printer.failure.take() {
            return Err(failure);
        }
        if interrupted.load(Ordering::Relaxed) {
            printer.output.flush()?;
            return Err(Failure::Reported(130));
        }
        if printer.left == 0 {
            break;
        }
        if is_all {
            if !arguments.follow || (taken == 0 && ending) {
                break;
            }
            ending = !alive;
            printer.output.flush()?;
            problems.report(events.look().err().filter(|_| !events.is_gone()));
            if alive {
                std::thread::sleep(FOLLOW_PAUSE);
            }
        }
    }
    printer.output.flush()?;
    problems.reported.is_empty().then_some(()).ok_or(Failure::Reported(Failure::USAGE))
}

/// Parses two times.
fn between(text: &str) -> Result<(Duration, Duration), String> {
    match span(text)? {
        Span::Between(from, to) => Ok((from, to)),
        Span::Last(_) => Err(format!("{text} is one time: write two, such as 0..{text}")),
    }
}

/// Reports each file that cannot be read, once, as soon as the error occurs; events of other files are
/// printed nevertheless.
struct Problems {
    terminal: Terminal,
    reported: HashSet<String>,
}

impl Problems {
    fn report(&mut self, problem: Option<Error>) {
        let Some(problem) = problem.map(|problem| format!("{problem:#}")) else { return };
        if self.reported.insert(problem.clone()) {
            Failure::Usage(problem).print(self.terminal);
        }
    }
}

/// Prints the selected items.
struct Printer {
    output: Output,
    task: Option<String>,
    /// For each process, the filter for the events that the user asked for.
    filters: Vec<TaskFilter>,
    kind: Option<Glob>,
    json: bool,
    csv: Option<Csv>,
    left: u64,
    /// The error of the output, after which nothing more is printed.
    failure: Option<Failure>,
}

impl Printer {
    fn item(&mut self, place: usize, process: &Origin, item: &Item<'_>) {
        if self.left == 0 || self.failure.is_some() {
            return;
        }
        if place >= self.filters.len() {
            self.filters.resize_with(place + 1, || TaskFilter::new(self.task.clone()));
        }
        match item {
            Item::Gap { writer, lost, from_sequence, .. } => {
                self.filters[place].parts.remove(writer);
                if self.csv.is_some() {
                    eprintln!("{lost} events of writer {writer} are lost, from number {from_sequence}");
                    return;
                }
                self.print(&self.gap(process, *writer, *lost, *from_sequence));
            }
            Item::Event(event) => self.event(place, event, process),
        }
    }

    fn event(&mut self, place: usize, event: &Event<'_>, process: &Origin) {
        let is_asked = self.kind.as_ref().is_none_or(|kind| kind.matches(&event.kind.name));
        // The filter has to be asked about every event to know the task to which a writer's events belong.
        let wants = self.filters[place].wants(event, process);
        if self.csv.is_some() {
            if is_asked && matches!(wants, Wants::Yes) {
                self.row(event, process);
            }
            return;
        }
        let line = || if self.json { object(event, process) } else { self.text(event, process) };
        match wants {
            Wants::Yes => {
                let line = is_asked.then(line);
                let parts = self.filters[place].parts.remove(&event.writer).unwrap_or_default();
                parts.iter().chain(&line).for_each(|line| self.print(line));
            }
            Wants::No => drop(self.filters[place].parts.remove(&event.writer)),
            Wants::WithNext => {
                if is_asked {
                    let line = line();
                    self.filters[place].parts.entry(event.writer).or_default().push(line);
                }
            }
        }
    }

    /// Prints a line of a table. A line with the names of the columns comes before the first line and is not
    /// counted.
    fn row(&mut self, event: &Event<'_>, process: &Origin) {
        let Some(csv) = &mut self.csv else { return };
        match csv.lines(event, process) {
            Ok(lines) => {
                self.left = self.left.saturating_add(lines.len() as u64 - 1);
                lines.iter().for_each(|line| self.print(line));
            }
            Err(failure) => self.failure = Some(failure),
        }
    }

    fn print(&mut self, line: &str) {
        if self.left > 0 && self.failure.is_none() {
            self.left -= 1;
            self.failure = self.output.line(line).err();
        }
    }

    fn gap(&self, process: &Origin, writer: u32, lost: u64, from: u64) -> String {
        if self.json {
            let gap = json!({ "writer": writer, "lost": lost, "from_sequence": from });
            return named_process(json!({ "gap": gap }), process);
        }
        let whose =
            process.directory.as_ref().map_or_else(String::new, |directory| format!(" of {directory}"));
        let (lost, from) = (count(lost), count(from));
        self.output
            .styled("1;33", &format!("--- {lost} events of writer {writer}{whose} lost, from number {from}"))
    }

    fn text(&self, event: &Event<'_>, process: &Origin) -> String {
        let time = format!("{:14.9}", process.seconds(event.time));
        let whose =
            process.directory.as_ref().map_or_else(String::new, |directory| format!("  {directory:<16}"));
        let kind = self.output.styled("34", &event.kind.name);
        let mut line = format!("{time}{whose}  w{:<3} {kind}", event.writer);
        for (field, value) in event.fields() {
            line.push_str(&format!(" {}={}", field.name, shown(field, &value, process)));
            if let Some(name) = process.called(event, &field.name) {
                line.push_str(&format!(" ({name})"));
            }
        }
        for (what, number, name) in
            process.dispatch().into_iter().flat_map(|dispatch| parts(dispatch, process))
        {
            line.push_str(&format!(" {what}={number}"));
            if let Some(name) = name {
                line.push_str(&format!(" ({name})"));
            }
        }
        if event.is_truncated() {
            line.push_str(" (cut)");
        }
        line
    }
}

fn shown(field: &FieldInfo, value: &Value<'_>, Origin { names, clock, .. }: &Origin) -> String {
    match value {
        Value::Unsigned(ticks) if field.unit == "ticks" => duration(*ticks as f64 * 1e9 / clock.hz()),
        Value::Name(name) if name.0 == 0 => "-".to_owned(),
        Value::Name(name) => named(&names.names, name.0).unwrap_or_else(|| value.to_string()),
        Value::Site(site) => {
            names.sites.get(&site.0).map_or_else(|| value.to_string(), |site| site.path.clone())
        }
        _ => value.to_string(),
    }
}

/// The fields of a dispatch that its base states, each as its name, the number of a task or stream with the
/// indices of its messages, and the name of that task or stream.
fn parts(dispatch: &WholeDispatch, process: &Origin) -> Vec<(&'static str, String, Option<String>)> {
    let mut parts = vec![("task", dispatch.task.to_string(), process.name(Refers::Task, dispatch.task))];
    for (what, run) in [("read", dispatch.read), ("wrote", dispatch.written)] {
        if let Some(Run { stream, first, count }) = run {
            let messages = format!("{stream}:{first}..{}", first + count);
            parts.push((what, messages, process.name(Refers::Stream, stream)));
        }
    }
    parts
}

/// The fields of a dispatch that its base states, as JSON.
fn whole(dispatch: &WholeDispatch) -> serde_json::Value {
    let run = |run: Option<Run>| {
        run.map(|Run { stream, first, count }| json!({ "stream": stream, "first": first, "count": count }))
    };
    json!({
        "task": dispatch.task,
        "worker": dispatch.worker,
        "read": run(dispatch.read),
        "wrote": run(dispatch.written),
        "waits_for": dispatch.waits_for,
        "ready_by": dispatch.ready.map(|(_, stream)| stream),
    })
}

fn object(event: &Event<'_>, process: &Origin) -> String {
    let names = &process.names;
    let (mut fields, mut called) = (Map::new(), Map::new());
    for (field, value) in event.fields() {
        let value = match &value {
            Value::Unsigned(number) => json!(number),
            Value::Signed(number) => json!(number),
            Value::Float(number) => json!(number),
            Value::Bool(truth) => json!(truth),
            Value::Text(text) => json!(text),
            Value::Choice(number, None) => json!(number),
            Value::Name(name) => json!(named(&names.names, name.0)),
            Value::Site(site) => json!(names.sites.get(&site.0).map(|site| &site.path)),
            Value::Choice(..) | Value::Bytes(_) => json!(value.to_string()),
        };
        fields.insert(field.name.clone(), value);
        if let Some(name) = process.called(event, &field.name) {
            called.insert(field.name.clone(), name.into());
        }
    }
    let mut object = json!({
        "time_s": process.seconds(event.time),
        "ticks": event.time,
        "writer": event.writer,
        "sequence": event.sequence,
        "kind": event.kind.name,
        "fields": fields,
    });
    if let Some(dispatch) = process.dispatch() {
        object["dispatch"] = whole(dispatch);
        for (what, _, name) in parts(dispatch, process) {
            called.extend(name.map(|name| (what.to_owned(), name.into())));
        }
    }
    if !called.is_empty() {
        object["called"] = called.into();
    }
    named_process(object, process)
}

/// The JSON object of an event; if it belongs to a session, with the process of the event.
fn named_process(mut object: serde_json::Value, process: &Origin) -> String {
    if let Some(directory) = &process.directory {
        object["space"] = json!(directory);
        object["pid"] = json!(process.pid);
    }
    object.to_string()
}

fn named(names: &HashMap<u64, String>, id: u64) -> Option<String> {
    names.get(&id).cloned()
}

/// The filter for events about the task, or the tasks, that the user named.
struct TaskFilter {
    /// The task or tasks; `None` selects all events.
    wanted: Option<Wanted>,
    /// For each writer, the task whose dispatch it recorded last. Needed only for spaces of a former version,
    /// which recorded the messages that a dispatch read and wrote as further events after the dispatch.
    writers: HashMap<u32, u64>,
    /// For each writer, lines about the messages that the next dispatch read and wrote on streams that its
    /// base does not state; these events precede the dispatch.
    parts: HashMap<u32, Vec<String>>,
}

/// Whether an event is wanted.
enum Wants {
    Yes,
    No,
    /// The event is selected if the writer's next dispatch is selected.
    WithNext,
}

enum Wanted {
    Id(u64),
    Component(String),
}

impl TaskFilter {
    fn new(task: Option<String>) -> TaskFilter {
        let wanted = task.map(|task| match task.parse() {
            Ok(id) => Wanted::Id(id),
            Err(_) => Wanted::Component(task),
        });
        TaskFilter { wanted, writers: HashMap::new(), parts: HashMap::new() }
    }

    fn wants(&mut self, event: &Event<'_>, process: &Origin) -> Wants {
        let Some(wanted) = &self.wanted else { return Wants::Yes };
        let is_part = matches!(
            event.kind.name.as_str(),
            "exec.stream_read" | "exec.stream_wrote" | "exec.derived" | "exec.dispatch_streams"
        );
        if is_part && !event.is_same_time() {
            return Wants::WithNext;
        }
        let is_wanted = |task: u64| match wanted {
            Wanted::Id(id) => *id == task,
            Wanted::Component(name) => process.component(task).is_some_and(|path| is_called(path, name)),
        };
        let task = event.kind.field("task").map(|field| event.u64(field));
        let wants = match task.or(process.dispatch().map(|dispatch| dispatch.task)) {
            Some(task) => {
                if event.kind.name == "exec.task_dispatched" {
                    self.writers.insert(event.writer, task);
                }
                is_wanted(task)
            }
            // The events about the messages that a dispatch read and wrote follow the dispatch, with its
            // time.
            None if event.is_same_time() => {
                self.writers.get(&event.writer).is_some_and(|&task| is_wanted(task))
            }
            None => match (event.kind.field("reader"), event.kind.field("writer")) {
                (Some(reader), Some(writer)) => is_wanted(event.u64(reader)) || is_wanted(event.u64(writer)),
                _ => false,
            },
        };
        if wants { Wants::Yes } else { Wants::No }
    }
}

/// Whether a component's path is equal to, or ends in, the name that the user wrote.
fn is_called(path: &str, name: &str) -> bool {
    path == name || path.strip_suffix(name).is_some_and(|head| head.ends_with('/')) || {
        name.contains(['*', '?']) && Glob::new(name).matches(path)
    }
}

#[cfg(test)]
mod tests {
    use super::is_called;

    #[test]
    fn components_by_the_end_of_their_path() {
        assert!(is_called("des/rounds/round", "round"));
        assert!(is_called("des/rounds/round", "des/rounds/round"));
        assert!(is_called("des/rounds/round", "rounds/round"));
        assert!(is_called("des/rounds/round", "**/r*d"));
        assert!(!is_called("des/rounds/round", "*/r*d"), "a star stands for no `/`");
        assert!(!is_called("des/around", "round"));
    }
}
