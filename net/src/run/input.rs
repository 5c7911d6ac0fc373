//! The input of a component.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_box::{Opaque, Value};
use thalweg_exec::{Blocking, Context, HandedOn, In, Out, Ports, Stop};

use super::message::Message;
use crate::record::Record;
use crate::shape::ShapeId;

/// The reading end of a stream, and the number of records read. When a spent synchrocell writes the stream,
/// it sends its own input as a message; from then on this end reads the stream that the cell would have read.
#[derive(Debug)]
pub(crate) struct Input {
    stream: In<Record>,
    read: u64,
}

impl Input {
    pub(crate) fn new(stream: In<Record>) -> Input {
        Input { stream, read: 0 }
    }

    pub(crate) fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.stream);
    }

    /// The next record, or mark.
    #[inline(always)]
    pub(crate) fn next(&mut self, cx: &mut Context<'_>) -> Option<Record> {
        let mut record = self.stream.pop(cx)?;
        while record.shape() == ShapeId::MESSAGE {
            self.follow(record);
            record = self.stream.pop(cx)?;
        }
        self.read += 1;
        Some(record)
    }

    /// The next record, if it is there and `is` says so; a message is never the next record.
    #[inline(always)]
    pub(crate) fn next_if(&mut self, cx: &mut Context<'_>, is: impl Fn(&Record) -> bool) -> Option<Record> {
        let next = self.stream.upcoming(cx, 1).first()?;
        if next.shape().is_reserved() || !is(next) {
            return None;
        }
        self.read += 1;
        self.stream.pop(cx)
    }

    /// The next records (and marks) in place, at most `max`, and the number in its stream of the first one.
    /// The first record of the slice never has the shape [`ShapeId::MESSAGE`], but later ones may have it.
    #[inline(always)]
    pub(crate) fn upcoming(&mut self, cx: &mut Context<'_>, max: usize) -> (&mut [Record], u64) {
        // An empty stream is looked at once only.
        let Some(first) = self.stream.upcoming(cx, 1).first().map(Record::shape) else {
            return (&mut [], self.read);
        };
        if first == ShapeId::MESSAGE {
            self.follow_upcoming(cx);
        }
        (self.stream.upcoming(cx, max), self.read)
    }

    #[cold]
    fn follow_upcoming(&mut self, cx: &mut Context<'_>) {
        while self.stream.upcoming(cx, 1).first().is_some_and(|record| record.shape() == ShapeId::MESSAGE)
            && let Some(message) = self.stream.pop(cx)
        {
            self.follow(message);
        }
    }

    /// Moves the next `count` records to `out`, as far as there is space; returns the number moved.
    #[inline]
    pub(crate) fn transfer(&mut self, cx: &mut Context<'_>, count: usize, out: &mut Out<Record>) -> usize {
        let mut moved = 0;
        while moved < count {
            let more = self.stream.transfer(cx, count - moved, out);
            if more == 0 {
                break;
            }
            moved += more;
        }
        self.read += moved as u64;
        moved
    }

    /// Reads the next record for a task that may block.
    pub(crate) fn next_blocking(&mut self, blocking: &mut Blocking) -> Option<Record> {
        loop {
            let record = blocking.pop(&mut self.stream)?;
            if record.shape() != ShapeId::MESSAGE {
                self.read += 1;
                return Some(record);
            }
            self.follow(record);
        }
    }

    /// The number of the next records that may be handed on: see [`Context::hands_on`].
    #[inline]
    pub(crate) fn hands_on(&self, cx: &mut Context<'_>, out: &Out<Record>) -> usize {
        cx.hands_on(&self.stream, out)
    }

    /// Hands the next `count` records on to the task that waits for them: see [`In::hand_on`].
    #[inline]
    pub(crate) fn hand_on(
        &mut self,
        cx: &mut Context<'_>,
        count: usize,
        out: &mut Out<Record>,
    ) -> Option<Stop> {
        let stop = self.stream.hand_on(cx, count, out)?;
        self.read += count as u64;
        Some(stop)
    }

    /// Whether exactly `count` records wait now.
    #[inline]
    pub(crate) fn has_only(&self, count: usize) -> bool {
        self.stream.len() == count
    }

    /// How many records (and marks) were read.
    pub(crate) fn count(&self) -> u64 {
        self.read
    }

    /// Counts messages as read that were passed on without going through the stream.
    pub(crate) fn passed_by(&mut self, count: usize) {
        self.read += count as u64;
    }

    /// Counts the records that were handed on unchanged as read, and returns their number.
    #[inline]
    pub(crate) fn take_handed(&mut self, messages: HandedOn<'_>) -> usize {
        let count = messages.of::<Record>().map_or(0, |records| records.len());
        self.passed_by(count);
        count
    }

    #[cold]
    fn follow(&mut self, message: Record) {
        if let Some(input) = sent(&message) {
            *self = input;
        }
    }

    pub(crate) fn ended(&self) -> bool {
        self.stream.ended()
    }

    /// Whether there is nothing to read now.
    pub(crate) fn is_empty(&self) -> bool {
        self.stream.is_empty()
    }

    /// The result of a dispatch that got no record to send: why there is none, or, if more records wait than the
    /// dispatch may read, that none was sent. The stream was looked at before.
    #[inline]
    pub(crate) fn none_sent(&self) -> Result<usize, Stop> {
        match () {
            () if self.ended() => Err(Stop::Ended),
            () if self.is_empty() => Err(Stop::InputEmpty),
            () => Ok(0),
        }
    }

    /// The stream of the next message and its number there, as the runtime counts: records that are sent
    /// because of the message descend from it.
    pub(crate) fn next_message(&self) -> (u64, u64) {
        self.stream.next_message()
    }

    /// The message read last; before the first read, the first message.
    pub(crate) fn message(&self) -> Message {
        Message { stream: self.stream.id(), index: self.read.saturating_sub(1) }
    }
}

/// An input that is sent to the task that will read it.
type Sent = Mutex<Option<Input>>;

/// A message that hands an input to the reader of a stream.
pub(crate) fn send(input: Input) -> Record {
    Record::message(Value::Opaque(Opaque::new::<Sent>(Mutex::new(Some(input)))))
}

/// The input in a message.
pub(crate) fn sent(message: &Record) -> Option<Input> {
    let Some(Value::Opaque(opaque)) = message.slots().first() else { return None };
    opaque.get::<Sent>()?.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The output of a replica that is sent to the collector.
#[derive(Debug)]
pub(crate) struct Announced {
    pub(crate) input: In<Record>,
    /// The former replica whose output must be read completely before this one.
    pub(crate) after: Option<u64>,
    /// A token that is kept until all of this output, and of the outputs announced by it, was read.
    pub(crate) token: Option<Arc<()>>,
}

/// A message that announces a replica's output.
pub(crate) fn announce(announced: Announced) -> Record {
    let content = Mutex::new(Some(announced));
    Record::message(Value::Opaque(Opaque::new::<Mutex<Option<Announced>>>(content)))
}

/// The output announced in a message; a message with the input of a spent synchrocell announces this input as
/// an output.
pub(crate) fn announced(message: &Record) -> Option<Announced> {
    let Some(Value::Opaque(opaque)) = message.slots().first() else { return None };
    match opaque.get::<Mutex<Option<Announced>>>() {
        Some(content) => content.lock().unwrap_or_else(PoisonError::into_inner).take(),
        None => sent(message).map(|input| Announced { input: input.into(), after: None, token: None }),
    }
}

impl From<Input> for In<Record> {
    fn from(input: Input) -> In<Record> {
        input.stream
    }
}
