//! The interface of all monitors, both the built-in ones and those that users write.
//!
//! A monitor says which kinds of event it wants ([`Monitor::wants`]), receives them in batches in order of
//! time with gaps marked ([`Monitor::take`]), and publishes its results into the [`Report`]
//! ([`Monitor::publish`]): built-in monitors fill the report's own parts, a user's monitor adds
//! [`Measurement`]s under names of its choice, which `--json` and the terminal show
//! beside the built-in ones.
//!
//! A monitor receives values and never opens files, so it also works on events from another machine.
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
use crate::report::{Limits, Measurement, Report, SpaceInfo, State};

/// Consumes events of a run and publishes measurements.
pub trait Monitor {
    /// The monitor's name; the names of its measurements begin with it.
    fn name(&self) -> &str;

    /// The kinds that the monitor wants, by their names in the catalog (`net.record_failed`); `*` at the end
    /// matches any rest of a name. Three more kinds are composed of several events: `run.dispatch`,
    /// `run.wait`, `run.stream_told`. Gaps are always passed on.
    fn wants(&self) -> &[&str];

    /// Receives the next events, which are in order of time, and not earlier than those of the batch before.
    fn take(&mut self, batch: &Batch<'_>);

    /// Restarts the measurement at `time`. The state of the program (which tasks exist, what they are doing)
    /// is kept.
    fn restart(&mut self, time: u64) {
        let _ = time;
    }

    /// Publishes what was measured until `moment`. This method is called repeatedly while the program runs.
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

/// The context of a report: the state of the process, its rows and settings.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Whether the process lives, has ended, or died.
    pub state: State,
    /// The present ticks of the clock for a live process; for a killed process, the last time at which it is
    /// known to have lived.
    pub now: Option<u64>,
    /// The value of the setting `monitor.mode`, if there is one.
    pub mode: Option<Mode>,
    /// The live table.
    pub rows: Vec<LiveRow>,
    /// The workers that hang, each with the tick since which the worker has been on the same message.
    pub stuck: HashMap<u64, u64>,
    /// Bytes of events written during the measured time, headers of blocks included, if known.
    pub event_bytes: Option<u64>,
    /// Nanoseconds for which the archive's disk was full, and the part of them in which the run waited for
    /// the disk.
    pub disk_ns: Option<[f64; 2]>,
    /// The settings that limit the run's dispatches and its messages in flight, if they can be read.
    pub limits: Option<Limits>,
    /// The keys of the shared map with their values, if there are any.
    pub map: Vec<Measurement>,
    /// The process that was observed.
    pub space: SpaceInfo,
}

impl Default for Ending {
    /// The end of a run that ended in order and of which only the events are known.
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
            map: Vec::new(),
            space: SpaceInfo::default(),
        }
    }
}

/// The time span and the context for which measurements are published.
pub struct Moment<'a> {
    /// The beginning of the measured time, in ticks.
    pub begin: u64,
    /// The end of the measured time, in ticks.
    pub end: u64,
    /// Whether the mode was full from `begin` on and every event since then was read.
    pub whole: bool,
    /// Nanoseconds per tick.
    pub ns_per_tick: f64,
    /// The number of clock readings for the events: events of one writer with equal times share one reading.
    pub clock_readings: u64,
    /// The maximal number of single tasks, streams and other entries to publish.
    pub top: usize,
    /// The tasks, streams and components that exist.
    pub structure: &'a Structure,
    /// The names of the components, streams and sites that events contain as numbers.
    pub names: &'a Names,
    /// The state of the process and its live table.
    pub ending: &'a Ending,
    /// The waits and dispatches that have not ended, as if they ended now.
    pub open: &'a [Open],
}

impl Moment<'_> {
    /// Converts ticks to nanoseconds.
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

/// The unfinished wait or run of a task that exists.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open {
    /// The task's id.
    pub task: u64,
    /// The task's last wait, until the task was dispatched or until now.
    pub wait: Option<Wait>,
    /// The tick at which the task's present dispatch began, if the task is running.
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

    /// The descent that a dispatch recorded for the messages it wrote.
    pub fn derived(&self, dispatch: &Dispatch) -> &'a [Derived] {
        dispatch.derived.of(&self.buffer.derived)
    }

    /// The tasks and streams that exist; they stay known until after the batch that contains their end.
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
