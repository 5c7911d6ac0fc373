//! Feedback `A \ P`: outputs of the body that match a pattern go back to its input.
//!
//! One task is at both ends of the body. Each record that it sends in is a group of its own, and of each
//! group at least a mark of its end comes out again: so the task knows how many groups are inside, and the
//! loop is over when the source has ended and no group is inside. Records of the loop go before records from
//! outside; records for which the body has no space wait here, up to a bound.

use std::collections::VecDeque;

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::dispatch::matches_one;
use super::events::records_held;
use super::input::Input;
use super::output::Output;
use super::position::Position;
use crate::pattern::Pattern;
use crate::record::{Ends, Record};
use crate::shape::ShapeId;

/// The task at both ends of a loop.
pub(crate) struct FeedbackTask {
    position: Position,
    backs: Vec<Pattern>,
    input: Input,
    output: Output,
    /// The stream into the body; `None` when no more records will follow.
    body_in: Option<Out<Record>>,
    body_out: Input,
    /// The number of groups in the body.
    inside: usize,
    /// The back channel: records that wait to enter the body, each with its message, if every message is
    /// recorded.
    spill: VecDeque<(Record, Option<(u64, u64)>)>,
    /// The number of records at the end of `spill` that were added in this dispatch.
    spilled: usize,
    /// The outer groups that end when the loop is empty.
    outer: Ends,
}

impl FeedbackTask {
    pub(crate) fn new(
        position: Position,
        backs: Vec<Pattern>,
        input: In<Record>,
        out: Out<Record>,
        body: (Out<Record>, In<Record>),
    ) -> FeedbackTask {
        FeedbackTask {
            position,
            backs,
            input: Input::new(input),
            output: Output::new(out),
            body_in: Some(body.0),
            body_out: Input::new(body.1),
            inside: 0,
            spill: VecDeque::new(),
            spilled: 0,
            outer: Ends::NOTHING,
        }
    }

    /// Sends a record that left the body back into the body, or out of the loop.
    fn sort(&mut self, cx: &mut Context<'_>, mut record: Record) {
        if record.ends() != Ends::NOTHING {
            self.inside -= 1;
            record.set_ends(Ends::NOTHING);
        }
        if record.shape() == ShapeId::MARK {
            return;
        }
        match matches_one(&mut self.backs, &record) {
            Ok(true) if self.body_in.is_none() => {
                let reason = "the record came back when the feedback had ended".to_owned();
                self.position.fail(cx, self.body_out.message(), record, reason);
            }
            Ok(true) if self.spill.len() >= self.position.shared.limits.feedback_records() => {
                let reason = format!(
                    "more than {} records wait in this feedback: the setting net.feedback_records says how many may",
                    self.spill.len()
                );
                self.position.fail(cx, self.body_out.message(), record, reason);
            }
            Ok(true) => self.spill(cx, record),
            Ok(false) => _ = self.output.send(cx, record),
            Err(reason) => self.position.fail(cx, self.body_out.message(), record, reason),
        }
    }

    /// Adds the record that was read last to the back channel.
    fn spill(&mut self, cx: &Context<'_>, record: Record) {
        self.spill.push_back((record, cx.last_read()));
        self.spilled += 1;
    }

    /// Reports the records that were read in this dispatch and still wait in the back channel: only so can
    /// readers of the events know from which messages later output descends.
    fn tell_held(&mut self, cx: &mut Context<'_>) {
        let before = self.spill.len() - self.spilled.min(self.spill.len());
        if cx.full() && before < self.spill.len() {
            records_held(cx, self.spill.iter().skip(before).filter_map(|(_, message)| *message));
        }
        self.spilled = 0;
    }

    /// Moves the next record of the back channel into the body; false if there is none, or no space.
    fn enter(&mut self, cx: &mut Context<'_>) -> bool {
        let (Some(body_in), Some((mut record, from))) = (&mut self.body_in, self.spill.pop_front()) else {
            return false;
        };
        record.set_ends(Ends::GROUP);
        match body_in.push(cx, record) {
            Ok(()) => {
                cx.derived_from(body_in, from);
                self.inside += 1;
                true
            }
            Err(record) => {
                self.spill.push_front((record, from));
                false
            }
        }
    }

    /// Reads a record from outside, which enters without a test unless `net.feedback_entry` is `matching`. If
    /// no record can enter the loop, ends groups or the loop. `Some`: there is nothing to do now.
    fn take_outer(&mut self, cx: &mut Context<'_>) -> Option<Stop> {
        if self.outer != Ends::NOTHING {
            // An outer group has to leave before the next one enters.
            if self.inside > 0 {
                return Some(Stop::InputEmpty);
            }
            let outer = std::mem::replace(&mut self.outer, Ends::NOTHING);
            self.output.end(cx, outer);
            return None;
        }
        match self.input.next(cx) {
            Some(mut record) => {
                if record.shape() != ShapeId::MARK && self.position.shared.limits.feedback_tests_entry() {
                    match matches_one(&mut self.backs, &record) {
                        Ok(true) => {}
                        Ok(false) => {
                            self.output.send(cx, record);
                            return None;
                        }
                        Err(reason) => {
                            let ends = record.ends();
                            self.position.fail(cx, self.input.message(), record, reason);
                            self.output.end(cx, ends);
                            return None;
                        }
                    }
                }
                self.outer = record.ends();
                record.set_ends(Ends::NOTHING);
                if record.shape() != ShapeId::MARK {
                    self.spill(cx, record);
                }
                None
            }
            None if self.input.ended() && self.inside == 0 && self.body_in.is_some() => {
                self.body_in = None;
                // The body may be no more than a stream from this task to itself; the task sees that the
                // stream has ended only in a later dispatch.
                Some(Stop::QuantumSpent)
            }
            None => Some(Stop::InputEmpty),
        }
    }
}

impl Task for FeedbackTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        self.body_out.attach(ports);
        self.output.attach(ports);
        self.body_in.iter_mut().for_each(|body_in| ports.output(body_in));
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let stop = self.go_round(cx);
        self.tell_held(cx);
        stop
    }
}

impl FeedbackTask {
    /// Runs the loop for one dispatch.
    fn go_round(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.output.flush(cx) {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            if let Some(record) = self.body_out.next(cx) {
                self.sort(cx, record);
            } else if self.body_out.ended() {
                return Stop::Ended;
            } else if !self.enter(cx) {
                if !self.spill.is_empty() {
                    // The body has no space. If groups are inside, the body will emit a message that wakes
                    // this task; if not, the body's input will soon have space.
                    return if self.inside > 0 { Stop::InputEmpty } else { Stop::OutputFull };
                }
                if let Some(stop) = self.take_outer(cx) {
                    return stop;
                }
            }
            if self.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}
