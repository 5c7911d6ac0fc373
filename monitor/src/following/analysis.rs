//! The streaming analysis: it receives a program's events in order of time and makes a [`Report`], once or
//! repeatedly.
//!
//! The analysis keeps the [`Structure`](crate::Structure) of the run, composes dispatches and waits from
//! events, and passes them to the monitors in batches. Memory is bounded by the tasks, streams and messages
//! in flight that exist at a time. Tasks and streams that ended are added to sums by component (and by pair
//! of components, for streams); of single tasks only the busiest are kept.
//!
//! Counts and shares come from the events if every event was read and the mode was full throughout; else from
//! the totals that tasks, streams and workers publish in the live table and record at their end, which no
//! overwritten event can falsify. Latencies, waits and occupancies can be computed from events only.

use std::collections::HashSet;

use crate::composing::base::Base;
use crate::composing::composer::{COMPOSED, Composer, Sink};
use crate::composing::dispatch::{Buffer, Item, Kind, Value, What};
use crate::composing::structure::{OWN_THREAD, Task};
use crate::decoding::events::{KINDS, Observation, StreamOpened};
use crate::decoding::names::Names;
use crate::decoding::observation::{LiveRow, LiveState, Mode};
use crate::decoding::texts::Texts;
use crate::following::ahead::{Decoded, Steps, Wanted};
use crate::following::notes::{not_adding_up, notes, places};
use crate::monitor::Ending;
use crate::monitor::{Batch, Moment, Monitor, Open, wants};
use crate::monitors::built_in;
use crate::report::{ModeSpan, Note, Report, State, Window};
use crate::verdict;

/// The number of items in a batch: a batch of this size fits into the first-level cache.
const BATCH: usize = 256;
/// A batch is passed to the monitors early if its texts have more bytes than this.
const TEXT_BYTES: usize = 1 << 16;
/// The least number of entries in a report's lists while the verdict is made; the lists are shortened
/// afterwards.
const TOP_MIN: usize = 64;

/// Options of an analysis.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nanoseconds per tick of the space's clock.
    pub ns_per_tick: f64,
    /// The maximal number of single tasks, waits and broken streams in the report.
    pub top: usize,
}

/// Consumes the events of a program in order of time.
pub struct Analysis<'m> {
    options: Options,
    composer: Composer,
    buffer: Buffer,
    monitors: Vec<Listening<'m>>,
    kinds: Vec<Kind>,
    /// Kinds that some monitor wants.
    wanted: Vec<bool>,
    base: Base,
    events: u64,
    lost: u64,
    /// The writer of the last event, and its time.
    last_event: (u64, u64),
    /// The number of readings of the clock, estimated from changes of time or writer between events.
    clock_readings: u64,
    notes: Vec<Note>,
    /// Whether the buffered texts belong to events of which some are not yet processed, so that the texts
    /// must be kept.
    has_texts_to_come: bool,
}

/// A monitor and the kinds it wants.
struct Listening<'m> {
    monitor: Box<dyn Monitor + 'm>,
    wanted: Vec<bool>,
}

impl<'m> Analysis<'m> {
    /// An analysis with the built-in monitors, before any event.
    pub fn new(options: Options) -> Analysis<'m> {
        let mut analysis = Analysis::bare(options);
        for monitor in built_in(analysis.options.ns_per_tick) {
            analysis.add(monitor);
        }
        analysis
    }

    /// An analysis without monitors.
    pub fn bare(options: Options) -> Analysis<'m> {
        let names = KINDS.iter().map(|kind| kind.name).chain(COMPOSED);
        let kinds: Vec<Kind> = names.map(|name| Kind { name: name.to_owned(), fields: Vec::new() }).collect();
        Analysis {
            options,
            composer: Composer::default(),
            buffer: Buffer::default(),
            monitors: Vec::new(),
            wanted: vec![false; kinds.len()],
            kinds,
            base: Base::default(),
            events: 0,
            lost: 0,
            last_event: (u64::MAX, u64::MAX),
            clock_readings: 0,
            notes: Vec::new(),
            has_texts_to_come: false,
        }
    }

    /// Adds a monitor, which publishes after those added earlier; a monitor should be added before the first
    /// event is observed.
    pub fn add(&mut self, monitor: Box<dyn Monitor + 'm>) {
        let mut listening = Listening { monitor, wanted: Vec::new() };
        listening.learn(&self.kinds);
        for (any, wanted) in self.wanted.iter_mut().zip(&listening.wanted) {
            *any |= wanted;
        }
        self.monitors.push(listening);
    }

    /// Adds a note for the reader of the report.
    pub fn note(&mut self, code: &str, text: String) {
        self.notes.push(Note { code: code.to_owned(), text });
    }

    /// Sets the mode in which the run began; later changes are recorded as events.
    pub fn begin_in(&mut self, mode: Mode) {
        let modes = &mut self.composer.structure.modes;
        if modes.is_empty() {
            modes.push((0, mode));
        }
    }

    /// Declares that a loss of this writer's events does not make the events of other writers incomplete.
    pub(crate) fn may_lack(&mut self, writer: u64) {
        self.composer.samplers.push(writer);
    }

    /// The number of a kind that is not one of the runtime's, if some monitor wants this kind.
    pub fn kind(&mut self, name: &str, fields: impl Iterator<Item = String>) -> Option<u16> {
        let number = u16::try_from(self.kinds.len()).ok()?;
        if !self.monitors.iter().any(|listening| wants(listening.monitor.wants(), name)) {
            return None;
        }
        self.kinds.push(Kind { name: name.to_owned(), fields: fields.collect() });
        for listening in &mut self.monitors {
            listening.learn(&self.kinds);
        }
        self.wanted.push(true);
        Some(number)
    }

    /// Counts an event that no monitor wants.
    #[inline]
    pub fn unknown_event(&mut self, time: u64, writer: u64) {
        self.count(time, writer);
    }

    /// Counts an event. Events of one writer with equal times share one reading of the clock.
    #[inline]
    fn count(&mut self, time: u64, writer: u64) {
        self.events += 1;
        self.clock_readings += u64::from(self.last_event != (time, writer));
        self.last_event = (time, writer);
    }

    /// Observes an event of a kind to which [`Analysis::kind`] gave a number, with all its values.
    pub fn other(&mut self, time: u64, writer: u64, kind: u16, values: impl Iterator<Item = Value>) {
        self.count(time, writer);
        let first = self.buffer.values.len() as u32;
        self.buffer.values.extend(values);
        self.buffer.items.push(Item { time, writer, kind, what: What::Other { first } });
        self.deliver_full();
    }

    /// Records that `lost` events of `writer` are missing at this point.
    pub fn gap(&mut self, writer: u64, lost: u64) {
        self.lost = self.lost.saturating_add(lost);
        let mut sink = Sink { buffer: &mut self.buffer, wanted: &self.wanted };
        self.composer.gap(writer, lost, &mut sink);
    }

    /// Records an event of `writer` whose kind no catalog describes: its content is unknown, and no other
    /// event is missing.
    pub fn unknown_kind(&mut self, writer: u64) {
        self.lost = self.lost.saturating_add(1);
        let mut sink = Sink { buffer: &mut self.buffer, wanted: &self.wanted };
        self.composer.unseen(writer, 1, &mut sink);
    }

    /// Observes an event of `writer` at `time`.
    #[inline]
    pub fn observe(&mut self, time: u64, writer: u64, observation: &Observation) {
        self.count(time, writer);
        match observation {
            Observation::BriefTaskEnded(ended) => {
                ended.parts().iter().flatten().for_each(|part| self.compose(time, writer, part));
            }
            _ => self.compose(time, writer, observation),
        }
        self.deliver_full();
    }

    #[inline]
    fn compose(&mut self, time: u64, writer: u64, observation: &Observation) {
        let mut sink = Sink { buffer: &mut self.buffer, wanted: &self.wanted };
        if self.base.is_empty() {
            self.composer.observe(time, writer, observation, &mut sink);
        } else {
            self.composer.observe(time, writer, &self.base.subtract_from(observation), &mut sink);
        }
    }

    /// The buffer into which the next event's texts are written.
    pub(crate) fn texts(&mut self) -> &mut Texts {
        if self.buffer.texts.bytes() > TEXT_BYTES && !self.has_texts_to_come {
            self.deliver();
        }
        &mut self.buffer.texts
    }

    #[inline]
    fn deliver_full(&mut self) {
        if self.buffer.items.len() >= BATCH {
            self.deliver();
        }
    }

    /// Passes the buffered items to the monitors.
    fn deliver(&mut self) {
        for listening in &mut self.monitors {
            listening.monitor.take(&Batch {
                items: &self.buffer.items,
                buffer: &self.buffer,
                kinds: &self.kinds,
                wanted: &listening.wanted,
                structure: &self.composer.structure,
            });
        }
        self.buffer.clear();
        if !self.has_texts_to_come {
            self.buffer.texts.clear();
        }
        self.composer.forget_ended();
    }

    /// Processes decoded events and their texts, and empties `steps`.
    pub(super) fn take_steps(&mut self, steps: &mut Steps) {
        self.deliver();
        std::mem::swap(&mut self.buffer.texts, &mut steps.texts);
        self.has_texts_to_come = true;
        steps.make(self);
        self.has_texts_to_come = false;
        self.deliver();
        std::mem::swap(&mut self.buffer.texts, &mut steps.texts);
    }

    /// The kinds that monitors want, and the number that the next new kind gets.
    pub(super) fn wanted(&self) -> Wanted {
        let names = self.monitors.iter().flat_map(|listening| listening.monitor.wants());
        let next = u16::try_from(self.kinds.len()).unwrap_or(u16::MAX);
        Wanted { names: names.map(|name| (*name).to_owned()).collect(), next }
    }

    /// Restarts the measurement at `time`; `rows` is the live table at that time.
    pub fn restart(&mut self, time: u64, rows: Vec<LiveRow>) {
        self.deliver();
        for row in &rows {
            self.take_row(row, &HashSet::new());
        }
        self.composer.learn(time, &rows);
        self.composer.restart(time);
        for listening in &mut self.monitors {
            listening.monitor.restart(time);
        }
        self.base = Base::new(&rows);
        (self.events, self.lost, self.clock_readings) = (0, 0, 0);
    }

    /// Ends the analysis and returns the report of all events observed.
    pub fn finish(mut self, names: &Names, ending: Ending) -> Report {
        if ending.state != State::Running {
            let mut sink = Sink { buffer: &mut self.buffer, wanted: &self.wanted };
            self.composer.flush(&mut sink);
        }
        self.report(names, ending)
    }

    /// Returns the report of the events observed so far.
    pub fn report(&mut self, names: &Names, mut ending: Ending) -> Report {
        self.deliver();
        let on_workers: HashSet<u64> = ending.rows.iter().filter_map(on_worker).collect();
        let mut running: Vec<u64> = Vec::new();
        for row in &ending.rows {
            running.extend(self.take_row(row, &on_workers));
        }
        ending.rows.iter_mut().for_each(|row| self.base.subtract_from_row(row));
        let end = self.end(&ending);
        self.settle_modes(&ending);
        let structure = &self.composer.structure;
        let moment = Moment {
            begin: self.begin(&ending, end),
            end,
            whole: structure.whole(),
            ns_per_tick: self.options.ns_per_tick,
            clock_readings: self.clock_readings,
            top: self.options.top.max(TOP_MIN),
            structure,
            names,
            ending: &ending,
            open: &open(structure.tasks(), &running, end),
        };
        let mut report = Report { space: ending.space.clone(), ..Report::empty() };
        report.window = self.window(&moment);
        report.limits = ending.limits;
        for listening in &mut self.monitors {
            listening.monitor.publish(&moment, &mut report);
        }
        report.measurements.extend(ending.map.iter().cloned());
        report.utilisation = verdict::utilisation(&report);
        let of_monitors = std::mem::take(&mut report.notes);
        report.notes = places(&report, &moment);
        report.notes.extend(of_monitors);
        report.notes.extend(notes(&report, &self.notes, structure));
        report.verdict = verdict::verdict(&report);
        let wrong = report.contradictions();
        // In builds with debug assertions, such as tests, a report whose accounts do not add up panics here.
        debug_assert_eq!(wrong, Vec::<String>::new(), "the report's accounts do not add up");
        report.notes.extend(not_adding_up(&wrong));
        shorten(&mut report, self.options.top);
        report
    }

    /// The start of the measured time.
    fn begin(&self, ending: &Ending, end: u64) -> u64 {
        let structure = &self.composer.structure;
        let started = ending.rows.iter().filter_map(|row| match row {
            LiveRow::Worker { started, .. } if *started > 0 && !structure.restarted => Some(*started),
            _ => None,
        });
        started.chain(structure.begin).min().unwrap_or(end).min(end)
    }

    /// The last known moment of the run.
    fn end(&self, ending: &Ending) -> u64 {
        let updated = ending.rows.iter().filter_map(|row| match row {
            LiveRow::Worker { updated, .. } => Some(*updated),
            _ => None,
        });
        let last = self.composer.last;
        let known = updated.chain([last]).max().unwrap_or(0);
        match (ending.state, ending.now) {
            (State::Running | State::Killed, Some(now)) => now.max(known),
            (State::Ended, _) if last > 0 => last,
            _ => known,
        }
    }

    fn settle_modes(&mut self, ending: &Ending) {
        let last = self.composer.last;
        let gapless_since = self.composer.gapless_since;
        let structure = &mut self.composer.structure;
        if let (Some(&(_, mode)), Some(now)) = (structure.modes.last(), ending.mode)
            && mode != now
        {
            // The event of the change of mode was lost; the change happened before the remaining events.
            structure.modes.push((gapless_since.unwrap_or(last), now));
        }
        if !structure.modes.is_empty() {
            return;
        }
        let mode = if structure.dispatches > 0 { Some(Mode::Full) } else { ending.mode };
        structure.modes.extend(mode.map(|mode| (structure.begin.unwrap_or(0), mode)));
    }

    /// Reads from a live row what no event has recorded yet. Returns the row's task if the task was running
    /// and has not stopped since. A task runs on a thread of its own, or on the worker whose row names it.
    fn take_row(&mut self, row: &LiveRow, on_workers: &HashSet<u64>) -> Option<u64> {
        let structure = &mut self.composer.structure;
        match *row {
            LiveRow::Task { task, state, component, replica, worker, .. } => {
                if task == 0 || state == LiveState::Ended {
                    return None;
                }
                let known = structure.tasks.entry(task).or_default();
                if known.component == 0 {
                    (known.component, known.replica) = (component, replica);
                }
                known.worker = (worker < OWN_THREAD && !known.blocking).then_some(worker);
                let is_on = state == LiveState::Ready && on_workers.contains(&task);
                (is_on || state == LiveState::Running).then_some(task)
            }
            LiveRow::Stream { stream, name, reader, writer, capacity, .. } => {
                if stream == 0 || structure.stream(stream).is_some_and(|state| state.closed.is_some()) {
                    return None;
                }
                // The event that records the opening of the stream may be lost or not recorded yet.
                if structure.stream(stream).is_none_or(|state| state.opened.is_none()) {
                    let begin = structure.begin.unwrap_or(0);
                    let opened = StreamOpened { stream, name, reader, writer, capacity };
                    self.composer.stream_opened(begin, &opened);
                }
                None
            }
            LiveRow::Sizes { .. } | LiveRow::Worker { .. } => None,
        }
    }

    fn window(&self, moment: &Moment<'_>) -> Window {
        let structure = moment.structure;
        let since = |time: u64| moment.ns(time.saturating_sub(moment.begin));
        let gapless = self.composer.gapless_since.unwrap_or(moment.end);
        Window {
            duration_ns: since(moment.end),
            state: moment.ending.state,
            paused_ns: structure
                .paused
                .filter(|_| moment.ending.state == State::Running)
                .map(|since| moment.ns(moment.end.saturating_sub(since.max(moment.begin)))),
            modes: structure
                .modes
                .iter()
                .map(|&(time, mode)| ModeSpan { mode: mode.word().to_owned(), from_ns: since(time) })
                .collect(),
            complete: moment.whole,
            partial: structure.restarted,
            events_ns: (!moment.whole && structure.dispatches > 0)
                .then(|| moment.ns(moment.end.saturating_sub(gapless))),
            events: self.events,
            lost: self.lost,
            gaps: structure.gaps,
            malformed: self.composer.malformed,
            disk_full_ns: moment.ending.disk_ns.map(|[full, _]| full),
            disk_held_ns: moment.ending.disk_ns.map(|[_, held]| held),
        }
    }
}

impl Decoded for Analysis<'_> {
    #[inline]
    fn observe(&mut self, time: u64, writer: u64, observation: &Observation) {
        self.observe(time, writer, observation);
    }

    #[inline]
    fn unknown_event(&mut self, time: u64, writer: u64) {
        self.unknown_event(time, writer);
    }

    fn gap(&mut self, writer: u64, lost: u64) {
        self.gap(writer, lost);
    }

    fn unknown_kind(&mut self, writer: u64) {
        self.unknown_kind(writer);
    }

    fn kind(&mut self, name: &str, fields: Vec<String>) -> Option<u16> {
        self.kind(name, fields.into_iter())
    }

    fn other(&mut self, time: u64, writer: u64, kind: u16, values: impl Iterator<Item = Value>) {
        self.other(time, writer, kind, values);
    }

    fn restart(&mut self, time: u64) {
        self.restart(time, Vec::new());
    }

    #[inline]
    fn texts(&mut self) -> &mut Texts {
        self.texts()
    }
}

impl Listening<'_> {
    /// Finds out which of the kinds the monitor wants.
    fn learn(&mut self, kinds: &[Kind]) {
        let wanted = self.monitor.wants();
        let known = self.wanted.len();
        self.wanted
            .extend(kinds[known..].iter().map(|kind| wants(wanted, &kind.name) || kind.name == "run.gap"));
    }
}

/// The task that a worker is running, from the worker's row.
fn on_worker(row: &LiveRow) -> Option<u64> {
    match *row {
        LiveRow::Worker { task: task @ 1.., ended: false, .. } => Some(task),
        _ => None,
    }
}

/// The state of each task at `end`: running or waiting.
fn open<'a>(tasks: impl Iterator<Item = (u64, &'a Task)>, running: &[u64], end: u64) -> Vec<Open> {
    let running: HashSet<u64> = running.iter().copied().collect();
    tasks
        .filter(|&(task, _)| task != 0)
        .map(|(task, state)| {
            let (wait, running_since) = state.timeline.open(task, end, running.contains(&task));
            Open { task, wait, running_since }
        })
        .collect()
}

/// Leaves out the parts of the report that were not asked for.
pub(crate) fn shorten(report: &mut Report, top: usize) {
    let top = top.max(1);
    report.tasks.truncate(top);
    report.broken.truncate(top);
    report.slowest.truncate(top);
    report.failures.truncate(top);
    report.utilisation.truncate(top);
    report.waiting.now.truncate(top);
    report.waiting.matrix.truncate(top);
    report.waiting.roots.truncate(top);
}
