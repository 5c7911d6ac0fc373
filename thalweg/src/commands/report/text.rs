//! A report for the terminal.

use std::collections::HashMap;

use thalweg_monitor::{Component, Measured, Report, State, Stream, Task, Work, Worker, WorkerShares};
use thalweg_view::flow::Flow;
use thalweg_view::names::cut;

use crate::commands::look::Sort;
use crate::commands::report::{accounts, records};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Shape, ShapeArguments, Table, id, number, text, wrapped};
use crate::units::{bytes, count, counted, duration, rate, ratio, share};

/// How many rows of a report are shown, and in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// The largest number of rows of each table.
    pub(crate) top: usize,
    pub(crate) sort: Sort,
}

impl View {
    /// The first rows of `all`, in the requested order; `place` gives a row's place in the flow.
    fn rows<T, P: Ord>(self, all: &[T], place: impl Fn(&T) -> P, name: impl Fn(&T) -> &str) -> Vec<&T> {
        let mut rows: Vec<&T> = all.iter().take(self.top).collect();
        match self.sort {
            Sort::Load => {}
            Sort::Flow => rows.sort_by_cached_key(|row| place(row)),
            Sort::Name => rows.sort_by(|a, b| name(a).cmp(name(b))),
        }
        rows
    }
}

pub(crate) fn print(report: &Report, view: View, output: &mut Output) -> Result<(), Failure> {
    let text = render(report, view, output.width, &output.shape);
    output.text(&text)
}

/// The report as text for a file.
pub(crate) fn plain(report: &Report, view: View) -> String {
    render(report, view, 110, &Shape::new(&ShapeArguments::default(), usize::MAX, false))
}

/// The whole report as text of `width` characters a line, with tables in the layout `shape`.
fn render(report: &Report, view: View, width: usize, shape: &Shape) -> String {
    let mut out = String::new();
    let colour = shape.colour;
    let bold = |text: &str| if colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    out.push_str(&bold(&heading(report)));
    out.push('\n');
    out.push_str(&wrapped(&window(report), width, ""));
    out.push('\n');
    out.push_str(&bold(wrapped(&report.verdict.words.text, width, "").trim_end()));
    out.push('\n');
    if let Some(suggestion) = &report.verdict.words.suggestion {
        out.push_str(&wrapped(&format!("So {suggestion}."), width, ""));
    }
    out.push('\n');
    out.push_str(&throughput(report));
    out.push_str(&overhead(report, width));
    for table in tables(report, view) {
        let table = table.render(shape);
        if !table.is_empty() {
            out.push('\n');
            out.push_str(&table);
        }
    }
    out.push_str(&measurements(report, width, shape));
    for broken in &report.broken {
        let text = format!(
            "! {} (stream {}): {}; written {}, read {}, dropped {}.",
            broken.name,
            broken.id,
            broken.what,
            count(broken.written),
            count(broken.read),
            count(broken.dropped)
        );
        out.push('\n');
        out.push_str(&wrapped(&text, width, "  "));
    }
    if !report.notes.is_empty() {
        out.push('\n');
    }
    out.push_str(&note_lines(report, width));
    cut(&out).into_owned()
}

/// Prints what is missing from the report, and why.
pub(crate) fn notes(report: &Report, output: &mut Output) -> Result<(), Failure> {
    if !report.notes.is_empty() {
        output.line("")?;
    }
    output.text(&note_lines(report, output.width))
}

fn note_lines(report: &Report, width: usize) -> String {
    report.notes.iter().map(|note| wrapped(&format!("* {}", note.text), width, "  ")).collect()
}

/// The measurements that monitors other than the built-in ones made.
fn measurements(report: &Report, width: usize, shape: &Shape) -> String {
    let mut out = String::new();
    for measurement in &report.measurements {
        out.push('\n');
        match &measurement.value {
            Measured::Number(value) => {
                out.push_str(&format!("{}  {} {}\n", measurement.name, ratio(*value), measurement.unit));
            }
            Measured::Text(text) => {
                out.push_str(&wrapped(&format!("{}  {text}", measurement.name), width, "  "))
            }
            Measured::Table(rows) => {
                let mut table = Table::new(&[text(""), number("", 0)]);
                rows.iter().for_each(|(name, value)| table.row(vec![name.clone(), ratio(*value)], false));
                let table = table.render(shape);
                if !table.is_empty() {
                    out.push_str(&format!("{} ({})\n{table}", measurement.name, measurement.unit));
                }
            }
        }
    }
    out
}

fn heading(report: &Report) -> String {
    let space = &report.space;
    if !report.spaces.is_empty() {
        let processes = report.spaces.len();
        let plural = if processes == 1 { "process" } else { "processes" };
        return format!("{} (a session of {processes} {plural} on {})", space.name, space.host);
    }
    format!("{} (process {} on {})  {}", space.name, space.pid, space.host, space.command)
        .trim_end()
        .to_owned()
}

/// The line about the run's end, duration, mode and lost events.
fn window(report: &Report) -> String {
    let window = &report.window;
    let lasted = duration(window.duration_ns);
    let state = match window.state {
        State::Running => format!("running for {lasted}"),
        State::Ended => format!("ended after {lasted}"),
        State::Killed => format!("killed after {lasted}, without an orderly end"),
    };
    let state = match window.paused_ns {
        Some(rested) => format!("{state}, paused for the last {}", duration(rested)),
        None => state,
    };
    let modes: Vec<&str> = window.modes.iter().map(|span| span.mode.as_str()).collect();
    let mode = match modes.as_slice() {
        [] => "mode unknown".to_owned(),
        [mode] => format!("mode {mode}"),
        [first, .., last] if modes.len() > 4 => {
            format!("mode {first} … {last} ({} changes)", modes.len() - 1)
        }
        modes => format!("mode {}", modes.join(", then ")),
    };
    let lost = match (window.lost, window.gaps, window.events_ns) {
        (0, 0, _) => "none lost".to_owned(),
        (lost, _, Some(ns)) => format!("{} lost: the last {} are whole", count(lost), duration(ns)),
        (lost, _, None) => format!("{} lost", count(lost)),
    };
    format!("{state}, {mode}, {}, {lost}", counted(window.events, "event"))
}

fn throughput(report: &Report) -> String {
    let mut out = String::new();
    let throughput = &report.throughput;
    for (name, messages, per_s) in [
        ("in", throughput.messages_in, throughput.entry_per_s),
        ("out", throughput.messages_out, throughput.exit_per_s),
    ] {
        let Some(messages) = messages else { continue };
        let per_s = per_s.map_or(String::new(), |per_s| format!("  {}", rate(per_s)));
        out.push_str(&format!("{name:<11} {}{per_s}\n", counted(messages, "message")));
    }
    out
}

/// The line about the cost of observing the run.
fn overhead(report: &Report, width: usize) -> String {
    let overhead = &report.overhead;
    let (Some(part), Some(reading_ns)) = (overhead.share, overhead.clock_reading_ns) else {
        return String::new();
    };
    let per_s = overhead.bytes_per_s.map_or(String::new(), |per_s| format!(", {}/s", bytes(per_s as u64)));
    let text = format!(
        "observation about {} of the workers' time{per_s} (estimate: {reading_ns:.1} ns a reading of the clock, {} ns an event)",
        share(part),
        overhead.event_ns
    );
    wrapped(&text, width, "            ")
}

/// The table of latencies. Service is the execution time of an input message and all its descendants; end to
/// end is the time from its entry until its last descendant left.
fn latencies(report: &Report) -> Table {
    let mut table = Table::new(&[
        text("LATENCY"),
        number("P50", 0),
        number("P90", 0),
        number("P99", 0),
        number("MAX", 0),
        number("MEAN", 1),
        number("JITTER", 1),
        number("MESSAGES", 2),
    ]);
    let latency = &report.latency;
    let over_links = latency.over_links.as_ref().map_or(&None, |over| &over.end_to_end);
    let kinds = [
        ("service", &latency.service),
        ("waiting", &latency.waiting),
        ("end to end", &latency.end_to_end),
        ("across links", over_links),
    ];
    let of_components =
        report.components.iter().map(|component| (component.path.as_str(), &component.service));
    for (name, times) in kinds.into_iter().chain(of_components) {
        let Some(times) = times else { continue };
        let cells = [times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns, times.mean_ns, times.jitter_ns];
        let mut cells: Vec<String> = cells.into_iter().map(duration).collect();
        cells.insert(0, name.to_owned());
        cells.push(count(times.count));
        table.row(cells, false);
    }
    table
}

fn tables(report: &Report, view: View) -> Vec<Table> {
    let flow = Flow::of(report);
    let mut tables = vec![latencies(report), components(report, view, &flow)];
    // If each component has one task, the table of tasks would repeat the table of components.
    if report.tasks_count > report.components.len() as u64 {
        let place = |task: &Task| (flow.place_of_task(&task.name), task.id);
        let shown = view.rows(&report.tasks, place, |task| &task.name);
        tables.push(tasks(&shown.into_iter().cloned().collect::<Vec<_>>(), report.tasks_count));
    }
    tables.push(streams(report, view));
    tables.push(workers(&report.workers));
    tables.push(links(report));
    tables.push(accounts::table(report));
    tables.push(records::expensive(report, view.top));
    tables.push(records::behind(report, view.top));
    tables.retain(|table| !table.is_empty());
    tables
}

/// A cell that is empty if the value is unknown.
fn known<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
    value.map_or(String::new(), write)
}

fn nonzero(value: u64) -> String {
    if value == 0 { String::new() } else { count(value) }
}

fn work_cells(work: &Work) -> Vec<String> {
    vec![
        known(work.messages_in, count),
        known(work.messages_out, count),
        known(work.selectivity, ratio),
        known(work.shares, |shares| share(shares.busy)),
        known(work.shares, |shares| share(shares.input_wait)),
        known(work.shares, |shares| share(shares.output_wait)),
        known(work.shares, |shares| share(shares.ready)),
        known(work.service_ns, duration),
        nonzero(work.failed),
        nonzero(work.ended_badly),
    ]
}

fn more(shown: usize, all: u64) -> Option<String> {
    let hidden = all.saturating_sub(shown as u64);
    (hidden > 0).then(|| format!("… {} more (--top)", count(hidden)))
}

fn components(report: &Report, view: View, flow: &Flow) -> Table {
    let components = &report.components;
    let mut table = Table::new(&[
        text("COMPONENT"),
        text("KIND").loose().droppable(3),
        number("TASKS", 2),
        number("IN", 0),
        number("OUT", 0),
        number("OUT/IN", 4),
        number("BUSY", 0),
        number("NO INPUT", 0),
        number("NO ROOM", 0),
        number("READY", 0),
        number("A MESSAGE", 1),
        number("FAILED", 0),
        number("BROKEN OFF", 0),
    ]);
    let place = |component: &Component| flow.place(&component.path);
    for component in view.rows(components, place, |component| &component.path) {
        let mut cells = vec![component.path.clone(), component.kind.clone(), count(component.tasks)];
        cells.extend(work_cells(&component.work));
        table.row(cells, false);
    }
    table.more(more(components.len().min(view.top), components.len() as u64));
    table
}

pub(crate) fn tasks(tasks: &[Task], all: u64) -> Table {
    let mut table = Table::new(&[
        text("TASK"),
        id("ID", 6),
        number("WORKER", 3),
        number("IN", 0),
        number("OUT", 0),
        number("OUT/IN", 5),
        number("BUSY", 0),
        number("NO INPUT", 0),
        number("NO ROOM", 0),
        number("READY", 0),
        number("A MESSAGE", 1),
        number("FAILED", 0),
        number("BROKEN OFF", 0),
        text("STATE").loose().droppable(4),
    ]);
    for task in tasks {
        let worker = task.worker.map_or_else(|| "own".to_owned(), |worker| worker.to_string());
        let mut cells = vec![task.name.clone(), task.id.to_string(), worker];
        cells.extend(work_cells(&task.work));
        cells.push(task.state.clone());
        table.row(cells, false);
    }
    table.more(more(tasks.len(), all));
    table
}

/// The streams shown, each with a unique name.
pub(crate) fn streams_shown(report: &Report, view: View) -> Vec<(String, &Stream)> {
    let flow = Flow::of(report);
    let rows = view.rows(&report.streams, |stream| flow.place_of_stream(stream), |stream| &stream.name);
    let mut of_name: HashMap<&str, u64> = HashMap::new();
    report.streams.iter().for_each(|stream| *of_name.entry(&stream.name).or_default() += 1);
    let end = |path: &Option<String>| path.clone().unwrap_or_else(|| "?".to_owned());
    let named = rows.into_iter().map(|stream| match of_name[stream.name.as_str()] {
        1 => (stream.name.clone(), stream),
        _ => (format!("{} ({} → {})", stream.name, end(&stream.writer), end(&stream.reader)), stream),
    });
    named.collect()
}

pub(crate) fn streams(report: &Report, view: View) -> Table {
    let streams = &report.streams;
    let mut table = Table::new(&[
        text("STREAM"),
        number("STREAMS", 3),
        number("WRITTEN", 0),
        number("READ", 0),
        number("FAILED", 0),
        number("HELD", 0),
        number("DROPPED", 0),
        number("RATE", 2),
        number("ROOM", 5),
        number("MEAN", 4),
        number("MOST", 4),
        number("FULL", 0),
        number("EMPTY", 0),
        number("WAIT", 1),
        number("DATA", 2),
        number("SIZE", 2),
        number("SIZE P99", 3),
    ]);
    let anything = |value: &dyn Fn(&Stream) -> u64| streams.iter().any(|stream| value(stream) > 0);
    let held = anything(&|stream| stream.held.unwrap_or(0));
    let dropped = anything(&|stream| stream.dropped.unwrap_or(0));
    for (name, stream) in streams_shown(report, view) {
        let broken = stream.conserved == Some(false);
        let volume = stream.volume.as_ref();
        let cells = vec![
            if broken { format!("! {name}") } else { name },
            count(stream.streams),
            known(stream.written, count),
            known(stream.read, count),
            nonzero(stream.failed),
            known(stream.held.filter(|_| held), count),
            known(stream.dropped.filter(|_| dropped), count),
            known(stream.rate_per_s, rate),
            nonzero(stream.capacity),
            known(stream.occupancy_mean, |mean| format!("{mean:.1}")),
            known(stream.occupancy_max, count),
            known(stream.full_share, share),
            known(stream.empty_share, share),
            known(stream.wait_ns, duration),
            known(volume.and_then(|volume| volume.bytes_per_s), |per_s| format!("{}/s", bytes(per_s as u64))),
            known(volume, |volume| bytes(volume.mean_bytes.round() as u64)),
            known(volume.and_then(|volume| volume.p99_bytes), |p99| bytes(p99.round() as u64)),
        ];
        table.row(cells, broken);
    }
    table.more(more(streams.len().min(view.top), streams.len() as u64));
    table
}

/// The links to other nodes: those by which records leave, because only senders know what links waited for.
fn links(report: &Report) -> Table {
    let mut table = Table::new(&[
        text("LINKS OF"),
        text("TO NODE"),
        text("CARRIER"),
        number("LINKS", 2),
        number("MESSAGES", 0),
        number("BYTES", 1),
        number("ON THE WIRE", 0),
        number("QUEUED", 1),
        number("RECEIVER", 0),
        number("PORTS", 0),
        number("BANDWIDTH", 0),
        number("CONNECTION", 1),
        number("RESENT", 2),
    ]);
    for link in report.links.iter().filter(|link| link.direction == "out") {
        let time_ns = report.window.duration_ns * link.links as f64;
        let waited = |ns: f64| if time_ns > 0.0 { share((ns / time_ns).min(1.0)) } else { String::new() };
        let cells = vec![
            link.process.clone().unwrap_or_else(|| report.space.name.clone()),
            link.node.clone(),
            link.carrier.clone(),
            count(link.links),
            count(link.messages),
            bytes(link.payload_bytes),
            bytes(link.wire_bytes),
            bytes(link.queued_bytes),
            waited(link.credit_wait_ns),
            waited(link.port_wait_ns),
            waited(link.pace_wait_ns),
            waited(link.connection_wait_ns),
            if link.resent_bytes > 0 { bytes(link.resent_bytes) } else { String::new() },
        ];
        table.row(cells, false);
    }
    table
}

pub(crate) fn workers(workers: &[Worker]) -> Table {
    // Columns for the NUMA node and for parked time are shown only if the workers' nodes differ, or a worker
    // was parked: most machines have one node, and most runs park no worker.
    let nodes = workers.iter().any(|worker| worker.node != workers[0].node);
    let parked = workers.iter().any(|worker| worker.parked_ns > 0.0);
    let any = |part: fn(&WorkerShares) -> f64| {
        workers.iter().filter_map(|worker| worker.shares.as_ref()).any(|shares| part(shares) >= 0.0005)
    };
    let (own, kept) = (any(|shares| shares.own), any(|shares| shares.kept));
    let rest = any(|shares| shares.unaccounted);
    let mut columns = vec![
        text("WORKER"),
        number("CORE", 2),
        number("BUSY", 0),
        number("WAITING", 0),
        number("OWN WORK", 0),
        number("KEPT OFF", 0),
        number("REST", 0),
        number("PROCESSOR", 4),
        number("DISPATCHES", 1),
        number("MESSAGES", 1),
        number("LIVED", 3),
        text("IN"),
    ];
    columns.extend(nodes.then_some(number("NODE", 2)));
    columns.extend(parked.then_some(number("PARKED", 0)));
    let mut table = Table::new(&columns);
    for worker in workers {
        let mut cells = vec![
            worker.id.to_string(),
            known(worker.core, |core| core.to_string()),
            known(worker.shares, |shares| share(shares.busy)),
            known(worker.shares, |shares| share(shares.waiting)),
            known(worker.shares.filter(|_| own), |shares| share(shares.own)),
            known(worker.shares.filter(|_| kept), |shares| share(shares.kept)),
            known(worker.shares.filter(|_| rest), |shares| share(shares.unaccounted)),
            known(worker.cpu_ns.filter(|_| worker.lifetime_ns > 0.0), |ns| share(ns / worker.lifetime_ns)),
            known(worker.dispatches, count),
            known(worker.messages, count),
            duration(worker.lifetime_ns),
            known(worker.on_task.as_ref().zip(worker.on_message), |(task, message)| {
                format!("{task}, message {message}")
            }),
        ];
        cells.extend(nodes.then(|| known(worker.node, |node| node.to_string())));
        cells.extend(parked.then(|| duration(worker.parked_ns)));
        table.row(cells, worker.on_task.is_some());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        serde_json::from_str(include_str!("../../../tests/data/report.json")).unwrap()
    }

    fn shown(report: &Report, width: usize) -> String {
        render(report, View { top: 10, sort: Sort::Load }, width, &Shape::of(width))
    }

    /// Compares a text with a golden file; `UPDATE_GOLDEN=1 cargo test -p thalweg` writes the file anew.
    fn check(got: &str, name: &str) {
        let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, got).unwrap();
        }
        let want = std::fs::read_to_string(&path).unwrap();
        assert_eq!(got, want, "{name} differs:\n{got}");
    }

    #[test]
    fn golden_text() {
        check(&shown(&report(), 120), "report.txt");
    }

    #[test]
    fn fits_a_narrow_terminal() {
        let text = shown(&report(), 80);
        check(&text, "report-80.txt");
        for line in text.lines().skip(1) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn rows_in_the_order_of_the_flow() {
        let report = report();
        let flow = render(&report, View { top: 10, sort: Sort::Flow }, 120, &Shape::choosing(120, &["busy"]));
        let places: Vec<usize> = report
            .components
            .iter()
            .map(|component| flow.find(&format!("\n{}", component.path)).expect("it is shown"))
            .collect();
        // In the report the busiest components come first.
        assert!(places[3] < places[1] && places[1] < places[0] && places[0] < places[2], "{flow}");
        assert!(places[2] < places[4], "{flow}");
        assert!(!flow.contains("STREAM") && !flow.contains("NO INPUT"), "{flow}");
    }

    #[test]
    fn streams_of_one_name_do_not_look_alike() {
        let mut report = report();
        for stream in &mut report.streams {
            stream.name = "same".to_owned();
        }
        let streams = streams_shown(&report, View { top: 10, sort: Sort::Load });
        assert_eq!(streams.len(), report.streams.len());
        let names: std::collections::HashSet<String> = streams.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), report.streams.len(), "{names:?}");
    }

    #[test]
    fn expensive_records_and_those_behind_them_are_named() {
        let text = shown(&report(), 160);
        let line = |of: &str| {
            let title = text.find(of).unwrap_or_else(|| panic!("no {of}: {text}"));
            text[title..].lines().nth(1).unwrap_or_default().to_owned()
        };
        let expensive = line("EXPENSIVE IN");
        for cell in ["des/rounds/star/round", "<k> = 3", "10.0 %", "56.0 %", "10.5 µs", "917 ns"] {
            assert!(expensive.contains(cell), "{cell} in {expensive}");
        }
        let behind = line("ORDER KEPT BY");
        for cell in ["round[3]", "number 4711 {block, <k>=3}, and 11 others", "round[1]", "21.0 %"] {
            assert!(behind.contains(cell), "{cell} in {behind}");
        }
        // A report of a run in which no record stands out has no tables of expensive records.
        let mut even = report();
        even.expensive.clear();
        even.waiting.behind.clear();
        let text = shown(&even, 160);
        assert!(!text.contains("EXPENSIVE") && !text.contains("ORDER KEPT"), "{text}");
    }

    #[test]
    fn no_zeros_for_what_is_not_known() {
        let mut report = report();
        for component in &mut report.components {
            component.work = Work { messages_in: Some(7), messages_out: Some(7), ..Work::default() };
        }
        report.streams.clear();
        report.workers.clear();
        report.tasks_count = 0;
        report.expensive.clear();
        report.waiting.behind.clear();
        let text = shown(&report, 120);
        assert!(!text.contains("BUSY") && !text.contains("0.0 %"), "{text}");
    }
}
