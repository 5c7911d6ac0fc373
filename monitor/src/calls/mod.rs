//! The calls of a program: the events of its probes, assembled into trees and summed by operation, by caller
//! and by path.
//!
//! [`calls`] reads a feed from its oldest event to its present end, in memory that is bounded by the number
//! of operations, of pairs of caller and callee, and of paths (up to a limit, which the notes state). Trees
//! are made per thread ([`assembly`]), and joined over threads and processes by the spans of hand-overs and
//! messages ([`paths`]). The figures follow Kieker's: total and own time of an operation, dynamic call trees,
//! call trees aggregated by path, dependency graphs (van Hoorn, Waller, Hasselbring, ICPE 2012).

mod assembly;
mod events;
mod operations;
mod paths;
mod report;
mod sequence;
mod symbols;
mod times;

pub use report::{
    Calls, Counter, Edge, Gauge, LogLine, OpenCall, OperationCalls, PathNode, SlowTrace, TimesOf,
};
pub use sequence::{Sequence, SequenceCall, sequences};

use assembly::{Ended, Placed, Takes, Thread, Trace};
use events::{Decoder, Outcome, ProbeRecord};
use operations::{Operations, component};
use paths::Paths;
use std::collections::{BTreeMap, HashMap, VecDeque};
use thalweg_space::Error;
use thalweg_space::reader::{Event, Feed, Item, SpaceReader};
use times::Times;

/// The number of items read from the feed at a time.
const POLL_ITEMS: usize = 1 << 14;
/// The maximal number of pairs of caller and callee.
const EDGES_MAX: usize = 1 << 18;
/// The number of log lines kept.
const LOG_MAX: usize = 100;
/// The version of [`Calls`].
const VERSION: u32 = 1;

/// The calls that the probes of a space or session have recorded so far, with the slowest `top` traces.
///
/// # Errors
/// When nothing can be read. Damaged files are read as far as possible, and a note says so.
pub fn calls(feed: &mut impl Feed, top: usize) -> Result<Calls, Error> {
    calls_while(feed, top, |is_all| !is_all)
}

/// The calls that are recorded while `goes_on` returns true. `goes_on` is called repeatedly, with whether all
/// existing events have been read. A feed that is passed a second time continues where it stopped.
///
/// # Errors
/// As [`calls`].
pub fn calls_while(
    feed: &mut impl Feed,
    top: usize,
    mut goes_on: impl FnMut(bool) -> bool,
) -> Result<Calls, Error> {
    let mut reading = Reading { top, ..Reading::default() };
    let looked = feed.look();
    if feed.spaces().is_empty() {
        looked?;
    } else if let Err(error) = looked {
        reading.notes.push(error.to_string());
    }
    loop {
        let mut clocks = std::mem::take(&mut reading.clocks);
        for space in &feed.spaces()[clocks.len()..] {
            clocks.push(Origin::of(space)?);
        }
        reading.clocks = clocks;
        // The feed is borrowed while it passes on items, so work that needs the feed's spaces is done after
        // the call.
        let mut items = Vec::new();
        let polled = feed.poll(POLL_ITEMS, &mut |place, item| items.extend(reading.heard(place, &item)));
        for (place, heard) in items {
            reading.take(place, &feed.spaces()[place], heard);
        }
        match polled {
            // A batch that is not full ends what was there when the feed looked for events.
            Ok(count) if !goes_on(count < POLL_ITEMS) => break,
            Ok(_) => {}
            Err(error) if reading.notes.iter().any(|note| *note == error.to_string()) => break,
            Err(error) => reading.notes.push(error.to_string()),
        }
    }
    let spaces = feed.spaces();
    Ok(reading.report(spaces))
}

/// The process that records a space, and the length of a tick of its clock.
#[derive(Clone, Debug)]
struct Origin {
    process: ([u8; 16], u32, u64),
    tick_ns: f64,
    first_real_ns: u64,
    first_ticks: u64,
}

impl Origin {
    fn of(space: &SpaceReader) -> Result<Origin, Error> {
        let info = space.info()?;
        let anchor = info.clock.anchor();
        Ok(Origin {
            process: (info.boot_id, info.pid, info.process_start),
            tick_ns: 1e9 / info.clock.hz(),
            first_real_ns: anchor.real_ns,
            first_ticks: anchor.ticks,
        })
    }

    fn real_ns(&self, ticks: u64) -> f64 {
        self.first_real_ns as f64 + ticks.wrapping_sub(self.first_ticks) as i64 as f64 * self.tick_ns
    }
}

/// An item that concerns calls.
enum Heard {
    Recorded { thread: u32, time: u64, recorded: ProbeRecord },
    Lost { writer: u32, count: u64 },
}

/// A thread's unique key among all processes.
type ThreadKey = (([u8; 16], u32, u64), u32);

#[derive(Default)]
struct Reading {
    top: usize,
    clocks: Vec<Origin>,
    decoders: Vec<Decoder>,
    /// The thread of each writer.
    writers: HashMap<(usize, u32), u32>,
    threads: HashMap<ThreadKey, Thread>,
    state: State,
    lost: u64,
    first: Option<f64>,
    last: f64,
    counters: BTreeMap<String, (i64, u64)>,
    gauges: BTreeMap<String, Gauge>,
    log: VecDeque<LogLine>,
    notes: Vec<String>,
}

/// The state that calls and traces update.
#[derive(Default)]
struct State {
    operations: Operations,
    edges: HashMap<(Option<u32>, u32, bool), Edge>,
    paths: Paths,
    slowest: Vec<(f64, Kept)>,
    top: usize,
    calls: u64,
    traces: u64,
    orphans: u64,
    edges_left_out: u64,
    /// The process and clock of the space whose event is being processed.
    origin: Option<Origin>,
}

struct Kept {
    begin: f64,
    is_failed: bool,
    tree: Vec<PathNode>,
}

impl Reading {
    fn heard(&mut self, place: usize, item: &Item<'_>) -> Option<(usize, Heard)> {
        match item {
            Item::Gap { writer, lost, .. } => Some((place, Heard::Lost { writer: *writer, count: *lost })),
            Item::Event(event) => self.event(place, event).map(|heard| (place, heard)),
        }
    }

    fn event(&mut self, place: usize, event: &Event<'_>) -> Option<Heard> {
        if self.decoders.len() <= place {
            self.decoders.resize_with(place + 1, Decoder::default);
        }
        let recorded = self.decoders[place].read(event)?;
        // A writer whose thread is not known counts as a thread of its own.
        let thread = if event.thread == 0 { event.writer } else { event.thread };
        Some(Heard::Recorded { thread, time: event.time, recorded })
    }

    fn take(&mut self, place: usize, space: &SpaceReader, heard: Heard) {
        let origin = self.clocks[place].clone();
        match heard {
            Heard::Lost { writer, count } => {
                self.lost += count;
                // The thread of a writer is not known if no earlier event named it; then the loss is recorded
                // for all threads of the process.
                let of_writer = self.writers.get(&(place, writer)).copied();
                for (key, thread) in &mut self.threads {
                    if key.0 == origin.process && of_writer.is_none_or(|thread| thread == key.1) {
                        thread.lose();
                    }
                }
                self.writers.entry((place, writer)).or_insert(0);
            }
            Heard::Recorded { thread, time, recorded } => {
                self.recorded(place, space, origin, (thread, time, recorded))
            }
        }
    }

    fn recorded(
        &mut self,
        place: usize,
        space: &SpaceReader,
        origin: Origin,
        (thread, time, recorded): (u32, u64, ProbeRecord),
    ) {
        let real = origin.real_ns(time);
        let earliest = match &recorded {
            ProbeRecord::Called { ticks, .. } => real - *ticks as f64 * origin.tick_ns,
            _ => real,
        };
        let first = *self.first.insert(self.first.map_or(earliest, |first| first.min(earliest)));
        self.last = self.last.max(real);
        let second = (real - first) / 1e9;
        let is_shared = self.clocks.iter().filter(|other| other.process == origin.process).count() > 1;
        let key = (origin.process, thread);
        let gaps_before = self.lost > 0 && !self.threads.contains_key(&key);
        let state = self.threads.entry(key).or_default();
        state.is_shared = is_shared;
        if gaps_before {
            state.lose();
        }
        let tick_ns = origin.tick_ns;
        self.state.top = self.top;
        self.state.origin = Some(origin);
        match recorded {
            ProbeRecord::Called { what, depth, outcome, ticks, is_resumed } => {
                let operation = self.state.operations.number(place, space, what);
                let (writer, begin, end) = (place, time.saturating_sub(ticks), time);
                let call = Ended { operation, writer, depth, outcome, is_resumed, begin, end, tick_ns };
                state.end(call, &mut self.state);
            }
            ProbeRecord::Entered { what, depth } => {
                let operation = self.state.operations.number(place, space, what);
                state.enter(place, depth, operation, time);
            }
            ProbeRecord::Left { what, depth, outcome } => {
                let operation = self.state.operations.number(place, space, what);
                // If the start of a call was lost, its duration is not known, so the call is left out.
                if let Some(begin) = state.leave(place, depth, operation) {
                    let (writer, end, is_resumed) = (place, time, false);
                    let call = Ended { operation, writer, depth, outcome, is_resumed, begin, end, tick_ns };
                    state.end(call, &mut self.state);
                }
            }
            ProbeRecord::Continues { span } => state.follow(span, time),
            ProbeRecord::Went { span, depth } => state.send(span, depth, place, time),
            ProbeRecord::Counted { counter, by } => {
                let counter =
                    self.counters.entry(self.state.operations.name(place, space, counter)).or_default();
                *counter = (counter.0.saturating_add(by), counter.1 + 1);
            }
            ProbeRecord::Gauged { gauge, value } => {
                let name = self.state.operations.name(place, space, gauge);
                let new = || Gauge { name: name.clone(), min: value, max: value, ..Gauge::default() };
                let gauge = self.gauges.entry(name.clone()).or_insert_with(new);
                (gauge.last, gauge.count) = (value, gauge.count + 1);
                (gauge.min, gauge.max) = (gauge.min.min(value), gauge.max.max(value));
            }
            ProbeRecord::Logged { place: site, level, text } => {
                const LEVELS: [&str; 6] = ["", "error", "warning", "info", "debug", "trace"];
                let level = LEVELS.get(level as usize).copied().unwrap_or("");
                let place = self.state.operations.name(place, space, site);
                self.log.push_back(LogLine { time_s: second, level, place, text });
                if self.log.len() > LOG_MAX {
                    self.log.pop_front();
                }
            }
        }
    }

    fn report(mut self, spaces: &[SpaceReader]) -> Calls {
        let first = self.first.unwrap_or(0.0);
        let seconds = if self.first.is_some() { (self.last - first) / 1e9 } else { 0.0 };
        let mut keys: Vec<ThreadKey> = self.threads.keys().copied().collect();
        keys.sort_unstable();
        let mut open = Vec::new();
        for key in keys {
            let thread = self.threads.get_mut(&key).expect("a key of it");
            let origin = self.clocks.iter().find(|origin| origin.process == key.0).cloned();
            for (operation, time) in thread.open() {
                let name = self.state.operations.all[operation as usize].name.clone();
                let begin_s = origin.as_ref().map_or(0.0, |origin| (origin.real_ns(time) - first) / 1e9);
                open.push(OpenCall { name, begin_s });
            }
            self.state.origin = origin;
            thread.finish(&mut self.state);
        }
        let tree = self.state.paths.finish();
        for (caller, node) in std::mem::take(&mut self.state.paths.remote) {
            let failed = node.failed + node.unwound;
            self.state.edge(Some(caller), node.operation, true, (node.count, failed, node.total_ns));
        }
        let mut calls = Calls {
            version: VERSION,
            seconds,
            calls: self.state.calls,
            lost: self.lost,
            traces: self.state.traces,
            sample: 1,
            tree,
            open,
            notes: std::mem::take(&mut self.notes),
            ..Calls::default()
        };
        let counters = std::mem::take(&mut self.counters).into_iter();
        calls.counters = counters.map(|(name, (sum, count))| Counter { name, sum, count }).collect();
        calls.gauges = std::mem::take(&mut self.gauges).into_values().collect();
        calls.log = std::mem::take(&mut self.log).into();
        self.state.fill(&mut calls, first);
        for setting in spaces.iter().flat_map(|space| space.settings().unwrap_or_default()) {
            match setting.name.as_str() {
                "probe.sample" => calls.sample = calls.sample.max(setting.value),
                "probe.lost" => calls.not_recorded += setting.value,
                _ => {}
            }
        }
        calls
    }
}

impl State {
    fn edge(
        &mut self,
        caller: Option<u32>,
        callee: u32,
        is_remote: bool,
        (count, failed, total_ns): (u64, u64, f64),
    ) {
        let key = (caller, callee, is_remote);
        if self.edges.len() >= EDGES_MAX && !self.edges.contains_key(&key) {
            self.edges_left_out += 1;
            return;
        }
        let new = || Edge { caller, callee, is_remote, ..Edge::default() };
        let edge = self.edges.entry(key).or_insert_with(new);
        edge.count += count;
        edge.failed += failed;
        edge.total_ns += total_ns;
    }

    /// The figures of operations, edges and traces.
    fn fill(&mut self, calls: &mut Calls, first: f64) {
        let rate = |count: u64| if calls.seconds > 0.0 { count as f64 / calls.seconds } else { 0.0 };
        let of = |times: &Times| TimesOf {
            sum_ns: times.sum,
            p50_ns: times.quantile(0.5),
            p99_ns: times.quantile(0.99),
            max_ns: times.max,
        };
        for (id, operation) in self.operations.all.iter().enumerate() {
            if operation.total.count > 0 {
                calls.operations.push(OperationCalls {
                    id: id as u32,
                    name: operation.name.clone(),
                    component: component(&operation.name, &operation.file),
                    process: operation.processes.join(", "),
                    host: operation.hosts.join(", "),
                    file: operation.file.clone(),
                    line: operation.line,
                    count: operation.total.count - operation.resumed,
                    rate: rate(operation.total.count - operation.resumed),
                    resumed: operation.resumed,
                    failed: operation.failed,
                    unwound: operation.unwound,
                    total: of(&operation.total),
                    own: of(&operation.own),
                    incomplete: operation.incomplete,
                });
            }
        }
        calls.operations.sort_by(|a, b| b.own.sum_ns.total_cmp(&a.own.sum_ns).then(a.name.cmp(&b.name)));
        calls.edges = std::mem::take(&mut self.edges).into_values().collect();
        calls.edges.sort_by(|a, b| {
            b.total_ns.total_cmp(&a.total_ns).then((a.caller, a.callee).cmp(&(b.caller, b.callee)))
        });
        let traces = std::mem::take(&mut self.slowest).into_iter();
        calls.slowest = traces
            .map(|(total_ns, Kept { begin, is_failed, tree })| SlowTrace {
                begin_s: (begin - first) / 1e9,
                total_ns,
                is_failed,
                tree,
            })
            .collect();
        let mut note = |count: u64, text: &str| {
            if count > 0 {
                calls.notes.push(format!("{count} {text}"));
            }
        };
        let resumed = self.operations.all.iter().map(|operation| operation.resumed).sum();
        note(
            resumed,
            "stretches of calls that had paused (polls of async functions) add to times and not to calls; percentiles are of single stretches",
        );
        note(self.orphans, "calls have lost their caller, or it has not ended: they stand as outermost ones");
        note(self.paths.not_linked, "traces continue others that are not here: they stand for themselves");
        note(self.paths.not_placed, "calls are left out of the tree: it has 100,000 paths");
        note(self.edges_left_out, "calls between operations are left out: there are more pairs than 262,144");
    }
}

impl Takes for State {
    fn call(&mut self, call: &Ended, placed: Placed) {
        self.calls += u64::from(!call.is_resumed);
        let operation = &mut self.operations.all[call.operation as usize];
        operation.resumed += u64::from(call.is_resumed);
        operation.failed += u64::from(call.outcome == Outcome::Failed);
        operation.unwound += u64::from(call.outcome == Outcome::Unwound);
        operation.total.record(call.end.saturating_sub(call.begin) as f64 * call.tick_ns);
        if placed.is_incomplete {
            operation.incomplete += 1;
        } else {
            operation.own.record(placed.own_ns);
        }
        for callee in placed.callees {
            let figures = (callee.count, callee.failed, callee.total_ns);
            self.edge(Some(call.operation), callee.operation, false, figures);
        }
    }

    fn trace(&mut self, trace: Trace) {
        let Trace { root, begin, continues, is_orphan } = trace;
        if is_orphan {
            self.orphans += root.count;
        } else {
            self.traces += root.count;
        }
        let failed = root.failed + root.unwound;
        if continues == 0 {
            self.edge(None, root.operation, false, (root.count, failed, root.total_ns));
        }
        // Of the successful traces and of the failed ones, the slowest are kept, up to the same number.
        let is_failed = failed > 0;
        let alike = |kept: &(f64, Kept)| kept.1.is_failed == is_failed;
        let least =
            self.slowest.iter().filter(|kept| alike(kept)).map(|kept| kept.0).fold(f64::INFINITY, f64::min);
        let is_full = self.slowest.iter().filter(|kept| alike(kept)).count() >= self.top;
        if !is_orphan && self.top > 0 && (!is_full || root.total_ns > least) {
            if is_full && let Some(at) = self.slowest.iter().position(|kept| alike(kept) && kept.0 <= least) {
                self.slowest.remove(at);
            }
            let begin = self.origin.as_ref().map_or(0.0, |origin| origin.real_ns(begin));
            let kept = Kept { begin, is_failed, tree: paths::of_one(root.clone()) };
            self.slowest.push((root.total_ns, kept));
            self.slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
        }
        self.paths.add(root, continues);
    }
}
