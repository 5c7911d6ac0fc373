//! What monitors take: single events, dispatches as a whole, waits, and the batches that hold them.

use crate::decoding::events::{Derived, Observation};
use crate::decoding::observation::Run;
use crate::decoding::texts::Texts;

/// One thing in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// When, in ticks of the program's clock.
    pub time: u64,
    /// The writer that recorded it: a thread of the program.
    pub writer: u64,
    pub(crate) kind: u16,
    /// What happened.
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
    /// Nothing more comes of a closed stream: `run.stream_told`.
    StreamTold {
        /// Its id.
        stream: u64,
    },
    /// An event of another kind; `Batch::field` has its fields.
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
    /// For so many ticks of this time its thread could have run and had no processor, as far as that was noticed.
    pub kept: u64,
    /// Why it ended.
    pub outcome: Outcome,
    /// The stream that the task waits for since this dispatch; 0 if it waits for none or for several.
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
    /// For want of messages: nothing that was read remains to be written.
    BlockedInput,
    /// For want of room in an output.
    BlockedOutput,
    /// Quantum spent, or not recorded.
    #[default]
    Yielded,
    /// The task has ended.
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
    /// The task waited for that stream alone, not for any of several.
    pub certain: bool,
    /// When the wait began.
    pub since: u64,
    /// When the task was made ready; from then on it waited for a worker. Not before `since`.
    pub woken: u64,
    /// When the task ran.
    pub until: u64,
    /// Whether the task was made ready.
    pub ended: bool,
    /// Whether the task ended at that time, without reading or writing anything more.
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

/// A part of one of the lists in a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    first: u32,
    count: u32,
}

impl Span {
    pub(crate) fn of<T>(self, list: &[T]) -> &[T] {
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
    /// Empties the buffer, but for the texts.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.runs.clear();
        self.derived.clear();
        self.values.clear();
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
