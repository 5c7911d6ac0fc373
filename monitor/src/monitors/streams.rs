//! The messages of every stream, whether they add up, and how long they stay in the stream; streams of one
//! name between the same two components are summed.

use std::collections::HashMap;

use crate::composing::dispatch::{For, Wait, What};
use crate::composing::structure::{Role, Structure};
use crate::decoding::events::Observation;
use crate::decoding::observation::{LiveRow, Run, StreamTotals};
use crate::decoding::sizes::Sizes;
use crate::ids::{IdMap, StreamId};
use crate::monitor::{Batch, Moment, Monitor};
use crate::monitors::volume::{RecordedSizes, Volumes};
use crate::report::{self, BrokenStream, Occupancy, Report};
use crate::wording::counted;

/// The number of broken streams whose contradictions are kept for the report.
const BROKEN_MAX: usize = 1000;
/// The number of steps of the occupancy over time: when all are used, pairs of steps are merged.
const STEPS: usize = 32;

/// The monitor of streams: see the module.
#[derive(Default)]
pub(crate) struct Streams {
    streams: IdMap<Stream>,
    finished: Edges,
    sizes: RecordedSizes,
}

/// A stream's messages and their times in the stream.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// The messages that dispatches recorded since the start of the measurement.
    written: u64,
    read: u64,
    /// The number of messages in the stream at the start of the measurement.
    held_before: u64,
    /// The sum of the times, from `since`, at which messages were written; its difference from `read_times`
    /// is the time integral of the occupancy.
    written_times: i128,
    read_times: i128,
    since: Option<u64>,
    occupancy_max: u64,
    failed: u64,
    full_ticks: u64,
    empty_ticks: u64,
    course: Option<Box<Course>>,
}

impl Stream {
    /// Records that a dispatch from `start` to `end` wrote these messages.
    fn wrote(&mut self, run: &Run, start: u64, end: u64, capacity: u64) {
        self.course(end);
        self.written += run.count;
        self.written_times += self.times(run.count, start, end);
        self.occupancy_max = self.occupancy_max.max(self.held(capacity));
    }

    /// Records that a dispatch from `start` to `end` read these messages.
    fn read(&mut self, run: &Run, start: u64, end: u64) {
        self.course(end);
        self.read += run.count;
        self.read_times += self.times(run.count, start, end);
    }

    /// Extends the occupancy over time up to `time`.
    fn course(&mut self, time: u64) {
        let held = self.held(0);
        let course = self.course.get_or_insert_with(|| Box::new(Course::new(time)));
        course.until(time, held);
    }

    /// The sum of the times of `count` messages spread evenly over a dispatch, relative to `since`.
    fn times(&mut self, count: u64, start: u64, end: u64) -> i128 {
        let since = *self.since.get_or_insert(start);
        let twice_middle = (i128::from(start) - i128::from(since)) + (i128::from(end) - i128::from(since));
        i128::from(count) * twice_middle / 2
    }

    /// The number of messages written and not read, according to the events so far; at least 0, because
    /// events of the reader may come before those of the writer.
    fn held(&self, capacity: u64) -> u64 {
        let held = (self.held_before + self.written).saturating_sub(self.read);
        if capacity > 0 { held.min(capacity) } else { held }
    }

    /// Time integral of the occupancy until `end`, in message·ticks: the sum of all messages' times in the
    /// stream.
    fn occupancy_ticks(&self, end: u64) -> f64 {
        let Some(since) = self.since else { return 0.0 };
        let held = i128::from(self.held_before) + i128::from(self.written) - i128::from(self.read);
        let until_end = held * (i128::from(end) - i128::from(since));
        (until_end + self.read_times - self.written_times).max(0) as f64
    }

    fn restart(&mut self) {
        *self = Stream { held_before: self.held(0), ..Stream::default() };
    }
}

/// The number of messages in a stream over time, in at most [`STEPS`] steps.
#[derive(Clone, Debug)]
struct Course {
    begin: u64,
    step: u64,
    last: u64,
    /// Message·ticks by step.
    sums: Vec<f64>,
}

impl Course {
    fn new(begin: u64) -> Course {
        Course { begin, step: 1 << 10, last: begin, sums: Vec::new() }
    }

    /// Records that the stream held `held` messages from `last` to `time`.
    fn until(&mut self, time: u64, held: u64) {
        let from = self.last;
        self.last = time.max(from);
        self.add(from, self.last, held as f64);
    }

    fn add(&mut self, from: u64, to: u64, value: f64) {
        while to.saturating_sub(self.begin) > self.step * STEPS as u64 {
            self.coarsen();
        }
        let mut at = from.max(self.begin);
        while at < to {
            let step = ((at - self.begin) / self.step) as usize;
            let end = (self.begin + (step as u64 + 1) * self.step).min(to);
            if self.sums.len() <= step {
                self.sums.resize(step + 1, 0.0);
            }
            self.sums[step] += value * (end - at) as f64;
            at = end;
        }
    }

    fn coarsen(&mut self) {
        self.step *= 2;
        self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
    }

    /// Adds the occupancy of another stream.
    fn merge(&mut self, other: &Course) {
        let earlier = self.begin.saturating_sub(other.begin);
        if earlier > 0 {
            let mut begun = Course { step: self.step, ..Course::new(other.begin) };
            std::mem::swap(self, &mut begun);
            return [begun, other.clone()].iter().for_each(|course| self.merge(course));
        }
        for (n, sum) in other.sums.iter().enumerate() {
            let from = other.begin + n as u64 * other.step;
            self.add(from, from + other.step, sum / other.step as f64);
        }
        self.last = self.last.max(other.last);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct EdgeKey {
    name: u64,
    writer: u64,
    reader: u64,
    role: Role,
}

/// The streams whose events have all been read, summed by name and by the two components at their ends.
#[derive(Clone, Default)]
struct Edges {
    edges: HashMap<EdgeKey, Edge>,
    broken: Vec<Broken>,
    broken_count: u64,
}

#[derive(Clone, Debug)]
struct Broken {
    id: u64,
    name: u64,
    positions: StreamTotals,
    what: String,
}

#[derive(Clone, Debug, Default)]
struct Edge {
    streams: u64,
    capacity: u64,
    positions: StreamTotals,
    /// The number of streams with unknown positions.
    unknown: u64,
    held: u64,
    failed: u64,
    seen_read: u64,
    occupancy_ticks: f64,
    open_ticks: u64,
    occupancy_max: u64,
    full_ticks: u64,
    empty_ticks: u64,
    broken: u64,
    course: Option<Course>,
    volumes: Volumes,
}

/// The row of a stream in the live table.
#[derive(Clone, Copy, Default)]
struct Row {
    /// The stream's positions, if the stream is not closed.
    totals: Option<StreamTotals>,
    sizes: Option<Sizes>,
}

impl Monitor for Streams {
    fn name(&self) -> &str {
        "streams"
    }

    fn wants(&self) -> &[&str] {
        const COUNTS: &str = RecordedSizes::KINDS[0];
        const SIZES: &str = RecordedSizes::KINDS[1];
        &["run.dispatch", "run.wait", "run.stream_told", "net.record_failed", COUNTS, SIZES]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Dispatch(dispatch) => {
                    let (start, end) = (dispatch.start, dispatch.end);
                    for run in batch.writes(&dispatch) {
                        let capacity =
                            batch.structure().stream(run.stream).map_or(0, |stream| stream.capacity);
                        self.streams.entry(run.stream).or_default().wrote(run, start, end, capacity);
                    }
                    for run in batch.reads(&dispatch) {
                        self.streams.entry(run.stream).or_default().read(run, start, end);
                    }
                }
                What::Wait(wait) => self.waited(&wait),
                What::Runtime(Observation::RecordFailed(failed)) => {
                    self.streams.entry(failed.stream).or_default().failed += 1;
                }
                What::StreamTold { stream } => {
                    let removed = self.streams.remove(&stream).unwrap_or_default();
                    let row = Row { totals: None, sizes: self.sizes.remove(stream) };
                    self.finished.add(batch.structure(), stream, &removed, row, item.time);
                }
                What::Runtime(observation) => self.sizes.take(&observation),
                _ => {}
            }
        }
    }

    fn restart(&mut self, _time: u64) {
        self.finished = Edges::default();
        self.streams.values_mut().for_each(Stream::restart);
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let mut all = self.finished.clone();
        let rows = stream_rows(&moment.ending.rows);
        let mut open = self.streams.clone();
        for wait in moment.open.iter().filter_map(|open| open.wait) {
            add_wait(&mut open, &wait);
        }
        let mut ids: Vec<u64> = moment.structure.streams().map(|(id, _)| id).collect();
        ids.sort_unstable();
        let mut sizes = self.sizes.clone();
        for id in ids {
            let stream = open.remove(&id).unwrap_or_default();
            let row = rows.get(&id).copied().unwrap_or_default();
            let row = Row { sizes: sizes.remove(id).or(row.sizes), ..row };
            all.add(moment.structure, id, &stream, row, moment.end);
        }
        report.streams = all.edges.iter().map(|(key, edge)| edge_report(moment, key, edge)).collect();
        report.streams.sort_by(|a, b| {
            let inner = |stream: &report::Stream| stream.role == "inner";
            inner(a)
                .cmp(&inner(b))
                .then(b.written.cmp(&a.written))
                .then_with(|| a.name.cmp(&b.name))
                .then_with(|| a.role.cmp(&b.role))
        });
        all.broken.sort_by_key(|broken| broken.id);
        report.broken_count = all.broken_count;
        report.broken = all.broken.iter().map(|broken| broken_report(moment, broken)).collect();
    }
}

/// The rows of streams in the live table.
fn stream_rows(rows: &[LiveRow]) -> HashMap<u64, Row> {
    let mut found: HashMap<u64, Row> = HashMap::new();
    for row in rows {
        match *row {
            LiveRow::Stream { stream, totals, .. } => found.entry(stream).or_default().totals = Some(totals),
            LiveRow::Sizes { stream, sizes } => found.entry(stream).or_default().sizes = Some(sizes),
            _ => {}
        }
    }
    found
}

impl Streams {
    fn waited(&mut self, wait: &Wait) {
        add_wait(&mut self.streams, wait);
    }
}

/// Adds a wait to its stream. A task that waits for any of several streams is left out: no single stream made
/// it wait.
fn add_wait(streams: &mut IdMap<Stream>, wait: &Wait) {
    if !wait.certain {
        return;
    }
    let Some(stream) = streams.get_mut(&wait.stream) else { return };
    match wait.what {
        For::Turn => {}
        For::Input => stream.empty_ticks += wait.woken - wait.since,
        For::Room => stream.full_ticks += wait.woken - wait.since,
    }
}

impl Edges {
    /// Adds a stream.
    fn add(&mut self, structure: &Structure, id: u64, stream: &Stream, row: Row, end: u64) {
        let Some(of) = structure.stream(id) else { return };
        let end = of.closed.unwrap_or(end);
        let begin = structure.begin.unwrap_or(end);
        let (writer, reader) = structure.components_of(of);
        // If a window of the run is measured, and all of its dispatches are known, the number of messages
        // comes from the dispatches; else it comes from the stream's own positions.
        let seen = StreamTotals { written: stream.written, read: stream.read, dropped: 0 };
        let window = structure.restarted && structure.whole();
        let recorded = of.totals.or(row.totals).filter(|_| !window && !of.past);
        let positions =
            recorded.or((window || structure.whole() && seen != StreamTotals::default()).then_some(seen));
        let key = EdgeKey { name: of.name, writer, reader, role: of.role };
        let edge = self.edges.entry(key).or_default();
        edge.streams += 1;
        edge.capacity = edge.capacity.max(of.capacity);
        edge.failed += stream.failed;
        edge.seen_read += stream.read;
        edge.occupancy_ticks += stream.occupancy_ticks(end);
        edge.occupancy_max = edge.occupancy_max.max(stream.occupancy_max);
        edge.open_ticks += end.saturating_sub(of.opened.unwrap_or(begin).max(begin));
        edge.full_ticks += stream.full_ticks;
        edge.empty_ticks += stream.empty_ticks;
        if let Some(course) = &stream.course {
            match &mut edge.course {
                Some(all) => all.merge(course),
                none => *none = Some((**course).clone()),
            }
        }
        if let Some(sizes) = &row.sizes {
            // The sizes count as those of all messages of the stream, and as those of one message if the
            // number of messages is unknown.
            edge.volumes.add(sizes, positions.map_or(0, |known| known.written).max(1));
        }
        match positions {
            None => edge.unknown += 1,
            Some(positions) => {
                edge.positions.written = edge.positions.written.saturating_add(positions.written);
                edge.positions.read = edge.positions.read.saturating_add(positions.read);
                edge.positions.dropped = edge.positions.dropped.saturating_add(positions.dropped);
                let gone = positions.read.saturating_add(positions.dropped);
                edge.held += (stream.held_before + positions.written).saturating_sub(gone);
            }
        }
        let settled = of.closed.is_some() && !structure.restarted;
        let slack = if settled { 0 } else { of.capacity.max(64) };
        let Some(what) = contradiction(stream, recorded, slack, structure.whole()) else { return };
        edge.broken += 1;
        self.broken_count += 1;
        if self.broken.len() < BROKEN_MAX {
            let positions = positions.unwrap_or_default();
            self.broken.push(Broken { id, name: of.name, positions, what });
        }
    }
}

/// A sentence that says which numbers of messages of a stream do not add up. `whole` means that every event
/// of the run was read, in mode full. The positions of a stream that is open, or was open at the last
/// restart, are published at different moments, so they may differ by the stream's capacity, which is
/// `slack`.
fn contradiction(stream: &Stream, recorded: Option<StreamTotals>, slack: u64, whole: bool) -> Option<String> {
    let StreamTotals { written, read, dropped } = recorded?;
    let gone = read.saturating_add(dropped);
    if slack > 0 {
        return (gone > written.saturating_add(slack))
            .then(|| format!("read or dropped {}, only {written} written", counted(gone, "message")));
    }
    if gone > written {
        return Some(format!("read or dropped {} never written", counted(gone - written, "message")));
    }
    if gone < written {
        return Some(format!("{} written and neither read nor dropped", counted(written - gone, "message")));
    }
    if stream.failed > read {
        return Some(format!("{} failed, only {read} read", counted(stream.failed, "message")));
    }
    if whole && stream.written != written {
        return Some(format!(
            "its writer reports {} written, not {written}",
            counted(stream.written, "message")
        ));
    }
    if whole && stream.read != read {
        return Some(format!("its reader reports {} read, not {read}", counted(stream.read, "message")));
    }
    None
}

fn edge_report(moment: &Moment<'_>, key: &EdgeKey, edge: &Edge) -> report::Stream {
    let path = |site: u64| (site != 0).then(|| moment.names.site(site).path);
    let (writer, reader) = (path(key.writer), path(key.reader));
    let between = || format!("{} → {}", writer.as_deref().unwrap_or("?"), reader.as_deref().unwrap_or("?"));
    let known = edge.unknown < edge.streams;
    let seen = edge.seen_read > 0;
    let open = edge.open_ticks as f64;
    // If only a part of the events was read, the number of messages in a stream at its start is not known.
    let has_events = moment.whole && edge.open_ticks > 0;
    let per_s = 1e9 / moment.ns(edge.open_ticks / edge.streams.max(1));
    let rate_per_s = (known && edge.open_ticks > 0).then_some(edge.positions.read as f64 * per_s);
    let course = edge.course.as_ref().filter(|_| has_events && seen);
    report::Stream {
        name: moment.names.text(key.name).filter(|name| !name.is_empty()).unwrap_or_else(between),
        role: key.role.word().to_owned(),
        streams: edge.streams,
        capacity: edge.capacity,
        written: known.then_some(edge.positions.written),
        read: known.then_some(edge.positions.read.saturating_sub(edge.failed)),
        failed: edge.failed.min(edge.positions.read),
        held: known.then_some(edge.held),
        dropped: known.then_some(edge.positions.dropped),
        rate_per_s,
        occupancy_mean: (has_events && seen).then(|| edge.occupancy_ticks / open),
        occupancy_max: (has_events && seen).then_some(edge.occupancy_max),
        occupancy: course.map(|course| Occupancy {
            from_ns: moment.ns(course.begin.saturating_sub(moment.begin)),
            step_ns: moment.ns(course.step),
            messages: course.sums.iter().map(|sum| sum / course.step as f64).collect(),
        }),
        wait_ns: (has_events && seen)
            .then(|| edge.occupancy_ticks * moment.ns_per_tick / edge.seen_read as f64),
        full_share: has_events.then(|| edge.full_ticks as f64 / open),
        empty_share: has_events.then(|| edge.empty_ticks as f64 / open),
        conserved: known.then_some(edge.broken == 0),
        volume: edge.volumes.report(rate_per_s),
        writer,
        reader,
    }
}

fn broken_report(moment: &Moment<'_>, broken: &Broken) -> BrokenStream {
    BrokenStream {
        id: StreamId::of(broken.id),
        name: moment.names.text(broken.name).unwrap_or_else(|| format!("stream {}", broken.id)),
        written: broken.positions.written,
        read: broken.positions.read,
        dropped: broken.positions.dropped,
        what: broken.what.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, count: u64) -> Run {
        Run { stream: 1, first, count }
    }

    #[test]
    fn occupancy_is_the_sum_of_the_times_in_the_stream() {
        let mut stream = Stream::default();
        // Of 4 messages written at 100, 2 are read at 120 and 2 stay until 200, so the occupancy is 2·20 +
        // 2·100.
        stream.wrote(&run(0, 4), 100, 100, 8);
        stream.read(&run(0, 2), 120, 120);
        assert_eq!(stream.occupancy_ticks(200), 240.0);
        assert_eq!(stream.occupancy_max, 4);
        // The messages count as spread over their dispatches: on average, they are written at 50 and read at
        // 150.
        let mut stream = Stream::default();
        stream.wrote(&run(0, 10), 0, 100, 0);
        stream.read(&run(0, 10), 100, 200);
        assert_eq!(stream.occupancy_ticks(1000), 1000.0);
        // A window begins with 5 messages in the stream.
        stream.wrote(&run(10, 5), 1000, 1000, 0);
        stream.restart();
        stream.read(&run(10, 5), 1100, 1200);
        assert_eq!((stream.held(0), stream.read), (0, 5));
    }

    #[test]
    fn a_course_keeps_its_sum_however_long() {
        let mut course = Course::new(1000);
        let mut want = 0.0;
        for n in 0..10_000u64 {
            course.until(1000 + n * 700, n % 7);
            want += (n % 7) as f64 * if n == 0 { 0.0 } else { 700.0 };
        }
        assert!(course.sums.len() <= STEPS);
        assert!((course.sums.iter().sum::<f64>() - want).abs() < 1e-6 * want);
        let mut later = Course::new(500);
        later.until(2500, 3);
        course.merge(&later);
        assert_eq!(course.begin, 500);
        assert!((course.sums.iter().sum::<f64>() - want - 6000.0).abs() < 1e-6 * want);
    }

    #[test]
    fn contradictions() {
        let closed = |written, read, dropped| {
            (StreamTotals { written, read, dropped }, Stream { written, read, ..Stream::default() })
        };
        let check = |(recorded, stream): &(StreamTotals, Stream), whole| {
            contradiction(stream, Some(*recorded), 0, whole)
        };
        assert_eq!(check(&closed(5, 3, 2), true), None);
        assert!(check(&closed(5, 3, 1), false).unwrap().contains("1 message written and neither"));
        assert!(check(&closed(5, 3, 3), false).unwrap().contains("never written"));
        let mut other = closed(5, 5, 0);
        other.1.read = 4;
        assert_eq!(check(&other, false), None);
        assert!(check(&other, true).unwrap().contains("reports 4"));
        assert_eq!(contradiction(&other.1, Some(other.0), 64, true), None, "it is open");
    }
}
