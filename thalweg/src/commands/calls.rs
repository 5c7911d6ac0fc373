//! `thalweg calls`: shows which operations of a program call which, how often and how long they run, and
//! which fail.

mod budget;
mod graph;
mod sequence;

use std::collections::HashMap;
use std::time::Duration;

use thalweg_glob::Glob;
use thalweg_host::amount::time;
use thalweg_host::spaces;
use thalweg_monitor::{Calls, OperationCalls, PathNode, calls, sequences};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{ShapeArguments, Table, number, text as column};
use crate::units::{count, duration, rate, share};

const EXAMPLES: &str = "\
Examples:
  # the operations of the newest program with probes
  thalweg calls
  # which function calls which, from the outermost on
  thalweg calls --tree
  # what took longest, and what failed
  thalweg calls 4242 --slowest
  # a sequence diagram of the most frequent kind of trace
  thalweg calls --sequence mermaid
  # switch off what costs too much, while it runs
  thalweg calls 4242 --budget 2% --for 1m
  # the dependency graph of a session's components
  thalweg calls shop --graph svg --by component > g.svg";

/// The number of levels of a tree that are shown without `--depth`.
const DEPTH: usize = 12;

/// The arguments of `thalweg calls`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A space: its path, or a name or process id that `thalweg ls` shows; or a session, for the calls of all
    /// its processes. The newest space if omitted.
    #[arg(value_name = "SPACE|SESSION")]
    space: Option<String>,
    /// Show the calls by their paths from the outermost call, with counts and times.
    #[arg(long, conflicts_with_all = ["graph", "slowest", "json"])]
    tree: bool,
    /// Print the dependency graph: for Graphviz, or as a picture.
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["slowest", "json"])]
    graph: Option<Format>,
    /// The kind of the graph's nodes.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Operation, requires = "graph")]
    by: By,
    /// Show the slowest traces, and those whose outermost call failed, each with its calls by path.
    #[arg(long, conflicts_with = "json")]
    slowest: bool,
    /// Print the sequence diagram of the slowest trace of a class, which has all traces with the same calls
    /// in the same order.
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["tree", "graph", "slowest", "json", "operation"])]
    sequence: Option<sequence::Format>,
    /// The number of the class: class 1 has the most traces.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sequence", value_parser = clap::value_parser!(u32).range(1..))]
    class: u32,
    /// Print everything as one JSON object.
    #[arg(long)]
    json: bool,
    /// While the program runs, switch off the operations whose probes cost most for what they record, until
    /// all probes cost no more than this part of its processor time; switch operations on again when the
    /// budget permits. Reports the operations that are left out.
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with_all = ["tree", "graph", "slowest", "json", "operation"])]
    budget: Option<f64>,
    /// The length of a window in which costs are counted.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s", requires = "budget")]
    every: Duration,
    /// Keep the budget for this time, then switch all operations on again [default: until the program ends].
    #[arg(long = "for", value_name = "TIME", value_parser = time, requires = "budget")]
    for_time: Option<Duration>,
    /// Only operations of this name, where `*` stands for any characters but `/`, `**` for any, `?` for one.
    #[arg(long, value_name = "PATTERN")]
    operation: Option<String>,
    /// Show at most this many operations, callees of a node, and traces.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Levels of a tree.
    #[arg(long, value_name = "N", default_value_t = DEPTH)]
    depth: usize,
    #[command(flatten)]
    shape: ShapeArguments,
}

/// The format of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For Graphviz' `dot`.
    Dot,
    /// As a picture.
    Svg,
}

/// The kind of a graph's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Operations.
    Operation,
    /// Components: operations grouped by their names up to the last `::` or `.`, or by their files.
    Component,
    /// The processes in which operations are called.
    Process,
    /// The hosts on which operations are called.
    Host,
}

/// Parses `2%` or `0.5 %` into a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let part = number.filter(|number| *number > 0.0 && *number <= 100.0);
    part.map(|number| number / 100.0)
        .ok_or_else(|| format!("`{text}` is no percentage between 0 and 100, such as 2%"))
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    if let Some(budget) = arguments.budget {
        let wanted = budget::Wanted { budget, every: arguments.every, time: arguments.for_time };
        return budget::keep(
            arguments.space.as_deref(),
            &wanted,
            &mut Output::shaped(terminal, &arguments.shape),
        );
    }
    let mut feed = spaces::feed(arguments.space.as_deref())?;
    if let Some(format) = arguments.sequence {
        let all = sequences(&mut feed).map_err(Failure::usage)?;
        let Some(one) = all.get(arguments.class as usize - 1) else {
            return Err(Failure::Usage(format!(
                "there are {} classes of traces here, and no class {}",
                all.len(),
                arguments.class
            )));
        };
        let mut output = Output::shaped(terminal, &arguments.shape);
        output.text(&sequence::printed(one, arguments.class as usize, all.len(), format))?;
        return output.flush();
    }
    let mut calls = calls(&mut feed, arguments.top).map_err(Failure::usage)?;
    let mut output = Output::shaped(terminal, &arguments.shape);
    if let Some(pattern) = &arguments.operation {
        only(&mut calls, &Glob::new(pattern));
    }
    if arguments.json {
        let json = serde_json::to_string_pretty(&calls)
            .map_err(|error| Failure::run("cannot write the calls as JSON", error))?;
        output.line(&json)?;
        return output.flush();
    }
    if let Some(format) = arguments.graph {
        output.text(&match format {
            Format::Dot => graph::dot(&calls, arguments.by),
            Format::Svg => graph::svg(&calls, arguments.by, arguments.top.max(40)),
        })?;
        return output.flush();
    }
    if calls.calls == 0 && calls.counters.is_empty() && calls.gauges.is_empty() && calls.log.is_empty() {
        output.line(
            "No call was recorded here. Probes record them: docs/probes.md says how a program gets them; \
             `thalweg events` shows what else it recorded.",
        )?;
    } else if arguments.tree {
        tree(&calls, &calls.tree, arguments, &mut output)?;
    } else if arguments.slowest {
        slowest(&calls, arguments, &mut output)?;
    } else {
        summary(&calls, arguments, &mut output)?;
    }
    notes(&calls, &mut output)?;
    output.flush()
}

/// Keeps only the operations whose names match the pattern, their callers, and the operations that they call.
fn only(calls: &mut Calls, pattern: &Glob) {
    calls.operations.retain(|operation| pattern.matches(&operation.name));
    let is_left = |id: u32| calls.operations.iter().any(|operation| operation.id == id);
    calls.edges.retain(|edge| is_left(edge.callee) || edge.caller.is_some_and(is_left));
}

/// The operations by their ids.
fn names(calls: &Calls) -> HashMap<u32, &OperationCalls> {
    calls.operations.iter().map(|operation| (operation.id, operation)).collect()
}

/// A number with its noun, in the singular or plural.
fn several(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

fn summary(calls: &Calls, arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let known = names(calls);
    let sentence = format!(
        "{} of {} in {}, within {}.",
        several(calls.calls, "call"),
        several(calls.operations.len() as u64, "operation"),
        several(calls.traces, "trace"),
        duration(calls.seconds * 1e9)
    );
    output.line(&output.styled("1", &sentence))?;
    output.line("")?;
    let mut table = Table::new(&[
        column("OPERATION"),
        number("CALLS", 0),
        number("RATE", 4),
        number("ERRORS", 0),
        number("OWN", 0),
        number("OWN SHARE", 2),
        number("OWN P50", 3),
        number("OWN P99", 3),
        number("TOTAL P50", 1),
        number("TOTAL P99", 1),
        column("MOSTLY BY").loose().droppable(5),
    ]);
    let own: f64 = calls.operations.iter().map(|operation| operation.own.sum_ns).sum();
    for operation in calls.operations.iter().take(arguments.top) {
        let callers = calls.edges.iter().filter(|edge| edge.callee == operation.id);
        let most = callers.max_by_key(|edge| edge.count);
        let by = match most.map(|edge| edge.caller) {
            Some(Some(caller)) => known.get(&caller).map_or("", |caller| caller.name.as_str()),
            _ => "",
        };
        let cells = vec![
            operation.name.clone(),
            count(operation.count),
            rate(operation.rate),
            count(operation.failed + operation.unwound),
            duration(operation.own.sum_ns),
            share(if own > 0.0 { operation.own.sum_ns / own } else { 0.0 }),
            duration(operation.own.p50_ns),
            duration(operation.own.p99_ns),
            duration(operation.total.p50_ns),
            duration(operation.total.p99_ns),
            by.to_owned(),
        ];
        table.row(cells, false);
    }
    let more = calls.operations.len().saturating_sub(arguments.top);
    table.more((more > 0).then(|| format!("… and {} operations more (--top)", count(more as u64))));
    output.table(&table)?;
    others(calls, output)
}

/// Prints counters, gauges, and calls under way.
fn others(calls: &Calls, output: &mut Output) -> Result<(), Failure> {
    if !calls.counters.is_empty() {
        let mut table = Table::new(&[column("COUNTER"), number("SUM", 0), number("TIMES", 0)]);
        for counter in &calls.counters {
            table.row(vec![counter.name.clone(), counter.sum.to_string(), count(counter.count)], false);
        }
        output.line("")?;
        output.table(&table)?;
    }
    if !calls.gauges.is_empty() {
        let titles =
            [column("GAUGE"), number("LAST", 0), number("LEAST", 0), number("MOST", 0), number("TIMES", 0)];
        let mut table = Table::new(&titles);
        for gauge in &calls.gauges {
            let shown =
                |value: f64| format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned();
            let cells = vec![
                gauge.name.clone(),
                shown(gauge.last),
                shown(gauge.min),
                shown(gauge.max),
                count(gauge.count),
            ];
            table.row(cells, false);
        }
        output.line("")?;
        output.table(&table)?;
    }
    if !calls.open.is_empty() {
        let mut table = Table::new(&[column("UNDER WAY"), number("SINCE", 0)]);
        for call in &calls.open {
            table.row(vec![call.name.clone(), duration((calls.seconds - call.begin_s) * 1e9)], false);
        }
        output.line("")?;
        output.table(&table)?;
    }
    Ok(())
}

/// A tree of paths, indented: the callees with the most time first.
fn tree(
    calls: &Calls,
    nodes: &[PathNode],
    arguments: &Arguments,
    output: &mut Output,
) -> Result<(), Failure> {
    let known = names(calls);
    let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        below.entry(node.parent).or_default().push(at);
    }
    for children in below.values_mut() {
        children.sort_by(|a, b| nodes[*b].total_ns.total_cmp(&nodes[*a].total_ns).then(a.cmp(b)));
    }
    let mut table = Table::new(&[
        column("CALL"),
        number("CALLS", 0),
        number("ERRORS", 0),
        number("TOTAL", 0),
        number("OWN", 0),
    ]);
    let mut left_out = 0;
    // The stack of nodes to visit, with their levels.
    let mut next: Vec<(usize, usize)> = Vec::new();
    let push = |next: &mut Vec<(usize, usize)>, parent: Option<usize>, level: usize, left_out: &mut usize| {
        let children = below.get(&parent).map_or(&[][..], Vec::as_slice);
        let shown = if level < arguments.depth { children.len().min(arguments.top) } else { 0 };
        *left_out += children.len() - shown;
        next.extend(children[..shown].iter().rev().map(|child| (*child, level)));
    };
    push(&mut next, None, 0, &mut left_out);
    while let Some((at, level)) = next.pop() {
        let node = &nodes[at];
        let name = known.get(&node.operation).map_or("(another)", |operation| operation.name.as_str());
        let arrow = if node.is_remote { "→ " } else { "" };
        let cells = vec![
            format!("{}{arrow}{name}", "  ".repeat(level)),
            count(node.count),
            count(node.failed),
            duration(node.total_ns),
            duration(node.own_ns),
        ];
        table.row(cells, false);
        push(&mut next, Some(at), level + 1, &mut left_out);
    }
    table.more(
        (left_out > 0).then(|| format!("… and {} paths more (--top, --depth)", count(left_out as u64))),
    );
    output.table(&table)
}

fn slowest(calls: &Calls, arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    for trace in &calls.slowest {
        let failed = if trace.is_failed { ", which failed" } else { "" };
        let begin = duration(trace.begin_s * 1e9);
        let title = format!("{} from {begin} on{failed}", duration(trace.total_ns));
        output.line(&output.styled("1", &title))?;
        tree(calls, &trace.tree, arguments, output)?;
        output.line("")?;
    }
    Ok(())
}

fn notes(calls: &Calls, output: &mut Output) -> Result<(), Failure> {
    let mut notes = Vec::new();
    if calls.sample > 1 {
        notes.push(format!("one trace in {} is recorded (probe.sample)", count(calls.sample)));
    }
    if calls.lost > 0 {
        notes.push(format!(
            "{} events are lost: overwritten, or dropped; times of operations are of the calls that are left",
            count(calls.lost)
        ));
    }
    if calls.not_recorded > 0 {
        notes.push(format!(
            "{} events found no room on the file system (probe.lost)",
            count(calls.not_recorded)
        ));
    }
    let incomplete: u64 = calls.operations.iter().map(|operation| operation.incomplete).sum();
    if incomplete > 0 {
        notes
            .push(format!("{} calls have lost some of those that they made: no own time", count(incomplete)));
    }
    notes.extend(calls.notes.iter().cloned());
    if !notes.is_empty() {
        output.line("")?;
    }
    for note in notes {
        output.line(&format!("note: {note}"))?;
    }
    Ok(())
}
