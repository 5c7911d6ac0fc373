//! The deterministic parallel composition `A || B`.

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::{NO_BRANCH, emptiest};
use crate::record::Record;
use crate::router::{Choice, Router};
use crate::run::dispatch::{alike, dispatch_all};
use crate::run::input::Input;
use crate::run::ordered::{Turn, Turns};
use crate::run::position::Position;
use crate::shape::ShapeId;

/// The dispatcher of `A || B`.
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

    /// Sends some of the next records, at most `left`, to their branches; returns their number. `Err`: why
    /// none was sent.
    #[inline]
    fn dispatch(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        if !self.turns.flush(cx) {
            return Err(Stop::OutputFull);
        }
        let (records, _) = self.input.upcoming(cx, left);
        let Some(first) = records.first() else {
            return self.input.none_sent();
        };
        let by_demand = self.position.shared.limits.ties_by_demand();
        let mut branch = |record: &Record| match self.router.choose(record) {
            Choice::One(branch) => Some(branch),
            Choice::Tie(tied) if !by_demand => Some(tied[0]),
            Choice::Tie(_) | Choice::None => None,
        };
        if !first.shape().is_reserved()
            && let Some(one) = branch(first)
        {
            let count = alike(records);
            let run = (one, count, count == records.len());
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
        dispatch_all(self, cx, Self::dispatch)
    }
}
