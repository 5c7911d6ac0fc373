//! Deterministic `||` and `!!`: outputs leave in the order of the inputs that caused them.
//!
//! The dispatcher tells its collector whose turn it is ([`Turn`]), input by input, and marks each record it sends as the
//! last of its group. What a component makes of a record stays in its group, and the last of it, or a mark in its place,
//! carries the end on ([`Ends`]). So the collector reads from whose turn it is until the group ends.
//!
//! A group from outside ends behind the turn in which its last record came; it never enters a branch. So each stream knows
//! the groups of one combinator only, and they nest. Inside a group all combinators run so: an order is one of those that
//! a free one may choose.

use std::collections::VecDeque;

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::component::ComponentId;
use super::dispatcher::{NO_BRANCH, SplitChoice, emptiest};
use super::failure::Position;
use super::input::Input;
use super::output::{Output, push};
use super::replicas::{Replicas, Room};
use super::unfold::Around;
use crate::record::{Ends, Record};
use crate::router::{Choice, Router};
use crate::shape::ShapeId;

/// What a dispatcher tells its collector.
#[derive(Debug)]
pub(crate) enum Turn {
    /// A group comes from this input; what ends behind it.
    Group(usize, Ends),
    /// Only that a group from outside ends.
    Ends(Ends),
    /// A further input.
    Input(usize, In<Record>),
}

/// What the two dispatchers have in common: turns, branches, and what had no room.
struct Turns {
    turns: Out<Turn>,
    branches: Vec<Out<Record>>,
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Turn(Turn),
    Record(usize, Record),
}

impl Turns {
    fn new(turns: Out<Turn>, branches: Vec<Out<Record>>) -> Turns {
        Turns { turns, branches, waiting: VecDeque::new() }
    }

    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.turns);
        self.branches.iter_mut().for_each(|branch| ports.output(branch));
    }

    /// Sends a record to a branch, as a group of its own.
    fn send(&mut self, cx: &mut Context<'_>, branch: usize, mut record: Record, outer: Ends) {
        record.set_ends(Ends::GROUP);
        self.turn(cx, Turn::Group(branch, outer));
        if self.waiting.is_empty() {
            if let Err(record) = push(&mut self.branches[branch], cx, record) {
                self.waiting.push_back(Waiting::Record(branch, record));
            }
        } else {
            self.waiting.push_back(Waiting::Record(branch, record));
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>, turn: Turn) {
        if self.waiting.is_empty() {
            if let Err(turn) = self.turns.push(cx, turn) {
                self.waiting.push_back(Waiting::Turn(turn));
            }
        } else {
            self.waiting.push_back(Waiting::Turn(turn));
        }
    }

    /// A group from outside ends here, if one does.
    fn end(&mut self, cx: &mut Context<'_>, outer: Ends) {
        if outer != Ends::NOTHING {
            self.turn(cx, Turn::Ends(outer));
        }
    }

    /// Writes what waits; whether nothing waits any more.
    fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(waiting) = self.waiting.pop_front() {
            let refused = match waiting {
                Waiting::Turn(turn) => self.turns.push(cx, turn).err().map(Waiting::Turn),
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

/// `A || B`.
pub(crate) struct OrderedParallel {
    position: Position,
    router: Router,
    input: Input,
    turns: Turns,
}

impl OrderedParallel {
    pub(crate) fn new(
        position: Position,
        router: Router,
        input: In<Record>,
        branches: Vec<Out<Record>>,
        turns: Out<Turn>,
    ) -> OrderedParallel {
        OrderedParallel { position, router, input: Input::new(input), turns: Turns::new(turns, branches) }
    }

    #[inline]
    fn dispatch(&mut self, cx: &mut Context<'_>, record: Record) {
        let outer = record.ends();
        if record.shape() == ShapeId::MARK {
            return self.turns.end(cx, outer);
        }
        let branch = match self.router.choose(&record) {
            Choice::One(branch) => branch,
            Choice::Tie(tied) => emptiest(&mut self.turns.branches, cx, tied),
            Choice::None => {
                self.position.fail(cx, self.input.message(), record, NO_BRANCH.to_owned());
                return self.turns.end(cx, outer);
            }
        };
        self.turns.send(cx, branch, record, outer);
    }
}

impl Task for OrderedParallel {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        self.turns.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        deal(self, cx, |it| (&mut it.input, &mut it.turns), OrderedParallel::dispatch)
    }
}

/// A dispatch of a task that deals its input out in turns: what waits for room goes first, then record by record.
fn deal<D>(
    dealer: &mut D,
    cx: &mut Context<'_>,
    ports: impl Fn(&mut D) -> (&mut Input, &mut Turns),
    dispatch: impl Fn(&mut D, &mut Context<'_>, Record),
) -> Stop {
    if !ports(dealer).1.flush(cx) {
        return Stop::OutputFull;
    }
    for _ in 0..cx.quantum() {
        let (input, _) = ports(dealer);
        let Some(record) = input.next(cx) else {
            return if input.ended() { Stop::Ended } else { Stop::InputEmpty };
        };
        dispatch(dealer, cx, record);
        if !ports(dealer).1.waiting.is_empty() {
            return Stop::OutputFull;
        }
    }
    Stop::QuantumSpent
}

/// `A !! <t>`.
pub(crate) struct OrderedSplit {
    position: Position,
    body: ComponentId,
    around: Around,
    choice: SplitChoice,
    input: Input,
    replicas: Replicas,
    turns: Turns,
}

impl OrderedSplit {
    pub(crate) fn new(
        position: Position,
        (body, around): (ComponentId, Around),
        choice: SplitChoice,
        folds: bool,
        input: In<Record>,
        turns: Out<Turn>,
    ) -> OrderedSplit {
        let (input, turns) = (Input::new(input), Turns::new(turns, Vec::new()));
        OrderedSplit { position, body, around, choice, input, replicas: Replicas::new(folds), turns }
    }

    fn dispatch(&mut self, cx: &mut Context<'_>, record: Record) {
        let outer = record.ends();
        if record.shape() == ShapeId::MARK {
            return self.turns.end(cx, outer);
        }
        match self.choice.values(&record, &self.replicas) {
            Ok((from, to)) => {
                for value in from..to {
                    let copy = record.clone();
                    self.send(cx, value, copy, Ends::NOTHING);
                }
                self.send(cx, to, record, outer);
            }
            Err(reason) => {
                self.position.fail(cx, self.input.message(), record, reason);
                self.turns.end(cx, outer);
            }
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, value: i64, record: Record, outer: Ends) {
        let replica = match self.replicas.place(value) {
            Some(replica) => replica,
            None => self.make_replica(cx, value),
        };
        self.turns.send(cx, replica, record, outer);
    }

    #[cold]
    fn make_replica(&mut self, cx: &mut Context<'_>, value: i64) -> usize {
        let (out, output) = self.choice.replica(&self.position, cx, self.body, self.around, value);
        // A record for a replica must not wait while its place is given away.
        let kept =
            if self.turns.waiting.is_empty() { self.position.shared.limits.replicas() } else { usize::MAX };
        let replica = match self.replicas.insert(value, kept) {
            Room::Next => {
                self.turns.branches.push(out);
                self.turns.branches.len() - 1
            }
            // Behind the turns so far: the collector has then read all that the one before gave.
            Room::Instead(place, _) => {
                self.turns.branches[place] = out;
                place
            }
        };
        self.turns.turn(cx, Turn::Input(replica, output));
        replica
    }
}

impl Task for OrderedSplit {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        self.turns.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        deal(self, cx, |it| (&mut it.input, &mut it.turns), OrderedSplit::dispatch)
    }
}

/// Joins branches or replicas in the order of turns.
pub(crate) struct OrderedCollector {
    turns: In<Turn>,
    inputs: Vec<Option<Input>>,
    output: Output,
    /// Whose turn it is, and what ends behind it.
    current: Option<(usize, Ends)>,
    /// When there are no more turns: up to which input nothing is left. Only boxes without input give records then.
    emptied: usize,
}

impl OrderedCollector {
    pub(crate) fn new(turns: In<Turn>, inputs: Vec<In<Record>>, out: Out<Record>) -> OrderedCollector {
        let inputs = inputs.into_iter().map(|input| Some(Input::new(input))).collect();
        OrderedCollector { turns, inputs, output: Output::new(out), current: None, emptied: 0 }
    }

    /// Begins the next turn; false if there is none now.
    fn next_turn(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(turn) = self.turns.pop(cx) else { return false };
        match turn {
            Turn::Group(input, outer) => self.current = Some((input, outer)),
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

    /// Passes on a record whose turn it is.
    #[inline]
    fn take(&mut self, cx: &mut Context<'_>, mut record: Record, outer: Ends) {
        let last = record.ends() != Ends::NOTHING;
        if last {
            self.current = None;
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
        ports.input(&mut self.turns);
        self.inputs.iter_mut().flatten().for_each(|input| input.attach(ports));
        self.output.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.output.flush(cx) {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            if self.output.is_full() {
                return Stop::OutputFull;
            }
            let Some((at, outer)) = self.current else {
                if self.next_turn(cx) {
                    continue;
                }
                let stop = if self.turns.ended() { self.empty(cx) } else { Some(Stop::InputEmpty) };
                match stop {
                    Some(stop) => return stop,
                    None => continue,
                }
            };
            match self.inputs[at].as_mut().and_then(|input| input.next(cx)) {
                Some(record) => self.take(cx, record, outer),
                // A branch that ended in the middle: its task did.
                None if self.inputs[at].as_ref().is_none_or(Input::ended) => {
                    self.current = None;
                    self.output.end(cx, outer);
                }
                None => return Stop::InputEmpty,
            }
        }
        if self.output.is_full() { Stop::OutputFull } else { Stop::QuantumSpent }
    }
}
