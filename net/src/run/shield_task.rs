//! The tasks at the two ends of a net with a declared signature.

use std::sync::Arc;

use thalweg_box::Value;
use thalweg_exec::{Context, HandedOn, In, Out, PassesTo, Ports, Progress, Stop, Task};

use super::pipe::{Pipe, Work};
use super::position::Position;
use crate::plan::{PlanCache, Rearrangement, RecordFault};
use crate::record::Record;
use crate::shape::ShapeId;
use crate::shield::Shield;

/// The end of the net that the task handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Entry,
    Exit,
}

/// One end of a shielded net: it renames labels of each record.
pub(crate) struct ShieldTask {
    pipe: Pipe,
    work: Shielding,
}

struct Shielding {
    position: Position,
    shield: Arc<Shield>,
    end: End,
    plans: PlanCache<Result<Rearrangement, RecordFault>>,
}

impl ShieldTask {
    pub(crate) fn new(
        position: Position,
        shield: Arc<Shield>,
        end: End,
        input: In<Record>,
        out: Out<Record>,
    ) -> Self {
        let work = Shielding { position, shield, end, plans: PlanCache::new() };
        ShieldTask { pipe: Pipe::new(input, out), work }
    }
}

impl Shielding {
    fn plan(&mut self, shape: ShapeId) -> Result<&Rearrangement, &RecordFault> {
        let Shielding { shield, end, plans, .. } = self;
        let plan = || match end {
            End::Entry => shield.enter(shape),
            End::Exit => Ok(shield.leave(shape)),
        };
        plans.get(shape, plan).as_ref()
    }
}

impl Work for Shielding {
    fn pass(&mut self, records: &mut [Record], _: Progress<'_>) -> usize {
        let mut passed = 0;
        for record in records {
            if record.shape().is_reserved() {
                break;
            }
            let Ok(plan) = self.plan(record.shape()) else { break };
            plan.apply(record, |_| Value::default());
            passed += 1;
        }
        passed
    }

    fn take(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, mut record: Record) -> bool {
        if record.shape() == ShapeId::MARK {
            pipe.output.send(cx, record);
            return true;
        }
        match self.plan(record.shape()) {
            Ok(plan) => {
                plan.apply(&mut record, |_| Value::default());
                pipe.output.send(cx, record);
            }
            Err(fault) => {
                let reason = fault.to_string();
                self.position.fail_in(cx, pipe, record, reason);
            }
        }
        true
    }

    #[inline]
    fn fuses(&self) -> bool {
        self.position.shared.limits.fuses()
    }
}

impl Task for ShieldTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.pipe.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        self.pipe.run(cx, &mut self.work)
    }

    fn passes_to(&mut self, _: HandedOn<'_>) -> Option<PassesTo<'_>> {
        self.pipe.passes_to(&self.work)
    }

    fn work_on(&mut self, messages: HandedOn<'_>, progress: Progress<'_>) -> usize {
        self.pipe.work_on(&mut self.work, messages, progress)
    }
}
