//! The two ends of a net with a declared signature, as tasks.

use std::sync::Arc;

use thalweg_box::Value;
use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::failure::Position;
use super::input::Input;
use super::output::Output;
use crate::plan::{PlanCache, Rearrangement, RecordFault};
use crate::record::Record;
use crate::shape::ShapeId;
use crate::shield::Shield;

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Entry,
    Exit,
}

/// One end of a shielded net: record in, the same record under other labels out.
pub(crate) struct ShieldTask {
    position: Position,
    shield: Arc<Shield>,
    end: End,
    plans: PlanCache<Result<Rearrangement, RecordFault>>,
    input: Input,
    output: Output,
}

impl ShieldTask {
    pub(crate) fn new(
        position: Position,
        shield: Arc<Shield>,
        end: End,
        input: In<Record>,
        out: Out<Record>,
    ) -> Self {
        let (plans, input, output) = (PlanCache::new(), Input::new(input), Output::new(out));
        ShieldTask { position, shield, end, plans, input, output }
    }
}

impl Task for ShieldTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        self.output.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.output.flush(cx) {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            let Some(record) = self.input.next(cx) else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            let (shape, shield, end) = (record.shape(), &self.shield, self.end);
            if shape == ShapeId::MARK {
                if !self.output.send(cx, record) {
                    return Stop::OutputFull;
                }
                continue;
            }
            let plan = self.plans.get(shape, || match end {
                End::Entry => shield.enter(shape),
                End::Exit => Ok(shield.leave(shape)),
            });
            match plan {
                Ok(plan) => {
                    self.output.send(cx, plan.reuse(record, |_| Value::default()));
                }
                Err(fault) => {
                    let (ends, reason) = (record.ends(), fault.to_string());
                    self.position.fail(cx, self.input.message(), record, reason);
                    self.output.end(cx, ends);
                }
            }
            if self.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}
