//! The common part of components with one input and one output: boxes, filters, shields, synchrocells.
//!
//! A component works on records in place, in the memory of the stream, as long as each record gives exactly
//! one output record; then all output records go to the output at once. So a record costs only the
//! component's own work. If the next component waits for the records on the same worker, even the move is
//! saved: the records are handed on, and the next component works on them in place (`net.fuse`).

use thalweg_exec::{Context, HandedOn, In, Out, PassesTo, Ports, Progress, Stop};

use super::dispatch::why_spent;
use super::input::Input;
use super::message::Message;
use super::output::Output;
use crate::record::Record;

/// The input and the output of a component.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// Whether the next record is the one at which [`Work::pass`] stopped.
    stopped: bool,
    /// Whether each of the last records gave exactly one record.
    is_straight: bool,
}

/// The work of a component between the ends of a pipe.
pub(crate) trait Work {
    /// Works on the next records in place, as long as each gives exactly one record; returns their number.
    /// Work that runs users' code reports its `progress`.
    fn pass(&mut self, records: &mut [Record], progress: Progress<'_>) -> usize;

    /// Processes the record (or mark) at which [`pass`](Work::pass) stopped. Returns `false` if no more
    /// records are to be read.
    fn take(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, record: Record) -> bool;

    /// Whether records may be handed on to the next component.
    fn fuses(&self) -> bool;

    /// Called when the input has ended.
    fn end(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

impl Pipe {
    pub(crate) fn new(input: In<Record>, out: Out<Record>) -> Pipe {
        Pipe { input: Input::new(input), output: Output::new(out), stopped: false, is_straight: true }
    }

    pub(crate) fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        self.output.attach(ports);
    }

    /// Runs a dispatch of a task that consists of this pipe only.
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
        self.quantum_spent(cx, work)
    }

    /// Why a dispatch ends that has read as many records as it may: see [`why_spent`].
    #[inline]
    pub(crate) fn quantum_spent(&mut self, cx: &mut Context<'_>, work: &mut impl Work) -> Stop {
        if self.output.is_full() {
            return Stop::QuantumSpent;
        }
        self.input.upcoming(cx, 0);
        match self.input.none_sent() {
            Ok(_) => Stop::QuantumSpent,
            Err(stop) => {
                if stop == Stop::Ended {
                    work.end(cx);
                }
                why_spent(cx, stop)
            }
        }
    }

    /// Works on the next records while no output waits for space, and subtracts their number from `left`.
    /// `Some`: there is nothing to do.
    #[inline]
    pub(crate) fn step(
        &mut self,
        cx: &mut Context<'_>,
        work: &mut impl Work,
        left: &mut usize,
    ) -> Option<Stop> {
        let taken = if work.fuses() { self.input.hands_on(cx, &self.output.out) } else { 0 };
        let room = if taken > 0 { taken } else { self.output.out.room(cx) };
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
        let stopped = std::mem::take(&mut self.stopped);
        let passed = if stopped { 0 } else { work.pass(records, cx.progress(first)) };
        self.is_straight = passed == count;
        *left -= passed;
        if taken > 0
            && passed == count
            && let Some(stop) = self.input.hand_on(cx, passed, &mut self.output.out)
        {
            return Some(stop);
        }
        self.input.transfer(cx, passed, &mut self.output.out);
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

    /// The stream to which records are handed on, if the next ones can be processed in place: see
    /// [`thalweg_exec::Task::passes_to`].
    #[inline]
    pub(crate) fn passes_to(&mut self, work: &impl Work) -> Option<PassesTo<'_>> {
        let is_simple = self.is_straight && !self.stopped && !self.output.is_full();
        (is_simple && work.fuses()).then(|| self.output.out.passes_to())
    }

    /// Works on records that were handed on: see [`thalweg_exec::Task::work_on`].
    #[inline]
    pub(crate) fn work_on(
        &mut self,
        work: &mut impl Work,
        messages: HandedOn<'_>,
        progress: Progress<'_>,
    ) -> usize {
        let Some(records) = messages.of::<Record>() else { return 0 };
        let passed = work.pass(records, progress.after(self.input.count() as usize));
        self.input.passed_by(passed);
        self.is_straight = passed == records.len();
        self.stopped = !self.is_straight;
        passed
    }

    /// The message read last.
    pub(crate) fn message(&self) -> Message {
        self.input.message()
    }
}
