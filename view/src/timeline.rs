//! The state of every task over time: a monitor that keeps the last spans exactly, and sums of all spans.
//!
//! A task's time is a row of spans: it runs, or it waits for messages, for room, or for its worker.
//! [`Timeline`] keeps a limited number of the last spans of all tasks exactly, and a [`Summary`] of each
//! lane: memory is bounded, whatever the run does. Tasks beyond [`LANES_MAX`] share the lane of their
//! component, in which times of several tasks are added.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_monitor::{
    Batch, Dispatch, For, IdMap, LINK_COUNTED, LinkEnds, LiveRow, Moment, Monitor, Observation, Report, Role,
    Wait, What,
};

use crate::counting::Counting;
use crate::decisions::{DECISIONS_MAX, decided};
use crate::lanes::{Decided, GapPage, NONE, Process, Spans, TaskLane, TimelinePage, WorkerLane};
use crate::levels::{KnownTask, Levels};
use crate::links::{self, LinkPage};
use crate::summary::{STATES, State, Summary};

/// The largest number of tasks with a lane of their own.
const LANES_MAX: usize = 512;
/// The number of cells of all lanes' summaries together; [`LANE_CELLS_MIN`] is the least number for a lane.
const CELLS_MAX: usize = 1 << 18;
const LANE_CELLS_MIN: usize = 1 << 9;
/// The largest number of cells of a lane that are written; the next constant is the number while a run goes
/// on, which is smaller because the cells are written repeatedly and a viewer can ask for more.
const LANE_CELLS_WRITTEN: u64 = 1 << 10;
const LANE_CELLS_LIVE: u64 = 1 << 8;
/// If more spans than this were recorded between two updates of a live run, no single spans are published,
/// because all that are kept would cover less than a second; a viewer of such a short time requests them.
const FRESH_MAX: usize = 128;
/// The initial number of ticks in a cell.
const WIDTH: u64 = 1 << 12;
/// The largest number of gaps that are kept; further gaps are merged into the last one.
const GAPS_MAX: usize = 2000;
/// The largest number of cells that are written for all lanes together.
const CELLS_WRITTEN: usize = 1 << 18;
/// The number in place of a lane's for a worker's spans in which no task ran.
const NO_TASK: u32 = u32::MAX;

/// A monitor that records the state of every task over time: see the module.
pub struct Timeline {
    /// The start of the first span, from which all sums count.
    pub(crate) begin: Option<u64>,
    pub(crate) end: u64,
    how: How,
    pub(crate) lanes: Vec<Lane>,
    by_task: IdMap<u32>,
    by_component: IdMap<u32>,
    pub(crate) workers: BTreeMap<u64, Worker>,
    /// The time of each writer's last event, and the writer's worker.
    writers: IdMap<(u64, Option<u64>)>,
    pub(crate) spans: VecDeque<Span>,
    /// The number of spans recorded since the timeline was last published.
    pub(crate) fresh: usize,
    /// The spans that had not ended when the timeline was last published.
    pub(crate) open: Vec<Span>,
    /// The time from which on all spans are kept; `None` if all spans of the run are kept.
    pub(crate) dropped_until: Option<u64>,
    /// The counters from which the lanes are summed; `None` if they are summed from events.
    pub(crate) counting: Option<Counting>,
    /// The time up to which the lanes were summed from counters when events were last summed again.
    pub(crate) counted_until: u64,
    gaps: Vec<Gap>,
    /// A sample of entry messages at regular distances.
    entries: Sample,
    /// The decisions of tuners, with ticks as times.
    decisions: Vec<Decided>,
    links: LinkEnds,
    page: Arc<TimelinePage>,
}

/// The limits of a timeline, and what is needed to convert its times.
struct How {
    spans_max: usize,
    /// Whether the sums are kept when a new window begins.
    remembers: bool,
    /// The times between which spans are kept; `None` if they are kept at all times.
    within: Option<(u64, u64)>,
    /// For each lane, whether the sums have its states after the window.
    covered_by_sums: Vec<bool>,
    /// The largest number of cells of a lane's summary.
    lane_cells: usize,
    /// The end of the time of which events were read.
    until: u64,
    /// The tick from which times are counted; it is set when the timeline is first published.
    zero: Option<u64>,
    ns_per_tick: f64,
}

/// A task, or the tasks of a component that have no lane of their own.
pub(crate) struct Lane {
    component: u64,
    /// The replica, if the lane is of one task.
    pub(crate) replica: Option<u64>,
    id: u64,
    pub(crate) worker: Option<u64>,
    pub(crate) summary: Summary,
    written: Written,
}

pub(crate) struct Worker {
    summary: Summary,
    written: Written,
    pub(crate) waiting_since: Option<u64>,
}

/// The sums of a lane as they were written last, and the width of their cells.
#[derive(Default)]
pub(crate) struct Written {
    width: u64,
    sums: Vec<u32>,
}

impl Written {
    /// The sums in cells of the width `width`, including spans that have not ended. Only cells that changed
    /// since the last call are added up again.
    fn sums<'a>(
        &mut self,
        summary: &mut Summary,
        width: u64,
        open: impl Iterator<Item = &'a Span>,
    ) -> Vec<u32> {
        let (origin, touched) = (summary.begin_of(0), summary.take_touched());
        let end = origin.saturating_add(summary.cells().len() as u64 * summary.width());
        let kept =
            if self.width == width { touched.saturating_sub(origin) / width * STATES as u64 } else { 0 };
        self.width = width;
        self.sums.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        let part = |ticks: u64| (ticks as f64 * 1000.0 / width as f64).round() as u32;
        let mut at = origin + (self.sums.len() / STATES) as u64 * width;
        while at < end {
            self.sums.extend(summary.sum(at, at.saturating_add(width)).map(part));
            at = at.saturating_add(width);
        }
        let mut sums = self.sums.clone();
        for span in open.filter(|span| span.end > span.start.max(origin)) {
            let cells = (span.end - 1 - origin) / width + 1;
            sums.resize(sums.len().max(cells as usize * STATES), 0);
            for cell in (span.start.max(origin) - origin) / width..cells {
                let first = origin + cell * width;
                let inside = span.end.min(first + width) - span.start.max(first);
                sums[cell as usize * STATES + span.state as usize] += part(inside);
            }
        }
        sums
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) lane: u32,
    pub(crate) state: State,
    worker: Option<u64>,
    pub(crate) start: u64,
    end: u64,
    peer: Option<u32>,
    stream: u64,
    first: u64,
    count: u64,
    /// Whether the span has not ended yet, so that it is drawn up to the present.
    pub(crate) goes_on: bool,
}

impl Span {
    /// A span that has not ended.
    pub(crate) fn going(lane: u32, state: State, worker: Option<u64>, start: u64, now: u64) -> Span {
        let (peer, stream, first, count) = (None, 0, 0, 0);
        Span { lane, state, worker, start, end: now, peer, stream, first, count, goes_on: true }
    }
}

struct Gap {
    from: u64,
    to: u64,
    lost: u64,
    worker: Option<u64>,
}

/// A sample of messages at regular distances, at most [`Sample::MAX`] of them.
#[derive(Default)]
struct Sample {
    seen: u64,
    step_log: u32,
    messages: Vec<(u64, u64)>,
}

impl Sample {
    const MAX: usize = 64;

    fn offer(&mut self, stream: u64, first: u64, count: u64) {
        let mut next = self.seen.next_multiple_of(1 << self.step_log);
        while next < self.seen + count {
            self.messages.push((stream, first + (next - self.seen)));
            if self.messages.len() > Sample::MAX {
                let mut at = 0;
                self.messages.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.step_log += 1;
            }
            next = (next + 1).next_multiple_of(1 << self.step_log);
        }
        self.seen += count;
    }
}

impl Timeline {
    /// A timeline of at most `spans_max` single spans.
    pub fn new(spans_max: usize) -> Timeline {
        let how = How {
            spans_max: spans_max.max(1),
            remembers: false,
            within: None,
            covered_by_sums: Vec::new(),
            lane_cells: CELLS_MAX,
            until: 0,
            zero: None,
            ns_per_tick: 1.0,
        };
        Timeline {
            begin: None,
            end: 0,
            how,
            lanes: Vec::new(),
            by_task: IdMap::default(),
            by_component: IdMap::default(),
            workers: BTreeMap::new(),
            writers: IdMap::default(),
            spans: VecDeque::new(),
            fresh: 0,
            open: Vec::new(),
            dropped_until: None,
            counting: None,
            counted_until: 0,
            gaps: Vec::new(),
            entries: Sample::default(),
            decisions: Vec::new(),
            links: LinkEnds::default(),
            page: Arc::default(),
        }
    }

    /// A timeline of only the time between two ticks, with the lanes of `levels` first and further lanes
    /// after them. Spans that end after the last event that was read are left out; [`TimelinePage::fill`]
    /// adds them from sums.
    pub fn of_window(spans_max: usize, levels: &Levels, from: u64, to: u64) -> Timeline {
        let mut timeline = Timeline { begin: Some(from), ..Timeline::new(spans_max) };
        timeline.how.zero = Some(levels.zero);
        timeline.how.within = Some((from, to));
        timeline.how.remembers = true;
        timeline.how.covered_by_sums = levels.covers(to);
        for task in &levels.known {
            let lane = timeline.lanes.len() as u32;
            match task.replica {
                Some(_) => drop(timeline.by_task.insert(task.id, lane)),
                None => drop(timeline.by_component.insert(task.component, lane)),
            }
            let summary = Summary::new(from, WIDTH, LANE_CELLS_MIN);
            let &KnownTask { id, component, replica, worker } = task;
            let written = Written::default();
            timeline.lanes.push(Lane { component, replica, id, worker, summary, written });
        }
        timeline
    }

    /// Makes the timeline keep its sums when a new window begins.
    #[must_use]
    pub fn remembering(mut self) -> Timeline {
        self.how.remembers = true;
        self
    }

    /// The sums in full detail; `None` before the first publication.
    pub fn levels(&self) -> Option<Levels> {
        let zero = self.how.zero?;
        let known = self.lanes.iter().map(|lane| KnownTask {
            id: lane.id,
            component: lane.component,
            replica: lane.replica,
            worker: lane.worker,
        });
        Some(Levels {
            called: self.called(),
            gaps: self.page.gaps.clone(),
            zero,
            ns_per_tick: self.how.ns_per_tick,
            end: self.end,
            known: known.collect(),
            tasks: self.lanes.iter().map(|lane| lane.summary.clone()).collect(),
            workers: self.workers.iter().map(|(&id, worker)| (id, worker.summary.clone())).collect(),
        })
    }

    /// The lanes of tasks without their sums, as they were published last; new lanes have no names yet.
    fn called(&self) -> Vec<TaskLane> {
        let bare = |lane: &TaskLane| TaskLane {
            name: lane.name.clone(),
            component: lane.component.clone(),
            sums: Vec::new(),
            ..*lane
        };
        let mut called: Vec<TaskLane> = self.page.tasks.iter().map(bare).collect();
        called.resize(self.lanes.len(), TaskLane::default());
        called
    }

    /// The tick from which times are counted; `None` before the first publication.
    pub fn zero(&self) -> Option<u64> {
        self.how.zero
    }

    /// The last published page.
    pub fn page(&self) -> &Arc<TimelinePage> {
        &self.page
    }

    /// A sample of input messages, evenly distributed, as stream and index.
    pub fn entries(&self) -> &[(u64, u64)] {
        &self.entries.messages
    }

    /// Adds the components of tasks whose creation event was overwritten before it was read: the live rows,
    /// which are read for each report, have the components of all tasks.
    fn learn_components(&mut self, moment: &Moment<'_>) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.component == 0 && lane.replica.is_some()) {
            if let Some(task) = moment.structure.task(lane.id) {
                (lane.component, lane.replica) = (task.component, Some(task.replica));
            }
        }
    }

    fn lane_of(&mut self, batch: &Batch<'_>, task: u64, origin: u64) -> Option<u32> {
        if let Some(&lane) = self.by_task.get(&task) {
            return Some(lane);
        }
        let of = batch.structure().task(task)?;
        let known =
            KnownTask { id: task, component: of.component, replica: Some(of.replica), worker: of.worker };
        self.lane(known, origin)
    }

    /// The lane of a task; a new task gets a lane if there are not too many.
    pub(crate) fn lane(&mut self, of: KnownTask, origin: u64) -> Option<u32> {
        if let Some(&lane) = self.by_task.get(&of.id) {
            return Some(lane);
        }
        let (next, cells) = (self.lanes.len() as u32, self.how.lane_cells);
        let lane = |id, replica| Lane {
            component: of.component,
            replica,
            id,
            worker: of.worker,
            summary: Summary::new(origin, WIDTH, cells),
            written: Written::default(),
        };
        if self.by_task.len() < LANES_MAX {
            self.lanes.push(lane(of.id, of.replica));
            self.by_task.insert(of.id, next);
            self.share_cells();
            return Some(next);
        }
        if let Some(&shared) = self.by_component.get(&of.component) {
            return Some(shared);
        }
        if self.by_component.len() >= LANES_MAX {
            return None;
        }
        self.lanes.push(lane(0, None));
        self.by_component.insert(of.component, next);
        self.share_cells();
        Some(next)
    }

    /// Limits the number of cells of each lane, so that all lanes together stay within the limit.
    fn share_cells(&mut self) {
        let lanes = (self.lanes.len() + self.workers.len()).max(1).next_power_of_two();
        let cells = (CELLS_MAX / lanes).max(LANE_CELLS_MIN);
        if cells < self.how.lane_cells {
            self.how.lane_cells = cells;
            self.lanes.iter_mut().for_each(|lane| lane.summary.limit(cells));
            self.workers.values_mut().for_each(|worker| worker.summary.limit(cells));
        }
    }

    /// The part of a span of time that lies between the kept times; `None` if no part does.
    fn clipped(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let Some((from, to)) = self.how.within else {
            return (end > self.counted_until).then_some((start.max(self.counted_until), end));
        };
        (end > from && start < to).then(|| (start.max(from), end.min(to)))
    }

    fn dispatch(&mut self, batch: &Batch<'_>, writer: u64, dispatch: &Dispatch) {
        let Some((start, end)) = self.clipped(dispatch.start, dispatch.end) else { return };
        let begin = *self.begin.get_or_insert(dispatch.start);
        self.writers.insert(writer, (dispatch.end, dispatch.worker));
        self.end = self.end.max(end);
        if let Some(id) = dispatch.worker {
            self.worker(id, begin).add(State::Busy, start, end);
        }
        for run in batch.writes(dispatch) {
            let stream = batch.structure().stream(run.stream);
            if stream.is_some_and(|stream| stream.role == Role::Entry) {
                self.entries.offer(run.stream, run.first, run.count);
            }
        }
        let Some(lane) = self.lane_of(batch, dispatch.task, begin) else { return };
        let reads = batch.reads(dispatch);
        let first = reads.first();
        let of = &mut self.lanes[lane as usize];
        of.worker = dispatch.worker;
        of.summary.add(State::Busy, start, end);
        // Several tasks share this lane, and their times overlap, so no single span is added.
        if of.replica.is_none() {
            return;
        }
        self.push(Span {
            lane,
            state: State::Busy,
            worker: dispatch.worker,
            start: dispatch.start,
            end: dispatch.end,
            peer: None,
            stream: first.map_or(0, |run| run.stream),
            first: first.map_or(0, |run| run.first),
            count: reads.iter().map(|run| run.count).sum(),
            goes_on: false,
        });
    }

    fn wait(&mut self, batch: &Batch<'_>, wait: &Wait) {
        let Some((_, last)) = self.clipped(wait.since, wait.until) else { return };
        let begin = *self.begin.get_or_insert(wait.since);
        self.end = self.end.max(last);
        let Some(lane) = self.lane_of(batch, wait.task, begin) else { return };
        let (state, peer) = match wait.what {
            For::Turn => (State::Ready, None),
            For::Input => (State::Starved, batch.structure().stream(wait.stream).map(|stream| stream.writer)),
            For::Room => (State::Blocked, batch.structure().stream(wait.stream).map(|stream| stream.reader)),
        };
        let peer = peer.and_then(|task| self.by_task.get(&task).copied());
        let woken =
            if wait.what == For::Turn { wait.since } else { wait.woken.clamp(wait.since, wait.until) };
        let worker = self.lanes[lane as usize].worker;
        let span = |state, start, end, peer, stream| Span {
            lane,
            state,
            worker,
            start,
            end,
            peer,
            stream,
            first: 0,
            count: 0,
            goes_on: false,
        };
        let waited = span(state, wait.since, woken, peer, wait.stream);
        let ready = span(State::Ready, woken, wait.until, None, 0);
        for span in [waited, ready].into_iter().filter(|span| span.end > span.start) {
            let Some((start, end)) = self.clipped(span.start, span.end) else { continue };
            let of = &mut self.lanes[lane as usize];
            of.summary.add(span.state, start, end);
            if of.replica.is_some() {
                self.push(span);
            }
        }
    }

    fn push(&mut self, span: Span) {
        if self.spans.len() >= self.how.spans_max
            && let Some(old) = self.spans.pop_front()
        {
            self.dropped_until = self.dropped_until.max(Some(old.end));
        }
        self.spans.push_back(span);
        self.fresh += 1;
    }

    pub(crate) fn worker(&mut self, id: u64, begin: u64) -> &mut Summary {
        let cells = self.how.lane_cells;
        let new = || Worker {
            summary: Summary::new(begin, WIDTH, cells),
            written: Written::default(),
            waiting_since: None,
        };
        &mut self.workers.entry(id).or_insert_with(new).summary
    }

    /// Records that a worker began or ended a wait.
    fn waits(&mut self, id: u64, time: u64, begins: bool) {
        let Some(begin) = self.begin else { return };
        self.worker(id, begin);
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let waited = std::mem::replace(&mut worker.waiting_since, begins.then_some(time));
        let Some(since) = waited.filter(|&since| since < time) else { return };
        let Some((start, end)) = self.clipped(since, time) else { return };
        self.worker(id, begin).add(State::Starved, start, end);
        self.push(Span {
            lane: NO_TASK,
            state: State::Starved,
            worker: Some(id),
            start: since,
            end: time,
            peer: None,
            stream: 0,
            first: 0,
            count: 0,
            goes_on: false,
        });
    }

    fn gap(&mut self, time: u64, writer: u64, lost: u64) {
        // Before the first event that was read of a writer, the lost events may lie anywhere in the window.
        let first = self.how.within.map_or(time, |(from, _)| from);
        let (from, worker) = self.writers.get(&writer).copied().unwrap_or((first, None));
        if self.clipped(from.min(time), time).is_none() {
            return;
        }
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(Gap { from: from.min(time), to: time, lost, worker });
        } else if let Some(last) = self.gaps.last_mut() {
            (last.to, last.lost) = (time, last.lost.saturating_add(lost));
        }
    }

    fn make_page(&mut self, moment: &Moment<'_>) -> TimelinePage {
        let zero = if self.how.remembers { *self.how.zero.get_or_insert(moment.begin) } else { moment.begin };
        (self.how.zero, self.how.ns_per_tick) = (Some(zero), moment.ns_per_tick);
        self.how.until = self.end.max(moment.end);
        if self.counting.is_none() {
            self.open = self.open_spans(moment);
        }
        let mut several: HashMap<u64, u64> = HashMap::new();
        self.lanes.iter().for_each(|lane| *several.entry(lane.component).or_default() += 1);
        let called = self.lanes.iter().map(|lane| TaskLane {
            id: lane.replica.map(|_| lane.id),
            name: match lane.replica {
                Some(replica) => moment.names.task(lane.component, replica, several[&lane.component] > 1),
                None => format!("{} (further tasks)", moment.names.site(lane.component).path),
            },
            component: moment.names.site(lane.component).path,
            process: 0,
            worker: lane.worker,
            sums: Vec::new(),
        });
        let called = called.collect();
        let links = links::page(&self.links, moment);
        self.drawn(zero, called, links)
    }

    /// Adds to the published page the spans that were recorded since its publication. New tasks have no names
    /// yet, and a span that had not ended continues until its end is recorded.
    pub fn go_on(&mut self) {
        let Some(zero) = self.how.zero else { return };
        self.how.until = self.how.until.max(self.end);
        let mut ends: HashMap<u32, u64> = HashMap::new();
        for span in self.spans.iter().rev().take(self.fresh) {
            ends.entry(span.lane).or_insert(span.end);
        }
        let until = self.how.until;
        self.open.retain(|open| ends.get(&open.lane).is_none_or(|&end| end <= open.start));
        self.open.iter_mut().filter(|open| open.goes_on).for_each(|open| open.end = until.max(open.end));
        let mut called = self.called();
        for (called, lane) in called.iter_mut().zip(&self.lanes) {
            called.worker = lane.worker;
        }
        self.page = Arc::new(self.drawn(zero, called, self.page.links.clone()));
    }

    /// Whether the timeline is published again and again while its run goes on.
    fn is_live(&self) -> bool {
        self.how.remembers && self.how.within.is_none()
    }

    /// The width of the cells in the page, chosen so that all lanes together stay within the limit.
    fn written_width(&self, begin: u64) -> u64 {
        let widest = self.lanes.iter().map(|lane| lane.summary.width());
        let width = widest.chain(self.workers.values().map(|worker| worker.summary.width())).max();
        let mut width = width.unwrap_or(WIDTH);
        let lanes = self.lanes.len() + self.workers.len();
        let end = self.open.iter().map(|span| span.end).fold(self.end, u64::max);
        let cells = |width: u64| end.saturating_sub(begin) / width.max(1) + 1;
        let written = if self.is_live() { LANE_CELLS_LIVE } else { LANE_CELLS_WRITTEN };
        while cells(width) > written || cells(width) as usize * lanes > CELLS_WRITTEN {
            width = width.saturating_mul(2);
        }
        width
    }

    fn drawn(&mut self, zero: u64, mut tasks: Vec<TaskLane>, links: Vec<LinkPage>) -> TimelinePage {
        let begin = self.begin.unwrap_or(zero);
        let (ns_per_tick, until) = (self.how.ns_per_tick, self.how.until);
        let ns = |ticks: u64| ticks.saturating_sub(zero) as f64 * ns_per_tick;
        let width = self.written_width(begin);
        for (n, (task, lane)) in tasks.iter_mut().zip(&mut self.lanes).enumerate() {
            let open = self.open.iter().filter(|span| span.lane == n as u32);
            task.sums = lane.written.sums(&mut lane.summary, width, open);
        }
        let workers = self.workers.iter_mut().map(|(&id, worker)| WorkerLane {
            id,
            name: id.to_string(),
            process: 0,
            sums: worker.written.sums(&mut worker.summary, width, [].iter()),
        });
        let workers = workers.collect();
        let gaps = self.gaps.iter().map(|gap| GapPage {
            from_ns: ns(gap.from),
            to_ns: ns(gap.to),
            lost: gap.lost,
            worker: gap.worker,
        });
        let is_many = std::mem::take(&mut self.fresh) > FRESH_MAX && self.page.duration_ns > 0.0;
        let is_summed = self.is_live() && (is_many || self.counting.is_some());
        let has_spans = !(self.spans.is_empty() || is_summed);
        let first = self.how.within.map_or(zero, |(from, _)| from);
        let exact_from = self.dropped_until.unwrap_or(first).max(first);
        TimelinePage {
            duration_ns: ns(self.how.within.map_or(until, |(_, to)| to)),
            exact_from_ns: has_spans.then(|| ns(exact_from).round()),
            processes: vec![Process {
                name: String::new(),
                sums_from_ns: ns(begin),
                step_ns: width as f64 * ns_per_tick,
            }],
            tasks,
            workers,
            gaps: gaps.collect(),
            decisions: self
                .decisions
                .iter()
                .map(|of| Decided { at_ns: ns(of.at_ns as u64), ..of.clone() })
                .collect(),
            spans: if has_spans { self.columns(exact_from, zero, ns_per_tick) } else { Spans::default() },
            links,
        }
    }

    /// The spans that have not ended, as if they ended now.
    fn open_spans(&self, moment: &Moment<'_>) -> Vec<Span> {
        let mut spans = Vec::new();
        for open in moment.open {
            let Some(&lane) = self.by_task.get(&open.task) else { continue };
            if self.how.covered_by_sums.get(lane as usize) == Some(&true) {
                continue;
            }
            let span = |state, start: u64, end: u64| Span {
                lane,
                state,
                worker: self.lanes[lane as usize].worker,
                start,
                end: end.max(start),
                peer: None,
                stream: 0,
                first: 0,
                count: 0,
                goes_on: end == moment.end,
            };
            if let Some(wait) = &open.wait {
                let until = wait.until.min(moment.end.max(wait.since));
                let (state, woken) = match wait.what {
                    For::Turn => (State::Ready, until),
                    For::Input => (State::Starved, wait.woken.clamp(wait.since, until)),
                    For::Room => (State::Blocked, wait.woken.clamp(wait.since, until)),
                };
                let end = if wait.ended { woken } else { until };
                spans.push(Span { stream: wait.stream, ..span(state, wait.since, end) });
                spans.push(span(State::Ready, end, until));
            }
            if let Some(since) = open.running_since {
                spans.push(span(State::Busy, since, moment.end));
            }
        }
        if let Some((from, to)) = self.how.within {
            spans.retain(|span| span.end > from && span.start < to);
        }
        spans.retain(|span| span.end > span.start);
        spans
    }

    fn columns(&self, from: u64, zero: u64, ns_per_tick: f64) -> Spans {
        let mut spans: Vec<&Span> =
            self.spans.iter().chain(&self.open).filter(|span| span.end > from).collect();
        spans.sort_by_key(|span| span.end);
        let ns = |ticks: u64| (ticks as f64 * ns_per_tick).round() as i64;
        let some = |n: u64| if n == 0 { NONE } else { n.cast_signed() };
        // Ends are rounded as absolute times of the page, so a span's end does not depend on the start of the
        // columns.
        let mut last = ns(from.saturating_sub(zero));
        let ends = spans.iter().map(|span| {
            let end = ns(span.end.saturating_sub(zero));
            end - std::mem::replace(&mut last, end)
        });
        Spans {
            end: ends.collect(),
            lane: spans
                .iter()
                .map(|span| if span.lane == NO_TASK { NONE } else { span.lane.into() })
                .collect(),
            state: spans.iter().map(|span| span.state as i64).collect(),
            worker: spans.iter().map(|span| span.worker.map_or(NONE, u64::cast_signed)).collect(),
            length: spans.iter().map(|span| ns(span.end - span.start)).collect(),
            peer: spans.iter().map(|span| span.peer.map_or(NONE, i64::from)).collect(),
            stream: spans.iter().map(|span| some(span.stream)).collect(),
            first: spans.iter().map(|span| span.first.cast_signed()).collect(),
            count: spans.iter().map(|span| span.count.cast_signed()).collect(),
        }
    }
}

/// The kinds of event from which a timeline is made.
const WANTED: [&str; 7] = [
    "run.dispatch",
    "run.wait",
    "exec.worker_waiting",
    "exec.worker_resumed",
    "exec.worker_parked",
    "tuner.decided",
    LINK_COUNTED,
];

impl Monitor for Timeline {
    fn name(&self) -> &str {
        "timeline"
    }

    fn wants(&self) -> &[&str] {
        &WANTED
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Runtime(Observation::Decided(of)) if self.decisions.len() < DECISIONS_MAX => {
                    self.decisions.push(decided(batch, item.time, &of));
                }
                What::Other { .. } => self.links.take(batch, item),
                _ if self.counting.is_some() => {}
                What::Dispatch(dispatch) => self.dispatch(batch, item.writer, &dispatch),
                What::Wait(wait) => self.wait(batch, &wait),
                What::Gap { lost } if lost > 0 => self.gap(item.time, item.writer, lost),
                What::Runtime(Observation::WorkerWaiting(of)) => self.waits(of.worker, item.time, true),
                What::Runtime(Observation::WorkerResumed(of)) => self.waits(of.worker, item.time, false),
                What::Runtime(Observation::WorkerParked(of)) => self.waits(of.worker, item.time, false),
                _ => {}
            }
        }
    }

    fn restart(&mut self, time: u64) {
        self.links.restart();
        if !self.how.remembers {
            *self = Timeline { begin: Some(time), end: time, ..Timeline::new(self.how.spans_max) };
        }
    }

    fn publish(&mut self, moment: &Moment<'_>, _report: &mut Report) {
        self.learn_components(moment);
        self.page = Arc::new(self.make_page(moment));
    }
}

/// A timeline that can be read while a follower owns it as a monitor.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Timeline>>);

impl Shared {
    /// Shares a timeline.
    pub fn new(timeline: Timeline) -> Shared {
        Shared(Arc::new(Mutex::new(timeline)))
    }

    /// Adds to the published page what was recorded since its publication, as [`Timeline::go_on`] does.
    pub fn go_on(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).go_on();
    }

    /// Sums the lanes from rows of the live table, as [`Timeline::count`] does.
    pub fn count(&self, rows: &[LiveRow], now: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count(rows, now);
    }

    /// Sums events again, as [`Timeline::sum_events`] does.
    pub fn sum_events(&self, now: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sum_events(now);
    }

    /// Calls `at` with the timeline, and returns its result.
    pub fn look<T>(&self, at: impl FnOnce(&Timeline) -> T) -> T {
        at(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Monitor for Shared {
    fn name(&self) -> &str {
        "timeline"
    }

    fn wants(&self) -> &[&str] {
        &WANTED
    }

    fn take(&mut self, batch: &Batch<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(batch);
    }

    fn restart(&mut self, time: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).restart(time);
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).publish(moment, report);
    }
}
