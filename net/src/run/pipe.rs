//! What components with one input and one output have in common: boxes, filters, shields, synchrocells.
//!
//! Records are worked on where they stand, in the memory of the stream, as long as each gives one record; then they go to
//! the output all at once. So what a component costs a record is its own work.

use thalweg_exec::{Context, In, Out, Ports, Progress, Stop};

use super::failure::Message;
use super::input::Input;
use super::output::Output;
use crate::record::Record;

/// An input and an output.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) input: Input,
    pub(crate) output: Output,
}

/// The work between the ends of a pipe.
pub(crate) trait Work {
    /// Works on the next records where they stand, as far as each gives exactly one record. How many those are. What runs
    /// users' code tells its `progress`.
    fn pass(&mut self, records: &mut [Record], progress: Progress<'_>) -> usize;

    /// Takes the record (or mark) at which [`pass`](Work::pass) stopped. False: nothing more is to be read.
    fn take(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, record: Record) -> bool;

    /// The input has ended.
    fn end(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

impl Pipe {
    pub(crate) fn new(input: In<Record>, out: Out<Record>) -> Pipe {
        Pipe { input: Input::new(input), output: Output::new(out) }
    }

    pub(crate) fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        self.output.attach(ports);
    }

    /// A dispatch of a task that is nothing but this pipe.
    pub(crate) fn run(&mut self, cx: &mut Context<'_>, work: &mut impl Work) -> Stop {
        if !self.output.flush(cx) {
            return Stop::OutputFull;
        }
        let mut left = cx.quantum();
        while left > 0 {
            if let Some(stop) = self.step(cx, work, &mut left) {
                return stop;
            }
        }
        Stop::QuantumSpent
    }

    /// Works on the next records, of which nothing waits for room; takes them off `left`. `Some`: there is nothing to do.
    #[inline]
    pub(crate) fn step(
        &mut self,
        cx: &mut Context<'_>,
        work: &mut impl Work,
        left: &mut usize,
    ) -> Option<Stop> {
        let room = self.output.out.room(cx);
        if room == 0 {
            return Some(Stop::OutputFull);
        }
        let (records, first) = self.input.upcoming(cx, room.min(*left));
        let count = records.len();
        if count == 0 {
            if !self.input.ended() {
                return Some(Stop::InputEmpty);
            }
            work.end(cx);
            return Some(Stop::Ended);
        }
        let passed = work.pass(records, cx.progress(first));
        self.input.transfer(cx, passed, &mut self.output.out);
        *left -= passed;
        if passed < count {
            *left -= 1;
            let record = self.input.next(cx)?;
            if !work.take(cx, self, record) {
                return Some(Stop::Ended);
            }
            if self.output.is_full() {
                return Some(Stop::OutputFull);
            }
        }
        None
    }

    /// The message read last.
    pub(crate) fn message(&self) -> Message {
        self.input.message()
    }
}
