//! Deterministic `||` and `!!`: outputs leave in the order of the inputs that caused them.
//!
//! The dispatcher sends its collector which input's turn it is ([`Turn`]), and for how many records, and marks each record it sends as
//! the last of its group. What a component makes of a record stays in its group, and the last of it, or a mark in its place,
//! carries the end on ([`Ends`]). So the collector reads from whose turn it is until the group ends.
//!
//! A group from outside ends behind the turn in which its last record came; it never enters a branch. So each stream knows
//! the groups of one combinator only, and they nest. Inside a group all combinators run so: an order is one of those that
//! a free one may choose.

use std::collections::VecDeque;

use thalweg_exec::{Context, In, Out, Ports, Spread, Stop, Task};

use super::input::Input;
use super::output::{Output, push, push_because};
use crate::record::{Ends, Record};
use crate::shape::ShapeId;

/// What a dispatcher sends its collector.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The next groups come from this input, one after the other; with what ends after each group.
    Groups(Groups),
    /// Only that a group from outside ends.
    Ends(Ends),
    /// A further input.
    Input(usize, In<Record>),
}

/// Groups that come from one input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    input: u32,
    /// How many are left.
    left: u32,
    /// What ends behind each.
    outer: Ends,
}

impl Groups {
    /// Of an input below `REPLICAS_MAX`; no more than a stream holds.
    fn new(input: usize, outer: Ends, count: usize) -> Groups {
        Groups { input: input as u32, left: count as u32, outer }
    }
}

/// What the two dispatchers have in common: turns, branches, and what had no room.
pub(crate) struct Turns {
    turns: Out<Turn>,
    pub(crate) branches: Vec<Out<Record>>,
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Turn(Turn),
    Record(usize, Record),
}

impl Turns {
    pub(crate) fn new(turns: Out<Turn>, branches: Vec<Out<Record>>) -> Turns {
        Turns { turns, branches, waiting: VecDeque::new() }
    }

    pub(crate) fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.turns);
        self.branches.iter_mut().for_each(|branch| ports.output(branch));
    }

    /// Sends a record to a branch, as a group of its own.
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, branch: usize, mut record: Record, outer: Ends) {
        record.set_ends(Ends::GROUP);
        self.turn(cx, Turn::Groups(Groups::new(branch, outer, 1)), None);
        if self.waiting.is_empty() {
            if let Err(record) = push(&mut self.branches[branch], cx, record) {
                self.waiting.push_back(Waiting::Record(branch, record));
            }
        } else {
            self.waiting.push_back(Waiting::Record(branch, record));
        }
    }

    /// Sends the next records of an input to a branch, each as a group of its own: of the next `count` those that end the
    /// same and have room (a single one may wait). How many. `Err`: there is no room.
    pub(crate) fn send_run(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Input,
        branch: usize,
        count: usize,
    ) -> Result<usize, Stop> {
        if count == 1 {
            let Some(record) = from.next(cx) else { return Ok(0) };
            let outer = record.ends();
            self.send(cx, branch, record, outer);
            return Ok(1);
        }
        let room = if self.turns.room(cx) == 0 { 0 } else { self.branches[branch].room(cx).min(count) };
        let first = from.next_message();
        let (records, _) = from.upcoming(cx, room);
        let Some(outer) = records.first().map(Record::ends) else { return Err(Stop::OutputFull) };
        let alike = records.iter().position(|record| record.ends() != outer).unwrap_or(records.len());
        records[..alike].iter_mut().for_each(|record| record.set_ends(Ends::GROUP));
        self.turn(cx, Turn::Groups(Groups::new(branch, outer, alike)), Some(first));
        let moved = from.transfer(cx, alike, &mut self.branches[branch]);
        debug_assert_eq!(moved, alike, "there was room");
        Ok(moved)
    }

    /// Sends the collector a turn; `cause`: for which message, if not for the one read last.
    #[inline]
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>, turn: Turn, cause: Option<(u64, u64)>) {
        let refused = match cause {
            _ if !self.waiting.is_empty() => Some(turn),
            None => push(&mut self.turns, cx, turn).err(),
            Some(cause) => push_because(&mut self.turns, cx, turn, cause).err(),
        };
        self.waiting.extend(refused.map(Waiting::Turn));
    }

    /// A group from outside ends here, if one does.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>, outer: Ends) {
        if outer != Ends::NOTHING {
            self.turn(cx, Turn::Ends(outer), None);
        }
    }

    /// Whether something waits for room.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes what waits; whether nothing waits any more.
    #[inline]
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        self.waiting.is_empty() || self.flush_waiting(cx)
    }

    #[cold]
    fn flush_waiting(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(waiting) = self.waiting.pop_front() {
            let refused = match waiting {
                Waiting::Turn(turn) => push(&mut self.turns, cx, turn).err().map(Waiting::Turn),
                Waiting::Record(branch, record) => {
                    let refused = push(&mut self.branches[branch], cx, record).err();
                    refused.map(|record| Waiting::Record(branch, record))
                }
            };
            if let Some(refused) = refused {
                self.waiting.push_front(refused);
                return false;
            }
        }
        true
    }
}

/// Joins branches or replicas in the order of turns.
pub(crate) struct OrderedCollector {
    turns: In<Turn>,
    inputs: Vec<Option<Input>>,
    output: Output,
    /// What spreads the replicas that it reads.
    spread: Spread,
    /// The inputs whose turn it is; empty if none has a turn.
    current: Groups,
    /// After the last turn: inputs below this index are empty. Records that still come are from boxes without
    /// input.
    emptied: usize,
}

impl OrderedCollector {
    pub(crate) fn new(turns: In<Turn>, inputs: Vec<In<Record>>, out: Out<Record>) -> OrderedCollector {
        let inputs = inputs.into_iter().map(|input| Some(Input::new(input))).collect();
        OrderedCollector {
            turns,
            inputs,
            output: Output::new(out),
            spread: Spread::default(),
            current: Groups::new(0, Ends::NOTHING, 0),
            emptied: 0,
        }
    }

    /// The same, of the replicas of a split.
    pub(crate) fn of(self, spread: Spread) -> OrderedCollector {
        OrderedCollector { spread, ..self }
    }

    /// Begins the next turn; false if there is none now.
    fn next_turn(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(turn) = self.turns.pop(cx) else { return false };
        match turn {
            Turn::Groups(groups) => self.current = groups,
            Turn::Ends(outer) => self.output.end(cx, outer),
            Turn::Input(at, input) => {
                if at >= self.inputs.len() {
                    self.inputs.resize_with(at + 1, || None);
                }
                self.inputs[at] = Some(Input::new(input));
            }
        }
        true
    }

    /// Groups of those whose turn it is came to their end.
    #[inline]
    fn close(&mut self, count: usize) {
        self.current.left = self.current.left.saturating_sub(count as u32);
    }

    /// Passes on the next records, at most `left`, of which each is a group, where they stand. How many.
    #[inline]
    fn pass(&mut self, cx: &mut Context<'_>, groups: Groups, left: usize) -> usize {
        let Some(input) = self.inputs[groups.input as usize].as_mut().filter(|_| groups.left > 1) else {
            return 0;
        };
        let max = self.output.out.room(cx).min(groups.left as usize).min(left);
        let (records, _) = input.upcoming(cx, max);
        let is_group = |record: &Record| record.ends() == Ends::GROUP && !record.shape().is_reserved();
        let count = records.iter().position(|record| !is_group(record)).unwrap_or(records.len());
        if count > 0 {
            records[..count].iter_mut().for_each(|record| record.set_ends(groups.outer));
            input.transfer(cx, count, &mut self.output.out);
            self.close(count);
        }
        count
    }

    /// Passes on a record whose turn it is.
    #[inline]
    fn take(&mut self, cx: &mut Context<'_>, mut record: Record, outer: Ends) {
        let last = record.ends() != Ends::NOTHING;
        if last {
            self.close(1);
        }
        if record.shape() == ShapeId::MARK {
            return self.output.end(cx, if last { outer } else { Ends::NOTHING });
        }
        record.set_ends(if last { outer } else { Ends::NOTHING });
        self.output.send(cx, record);
    }

    /// Takes what is left when there are no more turns.
    fn empty(&mut self, cx: &mut Context<'_>) -> Option<Stop> {
        let Some(input) = self.inputs.get_mut(self.emptied) else { return Some(Stop::Ended) };
        match input.as_mut().and_then(|input| input.next(cx)) {
            Some(record) => self.take(cx, record, Ends::NOTHING),
            None if input.as_ref().is_none_or(Input::ended) => self.emptied += 1,
            None => return Some(Stop::InputEmpty),
        }
        None
    }
}

impl Task for OrderedCollector {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.spread.is_joined_by(ports);
        ports.input(&mut self.turns);
        self.inputs.iter_mut().flatten().for_each(|input| input.attach(ports));
        self.output.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.output.flush(cx) {
            return Stop::OutputFull;
        }
        let mut left = cx.quantum();
        while left > 0 {
            if self.output.is_full() {
                return Stop::OutputFull;
            }
            let groups = self.current;
            if groups.left == 0 {
                left -= 1;
                if self.next_turn(cx) {
                    continue;
                }
                let stop = if self.turns.ended() { self.empty(cx) } else { Some(Stop::InputEmpty) };
                match stop {
                    Some(stop) => return stop,
                    None => continue,
                }
            }
            match self.pass(cx, groups, left) {
                0 => {}
                passed => {
                    left -= passed;
                    continue;
                }
            }
            left -= 1;
            let input = &mut self.inputs[groups.input as usize];
            match input.as_mut().and_then(|input| input.next(cx)) {
                Some(record) => self.take(cx, record, groups.outer),
                // A branch that ended in the middle: its task did.
                None if input.as_ref().is_none_or(Input::ended) => {
                    self.close(1);
                    self.output.end(cx, groups.outer);
                }
                None => return Stop::InputEmpty,
            }
        }
        if self.output.is_full() { Stop::OutputFull } else { Stop::QuantumSpent }
    }
}
