//! The nondeterministic parallel composition `A | B`.

use thalweg_exec::{Context, HandedOn, In, Out, PassesTo, Ports, Progress, Stop, Task};

use super::{NO_BRANCH, emptiest};
use crate::record::Record;
use crate::router::{Choice, Router};
use crate::run::dispatch::{alike, dispatch_all, send_run};
use crate::run::input::Input;
use crate::run::position::Position;

/// The dispatcher of `A | B`: each record goes to the branch that matches it best.
pub(crate) struct ParallelDispatcher {
    position: Position,
    router: Router,
    input: Input,
    branches: Vec<Out<Record>>,
}

impl ParallelDispatcher {
    pub(crate) fn new(
        position: Position,
        router: Router,
        input: In<Record>,
        branches: Vec<Out<Record>>,
    ) -> ParallelDispatcher {
        ParallelDispatcher { position, router, input: Input::new(input), branches }
    }

    /// Sends some of the next records, at most `left`, to their branches; returns their number. `Err`: why
    /// none was sent.
    #[inline]
    fn dispatch(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        let (records, _) = self.input.upcoming(cx, left);
        let Some(first) = records.first() else {
            return self.input.none_sent();
        };
        let (branch, count) = match self.router.choose(first) {
            Choice::One(branch) => (branch, alike(records)),
            Choice::Tie(tied) if self.position.shared.limits.ties_by_demand() => {
                (emptiest(&mut self.branches, cx, tied), 1)
            }
            Choice::Tie(tied) => (tied[0], alike(records)),
            Choice::None => {
                if let Some(record) = self.input.next(cx) {
                    self.position.fail(cx, self.input.message(), record, NO_BRANCH.to_owned());
                }
                return Ok(1);
            }
        };
        let fuses = self.position.shared.limits.fuses();
        send_run(cx, &mut self.input, (count, fuses), &mut self.branches[branch]).map_err(|(stop, _)| stop)
    }
}

impl Task for ParallelDispatcher {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        for branch in &mut self.branches {
            ports.output(branch);
        }
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        dispatch_all(self, cx, Self::dispatch)
    }

    fn passes_to(&mut self, next: HandedOn<'_>) -> Option<PassesTo<'_>> {
        let limits = &self.position.shared.limits;
        let records = next.of::<Record>()?;
        let first = records.first().filter(|first| limits.fuses() && !first.shape().is_reserved())?;
        let branch = match self.router.choose(first) {
            Choice::One(branch) => branch,
            Choice::Tie(tied) if !limits.ties_by_demand() => tied[0],
            Choice::Tie(_) | Choice::None => return None,
        };
        (alike(records) == records.len()).then(|| self.branches[branch].passes_to())
    }

    fn work_on(&mut self, messages: HandedOn<'_>, _: Progress<'_>) -> usize {
        self.input.take_handed(messages)
    }
}
