//! The deterministic split `A !! <t>`.

use thalweg_exec::{Context, In, Out, Ports, Spread, Stop, Task};

use super::Chooser;
use crate::record::{Ends, Record};
use crate::run::around::Around;
use crate::run::component::{ComponentId, SplitChoice};
use crate::run::dispatch::dispatch_all;
use crate::run::input::Input;
use crate::run::ordered::{Turn, Turns};
use crate::run::position::Position;
use crate::run::replicas::{Replicas, Room};
use crate::shape::ShapeId;

/// The dispatcher of `A !! <t>`.
pub(crate) struct OrderedSplit {
    position: Position,
    body: (ComponentId, Around, Spread),
    chooser: Chooser,
    input: Input,
    replicas: Replicas,
    turns: Turns,
}

impl OrderedSplit {
    pub(crate) fn new(
        position: Position,
        body: (ComponentId, Around, Spread),
        choice: SplitChoice,
        folds: bool,
        input: In<Record>,
        turns: Out<Turn>,
    ) -> OrderedSplit {
        let (input, turns) = (Input::new(input), Turns::new(turns, Vec::new()));
        OrderedSplit {
            position,
            body,
            chooser: Chooser::new(choice),
            input,
            replicas: Replicas::new(folds),
            turns,
        }
    }

    /// Sends some of the next records, at most `left`, to their replicas; returns their number. `Err`: why
    /// none was sent.
    fn dispatch(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        if !self.turns.flush(cx) {
            return Err(Stop::OutputFull);
        }
        let (records, _) = self.input.upcoming(cx, left);
        let Some(first) = records.first() else {
            return self.input.none_sent();
        };
        if self.chooser.choice.to.is_none()
            && let Some(value) = self.chooser.value(first)
            && let Some(replica) = self.replicas.place(value)
        {
            let count = self.chooser.alike_in(records, value);
            let run = (replica, count, count == records.len());
            let branch = |record: &Record| self.replicas.place(self.chooser.value(record)?);
            match self.turns.send_some(cx, &mut self.input, left, run, branch)? {
                0 => {}
                sent => return Ok(sent),
            }
        }
        if let Some(record) = self.input.next(cx) {
            self.dispatch_one(cx, record);
        }
        Ok(1)
    }

    fn dispatch_one(&mut self, cx: &mut Context<'_>, record: Record) {
        let outer = record.ends();
        if record.shape() == ShapeId::MARK {
            return self.turns.end(cx, outer);
        }
        match self.chooser.values(&record, &self.replicas) {
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
        let (out, output) = self.chooser.choice.replica(&self.position, cx, &self.body, value);
        // A record for a replica must not wait while the replica's place is given to another one.
        let kept = if !self.turns.waits() { self.position.shared.limits.replicas() } else { usize::MAX };
        let replica = match self.replicas.insert(value, kept) {
            Room::Next => {
                self.turns.branches.push(out);
                self.turns.branches.len() - 1
            }
            // The new replica's first turn comes after all turns so far, so by then the collector has read
            // all output of the former replica.
            Room::Instead(place, _) => {
                self.turns.branches[place] = out;
                place
            }
        };
        self.turns.turn(cx, Turn::Input(replica, output), None);
        replica
    }
}

impl Task for OrderedSplit {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        self.turns.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        dispatch_all(self, cx, Self::dispatch)
    }
}
