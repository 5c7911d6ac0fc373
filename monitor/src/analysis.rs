//! The streaming analysis: observations in order of time go in, a [`Report`] comes out.
//!
//! Memory is bounded by what exists at a time: tasks, streams, messages in flight. What ended is added to sums by
//! component (and by pair of components, for streams); of single tasks only the busiest are kept.
//!
//! Counts and shares come from the events where every event of the run was seen and the mode was full throughout;
//! else from the totals that tasks, streams and workers publish in the live table and tell at their end, which no
//! overwritten event can falsify. Latencies and occupancies need the events.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::ids::IdMap;
use crate::lineage::{Dispatch, Lineage, Outcome, Role};
use crate::observation::{LiveRow, LiveState, Mode, Observation, Run, StreamTotals, TaskCounts};
use crate::report::{
    BrokenStream, Component, Latency, ModeSpan, Note, Report, SCHEMA, SpaceInfo, State, TaskShares,
    Throughput, VERSION, Verdict, VerdictKind, Window, Work, WorkerShares,
};
use crate::stream::Stream;
use crate::task::{Task, TaskTicks, Waited, doing_after};
use crate::verdict::verdict;
use crate::{observation::TaskTotals, report};

/// A dispatch of more messages than this is taken for damage.
const DISPATCH_MESSAGES_MAX: u64 = 1 << 22;
/// Indices beyond this are taken for damage.
const INDEX_MAX: u64 = 1 << 47;
/// Closed streams whose dispatches are not all told yet; beyond, the oldest is taken as it is.
const CLOSING_MAX: usize = 1 << 16;
/// Mode changes kept.
const MODES_MAX: usize = 1000;
/// Worker numbers from here on mean "a thread of its own".
const OWN_THREAD: u64 = u32::MAX as u64;

/// What tasks without a component, such as the run's own, are listed under.
const NO_COMPONENT: &str = "(no component)";

/// How to analyse.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nanoseconds per tick of the space's clock.
    pub ns_per_tick: f64,
    /// Single tasks, and broken streams, to report at most.
    pub top: usize,
}

/// The texts behind the numbers in events.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Components by site.
    pub sites: HashMap<u64, SiteName>,
    /// Interned texts.
    pub names: HashMap<u64, String>,
}

/// A component of the network's static structure.
#[derive(Clone, Debug, Default)]
pub struct SiteName {
    /// Path from the network's root.
    pub path: String,
    /// What it is.
    pub kind: String,
    /// `file:line:column`, if known.
    pub place: Option<String>,
}

/// What is known when the observations end.
#[derive(Clone, Debug)]
pub struct Ending {
    /// How the process is.
    pub state: State,
    /// The clock's ticks now, for a process that lives.
    pub now: Option<u64>,
    /// The value of the setting `monitor.mode`, if there is one.
    pub mode: Option<Mode>,
    /// The live table.
    pub rows: Vec<LiveRow>,
    /// Workers that hang: since when each has not gone on from the message it is on, in ticks.
    pub stuck: HashMap<u64, u64>,
    /// Where all this comes from.
    pub space: SpaceInfo,
}

/// Consumes observations in order of time.
pub struct Analysis {
    options: Options,
    lineage: Lineage,
    tasks: IdMap<Task>,
    streams: IdMap<Stream>,
    workers: IdMap<Worker>,
    components: IdMap<ComponentSum>,
    edges: HashMap<EdgeKey, EdgeSum>,
    closing: VecDeque<u64>,
    finished: Vec<TaskSummary>,
    tasks_count: u64,
    broken: Vec<(u64, u64, StreamTotals, String)>,
    broken_count: u64,
    /// The dispatch each writer is telling.
    telling: IdMap<Telling>,
    declared_entry: bool,
    declared_exit: bool,
    first: Option<u64>,
    last: u64,
    /// Since when the events are gapless.
    gapless_since: Option<u64>,
    modes: Vec<(u64, Mode)>,
    dispatches: u64,
    events: u64,
    lost: u64,
    gaps: u64,
    malformed: u64,
    notes: Vec<Note>,
}

#[derive(Default)]
struct Telling {
    active: bool,
    dispatch: Dispatch,
    worker: u64,
}

#[derive(Clone, Debug, Default)]
struct Worker {
    core: i64,
    started: Option<u64>,
    ended: Option<u64>,
    waiting_since: Option<u64>,
    busy_ticks: u64,
    waiting_ticks: u64,
    dispatches: u64,
    messages: u64,
    /// Said at its end or by the live table: busy, waiting.
    totals: Option<(u64, u64)>,
    totals_dispatches: Option<u64>,
    on_task: u64,
    on_message: u64,
}

#[derive(Clone, Debug, Default)]
struct ComponentSum {
    tasks: u64,
    tasks_live: u64,
    ticks: TaskTicks,
    counts: TaskCounts,
    /// Tasks whose counts are not known.
    uncounted: u64,
    /// By the positions of streams.
    stream_reads: u64,
    stream_writes: u64,
    streams: u64,
    failed: u64,
    ended_badly: u64,
    has_inputs: bool,
    has_outputs: bool,
}

#[derive(Clone, Debug)]
struct TaskSummary {
    id: u64,
    component: u64,
    replica: u64,
    worker: Option<u64>,
    ticks: TaskTicks,
    counts: Option<TaskCounts>,
    failed: u64,
    ended_badly: bool,
    state: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct EdgeKey {
    name: u64,
    writer: u64,
    reader: u64,
    role: u8,
}

#[derive(Clone, Debug, Default)]
struct EdgeSum {
    streams: u64,
    capacity: u64,
    positions: StreamTotals,
    /// Streams of unknown positions.
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
}

impl Analysis {
    /// An analysis that has seen nothing.
    pub fn new(options: Options) -> Analysis {
        Analysis {
            lineage: Lineage::new(options.ns_per_tick),
            options,
            tasks: IdMap::default(),
            streams: IdMap::default(),
            workers: IdMap::default(),
            components: IdMap::default(),
            edges: HashMap::new(),
            closing: VecDeque::new(),
            finished: Vec::new(),
            tasks_count: 0,
            broken: Vec::new(),
            broken_count: 0,
            telling: IdMap::default(),
            declared_entry: false,
            declared_exit: false,
            first: None,
            last: 0,
            gapless_since: None,
            modes: Vec::new(),
            dispatches: 0,
            events: 0,
            lost: 0,
            gaps: 0,
            malformed: 0,
            notes: Vec::new(),
        }
    }

    /// Adds a note for the reader of the report.
    pub fn note(&mut self, code: &str, text: String) {
        self.notes.push(Note { code: code.to_owned(), text });
    }

    /// The mode the run began in, where it is known; changes are told by events.
    pub fn begin_in(&mut self, mode: Mode) {
        if self.modes.is_empty() {
            self.modes.push((0, mode));
        }
    }

    /// Counts an event of a kind that means nothing here.
    #[inline]
    pub fn unknown_event(&mut self) {
        self.events += 1;
    }

    /// `lost` events of `writer` are missing here.
    pub fn gap(&mut self, writer: u64, lost: u64) {
        self.gaps += 1;
        self.lost = self.lost.saturating_add(lost);
        self.gapless_since = None;
        if let Some(telling) = self.telling.get_mut(&writer) {
            telling.active = false;
        }
    }

    /// What `writer` said at `time`.
    #[inline]
    pub fn observe(&mut self, time: u64, writer: u64, observation: &Observation) {
        self.events += 1;
        if self.first.is_none() {
            self.first = Some(time);
        }
        if self.gapless_since.is_none() {
            self.gapless_since = Some(time);
        }
        self.last = self.last.max(time);
        match *observation {
            Observation::TaskDispatched { task, worker, duration } => {
                self.begin_dispatch(time, writer, task, worker, duration);
            }
            Observation::StreamRead(run) => self.tell(writer, run, |dispatch, run| dispatch.reads.push(run)),
            Observation::StreamWrote(run) => {
                self.tell(writer, run, |dispatch, run| dispatch.writes.push(run))
            }
            Observation::Derived(derived) => {
                if derived.parent_first > INDEX_MAX || derived.step > 1 {
                    self.malformed += 1;
                    return;
                }
                self.tell(writer, derived.child, |dispatch, _| dispatch.derived.push(derived));
            }
            Observation::BlockedInput { task, stream } => {
                self.end_dispatch(writer, task, Outcome::BlockedInput, stream);
            }
            Observation::BlockedOutput { task, stream } => {
                self.end_dispatch(writer, task, Outcome::BlockedOutput, stream);
            }
            Observation::Yielded { task } => self.end_dispatch(writer, task, Outcome::Yielded, 0),
            Observation::TaskReady { task } => self.tasks.entry(task).or_default().made_ready(time),
            Observation::RecordFailed { task, message } => self.record_failed(writer, task, message),
            Observation::TaskEnded { task, ref totals, ended_badly } => {
                self.end_dispatch(writer, task, Outcome::Ended, 0);
                self.task_ended(time, task, totals, ended_badly);
            }
            _ => self.observe_structure(time, observation),
        }
    }

    fn observe_structure(&mut self, time: u64, observation: &Observation) {
        match *observation {
            Observation::TaskCreated { task, component, replica, one_to_one, blocking, .. } => {
                let state = self.tasks.entry(task).or_default();
                state.component = component;
                state.replica = replica;
                state.blocking = blocking;
                state.created(time);
                let holder = self.lineage.holders.entry(task).or_default();
                holder.one_to_one = one_to_one;
                holder.synced = true;
            }
            Observation::TaskMapped { task, worker } => {
                self.tasks.entry(task).or_default().worker = (worker < OWN_THREAD).then_some(worker);
            }
            Observation::StreamOpened { stream, name, reader, writer, capacity } => {
                self.stream_opened(time, stream, name, reader, writer, capacity);
            }
            Observation::StreamClosed { stream, totals } => {
                let state = self.streams.entry(stream).or_default();
                state.closed = Some(time);
                state.totals = Some(totals);
                self.closing.push_back(stream);
                self.fold_if_told(stream);
                self.fold_oldest_closing();
            }
            Observation::WorkerStarted { worker, core } => {
                let state = self.workers.entry(worker).or_default();
                state.core = core;
                state.started = Some(time);
            }
            Observation::WorkerWaiting { worker } => {
                self.workers.entry(worker).or_default().waiting_since = Some(time);
            }
            Observation::WorkerResumed { worker } => {
                let state = self.workers.entry(worker).or_default();
                if let Some(since) = state.waiting_since.take() {
                    state.waiting_ticks += time.saturating_sub(since);
                }
            }
            Observation::WorkerEnded { worker, busy_ticks, waiting_ticks } => {
                let state = self.workers.entry(worker).or_default();
                if let Some(since) = state.waiting_since.take() {
                    state.waiting_ticks += time.saturating_sub(since);
                }
                state.ended = Some(time);
                state.totals = Some((busy_ticks, waiting_ticks));
            }
            Observation::ModeChanged { mode } => self.mode_changed(time, mode),
            Observation::Entry { stream } => {
                self.declared_entry = true;
                self.lineage.entry(stream);
            }
            Observation::Exit { stream } => {
                self.declared_exit = true;
                self.lineage.exit(stream);
            }
            _ => {}
        }
    }

    fn mode_changed(&mut self, time: u64, mode: Mode) {
        if self.modes.last().is_some_and(|&(_, last)| last == mode) || self.modes.len() >= MODES_MAX {
            return;
        }
        if self.modes.is_empty() && self.dispatches > 0 && mode != Mode::Full {
            self.modes.push((self.first.unwrap_or(time), Mode::Full));
        }
        self.modes.push((time, mode));
    }

    /// Every event so far was seen, in mode full.
    fn whole(&self) -> bool {
        self.gaps == 0 && self.dispatches > 0 && self.modes.iter().all(|&(_, mode)| mode == Mode::Full)
    }

    fn begin_dispatch(&mut self, time: u64, writer: u64, task: u64, worker: u64, duration: u64) {
        self.dispatches += 1;
        let telling = self.telling.entry(writer).or_default();
        if telling.active {
            self.complete_dispatch(writer, Outcome::Yielded, 0);
        }
        let telling = self.telling.entry(writer).or_default();
        let dispatch = &mut telling.dispatch;
        telling.active = true;
        telling.worker = worker;
        dispatch.task = task;
        dispatch.end = time;
        dispatch.start = time.saturating_sub(duration).max(self.first.unwrap_or(0).min(time));
        dispatch.reads.clear();
        dispatch.writes.clear();
        dispatch.derived.clear();
        dispatch.failed.retain(|run| run.count == task);
        for failed in &mut dispatch.failed {
            failed.count = 1;
        }
    }

    #[inline]
    fn tell(&mut self, writer: u64, run: Run, push: impl FnOnce(&mut Dispatch, Run)) {
        if run.count > DISPATCH_MESSAGES_MAX || run.first > INDEX_MAX {
            self.malformed += 1;
            return;
        }
        match self.telling.get_mut(&writer) {
            Some(telling) if telling.active => {
                if run.count > 0 {
                    push(&mut telling.dispatch, run);
                }
            }
            _ => self.malformed += u64::from(self.gaps == 0),
        }
    }

    fn end_dispatch(&mut self, writer: u64, task: u64, outcome: Outcome, stream: u64) {
        match self.telling.get(&writer) {
            Some(telling) if telling.active && telling.dispatch.task == task => {
                self.complete_dispatch(writer, outcome, stream);
            }
            _ => {}
        }
    }

    /// Told before the end of the dispatch it happened in: kept with the writer until then, with the task's id in
    /// place of the count.
    fn record_failed(&mut self, writer: u64, task: u64, message: Run) {
        if message.first > INDEX_MAX {
            self.malformed += 1;
            return;
        }
        if let Some(state) = self.streams.get_mut(&message.stream) {
            state.failed += 1;
        }
        self.tasks.entry(task).or_default().failed += 1;
        let telling = self.telling.entry(writer).or_default();
        if telling.active {
            let (outcome, stream) = (Outcome::Yielded, 0);
            self.complete_dispatch(writer, outcome, stream);
        }
        let failed = &mut self.telling.entry(writer).or_default().dispatch.failed;
        if (failed.len() as u64) < DISPATCH_MESSAGES_MAX {
            failed.push(Run { count: task, ..message });
        }
    }

    /// A writer has told all of a dispatch.
    fn complete_dispatch(&mut self, writer: u64, outcome: Outcome, stream: u64) {
        let Some(telling) = self.telling.get_mut(&writer) else { return };
        telling.active = false;
        let worker = telling.worker;
        let mut dispatch = std::mem::take(&mut telling.dispatch);
        dispatch.outcome = outcome;
        let (start, end) = (dispatch.start, dispatch.end);
        let mut reads = 0;
        let mut writes = 0;
        let mut touched_closed = false;
        for run in &dispatch.writes {
            self.settle_role(run.stream, dispatch.task);
            let state = self.streams.entry(run.stream).or_default();
            state.wrote(run, start, end);
            touched_closed |= state.closed.is_some();
            writes += run.count;
        }
        for run in &dispatch.reads {
            let state = self.streams.entry(run.stream).or_default();
            state.read(run, start, end);
            touched_closed |= state.closed.is_some();
            reads += run.count;
        }
        let task = self.tasks.entry(dispatch.task).or_default();
        task.counts.dispatches += 1;
        task.counts.reads += reads;
        task.counts.writes += writes;
        if task.worker.is_none() && worker < OWN_THREAD && !task.blocking {
            task.worker = Some(worker);
        }
        let waited = task.dispatched(start, end, doing_after(outcome, stream));
        if worker < OWN_THREAD {
            let state = self.workers.entry(worker).or_default();
            state.dispatches += 1;
            state.messages += reads;
            state.busy_ticks += end - start;
        }
        self.count_wait(waited);
        let closed: Vec<u64> = if touched_closed {
            dispatch.reads.iter().chain(&dispatch.writes).map(|run| run.stream).collect()
        } else {
            Vec::new()
        };
        self.lineage.dispatch(&mut dispatch);
        for stream in closed {
            self.fold_if_told(stream);
        }
        dispatch.failed.clear();
        if let Some(telling) = self.telling.get_mut(&writer) {
            telling.dispatch = dispatch;
        }
    }

    fn count_wait(&mut self, waited: Option<Waited>) {
        match waited {
            Some(Waited::Empty(stream, ticks)) if stream != 0 => {
                if let Some(state) = self.streams.get_mut(&stream) {
                    state.empty_ticks += ticks;
                }
            }
            Some(Waited::Full(stream, ticks)) if stream != 0 => {
                if let Some(state) = self.streams.get_mut(&stream) {
                    state.full_ticks += ticks;
                }
            }
            _ => {}
        }
    }

    fn stream_opened(&mut self, time: u64, stream: u64, name: u64, reader: u64, writer: u64, capacity: u64) {
        let state = self.streams.entry(stream).or_default();
        state.opened.get_or_insert(time);
        if name != 0 {
            state.name = name;
        }
        state.capacity = state.capacity.max(capacity);
        if reader != 0 && reader != state.reader {
            state.reader = reader;
            let task = self.tasks.entry(reader).or_default();
            task.inputs += 1;
            state.reader_component = task.component;
            self.components.entry(task.component).or_default().has_inputs = true;
        }
        if writer != 0 && writer != state.writer {
            state.writer = writer;
            let task = self.tasks.entry(writer).or_default();
            task.outputs += 1;
            state.writer_component = task.component;
            self.components.entry(task.component).or_default().has_outputs = true;
        }
    }

    /// Where the network did not say which its entries and exits are: a stream written by a task that reads nothing
    /// is an entry, a stream read by a task that writes nothing is an exit.
    fn settle_role(&mut self, stream: u64, writer: u64) {
        if self.declared_entry && self.declared_exit {
            return;
        }
        let Some(state) = self.streams.get_mut(&stream) else { return };
        if std::mem::replace(&mut state.role_settled, true) {
            return;
        }
        if state.opened.is_none() {
            return;
        }
        let reader = state.reader;
        let (from, to) = (state.writer_component, state.reader_component);
        if !self.declared_entry
            && self.has(writer, from, |task| task.inputs, |sum| sum.has_inputs) == Some(false)
        {
            self.lineage.entry(stream);
        } else if !self.declared_exit
            && self.has(reader, to, |task| task.outputs, |sum| sum.has_outputs) == Some(false)
        {
            self.lineage.exit(stream);
        }
    }

    /// Whether a task has streams on a side; of one that has ended, whether those of its component had.
    fn has(
        &self,
        task: u64,
        component: u64,
        streams: impl Fn(&Task) -> u32,
        of_component: impl Fn(&ComponentSum) -> bool,
    ) -> Option<bool> {
        match self.tasks.get(&task) {
            Some(task) => Some(streams(task) > 0),
            None if component != 0 => self.components.get(&component).map(of_component),
            None => None,
        }
    }

    fn fold_if_told(&mut self, stream: u64) {
        if self.streams.get(&stream).is_some_and(Stream::told) {
            self.fold_stream(stream);
        }
    }

    fn fold_oldest_closing(&mut self) {
        // Without the events of dispatches a closed stream has nothing more to tell.
        let bound = if self.dispatches == 0 { 0 } else { CLOSING_MAX };
        while self.closing.len() > bound {
            if let Some(stream) = self.closing.pop_front()
                && self.streams.get(&stream).is_some_and(|state| state.closed.is_some())
            {
                self.fold_stream(stream);
            }
        }
    }

    /// Adds a stream to its edge and forgets it.
    fn fold_stream(&mut self, id: u64) {
        if let Some(state) = self.streams.get(&id) {
            let writer = state.writer;
            self.settle_role(id, writer);
        }
        let Some(mut state) = self.streams.remove(&id) else { return };
        let end = state.closed.unwrap_or(self.last);
        // A component told after the stream was opened.
        for (task, component) in
            [(state.reader, &mut state.reader_component), (state.writer, &mut state.writer_component)]
        {
            if let (0, Some(task)) = (*component, self.tasks.get(&task)) {
                *component = task.component;
            }
        }
        let role = self.lineage.flows.get(&id).map_or(Role::Inner, |flow| flow.role);
        let key = EdgeKey {
            name: state.name,
            writer: state.writer_component,
            reader: state.reader_component,
            role: match role {
                Role::Entry(_) => 0,
                Role::Inner => 1,
                Role::Exit => 2,
            },
        };
        let contradiction = state.contradiction(self.whole());
        let edge = self.edges.entry(key).or_default();
        edge.streams += 1;
        edge.capacity = edge.capacity.max(state.capacity);
        edge.failed += state.failed;
        edge.seen_read += state.seen.read;
        edge.occupancy_ticks += state.occupancy_ticks(end);
        edge.occupancy_max = edge.occupancy_max.max(state.occupancy_max);
        edge.open_ticks += end.saturating_sub(state.opened.or(self.first).unwrap_or(end));
        edge.full_ticks += state.full_ticks;
        edge.empty_ticks += state.empty_ticks;
        match state.positions() {
            None => edge.unknown += 1,
            Some(positions) => {
                edge.positions.written = edge.positions.written.saturating_add(positions.written);
                edge.positions.read = edge.positions.read.saturating_add(positions.read);
                edge.positions.dropped = edge.positions.dropped.saturating_add(positions.dropped);
                edge.held +=
                    positions.written.saturating_sub(positions.read.saturating_add(positions.dropped));
                let reader = self.components.entry(state.reader_component).or_default();
                reader.stream_reads = reader.stream_reads.saturating_add(positions.read);
                reader.streams += 1;
                let writer = self.components.entry(state.writer_component).or_default();
                writer.stream_writes = writer.stream_writes.saturating_add(positions.written);
                writer.streams += 1;
            }
        }
        if let Some(what) = contradiction {
            edge.broken += 1;
            self.broken_count += 1;
            if self.broken.len() < self.options.top.max(1) {
                let totals = state.positions().unwrap_or_default();
                self.broken.push((id, state.name, totals, what));
            }
        }
        if state.closed.is_some() {
            self.lineage.close(id, state.reader, state.writer, end);
        }
    }

    fn task_ended(&mut self, time: u64, id: u64, totals: &TaskTotals, ended_badly: bool) {
        let Some(mut task) = self.tasks.remove(&id) else { return };
        task.running = false;
        let waited = task.until(time);
        self.count_wait(waited);
        task.totals = Some(*totals);
        self.fold_task(id, &task, if ended_badly { "ended badly" } else { "ended" }, ended_badly);
        self.lineage.end(id, time);
    }

    /// Adds a task to its component.
    fn fold_task(&mut self, id: u64, task: &Task, state: &'static str, ended_badly: bool) {
        let whole = self.whole();
        let ticks = match &task.totals {
            Some(totals) if !whole => TaskTicks::from(totals),
            _ => task.ticks,
        };
        let counts = if whole { Some(task.counts) } else { task.totals.and_then(|totals| totals.counts) };
        let failed = task.failed;
        let sum = self.components.entry(task.component).or_default();
        sum.tasks += 1;
        sum.tasks_live += u64::from(!matches!(state, "ended" | "ended badly"));
        sum.ticks.add(&ticks);
        match counts {
            None => sum.uncounted += 1,
            Some(counts) => {
                sum.counts.dispatches = sum.counts.dispatches.saturating_add(counts.dispatches);
                sum.counts.reads = sum.counts.reads.saturating_add(counts.reads);
                sum.counts.writes = sum.counts.writes.saturating_add(counts.writes);
            }
        }
        sum.failed = sum.failed.saturating_add(failed);
        sum.ended_badly += u64::from(ended_badly);
        self.tasks_count += 1;
        self.finished.push(TaskSummary {
            id,
            component: task.component,
            replica: task.replica,
            worker: task.worker,
            ticks,
            counts,
            failed,
            ended_badly,
            state,
        });
        if self.finished.len() >= 2 * self.options.top.max(32) {
            self.keep_busiest();
        }
    }

    fn keep_busiest(&mut self) {
        // Tasks of no component are the run's own: they come last.
        self.finished.sort_by_key(|task| (task.component == 0, std::cmp::Reverse(task.ticks.busy), task.id));
        self.finished.truncate(self.options.top.max(1));
    }

    /// The report of all that was observed.
    pub fn finish(mut self, names: &Names, ending: Ending) -> Report {
        let writers: Vec<u64> =
            self.telling.iter().filter(|(_, telling)| telling.active).map(|(&id, _)| id).collect();
        for writer in writers {
            self.complete_dispatch(writer, Outcome::Yielded, 0);
        }
        self.lineage.finish();
        for row in &ending.rows {
            self.take_row(row);
        }
        let end = self.end(&ending);
        self.last = end;
        self.settle_modes(&ending);
        let whole = self.whole();
        self.fold_rest(end);
        self.keep_busiest();
        self.report(names, ending, end, whole)
    }

    /// The last moment known of the run.
    fn end(&self, ending: &Ending) -> u64 {
        let updated = ending.rows.iter().filter_map(|row| match row {
            LiveRow::Worker { updated, .. } => Some(*updated),
            _ => None,
        });
        let known = updated.chain([self.last]).max().unwrap_or(0);
        match (ending.state, ending.now) {
            (State::Running, Some(now)) => now.max(known),
            (State::Ended, _) if self.last > 0 => self.last,
            _ => known,
        }
    }

    fn settle_modes(&mut self, ending: &Ending) {
        if let (Some(&(_, last)), Some(now)) = (self.modes.last(), ending.mode)
            && last != now
        {
            // The event of the change was lost; it was before the events that are left.
            self.modes.push((self.gapless_since.unwrap_or(self.last), now));
        }
        if !self.modes.is_empty() {
            return;
        }
        let mode = if self.dispatches > 0 { Some(Mode::Full) } else { ending.mode };
        if let Some(mode) = mode {
            self.modes.push((self.first.unwrap_or(0), mode));
        }
    }

    fn take_row(&mut self, row: &LiveRow) {
        match *row {
            LiveRow::Task { task, state, component, replica, worker, totals } => {
                if task == 0 || state == LiveState::Ended {
                    return;
                }
                let known = self.tasks.entry(task).or_default();
                if known.component == 0 {
                    known.component = component;
                    known.replica = replica;
                }
                known.worker = (worker < OWN_THREAD && !known.blocking).then_some(worker);
                known.running = state == LiveState::Running;
                known.totals = Some(totals);
            }
            LiveRow::Stream { stream, name, reader, writer, capacity, totals } => {
                if stream == 0 || self.streams.get(&stream).is_some_and(|state| state.closed.is_some()) {
                    return;
                }
                // The event of its opening may be lost, or be told by nobody yet.
                if self.streams.get(&stream).is_none_or(|state| state.opened.is_none()) {
                    self.stream_opened(self.first.unwrap_or(0), stream, name, reader, writer, capacity);
                }
                if let Some(state) = self.streams.get_mut(&stream) {
                    state.totals = Some(totals);
                }
            }
            LiveRow::Worker {
                worker,
                core,
                task,
                message,
                busy_ticks,
                waiting_ticks,
                started,
                updated,
                dispatches,
                ended,
            } => {
                let known = self.workers.entry(worker).or_default();
                if known.started.is_none() && started > 0 {
                    known.started = Some(started);
                    known.core = core;
                }
                if ended && known.ended.is_none() && updated > 0 {
                    known.ended = Some(updated);
                }
                if known.totals.is_none() {
                    known.totals = Some((busy_ticks, waiting_ticks));
                }
                known.totals_dispatches = Some(dispatches);
                (known.on_task, known.on_message) = (task, message);
            }
        }
    }

    /// What still exists at the end.
    fn fold_rest(&mut self, end: u64) {
        let mut tasks: Vec<u64> = self.tasks.keys().copied().filter(|&id| id != 0).collect();
        tasks.sort_unstable();
        for id in tasks {
            let Some(mut task) = self.tasks.remove(&id) else { continue };
            let waited = task.close(end);
            self.count_wait(waited);
            let state = task.state();
            self.fold_task(id, &task, state, false);
            // Its streams ask for its component.
            self.tasks.insert(id, task);
        }
        let mut streams: Vec<u64> = self.streams.keys().copied().collect();
        streams.sort_unstable();
        for id in streams {
            self.fold_stream(id);
        }
    }

    fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.options.ns_per_tick
    }

    fn report(mut self, names: &Names, ending: Ending, end: u64, whole: bool) -> Report {
        let started = self.workers.values().filter_map(|worker| worker.started);
        let begin = started.chain(self.first).min().unwrap_or(end);
        let streams = self.streams_report(names, whole);
        let throughput = self.throughput(&streams, begin, end);
        let mut broken = std::mem::take(&mut self.broken);
        broken.sort_by_key(|&(id, ..)| id);
        let mut report = Report {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            space: ending.space.clone(),
            window: Window {
                duration_ns: self.ns(end.saturating_sub(begin)),
                state: ending.state,
                modes: self
                    .modes
                    .iter()
                    .map(|&(time, mode)| ModeSpan {
                        mode: mode.word().to_owned(),
                        from_ns: self.ns(time.saturating_sub(begin)),
                    })
                    .collect(),
                complete: whole,
                events_ns: (!whole && self.dispatches > 0)
                    .then(|| self.ns(end.saturating_sub(self.gapless_since.unwrap_or(end)))),
                events: self.events,
                lost: self.lost,
                gaps: self.gaps,
                malformed: self.malformed,
            },
            verdict: Verdict {
                kind: VerdictKind::Unknown,
                text: String::new(),
                component: None,
                worker: None,
            },
            throughput,
            latency: self.latency(),
            components: self.components_report(names),
            tasks: self.tasks_report(names),
            tasks_count: self.tasks_count,
            streams,
            broken: broken
                .into_iter()
                .map(|(id, name, totals, what)| BrokenStream {
                    id,
                    name: names.names.get(&name).cloned().unwrap_or_else(|| format!("stream {id}")),
                    written: totals.written,
                    read: totals.read,
                    dropped: totals.dropped,
                    what,
                })
                .collect(),
            broken_count: self.broken_count,
            workers: self.workers_report(names, &ending, end, whole),
            notes: Vec::new(),
        };
        report.notes = self.places(names, &report);
        report.notes.extend(self.notes(&report));
        report.verdict = verdict(&report);
        report
    }

    fn throughput(&self, streams: &[report::Stream], begin: u64, end: u64) -> Throughput {
        let total = |role: &str| {
            let mut of_role = streams.iter().filter(|stream| stream.role == role).peekable();
            of_role.peek()?;
            of_role.map(|stream| stream.written).sum::<Option<u64>>()
        };
        let messages_in = total("entry");
        let messages_out = total("exit");
        let lifetimes = self
            .workers
            .values()
            .filter_map(|worker| Some(worker.ended.unwrap_or(end).saturating_sub(worker.started?)));
        let longest = lifetimes.max().or((end > begin).then(|| end - begin)).map(|ticks| self.ns(ticks));
        let rate = |messages: Option<u64>| Some(messages? as f64 / (longest.filter(|&ns| ns > 0.0)? / 1e9));
        Throughput {
            messages_in,
            messages_out,
            worker_ns_longest: longest,
            entry_per_s: rate(messages_in),
            exit_per_s: rate(messages_out),
        }
    }

    fn latency(&self) -> Latency {
        let lineage = &self.lineage;
        let ticks = lineage.attributed_ticks + lineage.unattributed_ticks;
        Latency {
            service: lineage.roots.service.summary(),
            end_to_end: lineage.roots.end_to_end.summary(),
            entered: lineage.roots.entered,
            in_flight: lineage.roots.incomplete(),
            unmeasured: lineage.roots.unmeasured,
            unattributed: lineage.unattributed,
            attributed_share: (ticks > 0.0).then(|| lineage.attributed_ticks / ticks),
        }
    }

    fn work(&self, ticks: &TaskTicks, counts: Option<TaskCounts>, failed: u64, ended_badly: u64) -> Work {
        let sum = ticks.sum();
        let share = |part: u64| part as f64 / sum as f64;
        let messages = counts.map(|counts| if counts.reads > 0 { counts.reads } else { counts.writes });
        Work {
            messages_in: counts.map(|counts| counts.reads),
            messages_out: counts.map(|counts| counts.writes),
            selectivity: counts
                .filter(|counts| counts.reads > 0)
                .map(|counts| counts.writes as f64 / counts.reads as f64),
            dispatches: counts.map(|counts| counts.dispatches).filter(|&dispatches| dispatches > 0),
            busy_ns: (sum > 0).then(|| self.ns(ticks.busy)),
            shares: (sum > 0).then(|| TaskShares {
                busy: share(ticks.busy),
                input_wait: share(ticks.input_wait),
                output_wait: share(ticks.output_wait),
                ready: share(ticks.ready),
            }),
            service_ns: messages
                .filter(|&messages| messages > 0 && sum > 0)
                .map(|messages| self.ns(ticks.busy) / messages as f64),
            failed,
            ended_badly,
        }
    }

    fn components_report(&self, names: &Names) -> Vec<Component> {
        // Sites with one path (a network that was loaded twice) are one component.
        let mut by_path: BTreeMap<String, (SiteName, ComponentSum)> = BTreeMap::new();
        for (&site, sum) in &self.components {
            if sum.tasks == 0 {
                continue;
            }
            let name = site_name(names, site);
            let (_, total) =
                by_path.entry(name.path.clone()).or_insert_with(|| (name, ComponentSum::default()));
            total.add(sum);
        }
        let mut components: Vec<Component> = by_path
            .into_values()
            .map(|(name, sum)| {
                let counts = if sum.uncounted == 0 {
                    Some(sum.counts)
                } else {
                    (sum.streams > 0).then_some(TaskCounts {
                        dispatches: 0,
                        reads: sum.stream_reads,
                        writes: sum.stream_writes,
                    })
                };
                Component {
                    path: name.path,
                    kind: name.kind,
                    place: name.place,
                    tasks: sum.tasks,
                    tasks_live: sum.tasks_live,
                    work: self.work(&sum.ticks, counts, sum.failed, sum.ended_badly),
                }
            })
            .collect();
        components.sort_by(|a, b| {
            let busy = |component: &Component| component.work.busy_ns.unwrap_or(0.0);
            let own = |component: &Component| component.path == NO_COMPONENT;
            own(a).cmp(&own(b)).then(busy(b).total_cmp(&busy(a))).then_with(|| a.path.cmp(&b.path))
        });
        components
    }

    fn tasks_report(&self, names: &Names) -> Vec<report::Task> {
        self.finished
            .iter()
            .map(|task| report::Task {
                id: task.id,
                name: self.task_name(names, task.component, task.replica),
                worker: task.worker,
                state: task.state.to_owned(),
                work: self.work(&task.ticks, task.counts, task.failed, u64::from(task.ended_badly)),
            })
            .collect()
    }

    fn task_name(&self, names: &Names, component: u64, replica: u64) -> String {
        let path = site_name(names, component).path;
        let several = self.components.get(&component).is_some_and(|sum| sum.tasks > 1);
        if several { format!("{path}[{replica}]") } else { path }
    }

    fn streams_report(&self, names: &Names, whole: bool) -> Vec<report::Stream> {
        let path = |site: u64| (site != 0).then(|| site_name(names, site).path);
        let mut streams: Vec<report::Stream> = self
            .edges
            .iter()
            .map(|(key, edge)| {
                let (writer, reader) = (path(key.writer), path(key.reader));
                let between =
                    || format!("{} → {}", writer.as_deref().unwrap_or("?"), reader.as_deref().unwrap_or("?"));
                let known = edge.unknown < edge.streams;
                let seen = edge.seen_read > 0;
                let open = edge.open_ticks as f64;
                // From a part of the events nothing tells what was in a stream when the part begins.
                let has_events = whole && edge.open_ticks > 0;
                let read = edge.positions.read.saturating_sub(edge.failed);
                let per_s = 1e9 / self.ns(edge.open_ticks / edge.streams.max(1));
                report::Stream {
                    name: names
                        .names
                        .get(&key.name)
                        .filter(|name| !name.is_empty())
                        .cloned()
                        .unwrap_or_else(between),
                    role: ["entry", "inner", "exit"][usize::from(key.role)].to_owned(),
                    streams: edge.streams,
                    capacity: edge.capacity,
                    written: known.then_some(edge.positions.written),
                    read: known.then_some(read),
                    failed: edge.failed.min(edge.positions.read),
                    held: known.then_some(edge.held),
                    dropped: known.then_some(edge.positions.dropped),
                    rate_per_s: (known && edge.open_ticks > 0).then_some(edge.positions.read as f64 * per_s),
                    occupancy_mean: (has_events && seen).then(|| edge.occupancy_ticks / open),
                    occupancy_max: (has_events && seen).then_some(edge.occupancy_max),
                    wait_ns: (has_events && seen)
                        .then(|| edge.occupancy_ticks * self.options.ns_per_tick / edge.seen_read as f64),
                    full_share: has_events.then(|| edge.full_ticks as f64 / open),
                    empty_share: has_events.then(|| edge.empty_ticks as f64 / open),
                    conserved: known.then_some(edge.broken == 0),
                    writer,
                    reader,
                }
            })
            .collect();
        streams.sort_by(|a, b| {
            let inner = |stream: &report::Stream| stream.role == "inner";
            inner(a)
                .cmp(&inner(b))
                .then(b.written.cmp(&a.written))
                .then_with(|| a.name.cmp(&b.name))
                .then_with(|| a.role.cmp(&b.role))
        });
        streams
    }

    fn workers_report(&self, names: &Names, ending: &Ending, end: u64, whole: bool) -> Vec<report::Worker> {
        let mut ids: Vec<u64> = self.workers.keys().copied().collect();
        ids.sort_unstable();
        ids.into_iter()
            .map(|id| {
                let worker = &self.workers[&id];
                let started = worker.started.or(self.first).unwrap_or(end);
                let ended = worker.ended.unwrap_or(end);
                let lifetime = ended.saturating_sub(started);
                let still_waiting = worker.waiting_since.map_or(0, |since| ended.saturating_sub(since));
                let (busy, waiting) = match worker.totals {
                    Some(totals) if !whole => totals,
                    _ => (worker.busy_ticks, worker.waiting_ticks + still_waiting),
                };
                let dispatches = if whole { Some(worker.dispatches) } else { worker.totals_dispatches };
                let stuck_since = ending.stuck.get(&id).filter(|_| ending.state == State::Running);
                let held = ending.state == State::Killed || stuck_since.is_some();
                let on_task = (held && worker.ended.is_none())
                    .then(|| self.tasks.get(&worker.on_task).filter(|_| worker.on_task != 0))
                    .flatten()
                    .map(|task| self.task_name(names, task.component, task.replica));
                report::Worker {
                    id,
                    core: u64::try_from(worker.core).ok(),
                    lifetime_ns: self.ns(lifetime),
                    shares: worker_shares(lifetime, busy, waiting),
                    dispatches,
                    messages: whole.then_some(worker.messages),
                    on_message: on_task.is_some().then_some(worker.on_message),
                    stuck_ns: stuck_since.map(|&since| self.ns(end.saturating_sub(since))),
                    on_task,
                }
            })
            .collect()
    }

    /// Boxes with threads of their own that ran when the process died, and the message each was on.
    fn killed_alone(&self, names: &Names) -> Vec<(String, u64)> {
        let mut alone: Vec<(String, u64)> = self
            .tasks
            .values()
            .filter(|task| task.running && task.blocking)
            .filter(|task| names.sites.get(&task.component).is_some_and(|site| site.kind == "box"))
            .filter_map(|task| {
                let read = task.totals?.counts?.reads.checked_sub(1)?;
                Some((self.task_name(names, task.component, task.replica), read))
            })
            .collect();
        alone.sort();
        alone
    }

    /// Which boxes the workers were in when the process died, or hang in while it runs.
    fn places(&self, names: &Names, report: &Report) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut note = |code: &str, text: String| notes.push(Note { code: code.to_owned(), text });
        let on = |worker: &report::Worker| {
            Some((worker.id, worker.on_task.as_ref()?.clone(), worker.on_message?, worker.stuck_ns))
        };
        for (worker, task, message, stuck_ns) in report.workers.iter().filter_map(on) {
            match stuck_ns {
                None => note(
                    "died_on",
                    format!(
                        "The process died while worker {worker} was in {task}, on its message {message}."
                    ),
                ),
                Some(stuck_ns) => note(
                    "stuck",
                    format!(
                        "Worker {worker} hangs: it has been in {task}, on its message {message}, for at least {:.1} s, and its \
                         other tasks wait.",
                        stuck_ns / 1e9
                    ),
                ),
            }
        }
        if report.window.state == State::Killed {
            for (task, message) in self.killed_alone(names) {
                note(
                    "died_on",
                    format!("The process died while {task} was on its message {message}, on its own thread."),
                );
            }
        }
        notes
    }

    /// What the reader of the report must know of what it leaves out.
    fn notes(&self, report: &Report) -> Vec<Note> {
        let mut notes = self.notes.clone();
        let mut note = |code: &str, text: String| notes.push(Note { code: code.to_owned(), text });
        let modes: Vec<Mode> = self.modes.iter().map(|&(_, mode)| mode).collect();
        if self.events == 0 {
            note(
                "no_events",
                "The space holds no events: the run has not begun, or was not observed.".to_owned(),
            );
            return notes;
        }
        if self.dispatches == 0 && !modes.contains(&Mode::Full) {
            note(
                "mode",
                match modes.last() {
                    Some(Mode::Off) => {
                        "Mode off tells counts only: no shares of time, latencies or occupancies. Use mode metrics or full."
                    }
                    _ => "Mode metrics tells counts and shares of time: no latencies or occupancies. Use mode full.",
                }
                .to_owned(),
            );
        } else if self.dispatches > 0 && modes.iter().any(|&mode| mode != Mode::Full) {
            note(
                "mode_changed",
                "The mode changed during the run: latencies speak of the time in mode full only, occupancies are left out."
                    .to_owned(),
            );
        }
        if self.gaps > 0 {
            note(
                "lost",
                format!(
                    "{} events were lost in {} places: latencies speak of what is left, occupancies are left out; counts and \
                     shares are the totals the tasks, streams and workers keep. Keep a run whole with --keep.",
                    self.lost, self.gaps
                ),
            );
        }
        if self.malformed > 0 {
            note("malformed", format!("{} events contradict themselves and were left out.", self.malformed));
        }
        let latency = &report.latency;
        if latency.unattributed > 0 {
            note(
                "unattributed",
                format!(
                    "{} messages have no known input message (a component's own, or what lost events would tell): the \
                     latencies leave them out.",
                    latency.unattributed
                ),
            );
        }
        if latency.in_flight > 0 {
            note(
                "in_flight",
                format!(
                    "{} input messages had not left at the end; their latencies are not counted.",
                    latency.in_flight
                ),
            );
        }
        if report.throughput.messages_in.is_none() {
            note("no_entry", "No entry stream is known, so there is no throughput.".to_owned());
        }
        if report.broken_count > 0 {
            note(
                "not_conserved",
                format!(
                    "{} streams do not conserve their messages (listed under broken).",
                    report.broken_count
                ),
            );
        }
        notes
    }
}

/// Busy, waiting and the rest of a worker's lifetime. Published at different moments, the parts may exceed the whole by
/// a little: then they are the whole.
fn worker_shares(lifetime: u64, busy: u64, waiting: u64) -> Option<WorkerShares> {
    if busy == 0 && waiting == 0 || lifetime == 0 {
        return None;
    }
    let total = lifetime.max(busy.saturating_add(waiting)) as f64;
    let (busy, waiting) = (busy as f64 / total, waiting as f64 / total);
    Some(WorkerShares { busy, waiting, unaccounted: (1.0 - busy - waiting).max(0.0) })
}

fn site_name(names: &Names, site: u64) -> SiteName {
    names.sites.get(&site).cloned().unwrap_or_else(|| SiteName {
        path: if site == 0 { NO_COMPONENT.to_owned() } else { format!("component {site}") },
        ..SiteName::default()
    })
}

impl ComponentSum {
    fn add(&mut self, other: &ComponentSum) {
        self.tasks += other.tasks;
        self.tasks_live += other.tasks_live;
        self.ticks.add(&other.ticks);
        self.counts.dispatches += other.counts.dispatches;
        self.counts.reads += other.counts.reads;
        self.counts.writes += other.counts.writes;
        self.uncounted += other.uncounted;
        self.stream_reads += other.stream_reads;
        self.stream_writes += other.stream_writes;
        self.streams += other.streams;
        self.failed += other.failed;
        self.ended_badly += other.ended_badly;
    }
}
