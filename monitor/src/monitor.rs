//! The interface that all monitors are written against, the built-in ones as well as a user's own.
//!
//! A monitor says which kinds of event it wants ([`Monitor::wants`]), is given them in batches in order of time with
//! gaps marked ([`Monitor::take`]), keeps what state it needs, and publishes what it measured into the [`Report`]
//! ([`Monitor::publish`]): the built-in ones fill the report's own parts, a user's adds [`Measurement`](crate::Measurement)s under names of its choice,
//! which `--json` and the terminal show as they show ours.
//!
//! A monitor sees values, never files: nothing here assumes that the program runs, or ran, on this machine.
//!
//! ```
//! use thalweg_monitor::{Batch, Measurement, Moment, Monitor, Report, What};
//!
//! /// How many dispatches ended with their quantum spent.
//! #[derive(Default)]
//! struct Yields(u64);
//!
//! impl Monitor for Yields {
//!     fn name(&self) -> &str {
//!         "yields"
//!     }
//!
//!     fn wants(&self) -> &[&str] {
//!         &["exec.task_yielded"]
//!     }
//!
//!     fn take(&mut self, batch: &Batch<'_>) {
//!         self.0 += batch.items().filter(|item| !matches!(item.what, What::Gap { .. })).count() as u64;
//!     }
//!
//!     fn restart(&mut self, _time: u64) {
//!         self.0 = 0;
//!     }
//!
//!     fn publish(&mut self, _moment: &Moment<'_>, report: &mut Report) {
//!         report.measurements.push(Measurement::number("yields.count", "dispatches", self.0 as f64));
//!     }
//! }
//! ```

use std::collections::HashMap;

use crate::composing::dispatch::{Buffer, Dispatch, Item, Kind, Value, Wait, What};
use crate::composing::structure::Structure;
use crate::decoding::events::Derived;
use crate::decoding::names::Names;
use crate::decoding::observation::{LiveRow, Mode, Run};
use crate::decoding::texts::Text;
use crate::report::{Limits, Report, SpaceInfo, State};

/// Consumes events of a run and publishes measurements.
pub trait Monitor {
    /// The monitor's name; the names of its measurements begin with it.
    fn name(&self) -> &str;

    /// The kinds that the monitor wants, by their names in the catalog (`net.record_failed`); `*` at the end stands for any rest. Three
    /// more are composed of several events: `run.dispatch`, `run.wait`, `run.stream_told`. Gaps come always.
    fn wants(&self) -> &[&str];

    /// Takes the next events: in order of time within the batch and from batch to batch.
    fn take(&mut self, batch: &Batch<'_>);

    /// Measures anew from `time` on. What is known of the program (what exists, what it is doing) stays known.
    fn restart(&mut self, time: u64) {
        let _ = time;
    }

    /// Publishes what was measured until the moment. While the program runs, this comes again and again.
    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report);
}

impl<M: Monitor + ?Sized> Monitor for &mut M {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn wants(&self) -> &[&str] {
        (**self).wants()
    }

    fn take(&mut self, batch: &Batch<'_>) {
        (**self).take(batch);
    }

    fn restart(&mut self, time: u64) {
        (**self).restart(time);
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        (**self).publish(moment, report);
    }
}

/// What is known when a report is made.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Whether the process lives, has ended, or died.
    pub state: State,
    /// The clock's ticks now, for a process that lives; for one that was killed, when it is last known to have lived.
    pub now: Option<u64>,
    /// The value of the setting `monitor.mode`, if there is one.
    pub mode: Option<Mode>,
    /// The live table.
    pub rows: Vec<LiveRow>,
    /// Workers that hang: since when each has not gone on from the message it is on, in ticks.
    pub stuck: HashMap<u64, u64>,
    /// Bytes of events written while it was measured, headers of blocks included, if that is known.
    pub event_bytes: Option<u64>,
    /// Nanoseconds for which the disk that keeps the events was full, and of these for which the run waited for it.
    pub disk_ns: Option<[f64; 2]>,
    /// What limits the run as it is set, if its settings say so.
    pub limits: Option<Limits>,
    /// The process that was observed.
    pub space: SpaceInfo,
}

impl Default for Ending {
    /// The moment of a run that ended orderly and of which only the events are known.
    fn default() -> Ending {
        Ending {
            state: State::Ended,
            now: None,
            mode: None,
            rows: Vec::new(),
            stuck: HashMap::new(),
            disk_ns: None,
            event_bytes: None,
            limits: None,
            space: SpaceInfo::default(),
        }
    }
}

/// When, and with what knowledge, measurements are published.
pub struct Moment<'a> {
    /// The measurements' begin and end, in ticks.
    pub begin: u64,
    /// See `begin`.
    pub end: u64,
    /// Every event from `begin` on was seen, in mode full.
    pub whole: bool,
    /// Nanoseconds per tick.
    pub ns_per_tick: f64,
    /// How often the program read its clock for the events seen: once for those of a writer that share their time.
    pub clock_readings: u64,
    /// Single tasks, streams and the like to publish at most.
    pub top: usize,
    /// The tasks, streams and components that exist.
    pub structure: &'a Structure,
    /// Names of what events refer to by numbers.
    pub names: &'a Names,
    /// How the process is, and its live table.
    pub ending: &'a Ending,
    /// What the tasks that exist have been doing since their last event, as if it ended now.
    pub open: &'a [Open],
}

impl Moment<'_> {
    /// Ticks as nanoseconds.
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    /// The path of the component of a task that exists.
    pub fn component_of(&self, task: u64) -> Option<String> {
        self.structure.task(task).map(|task| self.names.site(task.component).path)
    }

    /// The name of a task that exists.
    pub fn task_name(&self, task: u64) -> Option<String> {
        let task = self.structure.task(task)?;
        Some(self.names.task(task.component, task.replica, self.several(task.component)))
    }

    /// Whether a component had several tasks.
    pub(crate) fn several(&self, component: u64) -> bool {
        self.structure.components.get(&component).is_some_and(|component| component.tasks > 1)
    }
}

/// What a task that exists was doing up to the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open {
    /// Its id.
    pub task: u64,
    /// The wait it was in, until it was dispatched or until now.
    pub wait: Option<Wait>,
    /// Since when it runs, if it does.
    pub running_since: Option<u64>,
}

/// Events in order of time.
pub struct Batch<'a> {
    pub(crate) items: &'a [Item],
    pub(crate) buffer: &'a Buffer,
    pub(crate) kinds: &'a [Kind],
    pub(crate) wanted: &'a [bool],
    pub(crate) structure: &'a Structure,
}

impl<'a> Batch<'a> {
    /// The events that the monitor wanted.
    pub fn items(&self) -> impl Iterator<Item = &'a Item> + use<'a> {
        let wanted = self.wanted;
        self.items.iter().filter(move |item| wanted[usize::from(item.kind)])
    }

    /// The name of an event's kind.
    pub fn kind(&self, item: &Item) -> &'a str {
        &self.kinds[usize::from(item.kind)].name
    }

    /// A text of an event.
    pub fn text(&self, text: Text) -> &'a str {
        self.buffer.texts.get(text)
    }

    /// A field of an event that is not one of the runtime's.
    pub fn field(&self, item: &Item, name: &str) -> Option<&'a Value> {
        let What::Other { first } = item.what else { return None };
        let at = self.kinds[usize::from(item.kind)].fields.iter().position(|field| field == name)?;
        self.buffer.values.get(first as usize + at)
    }

    /// Messages that a dispatch read, by stream.
    pub fn reads(&self, dispatch: &Dispatch) -> &'a [Run] {
        dispatch.reads.of(&self.buffer.runs)
    }

    /// Messages that a dispatch wrote.
    pub fn writes(&self, dispatch: &Dispatch) -> &'a [Run] {
        dispatch.writes.of(&self.buffer.runs)
    }

    /// Messages that failed in a dispatch.
    pub fn failed(&self, dispatch: &Dispatch) -> &'a [Run] {
        dispatch.failed.of(&self.buffer.runs)
    }

    /// Messages that a dispatch read and its task keeps.
    pub fn held(&self, dispatch: &Dispatch) -> &'a [Run] {
        dispatch.held.of(&self.buffer.runs)
    }

    /// What a dispatch recorded of the descent of what it wrote.
    pub fn derived(&self, dispatch: &Dispatch) -> &'a [Derived] {
        dispatch.derived.of(&self.buffer.derived)
    }

    /// What exists: tasks and streams stay known until the batch with their end was taken.
    pub fn structure(&self) -> &'a Structure {
        self.structure
    }
}

/// Whether a kind is one of those a monitor wants.
pub(crate) fn wants(wanted: &[&str], kind: &str) -> bool {
    wanted.iter().any(|name| match name.strip_suffix('*') {
        Some(begin) => kind.starts_with(begin),
        None => *name == kind,
    })
}
