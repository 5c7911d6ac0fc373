//! The input of monitors: single events, complete dispatches, waits, and the batches that contain them.

use crate::decoding::events::{Derived, Observation};
use crate::decoding::observation::Run;
use crate::decoding::texts::Texts;

/// An item of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The time of the item, in ticks of the program's clock.
    pub time: u64,
    /// The writer that recorded the item: a thread of the program.
    pub writer: u64,
    pub(crate) kind: u16,
    /// The content of the item.
    pub what: What,
}

/// The content of the item.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// An event of the runtime.
    Runtime(Observation),
    /// A complete dispatch: `run.dispatch`.
    Dispatch(Dispatch),
    /// A task's time between two dispatches: `run.wait`.
    Wait(Wait),
    /// A closed stream has no further events: `run.stream_told`.
    StreamTold {
        /// The stream's id.
        stream: u64,
    },
    /// An event of another kind; `Batch::field` has its fields.
    Other {
        /// The place of the event's first value in the batch's list of values.
        #[doc(hidden)]
        first: u32,
    },
    /// Events of this writer were lost at this point.
    Gap {
        /// The number of events lost.
        lost: u64,
    },
}

/// One dispatch of a task.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch {
    /// The task.
    pub task: u64,
    /// The worker; `None` if the task has a thread of its own.
    pub worker: Option<u64>,
    /// The time at which the dispatch began.
    pub start: u64,
    /// The time at which the dispatch ended.
    pub end: u64,
    /// The ticks of the dispatch in which its thread was runnable without a processor and noticed this.
    pub kept: u64,
    /// The reason why the dispatch ended.
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
    /// The ticks of the dispatch without those in which its thread had no processor.
    pub fn busy(&self) -> u64 {
        self.end - self.start - self.kept
    }
}

/// How a dispatch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// The task lacked messages; everything that it read has been written.
    BlockedInput,
    /// An output had no room.
    BlockedOutput,
    /// The quantum was spent, or the reason was not recorded.
    #[default]
    Yielded,
    /// The task has ended.
    Ended,
}

/// What a task that is not running waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum For {
    /// The task waits only for its worker.
    #[default]
    Turn,
    /// The task waits for messages.
    Input,
    /// The task waits for room in a stream.
    Room,
}

/// A task's time between two dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wait {
    /// The task.
    pub task: u64,
    /// The reason for the wait.
    pub what: For,
    /// The stream that the task waited for; 0 if the task waited for any of several streams and the one that
    /// ended the wait is not known.
    pub stream: u64,
    /// Whether the task waited for `stream` alone and not for any of several.
    pub certain: bool,
    /// When the wait began.
    pub since: u64,
    /// The time at which the task was made ready and began to wait for a worker; not before `since`.
    pub woken: u64,
    /// When the wait ended, because the task ran or ended.
    pub until: u64,
    /// Whether the task was made ready during the wait.
    pub ended: bool,
    /// Whether the wait ended because the task ended, without reading or writing anything more.
    pub cut: bool,
}

/// A value of an event that is not one of the runtime's.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A natural number, or the number of a name, a site or a choice.
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

/// A part of one of the lists in a [`Buffer`].
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

/// The items of a batch that is being filled, and the lists that they refer to.
#[derive(Default)]
pub(crate) struct Buffer {
    pub(crate) items: Vec<Item>,
    pub(crate) runs: Vec<Run>,
    pub(crate) derived: Vec<Derived>,
    pub(crate) values: Vec<Value>,
    pub(crate) texts: Texts,
}

impl Buffer {
    /// Empties the buffer, except for its texts.
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
