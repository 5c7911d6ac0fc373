//! Deterministic `||` and `!!`: outputs leave in the order of the inputs that caused them.
//!
//! The dispatcher sends its collector which input's turn it is ([`Turn`]), and for how many records, and
//! marks each record that it sends as the last of its group. The records that a component makes of a record
//! stay in its group, and the last of them, or a mark in its place, carries the end of the group ([`Ends`]).
//! So the collector reads the input whose turn it is until the group ends.
//!
//! A turn is for several groups: for successive ones that come from one input ([`Groups`]), or for successive
//! ones each of which comes from another input ([`Series`]).
//!
//! An outer group ends after the turn in which its last record came; its end never enters a branch. So each
//! stream knows only the groups of one combinator, and groups nest. Inside a group all combinators work in
//! order, because this order is one of those that a nondeterministic combinator may choose.

use std::collections::VecDeque;

use thalweg_exec::{Context, In, Out, Ports, Spread, Stop, Task};

use super::input::Input;
use super::output::{Output, push, push_because};
use crate::record::{Ends, Record};
use crate::shape::ShapeId;

/// A message from a dispatcher to its collector.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The next groups come from one input, one after the other.
    Groups(Groups),
    /// The next groups come from the inputs of a series, one group from each.
    Series(Series),
    /// An outer group ends, and no new turn begins.
    Ends(Ends),
    /// A further input.
    Input(usize, In<Record>),
}

/// Groups that come from one input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    input: u32,
    /// The number of groups that are left.
    left: u32,
    /// The outer groups that end after each of these groups.
    outer: Ends,
}

impl Groups {
    /// The turn of an input below `REPLICAS_MAX`, for at most as many records as a stream holds.
    fn new(input: usize, outer: Ends, count: usize) -> Groups {
        Groups { input: input as u32, left: count as u32, outer }
    }
}

/// The fewest successive records of one branch that are sent as a run and not as part of a series.
const RUN: usize = 8;
/// The most groups of one series: as many as fit into a turn without making it larger.
const SERIES_MAX: usize = 21;

/// Groups that come from different inputs, or from one in between others: the input of each group in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    /// The outer groups that end after each of these groups, as bits.
    outer: u8,
    count: u8,
    /// The inputs of the groups, which are all below 256.
    inputs: [u8; SERIES_MAX],
}

impl Series {
    const NONE: Series = Series { outer: 0, count: 0, inputs: [0; SERIES_MAX] };
}

const _: () = assert!(size_of::<Turn>() == 24);

/// The common part of the dispatchers of `||` and `!!`: turns, branches, and messages that wait for space.
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

    /// Sends some of the next `count` records of an input to a branch, each as a group of its own: the
    /// leading records with equal marks, as many as there is space for.
    /// Returns their number. `Err`: there is no space.
    fn send_run(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Input,
        branch: usize,
        count: usize,
    ) -> Result<usize, Stop> {
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

    /// Sends some of the next records of an input, at most `left`, to branches: a run of records to one
    /// branch, or a series to different ones. `run` is the branch of the first record, the number of
    /// leading records that go there, and whether these are all the next records; `branch` finds the branch
    /// of any record. Returns the number sent, which is 0 if the first record has to be sent in another
    /// way. `Err`: there is no space.
    #[inline]
    pub(crate) fn send_some(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Input,
        left: usize,
        run: (usize, usize, bool),
        branch: impl FnMut(&Record) -> Option<usize>,
    ) -> Result<usize, Stop> {
        match run {
            (replica, count, is_all) if count >= RUN || is_all && count > 1 => {
                self.send_run(cx, from, replica, count)
            }
            _ => self.send_series(cx, from, left, branch),
        }
    }

    /// Sends the next records of an input, at most `left`, to branches, each as a group of its own: the
    /// leading records with equal marks for which `branch` finds a branch below 256. Returns their number.
    #[inline]
    fn send_series(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Input,
        left: usize,
        mut branch: impl FnMut(&Record) -> Option<usize>,
    ) -> Result<usize, Stop> {
        let (records, _) = from.upcoming(cx, left);
        let Some(outer) = records.first().map(Record::ends) else { return Ok(0) };
        let mut series = Series { outer: outer.bits(), ..Series::NONE };
        for (record, input) in records.iter().zip(&mut series.inputs) {
            let branch = branch(record).and_then(|branch| u8::try_from(branch).ok());
            let Some(branch) = branch.filter(|_| record.ends() == outer && !record.shape().is_reserved())
            else {
                break;
            };
            *input = branch;
            series.count += 1;
        }
        if series.count > 0 { self.send_each(cx, from, series) } else { Ok(0) }
    }

    /// Sends the next records of an input to the branches of a series, until one has to wait for space.
    fn send_each(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Input,
        mut series: Series,
    ) -> Result<usize, Stop> {
        if self.turns.room(cx) == 0 {
            return Err(Stop::OutputFull);
        }
        let count = usize::from(series.count);
        for (at, &branch) in series.inputs[..count].iter().enumerate() {
            let Some(mut record) = from.next(cx) else { break };
            record.set_ends(Ends::GROUP);
            if let Err(record) = push(&mut self.branches[usize::from(branch)], cx, record) {
                // The branch may be full because the collector waits for this turn, so the turn is sent
                // before the record.
                series.count = at as u8 + 1;
                self.turn(cx, Turn::Series(series), None);
                self.waiting.push_back(Waiting::Record(branch.into(), record));
                return Ok(at + 1);
            }
        }
        self.turn(cx, Turn::Series(series), None);
        Ok(count)
    }

    /// Sends the collector a turn; `cause` is the message because of which the turn is sent, if this is not
    /// the message read last.
    #[inline]
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>, turn: Turn, cause: Option<(u64, u64)>) {
        let refused = match cause {
            _ if !self.waiting.is_empty() => Some(turn),
            None => push(&mut self.turns, cx, turn).err(),
            Some(cause) => push_because(&mut self.turns, cx, turn, cause).err(),
        };
        if let Some(turn) = refused {
            self.waiting.push_back(Waiting::Turn(turn));
        }
    }

    /// If an outer group ends here, reports that to the collector.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>, outer: Ends) {
        if outer != Ends::NOTHING {
            self.turn(cx, Turn::Ends(outer), None);
        }
    }

    /// Whether messages wait for space.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes waiting messages; returns whether all were written.
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
    /// The distribution of the records over the replicas that the collector reads.
    spread: Spread,
    /// The input whose turn it is; empty if no input has a turn.
    current: Groups,
    /// The series that has its turn after that, and the number of its groups that had their turn.
    series: (Series, u8),
    /// The inputs below this index are empty; used after the last turn, when only boxes without input still
    /// emit records.
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
            series: (Series::NONE, 0),
            emptied: 0,
        }
    }

    /// The collector of the replicas of a split.
    pub(crate) fn of(self, spread: Spread) -> OrderedCollector {
        OrderedCollector { spread, ..self }
    }

    /// Begins the next turn; false if no turn has arrived.
    fn next_turn(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(turn) = self.turns.pop(cx) else { return false };
        match turn {
            Turn::Groups(groups) => self.current = groups,
            Turn::Series(series) => self.series = (series, 0),
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

    /// Passes on the records of the next groups of the series, at most `left`, as long as each group is one
    /// record that is there; returns their number.
    #[inline]
    fn pass_series(&mut self, cx: &mut Context<'_>, left: usize) -> usize {
        let (series, at) = &mut self.series;
        let rest = &series.inputs[usize::from(*at)..usize::from(series.count)];
        let left = left.min(self.output.out.room(cx));
        let mut passed = 0;
        for &input in rest.iter().take(left) {
            let Some(Some(input)) = self.inputs.get_mut(usize::from(input)) else { break };
            let Some(mut record) = input.next_if(cx, |next| next.ends() == Ends::GROUP) else { break };
            record.set_ends(Ends::from_bits(series.outer));
            self.output.send(cx, record);
            passed += 1;
        }
        *at += passed;
        passed.into()
    }

    /// Begins the turn of the series' next group; false if no group of the series is left.
    fn next_of_series(&mut self) -> bool {
        let (series, at) = &mut self.series;
        if *at == series.count {
            return false;
        }
        self.current = Groups::new(series.inputs[usize::from(*at)].into(), Ends::from_bits(series.outer), 1);
        *at += 1;
        true
    }

    /// Handles the end of groups of the input whose turn it is.
    #[inline]
    fn close(&mut self, count: usize) {
        self.current.left = self.current.left.saturating_sub(count as u32);
    }

    /// Passes on the next records in place, at most `left`, each of which is a group; returns their number.
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

    /// Passes on a record of the input whose turn it is.
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

    /// After the last turn, reads the remaining records, which come from boxes without input.
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
            if self.current.left == 0 {
                let passed = self.pass_series(cx, left);
                left -= passed;
                if passed > 0 || self.next_of_series() {
                    continue;
                }
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
            let groups = self.current;
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
                // The branch ended in the middle of a group, because its task ended.
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
