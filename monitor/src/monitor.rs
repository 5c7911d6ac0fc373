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

use crate::analysis::{Ending, Names};
use crate::events::{Derived, Observation};
use crate::observation::Run;
use crate::report::Report;
use crate::structure::Structure;
use crate::texts::{Text, Texts};

/// Consumes events of a run and publishes measurements.
pub trait Monitor {
    /// What it is called; the names of its measurements begin with this.
    fn name(&self) -> &str;

    /// The kinds it wants, by their names in the catalog (`net.record_failed`); `*` at the end stands for any rest. Three more are
    /// composed of several events: `run.dispatch`, `run.wait`, `run.stream_told`. Gaps come always.
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
    /// What exists.
    pub structure: &'a Structure,
    /// What it is called.
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
    /// What the monitor wanted of them.
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

    /// Messages that it wrote.
    pub fn writes(&self, dispatch: &Dispatch) -> &'a [Run] {
        dispatch.writes.of(&self.buffer.runs)
    }

    /// Messages that failed in it.
    pub fn failed(&self, dispatch: &Dispatch) -> &'a [Run] {
        dispatch.failed.of(&self.buffer.runs)
    }

    /// Messages that it read and its task keeps.
    pub fn held(&self, dispatch: &Dispatch) -> &'a [Run] {
        dispatch.held.of(&self.buffer.runs)
    }

    /// What it said of the descent of what it wrote.
    pub fn derived(&self, dispatch: &Dispatch) -> &'a [Derived] {
        dispatch.derived.of(&self.buffer.derived)
    }

    /// What exists: tasks and streams stay known until the batch that tells their end was taken.
    pub fn structure(&self) -> &'a Structure {
        self.structure
    }
}

/// One thing in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// When, in ticks of the program's clock.
    pub time: u64,
    /// Who said it: a thread of the program.
    pub writer: u64,
    pub(crate) kind: u16,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// An event of the runtime.
    Runtime(Observation),
    /// A dispatch, whole: `run.dispatch`.
    Dispatch(Dispatch),
    /// A task's time between two dispatches: `run.wait`.
    Wait(Wait),
    /// All that a closed stream had to tell was told: `run.stream_told`.
    StreamTold {
        /// Its id.
        stream: u64,
    },
    /// An event of another kind; [`Batch::field`] has its fields.
    Other {
        /// Where its values begin.
        #[doc(hidden)]
        first: u32,
    },
    /// Events of this writer were lost here.
    Gap {
        /// How many.
        lost: u64,
    },
}

/// One dispatch of a task.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch {
    /// The task.
    pub task: u64,
    /// The worker, if it is not a thread of the task's own.
    pub worker: Option<u64>,
    /// When it began and ended.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// For so many ticks of that its thread could have run and had no processor, as far as that was noticed.
    pub kept: u64,
    /// Why it ended.
    pub outcome: Outcome,
    /// The stream the task waits for since, 0 if none or several.
    pub stream: u64,
    pub(crate) reads: Span,
    pub(crate) writes: Span,
    pub(crate) derived: Span,
    pub(crate) failed: Span,
    pub(crate) held: Span,
}

impl Dispatch {
    /// Ticks that the task ran.
    pub fn busy(&self) -> u64 {
        self.end - self.start - self.kept
    }
}

/// How a dispatch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// For want of messages: nothing read waits to be written.
    BlockedInput,
    /// For want of room.
    BlockedOutput,
    /// Quantum spent, or not told.
    #[default]
    Yielded,
    /// The task is no more.
    Ended,
}

/// What a task that does not run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum For {
    /// For its worker only.
    #[default]
    Turn,
    /// For messages.
    Input,
    /// For room.
    Room,
}

/// A task's time between two dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wait {
    /// The task.
    pub task: u64,
    /// What it waited for.
    pub what: For,
    /// The stream it waited for; 0: any of several, and it is not known which ended the wait.
    pub stream: u64,
    /// It waited for that one alone, not for any of several.
    pub certain: bool,
    /// When the wait began.
    pub since: u64,
    /// When the task was made ready; from then on it waited for its turn. Not before `since`.
    pub woken: u64,
    /// When it ran.
    pub until: u64,
    /// It was made ready.
    pub ended: bool,
    /// The task ended then, without reading or writing anything more.
    pub cut: bool,
}

/// A value of an event that is not one of the runtime's.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A natural number; also a name, a site, a choice.
    Natural(u64),
    /// An integer below zero.
    Integer(i64),
    /// A real number.
    Real(f64),
    /// A text.
    Text(String),
}

impl Value {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Value::Natural(number) => Some(number as f64),
            Value::Integer(number) => Some(number as f64),
            Value::Real(number) => Some(number),
            Value::Text(_) => None,
        }
    }
}

/// A kind of event that some monitor wants.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) fields: Vec<String>,
}

/// A part of one of a buffer's lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    first: u32,
    count: u32,
}

impl Span {
    fn of<T>(self, list: &[T]) -> &[T] {
        let first = self.first as usize;
        list.get(first..first + self.count as usize).unwrap_or(&[])
    }
}

/// The items of a batch that is being filled, and what they point into.
#[derive(Default)]
pub(crate) struct Buffer {
    pub(crate) items: Vec<Item>,
    pub(crate) runs: Vec<Run>,
    pub(crate) derived: Vec<Derived>,
    pub(crate) values: Vec<Value>,
    pub(crate) texts: Texts,
}

impl Buffer {
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.runs.clear();
        self.derived.clear();
        self.values.clear();
        self.texts.clear();
    }

    pub(crate) fn runs(&mut self, runs: &[Run]) -> Span {
        let first = self.runs.len() as u32;
        self.runs.extend_from_slice(runs);
        Span { first, count: runs.len() as u32 }
    }

    pub(crate) fn derived(&mut self, derived: &[Derived]) -> Span {
        let first = self.derived.len() as u32;
        self.derived.extend_from_slice(derived);
        Span { first, count: derived.len() as u32 }
    }
}

/// Whether a kind is one of those a monitor wants.
pub(crate) fn wants(wanted: &[&str], kind: &str) -> bool {
    wanted.iter().any(|name| match name.strip_suffix('*') {
        Some(begin) => kind.starts_with(begin),
        None => *name == kind,
    })
}
